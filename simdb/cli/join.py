"""The command that prints the pairs between two collections."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from simdb.cli.inputs import require_no_input
from simdb.cli.options import (
    ApartPairs,
    Budget,
    Carrying,
    Explain,
    Question,
    Where,
    filter_from,
    tell_unmet,
)
from simdb.cli.output import Answering
from simdb.cli.pairs import Resume, show_pairs
from simdb.cli.stores import Store


def join(
    *,
    store: Store,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A collection of the store.")],
    right: Annotated[
        str, typer.Argument(metavar="RIGHT", help="Another collection, of the same kind.")
    ],
    right_store: Annotated[
        str | None,
        typer.Option("--right-store", metavar="STORE", help="The store of RIGHT, if not STORE."),
    ] = None,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            rich_help_panel=Question.HEADING,
            metavar="jaccard|dice|cosine|stored-in-probe|probe-in-stored|overlap",
            help="The measure of similarity; the items of LEFT are the probes.",
        ),
    ] = "jaccard",
    one_to_one: Annotated[
        bool,
        typer.Option(
            "--one-to-one",
            help="Put each item in at most one pair, with the largest sum of similarities. "
            "Needs the extra 'statistics'.",
        ),
    ] = False,
    apart: ApartPairs,
    since: Annotated[
        int | None,
        typer.Option(
            "--since",
            rich_help_panel=Where.HEADING,
            metavar="N",
            min=0,
            help="Only pairs with an item added to LEFT since N, which 'simdb add --json' printed.",
        ),
    ] = None,
    right_since: Annotated[
        int | None,
        typer.Option(
            "--right-since",
            rich_help_panel=Where.HEADING,
            metavar="N",
            help="The same for RIGHT; with both options, either new item is enough.",
        ),
    ] = None,
    among: Carrying,
    right_where: Annotated[
        list[str] | None,
        typer.Option(
            "--right-where",
            rich_help_panel=Where.HEADING,
            metavar="NAME=VALUE",
            help="Like --where, for the items of RIGHT.",
        ),
    ] = None,
    resume: Resume = None,
    budget: Budget = None,
    explain: Explain = False,
    telling: Answering,
) -> None:
    """Print the similar pairs between two collections.

    For texts, sets and bags no pair is missing, unless they may not fit into the memory: explain
    shows it. One pair per line, separated by tabs: similarity or distance, the item of LEFT, the
    item of RIGHT, and with --since or --right-since which of them is new. With --json, one object
    per line: left, right, similarity or distance, and sides, left_metadata and right_metadata on
    request. If an exact answer is interrupted or fails, a token for --resume is printed on standard
    error.

    Example: simdb join shops.simdb ours theirs --threshold 0.7 --one-to-one
    """
    apart.require(one_to_one=one_to_one)
    require_no_input([telling.output], apart.files())
    others = Store(store.context, right_store or store.path)
    with store.view(left) as source, others.view(right) as other, telling.bar() as bar:
        asked = {
            **question.of(other.kind),
            **among.given(),
            "other_where": filter_from("--right-where", right_where),
        }
        found = source.join(
            other,
            measure=measure,
            one_to_one=one_to_one,
            apart=apart.pairs(),
            since=since,
            other_since=right_since,
            resume=resume,
            budget=budget,
            **asked,
        )
        within = question.of_reasons(measure, telling.note) if explain else {}
        why = partial(source.explain_pair, other=other, **within) if explain else None
        show_pairs(found, other.kind, telling, bar, of_join=True, why=why)
    tell_unmet(asked, telling.note)

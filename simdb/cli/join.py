"""The command that prints the pairs of two collections."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from simdb.cli.options import Apart, Budget, Carrying, Explain, Question, filter_from
from simdb.cli.output import Answering
from simdb.cli.pairs import Resume, show_pairs
from simdb.cli.stores import Store


def join(
    *,
    store: Store,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A collection in the store.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Another, of the same kind.")],
    right_store: Annotated[
        str | None,
        typer.Option("--right-store", metavar="STORE", help="Where RIGHT is, if not in STORE."),
    ] = None,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            metavar="jaccard|dice|cosine|stored-in-probe|probe-in-stored|overlap",
            help="Of similarity, LEFT's items being probes.",
        ),
    ] = "jaccard",
    one_to_one: Annotated[
        bool,
        typer.Option(
            "--one-to-one",
            help="Each item in one pair at most: of all such choices the most similar pairs.",
        ),
    ] = False,
    apart: Apart,
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="N", help="Only pairs of items that LEFT has since then."),
    ] = None,
    right_since: Annotated[
        int | None,
        typer.Option("--right-since", metavar="N", help="The same of RIGHT; with both, either."),
    ] = None,
    among: Carrying,
    right_where: Annotated[
        list[str] | None,
        typer.Option(
            "--right-where", metavar="NAME=VALUE", help="As --where, which is about LEFT's items."
        ),
    ] = None,
    resume: Resume = None,
    budget: Budget = None,
    explain: Explain = False,
    telling: Answering,
) -> None:
    """Print all pairs of an item of one collection and a similar one of another.

    Of texts, sets and bags none is missing. One a line, separated by tabs: similarity or distance,
    the item of LEFT, the item of RIGHT; with --since or --right-since also which of them is new.
    With --json one object a line: left, right, similarity or distance, and, where they are asked
    for, sides, left_metadata and right_metadata. If an exact answer is interrupted or fails, the
    token to go on with, by --resume, is printed on standard error.
    """
    others = Store(store.context, right_store or store.path)
    with store.view(left) as source, others.view(right) as other, telling.bar() as bar:
        asked = {**question.of(other.kind), **among.given()}
        found = source.join(
            other,
            measure=measure,
            one_to_one=one_to_one,
            apart=apart.pairs(),
            since=since,
            other_since=right_since,
            other_where=filter_from("--right-where", right_where),
            resume=resume,
            budget=budget,
            **asked,
        )
        why = partial(source.explain_pair, other=other) if explain else None
        show_pairs(found, other.kind, telling, bar, of_join=True, why=why)

"""The command that shows how a question would be answered, and what it costs."""

from __future__ import annotations

from math import isnan
from typing import Annotated, Any, Literal

import typer
from msgspec import to_builtins

from simdb.cli.options import IntegerKeys, Question, key_from
from simdb.cli.output import Telling, counted, print_json, print_table
from simdb.cli.stores import OneOrTwo
from simdb.errors import UsageError
from simdb.results import Explanation


def explain(
    *,
    stored: OneOrTwo,
    verb: Annotated[
        Literal["search", "pairs", "groups", "join"],
        typer.Argument(metavar="search|pairs|groups|join", help="The command to explain."),
    ],
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            rich_help_panel=Question.HEADING,
            metavar="NAME",
            help="The measure of similarity, as for the command.",
        ),
    ] = "jaccard",
    key: Annotated[
        str | None,
        typer.Option("--key", help="A stored item to search for; it is one of its own matches."),
    ] = None,
    integer_keys: IntegerKeys = False,
    run: Annotated[
        bool, typer.Option("--run", help="Also run it, and print the true counts.")
    ] = False,
    telling: Telling,
) -> None:
    """Show how a question would be answered, and what it costs.

    The first line of the table is the method that would answer; the others are alternatives. The
    number of items or pairs examined is estimated from counts in the store, and the seconds from
    rates measured on some items.

    Example: simdb explain corpus.simdb documents pairs --threshold 0.9
    """
    if key is not None and verb != "search":
        raise UsageError(f"--key is what a search is for, not {verb}")
    if run and verb == "search" and key is None:
        raise UsageError("--run needs something to search for: give --key")
    with stored.both() as (source, partner):
        if (verb == "join") != (partner is not None):
            raise UsageError("--right NAME is needed for a join, and only for a join")
        item = None if key is None else source.get(key_from(key, integer_keys=integer_keys)).item
        asked = question.of(source.kind if partner is None else partner.kind)
        told = source.explain(verb, item, other=partner, measure=measure, run=run, **asked)
    if telling.as_json:
        print_json(_plain(told))
    else:
        _print(told)


def _plain(told: Explanation) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(told)
    for alternative in plain["alternatives"]:
        if isnan(alternative["expected_recall"]):
            alternative["expected_recall"] = None
    return plain


def _print(told: Explanation) -> None:
    print(f"{told.verb} among {counted(told.items, 'item', 'items')}")
    print_table(
        ("method", "guarantee", "looks at about ", "seconds "),
        [
            (one.method, one.guarantee, f"{one.looked_at:,.0f}", f"{one.seconds:.2g}")
            for one in told.alternatives
        ],
    )
    for guarantee, why in told.refused.items():
        print(f"{guarantee} is refused: {why}")
    if told.work is not None:
        work = ", ".join(f"{name} {count:,}" for name, count in told.work.items() if count)
        found = counted(told.answers or 0, "answer", "answers")
        print(f"ran in {told.seconds:.2g} s of processor time: {found}; {work}")

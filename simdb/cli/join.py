"""The command that prints the pairs of two collections."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.options import AsJson, Bound, Budget, Question, Quiet, StorePath
from simdb.cli.pairs import Resume, print_pairs, tell_pairs
from simdb.cli.stores import viewed_collection


def join(
    context: typer.Context,
    *,
    store: StorePath,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A collection in the store.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Another, of the same kind.")],
    right_store: Annotated[
        str | None,
        typer.Option("--right-store", metavar="STORE", help="Where RIGHT is, if not in STORE."),
    ] = None,
    bound: Bound,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            metavar="jaccard|dice|cosine|stored-in-probe|probe-in-stored",
            help="Of similarity, LEFT's items being probes; all but jaccard need an exact index.",
        ),
    ] = "jaccard",
    resume: Resume = None,
    budget: Budget = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print all pairs of an item of one collection and a similar one of another.

    Of texts, sets and bags none is missing. One a line, separated by tabs: similarity or distance,
    the item of LEFT, the item of RIGHT. With --json one object a line: left, right, and similarity
    or distance. If an exact answer is interrupted or fails, the token to go on with, by --resume,
    is printed on standard error.
    """
    with (
        viewed_collection(context, store, left) as source,
        viewed_collection(context, right_store or store, right) as other,
    ):
        found = source.join(
            other,
            measure=measure,
            resume=resume,
            budget=budget,
            **question.asked(),
            **bound.of(other.kind),
        )
        count = print_pairs(found, as_json=as_json)
        of_distance = other.kind.is_distance
    tell_pairs(found, count, of_distance=of_distance, quiet=quiet, of_join=True)

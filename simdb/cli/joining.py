"""The commands that ask for pairs: pairs join."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from simdb.cli.options import (
    AsJson,
    CollectionName,
    Exact,
    GuaranteeText,
    MinRecall,
    StorePath,
    ThresholdText,
    guarantee_of,
    rational,
    settings_of,
)
from simdb.cli.output import counted, note, print_json_line, print_line, promise, shown_key
from simdb.cli.stores import opened_collection, viewed_collection

if TYPE_CHECKING:
    from simdb.results import Pairs


def pairs(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    threshold: ThresholdText = None,
    guarantee: GuaranteeText = "auto",
    exact: Exact = False,
    min_recall: MinRecall = None,
    as_json: AsJson = False,
) -> None:
    """Print all pairs of similar items.

    One a line, separated by tabs: similarity, the earlier inserted item, the later. With --json
    one object a line: left, right, similarity.
    """
    asked = guarantee_of(guarantee, exact=exact)
    with opened_collection(context, store, collection, read_only=True) as source:
        found = source.pairs(rational(threshold), guarantee=asked, min_recall=min_recall)
        count = _print_pairs(found, as_json=as_json)
    _tell(context, found, count, as_json=as_json)


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
    threshold: ThresholdText = None,
    as_json: AsJson = False,
) -> None:
    """Print all pairs of an item of one collection and a similar one of another.

    None is missing. One a line, separated by tabs: similarity, the item of LEFT, the item of
    RIGHT. With --json one object a line: left, right, similarity.
    """
    with contextlib.ExitStack() as opened:
        source = opened.enter_context(viewed_collection(context, store, left))
        other = opened.enter_context(viewed_collection(context, right_store or store, right))
        found = source.join(other, rational(threshold))
        count = _print_pairs(found, as_json=as_json)
    _tell(context, found, count, as_json=as_json)


def _print_pairs(found: Pairs, *, as_json: bool) -> int:
    """Print pairs as they are found; return how many."""
    count = 0
    for pair in found:
        count += 1
        if as_json:
            similarity = float(pair.similarity)
            print_json_line({"left": pair.left, "right": pair.right, "similarity": similarity})
        else:
            print_line(f"{pair.similarity:.6f}\t{shown_key(pair.left)}\t{shown_key(pair.right)}")
    sys.stdout.flush()
    return count


def _tell(context: typer.Context, found: Pairs, count: int, *, as_json: bool) -> None:
    note(
        f"{counted(count, 'pair', 'pairs')}; {promise(found.guarantee, found.expected_recall)}",
        quiet=as_json or settings_of(context).quiet,
    )

"""The command that compares pairs that come from elsewhere."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from simdb.cli.options import IntegerKeys, pairs_of_keys
from simdb.cli.output import Answering
from simdb.cli.pairs import show_pairs
from simdb.cli.stores import Store, StoredCollection


def score(
    *,
    stored: StoredCollection,
    pairs: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="A file of pairs of keys: two a line with a tab between them, or in a .jsonl file "
            "objects with left and right.",
        ),
    ],
    right: Annotated[
        str | None,
        typer.Option(
            "--right", metavar="COLLECTION", help="Of the right keys, where that is another one."
        ),
    ] = None,
    right_store: Annotated[
        str | None,
        typer.Option("--right-store", metavar="STORE", help="Where that is, if not in STORE."),
    ] = None,
    integer_keys: IntegerKeys = False,
    telling: Answering,
) -> None:
    """Compare pairs of stored items that another program proposes.

    One a line, in their order and however similar, separated by tabs: similarity or distance, the
    left item, the right item. With --json one object a line: left, right, and similarity or
    distance.
    """
    handed = pairs_of_keys(pairs, integer_keys=integer_keys)
    with ExitStack() as held:
        source = held.enter_context(stored.viewed())
        other = None
        if right is not None or right_store is not None:
            others = Store(stored.context, right_store or stored.path)
            other = held.enter_context(others.view(right or stored.name))
        bar = held.enter_context(telling.bar())
        show_pairs(source.score(handed, other), source.kind, telling, bar)

"""The command that compares pairs that come from elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.options import IntegerKeys, pairs_of_keys
from simdb.cli.output import Answering
from simdb.cli.pairs import show_pairs
from simdb.cli.stores import OneOrTwo


def score(
    *,
    stored: OneOrTwo,
    pairs: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="A file of pairs of keys: two a line with a tab between them, or in a .jsonl file "
            "objects with left and right.",
        ),
    ],
    integer_keys: IntegerKeys = False,
    telling: Answering,
) -> None:
    """Compare pairs of stored items that another program proposes.

    One a line, in their order and however similar, separated by tabs: similarity or distance, the
    left item, the right item. With --json one object a line: left, right, and similarity or
    distance.
    """
    handed = pairs_of_keys(pairs, integer_keys=integer_keys)
    with stored.both() as (source, other), telling.bar() as bar:
        show_pairs(source.score(handed, other), source.kind, telling, bar)

"""The command that compares given pairs."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.inputs import require_no_input
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
            help="A file of pairs of keys: two per line separated by a tab, or .jsonl objects "
            "with left and right.",
        ),
    ],
    integer_keys: IntegerKeys = False,
    telling: Answering,
) -> None:
    """Compare given pairs of stored items.

    One pair per line, in the order of the file and however similar, separated by tabs: similarity
    or distance, the left item, the right item. With --json, one object per line: left, right, and
    similarity or distance.

    Example: simdb score corpus.simdb documents candidates.tsv
    """
    require_no_input([telling.output], [pairs])
    handed = pairs_of_keys(pairs, integer_keys=integer_keys)
    with stored.both() as (source, other), telling.bar() as bar:
        show_pairs(source.score(handed, other), source.kind, telling, bar)

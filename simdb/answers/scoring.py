"""Pairs from elsewhere, compared as pairs that an index proposes are: in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from simdb import arrow
from simdb.answers.compare import compare_batch_with_stored
from simdb.answers.method import AnsweredBatch, lookups, number_of, outer_pairs
from simdb.arguments import several, short
from simdb.errors import ConfigurationError, WrongTypeError
from simdb.opened.opened import Opened
from simdb.results import Key, Pair, PairBatch
from simdb.storage.collection.reader import read_items

SCORED_AT_ONCE = 8_192  # pairs


def read_pairs(given: Any) -> list[tuple[Key, Key]]:
    """Return pairs of keys, given one by one or as a table with columns ``left`` and ``right``.

    WrongTypeError: something is no pair. ConfigurationError: the table has no such columns.
    """
    if arrow.is_table(given):
        whole = arrow.read(given)
        if not {"left", "right"}.issubset(whole.column_names):
            raise ConfigurationError(
                "pairs need the columns left and right, but the columns are "
                f"{', '.join(whole.column_names)}"
            )
        columns = (whole[name].to_pylist() for name in ("left", "right"))
        return list(zip(*columns, strict=True))
    pairs = []
    for one in several("pairs", given, "two keys each"):
        pair = one.tolist() if isinstance(one, np.ndarray) else one
        if isinstance(one, Pair):
            pair = (one.left, one.right)
        if isinstance(pair, str | bytes) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise WrongTypeError(f"a pair must be two keys, left and right, not {short(one)}")
        pairs.append((pair[0], pair[1]))
    return pairs


def scored(
    left: Opened, right: Opened, pairs: Sequence[tuple[Key, Key]]
) -> Iterator[AnsweredBatch]:
    """Compare stored items of two collections, or of one, by pairs of their keys, in their order.

    KeyNotFoundError: a key is not stored.
    """
    kind = right.settings.kind
    known = lookups(left, right)
    for begin in range(0, len(pairs), SCORED_AT_ONCE):
        part = pairs[begin : begin + SCORED_AT_ONCE]
        ones, others = (
            np.array([number_of(side, pair[place]) for pair in part], np.uint32)
            for place, side in enumerate((left, right))
        )
        distinct, rows = np.unique(ones, return_inverse=True)
        _, items = read_items(left.reader, distinct)
        compared = compare_batch_with_stored(right, items, rows, others)
        right.work.compared += len(part)
        batch = PairBatch.of(ones, others, compared.values(), is_distance=kind.is_distance)
        yield outer_pairs(kind, batch), known, None

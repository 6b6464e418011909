"""Many sets of integers brought to their stored form together, as one array.

What it costs to handle a set in Python is more than what its elements cost, if they are few.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from simdb.items.elements import INTEGERS, PLAIN_COLLECTIONS, UNSIGNED, distinct
from simdb.items.text import MAXIMUM_ITEM_BYTES

_WIDEST = 8
_MOST_ELEMENTS = (MAXIMUM_ITEM_BYTES - 1) // _WIDEST  # which fit however wide they are

Integers = npt.NDArray[np.int64]


def stored_integer_sets(items: Sequence[object]) -> list[bytes] | None:
    """Return the stored forms of sets, the same as ``SetItems.encode`` one by one.

    Returns:
        None unless all of them are lists, tuples or sets, all their elements Python's own integers
        of 64 bits, and none has so many that it could be refused: then it changes nothing.
    """
    if not set(map(type, items)).issubset(PLAIN_COLLECTIONS):
        return None
    sets = cast("Sequence[Sequence[Any]]", items)
    counts = np.fromiter(map(len, sets), np.int64, len(sets))
    if not counts.any() or counts.max() > _MOST_ELEMENTS:
        return None
    elements = list(chain.from_iterable(sets))
    if set(map(type, elements)) != {int}:
        return None
    try:
        packed = struct.pack(f"={len(elements)}q", *elements)  # np.fromiter takes twice as long
    except struct.error:
        return None
    values, ends = _in_order(np.frombuffer(packed, np.int64), counts)
    return _stored(values, ends)


def _in_order(values: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Sort the elements of every set and drop repeats; return them and where each set ends."""
    ends = np.cumsum(counts)
    begins = np.zeros(values.size + 1, np.bool_)
    begins[0] = True
    begins[ends] = True
    begins = begins[:-1]
    rising = begins.copy()
    rising[1:] |= values[1:] > values[:-1]
    if rising.all():
        return values, ends
    owners = np.repeat(np.arange(counts.size), counts)
    values = values[np.lexsort((values, owners))]
    kept = distinct(values) | begins
    return values[kept], np.append(0, np.cumsum(kept))[ends]


def _stored(values: Integers, ends: Integers) -> list[bytes]:
    """Return the stored forms of sets of sorted elements, the first byte of which is the width."""
    starts = np.append(0, ends[:-1])
    widths = np.full(ends.size, _WIDEST)
    filled = ends > starts
    lows, highs = values[starts[filled]], values[ends[filled] - 1]
    for width in sorted(UNSIGNED, reverse=True):
        widths[np.flatnonzero(filled)[(lows >= 0) & (highs < 1 << 8 * width)]] = width
    heads, forms = {}, {}
    for width in np.unique(widths).tolist():
        heads[width] = bytes([width])
        forms[width] = values.astype(INTEGERS[width]).tobytes()
    return [
        heads[width] + forms[width][start * width : end * width] if start < end else b""
        for width, start, end in zip(widths.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]

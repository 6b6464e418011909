"""Candidates of one probe set among the postings of its prefix symbols (MMDS 3.9.4 to 3.9.6)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import kernel
from simdb.kernels.joining import COUNT, LENGTH, POSITION, SUFFIX
from simdb.kernels.ordering import first_slot

Numbers: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = npt.NDArray[np.uint32]


class Hits(NamedTuple):
    """Postings found for the prefix symbols of a probe, in any order within a symbol.

    Attributes:
        offsets: those of the symbol at position i + 1 of the probe are the slice from
            ``offsets[i]`` to ``offsets[i + 1]``; int64.
        items, positions (from 1), suffixes: uint32.
    """

    offsets: Numbers
    items: Column
    positions: Column
    suffixes: Column


class Bounds(NamedTuple):
    """What a stored set must have to be similar to a probe of a given size.

    Attributes:
        smallest: size of the smallest stored set that can be similar.
        needed: needed overlap by stored size, from ``smallest`` on; int64.
        prefixes: how many first symbols of a stored set matter, by the same sizes; int64.
        positions: last position of a stored symbol worth looking at, by the position in the
            probe's prefix, from 1 (the bound of 3.9.5); int64, and empty for none.
        size: symbols of the probe.
        prefix: how many first symbols of the probe were looked up.
    """

    smallest: int
    needed: Numbers
    prefixes: Numbers
    positions: Numbers
    size: int
    prefix: int


@kernel
def probe_candidates(
    hits: Hits, bounds: Bounds, filters: int, shift: np.uint64
) -> tuple[Column, Numbers]:
    """Choose the items that can be similar to the probe, from the postings of its prefix.

    No similar item is missing. The k-th hit of an item is the k-th common symbol of the two sets:
    an earlier one would stand in both prefixes and be a hit. So the overlap is at most k and the
    shorter of the two suffixes, and after the last hit at most the longer of the two rests.

    Args:
        hits: postings, symbol by symbol in the order of the probe.
        bounds: see there.
        filters: LENGTH, SUFFIX or POSITION, and COUNT, added up.
        shift: ``table_shift`` of the number of hits.

    Returns:
        the candidates in order of their first hit, and the number of hits of each.
    """
    mask = (np.int64(1) << np.int64(np.uint64(64) - shift)) - 1
    table = np.full(mask + 1, -1, np.int64)
    items = np.empty(hits.items.size, np.uint32)
    counts = np.zeros(hits.items.size, np.int64)
    reachable = np.zeros(hits.items.size, np.int64)
    found = 0
    for place in range(hits.offsets.size - 1):
        rest = bounds.size - place - 1
        for entry in range(hits.offsets[place], hits.offsets[place + 1]):
            position, suffix = np.int64(hits.positions[entry]), np.int64(hits.suffixes[entry])
            row = position + suffix - bounds.smallest
            within = 0 <= row < bounds.needed.size
            if (filters & LENGTH and not within) or (within and position > bounds.prefixes[row]):
                continue
            item = hits.items[entry]
            slot = first_slot(np.uint64(item), shift)
            while table[slot] >= 0 and items[table[slot]] != item:
                slot = (slot + 1) & mask
            if table[slot] < 0:
                table[slot] = found
                items[found] = item
                found += 1
            candidate = table[slot]
            counts[candidate] += 1
            if filters & POSITION and counts[candidate] == 1 and place < bounds.positions.size:
                reachable[candidate] = min(0, bounds.positions[place] - position)
            if reachable[candidate] < 0 or not within:
                continue
            if filters & SUFFIX and counts[candidate] + min(rest, suffix) < bounds.needed[row]:
                reachable[candidate] = -1
            elif filters & COUNT:
                longer = max(bounds.size - bounds.prefix, position + suffix - bounds.prefixes[row])
                missing = bounds.needed[row] - min(longer, rest, suffix)
                reachable[candidate] = max(0, missing)
    kept = 0
    for candidate in range(found):
        if 0 <= reachable[candidate] <= counts[candidate]:
            items[kept] = items[candidate]
            counts[kept] = counts[candidate]
            kept += 1
    return items[:kept].copy(), counts[:kept].copy()

"""Weighted sets: sketches by darts, sums of minima and maxima, candidates by weighted prefixes.

An item is ``values[offsets[i]:offsets[i+1]]``, distinct symbols, with as many positive weights.

Sums of weights are kept as two floats, the second of what rounding took from the first, so that
they are those of the real numbers but for less than their last bit, whatever the order (Dekker,
Numerische Mathematik 18, 1971).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Float64s, Int64s, UInt16s, UInt64s
from simdb.kernels.compiler import inlined, kernel
from simdb.kernels.hashes import SPREAD, mixed

LOWEST_BAND = -32  # ranks below 2^-32 are of one band
_ONE = np.uint64(1)
_ROW_MASK = np.uint64(0xFFFF)
_PLACE_BITS = np.uint64(24)  # of a dart's hash, for its row; the rest is its rank
_PLACE_MASK = np.uint64((1 << 24) - 1)
_FRACTION = 2.0**-40


@inlined
def _added(sum_: float, rest: float, value: float) -> tuple[float, float]:
    """Add a value to a sum of two floats, the first of which is its rounding."""
    total = sum_ + value
    kept = total - sum_
    return total, rest + ((sum_ - (total - kept)) + (value - kept))


# -- sketches -------------------------------------------------------------------------------------


@kernel
def dart_sketches(
    values: UInt64s, weights: Float64s, offsets: Int64s, rows: int, counts: UInt64s, seeds: UInt64s
) -> UInt16s:
    """Sketch weighted sets, ``rows`` values each, of which two agree as often as they are similar.

    Darts are thrown at random, and evenly, at the plane of weight and rank of every symbol, the
    same ones for all items. An item is hit by those below its weight, and keeps for each row the
    one of least rank among those that fall to the row. That of the union of two items is in their
    intersection with the probability sum of minima / sum of maxima, for every row by itself
    (T. Christiani, DartMinHash, 2020, whose cells are others).

    Band j has the ranks from 2^j to 2^(j + 1), but the lowest, which has those below 2^j; its cells
    have the width 2^-j, and one dart on average, so that all is decided by whole numbers and exact
    fractions: the same on every machine. Bands follow until no row is without a dart.

    Args:
        values, weights, offsets: items; of one without symbols the sketch is zeros.
        rows: values of a sketch.
        counts: of a number drawn evenly from [0, 2^64), below which it stands for at most 0, 1, ...
            darts in a cell, as Poisson's law with mean 1 has it.
        seeds: at least 3 words, and one a band.
    """
    sketches = np.zeros((offsets.size - 1, rows), np.uint16)
    ranks = np.empty(rows, np.float64)
    darts = np.empty(rows, np.uint64)
    for item in range(offsets.size - 1):
        if offsets[item] == offsets[item + 1]:
            continue
        ranks[:] = np.inf
        empty = rows
        band = LOWEST_BAND
        while empty > 0:
            seed = seeds[3 + band - LOWEST_BAND]
            scale = 2.0**band
            low = 0.0 if band == LOWEST_BAND else scale
            for place in range(offsets[item], offsets[item + 1]):
                own = mixed(values[place], seed)
                reach = weights[place] * scale  # in cells; exact
                for cell in range(int(np.ceil(reach))):
                    drawn = mixed(own + np.uint64(cell) * SPREAD, seeds[0])
                    dart = 0
                    while dart < counts.size and drawn >= counts[dart]:
                        dart += 1
                        across = mixed(drawn + np.uint64(dart) * SPREAD, seeds[1])
                        if cell + np.float64(across >> _PLACE_BITS) * _FRACTION >= reach:
                            continue
                        up = mixed(across, seeds[2])
                        rank = low + scale * (np.float64(up >> _PLACE_BITS) * _FRACTION)
                        row = np.int64(((up & _PLACE_MASK) * np.uint64(rows)) >> _PLACE_BITS)
                        if rank < ranks[row] or (rank == ranks[row] and up < darts[row]):
                            empty -= 1 if ranks[row] == np.inf else 0
                            ranks[row], darts[row] = rank, up
            band += 1
        for row in range(rows):
            sketches[item, row] = np.uint16(mixed(darts[row], seeds[1]) & _ROW_MASK)
    return sketches


# -- comparison -----------------------------------------------------------------------------------


@kernel
def compare_pairs(
    values: UInt64s,
    weights: Float64s,
    offsets: Int64s,
    other_values: UInt64s,
    other_weights: Float64s,
    other_offsets: Int64s,
    left: Int64s,
    right: Int64s,
) -> tuple[Float64s, Float64s]:
    """Sum the minima, and the maxima, of the weights of each pair of items with sorted symbols."""
    minima = np.zeros(left.size)
    maxima = np.zeros(left.size)
    for pair in range(left.size):
        one, one_end = offsets[left[pair]], offsets[left[pair] + 1]
        other, other_end = other_offsets[right[pair]], other_offsets[right[pair] + 1]
        least, least_rest, most, most_rest = 0.0, 0.0, 0.0, 0.0
        while one < one_end or other < other_end:
            if other == other_end or (one < one_end and values[one] < other_values[other]):
                weight = weights[one]
                one += 1
            elif one == one_end or values[one] > other_values[other]:
                weight = other_weights[other]
                other += 1
            else:
                weight = max(weights[one], other_weights[other])
                least, least_rest = _added(
                    least, least_rest, min(weights[one], other_weights[other])
                )
                one += 1
                other += 1
            most, most_rest = _added(most, most_rest, weight)
        minima[pair] = least + least_rest
        maxima[pair] = most + most_rest
    return minima, maxima


# -- candidates -----------------------------------------------------------------------------------


class Weighed(NamedTuple):
    """Items whose symbols are ranks in one order, rising within each.

    Attributes:
        ranks: of the symbols of all items.
        weights: of them.
        tails: the weight of an item from each symbol on.
        offsets: where items begin, and the last one ends.
    """

    ranks: Int64s
    weights: Float64s
    tails: Float64s
    offsets: Int64s


class Posted(NamedTuple):
    """Postings: of rank r those from ``starts[r]`` to ``starts[r + 1]``, items ascending."""

    starts: Int64s
    items: Int64s
    places: Int64s  # where in the items the symbol stands


@kernel
def tails(weights: Float64s, offsets: Int64s) -> Float64s:
    """Sum the weights of each item from each place on, in float64."""
    summed = np.empty(weights.size)
    for item in range(offsets.size - 1):
        total = 0.0
        for place in range(offsets[item + 1] - 1, offsets[item] - 1, -1):
            total += weights[place]
            summed[place] = total
    return summed


@kernel
def prefix_ends(summed: Float64s, offsets: Int64s, least: float) -> Int64s:
    """Return where the prefix of each item ends: what follows weighs less than a share of all."""
    ends = np.empty(offsets.size - 1, np.int64)
    for item in range(offsets.size - 1):
        end = offsets[item]
        while end < offsets[item + 1] and summed[end] >= least * summed[offsets[item]]:
            end += 1
        ends[item] = end
    return ends


@kernel
def near_candidates(
    probes: Weighed,
    ends: Int64s,
    posted: Posted,
    others: Weighed,
    least: float,
    is_own: bool,
    most: int,
    state: Int64s,
    seen: Int64s,
    left: Int64s,
    right: Int64s,
) -> int:
    """Find for probes the other items that may be at least so similar, until the room is full.

    Or until so many steps are done, and those of the last bucket, however few are found.

    Args:
        probes: items.
        ends: of their prefixes.
        posted: postings of the others, of their prefixes at least.
        others: items, in the same order of symbols.
        least: the similarity, a little lower than asked for: sums are rounded.
        is_own: both are the same items, of which the pair is taken with the later one as probe.
        most: steps, of postings and of symbols, after which no further pair is begun.
        state: the probe, the place of its symbol and the posting to go on at, zeros at first;
            ``state[0] == ends.size`` when all is done. How many pairs were met is added to the
            last, ``state[3]``.
        seen: of each other item the last probe that met it, -1 at first.
        left, right: room for the probe and the other item of each pair.

    Returns:
        how many pairs were written.
    """
    ranks, weights, summed, offsets = probes
    other_ranks, other_weights, other_summed, other_offsets = others
    starts, items, places = posted
    probe, place, posting = state[0], state[1], state[2]
    found, met, steps = 0, 0, 0
    while probe < ends.size:
        begin, end = offsets[probe], offsets[probe + 1]
        place = max(place, begin)
        while place < ends[probe]:
            rank = ranks[place]
            first = stop = posting
            if rank >= 0:  # else no other item has the symbol
                first = posting = max(posting, starts[rank])
                stop = starts[rank + 1]
            while posting < stop:
                other = items[posting]
                if is_own and other >= probe:
                    break
                if seen[other] == probe:
                    posting += 1
                    continue
                if found == left.size or steps >= most:
                    state[0], state[1], state[2] = probe, place, posting
                    state[3] += met
                    return found
                seen[other] = probe
                met += 1
                one, two, other_end = place, places[posting], other_offsets[other + 1]
                posting += 1
                total, other_total = summed[begin], other_summed[other_offsets[other]]
                if min(total, other_total) < least * max(total, other_total):
                    continue
                needed = least / (1 + least) * (total + other_total)
                steps -= one + two
                shared = 0.0
                while one < end and two < other_end:
                    if shared + min(summed[one], other_summed[two]) < needed:
                        break
                    if ranks[one] < other_ranks[two]:
                        one += 1
                    elif ranks[one] > other_ranks[two]:
                        two += 1
                    else:
                        shared += min(weights[one], other_weights[two])
                        one += 1
                        two += 1
                steps += one + two
                if shared >= needed:
                    left[found], right[found] = probe, other
                    found += 1
            steps += posting - first
            place += 1
            posting = 0
        probe += 1
    state[0], state[1], state[2] = probe, place, posting
    state[3] += met
    return found

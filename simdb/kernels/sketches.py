"""Minhash sketches of symbol sets, their bucket keys, and their comparison (MMDS 3.3, 3.4).

A sketch has ``rows`` minhash values; of each the low 16 bits, mixed under a secret, are kept. Two
different values agree in them with probability 2^-16. A set is ``values[offsets[i]:offsets[i+1]]``
with repeats, which do not matter; an empty set gives zeros.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Bools, Int32s, Int64s, UInt16s, UInt32s, UInt64s
from simdb.kernels.compiler import fetch_ahead, inlined, kernel
from simdb.kernels.hashes import MODULUS, mixed, multiply_add, reduced

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_ROUND_SHIFT = np.uint64(48)
_VALUE_MASK = np.uint64((1 << 48) - 1)
_HALF = np.uint64(32)
_ROW_MASK = np.uint64(0xFFFF)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_THREE = np.uint64(3)
_LOW_HALF = np.uint64((1 << 32) - 1)
_MIDDLE_BITS = np.uint64(29)  # 2^32 * 2^29 = 2^61
_MIDDLE_MASK = np.uint64((1 << 29) - 1)
_MODULUS_BITS = np.uint64(61)
AHEAD = 16  # pairs, whose signatures come from memory meanwhile
LINE_BYTES = 64  # that come from memory at once
_MANY = 16  # distinct symbols a row, of which all but e^-16 of the rows get one at once


@inlined
def _bin_of(hashed: np.uint64, rows: np.uint64) -> np.uint64:
    """Return the bin of a hash: its high half scaled to [0, rows)."""
    return ((hashed >> _HALF) * rows) >> _HALF


@kernel
def _few_distinct(symbols: UInt64s, most: int) -> UInt64s:
    """Return the distinct symbols if they are at most so many, else all as they are."""
    slots = np.uint64(4 * most)
    table = np.full(slots, _EMPTY, np.uint64)
    used = 0
    for symbol in symbols:
        place = _bin_of(symbol, slots)
        while table[place] != _EMPTY and table[place] != symbol:
            place = place + _ONE if place + _ONE < slots else _ZERO
        if table[place] == _EMPTY:
            table[place] = symbol
            used += 1
            if used > most or symbol == _EMPTY:
                return symbols
    distinct: UInt64s = table[table != _EMPTY]
    return distinct


@kernel
def _fill_first(symbols: UInt64s, seeds: UInt64s, bins: UInt64s) -> int:
    """Run the first round, of symbols as the hashes that they are; return how many are filled.

    It and the next take minima without a branch: which bins are empty cannot be foreseen, and so a
    branch would cost more than to write a bin that does not change.
    """
    rows = np.uint64(bins.size)
    bins[:] = _EMPTY
    for symbol in symbols:
        hashed = symbol ^ seeds[0]
        position = _bin_of(hashed, rows)
        bins[position] = min(bins[position], hashed & _VALUE_MASK)
    filled = 0
    for row in range(bins.size):
        filled += 1 if bins[row] != _EMPTY else 0
    return filled


@kernel
def _fill_scattered(symbols: UInt64s, seeds: UInt64s, bins: UInt64s, filled: int) -> int:
    """Run the other rounds that scatter the symbols over the bins; return how many are filled."""
    rows = np.uint64(bins.size)
    for turn in range(1, bins.size):
        if filled == bins.size:
            break
        mark = np.uint64(turn) << _ROUND_SHIFT
        for symbol in symbols:
            hashed = mixed(symbol, seeds[turn])
            position = _bin_of(hashed, rows)
            before = bins[position]
            filled += np.int64(before == _EMPTY)
            bins[position] = min(before, mark | (hashed & _VALUE_MASK))
    return filled


@kernel
def _fill(symbols: UInt64s, seeds: UInt64s, bins: UInt64s) -> None:
    """Give each bin its smallest (round, value) over the symbols, of which there is one at least.

    Dahlgaard, Knudsen and Thorup, Fast Similarity Sketching, FOCS 2017: round r < rows hashes each
    symbol to a bin and a value; round rows + j sends every symbol to bin j. The rounds stop when no
    bin is empty. A bin that an earlier round filled cannot change in a later one.
    """
    rows = bins.size
    filled = _fill_first(symbols, seeds, bins)
    if filled < rows and symbols.size > _MANY * rows:  # nearly all are repeats
        symbols = _few_distinct(symbols, _MANY * rows)
    # Only small sets come here: then each empty bin takes the least of all symbols.
    if _fill_scattered(symbols, seeds, bins, filled) < rows:
        for row in range(rows):
            if bins[row] == _EMPTY:
                smallest = _VALUE_MASK
                for symbol in symbols:
                    hashed = mixed(symbol, seeds[rows + row]) & _VALUE_MASK
                    smallest = min(smallest, hashed)
                bins[row] = (np.uint64(rows + row) << _ROUND_SHIFT) | smallest


@kernel
def fast_sketches(
    values: UInt64s, offsets: Int64s, rows: int, seeds: UInt64s, secret: np.uint64
) -> UInt16s:
    """Sketch many sets, ``rows`` values each, by fast similarity sketching (see ``_fill``).

    ``seeds`` are 2 * rows words, one a round. Symbols must be evenly spread 64-bit hashes, as those
    of all kinds of items are.
    """
    sketches = np.zeros((offsets.size - 1, rows), np.uint16)
    bins = np.empty(rows, np.uint64)
    for item in range(offsets.size - 1):
        symbols = values[offsets[item] : offsets[item + 1]]
        if symbols.size == 0:
            continue
        _fill(symbols, seeds, bins)
        for row in range(rows):
            sketches[item, row] = np.uint16(mixed(bins[row], secret) & _ROW_MASK)
    return sketches


@kernel
def fast_minima(values: UInt64s, offsets: Int64s, rows: int, seeds: UInt64s) -> UInt64s:
    """Return what ``fast_sketches`` keeps 16 bits of, uint64 (n, rows): minima, which merge.

    Of a union of sets, each is the least of those of the sets. All bits are set of an empty one.
    """
    minima = np.full((offsets.size - 1, rows), _EMPTY, np.uint64)
    for item in range(offsets.size - 1):
        symbols = values[offsets[item] : offsets[item + 1]]
        if symbols.size > 0:
            _fill(symbols, seeds, minima[item])
    return minima


@kernel
def classical_minima(
    values: UInt64s, offsets: Int64s, multipliers: UInt64s, addends: UInt64s
) -> UInt64s:
    """Return what ``classical_sketches`` keeps 16 bits of, as ``fast_minima`` does."""
    rows = multipliers.size
    minima = np.full((offsets.size - 1, rows), _EMPTY, np.uint64)
    for item in range(offsets.size - 1):
        for symbol in values[offsets[item] : offsets[item + 1]]:
            residue = reduced(symbol)
            for row in range(rows):
                hashed = _linear_hash(residue, multipliers[row], addends[row])
                minima[item, row] = min(minima[item, row], hashed)
    return minima


@kernel
def sketches_of_minima(minima: UInt64s, secret: np.uint64) -> UInt16s:
    """Return the sketches, uint16 (n, rows), of minima; zeros of an empty set."""
    sketches = np.zeros(minima.shape, np.uint16)
    for item in range(minima.shape[0]):
        for row in range(minima.shape[1]):
            if minima[item, row] != _EMPTY:
                sketches[item, row] = np.uint16(mixed(minima[item, row], secret) & _ROW_MASK)
    return sketches


@inlined
def _linear_hash(residue: np.uint64, multiplier: np.uint64, addend: np.uint64) -> np.uint64:
    """Return (multiplier * residue + addend) mod 2^61 - 1, all operands already below that.

    Products of 32-bit halves, which vector units have, in place of one 128-bit product:
    2^64 = 8 and 2^61 = 1 modulo the prime, so the sum of the parts stays below 2^63 + 2^34.
    """
    low, high = residue & _LOW_HALF, residue >> _HALF
    multiplier_low, multiplier_high = multiplier & _LOW_HALF, multiplier >> _HALF
    lowest = multiplier_low * low
    middle = multiplier_high * low + multiplier_low * high
    return reduced(
        ((multiplier_high * high) << _THREE)
        + (middle >> _MIDDLE_BITS)
        + ((middle & _MIDDLE_MASK) << _HALF)
        + (lowest & MODULUS)
        + (lowest >> _MODULUS_BITS)
        + addend
    )


@kernel
def classical_sketches(
    values: UInt64s, offsets: Int64s, multipliers: UInt64s, addends: UInt64s, secret: np.uint64
) -> UInt16s:
    """Return minhash sketches, uint16 (n, rows), with one hash function a row (MMDS 3.3.5).

    Row j is the minimum of (multipliers[j] x + addends[j]) mod 2^61 - 1 over the symbols x.
    """
    rows = multipliers.size
    sketches = np.zeros((offsets.size - 1, rows), np.uint16)
    longest = 0
    for item in range(offsets.size - 1):
        longest = max(longest, offsets[item + 1] - offsets[item])
    residues = np.empty(longest, np.uint64)
    for item in range(offsets.size - 1):
        symbols = values[offsets[item] : offsets[item + 1]]
        if symbols.size == 0:
            continue
        # Once for all rows, and in a loop of its own, which vector units take.
        for position in range(symbols.size):
            residues[position] = reduced(symbols[position])
        for row in range(rows):
            smallest = MODULUS
            for position in range(symbols.size):
                hashed = _linear_hash(residues[position], multipliers[row], addends[row])
                smallest = min(smallest, hashed)
            sketches[item, row] = np.uint16(mixed(smallest, secret) & _ROW_MASK)
    return sketches


@kernel
def bucket_keys(signatures: UInt16s, bands: int, base: np.uint64, secret: np.uint64) -> UInt64s:
    """Return the bucket keys, uint64 (n, bands), of signatures of bands * rows values (MMDS 3.4.1).

    A key is a function of the band's number and its rows: equal for items whose rows of that band
    are equal, else equal with probability at most (rows + 1) / 2^58.
    """
    rows = signatures.shape[1] // bands
    keys = np.empty((signatures.shape[0], bands), np.uint64)
    for item in range(signatures.shape[0]):
        for band in range(bands):
            state = np.uint64(band) + _ONE
            for row in range(band * rows, (band + 1) * rows):
                state = multiply_add(state, base, np.uint64(signatures[item, row]) + _ONE)
            keys[item, band] = mixed(reduced(state), secret)
    return keys


@inlined
def equal_words(left: UInt16s, right: UInt16s) -> int:
    """Count in how many rows two signatures, of fewer than 2^16, agree.

    The count is as wide as a row, so that one instruction compares and counts many.
    """
    equal = np.uint16(0)
    for row in range(left.size):
        equal = np.uint16(equal + np.uint16(left[row] == right[row]))
    return int(equal)


@kernel
def agreeing_rows(
    left: UInt16s, left_rows: Int64s, right: UInt16s, right_rows: Int64s, needed: int
) -> Bools:
    """Tell which signatures left[left_rows[i]] and right[right_rows[i]] agree in enough words."""
    enough = np.empty(left_rows.size, np.bool_)
    address, width = right.ctypes.data, right.shape[1] * right.itemsize
    for pair in range(left_rows.size):
        if pair + AHEAD < right_rows.size:  # they lie anywhere, and memory answers late
            soon = address + right_rows[pair + AHEAD] * width
            for line in range(0, width, LINE_BYTES):
                fetch_ahead(soon + line)
        enough[pair] = equal_words(left[left_rows[pair]], right[right_rows[pair]]) >= needed
    return enough


@kernel
def agreeing_hits(
    queries: UInt32s,
    items: UInt32s,
    rows: UInt32s,
    least: int,
    owners: Int64s,
    horizon: Int64s,
    left: UInt16s,
    right: UInt16s,
    present: Bools,
    needed: int,
) -> Bools:
    """Tell which hits of queries agree with the probe of the query in enough words.

    Args:
        queries, items, rows: of each hit; its signature is ``right[rows[i] - least]``.
        owners: the probe of each query; its signature is ``left[owners[queries[i]]]``.
        horizon: of each probe, the last item that counts.
        present: whether there is a signature.
    """
    near = np.zeros(queries.size, np.bool_)
    address, width = right.ctypes.data, right.shape[1] * right.itemsize
    for hit in range(queries.size):
        if hit + AHEAD < rows.size:  # they lie anywhere, and memory answers late
            soon = address + (np.int64(rows[hit + AHEAD]) - least) * width
            for line in range(0, width, LINE_BYTES):
                fetch_ahead(soon + line)
        probe, row = owners[queries[hit]], np.int64(rows[hit]) - least
        if items[hit] <= horizon[probe] and present[row]:
            near[hit] = equal_words(left[probe], right[row]) >= needed
    return near


@kernel
def matching_rows(left: UInt16s, right: UInt16s) -> Int32s:
    """Count in how many rows signature left[i] agrees with right[i], both uint16 (m, rows)."""
    matching = np.empty(left.shape[0], np.int32)
    for pair in range(left.shape[0]):
        matching[pair] = equal_words(left[pair], right[pair])
    return matching

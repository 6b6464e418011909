"""Sorted runs: merging them and probing them.

A run is a sorted multimap from 64-bit keys to rows of uint32 columns, cut into chunks. A chunk
is known by two addresses: of its keys, and of its columns, which lie one behind the other
(column c of a chunk of n entries begins 4 * c * n bytes after the first). Rows with equal keys
are ordered by column 0, and by run where that is equal too.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Bools, Float64s, Int64s, UInt8s, UInt32s, UInt64s
from simdb.kernels.compiler import (
    fetch_ahead,
    inlined,
    kernel,
    kernel_of,
    load_uint32,
    load_uint64,
)

AHEAD = 48  # keys, whose words of a filter come from memory meanwhile
BLOCK = 32  # keys that are looked for at once, so that what they need comes from memory meanwhile
DENSE = 8  # entries of a run a key that is looked for: each is found soon after the last one
LINE = 8  # keys that come from memory at once
LARGEST = np.uint64(2**64 - 1)


@inlined
def is_marked(marks: UInt8s, number: int) -> bool:
    """Whether the bit of an item number is set; numbers past the end are not."""
    byte = number >> 3
    return byte < marks.size and (marks[byte] >> np.uint8(number & 7)) & np.uint8(1) != 0


@kernel
def merge(
    key_addresses: Int64s,
    column_addresses: Int64s,
    counts: Int64s,
    positions: Int64s,
    last_chunks: UInt8s,
    column_count: int,
    item_column: int,
    marks: UInt8s,
    keys: UInt64s,
    columns: UInt32s,
    filled: int,
) -> int:
    """Merge the heads of several runs into ``keys`` and ``columns``; return the rows there now.

    Stops when the output is full, or when an input is at the end of a chunk that is not the
    last of its run, so that the caller can bring the next one. Rows of marked items are dropped.

    Args:
        key_addresses, column_addresses, counts: the present chunk of each input, older runs first.
        positions: entries of the present chunk already consumed; moved forward.
        last_chunks: 1 where the present chunk is the last of its run.
        column_count: columns of a row.
        item_column: the column that holds the item number.
        marks: bitmap of the items whose rows are dropped.
        keys, columns: the output, ``columns`` of shape (column_count, capacity).
        filled: rows already in the output.
    """
    inputs = counts.size
    head_keys = np.empty(inputs, np.uint64)
    head_order = np.empty(inputs, np.uint32)
    for run in range(inputs):
        if positions[run] < counts[run]:
            head_keys[run] = load_uint64(key_addresses[run], positions[run])
            head_order[run] = load_uint32(column_addresses[run], positions[run])
        elif last_chunks[run] == 0:
            return filled
    capacity = keys.size
    # Inputs are few, at most the fan-in of a merge: comparing all heads beats a heap. They are kept
    # in arrays of their own, so that a step reads the map only where it moves.
    while filled < capacity:
        best = -1
        # Strictly less, so that of heads that are equal in both the older run's comes first.
        for run in range(inputs):
            if positions[run] < counts[run] and (
                best < 0
                or head_keys[run] < head_keys[best]
                or (head_keys[run] == head_keys[best] and head_order[run] < head_order[best])
            ):
                best = run
        if best < 0:
            return filled
        position = positions[best]
        count = counts[best]
        item = load_uint32(column_addresses[best], item_column * count + position)
        if not is_marked(marks, np.int64(item)):
            keys[filled] = head_keys[best]
            for column in range(column_count):
                columns[column, filled] = load_uint32(
                    column_addresses[best], column * count + position
                )
            filled += 1
        position += 1
        positions[best] = position
        if position < count:
            head_keys[best] = load_uint64(key_addresses[best], position)
            head_order[best] = load_uint32(column_addresses[best], position)
        elif last_chunks[best] == 0:
            return filled
    return filled


@inlined
def _beginning_of(fences: UInt64s, begin: int, end: int, key: np.uint64) -> int:
    """Return the last chunk in [begin, end) whose first key is less than ``key``, or ``begin``.

    There its rows begin: equal keys may come before the chunk whose first key they are.
    """
    low, high = begin + 1, end
    while low < high:
        middle = (low + high) >> 1
        if fences[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low - 1


@inlined
def _first_at_least(address: int, begin: int, end: int, key: np.uint64, guess: int) -> int:
    """Return the first position in [begin, end) whose key is at least ``key``, or ``end``.

    The search begins at a guess and doubles its stride, so that it is short where the guess is
    close, and no distribution costs more than O(log n).
    """
    low, high, stride = begin, end, 4
    guess = max(guess, begin)
    if guess < end and load_uint64(address, guess) < key:
        low = guess + 1
        while low + stride < high and load_uint64(address, low + stride) < key:
            low += stride + 1
            stride *= 2
        high = min(high, low + stride + 1)
    else:
        high = guess
        while high - stride > low and load_uint64(address, high - stride) >= key:
            high -= stride
            stride *= 2
        low = max(low, high - stride)
    while low < high:
        middle = (low + high) >> 1
        if load_uint64(address, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _guess(
    key_addresses: Int64s,
    counts: Int64s,
    fences: UInt64s,
    run_starts: Int64s,
    verified: UInt8s,
    keys: UInt64s,
    is_dense: Bools,
    chunks: Int64s,
    guesses: Int64s,
    spreads: Float64s,
) -> None:
    """Tell the chunk in which each of some keys begins in each run, and about where in it.

    Keys are hashes, so they are spread evenly, and where one is can be guessed within about the
    square root of the entries between those that are known. All guesses are made before the first
    is used, so that none waits for memory. -1 where there is none: before all keys of a run, and
    in dense runs, where the place of the last key is near.
    """
    for run in range(is_dense.size):
        chunk, end = run_starts[run], run_starts[run + 1]
        lowest, highest, spread = np.uint64(0), np.uint64(0), 0.0
        for place in range(keys.size):
            key = keys[place]
            if not lowest < key <= highest:
                chunk = chunk if lowest < key else run_starts[run]
                chunk = _beginning_of(fences, chunk, end, key)
                lowest, highest = fences[chunk], LARGEST
                if chunk + 1 < end:
                    highest = fences[chunk + 1]
                spread = np.float64(counts[chunk]) / (np.float64(highest - lowest) + 1.0)
            chunks[run, place] = chunk
            guesses[run, place] = -1
            if key >= lowest and not is_dense[run]:
                guess = min(np.int64(np.float64(key - lowest) * spread), counts[chunk] - 1)
                fetch_ahead(key_addresses[chunk] + 8 * guess)
                guesses[run, place] = guess
                spreads[run, place] = spread
    for run in range(is_dense.size):  # a second guess, which is a line of memory off at most
        for place in range(keys.size):
            chunk, guess = chunks[run, place], guesses[run, place]
            if guess >= 0 and verified[chunk] != 0:
                address = key_addresses[chunk]
                passed = np.float64(keys[place]) - np.float64(load_uint64(address, guess))
                guess += np.int64(passed * spreads[run, place])
                guess = min(max(guess, 0), counts[chunk] - 1)
                fetch_ahead(address + 8 * (guess - LINE))
                fetch_ahead(address + 8 * guess)
                fetch_ahead(address + 8 * (guess + LINE))
                guesses[run, place] = guess


@kernel_of("queries")  # chunks that are verified have been read
def probe(
    key_addresses: Int64s,
    starts: Int64s,
    counts: Int64s,
    fences: UInt64s,
    run_starts: Int64s,
    verified: UInt8s,
    queries: UInt64s,
    limit: int,
    found_queries: UInt32s,
    found_chunks: UInt32s,
    found_positions: UInt32s,
    unverified: UInt8s,
) -> tuple[int, int]:
    """Find the rows of many keys in all runs at once.

    Args:
        key_addresses, starts, counts: the chunks of all runs, run after run; entries before
            ``starts`` of a chunk have been merged into another run.
        fences: first key of each chunk.
        run_starts: first chunk of each run, and one past the last chunk.
        verified: 1 for chunks whose checksum this process has checked.
        queries: the keys looked for.
        limit: at most this many rows a key, those of the oldest runs first.
        found_queries, found_chunks, found_positions: the output: which query, where the row is.
        unverified: zeros; 1 is written for chunks that are needed and not verified.

    Returns:
        Rows found, which may exceed the room of the output (then nothing past it was written),
        and how often an unverified chunk was needed. With any, the rows must not be used.
    """
    found = 0
    unchecked = 0
    capacity = found_queries.size
    run_count = run_starts.size - 1
    is_dense = np.empty(run_count, np.bool_)
    for run in range(run_count):
        chunk_count = run_starts[run + 1] - run_starts[run]
        is_dense[run] = counts[run_starts[run]] * chunk_count <= DENSE * queries.size
    block = min(queries.size, BLOCK)
    chunks = np.empty((run_count, block), np.int64)
    guesses = np.empty((run_count, block), np.int64)
    spreads = np.empty((run_count, block), np.float64)  # entries of the chunk a unit of its keys
    last_chunks = run_starts[:-1].copy()
    last_positions = np.zeros(run_count, np.int64)
    for begin in range(0, queries.size, BLOCK):
        here = min(queries.size - begin, BLOCK)
        _guess(
            *(key_addresses, counts, fences, run_starts, verified),
            *(queries[begin : begin + here], is_dense, chunks, guesses, spreads),
        )
        for place in range(here):
            key = queries[begin + place]
            of_this_key = 0
            for run in range(run_count):
                chunk, guess = chunks[run, place], guesses[run, place]
                if guess < 0 and chunk == last_chunks[run]:
                    guess = last_positions[run]  # rising keys follow soon
                while chunk < run_starts[run + 1] and of_this_key < limit:
                    if fences[chunk] > key:
                        break
                    # Nothing of a chunk is believed before its checksum is: the caller checks
                    # those that are asked for, and probes again.
                    if verified[chunk] == 0:
                        unverified[chunk] = 1
                        unchecked += 1
                        chunk += 1
                        guess = 0
                        continue
                    address, count = key_addresses[chunk], counts[chunk]
                    position = _first_at_least(address, starts[chunk], count, key, guess)
                    last_chunks[run], last_positions[run] = chunk, position
                    while (
                        position < count
                        and of_this_key < limit
                        and load_uint64(address, position) == key
                    ):
                        if found < capacity:
                            found_queries[found] = begin + place
                            found_chunks[found] = chunk
                            found_positions[found] = position
                        found += 1
                        of_this_key += 1
                        position += 1
                    if position < count:  # a larger key, or enough: the run has no more
                        break
                    chunk += 1
                    guess = 0
    return found, unchecked


@inlined
def _bits_of(key: np.uint64) -> np.uint64:
    """Return a word with the bits of a key, up to four of 64."""
    places = key * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    one, place = np.uint64(1), np.uint64(63)
    word = one << (places & place) | one << (places >> np.uint64(6) & place)
    return word | one << (places >> np.uint64(12) & place) | one << (places >> np.uint64(18))


@kernel
def mark_keys(
    key_addresses: Int64s, starts: Int64s, counts: Int64s, shift: np.uint64, words: UInt64s
) -> None:
    """Mark each key of some chunks, from ``starts`` on, in the word of its highest bits."""
    to = words.ctypes.data
    for chunk in range(counts.size):
        for position in range(starts[chunk], counts[chunk]):
            if position + AHEAD < counts[chunk]:
                soon = load_uint64(key_addresses[chunk], position + AHEAD)
                fetch_ahead(to + 8 * np.int64(soon >> shift))
            key = load_uint64(key_addresses[chunk], position)
            words[np.int64(key >> shift)] |= _bits_of(key)


@kernel
def marked_keys(queries: UInt64s, shift: np.uint64, words: UInt64s, places: UInt32s) -> int:
    """Write which of the keys may be among those marked to ``places``; return how many."""
    found, of_words = 0, words.ctypes.data
    for query in range(queries.size):
        if query + AHEAD < queries.size:
            fetch_ahead(of_words + 8 * np.int64(queries[query + AHEAD] >> shift))
        key = queries[query]
        wanted = _bits_of(key)
        places[found] = query
        found += words[np.int64(key >> shift)] & wanted == wanted
    return found


@kernel
def sort_by_key(keys: UInt64s, order: Int64s) -> bool:
    """Sort evenly spread keys, equal ones by position: ``order`` becomes their positions.

    Counting by the top bits leaves about one key a place, which insertion then sorts.

    Returns:
        False if too many keys share their top bits; then ``order`` must not be used.
    """
    bits = 1
    while (1 << bits) < keys.size and bits < 20:
        bits += 1
    shift = np.uint64(64 - bits)
    places = np.zeros((1 << bits) + 1, np.int64)
    for position in range(keys.size):
        places[np.int64(keys[position] >> shift) + 1] += 1
    for place in range(1 << bits):
        if places[place + 1] > 256:  # insertion takes the square of them
            return False
        places[place + 1] += places[place]
    for position in range(keys.size):
        place = np.int64(keys[position] >> shift)
        here = places[place]
        order[here] = position
        places[place] = here + 1
    # Keys are in order but within a place; only larger ones are passed: equal ones keep theirs.
    for position in range(1, keys.size):
        moving = order[position]
        key = keys[moving]
        here = position
        while here > 0 and keys[order[here - 1]] > key:
            order[here] = order[here - 1]
            here -= 1
        order[here] = moving
    return True


@kernel_of("chunks")
def gather_column(
    column_addresses: Int64s,
    counts: Int64s,
    chunks: UInt32s,
    positions: UInt32s,
    column: int,
    values: UInt32s,
) -> None:
    """Read one column of the rows that ``probe`` found."""
    for row in range(values.size):
        chunk = chunks[row]
        values[row] = load_uint32(
            column_addresses[chunk], column * counts[chunk] + np.int64(positions[row])
        )


def order_of(keys: UInt64s) -> Int64s:
    """Return the places of keys by rising key, equal ones in their order."""
    order = np.empty(keys.size, np.int64)
    if not sort_by_key(keys, order):
        order = np.argsort(keys, kind="stable")
    return order

"""Byte strings in columns, one after the other: their order, some of them, records made of them.

String i of a column is ``values[offsets[i]:offsets[i + 1]]``. So whole batches of keys, items and
documents go to the file without an object for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.arrays import Bools, Float64s, Int64s, UInt8s, UInt32s, UInt64s
from simdb.kernels.checksums import checksum
from simdb.kernels.compiler import (
    copy_bytes,
    inlined,
    kernel,
    load_uint8,
    load_uint32,
    load_uint64,
)

BLOCK_HEAD = 16  # bytes before the item numbers of a block
DOCUMENT_HEAD = 6  # bytes before the key of a document
DOCUMENT_FLAGS = 0xC0  # of the higher byte of the key's length
_OWNER_BITS = np.uint64(32)
_ALL_BYTES = 2**62


@inlined
def _compared(values: UInt8s, offsets: Int64s, left: int, right: int) -> int:
    """Return a number below 0, 0, or above, as the left string comes first, is equal, or later."""
    begin, other = offsets[left], offsets[right]
    size, other_size = offsets[left + 1] - begin, offsets[right + 1] - other
    for position in range(min(size, other_size)):
        if values[begin + position] != values[other + position]:
            return -1 if values[begin + position] < values[other + position] else 1
    return int(size - other_size)


@kernel
def order(values: UInt8s, offsets: Int64s) -> tuple[Int64s, bool]:
    """Return the places of strings by their rising bytes, equal ones in turn; and if all differ.

    Runs that rise already are merged, so that sorted strings are only looked at.
    """
    count = offsets.size - 1
    places, spare = np.arange(count), np.empty(count, np.int64)
    starts = np.empty(count + 1, np.int64)
    runs = 0
    for place in range(count):
        if place == 0 or _compared(values, offsets, place - 1, place) > 0:
            starts[runs] = place
            runs += 1
    starts[runs] = count
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            begin, middle = starts[run], starts[run + 1]
            end = starts[min(run + 2, runs)]
            left, right = begin, middle
            for place in range(begin, end):
                if left < middle and (
                    right == end or _compared(values, offsets, places[left], places[right]) <= 0
                ):
                    spare[place] = places[left]
                    left += 1
                else:
                    spare[place] = places[right]
                    right += 1
            starts[merged] = begin
            merged += 1
        starts[merged] = count
        runs = merged
        places, spare = spare, places
    differ = True
    for place in range(1, count):
        if _compared(values, offsets, places[place - 1], places[place]) == 0:
            differ = False
    return places, differ


@kernel
def taken(values: UInt8s, offsets: Int64s, rows: Int64s, prefix: UInt8s) -> tuple[UInt8s, Int64s]:
    """Return the strings at some places, each with the same bytes put in front, as a column."""
    bounds = np.empty(rows.size + 1, np.int64)
    bounds[0] = 0
    for place in range(rows.size):
        size = offsets[rows[place] + 1] - offsets[rows[place]]
        bounds[place + 1] = bounds[place] + prefix.size + size
    found = np.empty(bounds[-1], np.uint8)
    to, of_prefix, of_values = found.ctypes.data, prefix.ctypes.data, values.ctypes.data
    for place in range(rows.size):
        begin = bounds[place] + prefix.size
        copy_bytes(to + bounds[place], of_prefix, prefix.size)
        copy_bytes(to + begin, of_values + offsets[rows[place]], bounds[place + 1] - begin)
    return found, bounds


@inlined
def _put_number(target: UInt8s, begin: int, size: int, number: int) -> None:
    """Write a whole number of so many bytes, the lowest first."""
    for position in range(size):
        target[begin + position] = np.uint8((number >> (8 * position)) & 0xFF)


@kernel
def documents(
    keys: UInt8s,
    key_offsets: Int64s,
    items: UInt8s,
    item_offsets: Int64s,
    metadata: UInt8s,
    metadata_offsets: Int64s,
) -> tuple[UInt8s, Int64s]:
    """Return the records of documents as a column: the sizes of item and key, and all three."""
    count = key_offsets.size - 1
    bounds = key_offsets + item_offsets + metadata_offsets + DOCUMENT_HEAD * np.arange(count + 1)
    records = np.empty(bounds[-1], np.uint8)
    to, of_keys = records.ctypes.data, keys.ctypes.data
    of_items, of_metadata = items.ctypes.data, metadata.ctypes.data
    for row in range(count):
        key = bounds[row] + DOCUMENT_HEAD
        item = key + key_offsets[row + 1] - key_offsets[row]
        rest = item + item_offsets[row + 1] - item_offsets[row]
        _put_number(records, bounds[row], 4, rest - item)
        _put_number(records, bounds[row] + 4, 2, item - key)
        copy_bytes(to + key, of_keys + key_offsets[row], item - key)
        copy_bytes(to + item, of_items + item_offsets[row], rest - item)
        copy_bytes(to + rest, of_metadata + metadata_offsets[row], bounds[row + 1] - rest)
    return records, bounds


@kernel
def copied(begins: Int64s, ends: Int64s) -> tuple[UInt8s, Int64s]:
    """Return strings that lie anywhere in memory, given by their addresses, as a column."""
    bounds = np.empty(begins.size + 1, np.int64)
    bounds[0] = 0
    for place in range(begins.size):
        bounds[place + 1] = bounds[place] + ends[place] - begins[place]
    found = np.empty(bounds[-1], np.uint8)
    to = found.ctypes.data
    for place in range(begins.size):
        copy_bytes(to + bounds[place], begins[place], bounds[place + 1] - bounds[place])
    return found, bounds


@kernel
def are_equal(
    values: UInt8s,
    offsets: Int64s,
    left: Int64s,
    other_values: UInt8s,
    other_offsets: Int64s,
    right: Int64s,
) -> Bools:
    """Return whether strings of one column equal strings of another, by pairs of places."""
    equal = np.zeros(left.size, np.bool_)
    ones, others = values.ctypes.data, other_values.ctypes.data
    for pair in range(left.size):
        begin, other = offsets[left[pair]], other_offsets[right[pair]]
        size = offsets[left[pair] + 1] - begin
        if size != other_offsets[right[pair] + 1] - other:
            continue
        begin, other = begin + ones, other + others
        place = 0
        while place + 8 <= size and load_uint64(begin + place, 0) == load_uint64(other + place, 0):
            place += 8
        while place < size and load_uint8(begin, place) == load_uint8(other, place):
            place += 1
        equal[pair] = place == size
    return equal


@kernel
def blocks(
    values: UInt8s,
    offsets: Int64s,
    numbers: UInt32s,
    sums: UInt64s,
    cuts: Int64s,
    owner: np.uint64,
) -> tuple[UInt8s, Int64s]:
    """Return blocks of records of varying width, one after the other, and the bounds of each.

    The first eight bytes of a block are left to its checksum.

    Args:
        values, offsets, numbers: the records and their item numbers.
        sums: checksums of the records; empty where they are to be computed.
        cuts: the first record of each block, and one past the last record.
        owner: of the blocks.
    """
    count = cuts.size - 1
    bounds = np.empty(count + 1, np.int64)
    bounds[0] = 0
    for block in range(count):
        first, stop = cuts[block], cuts[block + 1]
        head = BLOCK_HEAD + 4 * ((stop - first + 1) // 2 * 2) + 16 * (stop - first)
        bounds[block + 1] = bounds[block] + head + offsets[stop] - offsets[first]
    written = np.empty(bounds[-1], np.uint8)
    to, of_values = written.ctypes.data, values.ctypes.data
    own, lanes = np.empty(24, np.uint64), np.empty(8, np.uint64)
    for block in range(count):
        first, stop = cuts[block], cuts[block + 1]
        size = offsets[stop] - offsets[first]
        at_numbers = bounds[block] + BLOCK_HEAD
        _put_number(written, bounds[block] + 8, 8, stop - first)  # and a width of 0
        at_sums = bounds[block + 1] - size - 8 * (stop - first)
        at_ends = at_sums - 8 * (stop - first)
        written[at_numbers + 4 * (stop - first) : at_ends] = 0
        copy_bytes(to + bounds[block + 1] - size, of_values + offsets[first], size)
        for record in range(first, stop):
            _put_number(written, at_numbers + 4 * (record - first), 4, np.int64(numbers[record]))
            end = offsets[record + 1] - offsets[first]
            _put_number(written, at_ends + 8 * (record - first), 8, end)
            if sums.size > 0:
                found = sums[record]
            else:
                seed = (owner << _OWNER_BITS) | np.uint64(numbers[record])
                begin, length = offsets[record], offsets[record + 1] - offsets[record]
                found = checksum(of_values + begin, length, seed, own, lanes)
            _put_number(written, at_sums + 8 * (record - first), 8, np.int64(found))
    return written, bounds


@inlined
def _block_of(lasts: UInt32s, block: int, number: np.uint32) -> int:
    """Return the first block from one on that ends with an item number or behind it."""
    stop = lasts.size
    if block == stop or lasts[block] >= number:
        return block
    block += 1
    while block < stop:
        middle = (block + stop) >> 1
        if lasts[middle] < number:
            block = middle + 1
        else:
            stop = middle
    return block


@inlined
def _place_of(first: int, last: int, count: int, numbers: int, wanted: int) -> int:
    """Return where a block has an item number, -1 where it has not; its numbers are an address."""
    if wanted < first:
        return -1
    if last - first + 1 == count:
        return wanted - first
    place, end = 0, count  # some are missing
    while place < end:
        middle = (place + end) >> 1
        if load_uint32(numbers, middle) < wanted:
            place = middle + 1
        else:
            end = middle
    return place if load_uint32(numbers, place) == wanted else -1


@inlined
def with_room(column: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Return a column with room for so many, and with what it holds."""
    if count <= column.size:
        return column
    longer = np.empty(max(count, 2 * column.size), column.dtype)
    longer[: column.size] = column
    return longer


@inlined
def replace_greatest(heap: Float64s, value: np.float64) -> None:
    """Put a value in the place of the greatest, the first, of values none of which is below it."""
    place = 0
    child = 1
    while child < heap.size:
        if child + 1 < heap.size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = value


@inlined
def appended(
    column: npt.NDArray[Any], count: int, more: npt.NDArray[Any], found: int, plus: int
) -> npt.NDArray[Any]:
    """Return a column that has so many with the first so many others after them, each plus some."""
    column = with_room(column, count + found)
    for place in range(found):
        column[count + place] = more[place] + plus
    return column


@kernel
def rows_of_blocks(
    firsts: UInt32s,
    lasts: UInt32s,
    counts: Int64s,
    number_addresses: Int64s,
    row_addresses: Int64s,
    wanted: UInt32s,
    rows: UInt8s,
    held: UInt8s,
) -> None:
    """Copy records of one width from the blocks that they lie in.

    Args:
        firsts, lasts, counts: the item numbers that each block begins and ends with, ascending, and
            how many it has.
        number_addresses, row_addresses: where its item numbers and its records lie.
        wanted: ascending item numbers.
        rows: (wanted, width), the output.
        held: zeros; 1 is written for those that a block has.
    """
    width = rows.shape[1]
    to = rows.ctypes.data
    block = 0
    for position in range(wanted.size):
        number = wanted[position]
        block = _block_of(lasts, block, number)
        if block == lasts.size:
            return
        first, last = np.int64(firsts[block]), np.int64(lasts[block])
        place = _place_of(first, last, counts[block], number_addresses[block], np.int64(number))
        if place >= 0:
            copy_bytes(to + position * width, row_addresses[block] + place * width, width)
            held[position] = 1


@kernel
def numbers_of_rows(bounds: Int64s, addresses: Int64s, before: int, rows: Int64s) -> UInt32s:
    """Return the item numbers of rows that are counted through all blocks.

    Args:
        bounds: where the rows of each block begin, and where the last ones end.
        addresses: where the item numbers of each block lie.
        before: is added to each row.
        rows: ascending.
    """
    numbers = np.empty(rows.size, np.uint32)
    block = 0
    for place in range(rows.size):
        row = rows[place] + before
        while row >= bounds[block + 1]:
            block += 1
        numbers[place] = load_uint32(addresses[block], row - bounds[block])
    return numbers


@kernel
def documents_of_blocks(
    firsts: UInt32s,
    lasts: UInt32s,
    counts: Int64s,
    addresses: Int64s,
    sizes: Int64s,
    wanted: UInt32s,
    most_bytes: int,
    owner: np.uint64,
) -> tuple[Int64s, int, bool]:
    """Find and verify the records of documents, as ``documents`` makes them, and cut them.

    Args:
        firsts, lasts, counts: the item numbers that each block begins and ends with, ascending, and
            how many it has.
        addresses: where its item numbers lie; the rest of the block follows, as ``blocks`` has it.
        sizes: bytes of its records, which no record goes beyond whatever memory says of its end.
        wanted: item numbers, ascending, or few in any order.
        most_bytes: it stops when the records so far have as many.
        owner: of the blocks.

    Returns:
        int64 (6, n): where, by addresses, the key begins, what is behind it does, the item ends
        (the record does, where the item is part of a frame), and the record does; the size of the
        item, and the flags; zeros where no block has the number. How many of the wanted numbers
        it has come to. And whether all is sound: else the record of the next one is damaged.
    """
    parts = np.zeros((6, wanted.size), np.int64)
    own, lanes = np.empty(24, np.uint64), np.empty(8, np.uint64)
    block, read = 0, np.int64(0)
    for position in range(wanted.size):
        if read >= most_bytes:
            return parts, position, True
        number = wanted[position]
        if position > 0 and number < wanted[position - 1]:
            block = 0
        block = _block_of(lasts, block, number)
        if block == lasts.size:
            continue
        count = counts[block]
        first, last = np.int64(firsts[block]), np.int64(lasts[block])
        place = _place_of(first, last, count, addresses[block], np.int64(number))
        if place < 0:
            continue
        ends = addresses[block] + 4 * (count + (count & 1))
        sums, records = ends + 8 * count, ends + 16 * count
        begin = np.int64(0) if place == 0 else np.int64(load_uint64(ends, place - 1))
        stop = np.int64(load_uint64(ends, place))
        if begin < 0 or stop > sizes[block] or stop - begin < DOCUMENT_HEAD:
            return parts, position, False
        size = stop - begin
        begin += records
        seed = (owner << _OWNER_BITS) | np.uint64(number)
        if checksum(begin, size, seed, own, lanes) != load_uint64(sums, place):
            return parts, position, False
        item_size = np.int64(load_uint32(begin, 0))
        flags = np.int64(load_uint8(begin, 5)) & DOCUMENT_FLAGS
        key_size = np.int64(load_uint8(begin, 4)) | (np.int64(load_uint8(begin, 5)) - flags) << 8
        body, end = begin + DOCUMENT_HEAD + key_size, begin + size
        item_end = end if flags else body + item_size
        if max(body, item_end) > end:
            return parts, position, False
        parts[0, position] = begin + DOCUMENT_HEAD
        parts[1, position] = body
        parts[2, position] = item_end
        parts[3, position] = end
        parts[4, position] = item_size
        parts[5, position] = flags
        read += size
    return parts, wanted.size, True


@kernel
def keys_of_documents(
    firsts: UInt32s,
    lasts: UInt32s,
    counts: Int64s,
    addresses: Int64s,
    sizes: Int64s,
    wanted: UInt32s,
    owner: np.uint64,
) -> tuple[UInt8s, Int64s]:
    """Return the keys of documents as a column, as ``documents_of_blocks`` finds them.

    They are empty where no block has the number, and from the first record on that is damaged.
    """
    parts, _, _ = documents_of_blocks(
        firsts, lasts, counts, addresses, sizes, wanted, _ALL_BYTES, owner
    )
    return copied(parts[0], parts[1])

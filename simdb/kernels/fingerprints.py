"""Grid squares and functions of fingerprints, as bit sets (MMDS 3.8.4, 3.8.5).

Bit i of a set stands in word i // 16 (uint16) or i // 64 (uint64), at place i modulo the bits of a
word, so that on little-endian machines one is a view of the other. A minutia is (x, y, direction)
in whole units: see ``items/fingerprints.py``.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from simdb.kernels.bits import set_bit_count
from simdb.kernels.compiling import inlined, kernel

_TURN = 360 * 64  # units of direction in a full turn
_RADIANS = 2.0 * math.pi / _TURN
_ONE = np.uint64(1)
_PAIRS = np.uint64(0x5555555555555555)
_FOURS = np.uint64(0x3333333333333333)
_EIGHTS = np.uint64(0x0F0F0F0F0F0F0F0F)
_LOW = np.uint64(0x7F)


@inlined
def _bits_of(word: np.uint64) -> np.int64:
    """Return how many bits are set (Knuth 7.1.3), without a product that could overflow."""
    word = word - ((word >> np.uint64(1)) & _PAIRS)
    word = (word & _FOURS) + ((word >> np.uint64(2)) & _FOURS)
    word = (word + (word >> np.uint64(4))) & _EIGHTS
    word = word + (word >> np.uint64(8))
    word = word + (word >> np.uint64(16))
    word = word + (word >> np.uint64(32))
    return np.int64(word & _LOW)


@kernel
def _squares_of(
    x: int,
    y: int,
    direction: int,
    grid: npt.NDArray[np.int64],
    found: npt.NDArray[np.int64],
) -> int:
    """List the squares in which a minutia counts; return how many, at most 8.

    Args:
        x, y: measured from the corner of the grid.
        direction: any whole number, taken modulo a turn.
        grid: columns, rows, side of a square, border tolerance, sectors, tolerance of sectors.
        found: int64 (8,), output.
    """
    columns, rows, side, border, sectors, sector_border = grid
    count = 0
    left, right = (x - border) // side, (x + border) // side
    top, bottom = (y - border) // side, (y + border) // side
    first = ((direction - sector_border) % _TURN) * sectors // _TURN
    last = ((direction + sector_border) % _TURN) * sectors // _TURN
    for row in range(max(top, 0), min(bottom, rows - 1) + 1):
        for column in range(max(left, 0), min(right, columns - 1) + 1):
            square = (row * columns + column) * sectors
            found[count] = square + first
            count += 1
            if last != first:
                found[count] = square + last
                count += 1
    return count


@kernel
def grids_of_minutiae(
    minutiae: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    grid: npt.NDArray[np.int64],
    centre: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]:
    """Return the occupied squares of each print, uint64 (n, words).

    Args:
        minutiae: int32 (m, 3).
        offsets: int64 (n + 1,).
        grid: see ``_squares_of``.
        centre: (x, y) to which the mean minutia is moved (MMDS 3.8.4); empty: nothing is moved.
    """
    items = offsets.size - 1
    words = (grid[0] * grid[1] * grid[4] + 63) // 64
    grids = np.zeros((items, words), np.uint64)
    found = np.empty(8, np.int64)
    for item in range(items):
        begin, end = offsets[item], offsets[item + 1]
        shift_x, shift_y = 0, 0
        if centre.size > 0 and end > begin:
            for place in range(begin, end):
                shift_x += minutiae[place, 0]
                shift_y += minutiae[place, 1]
            shift_x = centre[0] - shift_x // (end - begin)
            shift_y = centre[1] - shift_y // (end - begin)
        for place in range(begin, end):
            x = np.int64(minutiae[place, 0]) + shift_x
            y = np.int64(minutiae[place, 1]) + shift_y
            for number in range(_squares_of(x, y, minutiae[place, 2], grid, found)):
                square = found[number]
                grids[item, square // 64] |= _ONE << np.uint64(square % 64)
    return grids


@kernel
def functions_of_minutiae(
    minutiae: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    grid: npt.NDArray[np.int64],
    turned: bool,
    functions: npt.NDArray[np.int32],
) -> npt.NDArray[np.uint16]:
    """Return the functions that say yes to a print in the grid around any of its minutiae.

    Every minutia in turn is put into the middle of a grid, which holds the others. 64 grids are
    tested at once: a word for each square says in which of them it is occupied.

    Args:
        minutiae: int32 (m, 3).
        offsets: int64 (n + 1,).
        grid: see ``_squares_of``.
        turned: turn each grid into the direction of its minutia.
        functions: int32 (f, squares of a function).

    Returns:
        uint16 (n, words), bit i for function i; words is a multiple of 4.
    """
    items = offsets.size - 1
    signatures = np.zeros((items, (functions.shape[0] + 63) // 64 * 4), np.uint16)
    occupied = np.zeros(grid[0] * grid[1] * grid[4], np.uint64)
    found = np.empty(8, np.int64)
    half_width, half_height = grid[0] * grid[2] // 2, grid[1] * grid[2] // 2
    for item in range(items):
        begin, end = offsets[item], offsets[item + 1]
        for block in range(begin, end, 64):
            occupied[:] = np.uint64(0)
            for anchor in range(block, min(block + 64, end)):
                bit = _ONE << np.uint64(anchor - block)
                angle = _RADIANS * minutiae[anchor, 2] if turned else 0.0
                cosine, sine = math.cos(angle), math.sin(angle)
                heading = np.int64(minutiae[anchor, 2]) if turned else np.int64(0)
                for other in range(begin, end):
                    if other == anchor:
                        continue
                    x = np.int64(minutiae[other, 0]) - np.int64(minutiae[anchor, 0])
                    y = np.int64(minutiae[other, 1]) - np.int64(minutiae[anchor, 1])
                    if turned:
                        across = cosine * x + sine * y
                        y = np.int64(math.floor(cosine * y - sine * x))
                        x = np.int64(math.floor(across))
                    direction = np.int64(minutiae[other, 2]) - heading
                    x, y = x + half_width, y + half_height
                    for number in range(_squares_of(x, y, direction, grid, found)):
                        occupied[found[number]] |= bit
            for function in range(functions.shape[0]):
                together = occupied[functions[function, 0]]
                for square in range(1, functions.shape[1]):
                    together &= occupied[functions[function, square]]
                if together != 0:
                    signatures[item, function // 16] |= np.uint16(1 << (function % 16))
    return signatures


@kernel
def functions_of_grids(
    grids: npt.NDArray[np.uint16], functions: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint16]:
    """Return the functions that say yes: all their squares are occupied (MMDS 3.8.5).

    Args:
        grids: uint16 (n, words).
        functions: int32 (f, squares of a function).

    Returns:
        uint16 (n, words), bit i for function i; words is a multiple of 4.
    """
    items = grids.shape[0]
    signatures = np.zeros((items, (functions.shape[0] + 63) // 64 * 4), np.uint16)
    occupied = np.empty(grids.shape[1] * 16, np.bool_)
    for item in range(items):
        for square in range(occupied.size):
            occupied[square] = (grids[item, square // 16] >> (square % 16)) & 1 != 0
        for function in range(functions.shape[0]):
            yes = True
            for square in range(functions.shape[1]):
                yes = yes and occupied[functions[function, square]]
            if yes:
                signatures[item, function // 16] |= np.uint16(1 << (function % 16))
    return signatures


@kernel
def members(
    signatures: npt.NDArray[np.uint16],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the numbers of the bits that are set, ascending, and int64 (n + 1,) offsets."""
    items, words = signatures.shape
    offsets = np.zeros(items + 1, np.int64)
    for item in range(items):
        count = 0
        for word in range(words):
            count += _bits_of(np.uint64(signatures[item, word]))
        offsets[item + 1] = offsets[item] + count
    numbers = np.empty(offsets[items], np.int64)
    place = 0
    for item in range(items):
        for word in range(words):
            rest = np.int64(signatures[item, word])
            bit = 0
            while rest:
                if rest & 1:
                    numbers[place] = word * 16 + bit
                    place += 1
                rest >>= 1
                bit += 1
    return numbers, offsets


@kernel
def first_shared(
    left: npt.NDArray[np.uint16], right: npt.NDArray[np.uint16], group_size: int, groups: int
) -> npt.NDArray[np.int64]:
    """Return the smallest bit that both rows of a pair have, if they share one in every group.

    Args:
        left, right: uint16 (m, words): row i of the one with row i of the other.
        group_size: bits of a group; group g is the bits g * group_size and after.
        groups: how many.

    Returns:
        int64 (m,); -1 where a group has no shared bit.
    """
    firsts = np.full(left.shape[0], -1, np.int64)
    for pair in range(left.shape[0]):
        wanted, first = 0, -1
        for word in range(left.shape[1]):
            shared = np.int64(left[pair, word] & right[pair, word])
            bit = 0
            while shared and wanted < groups:
                number = word * 16 + bit
                if shared & 1 and number // group_size == wanted:
                    first = number if wanted == 0 else first
                    wanted += 1
                elif shared & 1 and number // group_size > wanted:
                    wanted = groups + 1  # a group was passed without a shared bit
                shared >>= 1
                bit += 1
            if wanted >= groups:
                break
        if wanted == groups:
            firsts[pair] = first
    return firsts


@kernel
def in_every_group(
    items: npt.NDArray[np.uint32], groups: npt.NDArray[np.uint8], group_count: int, item_count: int
) -> npt.NDArray[np.uint32]:
    """Unite the buckets of each group and intersect the groups (MMDS 3.8.5).

    Args:
        items: uint32 (m,), the members of all buckets in any order, with repeats; numbers of
            ``item_count`` and above are left out.
        groups: uint8 (m,), the group of each; below ``group_count``.
        group_count: how many.
        item_count: how many numbers there are; costs ``group_count`` bits each.

    Returns:
        uint32, ascending, the items that occur in every group.
    """
    words = (item_count + 63) // 64
    marked = np.zeros((group_count, words), np.uint64)
    for place in range(items.size):
        item = np.int64(items[place])
        if item < item_count and groups[place] < group_count:
            marked[groups[place], item // 64] |= _ONE << np.uint64(item % 64)
    count = 0
    for word in range(words):
        for group in range(1, group_count):
            marked[0, word] &= marked[group, word]
        count += _bits_of(marked[0, word])
    found = np.empty(count, np.uint32)
    count = 0
    for word in range(words):
        rest = marked[0, word]
        while rest != 0:
            lowest = rest & (~rest + _ONE)
            found[count] = word * 64 + _bits_of(lowest - _ONE)
            count += 1
            rest ^= lowest
    return found


@kernel
def overlaps(
    probe: npt.NDArray[np.uint64],
    sets: npt.NDArray[np.uint64],
    positions: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Compare one bit set with many of a contiguous block.

    Args:
        probe: uint64 (words,).
        sets: uint64 (n, words).
        positions: int64 (m,), the rows to compare with.

    Returns:
        int64 (m,) each: bits in common, bits in either.
    """
    common = np.zeros(positions.size, np.int64)
    either = np.zeros(positions.size, np.int64)
    for number in range(positions.size):
        row = positions[number]
        both, any_of_them = 0, 0
        for word in range(probe.size):
            both += set_bit_count(probe[word] & sets[row, word])
            any_of_them += set_bit_count(probe[word] | sets[row, word])
        common[number] = both
        either[number] = any_of_them
    return common, either


@kernel
def pair_overlaps(
    sets: npt.NDArray[np.uint64], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Compare rows left[i] and right[i] of uint64 (n, words): bits in common, bits in either."""
    common = np.zeros(left.size, np.int64)
    either = np.zeros(left.size, np.int64)
    for number in range(left.size):
        one, other = left[number], right[number]
        for word in range(sets.shape[1]):
            common[number] += set_bit_count(sets[one, word] & sets[other, word])
            either[number] += set_bit_count(sets[one, word] | sets[other, word])
    return common, either

"""Fingerprints: grid squares and functions of prints as bit sets, and alignment of two prints.

Bit i of a set stands in word i // 16 (uint16) or i // 64 (uint64), at place i modulo the bits of a
word, so that on little-endian machines one is a view of the other (MMDS 3.8.4, 3.8.5). A minutia is
(x, y, direction) in whole units. Two prints are compared exactly by the rigid alignment that lays
the most minutiae on each other, found by votes for a turn and a shift (a Hough transform).
"""

from __future__ import annotations

import math

import numpy as np

from simdb.arrays import Bools, Float64s, Int32s, Int64s, UInt8s, UInt16s, UInt32s, UInt64s
from simdb.kernels.compiler import inlined, kernel, set_bit_count
from simdb.kernels.hashes import mixed

_TURN = 360 * 64  # units of direction in a full turn
_RADIANS = 2.0 * math.pi / _TURN
_ONE = np.uint64(1)

_TURN_BINS = 32
_BIN_TURN = _TURN // _TURN_BINS  # 11.25 degrees
_COSINES = np.cos(np.arange(_TURN_BINS) * (2.0 * math.pi / _TURN_BINS))
_MOST_BINS = 60  # of shifts as long as the plate: no small tolerance takes all memory
_MOST_VOTES = 2**16 - 1
_PEAKS = 2  # most voted bins that are tried
_ROUNDS = 3  # of matching and fitting for each


@kernel
def _squares_of(x: int, y: int, direction: int, grid: Int64s, found: Int64s) -> int:
    """List the squares in which a minutia counts; return how many, at most 8.

    Places are measured from the corner of the grid. ``grid`` is columns, rows, side of a square,
    border tolerance, sectors, tolerance of sectors.
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
def grids_of_minutiae(minutiae: Int32s, offsets: Int64s, grid: Int64s, centre: Int64s) -> UInt64s:
    """Return the occupied squares of each print in a ``grid`` of ``_squares_of``, as sets of bits.

    ``minutiae`` is (m, 3), ``offsets`` (n + 1,); ``centre`` is (x, y), to which the mean minutia
    is moved (MMDS 3.8.4), or empty: nothing is moved.
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
    minutiae: Int32s, offsets: Int64s, grid: Int64s, turned: bool, functions: Int32s
) -> UInt16s:
    """Return the functions that say yes to a print in the grid around any of its minutiae.

    Every minutia in turn is put into the middle of a grid, which holds the others. 64 grids are
    tested at once: a word for each square says in which of them it is occupied. ``turned`` turns
    each into the direction of its minutia. ``functions`` is (f, squares of a function); the answer
    is (n, words), bit i for function i; words is a multiple of 4.
    """
    items = offsets.size - 1
    signatures = np.zeros((items, (functions.shape[0] + 63) // 64 * 4), np.uint16)
    occupied = np.zeros(grid[0] * grid[1] * grid[4], np.uint64)
    found = np.empty(8, np.int64)
    half_width, half_height = grid[0] * grid[2] // 2, grid[1] * grid[2] // 2
    for item in range(items):
        begin, end = offsets[item], offsets[item + 1]
        # A word of each square is as many anchors as fit: testing a function takes as many words as
        # it has squares, for 64 grids together.
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
def functions_of_grids(grids: UInt16s, functions: Int32s) -> UInt16s:
    """Return the functions that say yes, as above: all their squares are occupied (MMDS 3.8.5)."""
    items = grids.shape[0]
    signatures = np.zeros((items, (functions.shape[0] + 63) // 64 * 4), np.uint16)
    occupied = np.empty(grids.shape[1] * 16, np.bool_)
    for item in range(items):
        # A byte a square, once a print: each function then looks at its squares without a shift.
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
def _neighbours(minutiae: Int32s, count: int) -> Int64s:
    """Return the nearest minutiae of each, (m, count), -1 for none; of two as near the earlier."""
    nearest = np.full((minutiae.shape[0], count), np.int64(-1))
    squares = np.empty(count, np.int64)
    for one in range(minutiae.shape[0]):
        known = 0
        for other in range(minutiae.shape[0]):
            if other == one:
                continue
            x = np.int64(minutiae[other, 0]) - np.int64(minutiae[one, 0])
            y = np.int64(minutiae[other, 1]) - np.int64(minutiae[one, 1])
            square = x * x + y * y
            if known == count and square >= squares[count - 1]:
                continue
            place = min(known, count - 1)
            while place > 0 and squares[place - 1] > square:
                squares[place] = squares[place - 1]
                nearest[one, place] = nearest[one, place - 1]
                place -= 1
            squares[place] = square
            nearest[one, place] = other
            known = min(known + 1, count)
    return nearest


@inlined
def _are_neighbours(nearest: Int64s, one: int, second: int, third: int) -> bool:
    """Return whether two minutiae are both among the nearest of one."""
    found = 0
    for place in range(nearest.shape[1]):
        if nearest[one, place] == second or nearest[one, place] == third:
            found += 1
    return found == 2


@inlined
def _distance(minutiae: Int32s, here: int, there: int, axis: int) -> np.int64:
    """Return how far it is from one minutia to another along an axis."""
    return np.int64(np.int64(minutiae[there, axis]) - np.int64(minutiae[here, axis]))


@kernel
def _shapes_of(
    minutiae: Int32s, corners: Int64s, settings: Int64s, secret: np.uint64, found: UInt64s
) -> int:
    """List the hashed shapes of a triangle; return how many, at most 24.

    A shape is the ranges in which the three sides lie, clockwise from the longest, and those of
    the directions at its corners, measured from that side. So neither a shift nor a turn changes
    it. A side within ``border`` of another range is in both, and one within it of the longest side
    is the first as well.
    """
    side, border, sectors, reach = settings[1], settings[2], settings[3], settings[4]
    across, down = np.empty(3, np.int64), np.empty(3, np.int64)
    first, second, third = corners[0], corners[1], corners[2]
    turn = _distance(minutiae, first, second, 0) * _distance(minutiae, first, third, 1)
    turn -= _distance(minutiae, first, second, 1) * _distance(minutiae, first, third, 0)
    order = (first, second, third) if turn > 0 else (first, third, second)
    lengths, longest = np.empty(3, np.int64), np.int64(0)
    for corner in range(3):
        here, there = order[corner], order[(corner + 1) % 3]
        across[corner] = _distance(minutiae, here, there, 0)
        down[corner] = _distance(minutiae, here, there, 1)
        # A root is rounded correctly everywhere, so its whole part is the same on every machine.
        square = across[corner] * across[corner] + down[corner] * down[corner]
        lengths[corner] = np.int64(math.sqrt(np.float64(square)))
        longest = max(longest, lengths[corner])
    if turn == 0 or longest > reach:
        return 0
    count = 0
    for begin in range(3):
        if lengths[begin] < longest - border:
            continue
        # Rounded to whole units, which no last bit of an angle changes.
        angle = math.atan2(np.float64(down[begin]), np.float64(across[begin])) / _RADIANS
        heading = np.int64(math.floor(angle + 0.5))
        directions = np.int64(0)
        for corner in range(3):
            direction = np.int64(minutiae[order[(begin + corner) % 3], 2]) - heading
            directions = directions * 16 + (direction % _TURN) * sectors // _TURN
        for choice in range(8):
            shape, repeated = directions, False
            for corner in range(3):
                length = lengths[(begin + corner) % 3]
                low, high = max(length - border, 0) // side, (length + border) // side
                repeated = repeated or (low == high and (choice >> corner) & 1 == 1)
                shape = shape * 4096 + (high if (choice >> corner) & 1 else low)
            if not repeated:
                found[count] = mixed(np.uint64(shape), secret)
                count += 1
    return count


@kernel
def triangles_of_minutiae(
    minutiae: Int32s, offsets: Int64s, settings: Int64s, secret: np.uint64
) -> UInt32s:
    """Return the hashes of the shapes of the triangles that neighbouring minutiae make.

    A triangle counts if two of its corners are among the nearest of the third (Germain, Califano
    and Colville, IEEE Computational Science and Engineering 1997, index all). ``minutiae`` is
    (m, 3), ``offsets`` (n + 1,); ``settings`` is how many neighbours, the range of a side, its
    border, ranges of directions, the longest side, groups, and the most hashes of a group, of
    which the smallest are kept. The answer is (n, groups, most), ascending; 0 stands for none.
    """
    neighbours, groups, most = settings[0], settings[5], settings[6]
    items = offsets.size - 1
    hashes = np.zeros((items, groups, most), np.uint32)
    corners = np.empty(3, np.int64)
    kept = np.empty(groups, np.int64)
    for item in range(items):
        own = minutiae[offsets[item] : offsets[item + 1]]
        nearest = _neighbours(own, neighbours)
        found = np.empty(own.shape[0] * neighbours * (neighbours - 1) * 12, np.uint64)
        count = 0
        for one in range(own.shape[0]):
            for left in range(neighbours):
                for right in range(left + 1, neighbours):
                    second, third = nearest[one, left], nearest[one, right]
                    # Each triangle once, at the first corner that has both others near.
                    if (
                        third < 0
                        or (second < one and _are_neighbours(nearest, second, one, third))
                        or (third < one and _are_neighbours(nearest, third, one, second))
                    ):
                        continue
                    corners[0], corners[1], corners[2] = one, second, third
                    count += _shapes_of(own, corners, settings, secret, found[count:])
        kept[:] = 0
        for place in range(count):
            value = np.uint32(found[place] >> np.uint64(32))
            group = np.int64(found[place] % np.uint64(groups))
            rank = kept[group]
            while rank > 0 and hashes[item, group, rank - 1] > value:
                rank -= 1
            is_there = rank > 0 and hashes[item, group, rank - 1] == value
            if value == 0 or is_there or rank == most:
                continue
            for later in range(min(kept[group], most - 1), rank, -1):
                hashes[item, group, later] = hashes[item, group, later - 1]
            hashes[item, group, rank] = value
            kept[group] = min(kept[group] + 1, most)
    return hashes


@kernel
def members(signatures: UInt16s) -> tuple[Int64s, Int64s]:
    """Return the numbers of the bits that are set, ascending in each row, and their offsets."""
    items, words = signatures.shape
    offsets = np.zeros(items + 1, np.int64)
    for item in range(items):
        count = 0
        for word in range(words):
            count += set_bit_count(np.uint64(signatures[item, word]))
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
def first_shared(left: UInt16s, right: UInt16s, group_size: int, groups: int) -> Int64s:
    """Return the smallest bit that rows i of both have, -1 unless they share one of every group.

    Group g, of ``groups``, is the bits from g * group_size on.
    """
    firsts = np.full(left.shape[0], -1, np.int64)
    for pair in range(left.shape[0]):
        # Groups are ranges of rising bits, so one pass meets them in order: the first one missing
        # ends it.
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
def in_every_group(items: UInt32s, groups: UInt8s, group_count: int, item_count: int) -> UInt32s:
    """Return the items that occur in a bucket of every group, ascending (MMDS 3.8.5).

    ``items`` are the members of all buckets in any order, with repeats, and ``groups`` the group of
    each. Numbers of ``item_count`` and above are left out; the others cost a bit a group each.
    """
    # A bit for each item and group: sorting the members would cost more than all the words.
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
        count += set_bit_count(marked[0, word])
    found = np.empty(count, np.uint32)
    count = 0
    for word in range(words):
        rest = marked[0, word]
        while rest != 0:
            lowest = rest & (
                ~rest + _ONE
            )  # the lowest bit that is set; those below it are its number
            found[count] = word * 64 + set_bit_count(lowest - _ONE)
            count += 1
            rest ^= lowest
    return found


# -- alignment -----------------------------------------------------------------------------------


@inlined
def _difference(left: int, right: int) -> np.int64:
    """Return the turn between two directions in [0, a turn): from minus half a turn to half."""
    turn = np.int64(right) - np.int64(left)
    if turn >= _TURN // 2:
        turn -= _TURN
    elif turn < -(_TURN // 2):
        turn += _TURN
    return turn


@inlined
def _largest_difference(settings: Int64s) -> int:
    """Return the most by which directions of a couple differ: the largest turn and the tolerance.

    The turn is that of a print; each of its minutiae may be off by the tolerance on top.
    """
    return int(settings[2] + settings[1])


@inlined
def _bin_size(settings: Int64s) -> int:
    """Return the side of a bin of shifts: the tolerance, unless there would be too many."""
    return int(max(settings[0], max(settings[3], settings[4]) // _MOST_BINS))


@inlined
def _bins_across(settings: Int64s) -> int:
    """Return how many bins of shifts there are along each axis."""
    return int(2 * (max(settings[3], settings[4]) // _bin_size(settings) + 2))


@kernel
def _comes_first(left: Int32s, right: Int32s) -> bool:
    """Whether a print has fewer minutiae, or as many and smaller ones, or the same."""
    if left.shape[0] != right.shape[0]:
        return bool(left.shape[0] < right.shape[0])
    for row in range(left.shape[0]):
        for column in range(3):
            if left[row, column] != right[row, column]:
                return bool(left[row, column] < right[row, column])
    return True


@kernel
def _vote(left: Int32s, right: Int32s, settings: Int64s, votes: UInt16s, listed: Int64s) -> int:
    """Let every two minutiae vote for the turns and shifts that lay the one on the other.

    A vote counts in the nearest bin of turns and, since their bins overlap by half, in two bins of
    shifts along each axis: ``votes`` are those of each turn, row and column of shifts, in this
    order. The places with votes enough to be tried are listed; return how many. Minutiae are
    measured from the middle of the plate, and ``settings`` are those of ``matched_minutiae``.
    """
    scale, side = 1.0 / _bin_size(settings), _bins_across(settings)
    limit = _largest_difference(settings)
    enough = min(3, max(1, left.shape[0] // 4))
    votes[:] = 0
    turned = np.empty((_TURN_BINS, 2))
    count = 0
    middle = float(side // 2)
    for one in range(left.shape[0]):
        for turn in range(_TURN_BINS):
            cosine, sine = _COSINES[turn], _COSINES[(turn + _TURN_BINS * 3 // 4) % _TURN_BINS]
            turned[turn, 0] = middle - scale * (cosine * left[one, 0] - sine * left[one, 1])
            turned[turn, 1] = middle - scale * (sine * left[one, 0] + cosine * left[one, 1])
        for other in range(right.shape[0]):
            wanted = _difference(left[one, 2], right[other, 2])
            if abs(wanted) > limit:
                continue
            turn = (wanted + _TURN + _BIN_TURN // 2) // _BIN_TURN % _TURN_BINS
            # The first minutia was turned and taken from the middle before: one addition is left.
            column = int(scale * right[other, 0] + turned[turn, 0])
            row = int(scale * right[other, 1] + turned[turn, 1])
            if 0 < row < side and 0 < column < side:
                corner = (turn * side + row) * side + column
                for place in (corner, corner - 1, corner - side, corner - side - 1):
                    if votes[place] == _MOST_VOTES:
                        continue
                    votes[place] += np.uint16(1)
                    # Listed when it is enough, once: later the whole room need not be looked at.
                    if votes[place] == enough:
                        listed[count] = place
                        count += 1
    return count


@kernel
def _narrow(
    left: Int32s, right: Int32s, settings: Int64s, turn: int, corner: Float64s, size: int
) -> int:
    """Find the bins of shifts, as small as the tolerance, with most of the votes of larger ones.

    ``corner`` is where the two bins of ``size`` along each axis begin, of those that vote for a
    turn; it is moved to where the smaller ones begin, whose size is returned.
    """
    cosine, sine = _COSINES[turn], _COSINES[(turn + _TURN_BINS * 3 // 4) % _TURN_BINS]
    votes = np.empty((_MOST_BINS + 2) ** 2, np.int64)
    limit = _largest_difference(settings)
    while size > settings[0]:
        width = 2 * size
        size = max(settings[0], (width + _MOST_BINS - 1) // _MOST_BINS)
        side = width // size + 2
        votes[:] = 0
        for one in range(left.shape[0]):
            x = cosine * left[one, 0] - sine * left[one, 1] + corner[0]
            y = sine * left[one, 0] + cosine * left[one, 1] + corner[1]
            for other in range(right.shape[0]):
                wanted = _difference(left[one, 2], right[other, 2])
                nearest = (wanted + _TURN + _BIN_TURN // 2) // _BIN_TURN % _TURN_BINS
                over, down = right[other, 0] - x, right[other, 1] - y
                if nearest != turn or abs(wanted) > limit:
                    continue
                if 0.0 <= over < width and 0.0 <= down < width:
                    # A bin is left of, or above, the first two: a vote counts in two along an axis.
                    place = (int(down / size) + 1) * side + int(over / size) + 1
                    votes[place] += 1
                    votes[place - 1] += 1
                    votes[place - side] += 1
                    votes[place - side - 1] += 1
        peak = 0
        for place in range(side * side):
            if votes[place] > votes[peak]:
                peak = place
        corner[0] += (peak % side - 1) * size
        corner[1] += (peak // side - 1) * size
    return size


@kernel
def _match(
    left: Int32s,
    right: Int32s,
    pose: Float64s,
    settings: Int64s,
    slack: int,
    size: int,
    partners: Int64s,
    taken: Bools,
) -> int:
    """Give each left minutia, in its order, the nearest free right one within the tolerances.

    ``pose`` is the turn in units of direction, then the shift. Both tolerances are multiplied by
    ``slack``; above 1, at least that is tolerated by which the middle of bins may be wrong: the
    diagonal of two bins of shifts of that ``size``, and half a bin of turns besides the tolerance.
    ``partners`` become -1 where there is none.
    """
    cosine, sine = math.cos(_RADIANS * pose[0]), math.sin(_RADIANS * pose[0])
    reach = float(settings[0] * slack) ** 2
    allowed = max(0.5, float(settings[1] * slack))  # directions are rounded, a fitted turn is not
    if slack > 1:
        reach = max(reach, 2.0 * float(size) ** 2)
        allowed = max(allowed, float(settings[1] + _BIN_TURN // 2))
    half = float(_TURN // 2)
    taken[: right.shape[0]] = False
    matched = 0
    for one in range(left.shape[0]):
        x = cosine * left[one, 0] - sine * left[one, 1] + pose[1]
        y = sine * left[one, 0] + cosine * left[one, 1] + pose[2]
        partners[one] = -1
        nearest = reach
        for other in range(right.shape[0]):
            square = (right[other, 0] - x) ** 2 + (right[other, 1] - y) ** 2
            # At the border of the tolerance a first partner counts, and no later one.
            if square <= nearest and not taken[other]:
                turn = float(_difference(left[one, 2], right[other, 2])) - pose[0]
                if turn >= half:
                    turn -= 2.0 * half
                elif turn < -half:
                    turn += 2.0 * half
                if abs(turn) <= allowed and (square < nearest or partners[one] < 0):
                    nearest = square
                    partners[one] = other
        if partners[one] >= 0:
            taken[partners[one]] = True
            matched += 1
    return matched


@kernel
def _fit(left: Int32s, right: Int32s, partners: Int64s, pose: Float64s, most: int) -> None:
    """Lay the matched minutiae on each other by least squares (Kabsch 1976, in the plane).

    By a turn of ``most`` units of direction at most.
    """
    count = 0
    left_x, left_y, right_x, right_y = 0.0, 0.0, 0.0, 0.0
    for one in range(left.shape[0]):
        if partners[one] >= 0:
            count += 1
            left_x += left[one, 0]
            left_y += left[one, 1]
            right_x += right[partners[one], 0]
            right_y += right[partners[one], 1]
    left_x, left_y = left_x / count, left_y / count
    right_x, right_y = right_x / count, right_y / count
    along, across = 0.0, 0.0
    for one in range(left.shape[0]):
        if partners[one] >= 0:
            x, y = left[one, 0] - left_x, left[one, 1] - left_y
            u, v = right[partners[one], 0] - right_x, right[partners[one], 1] - right_y
            along += x * u + y * v
            across += x * v - y * u
    # The turn a lays x on u best where along cos a + across sin a is largest (Kabsch in the plane).
    angle = math.atan2(across, along) if along != 0.0 or across != 0.0 else _RADIANS * pose[0]
    # That is a wave with one crest: of the turns within a limit, its end next to it is the best.
    angle = min(max(angle, -_RADIANS * most), _RADIANS * most)
    cosine, sine = math.cos(angle), math.sin(angle)
    pose[0] = angle / _RADIANS
    pose[1] = right_x - cosine * left_x + sine * left_y
    pose[2] = right_y - sine * left_x - cosine * left_y


@kernel
def _best_match(
    left: Int32s,
    right: Int32s,
    settings: Int64s,
    votes: UInt16s,
    listed: Int64s,
    partners: Int64s,
    taken: Bools,
) -> int:
    """Return the most minutiae matched by the most voted poses, each fitted some rounds.

    The second half of ``partners`` has those of the best match.
    """
    kept = partners.size // 2
    side, bin_size = _bins_across(settings), _bin_size(settings)
    count = _vote(left, right, settings, votes, listed)
    pose, corner = np.empty(3), np.empty(2)
    # A tolerance of 0 would refuse all where the first fit is a little wrong: a degree until then.
    loose = settings.copy()
    loose[1] = max(settings[1], _TURN // 360)
    best = 0
    for _ in range(_PEAKS):
        most, peak = 0, -1
        for number in range(count):
            place = listed[number]
            if votes[place] > most or (votes[place] == most and place < peak):
                most, peak = votes[place], place
        if most == 0:
            break
        turn, row, column = peak // (side * side), peak // side % side, peak % side
        # Where bins are larger than the tolerance, smaller ones in them are tried as well. By wide
        # ones wrong couples of many minutiae match; a turn that lies between two bins of turns
        # spreads the votes of few minutiae over several of the small ones.
        for narrowed in range(2 if bin_size > settings[0] else 1):
            corner[0] = float((column - side // 2) * bin_size)
            corner[1] = float((row - side // 2) * bin_size)
            size = bin_size
            if narrowed == 1:
                size = _narrow(left, right, settings, turn, corner, bin_size)
            pose[0] = float(_difference(0, turn * _BIN_TURN))
            pose[1], pose[2] = corner[0] + size, corner[1] + size
            for repeat in range(_ROUNDS):
                # A bin is coarser than the tolerance; only what matches after a fit counts.
                slack = 2 if repeat == 0 else 1
                given = settings if repeat == _ROUNDS - 1 else loose
                matched = _match(left, right, pose, given, slack, size, partners, taken)
                if repeat > 0 and given[1] == settings[1] and matched > best:
                    best = matched
                    for one in range(left.shape[0]):
                        partners[kept + one] = partners[one]
                if matched < 2:
                    break
                _fit(left, right, partners, pose, settings[2])
        # The bins around a peak hold votes of the same pose: the second peak is to be another.
        for near in range(3 * 3 * 3):
            around = (turn + near // 9 - 1) % _TURN_BINS
            up, over = row + near // 3 % 3 - 1, column + near % 3 - 1
            if 0 <= up < side and 0 <= over < side:
                votes[(around * side + up) * side + over] = 0
    return best


@kernel
def matched_minutiae(
    minutiae: Int32s, offsets: Int64s, left: Int64s, right: Int64s, settings: Int64s
) -> Int64s:
    """Count the minutiae of left[i] that lie on minutiae of right[i] under the best pose found.

    Either order of a pair gives the same count, and equal prints that of all. One minutia always
    matches one, whatever they are, unless the turn is limited. ``minutiae`` is (m, 3): x, y,
    direction in [0, 23040); ``settings`` are the tolerance in units of length, that of direction,
    the largest turn between the prints, width and height of the plate.
    """
    middle_x, middle_y = settings[3] // 2, settings[4] // 2
    longest = 0
    for item in range(offsets.size - 1):
        longest = max(longest, offsets[item + 1] - offsets[item])
    votes = np.zeros(_TURN_BINS * _bins_across(settings) ** 2, np.uint16)
    listed = np.empty(votes.size, np.int64)
    partners = np.empty(2 * longest, np.int64)
    taken = np.empty(longest, np.bool_)
    centred = minutiae.copy()
    for place in range(minutiae.shape[0]):
        centred[place, 0] -= middle_x
        centred[place, 1] -= middle_y
    matched = np.zeros(left.size, np.int64)
    for pair in range(left.size):
        one = centred[offsets[left[pair]] : offsets[left[pair] + 1]]
        other = centred[offsets[right[pair]] : offsets[right[pair] + 1]]
        if one.shape[0] == 0 or other.shape[0] == 0:
            continue
        # Greedy matching is not symmetric: one order of a pair is chosen for both.
        if not _comes_first(one, other):
            one, other = other, one
        elif _comes_first(other, one):
            matched[pair] = one.shape[0]  # equal prints
            continue
        matched[pair] = _best_match(one, other, settings, votes, listed, partners, taken)
        if matched[pair] == 0 and _any_turn(one, other, _largest_difference(settings)):
            matched[pair] = 1
    return matched


@kernel
def couples_of(minutiae: Int32s, offsets: Int64s, settings: Int64s) -> Int64s:
    """Return for each minutia of the first of two prints its couple in the other, -1 for none.

    They are as many as ``matched_minutiae`` counts, which says what the arguments are.
    """
    centred = minutiae.copy()
    for place in range(minutiae.shape[0]):
        centred[place, 0] -= settings[3] // 2
        centred[place, 1] -= settings[4] // 2
    one, other = centred[offsets[0] : offsets[1]], centred[offsets[1] : offsets[2]]
    couples = np.full(one.shape[0], -1, np.int64)
    if one.shape[0] == 0 or other.shape[0] == 0:
        return couples
    swapped = not _comes_first(one, other)
    if not swapped and _comes_first(other, one):  # equal prints
        return np.arange(one.shape[0])
    if swapped:
        one, other = other, one
    longest = max(one.shape[0], other.shape[0])
    partners = np.full(2 * longest, -1, np.int64)
    votes = np.zeros(_TURN_BINS * _bins_across(settings) ** 2, np.uint16)
    listed, taken = np.empty(votes.size, np.int64), np.empty(longest, np.bool_)
    found = _best_match(one, other, settings, votes, listed, partners, taken)
    limit = _largest_difference(settings)
    for row in range(one.shape[0]):
        place = partners[longest + row] if found > 0 else -1
        if found == 0:
            for column in range(other.shape[0]):
                if abs(_difference(one[row, 2], other[column, 2])) <= limit:
                    place, found = column, -1
                    break
        if place >= 0 and swapped:
            couples[place] = row
        elif place >= 0:
            couples[row] = place
    return couples


@kernel
def _any_turn(left: Int32s, right: Int32s, limit: int) -> bool:
    """Whether the directions of any two minutiae differ by no more than the limit."""
    for one in range(left.shape[0]):
        for other in range(right.shape[0]):
            if abs(_difference(left[one, 2], right[other, 2])) <= limit:
                return True
    return False

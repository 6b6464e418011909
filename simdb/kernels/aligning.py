"""Rigid alignment of minutiae by votes for a turn and a shift (a Hough transform)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import inlined, kernel

_TURN = 360 * 64  # units of direction in a full turn
_RADIANS = 2.0 * math.pi / _TURN
_TURN_BINS = 32
_BIN_TURN = _TURN // _TURN_BINS  # 11.25 degrees
_COSINES = np.cos(np.arange(_TURN_BINS) * (2.0 * math.pi / _TURN_BINS))
_MOST_BINS = 60  # of shifts as long as the plate: no small tolerance takes all memory
_MOST_VOTES = 2**16 - 1
_PEAKS = 2  # most voted bins that are tried
_ROUNDS = 3  # of matching and fitting for each


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
def _bin_size(settings: npt.NDArray[np.int64]) -> int:
    """Return the side of a bin of shifts: the tolerance, unless there would be too many."""
    return int(max(settings[0], max(settings[3], settings[4]) // _MOST_BINS))


@kernel
def _comes_first(left: npt.NDArray[np.int32], right: npt.NDArray[np.int32]) -> bool:
    """Return whether a print has fewer minutiae, or as many and smaller ones, or the same."""
    if left.shape[0] != right.shape[0]:
        return bool(left.shape[0] < right.shape[0])
    for row in range(left.shape[0]):
        for column in range(3):
            if left[row, column] != right[row, column]:
                return bool(left[row, column] < right[row, column])
    return True


@kernel
def _vote(
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    settings: npt.NDArray[np.int64],
    votes: npt.NDArray[np.uint16],
    listed: npt.NDArray[np.int64],
) -> int:
    """Let every two minutiae vote for the turns and shifts that lay the one on the other.

    A vote counts in the nearest bin of turns and, since their bins overlap by half, in two bins of
    shifts along each axis.

    Args:
        left, right: int32 (n, 3), x and y from the middle of the plate.
        settings: see ``matched_minutiae``.
        votes: uint16 (turns, shifts, shifts), output.
        listed: output, the flat places with votes enough to be tried; room for all.

    Returns:
        How many are listed.
    """
    scale, limit, side = 1.0 / _bin_size(settings), settings[2], votes.shape[1]
    enough = min(3, max(1, left.shape[0] // 4))
    flat = votes.reshape(-1)
    flat[:] = 0
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
            column = int(scale * right[other, 0] + turned[turn, 0])
            row = int(scale * right[other, 1] + turned[turn, 1])
            if 0 < row < side and 0 < column < side:
                corner = (turn * side + row) * side + column
                for place in (corner, corner - 1, corner - side, corner - side - 1):
                    if flat[place] == _MOST_VOTES:
                        continue
                    flat[place] += np.uint16(1)
                    if flat[place] == enough:
                        listed[count] = place
                        count += 1
    return count


@kernel
def _match(
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    pose: npt.NDArray[np.float64],
    settings: npt.NDArray[np.int64],
    slack: int,
    partners: npt.NDArray[np.int64],
    taken: npt.NDArray[np.bool_],
) -> int:
    """Give each left minutia, in its order, the nearest free right one within the tolerances.

    Args:
        left, right: int32 (n, 3).
        pose: turn in units of direction, then the shift.
        settings: see ``matched_minutiae``.
        slack: by which both tolerances are multiplied; above 1, a bin of shifts is tolerated.
        partners: int64, output for each left minutia; -1 without one.
        taken: scratch for each right minutia.

    Returns:
        How many have a partner.
    """
    cosine, sine = math.cos(_RADIANS * pose[0]), math.sin(_RADIANS * pose[0])
    reach = float(settings[0] if slack == 1 else max(settings[0] * slack, _bin_size(settings))) ** 2
    allowed = float(settings[1] * slack)
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
def _fit(
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    partners: npt.NDArray[np.int64],
    pose: npt.NDArray[np.float64],
) -> None:
    """Lay the matched minutiae on each other by least squares (Kabsch 1976, in the plane)."""
    count = 0
    left_x, left_y, right_x, right_y = 0.0, 0.0, 0.0, 0.0
    for one in range(left.shape[0]):
        if partners[one] >= 0:
            count += 1
            left_x += left[one, 0]
            left_y += left[one, 1]
            right_x += right[partners[one], 0]
            right_y += right[partners[one], 1]
    left_x, left_y, right_x, right_y = (
        left_x / count,
        left_y / count,
        right_x / count,
        right_y / count,
    )
    along, across = 0.0, 0.0
    for one in range(left.shape[0]):
        if partners[one] >= 0:
            x, y = left[one, 0] - left_x, left[one, 1] - left_y
            u, v = right[partners[one], 0] - right_x, right[partners[one], 1] - right_y
            along += x * u + y * v
            across += x * v - y * u
    angle = math.atan2(across, along) if along != 0.0 or across != 0.0 else _RADIANS * pose[0]
    cosine, sine = math.cos(angle), math.sin(angle)
    pose[0] = angle / _RADIANS
    pose[1] = right_x - cosine * left_x + sine * left_y
    pose[2] = right_y - sine * left_x - cosine * left_y


@kernel
def _best_match(
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    settings: npt.NDArray[np.int64],
    votes: npt.NDArray[np.uint16],
    listed: npt.NDArray[np.int64],
    partners: npt.NDArray[np.int64],
    taken: npt.NDArray[np.bool_],
) -> int:
    """Return the most minutiae matched by the most voted poses, each fitted some rounds."""
    side, bin_size = votes.shape[1], _bin_size(settings)
    flat = votes.reshape(-1)
    count = _vote(left, right, settings, votes, listed)
    pose = np.empty(3)
    best = 0
    for _ in range(_PEAKS):
        most, peak = 0, -1
        for number in range(count):
            place = listed[number]
            if flat[place] > most or (flat[place] == most and place < peak):
                most, peak = flat[place], place
        if most == 0:
            break
        turn, row, column = peak // (side * side), peak // side % side, peak % side
        pose[0] = float(_difference(0, turn * _BIN_TURN))
        pose[1] = float((column + 1 - side // 2) * bin_size)
        pose[2] = float((row + 1 - side // 2) * bin_size)
        for repeat in range(_ROUNDS):
            slack = 2 if repeat == 0 else 1
            matched = _match(left, right, pose, settings, slack, partners, taken)
            if repeat > 0:
                best = max(best, matched)
            if matched < 2:
                break
            _fit(left, right, partners, pose)
            limit = settings[2] + settings[1]
            if abs(pose[0]) > limit:
                break
        for near in range(3 * 3 * 3):
            around = (turn + near // 9 - 1) % _TURN_BINS
            up, over = row + near // 3 % 3 - 1, column + near % 3 - 1
            if 0 <= up < side and 0 <= over < side:
                votes[around, up, over] = 0
    return best


@kernel
def matched_minutiae(
    minutiae: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
    settings: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Count the minutiae of left[i] that lie on minutiae of right[i] under the best pose found.

    Either order of a pair gives the same count, and equal prints that of all. One minutia always
    matches one, whatever they are, unless the turn is limited.

    Args:
        minutiae: int32 (m, 3): x, y, direction in [0, 23040).
        offsets: int64 (n + 1,).
        left, right: int64 (m,).
        settings: tolerance in units of length, of direction, largest turn between the prints,
            width and height of the plate.

    Returns:
        int64 (m,), at most the minutiae of the smaller print.
    """
    bin_size = _bin_size(settings)
    side = 2 * int(max(settings[3], settings[4]) // bin_size + 2)
    middle_x, middle_y = settings[3] // 2, settings[4] // 2
    longest = 0
    for item in range(offsets.size - 1):
        longest = max(longest, offsets[item + 1] - offsets[item])
    votes = np.zeros((_TURN_BINS, side, side), np.uint16)
    listed = np.empty(votes.size, np.int64)
    partners = np.empty(longest, np.int64)
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
        if not _comes_first(one, other):
            one, other = other, one
        elif _comes_first(other, one):
            matched[pair] = one.shape[0]  # equal prints
            continue
        matched[pair] = _best_match(one, other, settings, votes, listed, partners, taken)
        if matched[pair] == 0 and _any_turn(one, other, settings[2]):
            matched[pair] = 1
    return matched


@kernel
def _any_turn(left: npt.NDArray[np.int32], right: npt.NDArray[np.int32], limit: int) -> bool:
    """Return whether any two minutiae differ by no more than the largest turn."""
    for one in range(left.shape[0]):
        for other in range(right.shape[0]):
            if abs(_difference(left[one, 2], right[other, 2])) <= limit:
                return True
    return False

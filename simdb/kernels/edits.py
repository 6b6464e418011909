"""Edit distances of two strings, in either of two ways; which is quicker, the limit tells.

Along diagonals: of each the furthest place that so many edits reach is kept (Ukkonen, Information
and Control 64, 1985), so that few edits cost little however long the strings are. With
transpositions the furthest place suffices as well: where two neighbours could have been transposed
at an earlier place of a diagonal and equal characters were passed over instead, these go as far.

By bits: a column of the table of distances is two bits a row, whether the next one is one more or
one less, so that a word has 64 rows (Myers, JACM 46, 1999; with transpositions and for any length,
Hyyro, Nordic Journal of Computing 10, 2003). What that costs does not depend on the edits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Int64s, UInt32s, UInt64s
from simdb.kernels.compiler import inlined, kernel

_NOTHING = np.uint64(0)
_ONE = np.uint64(1)
_ALL = ~_NOTHING
_HIGHEST = np.uint64(63)
_WORD_BITS = 64
_UNREACHED = np.int64(-2)
_BESIDE = 5  # places of a row of diagonals beside two for each edit
_MOST_WORDS = 2**21  # of the places of characters: 16 MiB
_SPREAD = np.uint32(0x9E3779B1)
_WORTH_BITS = 2  # words looked at for what a diagonal takes, about


class Places(NamedTuple):
    """Where each character of a string is: a row of bits, which a table finds.

    The row of a character that the string does not have is the first, of no bits. There are no rows
    of a string that would take too much room.
    """

    characters: UInt32s  # in slots, of which there are a power of two
    rows: Int64s  # of the slots; 0 of those that are free
    bits: UInt64s  # (rows, words)
    length: int  # of the string


@inlined
def _slot_of(characters: UInt32s, rows: Int64s, character: np.uint32) -> int:
    """Find the slot of a character, or the free one where it would be."""
    last = characters.size - 1
    slot = np.int64((character * _SPREAD) >> np.uint32(7)) & last
    while rows[slot] != 0 and characters[slot] != character:
        slot = (slot + 1) & last
    return int(slot)


@kernel
def places_of(string: UInt32s) -> Places:
    """Note where each character of a string is."""
    slots = np.int64(16)
    while slots < 2 * string.size:
        slots *= 2
    characters = np.zeros(slots, np.uint32)
    rows = np.zeros(slots, np.int64)
    count = np.int64(0)
    for character in string:
        slot = _slot_of(characters, rows, character)
        if rows[slot] == 0:
            count += 1
            characters[slot] = character
            rows[slot] = count
    words = (string.size + _WORD_BITS - 1) // _WORD_BITS
    if (count + 1) * words > _MOST_WORDS:
        return Places(characters, rows, np.zeros((0, words), np.uint64), string.size)
    bits = np.zeros((count + 1, words), np.uint64)
    for place in range(string.size):
        row = rows[_slot_of(characters, rows, string[place])]
        bits[row, place // _WORD_BITS] |= _ONE << np.uint64(place % _WORD_BITS)
    return Places(characters, rows, bits, string.size)


@inlined
def are_bits_quicker(one: int, other: int, limit: int) -> bool:
    """Whether bits are quicker than diagonals, for strings of such lengths and a limit."""
    return bool(limit * limit > _WORTH_BITS * other * (one // _WORD_BITS + 1))


@inlined
def _in_word(places: Places, other: UInt32s, limit: int, transposes: bool) -> int:
    """Compute a distance of a string of 1 to 64 characters; see ``distance_by_bits``."""
    last = _ONE << np.uint64(places.length - 1)
    more, less = _ALL, _NOTHING  # rows that are one more, and one less, than the row before
    equal_before = _NOTHING
    diagonal = _ALL  # rows of which the next one on the diagonal is no more
    edits = np.int64(places.length)
    for at in range(other.size):
        equal = places.bits[places.rows[_slot_of(places.characters, places.rows, other[at])], 0]
        swapped = _NOTHING
        if transposes:
            swapped = ((~diagonal & equal) << _ONE) & equal_before
            equal_before = equal
        diagonal = (((equal & more) + more) ^ more) | equal | less | swapped
        risen, fallen = less | ~(diagonal | more), diagonal & more
        if risen & last:
            edits += 1
        if fallen & last:
            edits -= 1
        if edits - (other.size - at - 1) > limit:
            return limit + 1
        risen = (risen << _ONE) | _ONE
        fallen = fallen << _ONE
        more, less = fallen | ~(diagonal | risen), risen & diagonal
    return int(edits) if edits <= limit else limit + 1


@kernel
def distance_by_bits(places: Places, other: UInt32s, limit: int, transposes: bool) -> int:
    """Compute the distance of two strings, limit + 1 if it is more than that.

    ``places`` are those of the one, of which there are rows.
    """
    words = places.bits.shape[1]
    if words == 0:
        return min(other.size, limit + 1)
    if words == 1:
        return _in_word(places, other, limit, transposes)
    last = _ONE << np.uint64((places.length - 1) % _WORD_BITS)
    state = np.zeros((4, words), np.uint64)
    more, less, diagonals, equal_before = state[0], state[1], state[2], state[3]
    more[:] = _ALL
    diagonals[:] = _ALL
    edits = np.int64(places.length)
    for at in range(other.size):
        row = places.rows[_slot_of(places.characters, places.rows, other[at])]
        risen_before, fallen_before, swapped_before = _ONE, _NOTHING, _NOTHING
        for word in range(words):
            equal, up, down = places.bits[row, word], more[word], less[word]
            swapped = _NOTHING
            if transposes:
                fits = ~diagonals[word] & equal
                swapped = ((fits << _ONE) | swapped_before) & equal_before[word]
                swapped_before = fits >> _HIGHEST
                equal_before[word] = equal
            carried = equal | fallen_before
            diagonal = (((carried & up) + up) ^ up) | carried | down | swapped
            diagonals[word] = diagonal
            risen, fallen = down | ~(diagonal | up), diagonal & up
            if word == words - 1:
                if risen & last:
                    edits += 1
                if fallen & last:
                    edits -= 1
            risen, risen_before = (risen << _ONE) | risen_before, risen >> _HIGHEST
            fallen, fallen_before = (fallen << _ONE) | fallen_before, fallen >> _HIGHEST
            more[word], less[word] = fallen | ~(diagonal | risen), risen & diagonal
        if edits - (other.size - at - 1) > limit:
            return limit + 1
    return int(edits) if edits <= limit else limit + 1


@inlined
def room_for(limit: int, room: Int64s) -> Int64s:
    """Return room for distances within a limit: what there is, if that is enough."""
    wanted = 2 * (2 * limit + _BESIDE)
    return room if wanted <= room.size else np.empty(2 * wanted, np.int64)


@kernel
def distance_along_diagonals(
    left: UInt32s, right: UInt32s, limit: int, transposes: bool, reached: Int64s
) -> int:
    """Compute the distance of two strings, limit + 1 if it is more than that.

    ``reached`` is room for two rows of 2 * limit + 5 places, as ``room_for`` makes it.
    """
    rows, columns = left.size, right.size
    goal = columns - rows
    if abs(goal) > limit:
        return limit + 1
    width = 2 * limit + _BESIDE
    before, now = reached[:width], reached[width : 2 * width]
    before[:] = _UNREACHED
    now[:] = _UNREACHED
    origin = limit + 2
    place = np.int64(0)
    while place < rows and place < columns and left[place] == right[place]:
        place += 1
    if goal == 0 and place == rows:
        return 0
    before[origin] = place
    for edits in range(1, limit + 1):
        low, high = max(-edits, goal - limit + edits), min(edits, goal + limit - edits)
        for diagonal in range(low, high + 1):
            at = origin + diagonal
            place = max(before[at] + 1, before[at - 1], before[at + 1] + 1)
            if transposes and before[at] >= 0:
                row, column = before[at], before[at] + diagonal
                if (
                    row + 1 < rows
                    and column + 1 < columns
                    and left[row] == right[column + 1]
                    and left[row + 1] == right[column]
                ):
                    place = max(place, row + 2)
            place = min(place, rows, columns - diagonal)
            if place < 0:
                now[at] = _UNREACHED
                continue
            while (
                place < rows
                and place + diagonal < columns
                and left[place] == right[place + diagonal]
            ):
                place += 1
            if diagonal == goal and place == rows:
                return edits
            now[at] = place
        before, now = now, before
    return limit + 1

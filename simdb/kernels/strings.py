"""Strings of code points: which of them are near, and the segments by which these are found.

Near strings share a segment (PassJoin: Li, Deng, Wang and Feng, VLDB 2011; see ``lsh.segments``
for why). A string has one key for each of its segments, or one for its length where it is too short
for them, or needs too many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Int64s, UInt8s, UInt32s, UInt64s
from simdb.kernels.columns import replace_greatest
from simdb.kernels.compiler import inlined, kernel, set_bit_count
from simdb.kernels.edits import (
    are_bits_quicker,
    distance_along_diagonals,
    distance_by_bits,
    places_of,
    room_for,
)
from simdb.kernels.hashes import mixed, multiply_add, reduced
from simdb.kernels.shingles import NARROW, _prepare

MOST_LENGTH = 2**31  # characters of a string and more, so that products stay within 64 bits
LEVENSHTEIN, ALIGNMENT, UNVERIFIED = 0, 1, 2  # the last one leaves the distance to the caller

_NOTHING = np.uint64(0)
_ONE = np.uint64(1)
_CLASSES = np.uint32(31)  # of characters, less one
_WHOLE = -1  # in the place of the number of a segment
_EXACT_LENGTHS = 64  # below these a key is of one length
_FIRST_LIMIT = 4  # edits first tried where no limit is given
_PASSED = 1_024  # strings whose bags fit that are compared in one go


class Strings(NamedTuple):
    """Strings one after the other, and the bag of each.

    A bag has two bits for each of 32 classes of characters: that there is one, that there are two.
    An edit takes at most one bit away and adds at most one; to transpose changes none.
    """

    characters: UInt32s
    offsets: Int64s
    bags: UInt64s


class Limits(NamedTuple):
    """How many edits strings may be apart, and into how many segments they are cut.

    Two strings, the longer of so many characters, may be (``edits`` + ``numerator`` * characters)
    // ``denominator`` edits apart. ``gap`` characters are left out between two segments.
    """

    edits: int
    numerator: int
    denominator: int
    most_segments: int
    gap: int


class Entries(NamedTuple):
    """The keys of strings, rising, with the string of each and its bag.

    ``starts`` has, of each value of the first bits, where its keys begin: 64 - ``shift`` bits.
    ``lengths`` are those of the strings, ascending, each once.
    """

    keys: UInt64s
    rows: Int64s
    bags: UInt64s
    starts: Int64s
    shift: int
    lengths: Int64s


# -- strings --------------------------------------------------------------------------------------


@kernel
def gathered(
    narrow: UInt8s, wide: UInt32s, spans: Int64s, treatment: int, classes: UInt8s
) -> tuple[UInt32s, Int64s, UInt64s]:
    """Bring texts, as ``shingles.decoded`` has them, into the form in which they are compared.

    Returns:
        characters and offsets of the strings, and their bags.
    """
    texts = spans.shape[0]
    total = np.int64(0)
    for text in range(texts):
        total += spans[text, 2] - spans[text, 1]
    characters = np.empty(total, np.uint32)
    offsets = np.zeros(texts + 1, np.int64)
    bags = np.empty(texts, np.uint64)
    used = np.int64(0)
    for text in range(texts):
        start, stop = spans[text, 1], spans[text, 2]
        if spans[text, 0] == NARROW:
            length = _prepare(narrow[start:stop], treatment, classes, characters[used:])
        else:
            length = _prepare(wide[start:stop], treatment, classes, characters[used:])
        bags[text] = _bag(characters[used : used + length])
        used += length
        offsets[text + 1] = used
    return characters[:used].copy(), offsets, bags


@kernel
def _bag(string: UInt32s) -> np.uint64:
    once = np.uint64(0)
    twice = np.uint64(0)
    for character in string:
        bit = _ONE << np.uint64(character & _CLASSES)
        twice |= once & bit
        once |= bit
    return once | (twice << np.uint64(32))


@inlined
def _may_be_near(bag: np.uint64, other: np.uint64, limit: int) -> bool:
    """Whether bags of strings so many edits apart can be these."""
    return bool(set_bit_count(bag & ~other) <= limit and set_bit_count(other & ~bag) <= limit)


@inlined
def _limit_of(longer: int, limits: Limits) -> int:
    """How many edits apart two strings may be, of which the longer has so many characters."""
    return (limits.edits + limits.numerator * longer) // limits.denominator


@inlined
def _longest_of(length: int, limits: Limits) -> int:
    """How long a string can be that is near enough to one of a length."""
    if limits.numerator == 0:
        return length + limits.edits
    longest = length * limits.denominator // (limits.denominator - limits.numerator)
    return min(longest, MOST_LENGTH)


# -- comparisons ---------------------------------------------------------------------------------


@kernel
def compare_rows(
    ones: Strings, others: Strings, left: Int64s, right: Int64s, measure: int
) -> tuple[Int64s, Int64s]:
    """Compare string ``left[i]`` of the ones with ``right[i]`` of the others.

    Returns:
        their distances; the lengths of the longer of each two.
    """
    distances = np.empty(left.size, np.int64)
    longer = np.empty(left.size, np.int64)
    room = room_for(64, np.empty(0, np.int64))
    for pair in range(left.size):
        row, other = left[pair], right[pair]
        one = ones.characters[ones.offsets[row] : ones.offsets[row + 1]]
        two = others.characters[others.offsets[other] : others.offsets[other + 1]]
        most = max(one.size, two.size)
        limit = max(_FIRST_LIMIT, abs(one.size - two.size))
        while True:
            limit = min(limit, most)
            if are_bits_quicker(min(one.size, two.size), most, limit):
                shorter, longer_one = (one, two) if one.size < two.size else (two, one)
                places = places_of(shorter)
                if places.bits.shape[0]:
                    distance = distance_by_bits(places, longer_one, most, measure == ALIGNMENT)
                    break
            room = room_for(limit, room)
            distance = distance_along_diagonals(one, two, limit, measure == ALIGNMENT, room)
            if distance <= limit:
                break
            limit *= 2
        distances[pair] = distance
        longer[pair] = most
    return distances, longer


@kernel
def scan(
    probe: Strings, strings: Strings, limits: Limits, measure: int, most: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Find the strings that are near enough to the one of ``probe``.

    ``most`` is how many of the nearest are wanted, and what is as near as the last of them; of what
    is farther some are left out then. All are wanted if it is 0.

    Returns:
        their rows, rising; the distances; the lengths of the longer of each two.
    """
    count = strings.bags.size
    rows = np.empty(count, np.int64)
    distances = np.empty(count, np.int64)
    longer = np.empty(count, np.int64)
    own, bag = probe.characters, probe.bags[0]
    characters, offsets, bags = strings
    room = room_for(8, np.empty(0, np.int64))
    places = places_of(own)
    nearest = np.full(most, np.inf)  # how far away so many are, the greatest first: a heap
    is_share = limits.numerator > 0  # of the longer one's length
    found = 0
    for row in range(count):
        start, stop = offsets[row], offsets[row + 1]
        length = max(stop - start, own.size)
        limit = min(length, _limit_of(length, limits))
        scale = max(length, 1) if is_share else np.int64(1)
        if most:  # a quotient may be rounded: one more is tried, and what it says decides
            limit = np.int64(min(np.float64(limit), nearest[0] * scale + is_share))
        if abs(stop - start - own.size) > limit:
            continue
        if not _may_be_near(bag, bags[row], limit):
            continue
        distance = np.int64(0)
        if measure != UNVERIFIED:
            other = characters[start:stop]
            if places.bits.shape[0] and are_bits_quicker(own.size, other.size, limit):
                distance = distance_by_bits(places, other, limit, measure == ALIGNMENT)
            else:
                room = room_for(limit, room)
                distance = distance_along_diagonals(own, other, limit, measure == ALIGNMENT, room)
            if distance > limit:
                continue
        if most:
            value = np.float64(distance) / scale
            if value > nearest[0]:
                continue
            if value < nearest[0]:
                replace_greatest(nearest, value)
        rows[found], distances[found], longer[found] = row, distance, length
        found += 1
    return rows[:found].copy(), distances[:found].copy(), longer[:found].copy()


@kernel
def near_bags(
    bags: UInt64s, lengths: UInt64s, other_bags: UInt64s, other_lengths: UInt64s, limits: Limits
) -> UInt8s:
    """Tell by the bags and lengths of two strings each whether they can be near enough: 1 or 0."""
    near = np.zeros(bags.size, np.uint8)
    for pair in range(bags.size):
        length, other = np.int64(lengths[pair]), np.int64(other_lengths[pair])
        limit = _limit_of(max(length, other), limits)
        if abs(length - other) <= limit and _may_be_near(bags[pair], other_bags[pair], limit):
            near[pair] = 1
    return near


# -- segments -------------------------------------------------------------------------------------


@inlined
def _segments_of(length: int, limits: Limits) -> int:
    """Count the segments of a string: one more than edits from any that is near; 0 for none."""
    segments = _limit_of(_longest_of(length, limits), limits) + 1
    if segments > limits.most_segments or length < segments + limits.gap * (segments - 1):
        return 0
    return segments


@inlined
def _segment(number: int, segments: int, length: int, gap: int) -> tuple[int, int]:
    """Return where a segment of a string begins, and how many characters it has."""
    size, more = divmod(length - gap * (segments - 1), segments)
    longer = number - (segments - more)  # the last ones have one character more
    return number * (size + gap) + max(0, longer), size + (1 if longer >= 0 else 0)


@inlined
def _class_of(length: int) -> int:
    """Return the class of a length: itself where it is short, else it to four binary digits."""
    kept = length
    halved = 0
    while kept >= _EXACT_LENGTHS:
        kept >>= 1
        halved += 1
    if halved:
        kept >>= 2
    return kept + 128 * halved


@inlined
def _after_class_of(length: int) -> int:
    """Return the least length of the class after that of a length."""
    shift = 0
    while length >> shift >= _EXACT_LENGTHS:
        shift += 1
    shift += 2 if shift else 0
    return ((length >> shift) + 1) << shift


@inlined
def _key(
    characters: UInt32s, start: int, stop: int, length: int, number: int, secrets: UInt64s
) -> np.uint64:
    """Hash a segment, its number and the length of the string; never 0."""
    state = _NOTHING
    for place in range(start, stop):
        state = multiply_add(state, secrets[0], np.uint64(characters[place]) + _ONE)
    state = multiply_add(state, secrets[0], np.uint64(length) + _ONE)
    state = multiply_add(state, secrets[0], np.uint64(number + 2))
    return max(_ONE, mixed(reduced(state), secrets[1]))


@kernel
def segment_keys(strings: Strings, limits: Limits, secrets: UInt64s) -> UInt64s:
    """Return the keys of each string, (n, most_segments), 0 where it has fewer."""
    count = strings.bags.size
    keys = np.zeros((count, limits.most_segments), np.uint64)
    for row in range(count):
        begin = strings.offsets[row]
        length = strings.offsets[row + 1] - begin
        segments = _segments_of(length, limits)
        if segments == 0:
            nothing = np.int64(0)
            keys[row, 0] = _key(
                strings.characters, nothing, nothing, _class_of(length), _WHOLE, secrets
            )
        for number in range(segments):
            start, size = _segment(number, segments, length, limits.gap)
            keys[row, number] = _key(
                strings.characters,
                begin + start,
                begin + start + size,
                length,
                number,
                secrets,
            )
    return keys


@inlined
def _window(
    number: int, start: int, size: int, limit: int, length: int, other: int
) -> tuple[int, int]:
    """Return where in another string a segment can begin, the first place and one past the last.

    ``number`` edits at most before it, ``limit`` - ``number`` after it.
    """
    right = limit - number
    first = max(0, start - number, start + other - length - right)
    last = min(other - size, start + number, start + other - length + right)
    return first, last + 1


@kernel
def probe_keys(strings: Strings, limits: Limits, secrets: UInt64s) -> tuple[UInt64s, Int64s]:
    """Return, of each string, the keys under which strings near to it have one at least.

    Returns:
        the keys, one string after the other; where those of each begin, and the last ones end.
    """
    count = strings.bags.size
    keys = np.empty(16 * count + 16, np.uint64)
    offsets = np.zeros(count + 1, np.int64)
    used = 0
    nothing = np.int64(0)
    for row in range(count):
        begin = strings.offsets[row]
        other = strings.offsets[row + 1] - begin
        length = max(nothing, other - _limit_of(other, limits))
        longest = _longest_of(other, limits)
        while length <= longest:
            segments = _segments_of(length, limits)
            limit = _limit_of(max(length, other), limits)
            if segments == 0:
                if used == keys.size:
                    keys = np.concatenate((keys, np.empty_like(keys)))
                keys[used] = _key(
                    strings.characters, nothing, nothing, _class_of(length), _WHOLE, secrets
                )
                used += 1
                # A wide bound allows billions of lengths. Where those of a class are several, one
                # without segments needs too many of them, and so do all that are longer.
                length = _after_class_of(length)
                continue
            for number in range(min(segments, limit + 1)):
                start, size = _segment(number, segments, length, limits.gap)
                first, end = _window(number, start, size, limit, length, other)
                for place in range(first, end):
                    if used == keys.size:
                        keys = np.concatenate((keys, np.empty_like(keys)))
                    keys[used] = _key(
                        strings.characters,
                        begin + place,
                        begin + place + size,
                        length,
                        number,
                        secrets,
                    )
                    used += 1
            length += 1
        offsets[row + 1] = used
    return keys[:used].copy(), offsets


# -- joins ----------------------------------------------------------------------------------------


@inlined
def _are_equal(one: UInt32s, start: int, other: UInt32s, place: int, size: int) -> bool:
    same = 0
    while same < size and one[start + same] == other[place + same]:
        same += 1
    return same == size


@kernel
def _is_first(
    stored: UInt32s, probe: UInt32s, number: int, place: int, segments: int, limit: int, gap: int
) -> bool:
    """Whether a segment and place are the first in which a stored string and a probe agree."""
    for earlier in range(number + 1):
        start, size = _segment(earlier, segments, stored.size, gap)
        first, end = _window(earlier, start, size, limit, stored.size, probe.size)
        for other in range(first, end):
            if _are_equal(stored, start, probe, other, size):
                return earlier == number and other == place
    return False


@kernel
def _passing(
    entries: Entries, begin: int, end: int, bag: np.uint64, limit: int, passed: Int64s
) -> tuple[int, int]:
    """Write down the strings of entries, from one to another, whose bags fit, as many as fit in.

    Returns:
        how many were written, and where to go on.
    """
    rows, bags = entries.rows, entries.bags
    count = 0
    at = begin
    while at < end and count < passed.size:
        if _may_be_near(bag, bags[at], limit):
            passed[count] = rows[at]
            count += 1
        at += 1
    return count, at


@kernel
def _entries_of(entries: Entries, key: np.uint64, first_row: int) -> tuple[int, int]:
    """Find the entries of a key whose strings are before a row."""
    keys, rows, starts = entries.keys, entries.rows, entries.starts
    part = np.int64(key >> np.uint64(entries.shift))
    begin, end = starts[part], starts[part + 1]
    while begin < end and keys[begin] < key:
        begin += 1
    at = begin
    while at < end and keys[at] == key and rows[at] < first_row:
        at += 1
    return begin, at


@kernel
def near_pairs(
    probes: Strings,
    strings: Strings,
    entries: Entries,
    limits: Limits,
    secrets: UInt64s,
    measure: int,
    is_own: bool,
    most: int,
    state: Int64s,
    left: Int64s,
    right: Int64s,
    distances: Int64s,
) -> int:
    """Find near pairs of probes, from row ``state[0]`` to ``state[1]``, and strings, each once.

    Of strings with shorter ones, and those of their length before them, if ``is_own``. Stops at
    the first probe whose pairs do not fit into what is left of the room, and after the one with
    which so many steps are done, of entries and of characters, however few are found; ``state[0]``
    is then the next row, and how many entries were looked at is added to ``state[2]``.

    Returns:
        how many were written: rows of probes on the left, of strings on the right.
    """
    written = 0
    looked_at = steps = 0
    nothing = np.int64(0)
    room = room_for(8, np.empty(0, np.int64))
    places, noted = places_of(probes.characters[:0]), np.int64(-1)
    passed = np.empty(_PASSED, np.int64)
    characters, offsets, _ = strings
    lengths = entries.lengths  # a wide bound allows far more than those that are there
    while state[0] < state[1] and steps < most:
        row = state[0]
        begin, stop = probes.offsets[row], probes.offsets[row + 1]
        probe, bag = probes.characters[begin:stop], probes.bags[row]
        other = stop - begin
        before = written
        seen = np.int64(-1)
        longest = other if is_own else _longest_of(other, limits)
        shortest = other - _limit_of(other, limits)
        for at_length in range(np.searchsorted(lengths, shortest), lengths.size):
            length = lengths[at_length]
            if length > longest:
                break
            segments = _segments_of(length, limits)
            limit = _limit_of(max(length, other), limits)
            turns = min(segments, limit + 1)
            whole = np.int64(-1)
            if segments == 0:
                whole = _class_of(length)
                if whole == seen:
                    continue
                seen = whole
                turns = 1
                limit = _limit_of(max(min(longest, lengths[-1]), other), limits)
            is_before = is_own and length == other and (segments > 0 or length < _EXACT_LENGTHS)
            first_row = row if is_before else offsets.size
            for number in range(turns):
                start, size, first, end = nothing, nothing, nothing, nothing + 1
                if segments:
                    start, size = _segment(number, segments, length, limits.gap)
                    first, end = _window(number, start, size, limit, length, other)
                for place in range(first, end):
                    if segments:
                        key = _key(probe, place, place + size, length, number, secrets)
                    else:
                        key = _key(probe, nothing, nothing, whole, _WHOLE, secrets)
                    at, past = _entries_of(entries, key, first_row)
                    looked_at += past - at
                    steps += past - at + size + 1
                    while at < past:
                        count, at = _passing(entries, at, past, bag, limit, passed)
                        for found in passed[:count]:
                            stored = characters[offsets[found] : offsets[found + 1]]
                            own_limit = _limit_of(max(stored.size, other), limits)
                            if abs(stored.size - other) > own_limit or (
                                is_own
                                and (stored.size > other or (stored.size == other and found >= row))
                            ):
                                continue
                            distance = np.int64(0)
                            if measure != UNVERIFIED:
                                own_limit = min(own_limit, max(stored.size, other))
                                quicker = are_bits_quicker(other, stored.size, own_limit)
                                if quicker and noted != row:
                                    places, noted = places_of(probe), row
                                if quicker and places.bits.shape[0]:
                                    steps += stored.size * places.bits.shape[1]
                                    distance = distance_by_bits(
                                        places, stored, own_limit, measure == ALIGNMENT
                                    )
                                else:
                                    steps += own_limit * own_limit + stored.size
                                    room = room_for(own_limit, room)
                                    distance = distance_along_diagonals(
                                        stored, probe, own_limit, measure == ALIGNMENT, room
                                    )
                                if distance > own_limit:
                                    continue
                            if segments and (
                                stored.size != length
                                or not _is_first(
                                    stored, probe, number, place, segments, limit, limits.gap
                                )
                            ):
                                continue
                            if written == left.size:
                                state[2] += looked_at
                                return before
                            left[written] = row
                            right[written] = found
                            distances[written] = distance
                            written += 1
        state[0] += 1
    state[2] += looked_at
    return written

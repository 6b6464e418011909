"""Markup removed from texts in UTF-8: what a reader of a page of HTML sees.

Read as a browser does where the text is HTML, and left as it is where it is none: what has no end
is text. Every byte is looked at a few times at most, whatever the text.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Int64s, UInt8s, UInt64s
from simdb.kernels.compiler import inlined, kernel

NONE, AFTER_QUOTES = -1, -2  # no end of a tag; none, but quotes were passed

_BLANK = np.uint8(32)
_BANG, _DOUBLE, _SINGLE, _DASH = np.uint8(33), np.uint8(34), np.uint8(39), np.uint8(45)
_SLASH, _LESS, _EQUALS, _GREATER = np.uint8(47), np.uint8(60), np.uint8(61), np.uint8(62)
_QUESTION = np.uint8(63)
_NO_QUOTE = np.uint8(0)
_CASE = np.uint8(32)
_BYTE = np.uint64(8)


@inlined
def _is_letter(byte: np.uint8) -> bool:
    return bool(np.uint8(97) <= (byte | _CASE) <= np.uint8(122))


@inlined
def _is_digit(byte: np.uint8) -> bool:
    return bool(np.uint8(48) <= byte <= np.uint8(57))


@inlined
def _name(data: UInt8s, place: int) -> np.uint64:
    """Return the name that begins at a place, as the number that its letters are; 0 if longer."""
    name = np.uint64(0)
    length = 0
    while place < data.size and (_is_letter(data[place]) or _is_digit(data[place])):
        name = np.uint64((name << _BYTE) | np.uint64(data[place] | _CASE))
        length += 1
        place += 1
    return name if length <= 8 else np.uint64(0)


@inlined
def _place_of(name: np.uint64, names: UInt64s) -> int:
    """Return which of some names it is, -1 for none."""
    found = -1
    for place in range(names.size):
        if names[place] == name:
            found = place
    return found


@kernel
def _end_of_tag(data: UInt8s, place: int, quotes: bool) -> int:
    """Return where a tag ends, behind its >; NONE if another begins before, or the text ends."""
    quote = _NO_QUOTE
    value = False  # whether a value is to begin
    passed = False
    while place < data.size:
        byte = data[place]
        if quote != _NO_QUOTE:
            if byte == quote:
                quote = _NO_QUOTE
        elif byte == _GREATER:
            return place + 1
        elif byte == _LESS:
            break
        elif quotes and value and byte in (_DOUBLE, _SINGLE):
            quote = byte
            passed = True
        value = byte == _EQUALS or (value and byte <= _BLANK)
        place += 1
    return AFTER_QUOTES if passed else NONE


@kernel
def _end_of_comment(data: UInt8s, place: int) -> int:
    """Return the place behind the next -->, NONE if there is none."""
    for last in range(place, data.size):
        if data[last] == _GREATER and data[last - 1] == _DASH and data[last - 2] == _DASH:
            return last + 1
    return NONE


@kernel
def _closing(data: UInt8s, place: int, name: np.uint64) -> int:
    """Return where the next closing tag of a name begins, NONE if there is none."""
    for first in range(place, data.size - 1):
        if data[first] == _LESS and data[first + 1] == _SLASH and _name(data, first + 2) == name:
            return first
    return NONE


@kernel
def _unmark(data: UInt8s, inline: UInt64s, hidden: UInt64s, kept: UInt8s, places: Int64s) -> int:
    """Write what is to be read of a text, and the place of each byte; return how many."""
    used = 0
    place = 0
    # What was looked for once, and is not there, is not looked for again.
    quotes = comments = True
    unclosed = 0  # a bit for each of the hidden names
    last = data.size - 1
    while last >= 0 and data[last] != _GREATER:
        last -= 1
    while place < data.size:
        byte = data[place]
        end = NONE
        blank = True
        if byte == _LESS and place + 1 < last:
            follows = data[place + 1]
            is_closing = follows == _SLASH
            first = place + 2 if is_closing else place + 1
            if follows in (_BANG, _QUESTION):
                blank = False
                is_comment = (
                    place + 3 < data.size and data[place + 2] == _DASH and data[place + 3] == _DASH
                )
                if is_comment and comments:
                    end = _end_of_comment(data, place + 4)
                    comments = end != NONE
                if end == NONE:
                    end = _end_of_tag(data, first, quotes=False)
            elif _is_letter(data[first]):
                end = _end_of_tag(data, first, quotes)
                if end == AFTER_QUOTES:
                    quotes = False
                    end = _end_of_tag(data, first, quotes)
                if end != NONE:
                    name = _name(data, first)
                    blank = _place_of(name, inline) < 0
                    which = _place_of(name, hidden)
                    if not is_closing and which >= 0 and (unclosed >> which) & 1 == 0:
                        closing = _closing(data, end, name)
                        if closing == NONE:
                            unclosed |= 1 << which
                        else:
                            end = closing
        if end == NONE:
            kept[used] = byte
        elif blank:
            kept[used] = _BLANK
        if end == NONE or blank:
            if places.size > 0:
                places[used] = place
            used += 1
        place = place + 1 if end == NONE else end
    return used


@kernel
def unmarked(
    data: UInt8s, offsets: Int64s, inline: UInt64s, hidden: UInt64s, placed: bool
) -> tuple[UInt8s, Int64s, Int64s]:
    """Remove comments, declarations and tags of texts in UTF-8; entities stay.

    A tag becomes a blank, but for those within words, of which ``inline`` has the names; ``hidden``
    has those whose content is not text. Names are numbers of up to 8 letters.

    Returns:
        bytes and offsets of what is left, and with ``placed`` of each byte its place in ``data``.
    """
    kept = np.empty(data.size, np.uint8)
    places = np.empty(data.size if placed else 0, np.int64)
    bounds = np.zeros(offsets.size, np.int64)
    used = 0
    for text in range(offsets.size - 1):
        start, stop = offsets[text], offsets[text + 1]
        own = _unmark(data[start:stop], inline, hidden, kept[used:], places[used:])
        for place in range(used, used + own if placed else used):
            places[place] += start
        used += own
        bounds[text + 1] = used
    return kept[:used], bounds, places[:used] if placed else places

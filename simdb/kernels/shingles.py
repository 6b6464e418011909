"""Texts to symbols: keyed 64-bit hashes of character, word and stop-word shingles (MMDS 3.2).

A batch of texts comes as two buffers, ``narrow`` (uint8, in which the ASCII texts lie) and ``wide``
(uint32, code points of the others), and ``spans``, int64 (n, 3): for each text 0 for narrow or 1
for wide, then where it starts and stops in its buffer. Equal texts give equal symbols in either.
``decoded`` makes them of UTF-8.

``classes`` says of each code point whether it is white space or a word character. Symbols are in
the order of occurrence, repeats included.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from simdb.arrays import Int64s, UInt8s, UInt32s, UInt64s
from simdb.kernels.compiler import inlined, kernel
from simdb.kernels.hashes import mixed, multiply_add, reduced

WHITE_SPACE = np.uint8(1)
WORD = np.uint8(2)

LOWERCASE = 1
COLLAPSE = 2

NARROW, WIDE, UNSETTLED = 0, 1, 2  # where a text lies
DEPENDS = np.uint32(2**32 - 1)  # in place of a character that is not compared as it stands

_NOTHING = np.uint64(0)
_ONE = np.uint64(1)
_BLANK = np.uint32(32)
_CASE = np.uint32(32)  # between an ASCII capital and its small letter
_CAPITAL_A = np.uint32(65)
_CAPITAL_Z = np.uint32(90)

Characters: TypeAlias = UInt8s | UInt32s
Sequence: TypeAlias = Characters | UInt64s


@inlined
def _continued(data: UInt8s, position: int, stop: int) -> np.uint32:
    """Return the six bits of a byte that continues a character, DEPENDS if there is no such."""
    if position >= stop or (data[position] & np.uint8(0xC0)) != np.uint8(0x80):
        return DEPENDS
    return np.uint32(data[position] & np.uint8(0x3F))


@kernel
def _decode(data: UInt8s, start: int, stop: int, stands_for: UInt32s, points: UInt32s) -> int:
    """Write what stands for the characters of a text; return how many, -1 if that is not told."""
    written = 0
    position = start
    while position < stop:
        first = np.uint32(data[position])
        position += 1
        point = first
        more = 0
        least = np.uint32(0)  # a character in more bytes than it needs is not UTF-8
        if first >= np.uint32(0x80):
            if first < np.uint32(0xE0):
                point, more, least = first & np.uint32(0x1F), 1, np.uint32(0x80)
            elif first < np.uint32(0xF0):
                point, more, least = first & np.uint32(0x0F), 2, np.uint32(0x800)
            else:
                point, more, least = first & np.uint32(0x07), 3, np.uint32(0x10000)
            if first < np.uint32(0xC0) or first >= np.uint32(0xF8):
                return -1
        for _ in range(more):
            bits = _continued(data, position, stop)
            if bits == DEPENDS:
                return -1
            point = np.uint32((point << np.uint32(6)) | bits)
            position += 1
        if point < least or point >= stands_for.size or stands_for[point] == DEPENDS:
            return -1
        points[written] = stands_for[point]
        written += 1
    return written


@kernel
def decoded(data: UInt8s, offsets: Int64s, stands_for: UInt32s) -> tuple[UInt32s, Int64s, int]:
    """Decode the texts of a column of UTF-8 that are not ASCII.

    ``stands_for`` has what each code point is compared as, DEPENDS where that takes its neighbours
    to tell; what lies beyond its end does so, too. A text with such a character, or one that is not
    UTF-8, stays UNSETTLED: its span is that of its bytes.

    Returns:
        the wide buffer, the spans with ``data`` as the narrow buffer, and how many are unsettled.
    """
    texts = offsets.size - 1
    spans = np.empty((texts, 3), np.int64)
    longest = 0
    for text in range(texts):
        start, stop = offsets[text], offsets[text + 1]
        every = np.uint8(0)
        for byte in data[start:stop]:  # compiled to vector instructions
            every = np.uint8(every | byte)
        spans[text, 0] = NARROW if every < np.uint8(0x80) else UNSETTLED
        spans[text, 1], spans[text, 2] = start, stop
        longest += stop - start if every >= np.uint8(0x80) else 0
    wide = np.empty(longest, np.uint32)
    used = 0
    unsettled = 0
    for text in range(texts):
        if spans[text, 0] == UNSETTLED:
            length = _decode(data, spans[text, 1], spans[text, 2], stands_for, wide[used:])
            if length < 0:
                unsettled += 1
            else:
                spans[text, 0], spans[text, 1], spans[text, 2] = WIDE, used, used + length
                used += length
    return wide[:used], spans, unsettled


@inlined
def _lower(character: np.uint8 | np.uint32, treatment: int) -> np.uint32:
    """Return the small letter of an ASCII capital if wanted, else the character as it is."""
    code = np.uint32(character)
    if (treatment & LOWERCASE) != 0 and _CAPITAL_A <= code <= _CAPITAL_Z:
        code = np.uint32(code + _CASE)
    return code


@kernel
def _prepare(characters: Characters, treatment: int, classes: UInt8s, prepared: Characters) -> int:
    """Write the text as it is compared into ``prepared`` and return its length."""
    if (treatment & COLLAPSE) == 0:
        for position in range(characters.size):
            prepared[position] = _lower(characters[position], treatment)
        return characters.size
    length = 0
    after_blank = WHITE_SPACE
    for position in range(characters.size):
        character = characters[position]
        blank = classes[character] & WHITE_SPACE
        prepared[length] = _BLANK if blank != 0 else _lower(character, treatment)
        length += 1 - np.int64(blank & after_blank)  # no branch: white space is hard to predict
        after_blank = blank
    if after_blank != 0 and length > 0:
        length -= 1
    return length


@inlined
def _hash_window(sequence: Sequence, start: int, stop: int, base: np.uint64) -> np.uint64:
    """Return the unreduced polynomial of a part of a sequence."""
    state = _NOTHING
    for position in range(start, stop):
        state = multiply_add(state, base, np.uint64(sequence[position]) + _ONE)
    return state


@inlined
def _advance(
    state: np.uint64, departing: Sequence, arriving: Sequence, step: int, keys: UInt64s
) -> np.uint64:
    """Return the polynomial of the next window: one value departs, one arrives."""
    departed = np.uint64(departing[step - 1]) + _ONE
    arrived = np.uint64(arriving[step]) + _ONE
    return multiply_add(state, keys[0], multiply_add(departed, keys[1], arrived))


@inlined
def _roll_quarters(
    sequence: Sequence, count: int, window: int, keys: UInt64s, symbols: UInt64s
) -> None:
    """Write the unreduced polynomial of every window, of which there are at least four."""
    windows = count - window + 1
    # Quarters overlap by up to three windows, which both write alike: no remainder is left over.
    quarter = (windows + 3) // 4
    second_start, third_start = quarter, 2 * quarter
    fourth_start = windows - quarter
    first = _hash_window(sequence, 0, window, keys[0])
    second = _hash_window(sequence, second_start, second_start + window, keys[0])
    third = _hash_window(sequence, third_start, third_start + window, keys[0])
    fourth = _hash_window(sequence, fourth_start, fourth_start + window, keys[0])
    symbols[0] = first
    symbols[second_start] = second
    symbols[third_start] = third
    symbols[fourth_start] = fourth
    last = window - 1
    arriving = sequence[last:count]
    second_leaving, second_arriving = sequence[second_start:], sequence[second_start + last : count]
    third_leaving, third_arriving = sequence[third_start:], sequence[third_start + last : count]
    fourth_leaving, fourth_arriving = sequence[fourth_start:], sequence[fourth_start + last : count]
    second_symbols, third_symbols = symbols[second_start:], symbols[third_start:]
    fourth_symbols = symbols[fourth_start:]
    for step in range(1, quarter):
        first = _advance(first, sequence, arriving, step, keys)
        second = _advance(second, second_leaving, second_arriving, step, keys)
        third = _advance(third, third_leaving, third_arriving, step, keys)
        fourth = _advance(fourth, fourth_leaving, fourth_arriving, step, keys)
        symbols[step] = first
        second_symbols[step] = second
        third_symbols[step] = third
        fourth_symbols[step] = fourth


@kernel
def _roll(sequence: Sequence, count: int, size: int, keys: UInt64s, symbols: UInt64s) -> int:
    """Write the symbol of every window of ``size`` values; return how many there are.

    ``keys`` are the base, minus the base to the power ``size``, and the secret of the finaliser.
    A shorter sequence has one window, all of it; an empty one has none. Each state waits for the
    one before, so the four quarters of the sequence roll side by side; where they meet both write.
    """
    if count == 0:
        return 0
    window = min(count, size)
    windows = count - window + 1
    if windows < 8:
        state = _hash_window(sequence, 0, window, keys[0])
        symbols[0] = state
        for step in range(1, windows):
            state = _advance(state, sequence, sequence[window - 1 :], step, keys)
            symbols[step] = state
    else:
        _roll_quarters(sequence, count, window, keys, symbols)
    for position in range(windows):  # a loop of its own is compiled to vector instructions
        symbols[position] = mixed(reduced(symbols[position]), keys[2])
    return windows


@kernel
def character_shingles(
    narrow: UInt8s,
    wide: UInt32s,
    spans: Int64s,
    narrow_classes: UInt8s,
    wide_classes: UInt8s,
    treatment: int,
    size: int,
    keys: UInt64s,
) -> tuple[UInt64s, Int64s]:
    """Return the symbols of all character shingles and the offsets of each text's (MMDS 3.2.1).

    ``treatment`` is the sum of the constants wanted; LOWERCASE acts on narrow texts only, wide ones
    come with their case settled. ``keys`` as in ``_roll``.
    """
    texts = spans.shape[0]
    symbols = np.empty(narrow.size + wide.size, np.uint64)
    offsets = np.empty(texts + 1, np.int64)
    offsets[0] = 0
    longest = np.zeros(2, np.int64)
    for text in range(texts):
        sort = spans[text, 0]
        longest[sort] = max(longest[sort], spans[text, 2] - spans[text, 1])
    narrow_prepared = np.empty(longest[0], np.uint8)
    wide_prepared = np.empty(longest[1], np.uint32)
    used = 0
    for text in range(texts):
        start, stop = spans[text, 1], spans[text, 2]
        if spans[text, 0] == 0:
            length = _prepare(narrow[start:stop], treatment, narrow_classes, narrow_prepared)
            used += _roll(narrow_prepared, length, size, keys, symbols[used:])
        else:
            length = _prepare(wide[start:stop], treatment & COLLAPSE, wide_classes, wide_prepared)
            used += _roll(wide_prepared, length, size, keys, symbols[used:])
        offsets[text + 1] = used
    return symbols[:used], offsets


@kernel
def _hash_words(
    characters: Characters,
    treatment: int,
    classes: UInt8s,
    folds: UInt32s,
    base: np.uint64,
    words: UInt64s,
    folded_words: UInt64s,
) -> int:
    """Write the hash of every word, and of its case-folded form; return how many there are.

    Without ``folds`` (empty) nothing is folded.
    """
    # A word and its folded form in one pass: stop words are told by the form, shingles by the word.
    fold = folds.size > 0
    count = 0
    inside = False
    state = _NOTHING
    folded_state = _NOTHING
    for position in range(characters.size):
        character = characters[position]
        if (classes[character] & WORD) != 0:
            if not inside:
                state = _NOTHING
                folded_state = _NOTHING
                inside = True
            state = multiply_add(state, base, np.uint64(_lower(character, treatment)) + _ONE)
            if fold:
                folded_state = multiply_add(folded_state, base, np.uint64(folds[character]) + _ONE)
        elif inside:
            words[count] = reduced(state)
            folded_words[count] = reduced(folded_state)
            count += 1
            inside = False
    if inside:
        words[count] = reduced(state)
        folded_words[count] = reduced(folded_state)
        count += 1
    return count


@kernel
def _begin_at_stop_words(
    words: UInt64s,
    folded_words: UInt64s,
    count: int,
    size: int,
    stop_words: UInt64s,
    keys: UInt64s,
    symbols: UInt64s,
) -> int:
    """Write the symbol of every ``size`` words that begin with a stop word; return how many."""
    written = 0
    for first in range(count - size + 1):
        place = np.searchsorted(stop_words, folded_words[first])
        if place < stop_words.size and stop_words[place] == folded_words[first]:
            state = _hash_window(words, first, first + size, keys[0])
            symbols[written] = mixed(reduced(state), keys[2])
            written += 1
    return written


@kernel
def word_shingles(
    narrow: UInt8s,
    wide: UInt32s,
    spans: Int64s,
    narrow_classes: UInt8s,
    wide_classes: UInt8s,
    narrow_folds: UInt32s,
    wide_folds: UInt32s,
    stop_words: UInt64s,
    treatment: int,
    size: int,
    keys: UInt64s,
) -> tuple[UInt64s, Int64s]:
    """Return the symbols of all word or stop-word shingles and the offsets of each text's.

    ``stop_words`` are the sorted hashes of the case-folded stop words (MMDS 3.2.4); without any,
    every ``size`` successive words are a shingle. ``keys`` as in ``_roll``, then the base that
    words are hashed with.
    """
    texts = spans.shape[0]
    longest = 0
    for text in range(texts):
        longest = max(longest, spans[text, 2] - spans[text, 1])
    words = np.empty(longest // 2 + 1, np.uint64)
    folded_words = np.empty(longest // 2 + 1, np.uint64)
    # A word takes a character and one between it and the next: at most half as many, rounded up.
    symbols = np.empty((narrow.size + wide.size + texts + 1) // 2, np.uint64)
    offsets = np.empty(texts + 1, np.int64)
    offsets[0] = 0
    used = 0
    for text in range(texts):
        start, stop = spans[text, 1], spans[text, 2]
        if spans[text, 0] == 0:
            count = _hash_words(
                narrow[start:stop],
                treatment,
                narrow_classes,
                narrow_folds,
                keys[3],
                words,
                folded_words,
            )
        else:
            count = _hash_words(
                wide[start:stop],
                treatment & COLLAPSE,
                wide_classes,
                wide_folds,
                keys[3],
                words,
                folded_words,
            )
        if stop_words.size > 0:
            used += _begin_at_stop_words(
                words, folded_words, count, size, stop_words, keys, symbols[used:]
            )
        else:
            used += _roll(words, count, size, keys, symbols[used:])
        offsets[text + 1] = used
    return symbols[:used], offsets

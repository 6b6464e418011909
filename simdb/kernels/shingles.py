"""Texts to symbols: keyed 64-bit hashes of character, word and stop-word shingles (MMDS 3.2).

A batch of texts comes as two buffers, ``narrow`` (uint8, in which the ASCII texts lie) and ``wide``
(uint32, code points of the others), and ``spans``, int64 (n, 3): for each text 0 for narrow or 1
for wide, then where it starts and stops in its buffer. Equal texts give equal symbols in either.
``decoded`` makes them of UTF-8.

``classes`` says of each code point whether it is white space or a word character, or how it breaks
words (Unicode Standard Annex 29). Symbols are in the order of occurrence, repeats included.
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
BREAKS = 4  # words are told by how characters break them

NARROW, WIDE, UNSETTLED = 0, 1, 2  # where a text lies
DEPENDS = np.uint32(2**32 - 1)  # in place of a character that is not compared as it stands
DROPPED = np.uint32(2**32 - 2)  # of one that is not compared
PAIR = np.uint32(2**31)  # of one that stands for two: these, of 15 bits each, are the other bits
NARROW_DROPPED = np.uint8(255)

# How a character breaks words: the properties of Unicode Standard Annex 29 that decide.
NOTHING, ALONE, LETTER, HEBREW, NUMBER, KATAKANA, CONNECTOR = range(7)
MID_LETTER, MID_NUMBER, MID_BOTH, SINGLE_QUOTE, DOUBLE_QUOTE, MARK = range(7, 13)

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_BLANK = np.uint32(32)
_CASE = np.uint32(32)  # between an ASCII capital and its small letter
_CAPITAL_A = np.uint32(65)
_CAPITAL_Z = np.uint32(90)
_DIGIT = np.uint32(48)  # what stands for digits where these are not told apart
_HALF = np.uint32(15)
_HALF_BITS = np.uint32(2**15 - 1)

Characters: TypeAlias = UInt8s | UInt32s
Sequence: TypeAlias = Characters | UInt64s


@inlined
def _continued(data: UInt8s, position: int, stop: int) -> np.uint32:
    """Return the six bits of a byte that continues a character, DEPENDS if there is no such."""
    if position >= stop or (data[position] & np.uint8(0xC0)) != np.uint8(0x80):
        return DEPENDS
    return np.uint32(data[position] & np.uint8(0x3F))


@kernel
def _decode(
    data: UInt8s, start: int, stop: int, stands_for: UInt32s, joins: bool, points: UInt32s
) -> int:
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
        stood = stands_for[point]
        if stood >= PAIR:
            if stood != DROPPED:
                points[written] = (stood >> _HALF) & _HALF_BITS
                points[written + 1] = stood & _HALF_BITS
                written += 2
        elif not (joins and stood == _DIGIT and written > 0 and points[written - 1] == _DIGIT):
            points[written] = stood
            written += 1
    return written


@kernel
def _rewrite(data: UInt8s, plain: UInt8s, joins: bool, written: UInt8s) -> int:
    """Write what stands for the characters of an ASCII text; return how many."""
    used = 0
    before = np.uint8(0)
    for byte in data:
        stood = plain[byte]
        digit = joins and stood == np.uint8(_DIGIT)
        written[used] = stood  # no branch: what is dropped is hard to predict
        used += 1 - np.int64((stood == NARROW_DROPPED) | (digit & (before == stood)))
        before = before if stood == NARROW_DROPPED else stood
    return used


@kernel
def decoded(
    data: UInt8s, offsets: Int64s, stands_for: UInt32s, plain: UInt8s, joins: bool
) -> tuple[UInt8s, UInt32s, Int64s, int]:
    """Decode the texts of a column of UTF-8 that are not ASCII.

    ``stands_for`` has what each code point is compared as: another, a PAIR, nothing (DROPPED), or
    DEPENDS where that takes its neighbours to tell; what lies beyond its end does so, too. A text
    with such a character, or one that is not UTF-8, stays UNSETTLED: its span is that of its bytes.
    ``plain`` has the same of ASCII, NARROW_DROPPED for nothing; empty, where each stands for
    itself. With ``joins`` runs of zeros become one.

    Returns:
        the narrow buffer, without bytes where that is ``data``, the wide one, the spans, and how
        many are unsettled.
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
    narrow = np.empty(data.size if plain.size > 0 else 0, np.uint8)
    wide = np.empty(longest, np.uint32)
    narrow_used = 0
    used = 0
    unsettled = 0
    for text in range(texts):
        start, stop = spans[text, 1], spans[text, 2]
        if spans[text, 0] == NARROW:
            if plain.size > 0:
                length = _rewrite(data[start:stop], plain, joins, narrow[narrow_used:])
                spans[text, 1], spans[text, 2] = narrow_used, narrow_used + length
                narrow_used += length
        else:
            length = _decode(data, start, stop, stands_for, joins, wide[used:])
            if length < 0:
                unsettled += 1
            else:
                spans[text, 0], spans[text, 1], spans[text, 2] = WIDE, used, used + length
                used += length
    return narrow[:narrow_used], wide[:used], spans, unsettled


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
    state = _ZERO
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
    if (treatment & BREAKS) != 0:
        return _hash_broken_words(characters, treatment, classes, folds, base, words, folded_words)
    # A word and its folded form in one pass: stop words are told by the form, shingles by the word.
    fold = folds.size > 0
    count = 0
    inside = False
    state = _ZERO
    folded_state = _ZERO
    for position in range(characters.size):
        character = characters[position]
        if (classes[character] & WORD) != 0:
            if not inside:
                state = _ZERO
                folded_state = _ZERO
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


@inlined
def _after_marks(characters: Characters, place: int, breaks: UInt8s) -> int:
    """Return the place of the next character that is no mark on the one before."""
    while place < characters.size and breaks[characters[place]] == MARK:
        place += 1
    return place


@inlined
def _joins(before: int, here: int) -> bool:
    """Whether no word ends between two classes of characters (WB5, WB8 to WB10, WB13 to WB13b)."""
    if here == CONNECTOR:
        return LETTER <= before <= CONNECTOR
    if before == CONNECTOR:
        return LETTER <= here <= KATAKANA
    if KATAKANA in (before, here):
        return before == here
    return LETTER <= before <= NUMBER and LETTER <= here <= NUMBER


@inlined
def _joins_across(before: int, here: int, behind: int) -> bool:
    """Whether a point or a quote is within a word (WB6, WB7, WB7b, WB7c, WB11, WB12)."""
    if before == NUMBER:
        return behind == NUMBER and MID_NUMBER <= here <= SINGLE_QUOTE
    if here == DOUBLE_QUOTE:
        return before == HEBREW and behind == HEBREW
    if before in (LETTER, HEBREW) and behind in (LETTER, HEBREW):
        return here in (MID_LETTER, MID_BOTH, SINGLE_QUOTE)
    return False


@kernel
def _next_word(characters: Characters, place: int, breaks: UInt8s) -> tuple[int, int]:
    """Return where the next word from a place on starts and stops; both at the end if none does.

    A word is what lies between two breaks of Unicode Standard Annex 29 and has a letter, a digit or
    what is a word alone, as an ideograph; ``breaks`` has the class of each code point.
    """
    size = characters.size
    while place < size:
        start = place
        before = np.int64(breaks[characters[place]])
        place += 1
        if before == NOTHING or before > CONNECTOR:
            continue
        place = _after_marks(characters, place, breaks)
        if before == ALONE:
            return start, place
        counts = before != CONNECTOR
        while place < size:
            here = np.int64(breaks[characters[place]])
            after = _after_marks(characters, place + 1, breaks)
            if not _joins(before, here):
                behind = np.int64(breaks[characters[after]]) if after < size else NOTHING
                if _joins_across(before, here, behind):
                    here = behind
                    after = _after_marks(characters, after + 1, breaks)
                elif before == HEBREW and here == SINGLE_QUOTE:  # WB7a
                    place = after
                    break
                else:
                    break
            before = here
            counts = counts or before != CONNECTOR
            place = after
        if counts:
            return start, place
    return size, size


@kernel
def word_places(characters: UInt32s, breaks: UInt8s) -> Int64s:
    """Return where each word of a text starts and stops, (words, 2): see ``_next_word``."""
    places = np.empty((characters.size, 2), np.int64)
    count = 0
    start, place = _next_word(characters, 0, breaks)
    while start < characters.size:
        places[count, 0], places[count, 1] = start, place
        count += 1
        start, place = _next_word(characters, place, breaks)
    return places[:count].copy()


@kernel
def _hash_broken_words(
    characters: Characters,
    treatment: int,
    breaks: UInt8s,
    folds: UInt32s,
    base: np.uint64,
    words: UInt64s,
    folded_words: UInt64s,
) -> int:
    """As ``_hash_words``, of the words of ``word_places``."""
    count = 0
    place = 0
    while True:
        start, place = _next_word(characters, place, breaks)
        if start == characters.size:
            return count
        state = _ZERO
        folded_state = _ZERO
        for character in characters[start:place]:
            state = multiply_add(state, base, np.uint64(_lower(character, treatment)) + _ONE)
            if folds.size > 0:
                folded_state = multiply_add(folded_state, base, np.uint64(folds[character]) + _ONE)
        words[count] = reduced(state)
        folded_words[count] = reduced(folded_state)
        count += 1


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
    words are hashed with. With BREAKS in ``treatment`` the classes are those of ``word_places``.
    """
    texts = spans.shape[0]
    longest = 0
    for text in range(texts):
        longest = max(longest, spans[text, 2] - spans[text, 1])
    # A word takes a character and one between it and the next: at most half as many, rounded up.
    # But by the breaks of Unicode each character may be one.
    apart = 1 if (treatment & BREAKS) != 0 else 2
    words = np.empty(longest // apart + 1, np.uint64)
    folded_words = np.empty(longest // apart + 1, np.uint64)
    symbols = np.empty((narrow.size + wide.size + texts + 1) // apart, np.uint64)
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
                treatment & ~LOWERCASE,
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

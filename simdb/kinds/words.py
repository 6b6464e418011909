"""What a word is in any language: the breaks of Unicode Standard Annex 29.

Letters, digits, what connects them and the marks on them are a word together, and so are numbers
and words with a point or an apostrophe within (3.14, don't). Scripts that are written without
spaces have no breaks to be found without a dictionary: there every character is a word, with its
marks, as of Chinese, Japanese (katakana stay together), Thai, Lao, Khmer and Burmese.

The classes are those of the annex as far as they tell words that have a letter or a digit, derived
from the tables of Python and the lists below. But the narrow no-break space joins no words: French
has it before marks, where others write a space or nothing.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TypeAlias

import numpy as np

from simdb import kernels
from simdb.arrays import UInt8s
from simdb.evidence import Span
from simdb.kinds.characters import ASCII, CODE_POINTS

_LISTED = 0x20000  # code points that are looked up; beyond are ideographs and marks

Ranges: TypeAlias = tuple[tuple[int, int], ...]

# Of letters: ideographs, hiragana, and scripts without spaces whose line breaks are complex; and
# scripts with rules of their own.
_LETTERS: dict[str, Ranges] = {
    "ALONE": (
        *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF)),
        *((0x2E80, 0x3007), (0x3021, 0x3029), (0x3038, 0x303A), (0x3041, 0x3096), (0x309D, 0x309F)),
        *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF), (0xAA60, 0xAADF), (0xF900, 0xFAFF)),
        *((0x11700, 0x1174F), (0x16FE4, 0x16FE4), (0x17000, 0x18D7F), (0x1B001, 0x1B11F)),
        *((0x1B132, 0x1B132), (0x1B150, 0x1B152), (0x1B170, 0x1B2FF)),
    ),
    "KATAKANA": (
        *((0x3031, 0x3035), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF)),
        *((0xFF66, 0xFF9D), (0x1AFF0, 0x1B000), (0x1B120, 0x1B122), (0x1B155, 0x1B155)),
        (0x1B164, 0x1B167),
    ),
    "HEBREW": ((0x05D0, 0x05F2), (0xFB1D, 0xFB1D), (0xFB1F, 0xFB28), (0xFB2A, 0xFB4F)),
}
# What its category does not tell.
_OTHERS: dict[str, Ranges] = {
    "LETTER": (
        *((0x02C2, 0x02C5), (0x02D2, 0x02D7), (0x02DE, 0x02DF), (0x02E5, 0x02EB), (0x02ED, 0x02ED)),
        *((0x02EF, 0x02FF), (0x055A, 0x055C), (0x055E, 0x055E), (0x058A, 0x058A), (0x05F3, 0x05F3)),
        *((0x070F, 0x070F), (0x24B6, 0x24E9), (0x3005, 0x3005), (0xA708, 0xA716), (0xA720, 0xA721)),
        *((0xA789, 0xA78A), (0xAB5B, 0xAB5B), (0x1F130, 0x1F149), (0x1F150, 0x1F169)),
        (0x1F170, 0x1F189),
    ),
    "KATAKANA": ((0x309B, 0x309C), (0x30A0, 0x30A0), (0x32D0, 0x32FE), (0x3300, 0x3357)),
    "NUMBER": (
        *((0x0600, 0x0605), (0x066B, 0x066B), (0x06DD, 0x06DD), (0x0890, 0x0891), (0x08E2, 0x08E2)),
        *((0x19DA, 0x19DA), (0x110BD, 0x110BD), (0x110CD, 0x110CD)),
    ),
    "MARK": ((0x200C, 0x200C), (0xFF9E, 0xFF9F), (0x1F3FB, 0x1F3FF)),
    "NOTHING": ((0x200B, 0x200B),),
}
_WITHIN = {
    "MID_LETTER": ":\u00b7\u0387\u055f\u05f4\u2027\ufe13\ufe55\uff1a",
    "MID_NUMBER": ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe50\ufe54\uff0c\uff1b",
    "MID_BOTH": ".\u2018\u2019\u2024\ufe52\uff07\uff0e",
    "SINGLE_QUOTE": "'",
    "DOUBLE_QUOTE": '"',
}


@cache
def breaks(count: int) -> UInt8s:
    """Return the class of each of the first ``count`` code points, as kernels name them."""
    told = kernels.shingles
    known = min(count, _LISTED)
    of_category = dict.fromkeys(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl"), told.LETTER)
    of_category |= dict.fromkeys(("Mn", "Mc", "Me", "Cf"), told.MARK)
    of_category |= {"Nd": told.NUMBER, "No": told.ALONE, "Pc": told.CONNECTOR}
    classes = np.zeros(count, np.uint8)
    classes[:known] = [
        of_category.get(unicodedata.category(chr(point)), told.NOTHING) for point in range(known)
    ]
    is_letter = classes == told.LETTER
    for name, ranges in _LETTERS.items():
        for first, last in ranges:
            classes[first : last + 1][is_letter[first : last + 1]] = getattr(told, name)
    for name, ranges in _OTHERS.items():
        for first, last in ranges:
            classes[first : last + 1] = getattr(told, name)
    for name, characters in _WITHIN.items():
        points = np.array([*map(ord, characters)], np.int64)
        classes[points[points < count]] = getattr(told, name)
    classes[0x20000:0x40000] = told.ALONE
    classes[0xE0000:0xE0200] = told.MARK
    return classes


def words_of(text: str) -> list[tuple[str, Span]]:
    """Return the words of a text and where each begins and ends."""
    characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    classes = breaks(ASCII if text.isascii() else CODE_POINTS)
    places = kernels.shingles.word_places(characters, classes).tolist()
    return [(text[start:stop], (start, stop)) for start, stop in places]

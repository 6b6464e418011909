"""Slow and obvious versions of what simdb computes fast; imports nothing of it but settings."""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, inf
from typing import Any, TypeAlias

from simdb import kinds
from simdb.kinds import words
from tests.support.similarities import jaccard

MODULUS = 2**61 - 1
WORD_MASK = 2**64 - 1

Shingle: TypeAlias = str | tuple[str, ...]

# ----------------------------------------------------------------------------- shingles (MMDS 3.2)


_MARKUP = re.compile(
    r"<(?P<hidden>script|style|template)(?![a-z0-9])[^<>]*>.*?(?=</(?P=hidden)(?![a-z0-9]))"
    r"|(?P<silent><!--.*?-->|<[!?][^<>]*>)"
    r"|</?(?P<name>[a-z][a-z0-9]*)[^<>]*>",
    re.ASCII | re.IGNORECASE | re.DOTALL,  # else İ is an i
)


def unmarked(text: str) -> str:
    """Tags removed, of markup without quotes; those of words leave nothing, others a blank."""

    def left(found: re.Match[str]) -> str:
        within = (found["name"] or "").lower() in ("b", "i", "em", "a", "span")
        return "" if found["silent"] or within else " "

    return _MARKUP.sub(left, text)


APOSTROPHES = "'`\u00b4\u2018\u2019\u201a\u201b\u2032\u02b9\u02bb\u02bc\u02bd\uff07"
QUOTES = '"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02\u301d\u301e\u301f\u2039\u203a'
HYPHENS = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
VISIBLE = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\U000110bd"
UNSEEN = "\u034f\u061c\u115f\u1160" + "".join(map(chr, range(0xFE00, 0xFE10)))


def stand_in(character: str, ignore: Sequence[str]) -> str:
    """What a character is compared as where some are ignored."""
    if "diacritics" in ignore:
        parts = unicodedata.normalize("NFD", character)
        ranks = {part: unicodedata.combining(part) for part in parts}
        kept = "".join(p for p in parts if not (ranks[p] in {1, *range(10, 37)} or ranks[p] > 199))
        whole = unicodedata.normalize("NFC", kept)
        character = character if len(whole) > 1 or kept == parts else whole
        character = character.translate(str.maketrans("ØøĐđŁłĦħŦŧı", "OoDdLlHhTti"))
    category = unicodedata.category(character) if character else ""
    unseen = character in UNSEEN or (category == "Cf" and character not in VISIBLE)
    if "invisible" in ignore and unseen:
        return ""
    if "quotes" in ignore:
        for marks in (APOSTROPHES, QUOTES, HYPHENS):
            character = marks[0] if character and character in marks else character
    if "punctuation" in ignore:
        if character and character in APOSTROPHES:
            return ""
        character = " " if category[:1] == "P" or category in {"Sm", "Sc", "Sk"} else character
    return "0" if "digits" in ignore and category == "Nd" else character


def normalised(text: str, settings: kinds.Text) -> str:
    if "html" in settings.ignore:
        text = html.unescape(unmarked(text))
    if settings.unicode != "keep":
        text = unicodedata.normalize(settings.unicode, text)
    if "case" in settings.ignore:
        text = text.casefold()
    elif settings.lowercase:
        text = text.lower()
    text = "".join(stand_in(character, settings.ignore) for character in text)
    if "digits" in settings.ignore:
        text = re.sub("0+", "0", text)
    if settings.white_space == "collapse":
        text = " ".join(text.split())
    return text


def _runs(sequence: Any, size: int) -> list[Shingle]:
    if not sequence:
        return []
    return [sequence[i : i + size] for i in range(max(1, len(sequence) - size + 1))]


def _simple_fold(word: str) -> str:
    return "".join(c if len(c.casefold()) > 1 else c.casefold() for c in word)


# A letter for each class of kinds.words, in their order.
_CLASSES = "xsahnkclubqd "
_LETTERS = r"(?:[ahn](?:[ahn]|(?<=[ah])[lbq](?=[ah])|(?<=n)[ubq](?=n)|(?<=h)d(?=h))*|k+)"
_WORD = re.compile(rf"s|c*{_LETTERS}(?:c+{_LETTERS})*(?:c+|(?<=h)q)?")


def words_by_breaks(text: str) -> list[str]:
    """The words of Unicode Standard Annex 29: marks belong to what is before them."""
    table = words.breaks(0x110000)
    classes = [_CLASSES[table[ord(character)]] for character in text]
    places = [place for place, kind in enumerate(classes) if kind != " "]
    bounds = [*places, len(text)]
    spans = (found.span() for found in _WORD.finditer("".join(classes[p] for p in places)))
    return [text[bounds[first] : bounds[last]] for first, last in spans]


def shingle_list(text: str, settings: kinds.Text) -> list[Shingle]:
    """Return the shingles in order of occurrence: strings, or tuples of words."""
    text = normalised(text, settings)
    shingles = settings.shingles
    if isinstance(shingles, kinds.CharacterShingles):
        return _runs(text, shingles.size)
    told = tuple(words_by_breaks(text) if settings.words == "unicode" else re.findall(r"\w+", text))
    if isinstance(shingles, kinds.WordShingles):
        return _runs(told, shingles.size)
    assert isinstance(shingles, kinds.StopWordShingles)
    stop_words = {_simple_fold(normalised(word, settings)) for word in shingles.stop_words}
    size = shingles.following + 1
    return [
        told[i : i + size]
        for i in range(len(told) - size + 1)
        if _simple_fold(told[i]) in stop_words
    ]


def shingle_set(text: str, settings: kinds.Text) -> set[Shingle]:
    return set(shingle_list(text, settings))


# ------------------------------------------------------------------------- similarity (MMDS 3.1.1)


def text_similarity(left: str, right: str, settings: kinds.Text) -> Fraction:
    return jaccard(shingle_set(left, settings), shingle_set(right, settings))


def similar_pairs(sets: Sequence[set[Any]], threshold: Fraction) -> list[tuple[int, int, Fraction]]:
    """Return all (i, j, similarity), i < j, at or above the threshold."""
    found = ((i, j, jaccard(sets[i], sets[j])) for i, j in combinations(range(len(sets)), 2))
    return [(i, j, similarity) for i, j, similarity in found if similarity >= threshold]


# --------------------------------------------------------------------------- minhash (MMDS 3.3)


def minhash(order: Sequence[Hashable], members: set[Any]) -> Hashable:
    """Return the first element, in the permuted order, that is a member (MMDS 3.3.2)."""
    return next(element for element in order if element in members)


def signature(members: Iterable[int], functions: Sequence[Callable[[int], int]]) -> list[int]:
    """Run the algorithm of MMDS 3.3.5 on one column."""
    column: list[float] = [inf] * len(functions)
    for row in members:
        for i, function in enumerate(functions):
            column[i] = min(column[i], function(row))
    return [int(value) for value in column]


def shares_band(left: Sequence[int], right: Sequence[int], rows: int) -> bool:
    return any(
        list(left[i : i + rows]) == list(right[i : i + rows]) for i in range(0, len(left), rows)
    )


def binomial_tail(rows: int, fewer_than: int, probability: Fraction) -> Fraction:
    """Return the probability that fewer than so many of the rows agree."""
    return sum(
        (
            comb(rows, k) * probability**k * (1 - probability) ** (rows - k)
            for k in range(fewer_than)
        ),
        Fraction(0),
    )


# ------------------------------------------------------------ the hash functions, in whole numbers


def secret_words(secret: bytes, purpose: bytes, count: int) -> list[int]:
    data = b""
    number = 0
    while len(data) < 8 * count:
        data += hashlib.blake2b(number.to_bytes(8, "little") + secret, person=purpose).digest()
        number += 1
    return [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(count)]


def mixed(value: int, secret: int) -> int:
    value ^= secret
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD_MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD_MASK
    return value ^ (value >> 31)


def polynomial(values: Iterable[int], base: int) -> int:
    state = 0
    for value in values:
        state = (state * base + value + 1) % MODULUS
    return state


def polynomial_base(word: int) -> int:
    return (word >> 6) | (1 << 58)


def symbols(text: str, settings: kinds.Text, secret: bytes) -> list[int]:
    """Return the symbol of every shingle of a text, in order of occurrence."""
    words = secret_words(secret, b"simdb.text", 3)
    base, word_base = polynomial_base(words[0]), polynomial_base(words[1])
    result = []
    for shingle in shingle_list(text, settings):
        if isinstance(shingle, str):
            values = [ord(character) for character in shingle]
        else:
            values = [polynomial(map(ord, word), word_base) for word in shingle]
        result.append(mixed(polynomial(values, base), words[2]))
    return result


def fast_sketch(members: Iterable[int], rows: int, secret: bytes) -> list[int]:
    """Return the sketch of Dahlgaard, Knudsen and Thorup (2017), all 2 * rows rounds of it."""
    members = set(members)
    if not members:
        return [0] * rows
    seeds = secret_words(secret, b"simdb.fast", 2 * rows)
    bins: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for turn, seed in enumerate(seeds):
        for member in members:
            hashed = member ^ seed if turn == 0 else mixed(member, seed)
            chosen = ((hashed >> 32) * rows) >> 32 if turn < rows else turn - rows
            bins[chosen].append((turn, hashed % 2**48))
    final = secret_words(secret, b"simdb.row", 1)[0]
    return [mixed((turn << 48) | value, final) % 2**16 for turn, value in map(min, bins)]


def classical_sketch(members: Iterable[int], rows: int, secret: bytes) -> list[int]:
    members = set(members)
    if not members:
        return [0] * rows
    words = secret_words(secret, b"simdb.classical", 2 * rows)
    multipliers = [word % (MODULUS - 1) + 1 for word in words[:rows]]
    addends = [word % MODULUS for word in words[rows:]]
    functions = [
        lambda x, a=a, b=b: (a * x + b) % MODULUS for a, b in zip(multipliers, addends, strict=True)
    ]
    final = secret_words(secret, b"simdb.row", 1)[0]
    return [mixed(value, final) % 2**16 for value in signature(members, functions)]


def bucket_key(band: int, rows: Sequence[int], secret: bytes) -> int:
    words = secret_words(secret, b"simdb.bucket", 2)
    return mixed(polynomial([band, *rows], polynomial_base(words[0])), words[1])


def edits(left: str, right: str, *, transposes: bool) -> int:
    """The edit distance by its table: the last letters are equal, or one was edited."""
    before, row = [0] * (len(right) + 1), list(range(len(right) + 1))
    for i, one in enumerate(left, 1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(right, 1):
            least = before[j - 1] + (one != other)
            if least > before[j]:
                least = before[j] + 1
            if least > row[j - 1]:
                least = row[j - 1] + 1
            if transposes and i > 1 and j > 1 and left[i - 2] == other and right[j - 2] == one:
                least = min(least, earlier[j - 2] + 1)
            row.append(least)
    return row[-1]

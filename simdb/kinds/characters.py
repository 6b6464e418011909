"""What the characters of a text are compared as: tables over all of Unicode.

A text is compared in a form. Its markup goes first, if that is ignored; then it is brought into a
Unicode form, then into small letters or full case folding; then what is ignored is dropped or
replaced, character by character; white space comes last. What is white space, a word character, a
mark or a small letter is what Python's tables say, which know more characters in a newer Python.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from simdb import kernels
from simdb.arguments import can_be_iterated, short
from simdb.arrays import Int64s, UInt8s, UInt32s, UInt64s
from simdb.errors import ConfigurationError
from simdb.evidence import Span

NormalForm: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD", "keep"]
WhiteSpace: TypeAlias = Literal["collapse", "keep"]
# Of the characters of a text, or its words: where each begins, and where it ends.
Spans: TypeAlias = tuple[Int64s, Int64s]
IGNORED = ("html", "case", "diacritics", "quotes", "punctuation", "digits", "invisible")
# What is done character by character, whatever stands beside it, but for runs of digits.
_BY_CHARACTER = frozenset(("diacritics", "quotes", "punctuation", "digits", "invisible"))

CODE_POINTS = 0x110000
ASCII = 0x80
_BASIC_PLANE = 0x10000
_SURROGATES = range(0xD800, 0xE000)
_WIDE = np.dtype("<u4")
_BLOCK = 128
_TOLD = 0x20000  # code points of which a table says what they are compared as
_LONG_RUN = 1_024  # marks after a character
_LAST_COMPOSED = 0x2FA1E  # of the code points that consist of others
_NO_PLAIN = np.empty(0, np.uint8)

_ZEROS = re.compile("00+")
_LONG_NUMBER = re.compile(r"(?<=&#)[0-9]{1000,}")
_ENTITY = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")

# Letters that are another with a stroke or without a dot, though no mark is apart from them.
_STROKES = dict(zip("ØøĐđŁłĦħŦŧı", "OoDdLlHhTti", strict=True))
_APOSTROPHES = "'`\u00b4\u2018\u2019\u201a\u201b\u2032\u02b9\u02bb\u02bc\u02bd\uff07"
_QUOTATION_MARKS = '"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02\u301d\u301e\u301f'
_HYPHENS = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_ONE_OF_EACH = {
    mark: marks[0] for marks in (_APOSTROPHES, _QUOTATION_MARKS, _HYPHENS) for mark in marks
} | dict.fromkeys("\u2039\u203a", '"')
_VISIBLE_FORMATS = frozenset(map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x8E2, 0x110BD)))
_INVISIBLE_MARKS = frozenset(map(chr, (0x34F, 0x61C, 0x115F, 0x1160, *range(0xFE00, 0xFE10))))

# Of tags: those within words, and those whose content nobody reads.
_INLINE = (
    *("a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font"),
    *("i", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike"),
    *("strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
)
_HIDDEN = ("script", "style", "template")


def ignored(names: Any) -> tuple[str, ...]:
    """Return what is ignored in its one order; ConfigurationError for what is none of ``IGNORED``.

    One text may name several with commas between them.
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    if not can_be_iterated(names):
        raise ConfigurationError(f"ignore must be names, not {short(names)}")
    given = list(names)
    unknown = next((name for name in given if name not in IGNORED), None)
    if unknown is not None:
        raise ConfigurationError(f"ignore takes {', '.join(IGNORED)}, not {short(unknown)}")
    return tuple(name for name in IGNORED if name in given)


def prepared_ignored(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which what is ignored is in its one form."""
    told = {"ignore": list(ignored(described["ignore"]))} if "ignore" in described else {}
    return {**described, **told}


class Form(Struct, frozen=True):
    """The form in which texts are compared; ``kinds.text.Text`` says what each setting means."""

    unicode: NormalForm = "NFC"
    white_space: WhiteSpace = "collapse"
    lowercase: bool = False
    ignore: tuple[str, ...] = ()

    @property
    def treatment(self) -> int:
        """LOWERCASE and COLLAPSE of kernels, which are not to be imported before needed."""
        return int(self._has_case) + 2 * int(self.white_space == "collapse")

    @property
    def _has_case(self) -> bool:
        return self.lowercase or "case" in self.ignore

    @property
    def joins_digits(self) -> bool:
        """Whether a run of digits counts as one."""
        return "digits" in self.ignore

    @property
    def has_markup(self) -> bool:
        """Whether texts have markup that is to be removed."""
        return "html" in self.ignore

    def in_case(self, text: str) -> str:
        """Return a text in small letters, or case-folded, if that is wanted."""
        if "case" in self.ignore:
            return text.casefold()
        return text.lower() if self.lowercase else text

    def normalised(self, text: str) -> str:
        """Return a text without markup as it is compared, but for white space."""
        text = in_normal_form(self.unicode, text)
        text = self.in_case(text)
        if not _BY_CHARACTER.isdisjoint(self.ignore):
            text = text.translate(_stand_ins(self.ignore))
        return _ZEROS.sub("0", text) if self.joins_digits else text

    def stands_for(self) -> UInt32s:
        """What stands for each code point, as ``kernels.shingles.decoded`` wants it."""
        return _stands_for(self.unicode, self._cased, self.ignore)

    @property
    def _cased(self) -> Literal["fold", "lower", "keep"]:
        if "case" in self.ignore:
            return "fold"
        return "lower" if self.lowercase else "keep"

    def plain(self) -> UInt8s:
        """The same of ASCII, but for its case; empty where each stands for itself."""
        return _plain(self.ignore)

    # -- for people ------------------------------------------------------------------------------

    def placed(self, text: str) -> tuple[str, Spans | None]:
        """Return a text as it is compared, but for white space, and where its characters are.

        That is where each begins and ends in the text as it was given; None if it cannot be told.
        """
        if not self.ignore and in_normal_form(self.unicode, text) is text:
            made = self.in_case(text)
            if len(made) == len(text):  # hardly any character becomes several
                places = np.arange(len(text) + 1)
                return made, (places[:-1], places[1:])
        read, spans = text, [(place, place + 1) for place in range(len(text))]
        if self.has_markup:
            read, spans = _read(text)
        normal = read
        if self.unicode != "keep" and not unicodedata.is_normalized(self.unicode, read):
            normal, within = _normalised(read, self.unicode)
            spans = [(spans[begin][0], spans[end - 1][1]) for begin, end in within]
        sizes = [len(self.in_case(character)) for character in normal]
        normal = self.in_case(normal)
        spans = [span for span, size in zip(spans, sizes, strict=True) for _ in range(size)]
        made = self.normalised(read)
        if len(spans) != len(normal):
            return made, None
        found: list[tuple[str, Span]] = []
        table = _stand_ins(self.ignore)
        for character, span in zip(normal, spans, strict=True):
            stands = character.translate(table) if self.ignore else character
            if stands == "0" and self.joins_digits and found and found[-1][0] == "0":
                found[-1] = "0", (found[-1][1][0], span[1])
            elif stands:
                found.append((stands, span))
        if "".join(one for one, _ in found) != made:
            return made, None
        begins, ends = np.array([span for _, span in found], np.int64).reshape(-1, 2).T
        return made, (begins, ends)


# -- tables --------------------------------------------------------------------------------------


def _every_code_point(count: int) -> str:
    """Return the first ``count`` code points in order, "?" in place of the surrogates."""
    points = np.arange(count, dtype=_WIDE)
    points[_SURROGATES.start : _SURROGATES.stop] = ord("?")
    return points.tobytes().decode("utf-32-le")


@cache
def character_classes(count: int, *, words: bool = True) -> UInt8s:
    """Return for the first ``count`` code points whether each is white space (1), in a word (2).

    Character shingles ask for white space alone, of which there is none past the basic plane.
    """
    characters = _every_code_point(count if words else min(count, _BASIC_PLANE))
    classes = np.zeros(count, np.uint8)
    for pattern, mark in ((r"\s+", 1), (r"\w+", 2))[: 1 + words]:
        for run in re.finditer(pattern, characters):
            classes[run.start() : run.end()] = mark
    return classes


def _changed(count: int, change: Callable[[str], str]) -> dict[int, str]:
    """Return those of the first ``count`` code points that a function changes, and into what."""
    characters = _every_code_point(count)
    changed: dict[int, str] = {}
    for start in range(0, count, _BLOCK):
        block = characters[start : start + _BLOCK]
        if change(block) != block:
            changed.update(
                (point, change(character))
                for point, character in enumerate(block, start)
                if change(character) != character
            )
    return changed


@cache
def case_folds(count: int) -> UInt32s:
    """Return the first ``count`` code points, case-folded; the hundred that become several stay."""
    folds = np.arange(count, dtype=np.uint32)
    for point, folded in _changed(count, str.casefold).items():
        if len(folded) == 1:
            folds[point] = ord(folded)
    return folds


def case_folded(text: str) -> str:
    """Return a text as ``case_folds`` folds it."""
    folded = map(str.casefold, text)
    return "".join(
        one if len(other) > 1 else other for one, other in zip(text, folded, strict=True)
    )


class _StandIns(dict[int, str]):
    """What stands for a character where some are ignored: it, another one, or nothing."""

    def __init__(self, ignore: Sequence[str]) -> None:
        super().__init__()
        self._ignore = frozenset(ignore)

    def __missing__(self, point: int) -> str:
        self[point] = found = self._of(chr(point))
        return found

    def _of(self, character: str) -> str:
        ignore = self._ignore
        if "diacritics" in ignore:
            character = _unaccented(character)
            if not character:
                return ""
        category = unicodedata.category(character)
        if "invisible" in ignore:
            is_format = category == "Cf" and character not in _VISIBLE_FORMATS
            if is_format or character in _INVISIBLE_MARKS:
                return ""
        if "quotes" in ignore:
            character = _ONE_OF_EACH.get(character, character)
        if "punctuation" in ignore:
            if character in _APOSTROPHES:
                return ""
            if category[0] == "P" or category in ("Sm", "Sc", "Sk"):
                return " "
        return "0" if category == "Nd" and "digits" in ignore else character


def _unaccented(character: str) -> str:
    """Return a letter without its accents, nothing for an accent.

    Marks of scripts in which they are classes of their own stay: they voice kana, and write vowels,
    tones and nuktas. All others go, also where an alphabet counts the letter as one of its own.
    """
    parts = unicodedata.normalize("NFD", character)
    kept = "".join(part for part in parts if not _is_accent(part))
    kept = character if kept == parts else unicodedata.normalize("NFC", kept)
    return _STROKES.get(kept, kept) if len(kept) < 2 else character


def _is_accent(character: str) -> bool:
    """Whether it is a mark through, over or below a letter, or a vowel point of Semitic scripts."""
    rank = unicodedata.combining(character)
    return rank == 1 or 10 <= rank <= 36 or rank >= 200


_stand_ins = cache(_StandIns)


@cache
def _plain(ignore: tuple[str, ...]) -> UInt8s:
    stand_ins = _stand_ins(ignore)
    found = np.array(
        [ord(stand_ins[point] or chr(kernels.shingles.NARROW_DROPPED)) for point in range(ASCII)],
        np.uint8,
    )
    return _NO_PLAIN if np.array_equal(found, np.arange(ASCII)) else found


@cache
def _stands_for(
    form: NormalForm, case: Literal["fold", "lower", "keep"], ignore: tuple[str, ...]
) -> UInt32s:
    """The code point that stands for each one, ``DEPENDS`` where its neighbours decide.

    Those are compared as they stand that are normal alone and combine with none before them, or as
    their small letter, but for the sigma, which is another at the end of a word.
    """
    points = np.arange(_TOLD, dtype=np.uint32)
    cased: dict[int, str] = {}
    if case != "keep":
        cased = _changed(_TOLD, str.casefold if case == "fold" else str.lower)
    stand_ins = _stand_ins(ignore)
    affected = [] if _BY_CHARACTER.isdisjoint(ignore) else _perhaps_ignored()
    for point in {*cased, *affected}:
        points[point] = _coded(cased.get(point, chr(point)).translate(stand_ins))
    depends = set(_SURROGATES)
    if case == "lower":
        depends.update(point for point, small in cased.items() if len(small) > 1)
        depends.add(ord("Σ"))
    if form != "keep":
        composed = _changed(_LAST_COMPOSED + 1, partial(unicodedata.normalize, "NFD"))
        followers = _followers()
        depends.update(map(ord, followers))
        depends.update(point for point, parts in composed.items() if parts[0] in followers)
        depends.update(_changed(_TOLD, partial(unicodedata.normalize, form)))
        combining = map(unicodedata.combining, _every_code_point(_TOLD))
        depends.update(point for point, rank in enumerate(combining) if rank)
    points[[point for point in depends if point < _TOLD]] = kernels.shingles.DEPENDS
    return points


def _coded(stands: str) -> int:
    """Return what stands for a character as kernels have it."""
    told = kernels.shingles
    if len(stands) < 2:
        return ord(stands) if stands else int(told.DROPPED)
    one, other = (*map(ord, stands), 0)[:2]
    if len(stands) > 2 or max(one, other) >= 2**15:
        return int(told.DEPENDS)
    return int(told.PAIR) | one << 15 | other


@cache
def _perhaps_ignored() -> list[int]:
    """The code points of which something may be ignored."""
    kinds = enumerate(map(unicodedata.category, _every_code_point(_TOLD)))
    found = {point for point, kind in kinds if kind[0] in "PSM" or kind in ("Nd", "Cf")}
    found.update(_changed(_TOLD, partial(unicodedata.normalize, "NFD")))
    found.difference_update(range(0xAC00, 0xD7A4))  # syllables, whose parts are no accents
    return sorted(found | set(map(ord, (*_STROKES, *_APOSTROPHES, *_INVISIBLE_MARKS))))


@cache
def _followers() -> frozenset[str]:
    """The characters that others are composed of, but at their beginning."""
    composed = _changed(_LAST_COMPOSED + 1, partial(unicodedata.normalize, "NFD"))
    return frozenset("".join(parts[1:] for parts in composed.values()))


@cache
def _runs_of_marks(least: int) -> re.Pattern[str]:
    combining = (
        unicodedata.combining(unicodedata.normalize("NFD", character)[0])
        for character in map(chr, range(_TOLD))
    )
    marks = "".join(chr(point) for point, rank in enumerate(combining) if rank)
    return re.compile(f"[{re.escape(marks)}]{{{least},}}")


def in_normal_form(form: NormalForm, text: str) -> str:
    """Return a text in a normal form of Unicode, or as it is, in time linear in its length.

    ``unicodedata`` puts the marks after a character in order by insertion, which takes the square
    of their number; so those of a long run are put in order before.
    """
    if form == "keep" or unicodedata.is_normalized(form, text):
        return text
    # Of every 64th character, which is fast, a long run has one fewer or more in succession.
    if _runs_of_marks(_LONG_RUN // 64 - 1).search(text[::64]):
        compatible = form in ("NFKC", "NFKD")

        def in_order(run: re.Match[str]) -> str:
            decompose = partial(unicodedata.normalize, "NFKD" if compatible else "NFD")
            parts = chain.from_iterable(map(decompose, run[0]))
            return "".join(sorted(parts, key=unicodedata.combining))

        text = _runs_of_marks(_LONG_RUN).sub(in_order, text)
    return unicodedata.normalize(form, text)


def _normalised(text: str, form: NormalForm) -> tuple[str, list[Span]]:
    """Return a text in a normal form, each of whose characters is of a run of those given.

    A run ends before a character that combines with none before it, which most are.
    """
    assert form != "keep"
    starts = [
        place
        for place, character in enumerate(text)
        if not place
        or not (
            unicodedata.combining(character)
            or character in _followers()
            or unicodedata.combining(unicodedata.normalize(form, character)[0])
        )
    ]
    made, spans = [], []
    for begin, end in pairwise([*starts, len(text)]):
        made.append(in_normal_form(form, text[begin:end]))
        spans += [(begin, end)] * len(made[-1])
    return "".join(made), spans


# -- markup --------------------------------------------------------------------------------------


@cache
def _tags() -> tuple[UInt64s, UInt64s]:
    """The names of tags within words, and of those whose content is hidden, as numbers."""
    inline, hidden = (
        np.array([int.from_bytes(name.encode(), "big") for name in names], np.uint64)
        for names in (_INLINE, _HIDDEN)
    )
    return inline, hidden


def without_markup(data: UInt8s, offsets: Int64s) -> tuple[UInt8s, Int64s]:
    """Return texts in UTF-8 as they are to be read: without tags, entities as what they stand for.

    What is no UTF-8 stays so.
    """
    if (data == ord("<")).any():
        data, offsets, _ = kernels.markup.unmarked(data, offsets, *_tags(), placed=False)
    marks = np.flatnonzero(data == ord("&"))
    if not marks.size:
        return data, offsets
    parts: list[bytes] = []
    sizes = np.diff(offsets)
    bounds, end = offsets.tolist(), 0
    for text in np.unique(np.searchsorted(offsets, marks, side="right") - 1).tolist():
        start, stop = bounds[text], bounds[text + 1]
        resolved = _unescaped(str(data[start:stop].data, "utf-8", "surrogateescape"))
        parts += data[end:start].tobytes(), resolved.encode("utf-8", "surrogateescape")
        sizes[text] = len(parts[-1])
        end = stop
    parts.append(data[end:].tobytes())
    found = np.zeros(offsets.size, np.int64)
    np.cumsum(sizes, out=found[1:])
    return np.frombuffer(b"".join(parts), np.uint8), found


def _unescaped(text: str) -> str:
    """Return a text with what its entities stand for, whatever their numbers.

    Python reads no number of thousands of digits; of eight, none is a code point.
    """
    from html import unescape  # knows all entities: slow to load

    return unescape(_LONG_NUMBER.sub(lambda found: found[0].lstrip("0")[:8] or "0", text))


def _read(text: str) -> tuple[str, list[Span]]:
    """Return a text without its markup, and of each character the span of the text it is from."""
    data = text.encode()
    offsets = np.array([0, len(data)])
    kept, _, places = kernels.markup.unmarked(
        np.frombuffer(data, np.uint8), offsets, *_tags(), placed=True
    )
    # Of each byte the place of its character; a character begins where no byte continues one.
    characters = np.cumsum((np.frombuffer(data, np.uint8) & 0xC0) != 0x80) - 1
    begins = characters[places[(kept & 0xC0) != 0x80]].tolist()
    read = kept.tobytes().decode()
    made: list[str] = []
    spans: list[Span] = []
    for piece, begin, end in _entities(read):
        span = (begins[begin], begins[end - 1] + 1)
        made.append(piece)
        spans += [span] * len(piece)
    return "".join(made), spans


def _entities(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the characters of a text one by one and what entities stand for, with their places."""
    end = 0
    for found in _ENTITY.finditer(text):
        yield from ((text[place], place, place + 1) for place in range(end, found.start()))
        yield _unescaped(found.group()), *found.span()
        end = found.end()
    yield from ((text[place], place, place + 1) for place in range(end, len(text)))

r"""Texts: their shingles as 64-bit symbols, and their stored form (MMDS 3.2).

A text is compared in a normalised form: the Unicode form first, then lower case, then white space,
as the settings say. Shingles are of code points. What is white space, a word character or a small
letter is what ``str.isspace``, ``\w`` of ``re`` and ``str.lower`` say; they know more characters
in a newer Python, so that a text in a script that only the newer one knows may get other symbols.
Under NFD and NFKD an accent is a character of its own and, as for ``re``, ends a word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from itertools import groupby, islice, pairwise
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
from msgspec import Meta

from simdb import kernels
from simdb.arrays import Int64s, UInt8s, UInt32s, UInt64s
from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.evidence import Label, Span
from simdb.kinds.base import (
    MAXIMUM_ITEM_BYTES,
    MOST_COUNTED,
    OBJECTS,
    Examples,
    Format,
    Items,
    SettingOption,
    Settings,
    SymbolKind,
    joined,
    shown,
    utf8,
)
from simdb.kinds.sets import stored_elements
from simdb.kinds.tokenisers import TokenHashes, Tokens
from simdb.lsh.family import SymbolSets, polynomial_base, secret_words
from simdb.ragged import ByteStrings, Column

NormalForm: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD", "keep"]
WhiteSpace: TypeAlias = Literal["collapse", "keep"]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_COUNTED)]

_CODE_POINTS = 0x110000
_BASIC_PLANE = 0x10000
_ASCII = 0x80
_SURROGATES = range(0xD800, 0xE000)
_MODULUS = 2**61 - 1
_WIDE = np.dtype("<u4")
_NO_FOLDS = _NO_POINTS = np.empty(0, np.uint32)
_BLOCK = 128
_TOLD = 0x20000  # code points of which a table says what they are compared as
_DEPENDS = 2**32 - 1
_LAST_COMPOSED = 0x2FA1E  # of the code points that consist of others
MANY = 16  # texts for which that table is made

# The words that tie prose together. News text is full of them and its surroundings
# (menus, captions, advertisements) are not: MMDS 3.2.4.
# fmt: off
ENGLISH_STOP_WORDS: tuple[str, ...] = (
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "but", "by", "can", "could", "did", "do", "for", "from", "had", "has",
    "have", "he", "her", "his", "how", "if", "in", "into", "is", "it", "its", "more", "my",
    "no", "not", "of", "on", "one", "or", "other", "our", "out", "over", "said", "she",
    "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "to", "up", "was", "we", "were", "what", "when", "where", "which",
    "who", "will", "with", "would", "you", "your",
)
# fmt: on

_WORD = re.compile(r"\w+")

# -- settings ------------------------------------------------------------------------------------


class Shingling(Settings, frozen=True, tag_field="of"):
    """What a text is cut into."""


class CharacterShingles(Shingling, frozen=True, tag="character"):
    """Every run of ``size`` successive characters (code points) of the text (MMDS 3.2.1).

    A text shorter than ``size`` has one shingle: all of it. An empty text has none.
    """

    size: Count = 9


class WordShingles(Shingling, frozen=True, tag="word"):
    r"""Every run of ``size`` successive words, a word being a run of ``\w`` (MMDS 3.2.1, 3.2.2).

    A text of fewer words has one shingle: all of them. A text without words has none.
    """

    size: Count = 3


class StopWordShingles(Shingling, frozen=True, tag="stop-word"):
    r"""Every stop word together with the ``following`` words after it (MMDS 3.2.4).

    Stop words are compared without regard to case; each is a run of ``\w``. A stop word with fewer
    than ``following`` words after it begins no shingle.
    """

    following: Count = 2
    stop_words: Sequence[str] = ENGLISH_STOP_WORDS

    def __post_init__(self) -> None:
        """Refuse what no text has as a word."""
        words: object = self.stop_words  # what a caller gives is not always what is declared
        if isinstance(words, str) or not isinstance(words, Iterable) or not words:
            raise ConfigurationError("StopWordShingles.stop_words must be a sequence of words")
        kept = tuple(words)
        for word in kept:
            if not isinstance(word, str) or not _WORD.fullmatch(unicodedata.normalize("NFC", word)):
                raise ConfigurationError(
                    f"StopWordShingles.stop_words has {word!r}, which no text has as a word: a "
                    "word is a run of letters, digits and underscores, as the don and the t of "
                    "don't"
                )
        self._set("stop_words", kept)
        super().__post_init__()


Shingles: TypeAlias = CharacterShingles | WordShingles | StopWordShingles | Tokens

# Of English text: a word and its blank have about 6 bytes, and a stop word comes every 13 bytes.
_BYTES_A_SHINGLE = {CharacterShingles: 1, WordShingles: 6, StopWordShingles: 13, Tokens: 6}


class Text(SymbolKind, frozen=True):
    """Texts, compared as sets of shingles by Jaccard similarity.

    Attributes:
        shingles: what a text is cut into.
        lowercase: compare without regard to case (``str.lower``).
        white_space: ``"collapse"`` makes every run of white space one blank and drops it at both
            ends (MMDS 3.2.2); ``"keep"`` compares it as it is. Word shingles ignore it anyway.
        unicode: normalisation form applied before all else, or ``"keep"``.
    """

    shingles: Shingles = CharacterShingles()
    lowercase: bool = False
    white_space: WhiteSpace = "collapse"
    unicode: NormalForm = "NFC"

    plural: ClassVar[str] = "texts"
    labelled: ClassVar[str] = "shingles"
    is_slow_to_read: ClassVar[bool] = True
    options: ClassVar[Mapping[str, SettingOption]] = {
        "shingles": SettingOption(
            "What texts are compared by",
            "character:9",
            "character:N|word:N|stop-word:N|tokens:NAME:VERSION",
        ),
        "lowercase": SettingOption(
            "Compare without regard to case", "--keep-case", off="--keep-case"
        ),
        "white_space": SettingOption("Runs of white space", "collapse", "collapse|keep"),
        "unicode": SettingOption("Normalise characters first", "NFC", "NFC|NFD|NFKC|NFKD|keep"),
    }
    suffixes: ClassVar[Mapping[str, Format]] = {
        **OBJECTS,
        ".csv": "csv",
        **dict.fromkeys((".txt", ".text", ".md", ".rst"), "text"),
    }
    of_lines: ClassVar[bool] = True
    json_form: ClassVar[str] = "text"
    probe_option: ClassVar[str] = "--text"
    probe_format: ClassVar[Format | None] = "text"

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        items = [
            "the quick brown fox jumps over a lazy dog",
            "pack my box with five dozen liquor jugs",
            "how vexingly quick daft zebras jump at night",
            "cinq élèves français goûtaient une crème brûlée",
            "copper rose in London as stocks fell again",
        ]
        near = [f"{item} !" for item in items]
        invalid = (None, 3.5, b"text", ["text"], "\ud800")
        return (
            Examples(cls(WordShingles(1)), "0.8", items, near, invalid),
            Examples(cls(CharacterShingles(4), lowercase=True), "0.9", items, near, invalid),
        )

    def make_items(self, secret: bytes) -> EncodedTexts:
        if isinstance(self.shingles, Tokens):
            return TokenisedTexts(self, self.shingles, secret)
        return TextItems(self, secret)

    @property
    def symbols_a_byte(self) -> float:
        """Shingles that a byte of English text gives: a rule of thumb."""
        return 1 / _BYTES_A_SHINGLE[type(self.shingles)]

    @classmethod
    def prepared(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings in which shingles may be ``"word:3"``; the size may be left out."""
        shingles = described.get("shingles")
        if not isinstance(shingles, str):
            return dict(described)
        name, colon, size = shingles.partition(":")
        if name == "tokens" and size:
            called, _, version = size.partition(":")
            told = {"version": version} if version else {}
            return {**described, "shingles": {"of": name, "name": called, **told}}
        known = {one.__struct_config__.tag: one for one in _BYTES_A_SHINGLE if one is not Tokens}
        whole = size.isascii() and size.isdigit() and len(size) < 10
        if name not in known or (colon and not whole):
            raise ConfigurationError(
                "shingles must be character:N, word:N, stop-word:N or tokens:NAME:VERSION, not "
                f"{shingles!r}"
            )
        sized = {known[name].__struct_fields__[0]: int(size)} if colon else {}
        return {**described, "shingles": {"of": name, **sized}}

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        return value if isinstance(value, str) else NotImplemented

    def item_of_text(self, text: str) -> str:
        return text

    def joined(self, parts: list[Any]) -> str:
        return "\n".join(parts)


# -- items ---------------------------------------------------------------------------------------


def _every_code_point(count: int) -> str:
    """Return the first ``count`` code points in order, "?" in place of the surrogates."""
    points = np.arange(count, dtype=_WIDE)
    points[_SURROGATES.start : _SURROGATES.stop] = ord("?")
    return points.tobytes().decode("utf-32-le")


@cache
def _character_classes(count: int, *, words: bool = True) -> UInt8s:
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
def _case_folds(count: int) -> UInt32s:
    """Return the first ``count`` code points, case-folded; the hundred that become several stay."""
    folds = np.arange(count, dtype=np.uint32)
    for point, folded in _changed(count, str.casefold).items():
        if len(folded) == 1:
            folds[point] = ord(folded)
    return folds


@cache
def _stands_for(form: NormalForm, *, lowercase: bool) -> UInt32s:
    """The code point that stands for each one, ``DEPENDS`` where its neighbours decide.

    Those are compared as they stand that are normal alone and combine with none before them, or as
    their small letter, but for the sigma, which is another at the end of a word.
    """
    points = np.arange(_TOLD, dtype=np.uint32)
    if lowercase:
        for point, small in _changed(_TOLD, str.lower).items():
            points[point] = ord(small) if len(small) == 1 else _DEPENDS
        points[ord("Σ")] = _DEPENDS
    depends = set(_SURROGATES)
    if form != "keep":
        composed = _changed(_LAST_COMPOSED + 1, partial(unicodedata.normalize, "NFD"))
        followers = _followers()
        depends.update(map(ord, followers))
        depends.update(point for point, parts in composed.items() if parts[0] in followers)
        depends.update(_changed(_TOLD, partial(unicodedata.normalize, form)))
        combining = map(unicodedata.combining, _every_code_point(_TOLD))
        depends.update(point for point, rank in enumerate(combining) if rank)
    points[[point for point in depends if point < _TOLD]] = _DEPENDS
    return points


def character_classes(*, is_wide: bool) -> UInt8s:
    """Return of each code point, of those of ASCII if no others are asked for, if it is a blank."""
    return _character_classes(_CODE_POINTS if is_wide else _ASCII, words=False)


class EncodedTexts(Items):
    """Texts in UTF-8, decoded into code points in the form in which they are compared.

    Attributes:
        what: what messages call a text.
    """

    what: ClassVar[str] = "text"

    def __init__(self, unicode: NormalForm, white_space: WhiteSpace, *, lowercase: bool) -> None:
        self._form = unicode
        self._lowercase = lowercase
        # LOWERCASE and COLLAPSE of the kernel, which is not to be imported before it is needed.
        self._treatment = int(lowercase) + 2 * int(white_space == "collapse")

    def _normalise(self, text: str) -> str:
        form = self._form
        if form != "keep" and not unicodedata.is_normalized(form, text):
            text = unicodedata.normalize(form, text)
        return text.lower() if self._lowercase else text

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        if set(map(type, items)) == {str}:
            with suppress(UnicodeEncodeError):  # said below, with the text that it is
                encoded = list(map(str.encode, cast("Sequence[str]", items)))
                if max(map(len, encoded)) <= MAXIMUM_ITEM_BYTES:
                    return encoded
        return list(map(self.encode, items))

    def encode_column(self, column: Column) -> ByteStrings | None:
        if column.form != "text" or np.diff(column.offsets).max(initial=0) > MAXIMUM_ITEM_BYTES:
            return None
        return ByteStrings(column.values, column.offsets)

    def encode(self, item: object) -> bytes:
        """Return the stored form of a text: its UTF-8 bytes, exactly as it was given."""
        if not isinstance(item, str):
            missing = isinstance(item, float) and math.isnan(item)
            hint = f" (a nan usually stands for a missing {self.what})" if missing else ""
            raise BadItemError(f"a {self.what} must be a str, not {shown(item)}{hint}")
        data = utf8(item, f"the {self.what}")
        if len(data) > MAXIMUM_ITEM_BYTES:
            raise BadItemError(
                f"the {self.what} has {len(data):,} bytes in UTF-8, more than the "
                f"{MAXIMUM_ITEM_BYTES:,} of an item; split it"
            )
        return data

    def decode(self, data: bytes | memoryview) -> str:
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptionError(f"a stored {self.what} cannot be read: {error}") from error

    def placed(self, item: bytes | memoryview) -> tuple[str, list[Span | None]]:
        """Return a stored text as it is compared, but for white space, and its characters' places.

        Each is of a span of the text as it was given; of none where that cannot be told.
        """
        text = self.decode(item)
        normal, spans = text, [(place, place + 1) for place in range(len(text))]
        if self._form != "keep" and not unicodedata.is_normalized(self._form, text):
            normal, spans = _normalised(text, self._form)
        if self._lowercase:
            sizes = [len(character.lower()) for character in normal]
            normal = normal.lower()
            spans = [span for span, size in zip(spans, sizes, strict=True) for _ in range(size)]
        known = normal == self._normalise(text) and len(spans) == len(normal)
        return self._normalise(text), [*spans] if known else [None] * len(self._normalise(text))

    def code_points(self, items: Sequence[bytes | memoryview]) -> tuple[UInt8s, UInt32s, Int64s]:
        """Decode stored texts: a narrow buffer, a wide one, and the spans of texts in them."""
        data, offsets = joined(items)
        characters = self._stands_for if len(items) >= MANY else _NO_POINTS
        wide, spans, unsettled = kernels.shingles.decoded(data, offsets, characters)
        if unsettled:
            wide = self._settle(data, wide, spans)
        return data, wide, spans

    def _settle(self, data: UInt8s, wide: UInt32s, spans: Int64s) -> UInt32s:
        """Decode texts whose characters depend on each other; return them after the others."""
        parts, end = [wide], wide.size
        for place in np.flatnonzero(spans[:, 0] == kernels.shingles.UNSETTLED).tolist():
            _, start, stop = spans[place].tolist()
            normal = self._normalise(self.decode(data[start:stop].data)).encode("utf-32-le")
            parts.append(np.frombuffer(normal, _WIDE))
            spans[place] = kernels.shingles.WIDE, end, end + parts[-1].size
            end += parts[-1].size
        return np.concatenate(parts)

    @cached_property
    def _stands_for(self) -> UInt32s:
        return _stands_for(self._form, lowercase=self._lowercase)


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
        made.append(unicodedata.normalize(form, text[begin:end]))
        spans += [(begin, end)] * len(made[-1])
    return "".join(made), spans


@cache
def _followers() -> frozenset[str]:
    """The characters that others are composed of, but at their beginning."""
    composed = _changed(_LAST_COMPOSED + 1, partial(unicodedata.normalize, "NFD"))
    return frozenset("".join(parts[1:] for parts in composed.values()))


def _windows(pieces: Sequence[tuple[str, Span | None]], size: int, between: str) -> list[Label]:
    """Return every run of so many pieces, or all of fewer, with where it begins and ends."""
    width = min(len(pieces), size)
    labels = []
    for begin in range(len(pieces) - width + 1 if width else 0):
        some = pieces[begin : begin + width]
        first, last = some[0][1], some[-1][1]
        span = None if first is None or last is None else (first[0], last[1])
        labels.append(Label(between.join(piece for piece, _ in some), span))
    return labels


class TokenisedTexts(EncodedTexts):
    """Encode texts, and cut them by a function of one's own, normalised as the settings say.

    What it makes of a text is looked at before the text is taken, and kept until the text is
    signed; where symbols are needed again it is made anew. Two different tokens of at most n bytes
    share a symbol as elements of sets do.
    """

    def __init__(self, settings: Text, tokens: Tokens, secret: bytes) -> None:
        super().__init__(settings.unicode, settings.white_space, lowercase=settings.lowercase)
        self._collapses = settings.white_space == "collapse"
        self._hashes = TokenHashes(tokens, secret)

    def encode(self, item: object) -> bytes:
        data = super().encode(item)
        self._hashes.look_at(data, self._compared(data))
        return data

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        return list(map(self.encode, items))

    def encode_column(self, column: Column) -> None:
        return None

    def _compared(self, data: bytes | memoryview) -> str:
        text = self._normalise(self.decode(data))
        return " ".join(text.split()) if self._collapses else text

    def features(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of the tokens of stored texts."""
        hashes = self._hashes
        kept = map(hashes.taken, items)
        return hashes.symbols(
            [
                hashes.stored(self._compared(item)) if tokens is None else tokens
                for item, tokens in zip(items, kept, strict=True)
            ]
        )

    def labels(self, item: bytes | memoryview) -> list[Label]:
        return list(map(Label, stored_elements(self._hashes.stored(self._compared(item)))))


class TextItems(EncodedTexts):
    """Encode texts and cut them into symbols under one collection's settings and secret.

    Equal settings and secrets give equal symbols on every machine. Two different shingles of at
    most n code points share a symbol with probability at most n / 2^58, for whoever does not know
    the secret.
    """

    def __init__(self, settings: Text, secret: bytes) -> None:
        super().__init__(settings.unicode, settings.white_space, lowercase=settings.lowercase)
        self._settings = settings
        words = [int(word) for word in secret_words(secret, b"simdb.text", 3)]
        base, word_base = polynomial_base(words[0]), polynomial_base(words[1])
        shingles = settings.shingles
        assert not isinstance(shingles, Tokens)
        if isinstance(shingles, StopWordShingles):
            self._size = shingles.following + 1
        else:
            self._size = shingles.size
        departing = -pow(base, self._size, _MODULUS) % _MODULUS
        self._keys = np.array([base, departing, words[2], word_base], np.uint64)
        self._stop_words = self._hash_stop_words(word_base)

    def _hash_stop_words(self, base: int) -> UInt64s:
        """Return the sorted hashes of the stop words as the kernel hashes a case-folded word."""
        shingles = self._settings.shingles
        if not isinstance(shingles, StopWordShingles):
            return np.empty(0, np.uint64)
        hashes = set()
        for word in shingles.stop_words:
            normal = self._normalise(word)
            folds = _case_folds(_ASCII if normal.isascii() else _CODE_POINTS)
            value = 0
            for character in normal:
                value = (value * base + int(folds[ord(character)]) + 1) % _MODULUS
            hashes.add(value)
        return np.array(sorted(hashes), np.uint64)

    def symbols(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of the shingles of stored texts, in order of occurrence."""
        return self._run(*self.code_points(items))

    features = symbols

    def labels(self, item: bytes | memoryview) -> list[Label]:
        """Return the shingles of a stored text, as they are compared, and where they are."""
        text, spans = self.placed(item)
        shingles = self._settings.shingles
        if isinstance(shingles, CharacterShingles):
            characters = list(zip(text, spans, strict=True))
            if self._settings.white_space == "collapse":
                characters = [
                    (" " if of_blanks else character, span)
                    for of_blanks, run in groupby(characters, lambda one: one[0].isspace())
                    for character, span in (islice(run, 1) if of_blanks else run)
                ]
                ends = [place for place, (one, _) in enumerate(characters) if one != " "]
                characters = characters[ends[0] : ends[-1] + 1] if ends else []
            return _windows(characters, shingles.size, "")
        words: list[tuple[str, Span | None]] = []
        for found in _WORD.finditer(text):
            first, last = spans[found.start()], spans[found.end() - 1]
            span = None if first is None or last is None else (first[0], last[1])
            words.append((found.group(), span))
        if not isinstance(shingles, StopWordShingles):
            return _windows(words, self._size, " ")
        stopped = {self._normalise(word).casefold() for word in shingles.stop_words}
        return [
            label
            for (word, _), label in zip(words, _windows(words, self._size, " "), strict=False)
            if word.casefold() in stopped and len(words) >= self._size
        ]

    def _run(self, narrow: UInt8s, wide: UInt32s, spans: Int64s) -> SymbolSets:
        texts = (narrow, wide, spans)
        reach = _CODE_POINTS if wide.size else _ASCII
        words = not isinstance(self._settings.shingles, CharacterShingles)
        narrow_classes = _character_classes(_ASCII, words=words)
        classes = (narrow_classes, _character_classes(reach, words=words))
        if not words:
            return SymbolSets(
                *kernels.shingles.character_shingles(
                    *texts, *classes, self._treatment, self._size, self._keys
                )
            )
        stopped = self._stop_words.size > 0
        folds = (_case_folds(_ASCII), _case_folds(reach)) if stopped else (_NO_FOLDS, _NO_FOLDS)
        return SymbolSets(
            *kernels.shingles.word_shingles(
                *texts, *classes, *folds, self._stop_words, self._treatment, self._size, self._keys
            )
        )

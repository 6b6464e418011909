r"""Texts: their shingles as 64-bit symbols, and their stored form (MMDS 3.2).

A text is compared in a form (``characters.Form``) and cut into shingles of code points or of words.
A word is a run of ``\w`` of ``re``, or what Unicode's breaks enclose (``words``). Both know more
characters in a newer Python, so that a text in a script that only the newer one knows may get other
symbols. Under NFD and NFKD an accent is a character of its own and, as for ``re``, ends a word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arguments import can_be_iterated, short
from simdb.arrays import Int64s, UInt8s, UInt32s, UInt64s
from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.evidence import Evidence, Label, Span, SymbolFacets, labelled
from simdb.kinds.base import (
    MAXIMUM_ITEM_BYTES,
    MOST_COUNTED,
    OBJECTS,
    Examples,
    Format,
    Items,
    SettingOption,
    Settings,
    Stored,
    SymbolKind,
    joined,
    shown,
    utf8,
)
from simdb.kinds.characters import (
    ASCII,
    CODE_POINTS,
    IGNORED,
    Form,
    NormalForm,
    Spans,
    WhiteSpace,
    case_folded,
    case_folds,
    character_classes,
    ignored,
    prepared_ignored,
    without_markup,
)
from simdb.kinds.sets import stored_elements
from simdb.kinds.tokenisers import TokenHashes, Tokens
from simdb.kinds.words import breaks, words_of
from simdb.late import cached_property
from simdb.lsh.family import SymbolSets, polynomial_base, secret_words
from simdb.ragged import ByteStrings, Column

Words: TypeAlias = Literal["runs", "unicode"]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_COUNTED)]

_MODULUS = 2**61 - 1
_WIDE = np.dtype("<u4")
_NO_FOLDS = _NO_POINTS = np.empty(0, np.uint32)
MANY = 16  # texts for which a table is made of what each code point is compared as

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
_BLANKS = re.compile(r"\s\s+")

# -- settings ------------------------------------------------------------------------------------


class Shingling(Settings, frozen=True, tag_field="of"):
    """What a text is cut into."""

    def __str__(self) -> str:
        """Return it as ``--shingles`` takes it, such as ``word:3``."""
        return f"{self.__struct_config__.tag}:{getattr(self, self.__struct_fields__[0])}"


def _is_run(word: str) -> bool:
    return _WORD.fullmatch(unicodedata.normalize("NFC", word)) is not None


def _is_by_breaks(word: str) -> bool:
    normal = unicodedata.normalize("NFC", word)
    try:
        return [found for found, _ in words_of(normal)] == [normal]
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def _no_word(
    word: object,
    why: str = "a word is a run of letters, digits and underscores, such as the don and the t of "
    'don\'t (which is one word for words="unicode")',
) -> ConfigurationError:
    return ConfigurationError(
        f"StopWordShingles.stop_words has {short(word)}, which never occurs as a word: {why}"
    )


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

    Stop words are recognised without regard to case, character by character (``ß`` is not ``ss``);
    each is a run of ``\w``, or a word of ``words="unicode"``, in the form that the other settings
    give texts. A stop word with fewer than ``following`` words after it begins no shingle.
    """

    following: Count = 2
    stop_words: Sequence[str] = ENGLISH_STOP_WORDS

    def __post_init__(self) -> None:
        """Refuse what no text has as a word."""
        words: Any = self.stop_words  # what a caller gives is not always what is declared
        kept = () if isinstance(words, str) or not can_be_iterated(words) else tuple(words)
        if not kept:
            raise ConfigurationError("StopWordShingles.stop_words must be a sequence of words")
        for word in kept:
            if not isinstance(word, str) or not (_is_run(word) or _is_by_breaks(word)):
                raise _no_word(word)
        self._set("stop_words", kept)
        super().__post_init__()


Shingles: TypeAlias = CharacterShingles | WordShingles | StopWordShingles | Tokens

# Of English text: a word and its blank have about 6 bytes, and a stop word comes every 13 bytes.
_BYTES_A_SHINGLE = {CharacterShingles: 1, WordShingles: 6, StopWordShingles: 13, Tokens: 6}


# What texts of some sources are compared by; docs/tuning.md says why, and what they remove.
PROFILES: dict[str, dict[str, Any]] = {
    "news": {
        "shingles": WordShingles(3),
        "ignore": ("case", "diacritics", "quotes", "punctuation", "invisible"),
        "words": "unicode",
    },
    "web": {
        "shingles": WordShingles(3),
        "unicode": "NFKC",
        "ignore": ("html", "case", "diacritics", "quotes", "punctuation", "invisible"),
        "words": "unicode",
    },
    "code": {"shingles": WordShingles(5), "ignore": ("invisible",)},
    "chat": {
        "shingles": CharacterShingles(5),
        "unicode": "NFKC",
        "ignore": ("case", "diacritics", "quotes", "punctuation", "invisible"),
    },
}


def _under_profile(name: object, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a profile with others in their place; ConfigurationError: no such."""
    if not isinstance(name, str) or name not in PROFILES:
        raise ConfigurationError(f"profile must be {' or '.join(PROFILES)}, not {short(name)}")
    given = {**PROFILES[name], **settings}
    shingles = given["shingles"]
    if isinstance(shingles, Settings):
        shingles = msgspec.to_builtins(shingles)
    of = shingles.get("of") if isinstance(shingles, Mapping) else str(shingles).partition(":")[0]
    if of in ("character", "tokens") and "words" not in settings:
        given.pop("words", None)
    return given


class Text(SymbolKind, frozen=True):
    """Texts, compared as sets of shingles by Jaccard similarity.

    Attributes:
        shingles: the pieces that a text is cut into.
        lowercase: compare without regard to case (``str.lower``).
        white_space: ``"collapse"`` makes every run of white space one blank and drops it at both
            ends (MMDS 3.2.2); ``"keep"`` compares it as it is. Word shingles ignore it anyway.
        unicode: the normalisation form, applied before everything in ``ignore`` except markup; or
            ``"keep"``.
        ignore: what does not count, in any order. ``"html"``: tags, comments, scripts and styles;
            entities become their characters. ``"case"``: full case folding, so straße equals
            STRASSE. ``"diacritics"``: accents, strokes and vowel points. ``"quotes"``: the forms of
            quotes, apostrophes and hyphens. ``"punctuation"``: it becomes a blank, and apostrophes
            vanish; this includes signs such as + and $, but not emoji. ``"digits"``: a run of
            digits becomes one 0. ``"invisible"``: soft hyphens, zero-width characters, marks of
            direction.
        words: ``"runs"``: a word is a run of letters, digits and underscores. ``"unicode"``: a word
            lies between the breaks of Standard Annex 29: don't and 3.14 are words, and so is each
            character of scripts without spaces, such as Chinese and Thai.
    """

    shingles: Shingles = CharacterShingles()
    lowercase: bool = False
    white_space: WhiteSpace = "collapse"
    unicode: NormalForm = "NFC"
    ignore: Sequence[str] = ()
    words: Words = "runs"

    plural: ClassVar[str] = "texts"
    labelled: ClassVar[str] = "shingles"
    is_slow_to_read: ClassVar[bool] = True
    options: ClassVar[Mapping[str, SettingOption]] = {
        "shingles": SettingOption(
            "The pieces that texts are compared by",
            "character:9",
            "character:N|word:N|stop-word:N|tokens:NAME:VERSION",
        ),
        "lowercase": SettingOption(
            "Compare without regard to case", "--keep-case", off="--keep-case"
        ),
        "white_space": SettingOption(
            "What to do with runs of white space", "collapse", "collapse|keep"
        ),
        "unicode": SettingOption("Normalise characters first", "NFC", "NFC|NFD|NFKC|NFKD|keep"),
        "ignore": SettingOption(
            "What to ignore, separated by commas", "nothing", ",".join(IGNORED)
        ),
        "words": SettingOption("What a word is", "runs", "runs|unicode"),
        "profile": SettingOption(
            "Settings by name, which other options override", "none", "|".join(PROFILES)
        ),
    }
    added: ClassVar[Mapping[str, object]] = {"ignore": (), "words": "runs"}
    suffixes: ClassVar[Mapping[str, Format]] = {
        **OBJECTS,
        ".csv": "csv",
        **dict.fromkeys((".txt", ".text", ".md", ".rst"), "text"),
    }
    of_lines: ClassVar[bool] = True
    json_form: ClassVar[str] = "text"
    probe_option: ClassVar[str] = "--text"
    probe_format: ClassVar[Format | None] = "text"

    def __post_init__(self) -> None:
        """Put what is ignored into one order; refuse words where there are none to be told."""
        self._set("ignore", ignored(self.ignore))
        SymbolKind.__post_init__(self)
        if self.words != "runs" and isinstance(self.shingles, CharacterShingles | Tokens):
            raise ConfigurationError(
                f"Text.words says what a word is, but {type(self.shingles).__name__} have "
                "no words: "
                "use WordShingles or StopWordShingles, or leave it out"
            )
        for word in self._stop_words:
            # Stores of earlier versions have what is a run in other forms: see require_useful.
            if not _is_run(word) and not self._is_word(word):
                raise _no_word(word)

    def require_useful(self) -> None:
        """Raise ConfigurationError if a stop word, as it is compared, is no word of any text."""
        for word in self._stop_words:
            if not self._is_word(word):
                found = [repr(part) for part, _ in self.words_in(self.form.normalised(word))]
                cut = f"cut into {' and '.join(found)}" if found else "none"
                raise _no_word(word, f"by the settings of this Text it is {cut}")

    @classmethod
    def profile(cls, name: str, **settings: Any) -> Self:
        """Return the settings of a profile, but for those given; the store keeps the settings.

        Raises:
            ConfigurationError: no profile is called so, or a setting is wrong.
        """
        return cls(**_under_profile(name, settings))

    @property
    def _stop_words(self) -> Sequence[str]:
        return self.shingles.stop_words if isinstance(self.shingles, StopWordShingles) else ()

    def _is_word(self, word: str) -> bool:
        normal = self.form.normalised(word)
        return [one for one, _ in self.words_in(normal)] == [normal]

    def words_in(self, text: str) -> list[tuple[str, Span]]:
        """Return the words of a text, as it is compared, and where they are."""
        if self.words == "unicode":
            return words_of(text)
        return [(found.group(), found.span()) for found in _WORD.finditer(text)]

    @property
    def form(self) -> Form:
        """The form in which texts are compared."""
        return Form(self.unicode, self.white_space, self.lowercase, tuple(self.ignore))

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
            Examples(
                cls.profile("web", shingles=WordShingles(1)),
                "0.8",
                [f"<p>{item}</p>" for item in items],
                [f"{item.upper()} &amp; more" for item in items],
                invalid,
            ),
        )

    def make_items(self, secret: bytes) -> EncodedTexts:
        if isinstance(self.shingles, Tokens):
            return TokenisedTexts(self, self.shingles, secret)
        return TextItems(self, secret)

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        """Return what each symbol of two texts stands for, found out where it is asked for."""
        if isinstance(items, TextItems):
            one, other = items.shingled(left), items.shingled(right)
            if one.spans is not None is not other.spans:
                sets = items.symbols([left, right])
                facets = SymbolFacets((sets[0], sets[1]), (one.labels, other.labels))
                return Evidence(self.labelled, facets)
        return super().evidence(items, left, right)

    @property
    def symbols_a_byte(self) -> float:
        """Shingles that a byte of English text gives: a rule of thumb."""
        return 1 / _BYTES_A_SHINGLE[type(self.shingles)]

    @classmethod
    def prepared(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings with those of a profile, where shingles may be ``"word:3"``.

        The size may be left out, and what is ignored be names with commas between.
        """
        described = prepared_ignored(described)
        if "profile" in described:
            name = described.pop("profile")
            described = msgspec.to_builtins(_under_profile(name, described))
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


class EncodedTexts(Items):
    """Texts in UTF-8, decoded into code points in the form in which they are compared.

    Attributes:
        what: what messages call a text.
    """

    what: ClassVar[str] = "text"

    def __init__(self, form: Form) -> None:
        self._form = form
        self._treatment = form.treatment
        self._has_markup = form.has_markup
        self._joins_digits = form.joins_digits

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        if set(map(type, items)) == {str}:
            try:
                encoded = [item.encode() for item in cast("Sequence[str]", items)]
            except UnicodeEncodeError:
                pass  # said below, with the text that it is
            else:
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
                f"{MAXIMUM_ITEM_BYTES:,} that an item may take; split it"
            )
        return data

    def decode(self, data: bytes | memoryview) -> str:
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptionError(f"a stored {self.what} cannot be read: {error}") from error

    def placed(self, item: bytes | memoryview) -> tuple[str, Spans | None]:
        """Return a stored text as it is compared, but for white space; see ``Form.placed``."""
        return self._form.placed(self.decode(item))

    def code_points(self, items: Sequence[bytes | memoryview]) -> tuple[UInt8s, UInt32s, Int64s]:
        """Decode stored texts: a narrow buffer, a wide one, and the spans of texts in them."""
        data, offsets = joined(items)
        if self._has_markup:
            data, offsets = without_markup(data, offsets)
        asked_for = len(items) >= MANY and data.max(initial=0) >= ASCII
        characters = self._stands_for if asked_for else _NO_POINTS
        plain = self._plain
        narrow, wide, spans, unsettled = kernels.shingles.decoded(
            data, offsets, characters, plain, self._joins_digits
        )
        if unsettled:
            wide = self._settle(data, wide, spans)
        return narrow if plain.size else data, wide, spans

    def _settle(self, data: UInt8s, wide: UInt32s, spans: Int64s) -> UInt32s:
        """Decode texts whose characters depend on each other; return them after the others."""
        parts, end = [wide], wide.size
        for place in np.flatnonzero(spans[:, 0] == kernels.shingles.UNSETTLED).tolist():
            _, start, stop = spans[place].tolist()
            read = self.decode(data[start:stop].data)
            normal = self._form.normalised(read).encode("utf-32-le")
            parts.append(np.frombuffer(normal, _WIDE))
            spans[place] = kernels.shingles.WIDE, end, end + parts[-1].size
            end += parts[-1].size
        return np.concatenate(parts)

    @cached_property
    def _plain(self) -> UInt8s:
        return self._form.plain()

    @cached_property
    def _stands_for(self) -> UInt32s:
        return self._form.stands_for()


class Shingled(Struct, frozen=True):
    """The shingles of a text: runs of so many of its pieces, or all of fewer, made when asked for.

    Attributes:
        pieces: its characters, or its words, as they are compared.
        spans: where these are in the text as it was given; None if that cannot be told.
        width: how many pieces a shingle has.
        begins: the piece that each shingle begins with.
    """

    pieces: str | list[str]
    spans: Spans | None
    width: int
    begins: Sequence[int]

    @classmethod
    def every(cls, pieces: str | list[str], spans: Spans | None, size: int) -> Self:
        """Return all that a text has."""
        width = min(len(pieces), size)
        return cls(pieces, spans, width, range(len(pieces) - width + 1 if pieces else 0))

    def labels(self, places: list[int] | None = None) -> list[Label]:
        """Return the shingles, or those at some places among them, and where they are."""
        begins = self.begins if places is None else [self.begins[place] for place in places]
        runs: Iterable[Any] = (self.pieces[begin : begin + self.width] for begin in begins)
        if not isinstance(self.pieces, str):
            runs = map(" ".join, runs)
        if self.spans is None:
            return labelled(runs)
        first = np.array(begins, np.int64)
        starts, ends = self.spans[0][first], self.spans[1][first + self.width - 1]
        return labelled(runs, zip(starts.tolist(), ends.tolist(), strict=True))


class TokenisedTexts(EncodedTexts):
    """Encode texts, and cut them by a function of one's own, normalised as the settings say.

    What it makes of a text is looked at before the text is taken, and kept until the text is
    signed; where symbols are needed again it is made anew. Two different tokens of at most n bytes
    share a symbol as elements of sets do.
    """

    expands = True

    def __init__(self, settings: Text, tokens: Tokens, secret: bytes) -> None:
        super().__init__(settings.form)
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
        text = self.decode(data)
        if self._has_markup:
            encoded = np.frombuffer(data, np.uint8)
            read, _ = without_markup(encoded, np.array([0, encoded.size]))
            text = read.tobytes().decode()
        text = self._form.normalised(text)
        return " ".join(text.split()) if self._form.white_space == "collapse" else text

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
        return labelled(stored_elements(self._hashes.stored(self._compared(item))))


class TextItems(EncodedTexts):
    """Encode texts and cut them into symbols under one collection's settings and secret.

    Equal settings and secrets give equal symbols on every machine. Two different shingles of at
    most n code points share a symbol with probability at most n / 2^58, for whoever does not know
    the secret.
    """

    def __init__(self, settings: Text, secret: bytes) -> None:
        super().__init__(settings.form)
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
            normal = self._form.normalised(word)
            folds = case_folds(ASCII if normal.isascii() else CODE_POINTS)
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
        return self.shingled(item).labels()

    def shingled(self, item: bytes | memoryview) -> Shingled:
        """Return the shingles of a stored text, which are made when they are asked for."""
        text, spans = self.placed(item)
        shingles = self._settings.shingles
        if isinstance(shingles, CharacterShingles):
            collapsed = " ".join(text.split())
            if self._settings.white_space == "collapse" and collapsed != text:
                if spans is not None:  # of a run of white space, the first is compared
                    kept = np.ones(len(text), np.bool_)
                    for run in _BLANKS.finditer(text):
                        kept[run.start() + 1 : run.end()] = False
                    kept[: len(text) - len(text.lstrip())] = False
                    kept[len(text.rstrip()) :] = False
                    spans = spans[0][kept], spans[1][kept]
                text = collapsed
            return Shingled.every(text, spans, self._size)
        words = self._settings.words_in(text)
        if spans is not None:
            first, end = np.array([span for _, span in words], np.int64).reshape(-1, 2).T
            spans = spans[0][first], spans[1][end - 1]
        found = Shingled.every([word for word, _ in words], spans, self._size)
        if not isinstance(shingles, StopWordShingles):
            return found
        stopped = {case_folded(self._form.normalised(word)) for word in shingles.stop_words}
        begins = [
            begin
            for begin, word in zip(found.begins, found.pieces, strict=False)
            if case_folded(word) in stopped and len(words) >= self._size
        ]
        return replace(found, begins=begins)

    def _run(self, narrow: UInt8s, wide: UInt32s, spans: Int64s) -> SymbolSets:
        texts = (narrow, wide, spans)
        reach = CODE_POINTS if wide.size else ASCII
        words = not isinstance(self._settings.shingles, CharacterShingles)
        by_breaks = self._settings.words == "unicode"
        if by_breaks:
            classes = breaks(ASCII), breaks(reach)
        else:
            narrow_classes = character_classes(ASCII, words=words)
            classes = narrow_classes, character_classes(reach, words=words)
        if not words:
            return SymbolSets(
                *kernels.shingles.character_shingles(
                    *texts, *classes, self._treatment, self._size, self._keys
                )
            )
        stopped = self._stop_words.size > 0
        folds = (case_folds(ASCII), case_folds(reach)) if stopped else (_NO_FOLDS, _NO_FOLDS)
        treatment = self._treatment | (kernels.shingles.BREAKS if by_breaks else 0)
        return SymbolSets(
            *kernels.shingles.word_shingles(
                *texts, *classes, *folds, self._stop_words, treatment, self._size, self._keys
            )
        )

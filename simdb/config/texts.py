"""Settings of texts and their shingles (MMDS 3.2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from simdb.config.checks import require_positive
from simdb.errors import ConfigurationError

_WORD = re.compile(r"\w+")

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


@dataclass(frozen=True, slots=True)
class CharacterShingles:
    """Every run of ``size`` successive characters (code points) of the text (MMDS 3.2.1).

    A text shorter than ``size`` has one shingle: all of it. An empty text has none.
    """

    size: int = 9

    def __post_init__(self) -> None:
        require_positive("CharacterShingles.size", self.size)


@dataclass(frozen=True, slots=True)
class WordShingles:
    r"""Every run of ``size`` successive words, a word being a run of ``\w`` (MMDS 3.2.1, 3.2.2).

    A text of fewer words has one shingle: all of them. A text without words has none.
    """

    size: int = 3

    def __post_init__(self) -> None:
        require_positive("WordShingles.size", self.size)


@dataclass(frozen=True, slots=True)
class StopWordShingles:
    r"""Every stop word together with the ``following`` words after it (MMDS 3.2.4).

    Stop words are compared without regard to case; each is a run of ``\w``. A stop word with fewer
    than ``following`` words after it begins no shingle.
    """

    following: int = 2
    stop_words: tuple[str, ...] = ENGLISH_STOP_WORDS

    def __post_init__(self) -> None:
        require_positive("StopWordShingles.following", self.following)
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
        object.__setattr__(self, "stop_words", kept)


Shingles: TypeAlias = CharacterShingles | WordShingles | StopWordShingles


@dataclass(frozen=True, slots=True)
class Text:
    """Texts, compared as sets of shingles by Jaccard similarity.

    Attributes:
        shingles: what a text is cut into.
        lowercase: compare without regard to case (``str.lower``).
        white_space: ``"collapse"`` makes every run of white space one blank and drops it at both
            ends (MMDS 3.2.2); ``"keep"`` compares it as it is. Word shingles ignore it anyway.
        unicode: normalisation form applied before all else, or ``"keep"``.
    """

    shingles: Shingles = field(default_factory=CharacterShingles)
    lowercase: bool = False
    white_space: Literal["collapse", "keep"] = "collapse"
    unicode: Literal["NFC", "NFD", "NFKC", "NFKD", "keep"] = "NFC"

    def __post_init__(self) -> None:
        if not isinstance(self.shingles, CharacterShingles | WordShingles | StopWordShingles):
            raise ConfigurationError(
                "Text.shingles must be CharacterShingles, WordShingles or StopWordShingles, "
                f"not {self.shingles!r}"
            )
        if self.white_space not in ("collapse", "keep"):
            raise ConfigurationError(
                f"Text.white_space must be 'collapse' or 'keep', not {self.white_space!r}"
            )
        if self.unicode not in ("NFC", "NFD", "NFKC", "NFKD", "keep"):
            raise ConfigurationError(
                f"Text.unicode must be 'NFC', 'NFD', 'NFKC', 'NFKD' or 'keep', not {self.unicode!r}"
            )

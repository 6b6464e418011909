"""Settings: what a collection holds and how it is indexed. Stored with the collection.

A setting changes what is similar to what, so a stored collection is never opened under others:
``database.collection`` refuses, and ``rebuild`` signs the stored items anew under new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from simdb.errors import ConfigurationError

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


def _require_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")


@dataclass(frozen=True, slots=True)
class CharacterShingles:
    """Every run of ``size`` successive characters (code points) of the text (MMDS 3.2.1).

    A text shorter than ``size`` has one shingle: all of it. An empty text has none.
    """

    size: int = 9

    def __post_init__(self) -> None:
        _require_positive("CharacterShingles.size", self.size)


@dataclass(frozen=True, slots=True)
class WordShingles:
    r"""Every run of ``size`` successive words, a word being a run of ``\w`` (MMDS 3.2.1, 3.2.2).

    A text of fewer words has one shingle: all of them. A text without words has none.
    """

    size: int = 3

    def __post_init__(self) -> None:
        _require_positive("WordShingles.size", self.size)


@dataclass(frozen=True, slots=True)
class StopWordShingles:
    """Every stop word together with the ``following`` words after it (MMDS 3.2.4).

    Stop words are compared without regard to case. A stop word with fewer than ``following``
    words after it begins no shingle.
    """

    following: int = 2
    stop_words: tuple[str, ...] = ENGLISH_STOP_WORDS

    def __post_init__(self) -> None:
        _require_positive("StopWordShingles.following", self.following)
        words: object = self.stop_words  # what a caller gives is not always what is declared
        if isinstance(words, str) or not self.stop_words:
            raise ConfigurationError("StopWordShingles.stop_words must be a sequence of words")
        object.__setattr__(self, "stop_words", tuple(self.stop_words))


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


@dataclass(frozen=True, slots=True)
class Set:
    """Sets of integers, or of strings, compared by Jaccard similarity (MMDS 3.1.1).

    An item is any collection of either: ``{1, 2}``, ``["milk", "bread"]``, an array of integers.
    Its order and its repeats do not count; ``get`` returns a ``frozenset``.
    """


@dataclass(frozen=True, slots=True)
class Bag:
    """Bags (multisets) of integers, or of strings, compared by Jaccard similarity (MMDS 3.1.3).

    An item is a list with repeats, a ``Counter``, or a mapping from elements to their counts;
    ``get`` returns a ``Counter``.

    Attributes:
        union: ``"maximum"`` takes of each element the larger count, so that a bag has similarity 1
            to itself; ``"sum"`` adds the counts of both, so that it has 1/2, and nothing more.
    """

    union: Literal["sum", "maximum"] = "maximum"

    def __post_init__(self) -> None:
        if self.union not in ("sum", "maximum"):
            raise ConfigurationError(f"Bag.union must be 'sum' or 'maximum', not {self.union!r}")


@dataclass(frozen=True, slots=True)
class Bits:
    """Binary vectors of one length (MMDS 3.5.6, 3.7.1).

    Attributes:
        length: bits of a vector.
        measure: ``"hamming"``, the number of places in which two differ, a distance; or
            ``"tanimoto"``, the Jaccard similarity of the places that are set.
    """

    length: int
    measure: Literal["hamming", "tanimoto"] = "hamming"

    def __post_init__(self) -> None:
        _require_positive("Bits.length", self.length)
        if self.measure not in ("hamming", "tanimoto"):
            raise ConfigurationError(
                f"Bits.measure must be 'hamming' or 'tanimoto', not {self.measure!r}"
            )


@dataclass(frozen=True, slots=True)
class Vector:
    """Vectors of float32 of one dimension (MMDS 3.5.2, 3.5.4, 3.7.2, 3.7.4).

    Attributes:
        dimension: numbers of a vector.
        measure: ``"cosine"``, the angle between two in degrees, or ``"euclidean"``: distances.
        bucket_width: of the random lines of a Euclidean index, in units of distance; four times
            the distance it is planned for if not given.
    """

    dimension: int
    measure: Literal["cosine", "euclidean"] = "cosine"
    bucket_width: float | None = None

    def __post_init__(self) -> None:
        _require_positive("Vector.dimension", self.dimension)
        if self.measure not in ("cosine", "euclidean"):
            raise ConfigurationError(
                f"Vector.measure must be 'cosine' or 'euclidean', not {self.measure!r}"
            )
        width = self.bucket_width
        if width is not None and (self.measure != "euclidean" or not 0 < width < float("inf")):
            raise ConfigurationError(
                "Vector.bucket_width must be a number above 0, of a Euclidean vector, "
                f"not {width!r}"
            )


Kind: TypeAlias = Text | Set | Bag | Bits | Vector

SketchScheme: TypeAlias = Literal["fast", "classical"]

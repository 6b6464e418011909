"""Short strings, words and names: edit distances and their similarity (MMDS 3.5.5).

Strings are compared by code points, in a normalised form: the Unicode form first, then lower case,
then white space, as the settings say. The stored form is the UTF-8 of the string as it was given.

The index has a key for each segment of a string (``exact.segments``) and misses nothing within its
bound, so every answer is exact.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arrays import Bools, Int64s, UInt16s, UInt32s, UInt64s
from simdb.errors import ConfigurationError
from simdb.evidence import Evidence, Facet
from simdb.exact import segments
from simdb.exact.joins import ALONE, Workers
from simdb.exact.pigeonhole import Near
from simdb.exact.segments import MOST_SEGMENTS, Cut
from simdb.exact.thresholds import Bound
from simdb.kinds.base import (
    MAXIMUM_ITEM_BYTES,
    OBJECTS,
    Compared,
    Examples,
    Finder,
    Format,
    Items,
    Kind,
    PairedMeasure,
    Stored,
)
from simdb.kinds.characters import (
    ASCII,
    CODE_POINTS,
    Form,
    NormalForm,
    WhiteSpace,
    character_classes,
    ignored,
    prepared_ignored,
)
from simdb.kinds.distances import pair_distances
from simdb.kinds.text import EncodedTexts
from simdb.lsh.curves import Curve, WithinCurve
from simdb.lsh.family import (
    BucketKeys,
    Family,
    SketchScheme,
    polynomial_base,
    secret_words,
)
from simdb.lsh.planning import Plan, PlanRequest
from simdb.ragged import offsets_of
from simdb.work import Work

if TYPE_CHECKING:
    from simdb.kernels.strings import Strings

SEGMENTS_BY_SIMILARITY = 12  # of a string at most, where how many edits are allowed varies
_LONG = 2_000  # characters of a string, from which on its runs are found otherwise
WORDS_A_KEY = 4

StringMeasureName = Literal["levenshtein", "alignment", "damerau"]


class String(Kind, frozen=True):
    """Strings, compared by an edit distance.

    Attributes:
        measure: ``"levenshtein"`` counts insertions, deletions and substitutions of characters.
            ``"alignment"`` also counts transpositions of neighbours, which are not edited again
            (optimal string alignment; not a distance measure, since the triangle inequality fails).
            ``"damerau"`` counts the same, but transposed characters may be edited again (the
            unrestricted distance of Damerau and Levenshtein, a distance measure).
        normalised: compare by the similarity 1 - distance / length of the longer string, from 0
            to 1, instead of the distance. Two empty strings have similarity 1.
        lowercase: compare without regard to case (``str.lower``).
        white_space: ``"keep"`` compares white space as it is; ``"collapse"`` makes every run of it
            one blank and drops it at both ends.
        unicode: the normalisation form applied first, or ``"keep"``.
        ignore: what does not count, as for texts.
    """

    measure: StringMeasureName = "levenshtein"
    normalised: bool = False
    lowercase: bool = False
    white_space: WhiteSpace = "keep"
    unicode: NormalForm = "NFC"
    ignore: Sequence[str] = ()

    added: ClassVar[Mapping[str, object]] = {"ignore": ()}
    plural: ClassVar[str] = "strings"
    in_the_name: ClassVar[tuple[str, ...]] = ("measure",)
    suffixes: ClassVar[Mapping[str, Format]] = {
        **OBJECTS,
        ".csv": "csv",
        **dict.fromkeys((".txt", ".text", ".dat"), "lines"),
    }
    of_lines: ClassVar[bool] = True
    json_form: ClassVar[str] = "text"
    probe_option: ClassVar[str] = "--text"

    def __post_init__(self) -> None:
        """Put what is ignored into one order."""
        self._set("ignore", ignored(self.ignore))
        Kind.__post_init__(self)

    @property
    def form(self) -> Form:
        """The form in which strings are compared."""
        return Form(self.unicode, self.white_space, self.lowercase, tuple(self.ignore))

    @property
    def is_distance(self) -> bool:
        return not self.normalised

    @property
    def largest_distance(self) -> Fraction:
        return Fraction(MAXIMUM_ITEM_BYTES)

    @property
    def transposes(self) -> bool:
        """Whether to transpose two neighbours is one edit."""
        return self.measure != "levenshtein"

    # -- the contract ----------------------------------------------------------------------------

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        items = ["smith, john", "anderson", "García Lorca", "petersen, knud", "o'neill"]
        near = [f"{item[:-1]}x" for item in items]
        invalid = (None, 3.5, b"text", ["text"], "\ud800")
        return (
            Examples(cls("alignment"), "2", items, near, invalid),
            Examples(cls(normalised=True), "0.8", items, near, invalid),
        )

    def make_items(self, secret: bytes) -> StringItems:
        return StringItems(self)

    def make_measure(self) -> StringMeasure:
        return StringMeasure(self)

    def make_curve(self, bound: Fraction) -> Curve:
        return WithinCurve(float(bound), is_distance=self.is_distance)

    make_complete_curve = make_curve

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        return self.make_complete_family(bound, bands=bands, rows=rows, secret=secret)

    def make_complete_family(
        self, bound: Fraction, *, bands: int, rows: int, secret: bytes
    ) -> Family:
        return Segments(self, self.bound_of(bound), bands, secret)

    def misses_nothing(self, recall: Fraction) -> bool:
        return True

    def share_looked_at(self, bound: Fraction) -> float:
        edits = bound if self.is_distance else 8 * (1 - bound)
        return math.exp2(min(0.0, 2 * float(edits) - 12))

    def plan(self, bound: Fraction, request: PlanRequest) -> Plan:
        """Return the segments that serve a bound; ConfigurationError: too many edits, or bands."""
        if not request.is_free:
            raise ConfigurationError(
                "strings are cut into segments that follow from the bound: leave out bands and rows"
            )
        edits = int(bound)
        if self.is_distance and edits >= MOST_SEGMENTS:
            raise ConfigurationError(
                f"an index of strings supports a max_distance of at most {MOST_SEGMENTS - 1}, not "
                f"{edits:,}; without max_distance all strings are compared"
            )
        bands = edits + 1 if self.is_distance else SEGMENTS_BY_SIMILARITY
        return Plan(bound, bands, 1, self.make_curve(bound))

    def can_have(self, bands: int, rows: int) -> bool:
        return 0 < bands <= MOST_SEGMENTS and rows == 1

    def expected_keys(self, bands: int) -> int:
        return bands if self.is_distance else bands // 3

    def index_in_words(self, bands: int, rows: int) -> str:
        return f"{bands} segments" if self.is_distance else f"up to {bands} segments"

    def cut(self, bound: Bound, bands: int) -> Cut:
        """Return into what strings are cut for a bound."""
        return Cut.within(bound, bands, transposes=self.transposes)

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        """Return the runs of characters that both have, and those that edits change."""
        assert isinstance(items, StringItems)
        one, other = items.features([left, right]).texts()
        if max(len(one), len(other)) > _LONG:  # the time of the other grows with the square
            from rapidfuzz.distance import Levenshtein  # only where strings are explained

            runs: Any = Levenshtein.opcodes(one, other).as_list()
        else:
            runs = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        facets = [
            Facet(
                one[begin:end] or other[first:last],
                one[begin:end] or None,
                other[first:last] or None,
                float(edit == "equal"),
            )
            for edit, begin, end, first, last in runs
        ]
        return Evidence("runs of characters", tuple(facets))

    # -- on the command line and in files --------------------------------------------------------

    @classmethod
    def prepared(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        return prepared_ignored(described)

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        return value if isinstance(value, str) else NotImplemented

    def item_of_text(self, text: str) -> str:
        return text

    def joined(self, parts: list[Any]) -> str:
        return " ".join(parts)


# -- items and their measure ---------------------------------------------------------------------


class StringFeatures(Struct, frozen=True, eq=False):
    """Strings as they are compared: code points one after the other, and a bag of each.

    ``kernels.strings.Strings`` says what a bag is.
    """

    characters: UInt32s
    offsets: Int64s
    bags: UInt64s

    def __len__(self) -> int:
        return self.bags.size

    def __getitem__(self, rows: Int64s | slice) -> Self:
        """Take some strings."""
        starts, ends = self.offsets[:-1][rows], self.offsets[1:][rows]
        offsets = offsets_of(ends - starts)
        places = np.repeat(starts - offsets[:-1], ends - starts) + np.arange(offsets[-1])
        return replace(
            self, characters=self.characters[places], offsets=offsets, bags=self.bags[rows]
        )

    @property
    def lengths(self) -> Int64s:
        """How many characters each string has."""
        return np.diff(self.offsets)

    @property
    def strings(self) -> Strings:
        """The same for kernels."""
        return kernels.strings.Strings(self.characters, self.offsets, self.bags)

    def texts(self) -> list[str]:
        """Return each as a str, as it is compared."""
        whole = self.characters.astype("<u4").tobytes().decode("utf-32-le")
        bounds = self.offsets.tolist()
        return [whole[begin:end] for begin, end in pairwise(bounds)]


class StringItems(EncodedTexts):
    """Encode strings, and decode them into code points in the form in which they are compared."""

    what = "string"

    def __init__(self, settings: String) -> None:
        super().__init__(settings.form)

    def features(self, items: Sequence[bytes | memoryview]) -> StringFeatures:
        narrow, wide, spans = self.code_points(items)
        classes = character_classes(CODE_POINTS if wide.size else ASCII, words=False)
        return StringFeatures(
            *kernels.strings.gathered(narrow, wide, spans, self._treatment, classes)
        )


class StringMeasure(PairedMeasure):
    """Compare strings exactly: the edits over 1, or longer - edits over longer."""

    def __init__(self, settings: String) -> None:
        self._settings = settings
        self.finds_nearest = settings.measure != "damerau"  # which is computed of what passes
        self._secrets = _segment_secrets(b"")  # of joins in memory: they decide about time alone

    def compare_between(
        self, ones: StringFeatures, others: StringFeatures, left: Int64s, right: Int64s
    ) -> Compared:
        if self._settings.measure == "damerau":
            longer = np.maximum(ones.lengths[left], others.lengths[right])
            return self._compared(self._damerau(ones, others, left, right), longer)
        return self._compared(
            *kernels.strings.compare_rows(
                ones.strings, others.strings, left, right, self._kernel_measure
            )
        )

    def finder(self, probe: StringFeatures, bound: Bound, most: int = 0) -> Finder:
        """Return what compares in full only strings of fitting lengths and characters.

        And of those no farther than the nearest so far, if these are wanted.
        """
        limits = self._settings.cut(bound, MOST_SEGMENTS).limits

        def find(features: StringFeatures) -> tuple[Int64s, Compared]:
            rows, distances, longer = kernels.strings.scan(
                probe.strings, features.strings, limits, self._kernel_measure, most
            )
            if self._settings.measure == "damerau":
                distances = self._damerau(probe, features, np.zeros_like(rows), rows)
            return self._met(bound, rows, self._compared(distances, longer))

        return find

    def near_pairs(
        self,
        ones: StringFeatures,
        others: StringFeatures | None,
        bound: Bound,
        work: Work,
        workers: Workers = ALONE,
    ) -> Iterator[Near]:
        """Find all pairs within a bound, by their segments; see ``exact.segments``."""
        cut = self._settings.cut(bound, MOST_SEGMENTS)
        right_side = ones if others is None else others
        stored = None if others is None else others.strings
        how = segments.Comparison(self._kernel_measure, self._secrets)
        found = segments.near_pairs(ones.strings, stored, cut, how, work, workers=workers)
        for left, right, distances in found:
            counted = distances
            if self._settings.measure == "damerau":
                counted = self._damerau(ones, right_side, left, right)
            longer = np.maximum(ones.lengths[left], right_side.lengths[right])
            places, compared = self._met(
                bound, np.arange(left.size), self._compared(counted, longer)
            )
            yield Near(left[places], right[places], compared.values())

    def first_equal(self, features: StringFeatures) -> Int64s:
        """Find the first string that is equal to each."""
        firsts: dict[str, int] = {}
        return np.array([firsts.setdefault(text, n) for n, text in enumerate(features.texts())])

    @property
    def _kernel_measure(self) -> int:
        strings = kernels.strings
        measures = {"levenshtein": strings.LEVENSHTEIN, "alignment": strings.ALIGNMENT}
        return measures.get(self._settings.measure, strings.UNVERIFIED)

    def _damerau(
        self, ones: StringFeatures, others: StringFeatures, left: Int64s, right: Int64s
    ) -> Int64s:
        used, rows = np.unique(left, return_inverse=True)
        one = ones[used].texts()
        met, places = np.unique(right, return_inverse=True)
        other = others[met].texts()
        return pair_distances(
            [one[row] for row in rows.tolist()],
            [other[place] for place in places.tolist()],
            distance="damerau",
        )

    def _compared(self, distances: Int64s, longer: Int64s) -> Compared:
        if self._settings.is_distance:
            return Compared.whole(distances)
        longer = np.maximum(longer, 1)  # two empty strings are equal
        return Compared(longer - distances, longer)

    def _met(self, bound: Bound, rows: Int64s, compared: Compared) -> tuple[Int64s, Compared]:
        places = np.flatnonzero(bound.meets_many(compared.numerators, compared.denominators))
        return rows[places], Compared(compared.numerators[places], compared.denominators[places])


# -- the index -----------------------------------------------------------------------------------


_USUAL = 64  # characters


class Segments(Family):
    """The segments of strings as buckets: strings within the bound share one, for certain.

    A signature is the keys of a string's segments, 0 where it has fewer, its bag and its length:
    64 bits each. What shares a bucket and has other characters is dropped by the last two.
    """

    looks_around = True
    decides = True

    def __init__(self, kind: String, bound: Bound, bands: int, secret: bytes) -> None:
        self._bands = bands
        self._cut = kind.cut(bound, bands)
        self._secrets = _segment_secrets(secret)
        self.words = WORDS_A_KEY * (bands + 2)
        edits = self._cut.edits + self._cut.numerator * _USUAL // self._cut.denominator
        self.keys_of_probe = bands * (2 * edits + 1) * (edits + 1)  # a length, a place in a window

    def sign(self, features: StringFeatures) -> UInt16s:
        """Return the signatures of strings, uint16 (n, words)."""
        keys = kernels.strings.segment_keys(features.strings, self._cut.limits, self._secrets)
        columns = (keys, features.bags, features.lengths.astype(np.uint64))
        return np.column_stack(columns).view(np.uint16)

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the keys of the segments of each string, or of its length."""
        keys = _columns(signatures)[:, : self._bands]
        there = keys != 0
        return BucketKeys(keys[there], offsets_of(there.sum(axis=1)))

    def key_names(self, signatures: UInt16s) -> list[str]:
        """Return the numbers of the segments of a single string, from 1."""
        places = np.flatnonzero(_columns(signatures)[0, : self._bands]) + 1
        return [f"segment {place}" for place in places.tolist()]

    def probe_keys(self, features: StringFeatures, signatures: UInt16s) -> BucketKeys:
        """Return the keys of all segments that near strings can have where they fit the probe."""
        keys, offsets = kernels.strings.probe_keys(
            features.strings, self._cut.limits, self._secrets
        )
        return BucketKeys(keys, offsets)

    def are_candidates(self, left: UInt16s, right: UInt16s) -> Bools:
        """Tell by the bags and the lengths of strings whether they can be near enough."""
        bags, lengths = (
            [np.ascontiguousarray(_columns(side)[:, column]) for side in (left, right)]
            for column in (-2, -1)
        )
        near = kernels.strings.near_bags(bags[0], lengths[0], bags[1], lengths[1], self._cut.limits)
        return near.astype(np.bool_)


def _columns(signatures: UInt16s) -> UInt64s:
    return np.ascontiguousarray(signatures).view(np.uint64)


def _segment_secrets(secret: bytes) -> UInt64s:
    """Return what segments are hashed under: the base of a polynomial, and a word to mix with."""
    base, last = secret_words(secret, b"simdb.segment", 2)
    return np.array([polynomial_base(int(base)), last], np.uint64)

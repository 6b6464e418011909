"""Weighted sets: elements with positive real weights, compared by weighted Jaccard similarity.

The stored form is canonical: how many elements there are (4 bytes, little-endian), their weights as
float64, and the elements as a set stores them, sorted; no element is no byte at all. Weights are
the float64 nearest to the numbers that are given. The similarity is the sum of the minima of the
weights divided by the sum of their maxima, each rounded once to float64, and so the quotient: it is
that of the stored weights to within 2^-51 of itself, whatever the order of the elements.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from simdb import kernels
from simdb.arguments import is_number, short
from simdb.arrays import Int64s, UInt8s
from simdb.errors import BadItemError, CorruptionError
from simdb.evidence import Evidence, facets_of_amounts
from simdb.exact.joins import ALONE, Workers
from simdb.exact.pigeonhole import Near
from simdb.exact.thresholds import Bound
from simdb.exact.weighted import ROOM, PostedSets
from simdb.kinds.base import (
    Compared,
    Examples,
    Finder,
    Items,
    Kind,
    PairedMeasure,
    Stored,
    joined,
    require_sound,
    shown,
)
from simdb.kinds.sets import EXAMPLES, ElementForm, element_keys, require_found, stored_elements
from simdb.lsh.curves import Curve, JaccardCurve
from simdb.lsh.family import DartMinHash, Family, SketchScheme, secret_words
from simdb.ragged import WeightedSets, cut_out
from simdb.work import Work

# Weights that sketches take; ``kernels.weighted`` says why: bands of ranks.
LIGHTEST, HEAVIEST = 2.0**-32, 2.0**32

_FORM = ElementForm("weighted set")
_COUNT_BYTES = 4
_WEIGHT_BYTES = 8


class WeightedSet(Kind, frozen=True, tag="weighted"):
    """Sets of integers, or of strings, with positive weights (MMDS 3.1.1, weighted).

    An item is a mapping of elements to weights, ``{"tea": 0.7, "rum": 2}``, or a list of pairs of
    both; ``get`` returns a ``dict``. An element of weight 0 is not in the set. The similarity of
    two sets is the sum of the smaller weight of each element, divided by the sum of the larger one.
    If all weights are 1, that is the Jaccard similarity. Weights by tf-idf compare documents.
    """

    plural = "weighted sets"
    of_weights = True
    json_form = "an object of weights"

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        items = [{word: len(word) / 4 for word in basket.split()} for basket in EXAMPLES]
        near = [{word: 1.1 * weight for word, weight in item.items()} for item in items]
        invalid = (
            None,
            3.5,
            "tea",
            ["tea"],
            {"tea": -1},
            {"tea": "much"},
            [["tea", 1], ["tea", 2]],
        )
        return (Examples(cls(), "0.8", items, near, invalid),)

    def make_items(self, secret: bytes) -> WeightedSetItems:
        return WeightedSetItems(secret)

    def make_measure(self) -> WeightedMeasure:
        return WeightedMeasure()

    def make_curve(self, bound: Fraction) -> Curve:
        return JaccardCurve()

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        return DartMinHash(bands, rows, secret)

    def share_looked_at(self, bound: Fraction) -> float | None:
        return 1.0

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        return value if isinstance(value, dict | list) else NotImplemented

    def plain_item(self, item: dict[Any, float]) -> Any:
        """Return an object, or a list of pairs where elements are no strings."""
        if all(isinstance(element, str) for element in item):
            return item
        return list(map(list, item.items()))

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        return Evidence("elements", facets_of_amounts(items.decode(left), items.decode(right)))

    def shown_item(self, item: dict[Any, float]) -> str:
        return " ".join(f"{element} {weight:g}" for element, weight in item.items())


class WeightedSetItems(Items):
    """Encode weighted sets and hash their elements under one collection's secret.

    The symbols of elements are not those of sets.
    """

    expands = True

    def __init__(self, secret: bytes) -> None:
        self._keys = element_keys(secret_words(secret, b"simdb.weighted", 3))

    def encode(self, item: object) -> bytes:
        weights = _weights_of(item)
        if not weights:
            return b""
        ordered = sorted(weights)
        elements = _FORM.stored(ordered)
        count = len(ordered)
        _FORM.require_room(count, _COUNT_BYTES + count * _WEIGHT_BYTES + len(elements))
        return struct.pack(f"<I{count}d", count, *map(weights.__getitem__, ordered)) + elements

    def decode(self, data: bytes | memoryview) -> dict[Any, float]:
        if not len(data):
            return {}
        try:
            (count,) = struct.unpack_from("<I", data)
            weights = struct.unpack_from(f"<{count}d", data, _COUNT_BYTES)
            elements = stored_elements(data[_COUNT_BYTES + count * _WEIGHT_BYTES :])
            return dict(zip(elements, weights, strict=True))
        except (ValueError, struct.error) as error:
            raise CorruptionError(f"a stored weighted set cannot be read: {error}") from error

    def features(self, items: Sequence[bytes | memoryview]) -> WeightedSets:
        data, bounds = joined(items)
        begins, ends = bounds[:-1], bounds[1:]
        counts = _counts(data, begins, ends)
        elements_begin = begins + (counts > 0) * _COUNT_BYTES + counts * _WEIGHT_BYTES
        require_sound(elements_begin <= ends, "weighted set")
        weights_begin = elements_begin - counts * _WEIGHT_BYTES
        weights = cut_out(data, weights_begin, elements_begin).values.view("<f8")
        elements = cut_out(data, elements_begin, ends)
        values, offsets = kernels.elements.element_symbols(
            elements.values, elements.offsets[1:], self._keys
        )
        require_found(offsets, "weighted set")
        require_sound(np.diff(offsets) == counts, "weighted set")
        owners = np.repeat(np.arange(counts.size), counts)
        sound = np.ones(counts.size, np.bool_)
        sound[owners[~((weights >= LIGHTEST) & (weights <= HEAVIEST))]] = False
        require_sound(sound, "weighted set")
        order = np.lexsort((values, owners))
        return WeightedSets(values[order], offsets, weights[order].astype(np.float64))

    def weights(self, items: Sequence[bytes | memoryview]) -> Int64s:
        """Return twice the bytes: symbols and weights, in two orders."""
        return super().weights(items) * 2


def _counts(data: UInt8s, begins: Int64s, ends: Int64s) -> Int64s:
    """Return how many elements each stored item claims to have; CorruptionError for no claim."""
    filled = ends > begins
    require_sound(~filled | (ends - begins > _COUNT_BYTES), "weighted set")
    counts = np.zeros(begins.size, np.int64)
    heads = begins[filled, np.newaxis] + np.arange(_COUNT_BYTES)
    counts[filled] = data[heads].view("<u4")[:, 0]
    require_sound(filled == (counts > 0), "weighted set")
    return counts


# -- what is taken as a weighted set -------------------------------------------------------------


def _weights_of(item: object) -> dict[Any, float]:
    """Return the plain elements of an item with their weights, those of weight 0 left out."""
    if isinstance(item, Mapping):
        elements: Collection[Any] = item.keys()
        given: Collection[Any] = item.values()
    else:
        elements, given = _pairs_of(item)
    weights: dict[Any, float] = {}
    for element, weight in zip(_FORM.plain(elements), given, strict=True):
        if element in weights:
            raise BadItemError(f"the element {short(element)} has two weights")
        weights[element] = _weight(element, weight)
    return {element: weight for element, weight in weights.items() if weight}


def _pairs_of(item: object) -> tuple[list[Any], list[Any]]:
    is_plain = isinstance(item, list | tuple)
    pairs: Any = item
    if not is_plain or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        hint = "; give each element its weight" if isinstance(item, set | frozenset | list) else ""
        if isinstance(item, Iterator):
            hint = "; make a list of what can be read only once"
        listed = item.tolist() if isinstance(item, np.ndarray) else item
        if isinstance(listed, list) and listed and isinstance(listed[0], Mapping):
            hint = "; in a table a column of maps holds them, not one of lists of structs"
        raise BadItemError(
            "a weighted set must be a mapping of elements to weights, or a list of pairs, not "
            f"{shown(item)}{hint}"
        )
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _weight(element: object, given: Any) -> float:
    named = f"the weight of {short(element)}"
    if not is_number(given):
        raise BadItemError(f"{named} must be a number, not {shown(given)}")
    try:
        weight = float(given)
    except (OverflowError, ValueError):  # beyond float64; a signalling nan
        weight = math.nan if isinstance(given, Decimal) else math.inf
    if not math.isfinite(weight):
        raise BadItemError(f"{named} must be finite, but is {short(given)}")
    if weight < 0:
        raise BadItemError(f"{named} must not be negative, but is {short(given)}")
    if given and not LIGHTEST <= weight <= HEAVIEST:
        raise BadItemError(
            f"{named} must lie between 2^-32 and 2^32, but {short(given)} does not: "
            "scale all weights of the collection"
        )
    return weight


# -- their measure -------------------------------------------------------------------------------


class WeightedMeasure(PairedMeasure):
    """The sum of minima divided by the sum of maxima, in float64."""

    arranges = True

    def compare_between(
        self, ones: WeightedSets, others: WeightedSets, left: Int64s, right: Int64s
    ) -> Compared:
        return Compared(
            *kernels.weighted.compare_pairs(
                ones.values,
                ones.weights,
                ones.offsets,
                others.values,
                others.weights,
                others.offsets,
                left,
                right,
            )
        )

    def arranged(self, features: WeightedSets) -> PostedSets:
        """Return them with postings, of which a search reads those of the prefix of its probe."""
        return PostedSets(features)

    def finder(self, probe: WeightedSets, bound: Bound, most: int = 0) -> Finder:
        return _WeightedFinder(self, probe, bound)

    def near_pairs(
        self,
        ones: WeightedSets,
        others: WeightedSets | None,
        bound: Bound,
        work: Work,
        workers: Workers = ALONE,
    ) -> Iterator[Near]:
        """Find pairs by the prefixes of both; the similarity stands where a distance does."""
        least = float(bound.fraction)
        side = ones if others is None else others
        probes = None if others is None else ones
        for left, right in PostedSets(side, least).candidates(probes, least, work):
            compared = self.compare_between(ones, side, left, right)
            met = bound.meets_many(*compared)
            yield Near(left[met], right[met], compared.values()[met])


class _WeightedFinder:
    """Compares one item with many, of which it reads the postings where they have some.

    Attributes:
        looked_at: items compared, or met under a symbol.
    """

    def __init__(self, measure: WeightedMeasure, probe: WeightedSets, bound: Bound) -> None:
        self._measure = measure
        self._probe = probe
        self._bound = bound
        self.looked_at = 0

    def __call__(self, features: WeightedSets | PostedSets) -> tuple[Int64s, Compared]:
        if not isinstance(features, PostedSets):
            count = len(features)
            self.looked_at += count
            all_places = np.arange(count)
            return self._met(features, (all_places[at : at + ROOM] for at in range(0, count, ROOM)))
        work, least = Work(), float(self._bound.fraction)
        found = features.candidates(self._probe, least, work)
        places, compared = self._met(features.sets, (some for _, some in found))
        self.looked_at += work.looked_at
        order = np.argsort(places)
        numerators, denominators = compared.numerators[order], compared.denominators[order]
        return places[order], Compared(numerators, denominators)

    def _met(self, sets: WeightedSets, parts: Iterable[Int64s]) -> tuple[Int64s, Compared]:
        """Compare with sets at some places, some at a time; keep those within the bound."""
        places = [np.empty(0, np.int64)]
        kept = []
        for part in parts:
            compared = self._measure.compare_between(self._probe, sets, np.zeros_like(part), part)
            met = self._bound.meets_many(*compared)
            places.append(part[met])
            kept.append(Compared(compared.numerators[met], compared.denominators[met]))
        return np.concatenate(places), Compared.together(kept)

"""What the engine knows of each kind of item: its bounds, its measure, its family, its plan.

A new kind is a class of settings in ``config``, its items, its measure, its family, and a line in
each function here and in ``kind_values``.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from simdb import config
from simdb.errors import ConfigurationError, Remedy
from simdb.exact.thresholds import Bound, MaximumDistance, Threshold, ThresholdLike
from simdb.lsh.curves import (
    AngleCurve,
    CertainCurve,
    Curve,
    HammingCurve,
    JaccardCurve,
    LineCurve,
    SumCurve,
    UnstatedCurve,
    bucket_width_for,
)
from simdb.lsh.family import Family
from simdb.lsh.planning import Plan, plan
from simdb.measures.bags import jaccard_of_sum, sum_of_jaccard
from simdb.measures.compared import Compared
from simdb.results import PairBatch

DEFAULT_THRESHOLD = Fraction(4, 5)
_NORMS = {"manhattan": 1, "euclidean": 2, "maximum": inf}


class Measure(Protocol):
    """How items of a kind are compared: exactly, in batches."""

    def compare_probe(self, probe: Any, features: Any) -> Compared:
        """Compare one item with many."""

    def compare_pairs(
        self,
        features: Any,
        left: npt.NDArray[np.int64],
        right: npt.NDArray[np.int64],
    ) -> Compared:
        """Compare ``features[left[i]]`` with ``features[right[i]]``."""


def has_symbols(kind: config.Kind) -> bool:
    """Whether items are compared as sets of symbols, which an exact index may hold."""
    if isinstance(kind, config.Bits):
        return kind.measure == "tanimoto"
    return isinstance(kind, config.Text | config.Set | config.Bag)


def can_be_scanned(kind: config.Kind) -> bool:
    """Whether an item is compared with all others quicker than symbols would be made of them."""
    return not has_symbols(kind) or isinstance(kind, config.Bits)


def is_distance(kind: config.Kind) -> bool:
    """Whether items are compared by a distance, not by a similarity."""
    if isinstance(kind, config.Bits):
        return kind.measure == "hamming"
    return isinstance(kind, config.Vector)


def measure_of(kind: config.Kind) -> Measure:
    """Return how items of a kind are compared, on the scale of ``inner_threshold``."""
    if isinstance(kind, config.Vector):
        from simdb.measures.vectors import VectorMeasure

        return VectorMeasure(kind.measure)
    if isinstance(kind, config.Bits):
        from simdb.measures.bits import BitsMeasure

        return BitsMeasure(kind.measure)
    if isinstance(kind, config.Fingerprint):
        from simdb.measures.fingerprints import FingerprintMeasure

        return FingerprintMeasure(kind)
    if isinstance(kind, config.Record):
        from simdb.measures.records import RecordMeasure

        return RecordMeasure(kind)
    from simdb.measures.sets import SetMeasure

    return SetMeasure()


def curve_of(kind: config.Kind, threshold: Fraction) -> Curve:
    """Return the collision probability of the family of a kind.

    Args:
        kind: what the items are.
        threshold: the similarity or distance that the family is to serve.
    """
    if isinstance(kind, config.Bits) and kind.measure == "hamming":
        return HammingCurve(kind.length)
    if isinstance(kind, config.Vector):
        if kind.measure == "cosine":
            return AngleCurve() if kind.directions == "gaussian" else UnstatedCurve(falls=True)
        return LineCurve(bucket_width(kind, threshold), kind.dimension, _NORMS[kind.measure])
    if isinstance(kind, config.Record):
        from simdb.lsh.records import certain_above

        return CertainCurve(float(certain_above(kind)))
    if isinstance(kind, config.Fingerprint):
        return UnstatedCurve(falls=False)
    return JaccardCurve()


def bucket_width(kind: config.Vector, threshold: Fraction) -> float:
    """Return the width of the buckets on random lines, in units of distance."""
    planned = bucket_width_for(float(threshold), kind.dimension, _NORMS[kind.measure])
    return kind.bucket_width or planned or 1.0


def family_of(
    kind: config.Kind,
    threshold: Fraction,
    *,
    bands: int,
    rows: int,
    sketch: config.SketchScheme,
    secret: bytes,
) -> Family:
    """Return the locality-sensitive family of a kind under settings and a secret."""
    if isinstance(kind, config.Bits) and kind.measure == "hamming":
        from simdb.lsh.projections import BitSampling

        return BitSampling(kind.length, bands, rows, secret)
    if isinstance(kind, config.Vector):
        from simdb.lsh.projections import RandomHyperplanes, RandomLines

        if kind.measure == "cosine":
            gaussian = kind.directions == "gaussian"
            return RandomHyperplanes(kind.dimension, bands, rows, secret, gaussian=gaussian)
        width = bucket_width(kind, threshold)
        return RandomLines(kind.dimension, width, bands, rows, secret)
    if isinstance(kind, config.Record):
        from simdb.lsh.records import RecordFamily

        return RecordFamily(kind, secret)
    if isinstance(kind, config.Fingerprint):
        from simdb.lsh.fingerprints import SquaresFamily

        return SquaresFamily(kind, secret)
    from simdb.lsh.minhash import MinHash

    return MinHash(sketch, bands, rows, secret)


# -- bounds: what similar enough means -----------------------------------------------------------


def parse_bound(
    kind: config.Kind,
    threshold: ThresholdLike | None,
    max_distance: ThresholdLike | None = None,
) -> Bound | None:
    """Read what a caller asks for; None for nothing.

    Raises:
        ConfigurationError: it is out of range, or the kind is compared by the other.
    """
    if is_distance(kind):
        if threshold is not None:
            raise ConfigurationError(
                f"{kind} is compared by distance: give max_distance, not threshold"
            )
        return None if max_distance is None else _distance_within(kind, max_distance)
    if max_distance is not None:
        raise ConfigurationError(
            f"{kind} is compared by similarity: give threshold, not max_distance"
        )
    return None if threshold is None else inner_threshold(kind, Threshold.parse(threshold))


def _distance_within(kind: config.Kind, max_distance: ThresholdLike) -> MaximumDistance:
    """Read a distance that items of a kind can have."""
    bound = MaximumDistance.parse(max_distance)
    largest = largest_distance(kind)
    if bound.fraction > largest:
        raise ConfigurationError(
            f"max_distance {bound} is more than {largest}, the largest distance of items of {kind}"
        )
    return bound


def planned_bound(
    kind: config.Kind,
    threshold: ThresholdLike | None,
    max_distance: ThresholdLike | None,
) -> Bound | None:
    """Read what a new collection is to be planned for; None for no probable index.

    The threshold ``"default"`` is 0.8; 4/9 for bags whose union adds up the counts, which is the
    same; and nothing for kinds that are compared by distance.
    """
    if threshold != "default":
        return parse_bound(kind, threshold, max_distance)
    if is_distance(kind) or max_distance is not None:
        return parse_bound(kind, None, max_distance)
    return Threshold(DEFAULT_THRESHOLD)


def parse_floor(kind: config.Kind, exact_floor: ThresholdLike | None) -> Threshold | None:
    """Read the floor of an exact index; None for no such index."""
    if exact_floor is None:
        return None
    return inner_threshold(kind, Threshold.parse(exact_floor, name="exact_floor"))


def widest_bound(kind: config.Kind) -> Fraction:
    """Return the bound of a collection that has none: the largest distance, or 4/5."""
    return largest_distance(kind) if is_distance(kind) else DEFAULT_THRESHOLD


def stores_alike(one: config.Kind, other: config.Kind) -> bool:
    """Whether items of two settings of a kind have the same stored form."""
    if isinstance(one, config.Bits) and isinstance(other, config.Bits):
        return one.length == other.length
    if isinstance(one, config.Vector) and isinstance(other, config.Vector):
        return one.dimension == other.dimension
    if isinstance(one, config.Record) and isinstance(other, config.Record):
        return [field.name for field in one.fields] == [field.name for field in other.fields]
    if isinstance(one, config.Fingerprint) and isinstance(other, config.Fingerprint):
        plates = [(kind.items, kind.width, kind.height) for kind in (one, other)]
        grids = [(kind.square, kind.sectors) for kind in (one, other)]
        return plates[0] == plates[1] and (one.items == "minutiae" or grids[0] == grids[1])
    return True


def expected_keys(kind: config.Kind, bands: int) -> int:
    """Return about how many bucket keys an item has, by which merges are paced.

    Of the functions of three squares, one in 125 says yes to one grid of which a fifth is occupied;
    with grids around minutiae, about one in 8.
    """
    if isinstance(kind, config.Fingerprint) and bands:
        return max(1, kind.groups * kind.functions // (8 if kind.around_minutiae else 128))
    return bands


def plan_of(
    kind: config.Kind,
    threshold: Fraction,
    recall: Fraction,
    bands: int | None,
    rows: int | None,
) -> Plan:
    """Choose bands and rows for a kind; see ``lsh.planning.plan``.

    Raises:
        ConfigurationError: also of bands and rows where the kind has rules instead.
    """
    if isinstance(kind, config.Record):
        if bands is not None or rows is not None:
            raise ConfigurationError("records have rules (candidates=...), not bands and rows")
        return Plan(threshold, len(kind.rules), 1, curve_of(kind, threshold))
    if isinstance(kind, config.Fingerprint):
        if bands is not None or rows is not None:
            raise ConfigurationError("fingerprints have groups and functions, not bands and rows")
        return Plan(threshold, kind.groups, kind.functions, curve_of(kind, threshold))
    return plan(threshold, recall, bands, rows, curve_of(kind, threshold))


@lru_cache(maxsize=256)
def bound_of(kind: config.Kind, value: Fraction) -> Bound:
    """Return a stored similarity or distance as a bound."""
    return MaximumDistance(value) if is_distance(kind) else Threshold(value)


def is_of_sums(kind: config.Kind) -> bool:
    """Whether the union of two items counts all of both, so that no similarity is above 1/2."""
    return isinstance(kind, config.Bag) and kind.union == "sum"


def inner_threshold(kind: config.Kind, threshold: Threshold) -> Threshold:
    """Return the threshold of Jaccard similarity that indexes and kernels work with.

    For bags whose union adds up the counts, a similarity S is J = S / (1 - S) of the sets of
    (element, occurrence) (MMDS 3.1.3): the same items, in the same order.

    Raises:
        ConfigurationError: such bags are asked for a similarity above 1/2, which none has.
    """
    if not is_of_sums(kind):
        return threshold
    return Threshold(jaccard_of_sum(threshold.fraction))


def outer_threshold(kind: config.Kind, value: Fraction) -> Fraction:
    """Return a threshold of ``inner_threshold`` as the caller knows it."""
    return sum_of_jaccard(value) if is_of_sums(kind) else value


def outer_bound(kind: config.Kind, bound: Bound) -> Bound:
    """Return a bound as the caller knows it."""
    if isinstance(bound, Threshold):
        return Threshold(outer_threshold(kind, bound.fraction))
    return bound


def outer_plan(kind: config.Kind, plan: Plan) -> Plan:
    """Return a plan in the similarities that the caller knows."""
    if not is_of_sums(kind):
        return plan
    return Plan(outer_threshold(kind, plan.threshold), plan.bands, plan.rows, SumCurve())


def index_remedy(kind: config.Kind, threshold: Fraction) -> Remedy:
    """Return what adds a probable index to a collection without one."""
    if is_distance(kind):
        return Remedy("max_distance", ..., "adds one", "rebuild")
    return Remedy("threshold", outer_bound(kind, Threshold(threshold)), "adds one", "rebuild")


def largest_distance(kind: config.Kind) -> Fraction:
    """Return a distance that no two items of a kind exceed."""
    if isinstance(kind, config.Bits):
        return Fraction(kind.length)
    if isinstance(kind, config.Vector) and kind.measure == "cosine":
        return Fraction(180)
    return Fraction(2**160)  # between vectors of numbers below 2^128, in fewer than 2^60 dimensions


def outer_values(kind: config.Kind, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return similarities of indexes and kernels as the caller knows them."""
    return values / (1 + values) if is_of_sums(kind) else values


def outer_value(kind: config.Kind, value: float) -> float:
    """Return one similarity of indexes and kernels as the caller knows it."""
    return value / (1 + value) if is_of_sums(kind) else value


def outer_pairs(kind: config.Kind, batch: PairBatch) -> PairBatch:
    """Return pairs with similarities as the caller knows them."""
    if not is_of_sums(kind):
        return batch
    return PairBatch(batch.left, batch.right, outer_values(kind, batch.similarity))


def identical_value(kind: config.Kind) -> float:
    """Return how similar, or how distant, equal items are."""
    return 0.0 if is_distance(kind) else 1.0

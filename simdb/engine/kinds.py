"""What the engine knows of each kind of item: its bounds, its measure, its family, its plan.

A new kind is a class of settings in ``config``, its items, its measure, its family, and a line in
each function here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from simdb import config
from simdb.errors import ConfigurationError
from simdb.exact.thresholds import Bound, MaximumDistance, Threshold, ThresholdLike
from simdb.lsh.curves import AngleCurve, Curve, HammingCurve, JaccardCurve, LineCurve
from simdb.lsh.family import Family
from simdb.measures.compared import Compared

DEFAULT_THRESHOLD = Fraction(4, 5)
BUCKET_WIDTHS = 4  # width of a bucket of a random line over the distance looked for


class Measure(Protocol):
    """How items of a kind are compared: exactly, in batches."""

    def compare_probe(self, probe: Any, features: Any) -> Compared:  # noqa: ANN401 - a type a kind
        """Compare one item with many."""

    def compare_pairs(
        self,
        features: Any,  # noqa: ANN401 - a type a kind
        left: npt.NDArray[np.int64],
        right: npt.NDArray[np.int64],
    ) -> Compared:
        """Compare ``features[left[i]]`` with ``features[right[i]]``."""


def has_symbols(kind: config.Kind) -> bool:
    """Whether items are compared as sets of symbols, which an exact index may hold."""
    if isinstance(kind, config.Bits):
        return kind.measure == "tanimoto"
    return isinstance(kind, config.Text | config.Set | config.Bag)


def is_distance(kind: config.Kind) -> bool:
    """Whether items are compared by a distance, not by a similarity."""
    if isinstance(kind, config.Bits):
        return kind.measure == "hamming"
    return isinstance(kind, config.Vector)


def measure_of(kind: config.Kind) -> Measure:
    """Return how items of a kind are compared."""
    if isinstance(kind, config.Vector):
        from simdb.measures.vectors import VectorMeasure

        return VectorMeasure(kind)
    if isinstance(kind, config.Bits) and kind.measure == "hamming":
        from simdb.measures.bits import HammingMeasure

        return HammingMeasure()
    from simdb.measures.overlaps import OverlapMeasure

    return OverlapMeasure()


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
            return AngleCurve()
        return LineCurve(bucket_width(kind, threshold))
    return JaccardCurve()


def bucket_width(kind: config.Vector, threshold: Fraction) -> float:
    """Return the width of the buckets on random lines, in units of distance."""
    return kind.bucket_width or BUCKET_WIDTHS * float(threshold) or 1.0


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
        from simdb.lsh.families import BitSampling

        return BitSampling(kind.length, bands, rows, secret)
    if isinstance(kind, config.Vector):
        from simdb.lsh.families import RandomHyperplanes, RandomLines

        if kind.measure == "cosine":
            return RandomHyperplanes(kind.dimension, bands, rows, secret)
        width = bucket_width(kind, threshold)
        return RandomLines(kind.dimension, bands, rows, secret, width=width)
    from simdb.lsh.minhashing import MinHash

    return MinHash(sketch, bands, rows, secret)


# -- bounds: what similar enough means -----------------------------------------------------------


def parse_bound(
    kind: config.Kind, threshold: ThresholdLike | None, max_distance: ThresholdLike | None
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
        return None if max_distance is None else MaximumDistance.parse(max_distance)
    if max_distance is not None:
        raise ConfigurationError(
            f"{kind} is compared by similarity: give threshold, not max_distance"
        )
    return None if threshold is None else inner_threshold(kind, Threshold.parse(threshold))


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
    if threshold.fraction > Fraction(1, 2):
        raise ConfigurationError(
            f"threshold {threshold} is above 1/2, the most that bags can have whose union adds up "
            "their counts (a bag has it to itself); lower it, or use Bag(union='maximum')"
        )
    return Threshold(threshold.fraction / (1 - threshold.fraction))


def outer_threshold(kind: config.Kind, value: Fraction) -> Fraction:
    """Return a threshold of ``inner_threshold`` as the caller knows it."""
    return value / (1 + value) if is_of_sums(kind) else value


def outer_values(kind: config.Kind, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return similarities of indexes and kernels as the caller knows them."""
    return values / (1 + values) if is_of_sums(kind) else values


def identical_value(kind: config.Kind) -> float:
    """Return how similar, or how distant, equal items are."""
    return 0.0 if is_distance(kind) else 1.0


# -- kinds as plain values -----------------------------------------------------------------------

_SHINGLES: dict[str, type[config.Shingles]] = {
    "character": config.CharacterShingles,
    "word": config.WordShingles,
    "stop-word": config.StopWordShingles,
}
_KINDS: dict[str, Callable[..., config.Kind]] = {
    "text": config.Text,
    "set": config.Set,
    "bag": config.Bag,
    "bits": config.Bits,
    "vector": config.Vector,
}


def kind_name(kind: config.Kind) -> str:
    """Return the name of a kind: ``"text"``, ``"set"`` and so on."""
    return next(name for name, known in _KINDS.items() if isinstance(kind, known))  # type: ignore[arg-type]


def describe_kind(kind: config.Kind) -> dict[str, Any]:
    """Return a kind of item as plain values."""
    described = {"kind": kind_name(kind), **asdict(kind)}
    if isinstance(kind, config.Text):
        name = next(name for name, known in _SHINGLES.items() if isinstance(kind.shingles, known))
        described["shingles"] = {"of": name, **described["shingles"]}
    return described


def restore_kind(described: dict[str, Any]) -> config.Kind:
    """Return the kind that ``describe_kind`` described.

    Raises:
        KeyError, TypeError: it is none that this version knows.
    """
    settings = dict(described)
    name = settings.pop("kind")
    if name == "text":
        shingles = dict(settings.pop("shingles"))
        settings["shingles"] = _SHINGLES[shingles.pop("of")](**shingles)
    return _KINDS[name](**settings)

"""What similar enough means to a kind: bounds as callers give them, and as indexes work with them.

Callers know *outer* similarities, indexes and kernels *inner* ones; only bags whose union adds up
the counts tell them apart.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from simdb.errors import ConfigurationError, Remedy
from simdb.exact.thresholds import Bound, MaximumDistance, Threshold, ThresholdLike
from simdb.kinds.base import Kind
from simdb.lsh.planning import Plan

DEFAULT_THRESHOLD = Fraction(4, 5)


def parse_bound(
    kind: Kind, threshold: ThresholdLike | None, max_distance: ThresholdLike | None = None
) -> Bound | None:
    """Read what a caller asks for; None for nothing.

    Raises:
        ConfigurationError: it is out of range, or the kind is compared by the other.
    """
    if kind.is_distance and threshold is not None:
        raise ConfigurationError(
            f"{kind} is compared by distance: give max_distance, not threshold"
        )
    if not kind.is_distance and max_distance is not None:
        raise ConfigurationError(
            f"{kind} is compared by similarity: give threshold, not max_distance"
        )
    if threshold is not None:
        return inner_threshold(kind, Threshold.parse(threshold))
    if max_distance is None:
        return None
    bound = MaximumDistance.parse(max_distance)
    if bound.fraction > kind.largest_distance:
        raise ConfigurationError(
            f"max_distance {bound} is more than {kind.largest_distance}, the largest distance of "
            f"items of {kind}"
        )
    return bound


def planned_bound(
    kind: Kind, threshold: ThresholdLike | None, max_distance: ThresholdLike | None
) -> Bound | None:
    """Read what a new collection is to be planned for; None for no probable index.

    The threshold ``"default"`` is an inner similarity of 0.8 (4/9 for bags whose union adds up the
    counts, which is the same), and nothing for kinds that are compared by distance.
    """
    if threshold != "default":
        return parse_bound(kind, threshold, max_distance)
    if kind.is_distance or max_distance is not None:
        return parse_bound(kind, None, max_distance)
    return Threshold(DEFAULT_THRESHOLD)


def parse_floor(kind: Kind, exact_floor: ThresholdLike | None) -> Threshold | None:
    """Read the floor of an exact index; None for no such index."""
    if exact_floor is None:
        return None
    return inner_threshold(kind, Threshold.parse(exact_floor, name="exact_floor"))


def widest_bound(kind: Kind) -> Fraction:
    """Return the bound of a collection that has none: the largest distance, or 4/5."""
    return kind.largest_distance if kind.is_distance else DEFAULT_THRESHOLD


@lru_cache(maxsize=256)
def bound_of(kind: Kind, value: Fraction) -> Bound:
    """Return a stored similarity or distance as a bound."""
    return MaximumDistance(value) if kind.is_distance else Threshold(value)


def inner_threshold(kind: Kind, threshold: Threshold) -> Threshold:
    """Return a threshold as indexes and kernels work with it."""
    return Threshold(kind.inner_similarity(threshold.fraction))


def outer_bound(kind: Kind, bound: Bound) -> Bound:
    """Return a bound as the caller knows it."""
    if isinstance(bound, Threshold):
        return Threshold(kind.outer_similarity(bound.fraction))
    return bound


def outer_plan(kind: Kind, plan: Plan) -> Plan:
    """Return a plan in the similarities that the caller knows."""
    curve = kind.outer_curve(plan.family)
    if curve is plan.family:
        return plan
    return Plan(kind.outer_similarity(plan.threshold), plan.bands, plan.rows, curve)


def outer_value(kind: Kind, value: float) -> float:
    """Return one similarity as the caller knows it."""
    return float(kind.outer_values(np.array([value]))[0])


def index_remedy(kind: Kind, threshold: Fraction) -> Remedy:
    """Return what adds a probable index to a collection without one."""
    if kind.is_distance:
        return Remedy("max_distance", ..., "adds one", "rebuild")
    return Remedy("threshold", outer_bound(kind, Threshold(threshold)), "adds one", "rebuild")


def identical_value(kind: Kind) -> float:
    """Return how similar, or how distant, equal items are."""
    return 0.0 if kind.is_distance else 1.0

"""Distances of float32 vectors: against exact arithmetic, and scans against them."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simdb.kinds.distances import angle, lr_distance
from simdb.kinds.vectors import VECTOR_MEASURES, VectorMeasure

ORDERS = {"euclidean": 2, "manhattan": 1, "maximum": math.inf}

dimensions = st.integers(1, 70)


def some_vectors(dimension: int, seed: int, count: int = 6) -> npt.NDArray[np.float32]:
    """Vectors of which some are near others, as multiples, opposites, copies and neighbours."""
    generator = np.random.default_rng(seed)
    base = (generator.standard_normal(dimension) * 10.0 ** generator.integers(-3, 4)).astype("f4")
    near = base * np.float32(1 + 2**-20)
    near[0] += np.float32(1e-3) * base[0]
    others = generator.standard_normal((count, dimension)).astype("f4")
    return np.concatenate((np.stack((base, base, -base, base * np.float32(2), near)), others))


def slow_distance(measure: str, left: list[float], right: list[float]) -> float:
    return angle(left, right) if measure == "cosine" else lr_distance(left, right, ORDERS[measure])


@pytest.mark.parametrize("measure", VECTOR_MEASURES)
@given(dimension=dimensions, seed=st.integers(0, 2**32))
def test_pairs_probes_and_scans_agree_with_the_slow_distance(measure, dimension, seed):
    vectors = some_vectors(dimension, seed)
    measured = VectorMeasure(measure)
    compared = measured.compare_probe(vectors[:1], vectors)
    assert compared.numerators.dtype == compared.denominators.dtype == np.float64
    values = compared.values()
    expected = [slow_distance(measure, vectors[0].tolist(), v.tolist()) for v in vectors]
    assert values == pytest.approx(np.array(expected), rel=1e-12, abs=2e-14)
    assert values[:2].tolist() == [0, 0]
    rows = np.arange(len(vectors))
    first = np.zeros_like(rows)
    assert measured.compare_pairs(vectors, first, rows).values().tolist() == values.tolist()
    assert measured.compare_pairs(vectors, rows, first).values().tolist() == values.tolist()
    for limit in (*values.tolist(), -1.0, 0.0, float(np.median(values)) * 1.01, 1e9):
        found, distances = measured.scan(vectors[0], vectors, limit)
        assert found.tolist() == np.flatnonzero(values <= limit).tolist()
        assert distances.values().tolist() == values[found].tolist()


@pytest.mark.parametrize("measure", VECTOR_MEASURES)
def test_a_distance_is_the_same_in_every_batch(measure):
    vectors = some_vectors(300, 1, 20)
    measured = VectorMeasure(measure)
    together = measured.compare_probe(vectors[:1], vectors).values()
    alone = [measured.compare_probe(vectors[:1], vectors[i : i + 1]).values()[0] for i in range(25)]
    assert together.tolist() == alone


def exact_angle(left: list[float], right: list[float]) -> float:
    """The angle in degrees from its sine by Gram's determinant, in 60 digits; for small ones."""
    with localcontext(prec=60):
        one, other = [Decimal(x) for x in left], [Decimal(x) for x in right]
        along = sum((a * b for a, b in zip(one, other, strict=True)), Decimal(0))
        squares = sum((a * a for a in one), Decimal(0)) * sum((b * b for b in other), Decimal(0))
        sine = ((squares - along * along) / squares).sqrt()
        return math.degrees(float(sine + sine**3 / 6 + 3 * sine**5 / 40 + 15 * sine**7 / 336))


@given(st.integers(1, 40), st.floats(1e-9, 1e-3))
def test_small_angles_have_their_digits(dimension, size):
    generator = np.random.default_rng(dimension)
    base = generator.standard_normal(dimension + 1).astype("f4")
    other = base + (size * generator.standard_normal(dimension + 1)).astype("f4")
    assume((base != other).any())
    value = VectorMeasure("cosine").compare_probe(base[None], other[None]).values()[0]
    expected = exact_angle(base.tolist(), other.tolist())
    assert value == pytest.approx(expected, rel=1e-6, abs=1e-13)


def test_right_and_straight_angles_are_exact():
    vectors = np.array([[1, 0], [0, 3], [-5, 0], [2, 2], [7, 0]], np.float32)
    values = VectorMeasure("cosine").compare_probe(vectors[:1], vectors).values()
    assert values.tolist() == [0, 90, 180, 45, 0]


def test_nothing_overflows_or_vanishes_at_the_ends_of_float32():
    largest, smallest = np.finfo("f4").max, np.float32(1e-45)
    vectors = np.array([[largest, largest], [-largest, -largest], [smallest, smallest]], np.float32)
    angles = VectorMeasure("cosine").compare_probe(vectors[:1], vectors).values()
    assert angles == pytest.approx([0, 180, 0], abs=1e-13)
    euclidean = VectorMeasure("euclidean").compare_probe(vectors[:1], vectors).values()
    apart = 2 * math.sqrt(2) * float(largest)
    assert euclidean == pytest.approx([0, apart, apart / 2], rel=1e-12)
    tiny = np.array([[smallest, 0], [0, 0]], np.float32)
    assert VectorMeasure("euclidean").compare_probe(tiny[:1], tiny).values()[1] == float(smallest)


def test_limits_of_angles_at_both_ends():
    vectors = np.array([[1, 0], [-1, 0], [0, 1], [-1, 1e-4]], np.float32)
    measured = VectorMeasure("cosine")

    def within(limit: float) -> list[int]:
        return [*map(int, measured.scan(vectors[0], vectors, limit)[0])]

    assert within(180.0) == within(1e9) == [0, 1, 2, 3]
    assert within(179.9999) == [0, 2, 3]
    assert within(90.0) == [0, 2]
    assert within(0.0) == [0]
    assert within(-1.0) == []
    assert measured.scan(vectors[0], vectors[:0], 90.0)[0].tolist() == []

"""Bits, hyperplanes and lines collide as often as their families state."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from simdb.kinds.distances import lr_distance
from simdb.lsh.amplification import And, Or
from simdb.lsh.curves import (
    AngleCurve,
    HammingCurve,
    LineCurve,
    bucket_width_for,
    implied_radius,
    line_probability,
)
from simdb.lsh.projections import BitSampling, RandomHyperplanes, RandomLines
from tests.support.family_cases import (
    BOUND,
    FUNCTIONS,
    SECRET,
    bit_features,
    some_vectors,
    within_bound,
)

pytestmark = pytest.mark.usefixtures("wrap_around")


# ------------------------------------------------------------------------------- collision rates


def rate(signatures: npt.NDArray[np.uint16]) -> float:
    """In how many base functions of one row the first two signatures agree."""
    return float((signatures[0] == signatures[1]).mean())


@pytest.mark.parametrize("distance", [0, 1, 5, 20, 50, 99, 100])
def test_bit_sampling_collides_as_often_as_it_states(distance):
    family = BitSampling(100, FUNCTIONS, 1, SECRET)
    base = np.random.default_rng(3).integers(0, 2, 100).astype(np.uint8)
    other = base.copy()
    other[:distance] ^= 1
    observed = rate(family.sign(bit_features(100, base, other)))
    assert HammingCurve(100).probability(distance) == pytest.approx(1 - distance / 100)
    assert within_bound(observed, 1 - distance / 100)


@pytest.mark.parametrize("dimension", [2, 3, 50])
@pytest.mark.parametrize("degrees", [0, 1, 20, 60, 90, 135, 180])
def test_hyperplanes_collide_as_often_as_they_state(dimension, degrees):
    family = RandomHyperplanes(dimension, FUNCTIONS, 1, SECRET)
    radians = math.radians(degrees)
    vectors = np.zeros((2, dimension), np.float32)
    vectors[:, :2] = [[1, 0], [math.cos(radians), math.sin(radians)]]
    assert AngleCurve().probability(degrees) == pytest.approx(1 - degrees / 180)
    assert within_bound(rate(family.sign(vectors)), 1 - degrees / 180)


@pytest.mark.parametrize("dimension", [1, 2, 40])
@pytest.mark.parametrize("distance", [0, 0.1, 1, 4, 12, 60])
def test_lines_collide_as_often_as_they_state(dimension, distance):
    family = RandomLines(dimension, 4, FUNCTIONS, 1, SECRET)
    vectors = some_vectors(1, dimension, 30)
    step = np.full(dimension, distance / math.sqrt(dimension), np.float32)
    observed = rate(family.sign(np.concatenate((vectors, vectors + step))))
    true = lr_distance(vectors[0].tolist(), (vectors + step)[0].tolist())
    assert within_bound(observed, LineCurve(4, dimension, 2).probability(true))


@pytest.mark.parametrize("norm", [1, math.inf])
def test_lines_collide_at_least_as_often_as_they_state_for_other_norms(norm):
    family, curve = RandomLines(9, 4, FUNCTIONS, 1, SECRET), LineCurve(4, 9, norm)
    base = some_vectors(1, 9)
    for step in (np.eye(9)[0], np.ones(9), np.arange(9.0)):
        vectors = np.concatenate((base, base + step.astype(np.float32)))
        distance = lr_distance(vectors[0].tolist(), vectors[1].tolist(), norm)
        stated = curve.probability(distance)
        slack = BOUND * math.sqrt(stated * (1 - stated) / FUNCTIONS)
        assert rate(family.sign(vectors)) >= stated - slack
        sensitivity = curve.sensitivity(distance / 2, distance)
        assert rate(family.sign(vectors)) <= sensitivity.far_probability + slack


def test_bands_collide_as_often_as_the_construction_says():
    """AND of 4 rows, OR of 4 bands, over 1,024 independent groups of 16 functions."""
    family = BitSampling(100, FUNCTIONS // 4, 4, SECRET)
    signatures = family.sign(bit_features(100, "0" * 100, "0" * 80 + "1" * 20))
    agree = signatures[0] == signatures[1]
    assert within_bound(float(agree.mean()), And(4).probability(0.8), 1024)
    groups = agree.reshape(-1, 4).any(axis=1)
    assert within_bound(float(groups.mean()), Or(4, And(4)).probability(0.8), 256)
    amplified = HammingCurve(100).sensitivity(20, 60).amplified(Or(4, And(4)))
    assert amplified.near_probability == pytest.approx(0.8785, abs=5e-5)
    assert amplified.far_probability == pytest.approx(0.0985, abs=5e-5)


def test_signs_of_many_dimensions_come_near_the_angle_and_of_few_do_not():
    """MMDS 3.7.3 and example 3.21, where 45 degrees are estimated for 38."""
    x, y = np.array([[3, 4, 5, 6], [4, 3, 2, 1]], np.float32)
    few = RandomHyperplanes(4, FUNCTIONS, 1, SECRET, gaussian=False)
    assert within_bound(rate(few.sign(np.stack((x, y)))), 1 - 45 / 180)
    assert not within_bound(rate(few.sign(np.stack((x, y)))), 1 - 38 / 180)
    x, y = some_vectors(2, 400)
    many = RandomHyperplanes(400, FUNCTIONS, 1, SECRET, gaussian=False)
    cosine = float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
    angle = math.degrees(math.acos(cosine))
    assert rate(many.sign(np.stack((x, y)))) == pytest.approx(1 - angle / 180, abs=0.04)


# ------------------------------------------------------------------------------------ probabilities


def slow_line_probability(distance: float, width: float) -> float:
    """The integral of Datar et al. over the projected distance, by the midpoint rule."""
    steps = (np.arange(200_000) + 0.5) / 200_000 * width
    density = 2 / (distance * math.sqrt(2 * math.pi)) * np.exp(-((steps / distance) ** 2) / 2)
    return float(np.mean(density * (1 - steps / width)) * width)


@pytest.mark.parametrize("distance", [0.05, 0.5, 1, 2, 4, 30, 1000])
def test_the_probability_of_lines_is_the_integral(distance):
    assert line_probability(distance, 4) == pytest.approx(
        slow_line_probability(distance, 4), rel=1e-4
    )


def test_the_probability_of_lines_has_no_jump_and_depends_on_the_ratio_only():
    assert line_probability(0, 4) == 1
    for distance in (0.01, 1, 7, 1e5):
        assert line_probability(distance, 4) == pytest.approx(line_probability(distance / 4, 1))
    chances = [line_probability(distance, 1) for distance in np.geomspace(1e5, 1e7, 99).tolist()]
    assert all(near > far for near, far in pairwise(chances))
    assert line_probability(1e6 * (1 + 1e-9), 1) == pytest.approx(
        line_probability(1e6 * (1 - 1e-9), 1), rel=1e-6
    )


def test_a_bucket_width_for_a_distance():
    for norm in (1, 2, math.inf):
        width = bucket_width_for(2.5, 25, norm)
        assert LineCurve(width, 25, norm).probability(2.5) == pytest.approx(0.8, abs=1e-3)
    assert [implied_radius(2, 25, norm) for norm in (1, 2, math.inf)] == [2, 2, 10]

"""Families of MMDS 3.6 and 3.7: examples, figures and exercises, by number.

Examples 3.17 to 3.20, figures 3.10 and 3.11 and exercises 3.6.1 to 3.6.4 are in
``test_amplification``.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simdb.kernels import bits
from simdb.kernels import vectors as kernels
from simdb.kinds import Bits
from simdb.kinds.bits import BitsItems
from simdb.kinds.distances import angle
from simdb.lsh.amplification import And, Or
from simdb.lsh.curves import (
    AngleCurve,
    Curve,
    HammingCurve,
    JaccardCurve,
    LineCurve,
    line_probability,
)
from simdb.ragged import read_only

EXAMPLE_3_21 = [[1, -1, 1, 1], [-1, 1, -1, 1], [1, 1, -1, -1]]
EXERCISE_3_7_2 = [[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]
THREE_VECTORS = [[2, 3, 4, 5], [-2, 3, -4, 5], [2, -3, 4, -5]]
ALL_SIXTEEN = [list(signs) for signs in product((1, -1), repeat=4)]
FOUR_BIT_VECTORS = ("000000", "110011", "010101", "011100")
THREE_POINTS = [[1, 2, 3], [0, 2, 4], [4, 3, 2]]


def sketches(vectors: list[list[int]], normals: list[list[int]]) -> list[list[int]]:
    """The sketches as MMDS 3.7.3 writes them, by the kernel: +1 or -1 a normal vector."""
    points, directions = np.array(vectors, np.float32), np.array(normals, np.float32)
    errors = np.zeros(len(points), np.float32)
    words = kernels.sign_words(points @ directions.T, errors, points, directions, len(normals))
    sides: list[list[int]] = (2 * (words & 1).astype(int) - 1).tolist()
    return sides


def estimated_angle(left: list[int], right: list[int]) -> float:
    return 180 * sum(a != b for a, b in zip(left, right, strict=True)) / len(left)


def buckets(points: npt.ArrayLike, width: float) -> list[list[int]]:
    """The buckets of points on the axes of the space, by the kernel."""
    vectors = np.array(points, np.float32)
    axes = np.eye(vectors.shape[1], dtype=np.float32)
    zeros = np.zeros(len(vectors), np.float32)
    shifts = np.zeros(vectors.shape[1])
    words = kernels.line_words(vectors @ axes.T, zeros, vectors, axes, shifts, float(width))
    numbers = words.astype(int) - 1
    signed = np.where(numbers > 30_000, numbers - kernels.WORD_VALUES, numbers)
    listed: list[list[int]] = signed.tolist()
    return listed


# -------------------------------------------------------------------------------------- 3.6, 3.7.1


@pytest.mark.parametrize("construction", [And(1), And(4), Or(4), Or(4, And(4)), And(4, Or(4))])
def test_figure_3_9_near_items_are_candidates_with_p1_and_far_ones_with_no_more_than_p2(
    construction,
):
    families: list[tuple[Curve, float, float, Any]] = [
        (JaccardCurve(), 0.3, 0.6, np.linspace(0, 1, 21)),
        (HammingCurve(64), 5, 20, np.arange(65)),
        (AngleCurve(), 20, 90, np.linspace(0, 180, 37)),
        (LineCurve(4, 9, 2), 1, 2, np.linspace(0, 9, 37)),
    ]
    for curve, near, far, distances in families:
        amplified = curve.sensitivity(near, far).amplified(construction)
        assert amplified.near_probability > amplified.far_probability
        for distance in distances.tolist():
            value = distance if curve.falls else 1 - distance
            chance = construction.probability(curve.probability(value))
            if distance <= amplified.near:
                assert chance >= amplified.near_probability
            if distance >= amplified.far:
                assert chance <= amplified.far_probability


def test_section_3_7_1_the_sensitivity_of_bit_sampling():
    family = HammingCurve(10).sensitivity(1, 4)
    assert (family.near_probability, family.far_probability) == (0.9, 0.6)
    assert family.amplified(Or(4, And(4))).far_probability == pytest.approx(0.4260, abs=5e-5)


def test_exercise_3_7_1_which_of_the_six_functions_make_a_pair_a_candidate():
    items = BitsItems(Bits(6), b"")
    features = items.features([items.encode(vector) for vector in FOUR_BIT_VECTORS])
    words = bits.sampled_bits(read_only(features), np.arange(6), 6)
    agreeing = [
        {function + 1 for function in range(6) if words[left, function] == words[right, function]}
        for left, right in combinations(range(4), 2)
    ]
    assert agreeing == [{3, 4}, {1, 3, 5}, {1, 5, 6}, {2, 3, 6}, {2}, {1, 2, 4, 5}]
    assert agreeing == [
        {i + 1 for i in range(6) if one[i] == other[i]}
        for one, other in combinations(FOUR_BIT_VECTORS, 2)
    ]


# ------------------------------------------------------------------------------------ 3.7.2, 3.7.3


@pytest.mark.parametrize("degrees", [0, 10, 45, 90, 137, 180])
def test_figure_3_12_a_hyperplane_separates_in_the_share_of_the_angle(degrees):
    """Of 360 normals in the plane of two vectors, 2 * angle have them on different sides."""
    turns = np.radians(np.arange(360) + 0.5)
    normals = np.column_stack((np.cos(turns), np.sin(turns))).astype(np.float32)
    radians = math.radians(degrees)
    vectors = np.array([[1, 0], [math.cos(radians), math.sin(radians)]], np.float32)
    errors = np.full(2, 1e-6, np.float32)
    words = kernels.sign_words(vectors @ normals.T, errors, vectors, normals, 360)
    assert np.count_nonzero(words[0] != words[1]) == 2 * degrees
    assert 1 - AngleCurve().probability(degrees) == pytest.approx(degrees / 180, abs=1e-15)


def test_section_3_7_2_the_sensitivity_of_random_hyperplanes():
    family = AngleCurve().sensitivity(30, 120)
    assert family.near_probability == pytest.approx(150 / 180)
    assert family.far_probability == pytest.approx(60 / 180)


def test_example_3_21_three_vectors_estimate_120_degrees_where_there_are_38():
    x, y = [3, 4, 5, 6], [4, 3, 2, 1]
    assert sketches([x, y], EXAMPLE_3_21) == [[1, 1, -1], [1, -1, 1]]
    assert estimated_angle(*sketches([x, y], EXAMPLE_3_21)) == pytest.approx(120)
    assert angle(x, y) == pytest.approx(38, abs=0.1)
    of_x, of_y = sketches([x, y], ALL_SIXTEEN)
    separating = [normal for normal, a, b in zip(ALL_SIXTEEN, of_x, of_y, strict=True) if a != b]
    assert sorted(separating) == sorted([*EXAMPLE_3_21[1:], [1, -1, 1, -1], [-1, -1, 1, 1]])
    assert estimated_angle(of_x, of_y) == 45


def test_exercise_3_7_2_sketches_by_four_vectors():
    a, b, c = sketches(THREE_VECTORS, EXERCISE_3_7_2)
    assert a == [1, 1, 1, 1]
    assert b == [-1, 1, -1, 1]
    assert c == [1, -1, 1, -1]
    assert [estimated_angle(*pair) for pair in combinations((a, b, c), 2)] == [90, 90, 180]
    true = [angle(*pair) for pair in combinations(THREE_VECTORS, 2)]
    assert true == pytest.approx([74.974, 105.026, 180], abs=5e-4)


def test_exercise_3_7_3_sketches_by_all_sixteen_vectors():
    """The estimates come near; products of 0 count as +1, so that opposite vectors agree there."""
    signed = sketches(THREE_VECTORS, ALL_SIXTEEN)
    for vector, sketch in zip(THREE_VECTORS, signed, strict=True):
        dots = [sum(a * b for a, b in zip(vector, normal, strict=True)) for normal in ALL_SIXTEEN]
        assert sketch == [1 if dot >= 0 else -1 for dot in dots]
    estimates = [estimated_angle(*pair) for pair in combinations(signed, 2)]
    assert estimates == [67.5, 112.5, 157.5]


def test_exercise_3_7_4_when_sketches_are_all_positive_and_when_they_are_the_same():
    """(a) No component is more than half of the sum. (b) The same components are, in both."""
    vectors = [list(vector) for vector in product((-3, -1, 1, 2), repeat=4)]
    signed = sketches(vectors, EXERCISE_3_7_2)
    sides: dict[tuple[int, ...], set[tuple[bool, ...]]] = {}
    for vector, sketch in zip(vectors, signed, strict=True):
        assert (sketch == [1, 1, 1, 1]) == (2 * max(vector) <= sum(vector))
        more_than_half = tuple(2 * component > sum(vector) for component in vector)
        sides.setdefault(tuple(sketch), set()).add(more_than_half)
    assert all(len(conditions) == 1 for conditions in sides.values())
    assert len(sides) == len({condition for (condition,) in sides.values()})


# ------------------------------------------------------------------------------------ 3.7.4, 3.7.5


def unit_line_probability(distance: float, width: float) -> float:
    """The average over all angles of a line in the plane: 1 - projected distance / width or 0."""
    turns = (np.arange(100_000) + 0.5) * np.pi / 100_000
    return float(np.maximum(0, 1 - distance * np.abs(np.cos(turns)) / width).mean())


def test_figure_3_13_and_section_3_7_4_lines_of_the_plane_are_sensitive():
    for width in (0.5, 1.0, 7.0):
        assert unit_line_probability(width / 2, width) >= 1 / 2
        assert unit_line_probability(2 * width, width) <= 1 / 3
        gaussian = LineCurve(width, 2, 2).sensitivity(width / 2, 2 * width)
        assert gaussian.near_probability >= 1 / 2
        assert gaussian.far_probability <= 1 / 3


def test_section_3_7_4_a_right_angle_to_the_line_means_one_bucket():
    for height in (-7.0, 0.5, 100.0):
        assert buckets([[1.25, 0], [1.25, height]], 1.0)[1][0] == 1


def test_section_3_7_5_the_probability_falls_as_the_distance_grows():
    chances = [line_probability(distance, 4) for distance in np.linspace(0, 50, 500).tolist()]
    assert chances[0] == 1
    assert all(near > far for near, far in pairwise(chances))
    curve = LineCurve(4, 2, 2)
    near, far = curve.sensitivity(1, 1.01), curve.sensitivity(1, 4)
    assert near.near_probability > near.far_probability > far.far_probability


def test_exercise_3_7_5_three_axes_as_lines():
    assert buckets(THREE_POINTS, 1) == THREE_POINTS
    assert buckets(THREE_POINTS, 2) == [[0, 1, 1], [0, 1, 2], [2, 1, 1]]
    assert candidates(1) == {(0, 1)}
    assert candidates(2) == {(0, 1), (0, 2), (1, 2)}
    assert buckets([[-0.5, -1, -1.5]], 1) == [[-1, -1, -2]]


def candidates(width: float) -> set[tuple[int, int]]:
    hashed = buckets(THREE_POINTS, width)
    return {
        (left, right)
        for left, right in combinations(range(3), 2)
        if any(a == b for a, b in zip(hashed[left], hashed[right], strict=True))
    }


def test_exercise_3_7_5_d_for_which_widths_a_pair_is_a_candidate():
    """p1 and p2 share y = 2; no multiple of a lies in (2, 3] for a > 3 and for 1.5 < a <= 2."""
    for eighths in range(1, 60):
        width = eighths / 8
        found = candidates(width)
        assert (0, 1) in found
        shares_a_bucket_of_y = width > 3 or 1.5 < width <= 2
        assert ((0, 2) in found) == shares_a_bucket_of_y
        assert ((1, 2) in found) == shares_a_bucket_of_y


def test_example_3_22_a_1024_way_or():
    family = Or(1024)
    assert family.probability(0.004096) == pytest.approx(0.985, abs=5e-4)
    assert family.probability(0.000064) == pytest.approx(0.063, abs=5e-4)

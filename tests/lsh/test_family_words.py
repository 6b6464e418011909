"""Words of signatures by bits, hyperplanes and lines are those of slow twins at every scale."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.kernels import vectors as kernels
from simdb.lsh.projections import BitSampling, RandomHyperplanes, RandomLines
from tests.support.family_cases import SECRET, bit_features, some_vectors
from tests.support.grids import grid

pytestmark = pytest.mark.usefixtures("wrap_around")


def slow_product(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> float:
    """The sum as ``kernels.product`` defines it."""
    products = [float(a) * float(b) for a, b in zip(left, right, strict=True)]
    whole = len(products) // 32 * 32
    sums = [0.0] * 32
    for place in range(whole):
        sums[place % 32] += products[place]
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [sums[lane] + sums[lane + half] for lane in range(half)]
    total = sums[0]
    for rest in products[whole:]:
        total += rest
    return total


def packed_band(sides: list[bool]) -> list[int]:
    """The words of a band: its bits from the lowest, and the marker after them."""
    number = sum(side << place for place, side in enumerate(sides)) | 1 << len(sides)
    return [number >> 16 * word & 0xFFFF for word in range(len(sides) // 16 + 1)]


def packed(sides: list[bool], rows: int) -> list[int]:
    bands = [sides[start : start + rows] for start in range(0, len(sides), rows)]
    return [word for band in bands for word in packed_band(band)]


def slow_line_words(vector: npt.NDArray[np.float32], lines: RandomLines, width: float) -> list[int]:
    words = []
    for direction, shift in zip(lines.directions, lines.shifts.tolist(), strict=True):
        bucket = math.floor((slow_product(vector, direction) + shift) / width)
        words.append(bucket % 65_535 + 1 if abs(bucket) < 2**52 else 1)
    return words


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (3, 5), (2, 15), (2, 16), (3, 17), (1, 70)])
def test_sampled_bits_are_those_at_the_positions(bands, rows):
    generator = np.random.default_rng(0)
    vectors = generator.integers(0, 2, (4, 133)).astype(np.uint8)
    family = BitSampling(133, bands, rows, SECRET)
    signatures = family.sign(bit_features(133, *vectors))
    assert signatures.dtype == np.uint16
    assert signatures.shape == (4, family.words) == (4, bands * (rows // 16 + 1))
    expected = [[bool(vector[position]) for position in family.positions] for vector in vectors]
    assert signatures.tolist() == [packed(sides, rows) for sides in expected]


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (3, 5), (2, 15), (2, 16), (3, 17), (1, 70)])
@pytest.mark.parametrize("dimension", [1, 2, 31, 32, 300])
def test_hyperplane_bits_are_the_signs_of_the_products(bands, rows, dimension):
    vectors = some_vectors(5, dimension)
    family = RandomHyperplanes(dimension, bands, rows, SECRET)
    signatures = family.sign(vectors)
    assert signatures.dtype == np.uint16
    assert signatures.shape == (5, family.words) == (5, bands * (rows // 16 + 1))
    for vector, signature in zip(vectors, signatures.tolist(), strict=True):
        sides = [slow_product(vector, direction) >= 0 for direction in family.directions]
        assert signature == packed(sides, rows)


@pytest.mark.parametrize("width", [1e-4, 0.5, 8, 1e6])
@pytest.mark.parametrize("dimension", [1, 33, 300])
def test_line_words_are_the_buckets_of_the_products(width, dimension):
    vectors = some_vectors(5, dimension)
    family = RandomLines(dimension, width, 3, 4, SECRET)
    assert (family.shifts >= 0).all()
    assert (family.shifts < width).all()
    signatures = family.sign(vectors)
    assert signatures.dtype == np.uint16
    assert signatures.shape == (5, family.words) == (5, 12)
    expected = [slow_line_words(vector, family, width) for vector in vectors]
    assert signatures.tolist() == expected


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-20, 1, 1e20, 1e37])
def test_signatures_are_true_to_the_products_at_every_scale(scale):
    """Also where float32 overflows or loses everything: then ``product`` decides."""
    vectors = some_vectors(3, 40, scale)
    planes = RandomHyperplanes(40, 2, 8, SECRET)
    for vector, signature in zip(vectors, planes.sign(vectors).tolist(), strict=True):
        sides = [slow_product(vector, direction) >= 0 for direction in planes.directions]
        assert signature == packed(sides, 8)
    lines = RandomLines(40, 1.0, 2, 8, SECRET)
    expected = [slow_line_words(vector, lines, 1.0) for vector in vectors]
    assert lines.sign(vectors).tolist() == expected


@pytest.mark.parametrize("error", [0.0, 0.01, 0.3])
def test_projections_that_are_off_by_no_more_than_their_error_make_no_difference(error):
    generator = np.random.default_rng(4)
    vectors = some_vectors(20, 7)
    family = RandomLines(7, 1.0, 4, 8, SECRET)
    exact = [[slow_product(vector, line) for line in family.directions] for vector in vectors]
    projected = np.array(exact) + generator.uniform(-error, error, (20, 32))
    errors = np.full(20, error)
    expected = [slow_line_words(vector, family, 1.0) for vector in vectors]
    words = kernels.line_words(projected, errors, vectors, family.directions, family.shifts, 1.0)
    assert words.tolist() == expected
    single, above = projected.astype(np.float32), (errors + 1e-5).astype(np.float32)
    words = kernels.line_words(single, above, vectors, family.directions, family.shifts, 1.0)
    assert words.tolist() == expected
    by_row = single.reshape(20, 4, 8).swapaxes(1, 2).reshape(20, 32)
    words = kernels.sign_words(by_row, above, vectors, family.directions, 4)
    assert words.tolist() == [packed([x >= 0 for x in row], 8) for row in exact]


@pytest.mark.parametrize(("dimension", "bands", "rows"), [(3, 2, 8), (64, 16, 8), (1100, 3, 16)])
def test_signatures_do_not_depend_on_the_other_vectors_of_a_batch(dimension, bands, rows):
    """Whatever portions, stacks and stretches the products are cut into."""
    vectors = some_vectors(1300, dimension)
    planes = RandomHyperplanes(dimension, bands, rows, SECRET)
    lines = RandomLines(dimension, math.sqrt(dimension), bands, rows, SECRET)
    for family in (planes, lines):
        signatures = family.sign(vectors)
        for place in (0, 121, 122, 975, 976, 1023, 1024, 1299):
            one = family.sign(vectors[place : place + 1])
            assert one.tolist() == signatures[place : place + 1].tolist()
        reversed_ = family.sign(vectors[::-1])
        np.testing.assert_array_equal(reversed_[::-1], signatures)


def test_a_number_that_is_not_finite_is_in_doubt_whatever_its_sign():
    vectors, directions = np.ones((1, 2), np.float32), np.ones((4, 2), np.float32)
    projected = np.array([[np.nan, -np.nan, np.inf, -np.inf]], np.float32)
    errors = np.array([np.inf], np.float32)
    words = kernels.sign_words(projected, errors, vectors, directions, 1)
    assert words.tolist() == [[0b11111]]
    shifts = np.zeros(4)
    with np.errstate(invalid="ignore"):
        words = kernels.line_words(projected, errors, vectors, directions, shifts, 1.0)
    assert words.tolist() == [[3, 3, 3, 3]]


@pytest.mark.parametrize(
    ("dimension", "allowed", "scale"),
    grid([1, 40, 700, 2100], [math.inf, 0.0], [1e-42, 1e-30, 1e-10, 1, 1e10, 1e30], step=5),
)
def test_the_error_of_projections_is_bounded_and_not_by_much(scale, allowed, dimension):
    vectors = some_vectors(6, dimension, scale)
    family = RandomHyperplanes(dimension, 1, 30, SECRET)
    projected, errors = family._projector.project(vectors, allowed)
    exact = [[slow_product(vector, line) for line in family.directions] for vector in vectors]
    assert (np.abs(projected - np.array(exact)).max(axis=1) <= errors).all()
    assert projected.dtype == (np.float32 if allowed else np.float64)
    if 1e-10 <= scale <= 1e10:
        lengths = np.linalg.norm(vectors.astype(float), axis=1)
        longest = np.linalg.norm(family.directions.astype(float), axis=1).max()
        assert (errors <= lengths * longest * (7e-5 if allowed else 2e-13)).all()


@given(st.integers(0, 80), st.integers(0, 2**32))
def test_product_is_the_sum_in_its_order(size, seed):
    left, right = np.random.default_rng(seed).standard_normal((2, size)).astype(np.float32)
    assert kernels.product(left, right, np.empty(32)) == slow_product(left, right)


def test_products_next_to_zero_and_to_a_border_are_decided_by_the_sum_in_its_order():
    """A matrix product of float32 would have these signs and floors by chance."""
    direction = np.array([[1, 1, -1, 2**-30]], np.float32)
    vectors = np.array(
        [[1, 2**-24, 1, 1], [1, 0, 1, 1], [1, 0, 1, -1], [1, -(2**-24), 1, 1]], np.float32
    )
    errors = np.full(4, 1e-5, np.float32)
    words = kernels.sign_words(vectors @ direction.T, errors, vectors, direction, 1)
    assert (words & 1).ravel().tolist() == [1, 1, 0, 0]
    shift = np.ones(1)
    lines = kernels.line_words(vectors @ direction.T, errors, vectors, direction, shift, 1.0)
    assert lines.ravel().tolist() == [2, 2, 1, 1]


def test_a_bucket_far_out_is_counted_modulo_65535_and_no_word_is_zero():
    direction, shift, errors = np.ones((1, 1), np.float32), np.zeros(1), np.zeros(1, np.float32)
    for bucket in (0, 1, -1, 65_534, 65_535, -65_535, -65_536, 2**23, -(2**23), 65_535 * 2**30):
        vector = np.array([[bucket]], np.float32)
        words = kernels.line_words(vector, errors, vector, direction, shift, 1.0)
        assert words.tolist() == [[int(vector[0, 0]) % 65_535 + 1]]
    multiples = 65_535 * np.arange(1, 257, dtype=np.float32)[:, np.newaxis]
    for step, word in ((0, 1), (-1, 65_535)):
        vectors, zeros = multiples + np.float32(step), np.zeros(256, np.float32)
        words = kernels.line_words(vectors, zeros, vectors, direction, shift, 1.0)
        assert set(words.ravel().tolist()) == {word}
    wide = 2.0**-28  # which makes multiples of 65,535 up to 2^52 of these float32
    for step in (0, -1):
        vectors = multiples + np.float32(step)
        words = kernels.line_words(vectors, zeros, vectors, direction, shift, wide)
        expected = [int(value) * 2**28 % 65_535 + 1 for value in vectors.ravel().tolist()]
        assert words.ravel().tolist() == expected
    vector = np.array([[2.0**60]], np.float32)
    assert kernels.line_words(vector, errors, vector, direction, shift, 1.0).tolist() == [[1]]

"""Bit sampling, random hyperplanes and random lines: signatures, keys, collision rates."""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.config import Bits, Vector
from simdb.errors import ConfigurationError
from simdb.items.bits import BitsItems
from simdb.kernels import projections
from simdb.lsh import projecting
from simdb.lsh.amplification import And, Or, line_probability
from simdb.lsh.families import (
    BandedFamily,
    BitSampling,
    RandomHyperplanes,
    RandomLines,
    bucket_width_for,
    derived_gaussians,
    derived_signs,
    derived_words,
    implied_radius,
)
from simdb.measures.vectors import lr_distance
from tests import oracle

SECRET = b"secret"
FUNCTIONS = 4096  # base functions of a collision rate

# Of the rate in 4,096 functions its standard deviations that a test allows: a right family of the
# about 60 rates below exceeds it in one secret of 2,500.
BOUND = 4.5

# SHA-256 of the first directions of one secret.
GAUSSIANS = "89fc4f3b72a931aa82107132100f0bbec4653806003325844709599b251326e5"
SIGNS = "786582c1918b8e42ca10c26266e0d76a91093bd72602d2555414f9e572bbc52a"


@pytest.fixture(autouse=True)
def _wrap_around():
    with np.errstate(over="ignore"):
        yield


def within_bound(observed: float, stated: float, samples: int = FUNCTIONS) -> bool:
    return abs(observed - stated) <= BOUND * math.sqrt(stated * (1 - stated) / samples) + 1e-12


def slow_product(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> float:
    """The sum as ``kernels.projections.product`` defines it."""
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


def bit_features(length: int, *vectors: Any) -> npt.NDArray[np.uint64]:
    items = BitsItems(Bits(length), b"")
    return items.features([items.encode(vector) for vector in vectors])


def some_vectors(count: int, dimension: int, scale: float = 1) -> npt.NDArray[np.float32]:
    generator = np.random.default_rng(1)
    return (scale * generator.standard_normal((count, dimension))).astype(np.float32)


# ---------------------------------------------------------------------------- against a slow twin


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (3, 5), (2, 15), (2, 16), (3, 17), (1, 70)])
def test_sampled_bits_are_those_at_the_positions(bands, rows):
    generator = np.random.default_rng(0)
    vectors = generator.integers(0, 2, (4, 133)).astype(np.uint8)
    family = BitSampling(Bits(133), bands, rows, SECRET)
    signatures = family.sign(bit_features(133, *vectors))
    assert signatures.dtype == np.uint16
    assert signatures.shape == (4, family.words) == (4, bands * (rows // 16 + 1))
    expected = [[bool(vector[position]) for position in family.positions] for vector in vectors]
    assert signatures.tolist() == [packed(sides, rows) for sides in expected]


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (3, 5), (2, 15), (2, 16), (3, 17), (1, 70)])
@pytest.mark.parametrize("dimension", [1, 2, 31, 32, 300])
def test_hyperplane_bits_are_the_signs_of_the_products(bands, rows, dimension):
    vectors = some_vectors(5, dimension)
    family = RandomHyperplanes(Vector(dimension), bands, rows, SECRET)
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
    family = RandomLines(Vector(dimension, "euclidean", bucket_width=width), 3, 4, SECRET)
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
    planes = RandomHyperplanes(Vector(40), 2, 8, SECRET)
    for vector, signature in zip(vectors, planes.sign(vectors).tolist(), strict=True):
        sides = [slow_product(vector, direction) >= 0 for direction in planes.directions]
        assert signature == packed(sides, 8)
    lines = RandomLines(Vector(40, "euclidean", bucket_width=1.0), 2, 8, SECRET)
    expected = [slow_line_words(vector, lines, 1.0) for vector in vectors]
    assert lines.sign(vectors).tolist() == expected


@pytest.mark.parametrize("error", [0.0, 0.01, 0.3])
def test_projections_that_are_off_by_no_more_than_their_error_make_no_difference(error):
    generator = np.random.default_rng(4)
    vectors = some_vectors(20, 7)
    family = RandomLines(Vector(7, "euclidean", bucket_width=1.0), 4, 8, SECRET)
    exact = [[slow_product(vector, line) for line in family.directions] for vector in vectors]
    projected = np.array(exact) + generator.uniform(-error, error, (20, 32))
    errors = np.full(20, error)
    expected = [slow_line_words(vector, family, 1.0) for vector in vectors]
    words = projections.line_words(
        projected, errors, vectors, family.directions, family.shifts, 1.0
    )
    assert words.tolist() == expected
    single, above = projected.astype(np.float32), (errors + 1e-5).astype(np.float32)
    words = projections.line_words(single, above, vectors, family.directions, family.shifts, 1.0)
    assert words.tolist() == expected
    by_row = single.reshape(20, 4, 8).swapaxes(1, 2).reshape(20, 32)
    words = projections.sign_words(by_row, above, vectors, family.directions, 4)
    assert words.tolist() == [packed([x >= 0 for x in row], 8) for row in exact]


@pytest.mark.parametrize(("dimension", "bands", "rows"), [(3, 2, 8), (64, 16, 8), (1100, 3, 16)])
def test_signatures_do_not_depend_on_the_other_vectors_of_a_batch(dimension, bands, rows):
    """Whatever portions, stacks and stretches the products are cut into."""
    vectors = some_vectors(1300, dimension)
    planes = RandomHyperplanes(Vector(dimension), bands, rows, SECRET)
    settings = Vector(dimension, "euclidean", bucket_width=math.sqrt(dimension))
    for family in (planes, RandomLines(settings, bands, rows, SECRET)):
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
    words = projections.sign_words(projected, errors, vectors, directions, 1)
    assert words.tolist() == [[0b11111]]
    shifts = np.zeros(4)
    with np.errstate(invalid="ignore"):
        words = projections.line_words(projected, errors, vectors, directions, shifts, 1.0)
    assert words.tolist() == [[3, 3, 3, 3]]


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-10, 1, 1e10, 1e30])
@pytest.mark.parametrize("allowed", [math.inf, 0.0])
@pytest.mark.parametrize("dimension", [1, 40, 700, 2100])
def test_the_error_of_projections_is_bounded_and_not_by_much(scale, allowed, dimension):
    vectors = some_vectors(20, dimension, scale)
    family = RandomHyperplanes(Vector(dimension), 1, 30, SECRET)
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
    assert projections.product(left, right, np.empty(32)) == slow_product(left, right)


def test_products_next_to_zero_and_to_a_border_are_decided_by_the_sum_in_its_order():
    """A matrix product of float32 would have these signs and floors by chance."""
    direction = np.array([[1, 1, -1, 2**-30]], np.float32)
    vectors = np.array(
        [[1, 2**-24, 1, 1], [1, 0, 1, 1], [1, 0, 1, -1], [1, -(2**-24), 1, 1]], np.float32
    )
    errors = np.full(4, 1e-5, np.float32)
    words = projections.sign_words(vectors @ direction.T, errors, vectors, direction, 1)
    assert (words & 1).ravel().tolist() == [1, 1, 0, 0]
    shift = np.ones(1)
    lines = projections.line_words(vectors @ direction.T, errors, vectors, direction, shift, 1.0)
    assert lines.ravel().tolist() == [2, 2, 1, 1]


def test_a_bucket_far_out_is_counted_modulo_65535_and_no_word_is_zero():
    direction, shift, errors = np.ones((1, 1), np.float32), np.zeros(1), np.zeros(1, np.float32)
    for bucket in (0, 1, -1, 65_534, 65_535, -65_535, -65_536, 2**23, -(2**23), 65_535 * 2**30):
        vector = np.array([[bucket]], np.float32)
        words = projections.line_words(vector, errors, vector, direction, shift, 1.0)
        assert words.tolist() == [[int(vector[0, 0]) % 65_535 + 1]]
    multiples = 65_535 * np.arange(1, 257, dtype=np.float32)[:, np.newaxis]
    for step, word in ((0, 1), (-1, 65_535)):
        vectors, zeros = multiples + np.float32(step), np.zeros(256, np.float32)
        words = projections.line_words(vectors, zeros, vectors, direction, shift, 1.0)
        assert set(words.ravel().tolist()) == {word}
    wide = 2.0**-28  # which makes multiples of 65,535 up to 2^52 of these float32
    for step in (0, -1):
        vectors = multiples + np.float32(step)
        words = projections.line_words(vectors, np.zeros(256), vectors, direction, shift, wide)
        expected = [int(value) * 2**28 % 65_535 + 1 for value in vectors.ravel().tolist()]
        assert words.ravel().tolist() == expected
    vector = np.array([[2.0**60]], np.float32)
    assert projections.line_words(vector, errors, vector, direction, shift, 1.0).tolist() == [[1]]


# ----------------------------------------------------------------------------- what must not matter


def each_family() -> list[tuple[BandedFamily, Any]]:
    generator = np.random.default_rng(2)
    bits = bit_features(200, *generator.integers(0, 2, (50, 200)).astype(np.uint8))
    vectors = some_vectors(50, 100)
    lines = Vector(100, "euclidean", bucket_width=4.0)
    return [
        (BitSampling(Bits(200), 6, 10, SECRET), bits),
        (RandomHyperplanes(Vector(100), 6, 10, SECRET), vectors),
        (RandomHyperplanes(Vector(100, directions="signs"), 6, 10, SECRET), vectors),
        (RandomLines(lines, 6, 10, SECRET), vectors),
    ]


def test_a_signature_does_not_depend_on_its_batch(monkeypatch):
    for family, features in each_family():
        together = family.sign(features)
        alone = np.concatenate([family.sign(features[i : i + 1]) for i in range(len(features))])
        assert (together == alone).all()
        monkeypatch.setattr(projecting, "_STRETCH", 16)
        if isinstance(family, RandomHyperplanes | RandomLines):
            monkeypatch.setattr(family._projector, "_rows", 7)
            monkeypatch.setattr(family._projector, "_portion", 21)
        assert (family.sign(features) == together).all()
        monkeypatch.undo()
        assert family.sign(features[:0]).shape == (0, family.words)


def test_equal_secrets_give_equal_signatures_and_others_do_not():
    for (one, features), (other, _) in zip(each_family(), each_family(), strict=True):
        assert (one.sign(features) == other.sign(features)).all()
    gaussians = [derived_gaussians(secret, (4, 4)).tolist() for secret in (b"a", b"b")]
    assert gaussians[0] != gaussians[1]
    positions = [BitSampling(Bits(999), 2, 20, secret).positions for secret in (b"a", b"b")]
    assert (positions[0] != positions[1]).any()


def test_no_band_is_zero_and_bucket_keys_are_equal_where_bands_are():
    for family, features in each_family():
        signatures = family.sign(np.concatenate((features, features[:1])))
        bands = signatures.reshape(len(signatures), family.bands, -1)
        assert bands.any(axis=2).all()
        keys = family.bucket_keys(signatures)
        assert keys.groups is None
        assert keys.values.dtype == np.uint64
        assert keys.offsets.tolist() == list(range(0, 6 * 51 + 1, 6))
        table = keys.values.reshape(-1, 6)
        assert (table[0] == table[50]).all()
        for band in range(6):
            same = (bands[:, None, band] == bands[None, :, band]).all(axis=2)
            assert (same == (table[:, None, band] == table[None, :, band])).all()
        assert len(set(table[0].tolist())) == 6


def test_multiples_by_a_power_of_two_lie_on_the_same_sides():
    family, vectors = each_family()[1]
    assert (family.sign(vectors * np.float32(4)) == family.sign(vectors)).all()


# --------------------------------------------------------------------------------- what is derived


def test_derived_words_are_those_of_splitmix64():
    state = oracle.secret_words(SECRET, b"simdb.test", 1)[0]
    expected = []
    for number in range(1, 20):
        value = (state + number * 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        expected.append(value ^ value >> 31)
    assert derived_words(SECRET, b"simdb.test", 19).tolist() == expected


def test_gaussians_are_those_of_box_and_muller():
    words = [int(word) >> 11 for word in derived_words(SECRET, b"simdb.gaussian", 1000)]
    lengths = [math.sqrt(-2 * math.log((word + 1) / 2**53)) for word in words[:500]]
    turns = [2 * math.pi * word / 2**53 for word in words[500:]]
    expected = [length * math.cos(turn) for length, turn in zip(lengths, turns, strict=True)]
    expected += [length * math.sin(turn) for length, turn in zip(lengths, turns, strict=True)]
    assert derived_gaussians(SECRET, (10, 100)).ravel() == pytest.approx(expected, abs=2e-6)
    assert derived_gaussians(SECRET, (3, 3)).dtype == np.float32


def test_gaussians_have_the_bytes_that_they_always_had():
    """A stored signature is worth nothing if another version draws other directions."""
    data = derived_gaussians(b"\0" * 32, (64, 65)).astype("<f4").tobytes()
    assert hashlib.sha256(data).hexdigest() == GAUSSIANS
    assert (
        hashlib.sha256(derived_signs(b"\0" * 32, (64, 65)).astype("<f4").tobytes()).hexdigest()
        == SIGNS
    )


def test_gaussians_are_gaussian():
    """By their first four moments, each within 4.5 of its own standard deviations."""
    values = derived_gaussians(SECRET, (256, 512)).astype(np.float64).ravel()
    root = math.sqrt(values.size)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(values**power) - mean) < BOUND * math.sqrt(variance) / root
    shares = [np.mean(values <= border) for border in (-1.0, 0.0, 2.0)]
    for share, expected in zip(shares, (0.158655, 0.5, 0.977250), strict=True):
        assert within_bound(float(share), expected, values.size)


def test_signs_are_even():
    signs = derived_signs(SECRET, (64, 64))
    assert set(signs.ravel().tolist()) == {1.0, -1.0}
    assert within_bound(float((signs > 0).mean()), 0.5, signs.size)


# ------------------------------------------------------------------------------- collision rates


def rate(signatures: npt.NDArray[np.uint16]) -> float:
    """In how many base functions of one row the first two signatures agree."""
    return float((signatures[0] == signatures[1]).mean())


@pytest.mark.parametrize("distance", [0, 1, 5, 20, 50, 99, 100])
def test_bit_sampling_collides_as_often_as_it_states(distance):
    family = BitSampling(Bits(100), FUNCTIONS, 1, SECRET)
    base = np.random.default_rng(3).integers(0, 2, 100).astype(np.uint8)
    other = base.copy()
    other[:distance] ^= 1
    observed = rate(family.sign(bit_features(100, base, other)))
    assert family.probability(distance) == pytest.approx(1 - distance / 100)
    assert within_bound(observed, 1 - distance / 100)


@pytest.mark.parametrize("dimension", [2, 3, 50])
@pytest.mark.parametrize("degrees", [0, 1, 20, 60, 90, 135, 180])
def test_hyperplanes_collide_as_often_as_they_state(dimension, degrees):
    family = RandomHyperplanes(Vector(dimension), FUNCTIONS, 1, SECRET)
    radians = math.radians(degrees)
    vectors = np.zeros((2, dimension), np.float32)
    vectors[:, :2] = [[1, 0], [math.cos(radians), math.sin(radians)]]
    assert family.probability(degrees) == pytest.approx(1 - degrees / 180)
    assert within_bound(rate(family.sign(vectors)), 1 - degrees / 180)


@pytest.mark.parametrize("dimension", [1, 2, 40])
@pytest.mark.parametrize("distance", [0, 0.1, 1, 4, 12, 60])
def test_lines_collide_as_often_as_they_state(dimension, distance):
    family = RandomLines(Vector(dimension, "euclidean", bucket_width=4), FUNCTIONS, 1, SECRET)
    vectors = some_vectors(1, dimension, 30)
    step = np.full(dimension, distance / math.sqrt(dimension), np.float32)
    observed = rate(family.sign(np.concatenate((vectors, vectors + step))))
    true = lr_distance(vectors[0].tolist(), (vectors + step)[0].tolist())
    assert within_bound(observed, family.probability(true))


@pytest.mark.parametrize(("measure", "order"), [("manhattan", 1), ("maximum", math.inf)])
def test_lines_collide_at_least_as_often_as_they_state_for_other_norms(measure, order):
    family = RandomLines(Vector(9, measure, bucket_width=4), FUNCTIONS, 1, SECRET)
    base = some_vectors(1, 9)
    for step in (np.eye(9)[0], np.ones(9), np.arange(9.0)):
        vectors = np.concatenate((base, base + step.astype(np.float32)))
        distance = lr_distance(vectors[0].tolist(), vectors[1].tolist(), order)
        stated = family.probability(distance)
        slack = BOUND * math.sqrt(stated * (1 - stated) / FUNCTIONS)
        assert rate(family.sign(vectors)) >= stated - slack
        sensitivity = family.sensitivity(distance / 2, distance)
        assert rate(family.sign(vectors)) <= sensitivity.far_probability + slack


def test_bands_collide_as_often_as_the_construction_says():
    """AND of 4 rows, OR of 4 bands, over 1,024 independent groups of 16 functions."""
    family = BitSampling(Bits(100), FUNCTIONS // 4, 4, SECRET)
    signatures = family.sign(bit_features(100, "0" * 100, "0" * 80 + "1" * 20))
    agree = signatures[0] == signatures[1]
    assert within_bound(float(agree.mean()), And(4).probability(0.8), 1024)
    groups = agree.reshape(-1, 4).any(axis=1)
    assert within_bound(float(groups.mean()), Or(4, And(4)).probability(0.8), 256)
    amplified = family.sensitivity(20, 60).amplified(Or(4, And(4)))
    assert amplified.near_probability == pytest.approx(0.8785, abs=5e-5)
    assert amplified.far_probability == pytest.approx(0.0985, abs=5e-5)


def test_signs_of_many_dimensions_come_near_the_angle_and_of_few_do_not():
    """MMDS 3.7.3 and example 3.21, where 45 degrees are estimated for 38."""
    x, y = np.array([[3, 4, 5, 6], [4, 3, 2, 1]], np.float32)
    few = RandomHyperplanes(Vector(4, directions="signs"), FUNCTIONS, 1, SECRET)
    assert within_bound(rate(few.sign(np.stack((x, y)))), 1 - 45 / 180)
    assert not within_bound(rate(few.sign(np.stack((x, y)))), 1 - 38 / 180)
    x, y = some_vectors(2, 400)
    many = RandomHyperplanes(Vector(400, directions="signs"), FUNCTIONS, 1, SECRET)
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
    for measure in ("euclidean", "manhattan", "maximum"):
        settings = Vector(25, measure)
        width = bucket_width_for(settings, 2.5)
        assert line_probability(implied_radius(settings, 2.5), width) == pytest.approx(
            0.8, abs=1e-3
        )
    assert implied_radius(Vector(25, "maximum"), 2) == 10
    assert implied_radius(Vector(25, "manhattan"), 2) == 2


# ---------------------------------------------------------------------------------- what is refused


def test_settings_that_a_family_does_not_serve_are_refused():
    with pytest.raises(ConfigurationError, match="hyperplanes do not serve the measure 'euclid"):
        RandomHyperplanes(Vector(4, "euclidean"), 1, 1, SECRET)
    with pytest.raises(ConfigurationError, match="random lines do not serve the measure 'cosine'"):
        RandomLines(Vector(4), 1, 1, SECRET)
    with pytest.raises(ConfigurationError, match=r"random lines need Vector\.bucket_width"):
        RandomLines(Vector(4, "euclidean"), 1, 1, SECRET)
    signs = RandomHyperplanes(Vector(4, directions="signs"), 1, 1, SECRET)
    assert signs.probability(0) == 1
    with pytest.raises(ConfigurationError, match="'signs' have no stated probability"):
        signs.probability(30)


@pytest.mark.parametrize(("bands", "rows"), [(0, 1), (1, 0), (64, 65)])
def test_impossible_numbers_of_functions_are_refused(bands, rows):
    message = "bands \\* rows at most 4,096"
    with pytest.raises(ConfigurationError, match=message):
        BitSampling(Bits(10), bands, rows, SECRET)
    with pytest.raises(ConfigurationError, match=message):
        RandomHyperplanes(Vector(10), bands, rows, SECRET)
    with pytest.raises(ConfigurationError, match=message):
        RandomLines(Vector(10, "maximum", bucket_width=1), bands, rows, SECRET)

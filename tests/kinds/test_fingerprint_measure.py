"""Similarity of grid squares and of aligned minutiae."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from simdb import kernels
from simdb.kinds import Fingerprint, fingerprints
from simdb.kinds.fingerprints import FingerprintItems, FingerprintMeasure
from tests.support import fingerprint_oracle as oracle

KIND = Fingerprint(300, 300)


def moved(minutiae: list[oracle.Minutia], turn: float, x: float, y: float) -> list[oracle.Minutia]:
    """Turn about the middle of the plate, shift, and leave out what falls off the plate."""
    cosine, sine = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    rows = [
        (
            cosine * (one[0] - 150) - sine * (one[1] - 150) + 150 + x,
            sine * (one[0] - 150) + cosine * (one[1] - 150) + 150 + y,
            (one[2] + turn) % 360,
        )
        for one in minutiae
    ]
    return [row for row in rows if 0 <= row[0] < 300 and 0 <= row[1] < 300]


def compared(kind: Fingerprint, *prints: list[oracle.Minutia]) -> list[tuple[int, int]]:
    """Compare the first with each of the others, one with many and as pairs: the same."""
    items, measure = FingerprintItems(kind), FingerprintMeasure(kind)
    features = items.features([items.encode(one) for one in prints[1:]])
    probe = items.features([items.encode(prints[0])])
    answer = measure.compare_probe(probe, features)
    everything = items.features([items.encode(one) for one in prints])
    others = np.arange(1, len(prints))
    zeros = np.zeros_like(others)
    for left, right in ((zeros, others), (others, zeros)):
        pairs = measure.compare_pairs(everything, left, right)
        assert np.array_equal(pairs.numerators, answer.numerators)
        assert np.array_equal(pairs.denominators, answer.denominators)
    assert answer.numerators.dtype == np.int64
    return list(zip(answer.numerators.tolist(), answer.denominators.tolist(), strict=True))


def test_squares_are_compared_by_jaccard_similarity():
    kind = Fingerprint(100, 60, square=10, border=2, measure="squares")
    random = np.random.default_rng(0)
    prints = [oracle.random_print(random, count, kind) for count in (20, 1, 10, 30)]
    grids = [oracle.grid_of(one, kind) for one in prints]
    expected = [(len(grids[0] & grid), len(grids[0] | grid)) for grid in grids[1:]]
    assert compared(kind, *prints) == expected


@pytest.mark.parametrize("turn", [0, 5, 30, 100, 180, 275])
def test_a_turned_and_shifted_print_is_the_same_print(turn: int) -> None:
    random = np.random.default_rng(turn)
    middle = [
        (x / 2 + 75, y / 2 + 75, direction)
        for x, y, direction in oracle.random_print(random, 40, KIND)
    ]
    other = moved(middle, turn, 17, -12)
    assert len(other) == 40
    ((matched, either),) = compared(KIND, middle, other)
    assert matched >= 39
    assert either == 80 - matched


def test_equal_prints_have_similarity_one():
    for count in (1, 2, 5, 60):
        one = oracle.random_print(np.random.default_rng(count), count, KIND)
        assert compared(KIND, one, one) == [(len(one), len(one))]


def test_matched_minutiae_are_about_those_of_trying_every_pose():
    random = np.random.default_rng(2)
    for _ in range(2):
        finger = oracle.random_print(random, 24, KIND)
        again = moved(finger[4:], float(random.integers(-20, 20)), 20, 10)
        again = [
            (min(x + float(random.normal(0, 2)), 299.0) % 300, y, direction)
            for x, y, direction in again
        ]
        other = oracle.random_print(random, 24, KIND)
        found = compared(KIND, finger, again, other)
        slow = [oracle.most_matched(finger, one, KIND) for one in (again, other)]
        assert found[0][0] >= 0.85 * slow[0]
        assert found[0][0] > 2 * found[1][0]
        assert 1 <= found[1][0] <= slow[1] + 2


def test_a_turn_beyond_the_limit_is_not_tried():
    one = [
        (x / 2 + 75, y / 2 + 75, direction)
        for x, y, direction in oracle.random_print(np.random.default_rng(4), 40, KIND)
    ]
    limited = Fingerprint(300, 300, rotation=30)
    near, far = moved(one, 25, 0, 0), moved(one, 90, 0, 0)
    (near_matched, _), (far_matched, _) = compared(limited, one, near, far)
    assert near_matched >= 39
    assert far_matched < 12


@pytest.mark.parametrize("rotation", [0, 20])
def test_the_tolerance_of_directions_turns_no_print_farther_than_the_largest_turn(
    rotation: int,
) -> None:
    random = np.random.default_rng(4)
    one = [(x / 2 + 75, y / 2 + 75, d) for x, y, d in oracle.random_print(random, 40, KIND)]
    limited = Fingerprint(300, 300, rotation=rotation)
    near, far = moved(one, rotation, 5, 4), moved(one, rotation + 14, 5, 4)
    (near_matched, _), (far_matched, _) = compared(limited, one, near, far)
    assert near_matched == 40
    assert far_matched < 30


def test_places_that_scatter_do_not_make_a_turn_of_prints_that_may_not_be_turned() -> None:
    random = np.random.default_rng(4)
    limited = Fingerprint(300, 300, rotation=0, direction_tolerance=1)
    one = [(x / 5 + 100, y / 5 + 100, d) for x, y, d in oracle.random_print(random, 12, KIND)]
    for _ in range(8):
        scattered = [(x + random.normal(0, 2), y + random.normal(0, 2), d) for x, y, d in one]
        assert compared(limited, one, scattered) == [(12, 12)]


@pytest.mark.parametrize("rotation", [0, 1, 2])
def test_directions_may_differ_by_the_tolerance_besides_the_largest_turn(rotation: int) -> None:
    one = oracle.random_print(np.random.default_rng(6), 24, Fingerprint(250, 250))
    other = [(x + 5, y + 4, (direction + rotation + 1) % 360) for x, y, direction in one]
    assert compared(Fingerprint(300, 300, rotation=rotation), one, other) == [(24, 24)]
    narrow = Fingerprint(300, 300, rotation=rotation, direction_tolerance=0)
    ((matched, _),) = compared(narrow, one, other)
    assert matched <= 1


def test_directions_may_differ_by_the_tolerance_besides_the_largest_turn_on_a_large_plate() -> None:
    one = oracle.random_print(np.random.default_rng(6), 24, Fingerprint(2_000, 2_000, square=50))
    other = [(x + 1_503, y + 777, (direction + 2) % 360) for x, y, direction in one]
    kind = Fingerprint(4_000, 4_000, square=50, tolerance=8, rotation=0)
    assert compared(kind, one, other) == [(24, 24)]


@pytest.mark.parametrize("tolerance", [1, 2])
@pytest.mark.parametrize("turn", [5, 95])
def test_a_turn_between_two_bins_is_found_with_a_small_tolerance(tolerance: int, turn: int) -> None:
    random = np.random.default_rng(turn)
    middle = [
        (x / 2 + 75, y / 2 + 75, direction)
        for x, y, direction in oracle.random_print(random, 24, KIND)
    ]
    kind = Fingerprint(300, 300, direction_tolerance=tolerance)
    assert compared(kind, middle, moved(middle, turn, 3, -4)) == [(24, 24)]


@pytest.mark.parametrize("rotation", [0, 180])
def test_a_shifted_print_is_the_same_print_if_directions_must_be_equal(rotation: int) -> None:
    """Though its turn is fitted by floats, and first by some couples that are wrong."""
    kind = Fingerprint(300, 300, rotation=rotation, direction_tolerance=0)
    for seed in range(8):
        drawn = oracle.random_print(np.random.default_rng(seed), 40, Fingerprint(250, 250))
        one = [(x, y, direction // 30) for x, y, direction in drawn]
        other = [(x + 13, y + 17, direction) for x, y, direction in one]
        assert compared(kind, one, other) == [(len(set(one)), len(set(one)))]


def test_single_minutiae_match_unless_the_turn_is_limited():
    one, other = [(10.0, 20.0, 0.0)], [(250.0, 30.0, 90.0)]
    assert compared(KIND, one, other) == [(1, 1)]
    assert compared(Fingerprint(300, 300, rotation=30), one, other) == [(0, 2)]


def test_as_many_couples_as_the_smaller_print_has_minutiae_at_most():
    many = [(100.0 + x, 100.0, 0.0) for x in range(20)]  # all within the tolerance of each other
    one = [(100.0, 100.0, 0.0)]
    two = [(100.0, 100.0, 0.0), (101.0, 100.0, 0.0)]
    assert compared(KIND, many, one, two) == [(1, 20), (2, 20)]


def test_a_tolerance_far_below_the_plate_still_aligns() -> None:
    kind = Fingerprint(4_000, 4_000, square=50, tolerance=8)
    one = oracle.random_print(np.random.default_rng(5), 50, Fingerprint(2_000, 2_000, square=50))
    other = [(x + 1_503, y + 777, direction) for x, y, direction in one]
    assert compared(kind, one, other) == [(50, 50)]


@pytest.mark.parametrize("shift", [(8, -5), (16, 8), (21, 21)])
def test_a_shift_by_nearly_a_bin_along_both_axes_is_found(shift: tuple[int, int]) -> None:
    """The diagonal of a bin is longer than its side, and a tolerance of 1 than neither."""
    kind = Fingerprint(100, 100, tolerance=1)
    random = np.random.default_rng(5)
    places = random.integers(20, 60, (12, 2)).tolist()
    one = [(float(x), float(y), float(29 * x % 360)) for x, y in places]
    other = [(x + shift[0], y + shift[1], direction) for x, y, direction in one]
    assert compared(kind, one, other) == [(len(set(one)), len(set(one)))]


def test_as_many_minutiae_as_can_be_in_one_place_are_no_trouble() -> None:
    kind = Fingerprint(4_000, 4_000, square=50, tolerance=1)
    heap = [(10 + x / 16, 10 + y / 16, 0.0) for x in range(32) for y in range(32)]
    other = [(x + 3_000, y, direction) for x, y, direction in heap]
    ((matched, either),) = compared(kind, heap, other)
    assert 1 <= matched <= 1_024
    assert either == 2_048 - matched


@pytest.mark.parametrize("width", [719, 721, 2_500, 4_095])
@pytest.mark.parametrize("turn", [0, 3, 50])
def test_a_print_is_found_anywhere_on_a_large_plate(width: int, turn: int) -> None:
    """There the bins of shifts that are voted for are larger than the tolerance."""
    kind, random = Fingerprint(width, width), np.random.default_rng(width)
    for _ in range(5):
        x, y = random.uniform(-120, 120, (2, 50))
        directions = random.uniform(0, 360, 50)
        cosine, sine = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        here, there = random.uniform(180, width - 180, (2, 2))
        one = list(zip(x + here[0], y + here[1], directions, strict=True))
        across, down = cosine * x - sine * y + there[0], sine * x + cosine * y + there[1]
        other = list(zip(across, down, (directions + turn) % 360, strict=True))
        ((matched, either),) = compared(kind, one, other)
        assert matched >= 49
        assert either == 100 - matched


@pytest.mark.parametrize(("width", "tolerance"), [(1_000, 5), (2_000, 5), (4_095, 20)])
@pytest.mark.parametrize("count", [5, 8])
def test_few_minutiae_are_found_on_a_large_plate_whatever_the_turn(
    width: int, tolerance: int, count: int
) -> None:
    """Between two bins of turns their votes lie farther apart than the tolerance."""
    kind = Fingerprint(width, width, tolerance=tolerance)
    random = np.random.default_rng(count)
    for turn in (-40, 5, 50, 95):
        x, y = random.uniform(-width / 4, width / 4, (2, count)).round()
        directions = random.integers(0, 360, count).astype(float)
        cosine, sine = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        middle = width / 2
        one = list(zip(x + middle, y + middle, directions, strict=True))
        across, down = (cosine * x - sine * y).round(), (sine * x + cosine * y).round()
        turned = (directions + turn) % 360
        other = list(zip(across + middle + 9, down + middle - 7, turned, strict=True))
        ((matched, _),) = compared(kind, one, other)
        assert matched >= count - 1


def test_a_call_matches_few_prints_however_many_there_are(monkeypatch):
    generator = np.random.default_rng(6)
    drawn = [
        [tuple(row) for row in generator.uniform(0, (299, 299, 359), (8, 3)).tolist()]
        for _ in range(12)
    ]
    matched = kernels.fingerprints.matched_minutiae
    held: list[int] = []

    def counted(*arguments: Any) -> Any:
        held.append(arguments[2].size)
        return matched(*arguments)

    monkeypatch.setattr(kernels.fingerprints, "matched_minutiae", counted)
    whole = compared(KIND, *drawn)
    assert max(held) == 11
    monkeypatch.setattr(fingerprints, "PRINTS_AT_ONCE", 4)
    held.clear()
    assert compared(KIND, *drawn) == whole
    assert held == [4, 4, 3] * (len(held) // 3)

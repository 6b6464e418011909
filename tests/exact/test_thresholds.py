"""Thresholds: every bound against its definition in fractions."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.exact.thresholds import MaximumDistance, Threshold, admits
from tests.support.exact_oracle import largest_position, may_meet, meets

GRID = [Fraction(hundredths, 100) for hundredths in range(1, 101)]
ODD = [Fraction(1, 3), Fraction(str(0.1 * 7)), Fraction(2, 7), Fraction(10**17 - 1, 10**17)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.8, Fraction(4, 5)),
        ("0.8", Fraction(4, 5)),
        ("4/5", Fraction(4, 5)),
        (" 8e-1 ", Fraction(4, 5)),
        (Decimal("0.8"), Fraction(4, 5)),
        (Fraction(4, 5), Fraction(4, 5)),
        (np.float64(0.8), Fraction(4, 5)),
        (np.float32(0.8), Fraction(4, 5)),
        (np.int64(1), Fraction(1)),
        (1, Fraction(1)),
        (1.0, Fraction(1)),
        (0.1 * 7, Fraction(7000000000000001, 10**16)),
        (1e-300, Fraction(1, 10**300)),
    ],
)
def test_a_threshold_is_the_decimal_number_that_was_written(value, expected):
    assert Threshold.parse(value).fraction == expected


OUT_OF_RANGE = [True, False, np.True_, 0, 0.0, -0.1, 1.0000001, 2, Fraction(3, 2), Fraction(0)]
NO_NUMBERS = ["x", "", "1/0", "nan", "inf", float("nan"), float("inf"), np.float32("nan")]
NO_NUMBERS += [Decimal("NaN"), Decimal("sNaN")]
HUGE = ["1e-999999999", "0." + "3" * 300, Decimal("1e-999999"), Fraction(10**5000, 10**5001 - 1)]


@pytest.mark.parametrize("value", [*OUT_OF_RANGE, "0", "3/2", *NO_NUMBERS, *HUGE])
def test_a_threshold_out_of_range_is_refused_with_its_value_and_the_range(value):
    with pytest.raises(
        ConfigurationError, match="floor must be a number above 0 and at most 1, not"
    ):
        Threshold.parse(value, name="floor")


@pytest.mark.parametrize("value", [None, [0.8], b"0.8", 0.8 + 0j, np.array([0.8]), object()])
def test_a_threshold_of_a_wrong_type_is_a_type_error(value):
    with pytest.raises(TypeError, match="floor must be a number or text"):
        Threshold.parse(value, name="floor")


def test_a_threshold_made_directly_is_checked_too():
    for fraction in (Fraction(3, 2), Fraction(0), Fraction(-1, 2)):
        with pytest.raises(ConfigurationError):
            Threshold(fraction)
    assert Threshold(Fraction(1)).fraction == 1


def test_a_threshold_stays_what_it_is():
    threshold = Threshold.parse(0.8)
    for name in ("fraction", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(threshold, name, Fraction(1, 2))
    assert hash(threshold) == hash(Threshold.parse("4/5"))


def test_numbers_are_read_up_to_a_length_and_an_exponent():
    longest = "0." + "3" * 198
    assert Threshold.parse(Fraction(1, 10**300)).fraction == Fraction(1, 10**300)
    assert Threshold.parse(longest).fraction == Fraction(int("3" * 198), 10**198)
    assert Threshold.parse("1e-400").fraction == Fraction(1, 10**400)
    assert MaximumDistance.parse("1e400").fraction == 10**400
    for value, told in ((longest + "3", "it may have 200 characters"), ("1e-401", "from -400 to")):
        with pytest.raises(ConfigurationError, match=told):
            Threshold.parse(value)
    assert MaximumDistance.parse(10**3000).fraction == 10**3000
    for text, told in (("1e401", "from -400 to"), ("1" * 201, "200 characters")):
        for far in (text, Decimal(text)):
            with pytest.raises(ConfigurationError, match=told):
                MaximumDistance.parse(far)
    for number in (10**3100, Fraction(10**3100)):
        with pytest.raises(ConfigurationError, match="10,000 bits"):
            MaximumDistance.parse(number)


def test_thresholds_print_as_decimals_or_fractions_that_read_back():
    expected = {"0.8": "0.8", "1/3": "1/3", "2/3": "2/3", "1": "1", "0.05": "0.05", "4/5": "0.8"}
    assert {text: str(Threshold.parse(text)) for text in expected} == expected
    for fraction in GRID + ODD:
        assert Threshold.parse(str(Threshold(fraction))).fraction == fraction


def test_bounds_of_many_zeros_print_with_an_exponent():
    shown = {"1e-300": "1e-300", "0.00012e-200": "1.2e-204", "1e-20": f"0.{'0' * 19}1"}
    assert {text: str(Threshold.parse(text)) for text in shown} == shown
    shown = {"0": "0", "1e300": "1e+300", "1e20": f"1{'0' * 20}"}
    assert {text: str(MaximumDistance.parse(text)) for text in shown} == shown
    assert MaximumDistance.parse("1e+300") == MaximumDistance.parse("1e300")


def test_thresholds_compare_as_numbers():
    assert Threshold.parse("1/3") < Threshold.parse(0.34) < Threshold.parse("0.5")
    assert Threshold.parse("4/5") == Threshold.parse(0.8)


def slow_needed_overlap(threshold: Fraction, total: int) -> int:
    # More than half of an odd total is an overlap that no two sets have: none is similar enough.
    return next(
        overlap
        for overlap in range(1, total + 1)
        if 2 * overlap > total or Fraction(overlap, total - overlap) >= threshold
    )


@pytest.mark.parametrize("fraction", GRID + ODD, ids=str)
def test_needed_overlap_is_the_smallest_that_reaches_the_threshold(fraction):
    threshold = Threshold(fraction)
    for total in range(2, 60):
        assert threshold.needed_overlap(total) == slow_needed_overlap(fraction, total)


def shared_prefix_length(threshold: Threshold, size: int, other: int) -> int:
    """Within how many first symbols a set meets a similar one of another size, if any is."""
    return max(0, size - threshold.needed_overlap(size + other) + 1)


@pytest.mark.parametrize("fraction", [*GRID[29::5], *ODD], ids=str)
def test_sizes_and_prefixes_follow_their_definitions(fraction):
    threshold = Threshold(fraction)
    for size in range(1, 40):
        partners = [
            other
            for other in range(1, 5 * size + 1)
            if Fraction(min(size, other), max(size, other)) >= fraction
        ]
        assert threshold.minimum_size(size) == partners[0]
        assert threshold.maximum_size(size) == partners[-1]
        assert threshold.prefix_length(size) == size - partners[0] + 1
        shared = {other: shared_prefix_length(threshold, size, other) for other in partners}
        assert max(shared.values()) == threshold.prefix_length(size)
        # The posted prefix serves every probe that is not smaller, and is no longer than that.
        assert threshold.posted_prefix_lengths(np.array([size])) == max(
            length for other, length in shared.items() if other >= size
        )
    assert threshold.prefix_length(0) == threshold.posted_prefix_lengths(np.array([0])) == 0


@pytest.mark.parametrize("fraction", [*GRID[29::10], *ODD], ids=str)
def test_no_position_and_no_prefix_serves_sets_that_cannot_be_similar(fraction):
    threshold = Threshold(fraction)
    for size in range(1, 20):
        for other in range(1, 80):
            can_be = Fraction(min(size, other), max(size, other)) >= fraction
            lengths = [
                shared_prefix_length(threshold, size, other),
                shared_prefix_length(threshold, other, size),
            ]
            assert min(lengths) >= 0
            assert (min(lengths) > 0) == can_be
        for position in range(1, size + 1):
            last = largest_position(threshold, size, position)
            # The ratio of the documentation, above 0 wherever the last position is looked for.
            reached = [
                place
                for place in range(1, 100)
                if Fraction(size - position + 1, size + place - 1) >= fraction
            ]
            assert max(last, 0) == (reached[-1] if reached else 0)


@pytest.mark.parametrize(
    "fraction", [Fraction(1, 2), Fraction(2, 3), Fraction(9, 10), *ODD], ids=str
)
def test_the_combined_bound_equals_both_cases_of_the_book(fraction):
    threshold = Threshold(fraction)
    generator = random.Random(3)
    for _ in range(3000):
        i, j = generator.randint(1, 12), generator.randint(1, 12)
        p, q = generator.randint(0, 30), generator.randint(0, 30)
        size = i + p
        book = (
            Fraction(q + 1, size + j - 1) >= fraction
            if p >= q
            else Fraction(size - i + 1, i + j - 1 + q) >= fraction
        )
        assert may_meet(threshold, i, p, j, q) == book
        if book:
            assert j <= largest_position(threshold, size, i)
            assert i <= threshold.prefix_length(size)
            assert j <= threshold.prefix_length(j + q)
            assert threshold.minimum_size(size) <= j + q <= threshold.maximum_size(size)


@pytest.mark.parametrize("largest", [10, 1000, 2**31, 10**10, 2**61])
@pytest.mark.parametrize("fraction", [*GRID[::9], *ODD, Fraction(1, 10**300)], ids=str)
def test_array_forms_equal_the_scalar_forms_at_every_magnitude(fraction, largest):
    threshold = Threshold(fraction)
    generator = random.Random(largest)
    values = [generator.randint(0, largest) for _ in range(60)] + [0, 1, 2, largest]
    array = np.array(values, np.int64)
    if 2 * largest < 2**62:
        assert threshold.posted_prefix_lengths(array).tolist() == [
            value - threshold.needed_overlap(2 * value) + 1 if value else 0 for value in values
        ]
    assert threshold.needed_overlaps(array).tolist() == [
        threshold.needed_overlap(v) for v in values
    ]
    assert threshold.minimum_sizes(array).tolist() == [threshold.minimum_size(v) for v in values]
    assert threshold.prefix_lengths(array).tolist() == [threshold.prefix_length(v) for v in values]
    overlaps = [threshold.minimum_size(v) - generator.randint(0, 1) for v in values]
    assert threshold.meets_many(np.array(overlaps, np.int64), array).tolist() == [
        meets(fraction, overlap, union) for overlap, union in zip(overlaps, values, strict=True)
    ]


def test_the_table_holds_the_needed_overlap_of_every_total():
    threshold = Threshold.parse(0.1 * 7)
    table = threshold.needed_overlap_table(5000)
    assert table.dtype == np.int64
    assert table.tolist() == [threshold.needed_overlap(total) for total in range(5001)]


def test_nothing_in_common_never_meets_a_threshold():
    threshold = Threshold.parse("1/100")
    assert threshold.meets_many(np.array([0, 0, 1]), np.array([0, 5, 100])).tolist() == [
        False,
        False,
        True,
    ]
    empty = np.array([], np.int64)
    assert threshold.meets_many(empty, empty).size == threshold.needed_overlaps(empty).size == 0


@pytest.mark.parametrize("largest", [100, 2**31, 10**10, 2**61])
@pytest.mark.parametrize("fraction", [*GRID[::9], *ODD], ids=str)
def test_pairs_far_from_the_threshold_are_decided_right_at_every_magnitude(fraction, largest):
    threshold = Threshold(fraction)
    generator = random.Random(largest)
    unions = [generator.randint(1, largest) for _ in range(200)]
    overlaps = [generator.randint(0, union) for union in unions]
    assert threshold.meets_many(np.array(overlaps), np.array(unions)).tolist() == [
        Fraction(overlap, union) >= fraction and overlap > 0
        for overlap, union in zip(overlaps, unions, strict=True)
    ]


def test_the_largest_products_within_64_bits_and_the_next_ones_are_exact():
    for largest in (3_037_000_499, 3_037_000_500):
        threshold = Threshold(Fraction(largest - 1, largest))
        unions = np.full(3, largest)
        overlaps = np.array([largest - 2, largest - 1, largest])
        for times in (1, 5):  # few pairs, and more
            found = threshold.meets_many(np.tile(overlaps, times), np.tile(unions, times))
            assert found.tolist() == times * [False, True, True]
        assert threshold.minimum_sizes(unions).tolist() == [largest - 1] * 3


@pytest.mark.parametrize("seed", range(5))
def test_array_forms_of_a_single_size_equal_the_scalar_forms(seed):
    # Then no larger size makes a finer fraction stand in for the threshold.
    generator = random.Random(seed)
    for size in [*range(60), *range(3_037_000_480, 3_037_000_520)]:
        unit = 10 ** generator.randint(2, 18)
        threshold = Threshold(Fraction(generator.randint(1, unit), unit))
        alone = np.array([size])
        assert threshold.minimum_sizes(alone).tolist() == [threshold.minimum_size(size)]
        assert threshold.needed_overlaps(alone).tolist() == [threshold.needed_overlap(size)]
        overlap = threshold.minimum_size(size) - generator.randint(0, 1)
        for times in (1, 9):
            found = threshold.meets_many(np.full(times, overlap), np.full(times, size))
            assert found.tolist() == times * [meets(threshold.fraction, overlap, size)]


def test_the_needed_overlaps_keep_the_shape_of_the_sizes():
    threshold = Threshold.parse("2/3")
    for size in (10, 10**10):
        sizes = np.array([[size, size + 1, size + 2], [0, 1, 2]])
        assert threshold.minimum_sizes(sizes).tolist() == [
            [threshold.minimum_size(value) for value in part] for part in sizes.tolist()
        ]


def test_similarities_in_floats_are_compared_in_floats():
    threshold = Threshold.parse("1/2")
    overlaps = np.array([0.0, -1.0, 0.4, 0.5, 0.6, 1.2, 0.0, 6.0])
    unions = np.array([1.0, -4.0, 1.0, 1.0, 1.0, 2.5, 0.0, 10.0])
    assert threshold.meets_many(overlaps, unions).tolist() == [
        *(False, False, False, True, True, False, False, True)
    ]


def test_similar_items_come_best_first_by_the_order_of_their_bound():
    values = np.array([0.5, 1.0, 0.75])
    assert np.argsort(Threshold.parse(0.5).order(values)).tolist() == [1, 2, 0]
    assert np.argsort(MaximumDistance.parse(1).order(values)).tolist() == [0, 2, 1]


# -- distances ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, Fraction(0)),
        (8, Fraction(8)),
        (0.1, Fraction(1, 10)),
        ("7/2", Fraction(7, 2)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.5), Fraction(1, 2)),
        (np.float32(0.1), Fraction(str(float(np.float32(0.1))))),
    ],
)
def test_a_distance_is_the_number_that_was_written(value, expected):
    assert MaximumDistance.parse(value).fraction == expected
    assert str(MaximumDistance.parse("3.50")) == "3.5"
    assert str(MaximumDistance.parse("7/3")) == "7/3"


@pytest.mark.parametrize("value", [-1, "-0.1", "x", True, False, np.True_, "nan", "inf"])
def test_a_distance_that_is_no_number_of_at_least_0_is_refused(value):
    with pytest.raises(ConfigurationError, match="far must be a number of at least 0, not"):
        MaximumDistance.parse(value, name="far")


def test_a_distance_stays_what_it_is_and_compares_as_a_number():
    distance = MaximumDistance.parse(2)
    for name in ("fraction", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(distance, name, Fraction(1, 2))
    assert MaximumDistance.parse("1/3") < MaximumDistance.parse(0.34) < distance


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.uint64, np.float64])
def test_a_distance_is_met_by_ratios_up_to_it(kind):
    numerators = np.array([0, 6, 7, 8, 13, 14, 15, 70, 71], kind)
    denominators = np.array([1, 2, 2, 2, 4, 4, 4, 20, 20], kind)
    met = [True, True, True, False, True, True, False, True, False]
    distance = MaximumDistance.parse("7/2")
    for most in (8, 9):  # few ratios, and more
        found = distance.meets_many(numerators[:most], denominators[:most])
        assert found.tolist() == met[:most]


def test_whole_distances_are_compared_without_rounding():
    # In float64, 2^53 and 2^53 + 1 are one number.
    numerators = np.array([2**53, 2**53 + 1])
    ones = np.ones(2, np.int64)
    distance = MaximumDistance.parse(2**53)
    assert distance.meets_many(numerators, ones).tolist() == [True, False]
    assert distance.meets_many(numerators, ones.astype(np.float64)).tolist() == [True, True]


def wild_fractions(generator: random.Random, near: Fraction) -> list[Fraction]:
    """Long decimals and fractions: beside a ratio, far above all ratios, and anything between."""
    digits = generator.randint(1, 60)
    tiny = Fraction(1, generator.choice([10**digits, 2**digits, 3**digits]))
    drawn = Fraction(generator.randrange(10**digits), generator.randrange(1, 10**digits))
    written = Fraction(str(float(near) * generator.uniform(0.9, 1.1)))
    return [near, near + tiny, abs(near - tiny), drawn, written, Fraction(10**digits, 3)]


@pytest.mark.parametrize("largest", [1, 64, 16_384, 2**31, 3_037_000_499, 3_037_000_500, 2**62])
@pytest.mark.parametrize("seed", range(3))
def test_no_bound_however_long_wraps_or_rounds(seed: int, largest: int) -> None:
    generator = random.Random(seed)
    for _ in range(25):
        size = generator.randint(1, 4)
        numerators = [generator.randint(0, largest) for _ in range(size)]
        denominators = [generator.choice([1, generator.randint(1, largest)]) for _ in range(size)]
        near = Fraction(numerators[0], denominators[0])
        for bound in wild_fractions(generator, near):
            met = [n <= bound * d for n, d in zip(numerators, denominators, strict=True)]
            for times in (1, 9):  # few ratios, and more
                columns = np.tile(numerators, times), np.tile(denominators, times)
                assert MaximumDistance(bound).meets_many(*columns).tolist() == times * met
        unions = [max(pair) for pair in zip(numerators, denominators, strict=True)]
        near = Fraction(numerators[0], max(unions[0], 1))
        for bound in wild_fractions(generator, near):
            if 0 < bound <= 1:
                met = [n > 0 and n >= bound * d for n, d in zip(numerators, unions, strict=True)]
                totals = [Threshold(bound).needed_overlap(d // 2) for d in unions]
                for times in (1, 9):
                    columns = np.tile(numerators, times), np.tile(unions, times)
                    assert Threshold(bound).meets_many(*columns).tolist() == times * met
                    needed = Threshold(bound).needed_overlaps(columns[1] // 2).tolist()
                    assert needed == times * totals


def test_a_distance_beyond_all_floats_is_infinite_for_floats():
    distance = MaximumDistance.parse("1e350")
    assert float(distance) == math.inf
    assert float(MaximumDistance.parse("0.1")) == 0.1
    assert distance.meets_many(np.array([1e308]), np.array([1])).tolist() == [True]
    assert distance.meets_many(np.array([2**62]), np.array([1])).tolist() == [True]


def test_a_bound_admits_what_is_no_wider():
    for own, other, admitted in [("0.5", "0.4", False), ("0.5", "0.5", True), ("0.5", "0.6", True)]:
        assert admits(Threshold.parse(own), Threshold.parse(other)) == admitted
    for own, other, admitted in [("5", "4", True), ("5", "5", True), ("5", "6", False)]:
        assert admits(MaximumDistance.parse(own), MaximumDistance.parse(other)) == admitted


def test_doubles_would_lose_the_pair_that_lies_on_the_threshold():
    assert int((1 - 0.9) * 10) + 1 == 1
    assert Threshold.parse(0.9).prefix_length(10) == 2
    assert 100 - int(np.ceil(0.55 * 100)) + 1 == 45
    assert Threshold.parse(0.55).prefix_length(100) == 46

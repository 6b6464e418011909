"""The examples, the figure and the exercises of MMDS section 3.9, by number."""

from __future__ import annotations

import itertools
import math
import string
from fractions import Fraction

import numpy as np
import pytest

from simdb.exact import joins
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from tests.support.exact_oracle import largest_position, may_meet

pytestmark = pytest.mark.usefixtures("wrap_around")


def as_string(order: str, letters: str) -> str:
    """Write a set of letters down in an order of the letters, as section 3.9.2 does."""
    symbol_order = SymbolOrder(np.array([ord(letter) for letter in order], np.uint64))
    symbols = np.array([ord(letter) for letter in letters], np.uint64)
    arranged = symbol_order.arrange(symbols, np.array([0, symbols.size]))
    letter_of = dict(zip(symbol_order.keys(symbols).tolist(), letters, strict=True))
    return "".join(letter_of[key] for key in arranged.values.tolist())


def book_buckets(size: int, threshold: Fraction, limit: int) -> set[tuple[int, int, int]]:
    """List (i, j, q) by the two cases of section 3.9.6, as the book states them."""
    found = set()
    for i in range(1, math.floor((1 - threshold) * size) + 2):
        p = size - i
        for j, q in itertools.product(range(1, limit), range(limit)):
            if p >= q:
                passed = Fraction(q + 1, size + j - 1) >= threshold
            else:
                passed = Fraction(size - i + 1, i + j - 1 + q) >= threshold
            if passed:
                found.add((i, j, q))
    return found


def our_buckets(size: int, threshold: Threshold, limit: int) -> set[tuple[int, int, int]]:
    return {
        (i, j, q)
        for i in range(1, threshold.prefix_length(size) + 1)
        for j, q in itertools.product(range(1, limit), range(limit))
        if may_meet(threshold, i, size - i, j, q)
    }


def test_example_3_24_a_set_is_the_string_of_its_symbols_in_order():
    assert as_string(string.ascii_lowercase, "dab") == "abd"


def test_example_3_25_the_length_filter():
    threshold = Threshold.parse(0.9)
    assert threshold.maximum_size(9) == 10
    assert threshold.maximum_size(8) == 8


def test_example_3_26_the_prefix_lengths():
    threshold = Threshold.parse(0.9)
    assert threshold.prefix_length(9) == 1
    assert {threshold.prefix_length(size) for size in range(1, 10)} == {1}
    assert {threshold.prefix_length(size) for size in range(10, 20)} == {2}
    assert {threshold.prefix_length(size) for size in range(20, 30)} == {3}
    # bcdefghij is in bucket b only; abcdefghij is in a and b, and is similar; cdefghij is not.
    pairs = [("bcdefghij", "abcdefghij", True), ("bcdefghij", "cdefghij", False)]
    for one, other, similar in pairs:
        symbols = np.array([ord(letter) for letter in one + other], np.uint64)
        offsets = np.array([0, len(one), len(one + other)])
        found = list(joins.pairs(SymbolOrder().arrange(symbols, offsets), threshold))
        assert (len(found) == 1) == similar


def test_section_3_9_5_the_pair_of_one_exchanged_symbol():
    # acdefghijk and bcdefghijk share 9 of 11: less than 0.9, and position 2 of both says so.
    threshold = Threshold.parse(0.9)
    assert Fraction(9, 11) < threshold.fraction
    assert largest_position(threshold, 10, 2) == 1


def test_example_3_27_the_positions_to_look_at():
    threshold = Threshold.parse(0.9)
    assert threshold.prefix_length(10) == 2
    assert [largest_position(threshold, 10, i) for i in (1, 2)] == [2, 1]


def test_example_3_28_the_buckets_of_a_string():
    text, threshold = "acdefghijk", Threshold.parse(0.9)
    prefix = range(1, threshold.prefix_length(len(text)) + 1)
    buckets = [(text[i - 1], i, len(text) - i) for i in prefix]
    assert buckets == [("a", 1, 9), ("c", 2, 8)]


# The book's steps towards it say "10/13 > 0.8", "9/12 > 0.8" and "7/(9 + j) > 0.8" where the
# reverse is meant and true; the figure itself is right.
FIGURE_3_15 = {
    1: {7: [1], 8: [1, 2], 9: [1, 2, 3], 10: [1, 2], 11: [1]},
    2: {7: [1], 8: [1, 2], 9: [1]},
    3: {7: [1]},
}


def test_example_3_29_and_figure_3_15_the_pyramid_of_buckets():
    expected = {
        (i, j, q) for i, rows in FIGURE_3_15.items() for q, row in rows.items() for j in row
    }
    assert our_buckets(10, Threshold.parse(0.8), 40) == expected
    assert book_buckets(10, Fraction(4, 5), 40) == expected
    assert Fraction(10, 13) < Fraction(4, 5)
    assert Fraction(9, 12) < Fraction(4, 5)
    assert Fraction(7, 10) < Fraction(4, 5)


def test_exercise_3_9_1_vowels_first_then_consonants_in_reverse():
    order = "aeiou" + "".join(sorted(set(string.ascii_lowercase) - set("aeiou"), reverse=True))
    assert as_string(order, "qwerty") == "eywtrq"
    assert as_string(order, "asdfghjui") == "aiusjhgfd"


@pytest.mark.parametrize(("threshold", "largest"), [(0.85, 23), (0.95, 21), (0.98, 20)])
def test_exercise_3_9_2_the_lengths_that_a_string_of_20_is_compared_with(threshold, largest):
    assert Threshold.parse(threshold).maximum_size(20) == largest


def test_exercise_3_9_3_the_prefix_of_a_string_of_15():
    assert Threshold.parse(0.85).prefix_length(15) == 3
    assert Threshold.parse(0.95).prefix_length(15) == 1
    # (c) Four symbols exactly if 11/15 < J <= 12/15.
    for numerator in range(1, 3001):
        fraction = Fraction(numerator, 3000)
        four = Threshold(fraction).prefix_length(15) == 4
        assert four == (Fraction(11, 15) < fraction <= Fraction(12, 15))


@pytest.mark.parametrize(("threshold", "limits"), [(0.75, [5, 3, 2, 1]), (0.95, [1])])
def test_exercise_3_9_4_the_positions_that_a_string_of_12_is_compared_with(threshold, limits):
    bound = Threshold.parse(threshold)
    prefix = range(1, bound.prefix_length(12) + 1)
    assert [largest_position(bound, 12, i) for i in prefix] == limits


def compared(size: int, universe: int) -> Fraction:
    """Compute the probability of exercise 3.9.5 by adding up where the common symbol can be.

    With J = 0.9 strings of 9 meet in position 1 of both; strings of 10 in positions (1, 1), (1, 2)
    and (2, 1), which exclude each other.
    """
    every = math.comb(universe, size) ** 2

    def placed(symbol: int, position: int) -> int:
        """Count the sets that have the symbol at the position."""
        before = math.comb(symbol - 1, position - 1)
        return before * math.comb(universe - symbol, size - position)

    places = [(1, 1)] if size == 9 else [(1, 1), (1, 2), (2, 1)]
    return sum(
        (
            Fraction(placed(symbol, i) * placed(symbol, j), every)
            for symbol in range(1, universe + 1)
            for i, j in places
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("size", [9, 10])
def test_exercise_3_9_5_the_probability_that_random_strings_are_compared(size):
    threshold = Threshold.parse(0.9)
    universe = 12
    strings = list(itertools.combinations(range(universe), size))
    met = 0
    for s, t in itertools.product(strings, strings):
        prefix = range(1, threshold.prefix_length(size) + 1)
        met += any(
            s[i - 1] == t[j - 1] and j <= largest_position(threshold, size, i)
            for i, j in itertools.product(prefix, prefix)
        )
    assert Fraction(met, len(strings) ** 2) == compared(size, universe)
    expected = {9: 0.0496381, 10: 0.1073341}
    assert float(compared(size, 100)) == pytest.approx(expected[size], abs=5e-8)


def test_exercise_3_9_6_the_buckets_that_a_string_of_20_is_compared_with():
    for threshold in (0.8, 0.9):
        bound = Threshold.parse(threshold)
        assert our_buckets(20, bound, 60) == book_buckets(20, bound.fraction, 60)
    at_least_nine_tenths = {
        1: {17: [1], 18: [1, 2], 19: [1, 2, 3], 20: [1, 2], 21: [1]},
        2: {17: [1], 18: [1, 2], 19: [1]},
        3: {17: [1]},
    }
    assert our_buckets(20, Threshold.parse(0.9), 60) == {
        (i, j, q)
        for i, rows in at_least_nine_tenths.items()
        for q, row in rows.items()
        for j in row
    }

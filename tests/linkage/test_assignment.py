"""One to one: the choice is the heaviest of all, by trying all."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.linkage import assignment
from simdb.linkage.assignment import one_to_one

Pairs = list[tuple[int, int, Fraction]]


def chosen(pairs: Pairs) -> list[tuple[int, int]]:
    left, right, weights = zip(*pairs, strict=True)
    columns = np.array(left, np.uint32), np.array(right, np.uint32)
    places = one_to_one(*columns, np.array(weights, np.float64))
    return [pairs[place][:2] for place in places.tolist()]


def heaviest(pairs: Pairs) -> Fraction:
    """The largest weight of any matching."""

    @cache
    def best(free: tuple[tuple[int, int, Fraction], ...]) -> Fraction:
        if not free:
            return Fraction(0)
        (left, right, weight), *rest = free
        apart = tuple(pair for pair in rest if pair[0] != left and pair[1] != right)
        return max(best(tuple(rest)), weight + best(apart))

    return best(tuple(pairs))


def some_pairs(generator: random.Random) -> Pairs:
    """Many components of up to five items a side, in any order, with many equal weights."""
    weights = [Fraction(quotient) for quotient in ("1/2", "3/5", "3/4", "9/10", "1")]
    pairs = [
        (5 * block + left, 5 * block + right, generator.choice(weights))
        for block in range(12)
        for left in range(generator.randint(1, 5))
        for right in range(generator.randint(1, 5))
        if generator.random() < 0.6
    ]
    generator.shuffle(pairs)
    return pairs


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("at_once", [1, 1_024])
def test_the_choice_is_the_heaviest_and_uses_each_item_once(seed, at_once, monkeypatch):
    monkeypatch.setattr(assignment, "SOLVED_AT_ONCE", at_once)
    generator = random.Random(seed)
    pairs = some_pairs(generator)
    found = chosen(pairs)
    lefts, rights = zip(*found, strict=True)
    assert list(lefts) == sorted(set(lefts))
    assert len(set(rights)) == len(rights)
    weights = {pair[:2]: pair[2] for pair in pairs}
    blocks = [[pair for pair in pairs if pair[0] // 5 == block] for block in range(12)]
    assert sum(weights[pair] for pair in found) == sum(map(heaviest, blocks))
    for _ in range(3):
        generator.shuffle(pairs)
        assert chosen(pairs) == found


def test_of_equally_good_items_the_earlier_one_is_chosen():
    half = Fraction(1, 2)
    assert chosen([(7, 3, half), (2, 3, half), (9, 1, half), (9, 0, half)]) == [(2, 3), (9, 0)]


def test_two_pairs_of_middling_weight_are_better_than_a_single_heavy_one():
    pairs = [(0, 0, Fraction(9, 10)), (0, 1, Fraction(3, 5)), (1, 0, Fraction(3, 5))]
    assert chosen(pairs) == [(0, 1), (1, 0)]
    assert chosen(pairs[:2]) == [(0, 0)]


def test_what_is_too_large_to_be_solved_is_refused(monkeypatch):
    monkeypatch.setattr(assignment, "MOST_STEPS", 10)
    with pytest.raises(ConfigurationError, match=r"4 items are connected.*stricter bound"):
        chosen([(left, right, Fraction(1)) for left in range(2) for right in range(2)])
    assert len(chosen([(left, left, Fraction(1)) for left in range(99)])) == 99

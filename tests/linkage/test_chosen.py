"""What pairs chosen one to one are worth is found where the evidence itself says something else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.linkage import assignment
from simdb.linkage.chosen import LEAST_CHOSEN, Scale, greedily_chosen, learn_by_choice, scale
from simdb.linkage.weights import MISSING, Evidence, Patterns, Rivals, of_patterns
from tests.support.grids import grid

ITEMS = 2_000


def candidates(matches: int, rivals: int, *, seed: int) -> tuple[UInt32s, UInt32s, Float64s]:
    """Candidates of two tables: item i matches item i if i < matches; the others by chance."""
    drawn = np.random.default_rng(seed)
    left = np.repeat(np.arange(ITEMS), rivals)
    right = drawn.integers(ITEMS, size=left.size)
    of_one = np.arange(matches)
    pairs, places = np.unique(
        np.concatenate([of_one * ITEMS + of_one, left * ITEMS + right]), return_index=True
    )
    # By chance records are alike to very different degrees, as products of one maker are.
    by_chance = np.repeat(drawn.normal(0, 3, ITEMS), rivals) + drawn.normal(0, 1.5, left.size)
    bits = np.concatenate([drawn.normal(9, 2, matches), by_chance])[places]
    return (pairs // ITEMS).astype(np.uint32), (pairs % ITEMS).astype(np.uint32), bits


def chosen_ones(left: UInt32s, right: UInt32s, bits: Float64s) -> Int64s:
    weights = (bits - bits.min() + 1e-6) / (np.ptp(bits) + 1e-6)
    return assignment.one_to_one(left, right, weights)


@pytest.mark.parametrize(
    ("share", "said"),
    grid([0.1, 0.5, 0.95], [Scale(1.0, 0.0), Scale(0.5, -30.0), Scale(4.0, 20.0)], step=2),
)
def test_probabilities_are_those_of_the_pairs_that_are_chosen(share, said):
    left, right, bits = candidates(round(share * ITEMS), 12, seed=3)
    evidence = said.slope * bits + said.shift  # wrong, but in the right order
    found = scale(left, right, evidence, (ITEMS, ITEMS))
    assert found is not None
    places = chosen_ones(left, right, evidence)
    is_match = (left == right)[places] & (left[places] < share * ITEMS)
    probable = 1 / (1 + np.exp2(-(found.slope * evidence[places] + found.shift)))
    assert probable.sum() == pytest.approx(is_match.sum(), abs=0.05 * ITEMS)
    kept = probable >= 0.5
    tried = [evidence[places] >= one for one in np.quantile(evidence[places], np.linspace(0, 1))]
    assert f1(kept, is_match) > max(f1(one, is_match) for one in tried) - 0.02


def f1(kept: Any, is_match: Any) -> float:
    return float(2 * (kept & is_match).sum() / (kept.sum() + is_match.sum()))


def test_of_tables_without_a_match_few_pairs_are_probable():
    left, right, bits = candidates(0, 12, seed=4)
    found = scale(left, right, bits + 50, (ITEMS, ITEMS))
    assert found is not None
    places = chosen_ones(left, right, bits)
    assert (found.slope * (bits[places] + 50) + found.shift >= 0).mean() < 0.4


def test_the_smaller_side_is_looked_at_and_the_order_of_pairs_makes_no_difference():
    left, right, bits = candidates(900, 12, seed=5)
    found = scale(left, right, bits, (ITEMS, ITEMS + 1))
    assert found is not None
    turned = scale(right, left, bits, (ITEMS + 1, ITEMS))
    assert turned == pytest.approx(found, rel=1e-6)
    order = np.random.default_rng(0).permutation(bits.size)
    mixed = scale(left[order], right[order], bits[order], (ITEMS, ITEMS + 1))
    assert mixed == pytest.approx(found, rel=1e-6)


def test_duplicates_in_a_table_count_as_chance():
    left, right, bits = candidates(900, 12, seed=5)
    found = scale(left, right, bits, (ITEMS, ITEMS))
    is_match = left == right
    twice = (
        np.concatenate([left, left[is_match]]),
        np.concatenate([right, right[is_match] + ITEMS]),
        np.concatenate([bits, bits[is_match] - 0.1]),
    )
    fewer = scale(*twice, (ITEMS, 2 * ITEMS))
    assert found is not None
    assert fewer is not None
    assert -fewer.shift / fewer.slope > -found.shift / found.slope + 1


def test_few_pairs_and_pairs_without_rivals_say_nothing():
    none = np.empty(0, np.uint32)
    assert scale(none, none, np.empty(0), (5, 5)) is None
    few = np.arange(LEAST_CHOSEN - 1, dtype=np.uint32)
    assert scale(few, few, np.ones(few.size), (ITEMS, ITEMS)) is None
    alone = np.arange(ITEMS, dtype=np.uint32)
    assert scale(alone, alone, np.linspace(-5, 5, ITEMS), (ITEMS, ITEMS)) is None


def test_equal_evidence_everywhere_is_no_error():
    left, right, bits = candidates(900, 12, seed=6)
    found = scale(left, right, np.zeros(bits.size), (ITEMS, ITEMS))
    assert found is not None
    assert np.isfinite(found).all()


M = [np.array([0.1, 0.2, 0.7]), np.array([0.1, 0.9]), np.array([0.2, 0.8]), np.array([0.5, 0.5])]
U = [np.array([0.9, 0.08, 0.02]), np.array([0.8, 0.2]), np.array([0.7, 0.3]), np.array([0.5, 0.5])]
# Of four fields the first says most and the last nothing; here they say the same.
WRONG = [
    np.array([-1.5, 1.0, 1.5]),
    np.array([-1.5, 1.5]),
    np.array([-1.5, 1.5]),
    np.array([-1.5, 1.5]),
]


@cache
def compared(matches: int, *, seed: int) -> tuple[Patterns, Rivals]:
    """The candidates of ``candidates``, and on which levels their fields are; some lack a value."""
    left, right, _ = candidates(matches, 12, seed=seed)
    drawn = np.random.default_rng(seed)
    is_match = (left == right) & (left < matches)
    codes = np.empty((left.size, len(M)), np.int64)
    for field, (m, u) in enumerate(zip(M, U, strict=True)):
        levels = [drawn.choice(share.size, left.size, p=share) for share in (m, u)]
        codes[:, field] = np.where(is_match, *levels)
    codes[drawn.random(codes.shape) < 0.02] = MISSING
    known, pattern, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    patterns = Patterns(known, counts.astype(np.float64), np.ones(known.shape, np.bool_))
    return patterns, Rivals(left, right, pattern.reshape(-1), False, (ITEMS, ITEMS))


def wrong_evidence() -> Evidence:
    return Evidence(M, U, WRONG, prior=-3.0, matches=1.0, settled=True, by_own_rules=())


@cache
def learnt(matches: int, *, seed: int) -> Evidence:
    return learn_by_choice(wrong_evidence(), *compared(matches, seed=seed))


def by_evidence(found: Evidence, patterns: Patterns, pairs: Rivals, matches: int) -> float:
    """F1 of the pairs that are chosen by evidence, and as probable as not."""
    bits = of_patterns(patterns.codes, found.bits, found.prior)[pairs.pattern]
    read = scale(pairs.left, pairs.right, bits, (ITEMS, ITEMS))
    assert read is not None
    chosen = chosen_ones(pairs.left, pairs.right, bits)
    is_match = (pairs.left == pairs.right) & (pairs.left < matches)
    kept = read.probabilities(bits[chosen]) >= 0.5
    return float(2 * is_match[chosen[kept]].sum() / (kept.sum() + matches))


@pytest.mark.parametrize(
    ("share", "better", "short"),
    [
        pytest.param(0.3, 0.0, 1, marks=pytest.mark.slow),
        (0.5, 0.2, 0.06),
        (0.95, 0.1, 0.01),
    ],
)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_chosen_mends_evidence_that_is_wrong(share, better, short, seed):
    """As far as that can tell matches from others: where few records match it may not help."""
    matches = round(share * ITEMS)
    patterns, pairs = compared(matches, seed=seed)
    truth = [np.log2(m / u) for m, u in zip(M, U, strict=True)]
    best = by_evidence(replace(wrong_evidence(), bits=truth), patterns, pairs, matches)
    before = by_evidence(wrong_evidence(), patterns, pairs, matches)
    found = learnt(matches, seed=seed)
    after = by_evidence(found, patterns, pairs, matches)
    assert after > before + better
    assert after > best - short
    assert (found.m, found.u) == (M, U)


def test_what_says_nothing_loses_its_weight():
    found = learnt(1_900, seed=1)
    assert np.ptp(found.bits[0]) > 5
    assert np.ptp(found.bits[3]) < 0.5
    assert all((np.diff(own) >= 0).all() for own in found.bits)


def test_without_a_match_what_is_probable_does_not_grow():
    patterns, pairs = compared(0, seed=1)
    evidence = wrong_evidence()
    bits = of_patterns(patterns.codes, evidence.bits, evidence.prior)[pairs.pattern]
    read = scale(pairs.left, pairs.right, bits, (ITEMS, ITEMS))
    assert read is not None
    before = read.probabilities(bits[chosen_ones(pairs.left, pairs.right, bits)]).sum()
    found = learn_by_choice(evidence, patterns, pairs)
    assert found.matches < before


def test_where_nothing_tells_the_evidence_stays_as_it_was():
    patterns, pairs = compared(900, seed=1)
    alone = pairs.left == pairs.right
    kept = pairs.left[alone], pairs.right[alone], pairs.pattern[alone]
    fewer = Rivals(*kept, False, (ITEMS, ITEMS))
    evidence = wrong_evidence()
    assert learn_by_choice(evidence, patterns, fewer) is evidence


def test_where_a_best_choice_would_take_too_long_the_best_pairs_come_first(monkeypatch):
    left, right, bits = candidates(900, 12, seed=7)
    best = scale(left, right, bits, (ITEMS, ITEMS))
    monkeypatch.setattr("simdb.linkage.chosen.MOST_STEPS", 1)
    first = scale(left, right, bits, (ITEMS, ITEMS))
    assert best is not None
    assert first is not None
    assert first != best
    assert -first.shift / first.slope == pytest.approx(-best.shift / best.slope, abs=0.5)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_pairs_are_chosen_first(seed):
    drawn = np.random.default_rng(seed)
    size = int(drawn.integers(0, 60))
    left, right = drawn.integers(0, 12, (2, size)).astype(np.uint32)
    bits = drawn.integers(-3, 4, size).astype(np.float64)
    taken: tuple[set[int], set[int]] = set(), set()
    expected = []
    for place in sorted(range(size), key=lambda one: (-bits[one], one)):
        if left[place] not in taken[0] and right[place] not in taken[1]:
            taken[0].add(left[place])
            taken[1].add(right[place])
            expected.append(place)
    assert greedily_chosen(left, right, bits).tolist() == sorted(expected)

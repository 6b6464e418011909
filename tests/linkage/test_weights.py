"""Weights of evidence: what made the patterns is found again, and what cannot be is refused."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.linkage.weights import (
    FURTHER,
    MISSING,
    Patterns,
    Rivals,
    learn_labelled,
    learn_unlabelled,
    of_patterns,
    rising_bits,
)

M = [np.array([0.1, 0.9]), np.array([0.05, 0.15, 0.8]), np.array([0.2, 0.8]), np.array([0.3, 0.7])]
U = [np.array([0.98, 0.02]), np.array([0.9, 0.07, 0.03]), np.array([0.95, 0.05]),
     np.array([0.6, 0.4])]  # fmt: skip
PRIOR = 1e-3
PAIRS = 10**9
# Each rule asks for the highest level of one field.
LOOKS_AT = np.eye(4, dtype=np.bool_)[:3]


MISSES = 0.01


def expected_patterns(missing: float = MISSES) -> Patterns:
    """How many candidates have each pattern if fields are independent, of matches and of others."""
    codes, counts = [], []
    for pattern in product(*([MISSING, *range(share.size)] for share in M)):
        chances = []
        for shares in (M, U):
            chance = 1.0
            for code, own in zip(pattern, shares, strict=True):
                chance *= missing if code == MISSING else (1 - missing) * own[code]
            chances.append(chance)
        codes.append(pattern)
        counts.append(PAIRS * (PRIOR * chances[0] + (1 - PRIOR) * chances[1]))
    table = np.array(codes)
    rules = table[:, :3] == np.array([share.size - 1 for share in M[:3]])
    teaches = (rules[:, :, np.newaxis] & ~LOOKS_AT).any(axis=1)
    proposed = rules.any(axis=1)
    return Patterns(table[proposed], np.array(counts)[proposed], teaches[proposed])


RANDOM = [PRIOR * m + (1 - PRIOR) * u for m, u in zip(M, U, strict=True)]


def learnt(
    patterns: Patterns, looks_at: Any = LOOKS_AT, random: Any = RANDOM, missing: float = MISSES
) -> Any:
    least, present = [np.array(1e-9)] * len(random), [1 - missing] * len(random)
    return learn_unlabelled(patterns, random, least, looks_at, pairs=PAIRS, present=present)


def test_expectation_maximisation_finds_what_made_the_patterns():
    found = learnt(expected_patterns())
    for share, own in zip(found.m, M, strict=True):
        assert share == pytest.approx(own, abs=0.02)
    for share, own in zip(found.u, U, strict=True):
        assert share == pytest.approx(own, abs=1e-4)
    # Fields are independent here, so the bits are those of m and u.
    for own, m, u in zip(found.bits, M, U, strict=True):
        assert own == pytest.approx(np.log2(m / u), abs=0.2)
    assert found.prior == pytest.approx(np.log2(PRIOR), abs=0.1)
    assert (found.settled, found.by_own_rules) == (True, ())


def test_a_field_that_all_rules_look_at_is_named():
    looks_at = LOOKS_AT.copy()
    looks_at[:, 3] = True
    assert learnt(expected_patterns(), looks_at).by_own_rules == (3,)


def test_records_of_two_sorts_that_share_no_field_are_learnt_from_all_the_same():
    """As people and films in one table: what proposes people says nothing of titles."""
    codes = np.array([[1, MISSING, MISSING], [0, MISSING, MISSING], [MISSING, 1, MISSING]])
    codes = np.concatenate([codes, [[MISSING, 0, MISSING]]])
    counts, looks_at = np.array([1_000.0, 3e4, 2_000.0, 3e4]), np.eye(3, dtype=np.bool_)[:2]
    teaches = ~looks_at[[0, 0, 1, 1]]
    random = [np.array([1 - 1e-6, 1e-6])] * 3
    found = learn_unlabelled(
        Patterns(codes, counts, teaches), random, [np.array(1e-9)] * 3, looks_at, pairs=10**8
    )
    assert found.matches == pytest.approx(3_000, rel=0.1)
    assert found.by_own_rules == (0, 1)


def test_a_rule_that_leaves_one_field_teaches_nothing():
    """Its candidates could be matches in any share: what they say of the field is not taken."""
    looks_at = LOOKS_AT.copy()
    looks_at[2] = [True, True, True, False]
    found = learnt(expected_patterns(), looks_at)
    assert found.m[3] == pytest.approx(M[3], abs=0.01)
    assert found.by_own_rules == ()


def test_what_cannot_be_learnt_from_is_refused():
    patterns = expected_patterns()
    with pytest.raises(ConfigurationError, match="no rule proposes a pair"):
        learnt(patterns._replace(counts=0 * patterns.counts))
    all_but_one = np.ones((3, 4), np.bool_)
    all_but_one[1, 2] = False
    with pytest.raises(ConfigurationError, match="no rule leaves two: give a threshold"):
        learnt(patterns, all_but_one)
    lowest = Patterns(np.zeros((1, 4), np.int64), np.ones(1), np.ones((1, 4), np.bool_))
    with pytest.raises(ConfigurationError, match="none of the candidates looks like a match"):
        learnt(lowest)


def test_what_does_not_settle_is_told(monkeypatch):
    monkeypatch.setattr("simdb.linkage.weights.ROUNDS", 2)
    assert not learnt(expected_patterns()).settled


def test_a_level_that_says_less_than_a_lower_one_is_one_with_it():
    m, u = np.array([0.1, 0.5, 0.1, 0.3]), np.array([0.9, 0.05, 0.03, 0.02])
    together = np.log2((0.5 + 0.1) / (0.05 + 0.03))
    expected = [np.log2(0.1 / 0.9), together, together, np.log2(0.3 / 0.02)]
    assert rising_bits(m, u) == pytest.approx(expected)


def test_a_regression_is_where_no_small_change_makes_labels_likelier():
    generator = np.random.default_rng(1)
    codes = np.column_stack([generator.integers(-1, 2, 200), generator.integers(-1, 3, 200)])
    chance = 0.1 + 0.3 * (codes[:, 0] > 0) + 0.2 * (codes[:, 1] > 0) + 0.2 * (codes[:, 1] > 1)
    labels = generator.random(200) < chance
    found = learn_labelled(codes, labels, [2, 3])
    assert found.settled

    def loss(bits: list[Any], prior: float) -> float:
        """The negative logarithm of the likelihood, in bits, and the ridge."""
        evidence = np.full(200, prior)
        for field, own in enumerate(bits):
            evidence += np.append(own, 0.0)[codes[:, field]]
        wrong = np.log2(1 + 2.0 ** np.where(labels, -evidence, evidence)).sum()
        return float(wrong + np.log(2) / 2 * sum(np.square(own).sum() for own in bits))

    least = loss([*found.bits], found.prior)
    for field, level in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]:
        for step in (-0.05, 0.05):
            moved = [own.copy() for own in found.bits]
            moved[field][level] += step
            assert loss(moved, found.prior) > least
    assert loss([*found.bits], found.prior + 0.05) > least
    assert all((np.diff(own) >= 0).all() for own in found.bits)
    # A label of several pairs is that label several times; one of a half is of either kind once.
    counts = generator.integers(1, 4, 200)
    again = learn_labelled(np.repeat(codes, counts, axis=0), np.repeat(labels, counts), [2, 3])
    counted = learn_labelled(codes, labels, [2, 3], counts=counts.astype(np.float64))
    assert counted.prior == pytest.approx(again.prior, abs=1e-4)
    halves = np.full(200, 0.5)
    assert learn_labelled(codes, halves, [2, 3]).prior == pytest.approx(0.0, abs=1e-4)


Edges = tuple[tuple[object, object], ...]


def chances(
    edges: Edges, odds: tuple[float, ...], further: float
) -> tuple[list[float], dict[object, float]]:
    """How probably each pair matches, and each record none, over all choices of what matches."""
    matching, total = [0.0] * len(odds), 0.0
    unmatched = dict.fromkeys([record for edge in edges for record in edge], 0.0)
    for choice in product((False, True), repeat=len(odds)):
        chosen = [place for place, is_chosen in enumerate(choice) if is_chosen]
        degrees = Counter(record for place in chosen for record in edges[place])
        likelihood = math.prod(odds[place] for place in chosen)
        likelihood *= math.prod(further ** (degree - 1) for degree in degrees.values())
        total += likelihood
        for place in chosen:
            matching[place] += likelihood
        for record in unmatched.keys() - degrees.keys():
            unmatched[record] += likelihood
    return [one / total for one in matching], {who: one / total for who, one in unmatched.items()}


@pytest.mark.parametrize("odds", [(3.0, 1.0), (1e6, 1e4), (0.2, 7.0)])
@pytest.mark.parametrize("free", [1.0, 0.25])
def test_rivals_take_from_each_other(odds, free):
    """Beside slow sums over all choices; pairs that make no circle are exactly these."""
    left, right = np.array([0, 0, 1, 3], np.uint32), np.array([1, 2, 4, 5], np.uint32)
    pattern = np.array([0, 1, 0, 1])
    alone = np.array(odds) / (1 + np.array(odds))
    for is_one in (False, True):
        sides = [(f"r{one}" if not is_one else one) for one in right.tolist()]
        edges = tuple(zip(left.tolist(), sides, strict=True))
        further = math.sqrt(FURTHER) if is_one else FURTHER
        expected, unmatched = chances(edges, tuple(odds[own] / free for own in pattern), further)
        found = Rivals(left, right, pattern, is_one, (6, 6)).beside(np.array(odds), free)
        shares = np.bincount(pattern, expected) / 2 / alone
        assert found.shares == pytest.approx(np.minimum(shares, 1.0), rel=2e-3)
        records = set(left.tolist()), set(sides)
        if is_one:
            records = set(unmatched), set(unmatched)
        nobody = [6 - len(own) + sum(unmatched[who] for who in own) for own in records]
        assert found.free == pytest.approx(nobody[0] * nobody[1] / 36, abs=2e-3)


def test_what_is_surely_a_match_takes_nothing_and_many_that_may_be_one_take_much():
    """All pairs of a record that is there six times match; of twenty in one street hardly one."""
    pairs = np.triu_indices(6, 1)
    left, right = (side.astype(np.uint32) for side in pairs)
    clique = Rivals(left, right, np.zeros(15, np.int64), True, (6, 6))
    assert clique.beside(np.array([1e10])).shares == pytest.approx(1, abs=1e-3)
    assert clique.beside(np.array([3.0])).shares < 0.3


@pytest.mark.parametrize("matches", [300, pytest.param(1000, marks=pytest.mark.slow), 1400])
def test_where_the_model_holds_probabilities_are_true(matches):
    """Fields that differ independently: m, how many match and each pattern's share are found."""
    generator = np.random.default_rng(matches)
    values, wrong, size = np.array([500, 400, 50, 8]), 0.1, 1500
    left, right = (generator.integers(values, size=(size, 4)) for _ in range(2))
    drawn = generator.integers(values, size=(matches, 4))
    right[:matches] = np.where(generator.random((matches, 4)) < wrong, drawn, left[:matches])
    agree = left[:, np.newaxis] == right[np.newaxis]
    proposes = agree[..., :3] | np.array([0, 0, 1], bool) & agree[..., 3:]
    proposes[..., 2] &= agree[..., 3]
    first, second = np.nonzero(proposes.any(axis=2))
    looks_at = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]], bool)
    teaches = (proposes[first, second][..., np.newaxis] & ~looks_at).any(axis=1)
    codes = agree[first, second]
    bits = np.packbits(np.hstack([codes, teaches]), axis=1)[:, 0]
    kinds, pattern, counts = np.unique(bits, return_inverse=True, return_counts=True)
    rows = np.unpackbits(kinds[:, np.newaxis], axis=1).astype(bool)
    patterns = Patterns(rows[:, :4].astype(np.int64), counts.astype(np.float64), rows[:, 4:])
    sides = first.astype(np.uint32), second.astype(np.uint32)
    random = [np.array([1 - 1 / one, 1 / one]) for one in values]
    found = learn_unlabelled(
        patterns,
        random,
        [np.full(2, 1e-9)] * 4,
        looks_at,
        pairs=size * size,
        rivals=Rivals(*sides, pattern, False, (size, size)),
    )
    is_match = (first == second) & (first < matches)
    assert found.matches == pytest.approx(is_match.sum(), rel=0.07)
    assert [own[1] for own in found.m] == pytest.approx([0.9] * 4, abs=0.045)
    evidence = of_patterns(patterns.codes, found.bits, found.prior)[pattern]
    said = 1 / (1 + np.exp2(-evidence))
    for least, most in ((0.02, 0.3), (0.3, 0.95), (0.95, 1.1)):
        those = (said >= least) & (said < most)
        if those.sum() >= 20:
            assert said[those].mean() == pytest.approx(is_match[those].mean(), abs=0.08)

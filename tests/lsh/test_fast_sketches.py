"""What fast sketches find of pairs of small sets: as stated, and never less than without a size."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import comb

import numpy as np
import pytest

import simdb
from simdb.errors import ConfigurationError
from simdb.lsh import fast_sketches
from simdb.lsh.amplification import And, Construction, Or, candidate_shares
from simdb.lsh.family import MinHash, SymbolSets
from simdb.lsh.fast_sketches import agreements


def missed(union: int, pairs: int, bands: int, rows: int) -> float:
    """Return the share of made pairs, 0.8 alike, that agree in no band."""
    generator = np.random.default_rng(union)
    symbols = generator.integers(0, 2**64, (pairs, union), dtype=np.uint64)
    half = (union - round(0.8 * union)) // 2
    sides = symbols[:, : union - half], symbols[:, half:]
    family = MinHash("fast", bands, rows, b"a secret of the test")
    signatures = [
        family.sign(SymbolSets(side.ravel(), np.arange(pairs + 1) * side.shape[1]))
        for side in sides
    ]
    equal = (signatures[0] == signatures[1]).reshape(pairs, bands, rows)
    return 1 - float(equal.all(axis=2).any(axis=1).mean())


@pytest.mark.parametrize("union", [20, 200])
def test_what_is_missed_is_what_is_stated_of_the_size(union):
    """By independent rows it would be 0.0077, which is 9 standard errors off."""
    plan = simdb.plan(0.8)
    assert plan.expected_recall(0.8) == pytest.approx(0.9922, abs=1e-4)
    stated = 1 - plan.expected_recall(0.8, union)
    assert stated < 0.0047
    error = (stated / 20_000) ** 0.5
    assert missed(union, 20_000, plan.bands, plan.rows) == pytest.approx(stated, abs=4 * error)


@pytest.mark.parametrize("recall", [0.8, 0.99])
@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95])
def test_a_planned_recall_is_a_lower_bound_for_every_size(recall, threshold):
    plan = simdb.plan(threshold, recall=recall)
    found = [plan.expected_recall(threshold, union) for union in (20, 100, 1_000, 100_000)]
    assert sorted(found, reverse=True) == found
    assert found[-1] >= plan.expected_recall(threshold)
    assert found[-1] == pytest.approx(plan.expected_recall(threshold), abs=1e-3)


def test_below_a_planned_threshold_of_few_symbols_up_to_a_quarter_less_is_found_than_is_stated():
    plan = simdb.plan(0.8)
    assert plan.expected_recall(0.4) == pytest.approx(0.0635, abs=1e-4)
    assert plan.expected_recall(0.4, 20) == pytest.approx(0.0568, abs=1e-4)
    shares = []
    for threshold, recall, union in product((0.5, 0.8, 0.99), (0.9, 0.99), (6, 20)):
        plan = simdb.plan(threshold, recall=recall)
        for common in range(1, union):
            value = Fraction(common, union)
            stated = plan.expected_recall(value)
            if value < threshold and stated >= 0.2:
                shares.append(plan.expected_recall(value, union) / stated)
    assert 0.75 < min(shares) < 0.8


def test_the_size_of_a_union_is_of_sets_in_bands():
    with pytest.raises(ConfigurationError, match="whole number"):
        simdb.plan(0.8).expected_recall(0.8, 0)
    cascade = simdb.And(2, simdb.Or(20, simdb.And(3)))
    with pytest.raises(ConfigurationError, match="bands of minhashes"):
        simdb.plan(0.8, recall=0.5, cascade=cascade).expected_recall(0.8, 20)


def law_in_rationals(common: int, union: int, functions: int) -> list[Fraction]:
    """Follow the rounds, each by all ways of filling rows, in exact fractions."""
    similarity = Fraction(common, union)

    @cache
    def filled(rows: int, symbols: int) -> list[Fraction]:
        chances = [Fraction(0)] * (rows + 1)
        if not symbols:
            return [Fraction(1), *chances[1:]]
        for count, chance in enumerate(filled(rows, symbols - 1)):
            chances[count] += chance * Fraction(functions - rows + count, functions)
            if count < rows:
                chances[count + 1] += chance * Fraction(rows - count, functions)
        return chances

    def drawn(count: int, agreeing: int) -> Fraction:
        ways = comb(common, agreeing) * comb(union - common, count - agreeing)
        return Fraction(ways, comb(union, count))

    laws = [
        [comb(rows, k) * similarity**k * (1 - similarity) ** (rows - k) for k in range(rows + 1)]
        for rows in range(functions + 1)
    ]
    for _ in range(functions):
        before, laws = laws, []
        for rows in range(functions + 1):
            law = [Fraction(0)] * (rows + 1)
            for count in range(min(rows, union) + 1):
                for agreeing in range(count + 1):
                    chance = filled(rows, union)[count] * drawn(count, agreeing)
                    for more, rest in enumerate(before[rows - count]):
                        law[agreeing + more] += chance * rest
            laws.append(law)
    return laws[functions]


@pytest.mark.parametrize(
    ("common", "union", "functions"), [(1, 2, 4), (2, 3, 6), (3, 5, 6), (7, 10, 6), (5, 6, 8)]
)
def test_the_law_is_that_of_exact_fractions(common, union, functions):
    law = agreements(common / union, functions, union)
    assert law == pytest.approx([float(p) for p in law_in_rationals(common, union, functions)])
    assert law.sum() == pytest.approx(1, abs=1e-12)


def test_a_round_is_made_once_for_all_pairs_of_one_union():
    fast_sketches._one_round.cache_clear()
    for common in range(10, 20):
        agreements(common / 23, 12, 23)
    assert fast_sketches._one_round.cache_info().misses == 1


@pytest.mark.parametrize(
    "functions", [1, 7, 48, *(pytest.param(many, marks=pytest.mark.slow) for many in (96, 128))]
)
def test_rows_agree_as_often_as_sets_are_similar_whatever_their_size(functions):
    for union in (None, 3, 97, 1_000):
        for similarity in (1 / 3, 2 / 3):
            law = agreements(similarity, functions, union)
            assert law.sum() == pytest.approx(1, abs=1e-12)
            mean = law @ np.arange(functions + 1) / functions
            assert mean == pytest.approx(similarity, abs=1e-12)


@pytest.mark.parametrize(
    "construction",
    [Or(3, And(2)), Or(7), And(7), Or(3, And(2, Or(2))), And(2, Or(2, And(3)))],
    ids=str,
)
def test_the_choices_that_make_candidates_are_counted(construction: Construction) -> None:
    functions = int(np.prod([layer.members for layer in construction.layers]))
    choices = np.array([*product([False, True], repeat=functions)])
    agree = choices
    for layer in reversed(construction.layers):
        inside = agree.reshape(len(choices), -1, layer.members)
        agree = (np.all if layer.combine is And else np.any)(inside, axis=2)
    counts = choices.sum(axis=1)
    for k, share in enumerate(candidate_shares(construction, functions)):
        assert share == agree[counts == k, 0].sum() / comb(functions, k)


def test_many_bands_do_not_cancel():
    """Inclusion and exclusion of 114 bands in floats makes 0 of what is nearly 1."""
    plan = simdb.plan(0.2, row_budget=256)
    for similarity in (0.5, 0.95):
        assert plan.expected_recall(similarity, 20) == pytest.approx(0.9999, abs=1e-9)
    assert simdb.plan(0.8, bands=64, rows=2).expected_recall(0.8, 1_000) == pytest.approx(0.9999)
    plan = simdb.plan(0.1, bands=90, rows=1)
    assert plan.expected_recall(0.95, 20) == pytest.approx(0.9999)
    # One row a band: missed where no row agrees, which is 20 rows at once of 20 symbols at most.
    assert plan.expected_recall(0.5, 20) == pytest.approx(0.9999)


@pytest.mark.parametrize("sketch", ["fast", "classical"])
@pytest.mark.parametrize(("common", "union"), [(2, 4), (8, 12), (20, 40)])
def test_a_pair_is_a_candidate_as_often_as_is_stated(sketch, common, union, long_form):
    """By bands, and by at least so many rows: the filter of candidates of a search."""
    trials = 60_000 if long_form else 6_000
    generator = np.random.default_rng(union)
    symbols = generator.integers(0, 2**64, (trials, union), dtype=np.uint64)
    half = (union - common) // 2
    family = MinHash(sketch, 16, 6, b"a secret of the test")
    one, other = (
        family.sign(SymbolSets(side.ravel(), np.arange(trials + 1) * side.shape[1]))
        for side in (symbols[:, : union - half], symbols[:, half:])
    )
    equal = one == other
    in_band = equal.reshape(trials, 16, 6).all(axis=2).any(axis=1)
    plan = simdb.plan(0.8)
    for needed in (0, 48, 55, 62):
        met = float((in_band & (equal.sum(axis=1) >= needed)).mean())
        size = union if sketch == "fast" else None
        stated = plan.candidate_probability(common / union, needed, size)
        error = max(stated * (1 - stated), 1e-4) ** 0.5 / trials**0.5
        assert met == pytest.approx(stated, abs=4 * error)


def test_of_cascades_and_without_a_filter_it_is_the_formula():
    cascade = simdb.And(2, simdb.Or(20, simdb.And(3)))
    for plan in (simdb.plan(0.8), simdb.plan(0.8, recall=0.5, cascade=cascade)):
        for similarity in (0.3, 0.5, 0.8):
            stated = plan.candidate_probability(similarity, 0)
            assert stated == plan.construction.probability(similarity)
            counted = agreements(similarity, plan.signature_rows) @ candidate_shares(
                plan.construction, plan.signature_rows
            )
            assert stated == pytest.approx(counted, abs=1e-12)
    assert simdb.plan(0.8).candidate_probability(1, 62) == 1

"""Examples and exercises of MMDS 3.8.4 and 3.8.5, by number."""

from __future__ import annotations

from fractions import Fraction
from math import log, log1p
from pathlib import Path

import numpy as np
import pytest

import simdb
from simdb.kinds import Fingerprint
from simdb.kinds.fingerprints import SquaresFamily, share_of_functions
from simdb.lsh.amplification import And, Or
from simdb.lsh.fast_sketches import agreements
from tools.print_rates import Rates, simulated_rates

DENSITY = Fraction(1, 5)
AGAIN = Fraction(4, 5)
OTHERS = DENSITY**6  # two prints of different fingers in the bucket of one function
MATES = DENSITY**3 * AGAIN**3  # two prints of one finger


def book_kind(squares: int, groups: int, functions: int = 1_024) -> Fingerprint:
    return Fingerprint(
        *(100, squares // 100),
        items="squares",
        measure="squares",
        square=1,
        border=0,
        groups=groups,
        functions=functions,
    )


def book_family(squares: int, groups: int, functions: int = 1_024) -> SquaresFamily:
    return SquaresFamily(book_kind(squares, groups, functions), b"secret")


def simulated(squares: int, groups: int, functions: int = 1_024, prints: int = 1_000) -> Rates:
    family = book_family(squares, groups, functions)
    densities, kept = np.full(squares, 0.2), np.full(squares, 0.8)
    return simulated_rates(family, densities, kept, prints=prints, seed=1)


def test_section_3_8_5_probabilities_of_one_function():
    assert float(OTHERS) == pytest.approx(0.000064)
    assert float(MATES) == pytest.approx(0.004096)
    # Prints of different fingers share 0.04 of the squares and occupy 0.36, mates 0.16 and 0.24.
    for jaccard, probability in ((0.04 / 0.36, OTHERS), (0.16 / 0.24, MATES)):
        common = 0.4 * jaccard / (1 + jaccard)  # J of 2 x 0.2 of the squares
        assert common**3 == pytest.approx(float(probability))


def test_example_3_22_a_group_of_1024_functions():
    assert 1 - float(Or(1_024).probability(float(MATES))) == pytest.approx(0.015, abs=0.0005)
    assert float(Or(1_024).probability(float(OTHERS))) == pytest.approx(0.063, abs=0.0006)


def test_example_3_22_as_the_family_does_it():
    # Functions share squares, which the book leaves out: less than a tenth here.
    rates = simulated(1_000, 1)
    assert rates.looked_at == pytest.approx(0.063, rel=0.1)
    assert rates.false_negatives == pytest.approx(0.015, abs=0.012)


def test_section_3_8_5_two_groups_look_at_a_250th(long_form):
    both = And(2, Or(1_024))
    assert 1 - float(both.probability(float(MATES))) == pytest.approx(0.030, abs=0.0005)
    assert float(both.probability(float(OTHERS))) == pytest.approx(0.00397, abs=0.0002)
    # With many squares the groups are nearly independent; among 1,000 a rich couple of prints
    # shares a function in both groups more often: 1/209.
    many = simulated(10_000 if long_form else 3_000, 2)
    assert many.looked_at == pytest.approx(1 / 250, rel=0.1)
    assert many.false_negatives == pytest.approx(0.030, abs=0.015)
    assert simulated(1_000, 2, prints=1_500).looked_at == pytest.approx(1 / 209, rel=0.1)


@pytest.mark.parametrize(
    ("squares", "others", "missed"),
    [(1_000, 208.64, 0.0424), (5_000, 239.44, 0.0321), (10_000, 243.89, 0.0309)],
)
def test_section_3_8_5_the_share_looked_at_tends_to_a_250th(
    squares: int, others: float, missed: float
) -> None:
    shared = np.arange(squares + 1)
    share = share_of_functions(shared, squares, 3)
    both = And(2, Or(1_024)).probability(share)
    # Independent squares: their number in common is binomial, and no simulation is needed.
    strangers, mates = agreements(0.2 * 0.2, squares), agreements(0.2 * 0.8, squares)
    assert strangers @ share == pytest.approx(float(OTHERS))
    assert mates @ share == pytest.approx(float(MATES))
    assert 1 / (strangers @ both) == pytest.approx(others, abs=0.01)
    assert 1 - mates @ both == pytest.approx(missed, abs=0.0001)
    # What the chapter rounds to 1/250; independent functions are the limit of many squares.
    limit = 1 / float(And(2, Or(1_024)).probability(float(OTHERS)))
    assert others < limit == pytest.approx(248.5, abs=0.1)


def test_exercise_3_8_2_one_group_of_2048_against_two_of_1024():
    single, both = Or(2_048), And(2, Or(1_024))
    positives = float(single.probability(float(OTHERS)))
    negatives = 1 - float(single.probability(float(MATES)))
    assert positives == pytest.approx(1 - (1 - 0.000064) ** 2_048)
    assert positives == pytest.approx(0.1229, abs=0.0001)
    assert negatives == pytest.approx(0.000223, abs=0.000001)
    assert positives > 30 * float(both.probability(float(OTHERS)))
    assert negatives < (1 - float(both.probability(float(MATES)))) / 100
    rates = simulated(1_000, 1, functions=2_048)
    assert rates.looked_at == pytest.approx(positives, rel=0.1)
    assert rates.false_negatives < 0.005


@pytest.mark.parametrize("count", [1, 10, 100, 500])
def test_exercise_3_8_3_functions_of_two_squares(count: int) -> None:
    others, mates = DENSITY**4, DENSITY**2 * AGAIN**2
    assert (float(others), float(mates)) == pytest.approx((0.0016, 0.0256))
    positives = float(Or(count).probability(others))
    negatives = 1 - float(Or(count).probability(mates))
    assert positives == pytest.approx(1 - (1 - 0.0016) ** count)
    assert negatives == pytest.approx((1 - 0.0256) ** count)
    if count < 100:
        return  # so few functions differ from their mean
    kind = Fingerprint(
        *(100, 10),
        items="squares",
        measure="squares",
        square=1,
        border=0,
        groups=1,
        functions=count,
        squares_a_function=2,
    )
    family = SquaresFamily(kind, b"secret")
    rates = simulated_rates(family, np.full(1_000, 0.2), np.full(1_000, 0.8), prints=1_000)
    assert rates.looked_at == pytest.approx(positives, rel=0.1)
    # 1,000 couples: three standard deviations, and the squares that functions share.
    bound = 3 * (negatives * (1 - negatives) / 1_000) ** 0.5 + 0.01
    assert rates.false_negatives == pytest.approx(negatives, abs=bound)


def test_exercise_3_8_4_many_many():
    # Both prints of a pair must be in one bucket, as with a probe: the rates of the family itself.
    single = Or(1_024)
    assert 1 - float(single.probability(float(MATES))) == pytest.approx(0.0150, abs=0.0001)
    assert float(single.probability(float(OTHERS))) == pytest.approx(0.0634, abs=0.0001)


def test_exercise_3_8_4_pairs_of_a_store(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    first = random.random((300, 1_000)) < 0.2
    second = random.random(first.shape) < np.where(first, 0.8, 0.05)  # 0.2 of the squares again
    prints = [np.flatnonzero(row) for rows in (first, second) for row in rows]
    with simdb.open(tmp_path / "prints.simdb") as database:
        collection = database.collection("prints", book_kind(1_000, 1), threshold=0.01, seed=1)
        collection.add_many(enumerate(prints))
        found = {(pair.left, pair.right) for pair in collection.pairs(min_recall=0)}
    mates = {(number, number + 300) for number in range(300)}
    # 300 mates: 3 standard deviations; of others the mean over functions is 0.0630.
    assert 1 - len(found & mates) / 300 == pytest.approx(0.015, abs=0.022)
    assert len(found - mates) / (300 * 599 - 300) == pytest.approx(0.063, rel=0.1)


def test_exercise_3_8_5_the_best_number_of_functions():
    def errors(count: int) -> float:
        return 1 - (1 - float(OTHERS)) ** count + (1 - float(MATES)) ** count

    best = min(range(1, 5_000), key=errors)
    # Where the derivative is 0: n = ln(ln(1 - q) / ln(1 - p)) / ln((1 - p) / (1 - q)).
    others, mates = log1p(-float(OTHERS)), log1p(-float(MATES))
    assert log(mates / others) / (others - mates) == pytest.approx(1_029.8, abs=0.1)
    assert best == 1_030
    assert errors(best) == pytest.approx(0.0784, abs=0.0001)
    assert errors(best - 1) > errors(best) < errors(best + 1)

"""What fast sketches find of pairs of small sets: as stated, and never less than without a size."""

from __future__ import annotations

import numpy as np
import pytest

import simdb
from simdb.errors import ConfigurationError
from simdb.lsh.family import MinHash, SymbolSets


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
    found = [plan.expected_recall(threshold, union) for union in (10, 100, 1_000, 100_000)]
    assert sorted(found, reverse=True) == found
    assert found[-1] >= plan.expected_recall(threshold)
    assert found[-1] == pytest.approx(plan.expected_recall(threshold), abs=1e-3)


def test_the_size_of_a_union_is_of_sets_in_bands():
    with pytest.raises(ConfigurationError, match="whole number"):
        simdb.plan(0.8).expected_recall(0.8, 0)
    cascade = simdb.And(2, simdb.Or(20, simdb.And(3)))
    with pytest.raises(ConfigurationError, match="bands of minhashes"):
        simdb.plan(0.8, recall=0.5, cascade=cascade).expected_recall(0.8, 20)

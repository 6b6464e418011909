"""What an exact index would take is counted on a sample, by sets of symbols and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import simdb
from simdb import planning
from simdb.planning import expected_weight
from tests.support.oracle import shingle_set
from tests.support.strategies import cluster_corpus

SETS = [set(range(size)) for size in (0, 1, 2, 3, 10, 99, 100, 101)]
KIND = simdb.Text(simdb.WordShingles(1))


def prefix(size: int, floor: Fraction) -> int:
    """How many symbols two sets must have in common at least is floor t; one of the rest is met."""
    return size - math.ceil(floor * size) + 1 if size else 0


@pytest.mark.parametrize("at_once", [100, 3])
@pytest.mark.parametrize("floor", ["1/3", "0.7", "1"])
def test_the_prefixes_of_a_sample_are_counted(monkeypatch, floor, at_once):
    monkeypatch.setattr(planning, "SAMPLED_AT_ONCE", at_once)
    counted = simdb.plan_exact(iter(SETS), simdb.Set(), exact_floor=floor)
    expected = [prefix(len(one), Fraction(floor)) for one in SETS]
    assert counted.floor == Fraction(floor)
    assert counted.items == len(SETS)
    assert counted.symbols == sum(map(len, SETS))
    assert counted.postings == sum(expected)
    assert counted.largest_prefix == max(expected)
    assert counted.weight > 0


def test_for_containment_every_symbol_is_posted():
    counted = simdb.plan_exact(SETS, simdb.Set(), exact_floor=0.7, containment=True)
    assert counted.postings == counted.symbols == sum(map(len, SETS))
    assert counted.largest_prefix == 101


def test_the_postings_counted_are_those_of_the_index(tmp_path):
    texts = [text for _, text in cluster_corpus(5, 6, 6)]
    counted = simdb.plan_exact(texts, KIND, exact_floor=0.6)
    assert counted.symbols == sum(len(shingle_set(text, KIND)) for text in texts)
    assert counted.item_bytes == sum(len(text.encode()) for text in texts)
    with simdb.open(tmp_path / "s.simdb") as database:
        stored = database.collection("c", KIND, threshold=None, exact_floor=0.6)
        stored.add_many(enumerate(texts))
        assert stored.stats()["exact_index"]["postings"] == counted.postings


def test_no_items_take_nothing():
    counted = simdb.plan_exact([], simdb.Set())
    assert (counted.items, counted.postings, counted.largest_prefix) == (0, 0, 0)
    assert counted.weight == 0


@pytest.mark.parametrize("at_once", [100, 2])
def test_a_bad_item_of_the_sample_is_named_by_its_row(monkeypatch, at_once):
    monkeypatch.setattr(planning, "SAMPLED_AT_ONCE", at_once)
    with pytest.raises(simdb.BadItemError, match="row 4") as raised:
        simdb.plan_exact([*SETS[:4], "no set"], simdb.Set())
    assert raised.value.row == 4


def test_before_there_are_items_the_weight_is_a_rule_of_thumb_for_texts_only():
    """A character begins a shingle each, a word every 6 bytes, a stop word every 13."""
    letters = expected_weight(simdb.Text(), 0.7)
    words = expected_weight(simdb.Text(simdb.WordShingles(3)), 0.7)
    stops = expected_weight(simdb.Text(simdb.StopWordShingles()), 0.7)
    assert letters is not None
    assert words == pytest.approx(letters / 6)
    assert stops == pytest.approx(letters / 13)
    assert expected_weight(simdb.Text(), 0.7, containment=True) == pytest.approx(
        letters / (prefix(1_000, Fraction(7, 10)) / 1_000)
    )
    assert expected_weight(simdb.Set(), 0.7) is None

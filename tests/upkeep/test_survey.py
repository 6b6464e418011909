"""A survey: what it estimates of all pairs from those that the probable index finds."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.lsh.family import minimum_matches


@pytest.mark.parametrize("union", [4, 40])
def test_pairs_below_the_threshold_are_counted_for_sets_of_any_size(
    tmp_path: Path, union: int, long_form: bool
) -> None:
    """By the formula, fast sketches of small sets would be estimated 5.8 % too few."""
    pairs = 40_000 if long_form else 2_000
    generator = np.random.default_rng(union)
    drawn = generator.integers(0, 2**62, (pairs, union)).tolist()
    quarter = union // 4
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        sets = db.collection("sets", simdb.Set(), seed=1)
        sets.add_many(
            row
            for pair, symbols in enumerate(drawn)
            for row in (
                (2 * pair, symbols[: 3 * quarter]),
                (2 * pair + 1, symbols[: 2 * quarter] + symbols[3 * quarter :]),
            )
        )
        found = sets.survey(sample=2 * pairs)
    (estimated,) = found.histogram([0.45, 0.55])
    error = (0.211 * 0.789 / pairs) ** 0.5 / 0.211
    assert estimated == pytest.approx(pairs, rel=3 * error)
    needed = minimum_matches(Fraction(1, 2), 96)
    stated = simdb.plan(0.8).candidate_probability(0.5, needed, union)
    assert stated < 0.98 * simdb.plan(0.8).candidate_probability(0.5, needed)
    assert 1 / found.weights == pytest.approx(stated, rel=0.01)


def test_rows_of_several_near_misses_are_counted_once(tmp_path):
    generator = random.Random(3)
    rows = []
    for _ in range(12):  # a template and rows of it, which are like each other by about 0.55
        base = generator.sample(range(10**6), 71)
        rows += [{*base, *generator.sample(range(10**6), 29)} for _ in range(20)]
    rows += [set(generator.sample(range(10**6), 100)) for _ in range(120)]  # like nothing
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), seed=1)
        collection.add_many(enumerate(rows))
        (removed,) = collection.survey(sample=360).removed([0.5])
    exactly = sum(
        any(3 * len(row & earlier) >= len(row) + len(earlier) for earlier in rows[:number])
        for number, row in enumerate(rows)
    )
    assert removed == pytest.approx(exactly, rel=0.25)


@pytest.mark.parametrize("kind", ["strings", "bits", "manhattan"])
def test_beyond_an_index_of_unknown_recall_all_items_are_compared(
    tmp_path: Path, kind: str
) -> None:
    """One that is complete within its bound, and one of which a lower bound is known."""
    generator = random.Random(1)
    items: list[Any] = []
    asked: dict[str, Any] = {"max_distance": 2}
    for _ in range(200):
        one = [generator.randrange(256) for _ in range(12)]
        other = [value ^ 1 if place in (0, 5, 10) else value for place, value in enumerate(one)]
        items += [one, other]  # three edits, three bits, three apart
    if kind == "strings":
        made: Any = simdb.String()
        items = ["".join(map(chr, [256 + value for value in item])) for item in items]
    elif kind == "bits":
        made, items = simdb.Bits(96), list(map(bytes, items))
    else:
        made, asked = simdb.Vector(12, "manhattan"), {"max_distance": 2, "recall": 0.9}
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", made, **asked)
        collection.add_many(enumerate(items))
        found = collection.survey(sample=400)
        true = sum(
            pair.distance == 3 for pair in collection.pairs(max_distance=3, guarantee="exact")
        )
    assert found.lowest == 3
    assert found.histogram([2.5, 3.5]) == [true] == [200]


def test_of_records_that_rules_find_all_items_are_compared(tmp_path: Path) -> None:
    """Of what the rules leave out nothing is known: half of it was not counted."""
    generator = random.Random(1)
    kind = simdb.Record([simdb.Field("name"), simdb.Field("zip", weight=0)], [simdb.Equal("zip")])
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", kind, threshold=0.8, seed=1)
        rows = []
        for number in range(100):
            name = "".join(generator.choices("abcdefghij", k=12))
            rows.append((2 * number, {"name": name, "zip": str(number)}))
            other = str(number if number % 2 else 1_000 + number)
            rows.append((2 * number + 1, {"name": f"{name[:-1]}k", "zip": other}))
        collection.add_many(rows)
        found = collection.survey(sample=200)
        assert found.removed([0.8]) == [100]


def test_of_many_equal_items_few_are_searched_for(tmp_path, monkeypatch):
    """Each has all the others as matches, which are held."""
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        sets = db.collection("sets", simdb.Set(), seed=1)
        sets.add_many((number, [1, 2, 3]) for number in range(150))
        sets.add_many((number, [number]) for number in range(150, 200))
        whole = sets.survey(sample=200)
        monkeypatch.setattr("simdb.upkeep.survey.MOST_MATCHES", 5_000)
        found = sets.survey(sample=200)
        monkeypatch.setattr("simdb.upkeep.survey.FIRST_PROBES", 200)
        assert sets.survey(sample=200).sampled == 200
    assert whole.sampled == 200
    assert 40 <= found.sampled <= 120
    assert len(found.values) <= 15_000
    (pairs,) = whole.histogram([0.9, 1])
    assert pairs == 150 * 149 / 2
    assert found.histogram([0.9, 1]) == pytest.approx([pairs], rel=0.25)
    assert found.removed([0.8])[0] == pytest.approx(whole.removed([0.8])[0], rel=0.25)


def test_what_made_a_survey_stop_is_not_counted_too_often(tmp_path, monkeypatch):
    """A cluster that fills it at once is met by as many other items as its share says."""
    monkeypatch.setattr("simdb.upkeep.survey.MOST_MATCHES", 50)
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        sets = db.collection("sets", simdb.Set(), seed=1)
        sets.add_many((number, [1, 2, 3] if number < 50 else [number]) for number in range(1_000))
        found = [sets.survey(sample=500, seed=seed).histogram([0.9, 1])[0] for seed in range(40)]
    assert np.mean(found) == pytest.approx(50 * 49 / 2, rel=0.25)
    assert max(found) > 50 * 49  # each varies much

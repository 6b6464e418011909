"""Exact answers about vectors, joined in slabs: beside every pair compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers import slabs
from simdb.kinds.distances import angle, lr_distance

Rows = dict[int, list[float]]
MEASURES = {"cosine": (angle, 25.0), "euclidean": (lr_distance, 1.5)}


@pytest.fixture(params=MEASURES)
def measure(request):
    return request.param


@pytest.fixture(params=[2**30, 8 * 96 * 30])
def database(tmp_path, request):
    """With memory for all items in one slab, and for some in each."""
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        db._handle.memory = request.param
        yield db


def vectors(seed: int, count: int) -> list[list[float]]:
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((5, 6))
    rows = centres[generator.integers(0, 5, count)] + 0.3 * generator.standard_normal((count, 6))
    rows[1::20] = rows[::20][: len(rows[1::20])]
    found: list[list[float]] = rows.astype(np.float32).tolist()
    return found


def expected(
    measure: str, left: dict[int, list[float]], right: dict[int, list[float]]
) -> set[tuple[int, int]]:
    distance, most = MEASURES[measure]
    return {
        (one, other)
        for one, a in left.items()
        for other, b in right.items()
        if (left is not right or one < other) and distance(a, b) <= most
    }


def test_pairs_groups_and_joins_are_those_of_a_double_loop(database, measure):
    most = MEASURES[measure][1]
    collection = database.collection("c", simdb.Vector(6, measure=measure))
    rows = dict(enumerate(vectors(1, 120)))
    collection.add_many(rows.items())
    for key in (2, 60):
        collection.delete(key)
        del rows[key]
    pairs = collection.pairs(max_distance=most)
    found = [(pair.left, pair.right) for pair in pairs]
    wanted = expected(measure, rows, rows)
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert pairs.looked_at == len(rows) * (len(rows) - 1) // 2
    new = collection.pairs(max_distance=most, since=90)
    assert {(pair.left, pair.right) for pair in new} == {pair for pair in wanted if pair[1] >= 90}
    connected = {frozenset(group.keys) for group in collection.groups(max_distance=most)}
    assert {pair for pair in wanted if not any(set(pair) <= one for one in connected)} == set()
    left = database.collection("left", simdb.Vector(6, measure=measure))
    probes = dict(enumerate(vectors(2, 40)))
    left.add_many(probes.items())
    joined = [(pair.left, pair.right) for pair in left.join(collection, max_distance=most)]
    assert len(joined) == len(set(joined))
    assert set(joined) == expected(measure, probes, rows)


def test_a_budget_holds(database, measure):
    collection = database.collection("c", simdb.Vector(6, measure=measure))
    collection.add_many(enumerate(vectors(1, 100)))
    with pytest.raises(simdb.OperationInterruptedError):
        list(collection.pairs(max_distance=1, budget=99))


@pytest.mark.parametrize("kind", ["cosine", "euclidean", "bits"])
def test_many_searches_are_as_single_ones(database, kind, monkeypatch):
    monkeypatch.setattr(slabs, "WORTH_JOINING", 5)
    if kind == "bits":
        collection = database.collection("c", simdb.Bits(64))
        rows: list[Any] = [number * 0x0101_0204_0810_2041 % 2**64 for number in range(60)] * 2
        most = 20.0
    else:
        collection = database.collection("c", simdb.Vector(6, measure=kind))
        rows, most = vectors(1, 120), MEASURES[kind][1]
    collection.add_many(enumerate(rows))
    single = [collection.search(row, max_distance=most, limit=7) for row in rows[:30]]
    assert collection.search_many(rows[:30], max_distance=most, limit=7) == single
    assert any(len(found) == 7 for found in single)
    everything = collection.search_many(rows[:6])
    assert [len(found) for found in everything] == [120] * 6

"""Distances that nobody bounded, or that no two items can have."""

from __future__ import annotations

import pytest

import simdb


@pytest.fixture
def vectors(tmp_path):
    with simdb.open(tmp_path / "v.simdb") as database:
        collection = database.collection("v", simdb.Vector(2, "euclidean"))
        collection.add_many([(number, [number, 1.0]) for number in range(4)])
        yield collection


def test_all_pairs_of_all_items_are_not_an_answer_that_nobody_asked_for(vectors):
    for ask in (vectors.pairs, vectors.groups, lambda: vectors.join(vectors)):
        with pytest.raises(simdb.ConfigurationError, match=r"max_distance=\.\.\. says how far"):
            list(ask())
    assert len(list(vectors.pairs(max_distance=1))) == 3
    assert len(list(vectors.groups(max_distance=1))) == 1
    assert len(vectors.search([0.0, 1.0])) == 4


def test_looking_for_duplicates_without_an_index_advises_no_absurd_distance(vectors):
    with pytest.raises(simdb.ConfigurationError) as caught:
        vectors.add_many([(9, [0.0, 1.0])], find_duplicates=True)
    assert "rebuild(max_distance=...)" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "largest"), [(simdb.Vector(3), 180), (simdb.Bits(8), 8)], ids=["angles", "bits"]
)
def test_no_distance_beyond_the_largest_is_taken(tmp_path, kind, largest):
    message = f"is more than {largest}, the largest possible distance"
    with simdb.open(tmp_path / "d.simdb") as database:
        with pytest.raises(simdb.ConfigurationError, match=message):
            database.collection("c", kind, max_distance=largest + 1)
        with pytest.raises(simdb.ConfigurationError, match=message) as refused:
            database.collection("c", kind, max_distance="1e300")
        assert len(str(refused.value)) < 200
        collection = database.collection("c", kind)
        item = [1] * (3 if largest == 180 else 8)
        with pytest.raises(simdb.ConfigurationError, match=message):
            collection.search(item, max_distance=largest + 1)
        assert list(collection.search(item, max_distance=largest)) == []


def test_a_plan_that_cannot_be_had_speaks_of_distances(tmp_path):
    with (
        simdb.open(tmp_path / "d.simdb") as database,
        pytest.raises(simdb.ConfigurationError, match=r"recall 0\.99 at distance 179"),
    ):
        database.collection("c", simdb.Vector(3), max_distance=179)

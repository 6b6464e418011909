"""Groups: the connected components of the pairs, at the price of a few comparisons an item."""

from __future__ import annotations

import random

import numpy as np
import pytest

import simdb
from simdb.forest import Forest
from simdb.places import Places
from tests.support.numbers import MOST_ROOM, room_of, use_up
from tests.support.strategies import (
    SURE,
    cluster_corpus,
    connected,
    found_groups,
    found_pairs,
    set_text,
    work_of,
)

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_the_components_of_the_pairs_found(tmp_path, seed):
    """With few bands pairs are missed: groups and pairs must miss the same."""
    stored = [(number, text) for number, (_, text) in enumerate(cluster_corpus(seed, 8, 15))]
    generator = random.Random(seed)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.7, bands=4, rows=3, seed=seed)
        collection.add_many(stored)
        collection.delete_many(generator.sample(range(len(stored)), 10))
        keys = [record.key for record in collection.items()]
        for threshold in (0.7, 0.8, 1):
            pairs = found_pairs(collection, threshold=threshold)
            assert found_groups(collection, threshold=threshold) == connected(keys, pairs)


def test_groups_are_right_when_buckets_are_swept_in_many_slices(tmp_path):
    rows = cluster_corpus(5, 100, 20)
    with simdb.open(tmp_path / "s.simdb", memory=16 * 2**20, sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, text) for number, (_, text) in enumerate(rows))
        pairs = found_pairs(collection)
        assert len(rows) * 40 > 8 * 4_096
        assert found_groups(collection) == connected(range(len(rows)), pairs)


def test_a_group_is_connected_though_its_ends_are_unlike(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, set_text(range(number, number + 9))) for number in range(12))
        groups = collection.groups(0.8)
        assert [group.keys for group in groups] == [tuple(range(12))]
        assert [len(group) for group in groups] == [12]
        assert len(groups) == 1
        assert next(iter(groups)).representative == 0
        assert (0, 11) not in found_pairs(collection)


@pytest.mark.parametrize("memory", [16 * 2**20, 2**30])
def test_thousands_of_equal_items_cost_some_comparisons_an_item_not_one_a_pair(tmp_path, memory):
    """3,000 equal items share 16 buckets: 4.5 million pairs, which no step may visit."""
    count = 3_000
    with simdb.open(tmp_path / "s.simdb", memory=memory) as db:
        collection = db.collection("c", WORDS, threshold=0.8, seed=1)
        collection.add_many((number, "one and the same text in all") for number in range(count))
        collection.add_many((count + number, set_text([number])) for number in range(100))
        assert found_groups(collection) == [tuple(range(count))]
        work = work_of(collection, "groups")
    bands = 16
    assert work.compared <= count * bands
    assert work.looked_at <= count * bands


def test_progress_of_groups_is_told(tmp_path):
    told: list[simdb.Progress] = []
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS)
        collection.add_many([(1, "a b"), (2, "a b")])
        collection.groups(progress=told.append)
    assert told
    assert all(isinstance(step, simdb.Progress) for step in told)


@pytest.mark.parametrize("seed", range(20))
def test_a_forest_joins_like_sets_of_sets(seed):
    generator = random.Random(seed)
    forest = Forest(50)
    edges: list[tuple[int, int]] = []
    for _ in range(generator.randint(0, 12)):
        count = generator.randint(1, 6)
        left = [generator.randrange(50) for _ in range(count)]
        right = [generator.randrange(50) for _ in range(count)]
        edges += zip(left, right, strict=True)
        forest.connect(np.array(left, np.uint32), np.array(right, np.uint32))
        expected = connected(range(50), edges)
        assert [tuple(group.tolist()) for group in forest.groups()] == expected
        for group in expected:
            roots = forest.roots(np.array(group, np.uint32))
            assert set(roots.tolist()) == {group[0]}


def test_a_forest_of_some_numbers_has_no_place_for_others():
    numbers = np.array([3, 2**20, 2**32 - 1], np.uint32)
    forest = Forest(Places(3, numbers))
    forest.connect(numbers[2:], numbers[1:2])
    assert forest.roots(numbers).tolist() == forest.smallest().tolist() == [3, 2**20, 2**20]
    assert [group.tolist() for group in forest.groups()] == [[2**20, 2**32 - 1]]
    for number in (2, 4, 2**32 - 2):
        with pytest.raises(simdb.CorruptionError, match=f"number {number} is of no stored item"):
            forest.connect(numbers[:1], np.array([number], np.uint32))


@pytest.mark.parametrize(
    ("kind", "item", "options"),
    [
        (simdb.Set(), lambda n: range(n, n + 9), {"threshold": None, "exact_floor": 0.5}),
        (simdb.Set(), lambda n: range(n, n + 9), {"threshold": 0.7, "seed": 1}),
        (simdb.String(), str, {"max_distance": 1}),
        (simdb.Bits(64), lambda n: n.to_bytes(8, "little"), {"max_distance": 1}),
        (simdb.Vector(2, "euclidean"), lambda n: [n, 1], {"max_distance": 1}),
    ],
    ids=["exact", "sets", "strings", "bits", "vectors"],
)
def test_groups_take_no_room_for_the_numbers_of_items_that_are_gone(tmp_path, kind, item, options):
    items = [item(number % 30 * 4 + number % 7) for number in range(100)]
    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as db:
        collection = db.create_collection("c", kind, **options)
        collection.add_many(enumerate(items[:50]))
        use_up(collection)
        collection.add_many([(number, items[number]) for number in range(50, 100)])
        collection.delete_many(range(1, 100, 7))
        keys = [record.key for record in collection.items()]
        expected = connected(keys, found_pairs(collection))
        assert any(group[0] < 50 <= group[-1] for group in expected)
        assert found_groups(collection) == expected
        assert room_of(collection.groups) < MOST_ROOM


def test_copies_are_grouped_with_the_first_of_them_in_memory_too(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        sets = database.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
        sets.add_many([(1, {1, 2, 3}), (2, {7, 8}), (3, {1, 2, 3}), (4, {1, 2, 3})])
        (group,) = sets.groups(threshold=0.9, guarantee="exact")
        assert group.keys == (1, 3, 4)


@pytest.mark.parametrize(
    ("kind", "nothing"),
    [
        (simdb.Text(), ""),
        (simdb.Set(), []),
        (simdb.Bag(), []),
        (simdb.WeightedSet(), {}),
        (simdb.Bits(8, "tanimoto"), 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("guarantee", ["auto", "exact"])
def test_items_with_nothing_to_compare_are_in_no_group(tmp_path, kind, nothing, guarantee):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, threshold=0.5)
        collection.add_many([("a", nothing), ("b", nothing)])
        assert not list(collection.pairs(guarantee=guarantee))
        assert not list(collection.groups(guarantee=guarantee))


def test_near_copies_are_compared_once_however_many_buckets_they_share(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.5, bands=20, rows=1, seed=1)
        for number in range(50):  # two that share nearly all of their buckets
            words = range(100 * number, 100 * number + 40)
            collection.add_many(
                [(2 * number, set_text(words)), (2 * number + 1, set_text(words[1:]))]
            )
        assert len(found_groups(collection)) == 50
        assert work_of(collection, "groups").compared == 50

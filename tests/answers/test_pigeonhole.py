"""Exact pairs of bit vectors in a store: in slabs, of new items, of two collections."""

from __future__ import annotations

import random
from typing import Any

import pytest

import simdb
from simdb.answers import slabs

LENGTH, MOST = 70, 5


def numbers_near(seed: int, count: int = 150) -> list[int]:
    generator = random.Random(seed)
    centres = [generator.getrandbits(LENGTH) for _ in range(12)]
    return [
        generator.choice(centres) ^ sum({1 << generator.randrange(LENGTH) for _ in range(flips)})
        for flips in (generator.randrange(5) for _ in range(count))
    ]


def expected(left: dict[Any, int], right: dict[Any, int]) -> set[tuple[Any, Any, float]]:
    return {
        (one, other, float((a ^ b).bit_count()))
        for one, a in left.items()
        for other, b in right.items()
        if (a ^ b).bit_count() <= MOST and (left is not right or one < other)
    }


def found(pairs: Any) -> list[tuple[Any, Any, float]]:
    return [(pair.left, pair.right, pair.distance) for pair in pairs]


@pytest.fixture(params=[2**30, 8 * 120 * 9, 8 * 120 * 150])
def database(tmp_path, request):
    """With memory for all items in one slab, for a few in each, and for most."""
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        db._handle.memory = request.param
        yield db


@pytest.mark.parametrize("planned", [None, MOST])
def test_exact_pairs_are_those_of_a_double_loop(database, planned):
    collection = database.collection("c", simdb.Bits(LENGTH), max_distance=planned)
    rows = dict(enumerate(numbers_near(1)))
    collection.add_many(rows.items())
    first = collection.checkpoint()
    added = {200 + key: number for key, number in enumerate(numbers_near(1, 40))}
    collection.add_many(added.items())
    rows |= added
    for key in (3, 77, 201):
        collection.delete(key)
        del rows[key]
    pairs = found(collection.pairs(max_distance=MOST, guarantee="exact"))
    wanted = expected(rows, rows)
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == wanted
    new = found(collection.pairs(max_distance=MOST, guarantee="exact", since=first))
    assert len(new) == len(set(new))
    assert set(new) == {pair for pair in wanted if pair[1] >= 200}


def test_two_collections_are_joined_as_by_a_double_loop(database):
    sides = []
    for name, seed in (("a", 1), ("b", 2)):
        rows = dict(enumerate(numbers_near(1)[:70] + numbers_near(seed)[:50]))
        database.collection(name, simdb.Bits(LENGTH)).add_many(rows.items())
        sides.append(rows)
    pairs = found(database["a"].join(database["b"], max_distance=MOST, guarantee="exact"))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected(sides[0], sides[1])


def test_pairs_are_exact_by_themselves_where_that_is_quicker(database):
    collection = database.collection("c", simdb.Bits(LENGTH), max_distance=MOST, recall=0.99)
    collection.add_many(enumerate(numbers_near(3)))
    pairs = collection.pairs()
    assert pairs.guarantee == "exact"
    everything = set(found(pairs))
    probable = collection.pairs(guarantee="probable")
    assert probable.guarantee == "probable"
    assert set(found(probable)) <= everything
    assert collection.pairs(min_recall=0.1).guarantee == "probable"
    assert sum(map(len, collection.groups(guarantee="exact"))) > 100


def test_a_budget_holds_for_pairs(database):
    collection = database.collection("c", simdb.Bits(LENGTH))
    collection.add_many((number, 0) for number in range(100))
    with pytest.raises(simdb.OperationInterruptedError):
        list(collection.pairs(max_distance=0, guarantee="exact", budget=100))


def test_slabs_have_about_the_room_that_memory_gives(database):
    collection = database.collection("c", simdb.Bits(LENGTH))
    collection.add_many(enumerate(numbers_near(1)))
    with collection._opened() as opened:
        found = list(slabs.slabs_of(opened))
    width = slabs.BYTES_BESIDE + 16
    room = database._handle.memory // slabs.SHARE_OF_MEMORY // width
    sizes = [slab.numbers.size for slab in found]
    assert sum(sizes) == 150
    assert max(sizes) < 2 * room
    assert all(slab.rows.shape == (slab.numbers.size, 2) for slab in found)
    assert (len(found) > 1) == (room < 150)

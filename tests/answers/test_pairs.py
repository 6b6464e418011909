"""Pairs against brute force, through deletions, replacements, merges, compaction, rebuilds."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers import buckets, compare
from simdb.errors import ConfigurationError
from simdb.storage.collection.reader import read_items
from tests.support.strategies import (
    SURE,
    cluster_corpus,
    found_pairs,
    set_text,
    similar_pairs,
    work_of,
)

WORDS = simdb.Text(simdb.WordShingles(1))
HALF = Fraction(1, 2)


def numbered(seed: Any, clusters: Any, size: Any) -> Any:
    return [(number, text) for number, (_, text) in enumerate(cluster_corpus(seed, clusters, size))]


@pytest.mark.parametrize("seed", range(3))
def test_pairs_stay_right_through_everything_that_changes_a_collection(tmp_path, seed):
    generator = random.Random(seed)
    rows = numbered(seed, 12, 12)
    extra = numbered(seed, 12, 12)
    stored: dict[Any, str] = {}
    db = simdb.open(tmp_path / "s.simdb", sync="batch")
    collection = db.collection("c", WORDS, **SURE)

    def compare() -> Any:
        assert found_pairs(collection) == similar_pairs(list(stored.items()), WORDS, HALF)

    for step in range(40):
        action = generator.randrange(6)
        if action <= 2 and rows:
            part = [rows.pop() for _ in range(min(len(rows), generator.randint(1, 5)))]
            collection.add_many(part)
            stored.update(part)
        elif action == 3 and stored:
            key = generator.choice(list(stored))
            text = generator.choice(extra)[1]
            collection.replace(key, text)
            del stored[key]
            stored[key] = text
        elif action == 4 and stored:
            doomed = generator.sample(list(stored), min(len(stored), generator.randint(1, 3)))
            collection.delete_many(doomed)
            for key in doomed:
                del stored[key]
        elif step % 3 == 0:
            collection.compact()
        elif step % 3 == 1:
            collection.rebuild(seed=step, sketch=generator.choice(["fast", "classical"]))
        else:
            db.close()
            db = simdb.open(tmp_path / "s.simdb", sync="batch")
            collection = db["c"]
        if step % 5 == 4:
            compare()
    compare()
    assert [record.key for record in collection.items()] == list(stored)
    assert collection.check(deep=True).sound
    db.close()


def test_pairs_are_right_when_buckets_are_swept_in_many_slices(tmp_path):
    """40 bands of 500 items are 20,000 entries; with 16 MiB a slice holds 4,096."""
    rows = cluster_corpus(4, 50, 20)[:500]
    stored = [(number, text) for number, (_, text) in enumerate(rows)]
    with simdb.open(tmp_path / "s.simdb", memory=16 * 2**20, sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        for begin in range(0, 500, 50):
            collection.add_many(stored[begin : begin + 50])
        expected = {}
        for cluster in range(50):
            members = [row for row, (own, _) in zip(stored, rows, strict=True) if own == cluster]
            expected.update(similar_pairs(members, WORDS, HALF))
        assert found_pairs(collection) == expected
        small = found_pairs(collection)
    with simdb.open(tmp_path / "s.simdb") as db:
        assert found_pairs(db["c"]) == small


def test_batches_are_columns_of_item_numbers_that_keys_of_turns_into_keys(tmp_path):
    stored = numbered(6, 5, 10)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many([("first", "something else"), *stored])
        collection.delete("first")
        found: dict[Any, float] = {}
        pairs = collection.pairs()
        for batch in pairs.batches():
            assert len(batch) == len(batch.left) == len(batch.right) == len(batch.similarity) > 0
            assert {batch.left.dtype, batch.right.dtype} == {np.dtype(np.uint32)}
            assert batch.similarity.dtype == np.float64
            assert (batch.left < batch.right).all()
            left, right = collection.keys_of(batch.left), collection.keys_of(batch.right)
            found.update(zip(zip(left, right, strict=True), batch.similarity, strict=True))
        assert found == similar_pairs(stored, WORDS, HALF)
        # An iteration begins anew every time.
        assert len(list(pairs)) == len(list(pairs)) == len(found)
        numbers = [batch.right[0], batch.left[0], batch.right[0]]
        keys = collection.keys_of(numbers)
        assert keys[0] == keys[2] != keys[1]
        assert collection.keys_of([]) == []
        with pytest.raises(simdb.KeyNotFoundError, match="item number 0"):
            collection.keys_of([1, 0])


def test_left_is_the_item_inserted_first_and_a_replaced_one_is_inserted_anew(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add("z", "a b c d")
        collection.add("a", "a b c d")
        assert [(pair.left, pair.right) for pair in collection.pairs()] == [("z", "a")]
        collection.replace("z", "a b c d e")
        assert list(collection.pairs()) == [simdb.Pair("a", "z", 0.8)]


def test_a_higher_threshold_gives_the_pairs_that_meet_it(tmp_path):
    stored = numbered(7, 6, 12)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(stored)
        for threshold in (Fraction(6, 10), Fraction(8, 10), Fraction(1)):
            expected = similar_pairs(stored, WORDS, threshold)
            assert found_pairs(collection, threshold=threshold) == expected


def test_pairs_are_those_of_the_moment_at_which_iteration_begins(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many([(1, "a b c"), (2, "a b c")])
        pairs = collection.pairs()
        collection.add(3, "a b c")
        iterator = iter(pairs)
        assert next(iterator).left == 1
        collection.delete_many([1, 2, 3])
        assert len(list(iterator)) == 2
        assert not list(pairs)


def test_many_equal_items_are_all_pairs_of_them(tmp_path, monkeypatch):
    """More pairs in one bucket than a kernel lists at once, and no rest at the boundary."""
    monkeypatch.setattr(buckets, "PAIRS_COMPARED", 8_192)
    for count in (128, 129, 200):  # 128 * 127 / 2 = 8,128; 129 * 128 / 2 = 8,256
        with simdb.open(tmp_path / f"{count}.simdb") as db:
            collection = db.collection("c", WORDS, threshold=0.8)
            collection.add_many((number, "the same in all") for number in range(count))
            found = found_pairs(collection)
            assert len(found) == count * (count - 1) // 2
            assert set(found.values()) == {1.0}


@pytest.mark.parametrize("pairs_at_once", [1, 2, 3, 7])
def test_no_pair_is_lost_where_the_listing_is_cut(tmp_path, monkeypatch, pairs_at_once):
    monkeypatch.setattr(buckets, "PAIRS_COMPARED", pairs_at_once)
    stored = numbered(9, 4, 7)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(stored)
        expected = similar_pairs(stored, WORDS, HALF)
        assert found_pairs(collection) == expected
        groups = {key for group in collection.groups() for key in group.keys}
        assert groups == {key for pair in expected for key in pair}


def test_equal_items_are_met_in_one_band_only(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, set_text(range(10))) for number in range(200))
        collection.add_many((-1 - number, set_text(range(number, 12))) for number in range(5))
        found = found_pairs(collection)
        assert {pair for pair in found if min(pair[:2]) >= 0} >= {(0, 1), (198, 199)}
        assert len(found) == len(list(collection.pairs(guarantee="exact")))
        work = work_of(collection, "pairs")
    equal = 200 * 199 // 2
    assert equal <= work.looked_at < 2 * equal


def test_counters_say_what_the_join_did(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many([(1, set_text(range(10))), (2, set_text(range(1, 10))), (3, "other")])
        assert len(found_pairs(collection)) == 1
        work = work_of(collection, "pairs")
    assert (work.compared, work.found) == (1, 1)
    assert work.looked_at > 1
    assert work.too_unlike == 0


@pytest.mark.parametrize(("threshold", "budget", "rows"), [("0.2", 256, 2), ("0.05", 96, 1)])
def test_pairs_at_a_low_threshold_are_found_as_planned(tmp_path, threshold, budget, rows):
    generator = random.Random(budget)
    baskets = [generator.sample(range(60), generator.randint(1, 20)) for _ in range(200)]
    with simdb.open(tmp_path / "s.simdb") as db:
        with pytest.raises(ConfigurationError, match="row budget of"):
            db.collection("low", simdb.Set(), threshold=threshold)
        collection = db.collection(
            "low", simdb.Set(), threshold=threshold, row_budget=budget, seed=1
        )
        assert collection.plan.rows == rows
        collection.add_many(enumerate(baskets))
        found = set(found_pairs(collection))
        expected = {(pair.left, pair.right) for pair in collection.pairs(guarantee="exact")}
        assert found <= expected
        assert len(found) >= 0.99 * len(expected) > 1_000
        collection.rebuild(threshold=threshold, row_budget=budget, false_candidates="0.9")
        assert set(found_pairs(collection)) == found


def test_however_few_the_pairs_are_what_is_read_for_them_is_bounded(tmp_path, monkeypatch):
    read: list[int] = []

    def counted(reader: Any, numbers: Any) -> Any:
        positions, items = read_items(reader, numbers)
        read.append(sum(map(len, items)))
        return positions, items

    monkeypatch.setattr(compare, "read_items", counted)
    monkeypatch.setattr(compare, "COMPARED_BYTES", 20_000)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(), threshold=0.8, seed=1)
        texts = [f"{number} {set_text(range(300))}" for number in range(40)]
        collection.add_many(enumerate(texts))
        assert len(list(collection.pairs(guarantee="probable"))) == 40 * 39 // 2
    assert max(read) < 2 * 20_000

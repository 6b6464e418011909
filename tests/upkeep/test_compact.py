"""Compacting: one run, nothing of the dead, the same answers, and others are let in between."""

from __future__ import annotations

import random
from typing import Any

import pytest

import simdb
from simdb.storage.tables import runs
from simdb.upkeep import rebuild as maintaining
from tests.support.numbers import MOST_ROOM, room_of, use_up
from tests.support.strategies import SURE, cluster_corpus, found_groups, found_pairs

WORDS = simdb.Text(simdb.WordShingles(1))


def filled(collection: Any, seed: Any = 1) -> Any:
    generator = random.Random(seed)
    rows = [(n, text) for n, (_, text) in enumerate(cluster_corpus(seed, 40, 10))]
    for begin in range(0, len(rows), 9):
        collection.add_many(rows[begin : begin + 9])
    collection.delete_many(generator.sample(range(len(rows)), len(rows) // 3))
    return len(rows)


def test_compacting_leaves_one_run_without_the_dead_and_the_same_answers(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        filled(collection)
        pairs, groups = found_pairs(collection), found_groups(collection)
        records = list(collection.items())
        before = collection.stats()
        assert before["deleted_not_yet_dropped"] > 0
        assert before["index"]["runs"] > 1
        report = collection.compact()
        after = collection.stats()
        assert after["index"]["runs"] == report["runs"] == 1
        assert after["deleted_not_yet_dropped"] == report["deleted_not_yet_dropped"] == 0
        assert after["index"]["bucket_entries"] == 40 * len(records)
        assert after["items"] == report["items"] == len(records)
        assert (found_pairs(collection), found_groups(collection)) == (pairs, groups)
        assert list(collection.items()) == records
        assert collection.check(deep=True).sound
        collection.compact()
        assert collection.check(deep=True).sound


def test_others_may_write_while_a_collection_is_compacted(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        count = filled(collection)
        stored = {record.key for record in collection.items()}
        steps = []

        def write(progress: Any) -> Any:
            steps.append(progress)
            number = count + len(steps)
            collection.add(number, f"something {number}")
            doomed = min(stored)
            collection.delete(doomed)
            stored.discard(doomed)
            stored.add(number)

        collection.compact(progress=write)
        assert len(steps) > 2
        assert {record.key for record in collection.items()} == stored
        assert collection.check(deep=True).sound
        collection.compact()
        assert collection.check(deep=True).sound
        assert {record.key for record in collection.items()} == stored


def test_a_compaction_that_is_cut_off_leaves_a_sound_store(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        filled(collection)
        pairs = found_pairs(collection)

        def stop(_: Any) -> Any:
            raise ZeroDivisionError

        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                collection.compact(progress=stop)
            assert found_pairs(collection) == pairs
            assert collection.check(deep=True).sound
        collection.compact()
        assert found_pairs(collection) == pairs
        assert collection.stats()["deleted_not_yet_dropped"] == 0


def test_compacting_takes_no_room_for_the_numbers_of_items_that_are_gone(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        sets = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
        sets.add_many((number, range(number, number + 9)) for number in range(20))
        use_up(sets)
        sets.add_many((number, range(number, number + 9)) for number in range(20, 40))
        sets.delete_many(range(0, 40, 3))
        assert room_of(sets.compact) < MOST_ROOM
        assert sets.stats()["deleted_not_yet_dropped"] == 0
        assert db.check(deep=True).sound


def test_an_empty_collection_and_a_whole_database_can_be_compacted(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("a", WORDS)
        filled(db.collection("b", WORDS, **SURE))
        report = db.compact()
        assert report["a"]["items"] == 0
        assert report["b"]["runs"] == 1
        assert db.check(deep=True).sound


def test_an_old_snapshot_keeps_its_answers_through_a_compaction(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        filled(collection)
        with db.snapshot() as state:
            view = state["c"]
            pairs, records = found_pairs(view), list(view.items())
            collection.delete_many([record.key for record in records[::2]])
            collection.compact()
            assert found_pairs(view) == pairs
            assert list(view.items()) == records
            assert view.check(deep=True).sound
        assert len(list(collection.items())) == len(records) // 2


def test_marks_stay_where_another_writer_starts_a_merge_between_the_steps(tmp_path, monkeypatch):
    """The full merge begins only when no other one is under way; until then marks are needed."""
    monkeypatch.setattr(runs, "SMALL_MERGE", 0)  # so that merges take several commits
    with simdb.open(tmp_path / "store.simdb", threads=1) as database:
        texts = database.collection("texts", simdb.Text(), seed=1)
        texts.add_many((number, f"text number {number} " * 5) for number in range(300))
        texts.delete_many(range(0, 300, 5))  # too few for the run to be rewritten
        plain = maintaining._step
        added = iter(range(1_000, 1_000_000))

        def step_beside_another_writer(*arguments):
            if arguments[-1].__name__ == "start_full_merge" and next(added) == 1_000:
                while not texts.stats()["index"]["merges_under_way"]:
                    texts.add(next(added), "another text " * 9)
            return plain(*arguments)

        monkeypatch.setattr(maintaining, "_step", step_beside_another_writer)
        texts.compact()
        assert texts.check(deep=True).problems == ()


@pytest.mark.parametrize("floor", [None, 0.8])
def test_what_is_deleted_while_an_index_is_rebuilt_is_dropped_from_it_too(
    tmp_path, monkeypatch, floor
):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", 9)
    with simdb.open(tmp_path / "s.simdb") as database:
        texts = database.collection("c", simdb.Text(), threshold=0.8, exact_floor=floor)
        texts.add_many((number, "the same text, " * 9 + str(number)) for number in range(10))
        texts.delete(9)  # so that the rebuild takes a step more
        meanwhile = iter([3])

        def progress(_):
            texts.delete_many(meanwhile)

        texts.rebuild(threshold=0.7, progress=progress)
        assert len(texts) == 8
        assert texts.compact()["deleted_not_yet_dropped"] == 0
        assert texts.check(deep=True).problems == ()
        assert len(list(texts.pairs())) == 28


def test_a_read_only_opening_beside_a_writable_one_stays_read_only(tmp_path):
    path = tmp_path / "store.simdb"
    with simdb.open(path) as database:
        database.collection("texts", simdb.Text())
        with simdb.open(path, read_only=True) as reader:
            assert reader.read_only
            with pytest.raises(simdb.ReadOnlyError):
                reader["texts"].add("a", "a text")
        assert not database.read_only


def test_what_was_deleted_leaves_its_pages_free_at_once(tmp_path):
    """A few large records are deleted by a commit that writes little, which lies in the log."""
    rows = [(number, f"{number} " + "large " * 50_000) for number in range(20)]
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add("small", "a text that stays")
        collection.add_many(rows)
        before = db.stats()["store"]["used_bytes"]
        collection.delete_many(range(20))
        collection.compact()
        collection.add("another", "a small text")  # LMDB leaves alone what the last commit freed
        collection.add_many(rows)
        assert db.stats()["store"]["used_bytes"] < before + 10 * 300_000


@pytest.mark.parametrize("dropped", ["a", "b"])
def test_a_collection_that_is_dropped_meanwhile_is_none_and_no_damage(tmp_path, dropped):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        for name in ("a", "b"):
            db.collection(name, simdb.Set(), threshold=0.5).add_many((n, {n}) for n in range(50))
        first = db["a"]

        def drop(_: Any) -> None:
            if dropped in db:
                db.drop_collection(dropped)

        assert set(db.compact(progress=drop)) == {"a", "b"} - {dropped}
        assert db.check(deep=True).sound
        if dropped == "a":
            with pytest.raises(simdb.CollectionNotFoundError):
                first.compact()

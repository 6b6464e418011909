"""Epochs: made in bounded steps, never seen half made, never mixed."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.ingest import postings as exact_indexing
from simdb.storage.collection.manifest import ExactManifest
from simdb.storage.tables.layout import Table
from tests.support.exact_oracle import similar_pairs
from tests.support.exact_stores import (
    WAYS,
    as_floats,
    exact_store,
    join_by,
    pairs_found,
    small_epochs,
)

HALF = Fraction(1, 2)


def zipf_sets(seed: int, count: int) -> list[set[int]]:
    """Sets of rare and of frequent elements, a tenth of them near copies of earlier ones."""
    generator = random.Random(seed)
    sets: list[set[int]] = []
    for _ in range(count):
        if sets and generator.random() < 0.1:
            copy = set(generator.choice(sets))
            copy.discard(generator.choice(sorted(copy)))
            sets.append(copy | {generator.randrange(10**6)})
        else:
            frequent = {int(generator.paretovariate(0.5)) % 500 for _ in range(8)}
            sets.append(frequent | {generator.randrange(10**6) for _ in range(4)})
    return sets


def exact_state(collection: simdb.Collection) -> ExactManifest:
    with collection._opened() as opened:
        reader = opened.reader
        assert reader.manifest.index.exact is not None
        return reader.manifest.index.exact


def owners(collection: simdb.Collection, table: Table) -> set[int]:
    """The owners of the records of a table."""
    with collection._opened() as opened:
        reader = opened.reader
        scanned = reader.transaction.scan(table, b"")
        return {int.from_bytes(key[:4], "big") for key, _ in scanned}


def test_the_first_table_is_made_when_there_are_items_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=50, step=7)
    sets = zipf_sets(1, 120)
    numbers = []
    with exact_store(tmp_path / "s", floor=0.5) as collection:
        for key, one in enumerate(sets):
            collection.add(key, one)
            state = exact_state(collection)
            numbers.append(state.current.number)
            if state.building is not None:
                assert state.current.frequent == 0
                # Never more than a step behind what the commits so far had to post.
                assert state.building.position >= min(key + 1, 7 * (key + 1 - 49))
            if key % 10 == 3:
                assert db_is_sound(collection)
        changes = [key for key in range(1, 120) if numbers[key] != numbers[key - 1]]
        assert len(changes) == 1
        assert 50 < changes[0] < 70
        state = exact_state(collection)
        assert state.current.frequent > 0
        assert (state.building, state.retired) == (None, [])
        assert owners(collection, Table.POSTINGS) == {state.current.number}
        assert owners(collection, Table.SYMBOLS) == {state.current.number}
        expected = as_floats(similar_pairs(sets, HALF))
        assert pairs_found(collection.pairs(0.5)) == expected


def db_is_sound(collection: simdb.Collection) -> bool:
    return collection.check(deep=True).sound


def test_a_reader_stays_on_the_epoch_of_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=40, step=5)
    sets = zipf_sets(2, 100)
    with simdb.open(tmp_path / "s", sync="batch") as db:
        collection = db.collection("sets", simdb.Set(), threshold=None, exact_floor=0.5)
        collection.add_many(enumerate(sets[:39]))
        old = exact_state(collection).current.number
        expected = as_floats(similar_pairs(sets[:39], HALF))
        with db.snapshot() as state:
            view = state["sets"]
            for key in range(39, 100):
                collection.add(key, sets[key])
            assert exact_state(collection).current.number != old
            for way in WAYS:
                with monkeypatch.context() as patch:
                    join_by(patch, way)
                    assert pairs_found(view.pairs(0.5)) == expected
            for key in range(0, 39, 6):
                found = {match.key for match in view.search(sets[key])}
                assert key in found
                assert found <= set(range(39))
            assert view.check(deep=True).sound


@pytest.mark.parametrize("finish", ["compact", "rebuild"])
def test_compacting_and_rebuilding_finish_an_epoch(
    finish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=60, step=1)
    monkeypatch.setattr(exact_indexing, "REPOSTED_PER_ITEM", 0)
    sets = zipf_sets(3, 70)
    with exact_store(tmp_path / "s", floor=0.5) as collection:
        collection.add_many(enumerate(sets))
        collection.delete_many([1, 5, 69])
        for key in (1, 5, 69):
            sets[key] = set()
        assert exact_state(collection).building is not None
        assert db_is_sound(collection)
        if finish == "compact":
            report = collection.compact()
            assert report["deleted_not_yet_dropped"] == 0
            assert report["postings_runs"] == 1
        else:
            collection.rebuild(exact_floor=0.4)
        state = exact_state(collection)
        assert (state.building, state.retired) == (None, [])
        assert state.current.frequent > 0
        assert owners(collection, Table.POSTINGS) == {state.current.number}
        assert pairs_found(collection.pairs(0.5)) == as_floats(similar_pairs(sets, HALF))


def test_deleting_while_an_epoch_is_built_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=40, step=2)
    sets = zipf_sets(4, 90)
    generator = random.Random(4)
    with exact_store(tmp_path / "s", floor=0.5) as collection:
        for key, one in enumerate(sets):
            collection.add(key, one)
            if key > 35 and key % 3 == 0:
                gone = generator.choice([k for k in range(key) if sets[k]])
                collection.delete(gone)
                sets[gone] = set()
                assert db_is_sound(collection)
        assert pairs_found(collection.pairs(0.5)) == as_floats(similar_pairs(sets, HALF))
        collection.compact()
        assert collection.stats()["deleted_not_yet_dropped"] == 0


def test_a_footer_that_appears_leads_to_a_new_epoch_and_to_short_buckets_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=200, step=20)
    monkeypatch.setattr(exact_indexing, "MEASURED_EVERY", 4)
    monkeypatch.setattr(exact_indexing, "WORTH_IT", 40)
    generator = random.Random(5)

    def one(footer: list[str]) -> list[str]:
        return [f"{generator.randrange(10**9)}" for _ in range(12)] + footer

    with exact_store(tmp_path / "s", floor=0.5) as collection:
        for batch in range(20):
            collection.add_many((f"{batch} {row}", one([])) for row in range(20))
        before = exact_state(collection)
        # No symbol comes twice: an order without frequent symbols, made once.
        assert (before.current.frequent, before.building) == (0, None)
        assert before.current.made_at == 200
        first = before.current.number
        footer = [f"footer {number}" for number in range(8)]
        scanned = []
        for batch in range(20, 80):
            collection.add_many((f"{batch} {row}", one(footer)) for row in range(20))
            state = exact_state(collection)
            scanned.append(state.scanned * len(collection))
        after = exact_state(collection)
        assert after.current.number != first
        assert after.current.frequent >= 8
        assert max(scanned) > 40
        assert scanned[-1] < max(scanned) / 10


def test_an_epoch_that_was_undone_leaves_no_order_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=30, step=100)
    sets = zipf_sets(6, 60)
    with exact_store(tmp_path / "s", floor=0.5) as collection:
        collection.add_many(enumerate(sets[:29]))
        advance = exact_indexing.advance

        def failing(*arguments: Any) -> None:
            advance(*arguments)
            raise RuntimeError("power")

        with monkeypatch.context() as patch:
            patch.setattr(exact_indexing, "advance", failing)
            with pytest.raises(RuntimeError, match="power"):
                collection.add_many((1_000 + key, {9, key}) for key in range(31))
        collection.add_many(enumerate(sets[29:], 29))
        assert exact_state(collection).current.frequent > 0
        assert pairs_found(collection.pairs(0.5)) == as_floats(similar_pairs(sets, HALF))
        for key in range(0, 60, 7):
            assert key in {match.key for match in collection.search(sets[key])}


def test_other_collections_keep_their_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=20, step=5)
    sets = zipf_sets(7, 50)
    with simdb.open(tmp_path / "s", sync="batch") as db:
        collections = [
            db.collection(name, simdb.Set(), threshold=None, exact_floor=0.5) for name in "abc"
        ]
        for key, one in enumerate(sets):
            for collection in collections:
                collection.add(key, one)
        used = [exact_state(collection).current.number for collection in collections]
        assert len(set(used)) == 3
        db.drop_collection("b")
        collections[0].compact()
        assert owners(collections[0], Table.POSTINGS) == {used[0], used[2]}
        expected = as_floats(similar_pairs(sets, HALF))
        for collection in (collections[0], collections[2]):
            assert pairs_found(collection.pairs(0.5)) == expected
        assert db.check(deep=True).sound

"""Stores whose checksums hold and whose parts contradict each other: each is noticed and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdb
from simdb.errors import CorruptionError, StorageError
from simdb.opened import catalogue
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.tables import layout, runs
from simdb.storage.tables.blocks import HEADER_SIZE
from simdb.storage.tables.layout import Table, manifest_key, owner_prefix, pack_numbered
from simdb.storage.tables.runs import POSTING_COLUMNS
from tests.support.exact_stores import small_epochs
from tests.support.strategies import SURE, set_text

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def database(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        texts = db.collection("c", WORDS, exact_floor=0.5, **SURE)
        texts.add_many((number, set_text(range(number, number + 9))) for number in range(60))
        texts.add("empty", "")
        yield db


class Change:
    """A write transaction on the first collection, and what is known of it."""

    def __init__(self, db: Any) -> None:
        self.environment = db._handle.environment
        self.transaction = self.environment.write(1)
        name = next(iter(db))
        self.settings = catalogue.require_settings(self.transaction, name)
        self.writer = CollectionWriter(self.transaction, self.settings.number)

    def __enter__(self) -> Change:
        self.transaction.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.transaction.__exit__(*error)
        self.environment.caches.clear()

    def first(self, table: Table, owner: int) -> tuple[bytes, bytes]:
        key, value = next(self.transaction.scan(table, owner_prefix(owner)))
        return bytes(key), bytes(value)

    def rewrite_chunk(self, table: Table, owner: int, columns: int, change: Any) -> None:
        """Change the arrays of the first chunk of an index, and give it a new checksum."""
        key, value = self.first(table, owner)
        chunk = runs.decode_chunk(table, key, memoryview(value), columns)
        keys, rows = chunk.keys.copy(), chunk.columns.copy().reshape(columns, -1)
        change(keys, rows)
        self.transaction.put(table, key, runs.encode_chunk(table, key, keys, rows))


def problems(db: Any, **options: Any) -> set[tuple[str, str]]:
    report = db.check(**options)
    assert not report.sound
    return {(problem.table, problem.problem) for problem in report.problems}


# -- what check names --------------------------------------------------------------------------


def test_a_block_that_stands_under_a_second_key_is_found(database):
    with Change(database) as change:
        key, value = change.first(Table.DOCUMENTS, change.writer.number)
        again = pack_numbered(change.writer.number, 1_000)
        count = int.from_bytes(value[8:12], "little")
        head = HEADER_SIZE + 4 * count + 4 * (count % 2) + 16 * count
        sealed = layout.seal(Table.DOCUMENTS, again, value[8:head])
        assert layout.seal(Table.DOCUMENTS, key, value[8:head]) == value[:head]
        change.transaction.put(Table.DOCUMENTS, again, sealed + value[head:])
    assert ("documents", "item numbers do not ascend") in problems(database)


def test_an_item_past_the_next_number_is_found(database):
    with Change(database) as change:
        change.writer.manifest.next_number = 20
        change.writer.save()
    found = problems(database)
    assert any("past the next item number 20" in problem for _, problem in found)


def test_signatures_that_are_gone_are_found(database):
    with Change(database) as change:
        key, _ = change.first(Table.SIGNATURES, change.writer.manifest.index.number)
        change.transaction.delete(Table.SIGNATURES, key)
    found = problems(database)
    assert any(table == "signatures" and "for 61 items" in problem for table, problem in found)


def test_bucket_keys_out_of_order_are_found(database):
    def swap(keys: Any, rows: Any) -> None:
        keys[[2, -2]] = keys[[-2, 2]]
        rows[:, [2, -2]] = rows[:, [-2, 2]]

    with Change(database) as change:
        change.rewrite_chunk(Table.BANDS, change.writer.manifest.index.number, 1, swap)
    assert ("bands", "bucket keys do not ascend") in problems(database)


def change_postings(database: Any, spoil: Any) -> set[tuple[str, str]]:
    with Change(database) as change:
        exact = change.writer.manifest.index.exact
        assert exact is not None
        change.rewrite_chunk(Table.POSTINGS, exact.current.number, POSTING_COLUMNS, spoil)
    return problems(database)


def test_postings_out_of_order_are_found(database):
    def swap(keys: Any, rows: Any) -> None:
        keys[[2, -2]] = keys[[-2, 2]]
        rows[:, [2, -2]] = rows[:, [-2, 2]]

    assert ("postings", "postings do not ascend") in change_postings(database, swap)


@pytest.mark.parametrize("position", [0, 200])
def test_a_posting_at_a_place_that_its_set_does_not_have_is_found(database, position):
    def spoil(_keys: Any, rows: Any) -> None:
        rows[1, 5] = position

    found = change_postings(database, spoil)
    assert ("postings", "a posting has an impossible position") in found


def test_a_posting_of_an_item_that_does_not_exist_is_found(database):
    def spoil(_keys: Any, rows: Any) -> None:
        rows[2, 5] = 61

    found = change_postings(database, spoil)
    assert ("postings", "a posting is of an item that is not posted yet") in found


@pytest.fixture
def ordered(tmp_path, monkeypatch):
    """A store with an order of symbols in its exact index."""
    small_epochs(monkeypatch)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        sets = db.collection("s", simdb.Set(), threshold=None, exact_floor=0.5)
        for number in range(60):
            sets.add(number, set(range(number % 7, number % 7 + 9)))
        yield db


def frequent_record(change: Change) -> tuple[bytes, bytes]:
    exact = change.writer.manifest.index.exact
    assert exact is not None
    assert exact.current.frequent
    key = pack_numbered(exact.current.number, 0)
    value = change.transaction.get(Table.SYMBOLS, key)
    assert value is not None
    return key, bytes(value)


def test_an_order_of_symbols_that_was_cut_short_is_found_and_not_used(ordered):
    with Change(ordered) as change:
        key, value = frequent_record(change)
        cut = layout.seal(Table.SYMBOLS, key, value[8:-8])
        change.transaction.put(Table.SYMBOLS, key, cut)
    assert any("cut short" in problem for _, problem in problems(ordered))
    with pytest.raises(CorruptionError, match="cut short"):
        ordered["s"].search({1, 2, 3}, guarantee="exact")


def test_an_order_of_symbols_that_is_gone_is_found_and_not_used(ordered):
    with Change(ordered) as change:
        key, _ = frequent_record(change)
        change.transaction.delete(Table.SYMBOLS, key)
    assert any(table == "postings" for table, _ in problems(ordered))
    with pytest.raises(CorruptionError):
        ordered["s"].search({1, 2, 3}, guarantee="exact")


def test_a_key_of_another_length_is_found(database):
    with Change(database) as change:
        key = owner_prefix(change.writer.number) + b"\0\0\0\0\0"
        change.transaction.put(Table.DOCUMENTS, key, b"")
    assert any(table == "documents" for table, _ in problems(database))


# -- what answers refuse -----------------------------------------------------------------------


def put_in_one_bucket(database: Any, *numbers: int) -> None:
    with Change(database) as change:
        index = change.writer.manifest.index
        change.writer.index_writer(index).bands.append(
            np.full(len(numbers), 12_345, np.uint64), np.array([numbers], np.uint32), 61, 61
        )
        change.writer.save()


@pytest.mark.parametrize("numbers", [(7, 8), (60, 7)])  # 60 is empty: it has no bucket at all
def test_pairs_are_not_made_of_a_bucket_that_its_members_do_not_have(database, numbers):
    put_in_one_bucket(database, *numbers)
    with pytest.raises(CorruptionError, match="contradict each other"):
        list(database["c"].pairs(0.5, guarantee="probable"))


def test_pairs_of_items_that_are_gone_are_refused(database):
    with Change(database) as change:
        key, _ = change.first(Table.DOCUMENTS, change.writer.number)
        change.transaction.delete(Table.DOCUMENTS, key)
    with pytest.raises(CorruptionError, match="missing"):
        list(database["c"].pairs(0.5, guarantee="probable"))


def test_deleting_an_item_that_is_gone_is_refused_and_changes_nothing(database):
    with Change(database) as change:
        key, _ = change.first(Table.DOCUMENTS, change.writer.number)
        change.transaction.delete(Table.DOCUMENTS, key)
    with pytest.raises(CorruptionError):
        database["c"].delete(3)
    assert len(database["c"]) == 61
    assert 3 in database["c"]


def test_a_damaged_text_is_refused_by_every_join_over_all_items(database):
    with Change(database) as change:
        key, value = change.first(Table.DOCUMENTS, change.writer.number)
        change.transaction.put(Table.DOCUMENTS, key, value[:-1] + b"!")
    with pytest.raises(CorruptionError, match=r"item number \d+ is damaged"):
        list(database["c"].pairs(0.5, guarantee="exact"))


def test_sets_of_which_a_block_is_lost_are_refused_by_an_exact_join(database):
    with Change(database) as change:
        key, _ = change.first(Table.DOCUMENTS, change.writer.number)
        change.transaction.delete(Table.DOCUMENTS, key)
    for memory_holds_all in (True, False):
        view = database["c"]
        if not memory_holds_all:
            view._handle.memory = 1
        with pytest.raises(CorruptionError):
            list(view.pairs(0.5, guarantee="exact"))


def test_a_damaged_record_is_refused_by_a_scan(tmp_path):
    people = simdb.Record([simdb.Field("name"), simdb.Field("town")], candidates=["town"])
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        stored = database.collection("r", people, threshold=0.6, seed=1)
        stored.add_many((number, {"name": f"n{number}", "town": "ulm"}) for number in range(9))
        with Change(database) as change:
            key, value = change.first(Table.DOCUMENTS, change.writer.number)
            change.transaction.put(Table.DOCUMENTS, key, value[:-1] + b"!")
        with pytest.raises(CorruptionError, match="item number 8 is damaged"):
            stored.search({"name": "n1", "town": "ulm"}, guarantee="exact")


def test_without_its_state_a_collection_is_refused(database):
    with Change(database) as change:
        change.transaction.delete(Table.META, manifest_key(change.writer.number))
    for ask in (
        lambda: len(database["c"]),
        lambda: database["c"].search("some words"),
        lambda: database["c"].add("new", "some words"),
        lambda: database.drop_collection("c"),
    ):
        with pytest.raises(CorruptionError, match="is missing"):
            ask()


def test_a_collection_whose_item_numbers_are_used_up_says_what_to_do(database):
    with Change(database) as change:
        change.writer.manifest.next_number = 2**32 - 3
        change.writer.save()
    texts = database["c"]
    with pytest.raises(StorageError, match="used up its 2\\^32 item numbers; export it"):
        texts.add_many((f"new {number}", "some words") for number in range(5))
    assert len(texts) == 61

"""Damaged files: what is noticed when, and that no damaged item is handed out."""

# mypy: allow-untyped-calls

from __future__ import annotations

import sys

import lmdb
import numpy as np
import pytest

import simdb
from simdb.errors import CorruptionError, NotADatabaseError, StorageError
from simdb.recovery import untrusted as distrusting
from simdb.storage.file import environment as environments
from simdb.storage.tables import blocks, layout, runs
from simdb.storage.tables.layout import Table, pack_chunk
from tests.support.damage import damage_behind, filled, repaired
from tests.support.environments import MIB

# -- check reads again -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "name"),
    [(Table.SIGNATURES, "signatures"), (Table.BANDS, "bands"), (Table.POSTINGS, "postings")],
)
def test_check_reads_again_what_this_process_has_verified_before(path, table, name):
    filled(path)

    with simdb.open(path, threads=1) as database:
        assert database.check(deep=True).sound
        known = database._handle.environment.caches.copy()
        assert known
        damage_behind(path, table)
        assert name in {problem.table for problem in database.check().problems}


def test_a_merge_that_another_process_began_verifies_the_rest_of_a_chunk(path, monkeypatch):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 64)
    environment = environments.acquire(path, read_only=False, sync="batch", map_size=None)
    directory = runs.RunDirectory()
    keys = np.arange(1_000, dtype=np.uint64)

    def writer(transaction):
        return runs.RunWriter(transaction, Table.BANDS, 1, directory)

    for number in range(2):
        with environment.write(1) as transaction:
            items = np.full((1, 100), number, np.uint32)
            writer(transaction).append(keys[number : number + 100], items, number, number)
    with environment.write(1) as transaction:
        assert writer(transaction).start_full_merge()
        writer(transaction).step(lambda: np.empty(0, np.uint8))
    begun = next(run for run in directory.runs if run.offset)
    with environment.write(1) as transaction:
        key = pack_chunk(1, begun.number, begun.first_chunk)
        value = bytearray(transaction.get(Table.BANDS, key) or b"")
        value[-1] ^= 1
        transaction.put(Table.BANDS, key, bytes(value))
    environment.caches.clear()  # as in another process
    with pytest.raises(CorruptionError), environment.write(1) as transaction:
        writer(transaction).step(lambda: np.empty(0, np.uint8))
    environments.release(environment)


def test_damage_that_a_snapshot_meets_is_told_as_damage(path):
    filled(path)
    with simdb.open(path, threads=1) as database, database.snapshot() as state:
        view = state["c"]
        assert len(view.search("text number 7 of many"))
        with path.open("r+b") as file:
            for place in range(2 * 4_096, path.stat().st_size, 4_096):
                file.seek(place + 10)
                file.write(b"\0\0")  # the flags of a page that is neither a branch nor a leaf
        with pytest.raises(CorruptionError):
            state.collection_names()
        for ask in (  # of a transaction that LMDB has given up
            lambda: state["c"],
            lambda: view.get("k7"),
            lambda: list(view.items()),
            lambda: view.search("text number 7 of many"),
            lambda: list(view.pairs()),
        ):
            with pytest.raises(CorruptionError):
                ask()


# -- files that are not trusted --------------------------------------------------------------------


@pytest.mark.usefixtures("forked_reader")
def test_a_sound_file_is_opened_as_untrusted(path):
    filled(path)
    with simdb.open(path, untrusted=True) as database:
        assert len(database["c"]) == 200
    with simdb.open(path.with_name("new.simdb"), untrusted=True) as database:
        assert list(database) == []


def test_a_file_whose_pages_are_damaged_is_not_opened_as_untrusted(path):
    filled(path)
    data = bytearray(path.read_bytes())
    for place in range(2 * 4_096, len(data), 4_096):
        data[place + 10] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match="not opened"):
        simdb.open(path, untrusted=True)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("page", [0, 1])
def test_a_meta_page_that_the_verifier_gives_up_on_is_damage(path, page):
    filled(path)
    with path.open("r+b") as file:
        file.seek(4_096 * page + 10)
        file.write(b"\0\0")
    with pytest.raises(CorruptionError, match="P_META"):
        simdb.open(path, untrusted=True)


@pytest.mark.usefixtures("forked_reader")
def test_a_file_whose_checksums_hold_and_whose_numbers_lie_is_not_opened_as_untrusted(path):
    """Whoever may write to a file can also write its checksums: the items decide."""
    filled(path)
    with lmdb.open(str(path), subdir=False, max_dbs=16, map_size=MIB * 64, lib_version=0) as raw:
        handle = raw.open_db(b"bands")
        with raw.begin(write=True) as transaction:
            cursor = transaction.cursor(handle)
            assert cursor.first()
            key, value = bytes(cursor.key()), bytearray(cursor.value())
            value[-4:] = b"\xf0\xff\xff\x7f"  # an item number far past the last
            value[:8] = layout.CHECKSUM.pack(layout.checksum(Table.BANDS, key, bytes(value[8:])))
            transaction.put(key, bytes(value), db=handle)
    with pytest.raises(CorruptionError, match="not opened"):
        simdb.open(path, untrusted=True)


def test_what_ends_the_child_that_reads_an_untrusted_file_is_told(path, monkeypatch):
    filled(path)
    monkeypatch.setattr(distrusting, "_PROGRAM", "import os; os.abort()")
    with pytest.raises(CorruptionError, match="SIGABRT"):
        simdb.open(path, untrusted=True)
    monkeypatch.setattr(sys, "executable", str(path / "absent"))
    with pytest.raises(StorageError, match="no child process"):
        simdb.open(path, untrusted=True)


def test_a_foreign_file_is_no_database_for_untrusted_either(path):
    path.write_bytes(b"plain text " * 1_000)
    with pytest.raises(NotADatabaseError):
        simdb.open(path, untrusted=True)


# -- items of one width, which lie beside the documents --------------------------------------------


@pytest.fixture
def vectors(path, monkeypatch):
    """A store of 300 vectors in 38 blocks of items, and the vectors."""
    monkeypatch.setattr(blocks, "ITEM_BLOCK_BYTES", 2_048)
    rows = np.random.default_rng(1).normal(size=(300, 64)).astype(np.float32)
    with simdb.open(path, threads=1) as database:
        stored = database.collection("v", simdb.Vector(64, "euclidean"), max_distance=1, seed=1)
        stored.add_many((number, row) for number, row in enumerate(rows))
        stored.delete_many([5, 6])
    return rows


def flip_a_bit_of(path, vector):
    """Flip a bit of a stored vector, past whoever has the store open."""
    data = path.read_bytes()
    place = data.index(vector.tobytes())
    assert data.count(vector.tobytes()) == 1
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([data[place] ^ 1]))


def change_items(path, change, table=Table.ITEMS):
    """Change the table of items, or another, within a transaction, its keys and values given."""
    with simdb.open(path, threads=1) as database:
        environment = database._handle.environment
        with environment.write(1) as transaction:
            blocks = [(bytes(k), bytes(v)) for k, v in transaction.scan(table, b"")]
            change(transaction, blocks)


def test_a_damaged_item_is_not_handed_out_though_its_block_was_verified_before(path, vectors):
    with simdb.open(path, threads=1) as database:
        stored = database["v"]
        assert database.check(deep=True).sound
        assert np.array_equal(stored.get(100).item, vectors[100])
        flip_a_bit_of(path, vectors[100])
        for ask in (lambda: stored.get(100), lambda: list(stored.items())):
            with pytest.raises(CorruptionError):
                ask()
        assert np.array_equal(stored.get(200).item, vectors[200])
        assert "items" in {problem.table for problem in database.check().problems}
        with pytest.raises(CorruptionError):  # a new checksum would hide the damage
            stored.delete_many(range(98, 108))
    with simdb.open(path, threads=1) as database, pytest.raises(CorruptionError):
        database["v"].search(vectors[100], guarantee="exact")


def drop_a_block(transaction, blocks):
    transaction.delete(Table.ITEMS, blocks[9][0])


def cut_a_block(transaction, blocks):
    transaction.put(Table.ITEMS, blocks[9][0], blocks[9][1][:-64])


def empty_a_block(transaction, blocks):
    transaction.put(Table.ITEMS, blocks[9][0], b"")


def move_a_block(transaction, blocks):
    transaction.put(Table.ITEMS, blocks[9][0], blocks[8][1])


@pytest.mark.usefixtures("forked_reader")
@pytest.mark.parametrize("change", [drop_a_block, cut_a_block, empty_a_block, move_a_block])
def test_items_that_are_gone_are_missed_by_scans_by_check_and_by_reading(path, vectors, change):
    change_items(path, change)
    with simdb.open(path, threads=1) as database:
        stored = database["v"]
        for ask in (
            lambda: stored.search(vectors[0], guarantee="exact"),
            lambda: list(stored.pairs(guarantee="exact")),
            lambda: list(stored.items()),
            lambda: [stored.get(number) for number in range(60, 90)],
        ):
            with pytest.raises(CorruptionError):
                ask()
        assert "items" in {problem.table for problem in database.check().problems}
    with pytest.raises(CorruptionError):
        simdb.open(path, untrusted=True)


def test_a_vector_that_is_found_and_has_lost_its_document_is_an_error_of_storage(path, vectors):
    def drop_all(transaction, blocks):
        for key, _ in blocks:
            transaction.delete(Table.DOCUMENTS, key)

    change_items(path, drop_all, Table.DOCUMENTS)
    with simdb.open(path, threads=1) as database, pytest.raises(CorruptionError, match="document"):
        database["v"].search(vectors[0], guarantee="exact")


def test_items_under_other_numbers_than_the_documents_are_found(path, vectors):
    def renumber(transaction, blocks):
        value = bytearray(blocks[-1][1])
        numbers = np.frombuffer(value, np.uint32, 1, 16 + 4 * (len(value) // 260 - 1))
        assert numbers[0] == 299
        value[16 + 4 * (len(value) // 260 - 1)] ^= 0x80  # 299 becomes 427
        key = blocks[-1][0]
        transaction.put(Table.ITEMS, key, layout.seal(Table.ITEMS, key, bytes(value[8:])))

    change_items(path, renumber)
    with simdb.open(path, threads=1) as database:
        problems = {problem.problem for problem in database.check().problems}
    assert "are of other item numbers than the documents" in problems
    assert "past the next item number 300" in problems


def test_an_item_that_nobody_could_have_stored_is_found_by_a_deep_check(path, vectors):
    def spoil(transaction, blocks):
        key, value = blocks[3]
        spoilt = value[8:-4] + np.float32(np.nan).tobytes()
        transaction.put(Table.ITEMS, key, layout.seal(Table.ITEMS, key, spoilt))

    change_items(path, spoil)
    with simdb.open(path, threads=1) as database:
        problems = {problem.problem for problem in database.check(deep=True).problems}
    assert any("is not an item of the collection's kind: " in problem for problem in problems)


@pytest.mark.parametrize(
    ("place", "value"), [(0, -1), (1, -1), (7, -4), (7, 2**40), (8, [[1]]), (8, [[-1, 5]]), (6, 5)]
)
def test_a_state_whose_numbers_cannot_be_is_refused(path, vectors, place, value):
    with simdb.open(path, threads=1) as database:
        environment = database._handle.environment
        with environment.write(1) as transaction:
            name, sealed = next(
                (bytes(key), bytes(value)) for key, value in transaction.scan(Table.META, b"#")
            )
            state = layout.unpack(layout.unseal(Table.META, name, memoryview(sealed)))
            state[place] = value
            transaction.put(Table.META, name, layout.seal(Table.META, name, layout.pack(state)))
        environment.caches.clear()
        with pytest.raises(CorruptionError):
            list(database["v"].items())


def test_a_state_of_another_width_is_found(path, vectors):
    with simdb.open(path, threads=1) as database:
        environment = database._handle.environment
        with environment.write(1) as transaction:
            name, sealed = next(
                (bytes(key), bytes(value)) for key, value in transaction.scan(Table.META, b"#")
            )
            state = layout.unpack(layout.unseal(Table.META, name, memoryview(sealed)))
            state[7] = 0
            transaction.put(Table.META, name, layout.seal(Table.META, name, layout.pack(state)))
        environment.caches.clear()
        problems = {problem.problem for problem in database.check().problems}
    assert "items of 0 bytes, not of 256" in problems


def test_a_damaged_block_of_items_is_lost_by_its_keys_and_the_others_are_not(path, vectors):
    with simdb.open(path, threads=1) as database:
        environment = database._handle.environment
        with environment.read() as transaction:
            content = bytes(list(transaction.scan(Table.ITEMS, b""))[9][1])
    data = path.read_bytes()
    path.write_bytes(data.replace(content, bytes([content[0] ^ 1]) + content[1:]))
    report, found = repaired(path)
    lost = set(range(300)) - {5, 6} - set(found["v"])
    assert not report.complete
    assert 1 <= len(lost) <= 8
    assert set(report.collections[0].lost_keys) == lost
    assert all(np.array_equal(found["v"][key], vectors[key]) for key in found["v"])


@pytest.mark.parametrize("width", [8, 64, 2_000])  # on pages of leaves, and on pages of their own
def test_items_are_found_again_though_their_table_is_lost(path, width):
    rows = np.random.default_rng(2).normal(size=(40, width)).astype(np.float32)
    with simdb.open(path, sync="batch", threads=1) as database:
        stored = database.collection("v", simdb.Vector(width, "euclidean"), max_distance=1)
        for number, row in enumerate(rows):
            stored.add(number, row)
    data = path.read_bytes()
    assert b"\x05\0items" in data  # the name of the table, in its node of the main one
    path.write_bytes(data.replace(b"\x05\0items", b"\x05\0xxxxx"))
    report, found = repaired(path)
    assert "the table cannot be found" in {problem.problem for problem in report.problems}
    assert set(found["v"]) == set(range(40))
    assert all(np.array_equal(found["v"][key], rows[key]) for key in range(40))

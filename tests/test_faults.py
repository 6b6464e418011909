"""What simdb does when the system, the disk or the file fails it: typed errors, data intact."""

# mypy: allow-untyped-calls

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import Any

import lmdb
import numpy as np
import pytest

import simdb
from simdb.engine import distrusting
from simdb.errors import (
    CorruptionError,
    DatabaseFailedError,
    DatabaseFullError,
    NotADatabaseError,
    StorageError,
    WrongTypeError,
)
from simdb.storage import environment as environments
from simdb.storage import registry, runs, tables, values, watching
from simdb.storage.keys import Table, collection_key, pack_chunk
from tests.forked import Child, answer_of

MIB = 2**20
WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.simdb"


def filled(path, count=200):
    """Make a store of so many texts, without the files beside it."""
    with simdb.open(path, threads=1) as database:
        texts = database.collection("c", WORDS, threshold=0.5, exact_floor=0.5, seed=1)
        texts.add_many((f"k{number}", f"text number {number} of many") for number in range(count))
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()


# -- failed writes ---------------------------------------------------------------------------------


class Failing:
    """Stands in for LMDB's transaction, of which one method fails."""

    def __init__(self, transaction: Any, method: str, error: lmdb.Error) -> None:
        self._transaction, self._method, self._error = transaction, method, error

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._transaction, name)

        def fail(*_: Any, **__: Any) -> None:
            self._transaction.abort()
            raise self._error

        return fail


def error_of(code):
    error = lmdb.PanicError("fault") if code == "panic" else lmdb.Error("fault")
    setattr(error, "code", -30_795 if code == "panic" else code)  # noqa: B010 - final to mypy
    return error


def write_with(database, code, method="commit"):
    """Write a key while a method of LMDB's transaction fails."""
    environment = database._handle.environment
    with environment.write(1) as transaction:
        transaction._transaction = Failing(transaction._transaction, method, error_of(code))
        transaction.put(Table.MARKS, b"fault", b"x")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENXIO, "panic"])
@pytest.mark.parametrize("method", ["commit", "put"])
def test_after_a_failed_write_nothing_is_written_until_the_store_is_opened_again(
    path, code, method, monkeypatch
):
    monkeypatch.setattr(environments, "CUT_SHORT", 0)  # however full this machine's disk is
    filled(path)
    with simdb.open(path, threads=1) as database:
        texts = database["c"]
        with pytest.raises(DatabaseFailedError, match="opened again"):
            write_with(database, code, method)
        for change in (
            lambda: texts.add("new", "a new text"),
            lambda: texts.delete("k1"),
            texts.compact,
            lambda: database.collection("other", WORDS),
        ):
            with pytest.raises(DatabaseFailedError, match="opened again"):
                change()
        assert len(texts) == 200
        assert texts.search("text number 7 of many", limit=1)[0].key == "k7"
        assert database.check(deep=True).sound
        with simdb.open(path, threads=1) as again, pytest.raises(DatabaseFailedError):
            again["c"].add("new", "a new text")  # shares the open file
    with simdb.open(path, threads=1) as database:
        database["c"].add("new", "a new text")
        assert database.check(deep=True).sound


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_or_a_read_only_one_stops_one_write_and_not_the_next(path, code):
    filled(path)
    with simdb.open(path, threads=1) as database:
        full = DatabaseFullError if code != errno.EROFS else StorageError
        with pytest.raises(full) as caught:
            write_with(database, code)
        assert not isinstance(caught.value, DatabaseFailedError)
        database["c"].add("new", "a new text")
        assert len(database["c"]) == 201


def test_an_input_output_error_on_a_full_disk_is_a_write_cut_short(path, monkeypatch):
    filled(path)
    monkeypatch.setattr(watching, "is_full", lambda *_: True)
    with simdb.open(path, threads=1) as database:
        with pytest.raises(DatabaseFullError):
            write_with(database, errno.EIO)
        database["c"].add("new", "a new text")


def test_the_room_of_a_disk_and_the_limit_on_a_file_are_told(path):
    filled(path)

    def limited():
        import resource

        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + MIB, size + MIB))
        return watching.is_full(path, MIB // 2), watching.is_full(path, 2 * MIB)

    assert answer_of(limited) == "(False, True)"
    assert watching.is_full(path, 2**62)


# -- full maps -------------------------------------------------------------------------------------


def test_a_map_filled_by_insertions_can_be_emptied_and_filled_again(path):
    text = "some words of a text that fills the file quickly " * 60
    with simdb.open(path, map_size=3 * MIB, threads=1) as database:
        texts = database.collection("c", WORDS)
        for _ in range(3):
            count = 0
            with pytest.raises(DatabaseFullError, match="delet"):  # noqa: PT012 - until it is full
                for count in range(10_000):
                    texts.add(count, f"{count} {text}")
            assert len(texts) == count
            assert count > 100
            for number in range(count):
                texts.delete(number)
            texts.compact()
            assert len(texts) == 0
        assert database.check(deep=True).sound


def test_a_map_filled_with_vectors_can_be_emptied_in_any_order(path):
    """Blocks of vectors are large, and thinned out at random all are to be rewritten at once."""
    generator = np.random.default_rng(1)
    with simdb.open(path, sync="batch", map_size=48 * MIB, threads=1) as database:
        stored = database.collection(
            "v", simdb.Vector(128, "euclidean"), max_distance=1, seed=1, bands=6, rows=2
        )
        step = 4_000
        while step:
            rows = generator.normal(size=(step, 128)).astype(np.float32)
            try:
                stored.add_many(enumerate(rows, len(stored)))
            except DatabaseFullError:
                step //= 20
        keys = generator.permutation(len(stored)).tolist()
        assert len(keys) > 40_000
        for begin in range(0, len(keys), 1_000):
            stored.delete_many(keys[begin : begin + 1_000])
        assert database.check().sound
        stored.add_many(enumerate(generator.normal(size=(2_000, 128)).astype(np.float32)))
        assert database.check().sound


def test_a_map_is_larger_than_insertions_may_fill_by_a_twentieth_at_most():
    for size in (MIB, 3 * MIB, 64 * MIB, 2**30, 2**40):
        whole = environments._with_reserve(size)
        assert abs(environments._without_reserve(whole) - size) <= 1
        assert whole - size <= max(size // 20, 4 * MIB)


# -- files that change under an open store ---------------------------------------------------------


@pytest.mark.parametrize("size", [0, 4_096, 60_000])
def test_a_store_cut_short_while_it_is_open_is_refused_and_the_process_lives(path, size):
    filled(path)

    def work():
        database = simdb.open(path, threads=1)
        texts = database["c"]
        os.truncate(path, size)
        told = []
        for use in (
            lambda: len(texts),
            lambda: texts.add("new", "a new text"),
            database.check,
            database.stats,
            lambda: database.backup(path.with_name("copy.simdb")),
        ):
            try:
                use()
            except CorruptionError as error:
                told.append("cut short" in str(error))
        database.close()
        return told

    assert answer_of(work) == str([True] * 5)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_whose_lock_file_was_removed_is_not_written_to(path, replaced):
    filled(path)
    with simdb.open(path, threads=1) as database:
        lock = path.with_name("store.simdb-lock")
        lock.unlink()
        if replaced:
            lock.write_bytes(bytes(8_192))
        with pytest.raises(StorageError, match="close the store in every process"):
            database["c"].add("new", "a new text")
        assert len(database["c"]) == 200
    lock.unlink(missing_ok=True)
    with simdb.open(path, threads=1) as database:
        database["c"].add("new", "a new text")


def test_a_lock_file_has_its_room_on_the_disk_before_it_is_mapped(path):
    registry.release(registry.acquire(path, read_only=False, sync="batch", map_size=None))
    status = path.with_name("store.simdb-lock").stat()
    assert status.st_blocks * 512 >= status.st_size >= 64 * (environments.MOST_READERS - 1)


def test_no_room_for_a_lock_file_is_a_full_disk_and_leaves_none(path, monkeypatch):
    filled(path)

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(DatabaseFullError):
        simdb.open(path)
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_that_was_killed_does_not_make_the_file_grow_for_ever(path, monkeypatch):
    monkeypatch.setattr(environments, "READERS_CHECKED_EVERY", 8)
    environment = registry.acquire(path, read_only=False, sync="batch", map_size=None)

    def put(value):
        with environment.write(10) as transaction:
            transaction.put(Table.KEYS, b"key", value * 100_000)

    def hold(child):
        transaction = registry.acquire(path, read_only=True, sync="batch", map_size=None).read()
        child.say("reading")
        child.hear()
        transaction.close()

    put(b"x")
    child = Child(hold)
    child.hear()
    child.signal(9)
    child.end()
    for number in range(40):
        put(b"%d" % (number % 10))
    assert environment.statistics()["snapshots"] == 0
    assert path.stat().st_size < 4 * MIB
    registry.release(environment)


# -- who may read and write ------------------------------------------------------------------------


def modes(path):
    return {
        file.name.removeprefix("store.simdb"): stat.S_IMODE(file.stat().st_mode)
        for file in path.parent.glob("store.simdb*")
    }


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660])
def test_the_files_of_a_store_have_the_mode_that_it_was_made_with(path, mode):
    expected = dict.fromkeys(("", "-lock", "-turn"), mode)
    with simdb.open(path, mode=mode) as database:
        assert modes(path) == expected
        database.backup(path.with_name("copy"))
        assert stat.S_IMODE(path.with_name("copy").stat().st_mode) & 0o077 == mode & 0o040
    for end in ("-lock", "-turn"):
        path.with_name(f"store.simdb{end}").unlink()
    with simdb.open(path):  # the file says who may
        assert modes(path) == expected


def test_without_a_mode_the_umask_decides(path):
    before = os.umask(0o077)
    try:
        simdb.open(path).close()
    finally:
        os.umask(before)
    assert modes(path) == dict.fromkeys(("", "-lock", "-turn"), 0o600)


# -- check reads again -----------------------------------------------------------------------------


def damage_behind(path, table):
    """Flip a bit at the end of the first value of a table, past whoever has the store open."""
    with simdb.open(path, threads=1) as database:
        environment = database._handle.environment
        with environment.read() as transaction:
            content = bytes(next(transaction.scan(table, b""))[1])
    changed = bytearray(content)
    changed[-1] ^= 1
    data = path.read_bytes().replace(content, bytes(changed))
    with path.open("r+b") as file:
        file.write(data)


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
    environment = registry.acquire(path, read_only=False, sync="batch", map_size=None)
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
    registry.release(environment)


# -- files that are not trusted --------------------------------------------------------------------


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
            value[:8] = values.CHECKSUM.pack(values.checksum(Table.BANDS, key, bytes(value[8:])))
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


# -- repair ----------------------------------------------------------------------------------------


def repaired(path):
    """Repair a store; return the report and what the new store holds."""
    new = path.with_name("new.simdb")
    report = simdb.repair(path, new, threads=1)
    with simdb.open(new, threads=1) as database:
        assert database.check(deep=True).sound
        return report, {
            name: {record.key: record.item for record in database[name].items()}
            for name in database
        }


def test_a_sound_store_is_repaired_to_its_equal(path):
    filled(path)
    with simdb.open(path, threads=1) as database:
        database["c"].replace("k5", "another text", metadata={"a": [1]})
        database["c"].delete_many(["k6", "k7"])
        database.collection("s", simdb.Set(), threshold=None, exact_floor=0.5).add(1, {1, 2})
        expected = {record.key: record.item for record in database["c"].items()}
        secret = database["c"]._present.settings.secret
    before = path.read_bytes()
    report, found = repaired(path)
    assert path.read_bytes() == before
    assert found == {"c": expected, "s": {1: frozenset({1, 2})}}
    assert report.complete
    assert report.problems == ()
    assert [(part.name, part.items, part.lost) for part in report.collections] == [
        ("c", 198, 0),
        ("s", 1, 0),
    ]
    with simdb.open(path.with_name("new.simdb")) as database:
        assert database["c"].get("k5").metadata == {"a": [1]}
        assert database["c"]._present.settings.secret == secret


def test_a_damaged_document_is_lost_by_its_key_and_the_others_are_not(path):
    filled(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"text number 77 of many")] ^= 1
    path.write_bytes(data)
    report, found = repaired(path)
    assert not report.complete
    assert report.collections[0].lost_keys == ("k77",)
    assert report.collections[0].lost == 1
    assert set(found["c"]) == {f"k{number}" for number in range(200)} - {"k77"}


@pytest.mark.parametrize("table", [Table.SIGNATURES, Table.BANDS, Table.POSTINGS])
def test_a_damaged_index_is_made_anew_from_the_items(path, table):
    filled(path)
    damage_behind(path, table)
    with simdb.open(path, threads=1) as database:
        assert not database.check().sound
    report, found = repaired(path)
    assert report.complete
    assert len(found["c"]) == 200


def test_without_its_meta_pages_a_store_gives_its_items_and_says_that_it_is_unsure(path):
    filled(path)
    with simdb.open(path, threads=1) as database:
        expected = {record.key: record.item for record in database["c"].items()}
    with path.open("r+b") as file:
        file.write(bytes(8_192))
    report, found = repaired(path)
    assert found["c"].items() >= expected.items()
    assert report.collections[0].uncertain == 200
    assert not report.complete


def test_settings_that_are_lost_are_reported(path):
    filled(path)
    with lmdb.open(str(path), subdir=False, max_dbs=16, map_size=MIB * 64, lib_version=0) as raw:
        handle = raw.open_db(b"meta")
        with raw.begin(write=True) as transaction:
            key = collection_key("c")
            value = bytearray(transaction.get(key, db=handle) or b"")
            value[-1] ^= 1
            transaction.put(key, bytes(value), db=handle)
    report, found = repaired(path)
    assert found == {} or len(found["c"]) == 200  # from an older copy of the settings
    assert report.problems
    assert report.lost_collections or found


def test_repair_refuses_what_exists_what_is_absent_and_what_is_no_store(path, tmp_path):
    filled(path)
    with pytest.raises(StorageError, match="exists"):
        simdb.repair(path, path)
    with pytest.raises(simdb.DatabaseNotFoundError):
        simdb.repair(tmp_path / "absent", tmp_path / "new")
    (tmp_path / "text").write_text("no store")
    with pytest.raises(NotADatabaseError):
        simdb.repair(tmp_path / "text", tmp_path / "new")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.simdb", "text"]


def test_repair_waits_for_no_writer(path):
    filled(path)
    environment = registry.acquire(path, read_only=False, sync="batch", map_size=None)
    with environment.write(1), pytest.raises(simdb.DatabaseBusyError):
        simdb.repair(path, path.with_name("new.simdb"))
    registry.release(environment)


def test_wrong_types_of_new_settings_are_refused(path):
    with pytest.raises((WrongTypeError, simdb.ConfigurationError)):
        simdb.open(path, mode="rw")  # type: ignore[arg-type]


# -- items of one width, which lie beside the documents --------------------------------------------


@pytest.fixture
def vectors(path, monkeypatch):
    """A store of 300 vectors in 38 blocks of items, and the vectors."""
    monkeypatch.setattr(tables, "ITEM_BLOCK_BYTES", 2_048)
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


def change_items(path, change):
    """Change the table of items within a transaction, its keys and values given."""
    with simdb.open(path, threads=1) as database:
        environment = database._handle.environment
        with environment.write(1) as transaction:
            blocks = [(bytes(k), bytes(v)) for k, v in transaction.scan(Table.ITEMS, b"")]
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


def test_items_under_other_numbers_than_the_documents_are_found(path, vectors):
    def renumber(transaction, blocks):
        value = bytearray(blocks[-1][1])
        numbers = np.frombuffer(value, np.uint32, 1, 16 + 4 * (len(value) // 260 - 1))
        assert numbers[0] == 299
        value[16 + 4 * (len(value) // 260 - 1)] ^= 0x80  # 299 becomes 427
        key = blocks[-1][0]
        transaction.put(Table.ITEMS, key, values.seal(Table.ITEMS, key, bytes(value[8:])))

    change_items(path, renumber)
    with simdb.open(path, threads=1) as database:
        problems = {problem.problem for problem in database.check().problems}
    assert "are of other item numbers than the documents" in problems
    assert "past the next item number 300" in problems


def test_an_item_that_nobody_could_have_stored_is_found_by_a_deep_check(path, vectors):
    def spoil(transaction, blocks):
        key, value = blocks[3]
        spoilt = value[8:-4] + np.float32(np.nan).tobytes()
        transaction.put(Table.ITEMS, key, values.seal(Table.ITEMS, key, spoilt))

    change_items(path, spoil)
    with simdb.open(path, threads=1) as database:
        problems = {problem.problem for problem in database.check(deep=True).problems}
    assert "is no item of the collection's kind" in problems


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
            state = values.unpack(values.unseal(Table.META, name, memoryview(sealed)))
            state[place] = value
            transaction.put(Table.META, name, values.seal(Table.META, name, values.pack(state)))
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
            state = values.unpack(values.unseal(Table.META, name, memoryview(sealed)))
            state[7] = 0
            transaction.put(Table.META, name, values.seal(Table.META, name, values.pack(state)))
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

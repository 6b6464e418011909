"""check: sound stores are called sound, and what contradicts itself is found."""

# mypy: allow-untyped-calls

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import simdb
from simdb import zstandard
from simdb.batches.signer import Signer
from simdb.opened import catalogue
from simdb.places import Places
from simdb.storage.collection.groups import GroupReader, GroupWriter
from simdb.storage.collection.manifest import ITEM
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.file.environment import Environment
from simdb.storage.tables import layout, runs
from simdb.storage.tables.blocks import split_block
from simdb.storage.tables.layout import (
    GARBAGE_KEY,
    NUMBERS_KEY,
    Table,
    collection_key,
    owner_prefix,
)
from simdb.upkeep import check
from tests.support.damage import damage_behind
from tests.support.numbers import GONE, MOST_ROOM, room_of, use_up
from tests.support.strategies import SURE, set_text

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def database(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, set_text(range(number, number + 9))) for number in range(50))
        collection.add_many([("empty", ""), ("blank", " . ")])
        collection.delete_many([3, 40])
        yield db


def writer_of(db: Any) -> Any:
    environment: Environment = db._handle.environment
    transaction = environment.write(1)
    settings = catalogue.require_settings(transaction, "c")
    return transaction, CollectionWriter(transaction, settings.number), settings


def problems(db: Any, *, deep: Any = False) -> Any:
    report = db.check(deep=deep)
    assert not report.sound
    return {(problem.table, problem.problem) for problem in report.problems}


def test_a_sound_store_is_called_sound(database):
    told: list[simdb.Progress] = []
    for deep in (False, True):
        report = database.check(deep=deep, progress=told.append)
        assert report.sound
        assert report.problems == ()
        assert report.records > 50 * 40
    assert told
    assert database["c"].check() == database.check()


def test_an_empty_store_is_sound(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        assert db.check(deep=True) == simdb.CheckReport(0, ())
        db.collection("c", WORDS)
        assert db.check(deep=True).sound


def test_a_key_that_leads_to_another_item_is_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        prefix = owner_prefix(writer.number)
        name = next(bytes(key) for key, _ in transaction.scan(Table.KEYS, prefix))
        value = layout.seal(Table.KEYS, name, (17).to_bytes(4, "little"))
        transaction.put(Table.KEYS, name, value)
    assert ("keys", "the key of the item does not lead to it") in problems(database)


def test_a_key_without_an_item_is_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        name = owner_prefix(writer.number) + b"\x02surplus"
        transaction.put(Table.KEYS, name, layout.seal(Table.KEYS, name, bytes(4)))
    assert ("keys", "51 keys for 50 items") in problems(database)


def test_wrong_counts_in_the_state_are_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        writer.manifest.item_bytes += 1
        writer.save()
    found = problems(database)
    assert any(table == "documents" and "the state says" in text for table, text in found)


def test_a_changed_record_is_found_by_its_checksum_and_the_rest_is_still_checked(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        prefix = owner_prefix(writer.number)
        key, value = next(transaction.scan(Table.DOCUMENTS, prefix))
        key, changed = bytes(key), bytearray(value)
        changed[-1] ^= 1
        transaction.put(Table.DOCUMENTS, key, bytes(changed))
    report = database.check()
    assert any(p.table == "documents" and "damaged" in p.problem for p in report.problems)
    assert report.records > 50 * 40


def test_an_entry_in_a_foreign_bucket_is_found(database):
    transaction, writer, _ = writer_of(database)
    with transaction:
        index = writer.index_writer(writer.manifest.index)
        index.bands.append(np.array([12345], np.uint64), np.array([[7]], np.uint32), 7, 7)
        writer.save()
    found = problems(database)
    assert ("bands", "an entry does not belong to the item") in found
    assert any("expected" in text for _, text in found)


def put(database: Any, table: Table, key: bytes, payload: bytes) -> None:
    """Store a record with the right checksum, as whoever forges a store can."""
    with database._handle.write() as transaction:
        transaction.put(table, key, layout.seal(table, key, payload))


def forge_chunks(database: Any, table: Table, columns: int, change: Any) -> None:
    """Change the keys and columns of all chunks of a table, in place, and order them again."""
    with database._handle.write() as transaction:
        for key, value in [(bytes(k), bytes(v)) for k, v in transaction.scan(table, b"")]:
            chunk = runs.decode_chunk(table, key, memoryview(value), columns)
            keys, cells = chunk.keys.copy(), chunk.columns.copy().reshape(columns, -1)
            change(keys, cells)
            order = np.lexsort((cells[0], keys))
            forged = np.ascontiguousarray(cells[:, order])
            transaction.put(table, key, runs.encode_chunk(table, key, keys[order], forged))


def test_an_entry_that_is_there_twice_in_the_place_of_another_is_found(database):
    def repeat(keys: Any, cells: Any) -> None:
        first, second = np.flatnonzero(cells[0] == 7)[:2]
        keys[second] = keys[first]

    forge_chunks(database, Table.BANDS, 1, repeat)
    assert problems(database) == {("bands", "an entry of the item is there twice")}


def test_postings_that_are_chosen_to_look_like_those_of_the_items_are_found(tmp_path):
    def exchange(keys: Any, cells: Any) -> None:
        chosen = (cells[1] > 1).astype(np.uint32)
        keys ^= chosen  # which key ^ position does not show
        cells[1] ^= chosen

    with simdb.open(tmp_path / "s.simdb") as db:
        sets = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.1)
        sets.add_many((number, range(number * 20, number * 20 + 9)) for number in range(20))
        forge_chunks(db, Table.POSTINGS, 3, exchange)
        found = problems(db, deep=True)
        assert ("postings", "the postings are not those of the item") in found


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_takes_no_room_for_the_numbers_of_items_that_are_gone(tmp_path, deep):
    def alter(keys: Any, cells: Any) -> None:
        cells[ITEM][cells[ITEM] == 7] = GONE - 1
        cells[ITEM][np.flatnonzero(cells[ITEM] == GONE + 29)[:1]] = GONE + 30

    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        sets = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.1)
        sets.add_many((number, range(number, number + 9)) for number in range(20))
        use_up(sets)
        sets.add_many((number, range(number, number + 9)) for number in range(20, 40))
        sets.delete_many(range(0, 40, 8))
        assert db.check(deep=deep).sound
        assert room_of(lambda: db.check(deep=deep)) < MOST_ROOM
        forge_chunks(db, Table.POSTINGS, 3, alter)
        found = {(p.record, p.problem) for p in db.check(deep=deep).problems}
        assert (str(GONE - 1), "a posting is of no stored item") in found
        for number, count in ((GONE + 29, 8), (GONE + 30, 10)):
            told = "the postings are not those of the item"
            told = told if deep else f"{count} postings, 9 expected"
            assert (str(number), told) in found
        assert any(record == "7" for record, _ in found) is deep


def test_a_signature_of_another_text_is_found_only_by_a_deep_check(database):
    collection = database["c"]
    transaction, writer, settings = writer_of(database)
    with transaction:
        signed = Signer(settings).sign([b"quite another text"])
        number = np.array([writer.take_numbers(1)], np.uint32)
        from simdb.ingest.add import insert_rows
        from simdb.ingest.rows import read_batches

        writer.manifest.next_number -= 1
        batch = next(
            iter(
                read_batches(
                    [("odd", "what is stored")],
                    Signer(settings).items,
                    batch_items=1,
                    batch_bytes=1,
                )
            )
        )
        assert insert_rows(writer, batch, signed, [0]) == int(number[0])
        writer.save()
    assert len(collection) == 51
    assert database.check().sound
    ((table, told),) = problems(database, deep=True)
    assert (table, told[:36]) == ("signatures", "is not the signature of the item: if")
    assert "rebuild makes it anew" in told
    collection.rebuild()
    assert database.check(deep=True).sound


def test_a_deep_check_signs_few_bytes_of_items_at_once(tmp_path, monkeypatch):
    """Of a block of signatures, whose items may have any size."""
    monkeypatch.setattr(check, "RECOMPUTED_BYTES", 20_000)
    signed: list[int] = []
    sign = Signer.sign

    def noted(self: Signer, items: Any, *others: Any) -> Any:
        signed.append(sum(map(len, items)))
        return sign(self, items, *others)

    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("c", WORDS, **SURE).add_many((n, f"{n} " * 2_000) for n in range(10, 40))
        monkeypatch.setattr(Signer, "sign", noted)
        assert db.check(deep=True).sound
    assert sum(signed) == 30 * 6_000
    assert max(signed) <= 20_000


@pytest.mark.parametrize(
    ("kind", "error"),
    [(5, simdb.CorruptionError), ({"kind": "unknown"}, simdb.UnknownKindError)],
)
def test_settings_that_cannot_be_read_are_a_problem_not_an_error(database, kind, error):
    transaction, writer, settings = writer_of(database)
    with transaction:
        key = collection_key("c")
        payload = layout.pack({"number": settings.number, "kind": kind})
        transaction.put(Table.META, key, layout.seal(Table.META, key, payload))
        assert writer.number == settings.number
    report = database.check()
    assert [(problem.table, problem.record) for problem in report.problems] == [("meta", "c")]
    with pytest.raises(error, match="'c'"):
        database["c"]


GROUPED = [(1, [1, 2, 3]), (2, [1, 2, 3]), (3, [7, 8, 9]), (4, [7, 8, 9]), (5, [1, 2, 3, 7, 8, 9])]


def grouped(path: Any) -> Any:
    """A collection whose groups have a log, an alias and a state; some garbage."""
    with simdb.open(path, threads=1) as db:
        made = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5, groups="chain")
        for key, item in GROUPED:
            made.add(key, item)
        db.collection("gone", simdb.Set()).add(1, [1])
        db.drop_collection("gone")
        with db._handle.write() as transaction:
            transaction._fold()
        assert db.check(deep=True).sound
    return path


@pytest.mark.parametrize("tag", [b"s", b"a", b"l", b"e", b"i", b"m"])
def test_every_record_of_groups_is_verified(tmp_path, tag):
    path = grouped(tmp_path / "s.simdb")
    damage_behind(path, Table.META, owner_prefix(1) + tag)
    with simdb.open(path, threads=1) as db:
        assert [problem.table for problem in db["c"].check().problems] == ["groups"]


@pytest.mark.parametrize("key", [GARBAGE_KEY, NUMBERS_KEY])
def test_what_is_noted_of_all_collections_is_verified(tmp_path, key):
    path = grouped(tmp_path / "s.simdb")
    damage_behind(path, Table.META, key)
    with simdb.open(path, threads=1) as db:
        assert [problem.table for problem in db.check().problems] == ["meta"]
        assert db["c"].check().sound


FORGED_NOTES = {
    "a live table among garbage": (
        Table.META,
        GARBAGE_KEY,
        layout.pack([[int(Table.DOCUMENTS), 1]]),
        "what is in use is listed to be removed",
    ),
    "garbage of no table": (
        Table.META,
        GARBAGE_KEY,
        layout.pack([[99, 1]]),
        "what is to be removed cannot be read",
    ),
    "garbage of nobody": (
        Table.META,
        GARBAGE_KEY,
        layout.pack([[1, "x"]]),
        "what is to be removed cannot be read",
    ),
    "garbage that is the states of all collections": (
        Table.META,
        GARBAGE_KEY,
        layout.pack([[int(Table.META), int.from_bytes(layout.manifest_key(0)[:4])]]),
        "what is to be removed cannot be read",
    ),
    "garbage of a collection to come": (
        Table.META,
        GARBAGE_KEY,
        layout.pack([[int(Table.DOCUMENTS), 3]]),
        "what is listed to be removed was never there",
    ),
    "numbers of collections that would begin as their states do": (
        Table.META,
        NUMBERS_KEY,
        layout.pack([layout.LARGEST_COLLECTION + 1, 9]),
        "what numbers collections have had cannot be read",
    ),
    "a header of another program": (
        Table.META,
        layout.HEADER_KEY,
        layout.pack({"magic": "other"}),
        "is not a simdb store",
    ),
    "a header of another store": (
        Table.META,
        layout.HEADER_KEY,
        layout.pack({"magic": "simdb", "format": 3, "uuid": bytes(16)}),
        "the header among the last commits is that of another store",
    ),
    "numbers that are none": (
        Table.META,
        NUMBERS_KEY,
        layout.pack("many"),
        "what numbers collections have had cannot be read",
    ),
    "keys for the next collection": (
        Table.KEYS,
        owner_prefix(3) + layout.encode_user_key(1),
        bytes(4),
        "keys has records of what is not there yet",
    ),
    "postings for the next index": (
        Table.POSTINGS,
        layout.pack_chunk(9, 1, 0),
        bytes(4),
        "postings has records of what is not there yet",
    ),
    "a label for the next collection": (
        Table.META,
        layout.label_key(3, b"pair"),
        bytes(4),
        "meta has records of what is not there yet",
    ),
    "a group for the next collection": (
        Table.META,
        owner_prefix(3) + b"s",
        bytes(4),
        "meta has records of what is not there yet",
    ),
}


@pytest.mark.parametrize("name", FORGED_NOTES)
def test_a_note_that_would_harm_what_comes_later_is_found(tmp_path, name):
    table, key, payload, problem = FORGED_NOTES[name]
    with simdb.open(grouped(tmp_path / "s.simdb"), threads=1) as db:
        put(db, table, key, payload)
        ((where, told),) = problems(db)
        assert where == "meta"
        assert told.endswith(problem)
        assert db["c"].check().sound


@pytest.mark.parametrize("key", [layout.manifest_key(9), layout.manifest_key(1) + b"x", b"#"])
def test_a_state_of_no_collection_is_found(database, key):
    put(database, Table.META, key, b"no state")
    assert {table for table, _ in problems(database)} == {"meta"}


@pytest.mark.parametrize("number", ["x", None, [], 1.0, True, -1, 2**40])
def test_a_number_of_a_collection_that_is_none_is_a_problem_not_an_error(database, number):
    key = collection_key("c")
    with database._handle.read() as transaction:
        settings = layout.unpack(catalogue.require_settings(transaction, "c").encode())
    put(database, Table.META, key, layout.pack({**settings, "number": number}))
    assert ("meta", "the settings of a collection have no number") in problems(database)


@pytest.mark.parametrize("key", [b"c", b"c\xff\xfe"])
def test_a_name_that_no_collection_can_have_is_a_problem_not_an_error(database, key):
    put(database, Table.META, key, b"settings")
    assert {table for table, _ in problems(database)} == {"meta"}


def marks(number: int) -> bytes:
    bits = np.zeros(8_192, np.uint8)
    bits[number] = 1
    return np.packbits(bits, bitorder="little").tobytes()


@pytest.mark.parametrize(
    ("record", "after", "payload"),
    [(0, b"", b"\0"), (1, b"", b"\xff"), (1, b"", marks(0)), (0, b"x", marks(3))],
)
def test_tombstones_of_another_form_are_found(database, record, after, payload):
    put(database, Table.MARKS, layout.pack_numbered(1, record) + after, payload)
    assert any(table in ("marks", "state") for table, _ in problems(database))


def test_items_that_are_deleted_before_they_come_are_found(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("c", simdb.Set()).add_many((number, [number]) for number in range(5))
        put(db, Table.MARKS, layout.pack_numbered(1, 0), marks(6))
        assert ("marks", "items to come are marked as deleted") in problems(db)


def test_a_block_under_the_key_of_another_is_found(database):
    with database._handle.write() as transaction:
        key, found = next(transaction.scan(Table.DOCUMENTS, owner_prefix(1)))
        value, other = memoryview(bytes(found)), layout.pack_numbered(1, 2)
        transaction.delete(Table.DOCUMENTS, bytes(key))
        _, head = split_block(other, value, 0)
        sealed = layout.checksum(Table.DOCUMENTS, other, value[layout.CHECKSUM_SIZE : head])
        body = bytes(value[layout.CHECKSUM_SIZE :])
        transaction.put(Table.DOCUMENTS, other, sealed.to_bytes(8, "little") + body)
    assert ("documents", "a block has the key of another") in problems(database)


def test_two_names_of_one_collection_are_found(database):
    with database._handle.write() as transaction:
        settings = catalogue.require_settings(transaction, "c")
        catalogue.write_settings(transaction, replace(settings, name="twin"))
    found = problems(database)
    assert found == {("meta", "the collections by name are not those that have a state")}


def test_an_index_of_two_collections_is_found(database):
    database.collection("other", WORDS, **SURE)
    transaction, writer, _ = writer_of(database)
    with transaction:
        other = CollectionWriter(transaction, writer.number + 1)
        other.manifest.index.number = writer.manifest.index.number
        other.save()
    assert ("meta", "two collections have the same index") in problems(database)


def test_numbers_that_have_all_been_used_are_told(tmp_path):
    with simdb.open(grouped(tmp_path / "s.simdb"), threads=1) as db:
        put(db, Table.META, NUMBERS_KEY, layout.pack([layout.LARGEST_COLLECTION, 5]))
        with pytest.raises(simdb.StorageError, match="no number is left"):
            db.collection("new", simdb.Set())
        assert list(db) == ["c"]


def _first(change: list[Any], place: int, value: Any) -> list[Any]:
    return [*change[:place], value, *change[place + 1 :]]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (lambda changes: [_first(changes[0], 0, 99), *changes[1:]], "change 1 of the groups"),
        (lambda changes: [_first(changes[0], 1, "half"), *changes[1:]], "change 1 of the groups"),
        (lambda changes: [_first(changes[0], 0, 0.0), *changes[1:]], "from 1 on cannot be read"),
        (lambda changes: [_first(changes[0], 2, True), *changes[1:]], "from 1 on cannot be read"),
        (lambda changes: [_first(changes[0], 4, {}), *changes[1:]], "from 1 on cannot be read"),
        (lambda changes: [changes[0][:4], *changes[1:]], "from 1 on cannot be read"),
        (lambda changes: [_first(changes[0], 1, "1/0"), *changes[1:]], "change 1 of the groups"),
        (lambda changes: [changes[0], _first(changes[1], 4, [b"?"]), *changes[2:]], "change 2"),
        (lambda changes: changes[1:], "are logged, and not"),
        (lambda changes: [_first(changes[0], 2, 77), *changes[1:]], "a group 77, beyond"),
    ],
)
def test_a_log_of_groups_that_says_what_cannot_be_is_found(tmp_path, changed, problem):
    path = grouped(tmp_path / "s.simdb")
    with simdb.open(path, threads=1) as db:
        with db._handle.write() as transaction:
            tables = GroupWriter(transaction, 1)
            known = [change for _, change in tables.changes(1)]
            for key, _ in [*transaction.scan(Table.META, owner_prefix(1) + b"l")]:
                transaction.delete(Table.META, bytes(key))
            tables.log(1, changed(known))
        (found,) = db.check().problems
        assert problem in found.problem


@pytest.mark.parametrize(
    ("tag", "payload", "problem"),
    [
        (b"s", b"q", "have had cannot be read"),
        (b"s", b"\xff" * 16, "the next group, first and next change cannot be"),
        (
            b"s",
            bytes([1, *bytes(7), 2, *bytes(7)]),
            "0 changes of the groups are logged, and not 1",
        ),
        (b"f", b"\xff" * 8, "the next group, first and next change cannot be"),
        (b"f", b"q", "have had cannot be read"),
        (b"a" + bytes(8), bytes(8), "there are records of groups, and none are kept"),
        (b"l" + bytes(8), b"q", "there are records of groups, and none are kept"),
    ],
)
def test_groups_that_wait_where_none_are_kept_are_found(tmp_path, tag, payload, problem):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
        put(db, Table.META, owner_prefix(1) + tag, payload)
        (found,) = db.check().problems
        assert problem in found.problem
        if (tag, payload) == (b"s", b"q"):
            with pytest.raises(simdb.CorruptionError, match=problem):
                collection.rebuild(groups="chain")


def test_what_dropped_groups_leave_behind_is_sound(tmp_path):
    with simdb.open(grouped(tmp_path / "s.simdb"), threads=1) as db:
        db["c"].rebuild(drop_groups=True)
        with db._handle.read() as snapshot:
            assert GroupReader(snapshot, 1).first_change() > 1
        assert db.check().sound


@pytest.mark.parametrize(
    ("dictionary", "problem"),
    [
        (b"junk" * 100, "is damaged"),
        (bytes.fromhex("37a430ec01000000") + b"\xff" * 500, "is damaged"),
        (b"", "has 0 bytes"),
        (bytes(zstandard.DICTIONARY_BYTES + 1), "has 32,769 bytes"),
    ],
)
def test_a_dictionary_that_waits_where_nothing_is_compressed_is_found(
    tmp_path, dictionary, problem
):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.8)
        collection.add(1, range(99))
        for key in layout.dictionary_keys(1):
            put(db, Table.META, key, dictionary)
        report = db.check()
        assert {found.table for found in report.problems} == {"meta"}
        assert all(problem in found.problem for found in report.problems)
        if problem == "is damaged":
            with pytest.raises(simdb.CorruptionError, match=problem):
                collection.rebuild(compression="zstd")


@pytest.mark.parametrize("label", [2, 3, 0])
def test_an_alias_of_a_group_that_is_no_older_is_found_and_followed_no_further(tmp_path, label):
    with simdb.open(grouped(tmp_path / "s.simdb"), threads=1) as db:
        with db._handle.write() as transaction:
            tables = GroupWriter(transaction, 1)
            tables.add_alias(2, label)
            tables.add_alias(3, 2)
            tables.set_state(9, tables.state()[1])
        (found,) = db.check().problems
        assert f"group 2 is an alias of {label}" in found.problem
        if label:
            with pytest.raises(simdb.CorruptionError, match="an alias of"):
                db["c"].group(3)


@pytest.mark.parametrize("error", [ValueError, KeyError, simdb.ConfigurationError])
def test_what_a_caller_raises_ends_a_check_and_is_no_problem(path: Path, error: Any) -> None:
    def raises(_: object) -> None:
        raise error("of the caller")

    with simdb.open(path, threads=1) as database:
        database.collection("c", simdb.Set(), threshold=0.5).add(1, [1, 2])
        with pytest.raises(error, match="of the caller"):
            database.check(progress=raises)
        assert not database.check().problems


def test_a_deleted_item_that_its_kind_refuses_since_a_rebuild_is_no_damage(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.create_collection("c", simdb.Vector(3, "euclidean"), max_distance=1)
        collection.add_many([*((number, [1, number, 2]) for number in range(50)), (99, [0, 0, 0])])
        collection.delete(99)
        collection.rebuild(simdb.Vector(3, "cosine"), max_distance=0.2)
        assert db.check(deep=True).problems == ()


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (["", 1, 9, True], "a label is kept as that of another pair"),
        (["", 1, 2**63, True], "a stored label is not one: key 9223372036854775808"),
        (["", "", 2, True], "a stored label is not one: key '' takes 0 bytes"),
    ],
)
def test_a_label_that_nobody_could_have_given_is_found(database, told, problem):
    collection = database["c"]
    collection.label([(1, 2, True)])
    with database._handle.read() as transaction:
        ((key, _),) = transaction.scan(Table.META, layout.label_key(1))
    put(database, Table.META, bytes(key), layout.pack(told))
    (found,) = database.check().problems
    assert found.problem.startswith(problem)
    if told[1:3] != [1, 9]:
        with pytest.raises(simdb.CorruptionError, match="a stored label is not one"):
            list(collection.labels())


@pytest.mark.parametrize(("tag", "payload"), [(b"i", b"\1" * 12), (b"l", layout.pack([[7]]))])
def test_what_is_stored_of_groups_in_another_form_is_no_raw_error(tmp_path, tag, payload):
    with simdb.open(grouped(tmp_path / "s.simdb"), threads=1) as db:
        with db._handle.read() as transaction:
            key = next(bytes(key) for key, _ in transaction.scan(Table.META, owner_prefix(1) + tag))
        put(db, Table.META, key, payload)
        with pytest.raises(simdb.CorruptionError, match="of groups"):
            db.dump(tmp_path / "dump")


def test_a_key_that_leads_to_no_number_is_no_raw_error(database):
    key = owner_prefix(1) + layout.encode_user_key(5)
    put(database, Table.KEYS, key, b"\5\0\0")
    with pytest.raises(simdb.CorruptionError, match="leads to no item number"):
        database["c"].get(5)
    with pytest.raises(simdb.CorruptionError, match="leads to no item number"):
        database["c"].add_many([(5, "other words"), (6, "of two rows")], on_existing="replace")


@pytest.mark.parametrize("live", [None, np.array([0, 5], np.uint32)])
def test_an_item_number_that_never_was_has_no_place(live):
    with pytest.raises(simdb.CorruptionError, match="item number 7 is of no stored item"):
        Places(2, live).of(np.array([0, 7], np.uint32))


def test_garbage_of_a_store_without_a_note_of_numbers_is_no_problem(tmp_path):
    """As earlier versions left one; what is rebuilt then has its half of the note alone."""
    with simdb.open(grouped(tmp_path / "s.simdb"), threads=1) as db:
        put(db, Table.META, GARBAGE_KEY, layout.pack([[int(Table.DOCUMENTS), 2]]))
        for used in ([0, 0], [0, 9]):
            put(db, Table.META, NUMBERS_KEY, layout.pack(used))
            assert db.check(deep=True).sound

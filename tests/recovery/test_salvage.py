"""Reading a damaged file page by page: nothing of a page is believed, and what is lost is said."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.recovery import pages
from simdb.recovery.pages import DamagedFile
from simdb.storage.file import environment as environments
from simdb.storage.file import log, preflight
from simdb.storage.tables import blocks
from simdb.storage.tables.blocks import BlockWriter, Tail
from simdb.storage.tables.layout import Table, pack_numbered
from tests.support.environments import acquire

PAGE = 4_096
OWNER = 7
BIG = "a long text that has a page of its own, " * 300


@pytest.fixture
def path(path):
    """A store of 12 texts with long ones among them, so that some values have pages of their own.

    The files beside it are gone, as those of a file that came from elsewhere.
    """
    with simdb.open(path, threads=1) as database:
        texts = database.collection("c", simdb.Text(), seed=1)
        texts.add_many((number, f"text {number} {BIG * (number % 2)}") for number in range(12))
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    return path


def records(path: Any) -> dict[tuple[Table, bytes], bytes]:
    with DamagedFile(path) as file:
        return {(table, key): value for table in Table for key, value in file.records(table)}


def page_of(path: Any, table: Table) -> int:
    with DamagedFile(path) as file:
        return file.roots[table]


def change(path: Any, place: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


# -- pages -------------------------------------------------------------------------------------


def test_every_record_of_a_sound_file_is_read_as_lmdb_reads_it(path):
    found = records(path)
    environment = acquire(path, read_only=True)
    with environment.read() as transaction:
        expected = {
            (table, bytes(key)): bytes(value)
            for table in Table
            for key, value in transaction.scan(table, b"")
        }
    environments.release(environment)
    assert found.items() >= expected.items()
    assert {table for table, _ in found} == {table for table, _ in expected}


def first_node(path: Any, root: int) -> int:
    """Return where the first node of a page lies in the file."""
    page = path.read_bytes()[root * PAGE : (root + 1) * PAGE]
    offset: int = struct.unpack_from("<H", page, 16)[0]
    return root * PAGE + offset


@pytest.mark.parametrize(
    ("place", "number", "said"),
    [
        (0, 5, "cannot be read"),  # the page of another number
        (10, 0, "cannot be read"),  # neither branch nor leaf
        (12, 0xFFFF, "is damaged"),  # more offsets than there is page
        (12, 3, "is damaged"),  # the offsets end before they begin
        (16, 0xFFFF, "is damaged"),  # a node past the end
    ],
)
def test_a_page_that_contradicts_itself_is_noted_and_read_as_far_as_it_can_be(
    path, place, number, said
):
    sound = records(path)
    root = page_of(path, Table.DOCUMENTS)
    change(path, root * PAGE + place, struct.pack("<H", number))
    with DamagedFile(path) as file:
        found = dict(file.records(Table.DOCUMENTS))
        assert [(table, said in problem) for table, problem in file.problems] == [
            ("documents", True)
        ]
    assert {((Table.DOCUMENTS, key), value) for key, value in found.items()} <= set(sound.items())


@pytest.mark.parametrize(
    ("place", "data"),
    [
        (0, struct.pack("<HH", 0xFFFF, 0x7FFF)),  # a value larger than the file
        (6, struct.pack("<H", 0xFFFF)),  # a key larger than its page
    ],
)
def test_a_node_that_leads_out_of_its_page_costs_its_record_alone(path, place, data):
    root = page_of(path, Table.KEYS)
    sound = records(path)
    change(path, first_node(path, root) + place, data)
    with DamagedFile(path) as file:
        keys = [key for key, _ in file.records(Table.KEYS)]
        assert [table for table, _ in file.problems] == ["keys"]
    assert len(keys) == sum(table is Table.KEYS for table, _ in sound) - 1


@pytest.mark.parametrize("target", [0, 2**40, "root"])
def test_a_value_on_pages_that_are_none_of_values_is_noted(path, target):
    root = page_of(path, Table.DOCUMENTS)
    node = first_node(path, root)
    flags, key_size = struct.unpack_from("<HH", path.read_bytes(), node + 4)
    assert flags & preflight.BIG_DATA
    number = root if target == "root" else target
    change(path, node + 8 + key_size, struct.pack("<Q", number))
    with DamagedFile(path) as file:
        list(file.records(Table.DOCUMENTS))
        (noted,) = [problem for _, problem in file.problems]
    assert noted.startswith("the value of key")


def test_pages_that_lead_to_each_other_in_a_circle_end(path):
    with simdb.open(path, threads=1) as database:
        database["c"].add_many((100 + number, f"another {number}") for number in range(1_000))
    root = page_of(path, Table.KEYS)
    page = path.read_bytes()[root * PAGE :][:PAGE]
    assert struct.unpack_from("<H", page, 10)[0] & preflight.BRANCH
    change(path, first_node(path, root), struct.pack("<HHH", root & 0xFFFF, root >> 16, 0))
    with DamagedFile(path) as file:
        found = list(file.records(Table.KEYS))
        assert file.problems == [("keys", f"page {root} cannot be read")]
    assert 0 < len(found) < 1_012


@pytest.mark.parametrize("seed", range(4))
def test_whatever_becomes_of_a_page_no_record_is_made_up(path, seed):
    """The keys and values are those of the sound file, or what is changed has a wrong checksum."""
    generator = random.Random(seed)
    data = path.read_bytes()
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            page = generator.randrange(len(data) // PAGE)
            start = page * PAGE + generator.randrange(generator.choice([16, 64, PAGE]))
            size = generator.choice([1, 2, 8])
            changed[start : start + size] = generator.randbytes(size)
        path.write_bytes(changed[: len(data) if generator.random() < 0.8 else -PAGE])
        with DamagedFile(path) as file:
            for table in Table:
                for record in file.records(table):
                    assert isinstance(record.key, bytes)
            for record in file.scattered():
                block = pages.block_of(record.key, record.value)
                assert block is None or block.numbers.size > 0
            for content in file.scattered_values():
                assert len(content) <= len(data)


# -- the beginning -----------------------------------------------------------------------------


def test_one_damaged_meta_page_is_noted_and_the_other_leads_to_everything(path):
    older, newer = sorted((0, 1), key=lambda page: transaction_of(path, page))
    sound = records(path)
    change(path, older * PAGE + 16, b"\0\0\0\0")
    with DamagedFile(path) as file:
        assert ("", "a meta page is damaged") in file.problems
    assert records(path) == sound
    assert newer != older


def transaction_of(path: Any, page: int) -> int:
    number: int = struct.unpack_from("<Q", path.read_bytes(), page * PAGE + 144)[0]
    return number


def test_a_file_that_was_cut_short_says_how_many_bytes_are_left(path):
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: -3 * PAGE])
    with DamagedFile(path) as file:
        assert f"{size - 3 * PAGE:,} bytes of " in file.problems[0][1]


# -- blocks that nothing leads to --------------------------------------------------------------


@pytest.fixture
def stored_blocks(tmp_path):
    """The values of a block of texts and of one of vectors, each with the records in it."""
    environment = acquire(tmp_path / "blocks.simdb")
    numbers = np.array([4, 5, 9], np.uint32)
    of_any_size, of_one = [b"first", b"", b"the third record"], [b"1" * 24, b"2" * 24, b"3" * 24]
    with environment.write(1) as transaction:
        BlockWriter(transaction, Table.DOCUMENTS, OWNER, Tail(), width=0).append(
            numbers, of_any_size
        )
        BlockWriter(transaction, Table.ITEMS, OWNER, Tail(), width=24).append(numbers, of_one)
    key = pack_numbered(OWNER, 4)
    with environment.read() as transaction:
        text, vector = (transaction.get(table, key) for table in (Table.DOCUMENTS, Table.ITEMS))
        assert text is not None
        assert vector is not None
        yield (bytes(text), of_any_size), (bytes(vector), of_one)
    environments.release(environment)


def records_in(block: Any) -> list[bytes]:
    assert block.key == pack_numbered(OWNER, 4)
    assert block.numbers.tolist() == [4, 5, 9]
    return [bytes(block.record(place)) for place in range(3)]


def test_a_block_is_known_by_its_checksums_whatever_follows_it(stored_blocks):
    (text, text_records), (vector, vector_records) = stored_blocks
    for rest in (b"", b"\0" * 50, b"what an older value left"):
        assert records_in(pages.block_within(OWNER, text + rest)) == text_records
        assert records_in(pages.block_within(OWNER, vector + rest, 24)) == vector_records


def test_a_block_of_another_owner_or_width_is_none(stored_blocks):
    (text, _), (vector, _) = stored_blocks
    assert pages.block_within(OWNER + 1, text) is None
    assert pages.block_within(OWNER + 1, vector, 24) is None
    assert pages.block_within(OWNER, vector, 32) is None
    assert pages.block_within(OWNER, vector) is None
    assert pages.block_within(OWNER, text, 24) is None


def test_a_block_that_was_cut_short_is_none(stored_blocks):
    (text, _), (vector, _) = stored_blocks
    for size in range(len(text)):
        assert pages.block_within(OWNER, text[:size]) is None
    for size in range(len(vector)):
        assert pages.block_within(OWNER, vector[:size], 24) is None


def test_a_block_of_one_width_with_any_byte_changed_is_none(stored_blocks):
    _, (vector, _) = stored_blocks
    for place in range(len(vector)):
        changed = bytearray(vector)
        changed[place] ^= 0x10
        assert pages.block_within(OWNER, bytes(changed), 24) is None


# -- repair ------------------------------------------------------------------------------------


def destroy_leaves_of_big_values(path: Any) -> int:
    """Overwrite the leaves that lead to values on pages of their own; return how many."""
    data = path.read_bytes()
    leaves = []
    for number in range(2, len(data) // PAGE):
        page = data[number * PAGE : (number + 1) * PAGE]
        if struct.unpack_from("<Q", page)[0] != number:
            continue
        kind, lower = struct.unpack_from("<HH", page, 10)
        if kind & preflight.LEAF and not kind & preflight.OVERFLOW and 16 <= lower <= PAGE:
            offsets = struct.unpack_from(f"<{(lower - 16) // 2}H", page, 16)
            if any(struct.unpack_from("<H", page, offset + 4)[0] & 1 for offset in offsets):
                leaves.append(number)
    for number in leaves:
        change(path, number * PAGE, bytes(PAGE))
    return len(leaves)


def test_long_texts_are_found_again_though_no_page_leads_to_them(path):
    with simdb.open(path, threads=1) as database:
        expected = {record.key: record.item for record in database["c"].items()}
    assert destroy_leaves_of_big_values(path)
    new = path.with_name("new.simdb")
    report = simdb.repair(path, new, threads=1)
    assert any(table == "documents" for table, _ in ((p.table, p.problem) for p in report.problems))
    with simdb.open(new, threads=1) as database:
        assert {record.key: record.item for record in database["c"].items()} == expected


def test_vectors_are_found_again_though_no_page_leads_to_them(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "ITEM_BLOCK_BYTES", 8_192)
    path, new = tmp_path / "store.simdb", tmp_path / "new.simdb"
    rows = np.random.default_rng(3).normal(size=(96, 64)).astype(np.float32)
    with simdb.open(path, threads=1) as database:
        vectors = database.collection("v", simdb.Vector(64, "euclidean"), max_distance=1, seed=1)
        vectors.add_many(enumerate(rows))
    assert destroy_leaves_of_big_values(path)
    report = simdb.repair(path, new, threads=1)
    assert "items" in {problem.table for problem in report.problems}
    with simdb.open(new, threads=1) as database:
        assert {record.key for record in database["v"].items()} == set(range(96))
        assert all(np.array_equal(database["v"].get(key).item, rows[key]) for key in range(96))


# -- pages that look sound ---------------------------------------------------------------------


def test_nodes_that_a_page_no_longer_counts_are_missed_by_the_number_of_records(path):
    root = page_of(path, Table.KEYS)
    (end,) = struct.unpack_from("<H", path.read_bytes(), root * PAGE + 12)
    change(path, root * PAGE + 12, struct.pack("<H", end - 4))
    with DamagedFile(path) as file:
        assert len(list(file.records(Table.KEYS))) == 10
        assert ("keys", "10 records of 12") in file.problems
    report = simdb.repair(path, path.with_name("new.simdb"), threads=1)
    assert not report.certain
    assert [part.items for part in report.collections] == [12]


def test_a_log_that_the_main_table_no_longer_counts_is_missed_by_the_number_of_its_entries(path):
    with simdb.open(path, threads=1) as database:
        for number in range(3):  # single changes, which the log has
            database["c"].replace(number, f"another text {number}")
    with DamagedFile(path) as file:
        assert file.log_is_whole
    newer = max((0, 1), key=lambda page: transaction_of(path, page))
    main = preflight.parse_meta(path, path.read_bytes()[newer * PAGE :][: preflight.META_BYTES])
    assert main is not None
    root = main.main.root
    content = path.read_bytes()[root * PAGE : (root + 1) * PAGE]
    (end,) = struct.unpack_from("<H", content, 12)
    assert any(log.is_log(key) for _, _, key, _ in preflight.nodes_of(content))
    change(path, root * PAGE + 12, struct.pack("<H", 16 + 2))
    with DamagedFile(path) as file:
        assert not file.log_is_whole
        assert ("", f"1 tables and logs of {(end - 16) // 2}") in file.problems


def test_a_record_that_a_page_names_twice_is_taken_once(path):
    root = page_of(path, Table.KEYS)
    offsets = struct.unpack_from("<12H", path.read_bytes(), root * PAGE + 16)
    change(path, root * PAGE + 16, struct.pack("<2H", offsets[1], offsets[1]))
    with DamagedFile(path) as file:
        found = [key for key, _ in file.records(Table.KEYS)]
        assert len(found) == len(set(found)) == 11
        assert any("is out of place" in problem for _, problem in file.problems)
    new = path.with_name("new.simdb")
    assert not simdb.repair(path, new, threads=1).certain
    with simdb.open(new, threads=1) as database:
        assert database.check(deep=True).sound
        assert len(database["c"]) == 12


def test_without_its_newer_meta_page_a_file_is_one_commit_old_and_repair_says_so(path):
    with simdb.open(path, threads=1) as database:
        database["c"].add(99, "the last commit")
    newer = max((0, 1), key=lambda page: transaction_of(path, page))
    change(path, newer * PAGE + 16, b"\0\0\0\0")
    new = path.with_name("new.simdb")
    report = simdb.repair(path, new, threads=1)
    assert not report.certain
    assert not report.complete
    with simdb.open(new, threads=1) as database:
        assert set(range(12)) <= {entry.key for entry in database["c"].items()}

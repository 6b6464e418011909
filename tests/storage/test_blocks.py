"""Blocks against a dict: what was appended and not dropped is found, and nothing else."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from simdb.errors import CorruptionError
from simdb.ragged import ByteStrings
from simdb.storage.tables import blocks, layout
from simdb.storage.tables.blocks import BlockReader, BlockWriter, Tail
from simdb.storage.tables.layout import Table, pack_numbered
from simdb.threads import Pool, Task
from tests.support.environments import record_count
from tests.support.grids import some_of

OWNER = 3
WAITING_A_CLASS = 7  # blocks of one size class, which are a factor of 8


class AbortError(Exception):
    """Undoes a transaction on purpose."""


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(blocks, "TARGET_BYTES", 2_048)


class Twin:
    """Blocks set beside a dict from item number to record."""

    def __init__(self, environment, seed, *, width=0, owner=OWNER):
        self.environment = environment
        self.random = random.Random(seed)
        self.width, self.owner = width, owner
        self.table = Table.SIGNATURES if width else Table.DOCUMENTS
        self.tail: list[list[int]] = []
        self.records: dict[int, bytes] = {}
        self.next_number = 0
        self.bytes_written = self.bytes_added = 0

    def reader(self, transaction):
        return BlockReader(transaction, self.table, self.owner, width=self.width)

    def writer(self, transaction, tail):
        return BlockWriter(transaction, self.table, self.owner, tail, width=self.width)

    def new_record(self):
        size = self.width or self.random.choice([0, 1, 10, 100, 100, 600, 5_000])
        return self.random.randbytes(size)

    def change(self):
        """Append, or drop dead records; some changes are undone."""
        tail = list(self.tail)
        records, next_number = dict(self.records), self.next_number
        undone = self.random.random() < 0.15
        try:
            with self.environment.write(1) as transaction:
                writer = self.writer(transaction, tail)
                if self.random.random() < 0.8:
                    next_number = self.append(writer, records, next_number)
                else:
                    self.drop(writer, records)
                if undone:
                    raise AbortError  # noqa: TRY301 - undoes the transaction
        except AbortError:
            return
        self.tail, self.records, self.next_number = tail, records, next_number
        self.bytes_written += writer.bytes_written

    def append(self, writer, records, next_number):
        numbers = []
        for _ in range(self.random.choice([1, 1, 1, 2, 5, 40])):
            next_number += self.random.choice([0, 0, 0, 1, 7])  # holes
            numbers.append(next_number)
            next_number += 1
        new = [self.new_record() for _ in numbers]
        writer.append(np.array(numbers, np.uint32), new)
        records.update(zip(numbers, new, strict=True))
        self.bytes_added += sum(map(len, new))
        return next_number

    def drop(self, writer, records):
        if not records:
            return
        for number in self.random.sample(sorted(records), min(len(records), 3)):
            block = writer.find(number)
            if block is None:
                assert number not in records
                continue
            numbers = block.numbers.tolist()
            share = self.random.choice([0.05, 0.3, 0.6, 1.0])
            dead = np.array([self.random.random() < share for _ in numbers], np.bool_)
            dropped = writer.drop_dead(block, dead)
            assert dropped in (0, np.count_nonzero(dead))
            assert dropped or np.count_nonzero(dead) <= 0.3 * len(numbers)
            if dropped:
                for gone in np.array(numbers)[dead].tolist():
                    del records[gone]

    def check(self):
        with self.environment.read() as transaction:
            reader = self.reader(transaction)
            self.check_find(reader)
            self.check_locate(reader)
            self.check_scan(reader)
            self.check_tail(transaction)

    def record_of(self, block, place):
        return bytes(block.record(place) if self.width else block.verified_record(place))

    def check_find(self, reader):
        for number in range(self.next_number + 3):
            block = reader.find(number)
            place = None if block is None else block.place(number)
            if number in self.records:
                assert block is not None
                assert place is not None
                assert self.record_of(block, place) == self.records[number]
            else:
                assert place is None

    def check_locate(self, reader):
        numbers = sorted(self.random.sample(range(self.next_number + 10), self.next_number // 2))
        found = {}
        for block, wanted, places in reader.locate(np.array(numbers, np.uint32)):
            assert wanted.size == places.size
            for position, place in zip(wanted.tolist(), places.tolist(), strict=True):
                found[numbers[position]] = self.record_of(block, place)
        assert found == {
            number: self.records[number] for number in numbers if number in self.records
        }

    def check_scan(self, reader):
        for start in [0, *self.random.sample(range(self.next_number + 2), 3)]:
            scanned = {}
            for block in reader.scan(start):
                assert block.numbers[-1] >= start
                for place, number in enumerate(block.numbers.tolist()):
                    scanned[number] = self.record_of(block, place)
            assert list(scanned) == sorted(scanned)
            assert {number: scanned[number] for number in scanned if number >= start} == {
                number: self.records[number] for number in self.records if number >= start
            }

    def check_tail(self, transaction):
        for first, size in self.tail:
            value = transaction.get(self.table, pack_numbered(self.owner, first))
            assert value is not None
            assert len(value) == size
        assert len(self.tail) <= 4 * WAITING_A_CLASS


@pytest.mark.parametrize("seed", some_of(range(4), 2))
@pytest.mark.parametrize("width", [0, 24])
def test_blocks_answer_as_a_dict_does_under_random_changes(environment, tiny, seed, width):
    twin = Twin(environment, seed, width=width)
    for _ in range(100):
        twin.change()
        if twin.random.random() < 0.15 and twin.next_number:
            twin.check()
    twin.check()


def test_owners_do_not_see_each_others_records(environment, tiny):
    twins = [Twin(environment, owner, owner=owner) for owner in (0, 1, 2**32 - 1)]
    for _ in range(30):
        for twin in twins:
            twin.change()
    for twin in twins:
        twin.check()


def test_single_appends_are_rewritten_a_few_times_and_leave_blocks_of_good_size(environment):
    twin = Twin(environment, 5, width=192)
    tail = Tail()
    count = 4_000
    with environment.write(1) as transaction:
        writer = twin.writer(transaction, tail)
        for number in range(count):
            writer.append(np.array([number], np.uint32), [bytes(192)])
            assert len(tail) <= 5 * WAITING_A_CLASS
    assert writer.bytes_written <= 7 * count * 216
    with environment.read() as transaction:
        sizes = [block.numbers.size for block in twin.reader(transaction).scan()]
        assert record_count(transaction, Table.SIGNATURES) == len(sizes)
    assert sum(sizes) == count
    assert len(sizes) <= count * 196 // (blocks.TARGET_BYTES // 2) + 5 * WAITING_A_CLASS


def test_one_large_append_is_cut_into_blocks(environment):
    twin = Twin(environment, 6)
    records = [bytes([number % 256]) * (300_000 if number == 50 else 4_000) for number in range(99)]
    with environment.write(1) as transaction:
        twin.writer(transaction, Tail()).append(np.arange(99, dtype=np.uint32), records)
    with environment.read() as transaction:
        found = list(twin.reader(transaction).scan())
        for block in found:
            assert block.numbers.size == 1 or len(block.records) <= blocks.TARGET_BYTES
        assert [bytes(block.record(0)) for block in found if block.numbers[0] == 50] == [
            records[50]
        ]


def test_blocks_that_threads_make_are_the_same(environment):
    random_bytes = random.Random(8).randbytes
    records = ByteStrings.of([random_bytes(size % 9_000) for size in range(0, 2_000_000, 1_777)])
    numbers, sizes = np.arange(len(records), dtype=np.uint32), np.diff(records.offsets)
    portions, found = [], {}
    with Pool(3, "test") as threads:
        for owner, pool in ((1, None), (2, threads)):

            def make(rows: slice) -> ByteStrings:
                portions.append(rows)
                return records[rows]

            twin, tail = Twin(environment, 8, owner=owner), Tail()
            with environment.write(1) as transaction:
                twin.writer(transaction, tail).append_made(numbers, sizes, make, pool)
            with environment.read() as transaction:
                stored = [
                    (block.numbers.tolist(), [*map(twin.record_of, [block] * 2, (0, -1))])
                    for block in twin.reader(transaction).scan()
                ]
            found[owner] = stored, tail
    assert found[1] == found[2]
    assert [number for held, _ in found[1][0] for number in held] == numbers.tolist()
    for held, ends in found[1][0]:
        assert ends == [bytes(records[held[0]]), bytes(records[held[-1]])]
    assert len(found[1][0]) > 3 * blocks.BLOCKS_AT_ONCE
    assert len(portions) == 2 * -(-len(found[1][0]) // blocks.BLOCKS_AT_ONCE)


class BusyPool(Pool):
    """Threads that have other work for ever."""

    def __init__(self) -> None:
        super().__init__(1, "busy")
        self.given: list[Task[Any]] = []

    def start(self, task: Task[Any]) -> None:
        self.given.append(task)


def test_blocks_that_threads_have_not_begun_are_made_without_them(environment):
    records = ByteStrings.of([bytes(9_000)] * 300)
    numbers, sizes = np.arange(300, dtype=np.uint32), np.diff(records.offsets)
    twin, busy = Twin(environment, 8, owner=3), BusyPool()
    made: list[slice] = []

    def make(rows: slice) -> ByteStrings:
        made.append(rows)
        return records[rows]

    with environment.write(1) as transaction:
        twin.writer(transaction, Tail()).append_made(numbers, sizes, make, busy)
    with environment.read() as transaction:
        assert sum(block.numbers.size for block in twin.reader(transaction).scan()) == 300
    assert (len(busy.given), len(made)) == (2, 3)
    for task in busy.given:
        task.run()
    assert len(made) == 3


# -- damage ------------------------------------------------------------------------------------


def store_sample(environment, width):
    twin = Twin(environment, 7, width=width)
    numbers = np.array([4, 5, 9], np.uint32)
    records = [b"x" * width] * 3 if width else [b"first", b"", b"the third record"]
    with environment.write(1) as transaction:
        twin.writer(transaction, Tail()).append(numbers, records)
    twin.records = dict(zip(numbers.tolist(), records, strict=True))
    return twin, pack_numbered(OWNER, 4)


def put(environment, table, key, value):
    with environment.write(1) as transaction:
        transaction.put(table, key, value)
    environment.caches.clear()


def stored(environment, twin, key):
    with environment.read() as transaction:
        value = transaction.get(twin.table, key)
        assert value is not None
        return bytes(value)


def read(environment, twin, number):
    with environment.read() as transaction:
        block = twin.reader(transaction).find(number)
        place = None if block is None else block.place(number)
        return None if block is None or place is None else twin.record_of(block, place)


@pytest.mark.parametrize("width", [0, 24])
def test_no_flipped_byte_of_a_block_gives_a_wrong_record(environment, width):
    twin, key = store_sample(environment, width)
    sound = stored(environment, twin, key)
    refused = 0
    for position in range(len(sound)):
        damaged = bytearray(sound)
        damaged[position] ^= 0x24
        put(environment, twin.table, key, bytes(damaged))
        for number in range(12):
            try:
                assert read(environment, twin, number) == twin.records.get(number)
            except CorruptionError:
                refused += 1
    assert refused >= len(sound)


@pytest.mark.parametrize("width", [0, 24])
def test_a_cut_off_or_lengthened_block_is_damage(environment, width):
    twin, key = store_sample(environment, width)
    sound = stored(environment, twin, key)
    for changed in (sound[:3], sound[:16], sound[:40], sound[:-1], sound + b"\0"):
        put(environment, twin.table, key, changed)
        with pytest.raises(CorruptionError):
            read(environment, twin, 5)


def test_a_block_under_the_key_of_another_owner_is_damage(environment):
    twin, key = store_sample(environment, 0)
    moved = stored(environment, twin, key)
    put(environment, twin.table, pack_numbered(OWNER + 1, 4), moved)
    other = Twin(environment, 8, owner=OWNER + 1)
    with pytest.raises(CorruptionError):
        read(environment, other, 4)


def test_a_damaged_record_is_refused_alone_and_stays_damaged_when_blocks_are_joined(environment):
    twin, key = store_sample(environment, 0)
    damaged = stored(environment, twin, key)[:-1] + b"!"
    put(environment, twin.table, key, damaged)
    assert read(environment, twin, 4) == b"first"
    with pytest.raises(CorruptionError, match="item number 9"):
        read(environment, twin, 9)
    tail = [(4, len(damaged))]
    with environment.write(1) as transaction:
        writer = twin.writer(transaction, tail)
        for number in range(10, 19):
            writer.append(np.array([number], np.uint32), [b"another record of this size"])
    assert len(tail) < 4
    assert read(environment, twin, 4) == b"first"
    assert read(environment, twin, 12) == b"another record of this size"
    with pytest.raises(CorruptionError, match="item number 9"):
        read(environment, twin, 9)


def test_a_missing_block_of_the_tail_is_damage(environment):
    twin, _ = store_sample(environment, 0)
    tail = [(number, 600) for number in range(1, 8)]
    with pytest.raises(CorruptionError, match="missing"), environment.write(1) as transaction:
        twin.writer(transaction, tail).append(np.array([20], np.uint32), [b"x" * 30])


def test_what_is_known_to_be_verified_is_bounded(environment, monkeypatch):
    monkeypatch.setattr(layout, "MOST_REMEMBERED", 5)
    twin = Twin(environment, 9, width=8)
    tail = Tail()
    for number in range(40):
        with environment.write(1) as transaction:
            twin.writer(transaction, tail).append(np.array([number], np.uint32), [b"12345678"])
        with environment.read() as transaction:
            assert (
                sum(block.numbers.size for block in twin.reader(transaction).scan()) == number + 1
            )
        assert len(environment.caches["verified"]) <= 5


def test_a_record_checksum_names_owner_and_number():
    sums = {
        blocks.record_checksum(owner, number, b"record")
        for owner in (b"\0\0\0\1", b"\0\0\0\2")
        for number in (0, 1, 2**32 - 1)
    }
    assert len(sums) == 6
    assert layout.checksum(Table.DOCUMENTS, b"\0\0\0\1", b"record") not in sums

"""Blocks of signatures that a process knows from one commit to the next."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
import re
from bisect import bisect_right

import numpy as np
import pytest

import simdb
from simdb.storage.collection.reader import CollectionReader, stored_signatures
from simdb.storage.tables import blocks, layout
from simdb.storage.tables.layout import Table

ROWS = 800  # their signatures are a large block and a small one


def signatures_by_number(collection, numbers):
    """Look signatures up together, and each alone; count the blocks that are scanned."""
    scanned = []

    class Counted(blocks.BlockReader):
        def scan(self, start=0):
            for block in super().scan(start):
                scanned.append(block)
                yield block

    with collection._handle.read() as snapshot:
        reader = CollectionReader(snapshot, collection._present.settings.number)
        index = reader.manifest.index
        reader._signatures = Counted(
            snapshot, Table.SIGNATURES, index.number, width=index.signature_width
        )
        together, present = stored_signatures(reader, numbers)
        for some in np.array_split(np.arange(numbers.size), -(-numbers.size // 16)):
            alone, there = stored_signatures(reader, numbers[some])
            assert np.array_equal(alone, together[some])
            assert np.array_equal(there, present[some])
    return present, len(scanned)


def test_only_new_blocks_are_read_until_something_is_deleted(tmp_path):
    generator = random.Random(3)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Set(), threshold=0.8, seed=1)

        def add(count, first):
            rows = [
                (key, [generator.randrange(10**9) for _ in range(5)])
                for key in range(first, first + count)
            ]
            collection.add_many(rows)

        reads = []
        for commit in range(6):
            add(ROWS, ROWS * commit)
            wanted = np.arange(0, ROWS * (commit + 1) + 5, 3, dtype=np.uint32)
            present, scanned = signatures_by_number(collection, wanted)
            assert present.sum() == np.count_nonzero(wanted < ROWS * (commit + 1))
            reads.append(scanned)
        assert max(reads) <= 3  # not those of the commits before, but for the tail
        gone = np.arange(0, 2 * ROWS, 2)  # half of the first blocks, which are rewritten
        collection.delete_many(gone.tolist())
        present, scanned = signatures_by_number(collection, np.arange(3 * ROWS, dtype=np.uint32))
        assert scanned > max(reads)
        assert not present[gone].any()
        assert present[1 : 2 * ROWS : 2].all()
        db.compact()
        add(10, 10 * ROWS)
        wanted = np.arange(6 * ROWS + 10, dtype=np.uint32)
        present, _ = signatures_by_number(collection, wanted)
        assert present.sum() == len(collection)


def test_a_snapshot_before_compacting_takes_nothing_over_from_after_it(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Vector(256), max_distance=0.1, seed=1)
        collection.add_many(enumerate(np.random.default_rng(1).normal(size=(2_500, 256))))

        def count(snapshot):
            reader = CollectionReader(snapshot, collection._present.settings.number)
            return sum(block.numbers.size for block in reader.item_blocks() or ())

        with collection._handle.read() as first:
            reader = CollectionReader(first, collection._present.settings.number)
            found = reader.item_blocks()
            assert found is not None
            end = int(next(iter(found)).numbers[-1]) + 1
        collection.delete_many(range(end - 40, end))
        with collection._handle.read() as old:
            stored = count(old)
            db.compact()
            with collection._handle.read() as new:
                assert count(new) == stored - 40
            assert count(old) == stored


def test_documents_and_keys_are_the_same_found_one_by_one_and_block_by_block(tmp_path, monkeypatch):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Text(), seed=1, compression="zstd")
        collection.add_many((f"key {number}", "text " * number) for number in range(400))
        collection.delete("key 7")
        numbers = np.arange(0, 420, 5, dtype=np.uint32)
        found = []
        with collection._handle.read() as snapshot:
            reader = CollectionReader(snapshot, collection._present.settings.number)
            for few in (0, numbers.size):
                monkeypatch.setattr("simdb.storage.collection.reader.FEW", few)
                positions, keys = reader.keys_of(numbers)
                documents = [
                    (position, *map(bytes, document[1:]))
                    for position, document in reader.documents_of(numbers)
                ]
                found.append((positions.tolist(), list(map(bytes, keys)), documents))
        assert found[0] == found[1]
        assert len(found[0][0]) == 80


def test_known_blocks_that_another_thread_begins_anew_meanwhile_are_looked_up_all_the_same(
    monkeypatch,
):
    known = blocks.KnownBlocks()
    known._firsts = [0, 5, 9]

    def forgotten(firsts, number):
        place = bisect_right(firsts, number)
        known._firsts, known._blocks = [], {}  # as ``note`` does when there are too many
        return place

    monkeypatch.setattr(blocks, "bisect_right", forgotten)
    assert known.find(9) is None


def test_keys_in_blocks_that_are_known_are_read_in_one_call(tmp_path, monkeypatch):
    looked_up = []
    read = blocks.Block.verified_record

    def counted(block, place):
        looked_up.append(place)
        return read(block, place)

    monkeypatch.setattr(blocks.Block, "verified_record", counted)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Set(), threshold=0.8)
        for commit in range(20):
            collection.add_many((f"key {one}", [one]) for one in range(5 * commit, 5 * commit + 5))
        for last in (12, 60, 99):  # in blocks that are found one after the other
            numbers = np.array([last, 3, 200, last - 5, 3, 0], np.uint32)
            expected = {0: last, 1: 3, 3: last - 5, 4: 3, 5: 0}
            for _ in range(3):
                looked_up.clear()
                with collection._handle.read() as snapshot:
                    reader = CollectionReader(snapshot, collection._present.settings.number)
                    found = {place: bytes(key) for place, key in reader.each_key(numbers)}
                assert found == {
                    place: layout.TEXT_TAG + b"key %d" % one for place, one in expected.items()
                }
            assert not looked_up


def test_a_key_in_a_known_block_that_is_damaged_is_told(tmp_path):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        collection = db.collection("c", simdb.Bits(64), max_distance=1)
        collection.add_many((f"key {one:03}", one << 8) for one in range(100))
        db.compact()  # what the log has is held in memory

        def keys_near(number):
            return [match.key for match in collection.search(number << 8, max_distance=0)]

        assert keys_near(7) == keys_near(7) == ["key 007"]
        with path.open("r+b") as file:
            for found in re.finditer(b"key 007", path.read_bytes()):
                file.seek(found.start())
                file.write(b"kex")
        with pytest.raises(simdb.errors.CorruptionError, match="item number 7 is damaged"):
            keys_near(7)
        assert keys_near(8) == ["key 008"]

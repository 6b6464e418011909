"""Items of given numbers: read by blocks they are those that are read one by one."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
import tracemalloc
from functools import cache

import numpy as np
import pytest

import simdb
from simdb.answers import compare
from simdb.errors import CorruptionError
from simdb.ingest.standing import ItemNumbers
from simdb.storage.collection.reader import CollectionReader, Documents, chosen_items, read_items
from tests.support.grids import grid

ROWS = 1_500
LARGE = 300_000  # bytes, of which each is a block of its own


LETTERS = bytes(b"abcdef "[number % 7] for number in range(256))


@cache
def texts(size):
    generator = random.Random(size)
    return {
        number: generator.randbytes(generator.randrange(size // 2, size))
        .translate(LETTERS)
        .decode()
        for number in range(ROWS if size < LARGE else 8)
    }


@pytest.mark.parametrize(
    ("step", "size", "compression"), grid([1, 3, 97], [60, 900, LARGE], [None, "zstd"], step=5)
)
def test_items_are_those_of_their_numbers(tmp_path, monkeypatch, compression, size, step):
    stored = texts(size)
    options = {} if compression is None else {"compression": compression}
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Text(), threshold=0.8, seed=1, **options)
        collection.add_many(list(stored.items()))
        gone = list(range(5, len(stored), 11))
        collection.delete_many(gone)
        collection.compact()
        expected = {key: text for key, text in stored.items() if key not in gone}
        numbers = np.arange(0, len(stored) + 20, step, dtype=np.uint32)
        with collection._handle.read() as snapshot:
            reader = CollectionReader(snapshot, collection._present.settings.number)
            found = {
                int(numbers[position]): str(item, "utf-8")
                for positions, items in chosen_items(reader, numbers)
                for position, item in zip(positions.tolist(), items, strict=True)
            }
            apart = {
                int(numbers[position]): bytes(document.item).decode()
                for position, document in reader.documents_of(numbers)
            }
            monkeypatch.setattr(compare, "COMPARED_BYTES", 20_000)
            forms = collection._present.signer.items
            parts = list(compare.items_in_parts(reader, numbers, forms))
    wanted = {number: expected[number] for number in numbers.tolist() if number in expected}
    assert found == apart == wanted
    assert [str(item, "utf-8") for _, items in parts for item in items] == [*wanted.values()]
    positions = np.concatenate([positions for positions, _ in parts])
    assert numbers[positions].tolist() == [*wanted]
    for _, items in parts:
        assert len(items) == 1 or sum(map(len, items)) <= 20_000


def test_items_of_many_blocks_are_read_by_one_call(tmp_path, monkeypatch):
    read, calls = Documents.of_blocks, []

    def counted(blocks, *where):
        blocks = list(blocks)
        calls.append(len(blocks))
        return read(blocks, *where)

    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Text(), threshold=0.8, seed=1)
        collection.add_many(list(texts(900).items()))
        monkeypatch.setattr(Documents, "of_blocks", counted)
        with collection._handle.read() as snapshot:
            reader = CollectionReader(snapshot, collection._present.settings.number)
            numbers = np.arange(0, ROWS, 7, dtype=np.uint32)
            ((_, items),) = chosen_items(reader, numbers)
            keys = reader.keys_of(numbers)[1]
    assert len(items) == len(keys) == numbers.size
    assert len(calls) == 2
    assert min(calls) > 5


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_large_metadata_is_neither_copied_nor_kept(tmp_path, compression):
    """Of small items with large metadata the items alone are held, or views."""
    options = {} if compression is None else {"compression": compression}
    note = {"note": "as many words again " * 1_000}
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Text(), threshold=0.8, seed=1, **options)
        collection.add_many([(key, f"text {key} of many", note) for key in range(800)])
        numbers = np.arange(800, dtype=np.uint32)
        with collection._handle.read() as snapshot:
            reader = CollectionReader(snapshot, collection._present.settings.number)
            tracemalloc.start()
            documents = sum(1 for _ in reader.documents_of(numbers))
            read, (_, items) = tracemalloc.get_traced_memory()[1], read_items(reader, numbers)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            parts = [part.sizes.sum() for part in reader.documents_in_columns(numbers)]
    assert documents == len(items) == 800
    assert max(read, peak) < 8 * 2**20
    assert max(parts) <= 2**20


def test_a_block_that_changes_after_it_was_found_is_damage(tmp_path):
    """Its ends are verified when it is found; nothing beyond it is read if they are others then."""
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        collection = db.collection("c", simdb.Text(), threshold=0.8, seed=1)
        collection.add_many(list(texts(400).items()))
        numbers = np.arange(0, ROWS, 3, dtype=np.uint32)
        with collection._handle.read() as snapshot:
            reader = CollectionReader(snapshot, collection._present.settings.number)
            assert len(reader.keys_of(numbers)[1]) == numbers.size
            block = reader.documents.find(ROWS // 2)
            assert block is not None
            ends, count = block.ends.tobytes(), block.numbers.size
        other = b"".join((2**44 + (place << 40)).to_bytes(8, "little") for place in range(count))
        whole = path.read_bytes()
        assert whole.count(ends) == 1
        with path.open("r+b") as file:
            file.seek(whole.index(ends))
            file.write(other)
        with collection._handle.read() as snapshot:
            reader = CollectionReader(snapshot, collection._present.settings.number)
            with pytest.raises(CorruptionError, match="is damaged"):
                reader.keys_of(numbers)


def test_numbers_that_were_seen_are_told_one_by_one_and_together():
    seen = ItemNumbers()
    assert not seen.among(np.arange(20)).any()
    seen.add([3, 8, 64])
    asked = np.array([0, 3, 8, 9, 64, 65, 10**9])
    assert seen.among(asked).tolist() == [number in seen for number in asked.tolist()]
    assert seen.among(asked).tolist() == [False, True, True, False, True, False, False]

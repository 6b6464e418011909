"""Items of given numbers: read by blocks they are those that are read one by one."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random

import numpy as np
import pytest

import simdb
from simdb.answers import compare
from simdb.ingest.add import SeenNumbers
from simdb.storage.collection.reader import CollectionReader, Documents, chosen_items

ROWS = 1_500
LARGE = 300_000  # bytes, of which each is a block of its own


def texts(size):
    generator = random.Random(size)
    return {
        number: "".join(generator.choices("abcdef ", k=generator.randrange(size // 2, size)))
        for number in range(ROWS if size < LARGE else 15)
    }


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("size", [60, 900, LARGE])
@pytest.mark.parametrize("step", [1, 3, 97])
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


def test_numbers_that_were_seen_are_told_one_by_one_and_together():
    seen = SeenNumbers()
    assert not seen.among(np.arange(20)).any()
    seen.add([3, 8, 64])
    asked = np.array([0, 3, 8, 9, 64, 65, 10**9])
    assert seen.among(asked).tolist() == [number in seen for number in asked.tolist()]
    assert seen.among(asked).tolist() == [False, True, True, False, True, False, False]

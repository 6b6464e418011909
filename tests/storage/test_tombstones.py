"""The bits of deleted items: of numbers within the bitmap, past it, and in other records."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random

import numpy as np

from simdb.storage.collection import tombstones

OWNER = 3


def test_numbers_past_the_bitmap_are_not_deleted():
    numbers = np.array([0, 7, 8, 15, 16, 4_000_000_000], np.uint32)
    bitmap = np.array([0b1000_0001, 0b1111_1111], np.uint8)
    assert tombstones.deleted(bitmap, numbers).tolist() == [True, True, True, True, False, False]
    assert not tombstones.deleted(np.empty(0, np.uint8), numbers).any()


def test_tombstones_that_are_set_and_cleared_are_those_of_a_set(environment, monkeypatch):
    monkeypatch.setattr(tombstones, "AT_ONCE", 1_000)
    generator = random.Random(1)
    most = 5 * tombstones.TOMBSTONES_PER_RECORD
    expected: set[int] = set()
    for _ in range(12):
        chosen = np.array(sorted(generator.sample(range(most), 300)), np.uint32)
        with environment.write(10) as transaction:
            if generator.random() < 0.6:
                tombstones.set_tombstones(transaction, OWNER, chosen)
                expected |= set(chosen.tolist())
            else:
                cleared = np.zeros(most // 8, np.uint8)
                np.bitwise_or.at(cleared, chosen >> 3, np.uint8(1) << (chosen & 7).astype(np.uint8))
                present = tombstones.read_all(transaction, OWNER, most)
                count = tombstones.clear_tombstones(transaction, OWNER, present, cleared)
                assert count == len(expected & set(chosen.tolist()))
                expected -= set(chosen.tolist())
        everything = np.arange(most, dtype=np.uint32)
        with environment.read() as transaction:
            bitmap = tombstones.read_all(transaction, OWNER, most)
            assert tombstones.count_of(bitmap) == len(expected)
            assert set(everything[tombstones.deleted(bitmap, everything)].tolist()) == expected
            among = tombstones.deleted_among(transaction, OWNER, chosen)
            assert among.tolist() == [number in expected for number in chosen.tolist()]

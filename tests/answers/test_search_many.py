"""Searches for many items at once: the answers of single ones, in every kind."""

from __future__ import annotations

import numpy as np
import pytest

import simdb
from simdb.answers import buckets, compare
from tests.support.kind_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_many_searches_answer_as_single_ones_do(tmp_path, monkeypatch, name):
    """With small parts and small buckets, so that every part of the work ends somewhere."""
    monkeypatch.setattr(buckets, "PROBED_AT_ONCE", 7)
    monkeypatch.setattr(buckets, "LARGE_BUCKET", 2)
    case = CASES[name]
    items = case.many(np.random.default_rng(5))
    with simdb.open(tmp_path / "s.simdb", threads=2) as db:
        collection = db.collection("c", case.kind, seed=1, **case.bound)
        collection.add_many(enumerate(items[5:] * 2))
        collection.delete_many([0, 9, 20])
        options = {**case.bound, "guarantee": "probable", "limit": 3}
        answers = collection.search_many(items, **options)
        single = [collection.search(item, **options) for item in items]
    assert list(answers) == single
    assert [one.candidates for one in answers] == [one.candidates for one in single]
    assert sum(map(len, answers)) > len(items)


def test_many_searches_read_a_bucket_of_equal_items_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "JOINED_AT_ONCE", 64)
    compared = []
    plain = compare.compare_batch_with_stored

    def counted(opened, items, rows, numbers, **options):
        compared.append(numbers.size)
        return plain(opened, items, rows, numbers, **options)

    monkeypatch.setattr(buckets, "compare_batch_with_stored", counted)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), seed=1)
        collection.add_many([(key, {1, 2, 3}) for key in range(100)])
        answers = collection.search_many([{1, 2, 3}, {7}, {1, 2, 3}, {1, 2, 3}])
    assert [len(matches) for matches in answers] == [100, 0, 100, 100]
    assert max(compared) <= 200

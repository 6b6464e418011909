"""The largest bucket of an index, and what none exceeds, against counting all entries."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import simdb
from simdb.storage.collection.manifest import open_postings
from simdb.storage.tables import runs, views
from simdb.storage.tables.views import largest_bucket

WORDS = simdb.Text(simdb.WordShingles(1))


def counted(view):
    """Count the entries of all buckets."""
    found: Counter[int] = Counter()
    for keys, _ in view.sweep(np.empty(0, np.uint8), item_column=0, room=1_000):
        found.update(keys.tolist())
    return max(found.values(), default=0)


@pytest.fixture
def collection(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 256)
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as database:
        yield database.collection("c", WORDS, threshold=0.8, exact_floor=0.7, seed=1)


@pytest.mark.parametrize("equal", [0, 7, 60, 400])
def test_no_bucket_exceeds_the_bound_and_large_ones_are_found(collection, monkeypatch, equal):
    generator = np.random.default_rng(equal)
    for first in range(0, 600, 50):  # several commits, so several runs
        texts = [
            "all of them are equal"
            if number < equal
            else " ".join(f"w{word}" for word in generator.integers(0, 900, 12))
            for number in range(first, first + 50)
        ]
        collection.add_many(enumerate(texts, first))
    with collection._opened() as opened:
        reader = opened.reader
        for view in (
            reader.bands,
            open_postings(reader.transaction, reader.manifest.index.exact.current),
        ):
            expected = counted(view)
            assert largest_bucket(view) == views.LargestBucket(expected, expected)
            for sampled in (40, 300, 2_000):
                with monkeypatch.context() as patched:
                    patched.setattr(views, "COUNTED", 0)
                    patched.setattr(views, "SAMPLED", sampled)
                    found = largest_bucket(view)
                assert found.entries <= expected <= found.bound
                if equal == 400:
                    assert found.entries == expected


def test_a_bucket_that_no_sample_meets_is_within_the_bound(monkeypatch):
    """Of sixteen entries a run every fourth is looked at, and the bucket of 1,000 lies between."""

    class View(views.RunView):
        def __init__(self):
            pass

        def keys_of_runs(self):
            for run in range(5):
                others = range(2_000 + 100 * run, 2_012 + 100 * run)
                yield [np.array([run, *[1_000] * 3, *others], np.uint64)]

    monkeypatch.setattr(views, "COUNTED", 0)
    monkeypatch.setattr(views, "SAMPLED", 20)
    found = largest_bucket(View())
    assert found.entries == 1
    assert found.bound >= 15


def test_stats_tell_the_largest_buckets_of_both_indexes(collection):
    assert collection.stats()["index"]["largest_bucket"] == 0
    collection.add_many((number, "the same for all") for number in range(80))
    collection.add_many((f"other {number}", f"one more text {number}") for number in range(9))
    stats = collection.stats()
    assert stats["index"]["largest_bucket"] == stats["index"]["largest_bucket_bound"] == 80
    assert stats["exact_index"]["largest_bucket"] == 80
    assert stats["exact_index"]["largest_bucket_bound"] == 80

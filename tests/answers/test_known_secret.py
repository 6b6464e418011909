"""What answers say of hashes that were forged for a known secret: docs/reliability.md tells it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import simdb
from tests.ingest.test_dedupe import FORGED, VICTIM


@pytest.fixture(params=[None, 0.5], ids=["buckets", "exact"])
def texts(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[simdb.Collection]:
    with simdb.open(tmp_path / "s.simdb") as database:
        collection = database.collection(
            "c", simdb.Text(), threshold=0.8, exact_floor=request.param, seed=1
        )
        collection.add_many([("forged", FORGED), ("victim", VICTIM)])
        yield collection


def test_answers_show_what_hashes_of_a_known_secret_say(texts):
    assert [(match.key, match.similarity) for match in texts.search(VICTIM)] == [
        ("forged", 1.0),
        ("victim", 1.0),
    ]
    assert [pair.similarity for pair in texts.pairs()] == [1.0]
    assert [pair.similarity for pair in texts.join(texts)] == [1.0] * 4
    assert [set(group.keys) for group in texts.groups()] == [{"forged", "victim"}]


def test_what_is_dropped_or_called_a_duplicate_is_so_under_a_drawn_secret_too(texts):
    report = texts.add_many([("again", VICTIM), ("new", FORGED[::-1])], find_duplicates=True)
    assert [(found.key, found.duplicate_of) for found in report.duplicates] == [("again", "victim")]


def test_a_secret_that_is_drawn_is_not_met_by_what_was_forged_for_another(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        collection = database.collection("c", simdb.Text(), threshold=0.8)
        collection.add_many([("forged", FORGED), ("victim", VICTIM)])
        assert list(collection.pairs(0.8)) == []
        collection.rebuild(seed=1)  # the way to and from a secret that is known
        assert len(list(collection.pairs(0.8))) == 1
        collection.rebuild(seed=2)
        assert list(collection.pairs(0.8)) == []

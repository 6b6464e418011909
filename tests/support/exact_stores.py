"""What the tests of exact collections share: stores of sets, and small limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.answers.exact import memory as exact_memory
from simdb.answers.exact import method as exact_method
from simdb.ingest import postings as exact_indexing
from simdb.results import Pairs
from tests.support.exact_oracle import jaccard

WAYS = ("memory", "sweep")


@contextmanager
def exact_store(path: Path, *, floor: Any = "1/3", **options: Any) -> Iterator[simdb.Collection]:
    """A collection of sets with an exact index only; deeply checked at the end."""
    with simdb.open(path, sync="batch") as db:
        yield db.collection("sets", simdb.Set(), threshold=None, exact_floor=floor, **options)
        report = db.check(deep=True)
        assert report.sound, report.problems


def small_epochs(monkeypatch: pytest.MonkeyPatch, *, first: int = 20, step: int = 3) -> None:
    """Let new epochs begin with few items, and take several commits."""
    monkeypatch.setattr(exact_indexing, "FIRST_TABLE", first)
    monkeypatch.setattr(exact_indexing, "LEAST_REPOSTED", step)


def join_by(monkeypatch: pytest.MonkeyPatch, way: str, *, room: int = 24) -> None:
    """Let joins be made in memory, or by sweeping in slices of so many postings."""
    if way == "sweep":
        monkeypatch.setattr(exact_memory, "SHARE_OF_MEMORY", 2**60)
        monkeypatch.setattr(exact_method, "room_of", lambda _memory: room)


def pairs_found(pairs: Pairs) -> dict[tuple[Any, Any], float]:
    """All pairs; each must come once."""
    assert pairs.guarantee == "exact"
    assert pairs.expected_recall == 1
    found = [((pair.left, pair.right), pair.value) for pair in pairs]
    assert len(dict(found)) == len(found)
    return dict(found)


def as_floats(pairs: dict[tuple[int, int], Fraction]) -> dict[tuple[int, int], float]:
    return {pair: float(similarity) for pair, similarity in pairs.items()}


def matches_of(
    sets: list[set[int] | None], probe: set[int], threshold: Fraction
) -> dict[int, Fraction]:
    """Keys and similarities of the sets that are similar to a probe."""
    similar = {
        key: jaccard(probe, one) for key, one in enumerate(sets) if one is not None and probe
    }
    return {key: similarity for key, similarity in similar.items() if similarity >= threshold}

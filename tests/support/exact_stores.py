"""What the tests of exact answers share: stores of sets, small limits, orders, a slow search."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb import kernels
from simdb.answers.exact import memory as exact_memory
from simdb.answers.exact import sweep as exact_sweeping
from simdb.exact.measures import Criterion
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.ingest import postings as exact_indexing
from simdb.results import Pairs
from tests.support.exact_oracle import THRESHOLDS, adversarial_sets
from tests.support.similarities import jaccard

WAYS = ("memory", "sweep")
FLOOR = Fraction(1, 3)
SERVED = [threshold for threshold in THRESHOLDS if threshold >= FLOOR]


def corpus(seed: int, threshold: Fraction, least: int = 50) -> list[set[int]]:
    """At least so many sets, made to lie on a threshold and just beside it."""
    generator = random.Random(seed)
    sets: list[set[int]] = []
    while len(sets) < least:
        sets += adversarial_sets(generator, threshold)
    return sets


@contextmanager
def exact_store(path: Path, *, floor: Any = FLOOR, **options: Any) -> Iterator[simdb.Collection]:
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
        monkeypatch.setattr(exact_sweeping, "room_of", lambda _memory: room)


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


def some_order(generator: random.Random, sets: list[set[int]]) -> SymbolOrder:
    """Make an order whose table holds some of the symbols, in any order."""
    symbols = sorted({symbol for one in sets for symbol in one})
    chosen = generator.sample(symbols, generator.randint(0, len(symbols)))
    return SymbolOrder(np.array(chosen, np.uint64))


def slow_search(
    arranged: ArrangedSets,
    probe: list[int],
    criterion: Criterion,
    floor: Threshold | None,
) -> set[int]:
    """Look the probe's prefix up in a dictionary of postings, then choose candidates by kernel."""
    postings: dict[int, list[tuple[int, int, int]]] = {}
    for item in range(len(arranged)):
        stored = arranged.values[arranged.offsets[item] : arranged.offsets[item + 1]].tolist()
        posted = len(stored) if floor is None else floor.prefix_length(len(stored))
        for place, symbol in enumerate(stored[:posted]):
            postings.setdefault(symbol, []).append((item, place + 1, len(stored) - place - 1))
    largest = int(arranged.sizes.max(initial=0))
    bounds = criterion.bounds(len(probe), largest)
    found = [postings.get(symbol, []) for symbol in probe[: bounds.prefix]]
    rows = np.array([row for rows in found for row in rows], np.uint32).reshape(-1, 3)
    hits = kernels.postings.Hits(
        np.cumsum([0] + [len(rows) for rows in found]).astype(np.int64),
        *(np.ascontiguousarray(rows[:, column]) for column in range(3)),
    )
    items, counts = kernels.postings.probe_candidates(hits, bounds)
    assert items.size == np.unique(items).size
    assert (counts > 0).all()
    return set(items.tolist())

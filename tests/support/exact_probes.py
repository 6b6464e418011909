"""What the tests of exact joins and searches share: orders of symbols, and a slow search."""

from __future__ import annotations

import random

import numpy as np

from simdb import kernels
from simdb.exact.measures import Criterion
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Threshold


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

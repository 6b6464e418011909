"""Which sets contain most of which others, where one of them meets more than is listed at once."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np

from simdb.exact import containment
from simdb.exact.containment import Contained, ContainedSets
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Threshold


def drawn(generator: np.random.Generator, count: int) -> ArrangedSets:
    """Sets of 60 of 80 symbols."""
    symbols = np.arange(1, 81, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    values = np.concatenate([generator.choice(symbols, 60, replace=False) for _ in range(count)])
    order = SymbolOrder.from_sample(symbols)
    return order.arrange(values, np.arange(0, 60 * count + 1, 60))


def test_what_one_set_meets_is_not_listed_where_it_is_too_much(monkeypatch):
    generator = np.random.default_rng(5)
    contained = ContainedSets(drawn(generator, 400), Threshold(Fraction(4, 5)))
    others = drawn(generator, 3)

    def asked() -> tuple[list[Contained], int]:
        tracemalloc.start()
        try:
            return list(contained.found_in(others)), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    (whole,), most = asked()
    monkeypatch.setattr(containment, "MET_AT_ONCE", 100)
    parts, least = asked()
    assert [part.met > 100 for part in parts] == [True] * 3
    assert sum(part.met for part in parts) == whole.met
    for column in ("outer", "inner", "overlaps"):
        together = np.concatenate([getattr(part, column) for part in parts])
        assert together.tolist() == getattr(whole, column).tolist()
    assert whole.outer.size > 10
    assert least < 8 * whole.met / 3 < most

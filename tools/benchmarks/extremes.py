"""Exact joins in memory of sets that a join could stumble over, each taking its time once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from simdb.exact import joins as exact_joins
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.set_data import SPREAD, Integers, Symbols

HERE = "tools.benchmarks.extremes"
SETS = 100_000
EQUAL_SYMBOLS = 100
LARGE_SYMBOLS = 10_000_000
FIRST_PAIRS = 2_000_000
THRESHOLD = Threshold.parse("0.8")


def equal_sets(count: int) -> tuple[Symbols, Integers]:
    """Return ``count`` sets of the same 100 symbols: every pair is similar."""
    members = np.arange(EQUAL_SYMBOLS, dtype=np.uint64) * SPREAD
    return np.tile(members, count), np.arange(count + 1, dtype=np.int64) * EQUAL_SYMBOLS


def common_symbol(count: int) -> tuple[Symbols, Integers]:
    """Return ``count`` sets of ten symbols, of which one is in all of them."""
    numbers = np.arange(10 * count, dtype=np.uint64)
    numbers[::10] = 0
    return numbers * SPREAD, np.arange(count + 1, dtype=np.int64) * 10


def two_large_sets(size: int) -> tuple[Symbols, Integers]:
    """Return two sets of ``size`` symbols of which nine tenths are common: J = 9/11."""
    numbers = np.arange(size, dtype=np.uint64)
    values = np.concatenate((numbers, numbers + np.uint64(size // 10)))
    return values * SPREAD, np.array([0, size, 2 * size], np.int64)


# Each with the pairs after which no more are read.
CASES: dict[str, tuple[Callable[[int], tuple[Symbols, Integers]], int, int]] = {
    "equal sets": (equal_sets, SETS, FIRST_PAIRS),
    "one symbol in all sets": (common_symbol, SETS, FIRST_PAIRS),
    "two large sets": (two_large_sets, LARGE_SYMBOLS, FIRST_PAIRS),
}


def join(case: str, share: float) -> dict[str, Any]:
    """Join the sets of a case, arranged before, until so many pairs have been read.

    Args:
        case: a key of ``CASES``.
        share: of the case's size.
    """
    make, size, most = CASES[case]
    size = max(10, int(size * share))
    for number in (10, size):  # the first compiles
        values, offsets = make(number)
        arranged = SymbolOrder.from_sample(values).arrange(values, offsets)
        began, pairs = time.process_time(), 0
        for batch in exact_joins.pairs(arranged, THRESHOLD):
            pairs += len(batch)
            if pairs >= most:
                break
        seconds = time.process_time() - began
    return {"seconds": seconds, "pairs": pairs, "sets": len(arranged), "symbols": len(values)}


@measure("extremes", "exact joins of equal sets, of a symbol in all sets, of two very large sets")
def extremes(bench: Bench) -> None:
    """Measure every case on one core, in processor seconds."""
    for case in CASES:
        share = min(1.0, bench.set_count / SETS)
        answer = in_child(f"{HERE}:join", cores=1, case=case, share=share)
        bench.details[f"extremes, {case}"] = answer
        note = (
            f"{answer['sets']:,} sets, {answer['symbols']:,} symbols in all, until "
            f"{answer['pairs']:,} pairs were read"
        )
        bench.add(Figure("extremes", case, answer["seconds"], "s", note=note))

"""The order of symbols: one to one, rarest first, and sets written down in it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from simdb import kernels
from simdb.errors import ConfigurationError
from simdb.exact.order import SymbolOrder
from tests.support.exact_oracle import columns

LARGEST = 2**64 - 1

pytestmark = pytest.mark.usefixtures("wrap_around")


def slow_key(symbol: int, frequent: list[int]) -> int:
    """Give the key as the documentation defines it."""
    lowest = 2**64 - len(frequent)
    if symbol in frequent:
        return lowest + frequent.index(symbol)
    if symbol < lowest:
        return symbol
    displaced = [value for value in range(lowest, 2**64) if value not in frequent]
    holes = sorted(value for value in frequent if value < lowest)
    return holes[displaced.index(symbol)]


@pytest.mark.parametrize("seed", range(20))
def test_keys_follow_their_definition_and_are_one_to_one(seed):
    generator = random.Random(seed)
    nearby = [LARGEST - distance for distance in range(40)] + list(range(20))
    frequent = generator.sample(nearby, generator.randint(0, 30))
    others = [generator.getrandbits(64) for _ in range(50)]
    symbols = np.array(nearby + others, np.uint64)
    order = SymbolOrder(np.array(frequent, np.uint64))
    keys = order.keys(symbols)
    assert keys.tolist() == [slow_key(symbol, frequent) for symbol in symbols.tolist()]
    assert np.unique(keys).size == np.unique(symbols).size


def test_symbols_outside_the_table_come_first_by_value_then_the_table_by_rank():
    order = SymbolOrder(np.array([7, 3, 5], np.uint64))
    symbols = np.array([3, 4, 5, 6, 7, 8, 1], np.uint64)
    arranged = order.arrange(symbols, np.array([0, 7]))
    assert (
        arranged.values.tolist() == order.keys(np.array([1, 4, 6, 8, 7, 3, 5], np.uint64)).tolist()
    )


def test_a_sample_ranks_repeated_symbols_rarest_first(monkeypatch):
    sets = [{1, 2, 3, 4}, {2, 3, 4}, {3, 4}, {4, 9}, {4, 8}]
    order = SymbolOrder.from_sample(columns(sets)[0])
    assert order.frequent.tolist() == [2, 3, 4]
    assert SymbolOrder.from_sample(columns([])[0]).frequent.size == 0
    for limit, ranked in ((2, [3, 4]), (0, [])):
        monkeypatch.setattr("simdb.exact.order.FREQUENT_LIMIT", limit)
        assert SymbolOrder.from_sample(columns(sets)[0]).frequent.tolist() == ranked


def test_a_table_with_a_symbol_twice_or_of_another_type_is_refused():
    for twice in ([1, 2, 1], [1, 3, 2, 3], [4, 4]):
        with pytest.raises(ConfigurationError, match="twice"):
            SymbolOrder(np.array(twice, np.uint64))
    for table in (np.array([1, 2]), np.array([[1, 2]], np.uint64), np.array(1, np.uint64)):
        with pytest.raises(TypeError, match="one-dimensional array of uint64"):
            SymbolOrder(table)


def test_symbols_as_frequent_as_each_other_are_ranked_by_value(monkeypatch):
    sets = [{9, 5, 7, 1}, {7, 9, 5}, {1, 2}, {2, 9}]
    assert SymbolOrder.from_sample(columns(sets)[0]).frequent.tolist() == [1, 2, 5, 7, 9]
    monkeypatch.setattr("simdb.exact.order.FREQUENT_LIMIT", 3)
    assert SymbolOrder.from_sample(columns(sets)[0]).frequent.tolist() == [5, 7, 9]


def test_the_lowest_rank_is_the_key_of_the_least_frequent_symbol():
    order = SymbolOrder(np.array([7, 3, 5], np.uint64))
    assert order.lowest_rank == LARGEST - 2
    assert order.keys(np.array([7, 3, 5], np.uint64)).tolist() == [
        *(LARGEST - 2, LARGEST - 1, LARGEST)
    ]
    assert SymbolOrder().frequent.size == 0
    assert SymbolOrder().lowest_rank == LARGEST
    assert SymbolOrder().keys(np.array([0, LARGEST], np.uint64)).tolist() == [0, LARGEST]


def test_arranged_sets_know_their_sizes():
    sets = [{1, 2, 3}, set(), {4}]
    arranged = SymbolOrder().arrange(*columns(sets))
    assert len(arranged) == 3
    assert arranged.sizes.tolist() == [3, 0, 1]


def test_an_order_and_arranged_sets_stay_what_they_are():
    order = SymbolOrder(np.array([7, 3], np.uint64))
    arranged = order.arrange(*columns([{1, 2}]))
    for thing, name in ((order, "frequent"), (arranged, "values")):
        with pytest.raises(AttributeError):
            setattr(thing, name, np.empty(0, np.uint64))
    # Compared and hashed as objects, since arrays are neither.
    assert len({order, SymbolOrder(order.frequent)}) == 2
    assert len({arranged, order.arrange(*columns([{1, 2}]))}) == 2


def crowded(generator: random.Random, size: int) -> list[int]:
    """Make values that fall into few buckets however they are spread."""
    return [LARGEST, 0] + [2**40 + generator.randint(0, 500) for _ in range(size)]


@pytest.mark.parametrize("size", [0, 1, 2, 24, 25, 100, 3000])
def test_sets_of_any_size_and_values_are_sorted_without_repetition(size):
    generator = random.Random(size)
    frequent = [generator.getrandbits(64) for _ in range(2000)]
    kinds = [
        [generator.getrandbits(64) for _ in range(size)],
        [generator.randint(0, size) for _ in range(size)],
        generator.choices(frequent, k=size),
        crowded(generator, size),
        generator.choices(frequent, k=size) + [generator.getrandbits(64) for _ in range(size)],
        [5] * size,
    ]
    order = SymbolOrder(np.array(frequent, np.uint64))
    values = np.array([symbol for kind in kinds for symbol in kind], np.uint64)
    offsets = np.cumsum([0] + [len(kind) for kind in kinds], dtype=np.int64)
    arranged = order.arrange(values, offsets)
    assert len(arranged) == len(kinds)
    for place, kind in enumerate(kinds):
        keys = arranged.values[arranged.offsets[place] : arranged.offsets[place + 1]]
        assert keys.tolist() == sorted(set(order.keys(np.array(kind, np.uint64)).tolist()))


def test_values_that_crowd_together_are_left_to_another_sort():
    generator = random.Random(1)
    values = np.array(crowded(generator, 3000), np.uint64)
    offsets = np.array([0, values.size])
    flags = kernels.order.sort_sets(values.copy(), offsets, np.uint64(LARGEST))
    assert flags.tolist() == [True]

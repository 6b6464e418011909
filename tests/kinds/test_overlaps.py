"""Exact overlaps of symbol sets against Python sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb import kernels

# Few different symbols make overlaps likely; multiples of 2^32 fall into few slots of a table.
symbols = st.one_of(
    st.integers(0, 12), st.integers(0, 12).map(lambda n: n << 32), st.integers(2**64 - 3, 2**64 - 1)
)
sets = st.lists(st.lists(symbols, max_size=30), max_size=8)

pytestmark = pytest.mark.usefixtures("wrap_around")


def columns(
    lists: Sequence[Sequence[int]],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    values = np.array([symbol for members in lists for symbol in members], np.uint64)
    return values, np.array([0, *accumulate(map(len, lists))], np.int64)


@given(st.lists(symbols, max_size=30), sets)
def test_probe_overlaps_are_those_of_python_sets(probe, lists):
    overlaps, sizes, probe_size = kernels.overlaps.probe_overlaps(
        np.array(probe, np.uint64), *columns(lists)
    )
    assert probe_size == len(set(probe))
    assert overlaps.tolist() == [len(set(probe) & set(members)) for members in lists]
    assert sizes.tolist() == [len(set(members)) for members in lists]
    assert overlaps.dtype == sizes.dtype == np.int64


@given(sets.filter(bool), st.data())
def test_pair_overlaps_are_those_of_python_sets(lists, data):
    position = st.integers(0, len(lists) - 1)
    pairs = data.draw(st.lists(st.tuples(position, position), max_size=20))
    if data.draw(st.booleans()):
        pairs.sort()
    left = np.array([i for i, _ in pairs], np.int64)
    right = np.array([j for _, j in pairs], np.int64)
    overlaps, left_sizes, right_sizes = kernels.overlaps.pair_overlaps(*columns(lists), left, right)
    assert overlaps.tolist() == [len(set(lists[i]) & set(lists[j])) for i, j in pairs]
    assert left_sizes.tolist() == [len(set(lists[i])) for i, _ in pairs]
    assert right_sizes.tolist() == [len(set(lists[j])) for _, j in pairs]


def test_large_sets_of_like_symbols_overlap_exactly():
    generator = np.random.default_rng(1)
    lists = [
        generator.choice(np.arange(4000) << shift, 3000).tolist() for shift in (0, 0, 20, 40, 0)
    ]
    overlaps, sizes, probe_size = kernels.overlaps.probe_overlaps(
        np.array(lists[0], np.uint64), *columns(lists)
    )
    assert probe_size == sizes[0] == overlaps[0] == len(set(lists[0]))
    assert overlaps.tolist() == [len(set(lists[0]) & set(members)) for members in lists]


def test_the_overlap_is_never_taken_over_from_another_pair():
    """Tables are emptied by ticks: a set compared twice with one probe counts anew each time."""
    values, offsets = columns([[1, 2, 3], [2, 3, 4], [9]])
    left, right = np.array([0, 0, 0, 2, 0], np.int64), np.array([1, 1, 0, 1, 1], np.int64)
    overlaps, _, _ = kernels.overlaps.pair_overlaps(values, offsets, left, right)
    assert overlaps.tolist() == [2, 2, 3, 0, 2]

"""Bucket keys of many items, against lists of lists."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.lsh.family import BucketKeys

# The keys of some items, each with the group that it is of.
ITEMS = st.lists(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2)), max_size=4), max_size=6
)
GROUP_COUNT = 3


def made(items: list[list[tuple[int, int]]], *, grouped: bool) -> BucketKeys:
    keys = [key for item in items for key, _ in item]
    groups = [group for item in items for _, group in item]
    return BucketKeys(
        np.array(keys, np.uint64),
        np.cumsum([0] + [len(item) for item in items], dtype=np.int64),
        np.array(groups, np.uint8) if grouped else None,
        GROUP_COUNT if grouped else 1,
    )


def read(keys: BucketKeys) -> list[list[tuple[int, int]]]:
    """Give what ``made`` took; every key is of group 0 if there are no groups."""
    assert keys.values.dtype == np.uint64
    assert keys.offsets.dtype == np.int64
    assert keys.offsets[0] == 0
    assert keys.offsets[-1] == keys.values.size
    groups = np.zeros(keys.values.size, np.uint8) if keys.groups is None else keys.groups
    pairs = list(zip(keys.values.tolist(), groups.tolist(), strict=True))
    return [pairs[begin:end] for begin, end in pairwise(keys.offsets.tolist())]


def without_groups(items: list[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    return [[(key, 0) for key, _ in item] for item in items]


@given(ITEMS, st.booleans(), st.data())
def test_keys_of_chosen_items_are_theirs_in_their_order(items, grouped, data):
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(items))))) if items else [])
    keys = made(items, grouped=grouped)
    selected = keys.select(np.array(chosen, np.int64))
    expected = items if grouped else without_groups(items)
    assert read(selected) == [expected[row] for row in chosen]
    assert len(selected) == len(chosen)
    assert selected.sizes.tolist() == [len(items[row]) for row in chosen]
    assert (selected.groups is None) == (not grouped)
    assert selected.group_count == keys.group_count
    assert selected.every_group == keys.every_group == (0b111 if grouped else 1)


@given(ITEMS, st.booleans())
def test_sorted_keys_rise_within_each_item_and_keep_their_groups(items, grouped):
    keys = made(items, grouped=grouped).sorted_within()
    expected = items if grouped else without_groups(items)
    assert [[key for key, _ in item] for item in read(keys)] == [
        sorted(key for key, _ in item) for item in expected
    ]
    assert [sorted(item) for item in read(keys)] == [sorted(item) for item in expected]
    assert keys.every_group == (0b111 if grouped else 1)


@given(st.lists(ITEMS, min_size=1, max_size=4), st.booleans())
def test_keys_of_several_batches_follow_each_other(batches, grouped):
    keys = BucketKeys.concatenated([made(items, grouped=grouped) for items in batches])
    items = [item for batch in batches for item in batch]
    assert read(keys) == (items if grouped else without_groups(items))
    assert (keys.groups is None) == (not grouped)
    assert keys.every_group == (0b111 if grouped else 1)


@pytest.mark.parametrize("bands", [1, 4])
@pytest.mark.parametrize("has_keys", [[True] * 3, [True, False, True], [False] * 3, []])
def test_the_rows_of_a_matrix_are_keys_of_the_items_that_have_any(has_keys, bands):
    matrix = np.arange(bands * len(has_keys), dtype=np.uint64).reshape(-1, bands)
    keys = BucketKeys.of_matrix(matrix, np.array(has_keys, np.bool_))
    assert read(keys) == [
        [(bands * row + band, 0) for band in range(bands)] if present else []
        for row, present in enumerate(has_keys)
    ]
    assert keys.groups is None
    assert keys.every_group == 1


@pytest.mark.parametrize("items", [0, 1, 5])
def test_items_may_have_no_keys(items):
    assert read(BucketKeys.none(items)) == [[]] * items


@given(ITEMS, st.integers(0, 3), st.sampled_from([np.int64, np.uint32]), st.data())
def test_each_key_is_of_the_item_that_it_was_made_of(items, each, kind, data):
    if data.draw(st.booleans()):  # as many keys of each, where the owner is a quotient
        items = [[(key, 0)] * each for key in range(len(items))]
    owners = [row for row, item in enumerate(items) for _ in item]
    places = data.draw(st.permutations(range(len(owners))))
    found = made(items, grouped=False).owners(np.array(places, kind))
    assert found.tolist() == [owners[place] for place in places]
    assert found.dtype == np.int64

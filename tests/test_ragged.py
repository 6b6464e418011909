"""Byte strings in one buffer: a sequence like any other, whose slices copy nothing."""

from __future__ import annotations

import numpy as np
import pytest

from simdb.kinds.base import joined, lengths_of
from simdb.ragged import ByteStrings, as_bytes, cut_out, distinct_of, distinct_pairs

STRINGS = [b"one", b"", b"three", b"4"]


@pytest.fixture
def strings():
    return ByteStrings(*joined(STRINGS))


def test_a_column_of_strings_is_a_sequence_of_them(strings):
    assert len(strings) == 4
    assert list(strings) == STRINGS
    assert [bytes(strings[place]) for place in (0, 1, -1)] == [b"one", b"", b"4"]
    assert b"three" in strings
    assert lengths_of(strings).tolist() == lengths_of(STRINGS).tolist() == [3, 0, 5, 1]
    with pytest.raises(IndexError):
        strings[4]


def test_rows_of_an_array_are_strings_of_one_width():
    rows = ByteStrings.of_rows(np.array([[1, 2], [3, 4]], "<u2"))
    assert list(rows) == as_bytes(rows) == [b"\1\0\2\0", b"\3\0\4\0"]
    assert rows[1].readonly


@pytest.mark.parametrize("some", [slice(4), slice(0), slice(0, 1), slice(1, 2)])
def test_strings_become_objects_whether_they_are_of_one_width_or_not(strings, some):
    found = as_bytes(strings[some])
    assert found == STRINGS[some]
    assert all(type(one) is bytes for one in found)


@pytest.mark.parametrize("some", [slice(1, 3), slice(2), slice(2, None), slice(3, 1), slice(9, 12)])
def test_a_slice_is_a_column_of_the_same_bytes(strings, some):
    cut = strings[some]
    assert list(cut) == STRINGS[some]
    assert cut.offsets[0] == 0
    assert cut.values.size == cut.offsets[-1]
    assert not cut.values.size or np.shares_memory(cut.values, strings.values)


def test_a_slice_may_skip_strings_and_go_backwards(strings):
    assert list(strings[::-2]) == STRINGS[::-2]
    assert list(strings[1::2]) == STRINGS[1::2]


def test_strings_are_joined_once(strings):
    assert np.shares_memory(joined(strings)[0], strings.values)
    assert [part.tolist() for part in joined([])] == [[], [0]]


def test_strings_are_cut_out_of_bytes(strings):
    begins, ends = np.array([4, 0, 2, 2]), np.array([9, 3, 2, 4])
    found = cut_out(np.frombuffer(b"onethree4", np.uint8), begins, ends)
    assert list(found) == [b"hree4", b"one", b"", b"et"]


@pytest.mark.parametrize("numbers", [[], [7], [5, 2, 5, 9, 0], [8, 6, 7, 6], [2**32 - 1, 3, 3]])
def test_distinct_numbers_are_those_of_numpy(numbers):
    given = np.array(numbers, np.uint32)
    distinct, places = distinct_of(given)
    expected = np.unique(given, return_inverse=True)
    assert distinct.tolist() == expected[0].tolist()
    assert places.tolist() == expected[1].tolist()
    assert distinct.dtype == np.uint32


def test_distinct_pairs_are_those_of_a_set():
    left, right = np.array([3, 2**32 - 1, 3, 0, 3], np.uint32), np.array([1, 0, 1, 7, 0], np.uint32)
    ones, others = distinct_pairs(left, right)
    assert list(zip(ones.tolist(), others.tolist(), strict=True)) == sorted(
        {*zip(left.tolist(), right.tolist(), strict=True)}
    )
    assert ones.dtype == others.dtype == np.uint32

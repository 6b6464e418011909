"""Edit distances: the axioms, slow twins, and pairs at once."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.kinds.distances import (
    alignment_distance,
    damerau_distance,
    edit_distance,
    levenshtein_distance,
    longest_common_subsequence,
    pair_common_lengths,
    pair_distances,
)

METRICS = {
    "edit": edit_distance,
    "levenshtein": levenshtein_distance,
    "damerau": damerau_distance,
}
DISTANCES = {**METRICS, "alignment": alignment_distance}
words = st.text(alphabet="abcé🙂", max_size=7)


def slow_distance(left: str, right: str, *, mutations: bool, transpositions: bool) -> int:
    """The recursion of the textbooks: the last letters are equal, or one was edited."""

    @cache
    def of(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        ways = [of(i - 1, j) + 1, of(i, j - 1) + 1]
        if left[i - 1] == right[j - 1]:
            ways.append(of(i - 1, j - 1))
        elif mutations:
            ways.append(of(i - 1, j - 1) + 1)
        swapped = i > 1 and j > 1 and left[i - 2 : i] == right[j - 1] + right[j - 2]
        if transpositions and swapped:
            ways.append(of(i - 2, j - 2) + 1)
        return min(ways)

    return of(len(left), len(right))


@given(words, words)
def test_distances_are_those_of_the_slow_recursion(left, right):
    slow = [
        slow_distance(left, right, mutations=mutations, transpositions=transpositions)
        for mutations, transpositions in ((False, False), (True, False), (True, True))
    ]
    assert edit_distance(left, right) == slow[0]
    assert longest_common_subsequence(left, right) == (len(left) + len(right) - slow[0]) // 2
    assert levenshtein_distance(left, right) == slow[1]
    assert alignment_distance(left, right) == slow[2]
    assert damerau_distance(left, right) <= slow[2]


@pytest.mark.parametrize("distance", METRICS.values(), ids=METRICS)
@given(words, words, words)
def test_the_four_axioms_of_a_distance_measure_hold(distance, one, other, third):
    assert distance(one, other) >= 0
    assert (distance(one, other) == 0) == (one == other)
    assert distance(one, other) == distance(other, one)
    assert distance(one, third) <= distance(one, other) + distance(other, third)


def test_the_alignment_distance_breaks_the_triangle_inequality():
    assert alignment_distance("ca", "abc") == 3
    assert alignment_distance("ca", "ac") + alignment_distance("ac", "abc") == 2
    assert damerau_distance("ca", "abc") == 2


@given(st.lists(st.tuples(words, words)), st.sampled_from(sorted(DISTANCES)), st.integers(0, 8))
def test_pairs_at_once_have_the_distances_of_single_pairs(pairs, distance, cutoff):
    left, right = [one for one, _ in pairs], [other for _, other in pairs]
    single = [DISTANCES[distance](one, other) for one, other in pairs]
    found = pair_distances(left, right, distance=distance)
    assert found.dtype == np.int64
    assert found.tolist() == single
    cut = pair_distances(left, right, distance=distance, cutoff=cutoff)
    assert cut.tolist() == [min(apart, cutoff + 1) for apart in single]
    common = pair_common_lengths(left, right)
    assert common.tolist() == [longest_common_subsequence(*pair) for pair in pairs]


def test_lists_of_different_length_are_no_pairs():
    with pytest.raises(ValueError, match="2 strings cannot be paired with 1"):
        pair_distances(["a", "b"], ["c"])

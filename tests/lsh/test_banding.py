"""Bucket keys, the comparison of signatures, and the rows a similar pair must share."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb import kernels
from simdb.lsh.family import FILTER_LOSS, MinHash, minimum_matches
from simdb.lsh.planning import Plan
from tests.lsh.test_sketching import random_pairs
from tests.support import oracle

SECRET = bytes(range(32))
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"

pytestmark = pytest.mark.usefixtures("wrap_around")


@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_bucket_keys_are_those_of_the_slow_version(bands, rows, data):
    row = st.sampled_from([0, 1, 2, 65535])
    signature = st.lists(row, min_size=bands * rows, max_size=bands * rows)
    signatures = data.draw(st.lists(signature, min_size=1, max_size=4))
    keys = MinHash("fast", bands, rows, SECRET).band_keys(np.array(signatures, np.uint16))
    assert keys.dtype == np.uint64
    assert keys.tolist() == [
        [oracle.bucket_key(b, s[b * rows : (b + 1) * rows], SECRET) for b in range(bands)]
        for s in signatures
    ]


@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_keys_are_equal_exactly_where_the_rows_of_a_band_are(bands, rows, data):
    row = st.integers(0, 1)
    signature = st.lists(row, min_size=bands * rows, max_size=bands * rows)
    left, right = data.draw(signature), data.draw(signature)
    keys = MinHash("fast", bands, rows, SECRET).band_keys(np.array([left, right], np.uint16))
    by_rows = [
        left[band * rows : (band + 1) * rows] == right[band * rows : (band + 1) * rows]
        for band in range(bands)
    ]
    assert (keys[0] == keys[1]).tolist() == by_rows
    sides = np.array([left], np.uint16), np.array([right], np.uint16)
    matching = kernels.sketches.matching_rows(*sides)
    assert matching.tolist() == [sum(i == j for i, j in zip(left, right, strict=True))]


def test_equal_rows_in_different_bands_have_different_keys():
    keys = MinHash("fast", 8, 3, SECRET).band_keys(np.full((1, 24), 7, np.uint16))
    assert len(set(keys[0].tolist())) == 8


def test_other_secrets_give_other_keys():
    signatures = np.arange(24, dtype=np.uint16).reshape(1, 24)
    keys = [MinHash("fast", 8, 3, secret).band_keys(signatures) for secret in (b"one", b"other")]
    assert not (keys[0] == keys[1]).any()


def test_bucket_keys_never_change():
    """Stored buckets depend on them: a change here is a change of the file format."""
    keys = MinHash("fast", 2, 2, SECRET).band_keys(np.array([[1, 2, 3, 4]], np.uint16))
    assert [f"{key:016x}" for key in keys[0].tolist()] == ["9b8e950b197e7585", "d71fccae6f720f3d"]


def test_signatures_of_another_length_are_refused():
    for shape in [(1, 5), (1, 7), (6,), (1, 6, 1)]:
        with pytest.raises(ValueError, match=f"shape {re.escape(str(shape))} do not have 6 words"):
            MinHash("fast", 2, 3, SECRET).band_keys(np.zeros(shape, np.uint16))


@pytest.mark.skipif(INTERPRETED, reason="needs compiled kernels")
@pytest.mark.parametrize("scheme", ["fast", "classical"])
@pytest.mark.parametrize(("size", "similarity"), [(5, 0.5), (100, 0.6), (100, 0.7), (400, 0.65)])
def test_pairs_share_a_bucket_as_often_as_the_s_curve_says(scheme, size, similarity):
    """Within 4.5 standard errors, over 40 secrets of 50 pairs each."""
    plan = Plan(Fraction(4, 5), 16, 6)
    generator = np.random.default_rng([size, scheme == "fast"])
    found = []
    for number in range(40):
        secret = bytes([number])
        sets, jaccard = random_pairs(generator, size, similarity, 50)
        sketches = MinHash(scheme, 1, plan.signature_rows, secret).sign(sets)
        keys = MinHash("fast", plan.bands, plan.rows, secret).band_keys(sketches)
        found.append((keys[0::2] == keys[1::2]).any(axis=1))
    expected = 1 - (1 - float(jaccard) ** 6) ** 16
    error = sqrt(expected * (1 - expected) / 2000)
    assert abs(np.concatenate(found).mean() - expected) <= 4.5 * error


# ---------------------------------------------------------------------------------- the row filter


@given(
    st.fractions(Fraction(1, 100), 1, max_denominator=100),
    st.integers(1, 60),
    st.fractions(Fraction(1, 10**6), Fraction(1, 2), max_denominator=10**6),
)
def test_minimum_matches_is_the_largest_with_that_loss(threshold, rows, loss):
    matches = minimum_matches(threshold, rows, loss)
    assert oracle.binomial_tail(rows, matches, threshold) <= loss
    assert matches == rows or oracle.binomial_tail(rows, matches + 1, threshold) > loss


def test_the_tail_of_few_rows_is_summed_exactly():
    # At 1/2, none of two rows is equal with probability 1/4, at most one with 3/4.
    for loss, least in [("1/5", 0), ("1/4", 1), ("1/2", 1), ("3/4", 2), ("4/5", 2)]:
        assert minimum_matches(Fraction(1, 2), 2, Fraction(loss)) == least


@given(st.fractions(Fraction(1, 2**40), 1), st.integers(1, 40))
def test_of_a_threshold_of_many_digits_no_more_is_asked_than_of_itself(threshold, rows):
    precise = threshold - threshold / 3**60  # far from what 32 bits can tell
    matches = minimum_matches(precise, rows)
    assert matches <= minimum_matches(threshold, rows)
    assert oracle.binomial_tail(rows, matches, precise) <= FILTER_LOSS
    rounded = Fraction(int(precise * 2**32), 2**32)
    assert matches == rows or oracle.binomial_tail(rows, matches + 1, rounded) > FILTER_LOSS


def test_a_threshold_of_many_digits_is_rounded_to_a_lower_one():
    just_below = 1 - FILTER_LOSS - Fraction(1, 10**15)  # where one row in 10,000 is too many
    assert minimum_matches(1 - FILTER_LOSS, 1) == 1
    assert minimum_matches(just_below, 1) == 0


def test_the_tail_of_many_rows_is_summed_without_a_power_a_row():
    # By one of each part a row this took a minute.
    long = Fraction(9 * 2**9990 // 10, 2**9990)
    assert minimum_matches(long, 4096) == 3613
    assert minimum_matches(Fraction("0.7000000000000001"), 4096) == 2757


def test_identical_items_must_share_every_row():
    assert minimum_matches(Fraction(1), 96) == 96


def test_the_default_loss_is_the_stated_one():
    assert Fraction(1, 10_000) == FILTER_LOSS
    assert minimum_matches(Fraction(4, 5), 96) == minimum_matches(
        Fraction(4, 5), 96, Fraction(1, 10_000)
    )


@pytest.mark.skipif(INTERPRETED, reason="needs compiled kernels")
@pytest.mark.parametrize("scheme", ["fast", "classical"])
def test_pairs_at_the_threshold_fall_below_the_minimum_as_seldom_as_allowed(scheme):
    """A loss of 1/20 allowed: at most that and 4.5 standard errors over 2,000 pairs."""
    least = minimum_matches(Fraction(4, 5), 96, Fraction(1, 20))
    generator = np.random.default_rng(8)
    lost = []
    for number in range(40):
        sets, jaccard = random_pairs(generator, 90, 0.8, 50)
        assert jaccard == Fraction(4, 5)
        sketches = MinHash(scheme, 1, 96, bytes([number])).sign(sets)
        matching = kernels.sketches.matching_rows(sketches[0::2].copy(), sketches[1::2].copy())
        lost.append(matching < least)
    assert np.concatenate(lost).mean() <= 0.05 + 4.5 * sqrt(0.05 * 0.95 / 2000)

"""What a criterion asks of sizes, overlaps and prefixes, against all sizes and overlaps tried."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.thresholds import Threshold

THRESHOLDS = [Fraction(1), Fraction(9, 10), Fraction(4, 5), Fraction(2, 3), Fraction(1, 2)]
PROBES = range(1, 11)
SIZES = range(1, 42)  # and none above is similar to a probe: 10 / (1/2)^2 = 40
CASES = [(measure, threshold) for measure in SetSimilarity for threshold in THRESHOLDS]


def reaches(
    measure: SetSimilarity, threshold: Fraction, overlap: int, probe: int, stored: int
) -> bool:
    """Tell by the definition whether two sets are similar enough; a cosine is squared."""
    least, whole = threshold.as_integer_ratio()
    if measure is SetSimilarity.JACCARD:
        return overlap * whole >= least * (probe + stored - overlap)
    if measure is SetSimilarity.DICE:
        return 2 * overlap * whole >= least * (probe + stored)
    if measure is SetSimilarity.COSINE:
        return (overlap * whole) ** 2 >= least**2 * probe * stored
    if measure is SetSimilarity.STORED_IN_PROBE:
        return overlap * whole >= least * stored
    if measure is SetSimilarity.OVERLAP:
        return overlap * whole >= least * min(probe, stored)
    return overlap * whole >= least * probe


def least_overlap(measure: SetSimilarity, threshold: Fraction, probe: int, stored: int) -> int:
    return next(k for k in count(1) if reaches(measure, threshold, k, probe, stored))


def can_be_similar(measure: SetSimilarity, threshold: Fraction, probe: int, stored: int) -> bool:
    return reaches(measure, threshold, min(probe, stored), probe, stored)


@pytest.mark.parametrize(("measure", "threshold"), CASES)
def test_the_needed_overlap_is_the_least_that_reaches_the_threshold(measure, threshold):
    criterion = Criterion(measure, Threshold(threshold))
    for probe in PROBES:
        expected = [least_overlap(measure, threshold, probe, stored) for stored in SIZES]
        assert [criterion.needed_overlap(probe, stored) for stored in SIZES] == expected
        many = criterion.needed_overlaps(probe, np.array(SIZES, np.int64))
        assert many.dtype == np.int64
        assert many.tolist() == expected


@pytest.mark.parametrize("measure", SetSimilarity)
def test_sets_without_symbols_need_an_overlap_that_they_cannot_have(measure):
    criterion = Criterion(measure, Threshold.parse("1/2"))
    assert criterion.needed_overlap(0, 0) == 1
    assert criterion.needed_overlaps(0, np.zeros(2, np.int64)).tolist() == [1, 1]
    assert criterion.smallest_size(0) == 1


@pytest.mark.parametrize(("measure", "threshold"), CASES)
def test_sizes_and_prefixes_are_exactly_what_similar_sets_make_necessary(measure, threshold):
    criterion = Criterion(measure, Threshold(threshold))
    similar = {
        (probe, stored): least_overlap(measure, threshold, probe, stored)
        for probe in SIZES
        for stored in SIZES
        if min(probe, stored) <= 10 and can_be_similar(measure, threshold, probe, stored)
    }
    for probe in PROBES:
        partners = [stored for stored in SIZES if (probe, stored) in similar]
        assert criterion.smallest_size(probe) == partners[0]
        unbounded = measure in (SetSimilarity.PROBE_IN_STORED, SetSimilarity.OVERLAP)
        assert criterion.largest_size(probe) == (None if unbounded else partners[-1])
        overlaps = [similar[probe, stored] for stored in partners]
        assert criterion.probe_prefix(probe) == probe - min(overlaps) + 1
    stored_sizes = np.array(PROBES, np.int64)
    assert criterion.stored_prefixes(stored_sizes).tolist() == [
        stored - min(similar[probe, stored] for probe in SIZES if (probe, stored) in similar) + 1
        for stored in PROBES
    ]


@pytest.mark.parametrize(("measure", "threshold"), CASES)
@pytest.mark.parametrize("largest_stored", [0, 3, 7, 100])
def test_the_table_of_bounds_holds_the_same_for_the_sizes_that_are_stored(
    measure, threshold, largest_stored
):
    criterion = Criterion(measure, Threshold(threshold))
    for probe in (1, 7, 12):
        bounds = criterion.bounds(probe, largest_stored)
        sizes = [
            stored
            for stored in range(1, largest_stored + 1)
            if can_be_similar(measure, threshold, probe, stored)
        ]
        assert (bounds.smallest, bounds.size) == (criterion.smallest_size(probe), probe)
        assert bounds.prefix == criterion.probe_prefix(probe)
        assert bounds.needed.tolist() == [criterion.needed_overlap(probe, size) for size in sizes]
        assert bounds.prefixes.tolist() == [
            int(criterion.stored_prefixes(np.array([size]))[0]) for size in sizes
        ]


def test_the_highest_floor_that_serves_each_measure():
    highest = {
        SetSimilarity.JACCARD: Fraction(4, 5),
        SetSimilarity.DICE: Fraction(2, 3),
        SetSimilarity.COSINE: Fraction(16, 25),
        SetSimilarity.STORED_IN_PROBE: Fraction(4, 5),
        SetSimilarity.PROBE_IN_STORED: None,
        SetSimilarity.OVERLAP: None,
    }
    for measure, floor in highest.items():
        criterion = Criterion(measure, Threshold.parse("4/5"))
        assert criterion.floor == (None if floor is None else Threshold(floor))


def test_a_criterion_stays_what_it_is():
    criterion = Criterion(SetSimilarity.DICE, Threshold.parse("4/5"))
    with pytest.raises(AttributeError):
        criterion.measure = SetSimilarity.COSINE  # type: ignore[misc]


def test_the_names_of_measures_never_change():
    """They are written in programs and in commands."""
    names = ["jaccard", "dice", "cosine", "stored-in-probe", "probe-in-stored", "overlap"]
    assert [str(measure) for measure in SetSimilarity] == names


def test_cosines_that_are_equal_are_equal_to_the_last_bit() -> None:
    sizes = np.arange(1, 60, dtype=np.int64)
    for size in range(1, 60):
        equal = SetSimilarity.COSINE.values(sizes, sizes, sizes)
        assert equal.tolist() == [1.0] * sizes.size
        for overlap in range(1, size + 1):
            overlaps = np.full(sizes.size, overlap, np.int64)
            values = SetSimilarity.COSINE.values(overlaps, size, sizes).tolist()
            exact = [Fraction(overlap**2, size * other) for other in sizes.tolist()]
            assert values == [math.sqrt(square) for square in exact]
    largest = np.array([2**25 - 1], np.int64)
    assert SetSimilarity.COSINE.values(largest - 1, largest, largest) == float(
        Fraction(2**25 - 2, 2**25 - 1)
    )

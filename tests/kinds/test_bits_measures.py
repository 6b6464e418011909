"""Hamming distance and Tanimoto similarity of packed vectors, against lists of bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.exact.thresholds import Threshold
from simdb.kernels import bits as kernels
from simdb.kinds import Bits
from simdb.kinds.bits import BitsItems, BitsMeasure
from simdb.kinds.distances import hamming_distance
from tests.support.oracle import jaccard

LENGTH = 150
HAMMING, TANIMOTO = BitsMeasure("hamming"), BitsMeasure("tanimoto")

sparse = st.integers(0, 2**LENGTH - 1) | st.integers(0, 2**5 - 1) | st.integers(0, 2)
collections = st.lists(sparse, min_size=1, max_size=8)
# Quotients of small numbers, so that values lie exactly on the threshold.
thresholds = st.fractions(min_value=Fraction(1, 12), max_value=1, max_denominator=12)


def texts(numbers: list[int]) -> list[str]:
    return [f"{number:0{LENGTH}b}" for number in numbers]


def features(numbers: list[int]) -> npt.NDArray[np.uint64]:
    items = BitsItems(Bits(LENGTH), b"")
    return items.features([items.encode(number) for number in numbers])


def needed_bits(threshold: Fraction) -> npt.NDArray[np.int64]:
    return Threshold(threshold).needed_overlap_table(2 * LENGTH)


def positions(text: str) -> set[int]:
    return {place for place, bit in enumerate(text) if bit == "1"}


def tanimoto(left: str, right: str) -> tuple[int, int]:
    one, other = positions(left), positions(right)
    return len(one & other), len(one | other)


@given(collections, st.data())
def test_pairs_and_probes_are_compared_bit_by_bit(numbers, data):
    vectors, words = texts(numbers), features(numbers)
    rows = st.lists(st.integers(0, len(numbers) - 1), min_size=3, max_size=3)
    left, right = data.draw(rows), data.draw(rows)
    pairs = [(vectors[one], vectors[other]) for one, other in zip(left, right, strict=True)]
    compared = HAMMING.compare_pairs(words, np.array(left), np.array(right))
    assert compared.numerators.dtype == compared.denominators.dtype == np.int64
    assert compared.numerators.tolist() == [hamming_distance(*pair) for pair in pairs]
    assert compared.denominators.tolist() == [1, 1, 1]
    compared = TANIMOTO.compare_pairs(words, np.array(left), np.array(right))
    assert compared.numerators.dtype == compared.denominators.dtype == np.int64
    assert list(zip(*map(np.ndarray.tolist, compared), strict=True)) == [
        tanimoto(*pair) for pair in pairs
    ]
    probe = words[left[0]][np.newaxis]
    assert HAMMING.compare_probe(probe, words).numerators.tolist() == [
        hamming_distance(vectors[left[0]], vector) for vector in vectors
    ]
    one = TANIMOTO.compare_probe(probe, words)
    assert one.values().tolist() == [
        float(jaccard(positions(vectors[left[0]]), positions(vector))) for vector in vectors
    ]


@given(collections, st.integers(-1, LENGTH))
def test_a_scan_finds_exactly_the_vectors_within_a_hamming_distance(numbers, limit):
    vectors, words = texts(numbers), features(numbers)
    rows, compared = HAMMING.scan(words[:1], words, limit)
    distances = [hamming_distance(vectors[0], vector) for vector in vectors]
    assert rows.tolist() == [row for row, each in enumerate(distances) if each <= limit]
    assert compared.numerators.tolist() == [each for each in distances if each <= limit]
    assert compared.denominators.tolist() == [1] * rows.size


@given(collections, thresholds)
def test_a_scan_finds_exactly_the_vectors_of_a_tanimoto_similarity(numbers, threshold):
    vectors, words = texts(numbers), features(numbers)
    rows, compared = TANIMOTO.scan_tanimoto(words[:1], words, needed_bits(threshold))
    expected = [
        (row, *tanimoto(vectors[0], vector))
        for row, vector in enumerate(vectors)
        if jaccard(positions(vectors[0]), positions(vector)) >= threshold
    ]
    assert list(zip(rows.tolist(), *map(np.ndarray.tolist, compared), strict=True)) == expected


def test_every_width_of_words_is_counted_whole():
    """Vectors of one to forty words, which instructions of several words split differently."""
    generator = np.random.default_rng(0)
    for words in range(1, 41):
        vectors = generator.integers(0, 2**64, (3, words), dtype=np.uint64)
        numbers = [int.from_bytes(vector.astype("<u8").tobytes(), "little") for vector in vectors]
        _, distances = kernels.scan_hamming(vectors[0], vectors, 64 * words)
        assert distances.tolist() == [(number ^ numbers[0]).bit_count() for number in numbers]
        assert kernels.counts_of_rows(vectors).tolist() == [n.bit_count() for n in numbers]


def test_a_vector_of_zeros_is_similar_to_nothing_and_equal_to_itself():
    words = features([0, 0, 7])
    assert TANIMOTO.compare_probe(words[:1], words).values().tolist() == [0, 0, 0]
    assert TANIMOTO.scan_tanimoto(words[:1], words, needed_bits(Fraction(1, 10**9)))[0].size == 0
    assert HAMMING.compare_probe(words[:1], words).values().tolist() == [0, 0, 3]


def test_the_length_filter_reads_no_vector_that_it_drops():
    """A vector whose stored count says too few bits is not looked at, whatever its bits are."""
    words = features([2**20 - 1] * 3)
    needed = needed_bits(Fraction(1, 2))
    counts = np.array([20, 9, 41])
    assert kernels.scan_tanimoto(words[0], words, counts, needed)[0].tolist() == [0]
    counts = np.array([20, 10, 40])
    assert kernels.scan_tanimoto(words[0], words, counts, needed)[0].size == 3


@pytest.mark.parametrize("threshold", [Fraction(1, 2), Fraction(3, 7), Fraction(1, 9), Fraction(1)])
def test_the_length_filter_passes_what_can_be_similar_and_nothing_else(threshold):
    """Every vector is the probe itself, so that only the stored counts tell them apart."""
    counts = np.arange(61)
    needed = needed_bits(threshold)
    for size in range(25):
        words = features([2**size - 1] * 61)
        expected = [
            count
            for count in range(61)
            if size and count and Fraction(min(size, count), max(size, count)) >= threshold
        ]
        assert kernels.scan_tanimoto(words[0], words, counts, needed)[0].tolist() == expected

"""Hamming distance and Tanimoto similarity of packed vectors, against lists of bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdb
from simdb.exact.thresholds import Threshold
from simdb.kernels import bits as kernels
from simdb.kinds import Bits
from simdb.kinds.bits import BitsItems, BitsMeasure, ByCount
from simdb.kinds.distances import hamming_distance
from simdb.ragged import Pieces, read_only
from tests.support.similarities import jaccard

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
    rows, compared = HAMMING.scan(words[0], words, limit)
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
        vectors = read_only(generator.integers(0, 2**64, (3, words), dtype=np.uint64))
        numbers = [int.from_bytes(vector.astype("<u8").tobytes(), "little") for vector in vectors]
        _, distances = kernels.scan_hamming(vectors[0], *Pieces.of(vectors), 64 * words, 0)
        assert distances.tolist() == [(number ^ numbers[0]).bit_count() for number in numbers]
        assert kernels.counts_of_rows(vectors).tolist() == [n.bit_count() for n in numbers]


def test_a_vector_of_zeros_is_similar_to_nothing_and_equal_to_itself():
    words = features([0, 0, 7])
    assert TANIMOTO.compare_probe(words[:1], words).values().tolist() == [0, 0, 0]
    assert TANIMOTO.scan_tanimoto(words[:1], words, needed_bits(Fraction(1, 10**9)))[0].size == 0
    assert HAMMING.compare_probe(words[:1], words).values().tolist() == [0, 0, 3]


@given(collections, thresholds)
def test_vectors_arranged_by_their_counts_are_found_as_they_are(numbers, threshold):
    words = features(numbers)
    for probe in words:
        find = TANIMOTO.finder(probe[np.newaxis], Threshold(threshold))
        plain, arranged = find(words), find(TANIMOTO.arranged(words))
        assert plain[0].tolist() == arranged[0].tolist()
        assert [*map(np.ndarray.tolist, plain[1])] == [*map(np.ndarray.tolist, arranged[1])]


@pytest.mark.parametrize("threshold", [Fraction(1, 2), Fraction(3, 7), Fraction(1, 9), Fraction(1)])
def test_of_arranged_vectors_those_of_fitting_counts_are_read_and_no_other(threshold):
    """Every vector is the probe itself, so that only the counts tell them apart."""
    for size in range(1, 25):
        words = features([2**size - 1] * 61)
        counts = np.arange(61)
        find = TANIMOTO.finder(words[:1], Threshold(threshold))
        expected = [
            count
            for count in range(1, 61)
            if Fraction(min(size, count), max(size, count)) >= threshold
        ]
        columns = np.ascontiguousarray(words.T)
        assert find(ByCount(columns, counts, counts))[0].tolist() == expected


@pytest.mark.parametrize("probes", [3, 20])
def test_searches_of_a_store_are_the_same_at_once_and_one_by_one(probes, tmp_path):
    """Beyond a few probes the slices of a scan are arranged; deleted items stay out of both."""
    generator = np.random.default_rng(3)
    rows = [row.tobytes() for row in np.packbits(generator.random((60, 96)) < 0.4, axis=1)]
    with simdb.open(tmp_path / "s.simdb") as db:
        alike = db.collection("c", simdb.Bits(96, "tanimoto"), threshold=0.3)
        alike.add_many(enumerate(rows))
        alike.delete(7)
        together = alike.search_many(rows[:probes], guarantee="exact")
        alone = [alike.search(row, guarantee="exact") for row in rows[:probes]]
        assert together == alone
        assert any(len(one) > 3 for one in alone)
        assert {one.candidates for one in together} == {59}


@pytest.mark.parametrize("threshold", [Fraction(9, 10), Fraction(1, 2)])
def test_what_has_too_few_or_too_many_bits_is_skipped_from_the_second_search_on(
    threshold, tmp_path
):
    """Of one state of the store; after a change the first search reads everything again."""
    generator = np.random.default_rng(4)
    shares = np.linspace(0.02, 0.98, 400)[:, np.newaxis]
    packed = np.packbits(generator.random((400, 256)) < shares, axis=1)
    rows = [int.from_bytes(row.tobytes(), "big") for row in packed]
    probe = rows[200]

    def fitting() -> int:
        sizes = [(row.bit_count(), probe.bit_count()) for row in rows]
        return sum(Fraction(min(pair), max(pair)) >= threshold for pair in sizes)

    with simdb.open(tmp_path / "s.simdb") as db:
        alike = db.collection("c", simdb.Bits(256, "tanimoto"))
        alike.add_many(enumerate(rows))
        for _ in range(2):
            expected = {
                key
                for key, row in enumerate(rows)
                if Fraction((row & probe).bit_count(), (row | probe).bit_count()) >= threshold
            }
            for looked_at in (len(rows), fitting(), fitting()):
                asked = {"threshold": threshold, "guarantee": "exact"}
                told = alike.explain("search", probe, run=True, **asked)
                assert told.chosen.method == "scan"
                assert told.work is not None
                assert told.work["looked_at"] == looked_at
                assert {match.key for match in alike.search(probe, **asked)} == expected
            rows.append(probe)
            alike.add(len(rows) - 1, probe)

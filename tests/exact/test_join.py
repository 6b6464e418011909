"""Exact joins and searches equal brute force in fractions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from simdb import kernels
from simdb.exact import joins
from simdb.exact.joins import PairColumns
from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.work import Work
from tests.support.exact_oracle import (
    THRESHOLDS,
    adversarial_sets,
    columns,
    join_work,
    may_meet,
    similar_across,
    similar_pairs,
)
from tests.support.exact_stores import slow_search, some_order
from tests.support.similarities import jaccard

pytestmark = pytest.mark.usefixtures("wrap_around")


def collected(batches: Iterable[PairColumns]) -> dict[tuple[int, int], Fraction]:
    """Gather pairs with their similarities, and fail if one comes twice."""
    found: dict[tuple[int, int], Fraction] = {}
    for batch in batches:
        assert isinstance(batch, PairColumns)
        assert len(batch) > 0
        rows = zip(
            batch.left.tolist(),
            batch.right.tolist(),
            batch.overlaps.tolist(),
            batch.unions.tolist(),
            batch.similarities.tolist(),
            strict=True,
        )
        for left, right, overlap, union, rounded in rows:
            assert (left, right) not in found
            assert rounded == overlap / union
            found[left, right] = Fraction(overlap, union)
    return found


def check_self_join(generator: random.Random, threshold: Fraction) -> int:
    sets = adversarial_sets(generator, threshold)
    arranged = some_order(generator, sets).arrange(*columns(sets))
    chunk = generator.choice([1, 2, 7, 1000])
    expected = similar_pairs(sets, threshold)
    with mock.patch.object(joins, "CHUNK", chunk):
        assert collected(joins.pairs(arranged, Threshold(threshold))) == expected
    return sum(exact == threshold for exact in expected.values())


def check_two_sided_join(generator: random.Random, threshold: Fraction) -> None:
    left, right = adversarial_sets(generator, threshold), adversarial_sets(generator, threshold)
    right += generator.sample(left, len(left) // 2)
    order = some_order(generator, left + right)
    arranged = order.arrange(*columns(left)), order.arrange(*columns(right))
    chunk = generator.choice([1, 2, 7, 1000])
    expected = similar_across(left, right, threshold)
    with mock.patch.object(joins, "CHUNK", chunk):
        assert collected(joins.join(*arranged, Threshold(threshold))) == expected


def check_search(generator: random.Random, threshold: Fraction) -> None:
    sets = [one for one in adversarial_sets(generator, threshold) if one]
    order = some_order(generator, sets)
    arranged = order.arrange(*columns(sets))
    place = generator.randrange(len(sets))
    probe = arranged.values[arranged.offsets[place] : arranged.offsets[place + 1]].tolist()
    criterion = Criterion(SetSimilarity.JACCARD, Threshold(threshold))
    floor = generator.choice([threshold, threshold / 2, threshold * Fraction(3, 4)])
    candidates = slow_search(arranged, probe, criterion, Threshold(floor))
    similar = {k for k, one in enumerate(sets) if jaccard(one, sets[place]) >= threshold}
    assert similar <= candidates


def check_cases(seed: int, cases: int) -> None:
    generator = random.Random(seed)
    on_threshold = 0
    for case in range(cases):
        threshold = THRESHOLDS[case % len(THRESHOLDS)]
        on_threshold += check_self_join(generator, threshold)
        check_two_sided_join(generator, threshold)
        check_search(generator, threshold)
    assert on_threshold > cases


def test_joins_and_searches_equal_brute_force():
    check_cases(39, 50)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_joins_and_searches_equal_brute_force_in_very_many_cases(seed):
    check_cases(1000 + seed, 10_000)


@pytest.mark.parametrize("threshold", [Fraction(1, 2), Fraction(4, 5), Fraction(1)], ids=str)
def test_joins_do_the_work_that_the_bounds_leave_and_no_more(threshold):
    generator = random.Random(8)
    sets = [one for _ in range(15) for one in adversarial_sets(generator, threshold)]
    arranged = SymbolOrder.from_sample(columns(sets)[0]).arrange(*columns(sets))
    keys = [arranged.values[a:b].tolist() for a, b in itertools.pairwise(arranged.offsets)]
    counters = Work()
    pairs = list(joins.pairs(arranged, Threshold(threshold), work=counters))
    expected = join_work(keys, threshold)
    assert pairs
    assert vars_of(counters) == expected
    # Each leaves less than the one before: lengths and prefixes, suffixes and bitmaps, counts.
    meeting = sum(
        len(set(one) & set(other)) for one, other in itertools.combinations(map(set, keys), 2)
    )
    assert meeting > expected["looked_at"] > expected["candidates"] >= expected["compared"]


def vars_of(work: Work) -> dict[str, int]:
    names = ("postings", "looked_at", "candidates", "compared", "found")
    return {name: getattr(work, name) for name in names}


def test_the_bound_on_a_bucket_says_nothing_about_later_or_earlier_buckets():
    # Of the pairs on the threshold, many fail in some later bucket than their first common one.
    generator = random.Random(9)
    threshold = Threshold(Fraction(3, 5))
    failed = 0
    for _ in range(100):
        sets = adversarial_sets(generator, threshold.fraction)
        for one, other in similar_pairs(sets, threshold.fraction):
            left, right = sorted(sets[one]), sorted(sets[other])
            places = [(left.index(x) + 1, right.index(x) + 1) for x in left if x in sets[other]]
            passed = [may_meet(threshold, i, len(left) - i, j, len(right) - j) for i, j in places]
            assert passed[0]
            failed += not all(passed)
    assert failed > 30


def test_buckets_divided_among_workers_give_each_pair_once():
    generator = random.Random(10)
    threshold = Threshold(Fraction(7, 10))
    sets = [one for _ in range(20) for one in adversarial_sets(generator, threshold.fraction)]
    distinct = {frozenset(one) for one in sets if one}
    sets = [set(one) for one in sorted(distinct, key=lambda one: (len(one), sorted(one)))]
    arranged = SymbolOrder().arrange(*columns(sets))
    postings = kernels.postings
    bitmaps = kernels.order.identical_representatives(arranged.values, arranged.offsets)[1]
    common = arranged.values, arranged.offsets[:-1], arranged.sizes
    left = postings.Sets(*common, threshold.posted_prefix_lengths(arranged.sizes), bitmaps)
    right = postings.Sets(*common, threshold.prefix_lengths(arranged.sizes), bitmaps)
    left_postings, right_postings = postings.prefix_buckets(left, right, same=True)
    largest = int(arranged.sizes.max())
    buckets = left_postings.starts.size - 1
    cuts = sorted([0, buckets, *generator.sample(range(buckets), 5)])
    found: list[tuple[int, int]] = []
    for first, stop in itertools.pairwise(cuts):
        state = postings.bucket_state(left_postings, right_postings, first)
        room = postings.Candidates(*(np.empty(5, np.uint32) for _ in range(4)))
        overlaps, counters = np.empty(5, np.int64), np.zeros(4, np.int64)
        while state[0] < stop:
            count = postings.bucket_candidates(
                left_postings,
                right_postings,
                needed=threshold.needed_overlap_table(3 * largest),
                minimum=threshold.minimum_sizes(np.arange(largest + 1)),
                same=True,
                bounded=True,
                stop=stop,
                most=generator.choice([1, 7, 2**62]),
                state=state,
                found=room,
                counters=counters,
            )
            kept = postings.verify_candidates(
                left,
                right,
                needed=threshold.needed_overlap_table(2 * largest),
                count=count,
                found=room,
                overlaps=overlaps,
                counters=counters,
            )
            found += zip(room.left[:kept].tolist(), room.right[:kept].tolist(), strict=True)
    assert len(found) == len(set(found))
    assert set(found) == set(similar_pairs(sets, threshold.fraction))


def test_postings_stand_in_buckets_by_size_with_position_and_suffix():
    sets = [{1, 2, 3}, {2, 3, 4, 5}, {1, 3, 4, 5, 6}]
    arranged = SymbolOrder().arrange(*columns(sets))
    common = kernels.postings.Sets(
        arranged.values, arranged.offsets[:-1], arranged.sizes, np.array([2, 2, 3]), arranged.values
    )
    left, right = kernels.postings.prefix_buckets(common, common, same=True)
    buckets = set()
    for bucket in range(left.starts.size - 1):
        part = slice(left.starts[bucket], left.starts[bucket + 1])
        columns_of = (left.items[part], left.positions[part], left.suffixes[part])
        buckets.add(tuple(zip(*(column.tolist() for column in columns_of), strict=True)))
    # Symbol 4 is in one prefix only and has no bucket.
    assert buckets == {((0, 1, 2), (2, 1, 4)), ((0, 2, 1), (1, 1, 3)), ((1, 2, 2), (2, 2, 3))}
    assert [column.tolist() for column in left] == [column.tolist() for column in right]


def test_identical_sets_are_one_class_until_their_pairs_are_asked_for(monkeypatch):
    monkeypatch.setattr(joins, "CHUNK", 50_000)
    sets = [{1, 2, 3}] * 2_000 + [{1, 2, 3, 4}] * 10
    arranged = SymbolOrder().arrange(*columns(sets))
    counters = Work()
    batches = joins.pairs(arranged, Threshold.parse(0.75), work=counters)
    first = next(batches)
    assert len(first) == 50_000
    total = len(first) + sum(len(batch) for batch in batches)
    assert total == 2_010 * 2_009 // 2
    assert (counters.candidates, counters.found) == (1, 1)


def test_different_sets_with_equal_digests_are_told_apart():
    def mixed(state: int, symbol: int) -> int:
        state = ((state ^ symbol) * int(kernels.order._MULTIPLIER)) % 2**64
        return state ^ (state >> 32)

    # The last symbol makes up for any difference that the symbols before it have made.
    first, third, last = 5, 6, 2**62
    other = last ^ mixed(2, first) ^ mixed(2, third)
    assert mixed(mixed(2, first), last) == mixed(mixed(2, third), other)
    sets = [{first, last}, {third, other}, {first, last}, {third, other}, {first}]
    arranged = SymbolOrder().arrange(*columns(sets))
    representatives, _ = kernels.order.identical_representatives(arranged.values, arranged.offsets)
    assert representatives.tolist() == [0, 1, 0, 1, 4]


def test_the_bitmap_of_a_set_holds_the_parities_of_its_symbols():
    arranged = SymbolOrder().arrange(*columns([{5}, {5, 6}, {5, 69}, {5, 69, 133}]))
    _, bitmaps = kernels.order.identical_representatives(arranged.values, arranged.offsets)
    assert bitmaps.tolist() == [1 << 5, (1 << 5) + (1 << 6), 0, 1 << 5]


def test_no_sets_and_empty_sets_have_no_pairs():
    threshold = Threshold.parse("1/100")
    cases: list[list[set[int]]] = [[], [set()], [set(), set()], [set(), {1}]]
    for sets in cases:
        arranged = SymbolOrder().arrange(*columns(sets))
        assert list(joins.pairs(arranged, threshold)) == []
        across = collected(joins.join(arranged, arranged, threshold))
        assert across == similar_across(sets, sets, threshold.fraction)
    nothing = ArrangedSets(np.empty(0, np.uint64), np.zeros(1, np.int64))
    some = SymbolOrder().arrange(*columns([{1, 2}]))
    assert list(joins.join(nothing, some, threshold)) == []
    assert list(joins.join(some, nothing, threshold)) == []

"""The kernels of buckets beside slow, obvious versions: pairs come out once, in any portions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simdb import kernels
from simdb.batches.meeting import are_shared, by_class
from tests.support.twins import ends_of_classes

Pairs = list[tuple[int, int]]
BANDS, ROWS = 3, 2
MOST = 7  # pairs that one call visits

pytestmark = pytest.mark.usefixtures("wrap_around")


def drawn_signatures(generator: random.Random, items: int) -> npt.NDArray[np.uint16]:
    """Signatures of few different values, so that many items share a band, or several."""
    rows = [[generator.choice([0, 1, 1, 2]) for _ in range(BANDS * ROWS)] for _ in range(items)]
    return np.array(rows, np.uint16).reshape(items, BANDS * ROWS)


def band_of(signature: Any, band: int) -> tuple[int, ...]:
    return tuple(signature[band * ROWS : (band + 1) * ROWS].tolist())


def buckets_of(signatures: npt.NDArray[np.uint16], classes: Any) -> list[tuple[int, list[int]]]:
    """Band and members of each bucket of two or more, the members by class."""
    found: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for band in range(BANDS):
        for item, signature in enumerate(signatures):
            found.setdefault((band, band_of(signature, band)), []).append(item)
    return [
        (band, sorted(members, key=lambda item: (classes[item], item)))
        for (band, _), members in found.items()
        if len(members) > 1
    ]


def ends_of(buckets: list[list[int]], classes: Any) -> npt.NDArray[np.int64]:
    starts = np.cumsum([0, *map(len, buckets)])
    members = np.array([item for bucket in buckets for item in bucket], np.int64)
    return ends_of_classes(starts, np.array(classes, np.int64)[members])


def listed(
    buckets: list[list[int]], ends: Any, *, bands: Sequence[int] = (), keys: Sequence[int] = ()
) -> Any:
    """Buckets as the kernel takes them."""
    starts = np.cumsum([0, *map(len, buckets)])
    members = np.array([item for bucket in buckets for item in bucket], np.int64)
    names = np.array(keys, np.uint64), np.array(bands, np.int32)
    return kernels.buckets.BucketMembers(starts, members, ends, *names)


def banded(signatures: npt.NDArray[np.uint16]) -> Any:
    """Items whose signatures are bands, as the kernel takes them."""
    no_keys = np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.uint8)
    return kernels.buckets.BucketItems(signatures, ROWS, *no_keys, 1)


def in_portions(room: int, count: int, listing: Any) -> tuple[Pairs, list[int]]:
    """Call a lister of pairs of so many buckets again and again until all of them are done."""
    cursor, counters = np.full(3, -1, np.int64), np.zeros(2, np.int64)
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    pairs: Pairs = []
    while cursor[0] < count:
        before = int(counters[0])
        written = listing(cursor, left, right, counters)
        assert counters[0] - before <= MOST
        pairs += list(zip(left[:written].tolist(), right[:written].tolist(), strict=True))
    return pairs, counters.tolist()


def ordered(pairs: Pairs) -> Pairs:
    return sorted((min(pair), max(pair)) for pair in pairs)


@pytest.mark.parametrize("keys", [[], [1], [1, 1], [1, 2, 2, 2, 5, 7, 7], [3, 3, 3]])
def test_the_entries_of_buckets_of_two_or_more_are_told(keys):
    shared = are_shared(np.array(keys, np.uint64))
    assert shared.tolist() == [keys.count(key) > 1 for key in keys]


@pytest.mark.parametrize("in_first_band", [False, True])
def test_the_end_of_a_class_is_where_the_next_begins_or_the_bucket_ends(in_first_band):
    classes = np.array([5, 5, 7, 7, 7, 9, 9, 9])
    starts, members = np.array([0, 3, 4, 8]), np.array([2, 0, 1, 3, 7, 4, 6, 5])
    bands = np.array([1, 2, 0], np.int32)
    given = kernels.buckets.BucketMembers(starts, members, members, np.empty(0, np.uint64), bands)
    found = by_class(given, classes, in_first_band=in_first_band)
    assert found.members.tolist() == [0, 1, 2, 3, 4, 7, 6, 5]
    assert found.ends.tolist() == [2, 2, 3, 4, 5, *([6, 7, 8] if in_first_band else [8, 8, 8])]


@pytest.mark.parametrize("room", [1, 3, 1_000])
@pytest.mark.parametrize("needed", [0, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_each_pair_that_shares_a_band_comes_out_once_if_enough_rows_agree(seed, needed, room):
    generator = random.Random(seed)
    count = [0, 2, 13, 24][seed]
    signatures = drawn_signatures(generator, count)
    classes = [generator.randrange(max(1, count - 4)) for _ in range(count)]
    buckets = buckets_of(signatures, classes)
    members = [bucket for _, bucket in buckets]
    pairs, (visited, dropped) = in_portions(
        room,
        len(members),
        lambda cursor, left, right, counters: kernels.buckets.bucket_pairs(
            listed(members, ends_of(members, classes), bands=[band for band, _ in buckets]),
            banded(signatures),
            needed,
            False,
            MOST,
            cursor,
            left,
            right,
            counters,
        ),
    )
    sharing = [
        (one, other)
        for one, other in combinations(range(count), 2)
        if classes[one] != classes[other]
        and any(
            band_of(signatures[one], band) == band_of(signatures[other], band)
            for band in range(BANDS)
        )
    ]
    agreeing = [
        (one, other)
        for one, other in sharing
        if (signatures[one] == signatures[other]).sum() >= needed
    ]
    assert ordered(pairs) == agreeing
    met = [
        ordered([pair])[0]
        for bucket in members
        for pair in combinations(bucket, 2)
        if classes[pair[0]] != classes[pair[1]]
    ]
    assert visited == len(met)
    assert dropped == sum(pair not in agreeing for pair in met)


@pytest.mark.parametrize("room", [1, 2, 100])
def test_of_a_bucket_of_a_probe_only_the_pairs_of_its_first_member_are_listed(room):
    signatures = np.zeros((7, BANDS * ROWS), np.uint16)
    pairs, counters = in_portions(
        room,
        3,
        lambda cursor, left, right, counters: kernels.buckets.bucket_pairs(
            listed([[0, 2, 4], [1, 3], [5, 6]], np.arange(1, 8), bands=[0, 0, 0]),
            banded(signatures),
            1,
            True,
            MOST,
            cursor,
            left,
            right,
            counters,
        ),
    )
    assert pairs == [(0, 2), (0, 4), (1, 3), (5, 6)]
    assert counters == [4, 0]


# -- items with any number of keys -----------------------------------------------------------------


class Keyed:
    """Items with keys of groups, drawn from few, so that pairs share several."""

    def __init__(self, seed: int, items: int, groups: int) -> None:
        generator = random.Random(seed)
        self.count, self.every_group = items, (1 << groups) - 1
        self.keys = [
            sorted(generator.sample(range(1, 13), generator.randrange(7))) for _ in range(items)
        ]
        self.classes = [generator.randrange(max(1, items - 3)) for _ in range(items)]
        self.groups = groups

    def group(self, key: int) -> int:
        return key % self.groups

    def columns(self) -> tuple[Any, Any, Any]:
        values = [key for keys in self.keys for key in keys]
        offsets = np.cumsum([0, *map(len, self.keys)])
        groups = np.array([self.group(key) for key in values], np.uint8)
        return np.array(values, np.uint64), offsets, groups

    def share_every_group(self, one: int, other: int) -> bool:
        shared = set(self.keys[one]) & set(self.keys[other])
        return {self.group(key) for key in shared} == set(range(self.groups))

    def buckets(self) -> list[tuple[int, list[int]]]:
        members = {
            key: sorted(
                (item for item in range(self.count) if key in self.keys[item]),
                key=lambda item: (self.classes[item], item),
            )
            for key in range(1, 13)
        }
        return [(key, bucket) for key, bucket in members.items() if len(bucket) > 1]

    def listed(self, room: int, *, only_first: bool) -> tuple[Pairs, list[int]]:
        buckets = self.buckets()
        members = [bucket for _, bucket in buckets]
        return in_portions(
            room,
            len(members),
            lambda cursor, left, right, counters: kernels.buckets.bucket_pairs(
                listed(members, ends_of(members, self.classes), keys=[key for key, _ in buckets]),
                kernels.buckets.BucketItems(
                    np.empty((self.count, 0), np.uint16), 0, *self.columns(), self.every_group
                ),
                0,
                only_first,
                MOST,
                cursor,
                left,
                right,
                counters,
            ),
        )


@pytest.mark.parametrize("room", [1, 4, 1_000])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 2, 15])
def test_each_pair_that_shares_every_group_comes_out_once_in_its_smallest_bucket(
    items, groups, room
):
    keyed = Keyed(items + groups, items, groups)
    pairs, (visited, dropped) = keyed.listed(room, only_first=False)
    assert ordered(pairs) == [
        (one, other)
        for one, other in combinations(range(items), 2)
        if keyed.classes[one] != keyed.classes[other] and keyed.share_every_group(one, other)
    ]
    assert visited - dropped == len(pairs)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_of_a_keyed_bucket_the_pairs_of_its_first_member_are_listed(groups):
    keyed = Keyed(5, 15, groups)
    pairs, (visited, dropped) = keyed.listed(3, only_first=True)
    of_first = [
        (bucket[0], other)
        for _, bucket in keyed.buckets()
        for other in bucket
        if keyed.classes[other] != keyed.classes[bucket[0]]
    ]
    assert pairs == [pair for pair in of_first if keyed.share_every_group(*pair)]
    assert (visited, dropped) == (len(of_first), len(of_first) - len(pairs))


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_whether_two_items_share_every_group_is_what_their_sets_say(groups):
    keyed = Keyed(groups, 20, groups)
    pairs = list(combinations(range(20), 2))
    left, right = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    shared = kernels.buckets.share_every_group(*keyed.columns(), keyed.every_group, left, right)
    assert shared.tolist() == [keyed.share_every_group(one, other) for one, other in pairs]
    assert 0 < shared.sum() < len(pairs)


# -- the next earlier rows -------------------------------------------------------------------------


def sharing(row: int, buckets: Any) -> list[int]:
    """The earlier rows that share a bucket."""
    return sorted({other for _, own in buckets if row in own for other in own if other < row})


def slow_next(
    row: int, earlier: list[int], similar_to: Any, status: Any, *, most: int
) -> list[int]:
    """The rows to compare with, of the earlier ones that are left; or what is told."""
    origin = similar_to[row]
    if origin >= 0:
        if status[origin] == kernels.buckets.UNDECIDED:
            return [int(kernels.buckets.MUST_WAIT)]
        if status[origin] == kernels.buckets.KEPT:
            status[row] = kernels.buckets.DROPPED
            return []
        similar_to[row] = -1
    left = [one for one in earlier if status[one] != kernels.buckets.DROPPED]
    if not left:
        status[row] = kernels.buckets.KEPT
    return left[:most]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("needed", [0, 4])
@pytest.mark.parametrize("seed", range(4))
def test_each_row_meets_its_earlier_rows_in_turn_until_it_is_decided(seed, needed, most):
    """A whole run of waves, in which random pairs are similar, ends as the definition says."""
    generator = random.Random(seed)
    count = 30
    signatures = drawn_signatures(generator, count)
    buckets: list[tuple[int, list[int]]] = []
    for band in range(BANDS):
        named: dict[tuple[int, ...], list[int]] = {}
        for item, signature in enumerate(signatures):
            named.setdefault(band_of(signature, band), []).append(item)
        buckets += [(band, bucket) for bucket in named.values()]
    candidates = [
        [
            other
            for other in sharing(row, buckets)
            if (signatures[row] == signatures[other]).sum() >= needed
        ]
        for row in range(count)
    ]
    similar = {(row, one) for row in range(count) for one in range(row) if generator.random() < 0.3}
    members = np.array([item for _, bucket in buckets for item in bucket], np.int64)
    own, first = np.empty((count, BANDS), np.int64), np.empty((count, BANDS), np.int64)
    begin = 0
    for band, bucket in buckets:
        for place, item in enumerate(bucket):
            own[item, band], first[item, band] = begin + place, begin
        begin += len(bucket)
    following, last = first.copy(), np.full(count, -1, np.int64)
    similar_to, status = np.full(count, -1, np.int64), np.zeros(count, np.uint8)
    undecided = np.arange(count)
    while undecided.size:
        before = last.tolist()
        slow = similar_to.copy(), status.copy()
        expected = [
            slow_next(row, [one for one in candidates[row] if one > before[row]], *slow, most=most)
            for row in undecided.tolist()
        ]
        earlier = np.empty((undecided.size, most), np.int64)
        kernels.buckets.next_earlier(
            *(undecided, members, own, following, last, similar_to),
            *(status, signatures, needed, earlier),
        )
        none = int(kernels.buckets.NONE_LEFT)
        assert earlier.tolist() == [one + [none] * (most - len(one)) for one in expected]
        assert (similar_to.tolist(), status.tolist()) == (slow[0].tolist(), slow[1].tolist())
        for row, found in zip(undecided.tolist(), expected, strict=True):
            met = [other for other in found if (row, other) in similar]
            if met:
                similar_to[row] = last[row] = met[0]
                following[row] = first[row]
        undecided = np.flatnonzero(status == kernels.buckets.UNDECIDED)
    kept: list[int] = []
    for row in range(count):
        met = [one for one in candidates[row] if one in kept and (row, one) in similar]
        assert similar_to[row] == (met[0] if met else -1)
        kept += [] if met else [row]
    assert np.flatnonzero(status == kernels.buckets.KEPT).tolist() == kept
    assert len(kept) < count


def test_a_row_waits_for_the_one_that_it_is_similar_to():
    """Three rows in one bucket, and a fourth in one with the third, like it."""
    members = np.array([0, 1, 2, 2, 3])
    own, following = np.array([[0, 0], [1, 0], [2, 3], [0, 4]]), np.array([[0, 0]] * 3 + [[0, 3]])
    last, similar_to = np.full(4, -1, np.int64), np.full(4, -1, np.int64)
    status, signatures = np.zeros(4, np.uint8), np.zeros((4, 2), np.uint16)

    def wave(*undecided: int) -> list[list[int]]:
        earlier = np.empty((len(undecided), 1), np.int64)
        kernels.buckets.next_earlier(
            *(np.array(undecided), members, own, following, last, similar_to),
            *(status, signatures, 0, earlier),
        )
        found: list[list[int]] = earlier.tolist()
        return found

    none, must_wait = int(kernels.buckets.NONE_LEFT), int(kernels.buckets.MUST_WAIT)
    assert wave(0, 1, 2, 3) == [[none], [0], [0], [2]]
    similar_to[3] = 2
    assert wave(1, 2, 3) == [[none], [1], [must_wait]]
    assert wave(2, 3) == [[none], [none]]
    kept, dropped = kernels.buckets.KEPT, kernels.buckets.DROPPED
    assert status.tolist() == [kept, kept, kept, dropped]
    assert similar_to.tolist() == [-1, -1, -1, 2]

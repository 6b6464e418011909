"""Threads change neither the pairs of an exact join, nor their order, nor where it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import simdb
from simdb.answers.exact import sweep as exact_sweeping
from simdb.answers.exact.method import Exact
from simdb.exact import joins
from simdb.exact.joins import BEGINNING, Place, Workers, divided, in_order, numbered
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.kernels.postings import Postings
from simdb.threads import Pool
from simdb.work import Work
from tests.support.exact_oracle import columns, similar_across, similar_pairs
from tests.support.exact_stores import corpus, exact_store, join_by

# With the compiler switched off, NumPy scalars warn where unsigned products wrap on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")

HALF = Threshold(Fraction(1, 2))
ANSWERS = ("memory", "counted", "sliced")


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "RANGE_WEIGHT", 8)
    monkeypatch.setattr(joins, "CHUNK", 4)


@pytest.fixture(params=[(1, 1), (3, 1), (3, 50), (16, 2)])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    with Pool(3, "test") as pool:
        yield Workers(pool, *request.param)


def rows_of(batches: Any) -> list[tuple[int, int, int, Place]]:
    return [
        (int(left), int(right), int(overlap), batch.after)
        for batch in batches
        for left, right, overlap in zip(batch.left, batch.right, batch.overlaps, strict=True)
    ]


def test_a_join_gives_the_same_rows_in_the_same_order_with_any_workers(workers: Workers) -> None:
    sets = corpus(1, HALF.fraction, 90)
    arranged = SymbolOrder().arrange(*columns(sets))
    alone, together = Work(), Work()
    expected = rows_of(joins.pairs(arranged, HALF, work=alone))
    found = rows_of(joins.pairs(arranged, HALF, work=together, workers=workers))
    assert found == expected
    assert {row[:2] for row in found} == similar_pairs(sets, HALF.fraction).keys()
    assert together == alone
    assert len({place.range for *_, place in found}) > 5


def test_a_join_goes_on_at_every_place_without_joining_what_is_done(workers: Workers) -> None:
    arranged = SymbolOrder().arrange(*columns(corpus(2, HALF.fraction, 50)))
    batches = list(joins.pairs(arranged, HALF))
    whole = Work()
    list(joins.pairs(arranged, HALF, work=whole))
    scanned = []
    for done in sorted({*range(1, len(batches), 3), len(batches)}):
        left, start = Work(), batches[done - 1].after
        rest = joins.pairs(arranged, HALF, start=start, workers=workers, work=left)
        assert rows_of(rest) == rows_of(batches[done:])
        scanned.append(left.looked_at)
    assert scanned == sorted(scanned, reverse=True)
    assert scanned[0] <= whole.looked_at
    assert scanned[-1] < whole.looked_at // 5


def test_a_join_of_two_sides_goes_on_at_every_place(workers: Workers) -> None:
    left, right = corpus(3, HALF.fraction, 35), corpus(4, HALF.fraction, 35)
    sides = [SymbolOrder().arrange(*columns(side)) for side in (left, right)]
    batches = list(joins.join(sides[0], sides[1], HALF))
    expected = similar_across(left, right, HALF.fraction)
    assert {row[:2] for row in rows_of(batches)} == expected.keys()
    for done in sorted({*range(0, len(batches), 3), len(batches)}):
        start = batches[done - 1].after if done else BEGINNING
        rest = joins.join(sides[0], sides[1], HALF, start=start, workers=workers)
        assert rows_of(rest) == rows_of(batches[done:])


class Steps:
    """Work of some steps; it notes how many results wait."""

    def __init__(self, number: int, steps: int, waiting: list[int]) -> None:
        self.number = number
        self.left = steps
        self.waiting = waiting

    @property
    def done(self) -> bool:
        return not self.left

    def advance(self, most: int) -> list[tuple[int, int]]:
        count = min(most, self.left)
        self.left -= count
        self.waiting.append(count)
        return [(self.number, self.left + step) for step in reversed(range(count))]


def test_workers_go_no_further_ahead_than_they_may() -> None:
    waiting: list[int] = []
    begun = []

    def works() -> Iterator[Steps]:
        for number in range(50):
            begun.append(number)
            yield Steps(number, 10, waiting)

    found = []
    with Pool(2, "test") as pool:
        for results in in_order(works(), Workers(pool, ahead=4, most=3)):
            found += results
            assert len(begun) <= found[-1][0] + 4
    assert found == [(number, left) for number in range(50) for left in reversed(range(10))]
    assert max(waiting) == 3


def test_an_error_of_a_worker_reaches_the_caller() -> None:
    class Failing(Steps):
        def advance(self, most: int) -> list[tuple[int, int]]:
            if self.number == 3:
                raise MemoryError
            return super().advance(most)

    with Pool(2, "test") as pool:
        results = in_order((Failing(number, 1, []) for number in range(9)), Workers(pool, 4, 1))
        assert list(islice(results, 3)) == [[(0, 0)], [(1, 0)], [(2, 0)]]
        with pytest.raises(MemoryError):
            next(results)


def test_batches_are_numbered_by_range() -> None:
    batches = [(0, "a"), (0, "b"), (2, "c"), (3, "d")]
    places = [Place(0, 1), Place(0, 2), Place(2, 1), Place(3, 1)]
    assert list(numbered(batches, BEGINNING)) == list(zip("abcd", places, strict=True))
    assert list(numbered(batches, Place(0, 1))) == list(zip("bcd", places[1:], strict=True))


def test_ranges_cover_all_buckets_and_weigh_about_the_same() -> None:
    generator = np.random.default_rng(1)
    starts = np.concatenate([[0], np.cumsum(generator.integers(1, 9, 500))])
    postings = Postings(starts, *(np.empty(0, np.uint32) for _ in range(3)))
    bounds = divided(postings, postings)
    counts = np.diff(starts)
    weights = np.add.reduceat(counts * counts + counts, bounds[:-1])
    assert (bounds[0], bounds[-1], bounds.size) == (0, 500, joins.RANGES + 1)
    assert weights.max() <= weights.mean() + 2 * (64 + 8)
    empty = Postings(np.zeros(1, np.int64), *(np.empty(0, np.uint32) for _ in range(3)))
    assert divided(empty, empty).tolist() == [0]


@pytest.mark.parametrize("memory", [2**24, 2**30, 2**34])
def test_what_waits_is_bounded_by_the_memory_setting(memory: int) -> None:
    workers = Workers.within(None, memory)
    assert 1 <= workers.ahead <= joins.MOST_AHEAD
    results = workers.ahead * workers.most * joins.RESULT_BYTES
    assert results + workers.ahead * joins.ROOM_BYTES <= max(memory // 8, 2 * joins.ROOM_BYTES)


def answer_by(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(exact_sweeping, "PART_SYMBOLS", 60)
    monkeypatch.setattr(joins, "CHUNK", 8)
    if way != "memory":
        join_by(monkeypatch, "sweep", room=200)
    if way == "sliced":
        monkeypatch.setattr(exact_sweeping, "CANDIDATES_A_POSTING", 0)
        monkeypatch.setattr(exact_sweeping, "CANDIDATES_AT_ONCE", 8)


@pytest.mark.parametrize("way", ANSWERS)
def test_the_pairs_of_a_store_their_order_and_tokens_do_not_depend_on_threads(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_by(monkeypatch, way)
    sets = corpus(6, HALF.fraction, 50)
    with exact_store(tmp_path / "s") as collection:
        collection.add_many(enumerate(sets))
    answers = []
    for threads in (1, 2, 4):
        with simdb.open(tmp_path / "s", read_only=True, threads=threads) as db:
            collection = db["sets"]
            with collection._opened() as opened:
                found = Exact(HALF).pairs(opened)
                rows = [
                    (batch.left.tolist(), batch.right.tolist(), batch.similarity.tolist(), token)
                    for batch, token in found
                ]
            groups = [group.keys for group in collection.groups(0.5)]
            answers.append((rows, opened.work, groups))
    assert answers[0] == answers[1] == answers[2]
    rows = answers[0][0]
    assert len(rows) > 20
    assert {pair for row in rows for pair in zip(*row[:2], strict=True)} == similar_pairs(
        sets, HALF.fraction
    ).keys()


@pytest.mark.parametrize("way", ANSWERS)
def test_a_resumed_join_of_a_store_neither_reads_nor_compares_what_is_done(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_by(monkeypatch, way)
    with simdb.open(tmp_path / "s", threads=2) as db:
        collection = db.collection("c", simdb.Set(), threshold=None, exact_floor="1/3", seed=3)
        collection.add_many(enumerate(corpus(7, HALF.fraction, 80)))
        with collection._opened() as opened:
            rows = list(Exact(HALF).pairs(opened))
            verified = []
            for _, token in rows[:: max(1, len(rows) // 4)]:
                anew = replace(opened, work=Work())
                list(Exact(HALF, resume=token).pairs(anew))
                verified.append(anew.work.compared)
        assert verified == sorted(verified, reverse=True)
        assert verified[-1] < verified[0] // 3

"""Incremental many-many (MMDS 3.9.4): pairs of new items with earlier ones and with each other."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.answers import buckets
from simdb.answers.exact.method import Exact
from simdb.batches import meeting
from simdb.errors import ConfigurationError
from simdb.results import Pairs
from tests.support.exact_oracle import similar_pairs
from tests.support.exact_stores import (
    as_floats,
    corpus,
    exact_store,
    join_by,
    pairs_found,
    small_epochs,
)
from tests.support.grids import grid, some_of
from tools.benchmarks.set_data import DATA_SETS

WAYS = ("looked up", "memory", "sweep")


def choose(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Let new items be looked up, or everything be joined."""
    if way == "looked up":
        monkeypatch.setattr(buckets, "NEW_SHARE", 0)
    else:
        monkeypatch.setattr(buckets, "NEW_SHARE", 2**40)
        join_by(monkeypatch, way)


def found_by(pairs: Pairs) -> dict[tuple[Any, Any], float]:
    found = [((pair.left, pair.right), pair.value) for pair in pairs]
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.parametrize(("batch", "way"), grid([1, 7, 1_000], WAYS, step=2))
def test_the_increments_are_disjoint_and_their_union_is_the_batch_join(
    batch: int, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, way)
    small_epochs(monkeypatch)
    threshold = Fraction(3, 5)
    sets = corpus(21 + batch, threshold, 36)
    union: dict[tuple[Any, Any], float] = {}
    with exact_store(tmp_path / "s", floor="3/5") as collection:
        for begin in range(0, len(sets), batch):
            report = collection.add_many(list(enumerate(sets))[begin : begin + batch])
            assert report.since == begin
            found = pairs_found(collection.pairs(since=report.since))
            assert all(right >= begin for _, right in found)
            assert not union.keys() & found.keys()
            union |= found
        assert union == as_floats(similar_pairs(sets, threshold))
        assert union == pairs_found(collection.pairs(since=0))
        assert not pairs_found(collection.pairs(since=collection.checkpoint()))


@pytest.mark.parametrize("way", WAYS)
def test_deleted_and_replaced_items_have_their_pairs_as_what_they_are_now(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, way)
    base = list(range(20))
    with exact_store(tmp_path / "s", floor="1/2") as collection:
        collection.add_many([("old", base), ("gone", base), ("changed", [99])])
        mark = collection.checkpoint()
        collection.delete("gone")
        collection.replace("changed", base[1:])
        collection.add("empty", [])
        collection.add("new", base)
        expected = {("old", "changed"): 0.95, ("old", "new"): 1.0, ("changed", "new"): 0.95}
        assert pairs_found(collection.pairs(since=mark)) == expected
        collection.compact()
        assert pairs_found(collection.pairs(since=mark)) == expected
        collection.rebuild(exact_floor="3/5")
        assert pairs_found(collection.pairs(since=mark)) == expected


def test_an_increment_costs_what_its_items_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        pytest.fail("all items were joined")

    generator = random.Random(5)
    rows = [(key, generator.sample(range(1_000), 12)) for key in range(400)]
    with exact_store(tmp_path / "s", floor="1/2") as collection:
        collection.add_many(rows)
        report = collection.add_many([("copy", rows[3][1]), ("copy of it", rows[3][1])])
        monkeypatch.setattr(Exact, "_way", refused)
        found = pairs_found(collection.pairs(since=report.since))
        assert found.keys() == {(3, "copy"), (3, "copy of it"), ("copy", "copy of it")}


@pytest.mark.parametrize("way", WAYS)
def test_an_increment_that_was_left_off_goes_on_after_its_token(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, way)
    monkeypatch.setattr("simdb.answers.exact.probe.CHUNK", 3)
    sets = corpus(4, Fraction(1, 2), 50)
    with exact_store(tmp_path / "s", floor="1/2") as collection:
        collection.add_many(enumerate(sets[:35]))
        mark = collection.checkpoint()
        collection.add_many(list(enumerate(sets))[35:])
        everything = list(collection.pairs(since=mark).batches())
        whole = sorted(_numbers(everything))
        count = len(everything)
        for stop in {0, 1, *range(2, count, 1 + count // 4), count}:
            pairs = collection.pairs(since=mark)
            first = [batch for _, batch in zip(range(stop), pairs.batches(), strict=False)]
            rest = collection.pairs(since=mark, resume=pairs.token).batches()
            assert sorted(_numbers(first) + _numbers(list(rest))) == whole
        with pytest.raises(ConfigurationError, match=f"pairs since {mark}, not since 1"):
            list(collection.pairs(since=1, resume=pairs.token))


def _numbers(batches: list[simdb.PairBatch]) -> list[tuple[int, int]]:
    return [
        pair
        for batch in batches
        for pair in zip(batch.left.tolist(), batch.right.tolist(), strict=True)
    ]


@pytest.mark.parametrize("large", [2, 64])
@pytest.mark.parametrize("share", [0, 2**40])
def test_probable_increments_are_those_of_all_probable_pairs(
    share: int, large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "NEW_SHARE", share)
    for module in (buckets, meeting):
        monkeypatch.setattr(module, "LARGE_BUCKET", large)
    monkeypatch.setattr(buckets, "PAIRS_COMPARED", 16)
    generator = random.Random(7)
    bases = [generator.sample(range(500), 30) for _ in range(12)]
    rows = []
    for key in range(150):
        one = list(generator.choice(bases))
        for _ in range(generator.randint(0, 3)):
            one[generator.randrange(30)] = generator.randrange(500)
        rows.append((key, one))
    union: dict[tuple[Any, Any], float] = {}
    with simdb.open(tmp_path / "s", sync="batch") as db:
        collection = db.collection("c", simdb.Set(), threshold=0.8, seed=3)
        for begin in range(0, len(rows), 50):
            report = collection.add_many(rows[begin : begin + 50])
            pairs = collection.pairs(since=report.since)
            found = found_by(pairs)
            assert pairs.guarantee == "probable"
            assert not union.keys() & found.keys()
            union |= found
            for key in (begin, begin + 30):
                collection.delete(key)
                union = {pair: value for pair, value in union.items() if key not in pair}
        monkeypatch.setattr(buckets, "NEW_SHARE", 2**40)
        assert union == found_by(collection.pairs())
        assert len(union) > 100


def test_a_report_without_rows_says_where_the_collection_stands(tmp_path: Path) -> None:
    with exact_store(tmp_path / "s") as collection:
        assert collection.add_many([]).since == 0
        collection.add_many([(1, {1, 2}), (2, {1, 2})])
        report = collection.add_many([])
        assert report.since == collection.checkpoint() == 2
        assert not list(collection.pairs(since=report.since))


@pytest.mark.parametrize("since", [-1, True, "3", 1.5])
def test_what_is_no_checkpoint_is_refused(since: Any, tmp_path: Path) -> None:
    with (
        exact_store(tmp_path / "s") as collection,
        pytest.raises(ConfigurationError, match="since must come from"),
    ):
        collection.pairs(since=since)


@pytest.mark.data
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("first", "count"), some_of([(1_800, 1_500), (0, 20_000)], 2))
def test_the_increments_of_real_texts_make_up_all_pairs(
    first: int, count: int, exact: bool, tmp_path: Path, data_directory: Path
) -> None:
    newsgroups = next(one for one in DATA_SETS if one.name == "newsgroups20")
    rows = list(enumerate(newsgroups.rows(data_directory, first + count)))[first:]
    cuts = [int(share * len(rows)) for share in (0, 0.3, 0.8, 0.95, 0.98, 0.99, 0.995, 1)]
    options: dict[str, Any] = {"threshold": None, "exact_floor": 0.8} if exact else {"seed": 1}
    union: dict[tuple[Any, Any], float] = {}
    with simdb.open(tmp_path / "s", sync="batch") as db:
        kind = simdb.Text(simdb.WordShingles(3), lowercase=True)
        collection = db.collection("c", kind, **options)
        for begin, end in itertools.pairwise(cuts):
            report = collection.add_many(rows[begin:end])
            found = found_by(collection.pairs(0.8, since=report.since))
            assert not union.keys() & found.keys()
            union |= found
        assert union == found_by(collection.pairs(0.8))
        assert len(union) >= 6 * count // 1_000

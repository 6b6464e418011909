"""The exact index on disk: what is posted, what it costs, what checking finds, settings."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.batches.signer import Epoch, Prefixes
from simdb.errors import ConfigurationError, ThresholdTooLowError
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.lsh.family import SymbolSets
from simdb.opened.epochs import open_epoch
from simdb.storage.collection.manifest import ITEM, POSITION, SIZE, open_postings
from simdb.storage.file import log
from simdb.storage.tables.layout import Table
from tests.support.exact_oracle import similar_pairs
from tests.support.exact_stores import as_floats, exact_store, pairs_found, small_epochs

NO_MARKS = np.empty(0, np.uint8)


def some_sets(count: int, seed: int = 0) -> list[set[int]]:
    generator = random.Random(seed)
    return [
        {int(generator.paretovariate(0.4)) % 300 for _ in range(generator.randint(0, 20))}
        for _ in range(count)
    ]


def stored_postings(collection: simdb.Collection) -> list[tuple[int, int, int, int]]:
    """All postings of the current epoch in the order of the runs: key, size, position, item."""
    with collection._opened() as opened:
        reader = opened.reader
        exact = reader.manifest.index.exact
        assert exact is not None
        view = open_postings(reader.transaction, exact.current)
        return [
            (int(key), int(row[SIZE]), int(row[POSITION]), int(row[ITEM]))
            for keys, columns in view.sweep(reader.tombstones, item_column=ITEM, room=16)
            for key, row in zip(keys, columns.T, strict=True)
        ]


@pytest.mark.parametrize("floor", ["1/3", "0.7", "1"])
@pytest.mark.parametrize("containment", [False, True])
def test_of_every_item_the_first_symbols_in_the_order_are_posted(
    floor: str, containment: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch)
    sets = some_sets(80)
    with exact_store(tmp_path / "s", floor=floor, containment=containment) as collection:
        for begin in range(0, len(sets), 9):
            collection.add_many(list(enumerate(sets))[begin : begin + 9])
        with collection._opened() as opened:
            reader, signer = opened.reader, opened.signer
            exact = reader.manifest.index.exact
            assert exact is not None
            epoch = open_epoch(reader.transaction, exact.current)
            symbols = signer.symbols([signer.items.encode(one) for one in sets])
            rank = {int(symbol): place for place, symbol in enumerate(epoch.order.frequent)}
        assert rank
        expected = []
        least = Fraction(floor)
        for item, one in enumerate(sets):
            own = {
                int(v) for v in symbols.values[symbols.offsets[item] : symbols.offsets[item + 1]]
            }
            assert len(own) == len(one)
            # The rule of the order, written anew: what is not frequent first, by value.
            ordered = sorted(own, key=lambda symbol: (rank.get(symbol, -1), symbol))
            size = len(ordered)
            length = size if containment or not size else size - -(-least * size // 1) + 1
            keys = [int(key) for key in epoch.order.keys(np.array(ordered, np.uint64))]
            expected += [(keys[p], size, p + 1, item) for p in range(int(length))]
        found = stored_postings(collection)
        assert found == sorted(found, key=lambda posting: posting[:2])
        assert sorted(found) == sorted(expected)


def test_prefixes_are_cut_joined_and_selected_as_slices() -> None:
    values = np.array([5, 3, 9, 7, 7, 1, 2, 8, 4], np.uint64)
    symbols = SymbolSets(values, np.array([0, 3, 3, 5, 9], np.int64))
    epoch = Epoch(7, SymbolOrder())
    prefixes = epoch.prefixes(symbols, Threshold.parse(0.5))

    def listed(of: Prefixes) -> list[list[int]]:
        return [of[row].tolist() for row in range(len(of))]

    assert listed(prefixes) == [[3, 5], [], [7], [1, 2, 4]]
    assert prefixes.set_sizes.tolist() == [3, 0, 1, 4]
    assert listed(prefixes.first(np.array([1, 0, 1, 2]))) == [[3], [], [7], [1, 2]]
    assert listed(prefixes.select(np.array([3, 0]))) == [[1, 2, 4], [3, 5]]
    both = Prefixes.concatenated([prefixes, prefixes.select(np.array([2]))])
    assert listed(both) == [[3, 5], [], [7], [1, 2, 4], [7]]
    every = epoch.prefixes(symbols, None)
    assert listed(every) == [[3, 5, 9], [], [7], [1, 2, 4, 8]]


def test_a_posting_takes_at_most_24_bytes(tmp_path: Path) -> None:
    generator = random.Random(1)
    with exact_store(tmp_path / "s", floor=0.7) as collection:
        collection.add_many((key, generator.sample(range(10**9), 60)) for key in range(1_200))
        collection.compact()
        stats = collection.stats()["exact_index"]
        assert stats["postings"] == 1_200 * 19
        assert stats["postings_per_item"] == 19
        assert stats["bytes_per_posting"] <= 24
        with collection._opened() as opened:
            reader = opened.reader
            scanned = reader.transaction.scan(Table.POSTINGS, b"")
            assert sum(len(key) + len(value) for key, value in scanned) <= 24 * 1_200 * 19
        assert stats["runs"] == 1


def test_runs_stay_few_whatever_the_number_of_commits(tmp_path: Path) -> None:
    with exact_store(tmp_path / "s", floor=0.7) as collection:
        for key in range(200):
            collection.add(key, range(key, key + 10))
        assert collection.stats()["exact_index"]["runs"] < 24


def test_deleted_items_leave_no_postings_after_compacting(tmp_path: Path) -> None:
    sets = some_sets(60, 3)
    with exact_store(tmp_path / "s") as collection:
        for key, one in enumerate(sets):
            collection.add(key, one)
        collection.delete_many(range(0, 60, 2))
        collection.compact()
        stats = collection.stats()
        assert stats["deleted_not_yet_dropped"] == 0
        expected = sum(Threshold.parse("1/3").prefix_length(len(one)) for one in sets[1::2])
        assert stats["exact_index"]["postings"] == expected


def test_most_of_what_is_deleted_is_dropped_by_later_commits(tmp_path: Path) -> None:
    with exact_store(tmp_path / "s", floor=0.5) as collection:
        collection.add_many((key, range(key, key + 20)) for key in range(2_000))
        before = collection.stats()["exact_index"]["postings"]
        for begin in range(0, 2_000, 100):
            collection.delete_many(range(begin, begin + 95))
        assert collection.stats()["exact_index"]["postings"] < before / 2


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [0, 1.01, -1, float("nan"), True, "x"])
def test_a_floor_that_is_none_is_refused(floor: Any, tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s") as db:
        with pytest.raises(ConfigurationError, match="exact_floor must be a number above 0"):
            db.collection("c", simdb.Set(), exact_floor=floor)
        assert "c" not in db


def test_a_collection_needs_an_index(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s") as db:
        with pytest.raises(ConfigurationError, match="a threshold, an exact_floor, or both"):
            db.collection("c", simdb.Set(), threshold=None)
        with pytest.raises(ConfigurationError, match="needs an exact_floor"):
            db.collection("c", simdb.Set(), containment=True)
        with pytest.raises(ConfigurationError, match="need a threshold"):
            db.collection("c", simdb.Set(), threshold=None, exact_floor=0.7, bands=3)
        collection = db.collection("c", simdb.Set(), exact_floor=0.7)
        with pytest.raises(ConfigurationError, match="drop_exact"):
            collection.rebuild(drop_exact=True, exact_floor=0.5)
        with pytest.raises(ConfigurationError, match="drop_probable"):
            collection.rebuild(drop_probable=True, threshold=0.5)
        with pytest.raises(ConfigurationError, match="a threshold, an exact_floor, or both"):
            collection.rebuild(drop_exact=True, drop_probable=True)


def test_a_collection_is_not_opened_with_another_floor(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s") as db:
        db.collection("c", simdb.Set(), exact_floor=0.7)
        assert db.collection("c", simdb.Set(), exact_floor="7/10").exact_floor == Fraction(7, 10)
        others: list[dict[str, Any]] = [{}, {"exact_floor": 0.6}]
        for other in [*others, {"exact_floor": 0.7, "containment": True}]:
            with pytest.raises(ConfigurationError, match=r"rebuild\(.*\) changes them"):
                db.collection("c", simdb.Set(), **other)


def test_rebuilding_adds_changes_and_drops_either_index(tmp_path: Path) -> None:
    sets = some_sets(70, 5)
    expected = as_floats(similar_pairs(sets, Fraction(4, 5)))
    with simdb.open(tmp_path / "s") as db:
        collection = db.collection("c", simdb.Set(), threshold=0.8, bands=60, rows=1)
        collection.add_many(enumerate(sets))
        assert collection.exact_floor is None
        assert collection.stats()["exact_index"] is None
        collection.rebuild(exact_floor=0.7)
        assert collection.exact_floor == Fraction(7, 10)
        assert pairs_found(collection.pairs(0.8)) == expected
        assert collection.pairs(0.8, guarantee="probable").guarantee == "probable"
        collection.rebuild(seed=5)
        assert collection.exact_floor == Fraction(7, 10)
        collection.rebuild(drop_probable=True)
        assert collection.threshold == Fraction(7, 10)
        assert pairs_found(collection.pairs(0.8)) == expected
        with pytest.raises(ThresholdTooLowError):
            collection.search(sets[0], threshold=0.6)
        assert db.check(deep=True).sound
        collection.rebuild(exact_floor=0.6, containment=True)
        assert len(collection.search(sets[9], threshold="1/100", guarantee="exact"))
        collection.rebuild(threshold=0.8)
        assert collection.search(sets[9], threshold=0.8, guarantee="probable")
        collection.rebuild(drop_exact=True)
        assert collection.stats()["exact_index"] is None
        assert collection.pairs(0.8).guarantee == "probable"
        with collection._opened() as opened:
            reader = opened.reader
            assert not list(reader.transaction.scan(Table.POSTINGS, b""))
            assert not list(reader.transaction.scan(Table.SYMBOLS, b""))
        assert db.check(deep=True).sound


def test_statistics_are_plain_values(tmp_path: Path) -> None:
    with simdb.open(tmp_path / "s") as db:
        db.collection("c", simdb.Set(), threshold=None, exact_floor=0.7).add(1, {1, 2})
        (stats,) = db.stats()["collections"]
        assert stats["settings"]["exact_floor"] == 0.7
        assert stats["expected_recall"] == 1.0
        assert stats["exact_index"]["floor"] == "0.7"


# -- checking ------------------------------------------------------------------------------------


def test_checking_tells_postings_that_are_not_those_of_the_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simdb.open(tmp_path / "s") as db:
        collection = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
        collection.add(0, range(10))

        def wrong(epoch: Any, symbols: SymbolSets, floor: Any) -> Prefixes:
            prefixes = made(epoch, symbols, floor)
            prefixes.values[0] += np.uint64(1)
            return prefixes

        made = Epoch.prefixes
        with monkeypatch.context() as patch:
            patch.setattr(Epoch, "prefixes", wrong)
            collection.add(1, range(20, 30))
        with monkeypatch.context() as patch:
            patch.setattr(
                Epoch,
                "prefixes",
                lambda epoch, symbols, floor: made(epoch, symbols, Threshold.parse(0.9)),
            )
            collection.add(2, range(40, 50))
        quick = [(problem.table, problem.record) for problem in db.check().problems]
        assert quick == [("postings", "2")]
        deep = [(problem.table, problem.record) for problem in db.check(deep=True).problems]
        assert deep == [("postings", "1"), ("postings", "2")]


def test_a_damaged_order_of_symbols_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch, first=10, step=100)
    monkeypatch.setattr(log, "LARGEST_COMMIT", 0)
    path = tmp_path / "s"
    with simdb.open(path) as db:
        collection = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
        collection.add_many(enumerate(some_sets(40, 8)))
        with collection._opened() as opened:
            reader = opened.reader
            ((_, value),) = reader.transaction.scan(Table.SYMBOLS, b"")
            record = bytes(value)
        assert db.check(deep=True).sound
    data = bytearray(path.read_bytes())
    place = data.index(record)
    data[place + 20] ^= 1
    path.write_bytes(data)
    with simdb.open(path, read_only=True) as db:
        problems = db.check().problems
        assert [problem.table for problem in problems] == ["postings"]
        assert "damaged" in problems[0].problem
        with pytest.raises(simdb.CorruptionError):
            db["c"].search({1, 2})

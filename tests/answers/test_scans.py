"""Scans of items of one width, which are read where they lie in the map: all, and no dead ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb import kernels
from simdb.answers import scan
from simdb.storage.file import preflight
from simdb.storage.tables import blocks
from tests.support.processes import interpreted

WORDS, DIMENSION = 3, 24


def bit_vectors(generator: np.random.Generator, count: int) -> list[bytes]:
    base = np.uint64(0x9E3779B97F4A7C15)
    flips = generator.integers(0, 2**64, (3, count, WORDS), dtype=np.uint64)
    return [row.tobytes() for row in base ^ (flips[0] & flips[1] & flips[2])]


def bits_apart(one: bytes, other: bytes) -> float:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()


def vectors(generator: np.random.Generator, count: int) -> list[Any]:
    return [*generator.standard_normal((count, DIMENSION)).astype(np.float32)]


def sum_apart(one: Any, other: Any) -> float:
    return float(np.abs(one.astype(np.float64) - other).sum())


CASES = {
    "bits": (simdb.Bits(64 * WORDS), bit_vectors, bits_apart, 38),
    "vectors": (simdb.Vector(DIMENSION, "manhattan"), vectors, sum_apart, 26.0),
}


@pytest.fixture(params=CASES)
def scanned(
    path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[simdb.Collection, Any]]:
    """An empty collection whose items lie in many small blocks, which are read some at a time."""
    monkeypatch.setattr(blocks, "ITEM_BLOCK_BYTES", 512)
    monkeypatch.setattr(scan, "BYTES_AT_ONCE", 2_000)
    kind, *case = CASES[request.param]
    with simdb.open(path, sync="batch", threads=1) as database:
        yield database.collection("items", kind), case


def test_a_scan_finds_what_a_loop_over_the_live_items_does(scanned):
    collection, (made, apart, most) = scanned
    generator = np.random.default_rng(7)
    stored: dict[int, Any] = {}
    probes = made(generator, 3)
    for turn in range(4):
        new = dict(enumerate(made(generator, 150), 1_000 * turn))
        collection.add_many(new.items())
        stored |= new
        if turn:  # first without any dead ones
            for key in [*stored][turn :: 7 - turn]:
                collection.delete(key)
                del stored[key]
        for probe in [*probes, *[*new.values()][:2]]:
            expected = {
                key: found for key, item in stored.items() if (found := apart(probe, item)) <= most
            }
            matches = collection.search(probe, max_distance=most, guarantee="exact")
            assert {match.key: match.distance for match in matches} == pytest.approx(expected)
            assert matches.candidates == len(stored)
            assert [match.distance for match in matches] == sorted(m.distance for m in matches)
    assert len(expected) > 5


def test_a_scan_of_nothing_finds_nothing(scanned):
    collection, (made, _, most) = scanned
    (probe,) = made(np.random.default_rng(0), 1)
    assert len(collection.search(probe, max_distance=most, guarantee="exact")) == 0
    collection.add("only", probe)
    collection.delete("only")
    found = collection.search(probe, max_distance=most, guarantee="exact")
    assert (len(found), found.candidates) == (0, 0)


def test_what_is_written_over_while_it_is_scanned_is_not_given_out(path, monkeypatch):
    """By a reader that can make no lock file, of which the writer does not know."""
    vectors = np.random.default_rng(0).integers(0, 2, (4_000, 1_024), np.uint8)
    kind = simdb.Bits(1_024)
    with simdb.open(path, threads=1) as database:
        database.collection("c", kind, max_distance=0).add_many(enumerate(vectors))
    monkeypatch.setattr(preflight, "has_lock", lambda *_, **__: False)
    kernel = kernels.bits.scan_hamming
    program = """
import sys, simdb
with simdb.open(sys.argv[1], threads=1) as database:
    collection = database["c"]
    for key in range(3):
        collection.delete(key)
"""

    def scanned(*given: Any) -> Any:
        monkeypatch.setattr(kernels.bits, "scan_hamming", kernel)
        interpreted(program, path)
        return kernel(*given)

    with simdb.open(path, read_only=True) as database:
        collection = database["c"]
        asked: dict[str, Any] = {"max_distance": 300, "guarantee": "exact"}
        assert len(collection.search(vectors[7], **asked)) == 1
        assert not collection.search(1 - vectors[7], **asked)  # what kind of keys there are is kept
        monkeypatch.setattr(kernels.bits, "scan_hamming", scanned)
        with pytest.raises(simdb.DatabaseBusyError):
            collection.search(1 - vectors[7], **asked)


def test_candidates_are_those_that_were_compared_in_full(tmp_path):
    generator = np.random.default_rng(3)
    with simdb.open(tmp_path / "s.simdb") as database:
        weights = database.collection("w", simdb.WeightedSet(), threshold=None)
        items = [
            dict(zip(map(str, generator.choice(500, 20)), generator.random(20) + 0.1, strict=True))
            for _ in range(400)
        ]
        weights.add_many(enumerate(items))
        for _ in range(3):  # what is read is kept from the second on
            found = weights.search(items[7], threshold=0.6, guarantee="exact")
        told = weights.explain("search", items[7], threshold=0.6, guarantee="exact", run=True)
        assert told.work is not None
        assert 1 <= found.candidates == told.work["looked_at"] < 400


def test_pairs_of_a_scan_come_in_batches_of_a_size(tmp_path, monkeypatch):
    """Many equal items are too many pairs for one."""
    monkeypatch.setattr(scan, "PAIRS_COMPARED", 50)
    people = simdb.Record([simdb.Field("a"), simdb.Field("b")], candidates=["a"])
    with simdb.open(tmp_path / "s.simdb") as database:
        one, other = (database.collection(name, people, threshold=0.8) for name in ("one", "other"))
        one.add_many((number, {"a": "x", "b": "y"}) for number in range(40))
        other.add_many((number, {"a": "x", "b": "y"}) for number in range(20))
        for found, expected in (
            (one.pairs(guarantee="exact"), 40 * 39 // 2),
            (one.join(other, guarantee="exact"), 40 * 20),
        ):
            sizes = [len(batch) for batch in found.batches()]
            assert sum(sizes) == expected == found.count()
            assert max(sizes) < 50 + 40


def test_of_what_is_near_many_probes_only_the_best_is_held(path, monkeypatch):
    """Here all that is stored; in the order and the counts of what holds all of it."""
    generator = np.random.default_rng(3)
    sets = [
        {f"s{symbol}": 1 + int(symbol) % 3 for symbol in some}
        for some in generator.integers(0, 9, (300, 5))
    ]
    with simdb.open(path, sync="batch") as database:
        collection = database.collection("sets", simdb.WeightedSet())
        collection.add_many(
            (number, one, {"odd": number % 2 == 1}) for number, one in enumerate(sets)
        )
        collection.delete_many(range(0, 300, 7))
        asked: list[int] = []

        def is_odd(metadata: Any) -> bool:
            asked.append(1)
            return bool(metadata["odd"])

        def answers(where: Any = None) -> list[Any]:
            found = collection.search_many(sets[:20], threshold=0.01, limit=4, where=where)
            return [(list(one), one.candidates) for one in found]

        held, chosen = answers(), answers({"odd": True})
        parts: list[int] = []
        find = scan.Scan._found

        def finding(method: Any, opened: Any, items: Any, most: int) -> Any:
            parts.append(len(items))
            return find(method, opened, items, most)

        monkeypatch.setattr(scan.Scan, "_found", finding)
        monkeypatch.setattr(scan, "HELD", 1_000)
        assert answers() == held
        assert not parts
        # A filter is asked about the best alone: then few probes are looked at together.
        monkeypatch.setattr(scan, "_BYTES_A_MATCH", 2**30)
        assert answers(is_odd) == chosen
        assert parts == [1] * 20
        assert len(asked) <= 20 * 64


def test_of_few_that_a_filter_accepts_the_deleted_are_not_found(scanned, monkeypatch):
    monkeypatch.setattr(scan, "HELD", 0)
    collection, (made, apart, _) = scanned
    items = made(np.random.default_rng(5), 400)
    collection.add_many((key, item, {"few": key % 100 < 2}) for key, item in enumerate(items))
    collection.delete_many([0, 101])
    few = [1, 100, 200, 201, 300, 301]
    found = collection.search_many(items[:3], limit=5, where={"few": True}, max_distance=150)
    for item, answer in zip(items, found, strict=False):
        nearest = sorted(few, key=lambda key: apart(item, items[key]))
        assert [match.key for match in answer] == nearest[:5]


def test_the_best_of_what_is_read_in_place_are_live(scanned, monkeypatch):
    collection, (made, apart, _) = scanned
    monkeypatch.setattr(scan, "HELD", 0)
    monkeypatch.setattr(collection._known.signer.measure, "finds_nearest", False)
    items = made(np.random.default_rng(6), 60)
    collection.add_many(enumerate(items))
    collection.delete_many([0, 2, 40])
    live = [key for key in range(60) if key not in {0, 2, 40}]
    found = collection.search_many(items[:3], limit=4, max_distance=150)
    for item, answer in zip(items, found, strict=False):
        nearest = sorted(live, key=lambda key: apart(item, items[key]))
        assert [match.key for match in answer] == nearest[:4]

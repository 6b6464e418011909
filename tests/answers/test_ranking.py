"""The best few: what a whole answer begins with, however it is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.answers import method, ranking
from simdb.exact.thresholds import MaximumDistance
from simdb.kinds.bits import BitsMeasure


@pytest.mark.parametrize("limit", [None, 0, 1, 2, 7, 100, 1_000, 5_000])
def test_the_first_few_are_those_of_all_in_order(limit: int | None) -> None:
    generator = np.random.default_rng(limit)
    for values in (3, 40, 10**9):  # many are equal, some, none
        order = generator.integers(0, values, 3_000).astype(np.float64)
        expected = order.argsort(kind="stable")[:limit]
        assert method.best_first(order, limit).tolist() == expected.tolist()


class Even:
    """What a filter accepts."""

    def among(self, numbers: Any) -> Any:
        return numbers % 2 == 0


@pytest.mark.parametrize("only", [None, Even()], ids=["all", "some"])
@pytest.mark.parametrize("limit", [None, 1, 5, 90, 2**63])
def test_a_ranking_is_the_same_in_whatever_parts_it_comes(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, only: Any
) -> None:
    monkeypatch.setattr(ranking, "_PENDING", 50)
    generator = np.random.default_rng(7)
    for size in (0, 30, 4_000):
        probes = generator.integers(0, 9, size)
        probes[probes == 4] = 3  # of one nothing is found
        numbers = generator.permutation(size).astype(np.uint32)
        values = generator.integers(0, 30, size).astype(np.float64)
        rows = sorted(zip(probes.tolist(), values.tolist(), numbers.tolist(), strict=True))
        kept = [row for row in rows if only is None or row[2] % 2 == 0]
        expected = [
            row for probe in range(9) for row in [one for one in kept if one[0] == probe][:limit]
        ]
        made = ranking.Ranking(MaximumDistance.parse(30), 9, limit, only)
        for some in np.array_split(np.arange(size), 40):
            made.add(probes[some], numbers[some], values[some])
            held = sum(part[0].size for part in made._parts)
            assert limit is None or held <= max(50, 2 * 9 * limit) + some.size
        found = [column.tolist() for column in made.ranked()]
        assert [*zip(found[0], found[2], found[1], strict=True)] == expected


KINDS: dict[str, Any] = {
    "bits": simdb.Bits(64),
    "long bits": simdb.Bits(256),
    "tanimoto": simdb.Bits(64, measure="tanimoto"),
    "angles": simdb.Vector(5),
    "euclidean": simdb.Vector(40, measure="euclidean"),
    "manhattan": simdb.Vector(3, measure="manhattan"),
    "maximum": simdb.Vector(4, measure="maximum"),
    "strings": simdb.String(),
    "aligned strings": simdb.String("alignment"),
    "strings by similarity": simdb.String(normalised=True),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_the_best_few_of_wide_bounds_are_the_first_of_all(
    tmp_path: Path, kind: Any, long_form: bool
) -> None:
    generator = np.random.default_rng(3)
    count = 600
    items: list[Any]
    if isinstance(kind, simdb.Bits):
        rows = generator.integers(0, 256, (count, kind.length // 8), dtype=np.uint8)
        items = [bytes(row) for row in rows]
    elif isinstance(kind, simdb.Vector):  # whole numbers, of which many are as far
        items = list(generator.integers(1, 9, (count, kind.dimension)).astype(np.float32))
    else:
        lengths = generator.integers(5, 9, count)
        items = ["".join(generator.choice(list("abcdef"), length)) for length in lengths]
    bound: dict[str, Any] = {"threshold": 0.01, "guarantee": "exact"}
    if kind.is_distance:
        most = min(180, kind.largest_distance)
        bound = {"max_distance": most, "guarantee": "exact"}
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind)
        collection.add_many((key, item, {"part": key}) for key, item in enumerate(items))
        for part in range(2):  # nothing is dead; the nearest are, and others
            for probe in items[: 2 if long_form else 1]:
                whole = collection.search(probe, limit=None, **bound).matches
                assert len(whole) > count / 2
                for limit in (1, 10, 150, count - 1):
                    asked = {"limit": limit, **bound}
                    assert collection.search(probe, **asked).matches == whole[:limit]
                    for share in (2, 40, 400):
                        own = tuple(match for match in whole if int(match.key) % share == 0)
                        where = {"part": set(range(0, count, share))}
                        assert collection.search(probe, where=where, **asked).matches == own[:limit]
                    for copies in (2, 70) if limit == 10 else (3,):
                        many = collection.search_many([probe, items[9]] * copies, **asked)
                        assert many[0].matches == many[2 * copies - 2].matches == whole[:limit]
                if not part:
                    nearest = [match.key for match in whole[:20]]
                    collection.delete_many([key for key in nearest if key in collection])


@pytest.mark.parametrize(("bound", "way"), [(3, "join"), (64, "scan")])
def test_many_are_scanned_for_the_nearest_where_the_bound_is_wide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int, way: str
) -> None:
    kind = simdb.Bits(64)
    monkeypatch.setattr(simdb.Bits, "share_looked_at", lambda *_: 1.0)
    rows = np.random.default_rng(1).integers(0, 256, (2_000, 8), dtype=np.uint8)
    looked_at: list[int] = []
    near_pairs = BitsMeasure.near_pairs

    def noted(*given: Any) -> Any:
        looked_at.append(1)
        return near_pairs(*given)

    monkeypatch.setattr(BitsMeasure, "near_pairs", noted)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, threshold=None)
        collection.add_many(enumerate(map(bytes, rows)))
        probes = [bytes(row) for row in rows[:100]]
        asked: dict[str, Any] = {"max_distance": bound, "guarantee": "exact", "limit": 10}
        many = collection.search_many(probes, **asked)
        assert bool(looked_at) == (way == "join")
        assert many[7].matches == collection.search(probes[7], **asked).matches

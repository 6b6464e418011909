"""The budget of pairs that are looked at: reported, never exceeded in silence, dropping nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb import kernels
from simdb.answers.exact import sweep
from simdb.batches import meeting
from simdb.errors import ConfigurationError, OperationInterruptedError
from simdb.exact import joins
from simdb.results import Pairs
from simdb.work import Work
from tests.support.commands import run
from tests.support.exact_stores import join_by

WORDS = simdb.Text(simdb.WordShingles(1))


def texts(count: int, seed: int = 1) -> list[tuple[int, str]]:
    """Texts of a few words, of which many are alike and all share one word."""
    generator = random.Random(seed)
    return [
        (number, "all " + " ".join(f"w{generator.randrange(12)}" for _ in range(6)))
        for number in range(count)
    ]


@contextmanager
def stored(path: Path, name: str) -> Iterator[simdb.Database]:
    """Two collections, ``a`` and ``b``, as each way of joining needs them."""
    options: dict[str, Any] = {"threshold": 0.6, "bands": 20, "rows": 1, "seed": 1}
    if name in {"sweep", "dice", "since", "cosine of two"}:
        options = {"threshold": None, "exact_floor": 0.3, "seed": 1}
    if name.startswith("memory"):
        options = {"threshold": None, "seed": 1, "exact_floor": 0.5}
    with simdb.open(path, threads=1, sync="batch") as database:
        for number, side in enumerate("ab"):
            if "scan" in name:
                rows = np.random.default_rng(number).integers(0, 4, (60, 3)).astype(np.float32)
                kind = simdb.Vector(3, "manhattan")
                database.collection(side, kind).add_many(enumerate(rows))
            else:
                rows_of_text = texts(60, number + 1)
                collection = database.collection(side, WORDS, **options)
                collection.add_many(rows_of_text[:50])
                collection.add_many(rows_of_text[50:])
        yield database


ASKED: dict[str, Callable[[simdb.Database, int | None], Pairs]] = {
    "probable": lambda db, most: db["a"].pairs(0.6, guarantee="probable", budget=most),
    "probable of new": lambda db, most: db["a"].pairs(
        0.6, guarantee="probable", since=59, budget=most
    ),
    "probable of two": lambda db, most: db["a"].join(
        db["b"], 0.6, guarantee="probable", budget=most
    ),
    "memory": lambda db, most: db["a"].pairs(0.6, guarantee="exact", budget=most),
    "memory of two": lambda db, most: db["a"].join(db["b"], 0.6, budget=most),
    "sweep": lambda db, most: db["a"].pairs(0.6, budget=most),
    "since": lambda db, most: db["a"].pairs(0.6, since=59, budget=most),
    "dice": lambda db, most: db["a"].pairs(0.7, measure="dice", budget=most),
    "cosine of two": lambda db, most: db["a"].join(db["b"], 0.7, measure="cosine", budget=most),
    "scan": lambda db, most: db["a"].pairs(max_distance=2, budget=most),
    "scan of two": lambda db, most: db["a"].join(db["b"], max_distance=2, budget=most),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_budget_is_kept_and_reported_and_drops_no_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    join_by(monkeypatch, "sweep" if name == "sweep" else "memory")
    monkeypatch.setattr(joins, "CHUNK", 8)
    with stored(tmp_path / "s.simdb", name) as database:
        ask = ASKED[name]
        pairs = ask(database, None)
        assert pairs.looked_at == 0
        everything = list(pairs)
        needed = pairs.looked_at
        assert needed >= len(everything) > 0
        enough = ask(database, needed)
        for _ in range(2):  # every iteration has all of the budget
            assert list(enough) == everything
            assert enough.looked_at == needed
        for budget in (needed - 1, needed // 2, 1):
            short = ask(database, budget)
            found: list[simdb.Pair] = []
            told = f"budget of {budget:,} pairs exceeded"
            with pytest.raises(OperationInterruptedError, match=told):
                found.extend(short)
            assert everything[: len(found)] == found
            # What is known before is refused before; else the step is done that goes beyond.
            assert short.looked_at <= budget or "scan" not in name


@pytest.mark.parametrize("name", ["probable", "memory", "memory of two", "sweep", "dice"])
def test_a_step_looks_at_few_pairs_however_few_of_them_are_similar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    join_by(monkeypatch, "sweep" if name == "sweep" else "memory", room=10_000)
    noted: list[int] = []
    note = Work.note

    def counted(self: Work, pairs: int) -> None:
        noted.append(pairs)
        note(self, pairs)

    monkeypatch.setattr(Work, "note", counted)
    with stored(tmp_path / "s.simdb", name) as database:
        whole = list(ASKED[name](database, None))
        before = max(noted), sum(noted)
        noted.clear()
        for module, limit in (
            (meeting, "VISITED_AT_ONCE"),
            (joins, "SCANNED_AT_ONCE"),
            (sweep, "SCANNED_AT_ONCE"),
        ):
            monkeypatch.setattr(module, limit, 10)
        pairs = ASKED[name](database, None)
        assert list(pairs) == whole
    # Of a join, those of the last posting, with those of as many items as there are, come on top.
    most = 10 if name == "probable" else 10 + 60
    assert max(noted) <= most < before[0]
    assert sum(noted) == before[1] == pairs.looked_at


@pytest.mark.parametrize("threads", [1, 2])
def test_a_join_whose_budget_ends_goes_on_by_steps_of_few_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(joins, "CHUNK", 4)
    steps: list[int] = []
    advance = joins._Range.advance

    def counted(self: Any, most: int) -> Any:
        found = advance(self, 2**62)  # as many pairs as there are
        steps.append(int(found[1][kernels.postings.CANDIDATES]))
        return found

    monkeypatch.setattr(joins._Range, "advance", counted)
    with stored(tmp_path / "s.simdb", "memory of two"):
        pass
    with simdb.open(tmp_path / "s.simdb", threads=threads) as database:
        pairs = ASKED["memory of two"](database, 10)
        with pytest.raises(OperationInterruptedError):
            list(pairs)
        assert pairs.looked_at < 100
        assert sum(steps) < 20
        steps.clear()
        whole = ASKED["memory of two"](database, None)
        assert len(list(whole)) > 100
        assert sum(steps) > 100
        assert threads == 2 or max(steps) <= 4


def test_a_join_all_with_all_says_so_before_it_compares(tmp_path: Path) -> None:
    with stored(tmp_path / "s.simdb", "scan") as database:
        pairs = ASKED["scan"](database, 1_769)
        with pytest.raises(OperationInterruptedError, match="1,770 or more have to be looked at"):
            next(iter(pairs))


def test_an_exact_join_goes_on_where_its_budget_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_by(monkeypatch, "sweep", room=64)
    with stored(tmp_path / "s.simdb", "sweep") as database:
        whole = database["a"].pairs(0.6)
        expected = sorted((pair.left, pair.right) for pair in whole)
        pairs = database["a"].pairs(0.6, budget=whole.looked_at - 1)
        found: list[tuple[list[int], list[int]]] = []
        with pytest.raises(OperationInterruptedError):
            found.extend((batch.left.tolist(), batch.right.tolist()) for batch in pairs.batches())
        rest = database["a"].pairs(0.6, resume=pairs.token)
        done = {pair for left, right in found for pair in zip(left, right, strict=True)}
        assert {(pair.left, pair.right) for pair in rest} | done == set(expected)


@pytest.mark.parametrize("way", ["probable", "memory", "sweep", "scan"])
def test_groups_have_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    join_by(monkeypatch, "sweep" if way == "sweep" else "memory")
    with stored(tmp_path / "s.simdb", way) as database:
        bound: dict[str, Any] = {"max_distance": 2} if way == "scan" else {"threshold": 0.6}
        groups = database["a"].groups(**bound)
        assert groups.looked_at > len(groups) > 0
        same = database["a"].groups(**bound, budget=groups.looked_at)
        assert [group.keys for group in same] == [group.keys for group in groups]
        with pytest.raises(OperationInterruptedError, match="budget"):
            database["a"].groups(**bound, budget=groups.looked_at - 1)


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, "9"])
def test_a_budget_is_a_number_of_pairs(tmp_path: Path, budget: Any) -> None:
    with stored(tmp_path / "s.simdb", "scan") as database:
        one, other = database["a"], database["b"]
        for ask in (one.pairs, one.groups, lambda **options: one.join(other, **options)):
            with pytest.raises(ConfigurationError, match="budget"):
                ask(max_distance=2, budget=budget)


@pytest.mark.parametrize("command", [("pairs", "a"), ("join", "a", "b"), ("groups", "a")])
def test_a_command_ends_at_its_budget(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "s.simdb"
    with stored(path, "scan"):
        pass
    name, *collections = command
    line = [name, str(path), *collections, "--max-distance", "2"]
    whole = run(*line)
    assert whole.exit_code == 0, whole.stderr
    assert run(*line, "--budget", "9999").stdout == whole.stdout
    ended = run(*line, "--budget", "99")
    assert ended.exit_code == 2
    pairs = "3,600" if name == "join" else "1,770"
    assert f"budget of 99 pairs exceeded: {pairs} or more have to be looked at" in ended.stderr
    assert "--budget" in ended.stderr.partition(";")[2]
    assert not ended.stdout

"""Rows that threads add one by one become batches, and each thread is told as if it were alone."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

import simdb
from simdb.errors import DatabaseBusyError
from simdb.opened.together import MOST_ROWS, Together
from simdb.results import Outcome, Outcomes
from tests.support.grids import some_of
from tests.support.threads import Call

PATIENCE = 20.0  # seconds


class Loads:
    """Stands for what adds rows: notes them, and holds the first call up until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.go = threading.Event()
        self.raised: dict[Any, BaseException] = {}  # by a row
        self.alone: dict[Any, BaseException] = {}  # by a row that is added by itself
        self.part = MOST_ROWS  # rows of a transaction

    def __call__(
        self, rows: Sequence[Any], on_bad: str, outcomes: Callable[[Outcomes], None]
    ) -> None:
        self.batches.append(list(rows))
        assert self.go.wait(PATIENCE)
        assert on_bad == ("skip" if len(rows) > 1 else "error")
        for begin in range(0, len(rows), self.part):
            part = rows[begin : begin + self.part]
            for row in part:
                if row in self.raised:
                    raise self.raised[row]
                if len(rows) == 1 and row in self.alone:
                    raise self.alone[row]
            outcomes(
                Outcomes(
                    Outcome(place, row, "bad" if row in self.alone else "added")
                    for place, row in enumerate(part, begin)
                )
            )


def are_waiting(together: Together, count: int) -> bool:
    line = together._lines.get("x")
    return line is not None and len(line.waiting) == count


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def all_behind_one(loads: Loads, rows: Sequence[Any]) -> list[Call]:
    """Add row "first", and the others while it is being added; wait for all."""
    together = Together()
    calls = [Call(lambda: together.add("x", "first", loads))]
    until(lambda: loads.batches == [["first"]])
    for place, row in enumerate(rows):
        calls.append(Call(partial(together.add, "x", row, loads)))
        until(partial(are_waiting, together, place + 1))
    loads.go.set()
    for call in calls:
        call.join(PATIENCE)
        assert not call.is_alive()
    assert not together._lines
    return calls[1:]


def test_those_who_came_meanwhile_are_one_batch_in_their_order():
    loads = Loads()
    calls = all_behind_one(loads, "abcd")
    assert loads.batches == [["first"], ["a", "b", "c", "d"]]
    assert [call.answer for call in calls] == [Outcome(0, row, "added") for row in "abcd"]


def test_a_batch_has_no_more_rows_than_it_may():
    loads = Loads()
    rows = [*range(MOST_ROWS + 3)]
    calls = all_behind_one(loads, rows)
    assert loads.batches == [["first"], rows[:MOST_ROWS], rows[MOST_ROWS:]]
    assert [call.answer.key for call in calls] == rows


def test_a_bad_row_is_tried_alone_and_its_error_is_of_its_own_thread():
    loads = Loads()
    loads.alone = {"b": simdb.BadItemError("of b"), "d": simdb.KeyExistsError("of d")}
    calls = all_behind_one(loads, "abcd")
    assert sorted(loads.batches[2:]) == [["b"], ["d"]]
    assert [call.answer and call.answer.key for call in calls] == ["a", None, "c", None]
    assert [call.error for call in calls] == [None, loads.alone["b"], None, loads.alone["d"]]


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit()])
def test_what_ends_a_batch_otherwise_leaves_those_that_are_not_stored_to_their_threads(error):
    loads = Loads()
    loads.part, loads.raised = 2, {"c": error}
    calls = all_behind_one(loads, "abcde")
    assert loads.batches[1] == [*"abcde"]
    assert sorted(loads.batches[2:]) == [["c"], ["d"], ["e"]]
    told = [call.answer and call.answer.key for call in calls]
    if isinstance(error, SystemExit):  # of the thread that led
        assert told == [None, "b", None, "d", "e"]
        assert calls[0].error is error
    else:
        assert told == ["a", "b", None, "d", "e"]
    assert calls[2].error is error


def test_what_fails_of_the_store_is_told_to_all_that_are_not_stored():
    loads = Loads()
    loads.part, loads.raised = 2, {"c": DatabaseBusyError("busy")}
    calls = all_behind_one(loads, "abcde")
    assert len(loads.batches) == 2
    assert [call.answer and call.answer.key for call in calls] == ["a", "b", None, None, None]
    errors = [call.error for call in calls[2:]]
    assert [type(error) for error in errors] == [DatabaseBusyError] * 3
    assert len(set(map(id, errors))) == 3  # each has a traceback of its own


def test_others_and_the_main_thread_are_added_by_themselves():
    loads, together = Loads(), Together()
    first = Call(lambda: together.add("x", "first", loads))
    until(lambda: len(loads.batches) == 1)
    other = Call(lambda: together.add("y", "other", loads))
    until(lambda: len(loads.batches) == 2)
    waits = Call(lambda: together.add("x", "waits", loads))
    until(partial(are_waiting, together, 1))
    loads.go.set()
    assert together.add("x", "main", loads) == Outcome(0, "main", "added")
    for call in (first, other, waits):
        call.join(PATIENCE)
        assert call.answer is not None
    assert sorted(loads.batches) == [["first"], ["main"], ["other"], ["waits"]]


# -- a store -----------------------------------------------------------------------------------

POLICIES: tuple[dict[str, Any], ...] = (
    *({"on_existing": choice} for choice in ("error", "skip", "replace")),
    {"find_duplicates": True, "on_existing": "skip"},
    {"on_duplicate": "skip", "threshold": "0.6"},
)
ERRORS = (simdb.KeyExistsError, simdb.BadItemError, simdb.WrongTypeError)


def told(add: Callable[..., Outcome], row: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a call answers, or raises."""
    try:
        return add(*row, **options)
    except ERRORS as error:
        return type(error), str(error)


def made_rows(draw: random.Random) -> list[tuple[Any, Any]]:
    """Rows of few keys and of few items that are alike; some cannot be stored."""
    rows: list[tuple[Any, Any]] = []
    for _ in range(40):
        first = 10 * draw.randrange(6)
        item: Any = [*range(first, first + 6 + draw.randrange(3))]
        if draw.random() < 0.1:
            item = draw.choice([7, ["no", 8], None])
        rows.append((draw.choice([draw.randrange(60), str(draw.randrange(10))]), item))
    return rows


@pytest.mark.parametrize("options", POLICIES)
@pytest.mark.parametrize("seed", some_of(range(6), 2))
def test_what_threads_are_told_is_what_one_would_be_told(tmp_path, seed, options, monkeypatch):
    """Replayed one by one in the order in which they were added, all calls answer the same."""
    order: list[Any] = []
    draw = random.Random(seed)
    parts = [made_rows(draw) for _ in range(5)]
    answers: list[list[Any]] = [[] for _ in parts]
    with simdb.open(tmp_path / "store.simdb", threads=1) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        load = type(made)._load

        def noted(self: Any, rows: Any, policy: Any, progress: Any, outcomes: Any) -> Any:
            def note(done: Outcomes) -> None:
                order.extend(rows[outcome.row] for outcome in done if outcome.action != "bad")
                outcomes(done)

            return load(self, rows, policy, progress, note)

        monkeypatch.setattr(type(made), "_load", noted)

        def work(part: int) -> None:
            for row in parts[part]:
                answers[part].append(told(made.add, row, options))

        calls = [Call(partial(work, part)) for part in range(len(parts))]
        for call in calls:
            call.join(PATIENCE)
            assert call.error is None
        monkeypatch.undo()
        stored = {item.key: item.item for item in made.items()}
        assert not made.check(deep=True).problems
    by_row = {
        id(row[1]): answer
        for rows, own in zip(parts, answers, strict=True)
        for row, answer in zip(rows, own, strict=True)
    }
    assert sum(map(len, answers)) == 200
    with simdb.open(tmp_path / "one.simdb", threads=1) as database:
        alone = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        for row in order:
            assert told(alone.add, row[:2], options) == by_row[id(row[1])]
        assert stored == {item.key: item.item for item in alone.items()}
        for rows, own in zip(parts, answers, strict=True):
            for row, answer in zip(rows, own, strict=True):
                if isinstance(answer, tuple):  # an error, which the same row raises still
                    assert told(alone.add, row, options) == answer


def test_rows_of_many_threads_need_few_commits(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        made.add("first", [0])
        environment = made._handle.environment
        before = environment.statistics()["commits"]

        def work(part: int) -> None:
            for number in range(25):
                made.add(25 * part + number, [part, number])

        with environment.write(PATIENCE):  # until all wait
            calls = [Call(partial(work, part)) for part in range(8)]
            (alike,) = _awaited(made, 7)
            assert alike[0] == made._known.settings.number
        for call in calls:
            call.join(PATIENCE)
            assert call.error is None
        assert len(made) == 201
        assert environment.statistics()["commits"] - before < 150


def _awaited(collection: simdb.Collection, count: int) -> list[Any]:
    found = collection._handle.together._lines
    until(lambda: sum(len(line.waiting) for line in found.values()) == count)
    return [*found]


def test_a_child_of_a_fork_does_not_wait_for_threads_that_it_has_not(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1, busy_timeout=PATIENCE) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        made.add("first", [0])

        def child() -> None:
            call = Call(lambda: made.add("child", [1]))
            call.join(PATIENCE)
            assert call.answer == Outcome(0, "child", "added")

        with made._handle.environment.write(PATIENCE):
            calls = [Call(partial(made.add, key, [2])) for key in ("a", "b")]
            _awaited(made, 1)
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
        process.join(PATIENCE)
        assert process.exitcode == 0
        for call in calls:
            call.join(PATIENCE)
            assert call.error is None
        assert {item.key for item in made.items()} == {"first", "child", "a", "b"}

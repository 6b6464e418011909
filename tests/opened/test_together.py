"""Rows that threads add one by one become batches, and each thread is told as if it were alone."""

from __future__ import annotations

import ctypes
import multiprocessing
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.errors import DatabaseBusyError
from simdb.ingest import add
from simdb.opened import together as together_module
from simdb.opened.together import MOST_ROWS, Together
from simdb.results import Outcome, Outcomes
from simdb.storage.file.locks import LOOKED_EVERY
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
        self, rows: Sequence[Any], outcomes: Callable[[Outcomes], None], since: float
    ) -> None:
        assert since <= time.monotonic()
        self.batches.append(list(rows))
        assert self.go.wait(PATIENCE)
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


def test_where_a_leader_can_wait_no_longer_those_that_are_not_stored_go_on_by_themselves():
    loads = Loads()
    loads.part, loads.raised = 2, {"a": DatabaseBusyError("busy")}
    calls = all_behind_one(loads, "abc")
    assert sorted(loads.batches[2:]) == [["b"], ["c"]]
    assert [call.answer and call.answer.key for call in calls] == [None, "b", "c"]
    assert calls[0].error is loads.raised["a"]
    loads = Loads()
    loads.part, loads.raised = 2, {"c": DatabaseBusyError("busy")}
    calls = all_behind_one(loads, "abcde")
    assert sorted(loads.batches[2:]) == [["c"], ["d"], ["e"]]
    assert [call.answer and call.answer.key for call in calls] == ["a", "b", None, "d", "e"]


def test_one_who_was_told_while_it_looked_does_not_lead(monkeypatch):
    """Its row, which is stored, would be added once more."""
    loads, together = Loads(), Together()
    told, held, go_on = vars(together_module._Call)["is_told"], threading.Event(), threading.Event()

    def late(call: Any) -> bool:
        found = bool(told.fget(call))
        if call.row == "late" and not held.is_set():
            held.set()
            assert go_on.wait(PATIENCE)
        return found

    monkeypatch.setattr(together_module._Call, "is_told", property(late))
    calls = [Call(lambda: together.add("x", "first", loads))]
    until(lambda: loads.batches == [["first"]])
    for row in ("other", "late"):
        calls.append(Call(partial(together.add, "x", row, loads)))
        until(partial(are_waiting, together, len(calls) - 1))
    assert held.wait(PATIENCE)
    loads.go.set()
    for place in (0, 1):
        calls[place].join(PATIENCE)
    go_on.set()
    calls[2].join(PATIENCE)
    assert [call.answer.key for call in calls] == ["first", "other", "late"]
    assert sorted(chain.from_iterable(loads.batches)) == ["first", "late", "other"]


def test_one_who_is_interrupted_while_another_adds_its_row_raises_when_it_is_added():
    """Else the row would be stored over what its thread has stored since."""
    loads, together, added, seen = Loads(), Together(), list[str](), list[str]()
    held, go_on = threading.Event(), threading.Event()

    def load(rows: Sequence[str], outcomes: Callable[[Outcomes], None], since: float) -> None:
        if "late" in rows:
            held.set()
            assert go_on.wait(PATIENCE)
        loads(rows, outcomes, since)
        added.extend(rows)

    def add_late() -> None:
        try:
            together.add("x", "late", load)
        finally:
            seen.extend(added)

    calls = [Call(lambda: together.add("x", "first", load))]
    until(lambda: loads.batches == [["first"]])
    for place, work in enumerate([lambda: together.add("x", "leads", load), add_late], 1):
        calls.append(Call(work))
        until(partial(are_waiting, together, place))
    loads.go.set()
    assert held.wait(PATIENCE)
    late = calls[-1]
    assert late.ident is not None
    for _ in range(2):
        interrupt = ctypes.py_object(TimeoutError)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(late.ident), interrupt)
        time.sleep(2 * LOOKED_EVERY)  # in which it looks, and is interrupted
    go_on.set()
    for call in calls:
        call.join(PATIENCE)
    assert [type(call.error) for call in calls] == [type(None), type(None), TimeoutError]
    assert seen == ["first", "leads", "late"]
    assert not together._lines


def test_nobody_waits_for_a_leader_that_is_gone():
    line, leader, call = together_module._Line(), together_module._Call(1), together_module._Call(2)
    line.waiting.append(weakref.ref(call))
    assert line.is_led_by(leader)
    assert not line.is_being_added(call)
    assert line.taken(1) == [call]
    assert line.is_being_added(call)
    del leader
    assert not line.is_being_added(call)


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


def told(call: Callable[..., Outcome], row: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a call answers, or raises."""
    try:
        return call(*row, **options)
    except ERRORS as error:
        return type(error), str(error)


def made_rows(draw: random.Random) -> list[tuple[Any, Any]]:
    """Rows of few keys and of few items that are alike; some cannot be stored."""
    rows: list[tuple[Any, Any]] = []
    for _ in range(16):
        first = 10 * draw.randrange(6)
        item: Any = [*range(first, first + 6 + draw.randrange(3))]
        if draw.random() < 0.1:
            item = draw.choice([7, ["no", 8], None])
        rows.append((draw.choice([draw.randrange(60), str(draw.randrange(10))]), item))
    return rows


@pytest.fixture
def collection(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1, busy_timeout=PATIENCE) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        made.add("first", [0])
        yield made


@pytest.mark.parametrize("options", POLICIES)
@pytest.mark.parametrize("seed", some_of(range(6), 3))
def test_what_threads_are_told_is_what_one_would_be_told(tmp_path, seed, options, monkeypatch):
    """Replayed one by one in the order in which they were added, all calls answer the same."""
    order: list[Any] = []
    sizes: list[int] = []
    given: dict[int, Any] = {}  # rows by what was read of them, which is kept
    kept: list[Any] = []
    draw = random.Random(seed)
    parts = [made_rows(draw) for _ in range(5)]
    answers: list[list[Any]] = [[] for _ in parts]
    read_row, add_rows = add.read_row, add.add_rows

    def read(access: Any, known: Any, row: Any) -> Any:
        found = read_row(access, known, row)
        kept.append(found)
        given[id(found)] = row
        return found

    def noted(access: Any, known: Any, policy: Any, rows: Any, *, outcomes: Any) -> Any:
        def note(done: Outcomes) -> None:
            order.extend(given[id(rows[one.row])] for one in done if one.action != "bad")
            outcomes(done)

        sizes.append(len(rows))
        return add_rows(access, known, policy, rows, outcomes=note)

    monkeypatch.setattr(add, "read_row", read)
    monkeypatch.setattr(add, "add_rows", noted)
    with simdb.open(tmp_path / "store.simdb", threads=1) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)

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
    assert max(sizes) > 1
    by_row = {
        id(row[1]): answer
        for rows, own in zip(parts, answers, strict=True)
        for row, answer in zip(rows, own, strict=True)
    }
    assert sum(map(len, answers)) == 80
    with simdb.open(tmp_path / "one.simdb", threads=1) as database:
        alone = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        for row in order:
            assert told(alone.add, row[:2], options) == by_row[id(row[1])]
        assert stored == {item.key: item.item for item in alone.items()}
        for rows, own in zip(parts, answers, strict=True):
            for row, answer in zip(rows, own, strict=True):
                if isinstance(answer, tuple):  # an error, which the same row raises still
                    assert told(alone.add, row, options) == answer


def test_rows_of_many_threads_are_few_batches(collection, monkeypatch):
    sizes: list[int] = []
    add_rows = add.add_rows

    def noted(*given: Any, **named: Any) -> Any:
        sizes.append(len(given[3]))
        return add_rows(*given, **named)

    def work(part: int) -> None:
        for number in range(25):
            collection.add(25 * part + number, [part, number])

    monkeypatch.setattr(add, "add_rows", noted)
    with collection._handle.environment.write(PATIENCE):  # until all wait
        calls = [Call(partial(work, part)) for part in range(8)]
        (alike,) = _awaited(collection, 7)
        assert alike[0] == collection._known.settings.number
    for call in calls:
        call.join(PATIENCE)
        assert call.error is None
    assert len(collection) == 201
    assert sizes[0] == 1
    assert sizes[1] >= 7
    assert len(sizes) < 120  # one for each row, if each came alone


class Meddling(set[int]):
    """A set that does something when it is read."""

    def __init__(self, what: Callable[[], object]) -> None:
        super().__init__([1, 2, 3])
        self._what = what

    def __iter__(self) -> Iterator[int]:
        self._what()
        return super().__iter__()


def test_an_item_that_adds_another_one_when_it_is_read_adds_both(collection):
    inner = Meddling(lambda: "inner" in collection or collection.add("inner", [5, 6]))
    call = Call(lambda: collection.add("outer", inner))
    call.join(PATIENCE)
    assert call.answer == Outcome(0, "outer", "added")
    assert {item.key for item in collection.items()} == {"first", "inner", "outer"}


def test_a_call_within_a_load_is_added_alone():
    together, batches = Together(), []

    def load(rows: Sequence[Any], outcomes: Callable[[Outcomes], None], _: float) -> None:
        if rows == ["outer"]:
            assert together.add("x", "inner", load).key == "inner"
        batches.append(list(rows))
        outcomes(Outcomes(Outcome(place, row, "added") for place, row in enumerate(rows)))

    call = Call(lambda: together.add("x", "outer", load))
    call.join(PATIENCE)
    assert call.answer == Outcome(0, "outer", "added")
    assert batches == [["inner"], ["outer"]]


def test_items_are_read_by_the_threads_that_add_them(collection):
    readers: list[tuple[str, int]] = []

    def work(key: str) -> int:
        collection.add(key, Meddling(lambda: readers.append((key, threading.get_ident()))))
        return threading.get_ident()

    with collection._handle.environment.write(PATIENCE):
        calls = [Call(partial(work, key)) for key in "abcd"]
        _awaited(collection, 3)
    for call in calls:
        call.join(PATIENCE)
    assert set(readers) == {(key, call.answer) for key, call in zip("abcd", calls, strict=True)}


def test_closing_completes_the_calls_of_those_who_wait(collection):
    path = collection._handle.path
    with collection._handle.environment.write(PATIENCE):
        calls = [Call(partial(collection.add, key, [2])) for key in "abcd"]
        _awaited(collection, 3)
        collection._handle.close()
    for call in calls:
        call.join(PATIENCE)
        assert call.error is None
    with simdb.open(path) as database:
        assert {item.key for item in database["c"].items()} == {"first", *"abcd"}


def test_all_who_wait_are_told_that_the_store_is_busy(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1, busy_timeout=0.5) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        made.add("first", [0])
        with made._handle.environment.write(PATIENCE):
            calls = [Call(partial(made.add, key, [2])) for key in "abcd"]
            for call in calls:
                call.join(PATIENCE)
        assert [type(call.error) for call in calls] == [DatabaseBusyError] * 4
        assert all("has held the store for 0.5 s;" in str(call.error) for call in calls)
        assert len(made) == 1


def test_one_who_comes_later_waits_for_as_long_as_its_own_timeout_says(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1, busy_timeout=0.6) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        with made._handle.environment.write(PATIENCE):
            calls = [Call(partial(made.add, "a", [1]))]
            time.sleep(0.3)
            calls.append(Call(partial(made.add, "b", [2])))
            calls[0].join(PATIENCE)
        calls[1].join(PATIENCE)
        assert isinstance(calls[0].error, DatabaseBusyError)
        assert calls[1].error is None
        assert {item.key for item in made.items()} == {"b"}


def test_a_row_that_does_not_fit_is_the_only_one_that_is_refused(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1, map_size=2**20) as database:
        made = database.create_collection("c", simdb.Set(), threshold="0.5", seed=1)
        made.add("first", [0])
        rows: dict[str, Any] = {
            "a": [1],
            "big": np.random.default_rng(1).integers(2**60, size=200_000),
            "b": [2],
        }
        with made._handle.environment.write(PATIENCE):
            calls = [Call(partial(made.add, key, item)) for key, item in rows.items()]
            _awaited(made, 2)
        for call in calls:
            call.join(PATIENCE)
        errors = [type(call.error) for call in calls]
        assert errors == [type(None), simdb.DatabaseFullError, type(None)]
        assert {item.key for item in made.items()} == {"first", "a", "b"}


def _awaited(collection: simdb.Collection, count: int) -> list[Any]:
    found = collection._handle.together._lines
    until(lambda: sum(len(line.waiting) for line in found.values()) == count)
    return [*found]


def test_a_child_of_a_fork_does_not_wait_for_threads_that_it_has_not(collection):
    def child() -> None:
        begin = threading.Barrier(4)  # more than waited: threads take over numbers of those

        def work(number: int) -> Any:
            begin.wait(PATIENCE)
            return collection.add(number, [number])

        calls = [Call(partial(work, number)) for number in range(4)]
        for number, call in enumerate(calls):
            call.join(PATIENCE)
            assert call.answer == Outcome(0, number, "added")

    with collection._handle.environment.write(PATIENCE):
        calls = [Call(partial(collection.add, key, [2])) for key in ("a", "b")]
        _awaited(collection, 1)
        process = multiprocessing.get_context("fork").Process(target=child)
        with collection._handle.together._lock:  # as a thread may have it at any time
            process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    for call in calls:
        call.join(PATIENCE)
        assert call.error is None
    assert {item.key for item in collection.items()} == {"first", "a", "b", *range(4)}

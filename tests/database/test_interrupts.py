"""An interrupt (Ctrl-C) may fall between any two lines: nothing stays locked, mapped or counted."""

from __future__ import annotations

import dis
import fcntl
import gc
import inspect
import linecache
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import pytest

import simdb
from simdb import threads as own_threads
from simdb import unfinished
from simdb.answers import ahead
from simdb.answers.ahead import done_ahead
from simdb.exact import joins
from simdb.exact.joins import Workers, in_order
from simdb.opened import opened as handle
from simdb.opened import together
from simdb.storage.file import environment as environments
from simdb.storage.file import groups, locks, preflight
from simdb.threads import Pool
from tests.support.processes import answer_of, ended

FILES = {module.__file__ for module in (environments, groups, handle, locks, together)}
OF_THREADS = {module.__file__ for module in (own_threads, ahead, joins)}
MISSED = 3  # interrupts at lines that are not reached
LOCKS = ("_gate:", "_lock:", "_mutex:", "_registry_lock:")
WORDS = simdb.Text(simdb.WordShingles(1))


class Traced:
    """Follows what is executed in a block, by ``_called``."""

    def __enter__(self) -> Self:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        raise NotImplementedError


class Interrupt(Traced):
    """Raises KeyboardInterrupt at the n-th line of the modules that is executed in a block."""

    def __init__(self, number: int, files: Set[str | None] = FILES) -> None:
        self.left = number
        self._files = files
        self.where = ""
        self._begun: set[tuple[int, int]] = set()

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        is_ours = frame.f_code.co_filename in self._files
        return self._line if is_ours and not in_finaliser(frame) else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.left -= 1
            # The interpreter itself lets nothing come between a lock and its block, nor between the
            # end of a block and the call of __exit__, which is a line of its own for a tracer.
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            place = id(frame), frame.f_lineno
            ends = line.startswith("with ") and place in self._begun
            self._begun.add(place)
            if self.left < 0 and line != "try:" and not line.endswith(LOCKS) and not ends:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._line


def in_finaliser(frame: FrameType) -> bool:
    """Whether a call is part of a ``__del__``, in which Python passes over every error."""
    names = (outer.f_code.co_name for outer, _ in traceback.walk_stack(frame))
    return "__del__" in names


def interrupted(path: Path, what: str, number: int) -> str:
    """Interrupt a call at a line; return where, and what does not work afterwards."""
    database = simdb.open(path, busy_timeout=1, threads=1, sync="batch")
    collection = database["c"]
    collection.add(f"first {what} {number}", "some words to be found")
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: collection.add(f"{what} {number}", "some words to be found"),
        "search": lambda: collection.search("some words to be found"),
        "snapshot": lambda: looked_at(database),
        "open": lambda: simdb.open(path, threads=1, sync="batch").close(),
    }
    interrupt = Interrupt(number)
    try:
        with interrupt:
            calls[what]()
    except KeyboardInterrupt:
        pass
    if not interrupt.where:
        return "not reached"
    # Now that the error is handled, and what its traceback has held is gone.
    return f"{interrupt.where}: {'; '.join(left_behind(database))}"


class Handled(Interrupt):
    """Calls a function at the n-th line in place of raising anything, as handlers of signals do."""

    def __init__(self, number: int, handler: Callable[[], object]) -> None:
        super().__init__(number)
        self._handler = handler

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        try:
            return super()._line(frame, event, argument)
        except KeyboardInterrupt:
            self._handler()
            return None


@pytest.mark.parametrize("batch", [False, True])
def test_a_handler_that_writes_amid_a_write_is_told_so_at_once(tmp_path: Path, batch: bool) -> None:
    told: list[str] = []
    with simdb.open(tmp_path / "s.simdb", busy_timeout=0.2, threads=1, sync="batch") as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5)
        collection.add("first", [1, 2])

        def handler() -> None:
            try:
                told.append(collection.add(f"handler {number}", [number]).action)
            except simdb.UsageError as error:
                told.append("refused" if "in the middle of a write" in str(error) else str(error))

        step = 11
        for number in range(0, 2_000, step):
            with Handled(number, handler) as handled:
                if batch:
                    collection.add_many([(number, [number, -1])])
                else:
                    collection.add(number, [number, -1])
            if not handled.where:
                break
        assert not handled.where
        assert not collection.check().problems
        assert len(collection) == 1 + (number // step + 1) + told.count("added")
    assert {*told} == {"added", "refused"}


@pytest.mark.parametrize("number", [1, 2])
def test_an_error_of_a_handler_that_is_kept_refuses_no_later_write(
    tmp_path: Path, number: int
) -> None:
    """Raised where a write is noted, before it waits for others."""
    calls = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        code, caller = frame.f_code, frame.f_back
        if (
            event == "call"
            and code.co_name == "add"
            and caller
            and caller.f_code.co_name == "_write"
        ):
            calls += 1
            if calls == number:
                sys.setprofile(None)
                raise TimeoutError

    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5)
        collection.add("first", [1])
        kept = None
        sys.setprofile(profile)
        try:
            collection.add("a", [1])
        except TimeoutError as error:
            kept = error
        sys.setprofile(None)
        assert kept is not None
        assert collection.add("b", [2]).action == "added"


def looked_at(database: simdb.Database) -> None:
    with database.snapshot() as state:
        state["c"].get("a")


def left_behind(database: simdb.Database) -> Iterator[str]:
    """Yield what an interrupt has spoilt."""
    opened = database._handle.environment
    if len(opened._live) or len(opened._waiting):
        yield f"{len(opened._live)} transactions live, {len(opened._waiting)} waiting"
    entered: list[bool] = []

    def enter() -> None:
        entered.append(opened._gate.acquire(timeout=1))
        if entered[0]:
            opened._gate.release()

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if not entered[0]:
        yield "another thread is locked out"
        return
    with simdb.open(database.path, busy_timeout=1, threads=1, sync="batch") as other:
        try:
            other["c"].add(os.urandom(8).hex(), "some other words")
        except simdb.SimdbError as error:
            yield f"the next add fails: {error}"
    database.close()
    if not opened.is_finished:
        yield "it is not closed"
    with database.path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield "the file is locked after closing"


@pytest.mark.parametrize("what", ["add", "search", "snapshot", "open"])
@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_line_leaves_the_store_usable(
    tmp_path: Path, what: str, step: int
) -> None:
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1, sync="batch") as database:
        collection = database.collection("c", WORDS, seed=1)
        collection.add("a", "some words to be found")
        collection.search("some words to be found")
    told = []
    for number in range(0, 2_000, step):
        told.append(answer_of(partial(interrupted, path, what, number)))
        if told[-1] == "not reached":
            break
    assert len(told) > 1
    assert told[-1] == "not reached"
    assert [one for one in told[:-1] if not one.endswith(":")] == []


def test_an_interrupt_of_the_turn_of_a_backup_keeps_nobody_from_writing(tmp_path: Path) -> None:
    """Its traceback is gone; what was held until Python's collector runs is not."""
    with simdb.open(tmp_path / "s.simdb", busy_timeout=0, threads=1, sync="batch") as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5)
        collection.add("first", [1])
        told = []
        gc.disable()
        try:
            for line in range(1_000):
                interrupt = Interrupt(line, {locks.__file__})
                with suppress(KeyboardInterrupt), interrupt:
                    database.backup(tmp_path / str(line))
                if not interrupt.where:
                    break
                try:
                    collection.add(line, [1])
                except simdb.DatabaseBusyError:
                    told.append(interrupt.where)
                    gc.collect()
        finally:
            gc.enable()
    assert 20 < line < 1_000
    assert told == []


class AfterCall(Traced):
    """Raises TimeoutError when the n-th call made in a file's functions has returned.

    There the interpreter looks for signals: before what was returned has a name.
    """

    def __init__(self, number: int, *functions: Callable[..., object]) -> None:
        self.left = number
        self.is_over = False
        self._codes = {inspect.unwrap(function).__code__ for function in functions}

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code not in self._codes:
            return None
        names = {one.offset: one.opname for one in dis.get_instructions(frame.f_code)}
        frame.f_trace_opcodes = True
        last = ""

        def traced(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal last
            if event == "opcode":
                self.left -= last.startswith("CALL")
                if self.left < 0:
                    self.is_over = True
                    sys.settrace(None)
                    raise TimeoutError
                last = names[frame.f_lasti]
            return traced

        return traced


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="opcodes of a frame are told from its second call on"
)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("what", ["folder", "lock file", "queue", "rows"])
def test_an_interrupt_amid_an_opening_leaves_no_file_and_no_folder_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    path = tmp_path / "other"
    path.touch()
    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5)
        collection.add("a", [1])
        cases: dict[str, tuple[Callable[[], object], list[Callable[..., object]]]] = {
            "folder": (lambda: unfinished.sync_folder(tmp_path), [unfinished._opened]),
            "lock file": (
                lambda: preflight.reserve_lock_file(path),
                [preflight.reserve_lock_file, preflight.opened_file],
            ),
            "queue": (
                lambda: locks.WriterQueue(path).close(),
                [locks.WriterQueue.__init__, preflight.opened_file],
            ),
            "rows": (
                lambda: [*collection.join([("b", [1])])],
                [simdb.Collection._collected],
            ),
        }
        call, functions = cases[what]
        call()
        gc.collect()
        before, left = open_files(), []
        for number in range(100):
            interrupt = AfterCall(number, *functions)
            with suppress(TimeoutError), interrupt:
                call()
            if what == "rows":
                gc.collect(1)  # what is older is of the others
            if open_files() > before or [*temporary.iterdir()]:
                left.append(number)
            if not interrupt.is_over:
                break
    assert 1 < number < 99
    assert left == []


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


class Piece:
    """A work of ``in_order``, done in one step."""

    def __init__(self, call: Callable[[], int]) -> None:
        self.call, self.done = call, False

    def advance(self, _most: int) -> int:
        self.done = True
        return self.call()


@pytest.mark.parametrize("in_joins", [False, True])
def test_an_interrupt_at_any_line_leaves_threads_that_go_on_and_nothing_that_runs(
    in_joins: bool,
) -> None:
    """A Ctrl-C in what Python has for it let every later call hang, and ``close`` too."""
    running: set[int] = set()

    def call(number: int) -> int:
        running.add(number)
        time.sleep(0.0005)
        running.remove(number)
        return number

    pool, told = Pool(2, "test"), []
    for line in range(1_000):
        interrupt = Interrupt(line, OF_THREADS)
        calls = [partial(call, one) for one in range(5)]
        with suppress(KeyboardInterrupt), interrupt:
            if in_joins:
                with closing(in_order(map(Piece, calls), Workers(pool, 2, 1))) as done:
                    assert list(done) == [*range(5)]
            else:
                assert list(done_ahead(calls, pool)) == [*range(5)]
        if not interrupt.where:
            break
        told += [f"{interrupt.where}: {sorted(running)} still run"] * bool(running)
        next_one = pool.submit(int, "7")
        told += [f"{interrupt.where}: the next call waits"] * (not next_one.wait(10))
    assert 20 < line < 1_000
    assert told == []
    end = threading.Thread(target=pool.close, daemon=True)
    end.start()
    end.join(10)
    assert not end.is_alive()


INTERRUPTED_FORK = """
import os, signal, sys, threading
import simdb
from simdb.storage.file.environment import Environment

signal.alarm(20)
sys.unraisablehook = lambda _: None  # Python passes over what is raised before and after a fork
closing = Environment._unmap
def interrupted(self):
    Environment._unmap = closing
    self._environment = None
    raise KeyboardInterrupt

with simdb.open("s.simdb", threads=1) as database:
    collection = database.collection("c", simdb.Set(), threshold=0.5)
    def use(key):
        collection.add(key, [1, 2])
        assert key in collection
    use("first")
    Environment._unmap = interrupted
    child = os.fork()
    if not child:
        use("child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    thread = threading.Thread(target=use, args=("thread",))
    thread.start()
    thread.join()
    assert sorted(entry.key for entry in collection.items()) == ["child", "first", "thread"]
print("usable")
"""


def test_an_interrupt_of_a_fork_leaves_the_store_usable_in_both_processes(tmp_path: Path) -> None:
    assert ended(sys.executable, "-c", INTERRUPTED_FORK, cwd=tmp_path).stdout == "usable\n"


def test_an_interrupt_within_a_kernel_comes_when_the_kernel_has_ended():
    """It was SystemError, which numba made of one that came while it found out what to return."""
    kind = simdb.String()
    measure, items = kind.make_measure(), kind.make_items(b"secret")
    place = np.zeros(1, np.int64)

    def compare(text: str) -> None:
        stored = [items.encode(text), items.encode(text[::-1])]
        measure.compare_pairs(items.features(stored), place, place + 1)

    compare("compiled, and its types known")
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    long = "".join(map(chr, np.random.default_rng(1).integers(97, 120, 60_000)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)  # seconds, of which the kernel takes more
        with pytest.raises(KeyboardInterrupt):
            compare(long)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


@pytest.mark.heavy
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("step", [113, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_batch", [False, True])
def test_who_is_interrupted_in_what_is_shared_takes_nobody_with_it(
    tmp_path: Path, place: int, step: int, is_batch: bool
) -> None:
    """Of rows added one by one, which become one batch, and of batches that share a commit."""
    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5, seed=1)
        collection.add("first", [1])
        if place and not is_batch:  # one whose row another adds runs few lines
            step = max(1, step // 8)
        reached = missed = 0  # which of those who wait leads is chance
        for number in range(0, 2_000, step):
            interrupt = Interrupt(number)
            wrong = add_together(collection, place, number, interrupt, is_batch=is_batch)
            assert not wrong, interrupt.where
            missed = 0 if interrupt.where else missed + 1
            reached += missed == 0
            if missed == MISSED:
                break
        assert missed == MISSED
        assert reached > 1
        assert not collection.check(deep=True).problems


def add_together(
    collection: simdb.Collection, place: int, number: int, interrupt: Interrupt, *, is_batch: bool
) -> list[str]:
    """Let three threads that wait for each other add, of which one is interrupted."""
    wrong: list[str] = []

    def add(key: str, within: AbstractContextManager[object]) -> None:
        try:
            with within:
                if is_batch:
                    collection.add_many([(key, [number, 7])])
                else:
                    collection.add(key, [number, 7])
        except KeyboardInterrupt:
            pass
        except simdb.KeyExistsError as error:
            # It was added by one that was interrupted before it could say so.
            if is_batch or not interrupt.where:
                wrong.append(f"{key}: {error}")
        except simdb.SimdbError as error:
            wrong.append(f"{key}: {error}")

    def waiting() -> int:
        if is_batch:
            return len(opened.lobby._waiting)
        return sum(len(line.waiting) for line in collection._handle.together._lines.values())

    opened = collection._handle.environment
    threads = []
    with opened.write(20):
        for other in range(3):
            within = interrupt if other == place else nullcontext()
            thread = threading.Thread(target=add, args=(f"{number}/{other}", within), daemon=True)
            thread.start()
            threads.append(thread)
            deadline = time.monotonic() + 0.04  # one that was interrupted does not come
            while waiting() < other and time.monotonic() < deadline:
                time.sleep(0.0005)
    for thread in threads:
        thread.join(20)
        wrong += ["it hangs"] * thread.is_alive()
    absent = [other for other in range(3) if f"{number}/{other}" not in collection]
    if not set(absent) <= ({place} if interrupt.where else set()):
        wrong.append(f"absent: {absent}")
    if len(opened._waiting) or len(opened._live):
        wrong.append("transactions are left")
    return wrong

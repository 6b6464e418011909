"""Threads that make calls for others, whose callers may be interrupted."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import pytest

import simdb
from simdb import threads
from simdb.answers.ahead import done_ahead
from simdb.errors import DatabaseClosedError
from simdb.opened.opened import Handle
from simdb.storage.file.environment import ReadTransaction
from simdb.threads import Pool, Settled, Task, after_given_up
from tests.support.processes import Child, answer_of, ended
from tests.support.threads import Call


def test_calls_are_begun_in_the_order_in_which_they_are_given():
    begun: list[int] = []
    with Pool(1, "test") as pool:
        tasks = [pool.submit(begun.append, number) for number in range(50)]
        assert [task.result() for task in tasks] == [None] * 50
    assert begun == [*range(50)]


def test_as_many_calls_run_at_a_time_as_there_are_threads():
    meet = threading.Barrier(3)
    with Pool(3, "test") as pool:
        tasks = [pool.submit(meet.wait, 10) for _ in range(3)]
        assert sorted(task.result() for task in tasks) == [0, 1, 2]


def test_what_a_call_raises_is_raised_to_all_who_ask():
    with Pool(1, "test") as pool:
        task = pool.submit(divmod, 1, 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                task.result()
        assert pool.submit(divmod, 7, 2).result() == (3, 1)


def test_what_follows_a_task_is_done_at_its_end_by_who_makes_it():
    done: list[str] = []

    def work() -> None:
        assert tasks[0].then(partial(divmod, 1, 0))  # which harms nobody
        assert tasks[0].then(partial(done.append, "after"))
        assert tasks[0].then(partial(done.append, "then"))
        done.append("present")

    tasks = [Task(work)]
    with Pool(1, "test") as pool:
        pool.start(tasks[0])
        pool.submit(done.append, "next")
    assert not tasks[0].then(partial(done.append, "never"))
    assert done == ["present", "after", "then", "next"]


def test_what_nobody_has_begun_can_be_cancelled():
    begun, may_end = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return may_end.wait(10)

    made: list[int] = []
    with Pool(1, "test") as pool:
        running, waiting = pool.submit(wait), pool.submit(made.append, 1)
        assert begun.wait(10)
        assert not running.cancel()
        assert not running.wait(0.01)
        assert waiting.cancel()
        assert waiting.cancel()
        assert waiting.wait()
        may_end.set()
        assert running.result()
        assert running.wait(0)
    assert made == []


def test_a_pool_that_is_closed_has_done_what_it_was_given_and_ends_its_threads():
    before = threading.active_count()
    done: list[int] = []
    pool = Pool(2, "test")
    assert threading.active_count() == before + 2
    for number in range(100):
        pool.submit(done.append, number)
    pool.close()
    pool.close()
    assert sorted(done) == [*range(100)]
    require_no_more_threads_than(before)
    assert pool.submit(threading.get_ident).result() == threading.get_ident()


def test_a_pool_whose_closing_was_interrupted_waits_when_it_is_closed_again():
    may_end, done = threading.Event(), list[bool]()
    pool = Pool(2, "test")
    pool.submit(lambda: done.append(may_end.wait(10)))
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            pool.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    threading.Timer(0.05, may_end.set).start()
    pool.close()
    assert done == [True]


def test_the_threads_of_a_pool_that_is_forgotten_end():
    before = threading.active_count()
    pool = Pool(2, "test")
    pool.submit(int).result()
    del pool
    gc.collect(1)
    require_no_more_threads_than(before)


def test_only_threads_that_there_are_are_told_to_end(monkeypatch):
    """Of a pool that is forgotten, too, of which many more were asked for than can be started."""
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if not thread.name.endswith(("_0", "_1")):
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    pool = Pool(10**15, "test")
    queue, begun = pool._tasks, pool._threads
    del pool
    gc.collect()
    for thread in begun:
        thread.join(10)
    assert queue.qsize() == 0


def test_a_pool_that_one_of_its_threads_closes_ends():
    """Python's collector ends the last use of a closed store in whichever thread it runs."""
    before = threading.active_count()
    pool = Pool(2, "test")
    closing = pool.submit(pool.close)
    assert closing.wait(10)
    require_no_more_threads_than(before)
    pool.close()


def require_no_more_threads_than(before: int) -> None:
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert threading.active_count() == before


def test_threads_that_wait_hold_nothing_of_what_they_have_done():
    held = frozenset({1, 2})
    left = weakref.ref(held)
    with Pool(1, "test") as pool:
        assert pool.submit(len, held).result() == 2
        del held
        deadline = time.monotonic() + 10
        while left() is not None and time.monotonic() < deadline:
            time.sleep(0.001)
        assert left() is None


LEFT_OPEN = """
import signal, sys, time
from functools import partial
from simdb.answers.ahead import done_ahead
from simdb.threads import Pool
from tests.support.processes import answer_of, ended

class Last:
    def __del__(self):
        print(pool.submit(max, 3, 4).result())

signal.alarm(20)
pool = Pool(2, "test")
done = done_ahead((partial(time.sleep, 0.05) for _ in range(9)), pool)
next(done)
last = Last()
"""


def test_a_program_ends_that_leaves_an_iterator_open_and_uses_threads_to_its_end():
    assert ended(sys.executable, "-c", LEFT_OPEN).stdout == "4\n"


def test_what_is_given_while_a_pool_is_closed_is_done_by_who_gives_it(monkeypatch):
    pool = Pool(1, "test")
    put = pool._tasks.put

    class Late:
        def put(self, task: Task[int]) -> None:
            monkeypatch.undo()
            pool.close()
            put(task)

    monkeypatch.setattr(pool, "_tasks", Late())
    task = pool.submit(threading.get_ident)
    assert task.wait(10)
    assert task.result() == threading.get_ident()


@pytest.mark.parametrize("started", [0, 1])
def test_a_pool_does_with_the_threads_that_can_be_started(monkeypatch, started):
    start, left = threading.Thread.start, [None] * started

    def limited(self: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with Pool(3, "test") as pool:
        own = [pool.submit(threading.get_ident).result() for _ in range(3)]
    assert len(set(own)) == 1
    assert (own[0] == threading.get_ident()) == (not started)


def test_a_time_out_while_a_thread_starts_is_raised_as_it_is(monkeypatch):
    """Python made a KeyError of it, by a thread that had begun and that it no longer knew."""
    before, start = threading.active_count(), threading.Thread.start

    def gone(thread: threading.Thread) -> KeyError:
        """What `del _limbo[thread]` raises there."""
        error = KeyError(thread)
        error.__context__ = TimeoutError("time is up")
        return error

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise gone(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(TimeoutError, match="time is up"):
            Pool(1, "test")
    require_no_more_threads_than(before)


def test_a_child_of_a_fork_does_what_it_gives_to_a_pool_of_its_parent():
    with Pool(1, "test") as pool:

        def use() -> int:
            found: int = pool.submit(max, 3, 4).result()
            pool.close()
            return found

        assert answer_of(use) == "4"


def test_an_interrupt_in_the_thread_of_the_caller_comes_at_once():
    pool = Pool(1, "test")
    pool.close()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.submit(interrupted)
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result()


def settle(tasks: list[Task[None]]) -> None:
    with Settled(lambda: tasks):
        pass


class Odd(Task[None]):
    """A task that is interrupted when it is cancelled, so often."""

    def __init__(self, error: type[BaseException], times: int) -> None:
        super().__init__(lambda: None)
        self.error, self.times = error, times

    def cancel(self) -> bool:
        self.times -= 1
        if self.times >= 0:
            raise self.error
        return super().cancel()


def test_a_thread_that_settles_the_call_that_it_makes_does_not_wait_for_itself():
    tasks: list[Task[None]] = []
    tasks.append(Task(lambda: settle(tasks)))
    call = Call(tasks[0].run)
    call.join(10)
    assert not call.is_alive()


def test_what_the_collector_ends_where_a_thread_works_ahead_for_it_ends_after_that(tmp_path):
    """The thread waited for itself, and so did all who closed the store, or ended the program."""

    def work(child: Child) -> None:
        database, may_collect = simdb.open(tmp_path / "s.simdb", threads=2), threading.Event()
        handle, are_closed = database._handle, list[bool]()
        pool = handle.pool()
        assert pool is not None

        def read(transaction: ReadTransaction, number: int) -> None:
            if number:
                assert may_collect.wait(10)
                gc.collect()
                are_closed.append(transaction.closed)

        def answers() -> Iterator[None]:
            with handle.read() as transaction:
                calls = [partial(read, transaction, number) for number in range(3)]
                yield from done_ahead(calls, pool)

        left: list[Any] = [answers()]
        next(left[0])
        left.append(left)
        del left
        may_collect.set()
        database.close()
        pool.close()
        child.say((bool(are_closed), any(are_closed), handle._environment.is_finished))

    child = Child(work)
    try:
        assert child.hear(10) == "(True, False, True)"
    finally:
        child.end(1)


def test_settling_goes_on_after_interrupts_and_not_after_what_would_come_again():
    tasks = [Odd(KeyboardInterrupt, 1), Odd(TimeoutError, 2), Odd(KeyboardInterrupt, 0)]
    with pytest.raises(KeyboardInterrupt):
        settle([*tasks])
    assert [task.times for task in tasks] == [-1, -1, -1]
    with pytest.raises(RecursionError):
        settle([Odd(RecursionError, 10**9)])


def give_up(task: Task[Any]) -> None:
    """End a block as of an iterator that is given up, with a task that goes on."""
    with pytest.raises(GeneratorExit), Settled(lambda: [task]):
        raise GeneratorExit


def test_an_iterator_that_is_given_up_does_not_wait_for_who_waits_for_its_thread(
    tmp_path, monkeypatch
):
    """The collector may end it in a thread that has a lock, as of a tokeniser."""
    monkeypatch.setattr(threads, "PATIENCE", 0.01)
    lock, has_begun, are_closed = threading.Lock(), threading.Event(), list[bool]()

    def read(transaction: ReadTransaction, number: int) -> None:
        if number:
            has_begun.set()
            with lock:
                are_closed.append(transaction.closed)

    def answers(handle: Handle) -> Generator[None, None, None]:
        with handle.read() as transaction:
            calls = [partial(read, transaction, number) for number in range(3)]
            yield from done_ahead(calls, handle.pool())

    with simdb.open(tmp_path / "s.simdb", threads=2) as database:
        iterator = answers(database._handle)
        with lock:
            next(iterator)
            assert has_begun.wait(10)
            iterator.close()
            assert database.stats()["store"]["snapshots"] == 1
        pool = database._handle.pool()
        assert pool is not None
    pool.close()
    assert are_closed
    assert not any(are_closed)
    assert database._handle._environment.is_finished


def test_a_snapshot_waits_for_tasks_that_were_given_up_in_any_thread_and_made_after_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(threads, "PATIENCE", 0)
    may_end, has_begun = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        assert may_end.wait(10)

    with simdb.open(tmp_path / "s.simdb", threads=2) as database:
        handle, pool = database._handle, database._handle.pool()
        assert pool is not None
        with handle.read() as earlier:
            task = pool.submit(work)
            with handle.read() as later:
                assert has_begun.wait(10)
                Call(lambda: give_up(task)).join(10)
        assert (earlier.closed, later.closed) == (False, True)
        may_end.set()
        pool.close()
        assert earlier.closed
    assert handle._environment.is_finished


def test_what_is_put_off_is_held_no_longer_and_by_no_child_of_a_fork(monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE", 0)
    done: list[str] = []

    class Held:
        def call(self) -> None:
            done.append("later")

    def put_off() -> None:
        held = Held()
        known.append(weakref.ref(held))
        after_given_up(0, held.call)
        assert not done

    def forked() -> list[str]:
        after_given_up(0, partial(done.append, "at once"))
        with pytest.raises(DatabaseClosedError, match="outlive a fork"):
            task.result()
        give_up(task)
        return done

    known: list[weakref.ref[Held]] = []
    may_end, has_begun = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        assert may_end.wait(10)

    with Pool(1, "one") as pool:
        try:
            task = pool.submit(work)
            assert has_begun.wait(10)
            give_up(task)
            put_off()
            assert answer_of(forked) == "['at once']"
        finally:
            may_end.set()
    assert done == ["later"]
    assert known[0]() is None
    after_given_up(0, partial(done.append, "at once"))
    assert done == ["later", "at once"]
    assert not threads.given_up


def test_a_task_that_was_interrupted_at_its_end_and_that_nobody_holds_is_waited_for_no_longer():
    done: list[str] = []
    task: Task[Any] = Task(int)
    task._fate["made"] = (threading.get_ident(),)  # as after an interrupt before it is noted
    give_up(task)
    after_given_up(0, partial(done.append, "never"))
    del task
    after_given_up(0, partial(done.append, "at once"))
    assert done == ["at once"]


def test_a_task_that_the_collector_gives_up_while_others_are_looked_through_harms_nobody(
    monkeypatch,
):
    """Python 3.11 collects at any new object, and has some 2,000 old ones to give out."""
    tasks = [Task(int) for _ in range(5_000)]
    known = {task.moment: weakref.ref(task) for task in tasks}
    monkeypatch.setattr(threads, "given_up", known)

    def give_up(_phase: str, _told: object) -> None:
        task = Task(int)
        known[task.moment] = weakref.ref(task)

    called: list[int] = []
    thresholds, is_enabled = gc.get_threshold(), gc.isenabled()
    gc.callbacks.append(give_up)
    gc.set_threshold(100, 10**6, 10**6)
    gc.enable()
    try:
        threads.after_given_up(next(threads.moments), lambda: called.append(1))
    finally:
        gc.set_threshold(*thresholds)
        if not is_enabled:
            gc.disable()
        gc.callbacks.remove(give_up)
    assert called == [1]

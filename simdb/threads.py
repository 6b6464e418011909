"""Threads that make calls for others.

An interrupt may come between any two steps of the one who gives a call and waits for it. So a call
changes hands only by operations that an interrupt cannot halve, those of locks and of a queue
written in C. ``concurrent.futures`` takes its locks by steps of Python, and a Ctrl-C between two of
these leaves a pool locked for good.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeVar

from simdb.errors import DatabaseClosedError

T = TypeVar("T")

PATIENCE = 1.0  # seconds for tasks whose results nobody asks for any more

moments = count()  # at which tasks are made, and snapshots begin
# By moments, the tasks that nobody has waited for to the end.
given_up: dict[int, weakref.ref[Task[Any]]] = {}


class Task(Generic[T]):
    """A call that one thread makes once, or none if it is cancelled before that begins."""

    __slots__ = (
        *("__weakref__", "_call", "_error", "_fate", "_process", "_result", "_running", "_then"),
        "moment",
    )

    def __init__(self, call: Callable[..., T], *arguments: Any) -> None:
        self._call: tuple[Callable[..., T], tuple[Any, ...]] | None = call, arguments
        self._error: BaseException | None = None
        self._result: T | None = None
        self._fate: dict[str, object] = {}  # who makes it, None if it is cancelled: by setdefault
        self._running = threading.Lock()  # until the call has ended
        self._running.acquire()
        self._then: list[Task[object]] = []  # made by who makes this one, in their order
        self._process = os.getpid()
        self.moment = next(moments)

    def run(self) -> None:
        """Make the call, unless it was cancelled, or somebody else has begun to."""
        claim = (threading.get_ident(),)
        try:
            if self._fate.setdefault("made", claim) is claim:
                self._result = self._made()
        except BaseException as error:  # noqa: BLE001 - raised again where its result is asked for
            self._error = error
        finally:
            if self._fate.get("made") is claim:
                self._call = None
                self._running.release()
                with suppress(IndexError):  # who has added one may take it back meanwhile
                    while self._then:
                        self._then.pop(0).run()

    def _made(self) -> T:
        assert self._call is not None
        call, arguments = self._call
        return call(*arguments)

    def run_here(self) -> None:
        """Do the same in the thread that asks for it, which an interrupt ends at once."""
        self.run()
        if self._error is not None and not isinstance(self._error, Exception):
            raise self._error

    def cancel(self) -> bool:
        """Let nobody begin it from now on; return whether nobody has."""
        return self._fate.setdefault("made", None) is None

    def wait(self, seconds: float = -1) -> bool:
        """Wait for its end, at most so long if that is not negative; return whether it came.

        That of what was cancelled has come, and of what a thread of a parent's makes.
        """
        if self.is_awaited and self._running.acquire(timeout=seconds):
            self._running.release()  # after an interrupt before this nobody else may wait any more
        return not self.is_awaited

    def then(self, call: Callable[[], object]) -> bool:
        """Let the thread that makes it make another call at its end, whose errors harm nobody.

        Returns False, and does nothing, where that end has come.
        """
        following = Task(call)
        self._then.append(following)
        if self.is_awaited:  # it looks for what follows after this has changed
            return True
        try:
            self._then.remove(following)
        except ValueError:  # it was just in time
            return True
        return False

    @property
    def is_made_here(self) -> bool:
        """Whether this thread makes it now, and would wait for itself."""
        return self.is_awaited and self._fate.get("made") == (threading.get_ident(),)

    @property
    def is_awaited(self) -> bool:
        """Whether it has not ended, was not cancelled, and is of this process, not a parent."""
        is_begun_or_given = self._call is not None and self._fate.get("made", self) is not None
        return is_begun_or_given and self._process == os.getpid()

    def result(self) -> T:
        """Wait for its end, and return what the call did, or raise what it raised.

        DatabaseClosedError: it had not ended when the process forked, and no thread makes it here.
        """
        self.wait()
        if self._call is not None and self._process != os.getpid():
            raise DatabaseClosedError("an iterator does not outlive a fork; take another one here")
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # of the traceback's frame, which the error holds
        return self._result  # type: ignore[return-value]


class Settled:
    """The block in which an iterator has tasks: at its end they are cancelled, or waited for.

    An interrupt is raised when all is done. Where the iterator is given up, those that have begun
    are waited for only so long: Python's collector may do that anywhere, also in a thread that
    makes one of them, or that has a lock for which one waits. What they read is to stay until they
    have ended (``after_given_up``).

    Args:
        tasks: gives those that are left at the end.
        stop: tells them then to do no more.
    """

    def __init__(
        self,
        tasks: Callable[[], Iterable[Task[Any]]],
        stop: Callable[[], object] | None = None,
    ) -> None:
        self._tasks = tasks
        self._stop = stop

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        patience = PATIENCE if kind is GeneratorExit else None
        left, since = list(self._tasks()), time.monotonic()

        def settle_all() -> None:
            while left:
                most = -1.0 if patience is None else max(0.0, since + patience - time.monotonic())
                task = left[-1]
                if not (task.cancel() or (not task.is_made_here and task.wait(most))):
                    given_up[task.moment] = weakref.ref(task)  # who makes it holds it
                left.pop()

        try:
            if self._stop is not None:
                self._stop()
        finally:
            to_its_end(settle_all)


def after_given_up(since: int, call: Callable[[], object]) -> None:
    """Make a call when the tasks have ended that were given up and made since a moment, if any.

    What is read of a snapshot is read by tasks that are made after it.
    """
    tasks = []
    # By numbers: pairs would be objects, at which Python's collector may end another iterator.
    for moment in [*given_up]:
        known = given_up.get(moment)
        task = None if known is None else known()
        if task is None or not task.is_awaited:
            given_up.pop(moment, None)
        elif moment > since:
            tasks.append(task)
    _after(tasks, call)


def _after(tasks: list[Task[Any]], call: Callable[[], object]) -> None:
    while tasks:
        if tasks.pop().then(partial(_after, tasks, call)):
            return
    call()


def to_its_end(call: Callable[[], None]) -> None:
    """Make a call again until no interrupt ends it; raise the last one that did then."""
    interrupt: BaseException | None = None
    while True:
        try:
            call()
            break
        except (MemoryError, RecursionError):  # which would come again
            raise
        except BaseException as error:  # noqa: BLE001 - the handler of a signal raises any
            interrupt = error
    if interrupt is not None:
        try:
            raise interrupt
        finally:
            del interrupt  # of the traceback's frame, which the error holds


class Pool:
    """A number of threads that make calls in the order in which they are given.

    They end with it, and with the program: what is given then is done in the caller's thread, and
    so where none can be started, and in a child of a fork. As a context manager it waits for them.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._tasks: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._process = os.getpid()
        self._running: list[threading.Lock] = []  # of each thread, until it has ended
        self._threads: list[threading.Thread] = []
        end = weakref.finalize(self, _end, self._tasks, self._running)
        end.atexit = False
        for number in range(0 if _is_over else threads):
            running = threading.Lock()
            running.acquire()
            own = self._tasks, running
            thread = threading.Thread(target=_work, args=own, name=f"{name}_{number}", daemon=True)
            self._running.append(running)  # before an interrupt, which may come once it runs
            try:
                thread.start()
            except RuntimeError:  # the limit is reached, or Python ends
                self._running.pop()
                break
            except KeyError as error:
                # Python takes a thread out of a table twice, if what a handler of a signal raises
                # comes between its start and the end of the call, and hides that.
                if error.args != (thread,) or error.__context__ is None:
                    raise
                raise error.__context__ from None
            self._threads.append(thread)
        self._is_ended = not self._running
        self._is_told = self._is_ended  # that there is nothing more to do
        _pools.add(self)

    def submit(self, call: Callable[..., T], *arguments: Any) -> Task[T]:
        """Let a thread make a call."""
        task = Task(call, *arguments)
        self.start(task)
        return task

    def start(self, task: Task[Any]) -> None:
        """Let a thread run a task, which the caller has noted before."""
        if not self._is_ended and self._process == os.getpid():
            self._tasks.put(task)
            if not self._is_ended:
                return
        task.run_here()  # also what was given when the threads had been told to end

    def end(self) -> None:
        """Let the threads end when they have done what was given; nothing is waited for."""
        self._is_ended = True
        if not self._is_told:
            _end(self._tasks, self._running)
            self._is_told = True

    def close(self) -> None:
        """Wait for all that was given, and for the threads; again after an interrupt.

        In one of these nothing is waited for: Python's collector may close a store anywhere.
        """
        if self._process != os.getpid():  # a child of a fork has no such threads
            return
        self.end()
        if threading.current_thread() in self._threads:
            return
        for running in self._running:  # not by join, which Python 3.11 forgets once interrupted
            with running:
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        to_its_end(self.close)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_is_over: list[bool] = []  # True in it, once Python ends


@atexit.register
def _close_all() -> None:
    """Close all pools while their threads run: when Python ends, who waits for one hangs."""
    _is_over.append(True)
    interrupt: BaseException | None = None
    for pool in list(_pools):
        try:
            pool.close()
        except BaseException as error:  # noqa: BLE001 - an interrupt, after which others are closed
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _end(tasks: SimpleQueue[Task[Any] | None], running: list[threading.Lock]) -> None:
    """Let threads end when they have done what they were given."""
    for _ in running:
        tasks.put(None)


def _work(tasks: SimpleQueue[Task[Any] | None], running: threading.Lock) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # and what it holds, while the thread waits
    running.release()

"""Rows that several threads add one by one at the same time, added as one batch.

A batch of some rows takes hardly more Python, which one thread at a time runs, than one row. So of
the threads that add alike one *leads*: it adds its row with those of all who wait, and tells each
what became of its own. Then one of those who came meanwhile leads (flat combining: Hendler, Incze,
Shavit and Tzafrir, SPAA 2010). A row that cannot be stored is tried again by itself, by the thread
whose it is, which is told why.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Literal, TypeAlias

from msgspec import structs

from simdb.errors import StorageError
from simdb.results import Outcome, Outcomes

MOST_ROWS = 64  # of one batch, so that other processes have their turn
PATIENCE = 4  # how often one who leads looks whether others have come
BREATH = 0.000_02  # seconds in between, and what the system adds to them
LOOKED_EVERY = 0.05  # seconds, by those who wait for one that may be gone

# What adds rows in batches, and tells what became of each; the second is how, if one is bad.
Load: TypeAlias = Callable[
    [Sequence[Any], Literal["error", "skip"], Callable[[Outcomes], None]], object
]


class _Call:
    """A thread's call to add a row."""

    __slots__ = ("__weakref__", "_called", "failure", "is_for_itself", "outcome", "row")

    def __init__(self, row: Any) -> None:
        self.row = row
        self.outcome: Outcome | None = None
        self.failure: StorageError | None = None
        self.is_for_itself = False  # its thread is to add it alone
        self._called = threading.Lock()
        self._called.acquire()

    @property
    def is_told(self) -> bool:
        """Whether it is known what became of the row, or who is to find out."""
        return self.outcome is not None or self.failure is not None or self.is_for_itself

    def call(self) -> None:
        """Let its thread look again."""
        if self._called.locked():
            self._called.release()

    def wait(self) -> None:
        """Wait until it is called, or for a while."""
        self._called.acquire(timeout=LOOKED_EVERY)


class _Line:
    """Calls that add alike: one leads, the others wait. Who is gone was interrupted."""

    def __init__(self) -> None:
        self._leader: weakref.ref[_Call] | None = None
        self.waiting: deque[weakref.ref[_Call]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nobody leads, and nobody waits."""
        return self._leader is None and not self.waiting

    def is_led_by(self, call: _Call) -> bool:
        """Whether a call leads; it does from now on if nobody did."""
        if self._leader is None or self._leader() is None:
            self._leader = weakref.ref(call)
            self._forget(call)
        return self._leader() is call

    def taken(self, most: int) -> list[_Call]:
        """Return the first of those who wait, who do no longer."""
        calls = [self.waiting.popleft()() for _ in range(min(len(self.waiting), most))]
        return [call for call in calls if call is not None]

    def leave(self, call: _Call) -> None:
        """End a call; another may lead then, if it did."""
        self._forget(call)
        if self._leader is None or self._leader() in (None, call):
            self._leader = None
            following = self.waiting[0]() if self.waiting else None
            if following is not None:
                following.call()

    def _forget(self, call: _Call) -> None:
        if self.waiting:
            self.waiting = deque(one for one in self.waiting if one() not in (None, call))


class Together:
    """Those of one process who add rows one by one to one opened file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[Hashable, _Line] = {}
        self._last: tuple[Hashable, int] = None, 0  # of what the last batch was, and of how many

    def add(self, alike: Hashable, row: Any, load: Load) -> Outcome:
        """Add a row with those that other threads add ``alike``; it is durable on return.

        The main thread, which Ctrl-C interrupts at any line, adds its own alone. Where another one
        that leads is interrupted, the others try again alone, and may find that it had stored their
        rows and could not say so.

        Raises:
            what ``load`` raises of this row by itself, or of the store.
        """
        if threading.current_thread() is threading.main_thread():
            return alone(row, load)
        call = _Call(row)
        with self._lock:
            line = self._lines.setdefault(alike, _Line())
            line.waiting.append(weakref.ref(call))
        try:
            while not call.is_told:
                with self._lock:
                    leads = line.is_led_by(call)
                if leads:
                    self._lead(alike, line, call, load)
                else:
                    call.wait()
        finally:
            with self._lock:
                line.leave(call)
                if line.is_empty and self._lines.get(alike) is line:
                    del self._lines[alike]
        if call.failure is not None:
            raise call.failure
        return alone(row, load) if call.outcome is None else call.outcome

    def _lead(self, alike: Hashable, line: _Line, call: _Call, load: Load) -> None:
        """Add the rows of all who wait, and tell them."""
        last, count = self._last
        for _ in range(PATIENCE if last == alike else 0):
            if 1 + len(line.waiting) < count:  # those of the last batch come again, as a rule
                time.sleep(BREATH)
        with self._lock:
            calls = [call, *line.taken(MOST_ROWS - 1)]
        self._last = alike, len(calls)
        try:
            if len(calls) == 1:
                call.outcome = alone(call.row, load)
            else:
                _add(calls, load)
        finally:
            for one in calls:
                one.is_for_itself = not one.is_told
                one.call()


def alone(row: Any, load: Load) -> Outcome:
    """Add a row by itself."""
    outcomes: list[Outcome] = []
    load([row], "error", outcomes.extend)
    return outcomes[0]


def _add(calls: Sequence[_Call], load: Load) -> None:
    """Add the rows of several calls, and note what each is told, as if it had come alone."""
    untold = iter(calls)

    def note(outcomes: Outcomes) -> None:
        for outcome, call in zip(outcomes, untold, strict=False):
            if outcome.action != "bad":
                within_input = None if outcome.within_input is None else False
                call.outcome = structs.replace(outcome, row=0, within_input=within_input)

    with suppress(Exception):  # of some row: whose it is tries it again, and raises it
        try:
            load([call.row for call in calls], "skip", note)
        except StorageError as error:
            for call in untold:
                call.failure = copy(error)

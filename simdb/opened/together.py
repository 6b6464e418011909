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
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Protocol

from msgspec import structs

from simdb.errors import StorageError
from simdb.results import Outcome, Outcomes

MOST_ROWS = 64  # of one batch, so that other processes have their turn
PATIENCE = 4  # how often it is seen whether others have come
BREATH = 0.000_02  # seconds in between, and what the system adds to them


class Load(Protocol):
    """What adds rows, in batches."""

    def __call__(
        self, rows: Sequence[Any], *, skip_bad: bool, outcomes: Callable[[Outcomes], None]
    ) -> object:
        """Add rows; ``outcomes`` is called after each batch with what became of its rows."""


class _Call:
    """A thread's call to add a row, which waits for one that leads."""

    __slots__ = ("_told", "failure", "leads", "outcome", "row")

    def __init__(self, row: Any) -> None:
        self.row = row
        self.outcome: Outcome | None = None
        self.failure: StorageError | None = None
        self.leads = False
        self._told = threading.Lock()
        self._told.acquire()

    def wait(self) -> None:
        """Wait until it is told what became of its row, or to lead."""
        self._told.acquire()

    def tell(self) -> None:
        """Let it go on."""
        self._told.release()


class Together:
    """Those of one process who add rows one by one to one opened file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[_Call]] = {}  # behind one who leads
        self._last: tuple[Hashable, int] = None, 0  # of what the last batch was, and of how many

    def add(self, alike: Hashable, row: Any, load: Load) -> Outcome:
        """Add a row with those that other threads add ``alike``; it is durable on return.

        The main thread, which Ctrl-C interrupts at any line, adds its own alone.

        Raises:
            what ``load`` raises of this row by itself, or of the store.
        """
        if threading.current_thread() is threading.main_thread():
            return alone(row, load)
        call = _Call(row)
        with self._lock:
            waiting = self._waiting.get(alike)
            if waiting is None:
                self._waiting[alike] = deque()
                call.leads = True
            else:
                waiting.append(call)
        if not call.leads:
            call.wait()
        if call.leads:
            self._lead(alike, call, load)
        if call.failure is not None:
            raise call.failure
        return alone(row, load) if call.outcome is None else call.outcome

    def _lead(self, alike: Hashable, call: _Call, load: Load) -> None:
        """Add the rows of all who wait; then let one who came meanwhile lead."""
        waiting, calls = self._waiting[alike], [call]
        last, count = self._last
        try:
            for _ in range(PATIENCE if last == alike else 0):
                if 1 + len(waiting) < count:  # those of the last batch come again, as a rule
                    time.sleep(BREATH)
            with self._lock:
                calls += [waiting.popleft() for _ in range(min(len(waiting), MOST_ROWS - 1))]
            if len(calls) == 1:
                call.outcome = alone(call.row, load)
            else:
                _add(calls, load)
        finally:
            self._last = alike, len(calls)
            for other in calls[1:]:
                other.tell()
            with self._lock:
                if waiting:
                    following = waiting.popleft()
                    following.leads = True
                    following.tell()
                else:
                    del self._waiting[alike]


def alone(row: Any, load: Load) -> Outcome:
    """Add a row by itself."""
    outcomes: list[Outcome] = []
    load([row], skip_bad=False, outcomes=outcomes.extend)
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
            load([call.row for call in calls], skip_bad=True, outcomes=note)
        except StorageError as error:
            for call in untold:
                call.failure = copy(error)

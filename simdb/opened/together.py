"""Rows that several threads add one by one at the same time, added as one batch.

A batch of some rows takes hardly more Python, which one thread at a time runs, than one row. So of
the threads that add alike one *leads*: it adds its row with those of all who wait, and tells each
what became of its own. Then one of those who came meanwhile leads (flat combining: Hendler, Incze,
Shavit and Tzafrir, SPAA 2010). Each reads its own row before: what a caller hands over runs in no
other thread. A row that cannot be stored is tried again by itself, by the thread whose it is, which
is told why; so is one whose leader could wait no longer for another writer.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec import structs

from simdb.errors import DatabaseBusyError
from simdb.results import Outcome, Outcomes
from simdb.storage.file.locks import LOOKED_EVERY, Waiter
from simdb.threads import to_its_end

MOST_ROWS = 64  # of one batch, so that other processes have their turn
LOOKS = 4  # how often one who leads looks whether others have come
LOOK = 0.000_02  # seconds from one to the next, and what the system adds to them

# Adds rows, in batches, and tells what became of each batch. One that cannot be stored is an error
# if it is the only one, and else left out. The last argument is the time, as ``time.monotonic`` has
# it, from which on the wait for another writer counts.
Load: TypeAlias = Callable[[Sequence[Any], Callable[[Outcomes], None], float], object]


class _Call(Waiter):
    """A thread's call to add a row."""

    __slots__ = ("is_for_itself", "leader", "outcome", "row", "since")

    def __init__(self, row: Any) -> None:
        super().__init__()
        self.row = row
        self.since = time.monotonic()
        self.leader: weakref.ref[_Call] | None = None  # that adds the row of this one
        self.outcome: Outcome | None = None
        self.is_for_itself = False  # nobody else could add it

    @property
    def is_told(self) -> bool:
        """Whether it is known what became of the row, or who is to find out."""
        return self.outcome is not None or self.is_for_itself


class _Line:
    """Calls that add alike: one leads, the others wait.

    One that is gone was interrupted: as soon as nothing refers to it, another one leads.
    """

    def __init__(self) -> None:
        self._leader: weakref.ref[_Call] | None = None
        self.waiting: deque[weakref.ref[_Call]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nobody leads, and nobody waits."""
        return self._leader is None and not self.waiting

    def is_led_by(self, call: _Call) -> bool:
        """Whether a call leads; if nobody does, the first who waits does from now on."""
        if self._leader is None or self._leader() is None:
            waiting = [one for one in (one() for one in self.waiting) if one is not None]
            leader = waiting[0] if call in waiting else call
            self._leader = weakref.ref(leader)
            self._forget(leader)
            leader.call()
        return self._leader() is call

    def taken(self, most: int) -> list[_Call]:
        """Return the first of those who wait, who do no longer: their leader adds their rows."""
        calls = []
        for _ in range(min(len(self.waiting), most)):
            call = self.waiting[0]()
            if call is not None:
                call.leader = self._leader
                calls.append(call)
            self.waiting.popleft()
        return calls

    def is_being_added(self, call: _Call) -> bool:
        """Whether a leader, which is there still, has taken the row of a call and not told it."""
        has_leader = call.leader is not None and call.leader() is not None
        return has_leader and call.leader is self._leader and not call.is_told

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
        self._threads: set[int] = set()  # that are adding
        self._last: tuple[Hashable, int] = None, 0  # of what the last batch was, and of how many

    def add(self, alike: Hashable, row: Any, load: Load) -> Outcome:
        """Add a row with those that other threads add ``alike``; it is durable on return.

        The main thread, which Ctrl-C interrupts at any line, adds its own alone, and so does one
        that is adding already. Where another one that leads is interrupted, the others try again
        alone, and may find that it had stored their rows and could not say so. One that is
        interrupted while another one adds its row waits for that: what its thread stores from then
        on comes later.

        Raises:
            what ``load`` raises of this row by itself.
        """
        thread = threading.get_ident()
        if thread == threading.main_thread().ident or thread in self._threads:
            return _alone(_Call(row), load)
        self._threads.add(thread)
        try:
            return self._add(alike, _Call(row), load)
        finally:
            self._threads.discard(thread)

    def _add(self, alike: Hashable, call: _Call, load: Load) -> Outcome:
        with self._lock:
            line = self._lines.setdefault(alike, _Line())
            line.waiting.append(weakref.ref(call))
        try:
            while not call.is_told:
                with self._lock:
                    leads = not call.is_told and line.is_led_by(call)
                if leads:
                    self._lead(alike, line, call, load)
                else:
                    call.wait(LOOKED_EVERY)
        except BaseException:
            to_its_end(partial(self._await_told, line, call))
            raise
        finally:
            with self._lock:
                line.leave(call)
                if line.is_empty and self._lines.get(alike) is line:
                    del self._lines[alike]
        return _alone(call, load) if call.outcome is None else call.outcome

    def _await_told(self, line: _Line, call: _Call) -> None:
        """Wait until nobody adds the row of a call any more."""
        while True:
            with self._lock:
                if not line.is_being_added(call):
                    return
            call.wait(LOOKED_EVERY)

    def _lead(self, alike: Hashable, line: _Line, call: _Call, load: Load) -> None:
        """Add the rows of all who wait, and tell them."""
        last, count = self._last
        for _ in range(LOOKS if last == alike else 0):
            if 1 + len(line.waiting) < count:  # those of the last batch come again, as a rule
                time.sleep(LOOK)
        with self._lock:
            calls = [call, *line.taken(MOST_ROWS - 1)]
        self._last = alike, len(calls)
        try:
            _add_rows(calls, load)
        except DatabaseBusyError:
            if call.outcome is None:  # the others came later, and may have time left
                raise
        finally:
            for one in calls:
                one.is_for_itself = not one.is_told
                one.call()


def _alone(call: _Call, load: Load) -> Outcome:
    outcomes: list[Outcome] = []
    load([call.row], outcomes.extend, call.since)
    return outcomes[0]


def _add_rows(calls: Sequence[_Call], load: Load) -> None:
    """Add the rows of calls, and note what each is told, as if it had come alone."""
    if len(calls) == 1:
        calls[0].outcome = _alone(calls[0], load)
        return
    untold = iter(calls)

    def note(outcomes: Outcomes) -> None:
        for outcome, call in zip(outcomes, untold, strict=False):
            if outcome.action != "bad":
                within_input = None if outcome.within_input is None else False
                call.outcome = structs.replace(outcome, row=0, within_input=within_input)

    try:
        load([call.row for call in calls], note, calls[0].since)
    except DatabaseBusyError:
        raise
    except Exception:  # noqa: BLE001 - of some row: whose it is tries it again, and raises it
        return

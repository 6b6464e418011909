"""Group commit: small changes of threads that wait for each other become one commit, of one sync.

A thread that wants to change a little enters the *lobby* of its file. The first one there *leads*:
it waits for the writer lock and makes its change, which is held back in memory (``log``). If others
wait by then, it lets the next one in, which sees that change and adds its own, and so on. The last
one commits for all. Each waits until the commit is durable, also one that failed or found that
there was nothing to do: what it was told rests on the changes before its own.

A member that fails leaves the log of those before it as it was. Who commits, or works, may be
interrupted at any line: then another of the group, whose change would be lost, commits in its place
(``Lobby.await_settled``). The writer lock belongs to the group, so that nobody else writes before.

A commit is of one process, whose locks LMDB holds; so processes do not share one.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from simdb.storage.file.locks import LOOKED_EVERY, User, Waiter

if TYPE_CHECKING:
    from simdb.storage.file.log import Log

MOST_MEMBERS = 64  # of one commit, so that other processes have their turn
MOST_HELD_BACK = 2**15  # bytes of changes after which nobody is let in


class Group(User):
    """Changes that one commit makes durable, one after the other; the writer lock belongs to it.

    Attributes:
        commit: the number that its commit will have; 0 until the first member has begun.
        log: the log with the changes made so far, None where there are none.
        held_back: bytes of these changes.
        manifests: those that the changes left, by collection.
        entered: how many members came after the first.
        is_settled: it was committed, or has failed, or is lost.
        is_lost: all members were interrupted before it was committed, after one had read what
            another had changed.
        failure: why it has failed.
    """

    __slots__ = (
        *("_holder", "_members", "commit", "entered", "failure"),
        *("held_back", "is_lost", "is_settled", "log", "manifests"),
    )

    def __init__(self) -> None:
        self.commit = 0
        self.log: Log | None = None
        self.held_back = 0
        self.manifests: dict[int, Any] = {}
        self.entered = 0
        self.is_settled = self.is_lost = False
        self.failure: Exception | None = None
        self._holder: weakref.ref[Member] | None = None  # who works in it, or commits it
        self._members: weakref.WeakSet[Member] = weakref.WeakSet()  # who have done their part

    @property
    def takes_more(self) -> bool:
        """Whether another member may be let in."""
        return self.entered < MOST_MEMBERS and self.held_back < MOST_HELD_BACK

    def is_held_by(self, member: Member | None) -> bool:
        """Whether this one works in it, or commits it; of None, whether nobody does."""
        holder = None if self._holder is None else self._holder()
        return (holder if holder is not None and holder.group is self else None) is member

    def hold(self, member: Member | None) -> None:
        """Note who works in it, or commits it."""
        self._holder = None if member is None else weakref.ref(member)

    def note_done(self, member: Member) -> None:
        """Note that a member has done its part, and waits for the commit."""
        self._members.add(member)

    def end_part(self, member: Member) -> None:
        """Let others go on, if this one worked in it and they wait; else it is at its end."""
        self._members.discard(member)
        if self.is_held_by(member):
            self.hold(None)
            if not self.is_settled:  # else they have been called
                self.is_settled = not self._members
                self.is_lost = self.is_settled and self.entered > 0
                self.call_members()

    def call_members(self) -> None:
        """Let those who wait look again; as long as one is alone, none does."""
        if self.entered:
            for member in self._members:
                member.call()


class Member(Waiter):
    """A call that wants to change a little, on its way through the lobby into a group."""

    __slots__ = ("group",)

    def __init__(self) -> None:
        super().__init__()
        self.group: Group | None = None


class Lobby:
    """Those of one process who want to change one file a little; ``gate`` is the file's lock."""

    def __init__(self, gate: threading.RLock) -> None:
        self._lock = gate
        self._waiting: deque[weakref.ref[Member]] = deque()
        self._first: weakref.ref[Member] | None = None  # whose turn it is

    def await_turn(self, member: Member, deadline: float | None) -> bool:
        """Wait until it is a member's turn: to lead, or in the group that it has then.

        False where the deadline has passed.
        """
        with self._lock:
            self._waiting.append(weakref.ref(member))
        while True:
            with self._lock:
                if self._is_free():
                    self._call_next(None)
                if self._is_first(member):
                    return True
                if deadline is not None and time.monotonic() >= deadline:
                    self._forget(member)
                    return False
            member.wait(LOOKED_EVERY)

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits for a turn, or did."""
        return bool(self._waiting)

    def let_next_in(self, member: Member) -> bool:
        """Let the next one into a member's group, if anyone waits, and it takes more."""
        group = member.group
        assert group is not None
        with self._lock:
            group.note_done(member)
            return group.takes_more and self._call_next(group)

    def await_settled(self, member: Member) -> bool:
        """Wait until a member's group is settled; True where the member has to commit it."""
        group = member.group
        assert group is not None
        while True:
            with self._lock:
                if group.is_settled:
                    return False
                if group.is_held_by(None) or group.is_held_by(member):
                    group.hold(member)
                    return True
            member.wait(LOOKED_EVERY)

    def settle(self, group: Group, failure: Exception | None = None) -> None:
        """Note that a group was committed, or why it could not be, and tell its members."""
        with self._lock:
            group.failure = group.failure or failure
            group.is_settled = True
            group.call_members()

    def leave(self, member: Member) -> None:
        """End a member's part, done or not; what it held is for others."""
        with self._lock:
            group = member.group
            if group is not None:
                group.end_part(member)
            self._forget(member)
            if self._is_free() or self._is_first(member):
                self._first = None
                self._call_next(None)

    def _is_free(self) -> bool:
        """Whether it is nobody's turn, or that of one who is gone."""
        return self._first is None or self._first() is None

    def _is_first(self, member: Member) -> bool:
        return self._first is not None and self._first() is member

    def _forget(self, member: Member) -> None:
        self._waiting = deque(one for one in self._waiting if one() not in (None, member))

    def _call_next(self, group: Group | None) -> bool:
        """Let the next one who waits lead, or into a group; return whether there was one."""
        while self._waiting:
            member = self._waiting[0]()
            if member is not None:
                # In this order, so that an interrupt leaves it leading, or the group to others.
                self._first = self._waiting[0]
                if group is not None:
                    group.hold(member)
                    group.entered += 1
                member.group = group
            self._waiting.popleft()
            if member is not None:
                member.call()
                return True
        return False

"""What a process keeps of an open file, for all of its threads.

What is made of the records of an *owner* (a collection, an index or an epoch of one) goes with it:
at once where this process removes that (``forget_of``). Another process may remove it unseen, so
whoever keeps something looks for what is gone whenever much has come (``has_grown``).

What was made of one state of a collection may take much memory. Of that the least recently used
goes first, where all of it takes more than it may.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from simdb.storage.tables.layout import Table

OwnedName: TypeAlias = tuple[str, Table, int]  # what it is, and the table and owner it is made of


class Made(Struct):
    """What was made of a state; nothing, where it was only asked for, or is too large."""

    state: object
    value: Any = None
    asked: float = 0.0  # what it is worth to those who have, as a share of what it takes
    bytes: int = 0  # that it takes
    used: float = 0.0  # the time when it was, last


class Caches(dict[OwnedName | str, Any]):
    """What is kept, by ``OwnedName``, or by a word if it is of the whole file."""

    def __init__(self) -> None:
        super().__init__()
        self._enough = 0  # names

    def clear(self) -> None:
        """Empty them."""
        super().clear()
        self._enough = 0

    @property
    def owned(self) -> list[OwnedName]:
        """The names of what is of an owner."""
        return [name for name in [*self] if isinstance(name, tuple)]

    def forget_of(self, owners: Collection[tuple[Table, int]]) -> None:
        """Leave out what is made of the records of some owners."""
        for name in self.owned:
            if name[1:] in owners:
                self.pop(name, None)

    @property
    def has_grown(self) -> bool:
        """Whether a quarter more is kept than at the last ``note_size``."""
        return len(self) > self._enough

    def note_size(self) -> None:
        """Note how much is kept."""
        self._enough = len(self) + len(self) // 4

    def keep_made(self, name: OwnedName, state: object, value: object, most_bytes: int) -> None:
        """Keep what was made of a state in place of what was made of another one.

        Of others as much is let go that all takes at most so many bytes, but nothing of the same
        collection.
        """
        kept = Made(state, value, bytes=bytes_of(value), used=time.monotonic())
        self[name] = kept
        if not kept.bytes:
            return
        found = self.copy().items()  # at once, whatever other threads do
        made = [(other, one) for other, one in found if isinstance(one, Made) and one.bytes]
        total = sum(one.bytes for _, one in made)
        for other, one in sorted(made, key=lambda each: each[1].used):
            if total <= most_bytes:
                return
            if other[1:] != name[1:]:
                self.pop(other, None)
                total -= one.bytes


def bytes_of(value: object) -> int:
    """Return the bytes of the arrays that something holds, through whatever it is made of."""
    total, seen, waiting = 0, set(), [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            total += one.nbytes
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, Struct):
            waiting += (getattr(one, name) for name in one.__struct_fields__)
        elif not isinstance(one, type | ModuleType):
            waiting += getattr(one, "__dict__", {}).values()
    return total

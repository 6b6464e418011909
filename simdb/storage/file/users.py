"""Who uses an open file: counted as objects, which an interrupt cannot forget to uncount."""

from __future__ import annotations

import weakref


class User:
    """Stands for one use of something; when it is gone, so is the use."""

    __slots__ = ("__weakref__",)


class Users:
    """The users of a file. One that is collected is none any more.

    Attributes:
        present: whether there was any when they were last counted; looked at in every read.
    """

    __slots__ = ("_known", "_unnamed", "present")

    def __init__(self) -> None:
        self.present = False
        self._known: weakref.WeakSet[object] = weakref.WeakSet()
        self._unnamed = 0

    def add(self, user: object) -> None:
        """Add a user; None stands for one that is taken away by another None."""
        self.present = True
        if user is None:
            self._unnamed += 1
        else:
            self._known.add(user)

    def discard(self, user: object) -> None:
        """Take a user away, if it is one."""
        if user is None:
            self._unnamed -= 1
        else:
            self._known.discard(user)

    def recount(self) -> bool:
        """Return whether there are any."""
        self.present = bool(self._unnamed or self._known)
        return self.present

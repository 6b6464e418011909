"""What is made when it is asked for: modules of packages, of which a program uses few, and values.

A process may fork while one of its threads is at that. The child has no such thread, so a lock that
it holds would never be free there. So a fork waits for threads that import, and nothing is locked
while a value is computed.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from simdb.errors import UsageError

T_co = TypeVar("T_co", covariant=True)

LONGEST_WAIT = 5.0  # seconds of a fork, or an import: each may wait for what the other holds

_importing: list[int] = []  # threads, each as often as it has begun
_forking: list[int] = []  # threads


def _wait_for(others: list[int]) -> None:
    """Wait until no other thread is among them, but not for ever."""
    own, deadline = threading.get_ident(), time.monotonic() + LONGEST_WAIT
    while set(others) - {own} and time.monotonic() < deadline:
        time.sleep(0.001)


def _before_fork() -> None:
    """Wait for imports of other threads, which hold locks of Python's, and let none begin."""
    _forking.append(threading.get_ident())
    _wait_for(_importing)


def _after_fork_in_child() -> None:
    """Forget the threads that a child does not have."""
    own = threading.get_ident()
    _importing[:] = [one for one in _importing if one == own]
    _forking.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_forking.clear, after_in_child=_after_fork_in_child
)


def module(name: str) -> ModuleType:
    """Import a module, which forks of other threads wait for.

    UsageError: a handler of signals asks for it, and has interrupted the import of it.
    """
    own = threading.get_ident()
    try:
        _importing.append(own)
        if set(_forking) - {own} and _importing.count(own) == 1:
            _importing.remove(own)
            _wait_for(_forking)
            _importing.append(own)
        is_within_another = _importing.count(own) > 1
        made = import_module(name)
    finally:
        with suppress(ValueError):
            _importing.remove(own)
    if is_within_another and getattr(made.__spec__, "_initializing", False):
        raise UsageError(
            "a handler of signals used simdb while simdb was loading code that this needs: let the "
            "handler note what happened, and use simdb afterwards"
        )
    return made


def modules_of(package: str, names: Sequence[str]) -> Callable[[str], ModuleType]:
    """Return a package's ``__getattr__`` (PEP 562) that imports its modules on use."""

    def imported(name: str) -> ModuleType:
        if name in names:
            return module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return imported


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - as Python names it
    """A property that is computed once; by two threads at a time, perhaps, as from Python 3.12 on.

    Before, Python holds one lock for all objects of a class while it computes.
    """

    def __init__(self, func: Callable[[Any], T_co]) -> None:
        super().__init__(func)
        self.lock = nullcontext()

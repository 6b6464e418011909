"""What is made when it is asked for: modules of packages, of which a program uses few, and values.

A process may fork while one of its threads is at that. The child has no such thread, so what that
holds would never be free there: modules are imported by one thread at a time, which a fork waits
for, and nothing is locked while a value is computed.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

T_co = TypeVar("T_co", covariant=True)

# Registered here, before those of open files: at a fork it is taken after what these take.
_importing = threading.RLock()
os.register_at_fork(
    before=_importing.acquire,
    after_in_parent=_importing.release,
    after_in_child=_importing.release,
)


def modules_of(package: str, names: Sequence[str]) -> Callable[[str], ModuleType]:
    """Return a package's ``__getattr__`` (PEP 562) that imports its modules on use."""

    def imported(name: str) -> ModuleType:
        if name in names:
            with _importing:
                return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return imported


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - as Python names it
    """A property that is computed once; by two threads at a time, perhaps, as from Python 3.12 on.

    Before, Python holds one lock for all objects of a class while it computes.
    """

    def __init__(self, func: Callable[[Any], T_co]) -> None:
        super().__init__(func)
        self.lock = nullcontext()

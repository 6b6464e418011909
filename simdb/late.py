"""Packages whose modules are imported when they are asked for: a program uses few of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType


def modules_of(package: str, names: Sequence[str]) -> Callable[[str], ModuleType]:
    """Return a package's ``__getattr__`` (PEP 562) that imports its modules on use."""

    def imported(name: str) -> ModuleType:
        if name in names:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return imported

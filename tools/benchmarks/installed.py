"""What an installation is: the packages that simdb needs, their files, and how large they are."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, files, requires
from pathlib import Path

from packaging.requirements import Requirement

import simdb

PACKAGE = "simdb-store"


def sizes() -> dict[str, int]:
    """Return the bytes of simdb and of all that its installation brings, largest first."""
    found = {name: _bytes(files_of(name)) for name in _needed(PACKAGE, {})}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def files_of(name: str) -> list[Path]:
    """Return the files of a package; of simdb those of its folder, also where that is a checkout.

    What Python and numba make of the sources counts: an installation has it after its first call.
    """
    if name == PACKAGE:
        return [path for path in Path(simdb.__file__).parent.rglob("*") if path.is_file()]
    located = (Path(str(file.locate())) for file in files(name) or ())
    return [path for path in located if path.is_file()]


def _needed(name: str, known: dict[str, None]) -> dict[str, None]:
    """Return the names of a package and of all that it requires, without extras."""
    known[name] = None
    for wanted in map(Requirement, requires(name) or ()):
        met = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if met and wanted.name not in known:
            try:
                _needed(wanted.name, known)
            except PackageNotFoundError:
                known.pop(wanted.name, None)
    return known


def _bytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def forget(paths: Iterable[Path]) -> None:
    """Let the system drop its copies of files from memory, as far as no other process maps them."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def read_by_commands() -> Iterator[Path]:
    """Yield the files that a command may read: Python's own, and those of the installation."""
    for name in _needed(PACKAGE, {}):
        yield from files_of(name)
    for folder, _, names in os.walk(sysconfig.get_path("stdlib")):
        if "site-packages" not in folder:
            yield from (Path(folder, name) for name in names)

"""What an installation of the wheel is: the packages that it needs, their files, their sizes."""

from __future__ import annotations

import os
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, files, requires
from pathlib import Path

from packaging.requirements import Requirement

import simdb
from simdb.kernels import kept

PACKAGE = "simdb-store"
PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def sizes() -> dict[str, int]:
    """Return the bytes of simdb and of all that its installation brings, largest first."""
    found = {name: _bytes(files_of(name)) for name in _needed(PACKAGE, {})}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def files_of(name: str) -> list[Path]:
    """Return the files of a package; of simdb those of its folder, also where that is a checkout.

    There kernels of other sources lie beside those of the present ones, which alone count.
    """
    if name == PACKAGE:
        ends = ".py", ".html", ".css", ".js", f"{sys.implementation.cache_tag}.pyc"
        return [
            path
            for path in Path(simdb.__file__).parent.rglob("*")
            if path.name.endswith(ends) or f"-{kept.fingerprint()}-" in path.name
        ]
    located = (Path(str(file.locate())) for file in files(name) or ())
    return [path for path in located if path.is_file()]


def _needed(name: str, known: dict[str, None]) -> dict[str, None]:
    """Return the names of a package and of all that it requires, without extras."""
    known[name] = None
    if name == PACKAGE:  # where it is installed to be edited it requires what compiles, too
        project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
        required: list[str] = project["dependencies"]
    else:
        required = requires(name) or []
    for wanted in map(Requirement, required):
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

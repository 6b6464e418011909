"""The preloaded library (shim.c): compiled on use, and driven from within the process."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
LOADED = "SIMDB_TORTURE_SHIM"
KILL = -9  # in place of an error number
WRITE, SYNC, MARK = 1, 2, 3
_HEAD = struct.Struct("<5q")


def compiler() -> str | None:
    """Return a C compiler, None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def restart_with(folder: Path, arguments: list[str]) -> int:
    """Run this program again with the library preloaded; return its exit code."""
    library = folder / "shim.so"
    command = [compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
    subprocess.run([*command, "-ldl"], check=True)
    settings = {**os.environ, "LD_PRELOAD": str(library), LOADED: str(library)}
    return subprocess.run([sys.executable, *arguments], env=settings, check=False).returncode


def is_loaded() -> bool:
    """Return whether the library is in this process."""
    return LOADED in os.environ


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ[LOADED])
    library.torture_calls.restype = ctypes.c_long
    library.torture_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, *[ctypes.c_int] * 3]
    library.torture_mark.argtypes = [ctypes.c_long]
    return library


def arm(folder: str, at: int, error: int, *, forever: bool, cut: bool = False) -> None:
    """Let the n-th call below a folder fail, or kill; with ``at`` < 0 calls are only counted.

    Args:
        folder: where.
        at: the number of the call, from 0.
        error: error number, or ``KILL``.
        forever: also all calls after it.
        cut: writes are cut short instead.
    """
    _library().torture_arm(folder.encode(), at, error, int(forever), int(cut))


def disarm() -> None:
    """Let everything through again."""
    _library().torture_disarm()


def calls() -> int:
    """Return how many calls were counted."""
    return int(_library().torture_calls())


def skip_syncs() -> None:
    """Say that every sync succeeded, and do none."""
    _library().torture_skip_syncs(1)


def record(folder: str, log: Path) -> None:
    """Write every call below a folder to a log from now on."""
    _library().torture_record(folder.encode(), str(log).encode())


def mark(number: int) -> None:
    """Note in the log that a change has been acknowledged."""
    _library().torture_mark(number)


@dataclass(frozen=True)
class Call:
    """A call of the log: what, of which file, where, and the bytes.

    Attributes:
        what: WRITE, SYNC or MARK.
        number: of a mark.
        durable: a write that returned once it was on the medium (O_DSYNC).
    """

    what: int
    file: int
    offset: int
    number: int
    durable: bool
    data: bytes


def read_log(log: Path) -> Iterator[Call]:
    """Yield the calls of a log."""
    content = log.read_bytes()
    place = 0
    while place < len(content):
        what, file, offset, size, flags = _HEAD.unpack_from(content, place)
        place += _HEAD.size
        data = b""
        if what == WRITE:
            data = content[place : place + size]
            place += size
        yield Call(what, file, offset, size, bool(flags), data)

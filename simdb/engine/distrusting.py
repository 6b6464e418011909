"""Opening a file from elsewhere: it is verified before LMDB maps it, and read by a child first.

A file can be made to do harm: pages that lead out of the map, numbers that lead out of an array.
Its pages are walked in Python. Then a child process reads all of it and computes its index anew
from its items (``check(deep=True)``): what the child survives and calls sound is what simdb itself
would have written.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from simdb.errors import CorruptionError, StorageError
from simdb.storage.structure import structure_problems

_PROGRAM = """
import sys
import simdb
with simdb.open(sys.argv[1], read_only=True, threads=1) as database:
    report = database.check(deep=True)
for problem in report.problems[:3]:
    print(f"{problem.table}, {problem.record}: {problem.problem}", file=sys.stderr)
sys.exit(0 if report.sound else 1)
"""


def require_sound(path: Path) -> None:
    """Refuse a file that LMDB, or simdb, could not read safely, or that contradicts itself.

    Raises:
        CorruptionError: it is one; the message says what was found first.
        NotADatabaseError, FormatVersionError: it is no store of this format.
        StorageError: no child process could be started.
    """
    problems = structure_problems(path)
    if problems:
        raise CorruptionError(f"{path} is damaged: {problems[0]}; not opened")
    searched = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        child = subprocess.run(  # noqa: S603 - this program itself, and a path as an argument
            [sys.executable, "-c", _PROGRAM, str(path)],
            env={**os.environ, "PYTHONPATH": searched},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        raise StorageError(f"{path} cannot be verified: no child process: {error}") from error
    if child.returncode:
        said = child.stderr.decode(errors="replace").strip().splitlines()
        end = said[-1] if said else "it ended without a word"
        if child.returncode < 0:
            end = f"reading it ended the process ({signal.Signals(-child.returncode).name})"
        raise CorruptionError(f"{path} is damaged: {end}; not opened")

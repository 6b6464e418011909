"""Opening a file from elsewhere: it is verified before LMDB maps it, and read by a child first.

A file can be made to do harm: pages that lead out of the map, numbers that lead out of an array.
Its pages are walked in Python. Then a child process reads all of it and computes its index anew
from its items (``check(deep=True)``): what the child survives and calls sound is what simdb itself
would have written. The child imports the modules that define the kinds and tokenisers registered
here; a program that is run (``__main__``) is none that it could import.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from simdb import kinds
from simdb.errors import CorruptionError, FormatVersionError, NotADatabaseError, StorageError
from simdb.storage.file.creation import structure_problems

# Exit codes of the child.
_UNKNOWN = 7
_NO_STORE: dict[int, type[StorageError]] = {8: FormatVersionError, 9: NotADatabaseError}
_PROGRAM = f"""
import contextlib
import importlib
import sys
import simdb
path, word, *modules = sys.argv[1:]
for module in modules:
    with contextlib.suppress(Exception):
        importlib.import_module(module)
try:
    opened = simdb.open(path, read_only=True, threads=1)
except (simdb.FormatVersionError, simdb.NotADatabaseError) as error:
    print(error, file=sys.stderr)
    raise SystemExit(8 if isinstance(error, simdb.FormatVersionError) else 9)
with opened as database:
    report = database.check(deep=True)
    for problem in reversed(report.problems[:3]):  # of what is told, the last line is shown
        print(f"{{problem.table}}, {{problem.record}}: {{problem.problem}}", file=sys.stderr)
    for name in {{problem.record for problem in report.problems if problem.table == "meta"}}:
        try:
            database[name]
        except simdb.UnknownKindError as error:
            print(error, file=sys.stderr)
            raise SystemExit({_UNKNOWN})
        except simdb.SimdbError:
            pass
if report.sound:
    print(word)
"""
LARGEST_LOCK_FILE = 2**20  # bytes; LMDB's has 64 for each of 1,024 readers


def require_sound(path: Path) -> None:
    """Refuse a file that LMDB, or simdb, could not read safely, or that contradicts itself.

    CorruptionError says what was found first. StorageError: a lock file lies beside it that no
    store has, it is no store of this format, no child process could be started, or the child does
    not know a kind or a tokeniser in the store.
    """
    _require_usual_lock_files(path)
    problems = structure_problems(path)
    if problems:
        raise CorruptionError(f"{path} is damaged: {problems[0]}; not opened")
    # The child says a word that it cannot have from anywhere else: an exit code of 0 is no proof.
    word = os.urandom(16).hex()
    searched = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        child = subprocess.run(  # noqa: S603 - this program itself, and a path as an argument
            # -P: what lies in the present folder is not imported.
            [sys.executable, "-P", "-c", _PROGRAM, str(path), word, *kinds.defining_modules()],
            env={**os.environ, "PYTHONPATH": searched},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise StorageError(f"{path} cannot be verified: no child process: {error}") from error
    if child.returncode or child.stdout.split() != [word.encode()]:
        said = child.stderr.decode(errors="replace").strip().splitlines()
        end = said[-1] if said else "it ended without a message"
        if child.returncode == _UNKNOWN:
            raise StorageError(
                f"{path} cannot be verified: {end}. A child process verifies it, which imports the "
                "modules that define what is registered here, but not the program that is run"
            )
        if child.returncode in _NO_STORE:
            raise _NO_STORE[child.returncode](end)
        if child.returncode < 0:
            end = f"reading it ended the process ({signal.Signals(-child.returncode).name})"
        raise CorruptionError(f"{path} is damaged: {end}; not opened")


def _require_usual_lock_files(path: Path) -> None:
    """Refuse files beside a store that LMDB or simdb would map, or wait for, as their own."""
    for end, largest in (("-lock", LARGEST_LOCK_FILE), ("-turn", 0)):
        beside = Path(f"{path}{end}")
        try:
            status = beside.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(f"{beside} cannot be looked at: {error}") from error
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            raise StorageError(
                f"{beside} is no lock file of a store; remove it if nobody has the store open"
            )

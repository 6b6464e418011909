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
from simdb.errors import (
    CorruptionError,
    FormatVersionError,
    MissingExtraError,
    NotADatabaseError,
    SimdbError,
    StorageError,
)
from simdb.storage.file.creation import structure_problems

# Exit codes of the child, where what it says is no damage.
_UNKNOWN, _NOT_READ = 7, 10
_PASSED_ON: dict[int, type[SimdbError]] = {
    8: FormatVersionError,
    9: NotADatabaseError,
    11: MissingExtraError,
}
_PROGRAM = f"""
import contextlib
import importlib
import sys
import simdb
from simdb.extras import is_for_want_of_memory
path, word, *modules = sys.argv[1:]
for module in modules:
    with contextlib.suppress(Exception):
        importlib.import_module(module)
try:
    with simdb.open(path, read_only=True, threads=1) as database:
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
except simdb.CorruptionError:
    raise
except (simdb.StorageError, simdb.MissingExtraError) as error:
    print(error, file=sys.stderr)
    codes = {{{", ".join(f"simdb.{kind.__name__}: {code}" for code, kind in _PASSED_ON.items())}}}
    raise SystemExit(codes.get(type(error), {_NOT_READ}))
except (MemoryError, ImportError) as error:
    if isinstance(error, ImportError) and not is_for_want_of_memory(error):
        raise
    print("out of memory", file=sys.stderr)
    raise SystemExit({_NOT_READ})
if report.sound:
    print(word)
"""
LARGEST_LOCK_FILE = 2**20  # bytes; LMDB's has 64 for each of 1,024 readers


def require_sound(path: Path) -> None:
    """Refuse a file that LMDB, or simdb, could not read safely, or that contradicts itself.

    CorruptionError says what was found first. StorageError: a lock file lies beside it that no
    store has, it is no store of this format, no child process could be started, or the child could
    not read it for want of memory or of a permission, say, or does not know a kind or a tokeniser
    in the store. MissingExtraError: a kind in the store needs a library that is not installed.
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
        if child.returncode in _PASSED_ON:
            raise _PASSED_ON[child.returncode](end)
        if child.returncode == _NOT_READ:
            raise StorageError(f"{path} cannot be verified: {end.removeprefix(f'{path}: ')}")
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

"""Names: a store is moved, linked, replaced and put back while idle and busy processes have it.

Every commit that was acknowledged must be in the file that it was made in, and whoever cannot be
sure that it would be is refused by an error of simdb.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import simdb
from tools.campaigns import children, sabotage
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign

STORE, OTHER = "store.simdb", "other.simdb"
IDLE = "of the idle process"
CHANGES = 4  # at most, between two steps


def _collection(database: simdb.Database) -> simdb.Collection:
    return database.collection("sets", simdb.Set(), threshold=None, exact_floor=0.5)


def _keys(path: Path) -> set[str]:
    with simdb.open(path, threads=1, busy_timeout=5) as database:
        assert database.check(deep=True).sound, f"{path.name} is damaged"
        return {str(record.key) for record in _collection(database).items()}


def _add(path: Path, keys: list[str], fault: str | None) -> list[str]:
    """Add keys in a process of its own; return those that were acknowledged."""

    def work(say: Say) -> None:
        sabotage.plant(fault)
        with simdb.open(path, threads=1, busy_timeout=5) as database:
            for key in keys:
                _collection(database).add(key, {len(key), key})
                say(key)

    ending = children.Child(work).end()
    if ending.died or (ending.error and not _is_refusal(ending.error)):
        raise AssertionError(f"the writer of {path.name} ended: {ending.how}")
    return ending.answers


def _is_refusal(error: str) -> bool:
    """Whether an exception is one of simdb's own, which says that something is in the way."""
    name = error.partition(":")[0]
    return issubclass(getattr(simdb, name, Exception), simdb.SimdbError)


class _Idle:
    """A process that has a store open and does nothing, until it is asked to read or write."""

    def __init__(self, path: Path, fault: str | None) -> None:
        waiting, self._writer = os.pipe()

        def work(say: Say) -> None:
            os.close(self._writer)
            sabotage.plant(fault)
            with simdb.open(path, threads=1, busy_timeout=5) as database:
                sets = _collection(database)
                say(len(sets))
                asked = os.read(waiting, 1)
                try:
                    if asked == b"w":
                        sets.add(IDLE, {1, 2})
                        say("stored")
                    elif asked == b"r":
                        list(sets.items())
                        say("read")
                except simdb.SimdbError:
                    say("was refused")

        self._child = children.Child(work)
        os.close(waiting)
        self._child.hear(30)

    def end(self, asked: bytes) -> str:
        """Let it read, write or close, and return what it says at its end."""
        with contextlib.suppress(OSError):
            os.write(self._writer, asked)
        os.close(self._writer)
        ending = self._child.end()
        if ending.died or (ending.error and not _is_refusal(ending.error)):
            raise AssertionError(f"the idle process ended: {ending.how}")
        return str(ending.answers[0]) if ending.answers else "ended"


def _replaced(folder: Path) -> None:
    """Put a backup over the store, as ``mv`` does."""
    (folder / "backup.simdb").replace(folder / STORE)


def _made_anew(folder: Path) -> None:
    (folder / STORE).unlink()
    with simdb.open(folder / STORE, threads=1, busy_timeout=5) as database:
        _collection(database)


def _repaired(folder: Path) -> None:
    simdb.repair(folder / STORE, folder / "repaired.simdb", threads=1)
    (folder / "repaired.simdb").replace(folder / STORE)


def _copied(folder: Path) -> None:
    """Write another copy of the file, as an editor or a careless ``cp`` does."""
    shutil.copyfile(folder / STORE, folder / "copy.simdb")
    (folder / "copy.simdb").replace(folder / STORE)


def _linked(folder: Path) -> None:
    """Give the file a second name."""
    (folder / OTHER).hardlink_to(folder / STORE)


def _moved(folder: Path) -> None:
    (folder / STORE).replace(folder / OTHER)


STEPS: dict[str, Callable[[Path], None]] = {
    "replaced by a backup": _replaced,
    "made anew": _made_anew,
    "replaced by its repair": _repaired,
    "replaced by a copy": _copied,
    "linked": _linked,
    "moved": _moved,
}


@campaign(
    "names",
    "stores moved, linked, replaced and restored while others have them open",
    short=8,
    long=3_000,
)
def names(run: Run) -> None:
    """Do one thing to a name, with a process that has the old file, and see what is kept."""
    for number in range(run.count):
        if run.is_over:
            return
        generator = random.Random(run.seed + number)
        folder = run.work / str(number)
        folder.mkdir()
        step = [*STEPS][(run.seed + number) % len(STEPS)]
        try:
            outcome = _trial(folder, step, generator, run.sabotage)
        except (AssertionError, simdb.SimdbError) as error:
            run.fail(f"seed {run.seed + number}, {step}: {type(error).__name__}: {error}")
            outcome = "failed"
        run.trial(f"{step}: {outcome}")
        shutil.rmtree(folder)


def _trial(folder: Path, step: str, generator: random.Random, fault: str | None) -> str:
    """Do a step between acknowledged changes; return what became of it."""
    store, other = folder / STORE, folder / OTHER

    def some(name: str) -> list[str]:
        return [f"{name} {place}" for place in range(generator.randint(1, CHANGES))]

    known = {*_add(store, some("first"), None)}
    idle = _Idle(store, fault) if generator.random() < 0.8 else None
    in_backup = {*known}
    with simdb.open(store, threads=1) as database:
        database.backup(folder / "backup.simdb")
    known |= {*_add(store, some("second"), None)}
    outcome = "done"
    try:
        STEPS[step](folder)
    except simdb.SimdbError:
        outcome = "refused"
    files = {store: {*known}, other: {*known}}
    if step in {"made anew", "moved"}:
        files[store] = set()
    elif step == "replaced by a backup":
        files[store] = in_backup
    for path in (store, other) if other.exists() else (store,):
        added = {*_add(path, some(f"at {path.name}"), fault)}
        for one in files if step == "linked" else (path,):
            files[one] |= added
    if idle is not None:
        outcome += f", the idle process {idle.end(generator.choice([b'r', b'w', b'c']))}"
    if step == "linked":
        other.unlink()
    for path, keys in files.items():
        if path.exists() and not keys <= _keys(path):
            raise AssertionError(f"{path.name} lacks {sorted(keys - _keys(path))} of {len(keys)}")
    if "stored" in outcome and not any(IDLE in _keys(path) for path in folder.glob("*.simdb")):
        raise AssertionError("what the idle process stored is in no file")
    return outcome

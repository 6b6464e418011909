"""Damaged files: opened as they are, opened as untrusted, and repaired, each in a child.

A wrong item without an error is a failure, and so is a child killed where simdb promises that
none is: with ``untrusted=True``, by ``repair``, and by a file that was cut short. LMDB believes
its pages: opening a file in the plain way of which these are damaged may end the process, and a
lookup may find nothing. Both are counted; ``check`` and ``untrusted=True`` must tell.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import simdb
from simdb.storage.file.creation import structure_problems
from tools.campaigns import children, kills, subjects
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.subjects import Model

PAGE = 4_096
PROBES = 6  # of a collection
FILES_A_STORE = 600
FILES_A_CHILD = 25
WAYS = ("plain", "untrusted", "repair")
DIED, FAILED = "ended by", "failed:"
# LMDB's pages, and keys in them, have no checksum: a lookup led astray finds nothing.
KINDS = ("cut short", "a bit", "16 bytes", "a page zeroed", "a page replaced", "a page header")


def damaged(content: bytes, kind: str, generator: random.Random) -> bytes:
    """Return a file with damage of a kind."""
    data = bytearray(content)
    pages = len(data) // PAGE
    if kind == "cut short":
        return bytes(data[: generator.randrange(len(data))])
    if kind == "a bit":
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    elif kind == "16 bytes":
        place = generator.randrange(len(data) - 16)
        data[place : place + 16] = generator.randbytes(16)
    elif kind == "a page header":
        data[PAGE * generator.randrange(pages) + generator.randrange(16)] = generator.randrange(256)
    else:
        place = PAGE * generator.randrange(2, pages)
        other = PAGE * generator.randrange(2, pages)
        replaced = kind == "a page replaced"
        data[place : place + PAGE] = data[other : other + PAGE] if replaced else bytes(PAGE)
    return bytes(data)


def _read(path: Path, model: Model, seed: int) -> str:
    """Read and ask everything; return "right", "refused", or what was wrong."""
    generator = random.Random(seed)
    wrong = ""
    refused = 0
    try:
        with simdb.open(path, read_only=True, threads=1) as database:
            for name, known in model.items():
                found, errors = _read_collection(database, name, known, generator)
                wrong = wrong or found
                refused += errors
    except simdb.StorageError:
        return "refused"
    return wrong or ("refused in part" if refused else "right")


def _read_collection(
    database: simdb.Database, name: str, known: dict[str, Any], generator: random.Random
) -> tuple[str, int]:
    """Return what is wrong with a collection's answers, and how many were refused."""
    subject = subjects.SUBJECTS[name]
    refused = 0
    wrong = ""
    try:
        collection = database[name]
    except simdb.StorageError:
        return "", 1
    except simdb.CollectionNotFoundError:
        return f"WRONG: {name} is gone", 0
    keys = [*generator.sample(sorted(known), min(PROBES, len(known))), "absent"]
    for key in keys:
        try:
            if subject.back(collection.get(key).item) != known.get(key):
                wrong = f"WRONG: {name} {key} has another item"
            value = known[key]
            found = subject.matches(collection, value, 0 if subject.is_distance else 1)
            if set(found) != {k for k, v in known.items() if subject.is_same(v, value)}:
                wrong = f"WRONG: {name} finds other items like it"
        except simdb.StorageError:
            refused += 1
        except simdb.KeyNotFoundError:
            if key in known:
                wrong = f"WRONG: {name} {key} is gone"
    try:
        found_items = {str(r.key): subject.back(r.item) for r in collection.items()}
        if found_items != known:
            less = found_items.items() <= known.items()
            wrong = f"WRONG: of {name} " + ("a part is gone" if less else "there are other items")
    except simdb.StorageError:
        refused += 1
    return wrong, refused


def _read_untrusted(path: Path, model: Model, seed: int) -> str:
    """Do what ``untrusted=True`` does, the child being this process; then read."""
    try:
        if structure_problems(path):
            return "refused by its pages"
        with simdb.open(path, read_only=True, threads=1) as database:
            if not database.check(deep=True).sound:
                return "refused by its check"
    except simdb.StorageError:
        return "refused"
    return _read(path, model, seed)


def _repair(path: Path, model: Model) -> str:
    """Repair, and compare what was read with the model; losses must be reported."""
    new = path.with_name("repaired.simdb")
    for file in path.parent.glob("repaired.simdb*"):
        file.unlink()
    try:
        report = simdb.repair(path, new, threads=1)
    except simdb.NotADatabaseError:
        return "nothing to read"
    with simdb.open(new, threads=1) as database:
        found = subjects.contents(database)
    by_name = {part.name: part for part in report.collections}
    for name, known in model.items():
        if name not in by_name:
            if report.complete:
                return f"WRONG: {name} was lost without a word"
            continue
        got, part = found[name], by_name[name]
        other = sum(known.get(key) != value for key, value in got.items())
        if other > part.uncertain:
            return f"WRONG: {name} has {other} other items, {part.uncertain} uncertain"
        if len(got) < len(known) and report.complete:
            return f"WRONG: {name} lost {len(known) - len(got)} items without a word"
    return "complete" if report.complete else "in part"


@dataclass(frozen=True)
class _Damaged:
    """A sound store, and the damaged copies of it that are read."""

    folder: Path
    content: bytes
    model: Model

    def read(self, how: str, seed: int) -> str:
        """Damage a copy, read it in one of the ways, and return what was found."""
        path = self.folder / f"{how}-{seed}.simdb"
        path.write_bytes(damaged(self.content, kind_of(seed), random.Random(seed)))
        try:
            if how == "plain":
                return _read(path, self.model, seed)
            if how == "untrusted":
                return _read_untrusted(path, self.model, seed)
            return _repair(path, self.model)
        finally:
            for file in self.folder.glob(f"{how}-{seed}.simdb*"):
                file.unlink()

    def read_all(self, how: str, seeds: range) -> list[str]:
        """Read many in children; one that dies or fails is told and followed by another."""
        found: list[str] = []
        while len(found) < len(seeds):

            def work(say: Say, left: range = seeds[len(found) :]) -> None:
                for seed in left:
                    say(self.read(how, seed))

            ending = children.Child(work).end(FILES_A_CHILD * children.PATIENCE)
            found += ending.answers
            if len(found) < len(seeds):
                found.append(f"{DIED if ending.died else FAILED} {ending.how}")
        return found


def kind_of(seed: int) -> str:
    """Return the kind of damage of a trial."""
    return KINDS[seed % len(KINDS)]


@campaign(
    "damage",
    "bits, bytes, pages and lengths changed: read, untrusted, repaired",
    short=8,
    long=10_000,
)
def damage(run: Run) -> None:
    """Damage stores in six ways, and read each in three."""
    last = run.seed + run.count
    golden = run.work / "golden.simdb"
    first = run.seed
    while first < last:
        # Every so many trials have a store of their own, the same for the same seed.
        number = first // FILES_A_STORE
        seeds = range(first, min((number + 1) * FILES_A_STORE, last))
        for file in run.work.glob("*"):
            file.unlink()
        model = kills.build(golden, number, 40)
        store = _Damaged(run.work, golden.read_bytes(), model)
        for begin in range(0, len(seeds), FILES_A_CHILD):
            some = seeds[begin : begin + FILES_A_CHILD]
            for how in WAYS:
                for seed, found in zip(some, store.read_all(how, some), strict=True):
                    _judge(run, seed, how, found)
            run.trials += len(some)
        first = seeds[-1] + 1


def _judge(run: Run, seed: int, how: str, found: str) -> None:
    """Count what was found in a file; say whether it is a failure."""
    kind = kind_of(seed)
    shown = "WRONG" if found.startswith("WRONG") else found
    plainly = how == "plain" and kind != KINDS[0]
    if plainly and found.endswith((" is gone", " like it")):
        shown = "something is missing without an error"
    run.outcomes[f"{kind}, {how}: {shown}"] += 1
    # Whoever opens a file as untrusted leaves the reading that may be killed to a child.
    may_die = plainly or how == "untrusted"
    if shown == "WRONG" or found.startswith(FAILED) or (found.startswith(DIED) and not may_die):
        run.fail(f"{kind}, seed {seed}, {how}: {found}")

"""Damaged files: opened as they are, opened as untrusted, and repaired, each in a child.

A wrong item without an error is a failure, and so is a child killed where simdb promises that
none is: with ``untrusted=True``, by ``repair``, and by a file that was cut short. LMDB believes
its pages: opening a file in the plain way of which these are damaged may end the process, and a
lookup may find nothing. Both are counted; ``check`` and ``untrusted=True`` must tell.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import simdb
from simdb.storage.structure import structure_problems
from tools.campaigns import children, kills, subjects
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.subjects import Model

PAGE = 4_096
PROBES = 6  # of a collection
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


@campaign(
    "damage",
    "bits, bytes, pages and lengths changed: read, untrusted, repaired",
    short=300,
    long=10_000,
)
def damage(run: Run) -> None:
    """Damage a store in six ways, and read it in three."""
    golden = run.work / "golden.simdb"
    model = kills.build(golden, run.seed, 40)
    content = golden.read_bytes()
    for number in range(run.count):
        seed = run.seed * 1_000_000 + number
        generator = random.Random(seed)
        kind = KINDS[number % len(KINDS)]
        path = run.work / "damaged.simdb"
        for file in run.work.glob("damaged.simdb*"):
            file.unlink()
        path.write_bytes(damaged(content, kind, generator))

        def work(say: Say, path: Path = path, seed: int = seed) -> None:
            say(_read(path, model, seed))

        def untrusted(say: Say, path: Path = path, seed: int = seed) -> None:
            say(_read_untrusted(path, model, seed))

        def repairing(say: Say, path: Path = path) -> None:
            say(_repair(path, model))

        for how, job in (("plain", work), ("untrusted", untrusted), ("repair", repairing)):
            ending = children.Child(job).end()
            found = str(ending.answers[0]) if ending.answers else f"ended by {ending.how}"
            shown = "WRONG" if found.startswith("WRONG") else found
            if how == "plain" and kind != KINDS[0] and found.endswith((" is gone", " like it")):
                shown = "something is missing without an error"
            run.outcomes[f"{kind}, {how}: {shown}"] += 1
            # Whoever opens a file as untrusted leaves the reading that may be killed to a child.
            may_die = ending.died and (how == "untrusted" or (how == "plain" and kind != KINDS[0]))
            if shown == "WRONG" or ending.error or (ending.died and not may_die):
                run.fail(f"{kind}, seed {seed}, {how}: {found}")
        run.trial()

"""Many processes on one store: writers, readers, and in every round one that is killed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import simdb
from tools.campaigns import children
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign

WRITERS = 2
READERS = 4
ROUND = 5.0  # seconds
WORDS = 12


def _set_of(writer: int, place: int, version: int) -> set[int]:
    """Return the set that a place holds in a version: its three items always agree."""
    generator = random.Random(f"{writer} {place} {version}")
    return set(generator.sample(range(100_000), WORDS))


def _stored(collection: simdb.Collection, writer: int) -> dict[int, int]:
    """Return the version of every place that a writer has filled; all of a triple, or nothing."""
    found: dict[int, list[int]] = {}
    for record in collection.items():
        owner, number, _ = str(record.key).split("/")
        if int(owner) == writer:
            found.setdefault(int(number), []).append((record.metadata or {})["version"])
    for place, versions in found.items():
        if len(versions) != 3 or len(set(versions)) > 1:
            raise AssertionError(f"half a change was stored: {writer}/{place} {versions}")
    return {place: versions[0] for place, versions in found.items()}


def _write(path: Path, seed: str, writer: int, until: float, say: Say) -> None:
    """Add, replace and delete triples of equal sets, each triple in one transaction."""
    generator = random.Random(f"{seed} writer {writer}")
    commits = 0
    with simdb.open(path, threads=1, busy_timeout=60) as database:
        collection = database["sets"]
        versions = _stored(collection, writer)  # one before may have been killed
        while time.monotonic() < until:
            place = generator.randrange(60)
            keys = [f"{writer}/{place}/{copy}" for copy in range(3)]
            if place in versions and generator.random() < 0.2:
                collection.delete_many(keys)
                del versions[place]
            else:
                version = versions.get(place, -1) + 1
                item = _set_of(writer, place, version)
                rows = [(key, item, {"version": version}) for key in keys]
                collection.add_many(rows, on_existing="replace")
                versions[place] = version
            commits += 1
            if commits % 200 == 0:
                collection.compact()
        if _stored(collection, writer) != versions:
            raise AssertionError(f"writer {writer} lost what it had stored")
    say({"commits": commits})


def _read(path: Path, seed: str, number: int, until: float, say: Say) -> None:
    """Look at snapshots: all three of a triple, or none, and search finds just them."""
    generator = random.Random(f"{seed} reader {number}")
    looks = 0
    with simdb.open(path, threads=1, read_only=bool(number % 2), busy_timeout=60) as database:
        while time.monotonic() < until:
            with database.snapshot() as state:
                view = state["sets"]
                writer, place = generator.randrange(WRITERS), generator.randrange(60)
                keys = [f"{writer}/{place}/{copy}" for copy in range(3)]
                found = [view.get(key) for key in keys if key in view]
                versions = {(record.metadata or {})["version"] for record in found}
                if len(found) not in {0, 3} or len(versions) > 1:
                    raise AssertionError(f"half a change was seen: {found}")
                if found:
                    item = _set_of(writer, place, versions.pop())
                    if any(record.item != item for record in found):
                        raise AssertionError(f"another item was seen: {keys}")
                    answers = {match.key for match in view.search(item, threshold=1)}
                    if answers != set(keys):
                        raise AssertionError(f"search of {keys} found {sorted(map(str, answers))}")
                looks += 1
    say({"looks": looks})


def _start(path: Path, seed: str, number: int, until: float) -> children.Child:
    """Start a process: the first ones write, the others read."""
    if number < WRITERS:
        return children.Child(lambda say: _write(path, seed, number, until, say))
    return children.Child(lambda say: _read(path, seed, number - WRITERS, until, say))


@campaign(
    "processes",
    "2 writers, 4 readers, searches checked; in each round one is killed and replaced",
    short=2,
    long=300,
    timed=True,
)
def processes(run: Run) -> None:
    """Let processes work on one store for so many seconds, in rounds of a few."""
    path = run.work / "store.simdb"

    def build() -> None:
        with simdb.open(path, threads=1) as database:
            database.collection("sets", simdb.Set(), threshold=None, exact_floor=0.5)

    children.answer(build)
    until = time.monotonic() + run.count
    largest = 0
    while time.monotonic() < until:
        seed = f"{run.seed} {run.trials}"
        end = min(until, time.monotonic() + ROUND)
        workers = [_start(path, seed, number, end) for number in range(WRITERS + READERS)]
        time.sleep(random.Random(seed).random() * ROUND / 4)
        victim = random.Random(seed).randrange(len(workers))
        workers[victim].kill()
        workers[victim].end()
        run.outcomes[f"{'writers' if victim < WRITERS else 'readers'} killed"] += 1
        workers[victim] = _start(path, f"{seed} again", victim, end)
        for worker in workers:
            ending = worker.end(60 + run.count)
            if ending.died or ending.error:
                run.fail(f"round {run.trials}: {ending.how}")
            for answer in ending.answers:
                run.outcomes.update(answer)
        largest = max(largest, path.stat().st_size)
        ending = children.answer(lambda: _problem(path))
        if ending.answers != [""]:
            run.fail(f"round {run.trials}: {ending.answers or ending.how}")
        run.trial()
    run.outcomes["largest size of the file, KiB"] = largest // 1_024


def _problem(path: Path) -> str:
    """Return what ``check`` finds between two rounds."""
    with simdb.open(path, threads=1) as database:
        problems = database.check(deep=True).problems
    return str(problems[0]) if problems else ""

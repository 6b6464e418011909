"""Many processes on one store: writers, readers, and now and then one that is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import simdb
from tools.campaigns import children
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign

WRITERS = 2
READERS = 4
WORDS = 12


def _set_of(writer: int, place: int, version: int) -> set[int]:
    """Return the set that a place holds in a version: its three items always agree."""
    generator = random.Random(f"{writer} {place} {version}")
    return set(generator.sample(range(100_000), WORDS))


def _write(path: Path, writer: int, until: float, say: Say) -> None:
    """Add, replace and delete triples of equal sets, each triple in one transaction."""
    generator = random.Random(writer)
    versions: dict[int, int] = {}
    commits = 0
    with simdb.open(path, threads=1, busy_timeout=60) as database:
        collection = database["sets"]
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
    say({"commits": commits})


def _read(path: Path, number: int, until: float, say: Say) -> None:
    """Look at snapshots: all three of a triple, or none, and search finds just them."""
    generator = random.Random(number)
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


def _writer(path: Path, number: int, until: float) -> Callable[[Say], None]:
    return lambda say: _write(path, number, until, say)


def _reader(path: Path, number: int, until: float) -> Callable[[Say], None]:
    return lambda say: _read(path, number, until, say)


@campaign(
    "processes",
    "2 writers, 4 readers, searches checked; one in ten is killed and replaced",
    short=10,
    long=300,
    timed=True,
)
def processes(run: Run) -> None:
    """Let processes work on one store for so many seconds."""
    path = run.work / "store.simdb"

    def build() -> None:
        with simdb.open(path, threads=1) as database:
            database.collection("sets", simdb.Set(), threshold=None, exact_floor=0.5)

    children.answer(build)
    until = time.monotonic() + run.count
    rounds = 0
    largest = 0
    while time.monotonic() < until:
        rounds += 1
        end = min(until, time.monotonic() + 5)
        workers = [
            *(children.Child(_writer(path, n, end)) for n in range(WRITERS)),
            *(children.Child(_reader(path, n, end)) for n in range(READERS)),
        ]
        if rounds % 2 == 0:
            # A writer that dies begins its versions anew: its items are deleted first.
            victim = workers[WRITERS + random.Random(rounds).randrange(READERS)]
            time.sleep(0.5)
            victim.kill()
        else:
            victim = None
        for worker in workers:
            ending = worker.end(60 + run.count)
            if worker is victim:
                run.outcomes["readers killed"] += 1
                continue
            if ending.died or ending.error:
                run.fail(f"round {rounds}: {ending.how}")
            for answer in ending.answers:
                run.outcomes.update(answer)
        largest = max(largest, path.stat().st_size)
        run.trial()
        ending = children.answer(lambda: _settle(path))
        if ending.answers != [""]:
            run.fail(f"round {rounds}: {ending.answers or ending.how}")
    run.outcomes["largest size of the file, KiB"] = largest // 1_024


def _settle(path: Path) -> str:
    """Check the store between rounds and empty it, so that writers begin anew."""
    with simdb.open(path, threads=1) as database:
        problems = database.check(deep=True).problems
        if problems:
            return str(problems[0])
        collection = database["sets"]
        collection.delete_many([record.key for record in collection.items()])
    return ""

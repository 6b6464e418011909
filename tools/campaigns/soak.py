"""Mixed load for a long time: neither the file, nor memory, nor latency may grow without bound.

The number of items stays as it is: what is added is deleted later. A second process reads all the
while, from snapshots that it keeps for a six-hundredth of the time. The time is cut into windows,
and the last third of them is held against the first, without the very first window, in which
pages are still being freed for the first time.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from tools.campaigns import children
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign

LONG = 600  # seconds from which on there are a million items
LARGE, SMALL = 1_000_000, 1_000
WINDOWS = 20
BATCH = 100
WORDS = 20
VOCABULARY = 50_000
SNAPSHOTS = 600  # while it lasts

# What the last third may be over the first.
MOST_FILE = 1.25
MOST_MEMORY = 64 * 2**20
MOST_LATENCY = 1.5
# While a snapshot is open no page that it sees is used again: what a single add may add to the
# file, on average, and how much less it must be once the snapshot has ended.
MOST_A_COMMIT = 32 * 2**10
SINGLE_ADDS, FEW_ADDS = 500, 100


def text_of(number: int, version: int) -> str:
    """Return the text of an item; every tenth is a near copy of the one before."""
    generator = random.Random(number - (number % 10 == 9))
    words = [f"w{generator.randrange(VOCABULARY)}" for _ in range(WORDS)]
    if number % 10 == 9:
        words[number % WORDS] = f"own{number}"
    if version:
        words[0] = f"version{version}"
    return " ".join(words)


class _Load:
    """The writer: what it stores, and what it saw."""

    def __init__(self, path: Path, seed: int, items: int) -> None:
        self.generator = random.Random(seed)
        self.path, self.items = path, items
        self.single_adds = SINGLE_ADDS if items == LARGE else FEW_ADDS
        self.versions: dict[int, int] = {}
        self.next = 0
        self.latencies: defaultdict[str, list[float]] = defaultdict(list)
        self.wrong: list[str] = []

    def fill(self, collection: simdb.Collection) -> None:
        """Store the items."""
        while self.next < self.items:
            collection.add_many(self.new_rows(min(20_000, self.items - self.next)))

    def new_rows(self, count: int) -> list[tuple[int, str]]:
        """Return so many new items; they count as stored."""
        numbers = range(self.next, self.next + count)
        self.versions.update(dict.fromkeys(numbers, 0))
        self.next += count
        return [(number, text_of(number, 0)) for number in numbers]

    def timed(self, what: str, work: partial[Any]) -> Any:
        """Do something and keep how long it took."""
        began = time.perf_counter()
        result = work()
        self.latencies[what].append(time.perf_counter() - began)
        return result

    def once(self, collection: simdb.Collection) -> None:
        """Add, delete, replace and search."""
        self.timed("add of 100", partial(collection.add_many, self.new_rows(BATCH)))
        oldest = next(iter(self.versions))
        gone = [*range(oldest, oldest + BATCH)]
        self.timed("delete of 100", partial(collection.delete_many, gone))
        for number in gone:
            del self.versions[number]
        for _ in range(5):
            number = self.generator.randrange(oldest + BATCH, self.next)
            version = self.versions[number] + 1
            text = text_of(number, version)
            self.timed("replace", partial(collection.replace, number, text))
            self.versions[number] = version
        for _ in range(20):
            self._search(collection, self.generator.randrange(oldest, self.next))

    def _search(self, collection: simdb.Collection, number: int) -> None:
        """Search a stored text, or one that was deleted: only the former is found."""
        version = self.versions.get(number)
        text = text_of(number, version or 0)
        found = self.timed("search", partial(collection.search, text, threshold=1))
        if (number in {match.key for match in found}) != (version is not None):
            self.wrong.append(f"search of {number}, stored as {version}: {found}")

    def growth(self, collection: simdb.Collection) -> int:
        """Return by how much as many single adds make the file grow as are looked at."""
        before = self.path.stat().st_size
        for row in self.new_rows(self.single_adds):
            collection.add(*row)
        return self.path.stat().st_size - before

    def window(self) -> dict[str, Any]:
        """Return the sizes and the latencies since the last time."""
        told: dict[str, Any] = {"file": self.path.stat().st_size, "memory": _anonymous_memory()}
        for what, seconds in self.latencies.items():
            told[what] = statistics.median(seconds)
            told[f"{what}, p99"] = float(np.quantile(seconds, 0.99))
        told["operations"] = sum(map(len, self.latencies.values()))
        self.latencies.clear()
        return told


def _anonymous_memory() -> int:
    """Return bytes of this process that are not pages of files."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1_024
    raise OSError("this system does not tell RssAnon in /proc/self/status")


def _write(path: Path, seed: int, items: int, seconds: float, say: Say) -> None:
    load = _Load(path, seed, items)
    with simdb.open(path, threads=1) as database:
        text = simdb.Text(simdb.WordShingles(1))
        collection = database.collection("c", text, threshold=0.8, exact_floor=0.8)
        load.fill(collection)
        say("full")
        began = time.monotonic()
        for number in range(1, WINDOWS + 1):
            while time.monotonic() < began + number * seconds / WINDOWS or not load.latencies:
                load.once(collection)
            say(load.window())
        with database.snapshot():
            grown = load.growth(collection)
        after = load.growth(collection)
        say(grown)
        if grown > load.single_adds * MOST_A_COMMIT or after > max(grown // 4, 2**20):
            load.wrong.append(f"{load.single_adds} adds: {grown:,} bytes more, {after:,} after it")
        stored = {entry.key for entry in collection.items()}
        if stored != load.versions.keys():
            load.wrong.append(f"{len(stored):,} items are stored, not {len(load.versions):,}")
        report = database.check(deep=True)
        load.wrong += [f"check: {problem}" for problem in report.problems]
    say(load.wrong[:5])


def _read(path: Path, seconds: float, done: Path, say: Say) -> None:
    """Search in snapshots of so many seconds until told; say how long the longest lasted."""
    generator = random.Random(0)
    longest = 0.0
    with simdb.open(path, threads=1, read_only=True, busy_timeout=60) as database:
        database["c"].search(text_of(0, 0))  # the first one loads kernels
        while not done.exists():
            began = time.monotonic()
            with database.snapshot() as state:
                while time.monotonic() < began + seconds:
                    state["c"].search(text_of(generator.randrange(LARGE), 0))
                    time.sleep(seconds / 100)
            longest = max(longest, time.monotonic() - began)
    say(longest)


@campaign(
    "soak",
    "mixed load on a million items: file, memory and latency stay within bounds",
    short=1,
    long=LONG,
    timed=True,
    small_parts=False,
)
def soak(run: Run) -> None:
    """Load a store for so many seconds; with fewer than 600, of 1,000 items."""
    path = run.work / "store.simdb"
    items = LARGE if run.count >= LONG else SMALL
    writer = children.Child(partial(_write, path, run.seed, items, float(run.count)))
    if writer.hear(3_600) != "full":
        run.fail(f"the store was not filled: {writer.end().how}")
        return
    run.outcomes["items"] = items
    done = run.work / "done"
    reader = children.Child(partial(_read, path, run.count / SNAPSHOTS, done))
    ending = writer.end(run.count + 3_600)
    done.touch()
    reading = reader.end()
    if reading.died or reading.error:
        run.fail(f"the reader ended: {reading.how}")
    windows = [told for told in ending.answers if isinstance(told, dict)]
    if ending.died or ending.error or len(windows) != WINDOWS:
        run.fail(f"the writer ended: {ending.how}")
        return
    run.outcomes["growth by an add while a snapshot is open, bytes"] = (
        ending.answers[-2] // SINGLE_ADDS
    )
    for wrong in ending.answers[-1]:
        run.fail(wrong)
    for told in windows:
        run.trial()
        run.outcomes["operations"] += told["operations"]
    # What a process that the system held up in a snapshot keeps from being used again is no leak.
    held_up = max(reading.answers, default=0.0) > run.count / WINDOWS
    run.outcomes["file not judged: a snapshot outlasted a window"] = int(held_up)
    _compare(run, windows, judge_file=not held_up, judge_latency=items == LARGE)


def _compare(
    run: Run, windows: list[dict[str, Any]], *, judge_file: bool, judge_latency: bool
) -> None:
    """Hold the last third of the windows against the first."""
    third = WINDOWS // 3
    names = [name for name in windows[0] if name != "operations"]
    for name in names:
        first = statistics.median(told[name] for told in windows[1 : 1 + third])
        last = statistics.median(told[name] for told in windows[-third:])
        if name == "file":
            too_much = judge_file and last > MOST_FILE * first + 2**20
        elif name == "memory":
            too_much = last > first + MOST_MEMORY
        else:
            too_much = judge_latency and "p99" not in name and last > MOST_LATENCY * first
        unit, scale = ("KiB", 1 / 1_024) if name in {"file", "memory"} else ("µs", 1e6)
        run.outcomes[f"{name}, first third, {unit}"] = round(first * scale)
        run.outcomes[f"{name}, last third, {unit}"] = round(last * scale)
        if too_much:
            run.fail(f"{name} grew from {first:,.6g} to {last:,.6g}")

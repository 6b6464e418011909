"""What a call costs from its very start: commands, first calls of a process, and threads.

Processor time stands beside each time: what other programs do changes it less.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import simdb
from tools.benchmarks import installed, stores
from tools.benchmarks.children import CHECKOUT, in_child, memory_status
from tools.benchmarks.corpora import unseen_texts
from tools.benchmarks.registry import Bench, Figure

HERE = "tools.benchmarks.starting"
TIMES = 9  # processes, of which the median is told
SEARCHES = 4_000
AT_ONCE = 200  # texts of a search_many
PYTHON = sys.executable
MILLISECONDS = 1e3


class Took(NamedTuple):
    """Seconds of a process: by the clock, and of the processor."""

    clock: float
    processor: float


def took(*command: str | Path, before: Callable[[], None] = lambda: None) -> Took:
    """Run a command some times, after a first one; return the medians."""
    found = []
    for _ in range(TIMES + 1):
        before()
        found.append(once(*command))
    return Took(*map(statistics.median, zip(*found[1:], strict=True)))


def once(*command: str | Path) -> Took:
    """Run a command once, as installed: modules are compiled once, not in each process."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = [*map(str, command)]
    subprocess.run(words, check=True, capture_output=True, cwd=CHECKOUT, env=environment)
    after, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    working = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(clock, working)


def first_search(path: str, text: str) -> dict[str, Any]:
    """Open a store and search it once; what that loaded, and the memory that it takes."""
    with simdb.open(path, threads=1, read_only=True) as database:
        database[stores.NAME].search(text)
        return {
            "loaded": sorted({"numba", "llvmlite", "scipy", "rich"} & set(sys.modules)),
            "resident": memory_status("VmRSS"),
            "own": memory_status("RssAnon"),
        }


def searches_by_threads(path: str, seed: int, threads: int, at_once: int) -> dict[str, float]:
    """Search for new texts from so many threads, one at a time or many in a call."""
    texts = unseen_texts(2_000, seed, seed + 7)
    stores.read_file(Path(path))
    with simdb.open(path, threads=1, read_only=True) as database:
        collection = database[stores.NAME]
        collection.search_many(texts[:300])
        for text in texts[:300]:
            collection.search(text)
        seconds: list[float] = []

        def work(number: int) -> None:
            mine = []
            own = islice(cycle(texts), 97 * number, None)
            for _ in range(SEARCHES // at_once):
                asked = [*islice(own, at_once)]
                began = time.perf_counter()
                if at_once == 1:
                    collection.search(asked[0])
                else:
                    collection.search_many(asked)
                mine.append(time.perf_counter() - began)
            seconds.extend(mine)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    done = threads * (SEARCHES // at_once) * at_once
    return {
        "rate": done / clock,
        "p99": statistics.quantiles(seconds, n=100)[98] * MILLISECONDS,
        "handed over": (after.ru_nvcsw - before.ru_nvcsw) / done,
    }


def starting(bench: Bench) -> None:
    """Measure what comes before an answer, and what threads make of searches."""
    path, _ = stores.large_store(bench)
    text = unseen_texts(1, bench.seed, bench.seed + 6)[0]
    _commands(bench, path, text)
    _installed_size(bench)
    _first_call(bench, path, text)
    _threads(bench, path)


def _commands(bench: Bench, path: Path, text: str) -> None:
    simdb_command = Path(PYTHON).with_name("simdb")
    alone = took(PYTHON, "-c", "pass")
    peer = _sqlite_utils(bench)
    copy, row = stores.copy_store(path), bench.work / "row.jsonl"
    row.write_text(json.dumps({"id": "one more", "text": text}), encoding="utf-8")
    commands: dict[str, tuple[str | Path, ...]] = {
        "search": ("search", path, stores.NAME, "--text", text),
        "get": ("get", path, stores.NAME, _some_key(path)),
        "stats": ("stats", path),
        "add of one row": (*("add", copy, stores.NAME, row), *("--on-existing", "replace")),
        "--help": ("--help",),
    }
    warm: dict[str, Took] = {}
    for name, words in commands.items():
        found = warm[name] = took(simdb_command, *words)
        bench.add(
            Figure(
                "feel",
                f"simdb {name}, warm disk",
                found.clock * MILLISECONDS,
                "ms",
                peer="sqlite-utils, one row of a table",
                peer_value=None if peer is None else peer.clock * MILLISECONDS,
                ratio=None if peer is None else peer.clock / found.clock,
                target="at most 150",
                reached=found.clock <= 0.150,
                note=f"{found.processor * MILLISECONDS:.0f} ms of processor, "
                f"the peer {0 if peer is None else peer.processor * MILLISECONDS:.0f}, "
                f"Python alone {alone.processor * MILLISECONDS:.0f}",
            )
        )
    stores.remove(copy)
    _cold_disk(bench, path, commands["search"], warm["search"])


def _cold_disk(bench: Bench, path: Path, words: tuple[str | Path, ...], warm: Took) -> None:
    """Measure a command whose files have left the memory of the system."""
    read = [path, *installed.read_by_commands()]
    command = Path(PYTHON).with_name("simdb")
    found = took(command, *words, before=lambda: installed.forget(read))
    times = found.clock / warm.clock
    bench.add(
        Figure(
            "feel",
            "simdb search, cold disk",
            found.clock * MILLISECONDS,
            "ms",
            target="at most 2 x that of the warm disk",
            reached=times <= 2,
            note=f"{times:.1f} x; files that other processes map stay in memory",
        )
    )


def _installed_size(bench: Bench) -> None:
    found = installed.sizes()
    bench.details["feel, installed bytes"] = found
    largest = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in [*found.items()][:5])
    size = sum(found.values()) / 1e6
    bench.at_most("feel", "installed size", size, "MB", limit=150, note=f"of which {largest}")


def _some_key(path: Path) -> str:
    with simdb.open(path, threads=1, read_only=True) as database:
        return str(next(database[stores.NAME].items()).key)


def _sqlite_utils(bench: Bench) -> Took | None:
    """Time the command of a peer, if it is there."""
    command = shutil.which("sqlite-utils") or shutil.which(
        "sqlite-utils", path=str(Path(PYTHON).parent)
    )
    if command is None:
        return None
    file = bench.work / "peer.sqlite"
    file.unlink(missing_ok=True)
    with sqlite3.connect(file) as connection:
        connection.execute("create table texts (id integer primary key, text)")
        connection.executemany("insert into texts(text) values (?)", [("a text",)] * 1_000)
    connection.close()
    return took(command, "query", file, "select * from texts where id = 500")


def _first_call(bench: Bench, path: Path, text: str) -> None:
    numpy = took(PYTHON, "-c", "import numpy")
    source = (
        "import simdb\n"
        f"with simdb.open({str(path)!r}, read_only=True) as database:\n"
        f"    database[{stores.NAME!r}].search({text!r})"
    )
    found = took(PYTHON, "-c", source)
    bench.add(
        Figure(
            "feel",
            "a process that imports simdb, opens and searches once",
            found.clock * MILLISECONDS,
            "ms",
            peer="a process that imports numpy",
            peer_value=numpy.clock * MILLISECONDS,
            ratio=numpy.clock / found.clock,
            target="at most 120",
            reached=found.clock <= 0.120,
            note=f"{found.processor * MILLISECONDS:.0f} ms of processor, "
            f"of which numpy {numpy.processor * MILLISECONDS:.0f}",
        )
    )
    loaded = in_child(f"{HERE}:first_search", path=str(path), text=text)
    bench.details["feel, first search"] = loaded
    megabytes = loaded["resident"] / 1e6
    note = f"{loaded['own'] / 1e6:.0f} MB its own; loaded: {', '.join(loaded['loaded']) or 'none'}"
    bench.at_most("feel", "resident after one search", megabytes, "MB", limit=70, note=note)


def _threads(bench: Bench, path: Path) -> None:
    for name, at_once, counts in (("search", 1, (1, 2, 4)), ("search_many", AT_ONCE, (1, 2))):
        one: dict[str, float] = {}
        for threads in counts:
            found = in_child(
                f"{HERE}:searches_by_threads",
                path=str(path),
                seed=bench.seed,
                threads=threads,
                at_once=at_once,
            )
            one = one or found
            faster = found["rate"] / one["rate"]
            bench.add(
                Figure(
                    "feel",
                    f"{name}, {threads} thread{'s' * (threads > 1)}",
                    found["rate"],
                    "a second",
                    target="at least 1.7 x one thread" if threads == 2 else "",
                    reached=faster >= 1.7 if threads == 2 else None,
                    note=f"{faster:.2f} x one thread, p99 {found['p99']:.2f} ms, the processor "
                    f"handed over {found['handed over']:.2f} times a text; "
                    f"{len(os.sched_getaffinity(0))} cores",
                )
            )

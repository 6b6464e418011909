"""One call at a time on a large store: search, durable add, import and open."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

import simdb
from tools.benchmarks import stores
from tools.benchmarks.children import CHECKOUT, in_child
from tools.benchmarks.corpora import unseen_texts
from tools.benchmarks.registry import Bench, Figure, measure
from tools.make_corpus import Corpus

HERE = "tools.benchmarks.latency"
QUERIES = 2_000
PROCESSES = 9
BARE_COMMITS = 2_000


def search_latencies(path: str, count: int, seed: int) -> dict[str, Any]:
    """Search for new texts and for planted near copies, then look for every planted pair."""
    corpus = Corpus(count, seed)
    pairs = corpus.planted_pairs()
    copies = corpus.planted_texts[1::2]
    new = unseen_texts(QUERIES, seed, seed + 1)
    stores.read_file(Path(path))
    with simdb.open(path, threads=1, read_only=True) as database:
        collection = database[stores.NAME]
        for text in [*new[:300], *copies[:300]]:
            collection.search(text)
        timed = {
            name: _timed_searches(collection, texts[:QUERIES])
            for name, texts in (("new texts", new), ("near copies", copies))
        }
        found, candidates = [], 0
        for pair, text in zip(pairs, copies, strict=True):
            matches = collection.search(text, threshold=0.3, min_recall=0.0)
            candidates += matches.candidates
            found.append(any(match.key == pair.left for match in matches))
    return {
        "milliseconds": timed,
        "bins": stores.recall_bins(pairs, found),
        "candidates": candidates,
        "searches": len(pairs),
    }


def alternating(path: str, seed: int) -> dict[str, Any]:
    """Add a text, search for another, and so on, on a copy of the store."""
    texts = unseen_texts(2 * QUERIES, seed, seed + 2)
    copy = stores.copy_store(Path(path))
    searches = []
    with simdb.open(copy, threads=1) as database:
        collection = database[stores.NAME]
        for text in texts[:100]:
            collection.search(text)
        for number, (added, searched) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
            collection.add(f"new{number}", added)
            began = time.perf_counter()
            collection.search(searched)
            searches.append(time.perf_counter() - began)
    stores.remove(copy)
    return {"milliseconds": _percentiles(searches)}


def durable_adds(path: str, seed: int, adds: int) -> dict[str, Any]:
    """Add texts one by one, each synced, on a copy; bare LMDB commits before and after."""
    plan = simdb.plan(stores.THRESHOLD)
    index_bytes = 12 * plan.bands + 2 * plan.signature_rows
    texts = unseen_texts(adds, seed, seed + 3)
    copy = stores.copy_store(Path(path))
    bare = _bare_commits(copy.parent, texts, index_bytes)
    seconds = []
    with simdb.open(copy, threads=1) as database:
        collection = database[stores.NAME]
        collection.add("first", texts[0])
        for number, text in enumerate(texts):
            began = time.perf_counter()
            collection.add(f"new{number}", text)
            seconds.append(time.perf_counter() - began)
    bare += _bare_commits(copy.parent, texts, index_bytes)
    stores.remove(copy)
    return {"milliseconds": _percentiles(seconds), "bare": _percentiles(bare), "adds": adds}


@measure("search", "search from text in the large store, recall by similarity, add and search")
def search(bench: Bench) -> None:
    """Measure warm searches on one thread."""
    path, _ = stores.large_store(bench)
    answer = in_child(
        f"{HERE}:search_latencies", path=str(path), count=bench.count, seed=bench.seed
    )
    bench.details["search"] = answer
    for name, timed in answer["milliseconds"].items():
        note = f"{timed['candidates']:.3g} candidates"
        bench.at_most("search", f"{name}, p50", timed["p50"], "ms", limit=0.3, note=note)
        note = f"{timed['p99 of processor time']:.2f} ms of processor time, without other programs"
        bench.at_most("search", f"{name}, p99", timed["p99"], "ms", limit=2.0, note=note)
    for row in answer["bins"]:
        bench.add(_recall_figure(row))
    candidates = answer["candidates"] / answer["searches"]
    bench.add(Figure("search", "candidates a near copy's search", candidates, ""))
    answer = in_child(f"{HERE}:alternating", path=str(path), seed=bench.seed)
    bench.details["alternating"] = answer
    timed = answer["milliseconds"]
    note = f"p99 {timed['p99']:.2f} ms"
    bench.at_most("search", "alternating with add, p50", timed["p50"], "ms", limit=0.5, note=note)


@measure("add", "one durable add at a time to the large store")
def add(bench: Bench) -> None:
    """Measure synced single adds against bare LMDB commits of the same bytes."""
    path, _ = stores.large_store(bench)
    adds = min(100_000, bench.count // 10)
    answer = in_child(f"{HERE}:durable_adds", path=str(path), seed=bench.seed, adds=adds)
    bench.details["add"] = answer
    timed, bare = answer["milliseconds"], answer["bare"]
    bench.add(
        Figure(
            "add",
            "p50",
            timed["p50"],
            "ms",
            peer="bare LMDB commit",
            peer_value=bare["p50"],
            ratio=bare["p50"] / timed["p50"],
            target="at least half its rate",
            reached=timed["p50"] <= 2 * bare["p50"],
            note=f"p99 {timed['p99']:.2f} ms, bare p99 {bare['p99']:.2f} ms",
        )
    )
    note = f"slowest bare commit of {2 * BARE_COMMITS:,}: {bare['slowest']:.1f} ms"
    bench.at_most("add", f"slowest of {adds:,}", timed["slowest"], "ms", limit=100, note=note)


@measure("open", "import time and open time in fresh processes")
def open_(bench: Bench) -> None:
    """Measure what a process pays before its first answer."""
    path, _ = stores.large_store(bench)
    before = "from time import perf_counter as now; import numpy; began = now(); import simdb; "
    after = "; print(now() - began)"
    seconds = _in_fresh_processes(before + after.removeprefix("; "))
    bench.at_most("open", "import simdb above import numpy", seconds * 1e3, "ms", limit=60)
    opening = "began = now(); database = simdb.open({!r}, read_only={}); found = database['bench']"
    for read_only in (False, True):
        seconds = _in_fresh_processes(before + opening.format(str(path), read_only) + after)
        name = f"open the large store{', read-only' * read_only}"
        bench.at_most("open", name, seconds * 1e3, "ms", limit=50)
    searching = opening.format(str(path), True) + ".search('the first search of a process')"
    seconds = _in_fresh_processes(before + searching + after)
    bench.add(Figure("open", "open and first search, kernels cached", seconds * 1e3, "ms"))


def _recall_figure(row: dict[str, Any]) -> Figure:
    """Compare the recall in one bin with the plan, allowing for chance.

    The slack is three standard deviations of the number found, and one pair more for small bins.
    """
    planned, pairs = row["planned"], row["pairs"]
    slack = (3 * (pairs * planned * (1 - planned)) ** 0.5 + 1) / pairs
    recall = row["found"] / pairs
    return Figure(
        "search",
        f"recall from J = {row['lowest']:.2f}",
        recall,
        "",
        target=f"planned {planned:.4f}",
        reached=recall >= planned - slack,
        note=f"{row['found']:,} of {pairs:,} planted pairs",
    )


def _timed_searches(collection: simdb.Collection, texts: list[str]) -> dict[str, float]:
    seconds, working, candidates = [], [], 0
    for text in texts:
        began, worked = time.perf_counter(), time.thread_time()
        matches = collection.search(text)
        working.append(time.thread_time() - worked)
        seconds.append(time.perf_counter() - began)
        candidates += matches.candidates
    return {
        **_percentiles(seconds),
        "p99 of processor time": _percentiles(working)["p99"],
        "candidates": candidates / len(texts),
    }


def _percentiles(seconds: list[float]) -> dict[str, float]:
    """Return quantiles in milliseconds."""
    p50, p99, slowest = np.quantile(seconds, [0.5, 0.99, 1.0]).tolist()
    return {"p50": p50 * 1e3, "p99": p99 * 1e3, "slowest": slowest * 1e3}


def _bare_commits(folder: Path, texts: list[str], index_bytes: int) -> list[float]:
    """Time LMDB commits of one record each, as large as a document and its index entries."""
    path = folder / "bare-commits.lmdb"
    stores.remove(path)
    seconds = []
    with lmdb.open(str(path), subdir=False, map_size=1 << 33) as environment:
        for number, text in enumerate(texts[:BARE_COMMITS]):
            record = text.encode() + bytes(index_bytes)
            began = time.perf_counter()
            with environment.begin(write=True) as transaction:
                transaction.put(number.to_bytes(8, "big"), record)
            seconds.append(time.perf_counter() - began)
    stores.remove(path)
    return seconds


def _in_fresh_processes(program: str) -> float:
    """Return the median of what a program prints, each time in a process of its own.

    Python may keep the bytecode of modules, as it does wherever simdb is installed.
    """
    settings = {**os.environ}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            cwd=CHECKOUT,
            env=settings,
            check=True,
        ).stdout
        for _ in range(PROCESSES)
    ]
    return float(np.median(list(map(float, printed))))

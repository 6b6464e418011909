"""What an application feels: calls as programs make them, one by one and from several threads.

Commits are counted beside the times: a disk that others use, too, changes times and not counts.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import lmdb

import simdb
from tools.benchmarks import (
    alike,
    compressed,
    dedupe_growth,
    distances,
    latency,
    starting,
    stores,
)
from tools.benchmarks.children import in_child
from tools.benchmarks.corpora import unseen_texts
from tools.benchmarks.registry import Bench, Figure, measure

HERE = "tools.benchmarks.feel"
WRITERS = 8
ADDS = 4_000
BARE_COMMITS = 500


def adds_by_threads(path: str, seed: int, threads: int, adds: int) -> dict[str, float]:
    """Add texts one by one from so many threads, to a copy; bare LMDB commits of as many rows."""
    texts = unseen_texts(adds + 1, seed, seed + 5 + threads)
    copy = stores.copy_store(Path(path))
    bare = bare_rows(copy.parent, texts, threads)
    with simdb.open(copy, threads=1) as database:
        collection = database[stores.NAME]
        collection.add("first", texts.pop())
        environment = collection._handle.environment

        def work(number: int) -> None:
            for place in range(number, adds, threads):
                collection.add(f"new{place}", texts[place])

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        before = environment.statistics()["commits"]
        began, worked = time.perf_counter(), time.process_time()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds, working = time.perf_counter() - began, time.process_time() - worked
        commits = environment.statistics()["commits"] - before
    stores.remove(copy)
    return {
        "rate": adds / seconds,
        "processor": working / adds * 1e3,
        "commits": commits / adds,
        "bare": bare,
    }


def bare_rows(folder: Path, texts: list[str], rows: int) -> float:
    """Return how many rows a second LMDB commits alone, so many at once, each commit synced."""
    plan = simdb.plan(stores.THRESHOLD)
    index = bytes(12 * plan.bands + 2 * plan.signature_rows)
    path = folder / "bare-rows.lmdb"
    stores.remove(path)
    with lmdb.open(str(path), subdir=False, map_size=1 << 33) as environment:
        began = time.perf_counter()
        for commit in range(BARE_COMMITS):
            with environment.begin(write=True) as transaction:
                for row in range(rows):
                    number = commit * rows + row
                    record = texts[number % len(texts)].encode() + index
                    transaction.put(number.to_bytes(8, "big"), record)
        seconds = time.perf_counter() - began
    stores.remove(path)
    return BARE_COMMITS * rows / seconds


@measure("feel", "commands, first calls, threads, single writes; dedupe, distances, bytes")
def feel(bench: Bench) -> None:
    """Measure what comes before an answer, what threads make of searches and writes, and the rest.

    The rest are measures of their own: near duplicates and texts all alike removed, exact answers
    beside faiss and a matrix product, compressed documents.
    """
    starting.starting(bench)
    single_writes(bench)
    for measured in (
        dedupe_growth.dedupe,
        alike.alike,
        distances.distances,
        compressed.compressed,
    ):
        measured(bench)


def single_writes(bench: Bench) -> None:
    """Measure single durable adds to the large store, from one thread and from several."""
    path, _ = stores.large_store(bench)
    answer = in_child(
        f"{latency.__name__}:durable_adds", path=str(path), seed=bench.seed, adds=2_000
    )
    timed, bare = answer["milliseconds"], answer["bare"]
    bench.add(
        Figure(
            "feel",
            f"one durable add at {bench.count:,}, p50",
            timed["p50"],
            "ms",
            peer="bare LMDB commit",
            peer_value=bare["p50"],
            ratio=bare["p50"] / timed["p50"],
            target="at most 0.45",
            reached=timed["p50"] <= 0.45,
            note=f"p99 {timed['p99']:.2f} ms, bare p99 {bare['p99']:.2f} ms",
        )
    )
    found = {
        threads: in_child(
            f"{HERE}:adds_by_threads", path=str(path), seed=bench.seed, threads=threads, adds=ADDS
        )
        for threads in (1, WRITERS)
    }
    bench.details["feel, adds by threads"] = found
    for threads, one in found.items():
        speed_up = one["rate"] / found[1]["rate"]
        bench.add(
            Figure(
                "feel",
                f"{threads} threads that add singly" if threads > 1 else "one thread that adds",
                one["rate"],
                "a second",
                peer=f"bare LMDB, {threads} rows a commit",
                peer_value=one["bare"],
                ratio=one["rate"] / one["bare"],
                target="at least 4 x one thread" if threads > 1 else "",
                reached=speed_up >= 4 if threads > 1 else None,
                note=f"{speed_up:.2f} x one thread, {one['commits']:.3f} commits an add, "
                f"{one['processor']:.2f} ms of processor an add",
            )
        )

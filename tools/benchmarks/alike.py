"""Texts that are all moderately alike, as filled-in forms are, beside as many that are not.

Every two of them meet in some bucket and none is a near copy, so what an index saves is lost: each
pair is looked at. Memory must stay within the setting all the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import simdb
from tools.benchmarks import stores
from tools.benchmarks.children import in_child, memory_watched
from tools.benchmarks.registry import Bench, Figure, measure

HERE = "tools.benchmarks.alike"
KIND = simdb.Text(simdb.WordShingles(2))
THRESHOLD = 0.8
MOST_TEXTS = 50_000
WORDS, RUN = 200, 10  # of a text; of those that are its own, together
OWN_RUNS = 5
MEMORY = 2**30
MOST_PEAK = 256  # MiB, of the setting's 1,024
MOST_RATIO = 3  # of the seconds of plain rows
WORK = {"pairs": "add_many and pairs", "dedupe": "dedupe"}


def rows(count: int, own_runs: int) -> Iterator[tuple[int, str]]:
    """Yield texts of 200 words, of which so many runs of ten are their own, the others of all."""
    for number in range(count):
        generator = random.Random(number)
        words = [f"w{place}" for place in range(WORDS)]
        for run in generator.sample(range(0, WORDS, RUN), own_runs):
            words[run : run + RUN] = (f"x{generator.randrange(10**9)}" for _ in range(RUN))
        yield number, " ".join(words)


def answered(path: str, count: int, own_runs: int, verb: str) -> dict[str, Any]:
    """Store so many texts by ``dedupe``, or by ``add_many`` and find their pairs."""
    stores.remove(Path(path))
    with simdb.open(path, threads=1, memory=MEMORY) as database:
        warm = database.collection("warm", KIND, threshold=THRESHOLD)
        warm.add_many(rows(500, own_runs))
        warm.dedupe((-key - 1, text) for key, text in rows(500, own_runs))
        list(warm.pairs())
        collection = database.collection("texts", KIND, threshold=THRESHOLD)
        texts = list(rows(count, own_runs))
        told: dict[str, Any] = {}
        with memory_watched() as watched:
            began = time.process_time()
            if verb == "pairs":
                collection.add_many(texts)
                chosen = collection.explain("pairs").chosen
                pairs = collection.pairs()
                told = {"expected": chosen.looked_at, "planned": chosen.seconds}
                told["found"] = sum(len(batch.left) for batch in pairs.batches())
                told |= {"looked_at": pairs.looked_at, "compared": pairs.candidates}
            else:
                told["found"] = len(collection.dedupe(texts).duplicates)
            told["seconds"] = time.process_time() - began
    stores.remove(Path(path))
    return {**told, **watched}


@measure("alike", "texts all moderately alike: pairs and dedupe, beside texts that are not")
def alike(bench: Bench) -> None:
    """Measure seconds and memory of both, at most 50,000 texts."""
    count = min(bench.count, MOST_TEXTS)
    for verb in ("pairs", "dedupe"):
        plain, found = (
            in_child(
                f"{HERE}:answered",
                path=str(bench.work / "alike.simdb"),
                count=count,
                own_runs=own_runs,
                verb=verb,
            )
            for own_runs in (WORDS // RUN, OWN_RUNS)
        )
        bench.details[f"alike, {verb}"] = {"plain": plain, "alike": found}
        ratio = found["seconds"] / plain["seconds"]
        note = f"{ratio:.1f} x plain rows, {found['found']:,} found"
        if verb == "pairs":
            note += (
                f"; {found['looked_at']:,} pairs looked at, {found['expected']:,.0f} expected "
                f"beforehand, {found['compared']:,} compared; {found['planned']:.0f} s expected"
            )
        bench.add(
            Figure(
                "alike",
                f"{WORK[verb]} of {count:,} texts",
                found["seconds"],
                "s",
                target=f"at most {MOST_RATIO} x plain rows",
                reached=ratio <= MOST_RATIO,
                note=note,
            )
        )
        peak = (found["peak"] - found["before"]) / 2**20
        bench.at_most("alike", f"peak of {verb}", peak, "MiB", limit=MOST_PEAK)

"""How the exact index behaves while a store grows: joins by size, rates of insertion, memory."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.answers.exact.method import SWEPT, Exact, Token
from simdb.exact.thresholds import Threshold
from simdb.work import Work
from tools.benchmarks import stores
from tools.benchmarks.children import in_child, memory_status, memory_watched
from tools.benchmarks.plots import columns, draw
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.set_data import made_sets

HERE = "tools.benchmarks.exact_growth"
GIBIBYTE = 2**30
FLOOR = "0.7"
THRESHOLD = "0.8"
LARGEST_WINDOW = 100_000
SHARES = (100, 50, 20, 10, 5, 2, 1)  # of the count: sizes at which the store is joined
# Settings of the collection by what it has.
INDEXES: dict[str, dict[str, Any]] = {
    "probable only": {"threshold": 0.8},
    "both": {"threshold": 0.8, "exact_floor": FLOOR},
    "exact only": {"threshold": None, "exact_floor": FLOOR},
}


def grow(path: str, index: str, count: int, seed: int, memory: int) -> dict[str, Any]:
    """Add made sets in windows, timed; join the store at some sizes, outside that clock.

    Only the store with an exact index and no other is joined.
    """
    file = Path(path)
    stores.remove(file)
    _warm_up(file, index)
    window = min(LARGEST_WINDOW, max(1, count // 10))
    sizes = sorted({max(1, count // share) for share in SHARES}) if index == "exact only" else []
    steps = sorted({*range(window, count, window), *sizes, count})
    sets = enumerate(made_sets(count, seed))
    seconds: list[tuple[int, float]] = []
    joins, peaks, peaks_of_run, before = [], [], [], memory_status("RssAnon")
    with simdb.open(file, memory=memory) as database:
        collection = _open(database, index)
        for start, end in itertools.pairwise([0, *steps]):
            rows = list(itertools.islice(sets, end - start))
            held = memory_status("RssAnon")
            with memory_watched() as watched:
                began = time.perf_counter()
                collection.add_many(rows)
                seconds.append((end, time.perf_counter() - began))
            peaks.append(watched["peak"] - held)
            peaks_of_run.append(watched["peak"] - before)
            del rows
            if end in sizes:
                joins.append(join(collection, THRESHOLD))
        described = collection.stats()["exact_index"]
    tables = stores.table_bytes(file)
    stores.remove(file)
    return {
        "window": window,
        "rates": _rates(seconds, window, count),
        "seconds": sum(taken for _, taken in seconds),
        "peak_above_start_of_call": max(peaks),
        "peak_above_start_of_run": max(peaks_of_run),
        "before": before,
        "peak_resident": memory_status("VmHWM"),
        "joins": joins,
        "index": described,
        "tables": tables,
    }


def join(collection: simdb.Collection, threshold: str, *, repeats: int = 2) -> dict[str, Any]:
    """Join the store as ``pairs`` does, and count what that takes; the quickest time counts."""
    work, pairs, seconds, way = Work(), 0, [], ""
    wanted = Threshold.parse(threshold)
    for _ in range(repeats):
        pairs = 0
        with memory_watched() as watched, collection._opened() as opened:
            began = time.perf_counter()
            for batch, token in Exact(wanted).pairs(opened):
                pairs += len(batch)
                assert token is not None
                way = "sweep" if Token.parse(token, wanted).way == SWEPT else "memory"
            work = opened.work
            seconds.append(time.perf_counter() - began)
    return {
        "items": len(collection),
        "way": way,
        "seconds": min(seconds),
        "postings": work.postings,
        "scanned": work.looked_at,
        "candidates": work.candidates,
        "verified": work.compared,
        "pairs": pairs,
        "peak": watched["peak"] - watched["before"],
        "peak_resident": watched["peak_resident"],
    }


@measure("exact-growth", "joins, rates and memory while the exact index grows to --count sets")
def exact_growth(bench: Bench) -> None:
    """Grow one store with each kind of index, one after the other."""
    answers = {}
    for index in INDEXES:
        answers[index] = in_child(
            f"{HERE}:grow",
            path=str(bench.work / "exact-growth.simdb"),
            index=index,
            count=bench.set_count,
            seed=bench.seed,
            memory=GIBIBYTE,
        )
        bench.details[f"exact-growth, {index}"] = answers[index]
        _add_rates(bench, index, answers[index], answers["probable only"])
    _add_curve(bench, answers["exact only"]["joins"])


def explanation(joins: list[dict[str, Any]]) -> str:
    """Say how candidates and postings scanned grow, by the slope of the last doublings."""
    last = joins[-4:]
    if len(last) < 2 or not all(join["scanned"] and join["candidates"] for join in last):
        return "too few sets for a curve"
    items = np.log([join["items"] for join in last])
    slopes = {
        name: float(np.polyfit(items, np.log([join[name] for join in last]), 1)[0]) - 1
        for name in ("scanned", "candidates", "seconds", "pairs")
    }
    return (
        "an item's postings scanned grow as the number of items to the power "
        f"{slopes['scanned']:.2f}, its candidates to {slopes['candidates']:.2f}, its time to "
        f"{slopes['seconds']:.2f}, its pairs to {slopes['pairs']:.2f}. The elements are those of "
        "one universe: even the bucket of a rare one holds a fixed share of all sets, so that "
        "an item's postings scanned grow in proportion to the store, and by half as much again "
        "where it is swept instead of loaded, since in memory the smaller set of a pair has a "
        "shorter prefix posted. The bounds and the bitmap drop nearly all that is scanned: "
        "candidates are mostly pairs, and as many an item as these. Time is that of reading and "
        "arranging, the same for every item, until scanning outweighs it"
    )


def _add_rates(bench: Bench, index: str, answer: dict[str, Any], without: dict[str, Any]) -> None:
    rates = answer["rates"]
    rate = bench.set_count / answer["seconds"]
    without_rate = bench.set_count / without["seconds"]
    bench.add(
        Figure(
            "exact-growth",
            f"insert, {index}",
            rate,
            "sets/s",
            peer="" if answer is without else "probable only",
            peer_value=None if answer is without else without_rate,
            ratio=None if answer is without else rate / without_rate,
            note=f"by windows of {answer['window']:,}: "
            + " ".join(f"{rate:,.0f}" for rate in rates),
        )
    )
    if index == "probable only":
        return
    bench.add(
        Figure(
            "exact-growth",
            f"insert, {index}, last window against the second",
            rates[-1],
            "sets/s",
            peer="second window",
            peer_value=rates[1],
            ratio=rates[-1] / rates[1],
            target="at least 0.7",
            reached=rates[-1] >= 0.7 * rates[1],
        )
    )
    above = answer["peak_above_start_of_call"] / 2**20
    note = (
        f"above the start of a call; above that of the run, the rows of a call included, "
        f"{answer['peak_above_start_of_run'] >> 20:,} MiB; resident with mapped pages, joins "
        f"included, {answer['peak_resident'] >> 20:,} MiB"
    )
    name = f"insert, {index}, peak memory, setting 1,024 MiB"
    bench.at_most("exact-growth", name, above, "MiB", limit=1024, note=note)
    described, tables = answer["index"], answer["tables"]
    size = (tables["postings"] + tables["symbols"]) / max(1, described["postings"])
    note = (
        f"{described['postings_per_item']} postings an item, {described['runs']} runs, "
        f"{described['merges_under_way']} merges under way"
    )
    name = f"{index}, bytes a posting"
    bench.at_most("exact-growth", name, size, "bytes", limit=24, note=note)


def _add_curve(bench: Bench, joins: list[dict[str, Any]]) -> None:
    headings = (
        *("items", "way", "time", "us/item", "scanned/item", "candidates/item"),
        *("pairs", "peak MiB"),
    )
    rows = [
        (
            f"{one['items']:,}",
            one["way"],
            f"{one['seconds']:.3f} s",
            f"{one['seconds'] / one['items'] * 1e6:.2f}",
            f"{one['scanned'] / one['items']:.2f}",
            f"{one['candidates'] / one['items']:.4f}",
            f"{one['pairs']:,}",
            f"{one['peak'] / 2**20:.0f}",
        )
        for one in joins
    ]
    for line in columns(headings, rows):
        bench.announce(line)
    items = [one["items"] for one in joins]
    panels = {
        name: {name: (items, [one[column] * scale / one["items"] for one in joins])}
        for name, column, scale in (
            ("microseconds an item", "seconds", 1e6),
            ("postings scanned an item", "scanned", 1.0),
            ("candidates an item", "candidates", 1.0),
        )
    }
    path = bench.plot or bench.work / "exact-growth.svg"
    title = f"Exact join of made sets at J = {THRESHOLD}"
    bench.announce(f"   curve: {draw(path, title, panels, logarithmic=True)}")
    words = explanation(joins)
    bench.announce(f"   {words}")
    bench.details["exact-growth, explanation"] = words
    last = joins[-1]
    bench.add(
        Figure(
            "exact-growth",
            f"join of {last['items']:,} at J {THRESHOLD}",
            last["seconds"],
            "s",
            note=f"{last['pairs']:,} pairs, candidates an item "
            f"{last['candidates'] / last['items']:.4f}, by way of {last['way']}",
        )
    )
    peak = max(one["peak"] for one in joins) / 2**20
    name = "joins, peak memory, setting 1,024 MiB"
    bench.at_most("exact-growth", name, peak, "MiB", limit=1024)


def _rates(seconds: list[tuple[int, float]], window: int, count: int) -> list[float]:
    """Return sets a second by windows; steps between them are added up."""
    edges = [*range(0, count, window), count]
    return [
        (end - start) / sum(taken for stop, taken in seconds if start < stop <= end)
        for start, end in itertools.pairwise(edges)
    ]


def _open(database: simdb.Database, index: str) -> simdb.Collection:
    return database.collection(stores.NAME, simdb.Set(), seed=1, **INDEXES[index])


def _warm_up(path: Path, index: str) -> None:
    small = path.with_name(f"warm-up-{path.name}")
    with simdb.open(small) as database:
        collection = _open(database, index)
        collection.add_many(enumerate(made_sets(15_000, 9)))
        for _ in collection.pairs(THRESHOLD).batches():
            pass
        collection.compact()
    stores.remove(small)

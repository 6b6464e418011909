"""Peak memory of the long calls, each in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import simdb
from tools.benchmarks import stores
from tools.benchmarks.children import in_child, memory_watched
from tools.benchmarks.registry import Bench, Figure, measure
from tools.make_corpus import planted_pairs

HERE = "tools.benchmarks.memory"
GIBIBYTE = 2**30


def stream_pairs(path: str, count: int, seed: int) -> dict[str, Any]:
    """Stream all pairs of the large store as batches; look for the planted ones among them."""
    stores.warm_up(Path(path).parent)
    found: set[tuple[int, int]] = set()
    with simdb.open(path, read_only=True, memory=GIBIBYTE) as database:
        collection = database[stores.NAME]
        with memory_watched() as watched:
            began = time.perf_counter()
            pairs = collection.pairs(stores.THRESHOLD, guarantee="probable")
            for batch in pairs.batches():
                found.update(zip(batch.left.tolist(), batch.right.tolist(), strict=True))
            seconds = time.perf_counter() - began
        numbers = sorted({number for pair in found for number in pair})
        keys = dict(zip(numbers, collection.keys_of(numbers), strict=True))
    named = {frozenset((keys[left], keys[right])) for left, right in found}
    planted = [pair for pair in planted_pairs(count, seed) if pair.similarity >= stores.THRESHOLD]
    hits = [frozenset((pair.left, pair.right)) in named for pair in planted]
    return {
        "seconds": seconds,
        "pairs": len(found),
        "candidates": getattr(pairs, "candidates", None),
        "bins": stores.recall_bins(planted, hits),
        "planted": len(planted),
        "found": sum(hits),
        **watched,
    }


@measure("pairs", "all pairs of the large store within a memory setting of 1 GiB")
def pairs(bench: Bench) -> None:
    """Measure time, memory, recall and candidates of a whole self-join."""
    path, _ = stores.large_store(bench)
    answer = in_child(f"{HERE}:stream_pairs", path=str(path), count=bench.count, seed=bench.seed)
    bench.details["pairs"] = answer
    bench.add(
        Figure(
            "pairs",
            "time",
            answer["seconds"],
            "s",
            note=f"{answer['pairs']:,} pairs, of the planted {answer['found']:,} "
            f"of {answer['planted']:,}",
        )
    )
    _add_peak(bench, "pairs", "setting 1 GiB", GIBIBYTE, answer)
    candidates = answer["candidates"]
    bench.add(
        Figure(
            "pairs",
            "candidates a true pair",
            None if candidates is None else candidates / max(1, answer["pairs"]),
            "",
        )
    )


@measure("memory", "peak memory of ingest and merges under two memory settings")
def memory(bench: Bench) -> None:
    """Measure ingest from a stream, so that nothing but the store holds memory."""
    for setting in (GIBIBYTE, GIBIBYTE // 4):
        answer = in_child(
            "tools.benchmarks.stores:ingest_streaming",
            path=str(bench.work / "memory.simdb"),
            count=bench.count,
            seed=bench.seed,
            memory=setting,
        )
        name = f"setting {setting >> 20:,} MiB"
        bench.details[f"memory, {name}"] = answer
        _add_peak(bench, "memory", name, setting, answer)


def _add_peak(bench: Bench, measured: str, name: str, setting: int, answer: dict[str, Any]) -> None:
    above = (answer["peak"] - answer["before"]) / 2**20
    note = (
        f"before the call {answer['before'] >> 20:,} MiB; resident with mapped pages "
        f"{answer['peak_resident'] >> 20:,} MiB; {answer['seconds']:.1f} s"
    )
    bench.at_most(measured, f"peak memory, {name}", above, "MiB", limit=setting / 2**20, note=note)

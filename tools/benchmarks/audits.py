"""How often the interval of a self-audit holds the true recall, where items come in clusters."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import simdb
from tools.benchmarks.registry import Bench, Figure, measure

ITEMS, CLUSTERS, RUNS, SAMPLE = 1_200, (2, 10, 150), 100, 100
THRESHOLD = 0.6
CORE, OWN = 20, 5


def clustered(size: int, seed: int) -> list[list[int]]:
    """Make sets in clusters: those of one have a core in common, and some elements of their own."""
    generator = random.Random(seed)
    rows: list[list[int]] = []
    for _ in range(ITEMS // size):
        core = generator.sample(range(10**9), CORE)
        rows += [core + generator.sample(range(10**9), OWN) for _ in range(size)]
    return rows


@measure("audits", "how often intervals of self-audits hold the truth, by the size of clusters")
def audits(bench: Bench) -> None:
    """Count audits whose interval holds the recall of all pairs."""
    for size in CLUSTERS:
        with (
            tempfile.TemporaryDirectory() as folder,
            simdb.open(Path(folder) / "s.simdb", sync="batch") as database,
        ):
            collection = database.collection(
                "c", simdb.Set(), threshold=THRESHOLD, recall=0.9, seed=bench.seed + 4
            )
            collection.add_many(enumerate(clustered(size, bench.seed + 2)))
            true = set(collection.pairs(guarantee="exact"))
            recall = len(true & set(collection.pairs(guarantee="probable"))) / len(true)
            found = [collection.self_audit(sample=SAMPLE, seed=n) for n in range(RUNS)]
        ends = [one.recall_interval or (0.0, 0.0) for one in found]
        held = sum(low <= recall <= high for low, high in ends)
        width = sum(high - low for low, high in ends) / RUNS
        note = f"recall {recall:.4f} of {len(true):,} pairs; intervals {width:.4f} wide"
        bench.add(
            Figure("audits", f"clusters of {size}", held, f"of {RUNS} hold the truth", note=note)
        )

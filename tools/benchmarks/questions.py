"""Questions of every kind, asked as they are by default: what answers them, and what that costs.

Each is explained and run (``Collection.explain``): the method that is chosen, what it was expected
to look at and to take, what it did, and what the other methods were expected to take. Beside it
stands what the same takes without a store, or by another method.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.exact import pigeonhole
from simdb.ragged import read_only
from simdb.work import Work
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.set_data import made_sets
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.questions"
HASHES, NEAR = 60_000, (4, 8, 12)
IMAGES, PIXELS = 2_000, 784
SETS = 41_127
PRINTS, PRINT_BITS = 100_000, 1_024


def processor(work: Callable[[], Any]) -> float:
    """Return the median processor seconds of a call, made before."""
    work()
    return repeated(work, least=3)["processor"]


def once(work: Callable[[], Any]) -> float:
    """Return the processor seconds of a call that is made once."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def told(collection: simdb.Collection, verb: Any, item: Any = None, **asked: Any) -> dict[str, Any]:
    """Explain and run a question."""
    collection.explain(verb, item, run=True, **asked)
    explained = collection.explain(verb, item, run=True, **asked)
    assert explained.work is not None
    return {
        "method": explained.chosen.method,
        "seconds": explained.seconds,
        "expected": explained.chosen.seconds,
        "looked_at": explained.work["looked_at"],
        "expected_looked_at": explained.chosen.looked_at,
        "others": {one.method: one.seconds for one in explained.alternatives[1:]},
        "found": explained.answers,
    }


def hashes(most: int, seed: int, work: str) -> dict[str, Any]:
    """All pairs of hashes within a distance, beside the bare kernels on an array."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 2**64, (HASHES, 1), dtype=np.uint64)
    planted = HASHES // 30
    rows[-planted:] = rows[:planted]
    for row in range(HASHES - planted, HASHES):
        for bit in generator.integers(0, 64, generator.integers(0, 14)).tolist():
            rows[row] ^= np.uint64(1 << bit)
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "h.simdb", sync="batch", threads=1) as database,
    ):
        stored = database.collection("h", simdb.Bits(64), max_distance=most)
        stored.add_many((place, f"{row:016x}") for place, row in enumerate(rows[:, 0].tolist()))
        words = read_only(rows)
        return told(stored, "pairs") | {
            "seconds": processor(lambda: list(stored.pairs().batches())),
            "bare": processor(lambda: list(pigeonhole.near_pairs(words, None, most, Work()))),
        }


def images(name: Any, share: float, seed: int, work: str) -> dict[str, Any]:
    """All pairs of made images, each near one of some, within a distance."""
    generator = np.random.default_rng(seed)
    sources = generator.integers(0, 256, (max(1, IMAGES // 20), PIXELS)).astype(np.float32)
    rows = np.repeat(sources, 20, axis=0)[:IMAGES]
    rows = np.clip(rows + generator.normal(0, 12, rows.shape), 0, 255).astype(np.float32)
    apart = np.abs(rows[0] - rows[1:40])
    measured = apart.sum(axis=1) if name == "manhattan" else apart.max(axis=1)
    most = float(np.quantile(measured, share))
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "v.simdb", sync="batch", threads=1) as database,
    ):
        stored = database.collection("v", simdb.Vector(PIXELS, name), max_distance=most)
        stored.add_many(enumerate(rows))
        exact = set(stored.pairs(guarantee="exact"))
        probable = stored.pairs(guarantee="probable")
        found = set(probable)
        return told(stored, "pairs") | {
            "proposed": probable.looked_at,
            "recall": len(found & exact) / max(1, len(exact)),
            "stated": probable.expected_recall,
            "buckets": once(lambda: list(stored.pairs(guarantee="probable").batches())),
        }


def sets(seed: int, work: str) -> dict[str, Any]:
    """Pairs of sets by Dice, beside those by the Jaccard similarity that follows; and adding."""
    rows = list(made_sets(SETS, seed))
    bits = np.random.default_rng(seed).random((SETS, 256)) < 0.1
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "s.simdb", sync="batch", threads=1) as database,
    ):
        warm = database.collection("warm", simdb.Set(), threshold=0.8)
        warm.add_many(enumerate(rows[:1_000]))
        stored = database.collection("s", simdb.Set(), threshold=0.8)
        added = once(lambda: stored.add_many(enumerate(rows)))
        warm_bits = database.collection("wb", simdb.Bits(256, "tanimoto"), threshold=0.8)
        warm_bits.add_many(enumerate(bits[:1_000]))
        of_bits = database.collection("b", simdb.Bits(256, "tanimoto"), threshold=0.8)
        follows = Fraction(9, 10) / (2 - Fraction(9, 10))  # J = d / (2 - d)
        asked: dict[str, Any] = {"threshold": follows, "guarantee": "exact"}
        return told(stored, "pairs", threshold=0.9, measure="dice") | {
            "seconds": processor(lambda: list(stored.pairs(0.9, measure="dice").batches())),
            "jaccard": processor(lambda: list(stored.pairs(**asked).batches())),
            "jaccard found": len(list(stored.pairs(**asked))),
            "sets added": added,
            "bits added": once(lambda: of_bits.add_many(enumerate(bits))),
        }


def prints(threshold: float, seed: int, work: str) -> dict[str, Any]:
    """A search of bit vectors of unlike counts by Tanimoto similarity, warm."""
    generator = np.random.default_rng(seed)
    shares = generator.uniform(0.02, 0.12, (PRINTS, 1))
    packed = np.packbits(generator.random((PRINTS, PRINT_BITS), np.float32) < shares, axis=1)
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "p.simdb", sync="batch", threads=1) as database,
    ):
        stored = database.collection("p", simdb.Bits(PRINT_BITS, "tanimoto"), threshold=0.9)
        stored.add_many((place, row.tobytes()) for place, row in enumerate(packed))
        probe = packed[7].tobytes()
        asked: dict[str, Any] = {"threshold": threshold, "guarantee": "exact"}
        return told(stored, "search", probe, **asked) | {
            "seconds": processor(lambda: stored.search(probe, **asked))
        }


def in_words(answer: dict[str, Any]) -> str:
    """Say what was chosen and what was expected of it."""
    others = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in answer["others"].items())
    return (
        f"{answer['method']}: expected {answer['expected']:.2g} s and "
        f"{answer['expected_looked_at']:,.0f} looked at, {answer['looked_at']:,} were"
        f"{'; others: ' + others if others else ''}; {answer['found']:,} found"
    )


@measure(
    "questions", "what answers questions of every kind by default, and what it costs, one core"
)
def questions(bench: Bench) -> None:
    """Report each question, its method, what was expected and what came."""
    known: dict[str, Any] = {"cores": 1, "seed": bench.seed, "work": str(bench.work)}

    def add(name: str, answer: dict[str, Any], peer: str = "", of_peer: str = "") -> None:
        bench.details[name] = answer
        other = answer[of_peer] if of_peer else None
        ratio = None if other is None else other / answer["seconds"]
        columns = ("questions", name, answer["seconds"] * 1e3, "ms", peer)
        beside = None if other is None else other * 1e3
        bench.add(Figure(*columns, beside, ratio, note=in_words(answer)))

    for most in NEAR:
        answer = in_child(f"{HERE}:hashes", most=most, **known)
        add(f"pairs of {HASHES:,} hashes within {most}", answer, "the kernels on an array", "bare")
    for name in ("manhattan", "maximum"):
        answer = in_child(f"{HERE}:images", name=name, share=0.2, **known)
        asked = f"pairs of {IMAGES:,} images by {name} distance"
        recall = f"buckets, recall {answer['recall']:.3f}, stated {answer['stated']:.3f}"
        add(asked, answer, f"{recall}, {answer['proposed']:,} proposed", "buckets")
    answer = in_child(f"{HERE}:sets", **known)
    jaccard = f"by Jaccard at 9/11, {answer['jaccard found']:,} found"
    add(f"pairs of {SETS:,} sets by Dice at 0.9", answer, jaccard, "jaccard")
    added = ("questions", f"adding {SETS:,} vectors of 256 bits", answer["bits added"], "s")
    bench.add(Figure(*added, "as many sets", answer["sets added"]))
    for threshold in (0.5, 0.9):
        answer = in_child(f"{HERE}:prints", threshold=threshold, **known)
        add(f"search of {PRINTS:,} vectors by Tanimoto at {threshold}", answer)
    low = simdb.plan(0.2, row_budget=256)
    name = f"plan for 0.2: {low.bands} x {low.rows}"
    bench.add(Figure("questions", name, low.expected_recall(0.2), "recall"))

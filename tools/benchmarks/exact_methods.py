"""Exact answers without an index of symbols: chunks of hashes, products of vectors, containment.

Each stands beside what it takes the place of: an index of chunks beside a scan of the same store,
pairs of vectors beside SciPy's distances of all with all, which compares nothing with a bound.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from tools.benchmarks.children import in_child
from tools.benchmarks.corpora import texts_and_passages
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.exact_methods"
HASHES = 60_000
NEAR = (4, 8)  # bits of 64
PROBES = 200
SHAPES = ((8_000, 8), (2_000, 784))
MOST_OF_SCIPY = 2.0
TEXTS = 100_000
PASSAGES = 1_000
PASSAGE_SHINGLE = 5  # words


def processor(work: Callable[[], Any]) -> float:
    """Return the median processor seconds of a call, compiled before."""
    work()
    return repeated(work, least=3)["processor"]


def hashes(count: int, most: int, seed: int, work: str) -> dict[str, Any]:
    """Store hashes with planted neighbours; search, and find all pairs and groups."""
    generator = np.random.default_rng(seed)
    stored = generator.integers(0, 2**64, count, dtype=np.uint64)
    planted = max(1, count // 60)
    flips = np.uint64(1) << generator.integers(0, 64, (most, planted)).astype(np.uint64)
    kept = np.where(generator.random((most, planted)) < 0.5, flips, np.uint64(0))
    stored[-planted:] = stored[:planted] ^ np.bitwise_xor.reduce(kept, axis=0)
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "hashes.simdb", sync="batch") as database,
    ):
        kind = simdb.Bits(64)
        indexed = database.collection("indexed", kind, max_distance=most, recall=1)
        plain = database.collection("plain", kind)
        for collection in (indexed, plain):
            collection.add_many((place, f"{row:016x}") for place, row in enumerate(stored))
        probes = [f"{row:016x}" for row in stored[:PROBES].tolist()]

        def searches(collection: Any) -> list[Any]:
            return [collection.search(probe, max_distance=most) for probe in probes]

        found, scanned = searches(indexed), searches(plain)
        if list(map(list, found)) != list(map(list, scanned)):
            raise RuntimeError("an index that misses nothing and a scan differ")
        return {
            "pairs found": sum(len(batch.left) for batch in indexed.pairs().batches()),
            "compared": sum(answer.candidates for answer in found) / len(found),
            "bytes an item": indexed.stats()["index"]["bytes_per_item"],
            "search": processor(lambda: searches(indexed)) / len(probes),
            "scan": processor(lambda: searches(plain)) / len(probes),
            "pairs": processor(lambda: list(indexed.pairs().batches())),
            "groups": processor(indexed.groups),
        }


def joins(count: int, dimension: int, seed: int, work: str) -> dict[str, Any]:
    """Find the nearest ten-thousandth of all pairs of vectors, and let SciPy compute all."""
    from scipy.spatial.distance import cdist

    vectors = np.random.default_rng(seed).random((count, dimension), np.float32)
    sampled = cdist(vectors[:200], vectors)
    most = float(np.quantile(sampled[sampled > 0], 1e-4))
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "vectors.simdb", sync="batch") as database,
    ):
        kind = simdb.Vector(dimension, "euclidean")
        collection = database.collection("vectors", kind)
        collection.add_many(enumerate(vectors))

        def pairs() -> int:
            batches = collection.pairs(max_distance=most).batches()
            return sum(len(batch.left) for batch in batches)

        return {
            "found": pairs(),
            "pairs": processor(pairs),
            "scipy": processor(lambda: cdist(vectors, vectors)),
        }


def shingles_of(text: str) -> set[tuple[str, ...]]:
    """Return the runs of words of a text that the collections of ``contained`` compare."""
    words = re.findall(r"\w+", text)
    return {tuple(words[i : i + PASSAGE_SHINGLE]) for i in range(len(words) - PASSAGE_SHINGLE + 1)}


def plain_contained(passages: list[str], texts: list[str]) -> set[tuple[int, int]]:
    """Return which passages at least four fifths of are in which texts, by a dictionary."""
    wanted = [shingles_of(passage) for passage in passages]
    of: dict[tuple[str, ...], list[int]] = {}
    for number, shingles in enumerate(wanted):
        for shingle in shingles:
            of.setdefault(shingle, []).append(number)
    found = set()
    for place, text in enumerate(texts):
        counts = Counter(n for shingle in shingles_of(text) for n in of.get(shingle, ()))
        found |= {(n, place) for n, count in counts.items() if 5 * count >= 4 * len(wanted[n])}
    return found


def contained(count: int, passages: int, seed: int, work: str) -> dict[str, Any]:
    """Find the texts that contain a passage, half of the passages being cut from one of them."""
    texts, cut = texts_and_passages(count, passages, seed)
    kind = simdb.Text(simdb.WordShingles(PASSAGE_SHINGLE))
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "texts.simdb", sync="batch") as database,
    ):
        corpus, tests = (database.collection(name, kind) for name in ("corpus", "tests"))
        begun = time.process_time()
        corpus.add_many(enumerate(texts))
        added = time.process_time() - begun
        tests.add_many(enumerate(cut))

        def join() -> simdb.Pairs:
            return tests.join(corpus, 0.8, measure="probe-in-stored")

        found = {(int(pair.left), int(pair.right)) for pair in join()}
        begun = time.process_time()
        expected = plain_contained(cut, texts)
        plain = time.process_time() - begun
        return {
            "found": len(found),
            "recall": len(found & expected) / len(expected),
            "precision": len(found & expected) / len(found),
            "add": added,
            "join": processor(lambda: list(join().batches())),
            "plain": plain,
        }


@measure("exact_methods", "exact answers about hashes, vectors and passages, one core")
def exact_methods(bench: Bench) -> None:
    """Report searches and pairs of hashes, pairs of vectors, and passages in texts."""
    asked: dict[str, Any] = {"seed": bench.seed, "work": str(bench.work)}
    for most in NEAR:
        timed = in_child(f"{HERE}:hashes", cores=1, count=HASHES, most=most, **asked)
        bench.details[f"hashes within {most}"] = timed
        name = f"{HASHES:,} hashes of 64 bits within {most}"
        bench.add(
            Figure(
                *("exact_methods", f"search, {name}", timed["search"] * 1e3, "ms"),
                peer="a scan of the same store",
                peer_value=timed["scan"] * 1e3,
                ratio=timed["scan"] / timed["search"],
                note=f"{timed['compared']:.1f} compared; {timed['bytes an item']:.0f} bytes an "
                "item of the index",
            )
        )
        for verb in ("pairs", "groups"):
            bench.add(
                Figure(
                    *("exact_methods", f"{verb}, {name}", timed[verb], "s"),
                    note=f"{timed['pairs found']:,} pairs",
                )
            )
    for count, dimension in SHAPES:
        timed = in_child(f"{HERE}:joins", cores=1, count=count, dimension=dimension, **asked)
        bench.details[f"vectors, {count} x {dimension}"] = timed
        ratio = timed["scipy"] / timed["pairs"]
        bench.add(
            Figure(
                *("exact_methods", f"pairs of {count:,} x {dimension}", timed["pairs"], "s"),
                peer="scipy's cdist",
                peer_value=timed["scipy"],
                ratio=ratio,
                target=f"at most {MOST_OF_SCIPY:g} x its time",
                reached=ratio >= 1 / MOST_OF_SCIPY,
                note=f"{timed['found']:,} pairs",
            )
        )
    timed = in_child(f"{HERE}:contained", cores=1, count=TEXTS, passages=PASSAGES, **asked)
    bench.details["passages"] = timed
    bench.add(
        Figure(
            *("exact_methods", f"which of {TEXTS:,} texts contain one of {PASSAGES:,} passages"),
            *(timed["join"], "s"),
            peer="a dictionary of shingles in Python",
            peer_value=timed["plain"],
            ratio=timed["plain"] / timed["join"],
            target="recall and precision 1",
            reached=timed["recall"] == timed["precision"] == 1.0,
            note=f"{timed['found']:,} pairs, recall {timed['recall']:.3f}, precision "
            f"{timed['precision']:.3f}; adding the texts {timed['add']:.3g} s",
        )
    )

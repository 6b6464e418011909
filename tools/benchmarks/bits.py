"""Bit vectors: exact scans against one reading of the memory and against faiss, and signing."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from simdb.config import Bits
from simdb.exact.thresholds import Threshold
from simdb.lsh.families import BitSampling
from simdb.measures.bits import BitsMeasure
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.bits"
LENGTH = 1024
LIMIT = 300  # bits that differ, of random vectors about 512
SIMILAR = "0.8"
SET_BITS = (20, 120)  # of a vector that stands for a fingerprint of a molecule
COUNTS = (1_000_000, 100_000)  # beyond the caches of most processors, and within
SIGNED = (16, 12)  # bands and rows


def processor(work: Callable[[], Any]) -> float:
    """Return the median processor seconds of a call, compiled before."""
    work()
    return repeated(work)["processor"]


def scans(count: int, seed: int) -> dict[str, Any]:
    """Scan random and sparse vectors for those near one of them, and read them once."""
    generator = np.random.default_rng(seed)
    vectors = generator.integers(0, 2**64, (count, LENGTH // 64), dtype=np.uint64)
    hamming, tanimoto = BitsMeasure("hamming"), BitsMeasure("tanimoto")
    probe = vectors[:1].copy()
    found = hamming.scan(probe, vectors, LIMIT)[0].size
    timed = {
        "reading": processor(vectors.sum),
        "hamming": processor(lambda: hamming.scan(probe, vectors, LIMIT)),
        "sign": processor(_signer(vectors[: COUNTS[-1]])),
        **_faiss(vectors, found),
    }
    sparse = _sparse(count, generator)
    counts = tanimoto.set_bits(sparse)
    needed = Threshold(Fraction(SIMILAR)).needed_overlap_table(2 * LENGTH)
    timed["tanimoto"] = processor(
        lambda: tanimoto.scan_tanimoto(sparse[:1], sparse, needed, counts)
    )
    unfiltered = np.full_like(counts, int(counts[0]))
    timed["tanimoto without filter"] = processor(
        lambda: tanimoto.scan_tanimoto(sparse[:1], sparse, needed, unfiltered)
    )
    return {"bytes": vectors.nbytes, "found": found, **timed}


def _signer(vectors: Any) -> Callable[[], Any]:  # noqa: ANN401 - an array
    family = BitSampling(Bits(LENGTH), *SIGNED, b"bench")
    return lambda: family.sign(vectors)


def _sparse(count: int, generator: np.random.Generator) -> Any:  # noqa: ANN401 - an array
    sizes = generator.integers(*SET_BITS, count)
    bits = generator.random((count, LENGTH), dtype=np.float32) < (sizes / LENGTH)[:, np.newaxis]
    return np.packbits(bits, axis=1).view(np.uint64)


def _faiss(vectors: Any, found: int) -> dict[str, Any]:  # noqa: ANN401 - an array
    try:
        faiss = importlib.import_module("faiss")
    except ModuleNotFoundError:
        return {}
    faiss.omp_set_num_threads(1)
    index = faiss.IndexBinaryFlat(LENGTH)
    index.add(vectors.view(np.uint8))
    query = vectors[:1].view(np.uint8)
    limits, _, _ = index.range_search(query, LIMIT + 1)  # faiss excludes the radius
    if int(limits[1]) != found:
        raise RuntimeError(f"faiss found {limits[1]:,} vectors, simdb {found:,}")
    return {
        "faiss": processor(lambda: index.range_search(query, LIMIT + 1)),
        "faiss, 10 nearest": processor(lambda: index.search(query, 10)),
    }


@measure("bits", "exact scans of bit vectors against reading them and against faiss, one core")
def bits(bench: Bench) -> None:
    """Compare scans of 1,024 bits in and beyond the processor's cache."""
    memory = 0.0  # seconds to read a byte that is in no cache
    for count in COUNTS:
        timed = in_child(f"{HERE}:scans", cores=1, count=count, seed=bench.seed)
        bench.details[f"bits, {count:,}"] = timed
        memory = memory or timed["reading"] / timed["bytes"]
        cached = f"; numpy's sum of it {timed['reading'] * 1e3:.3g} ms, {timed['found']:,} found"
        peers = {"reading memory": memory * timed["bytes"], "faiss": timed.get("faiss")}
        targets = {"reading memory": 1 / 2, "faiss": 2 / 3}
        for peer, seconds in peers.items():
            ratio = seconds / timed["hamming"] if seconds else None
            bench.add(
                Figure(
                    *("bits", f"Hamming scan of {count:,}", timed["hamming"] * 1e3, "ms"),
                    peer=peer,
                    peer_value=seconds * 1e3 if seconds else None,
                    ratio=ratio,
                    target=f"at least {targets[peer]:.2f} of its speed",
                    reached=ratio >= targets[peer] if ratio else None,
                    note=f"{timed['bytes'] / timed['hamming'] / 1e9:,.1f} GB/s{cached}",
                )
            )
        unfiltered = timed["tanimoto without filter"]
        bench.add(
            Figure(
                *("bits", f"Tanimoto scan of {count:,}", timed["tanimoto"] * 1e3, "ms"),
                peer="without the length filter",
                peer_value=unfiltered * 1e3,
                ratio=unfiltered / timed["tanimoto"],
                note=f"{SET_BITS[0]} to {SET_BITS[1]} set bits, {SIMILAR}",
            )
        )
    per_item = timed["sign"] / COUNTS[-1] * 1e9
    bench.add(Figure("bits", f"signing, {SIGNED[0]} x {SIGNED[1]}", per_item, "ns an item"))

"""Bit vectors: exact scans against one reading of the memory and against faiss, and signing.

What bounds a scan is the reading of its bytes. A byte is taken to cost what NumPy's sum needs of
one of 128 MB, which no cache holds; beside it stands the sum of the very bytes that are scanned,
which a large cache may hold.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.exact.thresholds import Threshold
from simdb.kinds.bits import BitsMeasure
from simdb.lsh.projections import BitSampling
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
AT_ONCE = 200  # searches of one call
STORED = 100_000
LEAST_OF_MEMORY, LEAST_OF_FAISS = 1 / 2, 2 / 3


def processor(work: Callable[[], Any]) -> float:
    """Return the median processor seconds of a call, compiled before."""
    work()
    return repeated(work)["processor"]


def scans(count: int, seed: int) -> dict[str, Any]:
    """Scan random and sparse vectors for those near one of them, and read them once."""
    generator = np.random.default_rng(seed)
    vectors = generator.integers(0, 2**64, (count, LENGTH // 64), dtype=np.uint64)
    hamming, tanimoto = BitsMeasure("hamming"), BitsMeasure("tanimoto")
    probe = vectors[0].copy()
    found = hamming.scan(probe, vectors, LIMIT)[0].size
    timed = {
        "reading": processor(vectors.sum),
        "hamming": processor(lambda: hamming.scan(probe, vectors, LIMIT)),
        "sign": processor(_signer(vectors[: COUNTS[-1]])),
        **_faiss(vectors, found),
    }
    sparse = _sparse(count, generator)
    needed = Threshold(Fraction(SIMILAR)).needed_overlap_table(2 * LENGTH)
    timed["tanimoto"] = processor(lambda: tanimoto.scan_tanimoto(sparse[:1], sparse, needed))
    return {"bytes": vectors.nbytes, "found": found, **timed}


def _signer(vectors: Any) -> Callable[[], Any]:
    family = BitSampling(LENGTH, *SIGNED, b"bench")
    return lambda: family.sign(vectors)


def _sparse(count: int, generator: np.random.Generator) -> Any:
    sizes = generator.integers(*SET_BITS, count)
    bits = generator.random((count, LENGTH), dtype=np.float32) < (sizes / LENGTH)[:, np.newaxis]
    return np.packbits(bits, axis=1).view(np.uint64)


def _faiss(vectors: Any, found: int) -> dict[str, Any]:
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


def stored(count: int, seed: int, work: str, memory: int = COUNTS[0]) -> dict[str, Any]:
    """Store vectors and search for one of them exactly, warm; scan the same in memory.

    Args:
        count: vectors.
        seed: of the random numbers.
        work: folder for the store.
        memory: vectors that are read to learn what a byte costs.
    """
    generator = np.random.default_rng(seed)
    vectors = generator.integers(0, 2**64, (count, LENGTH // 64), dtype=np.uint64)
    sparse = _sparse(count, generator)
    timed: dict[str, Any] = {"bytes": vectors.nbytes, "reading, cached": processor(vectors.sum)}
    with tempfile.TemporaryDirectory(dir=work) as folder:
        path = Path(folder) / "bits.simdb"
        with simdb.open(path) as database:
            near = database.collection("near", simdb.Bits(LENGTH), max_distance=LIMIT)
            near.add_many((place, row.tobytes()) for place, row in enumerate(vectors))
            alike = database.collection(
                "alike", simdb.Bits(LENGTH, measure="tanimoto"), threshold=SIMILAR
            )
            alike.add_many((place, row.tobytes()) for place, row in enumerate(sparse))
        with simdb.open(path, read_only=True) as database:
            near, alike = database["near"], database["alike"]
            probe, other = vectors[count // 2].tobytes(), sparse[count // 2].tobytes()
            found = near.search(probe, guarantee="exact")
            timed |= {
                "found": len(found),
                "compared": found.candidates,
                "hamming": processor(lambda: near.search(probe, guarantee="exact")),
                "tanimoto": processor(lambda: alike.search(other, guarantee="exact")),
                "found by tanimoto": len(alike.search(other, guarantee="exact")),
            }
            many = [row.tobytes() for row in sparse[:: max(1, count // AT_ONCE)]]
            together = processor(lambda: alike.search_many(many, guarantee="exact"))
            timed["tanimoto, many at once"] = together / len(many)
    timed |= _faiss(vectors, int(BitsMeasure("hamming").scan(vectors[0], vectors, LIMIT)[0].size))
    large = generator.integers(0, 2**64, (memory, LENGTH // 64), dtype=np.uint64)
    timed["reading"] = processor(large.sum) / large.nbytes * vectors.nbytes
    return timed


@measure("bits", "exact scans of bit vectors against reading them and against faiss, one core")
def bits(bench: Bench) -> None:
    """Compare scans of 1,024 bits in and beyond the processor's cache."""
    _stored(bench)
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
        bench.add(
            Figure(
                *("bits", f"Tanimoto scan of {count:,}", timed["tanimoto"] * 1e3, "ms"),
                note=f"{SET_BITS[0]} to {SET_BITS[1]} set bits, {SIMILAR}",
            )
        )
    per_item = timed["sign"] / COUNTS[-1] * 1e9
    bench.add(Figure("bits", f"signing, {SIGNED[0]} x {SIGNED[1]}", per_item, "ns an item"))


def _stored(bench: Bench) -> None:
    """Report exact searches of a store."""
    timed = in_child(f"{HERE}:stored", cores=1, count=STORED, seed=bench.seed, work=str(bench.work))
    bench.details[f"bits, stored, {STORED:,}"] = timed
    if (each := timed.get("tanimoto, many at once")) is not None:
        bench.add(
            Figure(
                *("bits", f"tanimoto search, {AT_ONCE} at once", each * 1e3, "ms"),
                peer="one at a time",
                peer_value=timed["tanimoto"] * 1e3,
                ratio=timed["tanimoto"] / each,
            )
        )
    peers = {
        "reading memory": (timed["reading"], LEAST_OF_MEMORY),
        "faiss, Hamming": (timed.get("faiss"), LEAST_OF_FAISS),
    }
    for name in ("hamming", "tanimoto"):
        for peer, (seconds, least) in peers.items():
            ratio = seconds / timed[name] if seconds else None
            bench.add(
                Figure(
                    *("bits", f"{name} search of a store of {STORED:,}", timed[name] * 1e3, "ms"),
                    peer=peer,
                    peer_value=seconds * 1e3 if seconds else None,
                    ratio=ratio,
                    target=f"at least {least:.2f} of its speed",
                    reached=ratio >= least if ratio else None,
                    note=f"{timed['bytes'] / timed[name] / 1e9:,.1f} GB/s; NumPy's sum of bytes "
                    f"in the cache {timed['reading, cached'] * 1e3:.3g} ms",
                )
            )

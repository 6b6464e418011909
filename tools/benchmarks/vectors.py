"""Vectors: signing against numpy's matrix product, and exact scans against faiss."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from simdb.config import Vector
from simdb.lsh.families import RandomHyperplanes, RandomLines, bucket_width_for
from simdb.measures.vectors import VectorMeasure
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.vectors"
DIMENSIONS = (64, 128, 384, 768, 1536)
BANDS, ROWS = 16, 8
BATCH = 8192
SCANNED_COMPONENTS = 12_800_000  # 100,000 vectors of 128


def processor(work: Callable[[], Any]) -> float:
    """Return the median processor seconds of a call, compiled before."""
    work()
    return repeated(work, least=7)["processor"]


def signing(dimension: int, seed: int) -> dict[str, Any]:
    """Sign one batch by hyperplanes and by lines, and multiply it by as many directions."""
    vectors = _vectors(BATCH, dimension, seed)
    planes = RandomHyperplanes(Vector(dimension), BANDS, ROWS, b"bench")
    settings = Vector(dimension, "euclidean")
    width = bucket_width_for(settings, math.sqrt(dimension) / 2)
    settings = Vector(dimension, "euclidean", bucket_width=width)
    lines = RandomLines(settings, BANDS, ROWS, b"bench")
    directions = planes.directions
    return {
        "product": processor(lambda: vectors @ directions.T),
        "hyperplanes": processor(lambda: planes.sign(vectors)),
        "lines": processor(lambda: lines.sign(vectors)),
    }


def scans(dimension: int, seed: int) -> dict[str, Any]:
    """Scan for the vectors near one of them."""
    count = SCANNED_COMPONENTS // dimension
    vectors = _vectors(count, dimension, seed)
    near = 0.8 * math.sqrt(2 * dimension)
    limits = {"cosine": 60.0, "euclidean": near, "manhattan": dimension * 0.9, "maximum": 2.5}
    timed: dict[str, Any] = {"count": count, "reading": processor(vectors.view(np.uint64).sum)}
    for name in ("cosine", "euclidean", "manhattan", "maximum"):
        measured = VectorMeasure(name)
        timed[name] = processor(lambda: measured.scan(vectors[:1], vectors, limits[name]))  # noqa: B023
    try:
        faiss = importlib.import_module("faiss")
    except ModuleNotFoundError:
        return timed
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(dimension)
    index.add(vectors)
    timed["faiss"] = processor(lambda: index.range_search(vectors[:1], near * near))
    return timed


def _vectors(count: int, dimension: int, seed: int) -> Any:  # noqa: ANN401 - an array
    generator = np.random.default_rng(seed)
    return generator.standard_normal((count, dimension), dtype=np.float32)


@measure("vectors", "signing of vectors against a matrix product, scans against faiss, one core")
def vectors(bench: Bench) -> None:
    """Report signing by dimension and family, and scans by measure."""
    for dimension in DIMENSIONS:
        timed = in_child(f"{HERE}:signing", cores=1, dimension=dimension, seed=bench.seed)
        bench.details[f"vectors, signing, {dimension}"] = timed
        for family in ("hyperplanes", "lines"):
            ratio = timed["product"] / timed[family]
            bench.add(
                Figure(
                    *("vectors", f"{family}, {dimension} components", timed[family] * 1e3, "ms"),
                    peer="numpy's product alone",
                    peer_value=timed["product"] * 1e3,
                    ratio=ratio,
                    note=f"{BATCH:,} vectors, {BANDS} x {ROWS} functions",
                )
            )
    for dimension in (128, 768):
        timed = in_child(f"{HERE}:scans", cores=1, dimension=dimension, seed=bench.seed)
        bench.details[f"vectors, scans, {dimension}"] = timed
        for name in ("cosine", "euclidean", "manhattan", "maximum"):
            peer = timed.get("faiss") if name == "euclidean" else None
            bench.add(
                Figure(
                    *("vectors", f"{name} scan, {dimension}", timed[name] * 1e3, "ms"),
                    peer="faiss IndexFlatL2, float32" if peer else "",
                    peer_value=peer * 1e3 if peer else None,
                    ratio=peer / timed[name] if peer else None,
                    note=f"{timed['count']:,} vectors, {timed['reading'] * 1e3:.2f} ms to read",
                )
            )

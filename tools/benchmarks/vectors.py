"""Vectors: signing against numpy's matrix product, exact scans against faiss, and recall.

Recall is that of a store's probable index, held against exact searches of the same store.
"""

from __future__ import annotations

import importlib
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.kinds.vectors import VectorMeasure
from simdb.lsh.curves import bucket_width_for
from simdb.lsh.projections import RandomHyperplanes, RandomLines
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.vectors"
DIMENSIONS = (64, 128, 384, 768, 1536)
BANDS, ROWS = 16, 8
BATCH = 8192
SCANNED_COMPONENTS = 12_800_000  # 100,000 vectors of 128
REAL_FILE = "vectors/glove_twitter_25d.npy"
STORED = 50_000
DIMENSION = 128
QUERIES = 200
ANGLES = {"words": 25.0, "made": 30.0}  # degrees
SIGNING_RATIO = 1.0


def processor(work: Callable[[], Any]) -> float:
    """Return the median processor seconds of a call, compiled before."""
    work()
    return repeated(work, least=7)["processor"]


def signing(dimension: int, seed: int) -> dict[str, Any]:
    """Sign one batch by hyperplanes and by lines, and multiply it by as many directions."""
    vectors = _vectors(BATCH, dimension, seed)
    planes = RandomHyperplanes(dimension, BANDS, ROWS, b"bench")
    width = bucket_width_for(math.sqrt(dimension) / 2, dimension, 2)
    lines = RandomLines(dimension, width, BANDS, ROWS, b"bench")
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
        timed[name] = processor(lambda: measured.scan(vectors[0], vectors, limits[name]))  # noqa: B023
    try:
        faiss = importlib.import_module("faiss")
    except ModuleNotFoundError:
        return timed
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(dimension)
    index.add(vectors)
    timed["faiss"] = processor(lambda: index.range_search(vectors[:1], near * near))
    return timed


def _vectors(count: int, dimension: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((count, dimension), dtype=np.float32)


def made(count: int, seed: int) -> Any:
    """Make vectors of which the last tenth lie 5 to 45 degrees from one of the others."""
    generator = np.random.default_rng(seed)
    vectors = _vectors(count, DIMENSION, seed)
    near = count // 10
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    apart = np.tan(np.radians(generator.uniform(5, 45, near))).astype(np.float32)
    # Of random directions in many dimensions nearly all are nearly at a right angle to one.
    vectors[-near:] = vectors[:near] + apart[:, np.newaxis] * vectors[-near:]
    return vectors


def recall(name: str, data: str | None, count: int, seed: int, work: str) -> dict[str, Any]:
    """Store vectors, search for some of them by the index and exactly, and compare the answers.

    Returns:
        seconds of a search by the index and of an exact one (medians, processor), the recall at
        each tenth of the angle, what the plan expects there, and the share that was compared.
    """
    vectors = np.load(Path(data or "") / REAL_FILE) if name == "words" else made(count, seed)
    vectors = vectors.astype(np.float32)
    angle = ANGLES[name]
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(vectors) // 10, min(QUERIES, len(vectors) // 10), replace=False)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        path = Path(folder) / "vectors.simdb"
        with simdb.open(path) as database:
            kind = simdb.Vector(vectors.shape[1], "cosine")
            collection = database.collection("bench", kind, max_distance=angle, seed=1)
            collection.add_many(enumerate(vectors))
        with simdb.open(path, read_only=True) as database:
            collection = database["bench"]
            found, true, planned, compared = 0, 0, 0.0, 0
            plan = collection.plan
            for place in chosen.tolist():
                exact = collection.search(vectors[place], guarantee="exact")
                probable = collection.search(vectors[place], guarantee="probable")
                known = {match.key for match in probable}
                compared += probable.candidates
                for match in exact:
                    if match.key != place:
                        true += 1
                        found += match.key in known
                        planned += plan.expected_recall(match.value)
            probe = vectors[int(chosen[0])]
            by_index = processor(lambda: collection.search(probe, guarantee="probable"))
            by_scan = processor(lambda: collection.search(probe, guarantee="exact"))
    return {
        "true": true,
        "found": found,
        "planned": planned,
        "compared": compared / chosen.size / len(vectors),
        "by index": by_index,
        "by scan": by_scan,
        "count": len(vectors),
        "bands": plan.bands,
        "rows": plan.rows,
    }


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
                    target=f"at least {SIGNING_RATIO:.2f} of its speed",
                    reached=ratio >= SIGNING_RATIO,
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
    _recall(bench)


def _recall(bench: Bench) -> None:
    """Report recall beside the plan's, for real word vectors and made ones."""
    for name, angle in ANGLES.items():
        if name == "words" and bench.data is None:
            continue
        data = None if bench.data is None else str(bench.data)
        answer = in_child(
            f"{HERE}:recall",
            cores=1,
            name=name,
            data=data,
            count=min(bench.count, STORED),
            seed=bench.seed,
            work=str(bench.work),
        )
        bench.details[f"vectors, recall, {name}"] = answer
        true = max(1, answer["true"])
        value, planned = answer["found"] / true, answer["planned"] / true
        # A share of so many neighbours is off by chance; four standard errors are allowed.
        error = math.sqrt(max(planned * (1 - planned), 1e-4) / true)
        bench.add(
            Figure(
                *("vectors", f"recall of {name} within {angle:g} degrees", value, ""),
                target=f"as planned, {planned:.3f}, but for 4 x {error:.3f}",
                reached=value >= planned - 4 * error,
                note=f"{answer['true']:,} neighbours among {answer['count']:,}, "
                f"{answer['bands']} x {answer['rows']}; {answer['compared']:.2%} compared; "
                f"{answer['by index'] * 1e3:.3g} ms, exact {answer['by scan'] * 1e3:.3g} ms",
            )
        )

"""Exact answers from a store at the speed of memory: scans beside faiss, pairs beside a product.

faiss holds the items in memory and has one answer, which simdb's must equal; simdb reads the items
of a store where they lie. A product of all vectors with all is what pairs cannot do without, by
the same library and half of it, since a pair comes once.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb import kinds
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated, timed_each

HERE = "tools.benchmarks.distances"
SHAPES = ((29_526, 128), (30_000, 784))
HASHES = 60_000
NEAR_BITS = 8
PROBES = 200
FEW = 10  # the nearest, however far
NEAREST = 20  # of all items, within the distance that is asked for, on average
JOINED = (30_000, 784)
JOINED_SHARE = 1e-5  # of all pairs
CENTRES = 50
ROWS_OF_PRODUCT = 1_024
MOST_OF_FAISS = 1.5
MOST_OF_PRODUCT = 2.0


def made(count: int, dimension: int, seed: int) -> Any:
    """Make vectors about some centres, as pictures of some things are."""
    generator = np.random.default_rng(seed)
    centres = generator.random((CENTRES, dimension), np.float32)
    vectors = centres[generator.integers(0, CENTRES, count)]
    spread = generator.random((count, 1), np.float32) / 2
    vectors += spread * generator.standard_normal((count, dimension), np.float32)
    return vectors


@contextmanager
def stored(work: str, kind: kinds.Kind, items: Any) -> Iterator[simdb.Collection]:
    """Hold items in a new store without an index."""
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "items.simdb", sync="batch", threads=1) as database,
    ):
        collection = database.collection("items", kind)
        collection.add_many(enumerate(items))
        yield collection


def compared(
    collection: simdb.Collection, most: float, probes: Any, faiss: Callable[[Any], set[int]] | None
) -> dict[str, Any]:
    """Time searches of both; whether they found the same items, those at the very bound aside."""
    items = [probe.tobytes() if probe.dtype == np.uint64 else probe for probe in probes]

    def ours(item: Any) -> set[Any]:
        matches = collection.search(item, max_distance=most, guarantee="exact")
        return {match.key for match in matches}

    found = [ours(item) for item in items]
    told: dict[str, Any] = {"found": sum(map(len, found)) / len(items)}
    told["simdb"] = timed_each(ours, items)["processor_p50"]
    if faiss is not None:
        apart = sum(len(one ^ faiss(probe)) for one, probe in zip(found, probes, strict=True))
        told |= {"apart": apart, "faiss": timed_each(faiss, probes)["processor_p50"]}
    return told


def nearest(collection: simdb.Collection, most: float, probes: Any, index: Any) -> dict[str, Any]:
    """Time searches of both for the nearest few, however far; whether these are as far."""
    items = [probe.tobytes() if probe.dtype != np.float32 else probe for probe in probes]

    def ours(item: Any) -> list[float]:
        matches = collection.search(item, limit=FEW, max_distance=most, guarantee="exact")
        return [match.distance or 0.0 for match in matches]

    told: dict[str, Any] = {"simdb": timed_each(ours, items)["processor_p50"], "found": FEW}
    if index is not None:

        def theirs(probe: Any) -> Any:
            return index.search(probe[np.newaxis], FEW)[0][0]

        exponent = 0.5 if probes.dtype == np.float32 else 1  # faiss tells squares of distances
        told["apart"] = sum(
            not np.allclose(ours(item), theirs(probe).astype(np.float64) ** exponent, atol=1e-2)
            for item, probe in zip(items, probes, strict=True)
        )
        told["faiss"] = timed_each(theirs, probes)["processor_p50"]
    return told


def vectors(count: int, dimension: int, seed: int, work: str) -> dict[str, Any]:
    """Search exactly for vectors within a Euclidean distance."""
    made_ones = made(count, dimension, seed)
    probes = made_ones[:: max(1, count // PROBES)][:PROBES]
    apart = np.linalg.norm(made_ones[np.newaxis, ::7] - probes[:20, np.newaxis], axis=2)
    most = float(np.quantile(apart, min(1.0, NEAREST / count)))
    index = None
    if (library := _faiss()) is not None:
        index = library.IndexFlatL2(dimension)
        index.add(made_ones)

    def by_faiss(probe: Any) -> set[int]:
        assert index is not None
        return set(index.range_search(probe[np.newaxis], most * most)[2].tolist())

    with stored(work, simdb.Vector(dimension, "euclidean"), made_ones) as collection:
        return {
            "within": compared(collection, most, probes, None if index is None else by_faiss),
            "nearest": nearest(collection, 1e9, probes, index),
        }


def hashes(count: int, seed: int, work: str) -> dict[str, Any]:
    """Search exactly for hashes of 64 bits within some bits, among hashes without an index."""
    generator = np.random.default_rng(seed)
    made_ones = generator.integers(0, 2**64, (count, 1), dtype=np.uint64)
    made_ones[count // 2 :] = made_ones[: count - count // 2] ^ np.uint64(0b10010001)
    probes = made_ones[:: max(1, count // PROBES)][:PROBES]
    index = None
    if (library := _faiss()) is not None:
        index = library.IndexBinaryFlat(64)
        index.add(made_ones.view(np.uint8))

    def by_faiss(probe: Any) -> set[int]:
        assert index is not None  # it leaves the radius out
        probe = probe.view(np.uint8)[np.newaxis]
        return set(index.range_search(probe, NEAR_BITS + 1)[2].tolist())

    packed = (one.tobytes() for one in made_ones)
    with stored(work, simdb.Bits(64), packed) as collection:
        own_bytes = probes.view(np.uint8)
        return {
            "within": compared(collection, NEAR_BITS, probes, None if index is None else by_faiss),
            "nearest": nearest(collection, 64, own_bytes, index),
        }


def joined(count: int, dimension: int, seed: int, work: str) -> dict[str, Any]:
    """Find all pairs of vectors within a distance; multiply each vector with those after it."""
    made_ones = made(count, dimension, seed)
    some = made_ones[:: max(1, count // 1_000)]
    squares = (some**2).sum(axis=1)
    apart = squares[:, np.newaxis] + squares - 2 * some @ some.T
    most = float(np.sqrt(np.quantile(apart[np.triu_indices(len(some), 1)], JOINED_SHARE)))

    def product() -> None:
        for begin in range(0, count, ROWS_OF_PRODUCT):
            made_ones[begin : begin + ROWS_OF_PRODUCT] @ made_ones[begin:].T

    with stored(work, simdb.Vector(dimension, "euclidean"), made_ones) as collection:

        def pairs() -> int:
            found = collection.pairs(max_distance=most, guarantee="exact")
            return sum(len(batch.left) for batch in found.batches())

        return {
            "found": pairs(),
            "pairs": repeated(pairs)["processor"],
            "product": repeated(product)["processor"],
        }


def _faiss() -> Any:
    """Return faiss on one thread; None where it is absent."""
    try:
        library = importlib.import_module("faiss")
    except ModuleNotFoundError:
        return None
    library.omp_set_num_threads(1)
    return library


@measure("distances", "exact scans of a store beside faiss, pairs of vectors beside a product")
def distances(bench: Bench) -> None:
    """Report searches and pairs, on one core."""
    common = {"seed": bench.seed, "work": str(bench.work)}
    for count, dimension in SHAPES:
        shape = {"count": min(bench.count, count), "dimension": dimension}
        answer = in_child(f"{HERE}:vectors", cores=1, **shape, **common)
        name = f"exact search of {shape['count']:,} vectors of {dimension}"
        _searches(bench, name, answer, "faiss IndexFlatL2")
    answer = in_child(f"{HERE}:hashes", cores=1, count=min(2 * bench.count, HASHES), **common)
    name = f"exact search of {min(2 * bench.count, HASHES):,} hashes of 64 bits"
    _searches(bench, name, answer, "faiss IndexBinaryFlat")
    count, dimension = min(bench.count, JOINED[0]), JOINED[1]
    answer = in_child(f"{HERE}:joined", cores=1, count=count, dimension=dimension, **common)
    bench.details["distances, pairs"] = answer
    ratio = answer["pairs"] / answer["product"]
    bench.add(
        Figure(
            *("distances", f"exact pairs of {count:,} vectors of {dimension}", answer["pairs"]),
            "s of processor",
            peer="half the product of all with all, float32",
            peer_value=answer["product"],
            ratio=1 / ratio,
            target=f"at most {MOST_OF_PRODUCT} x the product",
            reached=ratio <= MOST_OF_PRODUCT,
            note=f"{ratio:.2f} x the product; {answer['found']:,} pairs",
        )
    )


def _searches(bench: Bench, name: str, answers: dict[str, Any], peer: str) -> None:
    _searched(bench, name, answers["within"], peer)
    _searched(bench, f"{name}, the {FEW} nearest", answers["nearest"], peer)


def _searched(bench: Bench, name: str, answer: dict[str, Any], peer: str) -> None:
    bench.details[f"distances, {name}"] = answer
    own, other = answer["simdb"], answer.get("faiss")
    note = f"{answer['found']:.0f} found each"
    if other is not None:
        note += f", {own / other:.2f} x faiss, {answer['apart']} apart"
    bench.add(
        Figure(
            *("distances", f"{name}, p50", own, "ms of processor"),
            peer=peer if other is not None else "",
            peer_value=other,
            ratio=None if other is None else other / own,
            target=f"at most {MOST_OF_FAISS} x faiss",
            reached=None if other is None else own <= MOST_OF_FAISS * other,
            note=note,
        )
    )

"""Stores of many made fingerprints: built once, looked up in, and beside the simulation.

The prints are of independent squares, as the simulation of ``lsh.fingerprints`` has them: of the
chapter's uniform density, or of densities that were measured.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import simdb
from simdb.config import Fingerprint
from simdb.lsh.fingerprints import SquaresFamily, simulated_rates
from simdb.storage import environment
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure
from tools.benchmarks.timing import timed_each

HERE = "tools.benchmarks.print_stores"
LONGEST_ROW = 1_000  # squares
QUERIES, PROBED_BATCHES = 200, 10
BATCH = 20_000  # made prints
KEPT = 0.8  # of its squares that a second print of a finger occupies too
LEAST_SIMILARITY = 0.5  # of a second print about 0.67 is expected
BOOK_SHARE = 0.063**2
SHARE_TOLERANCE = 0.1

Floats = npt.NDArray[np.float64]


def squares_kind(squares: int) -> Fingerprint:
    """Return the kind of prints that are given as occupied squares."""
    rows = -(-squares // LONGEST_ROW)
    return Fingerprint(
        squares // rows, rows, items="squares", measure="squares", square=1, border=0
    )


def made_squares(
    batch: int, count: int, densities: Floats, fullness: Floats | None, seed: int
) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Draw a batch of prints of independent squares, bool (count, squares), and their fullness."""
    random = np.random.default_rng([seed, batch])
    scale = np.ones(count) if fullness is None else random.choice(fullness, count)
    wanted = (densities * scale[:, None]).astype(np.float32)
    occupied: npt.NDArray[np.bool_] = random.random(wanted.shape, np.float32) < wanted
    occupied[~occupied.any(axis=1), 0] = True  # a print without a square is none
    return occupied, scale


def second_print(
    random: np.random.Generator, first: npt.NDArray[np.bool_], wanted: Floats
) -> npt.NDArray[np.bool_]:
    """Draw another print of a finger, as ``simulated_rates`` does: it keeps ``KEPT`` of each."""
    fresh = wanted * (1.0 - KEPT) / np.maximum(1.0 - wanted, 1e-9)
    drawn = random.random(first.size)
    return np.where(first, drawn < KEPT, drawn < np.minimum(fresh, 1.0))


def build(
    path: str, count: int, densities: list[float], fullness: list[float] | None, seed: int
) -> dict[str, Any]:
    """Store ``count`` made prints in batches; time what the store does, and not the making."""
    file = Path(path)
    stores.remove(file)
    chances = np.array(densities)
    factors = None if fullness is None else np.array(fullness)
    worked = time.process_time()
    seconds = 0.0
    with simdb.open(file) as database:
        kind = squares_kind(len(densities))
        collection = database.collection(stores.NAME, kind, threshold=LEAST_SIMILARITY, seed=1)
        for begin in range(0, count, BATCH):
            made, _ = made_squares(begin, min(BATCH, count - begin), chances, factors, seed)
            rows = [
                (begin + place, np.flatnonzero(squares).tolist())
                for place, squares in enumerate(made)
            ]
            began = time.perf_counter()
            collection.add_many(rows)
            seconds += time.perf_counter() - began
        began = time.perf_counter()
    seconds += time.perf_counter() - began
    return {
        "seconds": seconds,
        "processor, with the making": time.process_time() - worked,
        "bytes": file.stat().st_size,
    }


def look_ups(
    path: str, count: int, densities: list[float], fullness: list[float] | None, seed: int
) -> dict[str, Any]:
    """Search for second prints of stored fingers, and predict how many are compared and found."""
    chances = np.array(densities)
    factors = None if fullness is None else np.array(fullness)
    random = np.random.default_rng([seed, count, QUERIES])
    probes = []
    for begin in random.choice(range(0, count, BATCH), PROBED_BATCHES).tolist():
        made, scale = made_squares(begin, min(BATCH, count - begin), chances, factors, seed)
        for place in random.choice(len(made), QUERIES // PROBED_BATCHES).tolist():
            wanted = np.minimum(chances * scale[place], 1.0)
            squares = np.flatnonzero(second_print(random, made[place], wanted)).tolist()
            probes.append((begin + place, squares))
    stores.read_file(Path(path))
    with simdb.open(path, read_only=True) as database:
        collection = database[stores.NAME]
        for _, squares in probes:
            collection.search(squares)  # compiles, and brings in what is read
        timed = timed_each(collection.search, [squares for _, squares in probes])
        answers = [collection.search(squares) for _, squares in probes]
        stored = collection.search(probes[0][1], guarantee="exact")
        with collection._opened() as (_, _, signer):
            family = signer.family  # where densities differ much depends on which squares it has
    assert isinstance(family, SquaresFamily)
    owners = [own for own, _ in probes]
    keys = [[match.key for match in found] for found in answers]
    hits = [own in found for own, found in zip(owners, keys, strict=True)]
    first = [[own] == found[:1] for own, found in zip(owners, keys, strict=True)]
    others = [found.candidates - hit for found, hit in zip(answers, hits, strict=True)]
    kept = np.full(chances.size, KEPT)
    predicted = simulated_rates(family, chances, kept, fullness=factors, prints=4_000)
    return {
        "milliseconds": timed,
        "share": float(np.mean(others)) / (count - 1),
        "standard error": float(np.std(others)) / len(others) ** 0.5 / (count - 1),
        "false negatives": 1.0 - float(np.mean(hits)),
        "rank-1 hits": float(np.mean(first)),
        "predicted": predicted._asdict(),
        "compared by brute force": stored.candidates,
        "prints": count,
    }


def add_store(
    bench: Bench,
    name: str,
    densities: Floats,
    fullness: Floats | None = None,
    *,
    count: int | None = None,
    limit: float | None = None,
) -> None:
    """Report look-ups in a store of made prints, which is built unless it is there."""
    count = bench.count if count is None else count
    version = environment.FORMAT_VERSION
    path = bench.work / f"prints-{count}-{densities.size}-{bench.seed}-{version}.simdb"
    settings: dict[str, Any] = {
        "count": count,
        "densities": densities.tolist(),
        "fullness": None if fullness is None else fullness.tolist(),
        "seed": bench.seed,
    }
    title = f"{count:,} prints of {densities.size:,} squares, {name}"
    if not path.exists():
        unfinished = path.with_suffix(".building")
        built = in_child(f"{HERE}:build", path=str(unfinished), **settings)
        unfinished.rename(path)
        stores.remove(unfinished)
        bench.details[f"fingerprints, {title}, built"] = built
        note = f"{count / built['seconds']:,.0f} prints/s, {built['bytes'] / count:,.0f} bytes each"
        bench.add(Figure("fingerprints", f"{title}, build", built["seconds"], "s", note=note))
    answer = in_child(f"{HERE}:look_ups", cores=1, path=str(path), **settings)
    bench.details[f"fingerprints, {title}"] = answer
    taken, predicted = answer["milliseconds"], answer["predicted"]
    note = f"p99 {taken['p99']:.3g} ms, p50 of the processor {taken['processor_p50']:.3g} ms"
    if limit is None:
        figure = Figure("fingerprints", f"{title}, look-up, p50", taken["p50"], "ms", note=note)
        bench.add(figure)
    else:
        bench.at_most(
            "fingerprints", f"{title}, look-up, p50", taken["p50"], "ms", limit=limit, note=note
        )
    expected = predicted["looked_at"]
    allowed = max(SHARE_TOLERANCE * expected, 3 * answer["standard error"])
    note = (
        f"1 in {1 / max(answer['share'], 1e-9):,.0f} +- {answer['standard error']:.2g}; false "
        f"negatives {answer['false negatives']:.3f}, predicted {predicted['false_negatives']:.3f}; "
        f"rank-1 {answer['rank-1 hits']:.3f}; the book's independent functions of 20 %: 1 in "
        f"{1 / BOOK_SHARE:,.0f}"
    )
    bench.add(
        Figure(
            *("fingerprints", f"{title}, looked at", answer["share"], "of prints"),
            target=f"1 in {1 / expected:,.0f}, as simulated, +- {SHARE_TOLERANCE:.0%} or 3 errors",
            reached=abs(answer["share"] - expected) <= allowed,
            note=note,
        )
    )

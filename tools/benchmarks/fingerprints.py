"""Fingerprints: real prints beside the simulated whole of AND and OR, and a million made ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.config import Fingerprint
from simdb.items.fingerprints import FingerprintItems, Prints
from simdb.lsh.fingerprints import (
    Rates,
    SquaresFamily,
    candidate_pairs,
    rates_of,
    simulated_rates,
)
from simdb.measures.fingerprints import FingerprintMeasure
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated
from tools.make_fingerprints import SIDE, Statistics, made_prints, read_minutiae

REAL_FILE = "fingerprints/fvc_minutiae.csv"
SECRETS = 5  # families over which rates are averaged
MADE_FINGERS = 800
SQUARES = 1_000
QUERIES = 200
BOOK_SHARE = 0.063**2
KINDS = {
    "plate grid": Fingerprint(SIDE, SIDE),
    "grids at minutiae, 1,024 functions": Fingerprint(
        SIDE, SIDE, alignment="shift", square=24, reach=120, sectors=8, rotation=30
    ),
    "grids at minutiae, 8,192 functions": Fingerprint(
        SIDE, SIDE, alignment="shift", square=16, reach=96, sectors=8, functions=8_192, rotation=30
    ),
}

MEASURED = {
    "measured densities of 225 squares": KINDS["plate grid"],
    "measured densities of 900 squares": Fingerprint(SIDE, SIDE, square=10, border=2),
}
VERIFIED = {
    "minutiae": Fingerprint(SIDE, SIDE),
    "minutiae, turns of 30 degrees at most": Fingerprint(SIDE, SIDE, rotation=30),
    "squares": Fingerprint(SIDE, SIDE, measure="squares"),
    "squares, centred": Fingerprint(SIDE, SIDE, measure="squares", alignment="centre"),
}

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Made: TypeAlias = tuple[Sequence[Floats], Sequence[Floats]]


class Buckets(NamedTuple):
    """The members of the functions' buckets, one bucket after the other."""

    members: npt.NDArray[np.uint32]
    starts: Integers


def families(kind: Fingerprint) -> list[SquaresFamily]:
    """Return some families that differ in their secret."""
    return [SquaresFamily(kind, b"bench%d" % number) for number in range(SECRETS)]


def mean_rates(rates: list[Rates]) -> Rates:
    """Return the means."""
    return Rates(*np.mean(rates, axis=0).tolist())


# -- real prints ---------------------------------------------------------------------------------


def run(data: Path) -> dict[str, Any]:
    """Measure the prints of a data folder under every kind, and predict."""
    prints, fingers = read_minutiae(data / REAL_FILE)
    statistics = Statistics.measured(prints, fingers)
    made = made_prints(statistics, MADE_FINGERS, seed=0)
    return {
        name: real_prints(kind, prints, fingers, made, plain=name == "plate grid")
        for name, kind in KINDS.items()
    }


def real_prints(
    kind: Fingerprint, prints: list[Floats], fingers: Integers, made: Made, *, plain: bool
) -> dict[str, Any]:
    """Return measured rates with their error, predicted ones, and rank-1 hits of one kind."""
    items = FingerprintItems(kind)
    features, *twice = (
        items.features([items.encode(one) for one in many]) for many in (prints, *made)
    )
    measured, predicted, without = [], [], []
    hits = []
    for family in families(kind):
        signatures = family.sign(features)
        measured.append(rates_of(family, signatures, fingers))
        without.append(
            [
                rates_of(family, signatures[fingers != left_out], fingers[fingers != left_out])
                for left_out in np.unique(fingers)
            ]
        )
        hits.append(rank_one(kind, family, features, fingers))
        if plain:
            predicted.append(predicted_by_squares(family, features, fingers))
        else:
            predicted.append(predicted_by_prints(family, twice))
    spread = np.mean(without, axis=0)
    many = len(spread)
    errors = np.sqrt((many - 1) / many * ((spread - spread.mean(axis=0)) ** 2).sum(axis=0))
    return {
        "measured": mean_rates(measured)._asdict(),
        "standard errors by jackknife over fingers": Rates(*errors.tolist())._asdict(),
        "predicted": mean_rates(predicted)._asdict(),
        "rank-1 hits": float(np.mean(hits)),
        "prints": len(fingers),
    }


def predicted_by_squares(family: SquaresFamily, features: Prints, fingers: Integers) -> Rates:
    """Simulate with the densities of the squares, how often mates keep them, and fullness."""
    occupied = occupied_squares(features, KINDS["plate grid"])
    densities = occupied.mean(axis=0)
    left, right = np.triu_indices(len(fingers), 1)
    mated = fingers[left] == fingers[right]
    left, right = left[mated], right[mated]
    both = 2.0 * (occupied[left] & occupied[right]).sum(axis=0)
    either = occupied[left].sum(axis=0) + occupied[right].sum(axis=0)
    kept = np.divide(both, either, out=np.zeros_like(densities), where=either > 0)
    filled = occupied.sum(axis=1)
    return simulated_rates(
        family, densities, kept, fullness=filled / filled.mean(), prints=MADE_FINGERS
    )


def predicted_by_prints(family: SquaresFamily, made: list[Prints]) -> Rates:
    """Sign two made prints of each of many fingers."""
    first, second = map(family.sign, made)
    own = np.arange(len(first))
    found = candidate_pairs(family, first, second)
    return Rates(rates_of(family, first, own).looked_at, float((~found).mean()))


def rank_one(kind: Fingerprint, family: SquaresFamily, features: Prints, fingers: Integers) -> int:
    """Return for how many prints the most similar candidate is of the same finger."""
    left, right = np.triu_indices(len(fingers), 1)
    signatures = family.sign(features)
    found = candidate_pairs(family, signatures[left], signatures[right])
    left, right = left[found], right[found]
    values = np.zeros((len(fingers), len(fingers)))
    compared = FingerprintMeasure(kind).compare_pairs(features, left, right).values()
    values[left, right] = values[right, left] = compared
    best = values.argmax(axis=1)
    own = np.arange(len(fingers))
    return int(((fingers[best] == fingers) & (values[own, best] > 0)).sum())


# -- a million made ones -------------------------------------------------------------------------


def million(count: int, densities: Floats, fullness: Floats | None, seed: int) -> dict[str, Any]:
    """Look up prints among ``count`` made of independent squares; keep all in memory."""
    kind = Fingerprint(len(densities), 1, items="squares", measure="squares", square=1, border=0)
    family = SquaresFamily(kind, b"bench")
    random = np.random.default_rng(seed)
    grids = np.zeros((count, family.words // 4), np.uint64)
    for begin in range(0, count, 20_000):
        portion = grids[begin : begin + 20_000]
        portion[:] = made_grids(random, len(portion), densities, fullness, portion.shape[1])
    buckets = bucketed(family, grids)
    probes = random.choice(count, QUERIES, replace=False)
    seconds, shares, entries = [], [], []
    for probe in [*probes[:5], *probes]:  # the first compile
        began = time.perf_counter()
        candidates, members = look_up(family, grids, buckets, grids[probe])
        seconds.append(time.perf_counter() - began)
        # A probe with a function in every group meets itself.
        shares.append(max(0, candidates - 1) / (count - 1))
        entries.append(members)
    predicted = simulated_rates(
        family, densities, np.full(len(densities), 0.8), fullness=fullness, prints=4_000
    )
    p50, p99 = np.quantile(seconds[5:], [0.5, 0.99]).tolist()
    return {
        "milliseconds": {"p50": p50 * 1e3, "p99": p99 * 1e3},
        "share": float(np.mean(shares[5:])),
        "predicted": predicted._asdict(),
        "bucket members": float(np.mean(entries[5:])),
        "prints": count,
    }


def made_grids(
    random: np.random.Generator, count: int, densities: Floats, fullness: Floats | None, words: int
) -> npt.NDArray[np.uint64]:
    """Draw grids of independent squares, uint64 (count, words)."""
    scale = np.ones(count) if fullness is None else random.choice(fullness, count)
    wanted = (densities * scale[:, None]).astype(np.float32)
    occupied = random.random(wanted.shape, np.float32) < wanted
    data = np.zeros((count, words * 8), np.uint8)
    bits = np.packbits(occupied, axis=1, bitorder="little")
    data[:, : bits.shape[1]] = bits
    return data.view("<u8").astype(np.uint64)


def bucketed(family: SquaresFamily, grids: npt.NDArray[np.uint64]) -> Buckets:
    """Put prints into the buckets of their functions."""
    from simdb.kernels import fingerprints

    numbers, owners = [], []
    for begin in range(0, len(grids), 50_000):
        signatures = grids[begin : begin + 50_000].view("<u2")
        functions, offsets = fingerprints.members(family.yes(signatures))
        numbers.append(functions.astype(np.uint16))
        own = np.arange(begin, begin + len(signatures), dtype=np.uint32)
        owners.append(np.repeat(own, np.diff(offsets)))
    functions = np.concatenate(numbers)
    members = np.concatenate(owners)[np.argsort(functions, kind="stable")]
    counts = np.bincount(functions, minlength=len(family.functions))
    return Buckets(members, np.concatenate(([0], np.cumsum(counts))))


def look_up(
    family: SquaresFamily,
    grids: npt.NDArray[np.uint64],
    buckets: Buckets,
    probe: npt.NDArray[np.uint64],
) -> tuple[int, int]:
    """Find the candidates of a probe and score them; return how many, and members read."""
    from simdb.kernels import fingerprints

    functions, _ = fingerprints.members(family.yes(probe[None].view("<u2")))
    starts, ends = buckets.starts[functions], buckets.starts[functions + 1]
    items = np.concatenate(
        [buckets.members[start:end] for start, end in zip(starts, ends, strict=True)]
        or [np.empty(0, np.uint32)]
    )
    groups = np.repeat((functions // family.group_size).astype(np.uint8), ends - starts)
    candidates = fingerprints.in_every_group(items, groups, family.groups, len(grids))
    common, either = fingerprints.overlaps(probe, grids, candidates.astype(np.int64))
    np.argsort(-common / np.maximum(either, 1))
    return len(candidates), len(items)


def measured_densities(kind: Fingerprint, data: Path) -> tuple[Floats, Floats]:
    """Return how often real prints occupy each square of the plate, and how full each is."""
    prints, _ = read_minutiae(data / REAL_FILE)
    items = FingerprintItems(kind)
    occupied = occupied_squares(items.features([items.encode(one) for one in prints]), kind)
    filled = occupied.sum(axis=1)
    return occupied.mean(axis=0), filled / filled.mean()


def occupied_squares(prints: Prints, kind: Fingerprint) -> npt.NDArray[np.bool_]:
    """Return the grids on the plate as truths, bool (n, squares)."""
    columns, rows = kind.plate_grid
    data = prints.grids.astype("<u8").view(np.uint8)
    bits = np.unpackbits(data, axis=1, bitorder="little")
    return bits[:, : columns * rows * kind.sectors].astype(np.bool_)


# -- verification --------------------------------------------------------------------------------


def verification(kind: Fingerprint, data: Path) -> dict[str, float]:
    """Compare all real prints; return rank-1 hits, missed mates, microseconds a pair."""
    prints, fingers = read_minutiae(data / REAL_FILE)
    items, measure_ = FingerprintItems(kind), FingerprintMeasure(kind)
    features = items.features([items.encode(one) for one in prints])
    left, right = np.triu_indices(len(fingers), 1)
    compared = measure_.compare_pairs(features, left, right).values()
    timed = repeated(lambda: measure_.compare_pairs(features, left, right))
    mated = fingers[left] == fingers[right]
    values = np.zeros((len(fingers), len(fingers)))
    values[left, right] = values[right, left] = compared
    hundredth = np.quantile(compared[~mated], 0.99)
    return {
        "rank-1 hits": float((fingers[values.argmax(axis=1)] == fingers).sum()),
        "missed": float((compared[mated] <= hundredth).mean()),
        "microseconds": timed["processor"] / len(left) * 1e6,
    }


@measure("fingerprints", "real prints beside predictions; look-ups among a million made prints")
def fingerprints(bench: Bench) -> None:
    """Report rank-1 hits, rates and predictions, and the time of a look-up."""
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    for name, kind in VERIFIED.items():
        answer = verification(kind, bench.data)
        bench.details[f"fingerprints, verification, {name}"] = answer
        _add_verification(bench, name, answer)
    for name, answer in run(bench.data).items():
        bench.details[f"fingerprints, {name}"] = answer
        _add_real(bench, name, answer)
    _add_million(bench, "book's uniform 20 %", np.full(SQUARES, 0.2), None, limit=5.0)
    for name, kind in MEASURED.items():
        densities, fullness = measured_densities(kind, bench.data)
        _add_million(bench, name, densities, fullness)


def _add_verification(bench: Bench, name: str, answer: dict[str, float]) -> None:
    note = (
        f"{answer['missed']:.1%} of the pairs of a finger lie below the 1 % most similar others; "
        f"{answer['microseconds']:.3g} us a pair"
    )
    title = f"all pairs compared by {name}, rank-1 hits"
    bench.add(Figure("fingerprints", title, answer["rank-1 hits"], "prints", note=note))


def _add_real(bench: Bench, name: str, answer: dict[str, Any]) -> None:
    note = f"of {answer['prints']} prints, candidates verified by rigid alignment"
    hits = answer["rank-1 hits"]
    bench.add(Figure("fingerprints", f"{name}, rank-1 hits", hits, "prints", note=note))
    for rate in Rates._fields:
        value, predicted = answer["measured"][rate], answer["predicted"][rate]
        error = answer["standard errors by jackknife over fingers"][rate]
        note = f"+- {error:.3f}; the simulation predicts {predicted:.4f}"
        title = f"{name}, {rate.replace('_', ' ')}"
        bench.add(Figure("fingerprints", title, value, "of pairs", note=note))


def _add_million(
    bench: Bench, name: str, densities: Floats, fullness: Floats | None, limit: float | None = None
) -> None:
    answer = million(bench.count, densities, fullness, bench.seed)
    bench.details[f"fingerprints, {name}"] = answer
    taken, title = answer["milliseconds"], f"{answer['prints']:,} prints, {name}"
    note = f"p99 {taken['p99']:.3g} ms, {answer['bucket members']:,.0f} members of buckets read"
    timed = f"{title}, look-up in memory, p50"
    if limit is None:
        bench.add(Figure("fingerprints", timed, taken["p50"], "ms", note=note))
    else:
        bench.at_most("fingerprints", timed, taken["p50"], "ms", limit=limit, note=note)
    predicted = answer["predicted"]
    note = (
        f"the simulation predicts {predicted['looked_at']:.3g}, and "
        f"{predicted['false_negatives']:.1%} false negatives if mates keep 80 % of squares; "
        f"independent functions of the book's 20 % {BOOK_SHARE:.3g}"
    )
    bench.add(Figure("fingerprints", f"{title}, looked at", answer["share"], "", note=note))

"""Fingerprints: real prints beside the simulated whole of AND and OR, and a million made ones.

Look-ups go through a store on disk: the real prints in full, the made ones as the squares they
occupy. A large store is built once and kept in the work folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import simdb
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
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.print_stores import add_store
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated, timed_each
from tools.make_fingerprints import SIDE, Statistics, made_prints, read_minutiae

HERE = "tools.benchmarks.fingerprints"
REAL_FILE = "fingerprints/fvc_minutiae.csv"
SECRETS = 5  # families over which rates are averaged
MADE_FINGERS = 800
SQUARES, MANY_SQUARES = 1_000, 10_000
FEWER_PRINTS = 50_000  # of so many squares
LONGEST_LOOK_UP = 5.0  # milliseconds

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


def stored_prints(data: str, name: str, work: str) -> dict[str, Any]:
    """Search a store of the real prints for each of them; count what is found and looked at."""
    prints, fingers = read_minutiae(Path(data) / REAL_FILE)
    hits, others, missed, same = 0, 0, 0, 0
    with tempfile.TemporaryDirectory(dir=work) as folder:
        path = Path(folder) / "prints.simdb"
        with simdb.open(path) as database:
            collection = database.collection(stores.NAME, KINDS[name], threshold=0.01, seed=1)
            collection.add_many(enumerate(prints))
        with simdb.open(path, read_only=True) as database:
            collection = database[stores.NAME]
            for place, minutiae in enumerate(prints):
                answer = collection.search(minutiae, min_recall=0)
                found = [match.key for match in answer if match.key != place]
                mates = [key for key in found if fingers[int(key)] == fingers[place]]
                hits += bool(found) and fingers[int(found[0])] == fingers[place]
                own = int((fingers == fingers[place]).sum()) - 1
                same += own
                missed += own - len(mates)
                others += answer.candidates - 1 - len(mates)
            seconds = timed_each(collection.search, prints)
    count = len(prints)
    return {
        "prints": count,
        "rank-1 hits": int(hits),
        "looked_at": others / (count * (count - 1) - same),
        "false_negatives": missed / same,
        "milliseconds": seconds,
    }


# -- densities ------------------------------------------------------------------------------------


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
        _add_stored(bench, name, answer)
    add_store(bench, "book's uniform 20 %", np.full(SQUARES, 0.2), limit=LONGEST_LOOK_UP)
    fewer = min(bench.count, FEWER_PRINTS)
    add_store(bench, "book's uniform 20 %", np.full(MANY_SQUARES, 0.2), count=fewer)
    for name, kind in MEASURED.items():
        densities, fullness = measured_densities(kind, bench.data)
        add_store(bench, name, densities, fullness)


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


def _add_stored(bench: Bench, name: str, predicted: dict[str, Any]) -> None:
    """Report the same prints searched in a store, by one family, beside the mean of some."""
    answer = in_child(
        f"{HERE}:stored_prints", cores=1, data=str(bench.data), name=name, work=str(bench.work)
    )
    bench.details[f"fingerprints, stored, {name}"] = answer
    note = (
        f"of {answer['prints']}; looked at {answer['looked_at']:.4f} of other fingers' prints, "
        f"false negatives {answer['false_negatives']:.3f}; predicted "
        f"{predicted['predicted']['looked_at']:.4f} and "
        f"{predicted['predicted']['false_negatives']:.3f}; "
        f"p50 {answer['milliseconds']['p50']:.3g} ms"
    )
    title = f"{name}, searched in a store, rank-1 hits"
    bench.add(Figure("fingerprints", title, answer["rank-1 hits"], "prints", note=note))

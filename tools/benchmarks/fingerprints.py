"""Fingerprints: real prints beside what predicts their rates, and a million made ones.

Look-ups go through a store on disk: the real prints in full, the made ones as the squares they
occupy. A large store is built once and kept in the work folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from simdb.kinds import Fingerprint
from simdb.kinds.fingerprints import FingerprintMeasure
from tools.benchmarks import moved_prints, real_prints
from tools.benchmarks.children import in_child
from tools.benchmarks.print_stores import SquareStatistics, add_store
from tools.benchmarks.real_prints import KINDS, PLATE, Errors, RealPrints, square_statistics
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated
from tools.make_fingerprints import SIDE

UNIFORM_SQUARES = (1_000, 5_000, 10_000)
LONGEST_LOOK_UP = 5.0  # milliseconds
CLOSE_ENOUGH = 0.1  # of what is predicted

MEASURED = {
    "measured densities of 225 squares": PLATE,
    "measured densities of 900 squares": Fingerprint(SIDE, SIDE, square=10, border=2),
}
VERIFIED = {
    "minutiae": Fingerprint(SIDE, SIDE),
    "minutiae, turns of 30 degrees at most": Fingerprint(SIDE, SIDE, rotation=30),
    "squares": Fingerprint(SIDE, SIDE, measure="squares"),
    "squares, centred": Fingerprint(SIDE, SIDE, measure="squares", alignment="centre"),
}


def verification(kind: Fingerprint, data: Path) -> dict[str, float]:
    """Compare all real prints; return rank-1 hits, missed mates, microseconds a pair."""
    real = RealPrints.read(data)
    compared = real.similarities(kind)
    measure_, features = FingerprintMeasure(kind), real.features(kind)
    timed = repeated(lambda: measure_.compare_pairs(features, real.left, real.right))
    hundredth = np.quantile(compared[~real.mated], 0.99)
    return {
        "rank-1 hits": float(real.hits(np.ones_like(real.mated), compared)),
        "missed": float((compared[real.mated] <= hundredth).mean()),
        "microseconds": timed["processor"] / len(compared) * 1e6,
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
    for name, answer in real_prints.run(bench.data).items():
        bench.details[f"fingerprints, {name}"] = answer
        _add_real(bench, name, answer)
        for compared in ("minutiae", "squares") if KINDS[name] == PLATE else ("minutiae",):
            _add_stored(bench, name, compared, answer)
    moved = moved_prints.run_real(bench.data, bench.work)
    moved |= moved_prints.run_made(bench.data, bench.work)
    for name, answer in moved.items():
        bench.details[f"fingerprints, moved, {name}"] = answer
        _add_moved(bench, name, answer)
    chapter = "the chapter's uniform 20 %"
    for squares in UNIFORM_SQUARES:
        add_store(bench, chapter, SquareStatistics.uniform(squares), limit=LONGEST_LOOK_UP)
    real = RealPrints.read(bench.data)
    for name, kind in MEASURED.items():
        add_store(bench, name, SquareStatistics(*square_statistics(kind, real)))


def _add(bench: Bench, title: str, value: float, unit: str, note: str) -> None:
    bench.add(Figure("fingerprints", title, value, unit, note=note))


def _add_verification(bench: Bench, name: str, answer: dict[str, float]) -> None:
    note = (
        f"{answer['missed']:.1%} of the pairs of a finger lie below the 1 % most similar others; "
        f"{answer['microseconds']:.3g} us a pair"
    )
    _add(bench, f"all pairs compared by {name}, rank-1 hits", answer["rank-1 hits"], "prints", note)


def _add_real(bench: Bench, name: str, answer: dict[str, Any]) -> None:
    note = (
        f"of {answer['prints']} prints, candidates verified by rigid alignment; the mean of "
        f"{real_prints.FAMILIES} choices of functions"
    )
    _add(bench, f"{name}, rank-1 hits", answer["rank-1 hits"], "prints", note)
    for rate in Errors._fields:
        value, predicted = answer["observed"][rate], answer["from pairs"][rate]
        others = [
            f"{how} {answer[how][rate]:.4f} +- {answer[how]['standard errors'][rate]:.4f}"
            for how in ("from squares", "from made prints")
            if how in answer
        ]
        note = (
            f"one choice of functions +- {answer['standard deviation of one family'][rate]:.4f}; "
            f"{', '.join(others)}; of other fingers +- "
            f"{answer['standard errors by jackknife over fingers'][rate]:.3f}"
        )
        bench.add(
            Figure(
                *("fingerprints", f"{name}, candidates, {rate.replace('_', ' ')}"),
                *(value, "of pairs"),
                target=f"{predicted:.4f} as predicted from pairs, +- {CLOSE_ENOUGH:.0%}",
                reached=abs(value - predicted) <= CLOSE_ENOUGH * predicted,
                note=note,
            )
        )


def _add_moved(bench: Bench, name: str, answer: dict[str, float]) -> None:
    note = (
        f"looked at {answer['looked at']:.2%} of the prints, found {answer['found']:.1%} of those "
        f"of the finger; {answer['milliseconds']:.3g} ms of processor"
    )
    _add(
        bench,
        f"turned by any angle and shifted, {name}, rank-1",
        answer["rank-1"],
        "of prints",
        note,
    )


def _add_stored(bench: Bench, name: str, compared: str, predicted: dict[str, Any]) -> None:
    """Report the same prints searched in stores, and both errors at each threshold."""
    answer = in_child(
        f"{real_prints.HERE}:stored",
        cores=1,
        **{"data": str(bench.data), "name": name, "measure": compared, "work": str(bench.work)},
    )
    title = f"{name}, searched in stores, compared by {compared}"
    bench.details[f"fingerprints, {title}"] = answer
    note = (
        f"of {answer['prints']}; looked at {answer['looked_at']:.4f} of other fingers' prints, one "
        f"store +- {answer['standard deviation of one store']:.4f}; p50 {answer['p50']:.3g} ms"
    )
    bench.add(Figure("fingerprints", f"{title}, rank-1 hits", answer["rank-1 hits"], "", note=note))
    for threshold, all_pairs in predicted["verified"][compared].items():
        rates = answer["verified"][threshold]
        wrong, missed = (
            ", ".join(f"{all_pairs[how][rate]:.5f} {how}" for how in ("from pairs", "all pairs"))
            for rate in Errors._fields
        )
        note = f"{wrong}; false negatives {rates['false_negatives']:.4f}, {missed}"
        figure = f"{title}, false positives at {threshold}"
        bench.add(Figure("fingerprints", figure, rates["false_positives"], "of pairs", note=note))

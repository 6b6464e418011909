"""Real fingerprints: candidates, false positives and negatives, beside three predictions.

1. *From squares*: prints of independent squares, with the measured density of each square, how
   often prints of a finger keep it, and how full prints are.
2. *From made prints*: minutiae with the measured densities, directions, numbers, and shares that
   prints of a finger have in common (``tools.make_fingerprints``).
3. *From pairs*: of each pair of prints the measured share of all functions that say yes to both;
   AND and OR of so many functions then follow. Functions are not those that are observed.

The first two also predict prints that are not there; the third leaves nothing out but the choice
of functions, and tells by how much what the others leave out, the differences between pairs,
changes the rates.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import simdb
from simdb.kinds import Fingerprint
from simdb.kinds.fingerprints import (
    FingerprintItems,
    FingerprintMeasure,
    Prints,
    SquaresFamily,
    share_of_functions,
)
from simdb.lsh.amplification import And, Or
from tools.benchmarks import stores
from tools.benchmarks.timing import timed_each
from tools.make_fingerprints import SIDE, Statistics, made_prints, read_minutiae
from tools.print_rates import Rates, candidate_pairs, rates_of, simulated_rates

HERE = "tools.benchmarks.real_prints"
REAL_FILE = "fingerprints/fvc_minutiae.csv"
FAMILIES = 40  # that differ in their secret, over which observed rates are averaged
STORES = 20  # the same, of stores on disk
LARGEST_FAMILIES = 8  # of 4 x 65,536 functions, by which shares of functions are measured
MADE_SETS, MADE_FINGERS = 8, 300
LOWEST = 0.01  # similarity of what a store answers with

KINDS = {
    "plate grid": Fingerprint(SIDE, SIDE),
    "grids at minutiae, 1,024 functions": Fingerprint(
        SIDE, SIDE, alignment="shift", square=24, reach=120, sectors=8, rotation=30
    ),
    "grids at minutiae, 8,192 functions": Fingerprint(
        SIDE, SIDE, alignment="shift", square=16, reach=96, sectors=8, functions=8_192, rotation=30
    ),
}
PLATE = KINDS["plate grid"]
COMPARED = {
    "minutiae": Fingerprint(SIDE, SIDE, rotation=30),
    "squares": Fingerprint(SIDE, SIDE, measure="squares"),
}
THRESHOLDS = {"minutiae": (0.1, 0.15, 0.2, 0.25), "squares": (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)}

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]


class Errors(NamedTuple):
    """What is wrong of all pairs, as shares.

    Attributes:
        false_positives: of the pairs of different fingers.
        false_negatives: of the pairs of one finger.
    """

    false_positives: float
    false_negatives: float

    @classmethod
    def of(cls, accepted: Truths | Floats, mated: Truths) -> Errors:
        """Return those of pairs that are accepted, or are with some probability."""
        return cls(float(accepted[~mated].mean()), 1.0 - float(accepted[mated].mean()))


class RealPrints(NamedTuple):
    """Prints and all pairs of them.

    Attributes:
        prints: minutiae, float64 (m, 3) each.
        fingers: int64 (n,), whose each print is.
        left, right: int64 (pairs,).
        mated: bool (pairs,), whether a pair is of one finger.
    """

    prints: list[Floats]
    fingers: Integers
    left: Integers
    right: Integers
    mated: Truths

    @classmethod
    def read(cls, data: Path) -> RealPrints:
        """Read the prints of a data folder."""
        prints, fingers = read_minutiae(data / REAL_FILE)
        left, right = np.triu_indices(len(prints), 1)
        return cls(prints, fingers, left, right, fingers[left] == fingers[right])

    def features(self, kind: Fingerprint) -> Prints:
        """Return them as a kind sees them."""
        return features_of(kind, self.prints)

    def similarities(self, kind: Fingerprint) -> Floats:
        """Compare all pairs."""
        measure = FingerprintMeasure(kind)
        return measure.compare_pairs(self.features(kind), self.left, self.right).values()

    def hits(self, accepted: Truths, values: Floats) -> int:
        """Return of how many prints the most similar accepted one is of the same finger."""
        square = np.zeros((len(self.fingers), len(self.fingers)))
        square[self.left, self.right] = values * accepted
        square += square.T
        best = square.argmax(axis=1)
        return int(((self.fingers[best] == self.fingers) & (square.max(axis=1) > 0)).sum())

    def jackknife(self, accepted: Floats) -> Errors:
        """Return the standard errors of rates as of other fingers, by leaving each one out."""
        without = []
        for left_out in np.unique(self.fingers):
            stay = (self.fingers[self.left] != left_out) & (self.fingers[self.right] != left_out)
            without.append(Errors.of(accepted[stay], self.mated[stay]))
        spread = np.array(without)
        many = len(spread)
        squares = ((spread - spread.mean(axis=0)) ** 2).sum(axis=0)
        return Errors(*np.sqrt((many - 1) / many * squares).tolist())


def features_of(kind: Fingerprint, prints: Sequence[Floats]) -> Prints:
    """Return prints as a kind sees them."""
    items = FingerprintItems(kind)
    return items.features([items.encode(one) for one in prints])


def families(kind: Fingerprint, count: int) -> list[SquaresFamily]:
    """Return some families that differ in their secret."""
    return [SquaresFamily(kind, b"bench%d" % number) for number in range(count)]


def run(
    data: Path, names: Sequence[str] = tuple(KINDS), fingers: int = MADE_FINGERS
) -> dict[str, Any]:
    """Measure the prints of a data folder under some kinds, and predict."""
    real = RealPrints.read(data)
    compared = {name: real.similarities(kind) for name, kind in COMPARED.items()}
    statistics = Statistics.measured(real.prints, real.fingers)
    made = [made_prints(statistics, fingers, seed=seed) for seed in range(MADE_SETS)]
    return {name: _rates(KINDS[name], real, compared, made) for name in names}


def _rates(
    kind: Fingerprint,
    real: RealPrints,
    compared: dict[str, Floats],
    made: list[tuple[Sequence[Floats], Sequence[Floats]]],
) -> dict[str, Any]:
    found = observed(kind, real)
    shares = shares_of_pairs(kind, real)
    both = And(kind.groups, Or(kind.functions))
    chances = both.probability(shares)
    alike = np.where(real.mated, shares[real.mated].mean(), shares[~real.mated].mean())
    rates = np.array([Errors.of(one, real.mated) for one in found])
    answer: dict[str, Any] = {
        "prints": len(real.prints),
        "observed": Errors(*rates.mean(axis=0).tolist())._asdict(),
        "standard deviation of one family": Errors(*rates.std(axis=0, ddof=1).tolist())._asdict(),
        "from pairs": Errors.of(chances, real.mated)._asdict(),
        "from pairs as if alike": Errors.of(both.probability(alike), real.mated)._asdict(),
        "standard errors by jackknife over fingers": real.jackknife(chances)._asdict(),
        "from made prints": _spread([from_made_prints(kind, one) for one in made]),
        "rank-1 hits": float(np.mean([real.hits(one, compared["minutiae"]) for one in found])),
        "verified": {},
    }
    if kind == PLATE:
        answer["from squares"] = _spread(from_squares(kind, real))
    share = found.mean(axis=0)
    for name, values in compared.items():
        if name == "squares" and kind != PLATE:
            continue
        answer["verified"][name] = {
            str(threshold): {
                "all pairs": Errors.of(values >= threshold, real.mated)._asdict(),
                "observed": Errors.of(share * (values >= threshold), real.mated)._asdict(),
                "from pairs": Errors.of(chances * (values >= threshold), real.mated)._asdict(),
            }
            for threshold in THRESHOLDS[name]
        }
    return answer


def _spread(rates: list[Rates]) -> dict[str, Any]:
    """Return the means, and the standard errors of the means."""
    errors = np.std(rates, axis=0, ddof=1) / len(rates) ** 0.5
    return {
        **Errors(*np.mean(rates, axis=0).tolist())._asdict(),
        "standard errors": Errors(*errors.tolist())._asdict(),
    }


def observed(kind: Fingerprint, real: RealPrints) -> Truths:
    """Return which pairs are candidates of which family, bool (families, pairs)."""
    features = real.features(kind)
    found = []
    for family in families(kind, FAMILIES):
        signatures = family.sign(features)
        found.append(candidate_pairs(family, signatures[real.left], signatures[real.right]))
    return np.array(found)


# -- predictions ---------------------------------------------------------------------------------


def shares_of_pairs(kind: Fingerprint, real: RealPrints) -> Floats:
    """Return of each pair the share of all functions that say yes to both prints.

    A family draws each function alike and independently of the others. So AND and OR of this share
    are the probability, over the choice of functions, that the two are candidates. It follows from
    the number of squares in common where there is one grid, and is measured on two million other
    functions where there is one around each minutia.
    """
    from simdb.kernels import bits

    features = real.features(kind)
    if not kind.around_minutiae:
        columns, rows = kind.plate_grid
        shared, _ = bits.compare_rows(features.grids, features.grids, real.left, real.right)
        return share_of_functions(shared, columns * rows * kind.sectors, kind.squares_a_function)
    largest = kind.changed(functions=65_536, groups=4)
    total = np.zeros(len(real.mated))
    for number in range(LARGEST_FAMILIES):
        family = SquaresFamily(largest, b"share%d" % number)
        yes = family.yes(family.sign(features)).view(np.uint64)
        total += bits.compare_rows(yes, yes, real.left, real.right)[0]
    return total / (LARGEST_FAMILIES * largest.functions * largest.groups)


def from_squares(kind: Fingerprint, real: RealPrints) -> list[Rates]:
    """Simulate with the densities of the squares, how often mates keep them, and fullness."""
    densities, kept, fullness = square_statistics(kind, real)
    return [
        simulated_rates(family, densities, kept, fullness=fullness, prints=MADE_FINGERS, seed=seed)
        for seed, family in enumerate(families(kind, FAMILIES))
    ]


def square_statistics(kind: Fingerprint, real: RealPrints) -> tuple[Floats, Floats, Floats]:
    """Return densities of the squares on the plate, how often mates keep them, and fullness."""
    columns, rows = kind.plate_grid
    data = real.features(kind).grids.astype("<u8").view(np.uint8)
    bits = np.unpackbits(data, axis=1, bitorder="little")[:, : columns * rows * kind.sectors]
    occupied = bits.astype(np.bool_)
    left, right = occupied[real.left[real.mated]], occupied[real.right[real.mated]]
    both, either = 2.0 * (left & right).sum(axis=0), left.sum(axis=0) + right.sum(axis=0)
    kept = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    filled = occupied.sum(axis=1)
    return occupied.mean(axis=0), kept, filled / filled.mean()


def from_made_prints(kind: Fingerprint, made: tuple[Sequence[Floats], Sequence[Floats]]) -> Rates:
    """Sign two made prints of each of many fingers; return the means over some families."""
    first, second = (features_of(kind, many) for many in made)
    rates = []
    for family in families(kind, FAMILIES // MADE_SETS):
        signed = [family.sign(features) for features in (first, second)]
        others = rates_of(family, signed[0], np.arange(len(first)))
        missed = float((~candidate_pairs(family, *signed)).mean())
        rates.append(Rates(others.looked_at, missed))
    return Rates(*np.mean(rates, axis=0).tolist())


# -- stores --------------------------------------------------------------------------------------


def stored(data: str, name: str, measure: str, work: str) -> dict[str, Any]:
    """Search stores of the real prints for each of them; count what is compared and accepted.

    Stores differ in their secret; rates are means over all of them.
    """
    real = RealPrints.read(Path(data))
    kind = KINDS[name].changed(measure=COMPARED[measure].measure)
    thresholds = THRESHOLDS[measure]
    counted = []
    milliseconds: list[float] = []
    for seed in range(1, STORES + 1):
        with tempfile.TemporaryDirectory(dir=work) as folder:
            path = Path(folder) / "prints.simdb"
            with simdb.open(path) as database:
                collection = database.collection(stores.NAME, kind, threshold=LOWEST, seed=seed)
                collection.add_many(enumerate(real.prints))
            with simdb.open(path, read_only=True) as database:
                collection = database[stores.NAME]
                counted.append(_counted(collection, real, thresholds))
                milliseconds.append(timed_each(collection.search, real.prints)["p50"])
    looked_at, hits, *verified = np.mean(counted, axis=0).tolist()
    return {
        "prints": len(real.prints),
        "looked_at": looked_at,
        "standard deviation of one store": float(np.std(counted, axis=0, ddof=1)[0]),
        "rank-1 hits": hits,
        "p50": float(np.median(milliseconds)),
        "verified": {
            str(threshold): Errors(*verified[2 * place : 2 * place + 2])._asdict()
            for place, threshold in enumerate((LOWEST, *thresholds))
        },
    }


def _counted(
    collection: simdb.Collection, real: RealPrints, thresholds: Sequence[float]
) -> list[float]:
    """Return the share looked at, rank-1 hits, and both errors at the lowest and each threshold."""
    count = len(real.prints)
    similar = np.zeros((count, count))
    hits, compared = 0, 0
    for place, minutiae in enumerate(real.prints):
        answer = collection.search(minutiae, min_recall=0)
        found = [match for match in answer if match.key != place]
        compared += answer.candidates - (len(answer) - len(found))
        similar[place, [int(match.key) for match in found]] = [match.similarity for match in found]
        hits += bool(found) and real.fingers[int(found[0].key)] == real.fingers[place]
    same = real.fingers[:, None] == real.fingers
    others, mates = ~same, same & ~np.eye(count, dtype=np.bool_)
    rates: list[float] = []
    for threshold in (LOWEST, *thresholds):
        accepted = similar >= threshold
        rates += [float(accepted[others].mean()), 1.0 - float(accepted[mates].mean())]
    looked_at = (compared - int((similar[mates] > 0).sum())) / int(others.sum())
    return [looked_at, float(hits), *rates]

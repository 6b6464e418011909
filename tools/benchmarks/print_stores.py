"""Stores of many made fingerprints: built once, looked up in, and beside what is predicted.

The prints are of independent squares, as the simulation of ``lsh.fingerprints`` has them: of the
chapter's uniform density, or of densities, fullness and kept squares that were measured.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import simdb
from simdb.kinds import Fingerprint
from simdb.kinds.fingerprints import SquaresFamily, share_of_functions
from simdb.lsh.amplification import And, Or
from simdb.storage.file.creation import FORMAT_VERSION
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure
from tools.benchmarks.timing import timed_each
from tools.print_rates import candidate_pairs, packed, second_prints, simulated_rates

HERE = "tools.benchmarks.print_stores"
LONGEST_ROW = 1_000  # squares
MADE_TOGETHER, STORED_TOGETHER = 1_000, 10_000  # prints
QUERIES, PROBED_PARTS = 200, 10  # timed, and of how many parts of the prints
MOST_QUERIES, LONG_ENOUGH = 2_000, 60.0  # counted, while they take less than some seconds
KEPT = 0.8  # the chapter's: of its squares that a second print of a finger occupies too
LEAST_SIMILARITY = 0.5  # of the chapter's second prints about 0.67 is expected
BOOK_SHARE = 0.063**2
SHARE_TOLERANCE = 0.1
SIMULATED_SQUARES, SIMULATED_PAIRS = 10_000_000, 20_000_000

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]


class SquareStatistics(NamedTuple):
    """What prints of independent squares are made from.

    Attributes:
        densities: float64 (squares,), how often each is occupied.
        kept: float64 (squares,), how often a second print of the finger occupies one too.
        fullness: factors on the densities, one of which every finger draws; None: all are alike.
    """

    densities: Floats
    kept: Floats
    fullness: Floats | None = None

    @classmethod
    def uniform(cls, squares: int, density: float = 0.2, kept: float = KEPT) -> SquareStatistics:
        """Return those of the chapter (MMDS 3.8.5)."""
        return cls(np.full(squares, density), np.full(squares, kept))

    @classmethod
    def of_plain(cls, plain: dict[str, list[float] | None]) -> SquareStatistics:
        """Return what ``plain`` made plain values of."""
        arrays = {name: None if one is None else np.array(one) for name, one in plain.items()}
        return cls(**arrays)  # type: ignore[arg-type]

    def plain(self) -> dict[str, list[float] | None]:
        """Return lists, for another process."""
        return {name: None if one is None else one.tolist() for name, one in self._asdict().items()}

    def made(self, part: int, count: int, seed: int) -> tuple[Truths, Floats]:
        """Draw a part of the prints, bool (count, squares), and the chances of their squares."""
        random = np.random.default_rng([seed, part])
        wanted = self.densities[None]
        if self.fullness is not None:
            wanted = np.minimum(wanted * random.choice(self.fullness, (count, 1)), 1.0)
        # Numbers of 16 bits are drawn twice as fast; densities are rounded to 1 in 65,536.
        drawn = random.integers(0, 65_536, (count, self.densities.size), np.uint16)
        occupied: Truths = drawn < np.rint(wanted * 65_536)
        occupied[~occupied.any(axis=1), 0] = True  # a print without a square is none
        return occupied, np.broadcast_to(wanted, occupied.shape)

    def expected(self, kind: Fingerprint) -> float | None:
        """Return the share of other prints that are candidates, in the mean over all functions.

        Uniform squares that two prints share are binomial, which needs no simulation; None of
        others.
        """
        from scipy import stats

        density = float(self.densities[0])
        if self.fullness is not None or (self.densities != density).any():
            return None
        squares = self.densities.size
        shared = np.arange(squares + 1)
        likely = stats.binom.pmf(shared, squares, density**2)
        share = share_of_functions(shared, squares, kind.squares_a_function)
        return float(likely @ And(kind.groups, Or(kind.functions)).probability(share))


def squares_kind(squares: int) -> Fingerprint:
    """Return the kind of prints that are given as occupied squares."""
    rows = -(-squares // LONGEST_ROW)
    return Fingerprint(
        squares // rows, rows, items="squares", measure="squares", square=1, border=0
    )


def build(path: str, count: int, statistics: dict[str, Any], seed: int) -> dict[str, Any]:
    """Store ``count`` made prints in batches; time what the store does, and not the making."""
    file = Path(path)
    stores.remove(file)
    made_of = SquareStatistics.of_plain(statistics)
    seconds = processor = 0.0
    with simdb.open(file) as database:
        kind = squares_kind(made_of.densities.size)
        collection = database.collection(stores.NAME, kind, threshold=LEAST_SIMILARITY, seed=1)
        for begin in range(0, count, STORED_TOGETHER):
            rows = []
            for part in range(begin, min(begin + STORED_TOGETHER, count), MADE_TOGETHER):
                made, _ = made_of.made(part, min(MADE_TOGETHER, count - part), seed)
                rows += list(enumerate(map(np.flatnonzero, made), part))
            began, worked = time.perf_counter(), time.process_time()
            collection.add_many(rows)
            seconds += time.perf_counter() - began
            processor += time.process_time() - worked
        began, worked = time.perf_counter(), time.process_time()
    return {
        "seconds": seconds + time.perf_counter() - began,
        "processor": processor + time.process_time() - worked,
        "bytes": file.stat().st_size,
    }


class Probes(NamedTuple):
    """Second prints of stored fingers.

    Attributes:
        owners: keys of the first prints.
        first: bool (n, squares), those prints.
        second: bool (n, squares).
    """

    owners: list[int]
    first: Truths
    second: Truths

    @classmethod
    def made(cls, statistics: SquareStatistics, count: int, seed: int) -> Probes:
        """Make second prints of some fingers, in an order by chance."""
        random = np.random.default_rng([seed, count, MOST_QUERIES])
        parts = range(0, count, MADE_TOGETHER)
        owners, first, second = [], [], []
        for part in random.choice(parts, min(PROBED_PARTS, len(parts)), replace=False).tolist():
            made, wanted = statistics.made(part, min(MADE_TOGETHER, count - part), seed)
            share = min(len(made), MOST_QUERIES // PROBED_PARTS)
            chosen = random.choice(len(made), share, replace=False)
            owners += (part + chosen).tolist()
            first.append(made[chosen])
            second.append(
                second_prints(
                    random, made[chosen], wanted[chosen], statistics.densities, statistics.kept
                )
            )
        order = random.permutation(len(owners))
        truths = [np.concatenate(each)[order] for each in (first, second)]
        truths[1][~truths[1].any(axis=1), 0] = True
        return cls([owners[place] for place in order.tolist()], *truths)


def look_ups(path: str, count: int, statistics: dict[str, Any], seed: int) -> dict[str, Any]:
    """Search for second prints of stored fingers; count how many are compared and found."""
    made_of = SquareStatistics.of_plain(statistics)
    probes = Probes.made(made_of, count, seed)
    prints = list(map(np.flatnonzero, probes.second))
    stores.read_file(Path(path))
    compared, found, first = [], [], []
    with simdb.open(path, read_only=True) as database:
        collection = database[stores.NAME]
        for one in prints[:QUERIES]:
            collection.search(one)  # compiles, and brings in what is read
        timed = timed_each(collection.search, prints[:QUERIES])
        began = time.perf_counter()
        for own, one in zip(probes.owners, prints, strict=True):
            answer = collection.search(one)
            keys = [match.key for match in answer]
            compared.append(answer.candidates)
            found.append(own in keys)
            first.append([own] == keys[:1])
            if len(found) >= QUERIES and time.perf_counter() - began > LONG_ENOUGH:
                break
        stored = collection.search(prints[0], guarantee="exact")
        with collection._opened() as opened:
            signer = opened.signer
            family = signer.family  # where densities differ much depends on which squares it has
    assert isinstance(family, SquaresFamily)
    signatures = [packed(family, squares[: len(found)]) for squares in probes[1:]]
    mates = candidate_pairs(family, *signatures)
    others = (np.array(compared) - mates) / (count - 1)
    fingers = max(500, min(10_000, SIMULATED_SQUARES // made_of.densities.size))
    predicted = simulated_rates(
        *(family, made_of.densities, made_of.kept),
        fullness=made_of.fullness,
        prints=fingers,
        pairs=SIMULATED_PAIRS,
    )
    return {
        "milliseconds": timed,
        "look-ups": len(found),
        "share": float(others.mean()),
        "standard error": float(others.std() / len(others) ** 0.5),
        "false negatives": 1.0 - float(mates.mean()),
        "found": float(np.mean(found)),
        "rank-1 hits": float(np.mean(first)),
        "simulated": predicted._asdict(),
        "expected": made_of.expected(squares_kind(made_of.densities.size)),
        "compared by brute force": stored.candidates,
        "prints": count,
    }


def add_store(
    bench: Bench,
    name: str,
    statistics: SquareStatistics,
    *,
    count: int | None = None,
    limit: float | None = None,
) -> None:
    """Report look-ups in a store of made prints, which is built unless it is there."""
    count = bench.count if count is None else count
    squares = statistics.densities.size
    version = FORMAT_VERSION
    path = bench.work / f"squares-{count}-{squares}-{bench.seed}-{version}.simdb"
    settings: dict[str, Any] = {
        "count": count,
        "statistics": statistics.plain(),
        "seed": bench.seed,
    }
    title = f"{count:,} prints of {squares:,} squares, {name}"
    if not path.exists():
        unfinished = path.with_suffix(".building")
        built = in_child(f"{HERE}:build", path=str(unfinished), **settings)
        unfinished.rename(path)
        stores.remove(unfinished)
        bench.details[f"fingerprints, {title}, built"] = built
        note = (
            f"{built['processor']:.0f} s of the processor; {count / built['seconds']:,.0f} "
            f"prints/s, {built['bytes'] / count:,.0f} bytes each"
        )
        bench.add(Figure("fingerprints", f"{title}, build", built["seconds"], "s", note=note))
    answer = in_child(f"{HERE}:look_ups", cores=1, path=str(path), **settings)
    bench.details[f"fingerprints, {title}"] = answer
    _add_time(bench, title, answer["milliseconds"], limit)
    _add_share(bench, title, answer)


def _add_time(bench: Bench, title: str, taken: dict[str, float], limit: float | None) -> None:
    note = (
        f"p99 {taken['p99']:.3g} ms; of the processor p50 {taken['processor_p50']:.3g}, "
        f"p99 {taken['processor_p99']:.3g} ms"
    )
    line: tuple[str, str, float, str] = (
        *("fingerprints", f"{title}, look-up, p50"),
        *(taken["p50"], "ms"),
    )
    if limit is None:
        bench.add(Figure(*line, note=note))
    else:
        bench.at_most(*line, limit=limit, note=note)


def _add_share(bench: Bench, title: str, answer: dict[str, Any]) -> None:
    simulated = answer["simulated"]
    exact = answer["expected"]
    share = simulated["looked_at"] if exact is None else exact
    how = "as simulated" if exact is None else "the mean over all functions"
    allowed = max(SHARE_TOLERANCE * share, 3 * answer["standard error"])
    note = (
        f"1 in {1 / max(answer['share'], 1e-9):,.1f} +- {answer['standard error']:.2g} of "
        f"{answer['look-ups']:,} look-ups; simulated with the store's functions 1 in "
        f"{1 / max(simulated['looked_at'], 1e-9):,.1f}; false negatives "
        f"{answer['false negatives']:.3f}, simulated {simulated['false_negatives']:.3f}; "
        f"rank-1 {answer['rank-1 hits']:.3f}; the chapter, with rounded figures: 1 in "
        f"{1 / BOOK_SHARE:,.0f}"
    )
    bench.add(
        Figure(
            *("fingerprints", f"{title}, looked at", answer["share"], "of prints"),
            target=f"1 in {1 / share:,.1f}, {how}, +- {SHARE_TOLERANCE:.0%} or 3 errors",
            reached=abs(answer["share"] - share) <= allowed,
            note=note,
        )
    )

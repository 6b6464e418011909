"""What each bound of the exact index saves: the filters of MMDS 3.9.3 to 3.9.6, one by one."""

from __future__ import annotations

from typing import Any

from simdb.exact.joins import Counters, Filters, self_join
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from tools.benchmarks.children import in_child
from tools.benchmarks.plots import columns
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.set_data import DATA_SETS, load_symbols
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.filters"

# Each adds one bound to those before it; position and suffix contains position.
LADDER = {
    "length": ("length",),
    "prefix": ("length", "prefix"),
    "position": ("length", "prefix", "position"),
    "position and suffix": ("length", "prefix", "position", "suffix"),
    "count": ("length", "prefix", "position", "suffix", "count"),
    "bitmap": ("length", "prefix", "position", "suffix", "count", "bitmap"),
}
BOUNDS = ("length", "prefix", "position", "suffix", "count", "bitmap")
JOINED = {"retail": "0.6", "kosarak": "0.6", "mushroom": "0.8"}


def filters_of(names: tuple[str, ...]) -> Filters:
    """Return the filters of these names, and no other."""
    return Filters(**{bound: bound in names for bound in BOUNDS})


def climb(sets: str, threshold: str) -> list[dict[str, Any]]:
    """Join with one filter more each time; return what had to be done."""
    values, offsets = load_symbols(sets)
    arranged = SymbolOrder.from_sample(values, offsets).arrange(values, offsets)
    wanted = Threshold.parse(threshold)
    for _ in self_join(arranged, wanted):  # compiles
        pass
    rungs = []
    for name, bounds in LADDER.items():
        counters, pairs = Counters(), 0

        def join(bounds: tuple[str, ...] = bounds) -> None:
            nonlocal counters, pairs
            counters = Counters()
            filters = filters_of(bounds)
            batches = self_join(arranged, wanted, filters=filters, counters=counters)
            pairs = sum(map(len, batches))

        timed = repeated(join, least=1)
        rungs.append(
            {
                "filters": name,
                "postings": counters.postings,
                "scanned": counters.scanned,
                "candidates": counters.candidates,
                "verified": counters.verified,
                "pairs": pairs,
                **timed,
            }
        )
    return rungs


def climbed(sets: str, threshold: str) -> dict[str, Any]:
    """Return ``climb`` as a child answers."""
    return {"rungs": climb(sets, threshold)}


@measure("filters", "what each filter of an exact join saves, one after the other")
def filters(bench: Bench) -> None:
    """Print postings scanned, candidates, verified pairs and time of every rung."""
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    for data_set in DATA_SETS:
        threshold = JOINED.get(data_set.name)
        if threshold is None:
            continue
        sets = data_set.prepare(bench.data, bench.work)
        rungs = in_child(f"{HERE}:climbed", cores=1, sets=str(sets), threshold=threshold)["rungs"]
        bench.details[f"filters, {data_set.name}, J {threshold}"] = rungs
        rows = [
            (
                *(("" if number == 0 else "and ") + rung["filters"],),
                *(f"{rung[name]:,}" for name in ("postings", "scanned", "candidates", "verified")),
                *(f"{rung['pairs']:,}", f"{rung['processor']:.3g} s"),
            )
            for number, rung in enumerate(rungs)
        ]
        headings = ("filters", "postings", "scanned", "candidates", "verified", "pairs", "time")
        for line in columns(headings, rows):
            bench.announce(line)
        _add_figures(bench, f"{data_set.name}, J {threshold}", rungs)


def _add_figures(bench: Bench, name: str, rungs: list[dict[str, Any]]) -> None:
    for before, rung in zip([None, *rungs[:-1]], rungs, strict=True):
        bench.add(
            Figure(
                "filters",
                f"{name}: {rung['filters']}",
                rung["processor"],
                "s",
                peer="" if before is None else "without it",
                peer_value=None if before is None else before["processor"],
                ratio=None if before is None else before["processor"] / rung["processor"],
                target="the same pairs",
                reached=rung["pairs"] == rungs[-1]["pairs"],
                note=f"{rung['pairs']:,} pairs; scanned {rung['scanned']:,}, candidates "
                f"{rung['candidates']:,}, verified {rung['verified']:,}",
            )
        )

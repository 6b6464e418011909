"""From sets to a durable, searchable store, against datasketch in memory on the same sets.

The sets are lists of integers in memory when the clock starts, and the sets of five or more
elements, as in the joins. Datasketch is measured in two forms: as its documentation shows it, one
``update`` an element, and as fast as it can be had, in batches, without a cryptographic hash
function, and without looking for repeated keys. Neither is durable: its index in memory is what is
compared with a closed file. Of each the best of several runs counts, by the clock, since a durable
store waits for the disk; the ratio of processor time, which other programs do not prolong, stands
beside it.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.set_data import DATA_SETS, DataSet, Integers, pack_pairs

HERE = "tools.benchmarks.set_ingest"
JOIN_PEERS = "tools.benchmarks.joining_peers"
NAMES = ("retail", "kosarak")
REPEATS = 3
SLOTS = 128
SAMPLE = 5_000  # sets that the slow form is given
WARM_UP = 3_000  # enough for the merges of small commits to be compiled
LEAST_README, LEAST_FASTEST = 10, 4


def rows_of(data: str, name: str) -> list[list[int]]:
    """Return the sets of a data set."""
    chosen = next(data_set for data_set in DATA_SETS if data_set.name == name)
    return chosen.rows(Path(data))


def ingest_sets(data: str, name: str, work: str, threads: int | None, pairs: str) -> dict[str, Any]:
    """Time simdb from lists to the closed store; then, unclocked, find the pairs."""
    rows = rows_of(data, name)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        _store(Path(folder) / "warm-up.simdb", rows[:WARM_UP], threads)
        seconds, working = [], []
        for number in range(REPEATS):
            path = Path(folder) / f"{number}.simdb"
            began, worked = time.perf_counter(), time.process_time()
            _store(path, rows, threads)
            working.append(time.process_time() - worked)
            seconds.append(time.perf_counter() - began)
        with simdb.open(path, read_only=True) as database:
            collection = database[stores.NAME]
            packed = [
                pack_pairs(
                    np.array(collection.keys_of(batch.left), np.int64),
                    np.array(collection.keys_of(batch.right), np.int64),
                    len(rows),
                )
                for batch in collection.pairs(stores.THRESHOLD).batches()
            ]
        size = path.stat().st_size
    np.save(pairs, np.sort(np.concatenate([np.empty(0, np.int64), *packed])))
    return {
        "seconds": min(seconds),
        "processor": min(working),
        "sets": len(rows),
        "elements": sum(map(len, rows)),
        "bytes": size,
    }


def _store(path: Path, rows: list[list[int]], threads: int | None) -> None:
    with simdb.open(path, threads=threads) as database:
        collection = database.collection(
            stores.NAME, simdb.Set(), threshold=stores.THRESHOLD, recall=0.99, seed=1
        )
        collection.add_many(enumerate(rows))


def datasketch_readme(data: str, name: str) -> dict[str, Any]:
    """Datasketch as its documentation shows it, on every n-th set."""
    library = importlib.import_module("datasketch")
    rows = rows_of(data, name)
    chosen = rows[:: max(1, len(rows) // SAMPLE)]
    began, worked = time.perf_counter(), time.process_time()
    index = library.MinHashLSH(threshold=stores.THRESHOLD, num_perm=SLOTS)
    for position, elements in enumerate(chosen):
        sketch = library.MinHash(num_perm=SLOTS)
        for element in elements:
            sketch.update(str(element).encode("utf8"))
        index.insert(str(position), sketch)
    seconds, working = time.perf_counter() - began, time.process_time() - worked
    share = sum(map(len, chosen)) / sum(map(len, rows))
    return {
        "seconds": seconds / share,
        "processor": working / share,
        "sampled": len(chosen),
        "bands": index.b,
        "rows": index.r,
    }


def datasketch_fastest(data: str, name: str, pairs: str) -> dict[str, Any]:
    """Datasketch's generator of sketches and the faster of its two ways of insertion.

    The elements are their own hash values, which its default scheme mixes.
    """
    library = importlib.import_module("datasketch")
    rows = rows_of(data, name)

    def sketches() -> Iterable[Any]:
        made: Iterable[Any] = library.MinHash.generator(rows, num_perm=SLOTS, hashfunc=int)
        return made

    def directly(index: Any) -> None:
        for position, sketch in enumerate(sketches()):
            index.insert(position, sketch, check_duplication=False)

    def in_session(index: Any) -> None:
        with index.insertion_session() as session:
            for position, sketch in enumerate(sketches()):
                session.insert(position, sketch, check_duplication=False)

    timed: list[tuple[float, str]] = []
    working: list[float] = []
    inserting: Callable[[Any], None]
    for inserting in (directly, in_session):
        for _ in range(REPEATS):
            began, worked = time.perf_counter(), time.process_time()
            index = library.MinHashLSH(threshold=stores.THRESHOLD, num_perm=SLOTS)
            inserting(index)
            working.append(time.process_time() - worked)
            timed.append((time.perf_counter() - began, inserting.__name__))
    seconds, form = min(timed)
    found: set[tuple[int, int]] = set()
    for position, sketch in enumerate(sketches()):
        found.update((other, position) for other in index.query(sketch) if other < position)
    columns = np.array(sorted(found), np.int64).reshape(-1, 2)
    np.save(pairs, pack_pairs(columns[:, 0], columns[:, 1], len(rows)))
    return {
        "seconds": seconds,
        "processor": min(working),
        "form": form,
        "bands": index.b,
        "rows": index.r,
    }


@measure("set_ingest", "sets to a durable searchable store, against datasketch in memory")
def set_ingest(bench: Bench) -> None:
    """Measure the shop baskets and the click sessions; peers work on one core."""
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    for data_set in DATA_SETS:
        if data_set.name in NAMES:
            _Comparison(bench, data_set).run()


class _Comparison:
    """The figures of one data set."""

    def __init__(self, bench: Bench, data_set: DataSet) -> None:
        self._bench = bench
        self._name = data_set.name
        self._data = str(bench.data)
        self._pairs = bench.work / f"set-ingest-{data_set.name}.npy"
        self._truth = self._true_pairs(data_set)

    def _true_pairs(self, data_set: DataSet) -> Integers | None:
        """Return the pairs that SetSimilaritySearch finds, None if it is not installed."""
        data = self._bench.data or Path()
        answer = in_child(
            f"{JOIN_PEERS}:set_similarity_search",
            cores=1,
            sets=str(data_set.prepare(data, self._bench.work)),
            threshold=str(stores.THRESHOLD),
            pairs=str(self._pairs),
        )
        if "absent" in answer:
            return None
        pairs: Integers = np.load(self._pairs)
        return pairs

    def _quality(self) -> str:
        found = np.load(self._pairs)
        if self._truth is None:
            return f"{found.size:,} pairs"
        right = np.intersect1d(found, self._truth).size
        return (
            f"recall {right / max(1, self._truth.size):.3f}, "
            f"precision {right / max(1, found.size):.3f} of {self._truth.size:,} pairs"
        )

    def run(self) -> None:
        """Measure simdb on one core and on all, then both forms of the peer."""
        own = self._simdb(1)
        cores = len(os.sched_getaffinity(0))
        if cores > 1:
            self._simdb(cores)
        answer = in_child(f"{HERE}:datasketch_readme", cores=1, data=self._data, name=self._name)
        note = f"its rate on a sample of {answer.get('sampled', 0):,}"
        self._against("datasketch, as documented", answer, own, LEAST_README, note)
        answer = in_child(
            f"{HERE}:datasketch_fastest",
            cores=1,
            data=self._data,
            name=self._name,
            pairs=str(self._pairs),
        )
        note = "" if "absent" in answer else f"inserted {answer['form']}; {self._quality()}"
        self._against("datasketch, fastest", answer, own, LEAST_FASTEST, note)
        self._pairs.unlink()

    def _simdb(self, cores: int) -> dict[str, Any]:
        answer = in_child(
            f"{HERE}:ingest_sets",
            cores=cores,
            data=self._data,
            name=self._name,
            work=str(self._bench.work),
            threads=1 if cores == 1 else None,
            pairs=str(self._pairs),
        )
        seconds: float = answer["seconds"]
        plan = simdb.plan(stores.THRESHOLD)
        self._bench.details[f"set ingest, {self._name}, {cores} cores"] = answer
        self._bench.add(
            Figure(
                "set_ingest",
                f"{self._name}, simdb, {cores} cores",
                seconds,
                "s",
                note=f"{answer['sets'] / seconds:,.0f} sets/s, {plan.bands} bands of {plan.rows} "
                f"rows, {self._quality()}, {answer['bytes']:,} bytes",
            )
        )
        return answer

    def _against(
        self, peer: str, answer: dict[str, Any], own: dict[str, Any], least: float, note: str
    ) -> None:
        seconds = answer.get("seconds")
        ratio = None if seconds is None else seconds / own["seconds"]
        self._bench.details[f"set ingest, {self._name}, {peer}"] = answer
        shown = f"{answer.get('absent')} is not installed"
        if seconds is not None:
            working = answer["processor"] / own["processor"]
            shown = f"{ratio:.1f} x ({working:.1f} x by processor time), "
            shown += f"{answer['bands']} bands of {answer['rows']} rows, {note}"
        self._bench.add(
            Figure(
                "set_ingest",
                f"{self._name}, against {peer}",
                own["seconds"],
                "s",
                peer="datasketch",
                peer_value=seconds,
                ratio=ratio,
                target=f"at least {least} x",
                reached=None if ratio is None else ratio >= least,
                note=shown,
            )
        )

"""Exact self-joins of real sets, from arrays and from a store, against the peers.

The kernel begins with sets arranged in an order of symbols, which one arrangement gives for all
joins, and the store has arranged its items when they came. The peers order their symbols within
their clocks, so the ratio with arranging inside ours as well stands beside it.
"""

from __future__ import annotations

import os
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.exact import joins as exact_joins
from simdb.exact.joins import PairColumns
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.work import Work
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.joining_peers import string_sim_join
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.set_data import (
    DATA_SETS,
    DataSet,
    Settled,
    load_symbols,
    pack_pairs,
    settle,
)
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.joins"
PEERS = "tools.benchmarks.joining_peers"
LONG = 5.0  # seconds of a peer, above which a join from the store is held against it
NAME = "sets"


def join_arrays(sets: str, threshold: str, pairs: str) -> dict[str, Any]:
    """Join arranged sets in memory; write the pairs, packed, to a file."""
    values, offsets = load_symbols(sets)
    wanted = Threshold.parse(threshold)
    SymbolOrder.from_sample(values).arrange(values, offsets)  # compiles
    began = time.process_time()
    arranged = SymbolOrder.from_sample(values).arrange(values, offsets)
    arranging = time.process_time() - began
    found: list[PairColumns] = []

    def join() -> None:
        found[:] = exact_joins.pairs(arranged, wanted)

    timed = repeated(join)
    work = Work()
    for _ in exact_joins.pairs(arranged, wanted, work=work):
        pass
    count = len(arranged)
    none = np.empty(0, np.int64)
    left = np.concatenate([none, *(batch.left for batch in found)])
    right = np.concatenate([none, *(batch.right for batch in found)])
    np.save(pairs, pack_pairs(left, right, count))
    return {
        **timed,
        "arranging": arranging,
        "pairs": left.size,
        "sets": count,
        "symbols": int(offsets[-1]),
        "scanned": work.looked_at,
        "candidates": work.candidates,
        "verified": work.compared,
    }


def build_store(path: str, data: str, name: str, floor: str) -> dict[str, Any]:
    """Store the items of a data set, keys their positions, with an exact index."""
    chosen = next(one for one in DATA_SETS if one.name == name)
    rows = chosen.rows(Path(data))
    stores.remove(Path(path))
    began = time.perf_counter()
    with simdb.open(path) as database:
        _open(database, chosen, floor).add_many(enumerate(rows))
    return {"seconds": time.perf_counter() - began, "items": len(rows)}


def join_store(path: str, threshold: str, pairs: str) -> dict[str, Any]:
    """Stream the pairs of a store in column batches, warm; write them, packed, to a file."""
    stores.read_file(Path(path))
    found: list[simdb.PairBatch] = []
    threads = len(os.sched_getaffinity(0))
    with simdb.open(path, read_only=True, threads=threads) as database:
        collection = database[NAME]

        def join() -> None:
            found[:] = collection.pairs(threshold, guarantee="exact").batches()

        join()
        timed = repeated(join)
        count = len(collection)
        empty = np.empty(0, np.uint32)
        left = np.concatenate([empty, *(batch.left for batch in found)])
        right = np.concatenate([empty, *(batch.right for batch in found)])
        numbers = np.unique(np.concatenate([left, right]))
        keys = np.array(collection.keys_of(numbers), np.int64)
    one, other = (keys[np.searchsorted(numbers, side)] for side in (left, right))
    np.save(pairs, pack_pairs(one, other, count))
    return {**timed, "pairs": left.size}


@measure("joins", "exact self-joins of real sets, in memory and from a store, against the peers")
def joins(bench: Bench) -> None:
    """Measure every data set at its thresholds; one core unless said otherwise."""
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    for data_set in DATA_SETS:
        sets = data_set.prepare(bench.data, bench.work)
        store = bench.work / f"joins-{data_set.name}.simdb"
        floor = min(data_set.thresholds)
        built = in_child(
            f"{HERE}:build_store",
            path=str(store),
            data=str(bench.data),
            name=data_set.name,
            floor=floor,
        )
        bench.details[f"joins, {data_set.name}, store"] = built
        for threshold in data_set.thresholds:
            _Comparison(bench, f"{data_set.name}, J {threshold}", sets, threshold).run(store)
        stores.remove(store)


class _Comparison:
    """One data set at one threshold: every program's answer and time."""

    def __init__(self, bench: Bench, name: str, sets: Path, threshold: str) -> None:
        self.bench = bench
        self.name = name
        self.sets = sets
        self.threshold = threshold
        self.details: dict[str, Any] = {}
        bench.details[f"joins, {name}"] = self.details

    def run(self, store: Path) -> None:
        """Let every program join, and add the figures."""
        own = self._child("kernel", f"{HERE}:join_arrays")
        peers = {
            "SetSimilaritySearch": self._child("sss", f"{PEERS}:set_similarity_search"),
            "py_stringsimjoin": string_sim_join(
                self.bench.stringsimjoin, self.sets, self.threshold, self._pairs("ssj")
            ),
        }
        self.details |= peers
        least = {"SetSimilaritySearch": 100, "py_stringsimjoin": 30}
        for peer, answer in peers.items():
            self._against(peer, answer, own, least[peer])
        stored = self._child("store", f"{HERE}:join_store", path=str(store))
        everywhere = self._child("store, all cores", f"{HERE}:join_store", None, path=str(store))
        self._from_store(stored, everywhere, peers)
        for name in ("kernel", "sss", "ssj", "store", "store, all cores"):
            self._pairs(name).unlink(missing_ok=True)

    def _pairs(self, name: str) -> Path:
        return self.bench.work / f"pairs of {name}.npy"

    def _child(
        self, name: str, task: str, cores: int | None = 1, **parameters: object
    ) -> dict[str, Any]:
        if "path" not in parameters:
            parameters["sets"] = str(self.sets)
        pairs = str(self._pairs(name))
        answer = in_child(task, cores=cores, threshold=self.threshold, pairs=pairs, **parameters)
        self.details[name] = answer
        return answer

    def _settled(self, own: str, peer: str) -> Settled:
        sets = load_symbols(self.sets)
        answers = [np.load(self._pairs(name)) for name in (own, peer)]
        return settle(sets, Fraction(self.threshold), answers[0], answers[1])

    def _against(self, peer: str, answer: dict[str, Any], own: dict[str, Any], least: int) -> None:
        """Add the join in memory against one peer."""
        reached = None
        if "absent" in answer:
            note = f"{own['pairs']:,} pairs; {answer['absent']} is not installed"
        else:
            settled = self._settled("kernel", "sss" if peer == "SetSimilaritySearch" else "ssj")
            reached = answer["processor"] >= least * own["processor"] and settled.is_right
            whole = own["processor"] + own["arranging"]
            note = (
                f"{settled}; with arranging, {own['arranging']:.3g} s before that, "
                f"{answer['processor'] / whole:.1f} x; "
                f"by the clock {own['seconds']:.3g} s against {answer['seconds']:.3g} s"
            )
        self._add(
            "kernel",
            own["processor"],
            peer=peer,
            peer_seconds=answer.get("processor"),
            target=f"at least {least} x",
            reached=reached,
            note=note,
        )

    def _from_store(
        self, own: dict[str, Any], everywhere: dict[str, Any], peers: dict[str, dict[str, Any]]
    ) -> None:
        """Add the join from the store, against each peer that is there."""
        answers = [np.load(self._pairs(name)) for name in ("kernel", "store", "store, all cores")]
        right = all(np.array_equal(answers[0], other) for other in answers[1:])
        seconds = own["processor"]
        note = (
            f"{own['pairs']:,} pairs, {'those' if right else 'NOT those'} of the kernel; by the "
            f"clock {own['seconds']:.3g} s, on {os.cpu_count()} cores {everywhere['seconds']:.3g} s"
        )
        for peer, answer in peers.items():
            taken = answer.get("processor")
            target, reached = "", None
            if taken is not None:
                long = taken > LONG
                target = "at least 50 x" if long else "at most 0.2 s"
                reached = right and (taken >= 50 * seconds if long else seconds <= 0.2)
            self._add(
                "store",
                seconds,
                peer=peer,
                peer_seconds=taken,
                target=target,
                reached=reached,
                note=note,
            )

    def _add(
        self,
        way: str,
        seconds: float,
        *,
        peer: str,
        peer_seconds: float | None,
        target: str,
        reached: bool | None,
        note: str,
    ) -> None:
        ratio = None if peer_seconds is None else peer_seconds / seconds
        figure = Figure(
            "joins",
            f"{way}, {self.name}",
            seconds,
            "s",
            peer=peer,
            peer_value=peer_seconds,
            ratio=ratio,
            target=target,
            reached=reached,
            note=note,
        )
        self.bench.add(figure)


def _open(database: simdb.Database, data_set: DataSet, floor: str) -> simdb.Collection:
    kind: simdb.Text | simdb.Set = simdb.Set()
    if data_set.kind == "texts":
        kind = simdb.Text(simdb.WordShingles(3), lowercase=True)
    return database.collection(NAME, kind, threshold=None, exact_floor=floor, seed=1)

"""From text to a durable, searchable store, against the peers on the same texts."""

from __future__ import annotations

import os
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from tools.benchmarks import oracle, stores
from tools.benchmarks.children import in_child
from tools.benchmarks.corpora import load_texts
from tools.benchmarks.registry import Bench, Figure, measure

REPEATS = 3
BATCH = 1_000
PEERS = "tools.benchmarks.peers"
HERE = "tools.benchmarks.ingest"

Pairs = dict[tuple[int, int], float]


def ingest_texts(files: list[str], work: str, threads: int | None) -> dict[str, Any]:
    """Time simdb from texts in memory to the closed store; then, unclocked, find the pairs."""
    rows = load_texts(files)
    positions = {key: position for position, (key, _) in enumerate(rows)}
    with tempfile.TemporaryDirectory(dir=work) as folder:
        stores.warm_up(Path(folder))
        seconds = []
        for number in range(REPEATS):
            path = Path(folder) / f"{number}.simdb"
            began = time.perf_counter()
            with simdb.open(path, threads=threads) as database:
                stores.open_collection(database).add_many(rows)
            seconds.append(time.perf_counter() - began)
        with simdb.open(path, threads=threads, read_only=True) as database:
            collection = database[stores.NAME]
            began = time.perf_counter()
            found = [
                sorted((positions[str(pair.left)], positions[str(pair.right)]))
                for pair in collection.pairs(stores.THRESHOLD)
            ]
            pair_seconds = time.perf_counter() - began
        size = path.stat().st_size
    return {"seconds": seconds, "found": found, "pair_seconds": pair_seconds, "bytes": size}


def bare_kernels(files: list[str]) -> dict[str, Any]:
    """Time the shingle and sketch kernels alone on the encoded texts."""
    texts = [text.encode() for _, text in load_texts(files)]
    items, sketcher = stores.text_items(), stores.sketcher()
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    sketcher.sign(items.symbols(["Übergang".encode(), *batches[0]]))
    sketcher.sign(items.symbols(batches[0]))
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for batch in batches:
            sketcher.sign(items.symbols(batch))
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds}


def quality(found: Pairs | set[tuple[int, int]], truth: Pairs) -> str:
    """Say how many of the true pairs were found, and how many of the found are true."""
    right = sum(pair in truth for pair in found)
    precision = right / len(found) if found else 1.0
    return f"recall {right / max(1, len(truth)):.3f}, precision {precision:.3f} of pairs"


def dropping_quality(dropped: list[int], truth: Pairs) -> str:
    """The same for a peer that only says which documents have an earlier near copy."""
    wanted = {right for _, right in truth}
    right = len(wanted.intersection(dropped))
    return (
        f"recall {right / max(1, len(wanted)):.3f}, "
        f"precision {right / max(1, len(dropped)):.3f} of documents dropped"
    )


@measure("ingest", "text to a durable searchable store, against the peers")
def ingest(bench: Bench) -> None:
    """Measure ingest on one core and on all."""
    files = [str(path) for path in bench.real_files()]
    texts = [text for _, text in load_texts(files)]
    truth = oracle.cached_exact_pairs(bench.work, texts, Fraction(4, 5))
    cores = len(os.sched_getaffinity(0))
    own = {1: _simdb(bench, files, truth, 1)}
    if cores > 1:
        own[cores] = _simdb(bench, files, truth, cores)
        bench.add(
            Figure(
                "ingest",
                f"speed-up on {cores} cores",
                own[1] / own[cores],
                "x",
                target="at least 1.6 on 2 cores",
                reached=own[1] / own[cores] >= 1.6,
            )
        )
    _against_kernels(bench, files, own[1])
    _against_rensa(bench, files, truth, own[1])
    answer = in_child(f"{PEERS}:datasketch_memory", cores=1, files=files, sample=1_000)
    note = "its rate on a sample"
    _compare(bench, "datasketch, in memory", answer, own[1], least=60, note=note)
    _against_lance(bench, files, truth, own)


def _simdb(bench: Bench, files: list[str], truth: Pairs, cores: int) -> float:
    answer = in_child(
        f"{HERE}:ingest_texts",
        cores=cores,
        files=files,
        work=str(bench.work),
        threads=1 if cores == 1 else None,
    )
    seconds = float(np.median(answer["seconds"]))
    found = {(left, right) for left, right in answer.pop("found")}
    bench.details[f"ingest on {cores} cores"] = answer
    bench.add(
        Figure(
            "ingest",
            f"simdb, {cores} cores",
            seconds,
            "s",
            note=f"{quality(found, truth)}, {answer['bytes']:,} bytes",
        )
    )
    return seconds


def _against_kernels(bench: Bench, files: list[str], own: float) -> None:
    seconds = float(np.median(in_child(f"{HERE}:bare_kernels", cores=1, files=files)["seconds"]))
    bench.add(
        Figure(
            "ingest",
            "against bare kernels, 1 core",
            own,
            "s",
            peer="kernels",
            peer_value=seconds,
            ratio=seconds / own,
            target="at most 2.5 x their time",
            reached=own <= 2.5 * seconds,
            note=f"{own / seconds:.2f} x their time",
        )
    )


def _against_rensa(bench: Bench, files: list[str], truth: Pairs, own: float) -> None:
    answer = in_child(f"{PEERS}:rensa_ordinary", cores=1, files=files)
    note = dropping_quality(answer.pop("dropped", []), truth)
    _compare(bench, "rensa, ordinary", answer, own, least=10, note=note)
    answer = in_child(f"{PEERS}:rensa_hashed", cores=1, files=files)
    _compare(bench, "rensa, fed hashes", answer, own, note="its sketches and index only")


def _against_lance(bench: Bench, files: list[str], truth: Pairs, own: dict[int, float]) -> None:
    for count, seconds in own.items():
        sample = list(truth)[:: max(1, len(truth) // 400)]
        answer = in_child(
            f"{PEERS}:lance_index",
            cores=count,
            files=files,
            work=str(bench.work),
            pairs=sample,
            repeats=REPEATS,
        )
        note = ""
        if "absent" not in answer:
            note = (
                f"recall {answer['found'] / answer['searched']:.3f} of sampled pairs among 50, "
                f"search p50 {answer['search_p50'] * 1e3:.2f} ms, {answer['bytes']:,} bytes"
            )
        _compare(bench, f"Lance MINHASHLSH, {count} cores", answer, seconds, least=1, note=note)


def _compare(
    bench: Bench,
    peer: str,
    answer: dict[str, Any],
    own: float,
    *,
    least: float | None = None,
    note: str = "",
) -> None:
    """Add the comparison with one peer, or that it is not installed."""
    seconds = answer.get("seconds")
    ratio = None if seconds is None else seconds / own
    bench.details[peer] = answer
    bench.add(
        Figure(
            "ingest",
            f"against {peer}",
            own,
            "s",
            peer=peer.partition(",")[0],
            peer_value=seconds,
            ratio=ratio,
            target="" if least is None else f"at least {least} x",
            reached=None if ratio is None or least is None else ratio >= least,
            note=note if seconds is not None else f"{answer['absent']} is not installed",
        )
    )

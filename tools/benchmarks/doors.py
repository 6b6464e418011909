"""Tables in and out: what the way costs beside the work that must be done.

Times of one core are processor times, which other programs do not prolong.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.batches.signer import Signed, Signer
from simdb.storage.collection.writer import CollectionWriter, IndexWriter
from simdb.storage.file.environment import WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.blocks import BlockWriter
from tools.benchmarks import oracle, stores
from tools.benchmarks.children import in_child
from tools.benchmarks.corpora import load_texts
from tools.benchmarks.ingest import dropping_quality
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.doors"
PEERS = "tools.benchmarks.peers"
WIDE = "Über alles, naïve façade: "  # makes a text that is not ASCII
# Stages that one thread does, each a method.
SERIAL: tuple[tuple[str, type, str], ...] = (
    ("keys looked up", CollectionWriter, "find_many"),
    ("runs and signatures", IndexWriter, "insert"),
    ("merging", IndexWriter, "merge_after"),
    ("commit", WriteTransaction, "commit"),
)
CLIQUE = 60  # equal sets: 1,770 pairs of each, and nothing to be compared with others


def table_of(files: list[str], *, mixed: bool = False) -> Any:
    """Return the texts as a table of ``key`` and ``text``; every third one with wide letters."""
    import pyarrow

    rows = load_texts(files)
    texts = [text for _, text in rows]
    if mixed:
        texts[::3] = [WIDE + text for text in texts[::3]]
    return pyarrow.table({"key": [key for key, _ in rows], "text": texts})


def timed(
    folder: str, work: Callable[[simdb.Collection], Any], threads: int | None
) -> dict[str, float]:
    """Time some work on a new store, again and again; to delete the store is no part of it."""
    path = Path(folder) / f"{os.getpid()}.simdb"

    def done() -> None:
        with simdb.open(path, threads=threads) as database:
            work(stores.open_collection(database))

    return repeated(done, after=lambda: stores.remove(path))


def ways_in(files: list[str], work: str) -> dict[str, Any]:
    """Time the kernels alone, and texts into a store by every way that ends in it, on one core."""
    table = table_of(files)
    rows = list(zip(table["key"].to_pylist(), table["text"].to_pylist(), strict=True))
    with tempfile.TemporaryDirectory(dir=work) as folder:
        stores.warm_up(Path(folder))

        ways: dict[str, Callable[[simdb.Collection], Any]] = {
            "a table": lambda one: one.add_many(table, key="key", item="text"),
            "a list": lambda one: one.add_many(rows),
            "a table, dedupe": lambda one: one.dedupe(table, key="key", item="text"),
        }
        answer: dict[str, Any] = {name: timed(folder, way, 1) for name, way in ways.items()}
    items, sketcher = stores.text_items(), stores.sketcher()
    encoded = [text.encode() for _, text in rows]
    parts = [encoded[start : start + 100] for start in range(0, len(encoded), 100)]
    answer["kernels"] = repeated(lambda: [sketcher.sign(items.symbols(part)) for part in parts])
    return answer


def dropped(files: list[str], work: str) -> dict[str, Any]:
    """Return the places of the texts that ``dedupe`` of the table leaves out."""
    found: list[int] = []

    def note(outcomes: simdb.Outcomes) -> None:
        found.extend(one.row for one in outcomes if one.action == "duplicate")

    table = table_of(files)
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "s.simdb", threads=1) as database,
    ):
        collection = stores.open_collection(database)
        collection.dedupe(table, key="key", item="text", outcomes=note)
    return {"dropped": found}


def on_cores(files: list[str], work: str, threads: int | None, *, mixed: bool) -> dict[str, Any]:
    """Time a table of texts into a store by the clock."""
    table = table_of(files, mixed=mixed)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        stores.warm_up(Path(folder))
        return timed(folder, lambda one: one.add_many(table, key="key", item="text"), threads)


def _timed(owner: Any, name: str, seconds: dict[str, float], stage: str) -> None:
    """Count the processor time of each call of a method, or of a module's function."""
    original = getattr(owner, name)

    def timing(*arguments: Any, **options: Any) -> Any:
        began = time.thread_time()
        try:
            return original(*arguments, **options)
        finally:
            seconds[stage] += time.thread_time() - began

    setattr(owner, name, timing)


def stages(files: list[str], work: str) -> dict[str, float]:
    """Return the processor seconds of each stage of a table into a store, on one core.

    ``signing`` and ``records`` are what threads do at the same time; all else is done by one.
    """
    table = table_of(files)
    answer: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=work) as folder:
        stores.warm_up(Path(folder))

        def adding() -> dict[str, float]:
            return timed(folder, lambda one: one.add_many(table, key="key", item="text"), 1)

        whole = adding()["processor"]
        seconds = dict.fromkeys(
            ("signing", "records", "documents", *(one for one, *_ in SERIAL)), 0.0
        )
        _timed(Signer, "_sign_part", seconds, "signing")
        _timed(Signed, "together", seconds, "signing")
        _timed(BlockWriter, "_made", seconds, "records")
        _timed(layout, "document_records", seconds, "records")
        _timed(CollectionWriter, "insert", seconds, "documents")
        for stage, owner, name in SERIAL:
            _timed(owner, name, seconds, stage)
        repeats = int(adding()["repeats"])
        answer = {stage: spent / repeats for stage, spent in seconds.items()}
        answer["documents"] -= answer["records"]  # which it waits for, or makes
        answer["rest"] = max(0.0, whole - sum(answer.values()))
    return answer


def files_through(files: list[str], work: str) -> dict[str, Any]:
    """Time ``simdb dedupe`` from a Parquet file to one, whole command, on one core."""
    import pyarrow.parquet

    with tempfile.TemporaryDirectory(dir=work) as folder:
        source, target = Path(folder) / "in.parquet", Path(folder) / "out.parquet"
        pyarrow.parquet.write_table(table_of(files), source)
        command = [sys.executable, "-m", "simdb", "--threads", "1", "dedupe", str(source)]
        command += ["-o", str(target), "--id-field", "key", "--text-field", "text"]
        compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # what is imported, once
        answer: dict[str, Any] = repeated(
            lambda: subprocess.run(command, check=True, capture_output=True, env=compiled)
        )
        answer["kept"] = pyarrow.parquet.read_metadata(target).num_rows
    return answer


def pairs_out(cliques: int, work: str) -> dict[str, Any]:
    """Time exact pairs into Arrow columns, and as objects, on one core."""
    import pyarrow

    rows = [
        (clique * CLIQUE + place, [clique * 5 + element for element in range(5)])
        for clique in range(cliques)
        for place in range(CLIQUE)
    ]
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "s.simdb", threads=1) as database,
    ):
        collection = database.collection("sets", simdb.Set(), threshold=0.9, seed=1)
        collection.add_many(rows)
        found = pyarrow.table(collection.pairs(guarantee="exact")).num_rows
        columns = repeated(lambda: pyarrow.table(collection.pairs(guarantee="exact")))
        objects = repeated(lambda: sum(1 for _ in collection.pairs(guarantee="exact")))
    return {"pairs": found, "columns": columns["processor"], "objects": objects["processor"]}


@measure("doors", "tables in and out, beside the kernels alone")
def doors(bench: Bench) -> None:
    """Measure the ways in and out."""
    files = [str(path) for path in bench.real_files()]
    parameters = {"files": files, "work": str(bench.work)}
    one = in_child(f"{HERE}:ways_in", cores=1, **parameters)
    bench.details["doors, ways in"] = one
    kernels = one["kernels"]["processor"]
    bench.add(Figure("doors", "the kernels alone, 1 core", kernels, "s"))
    for name, most in (("a table", 1.5), ("a list", None), ("a table, dedupe", None)):
        seconds = one[name]["processor"]
        base, limit = kernels, most
        if name.endswith("dedupe"):
            base, limit = one["a table"]["processor"], 1.4
        words = "add_many of it" if name.endswith("dedupe") else "the kernels"
        bench.add(
            Figure(
                "doors",
                f"{name} to a store, 1 core",
                seconds,
                "s",
                target="" if limit is None else f"at most {limit} x {words}",
                reached=None if limit is None else seconds <= limit * base,
                note=f"{seconds / base:.2f} x {words}",
            )
        )
    _against_rensa(bench, files, one["a table, dedupe"]["processor"])
    cores = len(os.sched_getaffinity(0))
    for name, mixed in (("ASCII", False), ("a third not ASCII", True)) if cores > 1 else ():
        clocks = [
            in_child(f"{HERE}:on_cores", cores=count, threads=count, mixed=mixed, **parameters)
            for count in (1, cores)
        ]
        speed_up = clocks[0]["seconds"] / clocks[1]["seconds"]
        bench.add(
            Figure(
                "doors",
                f"speed-up on {cores} cores, {name}",
                speed_up,
                "x",
                target="at least 1.7 on 2 cores",
                reached=speed_up >= 1.7,
                note=f"{clocks[0]['seconds']:.2f} s and {clocks[1]['seconds']:.2f} s",
            )
        )
    parts = in_child(f"{HERE}:stages", cores=1, **parameters)
    bench.details["doors, stages"] = parts
    whole = sum(parts.values())
    serial = whole - parts["signing"] - parts["records"]
    shares = ", ".join(f"{stage} {seconds / whole:.0%}" for stage, seconds in parts.items())
    bench.add(
        Figure(
            "doors",
            "the part that one thread does",
            serial / whole * 100,
            "%",
            target="at most 8 %",
            reached=serial <= 0.08 * whole,
            note=f"16 cores at most {whole / (serial + (whole - serial) / 16):.1f} x; {shares}",
        )
    )
    through = in_child(f"{HERE}:files_through", cores=1, **parameters)
    bench.add(
        Figure(
            "doors",
            "dedupe, Parquet to Parquet, the command",
            through["seconds"],
            "s",
            note=f"{through['kept']:,} rows kept",
        )
    )
    out = in_child(f"{HERE}:pairs_out", cores=1, cliques=1_000, work=str(bench.work))
    for name in ("columns", "objects"):
        rate = float(np.round(out["pairs"] / out[name] / 1e6, 3))
        reached = rate >= 20 if name == "columns" else None
        target = "at least 20" if name == "columns" else ""
        bench.add(
            Figure(
                "doors", f"exact pairs as {name}", rate, "million/s", target=target, reached=reached
            )
        )


def _against_rensa(bench: Bench, files: list[str], own: float) -> None:
    """Compare ``dedupe`` with rensa's deduplicator, which keeps what it has in memory."""
    answer = in_child(f"{PEERS}:rensa_ordinary", cores=1, files=files)
    if "absent" in answer:
        bench.details["doors, rensa"] = answer
        return
    texts = [text for _, text in load_texts(files)]
    truth = oracle.cached_exact_pairs(bench.work, texts, Fraction(4, 5))
    ours = in_child(f"{HERE}:dropped", cores=1, files=files, work=str(bench.work))
    ratio = answer["processor"] / own
    bench.add(
        Figure(
            "doors",
            "dedupe against rensa's deduplicator, 1 core",
            own,
            "s",
            peer="rensa",
            peer_value=answer["processor"],
            ratio=ratio,
            target="at least 8 x",
            reached=ratio >= 8,
            note=f"{dropping_quality(ours['dropped'], truth)}; rensa: "
            + dropping_quality(answer["dropped"], truth),
        )
    )

"""What the measure ``spark`` runs in processes of its own: Spark, the store, MLlib's MinHashLSH.

All read the same Parquet files, and what they answer comes back as a digest, so that answers of
millions of rows can be compared. Bytes come from Spark's event log, memory and processor time from
the processes themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from tools.benchmarks import stores
from tools.make_corpus import documents

ROWS_A_FILE = 25_000
PLAIN = 20_000  # documents beside those of a skewed corpus
FOOTER = 200  # characters
PAGE = 4_000
TICKS = os.sysconf("SC_CLK_TCK")
CORES = len(os.sched_getaffinity(0))


# -- corpora ---------------------------------------------------------------------------------------


def made(folder: str, name: str, count: int, seed: int) -> dict[str, Any]:
    """Write a corpus as Parquet, unless it is there, and say where and how large it is."""
    import pyarrow as pa
    from pyarrow import parquet

    target = Path(folder) / f"{name}-{count}-{seed}"
    if not target.exists():
        building = target.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        rows = iter(CORPORA[name](count, seed))
        for number in range(1_000_000):
            part = list(islice(rows, ROWS_A_FILE))
            if not part:
                break
            keys, texts = zip(*part, strict=True)
            table = pa.table({"key": keys, "text": texts})
            parquet.write_table(table, building / f"{number:05}.parquet", compression="zstd")
        building.rename(target)
    tables = [parquet.read_table(file, columns=["text"]) for file in sorted(target.iterdir())]
    rows_there = sum(table.num_rows for table in tables)
    return {
        "folder": str(target),
        "rows": rows_there,
        "bytes": sum(table.nbytes for table in tables) / max(1, rows_there),
    }


def _among(texts: list[str], count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Mix texts with others that nothing is like."""
    mixed = [text for _, text in documents(PLAIN, seed + 1)] + texts
    for place in np.random.default_rng(seed).permutation(len(mixed)).tolist():
        yield f"k{place}", mixed[place]


def _equal(count: int, seed: int) -> Iterator[tuple[str, str]]:
    (_, text), *_ = documents(50, seed)
    return _among([text] * count, count, seed)


def _footer(count: int, seed: int) -> Iterator[tuple[str, str]]:
    footer = _page(seed)[:FOOTER]
    return _among([f"{text} {footer}" for _, text in documents(count, seed)], count, seed)


def _near(count: int, seed: int) -> Iterator[tuple[str, str]]:
    page = _page(seed)
    return _among([f"{page} {text[:60]}" for _, text in documents(count, seed)], count, seed)


def _alike(count: int, seed: int) -> Iterator[tuple[str, str]]:
    page = _page(seed)
    texts = [f"{page[: max(400, len(text))]} {text}" for _, text in documents(count, seed)]
    return _among(texts, count, seed)


def _page(seed: int) -> str:
    return " ".join(text for _, text in documents(200, seed + 2))[:PAGE]


CORPORA: dict[str, Callable[[int, int], Iterable[tuple[str, str]]]] = {
    "plain": documents,
    "equal": _equal,  # one text, so many times
    "footer": _footer,  # 200 characters that all end with
    "near": _near,  # pages that differ in their last 60 characters
    "alike": _alike,  # as much boilerplate as text, 400 characters at least: J to 0.7
}


# -- the same question, to three -------------------------------------------------------------------


def embedded(folder: str, questions: list[str], work: str) -> dict[str, Any]:
    """Answer from a store: Parquet to pairs, and to what dedupe removes; each from nothing."""
    path = Path(work) / f"embedded-{os.getpid()}.simdb"
    stores.warm_up(Path(work))
    answers: dict[str, Any] = {}
    for question in questions:
        stores.remove(path)
        began, worked = time.perf_counter(), time.process_time()
        with simdb.open(path) as database:
            collection = stores.open_collection(database)
            if question == "dedupe":
                told: list[Any] = []
                collection.dedupe(_reader(folder), key="key", item="text", outcomes=told.append)
                rows = [
                    (one.key, one.duplicate_of, one.similarity)
                    for outcomes in told
                    for one in outcomes
                    if one.action == "duplicate"
                ]
            else:
                collection.add_many(_reader(folder), key="key", item="text")
                table = collection.pairs(guarantee="probable").to_arrow()
                columns = (table.column(name) for name in ("left", "right", "similarity"))
                rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        answers[question] = {
            "seconds": time.perf_counter() - began,
            "processor": time.process_time() - worked,
            **_digest(rows),
        }
    stores.remove(path)
    return answers


def _reader(folder: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    files = [parquet.ParquetFile(file) for file in sorted(Path(folder).iterdir())]
    batches = (batch for file in files for batch in file.iter_batches())
    return pa.RecordBatchReader.from_batches(files[0].schema_arrow, batches)


def on_spark(corpora: list[list[Any]], work: str, partitions: int, memory: str) -> dict[str, Any]:
    """Answer questions about corpora by one session: ``[folder, questions]`` each.

    A first question is asked to warm Java and the workers, and not counted.
    """
    import simdb.spark

    place = Path(work) / "on-spark"
    shutil.rmtree(place, ignore_errors=True)
    (place / "events").mkdir(parents=True)
    settings = {
        "spark__sql__shuffle__partitions": str(partitions),
        "spark__local__dir": str(place / "local"),
        "spark__eventLog__enabled": "true",
        "spark__eventLog__dir": (place / "events").as_uri(),
        "spark__eventLog__compress": "false",
        "spark__eventLog__rolling__enabled": "false",
        "spark__executor__metrics__pollingInterval": "100",  # milliseconds
    }
    began = time.perf_counter()
    spark = simdb.spark.local_session(cores=CORES, memory=memory, **settings)
    started = time.perf_counter() - began
    kind = simdb.Text(simdb.CharacterShingles(9))
    recipe = simdb.Recipe.of(kind, threshold=stores.THRESHOLD, recall=0.99, seed=1)
    answers: list[dict[str, Any]] = []
    for number, (folder, questions) in enumerate(corpora):
        told: dict[str, Any] = {}
        for question in questions:
            began, (worked, _) = time.perf_counter(), _processes()
            with _Watched() as peak:
                frame = simdb.spark.in_file_order(spark.read.parquet(folder), "place")
                asked = getattr(simdb.spark, question)
                found = asked(
                    frame,
                    recipe=recipe,
                    key="key",
                    item="text",
                    order="place",
                    work=str(place / f"{number}-{question}"),
                ).toArrow()
            told[question] = {
                "seconds": time.perf_counter() - began,
                "processor": _processes()[0] - worked,
                "ended": time.time(),
                "worker": peak["worker"],
                **_digest(list(zip(*(c.to_pylist() for c in found.columns), strict=True))),
            }
            shutil.rmtree(place / f"{number}-{question}")
        answers.append(told)
    spark.stop()
    return {"started": started, "answers": answers, "log": _log(place / "events")}


def mllib(folder: str, counts: list[int], work: str, memory: str) -> dict[str, Any]:
    """Join the first texts of a corpus by MLlib's MinHashLSH, three tables: 0.992 of J = 0.8."""
    from pyspark.ml.feature import HashingTF, MinHashLSH
    from pyspark.sql import functions as f

    import simdb.spark

    spark = simdb.spark.local_session(
        cores=CORES, memory=memory, spark__sql__shuffle__partitions="8"
    )
    place = Path(work) / "mllib"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    cut = "transform(sequence(1, greatest(1, length(text) - 8)), i -> substring(text, i, 9))"
    table = _reader(folder).read_all()
    answers: dict[str, Any] = {}
    for count in [counts[0], *counts]:  # the first warms Java
        file = str(place / f"{count}.parquet")
        spark.createDataFrame(table.slice(0, count)).write.mode("overwrite").parquet(file)
        began, (worked, _) = time.perf_counter(), _processes()
        rows = spark.read.parquet(file).select("key", f.expr(cut).alias("shingles"))
        hashing = HashingTF(inputCol="shingles", outputCol="features", numFeatures=1 << 20)
        vectors = hashing.setBinary(True).transform(rows).select("key", "features").cache()
        lsh = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=3, seed=1)
        found = lsh.fit(vectors).approxSimilarityJoin(vectors, vectors, 0.2, distCol="d")
        found = found.where("datasetA.key < datasetB.key").select("datasetA.key", "datasetB.key")
        pairs = found.toArrow()
        answers[str(count)] = {
            "seconds": time.perf_counter() - began,
            "processor": _processes()[0] - worked,
            "rows": pairs.num_rows,
        }
        vectors.unpersist()
    spark.stop()
    return answers


def _digest(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Return how many rows there are, and a digest of all, in no order."""
    text = "\n".join(map(repr, sorted(rows)))
    return {"rows": len(rows), "digest": hashlib.sha256(text.encode()).hexdigest()}


# -- what it costs ---------------------------------------------------------------------------------


def _processes() -> tuple[float, int]:
    """Return the processor seconds of this process and all below it, and its largest worker."""
    below: dict[int, list[int]] = defaultdict(list)
    known: dict[int, tuple[str, int, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        below[int(fields[1])].append(int(entry.name))
        ticks = sum(int(field) for field in fields[11:15])  # those of children that ended, too
        resident = int(fields[21]) * os.sysconf("SC_PAGESIZE")
        known[int(entry.name)] = text[text.index("(") + 1 : text.rindex(")")], ticks, resident
    own = os.getpid()
    waiting, seconds, largest = [own], 0.0, 0
    while waiting:
        process = waiting.pop()
        waiting += below[process]
        if process in known:
            name, ticks, resident = known[process]
            seconds += ticks / TICKS
            if process != own and name.startswith("python"):
                largest = max(largest, resident)
    return seconds, largest


class _Watched:
    """Samples the resident memory of the largest Python worker while a block runs."""

    def __enter__(self) -> dict[str, int]:
        self._ended = threading.Event()
        self._peak = {"worker": 0}
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self._peak

    def _sample(self) -> None:
        while not self._ended.wait(0.2):
            self._peak["worker"] = max(self._peak["worker"], _processes()[1])

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _log(folder: Path) -> list[dict[str, Any]]:
    """Return what each stage of an event log shuffled, spilled, worked and held, by time."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.name.startswith("appstatus") or file.suffix == ".crc":
            continue
        for line in file.open(encoding="utf-8"):
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                name = (event["Stage ID"], event["Stage Attempt ID"])
                row = found.setdefault(name, defaultdict(int))
                metrics = event.get("Task Metrics") or {}
                row["seconds"] += metrics.get("Executor Run Time", 0) / 1e3
                row["processor"] += metrics.get("Executor CPU Time", 0) / 1e9
                row["collecting"] += metrics.get("JVM GC Time", 0) / 1e3
                row["spilled"] += metrics.get("Disk Bytes Spilled", 0)
                peaks = event.get("Task Executor Metrics") or {}
                row["heap"] = max(row["heap"], peaks.get("JVMHeapMemory", 0))
                written = metrics.get("Shuffle Write Metrics", {})
                row["shuffled"] += written.get("Shuffle Bytes Written", 0)
                row["shuffled_rows"] += written.get("Shuffle Records Written", 0)
            elif event["Event"] == "SparkListenerStageCompleted":
                info = event["Stage Info"]
                row = found.setdefault(
                    (info["Stage ID"], info["Stage Attempt ID"]), defaultdict(int)
                )
                row["name"] = info["Stage Name"][:60]
                row["ended"] = info["Completion Time"] / 1e3
    return sorted((dict(row) for row in found.values()), key=lambda row: row.get("ended", 0))

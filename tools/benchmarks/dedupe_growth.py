"""Near duplicates removed while a store grows, beside ``add_many``, which looks for none.

One run of each over the same table gives what ``dedupe`` costs at every size: the seconds up to a
row beside those that ``add_many`` has taken up to it. Times are processor times of one core.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import simdb
from tools.benchmarks import stores
from tools.benchmarks.children import SAMPLING_SECONDS, in_child, memory_status
from tools.benchmarks.registry import Bench, Figure, measure
from tools.make_corpus import Corpus

HERE = "tools.benchmarks.dedupe_growth"
WINDOWS = 10
PART = 50_000  # rows that are written at once
GROUP_ROWS = 100_000
COPIES = 0.3  # of the rows, in one that has many
COPY_WORDS = 50  # of such a row
MOST_RATIO = 1.4  # of the seconds of add_many
LEAST_LAST = 0.8  # of the rate of the second window
MOST_COMMAND = 1.5
SMALL_MEMORY = 64  # MiB


def made_table(work: Path, count: int, seed: int) -> Path:
    """Return a Parquet file of so many made texts, which is written unless it is there."""
    import pyarrow
    import pyarrow.parquet

    path = work / f"made-{count}-{seed}.parquet"
    if path.exists():
        return path
    unfinished = path.with_suffix(".building")
    schema = pyarrow.schema([("key", pyarrow.string()), ("text", pyarrow.string())])
    rows = Corpus(count, seed).documents()
    with pyarrow.parquet.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        while part := list(itertools.islice(rows, PART)):
            columns = zip(*part, strict=True)
            table = pyarrow.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
            writer.write_table(table, GROUP_ROWS)
    unfinished.rename(path)
    return path


def grown(table: str, work: str, verb: str, window: int) -> dict[str, Any]:
    """Add a table to a new store by ``add_many`` or ``dedupe``; seconds up to each window's end."""
    import pyarrow.parquet

    folder = Path(work)
    stores.warm_up(folder)
    path = folder / f"grown-{os.getpid()}.simdb"
    rows = pyarrow.parquet.read_table(table)
    seconds: list[float] = []
    began = time.process_time()

    def note(progress: simdb.Progress) -> None:
        if progress.done >= window * (len(seconds) + 1):
            seconds.append(time.process_time() - began)

    with simdb.open(path, threads=1) as database:
        collection = stores.open_collection(database)
        began = time.process_time()
        report = getattr(collection, verb)(rows, key="key", item="text", progress=note)
    whole = time.process_time() - began
    size = path.stat().st_size
    stores.remove(path)
    return {"seconds": whole, "windows": seconds, "kept": report.added, "bytes": size}


def with_copies(work: str, count: int, seed: int) -> dict[str, Any]:
    """Add texts of which many repeat an earlier one, as it is or but for a word, by both verbs."""
    import pyarrow

    generator = random.Random(seed)
    words = [f"w{number:x}" for number in range(50_000)]
    texts: list[str] = []
    for _ in range(count):
        if texts and generator.random() < COPIES:
            copy = generator.choice(texts).split()
            if generator.random() < 0.5:
                copy[generator.randrange(len(copy))] = generator.choice(words)
            texts.append(" ".join(copy))
        else:
            texts.append(" ".join(generator.choices(words, k=COPY_WORDS)))
    table = pyarrow.table({"key": range(count), "text": texts})
    folder = Path(work)
    stores.warm_up(folder)
    answer: dict[str, Any] = {}
    for verb in ("add_many", "dedupe"):
        path = folder / f"copies-{os.getpid()}.simdb"
        with simdb.open(path, threads=1) as database:
            collection = stores.open_collection(database)
            began = time.process_time()
            report = getattr(collection, verb)(table, key="key", item="text")
        answer[verb] = time.process_time() - began
        answer["kept"] = report.added
        stores.remove(path)
    return answer


def command(table: str, work: str, memory: int | None) -> dict[str, Any]:
    """Run ``simdb dedupe`` from the table to a Parquet file; watch its memory."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryDirectory(dir=work) as folder:
        target = Path(folder) / "out.parquet"
        words = [sys.executable, "-m", "simdb", "--threads", "1"]
        words += [] if memory is None else ["--memory", str(memory)]
        words += ["dedupe", table, "-o", str(target), "--id-field", "key"]
        words += ["--text-field", "text", "--shingles", "character:9", "--threshold", "0.8"]
        before, began = os.times(), time.perf_counter()
        child = subprocess.Popen(
            words,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ended, peak = threading.Event(), 0

        def sample() -> None:
            nonlocal peak
            while not ended.wait(SAMPLING_SECONDS):
                peak = max(peak, memory_status("RssAnon", child.pid))

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        code = child.wait()
        clock = time.perf_counter() - began
        ended.set()
        sampler.join()
        if code:
            raise RuntimeError(f"{' '.join(words)} ended with exit code {code}")
        after = os.times()
    worked = after.children_user + after.children_system
    worked -= before.children_user + before.children_system
    return {"processor": worked, "seconds": clock, "peak": peak}


@measure("dedupe", "near duplicates of --count made texts removed, beside add_many of them")
def dedupe(bench: Bench) -> None:
    """Measure the growth of the API's call, then whole commands from Parquet to Parquet."""
    table = made_table(bench.work, bench.count, bench.seed)
    window = -(-bench.count // WINDOWS)
    parameters = {"table": str(table), "work": str(bench.work), "window": window}
    adding, deduping = (
        in_child(f"{HERE}:grown", cores=1, verb=verb, **parameters)
        for verb in ("add_many", "dedupe")
    )
    bench.details["dedupe, growth"] = {"add_many": adding, "dedupe": deduping}
    bench.add(Figure("dedupe", "add_many of a table", adding["seconds"], "s of processor"))
    by_size = [
        own / other for own, other in zip(deduping["windows"], adding["windows"], strict=True)
    ]
    worst = max([*by_size, deduping["seconds"] / adding["seconds"]])
    bench.add(
        Figure(
            "dedupe",
            "dedupe of it",
            deduping["seconds"],
            "s of processor",
            target=f"at most {MOST_RATIO} x add_many at every size",
            reached=worst <= MOST_RATIO,
            note=f"by tenths of {bench.count:,} rows: "
            + " ".join(f"{ratio:.2f}" for ratio in by_size)
            + f" x add_many; {deduping['kept']:,} rows kept",
        )
    )
    for verb, grown_by in (("add_many", adding), ("dedupe", deduping)):
        tenths = [end - begin for begin, end in itertools.pairwise([0.0, *grown_by["windows"]])]
        if len(tenths) < WINDOWS:
            continue
        ratio = tenths[1] / tenths[-1]
        bench.add(
            Figure(
                "dedupe",
                f"{verb}, last tenth against the second",
                ratio,
                "x",
                target=f"at least {LEAST_LAST}" if verb == "dedupe" else "",
                reached=ratio >= LEAST_LAST if verb == "dedupe" else None,
            )
        )
    _commands(bench, table, adding["seconds"])
    copies = in_child(
        f"{HERE}:with_copies",
        cores=1,
        work=str(bench.work),
        count=max(1, bench.count // WINDOWS),
        seed=bench.seed,
    )
    ratio = copies["dedupe"] / copies["add_many"]
    bench.add(
        Figure(
            "dedupe",
            f"rows of which {COPIES:.0%} repeat an earlier one",
            copies["dedupe"],
            "s of processor",
            target=f"at most {MOST_RATIO} x add_many",
            reached=ratio <= MOST_RATIO,
            note=f"{ratio:.2f} x add_many; {copies['kept']:,} rows kept",
        )
    )


def _commands(bench: Bench, table: Path, own: float) -> None:
    for memory in (None, SMALL_MEMORY):
        answer = in_child(
            f"{HERE}:command", cores=1, table=str(table), work=str(bench.work), memory=memory
        )
        name = "simdb dedupe, Parquet to Parquet"
        name += "" if memory is None else f", --memory {memory}"
        ratio = answer["processor"] / own
        bench.add(
            Figure(
                "dedupe",
                name,
                answer["processor"],
                "s of processor",
                target=f"at most {MOST_COMMAND} x add_many",
                reached=ratio <= MOST_COMMAND,
                note=f"{ratio:.2f} x add_many, {answer['seconds']:.1f} s by the clock, "
                f"at most {answer['peak'] / 2**20:.0f} MiB of its own",
            )
        )

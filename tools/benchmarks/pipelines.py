"""Near duplicates removed, Parquet to Parquet, beside the pipelines of others on one core.

text-dedup 0.4 and datatrove 0.10 ask for what simdb does not need, so each has an environment of
its own, which ``--text-dedup`` and ``--datatrove`` name::

    python3.11 -m venv others && others/bin/pip install text-dedup
    python3.11 -m venv more && more/bin/pip install "datatrove[processing,io]"
    python tools/bench.py pipelines --text-dedup others/bin/python --datatrove more/bin/python \
        --data FOLDER

Lance comes with the benchmarks' other peers. It has an index but no command that removes what is
similar: its program looks for each text among all and keeps those of which no kept one comes before
them, by the similarity that Lance estimates.

All compare sets of three words by 16 bands of 6 rows. None of the others compares what shares a
bucket: *recall* is the share of the true pairs, at least 0.8 alike, of which not both are kept,
*precision* that of the removed texts that are so like another one. datatrove's words are those of
an expression, since the ones it would take need a download.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import simdb
from tools.benchmarks.doors import table_of
from tools.benchmarks.registry import Bench, Figure, measure

KIND = simdb.Text(simdb.WordShingles(3), lowercase=True)
THRESHOLD = 0.8
TARGET = 5  # times as fast as the best of the others

# Run by a Python that has datatrove, in the folder of ``in/texts.parquet``.
DATATROVE = r"""
import re
import datatrove.pipeline.dedup.minhash as minhash
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import ParquetWriter
from datatrove.utils.hashing import HashConfig

class Words:
    def word_tokenize(self, text):
        return re.findall(r"\w+", text)

minhash.load_word_tokenizer = lambda language: Words()
config = minhash.MinhashConfig(
    n_grams=3, num_buckets=16, hashes_per_bucket=6, hash_config=HashConfig(precision=64)
)
reader = ParquetReader("in", text_key="text", id_key="key")
for tasks, steps in (
    (1, [reader, minhash.MinhashDedupSignature("signatures", config=config)]),
    (16, [minhash.MinhashDedupBuckets("signatures", "buckets", config=config)]),
    (1, [minhash.MinhashDedupCluster("buckets", "removed", config=config)]),
    (1, [reader, minhash.MinhashDedupFilter("removed"), ParquetWriter("out")]),
):
    LocalPipelineExecutor(steps, tasks=tasks, workers=1, logging_dir=None).run()
"""

LANCE = """
import lance
import pyarrow.parquet

texts = pyarrow.parquet.read_table("in/texts.parquet")
stored = lance.write_dataset(texts, "stored")
stored.create_scalar_index("text", "MINHASHLSH", num_hashes=96, num_bands=16)
kept = set()
for row, text in enumerate(texts["text"].to_pylist()):
    query = lance.query.MinHashQuery(text, "text")
    found = stored.to_table(nearest=query, limit=50, with_row_id=True, columns=["_distance"])
    near = (
        other
        for other, distance in zip(found["_rowid"].to_pylist(), found["_distance"].to_pylist())
        if distance <= 0.2
    )
    if kept.isdisjoint(near):
        kept.add(row)
pyarrow.parquet.write_table(texts.take(sorted(kept)), "out/k.parquet")
"""


def _kept(folder: Path, column: str) -> set[str]:
    """Return the keys of the texts that are kept, whatever the files are that hold them."""
    import pyarrow
    import pyarrow.parquet

    kept: set[str] = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            kept |= set(pyarrow.parquet.read_table(path, columns=[column])[column].to_pylist())
        elif path.suffix == ".arrow":
            kept |= set(pyarrow.ipc.open_stream(path).read_all()[column].to_pylist())
    return kept


def _commands(bench: Bench) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield the name of each pipeline, its column of keys, and the command that runs it."""
    texts = "in/texts.parquet"
    own = [sys.executable, "-m", "simdb", "--threads", "1", "dedupe", texts, "-o", "out/k.parquet"]
    own += ["--id-field", "key", "--text-field", "text", "--shingles", "word:3", "--lowercase"]
    yield "simdb dedupe", "key", own
    if bench.text_dedup is not None:
        other = [bench.text_dedup.absolute(), "-m", "text_dedup.minhash", "--path", "parquet"]
        other += ["--data_files", texts, "--split", "train", "--column", "text", "--output", "out"]
        other += ["--ngram", "3", "--min_length", "1", "--num_perm", "96", "--b", "16", "--r", "6"]
        other += ["--hash_func", "xxh3", "--cache_dir", "cache", "--num_proc", "1"]
        yield "text-dedup", "key", other
    if bench.datatrove is not None:
        yield "datatrove", "id", [bench.datatrove.absolute(), "-c", DATATROVE]
    if importlib.util.find_spec("lance"):
        yield "Lance", "key", [sys.executable, "-c", LANCE]


def _true_pairs(table: Any, folder: Path) -> list[tuple[str, str]]:
    with simdb.open(folder / "s.simdb") as database:
        collection = database.collection("c", KIND, threshold=THRESHOLD)
        collection.add_many(table, key="key", item="text")
        pairs = collection.pairs(guarantee="exact")
        return [(str(pair.left), str(pair.right)) for pair in pairs]


@measure("pipelines", "near duplicates removed from a Parquet file, beside other pipelines")
def pipelines(bench: Bench) -> None:
    """Measure whole commands, each in a process of its own on one core."""
    import pyarrow.parquet

    table = table_of([str(path) for path in bench.real_files()])
    keys = set(table["key"].to_pylist())
    core = {min(os.sched_getaffinity(0))}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(bench.work / "hf")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is imported is compiled once
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=bench.work) as name:
        pairs = _true_pairs(table, Path(name))
        alike = {key for pair in pairs for key in pair}
        for pipeline, column, command in _commands(bench):
            folder = Path(name) / pipeline
            for part in ("in", "out"):
                (folder / part).mkdir(parents=True)
            pyarrow.parquet.write_table(table, folder / "in/texts.parquet")
            began, before = time.perf_counter(), os.times()
            subprocess.run(
                command,
                cwd=folder,
                env=environment,
                check=True,
                capture_output=True,
                preexec_fn=lambda: os.sched_setaffinity(0, core),
            )
            after = os.times()
            worked = after.children_user + after.children_system
            worked -= before.children_user + before.children_system
            seconds[pipeline] = worked
            kept = _kept(folder / "out", column)
            removed = keys - kept
            gone = sum(not {left, right} <= kept for left, right in pairs)
            note = f"{time.perf_counter() - began:.1f} s by the clock, {len(kept):,} rows kept, "
            note += f"recall {gone / len(pairs):.3f}, "
            note += f"precision {len(removed & alike) / max(1, len(removed)):.3f}"
            bench.add(Figure("pipelines", pipeline, worked, "s of processor", note=note))
    others = [value for pipeline, value in seconds.items() if pipeline != "simdb dedupe"]
    if others:
        ratio = min(others) / seconds["simdb dedupe"]
        bench.add(
            Figure(
                "pipelines",
                "against the best of the others",
                ratio,
                "x",
                target=f"at least {TARGET}",
                reached=ratio >= TARGET,
            )
        )

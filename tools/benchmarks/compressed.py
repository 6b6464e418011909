"""What compressed documents save, and what they cost a search: two stores of the same texts."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import simdb
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.corpora import load_texts
from tools.benchmarks.registry import Bench, measure
from tools.benchmarks.timing import timed_each
from tools.make_corpus import Corpus

HERE = "tools.benchmarks.compressed"
SEARCHES = 500
MOST_BYTES = 0.6  # of the texts
MOST_TIME = 1.3  # of a search among documents that are not compressed


def stored(files: list[str], count: int, seed: int, work: str) -> dict[str, Any]:
    """Store texts both ways; search for near copies of some of them, which reads these."""
    texts = list(dict(load_texts(files) if files else Corpus(count, seed).documents()).items())
    generator = random.Random(seed)
    probes = []
    for _, text in generator.sample(texts, min(SEARCHES, len(texts))):
        words = text.split()
        words[generator.randrange(len(words))] = "another"
        probes.append(" ".join(words))
    told: dict[str, Any] = {
        "texts": len(texts),
        "bytes": sum(len(text.encode()) for _, text in texts),
    }
    with tempfile.TemporaryDirectory(dir=work) as folder:
        for name, compression in (("plain", None), ("zstd", "zstd")):
            path, copy = (Path(folder) / f"{name}{end}.simdb" for end in ("", "-compact"))
            kind = simdb.Text(simdb.CharacterShingles(9))
            options: Any = {"threshold": stores.THRESHOLD, "seed": 1, "compression": compression}
            with simdb.open(path, threads=1, sync="batch") as database:
                database.collection(stores.NAME, kind, **options).add_many(texts)
                database.backup(copy, compact=True)
            with simdb.open(copy, threads=1, read_only=True) as database:
                collection = database[stores.NAME]
                found = sum(bool(collection.search(probe)) for probe in probes)
                timed = timed_each(collection.search, probes)
            told[name] = {"bytes": copy.stat().st_size, "found": found, **timed}
    return told


@measure("compressed", "texts stored compressed: bytes beside the texts, searches beside others")
def compressed(bench: Bench) -> None:
    """Report both, of the real texts if there are data."""
    files = [] if bench.data is None else list(map(str, bench.real_files()))
    parameters = {"count": bench.count, "seed": bench.seed, "work": str(bench.work)}
    answer = in_child(f"{HERE}:stored", cores=1, files=files, **parameters)
    bench.details["compressed"] = answer
    plain, packed = answer["plain"], answer["zstd"]
    size, other = (one["bytes"] / answer["bytes"] for one in (packed, plain))
    bench.at_most(
        "compressed",
        f"a compacted store of {answer['texts']:,} texts",
        size,
        "x their bytes",
        limit=MOST_BYTES,
        note=f"with indexes; {other:.2f} x where nothing is compressed",
    )
    bench.at_most(
        "compressed",
        "search for a near copy, p50",
        packed["processor_p50"] / plain["processor_p50"],
        "x that of documents that are not",
        limit=MOST_TIME,
        note=f"{packed['processor_p50']:.3f} ms of processor; "
        f"{packed['found']} and {plain['found']} found",
    )

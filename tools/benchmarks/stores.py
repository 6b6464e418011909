"""simdb as it is measured: character 9-shingles, threshold 0.8, recall 0.99."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt

import simdb
from simdb import kinds
from simdb.kinds.text import TextItems
from simdb.lsh.family import MinHash
from simdb.storage.file.creation import FORMAT_VERSION
from simdb.storage.tables.layout import TABLE_NAMES
from tools.benchmarks.children import in_child, memory_watched
from tools.benchmarks.registry import Bench
from tools.make_corpus import Corpus, PlantedPair

NAME = "bench"
THRESHOLD = 0.8
SECRET = bytes(32)
WINDOW = 100_000
WARM_UP_DOCUMENTS = 500


def text_items() -> TextItems:
    """Return the shingling of a collection, without the collection."""
    return TextItems(kinds.Text(kinds.CharacterShingles(9)), SECRET)


def sketcher() -> MinHash:
    """Return the sketching of a collection, without the collection."""
    return MinHash("fast", 1, simdb.plan(THRESHOLD).signature_rows, SECRET)


def open_collection(database: simdb.Database) -> simdb.Collection:
    """Open or create the collection that all measures use."""
    kind = simdb.Text(simdb.CharacterShingles(9))
    return database.collection(NAME, kind, threshold=THRESHOLD, recall=0.99, seed=1)


def remove(path: Path) -> None:
    """Delete a store and what lies beside it."""
    for file in path.parent.glob(path.name + "*"):
        file.unlink()


def warm_up(folder: Path) -> None:
    """Compile every kernel that is measured, on a small store that is deleted again."""
    path = folder / f"warm-up-{os.getpid()}.simdb"
    rows = list(Corpus(WARM_UP_DOCUMENTS, seed=9).documents())
    rows.append(("wide", "Übergänge " * 40))
    with simdb.open(path) as database:
        collection = open_collection(database)
        collection.add_many(rows[:-100])
        for key, text in rows[-100:]:
            collection.add(key, text, find_duplicates=True)
        for _, text in rows[:20]:
            collection.search(text)
        for _ in collection.pairs().batches():
            pass
        collection.delete("wide")
    remove(path)


def grow(path: str, count: int, seed: int) -> dict[str, Any]:
    """Build the store of ``count`` documents and time it by windows of 100,000.

    The texts of a window are made before its clock starts. After every commit the file is
    compared with the bytes of the documents stored by then; the first twentieth of the commits
    is left out of the worst case, while the file's fixed part is spread over few documents.
    """
    file = Path(path)
    remove(file)
    warm_up(file.parent)
    stream = Corpus(count, seed).documents()
    database = simdb.open(file)
    collection = open_collection(database)
    windows: list[float] = []
    excesses: list[float] = []
    stored = 0
    for start in range(0, count, WINDOW):
        rows = list(itertools.islice(stream, WINDOW))
        sizes = stored + np.cumsum([len(key) + len(text.encode()) for key, text in rows])
        began = time.perf_counter()
        collection.add_many(rows, progress=_file_watcher(file, start, sizes, excesses))
        if start + WINDOW >= count:
            database.close()
        windows.append(time.perf_counter() - began)
        stored = int(sizes[-1])
    return {
        "window_seconds": windows,
        "window": WINDOW,
        "document_bytes": stored,
        "file_bytes": file.stat().st_size,
        "worst_excess": max(excesses[len(excesses) // 20 :], default=0.0),
        "tables": table_bytes(file),
    }


def table_bytes(file: Path) -> dict[str, int]:
    """Return the bytes of the pages in use by each table, as LMDB itself counts them."""
    with (
        lmdb.open(str(file), subdir=False, readonly=True, lock=False, max_dbs=32) as environment,
        environment.begin() as transaction,
    ):
        sizes = {}
        for name in TABLE_NAMES:
            counted = transaction.stat(environment.open_db(name, transaction, create=False))
            pages = counted["branch_pages"] + counted["leaf_pages"] + counted["overflow_pages"]
            sizes[name.decode()] = pages * counted["psize"]
    return sizes


def _file_watcher(
    file: Path, before: int, sizes: npt.NDArray[np.int64], excesses: list[float]
) -> Callable[[simdb.Progress], None]:
    """Return a callback that notes by how much the file exceeds the documents, per document."""

    def note(progress: simdb.Progress) -> None:
        if progress.done:
            excess = file.stat().st_size - int(sizes[progress.done - 1])
            excesses.append(excess / (before + progress.done))

    return note


def large_store(bench: Bench, *, fresh: bool = False) -> tuple[Path, dict[str, Any]]:
    """Return the path of the large store and, if it was built now, how that went."""
    version = FORMAT_VERSION
    path = bench.work / f"large-{bench.count}-{bench.seed}-{version}.simdb"
    if path.exists() and not fresh:
        return path, {}
    # Built under another name: an interrupted build must not pass for the store.
    unfinished = path.with_suffix(".building")
    built = in_child(
        "tools.benchmarks.stores:grow", path=str(unfinished), count=bench.count, seed=bench.seed
    )
    remove(path)
    unfinished.rename(path)
    remove(unfinished)
    return path, built


def copy_store(path: Path) -> Path:
    """Copy a closed store, to be changed by a measure."""
    target = path.with_name(f"copy-{os.getpid()}.simdb")
    remove(target)
    shutil.copyfile(path, target)
    return target


def read_file(path: Path) -> None:
    """Bring a file into the system's cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def recall_bins(pairs: list[PlantedPair], found: list[bool]) -> list[dict[str, float]]:
    """Count planted pairs and found ones by ranges of 0.05 of their true similarity.

    ``planned`` is the mean of the planned probabilities at the similarities of the bin.
    """
    plan = simdb.plan(THRESHOLD)
    similarities = np.array([pair.similarity for pair in pairs])
    planned = np.array([plan.expected_recall(value) for value in similarities])
    numbers = np.floor(similarities * 20 + 1e-9).astype(int)
    hits = np.array(found)
    return [
        {
            "lowest": number / 20,
            "pairs": int((numbers == number).sum()),
            "found": int(hits[numbers == number].sum()),
            "planned": float(planned[numbers == number].mean()),
        }
        for number in sorted(set(numbers.tolist()))
    ]


def ingest_streaming(path: str, count: int, seed: int, memory: int) -> dict[str, Any]:
    """Add documents as they are made, none kept, under a memory setting."""
    file = Path(path)
    remove(file)
    warm_up(file.parent)
    stream = Corpus(count, seed).documents()
    next(stream)  # makes the planted texts, which are not the store's memory
    with memory_watched() as watched:
        began = time.perf_counter()
        with simdb.open(file, memory=memory) as database:
            open_collection(database).add_many(stream)
        seconds = time.perf_counter() - began
    remove(file)
    return {"seconds": seconds, **watched}

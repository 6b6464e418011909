"""The peers, each used as its own documentation shows, as tasks for ``children.in_child``.

Texts reach them normalised, outside the clock, so that every program compares the same sets;
simdb normalises inside its clock. Their libraries are imported here only, and without names in
import statements, since the dependency group ``bench`` need not be installed.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tools.benchmarks.corpora import load_texts, normalised

SHINGLE_SIZE = 9
THRESHOLD = 0.8
SLOTS = 128


def shingles_of(text: str) -> list[str]:
    """Cut a text into character shingles as every user of these libraries does: by slicing."""
    return [text[i : i + SHINGLE_SIZE] for i in range(max(1, len(text) - SHINGLE_SIZE + 1))]


def rensa_ordinary(files: list[str]) -> dict[str, Any]:
    """Rensa's ordinary interface: shingles by slicing, its deduplicator with its index."""
    rensa = importlib.import_module("rensa")
    texts = [normalised(text) for _, text in load_texts(files)]
    rensa.RMinHashDeduplicator(threshold=THRESHOLD, num_perm=SLOTS, use_lsh=True).add_pairs(
        (str(position), shingles_of(text)) for position, text in enumerate(texts[:100])
    )
    began, worked = time.perf_counter(), time.process_time()
    store = rensa.RMinHashDeduplicator(threshold=THRESHOLD, num_perm=SLOTS, use_lsh=True)
    kept = store.add_pairs(
        (str(position), shingles_of(text)) for position, text in enumerate(texts)
    )
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    dropped = [position for position, keep in enumerate(kept) if not keep]
    return {
        **{"seconds": seconds, "processor": processor},
        **{"documents": len(texts), "dropped": dropped},
    }


def rensa_hashed(files: list[str]) -> dict[str, Any]:
    """Rensa fed with the hashes of simdb's shingles: its sketches and its index, nothing else."""
    rensa = importlib.import_module("rensa")
    stores = importlib.import_module("tools.benchmarks.stores")
    symbols = stores.text_items().symbols([text.encode() for _, text in load_texts(files)])
    values, offsets = symbols.values, symbols.offsets.astype(np.uint64)
    began = time.perf_counter()
    matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(values, offsets, SLOTS, 42)
    index = rensa.RMinHashLSH(threshold=THRESHOLD, num_perm=SLOTS, num_bands=16)
    index.insert_matrix(matrix)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "documents": len(symbols)}


def datasketch_memory(files: list[str], sample: int) -> dict[str, Any]:
    """Datasketch's MinHashLSH in memory on every n-th document; reports characters as well."""
    datasketch = importlib.import_module("datasketch")
    texts = [normalised(text) for _, text in load_texts(files)]
    chosen = texts[:: max(1, len(texts) // sample)]
    began = time.perf_counter()
    index = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS)
    shingled = ([shingle.encode() for shingle in shingles_of(text)] for text in chosen)
    for position, sketch in enumerate(datasketch.MinHash.generator(shingled, num_perm=SLOTS)):
        index.insert(str(position), sketch)
    seconds = time.perf_counter() - began
    share = sum(map(len, chosen)) / sum(map(len, texts))
    return {"seconds": seconds / share, "documents": len(texts), "sampled": len(chosen)}


def lance_index(
    files: list[str], work: str, pairs: list[tuple[int, int]], repeats: int
) -> dict[str, Any]:
    """Lance: write the texts, make a MINHASHLSH index with its defaults, look for known pairs.

    Its defaults are word 3-shingles, 128 hashes and 16 bands. A pair counts as found if a search
    for the later text has the earlier among its first 50 rows.
    """
    lance = importlib.import_module("lance")
    arrow = importlib.import_module("pyarrow")
    rows = arrow.table({"text": [normalised(text) for _, text in load_texts(files)]})
    folder = Path(tempfile.mkdtemp(prefix="lance-", dir=work))
    try:
        seconds = []
        for number in range(-1, repeats):  # the first, on a part, warms up
            path = folder / str(number)
            part = rows.slice(0, 500) if number < 0 else rows
            began = time.perf_counter()
            stored = lance.write_dataset(part, str(path))
            stored.create_scalar_index("text", "MINHASHLSH")
            seconds.append(time.perf_counter() - began)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        texts = rows.column("text").to_pylist()
        found, latencies = 0, []
        for left, right in pairs:
            query = lance.query.MinHashQuery(texts[right], "text")
            began = time.perf_counter()
            answer = stored.to_table(
                nearest=query, limit=50, with_row_id=True, columns=["_distance"]
            )
            latencies.append(time.perf_counter() - began)
            found += left in answer.column("_rowid").to_pylist()
    finally:
        shutil.rmtree(folder)
    return {
        "seconds": float(np.median(seconds[1:])),
        "documents": len(texts),
        "found": found,
        "searched": len(pairs),
        "search_p50": float(np.median(latencies)) if latencies else None,
        "bytes": size,
    }

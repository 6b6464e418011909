"""What different shinglings and normalisations remove of real texts, and where they disagree."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from pathlib import Path

import simdb
from tools.benchmarks.registry import Bench, Figure, measure

TEXTS = ("newsgroups20", "reuters21578", "licenses", "articles2500")
ROWS = 3_000
THRESHOLD = 0.8
SHOWN = 10
TRIED = {
    "default": simdb.Text(),
    "character:9 lowercase": simdb.Text(lowercase=True),
    "word:3 lowercase": simdb.Text(simdb.WordShingles(3), lowercase=True),
    **{name: simdb.Text.profile(name) for name in ("news", "web", "code", "chat")},
}


def texts_of(path: Path, rows: int) -> list[str]:
    """Return the first texts of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line, _ in zip(lines, range(rows), strict=False)]


def removed(texts: list[str], kind: simdb.Text) -> tuple[dict[int, tuple[int, float]], float]:
    """Return which rows are removed, for which and how similar; and processor seconds."""
    with (
        tempfile.TemporaryDirectory() as folder,
        simdb.open(Path(folder) / "s.simdb", sync="batch", threads=1) as database,
    ):
        collection = database.collection("c", kind, threshold=THRESHOLD, seed=0)
        begun = time.process_time()
        collection.add_many(enumerate(texts))
        seconds = time.process_time() - begun
        gone: dict[int, tuple[int, float]] = {}
        pairs = collection.pairs(THRESHOLD, guarantee="exact")
        for pair in sorted(pairs, key=lambda one: (one.right, one.left)):
            if pair.left not in gone:
                gone.setdefault(int(pair.right), (int(pair.left), pair.value))
    return gone, seconds


@measure("shinglings", "what settings of texts remove, and where they disagree")
def shinglings(bench: Bench) -> None:
    """Count what each setting removes; keep examples of rows that only it or the default does."""
    assert bench.data is not None, "this measure needs --data FOLDER or SIMDB_DATA"
    for corpus in TEXTS:
        texts = texts_of(bench.data / "text" / f"{corpus}.jsonl.gz", ROWS)
        found = {name: removed(texts, kind) for name, kind in TRIED.items()}
        usual = found["default"][0]
        for name, (gone, seconds) in found.items():
            more, fewer = gone.keys() - usual.keys(), usual.keys() - gone.keys()
            note = f"of {len(texts):,}; {len(more)} more, {len(fewer)} fewer than by default; "
            note += f"{seconds:.2f} s to add"
            bench.add(
                Figure("shinglings", f"{corpus}, {name}", len(gone), "rows removed", note=note)
            )
            examples = [
                [side, row, of[row][0], of[row][1], texts[of[row][0]][:400], texts[row][:400]]
                for side, rows, of in (("more", more, gone), ("fewer", fewer, usual))
                for row in sorted(rows)[:: max(1, len(rows) // SHOWN)][:SHOWN]
            ]
            bench.details[f"shinglings, {corpus}, {name}"] = examples

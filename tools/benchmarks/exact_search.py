"""Exact search from text in a store of made documents, before and after compaction."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

import simdb
from simdb.answers.exact.method import Exact
from simdb.exact.thresholds import Threshold
from simdb.work import Work
from tools.benchmarks import stores
from tools.benchmarks.children import in_child
from tools.benchmarks.corpora import normalised
from tools.benchmarks.exact_growth import GIBIBYTE, join
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import timed_each
from tools.make_corpus import Corpus

HERE = "tools.benchmarks.exact_search"
MOST_DOCUMENTS = 100_000
QUERIES = 2_000
WARMING = 300
FLOOR = "0.7"
THRESHOLD = Fraction(4, 5)
BYTES_A_POSTING = 24
KINDS: dict[str, simdb.Text] = {
    "character 9-shingles": simdb.Text(simdb.CharacterShingles(9)),
    "word 3-shingles": simdb.Text(simdb.WordShingles(3)),
}
# Milliseconds: p50 before compaction, p50 after; and p99.
LIMITS = {"character 9-shingles": (4.0, 1.5), "word 3-shingles": (0.5, 0.5)}
HIGHEST = 20.0


def shingle_set(text: str, kind: str) -> set[str]:
    """Return the shingles of a text, the obvious way."""
    if kind == "word 3-shingles":
        words = re.findall(r"\w+", normalised(text))
        return {" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))}
    text = normalised(text)
    return {text[i : i + 9] for i in range(max(1, len(text) - 8))}


def build(path: str, kind: str, count: int, seed: int) -> dict[str, Any]:
    """Fill a store that has an exact index only; write down what it will be searched for.

    Documents come from one corpus: the last are new texts to search for, of the same words and with
    the same boilerplate as those stored. Texts of other words would find every bucket empty.
    """
    stores.remove(Path(path))
    corpus = Corpus(count + QUERIES, seed)
    rows = list(corpus.documents())
    stored = {key for key, _ in rows[:count]}
    copies = [
        {"key": pair.left, "left": left, "text": text}
        for pair, left, text in zip(
            corpus.planted_pairs(),
            corpus.planted_texts[::2],
            corpus.planted_texts[1::2],
            strict=True,
        )
        if pair.left in stored
    ]
    queries = {"new": [text for _, text in rows[count:]], "copies": copies}
    _queries_of(path).write_text(json.dumps(queries), encoding="utf-8")
    del rows[count:]
    _warm_up(Path(path), kind)
    began = time.perf_counter()
    with simdb.open(path) as database:
        _open(database, kind).add_many(rows)
    return {"seconds": time.perf_counter() - began, **_sizes(path)}


def compact(path: str, kind: str) -> dict[str, Any]:
    """Compact the store."""
    began = time.perf_counter()
    with simdb.open(path) as database:
        _open(database, kind).compact()
    return {"seconds": time.perf_counter() - began, **_sizes(path)}


def join_all(path: str) -> dict[str, Any]:
    """Stream all pairs of the store once, under a memory setting of 1 GiB."""
    stores.read_file(Path(path))
    with simdb.open(path, threads=1, read_only=True, memory=GIBIBYTE) as database:
        return join(database[stores.NAME], str(THRESHOLD), repeats=1)


def search(path: str, kind: str) -> dict[str, Any]:
    """Search for new texts and for planted near copies; count; look for every planted pair."""
    queries = json.loads(_queries_of(path).read_text(encoding="utf-8"))
    copies = [copy["text"] for copy in queries["copies"]]
    texts = {"new texts": queries["new"], "near copies": copies[:QUERIES]}
    stores.read_file(Path(path))
    with simdb.open(path, threads=1, read_only=True) as database:
        collection = database[stores.NAME]

        def find(text: str) -> simdb.Matches:
            return collection.search(text, threshold=THRESHOLD, guarantee="exact")

        for text in [*queries["new"][:WARMING], *copies[:WARMING]]:
            find(text)
        timed = {name: timed_each(find, chosen) for name, chosen in texts.items()}
        counted = {name: _counted(collection, chosen) for name, chosen in texts.items()}
        similar = [
            copy
            for copy in queries["copies"]
            if _similarity(copy["left"], copy["text"], kind) >= THRESHOLD
        ]
        found = sum(
            any(match.key == copy["key"] for match in find(copy["text"])) for copy in similar
        )
    return {
        "milliseconds": timed,
        "counted": counted,
        "planted": len(similar),
        "found": found,
    }


@measure("exact-search", "exact search from text at J = 0.8 in up to 100,000 documents")
def exact_search(bench: Bench) -> None:
    """Measure both kinds of shingles, before and after compaction, warm, on one core."""
    count = min(bench.set_count, MOST_DOCUMENTS)
    for kind in KINDS:
        path = bench.work / f"exact-{kind.partition(' ')[0]}.simdb"
        common: dict[str, Any] = {"path": str(path), "kind": kind}
        before = in_child(f"{HERE}:build", **common, count=count, seed=bench.seed)
        _add_sizes(bench, kind, "before compaction", before, count)
        answer = in_child(f"{HERE}:search", cores=1, **common)
        _add_latencies(bench, kind, "before compaction", answer, LIMITS[kind][0])
        after = in_child(f"{HERE}:compact", **common)
        _add_sizes(bench, kind, "compacted", after, count)
        answer = in_child(f"{HERE}:search", cores=1, **common)
        _add_latencies(bench, kind, "compacted", answer, LIMITS[kind][1])
        _add_join(bench, kind, in_child(f"{HERE}:join_all", cores=1, path=str(path)))
        stores.remove(path)
        _queries_of(str(path)).unlink()


def _add_sizes(bench: Bench, kind: str, when: str, sizes: dict[str, Any], count: int) -> None:
    bench.details[f"exact-search, {kind}, {when}"] = sizes
    note = (
        f"{sizes['postings']:,} postings, {sizes['postings'] / count:.1f} a document, in "
        f"{sizes['runs']} runs; tables postings and symbols {sizes['bytes']:,} bytes, file "
        f"{sizes['file']:,}; {sizes['seconds']:.1f} s"
    )
    bench.at_most(
        "exact-search",
        f"{kind}, {when}: bytes a posting",
        sizes["bytes"] / max(1, sizes["postings"]),
        "bytes",
        limit=BYTES_A_POSTING,
        note=note,
    )


def _add_latencies(
    bench: Bench, kind: str, when: str, answer: dict[str, Any], limit: float
) -> None:
    bench.details[f"exact-search, {kind}, {when}, latencies"] = answer
    for name, timed in answer["milliseconds"].items():
        counted = answer["counted"][name]
        note = (
            f"p50 {timed['processor_p50']:.3g} and p99 {timed['processor_p99']:.3g} ms of "
            f"processor time; a search: looked up {counted['looked_up']:.0f}, scanned "
            f"{counted['scanned']:.0f} (p99 {counted['scanned_p99']:.0f}), candidates "
            f"{counted['candidates']:.2f}, matches {counted['matches']:.2f}, "
            f"runs {counted['runs']:.0f}"
        )
        where = f"{kind}, {when}, {name}"
        bench.at_most("exact-search", f"{where}, p50", timed["p50"], "ms", limit=limit, note=note)
        bench.at_most("exact-search", f"{where}, p99", timed["p99"], "ms", limit=HIGHEST)
    bench.add(
        Figure(
            "exact-search",
            f"{kind}, {when}: planted pairs found",
            answer["found"],
            "",
            target=f"all {answer['planted']:,} with J >= 4/5",
            reached=answer["found"] == answer["planted"],
        )
    )


def _add_join(bench: Bench, kind: str, joined: dict[str, Any]) -> None:
    bench.details[f"exact-search, {kind}, join"] = joined
    note = (
        f"{joined['pairs']:,} pairs of {joined['items']:,} documents in {joined['seconds']:.3g} s "
        f"by way of {joined['way']}; resident with mapped pages "
        f"{joined['peak_resident'] >> 20:,} MiB"
    )
    name = f"{kind}, join, peak memory, setting 1,024 MiB"
    above = joined["peak"] / 2**20
    bench.at_most("exact-search", name, above, "MiB", limit=GIBIBYTE / 2**20, note=note)


def _queries_of(path: str) -> Path:
    return Path(path).with_suffix(".queries.json")


def _open(database: simdb.Database, kind: str) -> simdb.Collection:
    return database.collection(stores.NAME, KINDS[kind], threshold=None, exact_floor=FLOOR, seed=1)


def _warm_up(path: Path, kind: str) -> None:
    """Compile what is measured, on a small store that is deleted again."""
    small = path.with_name(f"warm-up-{path.name}")
    with simdb.open(small) as database:
        collection = _open(database, kind)
        collection.add_many(Corpus(stores.WARM_UP_DOCUMENTS, seed=9).documents())
        collection.search("Übergänge and other words", guarantee="exact")
        for _ in collection.pairs(THRESHOLD, guarantee="exact").batches():
            pass
        collection.compact()
    stores.remove(small)


def _sizes(path: str) -> dict[str, Any]:
    with simdb.open(path, read_only=True) as database:
        described = database[stores.NAME].stats()["exact_index"]
    tables = stores.table_bytes(Path(path))
    return {
        "postings": described["postings"],
        "runs": described["runs"],
        "bytes": tables["postings"] + tables["symbols"],
        "file": Path(path).stat().st_size,
        "tables": tables,
        "index": described,
    }


def _similarity(left: str, right: str, kind: str) -> Fraction:
    one, other = shingle_set(left, kind), shingle_set(right, kind)
    return Fraction(len(one & other), len(one | other))


def _counted(collection: simdb.Collection, texts: Sequence[str]) -> dict[str, float]:
    """Count what searches do, on average."""
    total = Work()
    scanned, matches = [], 0
    for text in texts:
        before = total.looked_at
        matches += _search_with(collection, text, total)
        scanned.append(total.looked_at - before)
    return {
        "runs": collection.stats()["exact_index"]["runs"],
        "looked_up": total.looked_up / len(texts),
        "scanned": total.looked_at / len(texts),
        "scanned_p99": float(np.quantile(scanned, 0.99)),
        "candidates": total.candidates / len(texts),
        "verified": total.compared / len(texts),
        "matches": matches / len(texts),
    }


def _search_with(collection: simdb.Collection, text: str, work: Work) -> int:
    """Search and count; return how many matches there are."""
    with collection._opened() as opened:
        anew = replace(opened, work=work)
        return len(Exact(Threshold(THRESHOLD)).search(anew, text.encode(), None))

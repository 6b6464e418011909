"""The table at the top of docs/benchmarks.md: one job, proved by an exact join in the same run.

100,000 made reviews of 1.4 KB, of which one in twenty is an edited copy of an earlier one, lose
their near duplicates at 0.8 by sets of three words: by the command, from Parquet to Parquet with a
durable store, and by two libraries in memory. SetSimilaritySearch finds all pairs, exactly and with
no code of simdb's. *Missed* are those pairs of which both are kept, *wrong* are rows that are
removed though no row is so like them.
"""

from __future__ import annotations

import importlib.util
import random
import re
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import simdb
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.starting import Took, once
from tools.make_corpus import Corpus

REVIEWS = 100_000
COPIED = 0.05
MOST_EDITS = 0.1  # of the words of a copy
THRESHOLD = 0.8
SLACK = 1e-9  # of similarities that the peer makes by floats
WORDS = 3
SLOTS = 128
TIMES = 3
SEARCHES = 2_000
WORD = re.compile(r"\w+")


def reviews(number: int, seed: int) -> list[str]:
    """Make texts, some of which are earlier ones of which some words were replaced."""
    texts = (text for _, text in Corpus(2 * number, seed).documents())
    generator, made = random.Random(seed), list[str]()
    vocabulary: list[str] = []
    for one, other in zip(texts, texts, strict=True):
        text = f"{one} {other}"
        vocabulary = vocabulary or text.split()
        if made and generator.random() < COPIED:
            words = generator.choice(made).split()
            for _ in range(generator.randrange(int(len(words) * MOST_EDITS) + 1)):
                words[generator.randrange(len(words))] = generator.choice(vocabulary)
            text = " ".join(words)
        made.append(text)
    return made


def shingles_of(text: str) -> set[str]:
    """Cut a text into its runs of three words, in lower case."""
    words = WORD.findall(text.lower())
    return {" ".join(words[i : i + WORDS]) for i in range(max(1, len(words) - WORDS + 1))}


def exact_pairs(texts: Iterable[str]) -> tuple[float, set[tuple[int, int]]]:
    """Find all similar pairs by SetSimilaritySearch; seconds, and the pairs, the earlier first."""
    library = importlib.import_module("SetSimilaritySearch")
    numbers, counted = dict[str, int](), count()
    sets = [{numbers.setdefault(one, next(counted)) for one in shingles_of(text)} for text in texts]
    del numbers
    began = time.perf_counter()
    found = library.all_pairs(
        sets, similarity_func_name="jaccard", similarity_threshold=THRESHOLD - SLACK
    )
    pairs = {(min(pair[:2]), max(pair[:2])) for pair in found}
    return time.perf_counter() - began, pairs


def by_rensa(texts: list[str]) -> tuple[float, set[int]]:
    """Deduplicate by rensa's deduplicator in memory; seconds, and the rows that are kept."""
    rensa = importlib.import_module("rensa")
    began = time.perf_counter()
    found = rensa.RMinHashDeduplicator(threshold=THRESHOLD, num_perm=SLOTS, use_lsh=True)
    kept = found.add_pairs(
        (str(place), list(shingles_of(text))) for place, text in enumerate(texts)
    )
    return time.perf_counter() - began, {place for place, keep in enumerate(kept) if keep}


def by_datasketch(texts: list[str]) -> tuple[float, set[int]]:
    """Deduplicate by datasketch's index in memory, as its documentation shows."""
    datasketch = importlib.import_module("datasketch")
    began = time.perf_counter()
    index = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS)
    shingled = ([one.encode() for one in shingles_of(text)] for text in texts)
    kept = set()
    for place, sketch in enumerate(datasketch.MinHash.generator(shingled, num_perm=SLOTS)):
        if not index.query(sketch):
            index.insert(place, sketch)
            kept.add(place)
    return time.perf_counter() - began, kept


def by_command(source: Path, work: Path) -> tuple[Took, set[int]]:
    """Deduplicate by the command into a new store; what it took, and the rows that are kept."""
    import pyarrow.parquet

    store, kept = work / "headline.simdb", work / "headline-kept.parquet"
    command = (sys.executable, "-m", "simdb", "dedupe", source, "-o", kept, "--store", store)
    options = ("--id-field", "id", "--shingles", f"word:{WORDS}", "--lowercase")
    found = []
    for _ in range(TIMES + 1):  # the first compiles what has not been
        for path in work.glob("headline.simdb*"):
            path.unlink()
        found.append(once(*command, *options, "--threshold", str(THRESHOLD)))
    rows = pyarrow.parquet.read_table(kept, columns=["id"])["id"].to_pylist()
    return Took(*map(statistics.median, zip(*found[1:], strict=True))), set(rows)


def search_seconds(store: Path, texts: list[str]) -> Iterator[float]:
    """Search the store that the command made for some of the texts, one after the other."""
    with simdb.open(store, read_only=True) as database:
        documents = database["documents"]
        for text in texts:
            began = time.perf_counter()
            documents.search(text)
            yield time.perf_counter() - began


@measure("headline", "100,000 reviews deduplicated, and proved against an exact join")
def headline(bench: Bench) -> None:
    """Deduplicate, by simdb and by peers, and compare with all similar pairs."""
    import pyarrow
    import pyarrow.parquet

    texts = reviews(REVIEWS, bench.seed)
    size = sum(map(len, texts)) / REVIEWS
    source = bench.work / "reviews.parquet"
    table = pyarrow.table({"id": range(REVIEWS), "text": texts})
    pyarrow.parquet.write_table(table, source)
    command, kept = by_command(source, bench.work)
    exact, pairs = exact_pairs(texts)
    alike = {place for pair in pairs for place in pair}
    note = f"{len(pairs):,} pairs of {REVIEWS:,} texts of {size:,.0f} characters"
    bench.add(Figure("headline", "SetSimilaritySearch, all pairs", exact, "s", note=note))

    def told(name: str, seconds: float, kept: set[int], note: str) -> None:
        missed = sum(pair[0] in kept and pair[1] in kept for pair in pairs)
        wrong = len(set(range(REVIEWS)) - kept - alike)
        found = f"{len(kept):,} kept, {missed:,} pairs missed, {wrong:,} rows wrong{note}"
        ratio = exact / seconds
        bench.add(Figure("headline", name, seconds, "s", ratio=ratio, note=found))

    stored = (bench.work / "headline.simdb").stat().st_size / 1e6
    more = f"; {command.processor:.1f} s of processor, a store of {stored:.0f} MB"
    told("simdb dedupe, Parquet to Parquet, durable", command.clock, kept, more)
    for name, peer in (("rensa", by_rensa), ("datasketch", by_datasketch)):
        if importlib.util.find_spec(name):
            told(f"{name}, lists in memory", *peer(texts), "")
    times = [*search_seconds(bench.work / "headline.simdb", texts[:: REVIEWS // SEARCHES])]
    bench.add(
        Figure(
            *("headline", "a search of the store, median"),
            *(statistics.median(times) * 1e3, "ms"),
            note=f"p99 {statistics.quantiles(times, n=100)[98] * 1e3:.2f} ms",
        )
    )

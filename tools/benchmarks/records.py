"""Linking and deduplicating records whose matches are known, beside the peers (MMDS 3.8.2, 3.8.3).

Rules, weights and thresholds are set by hand, with the data at hand but without training; the
peers have the same rules for their candidates, and texts that were prepared outside the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.config.records import Equal, Field, Record
from simdb.items.records import RecordItems
from simdb.lsh.records import (
    RecordFamily,
    candidate_pairs,
    large_bucket_warnings,
    rule_costs,
)
from simdb.measures.calibration import calibrate
from simdb.measures.records import RecordMeasure
from tools.benchmarks.children import CHECKOUT, in_child
from tools.benchmarks.record_data import VENUES, Row, Task, best_f1, load, quality
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.records"
PEERS = ("recordlinkage", "splink", "dedupe")
HAND_SET = ("recordlinkage", "splink")  # dedupe is trained with the answers
PEER_SECONDS = 300
PLAIN = ("unaccented", "lowercase", "alphanumeric")
# fmt: off
STREETS = (
    ("street", "st", "sts"), ("avenue", "ave", "aves"), ("boulevard", "blvd", "blv"),
    ("road", "rd"), ("highway", "hwy"), ("drive", "dr"), ("parkway", "pkwy"), ("place", "pl"),
    ("square", "sq"), ("west", "w"), ("east", "e"), ("north", "n"), ("south", "s"),
    ("1st", "first"), ("2nd", "second"), ("3rd", "third"), ("4th", "fourth"), ("5th", "fifth"),
    ("6th", "sixth"), ("7th", "seventh"), ("8th", "eighth"), ("9th", "ninth"), ("10th", "tenth"),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is set by hand for a data set: the settings, and the share of all points to match."""

    settings: Record
    threshold: float


def person_field(name: str, weight: int, tolerance: int) -> Field:
    """Return a field of a person; one that is missing speaks neither for a match nor against."""
    return Field(name, weight, tolerance=tolerance, missing="ignore")


PUBLICATIONS = Record(
    fields=(
        Field("title", 100, "words", prepare=PLAIN),
        Field("authors", 50, "words", prepare=PLAIN),
        Field("venue", 100, "exact", prepare=PLAIN, equivalents=VENUES),
        Field("year", 100, "exact"),
    ),
    candidates=(
        (Equal("title", ("first:20",)),),
        (Equal("title", ("last:20",)),),
        (Equal("authors", ("sorted-words",)),),
        (Equal("authors", ("first-word",)), Equal("year"), Equal("venue")),
    ),
)
PEOPLE = Record(
    fields=(
        person_field("given_name", 60, 3),
        person_field("surname", 60, 3),
        person_field("street_number", 30, 2),
        person_field("address_1", 60, 5),
        person_field("address_2", 40, 5),
        person_field("suburb", 50, 5),
        person_field("postcode", 50, 2),
        person_field("state", 20, 1),
        person_field("date_of_birth", 100, 3),
        person_field("soc_sec_id", 100, 3),
    ),
    candidates=(
        (Equal("soc_sec_id"),),
        (Equal("date_of_birth"),),
        (Equal("given_name"), Equal("surname")),
        (Equal("surname"), Equal("postcode")),
        (Equal("given_name"), Equal("postcode")),
        (Equal("address_1"), Equal("street_number")),
        (Equal("address_1"), Equal("suburb")),
    ),
)
RESTAURANTS = Record(
    fields=(
        Field("name", 100, "words", prepare=PLAIN),
        Field("address", 100, "words", prepare=PLAIN, equivalents=STREETS),
        Field("city", 20, "words", prepare=PLAIN),
    ),
    candidates=(
        (Equal("name"),),
        (Equal("name", ("first-word",)),),
        (Equal("name", ("last-word",)),),
        (Equal("address", ("digits",)),),
    ),
)
CHOSEN = {
    "fodors_zagat": Chosen(RESTAURANTS, 0.6),
    "dblp_acm": Chosen(PUBLICATIONS, 0.8),
    "febrl1": Chosen(PEOPLE, 0.4),
    "febrl4": Chosen(PEOPLE, 0.4),
}
# The field that scores are calibrated by, which is then not scored.
CALIBRATED = {"dblp_acm": "year", "febrl4": "state"}
EDGES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
RANDOM_PAIRS = 100_000


@dataclass(slots=True)
class Linked:
    """The candidates of two tables, or of one, and their similarities."""

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    warnings: list[str]


def link(settings: Record, left: list[Row], right: list[Row] | None) -> Linked:
    """Link two tables, or deduplicate one, in memory: from rows of strings to similarities."""
    items, family = RecordItems(settings), RecordFamily(settings, bytes(32))
    comparing = RecordMeasure(settings)
    names = [field.name for field in settings.fields]
    sides = []
    for rows in (left, right):
        if rows is not None:
            stored = [items.encode({name: row[name] for name in names}) for row in rows]
            features = items.features(stored)
            sides.append((features, family.keys(family.sign(features))))
    (features, keys), (others, other_keys) = sides[0], sides[-1]
    linked = None if right is None else other_keys
    found: list[tuple[Any, ...]] = [
        (one, other, comparing.compare_between(features, others, one, other).values())
        for one, other in candidate_pairs(keys, linked)
    ]
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    warnings = large_bucket_warnings(settings, rule_costs(settings, keys, linked))
    return Linked(columns[0], columns[1], columns[2], warnings)


def run(data: str, name: str) -> dict[str, Any]:
    """Link one data set; say how well, and how long it took from rows to similarities."""
    task, chosen = load(name, Path(data)), CHOSEN[name]
    linked = link(chosen.settings, task.left, task.right)
    timed = repeated(lambda: link(chosen.settings, task.left, task.right))
    pairs = list(zip(linked.left.tolist(), linked.right.tolist(), strict=True))
    kept = linked.values >= chosen.threshold
    answer = {
        **timed,
        "candidates": len(pairs),
        "reached": len(task.truth.intersection(pairs)) / len(task.truth),
        **quality({pair for pair, keep in zip(pairs, kept, strict=True) if keep}, task.truth),
        **best_f1(pairs, linked.values.tolist(), task.truth),
        "warnings": linked.warnings,
        "settings": f"{chosen.settings}, {chosen.threshold}",
    }
    if name in CALIBRATED:
        answer["calibration"] = calibrated(task, CALIBRATED[name])
    return answer


def calibrated(task: Task, unscored: str) -> list[dict[str, Any]]:
    """Estimate the matches at each score from a field that is not scored, beside the truth."""
    chosen = CHOSEN[task.name].settings
    settings = Record(
        fields=tuple(field for field in chosen.fields if field.name != unscored),
        candidates=tuple(
            rule for rule in chosen.rules if unscored not in {equal.field for equal in rule}
        ),
    )
    linked = link(settings, task.left, task.right)
    sides = [
        np.array([row[unscored] for row in rows])
        for rows in (task.left, task.left if task.right is None else task.right)
    ]
    apart = _differences(sides[0][linked.left], sides[1][linked.right])
    chance = np.random.default_rng(0).integers(len(task.left), size=(2, RANDOM_PAIRS))
    random = _differences(sides[0][chance[0] % sides[0].size], sides[1][chance[1] % sides[1].size])
    surely = linked.values == linked.values.max()
    result = calibrate(linked.values, apart, matched=apart[surely], random=random, edges=EDGES)
    pairs = zip(linked.left.tolist(), linked.right.tolist(), strict=True)
    true = np.fromiter((pair in task.truth for pair in pairs), np.bool_, linked.left.size)
    table: list[dict[str, Any]] = []
    for place, (low, high) in enumerate(pairwise(EDGES)):
        within = (linked.values >= low) & ((linked.values < high) | (high == EDGES[-1]))
        if within.any():
            bucket = result.buckets[place]
            table.append(
                {
                    "from": low,
                    "to": high,
                    "pairs": int(within.sum()),
                    "estimated": round(bucket.fraction, 3),
                    "interval": [round(bucket.fraction_low, 3), round(bucket.fraction_high, 3)],
                    "true": round(float(true[within].mean()), 3),
                }
            )
    return table


def _differences(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return whether values differ, 0 or 1; nan where one is missing."""
    missing = (left == "") | (right == "")
    return np.where(missing, np.nan, left != right)


def run_peer(python: Path | None, peer: str, name: str, data: Path) -> dict[str, Any]:
    """Link one data set with a peer, by a Python that has it.

    Returns:
        ``{"absent": ...}`` if no Python was named, or the one named fails or takes too long.
    """
    if python is None:
        return {"absent": f"{peer} (SIMDB_RECORD_PEERS=PYTHON)"}
    try:
        completed = subprocess.run(
            [str(python), "-m", "tools.benchmarks.record_peers", peer, name, str(data)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=CHECKOUT,
            check=False,
            timeout=PEER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"absent": f"{peer}: not ready after {PEER_SECONDS} s"}
    if completed.returncode:
        return {"absent": f"{peer}: {python} failed"}
    answer: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return answer


@measure("records", "linking and deduplicating records, beside recordlinkage, splink and dedupe")
def records(bench: Bench) -> None:
    """Measure every data set: quality and seconds, of simdb on one core."""
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    named = os.environ.get("SIMDB_RECORD_PEERS")
    python = Path(named) if named else None
    for name in CHOSEN:
        answer = in_child(f"{HERE}:run", cores=1, data=str(bench.data), name=name)
        peers = {peer: run_peer(python, peer, name, bench.data) for peer in PEERS}
        bench.details[f"records, {name}"] = {"simdb": answer, **peers}
        bench.add(Figure("records", f"{name}, seconds", answer["seconds"], "s"))
        print(f"      settings: {answer['settings']}")
        hand_set = [peers[peer] for peer in HAND_SET if "absent" not in peers[peer]]
        best = max(hand_set, key=lambda peer: peer["f1"], default=None)
        note = _described(answer)
        for peer, other in peers.items():
            note += f"; {peer}: " + (_described(other) if "f1" in other else "absent")
            print(f"      {peer}: {other.get('settings', other)}")
        bench.add(
            Figure(
                "records",
                f"{name}, F1",
                answer["f1"],
                "",
                peer="the best of the peers whose rules are set by hand",
                peer_value=None if best is None else best["f1"],
                ratio=None if best is None else answer["f1"] / best["f1"],
                target="at least that of the peer, in less time",
                reached=None
                if best is None
                else answer["f1"] >= best["f1"] and answer["seconds"] < best["seconds"],
                note=note,
            )
        )
        for row in answer.get("calibration", ()):
            print(f"      calibrated by {CALIBRATED[name]}: {row}")


def _described(answer: dict[str, Any]) -> str:
    return (
        f"precision {answer['precision']:.4f}, recall {answer['recall']:.4f}, F1 "
        f"{answer['f1']:.4f} (best of all thresholds {answer['best_f1']:.4f}), "
        f"{answer['seconds']:.3g} s"
    )


def main() -> None:
    """Print what was measured of simdb alone, without the registry's report."""
    began = time.perf_counter()
    for name in CHOSEN:
        answer = run(os.environ["SIMDB_DATA"], name)
        print(name, _described(answer), f"candidates' recall {answer['reached']:.4f}")
        for row in answer.get("calibration", ()):
            print("  ", row)
    print(f"{time.perf_counter() - began:.3g} s")


if __name__ == "__main__":
    main()

"""Linking and deduplicating records whose matches are known, beside the peers (MMDS 3.8.2, 3.8.3).

simdb is timed from rows of strings to pairs with keys: it makes a store, adds both tables (each a
durable collection), joins them and closes; of one table it adds and asks for the pairs. The peers
link tables in memory, whose texts and columns for the rules were prepared outside the clock.

Rules, weights and thresholds are set by hand, with the data and its answers at hand but without
training; the peers that have rules are given the same ones for their candidates, and weights and
thresholds chosen in the same way. ``record_peers`` says how the peers are installed.

Beside this, thresholds are chosen on one half of the entities and F1 is reported on the other
(``record_split``), of weights set by hand, of weights learnt without labels, and of the peers, by
hand and by the settings of their documentation. The rules of simdb stay those set by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import simdb
from simdb.kinds.records import Alike, Equal, Field, Record
from simdb.upkeep.weigh import Weights
from tools.benchmarks.children import CHECKOUT, in_child, memory_watched
from tools.benchmarks.record_data import VENUES, Task, best_f1, load, quality
from tools.benchmarks.record_split import judged, scored, split_of
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.records"
PEERS = ("recordlinkage", "splink", "dedupe")
HAND_SET = ("recordlinkage", "splink")  # dedupe is trained with the answers
DOCUMENTED = ("documented_recordlinkage", "documented_splink")  # by settings of their documentation
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
# One rule by similarity in the place of all rules of equality, which nobody has to think of.
SIMILAR = {
    "fodors_zagat": Alike(("name", "address"), 0.3),
    "dblp_acm": Alike(("title", "authors"), 0.5),
    **dict.fromkeys(
        ("febrl1", "febrl4"),
        Alike(
            ("given_name", "surname", "address_1", "suburb", "postcode", "date_of_birth",
             "soc_sec_id"), 0.4, 3,
        ),
    ),
}  # fmt: skip
# The field that scores are calibrated by, which is then not scored.
CALIBRATED = {"dblp_acm": "year", "febrl4": "state"}
PROBABLE = 0.5  # from which on pairs match by weights that are learnt
EVERY_CANDIDATE = "0.01"  # a threshold that nearly all candidates meet
SURE = 0.95  # the score from which on pairs are taken for matches when calibrating
COLLECTIONS = ("left", "right")
SCORED = ("pairs", "scores", "kept")  # of what a peer answers, one for each pair


@contextmanager
def stored(
    task: Task, settings: Record, threshold: float | str, folder: Path
) -> Iterator[list[simdb.Collection]]:
    """Make a store of the tables of a task, a durable collection each."""
    names = [field.name for field in settings.fields]
    with (
        tempfile.TemporaryDirectory(dir=folder) as made,
        simdb.open(Path(made) / "records.simdb") as database,
    ):
        collections = []
        for name, rows in zip(COLLECTIONS, (task.left, task.right), strict=True):
            if rows is None:
                continue
            collection = database.collection(name, settings, threshold=threshold, seed=1)
            collection.add_many(
                (place, {name: row[name] for name in names}) for place, row in enumerate(rows)
            )
            collections.append(collection)
        yield collections


def pairs_of(collections: list[simdb.Collection]) -> list[simdb.Pair]:
    """Link two collections, or deduplicate one."""
    first, *others = collections
    return list(first.join(others[0]) if others else first.pairs())


def positions(pair: simdb.Pair) -> tuple[int, int]:
    """Return the keys of a pair, which are positions in the tables."""
    return int(pair.left), int(pair.right)


def by_rules(task: Task, chosen: Chosen, folder: Path) -> dict[str, Any]:
    """Say what the rules of some settings reach, how many pairs they propose, and how well."""
    began = time.process_time()
    with stored(task, chosen.settings, chosen.threshold, folder) as collections:
        found = pairs_of(collections)
    seconds = time.process_time() - began
    with stored(task, chosen.settings, EVERY_CANDIDATE, folder) as collections:
        scored = pairs_of(collections)
        costs = [collection.stats() for collection in collections]
    pairs = [positions(pair) for pair in scored]
    return {
        "candidates": len(pairs),
        "reached": len(task.truth.intersection(pairs)) / len(task.truth),
        "processor": seconds,
        "index_bytes": costs[0]["index"]["bytes_per_item"],
        **quality(set(map(positions, found)), task.truth),
        **best_f1(pairs, [pair.value for pair in scored], task.truth),
        "largest_buckets": {
            rule["rule"]: max(cost["rules"][place]["largest"] for cost in costs)
            for place, rule in enumerate(costs[0]["rules"])
        },
        "settings": f"{chosen.settings}, {chosen.threshold}",
    }


def run(data: str, name: str, work: str) -> dict[str, Any]:
    """Link one data set; say how well, and how long it took from rows to pairs with keys."""
    task, chosen = load(name, Path(data)), CHOSEN[name]

    def whole() -> list[simdb.Pair]:
        with stored(task, chosen.settings, chosen.threshold, Path(work)) as collections:
            return pairs_of(collections)

    began = time.perf_counter()
    whole()
    first = time.perf_counter() - began
    timed = repeated(whole)
    settings = chosen.settings.changed(candidates=[SIMILAR[name]])
    answer = {
        **by_rules(task, chosen, Path(work)),
        **timed,
        "first_seconds": first,
        "similar": by_rules(task, Chosen(settings, chosen.threshold), Path(work)),
    }
    if name in CALIBRATED:
        answer["calibration"], _ = calibrated(task, CALIBRATED[name], Path(work))
    return answer


def run_split(data: str, name: str, work: str, *, is_learnt: bool) -> dict[str, Any]:
    """Score the candidates of one data set by weights set by hand or learnt without labels.

    Seconds are from rows to all candidates with their scores, learning among them.
    """
    task, chosen = load(name, Path(data)), CHOSEN[name].settings

    def whole() -> tuple[list[simdb.Pair], Weights | None]:
        with stored(task, chosen, EVERY_CANDIDATE, Path(work)) as collections:
            if not is_learnt:
                return pairs_of(collections), None
            first, *others = collections
            weights = first.learn(other=others[0] if others else None, seed=1)
            for collection in collections:
                collection.rebuild(weights.kind, threshold=EVERY_CANDIDATE)
            return pairs_of(collections), weights

    with memory_watched() as memory:
        found, weights = whole()
    pairs = [positions(pair) for pair in found]
    answer = {
        "pairs": pairs,
        "scores": [pair.value for pair in found],
        "memory": memory["peak"],
        **repeated(whole),
    }
    if weights is not None:
        certain = weights.threshold(PROBABLE)
        answer["kept"] = [
            pair for pair, one in zip(pairs, found, strict=True) if one.value >= certain
        ]
        answer["warnings"] = weights.warnings
    return answer


def split(
    bench: Bench, python: Path | None, name: str, hand_set: dict[str, dict[str, Any]]
) -> None:
    """Report what thresholds that are chosen on half of the entities give on the others.

    Args:
        bench: the run.
        python: that of the peers.
        name: of the data set.
        hand_set: answers of the peers whose weights are set by hand.
    """
    assert bench.data is not None
    task = load(name, bench.data)
    halves = split_of(task)
    answers: dict[str, dict[str, Any]] = {
        f"simdb, weights {words}": in_child(
            f"{HERE}:run_split",
            data=str(bench.data),
            name=name,
            work=str(bench.work),
            is_learnt=is_learnt,
        )
        for words, is_learnt in (("set by hand", False), ("learnt without labels", True))
    }
    for peer in HAND_SET:
        answers[f"{peer}, set by hand"] = hand_set[peer]
    for peer in DOCUMENTED:
        words = f"{peer.removeprefix('documented_')}, as documented"
        answers[words] = run_peer(python, peer, name, bench.data)
    for program, answer in answers.items():
        if "absent" in answer:
            print(f"      {program}: absent")
            continue
        pairs = list(map(tuple, answer.pop("pairs")))
        own = answer.pop("kept", None)
        # What was set by hand takes for matches what was chosen with the answers.
        is_by_hand = program.endswith("by hand")
        own = None if own is None or is_by_hand else map(tuple, own)
        found = scored(pairs, answer.pop("scores"), own)
        reached = len(task.truth.intersection(pairs)) / len(task.truth)
        answer["split"] = list(judged(halves, found, is_clean=task.right is not None))
        for told in answer["split"]:
            bench.add(
                Figure(
                    "records",
                    f"{name}, half of the entities, F1 of {program}, {told['way']}",
                    told["f1"],
                    "",
                    note=f"[{told['low']:.4f}, {told['high']:.4f}]; {len(pairs):,} pairs scored, "
                    f"{reached:.4f} of the matches among them, {answer['seconds']:.3g} s "
                    f"({answer['processor']:.3g} of processors), "
                    f"{answer['memory'] / 1e6:,.0f} MB",
                )
            )
    bench.details[f"records, {name}, half of the entities"] = answers


def calibrated(
    task: Task, unscored: str, folder: Path
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Estimate the matches at each score from a field that is not scored, beside the truth.

    Returned with the warnings of the estimate.
    """
    chosen = CHOSEN[task.name].settings
    settings = Record(
        fields=[
            field.changed(weight=0, missing=0) if field.name == unscored else field
            for field in chosen.fields
        ],
        candidates=[
            rule for rule in chosen.rules if all(unscored not in part.names for part in rule)
        ],
    )
    with stored(task, settings, "0.1", folder) as collections:
        first, *others = collections
        result = first.calibrate(unscored, other=others[0] if others else None, certain=SURE)
        scored = pairs_of(collections)
    table: list[dict[str, Any]] = []
    for bucket in result.buckets:
        last = bucket is result.buckets[-1]
        true = [
            positions(pair) in task.truth
            for pair in scored
            if bucket.low <= pair.value and (pair.value < bucket.high or last)
        ]
        if true:
            table.append(
                {
                    "from": bucket.low,
                    "to": bucket.high,
                    "pairs": len(true),
                    "estimated": round(bucket.fraction, 3),
                    "interval": [round(bucket.fraction_low, 3), round(bucket.fraction_high, 3)],
                    "true": round(sum(true) / len(true), 3),
                }
            )
    return table, result.warnings


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
    """Measure every data set: quality and seconds."""
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    named = os.environ.get("SIMDB_RECORD_PEERS")
    python = Path(named) if named else None
    for name in CHOSEN:
        answer = in_child(f"{HERE}:run", data=str(bench.data), name=name, work=str(bench.work))
        peers = {peer: run_peer(python, peer, name, bench.data) for peer in PEERS}
        shown = {
            peer: {key: value for key, value in other.items() if key not in SCORED}
            for peer, other in peers.items()
        }
        bench.details[f"records, {name}"] = {"simdb": answer, **shown}
        quickest = _quickest(peers)
        bench.add(
            Figure(
                "records",
                f"{name}, from rows to pairs",
                answer["seconds"],
                "s",
                peer="the quickest of the peers",
                peer_value=quickest,
                ratio=None if quickest is None else quickest / answer["seconds"],
                note=f"the first time in a process {answer['first_seconds']:.3g} s",
            )
        )
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
        similar = answer["similar"]
        bench.add(
            Figure(
                "records",
                f"{name}, F1 by one rule of similarity",
                similar["f1"],
                "",
                peer="by rules of equality, set by hand",
                peer_value=answer["f1"],
                ratio=similar["f1"] / answer["f1"],
                note="; ".join(
                    f"{rules}: {made['candidates']:,} pairs proposed, {made['reached']:.4f} of the "
                    f"matches among them, {made['processor']:.3g} s of processor, "
                    f"{made['index_bytes']:.0f} bytes an item"
                    for rules, made in ((SIMILAR[name], similar), ("equality", answer))
                ),
            )
        )
        for row in answer.get("calibration", ()):
            print(f"      calibrated by {CALIBRATED[name]}: {row}")
        split(bench, python, name, peers)


def _quickest(peers: dict[str, dict[str, Any]]) -> float | None:
    return min((peer["seconds"] for peer in peers.values() if "seconds" in peer), default=None)


def _described(answer: dict[str, Any]) -> str:
    return (
        f"precision {answer['precision']:.4f}, recall {answer['recall']:.4f}, F1 "
        f"{answer['f1']:.4f} (best of all thresholds {answer['best_f1']:.4f}), "
        f"{answer['seconds']:.3g} s"
        + (f" ({answer['processor']:.3g} of processors)" if "processor" in answer else "")
    )

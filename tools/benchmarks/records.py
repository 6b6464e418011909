"""Linking and deduplicating records whose matches are known, beside splink and recordlinkage.

Nothing is set for simdb: comparisons and rules are those of ``propose_record``, weights those of
``learn``, as in ``simdb link`` and ``simdb dedupe`` with nothing given. The peers have the settings
of their documentation (``record_peers``, which says how they are installed). F1 is reported on one
half of the entities (``record_split``): of what a program takes for matches itself, and by the
threshold that is best on the other half; of weights learnt from labels of that other half, too.

With ``SIMDB_RECORD_TABLES=FOLDER``, a checkout of github.com/AI-team-UoA/pyJedAI, tables of it are
measured as well. Rules of the peers for these were set before any result of theirs was seen.

simdb is timed from rows of strings to all candidates with keys and scores: it proposes, makes a
store, adds both tables (each a durable collection), learns, rebuilds and joins. The peers work in
memory, on texts and columns for the rules that were prepared outside the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import simdb
from simdb.results import Pair
from simdb.upkeep.weigh import Weights
from tools.benchmarks.children import CHECKOUT, in_child, memory_watched
from tools.benchmarks.record_calibration import CALIBRATED, calibrated
from tools.benchmarks.record_data import CHECKED_OUT, FROM_PEER, NAMES, Task, load
from tools.benchmarks.record_split import judged, labels_of, scored, split_of
from tools.benchmarks.record_stores import pairs_of, positions, stored
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.records"
PEERS = ("splink", "recordlinkage", "labelled_recordlinkage")
PEER_SECONDS = 300
PROBABLE = 0.5  # from which on pairs match
EVERY_CANDIDATE = "0.01"  # a threshold that nearly all candidates meet
ALONE = "one to one"  # learnt for it, and only what is chosen so is reported
WAYS = tuple(
    f"{given}{end}"
    for given in ("nothing given", "labels of the other half")
    for end in ("", f", {ALONE}")
)


def linked(
    task: Task, folder: Path, *, one_to_one: bool = False, is_labelled: bool = False
) -> tuple[list[Pair], Weights, list[str]]:
    """Propose, store, learn and compare; return the candidates with scores, weights and rules."""
    sides = [rows for rows in (task.left, task.right) if rows is not None]
    tables = [[{name: row[name] for name in task.fields} for row in rows] for rows in sides]
    proposal = simdb.propose_record(*tables)
    with stored(task, proposal.kind, EVERY_CANDIDATE, folder) as collections:
        first, *others = collections
        other = others[0] if others else None
        labels = None
        if is_labelled:
            labels = labels_of(split_of(task), map(positions, pairs_of(collections)))
        weights = first.learn(labels, other=other, seed=1, one_to_one=one_to_one)
        for collection in collections:
            collection.rebuild(weights.kind, threshold=EVERY_CANDIDATE)
        return pairs_of(collections), weights, list(proposal.pairs)


def run(data: str, name: str, work: str, way: str) -> dict[str, Any]:
    """Score the candidates of one data set; say which pairs match, by no threshold of anybody."""
    task = load(name, Path(data))
    whole = partial(
        linked,
        task,
        Path(work),
        one_to_one=way.endswith(ALONE),
        is_labelled=way.startswith("labels"),
    )
    with memory_watched() as memory:
        found, weights, rules = whole()
    certain = weights.threshold(PROBABLE)
    pairs = list(map(positions, found))
    return {
        "pairs": pairs,
        "scores": [pair.value for pair in found],
        "kept": [pair for pair, one in zip(pairs, found, strict=True) if one.value >= certain],
        "rules": rules,
        "warnings": weights.warnings,
        "memory": memory["peak"],
        **repeated(whole),
    }


def run_calibrated(data: str, name: str, work: str) -> dict[str, Any]:
    """Calibrate the scores of one data set."""
    table, warnings = calibrated(load(name, Path(data)), CALIBRATED[name], Path(work))
    return {"table": table, "warnings": warnings}


def run_peer(python: Path | None, peer: str, task: Task, data: Path, work: Path) -> dict[str, Any]:
    """Link one data set with a peer, by a Python that has it.

    It is told by a file in the folder ``work`` which left records it may learn the matches of.

    Returns:
        ``{"absent": ...}`` if no Python was named, or the one named fails or takes too long.
    """
    if python is None:
        return {"absent": f"{peer} (SIMDB_RECORD_PEERS=PYTHON)"}
    halves = split_of(task)
    told = work / "labelled.json"
    told.write_text(json.dumps(halves.is_chosen_on[halves.entity].tolist()), encoding="ascii")
    asked = [peer, task.name, str(data), str(told)]
    try:
        completed = subprocess.run(
            [str(python), "-m", "tools.benchmarks.record_peers", *asked],
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


def report(bench: Bench, task: Task, answers: dict[str, dict[str, Any]]) -> None:
    """Report F1 of all programs on the half of the entities that nothing was chosen on.

    Args:
        bench: the run.
        task: the tables.
        answers: of each program, which begins with its name.
    """
    halves = split_of(task)
    own: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for program, answer in answers.items():
        if "absent" in answer:
            print(f"      {program}: {answer['absent']}")
            continue
        pairs = list(map(tuple, answer.pop("pairs")))
        found = scored(pairs, answer.pop("scores"), map(tuple, answer.pop("kept")))
        reached = len(task.truth.intersection(pairs)) / len(task.truth)
        told = list(judged(halves, found, is_clean=task.right is not None))
        if program.startswith("simdb"):
            told = [one for one in told if one["is_alone"] == program.endswith(ALONE)]
        answer["split"] = told
        for one in told:
            if one["is_own"]:
                own[f"{program}{', one to one' * one['is_alone']}"] = one, answer
            bench.add(
                Figure(
                    "records",
                    f"{task.name}, F1 of {program}, {one['way']}",
                    one["f1"],
                    "",
                    note=f"[{one['low']:.4f}, {one['high']:.4f}]; {len(pairs):,} pairs proposed, "
                    f"{reached:.4f} of the matches among them, {answer['seconds']:.3g} s "
                    f"({answer['processor']:.3g} of processors), "
                    f"{answer['memory'] / 1e6:,.0f} MB",
                )
            )
    bench.details[f"records, {task.name}"] = answers
    for is_alone in (False, True)[: 1 + (task.right is not None)]:
        _compare(bench, task.name, own, is_alone=is_alone)


def _compare(
    bench: Bench,
    name: str,
    own: dict[str, tuple[dict[str, Any], dict[str, Any]]],
    *,
    is_alone: bool,
) -> None:
    """Hold what simdb takes for matches, nothing given, against the peers without labels."""
    known = {
        program: one
        for program, one in own.items()
        if one[0]["is_alone"] == is_alone and "label" not in program
    }
    (mine,) = (one for program, one in known.items() if program.startswith("simdb"))
    peers = {program: one for program, one in known.items() if not program.startswith("simdb")}
    if not peers:
        return
    words = f"{name}, nothing given" + ", one to one" * is_alone
    best = max(peers, key=lambda program: peers[program][0]["f1"])
    bench.add(
        Figure(
            "records",
            f"{words}: F1",
            mine[0]["f1"],
            "",
            peer=best,
            peer_value=peers[best][0]["f1"],
            ratio=mine[0]["f1"] / max(peers[best][0]["f1"], 1e-9),
            target="not below the best peer, interval considered",
            reached=mine[0]["high"] >= peers[best][0]["f1"],
        )
    )
    for program, (_, answer) in peers.items():
        ratio = answer["processor"] / mine[1]["processor"]
        bench.add(
            Figure(
                "records",
                f"{words}: processor",
                mine[1]["processor"],
                "s",
                peer=program,
                peer_value=answer["processor"],
                ratio=ratio,
                target="twice its speed",
                reached=ratio >= 2,
            )
        )


def _from_peer(python: Path | None, work: Path) -> None:
    """Write the tables that come with a peer into the work folder, if it is there."""
    if python is not None:
        subprocess.run(
            [str(python), "-m", "tools.benchmarks.record_peers", "tables", str(work)],
            cwd=CHECKOUT,
            check=True,
        )


@measure("records", "linking and deduplicating records with nothing set, beside its peers")
def records(bench: Bench) -> None:
    """Measure every data set: quality, seconds and memory."""
    if bench.data is None:
        raise FileNotFoundError("this measure needs --data FOLDER or SIMDB_DATA")
    named = os.environ.get("SIMDB_RECORD_PEERS")
    python = Path(named) if named else None
    _from_peer(python, bench.work)
    tables = os.environ.get("SIMDB_RECORD_TABLES")
    for name in (*NAMES, *(CHECKED_OUT if tables else ())):
        data = bench.work if name in FROM_PEER else bench.data
        if tables and name in CHECKED_OUT:
            data = Path(tables)
        if name in FROM_PEER and python is None:
            print(f"      {name}: absent, since it comes with recordlinkage")
            continue
        task = load(name, data)
        asked: dict[str, Any] = {"data": str(data), "name": name, "work": str(bench.work)}
        answers: dict[str, dict[str, Any]] = {}
        for way in WAYS:
            if task.right is not None or not way.endswith(ALONE):
                answers[f"simdb, {way}"] = in_child(f"{HERE}:run", **asked, way=way)
        for rule in answers[f"simdb, {WAYS[0]}"]["rules"]:
            print(f"      {name}, proposed: {rule}")
        for peer in PEERS:
            words = f"{peer.removeprefix('labelled_')}, as documented"
            if peer.startswith("labelled"):
                words += ", labels of the other half"
            answers[words] = run_peer(python, peer, task, data, bench.work)
        report(bench, task, answers)
        if name in CALIBRATED:
            for row in in_child(f"{HERE}:run_calibrated", **asked)["table"]:
                print(f"      calibrated by {CALIBRATED[name]}: {row}")

"""Chosen to be bad: equal items, boilerplate, and items that collide under a seed that is known."""

from __future__ import annotations

import random
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import simdb
from tools.campaigns import children
from tools.campaigns.registry import Run, campaign

MOST_SECONDS_A_THOUSAND = 2.0
MOST_MEMORY = 1_500 * 2**20
WORDS = simdb.Text(simdb.WordShingles(1))


def _equal(count: int, _: int) -> list[tuple[int, str]]:
    return [(number, "the same text for all of them") for number in range(count)]


def _empty(count: int, _: int) -> list[tuple[int, str]]:
    return [(number, " " * (number % 3)) for number in range(count)]


def _boilerplate(count: int, _: int) -> list[tuple[int, str]]:
    """Half of each text is common to all: a Jaccard similarity of a third."""
    common = " ".join(f"common{number}" for number in range(40))
    return [
        (number, f"{common} " + " ".join(f"own{number}x{place}" for place in range(40)))
        for number in range(count)
    ]


def _frequent(count: int, seed: int) -> list[tuple[int, str]]:
    """One word in all texts, and the rest drawn from few."""
    generator = random.Random(seed)
    return [
        (number, "all " + " ".join(f"w{generator.randrange(300)}" for _ in range(15)))
        for number in range(count)
    ]


def _colliding(count: int, seed: int) -> list[tuple[int, str]]:
    """Texts that share their first bucket under seed 1, if that is the seed."""
    with tempfile.TemporaryDirectory() as folder, simdb.open(Path(folder) / "known") as known:
        signer = known.collection("c", WORDS, threshold=0.8, seed=1)._present.signer
    generator = random.Random(seed)
    best = min(
        (f"m{generator.getrandbits(40)}" for _ in range(20_000)),
        key=lambda word: int(signer.sign([word.encode()]).signatures[0, 0]) or 99_999,
    )
    return [
        (number, f"{best} " + " ".join(f"own{number}x{place}" for place in range(10)))
        for number in range(count)
    ]


INPUTS = {
    "equal": _equal,
    "empty": _empty,
    "boilerplate": _boilerplate,
    "frequent": _frequent,
    "colliding": _colliding,
}


def _load(path: Path, name: str, count: int, seed: int) -> dict[str, Any]:
    rows = INPUTS[name](count, seed)
    began = time.perf_counter()
    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", WORDS, threshold=0.8, exact_floor=0.7)
        collection.add_many(rows)
        added = time.perf_counter() - began
        began = time.perf_counter()
        groups = sum(1 for _ in collection.groups())
        grouped = time.perf_counter() - began
        matches = len(collection.search(rows[0][1], threshold=0.8, limit=10))
        searched = time.perf_counter() - began - grouped
        sound = database.check().sound
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
    return {
        "added": added,
        "grouped": grouped,
        "searched": searched,
        "groups": groups,
        "matches": matches,
        "sound": sound,
        "peak": peak,
    }


@campaign(
    "skew",
    "equal, empty, boilerplate, frequent and colliding items",
    short=200,
    long=100_000,
    small_parts=False,
)
def skew(run: Run) -> None:
    """Store so many bad items of every sort, group them and search them, within limits."""
    for name in INPUTS:
        path = run.work / f"{name}.simdb"
        ending = children.answer(partial(_load, path, name, run.count, run.seed), 3_600)
        for file in run.work.glob(f"{name}.simdb*"):
            file.unlink()
        run.trial()
        if not ending.answers:
            run.fail(f"{name}: {ending.how}")
            continue
        told = ending.answers[0]
        most = 10 + MOST_SECONDS_A_THOUSAND * run.count / 1_000
        run.outcomes[f"{name}: ms to add"] = round(1_000 * told["added"])
        run.outcomes[f"{name}: ms to group"] = round(1_000 * told["grouped"])
        run.outcomes[f"{name}: ms to search"] = round(1_000 * told["searched"])
        run.outcomes[f"{name}: peak MiB"] = told["peak"] // 2**20
        run.outcomes[f"{name}: groups"] = told["groups"]
        seconds = told["added"] + told["grouped"] + told["searched"]
        if seconds > most or told["peak"] > MOST_MEMORY:
            run.fail(f"{name}: {told}")
        if not told["sound"] or (name == "equal" and told["groups"] != 1):
            run.fail(f"{name}: {told}")

"""Everything that can be done, in any order, against a model and brute force."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import simdb
from tools.campaigns import children, sabotage, subjects
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.subjects import Model

STEPS = 50
RUNS_A_CHILD = 25
REFUSED: list[tuple[str, type[Exception], Any]] = [
    ("a key that is stored", simdb.KeyExistsError, lambda c, key, item: c.add(key, item)),
    ("a key that is absent", simdb.KeyNotFoundError, lambda c, key, item: c.delete("absent")),
    ("a key of no type", simdb.WrongTypeError, lambda c, key, item: c.add(1.5, item)),
    ("an item of no type", simdb.UsageError, lambda c, key, item: c.add("new", object())),
    (
        "a bad batch",
        simdb.UsageError,
        lambda c, key, item: c.add_many([("n", item), ("m", object())]),
    ),
    (
        "a threshold above 1",
        simdb.ConfigurationError,
        lambda c, key, item: c.search(item, threshold=2),
    ),
]


@campaign(
    "machine", "random changes against a brute-force model, 50 steps each", short=7, long=5_000
)
def machine(run: Run) -> None:
    """Run many short random histories, several in one child."""
    for first in range(0, run.count, RUNS_A_CHILD):
        seeds = range(run.seed + first, run.seed + min(first + RUNS_A_CHILD, run.count))

        def work(say: Say, seeds: range = seeds) -> None:
            sabotage.plant(run.sabotage)
            for seed in seeds:
                say(_history(run.work / f"{seed}.simdb", seed))
                for file in run.work.glob(f"{seed}.simdb*"):
                    file.unlink()

        ending = children.Child(work).end(600)
        for seed, found in zip(seeds, ending.answers, strict=False):
            run.trial()
            run.outcomes["steps"] += STEPS
            if found:
                run.fail(f"seed {seed}: {found}")
        if len(ending.answers) < len(seeds):
            run.fail(f"seed {seeds[len(ending.answers)]}: {ending.how}")


def _history(path: Path, seed: int) -> str:
    """Do random steps; return the first thing that was wrong."""
    generator = random.Random(seed)
    database = simdb.open(path, threads=1, sync="batch")
    try:
        model = subjects.make(database, subjects.some(seed))
        for number in range(STEPS):
            choice = generator.random()
            if choice < 0.05:
                database.close()
                database = simdb.open(path, threads=1, sync="batch")
            elif choice < 0.08:
                database[generator.choice(sorted(model))].rebuild()
            elif choice < 0.25:
                wrong = _question(database, model, generator)
                if wrong:
                    return f"step {number}: {wrong}"
            else:
                change = subjects.draw(generator, model)
                subjects.carry_out(database, change)
                subjects.apply(model, change)
        return next(iter(subjects.differences(database, model, generator)), "")
    finally:
        database.close()


def _question(database: simdb.Database, model: Model, generator: random.Random) -> str:
    """Ask something, or for something that must be refused; return what was wrong."""
    name = generator.choice(sorted(model))
    subject, known, collection = subjects.SUBJECTS[name], model[name], database[name]
    if generator.random() < 0.4 and known:
        what, error, call = generator.choice(REFUSED)
        key = generator.choice(sorted(known))
        try:
            call(collection, key, subject.item(known[key]))
        except error:
            return ""
        return f"{name}: {what} was not refused"
    if generator.random() < 0.5:
        value = subject.value(generator)
        found = subject.matches(collection, value)
        similar = {key: subject.similarity(value, other) for key, other in known.items()}
        expected = {key: float(share) for key, share in similar.items() if subject.is_met(share)}
        return "" if found == expected else f"{name}: search found {len(found)} of {len(expected)}"
    keys = sorted(known)
    pairs = {
        (min(p.left, p.right), max(p.left, p.right))
        for p in collection.pairs(guarantee=subject.guarantee, **subject.bound())
    }
    wanted = {
        (one, other)
        for place, one in enumerate(keys)
        for other in keys[place + 1 :]
        if subject.is_met(subject.similarity(known[one], known[other]))
    }
    return "" if pairs == wanted else f"{name}: {len(pairs)} pairs of {len(wanted)}"

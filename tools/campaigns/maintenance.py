"""Maintenance at once: processes rebuild, compact, drop, create and back up the same collections.

Nobody waits for a plan: each process draws what it does next, on either collection, and one is
killed now and then. A handle may so outlive its collection, which then has items of another kind.
What is refused is refused by an error of simdb; what was acknowledged holds.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import simdb
from tools.campaigns import children, sabotage
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign

WORKERS = 3
ROUND = 4.0  # seconds
KEPT, FLEETING = ("kept", "kept too"), "fleeting"
ITEMS = 80
DOINGS = ("rebuild", "compact", "backup", "batches", "search", "anew", "stale")
WORDS = simdb.Text(simdb.WordShingles(1))
KINDS: tuple[tuple[Any, Any], ...] = (
    (WORDS, "some words that are like others"),
    (simdb.Set(), {"some", "words"}),
    (simdb.Bits(64), 5),
    (simdb.Vector(3, "euclidean"), [1, 2, 3]),
)


def _start(path: Path, run: Run, number: int, until: float) -> children.Child:
    seed = f"{run.seed} {run.trials} {number}"
    return children.Child(lambda say: _work(path, seed, run.sabotage, until, say))


def _text(number: int) -> str:
    return " ".join(f"w{number // 2}x{place}" for place in range(6)) + f" own{number}"


def _work(path: Path, seed: str, fault: str | None, until: float, say: Say) -> None:
    """Do one thing after another; say what was done, and what was refused."""
    sabotage.plant(fault)
    generator = random.Random(seed)
    with simdb.open(path, threads=1, busy_timeout=60) as database:
        held: list[tuple[simdb.Collection, Any]] = []
        while time.monotonic() < until:
            name = generator.choice(KEPT)
            what = generator.choice(DOINGS)
            try:
                if what == "rebuild":
                    threshold = generator.choice([0.5, 0.6, 0.7])
                    database[name].rebuild(threshold=threshold, seed=generator.randrange(3))
                elif what == "compact":
                    database[name].compact()
                elif what == "backup":
                    copy = path.with_name(f"{generator.getrandbits(40):x}.copy")
                    database.backup(copy, compact=generator.random() < 0.5)
                    _require_whole(copy)
                    copy.unlink()
                elif what == "batches":  # several, since keys come again
                    rows = [(number, _text(number)) for number in generator.sample(range(ITEMS), 9)]
                    database[name].add_many(rows * 4, on_existing="replace")
                elif what == "search":
                    _require_found(database[name], generator)
                elif what == "anew":
                    kind, item = generator.choice(KINDS)
                    if FLEETING in database:
                        database.drop_collection(FLEETING)
                    held.append((database.create_collection(FLEETING, kind, seed=1), item))
                elif held:
                    collection, item = generator.choice(held)
                    collection.add(f"{generator.getrandbits(40):x}", item)
                    _require_sound(database[FLEETING])
                say([what, "done"])
            except (simdb.UsageError, simdb.StorageError) as error:
                if isinstance(error, simdb.CorruptionError):
                    raise
                say([what, "refused"])


def _require_found(collection: simdb.Collection, generator: random.Random) -> None:
    number = generator.randrange(ITEMS)
    found = [match.key for match in collection.search(_text(number), threshold=1)]
    if found != [number]:
        raise AssertionError(f"a search of item {number} finds {found}")


def _require_sound(collection: simdb.Collection) -> None:
    problems = collection.check(deep=True).problems
    if problems:
        raise AssertionError(f"a handle that was kept has spoilt its collection: {problems[0]}")


def _require_whole(copy: Path) -> None:
    with simdb.open(copy, read_only=True, threads=1) as database:
        for name in KEPT:
            if len(database[name]) != ITEMS or not database[name].check().sound:
                raise AssertionError(f"a backup is not whole: {name}")


@campaign(
    "maintenance",
    "rebuild, compact, drop, create and backup at once; handles that outlive their collection",
    short=2,
    long=300,
    timed=True,
)
def maintenance(run: Run) -> None:
    """Let processes maintain one store for so many seconds, in rounds of a few."""
    path = run.work / "store.simdb"

    def build() -> None:
        with simdb.open(path, threads=1) as database:
            for name in KEPT:
                collection = database.collection(name, WORDS, threshold=0.5, seed=1)
                collection.add_many((number, _text(number)) for number in range(ITEMS))

    children.answer(build)
    until = time.monotonic() + run.count
    while time.monotonic() < until and not run.is_over:
        end = min(until, time.monotonic() + ROUND)
        workers = [_start(path, run, number, end) for number in range(WORKERS)]
        if run.trials % 2:
            time.sleep(random.Random(f"{run.seed} {run.trials}").random() * ROUND / 2)
            workers[0].kill()
        for worker in workers:
            ending = worker.end(60 + run.count)
            if ending.error or (ending.died and (worker is not workers[0] or not run.trials % 2)):
                run.fail(f"round {run.trials}: {ending.how}")
            for what, outcome in ending.answers:
                run.outcomes[f"{what} {outcome}"] += 1
        ending = children.answer(lambda: _problem(path))
        if ending.answers != [""]:
            run.fail(f"round {run.trials}: {ending.answers or ending.how}")
        run.trial()


def _problem(path: Path) -> str:
    """Return what is wrong between two rounds: by ``check``, and by what must be there."""
    with simdb.open(path, threads=1, busy_timeout=20) as database:
        for name in KEPT:
            stored = {record.key: record.item for record in database[name].items()}
            if stored != {number: _text(number) for number in range(ITEMS)}:
                return f"{name} holds {len(stored)} items, not the {ITEMS} that it must"
            for number in range(0, ITEMS, 7):
                _require_found(database[name], random.Random(number))
        problems = database.check(deep=True).problems
    return str(problems[0]) if problems else ""

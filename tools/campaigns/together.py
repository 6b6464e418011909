"""Power failures and kills while threads change a store singly, and share batches and commits.

A child has several threads, each with keys of its own, which it adds, replaces and deletes one by
one; what a call has returned for is acknowledged. Every write and sync is recorded, and images are
made as a power failure, or a kill, could have left the file. Of each thread an image must hold all
that was acknowledged, or that and the one change under way, and nothing else.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import simdb
from simdb.errors import SimdbError
from tools.campaigns import children, powerfail, sabotage, shim
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.shim import Call

THREADS = 4
CHANGES = 30  # of a thread
IMAGES_A_RECORDING = 60
LARGE = 15_000  # elements of a set that is written to the tables, and not to the log
STORE, LOG = "store.simdb", "log"

State: TypeAlias = dict[str, list[int]]  # what a thread has stored


def _changes(seed: int, thread: int) -> Iterator[tuple[str, list[int] | None]]:
    """Yield the changes of a thread: a key, and its new item, None where it is deleted."""
    generator = random.Random(f"{seed} thread {thread}")
    stored: list[str] = []
    for number in range(CHANGES):
        if stored and generator.random() < 0.25:
            yield stored.pop(generator.randrange(len(stored))), None
            continue
        replaced = bool(stored) and generator.random() < 0.2
        key = generator.choice(stored) if replaced else f"{thread}/{number}"
        if not replaced:
            stored.append(key)
        first = generator.randrange(10**6)
        size = LARGE if generator.random() < 0.03 else generator.randint(1, 30)
        yield key, list(range(first, first + size))


def _states(seed: int, thread: int) -> list[State]:
    """Return what a thread has stored after each number of changes."""
    states: list[State] = [{}]
    for key, item in _changes(seed, thread):
        state = dict(states[-1])
        if item is None:
            del state[key]
        else:
            state[key] = item
        states.append(state)
    return states


def _number(thread: int, changes: int) -> int:
    """Return the mark that a thread makes after so many changes."""
    return thread * (CHANGES + 1) + changes


def _work(path: Path, seed: int) -> None:
    """Let all threads make their changes, beside a row that all of them want to add."""
    wrong: list[BaseException] = []

    def change(thread: int, collection: simdb.Collection) -> None:
        try:
            for number, (key, item) in enumerate(_changes(seed, thread), 1):
                if item is None:
                    collection.delete(key)
                elif number % 2:  # as one batch with what others add
                    collection.add(key, item, on_existing="replace")
                else:  # as a batch that shares its commit
                    collection.add_many([(key, item)], on_existing="replace")
                shim.mark(_number(thread, number))
                if not number % 10:
                    collection.add(f"shared/{number}", [number], on_existing="skip")
        except BaseException as error:  # noqa: BLE001 - raised below
            wrong.append(error)

    with simdb.open(path, threads=1, busy_timeout=60) as database:
        collection = database["sets"]
        workers = [threading.Thread(target=change, args=(n, collection)) for n in range(THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if wrong:
        raise wrong[0]


def _problem(path: Path, acknowledged: list[int], states: list[list[State]]) -> str:
    """Return what is wrong with an image, empty if nothing is."""
    try:
        with simdb.open(path, threads=1) as database:
            collection = database["sets"]
            found: list[State] = [{} for _ in range(THREADS)]
            for record in collection.items():
                owner = str(record.key).partition("/")[0]
                if owner != "shared":
                    found[int(owner)][str(record.key)] = sorted(record.item)
            for thread, state in enumerate(found):
                done = acknowledged[thread]
                if state not in states[thread][done : done + 2]:
                    return f"of thread {thread}, {done} changes of which are acknowledged, it holds"
            problems = collection.check(deep=True).problems
            return str(problems[0]) if problems else ""
    except SimdbError as error:
        return f"{type(error).__name__}: {error}"


@campaign(
    "together",
    "threads that change a store singly and share commits, as a power failure could leave it",
    short=12,
    long=6_000,
    shim=True,
)
def together(run: Run) -> None:
    """Record threads, make images, and look at each of them in a child."""
    recording = 0
    while run.trials < run.count and not run.is_over:
        seed = run.seed + recording
        recording += 1
        path = run.work / STORE
        for file in run.work.iterdir():
            file.unlink()

        def build(path: Path = path) -> None:
            with simdb.open(path, threads=1) as database:
                database.create_collection("sets", simdb.Set(), threshold=0.5, seed=1)

        children.answer(build)
        base, inode = path.read_bytes(), path.stat().st_ino

        def work(_: Any, path: Path = path, seed: int = seed) -> None:
            sabotage.plant(run.sabotage)
            shim.record(str(path), run.work / LOG)
            _work(path, seed)

        ending = children.Child(work).end()
        if ending.died or ending.error:
            run.fail(f"seed {seed}: the recorded child ended: {ending.how}")
            return
        calls = [
            call
            for call in shim.read_log(run.work / LOG)
            if call.what == shim.MARK or call.file == inode
        ]
        run.outcomes["acknowledged changes"] += sum(call.what == shim.MARK for call in calls)
        run.outcomes["syncs of pages"] += sum(call.what == shim.SYNC for call in calls)
        numbers = range(min(IMAGES_A_RECORDING, run.count - run.trials))
        _look(run, seed, numbers, base, calls)


def _look(run: Run, seed: int, numbers: range, base: bytes, calls: list[Call]) -> None:
    states = [_states(seed, thread) for thread in range(THREADS)]

    def look(say: Say) -> None:
        for number in numbers:
            generator = random.Random(f"{seed} {number}")
            before, _ = powerfail.cut(calls, generator)
            acknowledged = [0] * THREADS
            for call in before:
                if call.what == shim.MARK:
                    thread, changes = divmod(call.number, CHANGES + 1)
                    acknowledged[thread] = max(acknowledged[thread], changes)
            image = run.work / f"image{number}.simdb"
            image.write_bytes(powerfail.image_after(base, before, generator))
            say(_problem(image, acknowledged, states))
            for file in run.work.glob(f"image{number}.simdb*"):
                file.unlink()

    ending = children.Child(look).end()
    for number, problem in zip(numbers, ending.answers, strict=False):
        run.trial("another" if problem else "as acknowledged, or with changes under way")
        if problem:
            run.fail(f"recording {seed} image {number}: {problem}")
    if ending.died or ending.error:
        run.trial("the reader ended")
        run.fail(f"recording {seed}: the reader ended: {ending.how}")

"""Children that are killed: at random under load, and at every step of what they do."""

from __future__ import annotations

import hashlib
import random
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import simdb
from tools.campaigns import children, sabotage, shim, subjects
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.subjects import Change, Model


def build(path: Path, seed: int, changes: int, names: Collection[str] | None = None) -> Model:
    """Make a store with a little in it, of ``some`` subjects or those named, and return it."""
    generator = random.Random(seed)
    with simdb.open(path, threads=1) as database:
        model = subjects.make(database, subjects.some(seed) if names is None else names)
        for _ in range(changes):
            change = subjects.draw(generator, model)
            subjects.carry_out(database, change)
            subjects.apply(model, change)
        for name in model:
            change = _more(name, 900, 8)
            subjects.carry_out(database, change)
            subjects.apply(model, change)
    return model


def verify(path: Path, allowed: list[Model], seed: int, changed: str | None = None) -> str:
    """Return which of the models a store holds, or what is wrong, looked at in a child.

    With ``changed``, only the index of that collection is computed anew.
    """

    def look() -> str:
        generator = random.Random(seed)
        with simdb.open(path, threads=1, busy_timeout=20) as database:
            found = subjects.contents(database)
            if found not in allowed:
                sizes = [{name: len(known) for name, known in model.items()} for model in allowed]
                have = {name: len(known) for name, known in found.items()}
                return f"holds {have}, none of {sizes}"
            place = allowed.index(found)
            wrong = list(
                subjects.differences(database, found, generator, changed=changed, found=found)
            )
            if wrong:
                return wrong[0]
            subjects.carry_out(database, ("sets", "add", [["after", [1]]]))
            subjects.carry_out(database, ("sets", "delete_many", ["after"]))
            return str(place)

    ending = children.answer(look)
    return str(ending.answers[0]) if ending.answers else f"the reader ended: {ending.how}"


KILLS_A_STORE = 50


@campaign("kill", "kill -9 under load, every acknowledged item verified", short=4, long=2_000)
def kill_under_load(run: Run) -> None:
    """Kill a child at a random moment, again and again, on one store."""
    path = run.work / "store.simdb"
    model = build(path, run.seed, 6)
    for number in range(run.count):
        seed = run.seed + number
        generator = random.Random(seed)

        def work(say: Say, seed: int = seed, known: Model = model) -> None:
            sabotage.plant(run.sabotage)
            drawing = random.Random(f"{seed} changes")
            known = subjects.copy_of(known)
            with simdb.open(path, threads=1) as database:
                while True:
                    change = subjects.draw(drawing, known)
                    say(["begin", change])
                    subjects.carry_out(database, change)
                    subjects.apply(known, change)
                    say(["done"])

        child = children.Child(work)
        first = child.hear(30)
        time.sleep(generator.random() ** 2 * 0.2)
        child.kill()
        ending = child.end()
        events = [first, *ending.answers] if first else ending.answers
        if ending.signal != signal.SIGKILL:
            run.fail(f"seed {seed}: the child ended by itself: {ending.how}")
            return
        model, instead = replay(events, model)
        run.outcomes["acknowledged changes"] += sum(event[0] == "done" for event in events)
        found = verify(path, [model, instead], seed)
        if found not in {"0", "1"}:
            run.fail(f"seed {seed}: {found}")
            return
        if found == "1":
            run.outcomes["the change under way was stored"] += 1
            model = instead
        run.trial()
        if number % KILLS_A_STORE == KILLS_A_STORE - 1 or sum(map(len, model.values())) > 4_000:
            path.unlink()
            model = build(path, seed, 6)


def replay(events: list[Any], model: Model) -> tuple[Model, Model]:
    """Return what the store must hold, and what it may hold instead."""
    known = subjects.copy_of(model)
    pending: Change | None = None
    for event in events:
        if event[0] == "begin":
            pending = event[1]
        elif pending is not None:
            subjects.apply(known, pending)
            pending = None
    instead = subjects.copy_of(known)
    if pending is not None:
        subjects.apply(instead, pending)
    return known, instead


# -- every step of every operation ---------------------------------------------------------------


STEPS_A_STORE = 1_000


def _more(name: str, first: int, count: int) -> Change:
    generator = random.Random(first)
    subject = subjects.SUBJECTS[name]
    rows = [[f"n{first}-{i}", subject.value(generator)] for i in range(count)]
    return name, "add_many", rows


def operations() -> dict[str, Callable[[Model], Iterator[Change]]]:
    """Return the operations whose every step is to be survived; each yields its changes."""

    def add(_: Model) -> Iterator[Change]:
        for name in subjects.STEPPED:
            yield _more(name, 1, 3)

    def merge(_: Model) -> Iterator[Change]:
        for number in range(6):
            for name in subjects.STEPPED:
                yield _more(name, number, 12)

    def new_epoch(_: Model) -> Iterator[Change]:
        for number in range(5):
            yield _more("sets", number, 30)

    def remove(model: Model) -> Iterator[Change]:
        for name in subjects.STEPPED:
            keys = sorted(model[name])
            yield name, "delete_many", keys[::2]
            yield name, "replace", [[keys[1], model[name][keys[3]]]]

    def compact(model: Model) -> Iterator[Change]:
        for name in subjects.STEPPED:
            yield name, "delete_many", sorted(model[name])[:4]
            yield name, "compact", []

    def rebuild(_: Model) -> Iterator[Change]:
        for name in subjects.STEPPED:
            yield name, "rebuild", []

    return {
        "add": add,
        "merge": merge,
        "new epoch": new_epoch,
        "delete": remove,
        "compact": compact,
        "rebuild": rebuild,
    }


def steps_of(path: Path, change: Change, at: int = -1, way: str = "") -> children.Ending:
    """Make a change in a child that is killed at its n-th step; without a way it only counts them.

    Args:
        path: the store.
        change: what is done.
        at: the step.
        way: "changes" for a kill at a put, a deletion or around a commit, "calls" at a system
            call that writes.
    """

    def work(say: Say) -> None:
        counted = [0]

        def step() -> None:
            counted[0] += 1
            if way == "changes" and counted[0] - 1 == at:
                sabotage.die()

        with simdb.open(path, threads=1) as database:
            if way != "calls":
                sabotage.at_every_step(step)
            if way != "changes":
                shim.arm(str(path.parent), at, shim.KILL, forever=False)
            subjects.carry_out(database, change)
            say({"changes": counted[0], "calls": shim.calls()})

    return children.Child(work).end()


@campaign(
    "kill-points",
    "a kill at every step of add, merge, new epoch, delete, compact, rebuild",
    short=7,
    long=50_000,
    shim=True,
)
def kill_points(run: Run) -> None:
    """Kill at every put, deletion, commit and writing system call, in one store after another.

    Where there are fewer trials than a store has steps, some are left out everywhere.
    """
    for seed in range(run.seed, run.seed + max(1, run.count // STEPS_A_STORE)):
        if run.failures:
            return
        for file in run.work.iterdir():
            file.unlink()
        path = run.work / "store.simdb"
        model = build(path, seed, 14)
        content = path.read_bytes()
        for name, operation in operations().items():
            store = _Stepped(run, seed, path, content, model)
            for change in operation(model):
                store.kill_at_every_step(name, change)


class _Stepped:
    """A store to which changes are made, and copies of which are killed on the way."""

    def __init__(self, run: Run, seed: int, path: Path, content: bytes, model: Model) -> None:
        self.run, self.seed, self.path = run, seed, path
        self.stride = max(1, STEPS_A_STORE // run.count)
        self.content, self.model = content, subjects.copy_of(model)
        # What was in files that passed: many kills fall between commits and leave an equal one.
        self.passed: dict[bytes, Model] = {}

    def kill_at_every_step(self, name: str, change: Change) -> None:
        """Die at each step of a change, then make it."""
        changed = subjects.copy_of(self.model)
        subjects.apply(changed, change)
        self.path.write_bytes(self.content)
        whole = steps_of(self.path, change)
        if not whole.answers:
            self.run.fail(f"seed {self.seed}, {name}: {whole.how} without a kill")
            return
        after = self.path.read_bytes()
        for way, total in whole.answers[0].items():
            steps = f"steps of {name}, {way}"
            # Where some are left out, those that are tried are spread over all changes.
            begin = -(self.seed + self.run.outcomes[steps]) % self.stride
            self.run.outcomes[steps] += total
            for at in range(begin, total, self.stride):
                self.path.write_bytes(self.content)
                ending = steps_of(self.path, change, at, way)
                wrong = self._verify([self.model, changed], change[0], at)
                if wrong:
                    self.run.fail(f"seed {self.seed}, {name}, {change[1:]}, {way} {at}: {wrong}")
                self.run.trial("killed" if ending.died else "ended before")
        self.content, self.model = after, changed

    def _verify(self, allowed: list[Model], name: str, at: int) -> str:
        """Return what is wrong with the file, nothing if it holds one of the models."""
        digest = hashlib.sha256(self.path.read_bytes()).digest()
        if self.passed.get(digest) in allowed:
            return ""
        found = verify(self.path, allowed, self.seed + at, name)
        if found not in {"0", "1"}:
            return found
        self.passed[digest] = allowed[int(found)]
        return ""

"""Power failures: what was written and not yet synced is lost, kept or torn, in any mixture.

A child works on a store while every write and sync is recorded. Then images are made as a power
failure could have left the file: everything before the last sync that had returned, and of the
writes since then any subset, some of them torn at a sector. Each image must hold all that was
acknowledged, or that and the change under way; stores opened with ``sync="batch"``, every second
one, may also have lost the last change.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import simdb
from simdb.storage.file.environment import Sync
from tools.campaigns import children, kills, sabotage, shim, subjects
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.shim import Call
from tools.campaigns.subjects import Model

STORE, LOG = "store.simdb", "log"
SECTOR = 512
IMAGES_A_RECORDING = 150
IMAGES_A_CHILD = 50
CHANGES = 40
SYNCS: tuple[Sync, Sync] = ("batch", "full")
AS_ACKNOWLEDGED, UNDER_WAY = "as acknowledged", "with the change under way"
WITHOUT_LAST = "without the last change"


class Recorded(NamedTuple):
    """What a child did: how its commits were synced, the file before, its calls, and the states.

    There is one state more than changes.
    """

    sync: Sync
    base: bytes
    calls: list[Call]
    states: list[Model]


def _record(run: Run, seed: int, model: Model, sync: Sync) -> list[Model]:
    """Let a child work and be recorded; return the states, one more after every change."""
    generator = random.Random(f"{seed} changes")
    changes = []
    states = [subjects.copy_of(model)]
    for _ in range(CHANGES):
        change = subjects.draw(generator, states[-1])
        changes.append(change)
        states.append(subjects.copy_of(states[-1]))
        subjects.apply(states[-1], change)

    path = run.work / STORE

    def work(_: Any) -> None:
        sabotage.plant(run.sabotage)
        shim.record(str(path), run.work / LOG)
        with simdb.open(path, threads=1, sync=sync) as database:
            for number, change in enumerate(changes, 1):
                subjects.carry_out(database, change)
                shim.mark(number)

    ending = children.Child(work).end()
    if ending.died or ending.error:
        raise RuntimeError(f"the recorded child ended: {ending.how}")
    return states


def image_after(base: bytes, calls: list[Call], generator: random.Random) -> bytes:
    """Return the file as a power failure after these calls could leave it."""
    content = bytearray(base)
    pending: list[Call] = []
    for call in calls:
        if call.what == shim.SYNC:
            for write in pending:
                _put(content, write.offset, write.data)
            pending = []
        elif call.what == shim.WRITE:
            if call.durable:
                _put(content, call.offset, call.data)
            else:
                pending.append(call)
    fate = generator.choice(["none", "all", "some", "some", "torn", "torn"])
    generator.shuffle(pending)
    for write in pending:
        if fate == "all" or (fate in {"some", "torn"} and generator.random() < 0.6):
            data = write.data
            if fate == "torn" and len(data) > SECTOR:
                for begin in range(0, len(data), SECTOR):
                    if generator.random() < 0.7:
                        sector = data[begin : begin + SECTOR]
                        _put(content, write.offset + begin, sector)
            else:
                _put(content, write.offset, data)
    return bytes(content)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def cut(calls: list[Call], generator: random.Random) -> tuple[list[Call], int]:
    """Return the calls before a random moment, and the last mark among them."""
    end = generator.randrange(len(calls) + 1)
    # A write under way when the power fails has not returned, so it may be lost or torn.
    before = list(calls[:end])
    if before and before[-1].durable and generator.random() < 0.5:
        before.pop()
    marks = [call.number for call in calls[:end] if call.what == shim.MARK]
    return before, max(marks, default=0)


@campaign(
    "power-fail",
    "recorded writes replayed as a power failure could leave them",
    short=20,
    long=20_000,
    shim=True,
)
def power_fail(run: Run) -> None:
    """Record, make images, and look at each of them in a child."""
    recording = 0
    while run.trials < run.count and len(run.failures) < 20:
        seed = run.seed + recording
        sync = SYNCS[seed % 2]
        recording += 1
        path = run.work / STORE
        for file in run.work.iterdir():
            file.unlink()
        model = kills.build(path, seed, 8)
        base = path.read_bytes()
        inode = path.stat().st_ino
        states = _record(run, seed, model, sync)
        calls = [
            call
            for call in shim.read_log(run.work / LOG)
            if call.what == shim.MARK or call.file == inode
        ]
        run.outcomes["recorded calls"] += len(calls)
        left = min(IMAGES_A_RECORDING, run.count - run.trials)
        for first in range(0, left, IMAGES_A_CHILD):
            if run.is_over:
                return
            numbers = range(first, min(first + IMAGES_A_CHILD, left))
            _look_at_images(run, seed, numbers, Recorded(sync, base, calls, states))


def _look_at_images(run: Run, seed: int, numbers: range, recorded: Recorded) -> None:
    """Make and look at images in a child; one that kills it is a failure, and the rest follow."""
    left = list(numbers)
    while left:

        def work(say: Say, left: list[int] = left) -> None:
            for number in left:
                generator = random.Random(f"{seed} {number}")
                before, acknowledged = cut(recorded.calls, generator)
                image = run.work / f"image{number}.simdb"
                image.write_bytes(image_after(recorded.base, before, generator))
                say(_state_of(image, recorded, acknowledged, generator))
                for file in run.work.glob(f"image{number}.simdb*"):
                    file.unlink()

        ending = children.Child(work).end()
        for number, found in zip(left, ending.answers, strict=False):
            run.trial(f"{recorded.sync}: {found.split(':')[0]}")
            if found not in {AS_ACKNOWLEDGED, UNDER_WAY, WITHOUT_LAST}:
                run.fail(f"recording {seed} image {number}: {found}")
        left = left[len(ending.answers) :]
        if left:
            run.trial("the reader was killed")
            run.fail(f"recording {seed} image {left.pop(0)}: the reader ended: {ending.how}")


def _state_of(path: Path, recorded: Recorded, acknowledged: int, generator: random.Random) -> str:
    """Return which of the states that it may hold an image holds, or what is wrong with it."""
    states = recorded.states
    try:
        with simdb.open(path, threads=1) as database:
            found = subjects.contents(database)
            if found == states[acknowledged]:
                outcome = AS_ACKNOWLEDGED
            elif acknowledged + 1 < len(states) and found == states[acknowledged + 1]:
                outcome = UNDER_WAY
            elif recorded.sync == "batch" and acknowledged and found == states[acknowledged - 1]:
                outcome = WITHOUT_LAST
            else:
                known = [number for number, state in enumerate(states) if state == found]
                return f"holds the state of change {known}, acknowledged was {acknowledged}"
            wrong = subjects.differences(database, found, generator, probes=1, found=found)
            return next(wrong, outcome)
    except simdb.StorageError as error:
        return f"{type(error).__name__}: {error}"

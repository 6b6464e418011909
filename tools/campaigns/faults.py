"""Calls into the system that fail: the n-th one, once and for ever; and memory that runs out."""

from __future__ import annotations

import errno
import os
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import simdb
from tools.campaigns import children, kills, shim, subjects
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.subjects import Change, Model

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EROFS": errno.EROFS, "cut short": 0}
MIB = 2**20


def _backup(database: simdb.Database, target: Path) -> None:
    database.backup(target, compact=True)


def _work(name: str) -> Callable[[Model], Iterator[Change]]:
    return kills.operations()[name]


# -- errors of input and output ------------------------------------------------------------------


def _fail_at(
    path: Path, name: str, model: Model, at: int, error: str, *, forever: bool
) -> children.Ending:
    """Do an operation in a child while a call of it fails.

    The child says what became of it: how many changes were made, how the store answers with the
    fault still there, and whether the same handle writes again when the fault is gone.
    """

    def work(say: Say) -> None:
        known = subjects.copy_of(model)
        folder = str(path.parent)
        cut = error == "cut short"
        with simdb.open(path, threads=1) as database:
            shim.arm(folder, at, errno.EIO if cut else ERRORS[error], forever=forever, cut=cut)
            raised = ""
            try:
                if name == "backup":
                    _backup(database, path.with_name("copy.simdb"))
                else:
                    for change in _work(name)(known):
                        say(["begin", change])
                        subjects.carry_out(database, change)
                        subjects.apply(known, change)
                        say(["done"])
            except simdb.SimdbError as failure:
                raised = type(failure).__name__
            say(["calls", shim.calls()])
            say(["raised", raised])
            try:
                say(["read", subjects.contents(database)])
            except simdb.StorageError as failure:
                # LMDB must be opened anew when its meta page could not be written, which may fail.
                say(["unread", type(failure).__name__])
            shim.disarm()
            say(["read", subjects.contents(database)])
            try:
                subjects.carry_out(database, ("sets", "add", [["after", [1, 2]]]))
                subjects.carry_out(database, ("sets", "delete_many", ["after"]))
                say(["again", ""])
            except simdb.DatabaseFailedError as failure:
                say(["again", type(failure).__name__])

    return children.Child(work).end()


def _judge(ending: children.Ending, path: Path, model: Model, seed: int) -> str:
    """Return what is wrong with how a child with a fault ended, nothing if all is well."""
    if ending.died or ending.error:
        return f"the child ended: {ending.how}"
    events = [event for event in ending.answers if event[0] in {"begin", "done"}]
    known, instead = kills.replay(events, model)
    reads = [answer[1] for answer in ending.answers if answer[0] == "read"]
    if any(read not in (known, instead) for read in reads):
        return "the store reads as neither state"
    return kills.verify(path, [known, instead], seed).strip("01")


@campaign(
    "io-errors",
    "the n-th call that writes fails, once and for ever, in add, merge, compact, rebuild, backup",
    short=4,
    long=100_000,
    shim=True,
)
def io_errors(run: Run) -> None:
    """Sweep the failing call over operations, errors, once and for ever."""
    golden = run.work / "golden.simdb"
    model = kills.build(golden, run.seed, 14)
    content = golden.read_bytes()
    golden.unlink()
    path = run.work / "store.simdb"
    cases: list[tuple[str, str, bool, int]] = []
    for name in ("add", "merge", "compact", "rebuild", "backup"):
        path.write_bytes(content)
        ending = _fail_at(path, name, model, -1, "EIO", forever=False)
        if ending.error or ending.died:
            run.fail(f"{name} without a fault: {ending.how}")
            continue
        calls = next(answer[1] for answer in ending.answers if answer[0] == "calls")
        run.outcomes[f"calls of {name}"] = calls
        for file in run.work.glob("copy*"):
            file.unlink()
        cases += [
            (name, error, forever, at)
            for at in range(calls)
            for error in ERRORS
            for forever in (False, True)
        ]
    if len(cases) > run.count:
        cases = random.Random(run.seed).sample(cases, run.count)
    for name, error, forever, at in cases:
        path.write_bytes(content)
        ending = _fail_at(path, name, model, at, error, forever=forever)
        wrong = _judge(ending, path, model, run.seed + at)
        if wrong:
            run.fail(f"{name}, {error} {'from' if forever else 'at'} call {at}: {wrong}")
        told = {answer[0]: answer[1] for answer in ending.answers if len(answer) == 2}
        run.trial(told.get("raised") or "nothing was raised")
        if told.get("unread"):
            run.outcomes["nothing can be read while the fault lasts"] += 1
        if told.get("again"):
            run.outcomes["the handle asks to be opened again"] += 1
        for file in run.work.glob("copy*"):
            file.unlink()


# -- memory --------------------------------------------------------------------------------------


@campaign("memory", "address space that ends, at rising limits", short=5, long=200)
def memory(run: Run) -> None:
    """Do everything under limits on address space, from next to none to enough."""
    path = run.work / "store.simdb"
    model = kills.build(path, run.seed, 14)
    content = path.read_bytes()
    generator = random.Random(run.seed)
    for number in range(run.count):
        limit = int(2 ** (12 + 18 * (number + generator.random()) / run.count))  # 4 KiB to 1 GiB
        path.write_bytes(content)

        def work(say: Say, limit: int = limit) -> None:
            with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
                pages = int(file.read().split()[0])
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            most = pages * os.sysconf("SC_PAGE_SIZE") + limit
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
            try:
                known = subjects.copy_of(model)
                with simdb.open(path, threads=1) as database:
                    for change in kills.operations()["merge"](known):
                        say(["begin", change])
                        subjects.carry_out(database, change)
                        say(["done"])
                    for name, values in known.items():
                        list(database[name].pairs())
                        value = next(iter(values.values()))
                        database[name].search(subjects.SUBJECTS[name].item(value))
                say(["end", "done"])
            except (MemoryError, simdb.StorageError) as error:
                resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
                say(["end", type(error).__name__])

        ending = children.Child(work).end()
        ends = [answer[1] for answer in ending.answers if answer[0] == "end"]
        if not ends:
            run.fail(f"limit {limit:,}: the child ended: {ending.how}")
        events = [answer for answer in ending.answers if answer[0] != "end"]
        known, instead = kills.replay(events, model)
        found = kills.verify(path, [known, instead], run.seed + number)
        if found not in {"0", "1"}:
            run.fail(f"limit {limit:,}: {found}")
        run.trial(ends[0] if ends else ending.how)

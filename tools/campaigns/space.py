"""Disks and maps that are full: what is stored stays, deleting works, and so does more room."""

from __future__ import annotations

import contextlib
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import simdb
from simdb.database import SMALLEST_MAP
from tools.campaigns import children, subjects
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.subjects import Model

KIB = 2**10
MIB = 2**20
PAGE = 4 * KIB
SMALLEST, LARGEST = 128, 1_536  # pages
MOST_CHANGES = 4_000


def _fill(database: simdb.Database, model: Model, generator: random.Random) -> str:
    """Add until the store is full; the model has what was acknowledged."""
    for _ in range(MOST_CHANGES):
        name = generator.choice(sorted(model))
        subject = subjects.SUBJECTS[name]
        rows = [
            [f"k{generator.getrandbits(48):x}-{number}", subject.value(generator)]
            for number in range(generator.choice([1, 20, 200]))
        ]
        try:
            subjects.carry_out(database, (name, "add_many", rows))
        except simdb.DatabaseFullError:
            return "full"
        subjects.apply(model, (name, "add_many", rows))
    return "never full"


def _empty(database: simdb.Database, model: Model) -> str:
    """Delete most of it; what cannot be done yet is told."""
    try:
        for name in model:
            keys = sorted(model[name])[: len(model[name]) * 3 // 4]
            for begin in range(0, len(keys), 50):
                subjects.carry_out(database, (name, "delete_many", keys[begin : begin + 50]))
                subjects.apply(model, (name, "delete_many", keys[begin : begin + 50]))
            subjects.carry_out(database, (name, "compact", []))
    except simdb.DatabaseFullError:
        return "deleting needs room"
    return "deleted"


def _wrong(database: simdb.Database, model: Model, generator: random.Random) -> list[str]:
    return list(subjects.differences(database, model, generator, probes=2))


def fill_and_empty(
    path: Path, seed: int, say: Say, make_room: Callable[[], None], **options: Any
) -> None:
    """Fill a store, look at it, delete, look again, make room, go on with the same handle."""
    generator = random.Random(seed)
    with simdb.open(path, threads=1, **options) as database:
        model = subjects.make(database, subjects.some(seed))
        say(_fill(database, model, generator))
        for problem in _wrong(database, model, generator):
            say(f"WRONG when full: {problem}")
        say(_empty(database, model))
        for problem in _wrong(database, model, generator):
            say(f"WRONG after deleting: {problem}")
        make_room()
        emptied = _empty(database, model)
        say(f"{emptied} with room")
        say(_more(database, model, generator, fits=emptied == "deleted"))
        for problem in _wrong(database, model, generator):
            say(f"WRONG with room: {problem}")


def _more(database: simdb.Database, model: Model, generator: random.Random, *, fits: bool) -> str:
    """Add a little, which may find no room only where deleting did not."""
    name = "sets"
    rows = [[f"more{number}", subjects.SUBJECTS[name].value(generator)] for number in range(20)]
    try:
        subjects.carry_out(database, (name, "add_many", rows))
    except simdb.DatabaseFullError:
        if fits:
            raise
        return "no room for more"
    subjects.apply(model, (name, "add_many", rows))
    return "added more"


@contextlib.contextmanager
def mounted(command: list[str], folder: Path) -> Iterator[bool]:
    """Mount a file system for a moment; False where it is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run([*command, str(folder)], capture_output=True, check=False)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _in_full_map(run: Run, size: int, seed: int) -> children.Ending:
    path, map_size = run.work / "map.simdb", max(size, SMALLEST_MAP)

    def work(say: Say) -> None:
        fill_and_empty(path, seed, say, lambda: None, map_size=map_size)

    ending = children.Child(work).end()
    for file in run.work.glob("map.simdb*"):
        file.unlink()
    return ending


def _in_limited_file(run: Run, size: int, seed: int) -> children.Ending:
    path = run.work / "limited.simdb"

    def work(say: Say) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

        def lift() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        fill_and_empty(path, seed, say, lift)

    ending = children.Child(work).end()
    for file in run.work.glob("limited.simdb*"):
        file.unlink()
    return ending


def _in_tmpfs(run: Run, size: int, seed: int) -> children.Ending | None:
    folder = run.work / "tmpfs"
    with mounted(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs"], folder) as is_mounted:
        if not is_mounted:
            return None
        (folder / "filler").write_bytes(bytes(size // 4))

        def work(say: Say) -> None:
            fill_and_empty(folder / "store.simdb", seed, say, (folder / "filler").unlink)

        return children.Child(work).end()


def _in_ext4(run: Run, size: int, seed: int) -> children.Ending | None:
    image, folder = run.work / "disk.ext4", run.work / "ext4"
    if not shutil.which("mkfs.ext4"):
        return None
    with image.open("wb") as file:
        file.truncate(size + 2 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", str(image)], check=True)
    try:
        with mounted(["mount", "-o", "loop", str(image)], folder) as is_mounted:
            if not is_mounted:
                return None
            (folder / "filler").write_bytes(bytes(size // 4))

            def work(say: Say) -> None:
                fill_and_empty(folder / "store.simdb", seed, say, (folder / "filler").unlink)

            return children.Child(work).end()
    finally:
        image.unlink()


def _opened_without_space(run: Run, seed: int) -> children.Ending | None:
    """Open, on a disk without a free byte, a store whose lock files are gone."""
    folder = run.work / "nothing left"
    with mounted(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs"], folder) as is_mounted:
        if not is_mounted:
            return None
        path = folder / "store.simdb"

        def build() -> None:
            with simdb.open(path, threads=1) as database:
                model = subjects.make(database, subjects.some(seed))
                subjects.carry_out(database, ("sets", "add", [["a", [seed % 100]]]))
                subjects.apply(model, ("sets", "add", [["a", [seed % 100]]]))

        children.answer(build)
        for end in ("-lock", "-turn"):
            (folder / f"store.simdb{end}").unlink()
        with (folder / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(bytes(4 * KIB)):
                pass

        def work(say: Say) -> None:
            for read_only in (False, True):
                try:
                    simdb.open(path, read_only=read_only).close()
                    say("opened")
                except simdb.DatabaseFullError:
                    say("full")
            (folder / "filler").unlink()
            with simdb.open(path) as database:
                say(
                    "read"
                    if subjects.contents(database)["sets"] == {"a": [seed % 100]}
                    else "WRONG"
                )

        return children.Child(work).end()


@campaign(
    "disk-full",
    "full tmpfs, RLIMIT_FSIZE, ext4 on a loop device, full map, no room for lock files",
    short=1,
    long=50,
)
def disk_full(run: Run) -> None:
    """Fill every kind of medium at so many sizes."""
    media: dict[str, Callable[[Run, int, int], children.Ending | None]] = {
        "map": _in_full_map,
        "limit": _in_limited_file,
        "tmpfs": _in_tmpfs,
        "ext4": _in_ext4,
        "no room to open": lambda run, _, seed: _opened_without_space(run, seed),
    }
    for number in range(run.count):
        for name, medium in media.items():
            pages = SMALLEST + (LARGEST - SMALLEST) * number // run.count
            size = PAGE * pages
            ending = medium(run, size, run.seed + number)
            if ending is None:
                run.outcomes[f"{name}: not allowed here"] += 1
                continue
            for answer in ending.answers:
                if answer.startswith("WRONG"):
                    run.fail(f"{name} of {size:,}, seed {run.seed + number}: {answer}")
                else:
                    run.outcomes[f"{name}: {answer}"] += 1
            if ending.died or ending.error:
                run.fail(f"{name} of {size:,}, seed {run.seed + number}: {ending.how}")
            run.trial()

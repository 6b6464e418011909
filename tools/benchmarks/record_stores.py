"""Stores of the tables of a task."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import simdb
from simdb.kinds.records import Record
from tools.benchmarks.record_data import Task

COLLECTIONS = ("left", "right")


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

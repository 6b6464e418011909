"""Compiling ahead: what a first call would compile is compiled and kept before it.

Kernels are compiled for the types that they are called with, so they are called: each kind's own
examples go through the calls of a collection, in a store that is thrown away.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from simdb import kinds
from simdb.database import Database, open_database
from simdb.errors import UsageError
from simdb.kinds import Kind
from simdb.kinds.base import Examples

_TIMES = 12  # that examples are stored: enough that runs are merged, and buckets have many


def warm(some: Sequence[type[Kind]] = kinds.OWN) -> Iterator[str]:
    """Call what collections of these kinds call, and yield the name of each kind that is done.

    MissingExtraError: something is to be compiled, and numba is not installed.
    """
    for kind in some:
        with tempfile.TemporaryDirectory(prefix="simdb-warm-") as folder:
            name = ""
            for number, examples in enumerate(kind.examples()):
                name = examples.kind.name
                with _opened(folder, number) as database:
                    _use(database, examples)
        yield name


def _opened(folder: str, number: int) -> Database:
    return open_database(Path(folder) / f"{number}.simdb", sync="batch")


def _use(database: Database, examples: Examples) -> None:
    kind = examples.kind
    bound: dict[str, Any] = {"max_distance" if kind.is_distance else "threshold": examples.bound}
    indexes: list[dict[str, Any]] = [{}]
    if kind.has_symbols and not kind.estimates:
        indexes.append({"exact_floor": examples.bound})
    items = [*examples.items, *examples.near]
    for number, index in enumerate(indexes):
        stored = database.create_collection(f"c{number}", kind, **bound, **index, seed=0)
        keys = count()
        for _ in range(_TIMES):
            stored.add_many((next(keys), item) for item in items)
        stored.add(next(keys), items[0])
        stored.dedupe([(next(keys), item) for item in items])
        for guarantee in ("auto", "probable", "exact"):
            with suppress(UsageError):  # what has no such index, or answers by none
                stored.search(items[0], guarantee=guarantee)
                stored.search_many(items, guarantee=guarantee)
                list(stored.pairs(guarantee=guarantee, since=next(keys) - 3))
                list(stored.pairs(guarantee=guarantee))
                list(stored.join(stored, guarantee=guarantee))
                stored.groups(guarantee=guarantee)
        stored.delete(0)
        stored.compact()
        stored.check(deep=True)
        stored.stats()
        stored.rebuild()
    with suppress(UsageError):  # of kinds that answer without an index
        none: dict[str, Any] = {} if kind.is_distance else {"threshold": None}
        plain = database.create_collection("plain", kind, **none, seed=0)
        plain.add_many(enumerate(items))
        plain.search(items[0], **bound)
        list(plain.pairs(**bound))
        list(plain.join(plain, **bound))

"""Components that do not fit into a task's memory: they go through a store on its disk.

All others are decided by the steps, many at once. The answers are the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from simdb import steps
from simdb.arrays import Int64s
from simdb.collection import Collection
from simdb.database import open_throwaway
from simdb.errors import UsageError
from simdb.recipe import Recipe
from simdb.results import Outcomes
from simdb.steps.signing import signer_of
from simdb.steps.streams import MOST_BYTES, numbers_of, pieces

LARGEST = 16 * 2**20  # bytes of a component that a task holds; a store decides as quickly
AT_ONCE = 4 * 2**20  # bytes of items that are handed to the store
MEMORY = 64 * 2**20  # of the store; its pages are beside that, and the system may take them back

Decide = Callable[..., Iterator[Any]]


def dedupe(
    recipe: Recipe, batches: Iterable[Any], *, exact: bool = False, largest: int = LARGEST
) -> Iterator[Any]:
    """Do as ``steps.dedupe``, of rows sorted by group and number."""
    return _decided(steps.dedupe, _dedupe_stored, recipe, batches, exact=exact, largest=largest)


def groups(
    recipe: Recipe, batches: Iterable[Any], *, exact: bool = False, largest: int = LARGEST
) -> Iterator[Any]:
    """Do as ``steps.groups``, of rows sorted by group and number."""
    return _decided(steps.groups, _group_stored, recipe, batches, exact=exact, largest=largest)


def _decided(
    step: Decide,
    stored: Decide,
    recipe: Recipe,
    batches: Iterable[Any],
    *,
    exact: bool,
    largest: int,
) -> Iterator[Any]:
    cut = pieces(batches, "group", min(MOST_BYTES, largest), largest)
    for group, found in groupby(cut, itemgetter(0)):
        decide = step if group is None else stored
        yield from decide(recipe, map(itemgetter(1), found), exact=exact)


def _dedupe_stored(recipe: Recipe, batches: Iterable[Any], *, exact: bool) -> Iterator[Any]:
    with _collection(recipe, exact=exact) as collection:
        told: list[Outcomes] = []
        for rows in _rows(recipe, batches):
            collection.dedupe(rows, outcomes=told.append)
        some = chain.from_iterable(outcomes.apart.values() for outcomes in told)
        removed = [one for one in some if one.action == "duplicate"]
        values = (one.distance if one.similarity is None else one.similarity for one in removed)
        yield steps.DROPPED.batch(
            _numbers(one.key for one in removed),
            _numbers(one.duplicate_of for one in removed),
            np.fromiter(values, np.float64),
        )


def _group_stored(recipe: Recipe, batches: Iterable[Any], *, exact: bool) -> Iterator[Any]:
    with _collection(recipe, exact=exact) as collection:
        for rows in _rows(recipe, batches):
            collection.add_many(rows)
        found = [
            group.keys for group in collection.groups(guarantee="exact" if exact else "probable")
        ]
        members = _numbers(chain.from_iterable(found))
        firsts = np.repeat(_numbers(keys[0] for keys in found), list(map(len, found)))
        yield steps.GROUPED.batch(members, firsts)


def _numbers(keys: Iterable[Any]) -> Int64s:
    return np.fromiter(keys, np.int64)


def _rows(recipe: Recipe, batches: Iterable[Any]) -> Iterator[list[tuple[int, Any]]]:
    """Yield the numbers and items of each batch; UsageError if numbers do not rise."""
    decode = signer_of(recipe).items.decode
    last = -1
    for batch in chain.from_iterable(map(_slices, batches)):
        numbers = numbers_of(batch, "number")
        if numbers[0] <= last or (numbers[1:] <= numbers[:-1]).any():
            raise UsageError("the rows of a component are not sorted by 'number'")
        last = int(numbers[-1])
        items = map(decode, batch.column("item").to_pylist())
        yield list(zip(numbers.tolist(), items, strict=True))


def _slices(batch: Any) -> Iterator[Any]:
    rows = max(1, batch.num_rows * AT_ONCE // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _exact(recipe: Recipe) -> Recipe:
    """Return the recipe of a collection whose one index is an exact one of the same bound."""
    return replace(
        recipe,
        bands=0,
        rows=0,
        cascade=None,
        finds_equal=False,
        containment=False,
        exact_floor=recipe.threshold,
    )


@contextmanager
def _collection(recipe: Recipe, *, exact: bool) -> Iterator[Collection]:
    """Make a collection on the task's disk, gone at the end."""
    own = _exact(recipe) if exact else replace(recipe, exact_floor=None, containment=False)
    disks = os.environ.get("SPARK_LOCAL_DIRS", "")  # as Spark tells its workers
    where = disks.partition(",")[0] or None
    with (
        tempfile.TemporaryDirectory(prefix="simdb-", dir=where) as folder,
        open_throwaway(Path(folder) / "component.simdb", threads=1, memory=MEMORY) as database,
    ):
        yield database.collection("component", recipe=own)

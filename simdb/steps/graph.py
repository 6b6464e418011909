"""Components of candidates, and parts of those that are too large for one task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb import arrow
from simdb.arrays import Int64s
from simdb.errors import WrongTypeError
from simdb.forest import Forest
from simdb.recipe import Recipe
from simdb.steps.schemas import GATHERED, LABELS
from simdb.steps.streams import as_int64s, column_named, numbers_of, record_batches, taken

PAIRS_OF_TASK = 1_000_000
_ONE, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def components(left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
    """Return the vertices of edges, ascending, and the smallest of the component of each.

    WrongTypeError: the two are no arrays of whole numbers of one length. UsageError: a number is
    beyond int64.
    """
    left, right = map(np.asarray, (left, right))
    are_numbers = left.dtype.kind in "iu" and right.dtype.kind in "iu"
    if not are_numbers or left.ndim != 1 or left.shape != right.shape:
        raise WrongTypeError("edges must be two arrays of whole numbers, of one length")
    sides = [as_int64s(side, "an edge") for side in (left, right)]
    vertices, places = np.unique(np.concatenate(sides), return_inverse=True)
    forest = Forest(vertices.size)
    forest.connect(places[: left.size], places[left.size :])
    return vertices, vertices[forest.smallest()]


def contract(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """Edges, two columns of numbers -> ``LABELS``: a star for each component of those of a task.

    As edges again, in ever fewer tasks, and in one at last, they are the labels of all but the
    smallest vertex of each component.
    """
    del recipe
    found = [(numbers_of(batch, 0), numbers_of(batch, 1)) for batch in record_batches(batches)]
    if found:
        left, right = (np.concatenate(side) for side in zip(*found, strict=True))
        vertices, labels = components(left, right)
        far = vertices != labels
        yield LABELS.batch(vertices[far], labels[far])


def blocks_of(pairs: int, most: int = PAIRS_OF_TASK) -> int:
    """Return into how many blocks the items of a component of so many candidates are cut."""
    return 1 if pairs <= most else ceil(sqrt(2 * pairs / most))


def spread(recipe: Recipe, batches: Iterable[Any], *, blocks: Mapping[int, int]) -> Iterator[Any]:
    """``GATHERED`` -> the same, each group of ``blocks`` cut into one for every two of its blocks.

    A candidate goes to the group of the blocks of its two items, an item to all groups of its
    block. Two groups may get one name: a group then holds an item twice, which changes nothing.
    """
    del recipe
    large = np.array(sorted(blocks), np.int64)
    counts = np.array([blocks[label] for label in large.tolist()], np.int64)
    for given in record_batches(batches):
        numbers = [numbers_of(given, name) for name in ("group", "number", "right")]
        batch = GATHERED.batch(*numbers, arrow.decoded(column_named(given, "item")))
        group = numbers[0]
        place = np.minimum(np.searchsorted(large, group), max(0, large.size - 1))
        cut = large[place] == group if large.size else np.zeros(group.size, np.bool_)
        if not cut.any():
            yield batch
            continue
        yield taken(batch, np.flatnonzero(~cut))
        some, many = taken(batch, np.flatnonzero(cut)), counts[place[cut]]
        label, number, right = (numbers_of(some, name) for name in ("group", "number", "right"))
        is_item = right < 0
        own = _block(number, many)
        copies = np.where(is_item, many, 1)
        rows = np.repeat(np.arange(label.size), copies)
        turn = np.arange(rows.size) - np.repeat(np.cumsum(copies) - copies, copies)
        other = np.where(is_item[rows], turn, _block(right, many)[rows])
        low, high = np.minimum(own[rows], other), np.maximum(own[rows], other)
        pair = (low * many[rows] + high + 1).astype(np.uint64)
        named = (label[rows].view(np.uint64) * _ONE) ^ (pair * _OTHER)
        others = some.take(arrow.numbers(rows))
        yield GATHERED.batch(
            named.view(np.int64),
            *(column_named(others, name) for name in ("number", "right", "item")),
        )


def _block(number: Int64s, many: Int64s) -> npt.NDArray[np.int64]:
    mixed = (np.ascontiguousarray(number).view(np.uint64) * _ONE) >> np.uint64(40)
    return mixed.astype(np.int64) % many

"""Streams of record batches that are sorted by a column, cut so that no group is in two pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from simdb import arrow
from simdb.arrays import Int64s
from simdb.errors import UsageError

MOST_BYTES = 16 * 2**20  # of groups that are handled at once


def numbers_of(column: Any) -> Int64s:
    """Return an int64 column without nulls as an array."""
    found: Int64s = column.to_numpy(zero_copy_only=False)
    return found


def starts_of(keys: Int64s) -> Int64s:
    """Return where each run of equal keys begins, and one past the last."""
    if not keys.size:
        return np.zeros(1, np.int64)
    return np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [keys.size]])


def taken(batch: Any, places: Int64s) -> Any:
    """Return some rows of a batch."""
    return batch if places.size == batch.num_rows else batch.take(arrow.numbers(places))


def whole_groups(batches: Iterable[Any], key: str, most: int = MOST_BYTES) -> Iterator[Any]:
    """Put a stream that is sorted by a column into pieces of whole groups, of about so many bytes.

    A piece may hold many groups. UsageError: the engine has not sorted the rows, on which every
    answer depends; or a group has more than 2 GiB in a column.
    """
    held: list[Any] = []
    size, full = 0, most
    last: int | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = numbers_of(batch.column(key))
        if (keys[1:] < keys[:-1]).any() or (last is not None and keys[0] < last):
            raise UsageError(f"the rows of a task are not sorted by {key!r}")
        held.append(batch)
        size += batch.nbytes
        last = int(keys[-1])
        if size < full:
            continue
        whole = joined(held)
        cut = int(np.searchsorted(numbers_of(whole.column(key)), last))  # the last may go on
        if cut:
            yield whole.slice(0, cut)
        held = [whole.slice(cut)]
        size = held[0].nbytes
        full = max(most, 2 * size)  # a large group is not copied with every batch
    if held:
        yield joined(held)


def joined(parts: list[Any]) -> Any:
    """Return several batches as one; UsageError for more than 2 GiB in a column."""
    if len(parts) == 1:
        return parts[0]
    batches = arrow.library().Table.from_batches(parts).combine_chunks().to_batches()
    if len(batches) != 1:
        raise UsageError("a group has more than 2 GiB of items, more than one task can hold")
    return batches[0]

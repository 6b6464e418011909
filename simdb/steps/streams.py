"""Streams of record batches that are sorted by a column, cut so that no group is in two pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb import arrow
from simdb.arguments import can_be_iterated
from simdb.arrays import Int64s
from simdb.errors import UsageError, WrongTypeError

MOST_BYTES = 4 * 2**20  # of groups that are handled at once; four times as many are no quicker


def record_batches(given: Any) -> Iterator[Any]:
    """Yield the batches of a stream, without views, from which pyarrow cannot pick.

    WrongTypeError: it is no stream, or holds something else.
    """
    library = arrow.library()
    is_whole = isinstance(given, library.Table | library.RecordBatch)  # would give its columns
    if is_whole or not can_be_iterated(given):
        raise _no_batches(given)
    for batch in given:
        if not isinstance(batch, library.RecordBatch):
            raise _no_batches(batch)
        plain = arrow.without_views(batch.schema)
        yield batch if plain == batch.schema else arrow.as_types_of(batch, plain)


def _no_batches(given: object) -> WrongTypeError:
    return WrongTypeError(
        "a step takes an iterable of Arrow record batches, as table.to_batches() makes them, not "
        f"{type(given).__name__}"
    )


def column_named(batch: Any, name: str | int) -> Any:
    """Return a column of a batch, or of a table; UsageError: there is none, or there are two."""
    try:
        return batch.column(name)
    except (KeyError, IndexError):
        twice = batch.schema.names.count(name) > 1
        problem = f"have two columns {name!r}" if twice else f"have no column {name!r}"
        raise UsageError(f"the rows {problem}; they have {batch.schema.names}") from None


def numbers_of(batch: Any, name: str | int) -> Int64s:
    """Return a column of whole numbers; UsageError for others, for nulls, and beyond int64."""
    column = column_named(batch, name)
    if not len(column):
        return np.empty(0, np.int64)
    if column.null_count:
        raise UsageError("a number of a row is null: every row needs one of its own")
    if not arrow.library().types.is_integer(column.type):
        raise UsageError(f"the column {name!r} must hold whole numbers, not {column.type}")
    return as_int64s(arrow.numbers_in(column), f"the column {name!r}")


def as_int64s(values: npt.NDArray[np.integer], whose: str) -> Int64s:
    """Return whole numbers as int64: NumPy makes floats of these and uint64, and loses digits.

    UsageError: one does not fit.
    """
    if values.dtype.kind == "u" and (largest := values.max(initial=0)) >= 2**63:
        raise UsageError(f"{whose} has the number {largest}, which int64 cannot hold")
    return values.astype(np.int64, copy=False)


def row_numbers(batch: Any) -> Int64s:
    """Return the numbers of rows; UsageError: one is below 0, which marks what is no pair."""
    found = numbers_of(batch, "number")
    least = int(found.min(initial=0))
    if least < 0:
        raise UsageError(f"numbers of rows must be 0 or more, not {least}")
    return found


def bytes_in(batch: Any, name: str, of: str = "number") -> Any:
    """Return a column of bytes; UsageError for others, and for nulls, told by another column."""
    column = arrow.decoded(column_named(batch, name))
    if not arrow.is_binary(column.type):
        raise UsageError(f"the column {name!r} must hold bytes, not {column.type}")
    if column.null_count:
        row = int(np.argmin(column.is_valid()))
        raise UsageError(f"the column {name!r} is null where {of!r} is {batch[of][row]}")
    return column


def words_in(batch: Any, name: str, dtype: type[np.generic], width: int) -> npt.NDArray[Any]:
    """Return a column of bytes as a matrix, so many words a row; UsageError for other lengths."""
    column = bytes_in(batch, name)
    found = arrow.matrix(column, dtype, width)
    if found is None:
        size, lengths = width * np.dtype(dtype).itemsize, list(map(len, column.to_pylist()))
        row = int(np.argmax(np.not_equal(lengths, size)))
        raise UsageError(
            f"the column {name!r} has a length of {lengths[row]:,} bytes where 'number' is "
            f"{batch['number'][row]}, not the {size:,} of the recipe"
        )
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
    for _, piece in pieces(batches, key, most):
        yield piece


def pieces(
    batches: Iterable[Any], key: str, most: int = MOST_BYTES, largest: float = inf
) -> Iterator[tuple[int | None, Any]]:
    """Do as ``whole_groups``, but cut a group of more bytes than ``largest``.

    Yields the name of the group that is cut, whose pieces follow one another; None for a piece of
    whole groups.
    """
    held: list[Any] = []
    size, full = 0, most
    last: int | None = None
    cut_group: int | None = None  # of which pieces were handed on
    for batch in record_batches(batches):
        if not batch.num_rows:
            continue
        keys, rest = numbers_of(batch, key), batch
        if (keys[1:] < keys[:-1]).any() or (last is not None and keys[0] < last):
            raise UsageError(f"the rows of a task are not sorted by {key!r}")
        last = int(keys[-1])
        if cut_group is not None:
            more = int(np.searchsorted(keys, cut_group, "right"))
            if more:
                yield cut_group, batch.slice(0, more)
            rest = batch.slice(more)
        if not rest.num_rows:
            continue
        cut_group = None
        held.append(rest)
        size += rest.nbytes
        if size < full:
            continue
        whole = joined(held)
        cut = int(np.searchsorted(numbers_of(whole, key), last))  # the last may go on
        if cut:
            yield None, whole.slice(0, cut)
        held = [whole.slice(cut)]
        size = held[0].nbytes
        if size > largest:
            yield last, held[0]
            held, size, full, cut_group = [], 0, most, last
            continue
        full = max(most, 2 * size)  # a large group is not copied with every batch
    if held:
        yield None, joined(held)


def joined(parts: list[Any]) -> Any:
    """Return several batches as one; UsageError: they differ, or have over 2 GiB in a column."""
    if len(parts) == 1:
        return parts[0]
    library = arrow.library()
    try:
        batches = library.Table.from_batches(parts).combine_chunks().to_batches()
    except library.ArrowInvalid as error:
        raise UsageError(f"the batches of a task cannot be put together: {error}") from None
    if len(batches) != 1:
        raise UsageError("a group has more than 2 GiB of items, more than one task can hold")
    return batches[0]

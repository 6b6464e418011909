"""Rows of (key, number) as few large ones, for engines to whom each row costs more than its bytes.

An item has a row for each of its bands. As rows of an engine they take as long to hand over, to
send and to sort as all else together; packed, one row has those of many items for one part of all
keys, and a task sorts its parts by itself. The keys of a part come together in one task, as those
of one bucket did.

A packed row is how many it holds, their least number, and then words of 64 bits: keys, mixed and
rising, what else belongs to a key, and the numbers above the least, in as few bytes as the largest
takes. Words are cut into planes of bytes: high ones are alike, and vanish when the engine
compresses what it sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from simdb import arrow, kernels
from simdb.arguments import require_whole
from simdb.arrays import UInt64s
from simdb.batches.meeting import are_shared
from simdb.errors import UsageError
from simdb.recipe import Recipe
from simdb.steps.buckets import entries
from simdb.steps.schemas import COPIES, ENTRIES, PACKED
from simdb.steps.signing import DIGEST_BYTES
from simdb.steps.streams import (
    bytes_in,
    column_named,
    numbers_of,
    record_batches,
    row_numbers,
    starts_of,
    taken,
    words_in,
)

AT_ONCE = 2**19  # rows that are packed together
OF_PART = 2**20  # rows of a part, of which a task holds one after the other
LEAST_PARTS = 64
_SPREAD = 0x9E3779B97F4A7C15
_MIX, _UNMIX = np.uint64(_SPREAD), np.uint64(pow(_SPREAD, -1, 2**64))
_HEADER = np.dtype([("count", "<i8"), ("least", "<i8"), ("width", "<i8")])


def parts_of(rows: int) -> int:
    """Return into how many parts so many rows are dealt: a power of two."""
    return max(LEAST_PARTS, 1 << (max(1, rows // OF_PART) - 1).bit_length())


def pack_entries(recipe: Recipe, batches: Iterable[Any], *, parts: int) -> Iterator[Any]:
    """(number, signature) -> ``PACKED``: what ``entries`` gives, dealt to parts by bucket."""
    words = (
        [numbers_of(batch, name).view(np.uint64) for name in ("bucket", "number")]
        for batch in entries(recipe, batches)
    )
    yield from _packed(words, parts)


def pack_digests(recipe: Recipe, batches: Iterable[Any], *, parts: int) -> Iterator[Any]:
    """(number, digest) -> ``PACKED``: the digests that are there, dealt to parts."""
    del recipe
    yield from _packed(map(_of_digests, record_batches(batches)), parts)


def shared_packed(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """``PACKED`` entries sorted by part -> ``ENTRIES`` of buckets with two items or more."""
    del recipe
    for keys, numbers in _parts(batches, 2):
        order = kernels.runs.order_of(keys)
        rising = keys[order]
        some = are_shared(rising)
        if some.any():
            own = numbers[order[some]]
            yield ENTRIES.batch((rising[some] * _UNMIX).view(np.int64), own.view(np.int64))


def copies_packed(
    recipe: Recipe, batches: Iterable[Any], *, boundary: int | None = None
) -> Iterator[Any]:
    """``PACKED`` digests sorted by part -> ``COPIES``: items and the first that they equal.

    With a ``boundary``, the first of the same side of it.
    """
    del recipe
    for low, high, numbers in _parts(batches, 3):
        side = np.zeros(numbers.size, np.bool_)
        if boundary is not None:
            side = numbers.view(np.int64) >= boundary
        order = np.lexsort((numbers, side, high, low))
        words = [word[order] for word in (low, high, side)]
        same = np.logical_and.reduce([word[1:] == word[:-1] for word in words])
        begins = np.flatnonzero(np.append(True, ~same))
        own = numbers[order].view(np.int64)
        first = np.repeat(own[begins], np.diff(np.append(begins, own.size)))
        copied = first != own
        if copied.any():
            yield COPIES.batch(own[copied], first[copied])


def _of_digests(batch: Any) -> list[UInt64s]:
    some = taken(batch, np.flatnonzero(np.asarray(column_named(batch, "digest").is_valid())))
    if not some.num_rows:
        return [np.empty(0, np.uint64)] * 3
    low, high = words_in(some, "digest", np.uint64, DIGEST_BYTES // 8).T
    return [low, high, row_numbers(some).view(np.uint64)]


def _packed(found: Iterable[list[UInt64s]], parts: int) -> Iterator[Any]:
    """Deal rows of words, the first of them their key and the last their number."""
    require_whole("parts", parts, 1, 2**62, optional=False)
    held: list[list[UInt64s]] = []
    size = 0
    for words in found:
        held.append(words)
        size += words[0].size
        if size >= AT_ONCE:
            yield _dealt(held, parts)
            held, size = [], 0
    if size:
        yield _dealt(held, parts)


def _dealt(held: list[list[UInt64s]], parts: int) -> Any:
    keys, *others, numbers = _joined(held)
    mixed, least = keys * _MIX, numbers.min()
    order = kernels.runs.order_of(mixed)
    words = [mixed[order], *(word[order] for word in others), numbers[order] - least]
    width = -(-int(words[-1].max()).bit_length() // 8)
    widths = [8] * (len(words) - 1) + [width]
    shift = np.uint64(64 - (parts.bit_length() - 1))
    own = (words[0] >> shift).view(np.int64)
    starts = starts_of(own)
    rows = [
        b"".join(
            [
                np.array([(end - begin, least, width)], _HEADER).tobytes(),
                *map(_planes, (word[begin:end] for word in words), widths),
            ]
        )
        for begin, end in pairwise(starts.tolist())
    ]
    return PACKED.batch(own[starts[:-1]], arrow.library().array(rows, arrow.library().binary()))


def _planes(values: UInt64s, width: int) -> bytes:
    return values.view(np.uint8).reshape(-1, 8).T[:width].tobytes()


def _parts(batches: Iterable[Any], words: int) -> Iterator[list[UInt64s]]:
    """Yield the words of one whole part after the other, keys as they were mixed.

    An engine may hand over all parts of a task at once, so no batch is held beside another.
    """
    held: list[list[UInt64s]] = []
    last: int | None = None
    for batch in record_batches(batches):
        numbers = numbers_of(batch, "part").tolist()
        for number, row in zip(numbers, bytes_in(batch, "entries", "part"), strict=True):
            if last is not None and number < last:
                raise UsageError("the rows of a task are not sorted by 'part'")
            if number != last and held:
                yield _joined(held)
                held = []
            held.append(_unpacked(row.as_buffer(), words, number))
            last = number
    if held:
        yield _joined(held)


def _joined(held: list[list[UInt64s]]) -> list[UInt64s]:
    return [np.concatenate(words) for words in zip(*held, strict=True)]


def _unpacked(row: Any, words: int, part: int) -> list[UInt64s]:
    count = least = width = 0
    if len(row) > _HEADER.itemsize:
        ((count, least, width),) = np.frombuffer(row, _HEADER, 1).tolist()
    size = _HEADER.itemsize + count * (8 * (words - 1) + width)
    if count < 1 or least < 0 or not 0 <= width <= 8 or len(row) != size:
        raise UsageError(
            f"a row of part {part} has {len(row):,} bytes, cut or not packed for this step"
        )
    planes = np.frombuffer(row, np.uint8, offset=_HEADER.itemsize).reshape(-1, count)
    whole = np.zeros((words, count, 8), np.uint8)
    for number, word in enumerate(whole):
        begin = 8 * number
        word[:, : width if number == words - 1 else 8] = planes[begin : begin + 8].T
    found = [word.view(np.uint64).ravel() for word in whole]
    return [*found[:-1], found[-1] + np.uint64(least)]

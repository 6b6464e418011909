"""Signatures to candidates by buckets: the Map and the Reduce of exercise 3.4.4 of MMDS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from simdb.arrays import UInt16s
from simdb.batches.meeting import (
    LARGE_BUCKET,
    by_class,
    by_signature,
    candidate_pairs,
    slice_of,
)
from simdb.errors import ConfigurationError, CorruptionError, UsageError
from simdb.recipe import Recipe
from simdb.steps.schemas import ENTRIES, PAIRS
from simdb.steps.signing import require_served, signer_of
from simdb.steps.streams import (
    column_named,
    numbers_of,
    record_batches,
    row_numbers,
    starts_of,
    taken,
    whole_groups,
    words_in,
)
from simdb.work import Work

AT_ONCE = 262_144  # pairs of a batch
MOST_MET = 20 * 10**9  # pairs of one bucket: minutes of a task


def _signatures(recipe: Recipe, batch: Any) -> UInt16s:
    require_served(recipe)
    family = signer_of(recipe).family
    assert family is not None
    return words_in(batch, "signature", np.uint16, family.words)


def entries(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """(number, signature) -> ``ENTRIES``: one row for each bucket that an item is in.

    Rows without a signature are left out.
    """
    require_served(recipe)
    signer = signer_of(recipe)
    for batch in record_batches(batches):
        present = np.asarray(column_named(batch, "signature").is_valid())
        some = taken(batch, np.flatnonzero(present))
        if not some.num_rows:
            continue
        keys = signer.bucket_keys(_signatures(recipe, some))
        numbers = np.repeat(row_numbers(some), keys.sizes)
        yield ENTRIES.batch(np.ascontiguousarray(keys.values).view(np.int64), numbers)


def shared(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """``ENTRIES`` sorted by bucket -> those of buckets with two items or more."""
    del recipe  # as of all steps, though nothing of it is needed
    for piece in whole_groups(batches, "bucket"):
        keys, numbers = (numbers_of(piece, name) for name in ENTRIES.names)
        sizes = np.diff(starts_of(keys))
        kept = np.repeat(sizes > 1, sizes)
        if kept.any():
            yield ENTRIES.batch(keys[kept], numbers[kept])


def meet(
    recipe: Recipe,
    batches: Iterable[Any],
    *,
    boundary: int | None = None,
    most: int = MOST_MET,
) -> Iterator[Any]:
    """``SHARED`` sorted by bucket and number -> ``PAIRS``: candidates, each once over all tasks.

    A pair is taken in its own bucket only, which the two signatures tell, and dropped if these have
    too few equal rows. So what leaves a task is as much as there is to compare, however many items
    share a bucket.

    Args:
        recipe, batches: whole buckets in each task.
        boundary: of a join of two sides, the first number of the right one: pairs are of both.
        most: pairs of one bucket that may be looked at.

    Raises:
        ConfigurationError: a bucket has more; the message names it, and how many items it has.
    """
    signer = signer_of(recipe)
    needed = signer.agreement(recipe.bound)
    for piece in whole_groups(batches, "bucket"):
        part = _part(recipe, piece, most)
        if part is None:
            continue
        if boundary is None:
            part = by_signature(part)
        else:
            sides = (part.numbers >= boundary).astype(np.int64)
            part = replace(part, buckets=by_class(part.buckets, sides))
        for left, right in candidate_pairs(part, needed, Work(), at_once=AT_ONCE):
            if left.size:
                yield PAIRS.batch(np.minimum(left, right), np.maximum(left, right))


def _part(recipe: Recipe, piece: Any, most: int) -> Any:
    keys = numbers_of(piece, "bucket")
    starts = starts_of(keys)
    sizes = np.diff(starts)
    if (sizes < 2).all():
        return None
    largest = int(sizes.max())
    met = largest * (largest - 1) // 2
    if met > most:
        name = int(keys[starts[int(sizes.argmax())]].view(np.uint64))
        raise ConfigurationError(
            f"bucket {name:016x} has {largest:,} different items and so {met:,} pairs, more than "
            f"{most:,}: most are hardly similar; take a higher threshold, more rows "
            "(items=...), or dedupe and groups, which list no pairs"
        )
    kept = np.repeat(sizes > 1, sizes)
    piece, keys = taken(piece, np.flatnonzero(kept)), keys[kept]
    numbers, firsts, members = np.unique(
        numbers_of(piece, "number"), return_index=True, return_inverse=True
    )
    every = _signatures(recipe, piece)
    try:
        return slice_of(signer_of(recipe), numbers, every[firsts], keys.view(np.uint64), members)
    except CorruptionError:  # which tells what to do about a store
        raise UsageError("a bucket is not of its signatures: they are of two recipes") from None


def connect(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """``SHARED`` sorted by bucket and number -> ``PAIRS`` that connect all candidates.

    Of a small bucket its candidates, as ``meet`` lists them; of a large one a star from its first
    item to all others. So they are linear in the entries. Components may be larger than those of
    candidates, which changes no answer: each is answered by what it holds.
    """
    for piece in whole_groups(batches, "bucket"):
        numbers = numbers_of(piece, "number")
        starts = starts_of(numbers_of(piece, "bucket"))
        sizes = np.diff(starts)
        large = np.repeat(sizes > LARGE_BUCKET, sizes)
        if large.any():
            first = np.repeat(numbers[starts[:-1]], sizes)
            star = large & (first != numbers)
            yield PAIRS.batch(first[star], numbers[star])
        small = taken(piece, np.flatnonzero(~large))
        if small.num_rows:
            # A pair whose own bucket is a large one is in its star.
            yield from meet(recipe, [small])

"""Signatures where the matrix is chunked by rows (MMDS, exercise 3.3.7).

A task has some elements of every item; it keeps, for each item and each row of the signature, the
smallest value that it has seen, and another one takes the smallest of these. What leaves is 8 bytes
a row, however large the item. Both schemes merge so: the classical one at once, the fast one
because a bin's (round, value) is the smallest over all symbols, and what an earlier round filled
cannot change in a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from simdb import arrow
from simdb.errors import ConfigurationError
from simdb.lsh.family import MinHash
from simdb.recipe import Recipe
from simdb.steps.schemas import MINIMA, SIGNED
from simdb.steps.signing import require_served, signer_of
from simdb.steps.streams import (
    column_named,
    numbers_of,
    record_batches,
    row_numbers,
    starts_of,
    whole_groups,
    words_in,
)


def _family(recipe: Recipe) -> MinHash:
    require_served(recipe)
    family = signer_of(recipe).family
    # The copies of an element in a bag are counted, and a task may have only some of them.
    of_sets = recipe.kind.of_elements and not recipe.kind.of_counts
    if not isinstance(family, MinHash) or not of_sets:
        others = "those of a cascade" if of_sets else recipe.kind.plural
        raise ConfigurationError(
            f"only sets of elements are signed element by element, not {others}"
        )
    return family


def partial_minima(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """(number, element), in any order -> ``MINIMA``: one row for each item of a batch.

    UsageError: a number is below 0.
    """
    family, signer = _family(recipe), signer_of(recipe)
    for batch in record_batches(batches):
        if not batch.num_rows:
            continue
        numbers = row_numbers(batch)
        order = np.argsort(numbers, kind="stable")
        starts = starts_of(numbers[order])
        elements = column_named(batch, "element").take(arrow.numbers(order)).to_pylist()
        bounds = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        items = signer.items.encode_many([elements[begin:end] for begin, end in bounds])
        minima = family.minima(signer.symbols(items))
        yield MINIMA.batch(numbers[order][starts[:-1]], arrow.bytes_column(minima))


def merge_minima(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """``MINIMA`` sorted by number -> ``SIGNED``, as of the whole items, without digests."""
    family, library = _family(recipe), arrow.library()
    for piece in whole_groups(batches, "number"):
        numbers = numbers_of(piece, "number")
        starts = starts_of(numbers)[:-1]
        found = words_in(piece, "minima", np.uint64, family.words)
        signatures = family.of_minima(np.minimum.reduceat(found, starts, axis=0))
        nothing = library.nulls(starts.size)
        yield SIGNED.batch(
            numbers[starts],
            nothing.cast(library.binary()),
            arrow.bytes_column(signatures),
            nothing.cast(library.string()),
        )

"""Candidates to similar pairs, by the items themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from simdb import arrow
from simdb.arrays import Float64s
from simdb.batches.compare import compare_items
from simdb.errors import UsageError
from simdb.recipe import Recipe
from simdb.steps.schemas import SIMILAR
from simdb.steps.signing import signer_of
from simdb.steps.streams import bytes_in, numbers_of, whole_groups


def told(recipe: Recipe, values: Float64s) -> Float64s:
    """Return similarities, or distances, as callers know them."""
    return values if recipe.kind.is_distance else recipe.kind.outer_values(values)


def verify(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """``GATHERED`` sorted by group -> ``SIMILAR``: the candidates that are similar enough.

    The value is the similarity, or the distance, of the items: the number that a collection gives.
    UsageError: an item of a candidate is not in its group.
    """
    signer, bound = signer_of(recipe), recipe.bound
    for piece in whole_groups(batches, "group"):
        group, number, right = (numbers_of(piece, name) for name in ("group", "number", "right"))
        is_item, is_pair = right < 0, right >= 0
        if not is_pair.any():
            continue
        left, other = number[is_pair], right[is_pair]
        # An item may be in several groups, and is looked for in its own.
        groups = np.unique(group, return_inverse=True)[1]
        known, every = np.unique(np.concatenate([number, other]), return_inverse=True)
        names = groups * known.size + every[: number.size]
        owned, firsts = np.unique(names[is_item], return_index=True)
        items = bytes_in(piece.take(arrow.numbers(np.flatnonzero(is_item)[firsts])), "item")
        sides = names[is_pair], groups[is_pair] * known.size + every[number.size :]
        places = [np.searchsorted(owned, side) for side in sides]
        if not all(np.isin(side, owned).all() for side in sides):
            raise UsageError("an item of a candidate is not in its group")
        order = np.argsort(places[0], kind="stable")  # a run of equal lefts is prepared once
        left, other = left[order], other[order]
        compared = compare_items(signer, items.to_pylist(), places[0][order], places[1][order])
        met = bound.meets_many(compared.numerators, compared.denominators)
        if met.any():
            yield SIMILAR.batch(left[met], other[met], told(recipe, compared.values()[met]))

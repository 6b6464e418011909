"""Whole components to what ``dedupe`` drops and to groups: no list of pairs is needed.

What becomes of an item depends on those that it is connected with, and on no other. So components
may be decided anywhere, many small ones at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from simdb.arrays import Bools, Int64s
from simdb.batches.compare import compare_items
from simdb.batches.deciding import BatchDecider
from simdb.batches.meeting import connect_similar, slice_of_batch
from simdb.errors import UsageError
from simdb.exact import joins
from simdb.exact.order import SymbolOrder
from simdb.forest import Forest
from simdb.recipe import Recipe
from simdb.steps.schemas import DROPPED, GROUPED
from simdb.steps.signing import signer_of, threshold_of
from simdb.steps.streams import bytes_in, numbers_of, whole_groups
from simdb.steps.verifying import told
from simdb.work import Work

AT_ONCE = 8_192  # candidates


def _in_order(batches: Iterable[Any]) -> Iterator[tuple[Int64s, list[bytes]]]:
    """Yield the numbers and items of whole components; each piece by rising number."""
    for piece in whole_groups(batches, "group"):
        numbers, items = numbers_of(piece, "number"), bytes_in(piece, "item").to_pylist()
        order = np.argsort(numbers, kind="stable")
        rising = numbers[order]
        if (rising[1:] == rising[:-1]).any():
            raise UsageError("a number is there twice among whole components")
        yield rising, [items[place] for place in order.tolist()]


def dedupe(recipe: Recipe, batches: Iterable[Any], *, exact: bool = False) -> Iterator[Any]:
    """(group, number, item) sorted by group -> ``DROPPED``: the rows to remove, and for which.

    A row is removed if it is similar enough to a row *kept* before it, by number; the first of
    these is its target. Items are in canonical form, and all items that an item is similar to are
    in its group. By buckets, or ``exact``: by all similar pairs.
    """
    signer = signer_of(recipe)
    order = SymbolOrder() if exact else None
    for numbers, items in _in_order(batches):
        signed = signer.sign(items)
        decider = BatchDecider(signer, recipe.bound, items, signed, order=order)
        decided = decider.decide_among_each_other()
        rows = np.flatnonzero(decided.row >= 0)
        if rows.size:
            values = told(recipe, decided.value[rows])
            yield DROPPED.batch(numbers[rows], numbers[decided.row[rows]], values)


def groups(recipe: Recipe, batches: Iterable[Any], *, exact: bool = False) -> Iterator[Any]:
    """(group, number, item) sorted by group -> ``GROUPED``: the smallest number of its group.

    Items that are similar to none are left out. Pairs that are connected already are not compared.
    """
    signer, bound = signer_of(recipe), recipe.bound
    needed = signer.agreement(bound)
    for numbers, items in _in_order(batches):
        forest = Forest(len(items))
        if exact:
            symbols = signer.symbols(items)
            arranged = SymbolOrder().arrange(symbols.values, symbols.offsets)
            for found in joins.pairs(arranged, threshold_of(recipe)):
                forest.connect(found.left.astype(np.uint32), found.right.astype(np.uint32))
        else:
            part = slice_of_batch(signer, signer.sign(items))

            def similar(left: Any, right: Any, items: list[bytes] = items) -> Bools:
                compared = compare_items(signer, items, left, right)
                return bound.meets_many(compared.numerators, compared.denominators)

            if part is not None:
                connect_similar(part, forest, needed, Work(), similar, at_once=AT_ONCE)
        for members in forest.groups():
            own = numbers[members]
            yield GROUPED.batch(own, np.full(own.size, own[0]))

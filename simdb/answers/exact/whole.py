"""Exact answers by Dice, cosine, containment and overlap by reading all sets.

Where no exact index serves, and where to look each item of a join up in one would take longer.

A search compares its item with all. A join by containment loads the side whose items are to be
contained, posts their first symbols, and reads the other side once (``exact.containment``): so few
passages are found in many texts without an index of all symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from msgspec.structs import replace

from simdb.answers import costs
from simdb.answers.compare import Ranked
from simdb.answers.costs import Task
from simdb.answers.exact.memory import Loaded, join_order, live_sets, load, sampled_order
from simdb.answers.exact.method import Exact
from simdb.answers.method import Batches
from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.errors import ConfigurationError
from simdb.exact.containment import ContainedSets, in_kept, in_kept_before
from simdb.exact.measures import SetSimilarity
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.opened.opened import Opened
from simdb.results import Matches, PairBatch
from simdb.storage.collection.reader import live_batches

# How much longer it takes to read a set, bring it into an order and look all of it up, than to
# compare it with another one.
ARRANGED = 8
# One side is posted, of containment, which takes no more than a join of sets at this floor.
COUNTED_AS = Threshold(Fraction(4, 5))


class _Contained(NamedTuple):
    """Items of which enough is in others: the numbers of both, the share, and both sizes."""

    inner: UInt32s
    outer: UInt32s
    shares: Float64s
    size: Int64s
    outer_size: Int64s


class WholeSets(Exact, frozen=True):
    """Answers by reading all sets of symbols. None is missed."""

    name: ClassVar[str] = "scan"

    @property
    def _floor(self) -> Threshold:
        return COUNTED_AS

    def search(self, opened: Opened, item: bytes, limit: int | None) -> Matches:
        """Compare an item with all stored ones."""
        signer = opened.signer
        probe = signer.symbols([item]).values
        numbers = [np.empty(0, np.uint32)]
        values = [np.empty(0)]
        total = 0
        for stored, items in live_batches(opened.reader, weights=signer.items.weights):
            met, similarities = self.criterion.met_by(probe, signer.symbols(items))
            total += stored.size
            numbers.append(stored[met])
            values.append(similarities)
        opened.work.looked_at += total
        found = np.concatenate(values)
        ranked = Ranked(np.concatenate(numbers), found, np.arange(found.size), None)
        return self.matches(opened, ranked, limit, candidates=total)

    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Find the items of which enough is in a larger one, or look all up if that is too much."""
        order = join_order(opened)
        memory, early = opened.resources.memory, self.serves(opened.settings)
        loaded = load(opened, order, self._floor, memory=memory, early=early)
        if loaded is None:
            for batch, _ in self._prober(opened).pairs(opened, start=since, earlier_only=True):
                yield batch, None
            return
        for found in self._contained(loaded, opened, order, opened):
            is_first = (found.size < found.outer_size) | (
                (found.size == found.outer_size) & (found.inner < found.outer)
            )
            one, other, values = (column[is_first] for column in found[:3])
            batch = PairBatch(np.minimum(one, other), np.maximum(one, other), values).since(since)
            if len(batch):
                yield batch, None

    def join(self, left: Opened, right: Opened) -> Batches:
        """Load what is to be contained, and look all others up; if that is too much, use an index.

        By overlap that is either side: the left sets are looked for in those as large or larger,
        then the right ones in larger ones.
        """
        left = replace(left, signer=right.signer)
        is_overlap = self.measure is SetSimilarity.OVERLAP
        memory, early = left.resources.memory, self.serves(right.settings)
        sides = (False, True) if is_overlap else (self.measure is SetSimilarity.STORED_IN_PROBE,)
        for of_right in sides:
            inner, outer = (right, left) if of_right else (left, right)
            # What is rare among those that are read, few of them meet. The epoch of the left
            # collection is of no use: its symbols have another secret.
            order = (
                sampled_order(left.reader, right.signer.items) if of_right else join_order(right)
            )
            loaded = load(inner, order, self._floor, memory=memory, early=early)
            if loaded is None:  # of a join by overlap no index serves, or it would answer
                assert not (is_overlap and early)
                yield from super().join(left, right)
                return
            for found in self._contained(loaded, outer, order, left):
                one, other, values = found[:3]
                if is_overlap:
                    fits = found.size < found.outer_size + (not of_right)
                    one, other, values = one[fits], other[fits], values[fits]
                if one.size:
                    columns = (other, one) if of_right else (one, other)
                    yield PairBatch(*columns, values), None

    def _contained(
        self, loaded: Loaded, outer: Opened, order: SymbolOrder, counted: Opened
    ) -> Iterator[_Contained]:
        """Yield what of the loaded sets is in which others, whose work counts for a collection."""
        contained, sizes = ContainedSets(loaded.sets, self.threshold), loaded.sets.sizes
        for batch in live_sets(outer, order):
            counted.resources.require_open()
            for found in contained.found_in(batch.sets):
                counted.work.note(found.met)
                counted.work.found += found.inner.size
                size = sizes[found.inner]
                yield _Contained(
                    loaded.numbers[found.inner],
                    batch.numbers[found.outer],
                    found.overlaps / size,
                    size,
                    batch.sets.sizes[found.outer],
                )

    def looked_at(self, task: Task) -> float:
        """Count what is read: of a join, what is met is known only when it is done."""
        return float(task.counts.live + (task.probes if task.verb == "join" else 0))

    def seconds(self, task: Task) -> float:
        """Estimate how long it takes to read all; of a join, each side once."""
        if task.verb != "join":
            return self.looked_at(task) * task.rates(self.bound).scanned
        rates = ((side, costs.rates_of(side, self.bound)) for side in (task.left, task.right))
        return ARRANGED * sum(side.reader.manifest.live * each.scanned for side, each in rates)


def contained_in_kept(
    opened: Opened,
    threshold: Threshold,
    similar: Threshold | None = None,
    sequence: Callable[[UInt32s], Int64s] | None = None,
) -> Iterator[PairBatch]:
    """Yield each live item that a kept one contains, on the left, once, with the first such one.

    See ``exact.containment``. Items are taken by falling size, or in the sequence that is returned
    for their numbers; with ``similar`` those go too that are so similar to one kept before them.
    The value is the share that is contained. ConfigurationError: the symbols of all do not fit into
    memory.
    """
    order = sampled_order(opened.reader, opened.signer.items)
    loaded = load(opened, order, COUNTED_AS, memory=opened.resources.memory, early=False)
    if loaded is None:
        raise ConfigurationError(
            "containment is computed in memory, and the symbols of all items do not fit into "
            "the memory setting; open the store with more memory"
        )
    sizes = loaded.sets.sizes
    if sequence is None and similar is None:
        taken = in_kept(loaded.sets, threshold)
    else:
        falling = np.lexsort((np.arange(sizes.size), -sizes))
        order_of_sets = falling if sequence is None else sequence(loaded.numbers)
        taken = in_kept_before(loaded.sets, threshold, order_of_sets, similar)
    for found in taken:
        opened.resources.require_open()
        sides = loaded.numbers[found.inner], loaded.numbers[found.outer]
        yield PairBatch(*sides, found.overlaps / sizes[found.inner])

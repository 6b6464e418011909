"""Sets of symbols in memory: a batch of stored items, or all of a collection if they fit.

Loading and arranging items in bulk is faster than reading postings, so pairs are joined here where
the symbols of all items fit into a share of the memory setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from simdb.arrays import UInt32s
from simdb.batches.deciding import first_identical
from simdb.batches.signer import Epoch, Signer
from simdb.errors import CorruptionError
from simdb.exact import joins
from simdb.exact.joins import BEGINNING, Place, Workers, in_order
from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.kinds import Items
from simdb.opened.epochs import open_epoch
from simdb.opened.opened import Opened
from simdb.ragged import slices_of
from simdb.results import PairBatch
from simdb.storage.collection.reader import CollectionReader, LiveBatch, live_batches, read_items

T = TypeVar("T")

SAMPLED_BYTES = 8 * 2**20  # of items, by which symbols are put in order
SAMPLED_ITEMS = 2**18
SAMPLED_SYMBOLS = 2**21  # what takes 70 MiB to count, whatever the memory setting
SHARE_OF_MEMORY = 2
SHARE_KEPT = 8  # of the memory setting, for items that are joined again
BYTES_A_SYMBOL = 8  # of the arranged sets; as many of a second copy while they are put together
BYTES_A_POSTING = 80  # once the sets lie together
BYTES_A_SET = 72  # its number, places and class
LOADED_AT_ONCE = 2**20  # bytes of items
IN_FLIGHT = 5  # batches that are read ahead and arranged


class Loaded(Struct, frozen=True, eq=False):
    """Items in memory: their numbers, ascending, the bytes of all, their symbols in one order."""

    numbers: UInt32s
    item_bytes: int
    sets: ArrangedSets

    @property
    def counts(self) -> tuple[int, int]:
        """How many symbols, and sets."""
        return int(self.sets.values.size), len(self.sets)


# -- reading -----------------------------------------------------------------------------------


def join_order(opened: Opened) -> SymbolOrder:
    """A good order of the symbols of a collection: that of its epoch, or of a sample."""
    exact = opened.reader.manifest.index.exact
    if exact is not None and exact.current.frequent:
        return open_epoch(opened.reader.transaction, exact.current).order
    return sampled_order(opened.reader, opened.signer.items)


def sampled_order(collection: CollectionReader, forms: Items) -> SymbolOrder:
    """Make an order of symbols from items at equal distances; empty without items.

    Reads ``SAMPLED_BYTES`` of items and ``SAMPLED_ITEMS`` of them at most, however many there are;
    of all others only the heads of their blocks. Counts about ``SAMPLED_SYMBOLS`` at most.
    """
    manifest = collection.manifest
    average = max(1, manifest.item_bytes // max(1, manifest.live))
    wanted = max(1, min(SAMPLED_ITEMS, SAMPLED_BYTES // average))
    numbers = collection.live_numbers()
    numbers = numbers[:: max(1, -(-numbers.size // wanted))]
    _, chosen = read_items(collection, numbers)
    weights = forms.weights(chosen)
    total = int(weights.sum())
    # What items become is known when they have: a few tell it of all.
    few = next(slices_of(weights, LOADED_AT_ONCE), slice(0))
    made = forms.symbols(chosen[few]).values.size / max(1, int(weights[few].sum()))
    step = max(1, round(total / SAMPLED_BYTES), round(total * made / SAMPLED_SYMBOLS))
    chosen, weights = chosen[::step], weights[::step]
    parts = (forms.symbols(chosen[some]).values for some in slices_of(weights, LOADED_AT_ONCE))
    return SymbolOrder.from_sample(np.concatenate([np.empty(0, np.uint64), *parts]))


def live_sets(opened: Opened, order: SymbolOrder, start: int = 0) -> Iterator[Loaded]:
    """Yield all live items from a number on in batches, arranged; on several threads."""
    workers = Workers(opened.resources.pool(), IN_FLIGHT)
    batches = live_batches(
        opened.reader, start, most_bytes=LOADED_AT_ONCE, weights=opened.signer.items.weights
    )
    works = (AtOnce(partial(_arranged, opened.signer, order, batch)) for batch in batches)
    return in_order(works, workers)


def _arranged(signer: Signer, order: SymbolOrder, batch: LiveBatch) -> Loaded:
    sets = arranged(signer, order, batch.items)
    return Loaded(batch.numbers, sum(map(len, batch.items)), sets)


def arranged(
    signer: Signer, order: SymbolOrder, items: Sequence[bytes | memoryview]
) -> ArrangedSets:
    """Write items down in an order, some at a time: a long text may have few symbols."""
    parts = []
    for some in slices_of(signer.items.weights(items), LOADED_AT_ONCE):
        symbols = signer.symbols(items[some])
        parts.append(order.arrange(symbols.values, symbols.offsets))
    return ArrangedSets.concatenated(parts)


class AtOnce(Generic[T]):
    """A range of work for threads that is done in one step."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.done = False

    def advance(self, _most: int) -> T:
        """Do it."""
        result = self._work()
        self.done = True
        return result


def stored_items(opened: Opened, numbers: UInt32s) -> list[memoryview]:
    """Read the items of ascending numbers, all of which are stored."""
    items = [document.item for _, document in opened.reader.documents_of(numbers)]
    if len(items) != numbers.size:
        raise CorruptionError(
            f"{numbers.size - len(items):,} of {numbers.size:,} items of the exact index cannot be "
            "found: a page of documents is damaged"
        )
    return items


def stored_sets(opened: Opened, epoch: Epoch, numbers: UInt32s) -> ArrangedSets:
    """Read the sets of ascending item numbers, all of which are stored."""
    return arranged(opened.signer, epoch.order, stored_items(opened, numbers))


def share_of(memory: int) -> int:
    """How many bytes of a memory setting loaded items may take."""
    return memory // SHARE_OF_MEMORY


def bytes_of(symbols: float, sets: int, floor: Threshold) -> float:
    """How many bytes so many sets take when they are loaded, and joined at a floor (MMDS 3.9.4)."""
    posted = floor.prefix_length(100) / 100
    a_symbol = BYTES_A_SYMBOL + max(BYTES_A_SYMBOL, posted * BYTES_A_POSTING)
    return symbols * a_symbol + sets * BYTES_A_SET


def load(
    opened: Opened,
    order: SymbolOrder,
    floor: Threshold,
    *,
    memory: int,
    early: bool,
    beside: Loaded | None = None,
) -> Loaded | None:
    """Load all live items, or None if to join them takes more than a share of so many bytes.

    The share is also that of what is loaded already, ``beside`` them. That they take more is told
    ``early`` by those that are loaded, of which others may differ; or when they do.
    """
    numbers = [np.empty(0, np.uint32)]
    parts: list[ArrangedSets] = []
    taken, loaded_bytes = 0.0, 0
    most = share_of(memory) - (0 if beside is None else bytes_of(*beside.counts, floor))
    for batch in live_sets(opened, order):
        opened.resources.require_open()
        numbers.append(batch.numbers)
        parts.append(batch.sets)
        taken += bytes_of(*batch.counts, floor)
        loaded_bytes += batch.item_bytes
        rest = opened.reader.manifest.item_bytes / max(1, loaded_bytes) if early else 1.0
        if taken * rest > most:
            return None
    return Loaded(np.concatenate(numbers), loaded_bytes, ArrangedSets.concatenated(parts))


def load_for_pairs(opened: Opened, floor: Threshold, *, early: bool) -> Loaded | None:
    """Load all live items in a good order, or None if they take too much memory; see ``load``.

    From the second time on that they are asked for they are kept while the state of the collection
    lasts, if they take little of the memory setting.
    """
    memory = opened.resources.memory

    def loaded() -> tuple[Loaded | None]:
        return (load(opened, join_order(opened), floor, memory=memory, early=early),)

    def fits(made: tuple[Loaded | None]) -> bool:
        return made[0] is not None and made[0].sets.values.nbytes <= memory // SHARE_KEPT

    (found,) = opened.kept("sets", loaded, fits=fits) or loaded()
    # What is kept was made by another handle, or for another floor, which may have more room.
    if found is None or bytes_of(*found.counts, floor) > share_of(memory):
        return None
    return found


# -- joining -----------------------------------------------------------------------------------


def load_both(
    left: Opened, right: Opened, floor: Threshold, *, memory: int, early: bool
) -> tuple[Loaded, Loaded] | None:
    """Load both sides of a join in one order, or None if together they take too much memory.

    One side may take what the other leaves. A collection that is joined with itself is loaded once,
    but posted as both.
    """
    order = join_order(right)
    if left.is_same_as(right):
        both = load(right, order, floor, memory=memory // 2, early=early)
        return None if both is None else (replace(both), both)  # two objects: not its own pairs
    # The larger side last, of which a part tells that it is too large.
    is_larger = left.reader.manifest.item_bytes > right.reader.manifest.item_bytes
    first, last = (right, left) if is_larger else (left, right)
    smaller = load(first, order, floor, memory=memory, early=early)
    if smaller is None:
        return None
    larger = load(last, order, floor, memory=memory, early=early, beside=smaller)
    if larger is None:
        return None
    return (larger, smaller) if is_larger else (smaller, larger)


class InMemory:
    """A join of loaded items, in one order: the same object twice for pairs of one collection.

    The measure of the criterion has a floor; the work of ``opened`` is counted.
    """

    counted = False  # see ``Sweep``

    def __init__(self, opened: Opened, criterion: Criterion, left: Loaded, right: Loaded) -> None:
        assert criterion.floor is not None
        self._work = opened.work
        self._criterion = criterion
        self._threshold: Threshold = criterion.floor
        self._left = left
        self._right = right

    def pairs(
        self, workers: Workers, start: Place = BEGINNING, *, counted: bool = False
    ) -> Iterator[tuple[PairBatch, Place]]:
        """Yield all pairs, and where to go on after each batch of them."""
        left, right, threshold = self._left, self._right, self._threshold
        if left is right:
            join = partial(joins.pairs, left.sets)
        else:
            join = partial(joins.join, left.sets, right.sets)
        measure = self._criterion.measure
        for columns in join(threshold, work=self._work, workers=workers, start=start):
            ones, others, values = columns.left, columns.right, columns.similarities
            if measure is not SetSimilarity.JACCARD:
                sizes = left.sets.sizes[ones], right.sets.sizes[others]
                met = self._criterion.are_met(columns.overlaps, *sizes)
                values = measure.values(columns.overlaps, *sizes)[met]
                ones, others = ones[met], others[met]
            numbers = left.numbers.take(ones), right.numbers.take(others)
            yield PairBatch(*numbers, values), columns.after

    def edges(self, workers: Workers) -> Iterator[tuple[UInt32s, UInt32s]]:
        """Yield pairs that connect the same items as all pairs do: a copy only with the first."""
        numbers, sets = self._left.numbers, self._left.sets
        same = first_identical(sets, sets.sizes > 0)
        own = np.arange(len(sets))
        copies = np.flatnonzero(same != own)
        yield numbers[same[copies]], numbers[copies]
        chosen = np.flatnonzero(same == own)
        few = replace(self._left, numbers=numbers[chosen], sets=sets.select(chosen))
        for pairs in joins.pairs(few.sets, self._threshold, work=self._work, workers=workers):
            yield few.numbers[pairs.left], few.numbers[pairs.right]

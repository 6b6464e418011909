"""Looking items up in an exact index: which stored items are similar to this one? None is missed.

The prefix of the probe is looked up in the postings; sizes, positions and counts of common symbols
leave few candidates (MMDS 3.9.3 to 3.9.6), which are compared in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from simdb import kernels
from simdb.answers.exact.memory import Loaded, live_sets, stored_items
from simdb.arrays import Float64s, UInt32s, UInt64s
from simdb.batches.compare import COMPARED_BYTES
from simdb.batches.deciding import first_identical
from simdb.batches.signer import Epoch
from simdb.errors import ConfigurationError
from simdb.exact.joins import CHUNK
from simdb.exact.measures import Criterion
from simdb.opened.epochs import current_epoch
from simdb.opened.opened import Opened
from simdb.ragged import slices_of
from simdb.results import PairBatch
from simdb.storage.collection.manifest import ITEM, POSITION, SIZE, open_postings
from simdb.storage.tables.views import RunView

if TYPE_CHECKING:
    from simdb.kernels.postings import Bounds

CACHED_ROWS = 32_768  # of a table, half a megabyte
COMPARED_AT_ONCE = 256  # items
REMEMBERED = 2**20  # similar items of items that come again


class Neighbours(Struct, frozen=True, eq=False):
    """Stored items similar to a probe: numbers, ascending, and similarities."""

    numbers: UInt32s
    similarities: Float64s


class Prober:
    """Looks up probes, arranged in the order of its epoch; ConfigurationError without an index."""

    def __init__(self, opened: Opened, criterion: Criterion) -> None:
        epoch, exact = current_epoch(opened.reader), opened.reader.manifest.index.exact
        if epoch is None or exact is None:
            raise ConfigurationError("the collection has no exact index")
        self.epoch: Epoch = epoch
        self.criterion = criterion
        self._opened = opened
        self._view: RunView = open_postings(opened.reader.transaction, exact.current)

    def candidates(self, keys: UInt64s, size: int) -> UInt32s:
        """Find the live items that can be similar to a probe, ascending; no similar one misses.

        The probe has ``size`` symbols, of which ``keys`` are at least as many of the first ones as
        the criterion looks up.
        """
        reader, work = self._opened.reader, self._opened.work
        looked_up = keys[: self.criterion.probe_prefix(size)]
        found = self._view.probe(looked_up)
        items = self._view.column(found, ITEM)
        positions = self._view.column(found, POSITION)
        sizes = self._view.column(found, SIZE)
        work.looked_up += looked_up.size
        work.note(items.size)
        if not items.size:
            return items
        offsets = found.queries.searchsorted(np.arange(looked_up.size + 1, dtype=np.uint32))
        hits = kernels.postings.Hits(offsets.astype(np.int64), items, positions, sizes - positions)
        bounds = bounds_of(self.criterion, size, int(sizes.max()))
        numbers, _ = kernels.postings.probe_candidates(hits, bounds)
        work.candidates += numbers.size
        if reader.manifest.tombstones:
            numbers = numbers[reader.alive(numbers)]
        work.compared += numbers.size
        numbers.sort()
        return numbers

    def pairs(
        self, probes: Opened, *, start: int = 0, earlier_only: bool
    ) -> Iterator[tuple[PairBatch, int]]:
        """Yield the pairs of live items with similar ones, and below which number all are done.

        Looked up are the items of ``probes`` from a number on, signed as the collection that is
        probed. With ``earlier_only`` it is that one: each item is paired with those before it,
        which are on the left. Else it is on the left of all.
        """
        for batch in live_sets(probes, self.epoch.order, start):
            own: list[UInt32s] = []
            others: list[UInt32s] = []
            values: list[Float64s] = []
            count = 0
            for number, found in self._similar(batch, earlier_only=earlier_only):
                end = int(np.searchsorted(found.numbers, number)) if earlier_only else None
                others.append(found.numbers[:end])
                values.append(found.similarities[:end])
                own.append(np.full(others[-1].size, number, np.uint32))
                count += others[-1].size
                done = number == batch.numbers[-1]
                if count >= CHUNK or (done and count):
                    sides = np.concatenate(own), np.concatenate(others)
                    left, right = sides[::-1] if earlier_only else sides
                    yield PairBatch(left, right, np.concatenate(values)), number + 1
                    own, others, values, count = [], [], [], 0
                probes.resources.require_open()

    def _similar(self, batch: Loaded, *, earlier_only: bool) -> Iterator[tuple[int, Neighbours]]:
        """Yield each item's number and what is similar; identical ones are looked up once."""
        end = int(batch.numbers[-1]) if earlier_only else None
        sets = batch.sets
        first = first_identical(sets, sets.sizes > 0)
        comes_again = np.bincount(first, minlength=first.size) > 1
        remembered: dict[int, Neighbours] = {}
        rows = 0
        for place, number in enumerate(batch.numbers.tolist()):
            one = int(first[place])
            found = remembered.get(one)
            # Only items that come again are remembered, and not more than so many rows of them: one
            # that thousands are equal to has as many similar ones.
            if found is None:
                found = self._look_up(sets[place], end)
                if comes_again[one]:
                    rows += found.numbers.size
                    if rows > REMEMBERED:
                        remembered, rows = {}, found.numbers.size
                    remembered[one] = found
            yield number, found

    def _look_up(self, keys: UInt64s, end: int | None) -> Neighbours:
        """Find the stored items similar to one, of numbers below ``end`` if that is given."""
        candidates = self.candidates(keys, keys.size) if keys.size else np.empty(0, np.uint32)
        if end is not None:
            candidates = candidates[: np.searchsorted(candidates, end)]
        numbers = [np.empty(0, np.uint32)]
        similarities = [np.empty(0, np.float64)]
        for some, items in _in_parts(self._opened, candidates):
            sets = self.epoch.arrange(self._opened.signer.symbols(items))
            met, values = self.criterion.met_by(keys, sets)
            numbers.append(some[met])
            similarities.append(values)
        return Neighbours(np.concatenate(numbers), np.concatenate(similarities))


def _in_parts(
    opened: Opened, numbers: UInt32s
) -> Iterator[tuple[UInt32s, Sequence[bytes | memoryview]]]:
    """Yield stored items of ascending numbers, as many as are compared at once."""
    for begin in range(0, numbers.size, COMPARED_AT_ONCE):
        some = numbers[begin : begin + COMPARED_AT_ONCE]
        items = stored_items(opened, some)
        weights = opened.signer.items.weights(items)
        for part in slices_of(weights, COMPARED_BYTES):
            yield some[part], items[part]


_bounds = lru_cache(maxsize=128)(Criterion.bounds)


def bounds_of(criterion: Criterion, size: int, largest_stored: int) -> Bounds:
    """Tabulate what stored sets of every size must have; from the cache if it was done before.

    A cached table ends at a power of two, which many probes share: at the largest size that a low
    threshold allows it would have billions of rows. A long one is made anew each time.
    """
    shared = 1 << largest_stored.bit_length()
    last = criterion.largest_size(size)
    if shared > CACHED_ROWS and (last is None or last > CACHED_ROWS):
        return criterion.bounds(size, largest_stored)
    return _bounds(criterion, size, shared)

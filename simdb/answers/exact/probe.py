"""Pairs found by looking items up in an exact index, one after the other (MMDS 3.9.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.answers.exact.arrange import first_identical
from simdb.answers.exact.classes import stored_sets
from simdb.answers.exact.load import Batch
from simdb.answers.exact.search import Prober, similarities_of
from simdb.exact.joins import CHUNK
from simdb.kinds import Compared
from simdb.opened.signer import Signer
from simdb.results import PairBatch
from simdb.storage.collection.reader import CollectionReader

COMPARED_AT_ONCE = 256  # items
REMEMBERED = 2**20  # similar items of items that come again


class Similar(NamedTuple):
    """Stored items similar to a probe: numbers, ascending, and similarities."""

    numbers: npt.NDArray[np.uint32]
    similarities: npt.NDArray[np.float64]


Found = tuple[int, Similar]


class PairProber:
    """Finds the stored items that are similar to the items of batches.

    Args:
        signer: of the collection.
        collection: with an exact index that serves the criterion of the prober.
        prober: of that index.
    """

    def __init__(self, signer: Signer, collection: CollectionReader, prober: Prober) -> None:
        self._signer = signer
        self._collection = collection
        self._prober = prober

    def similar(self, batch: Batch, *, earlier_only: bool) -> Iterator[Found]:
        """Yield the number of each item of a batch with the stored items similar to it.

        Identical items of the batch are looked up once.

        Args:
            batch: of items by ascending number.
            earlier_only: leave out the stored items that come after the batch.
        """
        end = batch.numbers[-1] if earlier_only else None
        sets = batch.sets
        first = first_identical(sets, sets.sizes > 0)
        comes_again = np.bincount(first, minlength=first.size) > 1
        remembered: dict[int, Similar] = {}
        rows = 0
        for place in np.flatnonzero(sets.sizes > 0).tolist():
            one = int(first[place])
            found = remembered.get(one)
            if found is None:
                keys = sets.values[sets.offsets[place] : sets.offsets[place + 1]]
                found = self._look_up(keys, end)
                if comes_again[one]:
                    rows += found.numbers.size
                    if rows > REMEMBERED:
                        remembered, rows = {}, found.numbers.size
                    remembered[one] = found
            yield batch.numbers[place], found

    def _look_up(self, keys: npt.NDArray[np.uint64], end: int | None) -> Similar:
        criterion = self._prober.criterion
        candidates = self._prober.candidates(keys, keys.size)
        if end is not None:
            candidates = candidates[: np.searchsorted(candidates, end)]
        numbers = [np.empty(0, np.uint32)]
        similarities = [np.empty(0, np.float64)]
        for begin in range(0, candidates.size, COMPARED_AT_ONCE):
            some = candidates[begin : begin + COMPARED_AT_ONCE]
            sets = stored_sets(self._signer, self._collection, self._prober.epoch, some)
            shared, sizes, _ = kernels.overlaps.probe_overlaps(keys, sets.values, sets.offsets)
            met = np.flatnonzero(shared >= criterion.needed_overlaps(keys.size, sizes))
            shared, sizes = shared[met], sizes[met]
            compared = Compared(shared, sizes + keys.size - shared)
            numbers.append(some[met])
            similarities.append(similarities_of(criterion.measure, compared, keys.size, sizes))
        return Similar(np.concatenate(numbers), np.concatenate(similarities))


def pair_batches(
    batches: Iterator[Batch],
    prober: PairProber,
    require_open: Callable[[], None],
    *,
    earlier_only: bool,
) -> Iterator[tuple[PairBatch, int]]:
    """Yield the pairs of the items of batches, and the number below which all items are done.

    Args:
        batches: of items by ascending number.
        prober: finds the items that are similar to each.
        require_open: called now and then, to raise if the database was closed.
        earlier_only: the items are stored in the collection that is probed: each is paired with
            those before it, which are on the left. Else it is on the left of all.
    """
    for batch in batches:
        gathered: list[Found] = []
        count = 0
        for number, found in prober.similar(batch, earlier_only=earlier_only):
            similar = found
            if earlier_only:
                earlier = int(np.searchsorted(found.numbers, number))
                similar = Similar(found.numbers[:earlier], found.similarities[:earlier])
            if similar.numbers.size:
                gathered.append((number, similar))
                count += similar.numbers.size
            if count >= CHUNK:
                yield _joined(gathered, earlier_only=earlier_only), number + 1
                gathered, count = [], 0
            require_open()
        if gathered:
            yield _joined(gathered, earlier_only=earlier_only), batch.numbers[-1] + 1


def _joined(gathered: list[Found], *, earlier_only: bool) -> PairBatch:
    counts = [found.numbers.size for _, found in gathered]
    own = np.repeat(np.array([number for number, _ in gathered], np.uint32), counts)
    others = np.concatenate([found.numbers for _, found in gathered])
    similarities = np.concatenate([found.similarities for _, found in gathered])
    left, right = (others, own) if earlier_only else (own, others)
    return PairBatch(left, right, similarities)

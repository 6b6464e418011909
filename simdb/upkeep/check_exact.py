"""Checking an exact index: its postings, its order of symbols, and both against the items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from simdb.answers.exact.arrange import Epoch, open_epoch
from simdb.errors import CorruptionError
from simdb.opened.signer import Signer
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.tables.epochs import ITEM, POSITION, SIZE, EpochState, open_postings
from simdb.storage.tables.keys import pack_chunk
from simdb.storage.tables.run_views import RunView

SWEEP_ENTRIES = 262_144
RECOMPUTED_BYTES = 4 * 2**20  # of items


class PostingsChecker:
    """Checks the postings of all epochs of a collection in one snapshot.

    Args:
        signer, collection: what is checked.
        deep: also compute every posting anew from its item.

    Attributes:
        postings: how many were read.
    """

    def __init__(self, signer: Signer, collection: CollectionReader, *, deep: bool) -> None:
        self._signer = signer
        self._collection = collection
        self._deep = deep
        self.postings = 0

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong: a record and a problem each."""
        exact = self._collection.state.index.exact
        if exact is None:
            return
        for state in exact.epochs:
            end = self._collection.state.next_number
            yield from self._epoch_problems(
                state, state.position if state is exact.building else end
            )

    def _epoch_problems(self, state: EpochState, end: int) -> Iterator[tuple[str, str]]:
        """Yield the problems of an epoch in which the items below ``end`` are posted."""
        view = open_postings(self._collection.transaction, state)
        yield from self._chunk_problems(state, view)
        try:
            epoch = open_epoch(self._collection.transaction, state)
        except CorruptionError as error:
            yield f"epoch {state.number}", str(error)
            return
        sums = _Sums(self._collection.state.next_number)
        last_key = 0
        marks = self._collection.marks
        for keys, columns in view.sweep(marks, item_column=ITEM, room=SWEEP_ENTRIES):
            self.postings += keys.size
            if int(keys[0]) < last_key or (keys[1:] < keys[:-1]).any():
                yield f"epoch {state.number}", "postings do not ascend"
            last_key = int(keys[-1])
            yield from self._posting_problems(columns, end)
            sums.add(keys, columns)
        yield from self._item_problems(epoch, sums, end)

    def _chunk_problems(self, state: EpochState, view: RunView) -> Iterator[tuple[str, str]]:
        """Verify every chunk, also those that this process has verified before."""
        for run in state.postings.runs:
            for number in range(run.first_chunk, run.end_chunk):
                try:
                    view.verify_chunk(pack_chunk(state.number, run.number, number))
                except CorruptionError as error:
                    yield f"run {run.number} chunk {number}", str(error)

    @staticmethod
    def _posting_problems(columns: npt.NDArray[np.uint32], end: int) -> Iterator[tuple[str, str]]:
        impossible = (columns[POSITION] < 1) | (columns[POSITION] > columns[SIZE])
        for number in np.unique(columns[ITEM][impossible]).tolist():
            yield str(number), "a posting has an impossible position"
        for number in np.unique(columns[ITEM][columns[ITEM] >= end]).tolist():
            yield str(number), "a posting is of an item that is not posted yet"

    def _item_problems(self, epoch: Epoch, sums: _Sums, end: int) -> Iterator[tuple[str, str]]:
        """Compare the postings found with those that the items should have."""
        if self._deep:
            for numbers, items in self._items(end):
                prefixes = self._signer.prefixes(epoch, items)
                lengths = np.diff(prefixes.offsets)
                columns = np.empty((3, prefixes.keys.size), np.uint32)
                columns[SIZE] = np.repeat(prefixes.sizes, lengths)
                begins = np.repeat(prefixes.offsets[:-1], lengths)
                columns[POSITION] = np.arange(1, prefixes.keys.size + 1) - begins
                columns[ITEM] = np.repeat(numbers, lengths)
                sums.subtract(prefixes.keys, columns)
            for number in sums.remaining().tolist():
                yield str(number), "the postings are not those of the item"
            return
        floor = self._signer.settings.posted_floor
        lengths = sums.sizes if floor is None else floor.prefix_lengths(sums.sizes)
        for number in np.flatnonzero(lengths != sums.counts).tolist():
            yield str(number), f"{sums.counts[number]} postings, {lengths[number]} expected"

    def _items(self, end: int) -> Iterator[tuple[npt.NDArray[np.uint32], list[bytes]]]:
        numbers: list[int] = []
        items: list[bytes] = []
        size = 0
        for document in self._collection.live_documents():
            if document.number >= end:
                break
            numbers.append(document.number)
            items.append(bytes(document.item))
            size += len(document.item)
            if size >= RECOMPUTED_BYTES:
                yield np.array(numbers, np.uint32), items
                numbers, items, size = [], [], 0
        if items:
            yield np.array(numbers, np.uint32), items


class _Sums:
    """The postings of every item, added up so that those expected can be subtracted again.

    Sums of mixed postings modulo 2^64 stand for them, so that memory does not grow with their
    number: other postings have the same sum with a probability of about 2^-64.
    """

    def __init__(self, items: int) -> None:
        self.counts = np.zeros(items, np.int64)
        self.sizes = np.zeros(items, np.int64)
        self._mixed = np.zeros(items, np.uint64)

    def add(self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]) -> None:
        """Add postings; those of items past the end are left out."""
        inside = np.flatnonzero(columns[ITEM] < self.counts.size)
        items = columns[ITEM][inside]
        self.sizes[items] = columns[SIZE][inside]
        np.add.at(self.counts, items, 1)
        np.add.at(self._mixed, items, _mixed(keys, columns)[inside])

    def subtract(self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]) -> None:
        """Subtract the postings that there should be."""
        np.subtract.at(self.counts, columns[ITEM], 1)
        np.subtract.at(self._mixed, columns[ITEM], _mixed(keys, columns))

    def remaining(self) -> npt.NDArray[np.int64]:
        """Return the items of which more or other postings were added than subtracted."""
        return np.flatnonzero((self.counts != 0) | (self._mixed != 0))


def _mixed(keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Mix key, size and position of postings (the finisher of MurmurHash3, Appleby 2011)."""
    value: npt.NDArray[np.uint64] = keys ^ (columns[SIZE].astype(np.uint64) << np.uint64(32))
    value ^= columns[POSITION]
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value ^= value >> np.uint64(33)
        value *= np.uint64(multiplier)
    value ^= value >> np.uint64(33)
    return value

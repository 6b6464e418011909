"""The postings that a join sweeps, in slices that memory allows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.exact.thresholds import Threshold
from simdb.storage.collection.manifest import COLUMNS, ITEM, POSITION, SIZE, open_postings
from simdb.storage.collection.reader import CollectionReader

SLICE_SHARE = 2  # a slice takes half of the memory setting
BYTES_AN_ENTRY = 72  # a posting of a slice and all that is made of it
LEAST_ROOM = 4_096
SWEPT_AT_ONCE = 2**20  # postings, before those that do not matter are left out

KeysAndColumns: TypeAlias = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]


def room_of(memory: int) -> int:
    """Return how many postings a slice has."""
    return max(LEAST_ROOM, memory // SLICE_SHARE // BYTES_AN_ENTRY)


class PostingSlices:
    """The postings of the current epoch that matter, in slices of whole buckets.

    Those within the prefix that the threshold asks for, in buckets of two or more. They can be
    asked for repeatedly; if there is only one slice it is kept.

    Args:
        collection: the snapshot.
        threshold: at or above the floor of the index.
        room: postings of a slice; more only where one bucket has more. The candidates depend on it,
            and on nothing else of the memory setting, so that a join can be resumed under another.
    """

    def __init__(self, collection: CollectionReader, threshold: Threshold, room: int) -> None:
        self._collection = collection
        self._threshold = threshold
        self.room = room
        self._only: KeysAndColumns | None = None

    @cached_property
    def is_whole(self) -> bool:
        """Whether there is only one slice."""
        postings, last = next(self._sweep())
        if last:
            self._only = postings
        return last

    def __iter__(self) -> Iterator[KeysAndColumns]:
        """Yield the keys and the columns of slice after slice."""
        if self.is_whole:
            assert self._only is not None
            yield self._only
        else:
            for postings, _ in self._sweep():
                yield postings

    def _sweep(self) -> Iterator[tuple[KeysAndColumns, bool]]:
        """Yield each slice, and whether it is the last one."""
        exact = self._collection.manifest.index.exact
        assert exact is not None
        view = open_postings(self._collection.transaction, exact.current)
        parts: list[KeysAndColumns] = []
        filled = 0
        room = max(1, min(self.room, SWEPT_AT_ONCE, exact.current.postings.entries + 1))
        for keys, columns in view.sweep(self._collection.tombstones, item_column=ITEM, room=room):
            part = self._mattering(*shared_only(keys, columns))
            if filled and filled + part[0].size > self.room:
                yield _joined(parts), False
                parts, filled = [], 0
            parts.append(part)
            filled += part[0].size
        yield _joined(parts), True

    def _mattering(
        self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]
    ) -> KeysAndColumns:
        lengths = self._threshold.prefix_lengths(columns[SIZE])
        within = np.flatnonzero(columns[POSITION] <= lengths)
        return shared_only(keys[within], columns[:, within])


def _joined(parts: list[KeysAndColumns]) -> KeysAndColumns:
    if len(parts) == 1:
        return parts[0]
    return (
        np.concatenate([np.empty(0, np.uint64), *(keys for keys, _ in parts)]),
        np.concatenate(
            [np.empty((COLUMNS, 0), np.uint32), *(columns for _, columns in parts)], axis=1
        ),
    )


def shared_only(
    keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Return the postings whose key another one has."""
    same = keys[1:] == keys[:-1]
    shared = np.flatnonzero(np.append(same, False) | np.append(False, same))
    return keys[shared], columns[:, shared]

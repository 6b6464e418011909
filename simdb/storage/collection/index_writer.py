"""Writes one index of a collection: signatures, bucket runs, and the merging that they need."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.storage.collection.manifest import IndexState
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.file.transactions import WriteTransaction
from simdb.storage.tables.blocks import BlockWriter
from simdb.storage.tables.epochs import postings_writer
from simdb.storage.tables.keys import Table
from simdb.storage.tables.runs import RunWriter

LEAST_ROOM_TO_MERGE = 2**23  # bytes: chunks at every level, of both indexes


class IndexWriter:
    """Writes signatures and bucket keys of one index."""

    def __init__(
        self, transaction: WriteTransaction, index: IndexState, collection: CollectionReader
    ) -> None:
        self._collection = collection
        self._transaction = transaction
        self._index = index
        self.signatures = BlockWriter(
            transaction,
            Table.SIGNATURES,
            index.number,
            index.signature_tail,
            width=index.signature_width,
        )
        self.bands = RunWriter(transaction, Table.BANDS, index.number, index.bands)
        exact = index.exact
        self.postings = None if exact is None else postings_writer(transaction, exact.current)

    def insert(
        self,
        numbers: npt.NDArray[np.uint32],
        signatures: npt.NDArray[np.uint16],
        bucket_keys: npt.NDArray[np.uint64],
        keys_of_item: npt.NDArray[np.int64],
    ) -> None:
        """Store the signatures and buckets of items, past every earlier one.

        Args:
            numbers: uint32 (items,), ascending.
            signatures: uint16 (items, words).
            bucket_keys: uint64 (m,), those of each item after those of the one before.
            keys_of_item: int64 (items,), how many each item has.
        """
        width = self._index.signature_width
        self._transaction.note_insertion()
        if not width:
            return
        self.signatures.append_rows(numbers, signatures)
        if bucket_keys.size:
            items = np.repeat(numbers, keys_of_item)
            order = np.empty(bucket_keys.size, np.int64)
            if not kernels.runs.sort_by_key(bucket_keys, order):
                order = np.argsort(bucket_keys, kind="stable")
            self.bands.append(
                bucket_keys[order], items[order][np.newaxis, :], int(items[0]), int(items[-1])
            )

    def step(self) -> bool:
        """Do one step of a merge under way; return whether there was one."""
        return any(runs.step(lambda: self._collection.marks) for runs in self._writers())

    def start_full_merge(self) -> None:
        """Start merging all bucket runs into one, and all runs of postings into another."""
        for runs in self._writers():
            runs.start_full_merge()

    def _writers(self) -> list[RunWriter]:
        return [self.bands] if self.postings is None else [self.bands, self.postings]

    def merge_after_deleting(self, items: int) -> None:
        """Do the merging that is due after a deletion, which must not fail in a full map."""
        if self._transaction.room_to_rewrite() >= LEAST_ROOM_TO_MERGE:
            self.merge_after(items)

    def merge_after(self, changed_items: int) -> None:
        """Do the merging that is due after so many items were added or deleted."""
        self.bands.merge_after(
            changed_items * self._index.entries_per_item, lambda: self._collection.marks
        )
        if self.postings is not None and self._index.exact is not None:
            self.postings.merge_after(
                changed_items * self._index.exact.entries_per_item, lambda: self._collection.marks
            )

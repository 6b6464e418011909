"""The order of symbols that an exact index is written in, and what is posted of items in it.

An epoch is an order with the postings written in it; ``ingest/postings.py`` says when another one
begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.lsh.family import SymbolSets
from simdb.ragged import Ragged
from simdb.storage.collection.manifest import EpochManifest, decode_frequent, frequent_record
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables.layout import CHECKSUM_SIZE

ORDERS_KEPT = 8
_BY_VALUE = SymbolOrder()


@dataclass(frozen=True, slots=True)
class Epoch:
    """An order of symbols, with the number by which the postings in it are found."""

    number: int
    order: SymbolOrder

    def arrange(self, symbols: SymbolSets) -> ArrangedSets:
        """Write sets down in the order."""
        return self.order.arrange(symbols.values, symbols.offsets)

    def prefixes(self, symbols: SymbolSets, floor: Threshold | None) -> Prefixes:
        """Cut sets to what an index with this floor posts of them; None posts all symbols."""
        arranged = self.arrange(symbols)
        whole = Prefixes(arranged.values, arranged.offsets, self.number, arranged.sizes)
        return whole if floor is None else whole.first(floor.prefix_lengths(arranged.sizes))


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes(Ragged):
    """The first symbols of sets, as their places in the order of an epoch, rising within each set.

    Attributes:
        epoch: its number.
        set_sizes: int64, symbols of each set.
    """

    epoch: int
    set_sizes: npt.NDArray[np.int64]

    def select(self, rows: npt.NDArray[np.int64]) -> Prefixes:
        """Take those of some sets."""
        taken = Ragged.select(self, rows)
        return Prefixes(taken.values, taken.offsets, self.epoch, self.set_sizes[rows])

    @classmethod
    def _other_fields(cls, parts: Sequence[Prefixes]) -> dict[str, Any]:
        (epoch,) = {part.epoch for part in parts}
        return {"epoch": epoch, "set_sizes": np.concatenate([part.set_sizes for part in parts])}


def open_epoch(transaction: ReadTransaction, state: EpochManifest) -> Epoch:
    """Read an epoch with its order, or take it from the cache.

    Cached by number and checksum, since the number of an epoch that was undone comes again.
    """
    if not state.frequent:
        return Epoch(state.number, _BY_VALUE)
    record = frequent_record(transaction, state)
    orders: dict[tuple[int, bytes], Epoch] = transaction.environment.caches.setdefault("orders", {})
    name = state.number, bytes(record[:CHECKSUM_SIZE])
    epoch = orders.get(name)
    if epoch is None:
        epoch = Epoch(state.number, SymbolOrder(decode_frequent(state, record)))
        if len(orders) >= ORDERS_KEPT:
            orders.clear()
        orders[name] = epoch
    return epoch


def current_epoch(collection: CollectionReader) -> Epoch | None:
    """Read the epoch that answers, None without an exact index."""
    exact = collection.manifest.index.exact
    return None if exact is None else open_epoch(collection.transaction, exact.current)

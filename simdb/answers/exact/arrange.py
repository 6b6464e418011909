"""Items in the order of an epoch: their sizes, and the prefixes that are posted or looked up."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.lsh.symbols import SymbolSets
from simdb.storage.collection.manifest import EpochManifest, decode_frequent, frequent_record
from simdb.storage.file.transactions import ReadTransaction
from simdb.storage.tables.layout import CHECKSUM_SIZE

ORDERS_KEPT = 8
_BY_VALUE = SymbolOrder()


@dataclass(frozen=True, slots=True)
class Epoch:
    """An order of symbols, with the number by which the postings in it are found."""

    number: int
    order: SymbolOrder


class Prefixes(NamedTuple):
    """The first symbols of sets, in the order of an epoch.

    Attributes:
        epoch: its number.
        sizes: int64 (items,), symbols of each set.
        offsets: int64 (items + 1,); the prefix of set k is ``keys[offsets[k] : offsets[k + 1]]``.
        keys: uint64, the places of the symbols in the order, rising within each set.
    """

    epoch: int
    sizes: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]

    def first(self, lengths: npt.NDArray[np.int64]) -> Prefixes:
        """Return shorter prefixes of the sets."""
        offsets = np.zeros(lengths.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Prefixes(
            self.epoch, self.sizes, offsets, self.keys[slices(self.offsets[:-1], lengths)]
        )

    def select(self, rows: npt.NDArray[np.int64]) -> Prefixes:
        """Return those of some of the sets."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(rows.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Prefixes(
            self.epoch,
            self.sizes[rows],
            offsets,
            self.keys[slices(self.offsets[rows], lengths)],
        )


def open_epoch(transaction: ReadTransaction, state: EpochManifest) -> Epoch:
    """Return an epoch with its order, from the cache if it was read before.

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


def slices(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places of slices of an array, one slice after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def arrange(order: SymbolOrder, symbols: SymbolSets) -> ArrangedSets:
    """Write sets down in an order."""
    return order.arrange(symbols.values, symbols.offsets)


def selected_sets(sets: ArrangedSets, chosen: npt.NDArray[np.int64]) -> ArrangedSets:
    """Return some of the sets."""
    lengths = sets.sizes[chosen]
    return ArrangedSets(
        sets.values[slices(sets.offsets[chosen], lengths)],
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
    )


def first_identical(sets: ArrangedSets, takes_part: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the first set that is identical to each, both of those that take part."""
    first = np.arange(len(sets))
    chosen = np.flatnonzero(takes_part)
    few = selected_sets(sets, chosen)
    shift = kernels.hashes.table_shift(max(1, chosen.size))
    same, _ = kernels.order.identical_representatives(few.values, few.offsets, shift)
    first[chosen] = chosen[same]
    return first


def prefixes_of(epoch: Epoch, symbols: SymbolSets, floor: Threshold | None) -> Prefixes:
    """Return the prefixes that an index posts.

    Args:
        epoch: the order.
        symbols: of the items.
        floor: that of the index; None for one that posts all symbols.
    """
    arranged = arrange(epoch.order, symbols)
    everything = Prefixes(epoch.number, arranged.sizes, arranged.offsets, arranged.values)
    return everything if floor is None else everything.first(floor.prefix_lengths(arranged.sizes))


def joined_prefixes(parts: list[Prefixes]) -> Prefixes:
    """Return the prefixes of several batches, all of one epoch, as those of one."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0] + [part.keys.size for part in parts])
    offsets = [part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
    assert all(one.epoch == other.epoch for one, other in pairwise(parts))
    return Prefixes(
        parts[0].epoch,
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([np.zeros(1, np.int64), *offsets]),
        np.concatenate([part.keys for part in parts]),
    )

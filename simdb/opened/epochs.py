"""The order of symbols that an exact index is written in, as it is stored.

``ingest/postings.py`` says when another one begins.
"""

from __future__ import annotations

from simdb.batches.signer import Epoch
from simdb.exact.order import SymbolOrder
from simdb.storage.collection.manifest import EpochManifest, decode_frequent, frequent_record
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables.layout import CHECKSUM_SIZE

ORDERS_KEPT = 8
_BY_VALUE = SymbolOrder()


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

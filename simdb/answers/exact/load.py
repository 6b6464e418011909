"""All items of a collection as arranged sets in memory, if they fit into a share of the setting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.answers.exact.arrange import Epoch, arrange
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.ingest.postings import current_epoch, sampled_order
from simdb.opened.signer import Signer
from simdb.storage.collection.reader import CollectionReader, live_items

SHARE_OF_MEMORY = 2
BYTES_A_SYMBOL = 24  # the arranged sets, a second copy while they are put together, and postings
LOADED_AT_ONCE = 2**20  # bytes of items
IN_FLIGHT = 4


class Loaded(NamedTuple):
    """Items in memory.

    Attributes:
        numbers: uint32 (items,), item numbers, ascending.
        sets: their symbols.
    """

    numbers: npt.NDArray[np.uint32]
    sets: ArrangedSets


class Batch(NamedTuple):
    """Some items and their sets."""

    numbers: list[int]
    item_bytes: int
    sets: ArrangedSets


def join_order(collection: CollectionReader, signer: Signer) -> SymbolOrder:
    """Return a good order of the symbols of a collection: that of its epoch, or of a sample."""
    epoch: Epoch | None = current_epoch(collection)
    if epoch is not None and epoch.order.frequent.size:
        return epoch.order
    return sampled_order(collection, signer)


def arranged_batches(
    collection: CollectionReader,
    signer: Signer,
    order: SymbolOrder,
    pool: Executor | None,
    *,
    start: int = 0,
) -> Iterator[Batch]:
    """Yield all live items from a number on, arranged, in batches; on several threads."""
    started: deque[tuple[list[int], int, Future[ArrangedSets] | ArrangedSets]] = deque()
    for numbers, items, size in _item_batches(collection, start):
        work = partial(_arranged, signer, order, items)
        started.append((numbers, size, work() if pool is None else pool.submit(work)))
        if pool is None or len(started) > IN_FLIGHT:
            yield _finished(*started.popleft())
    while started:
        yield _finished(*started.popleft())


def _arranged(signer: Signer, order: SymbolOrder, items: list[bytes]) -> ArrangedSets:
    return arrange(order, signer.symbols(items))


def _finished(numbers: list[int], size: int, sets: Future[ArrangedSets] | ArrangedSets) -> Batch:
    return Batch(numbers, size, sets.result() if isinstance(sets, Future) else sets)


def _item_batches(
    collection: CollectionReader, start: int
) -> Iterator[tuple[list[int], list[bytes], int]]:
    numbers: list[int] = []
    items: list[bytes] = []
    size = 0
    for block in live_items(collection, start):
        numbers += block.numbers.tolist()
        items += block.items
        size += sum(map(len, block.items))
        if size >= LOADED_AT_ONCE:
            yield numbers, items, size
            numbers, items, size = [], [], 0
    if numbers:
        yield numbers, items, size


def load_sets(
    collection: CollectionReader,
    signer: Signer,
    order: SymbolOrder,
    *,
    memory: int,
    pool: Executor | None,
    require_open: Callable[[], None],
) -> Loaded | None:
    """Return all live items arranged, or None if they would take more than a share of memory.

    Args:
        collection: the snapshot.
        signer: by which the symbols are made.
        order: of the symbols.
        memory: bytes; ``1 / SHARE_OF_MEMORY`` of them may be taken.
        pool: threads to make symbols and to arrange them.
        require_open: called now and then, to raise if the database was closed.
    """
    numbers: list[int] = []
    parts: list[ArrangedSets] = []
    symbols = loaded_bytes = 0
    most = memory // SHARE_OF_MEMORY // BYTES_A_SYMBOL
    for batch in arranged_batches(collection, signer, order, pool):
        require_open()
        numbers += batch.numbers
        parts.append(batch.sets)
        symbols += batch.sets.values.size
        loaded_bytes += batch.item_bytes
        if symbols * (collection.manifest.item_bytes / max(1, loaded_bytes)) > most:
            return None
    return Loaded(np.array(numbers, np.uint32), joined_sets(parts))


def joined_sets(parts: list[ArrangedSets]) -> ArrangedSets:
    """Return the sets of several batches as those of one."""
    starts = np.cumsum([0] + [part.values.size for part in parts])
    offsets = [part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
    return ArrangedSets(
        np.concatenate([np.empty(0, np.uint64), *(part.values for part in parts)]),
        np.concatenate([np.zeros(1, np.int64), *offsets]),
    )

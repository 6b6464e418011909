"""All blocks of items of one width of a collection, in place: to be scanned, or picked from.

Finding hundreds of blocks one by one would take longer than what is done with them. They are
cached by commit: a block lies where it is as long as a snapshot of that commit can be opened, and
the cache is emptied whenever the map moves. So they are to be used within the transaction only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.storage.file.transactions import ReadTransaction, WriteTransaction
from simdb.storage.tables.blocks import BlockReader

ITEM_BLOCK_BYTES = 2**21  # items of one width are scanned, in few and long blocks

Numbers = npt.NDArray[np.uint32]
Rows = npt.NDArray[np.uint8]


class ItemRows(NamedTuple):
    """A block: the numbers of its items, uint32 ascending, and the items, uint8 (n, width)."""

    numbers: Numbers
    rows: Rows


class ItemBlocks:
    """The blocks in the order of item numbers, dead items included.

    Args:
        blocks: at least one.
    """

    def __init__(self, blocks: list[ItemRows]) -> None:
        self._blocks = blocks
        self._firsts = np.array([block.numbers[0] for block in blocks], np.uint32)
        self._lasts = np.array([block.numbers[-1] for block in blocks], np.uint32)
        counts = np.array([block.numbers.size for block in blocks], np.uint32)
        self._has_holes = (self._lasts - self._firsts + np.uint32(1) != counts).tolist()

    def __iter__(self) -> Iterator[ItemRows]:
        """Yield the blocks."""
        return iter(self._blocks)

    def pick(self, numbers: Numbers) -> tuple[npt.NDArray[np.int64], Rows]:
        """Return the positions in ascending item numbers of those stored, and a copy of these."""
        picked = np.empty((numbers.size, self._blocks[0].rows.shape[1]), np.uint8)
        held = np.zeros(numbers.size, np.bool_)
        begins = np.searchsorted(numbers, self._firsts)
        ends = np.searchsorted(numbers, self._lasts, side="right")
        touched = np.flatnonzero(ends > begins)
        spans = zip(touched.tolist(), begins[touched].tolist(), ends[touched].tolist(), strict=True)
        for which, begin, end in spans:
            block, wanted = self._blocks[which], numbers[begin:end]
            if self._has_holes[which]:
                places = np.searchsorted(block.numbers, wanted)
                held[begin:end] = block.numbers[places] == wanted
            else:
                places = wanted - self._firsts[which]
                held[begin:end] = True
            # No place is outside; without a mode NumPy would go by way of a buffer.
            block.rows.take(places, 0, picked[begin:end], "clip")
        positions = np.flatnonzero(held)
        return positions, (picked if positions.size == numbers.size else picked[positions])


def item_blocks(
    transaction: ReadTransaction,
    reader: BlockReader,
    owner: int,
    changes: int,
    *,
    require_all: Callable[[ItemBlocks | None], None],
    only_known: bool = False,
) -> ItemBlocks | None:
    """Return the blocks of a collection as a transaction sees them; None if there are none.

    Args:
        transaction: the snapshot.
        reader: of the blocks.
        owner: the collection's number.
        changes: how often it was changed, as the transaction sees it.
        require_all: raises if blocks that were found are not all; a lost page hides some.
        only_known: None as well if they would have to be found first.

    Raises:
        CorruptionError: a block does not match its checksum, or one is missing.
    """
    caches, name = transaction.environment.caches, f"item blocks {owner}"
    writes = isinstance(transaction, WriteTransaction)  # whose blocks may still change
    # Any commit may move small blocks. Its number alone does not tell what a transaction sees: see
    # ``CollectionReader``.
    seen = transaction.identity, changes
    known: tuple[tuple[int, int], ItemBlocks | None] | None = None if writes else caches.get(name)
    if known is not None and known[0] == seen:
        return known[1]
    if only_known:
        return None
    blocks = [ItemRows(block.numbers, block.as_rows(np.uint8)) for block in reader.scan()]
    found = ItemBlocks(blocks) if blocks else None
    require_all(found)
    if not writes:
        caches[name] = seen, found
    return found

"""Classes of identical items of a store that does not fit into memory (MMDS 3.9.1).

Found by 128-bit digests in one pass over all items, confirmed symbol by symbol. Memory: 40 bytes
for every item number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import xxhash

from simdb import kernels
from simdb.engine.exact_arranging import Epoch, arrange
from simdb.engine.exact_loading import arranged_batches
from simdb.engine.signing import Signer
from simdb.exact.order import ArrangedSets
from simdb.storage.tables import CollectionReader

CONFIRMED_SYMBOLS = 2**20  # compared at once


@dataclass(frozen=True, slots=True)
class ItemClasses:
    """What is known of all items, by item number.

    Attributes:
        sizes: int64, symbols of each item; 0 of those that are not stored.
        bitmaps: uint64, bit b is the parity of the number of symbols that are b modulo 64.
        representatives: uint32, the first item that is identical to each.
    """

    sizes: npt.NDArray[np.int64]
    bitmaps: npt.NDArray[np.uint64]
    representatives: npt.NDArray[np.uint32]

    @property
    def copies(self) -> npt.NDArray[np.uint32]:
        """The items that are identical to an earlier one."""
        own = np.arange(self.representatives.size, dtype=np.uint32)
        return np.flatnonzero(self.representatives != own).astype(np.uint32)

    def members(self, chosen: npt.NDArray[np.uint32]) -> kernels.classes.Classes:
        """Return the members of the classes of some representatives, ascending ones."""
        copies = self.copies
        copies = copies[np.isin(self.representatives[copies], chosen)]
        everyone = np.concatenate([chosen, copies])
        of = np.searchsorted(chosen, self.representatives[everyone])
        order = np.lexsort((everyone, of))
        starts = np.searchsorted(of[order], np.arange(chosen.size + 1))
        return kernels.classes.Classes(starts.astype(np.int64), everyone[order].astype(np.int64))


def classify(
    signer: Signer,
    collection: CollectionReader,
    epoch: Epoch,
    pool: Executor | None,
    require_open: Callable[[], None],
) -> ItemClasses:
    """Read all live items once and find the classes of identical ones."""
    count = collection.state.next_number
    digests = np.zeros((count, 2), np.uint64)
    classes = ItemClasses(
        np.zeros(count, np.int64), np.zeros(count, np.uint64), np.arange(count, dtype=np.uint32)
    )
    for batch in arranged_batches(collection, signer, epoch.order, pool):
        require_open()
        numbers, sets = np.array(batch.numbers, np.uint32), batch.sets
        shift = kernels.ordering.table_shift(max(1, len(sets)))
        _, bitmaps = kernels.classes.identical_representatives(sets.values, sets.offsets, shift)
        classes.sizes[numbers], classes.bitmaps[numbers] = sets.sizes, bitmaps
        raw = memoryview(sets.values.view(np.uint8).data)
        packed = b"".join(
            xxhash.xxh3_128_digest(raw[begin:end])
            for begin, end in pairwise((sets.offsets * 8).tolist())
        )
        digests[numbers] = np.frombuffer(packed, np.uint64).reshape(-1, 2)
    _find_copies(classes, digests)
    for pairs in _parts(classes):
        _confirm(signer, collection, epoch, classes, pairs)
    return classes


def _find_copies(classes: ItemClasses, digests: npt.NDArray[np.uint64]) -> None:
    """Let every item with the digest of an earlier one be represented by the first such."""
    present = np.flatnonzero(classes.sizes > 0)
    order = present[np.lexsort((present, digests[present, 1], digests[present, 0]))]
    same = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    begins = np.concatenate([np.ones(min(1, order.size), np.bool_), ~same])
    classes.representatives[order] = order[begins][np.cumsum(begins) - 1]


def _parts(classes: ItemClasses) -> Iterator[npt.NDArray[np.uint32]]:
    """Yield the copies, those of one item together, about ``CONFIRMED_SYMBOLS`` at a time."""
    copies = classes.copies
    if copies.size:
        copies = copies[np.lexsort((copies, classes.representatives[copies]))]
        part = np.cumsum(2 * classes.sizes[copies]) // CONFIRMED_SYMBOLS
        yield from np.split(copies, np.flatnonzero(np.diff(part)) + 1)


def _confirm(
    signer: Signer,
    collection: CollectionReader,
    epoch: Epoch,
    classes: ItemClasses,
    copies: npt.NDArray[np.uint32],
) -> None:
    """Make copies that are none their own representatives."""
    numbers = np.unique(np.concatenate([copies, classes.representatives[copies]]))
    sets = stored_sets(signer, collection, epoch, numbers)
    shift = kernels.ordering.table_shift(numbers.size)
    same, _ = kernels.classes.identical_representatives(sets.values, sets.offsets, shift)
    own = same[np.searchsorted(numbers, copies)]
    other = same[np.searchsorted(numbers, classes.representatives[copies])]
    different = copies[own != other]
    classes.representatives[different] = different


def stored_sets(
    signer: Signer, collection: CollectionReader, epoch: Epoch, numbers: npt.NDArray[np.uint32]
) -> ArrangedSets:
    """Return the sets of ascending item numbers, all of which are stored."""
    items = [document.item for _, document in collection.documents_of(numbers)]
    assert len(items) == numbers.size
    return arrange(epoch.order, signer.symbols(items))

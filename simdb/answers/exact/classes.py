"""Classes of identical items of a store that does not fit into memory (MMDS 3.9.1).

Found by 128-bit digests, confirmed symbol by symbol. Memory: 40 bytes for every item number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import xxhash

from simdb import kernels
from simdb.answers.exact.arrange import Epoch, arrange
from simdb.answers.exact.load import arranged_batches
from simdb.errors import CorruptionError
from simdb.exact.order import ArrangedSets
from simdb.opened.signer import Signer
from simdb.storage.collection.manifest import ITEM, SIZE
from simdb.storage.collection.reader import CollectionReader

CONFIRMED_SYMBOLS = 2**20  # compared at once
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio (Knuth 6.4)


@dataclass(frozen=True, slots=True)
class ItemClasses:
    """What is known of all items, by item number.

    Attributes:
        sizes: int64, symbols of each item; 0 of those that are not stored.
        bitmaps: uint64, bit b is the parity of the number of symbols that are b modulo 64; all
            zeros if not all items were read.
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

    def members(self, chosen: npt.NDArray[np.uint32]) -> kernels.order.Classes:
        """Return the members of the classes of some representatives, ascending ones."""
        copies = self.copies
        copies = copies[np.isin(self.representatives[copies], chosen)]
        everyone = np.concatenate([chosen, copies])
        of = np.searchsorted(chosen, self.representatives[everyone])
        order = np.lexsort((everyone, of))
        starts = np.searchsorted(of[order], np.arange(chosen.size + 1))
        return kernels.order.Classes(starts.astype(np.int64), everyone[order].astype(np.int64))


def classify(
    signer: Signer,
    collection: CollectionReader,
    epoch: Epoch,
    pool: Executor | None,
    require_open: Callable[[], None],
) -> ItemClasses:
    """Read all live items once and find the classes of identical ones."""
    classes = _unknown(collection)
    present: list[npt.NDArray[np.uint32]] = []
    digests: list[npt.NDArray[np.uint64]] = []
    for batch in arranged_batches(collection, signer, epoch.order, pool):
        require_open()
        numbers, sets = np.array(batch.numbers, np.uint32), batch.sets
        shift = kernels.hashes.table_shift(max(1, len(sets)))
        _, bitmaps = kernels.order.identical_representatives(sets.values, sets.offsets, shift)
        classes.sizes[numbers], classes.bitmaps[numbers] = sets.sizes, bitmaps
        present.append(numbers)
        digests.append(_digests(sets))
    if present:
        _find_copies(classes, np.concatenate(present), np.concatenate(digests))
    for copies in _parts(classes):
        _confirm(signer, collection, epoch, classes, copies)
    return classes


def classify_by_postings(
    signer: Signer,
    collection: CollectionReader,
    epoch: Epoch,
    postings: Iterable[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]],
) -> ItemClasses:
    """Find the classes by reading only items that agree in size and in their postings.

    Identical items have the same postings, and all of them in buckets of two or more.

    Args:
        signer, collection, epoch: as for ``classify``.
        postings: keys and columns of all postings in buckets of two or more.
    """
    classes = _unknown(collection)
    sums = np.zeros(classes.sizes.size, np.uint64)
    for keys, columns in postings:
        classes.sizes[columns[ITEM]] = columns[SIZE]
        np.add.at(sums, columns[ITEM], (keys ^ (keys >> np.uint64(32))) * _SPREAD)
    present = np.flatnonzero(classes.sizes)
    order = present[np.lexsort((classes.sizes[present], sums[present]))]
    same = (np.diff(sums[order]) == 0) & (np.diff(classes.sizes[order]) == 0)
    alike = np.unique(np.append(order[:-1][same], order[1:][same])).astype(np.uint32)
    digests = [np.empty((0, 2), np.uint64)]
    part = np.cumsum(classes.sizes[alike]) // CONFIRMED_SYMBOLS
    digests += [
        _digests(stored_sets(signer, collection, epoch, some))
        for some in np.split(alike, np.flatnonzero(np.diff(part)) + 1)
    ]
    _find_copies(classes, alike, np.concatenate(digests))
    for copies in _parts(classes):
        _confirm(signer, collection, epoch, classes, copies)
    return classes


def _unknown(collection: CollectionReader) -> ItemClasses:
    count = collection.manifest.next_number
    return ItemClasses(
        np.zeros(count, np.int64), np.zeros(count, np.uint64), np.arange(count, dtype=np.uint32)
    )


def _digests(sets: ArrangedSets) -> npt.NDArray[np.uint64]:
    """Return the 128-bit digests of sets, uint64 (sets, 2)."""
    raw = memoryview(sets.values.view(np.uint8).data)
    packed = b"".join(
        xxhash.xxh3_128_digest(raw[begin:end])
        for begin, end in pairwise((sets.offsets * 8).tolist())
    )
    return np.frombuffer(packed, np.uint64).reshape(-1, 2)


def _find_copies(
    classes: ItemClasses, numbers: npt.NDArray[np.uint32], digests: npt.NDArray[np.uint64]
) -> None:
    """Let every item with the digest of an earlier one be represented by the first such."""
    order = np.lexsort((numbers, digests[:, 1], digests[:, 0]))
    order = order[classes.sizes[numbers[order]] > 0]
    same = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    begins = np.concatenate([np.ones(min(1, order.size), np.bool_), ~same])
    ordered = numbers[order]
    classes.representatives[ordered] = ordered[begins][np.cumsum(begins) - 1]


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
    shift = kernels.hashes.table_shift(numbers.size)
    same, _ = kernels.order.identical_representatives(sets.values, sets.offsets, shift)
    own = same[np.searchsorted(numbers, copies)]
    other = same[np.searchsorted(numbers, classes.representatives[copies])]
    different = copies[own != other]
    classes.representatives[different] = different


def stored_sets(
    signer: Signer, collection: CollectionReader, epoch: Epoch, numbers: npt.NDArray[np.uint32]
) -> ArrangedSets:
    """Return the sets of ascending item numbers, all of which are stored."""
    items = [document.item for _, document in collection.documents_of(numbers)]
    if len(items) != numbers.size:
        raise CorruptionError(
            f"{numbers.size - len(items):,} of {numbers.size:,} items of the exact index cannot be "
            "found: a page of documents is damaged"
        )
    return arrange(epoch.order, signer.symbols(items))

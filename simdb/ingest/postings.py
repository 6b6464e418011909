"""The exact index as it grows: postings of new items, and new epochs in bounded steps.

Every commit posts its new items in the current epoch. When the order of that epoch has become poor,
a new one is made from a sample of the stored items, and from then on every commit also posts some
of the older items in the new order, until it has caught up; the same transaction then switches.
Nothing is posted twice in one epoch, readers keep the epoch of their snapshot, and the records of
the old one are removed by the commits that follow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain

import numpy as np

from simdb import kernels
from simdb.answers.exact.memory import sampled_order
from simdb.arrays import Int64s, UInt32s, UInt64s
from simdb.batches.signer import Epoch, Prefixes, Signed, Signer
from simdb.kinds.base import Stored
from simdb.opened import catalogue
from simdb.opened.epochs import current_epoch, open_epoch
from simdb.storage.collection.manifest import (
    COLUMNS,
    ITEM,
    POSITION,
    SIZE,
    EpochManifest,
    ExactManifest,
    IndexManifest,
    open_postings,
    postings_writer,
    write_frequent,
)
from simdb.storage.collection.reader import CollectionReader, live_batches
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.file.environment import WriteTransaction
from simdb.storage.tables.runs import RunWriter

FIRST_TABLE = 10_000  # live items at which the first table of frequent symbols is made
WORSE = 4  # a new epoch begins when postings scanned have risen to so many times the lowest
GROWN_BY = 8  # an epoch is followed by another when an eighth more items are live
WORTH_IT = 1_000  # postings scanned by a probe, below which no other order is looked for
MEASURED_EVERY = 64  # item numbers
BASELINE_AFTER = 32  # measurements
MEMORY_OF_AVERAGE = 32  # measurements
MOST_SCANNED = 65_536  # postings of one symbol that a measurement reads
MOST_MEASURED = 64  # items of one batch
KEYS_AT_ONCE = 32  # symbols looked up together: two million postings at most
REPOSTED_PER_ITEM = 3
LEAST_REPOSTED = 256  # items a commit
REPOSTED_AT_ONCE = 8 * 2**20  # bytes of items; more only for a commit that adds as many
REMOVED_AT_ONCE = 8 * 2**20  # bytes of a retired epoch


def present_prefixes(
    writer: CollectionWriter, signer: Signer, items: Sequence[Stored], signed: Signed
) -> Prefixes | None:
    """Return the prefixes of a batch in the order of the current epoch, None without an index."""
    epoch = current_epoch(writer)
    if epoch is None:
        return None
    signer.epoch = epoch
    if signed.prefixes is not None and signed.prefixes.epoch == epoch.number:
        return signed.prefixes
    return signer.prefixes(epoch, items)


def post(writer: RunWriter, numbers: UInt32s, prefixes: Prefixes, epoch: Epoch) -> int:
    """Write the postings of items, past every earlier one, as one run; return how many."""
    if not prefixes.values.size:
        return 0
    by_size = np.argsort(prefixes.set_sizes, kind="stable")
    ordered = prefixes.select(by_size)
    order = _order_of_keys(ordered.values, epoch.order.lowest_rank)
    columns = np.take(posting_columns(ordered, numbers[by_size]), order, axis=1)
    writer.append(ordered.values[order], columns, int(numbers[0]), int(numbers[-1]))
    return ordered.values.size


def posting_columns(prefixes: Prefixes, numbers: UInt32s) -> UInt32s:
    """Give what a posting says of each symbol of prefixes: the columns SIZE, POSITION and ITEM."""
    lengths = prefixes.sizes
    columns = np.empty((COLUMNS, prefixes.values.size), np.uint32)
    columns[SIZE] = np.repeat(prefixes.set_sizes, lengths)
    begins = np.repeat(prefixes.offsets[:-1], lengths)
    columns[POSITION] = np.arange(1, prefixes.values.size + 1) - begins
    columns[ITEM] = np.repeat(numbers, lengths)
    return columns


def _order_of_keys(keys: UInt64s, lowest_rank: np.uint64) -> Int64s:
    """Return the places of the keys by rising key, equal ones in their order.

    The keys of frequent symbols crowd at the upper end, so they are sorted apart.
    """
    frequent = keys >= lowest_rank
    parts = np.flatnonzero(~frequent), np.flatnonzero(frequent)
    return np.concatenate([places[kernels.runs.order_of(keys[places])] for places in parts])


def insert(
    writer: CollectionWriter,
    index: IndexManifest,
    epoch: Epoch | None,
    numbers: UInt32s,
    signed: Signed,
) -> None:
    """Write what an index stores of items past every earlier one; the epoch is its current one."""
    buckets, exact, prefixes = signed.buckets, index.exact, signed.prefixes
    target = writer.index_writer(index)
    target.insert(numbers, signed.signatures, buckets.values, buckets.sizes, signed.order)
    if exact is not None and epoch is not None and prefixes is not None:
        assert prefixes.epoch == epoch.number == exact.current.number
        runs = postings_writer(writer.transaction, exact.current)
        exact.posted_entries += post(runs, numbers, prefixes, epoch)
        exact.posted_items += numbers.size


# -- measuring ---------------------------------------------------------------------------------


def measured_rows(first: int, prefixes: Prefixes) -> Int64s:
    """Choose the items to measure with of a batch that begins at an item number, if any."""
    rows = np.arange(-first % MEASURED_EVERY, prefixes.set_sizes.size, MEASURED_EVERY)
    return rows[:: max(1, -(-rows.size // MOST_MEASURED))]


def measure(
    snapshot: CollectionReader, exact: ExactManifest, first: int, prefixes: Prefixes
) -> None:
    """Note how many postings some items of a batch would scan in the store before it.

    Bounded, however large the batch: ``MOST_MEASURED`` items, whose symbols are looked up some at a
    time and up to a number of postings each. The batch begins at item number ``first``, and its
    prefixes are those of the current epoch.
    """
    before = snapshot.manifest
    if not before.live or before.index.exact is None:
        return
    rows = measured_rows(first, prefixes)
    keys = prefixes.select(rows).values
    view = open_postings(snapshot.transaction, before.index.exact.current)
    parts = (keys[begin : begin + KEYS_AT_ONCE] for begin in range(0, keys.size, KEYS_AT_ONCE))
    found = sum(view.probe(part, limit=MOST_SCANNED).queries.size for part in parts)
    scanned = found / rows.size
    settled = exact.probes >= BASELINE_AFTER
    weight = min(1.0, rows.size / min(exact.probes + rows.size, MEMORY_OF_AVERAGE))
    exact.probes += rows.size
    exact.scanned += weight * (scanned / before.live - exact.scanned)
    if settled:
        exact.baseline = min(exact.baseline or exact.scanned, exact.scanned)


def is_poor(exact: ExactManifest, live: int) -> bool:
    """Whether the order of the current epoch is so poor that another one is worth making.

    Postings scanned are counted for each stored item, so that growth alone is no reason. An epoch
    begins only after the store has grown by some part, which bounds what all epochs cost together.
    """
    made_at = exact.current.made_at
    if exact.building is not None or live < max(FIRST_TABLE, made_at + made_at // GROWN_BY):
        return False
    if not made_at:
        return True
    settled = exact.baseline > 0 and exact.probes >= BASELINE_AFTER
    worse = settled and exact.scanned > WORSE * exact.baseline
    return worse and exact.scanned * live > WORTH_IT


# -- epochs ------------------------------------------------------------------------------------


def advance(writer: CollectionWriter, signer: Signer, added: int) -> None:
    """Do a commit's part of making a new epoch, and of removing an old one."""
    exact = writer.manifest.index.exact
    if exact is None:
        return
    if is_poor(exact, writer.manifest.live):
        # A new epoch begins, its order made from a sample of the stored items.
        number = catalogue.new_owners(writer.transaction, 1, writer.manifest.index)
        exact.building = catalogue.new_epoch(writer.transaction, number)
        order = sampled_order(writer, signer.items)
        write_frequent(writer.transaction, exact.building, order.frequent, writer.manifest.live)
    if exact.building is not None:
        average = writer.manifest.item_bytes // max(1, writer.manifest.live)
        if post_older(
            writer,
            signer,
            exact.building,
            most_items=max(LEAST_REPOSTED, REPOSTED_PER_ITEM * added),
            most_bytes=max(REPOSTED_AT_ONCE, REPOSTED_PER_ITEM * added * average),
        ):
            switch(exact)
    remove_retired(writer.transaction, exact)


def post_older(
    writer: CollectionWriter,
    signer: Signer,
    building: EpochManifest,
    *,
    most_items: int = sys.maxsize,
    most_bytes: int = REPOSTED_AT_ONCE,
) -> bool:
    """Post some of the items that a new epoch has not yet; return whether it has them all."""
    batches = live_batches(writer, building.position, most_items=most_items, most_bytes=most_bytes)
    batch = next(batches, None)
    epoch = open_epoch(writer.transaction, building)
    target = postings_writer(writer.transaction, building)
    if batch is not None:
        posted = post(target, batch.numbers, signer.prefixes(epoch, batch.items), epoch)
        target.merge_after(posted, lambda: writer.tombstones)
    end = writer.manifest.next_number
    building.position = end if batch is None else int(batch.numbers[-1]) + 1
    return building.position == end


def switch(exact: ExactManifest) -> None:
    """Let the new epoch answer from this commit on."""
    assert exact.building is not None
    exact.retired.append(exact.current.number)
    exact.current, exact.building = exact.building, None
    # What was good before stays the measure, since the new order may be poor from its first day.
    # Twice of it, so that orders that cannot be as good again are tried less and less often.
    exact.probes, exact.scanned, exact.baseline = 0, 0.0, 2 * exact.baseline


def remove_retired(transaction: WriteTransaction, exact: ExactManifest) -> bool:
    """Remove some of the records of old epochs; return whether there are more."""
    owned = list(chain.from_iterable(map(catalogue.epoch_tables, exact.retired)))
    if owned:
        left = catalogue.remove_records(transaction, owned, REMOVED_AT_ONCE)
        exact.retired = sorted({number for _, number in left})
    return bool(exact.retired)


def finish(writer: CollectionWriter, signer: Signer) -> bool:
    """Do a step of finishing a new epoch and removing old ones; return whether more is left."""
    exact = writer.manifest.index.exact
    if exact is None:
        return False
    if exact.building is not None:
        if post_older(writer, signer, exact.building):
            switch(exact)
        return True
    return remove_retired(writer.transaction, exact)

"""Compacting and rebuilding, in bounded steps between which others may write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from simdb.answers.exact.memory import sampled_order
from simdb.answers.method import ProgressCallback
from simdb.arrays import UInt32s
from simdb.errors import DatabaseFailedError, StorageError
from simdb.exact.order import SymbolOrder
from simdb.ingest import postings as exact_indexing
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Known, WriteAccess
from simdb.opened.signer import Epoch, Signed, Signer
from simdb.results import Progress
from simdb.storage.collection.manifest import IndexManifest, write_frequent
from simdb.storage.collection.reader import CollectionReader, live_batches
from simdb.storage.collection.writer import CollectionWriter, IndexWriter
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables.blocks import BlockWriter

STEP_BYTES = 8 * 2**20  # rewritten or removed by one commit
REBUILT_AT_ONCE = 10_000  # items
SHARE_OF_MEMORY = 64


# -- compacting --------------------------------------------------------------------------------


def compact(access: WriteAccess, known: Known, progress: ProgressCallback | None) -> dict[str, Any]:
    """Merge all runs into one and drop what belongs to deleted items.

    An epoch of an exact index that is being built is finished before.

    The tombstones of items deleted before it began are taken back at the end: everything written
    since leaves such items out, and everything older has been rewritten. Not so an index that a
    rebuild began before and has switched to, or is still working on: it may hold them.
    """
    collection = known.settings.number
    with access.read() as snapshot:
        before = CollectionReader(snapshot, collection)
        dead, index = before.tombstones.copy(), before.manifest.index.number
    collect_garbage(access)
    steps = 0

    def finish_epoch(writer: CollectionWriter) -> bool:
        return exact_indexing.finish(writer, known.refreshed(writer.transaction).signer)

    def merge(writer: CollectionWriter) -> bool:
        return writer.index_writer(writer.manifest.index).step()

    def start_full_merge(writer: CollectionWriter) -> bool:
        if merge(writer):  # as long as any is under way, others may start one between the steps
            return True
        writer.index_writer(writer.manifest.index).start_full_merge()
        return False

    left: dict[str, int] = {"documents": 0, "items": 0, "signatures": 0}  # and from where on

    def drop_dead(writer: CollectionWriter) -> bool:
        blocks = {
            "documents": writer.documents,
            "items": writer.items,  # None if they lie in the documents
            "signatures": writer.index_writer(writer.manifest.index).signatures,
        }
        name = next(iter(left))
        own, position = blocks[name], left.pop(name)
        if isinstance(own, BlockWriter):
            further = writer.drop_dead_step(own, position, STEP_BYTES)
            if further is not None:
                left[name] = further
        return bool(left)

    for work in (finish_epoch, start_full_merge, merge, drop_dead):
        while _step(access, collection, work):
            steps += 1
            if progress is not None:
                progress(Progress("compacting", steps, None))
    with access.write() as transaction:
        writer = CollectionWriter(transaction, collection)
        if writer.manifest.index.number == index and not catalogue.is_being_built(transaction):
            writer.clear_tombstones(dead)
        writer.save()
        state, exact = writer.manifest, writer.manifest.index.exact
    return {
        "steps": steps,
        "items": state.live,
        "runs": len(state.index.bands.runs),
        "postings_runs": 0 if exact is None else len(exact.current.postings.runs),
        "deleted_not_yet_dropped": state.tombstones,
    }


def _step(access: WriteAccess, collection: int, work: Callable[[CollectionWriter], bool]) -> bool:
    """Do a step of work in a transaction of its own; return whether there may be more."""
    with access.write() as transaction:
        writer = CollectionWriter(transaction, collection)
        more = work(writer)
        writer.save()
    return more


def collect_garbage(access: WriteAccess) -> None:
    """Remove what nothing refers to any more."""
    more = True
    while more:
        with access.write() as transaction:
            more = catalogue.collect_garbage(transaction, STEP_BYTES)


def clear_up(access: WriteAccess) -> None:
    """Remove what a committed change has left, as far as can be done now; the rest stays listed."""
    try:
        collect_garbage(access)
    except DatabaseFailedError:  # the change may be lost as well
        raise
    except (StorageError, MemoryError):
        return  # the caller's change has happened: an error would say that it has not


# -- rebuilding --------------------------------------------------------------------------------


def rebuild(
    access: WriteAccess,
    before: CollectionSettings,
    settings: CollectionSettings,
    progress: ProgressCallback | None,
) -> None:
    """Make a second index under new settings and switch to it in one transaction.

    Until then the new index is listed as garbage, so that nothing is left behind if the work is
    cut off, and reserved, so that nobody takes it for that. Items added meanwhile are signed as
    well; the last few of them under the lock. What the old index leaves may stay listed as garbage
    in its turn. StorageError if the present settings are no longer ``before``, which those were
    made from; nothing has changed then.
    """
    collect_garbage(access)
    signer = Signer(settings)
    order, made_at = SymbolOrder(), 0
    with access.read() as snapshot:
        _require_unchanged(snapshot, before)
        present = CollectionReader(snapshot, settings.number)
        if settings.is_exact and present.manifest.live >= exact_indexing.FIRST_TABLE:
            order, made_at = sampled_order(present, signer.items), present.manifest.live
    with ExitStack() as reserved:
        with access.write() as transaction:
            index = catalogue.new_index(transaction, settings)
            reserved.enter_context(closing(access.environment.reserve(index.owners)))
            catalogue.add_garbage(transaction, catalogue.index_tables(index))
            if index.exact is not None:
                write_frequent(transaction, index.exact.current, order.frequent, made_at)
                signer.epoch = Epoch(index.exact.current.number, order)
        most_bytes = max(1, access.memory // SHARE_OF_MEMORY)
        work, done = _Rebuild(signer, index, access.pool(), most_bytes), 0
        while True:
            with access.read() as snapshot:
                _require_unchanged(snapshot, before)
                numbers, signed = work.prepare(CollectionReader(snapshot, settings.number))
            with access.write() as transaction:
                _require_unchanged(transaction, before)
                writer = CollectionWriter(transaction, settings.number)
                work.store(writer, numbers, signed)
                if work.position == writer.manifest.next_number:
                    catalogue.keep_from_garbage(transaction, catalogue.index_tables(index))
                    old = catalogue.index_tables(writer.manifest.index)
                    catalogue.add_garbage(transaction, old)
                    writer.manifest.index = index
                    writer.save()
                    catalogue.write_settings(transaction, settings)
                    break
            done += numbers.size
            if progress is not None:
                progress(Progress("signing", done, None))
    clear_up(access)


def _require_unchanged(transaction: ReadTransaction, before: CollectionSettings) -> None:
    if catalogue.require_settings(transaction, before.name) != before:
        raise StorageError(
            f"the rebuild was cancelled: collection {before.name!r} was rebuilt, or dropped and "
            "made anew, meanwhile; nothing has changed, run it again"
        )


@dataclass(slots=True)
class _Rebuild:
    """An index that is being made, of the items before a position."""

    signer: Signer
    index: IndexManifest
    pool: Executor | None
    most_bytes: int
    position: int = 0

    def prepare(self, collection: CollectionReader) -> tuple[UInt32s, Signed]:
        """Read and sign the next items; none if there are no more."""
        batches = live_batches(
            collection,
            self.position,
            most_items=min(REBUILT_AT_ONCE, self.signer.most_indexed(self.most_bytes)),
            most_bytes=self.most_bytes,
            weights=self.signer.items.weights,
        )
        batch = next(batches, None)
        if batch is None:
            self.position = collection.manifest.next_number
            return np.empty(0, np.uint32), self.signer.empty()
        self.position = int(batch.numbers[-1]) + 1
        return batch.numbers, self.signer.sign(batch.items, self.pool)

    def store(self, writer: CollectionWriter, numbers: UInt32s, signed: Signed) -> None:
        """Write what was prepared; items deleted since have tombstones, as for every index."""
        if not numbers.size:
            return
        target = IndexWriter(writer.transaction, self.index, writer)
        target.insert(numbers, signed.signatures, signed.buckets.values, signed.buckets.sizes)
        exact, epoch, prefixes = self.index.exact, self.signer.epoch, signed.prefixes
        if exact is not None and epoch is not None and prefixes is not None:
            exact_indexing.insert(writer.transaction, exact, epoch, numbers, prefixes)
        target.merge_after(numbers.size)

"""Compacting and rebuilding, in bounded steps between which others may write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
from msgspec.structs import replace

from simdb.answers.exact.memory import sampled_order
from simdb.answers.method import ProgressCallback, keys_of_numbers
from simdb.arrays import UInt32s
from simdb.batches.signer import Epoch, Signed, Signer
from simdb.errors import (
    BadItemError,
    CollectionNotFoundError,
    ConfigurationError,
    CorruptionError,
    DatabaseFailedError,
    StorageError,
)
from simdb.exact.order import SymbolOrder
from simdb.ingest import postings
from simdb.kinds.contrast import contrast
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Known, WriteAccess
from simdb.results import Progress
from simdb.storage.collection.manifest import IndexManifest, write_frequent
from simdb.storage.collection.reader import CollectionReader, LiveBatch, live_batches
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables.blocks import BlockWriter
from simdb.storage.tables.layout import Table, manifest_key
from simdb.upkeep.regroup import make_groups

STEP_BYTES = 8 * 2**20  # rewritten or removed by one commit
REBUILT_AT_ONCE = 10_000  # items
SHARE_IN_TURN = 10  # of these: the last items, for which writers wait
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
        _require_there(snapshot, known.settings)
        before = CollectionReader(snapshot, collection)
        dead, index = before.tombstones, before.manifest.index.number
    collect_garbage(access)
    steps = 0

    def finish_epoch(writer: CollectionWriter) -> bool:
        return postings.finish(writer, known.refreshed(writer.transaction).signer)

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
        while _step(access, known.settings, work):
            steps += 1
            if progress is not None:
                progress(Progress("compacting", steps, None))
    with access.write() as transaction:
        _require_there(transaction, known.settings)
        writer = CollectionWriter(transaction, collection)
        if writer.manifest.index.number == index and not catalogue.is_being_built(transaction):
            writer.clear_tombstones(dead)
        writer.save()
        transaction.fold()  # a few deletions may have been of many bytes
        state, exact = writer.manifest, writer.manifest.index.exact
    return {
        "steps": steps,
        "items": state.live,
        "runs": len(state.index.bands.runs),
        "postings_runs": 0 if exact is None else len(exact.current.postings.runs),
        "deleted_not_yet_dropped": state.tombstones,
    }


def _require_there(transaction: ReadTransaction, settings: CollectionSettings) -> None:
    """Raise CollectionNotFoundError for a collection that was dropped meanwhile."""
    if transaction.get(Table.META, manifest_key(settings.number)) is None:
        raise CollectionNotFoundError(f"collection {settings.name!r} was dropped meanwhile")


def _step(
    access: WriteAccess, settings: CollectionSettings, work: Callable[[CollectionWriter], bool]
) -> bool:
    """Do a step of work in a transaction of its own; return whether there may be more."""
    with access.write() as transaction:
        _require_there(transaction, settings)
        writer = CollectionWriter(transaction, settings.number)
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
        with access.read() as snapshot:
            gone = {*catalogue.garbage(snapshot)}
        access.environment.caches.forget_of(gone)
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
    well, the last few of them in the transaction that switches; where groups are kept, until none
    is left, which others who add batches all the time may delay. What the old index leaves may
    stay listed as garbage in its turn. StorageError if the present settings are no longer
    ``before``, which those were made from; nothing has changed then. Where items are signed alike
    under both, the index stays.

    The transaction that switches makes the groups that are kept, too: of all pairs that the new
    index finds, of which nothing is left to be committed then.
    """
    if settings.recipe != before.recipe and settings.signs_alike(before):
        with access.write() as transaction:
            now = catalogue.require_unchanged(transaction, before)
            _switch(access, CollectionWriter(transaction, now.number), now, settings, progress)
        return
    collect_garbage(access)
    signer = Signer(settings)
    order, made_at = SymbolOrder(), 0
    with access.read() as snapshot:
        catalogue.require_unchanged(snapshot, before)
        present = CollectionReader(snapshot, settings.number)
        if settings.is_exact and present.manifest.live >= postings.FIRST_TABLE:
            order, made_at = sampled_order(present, signer.items), present.manifest.live
    with ExitStack() as reserved:
        with access.write() as transaction:
            index = catalogue.new_index(transaction, settings)
            reserved.enter_context(closing(access.environment.reserve(index.owners)))
            catalogue.add_garbage(transaction, catalogue.index_tables(index))
            if index.exact is not None:
                write_frequent(transaction, index.exact.current, order.frequent, made_at)
                signer.epoch = Epoch(index.exact.current.number, order)
        position = done = 0
        while True:
            with access.read() as snapshot:
                catalogue.require_unchanged(snapshot, before)
                reader = CollectionReader(snapshot, settings.number)
                numbers, signed, position = _signed_next(access, before, signer, reader, position)
                # What has come since is signed in turn, but for groups: of these all must have been
                # committed before the switch.
                is_last = position == reader.manifest.next_number and settings.groups is None
            with access.write() as transaction:
                now = catalogue.require_unchanged(transaction, before)
                writer = CollectionWriter(transaction, settings.number)
                added = _post(writer, index, signer.epoch, numbers, signed)
                few = REBUILT_AT_ONCE // SHARE_IN_TURN
                while is_last and 0 < writer.manifest.next_number - position <= few:
                    numbers, signed, position = _signed_next(
                        access, before, signer, writer, position
                    )
                    added += _post(writer, index, signer.epoch, numbers, signed)
                done += added
                is_whole = position == writer.manifest.next_number
                if is_whole and (settings.groups is None or not added):
                    catalogue.keep_from_garbage(transaction, catalogue.index_tables(index))
                    old = catalogue.index_tables(writer.manifest.index)
                    catalogue.add_garbage(transaction, old)
                    writer.manifest.index = index
                    _switch(access, writer, now, settings, progress)
                    break
            if progress is not None:
                progress(Progress("signing", done, None))
    clear_up(access)
    if progress is not None and added:
        progress(Progress("signing", done, None))


def _switch(
    access: WriteAccess,
    writer: CollectionWriter,
    now: CollectionSettings,
    settings: CollectionSettings,
    progress: ProgressCallback | None,
) -> None:
    """Write other settings, and the groups that are kept by them and the index of ``writer``."""
    settings = replace(settings, key_sources=now.key_sources)
    make_groups(access, writer, now.groups, settings, progress=progress)
    writer.save()
    catalogue.write_settings(writer.transaction, settings)


def _post(
    writer: CollectionWriter,
    index: IndexManifest,
    epoch: Epoch | None,
    numbers: UInt32s,
    signed: Signed,
) -> int:
    """Write items to a new index, and return how many; some have tombstones since, as in any."""
    if numbers.size:
        postings.insert(writer, index, epoch, numbers, signed)
        writer.index_writer(index).merge_after(numbers.size)
    return numbers.size


def _signed_next(
    access: WriteAccess,
    before: CollectionSettings,
    signer: Signer,
    collection: CollectionReader,
    position: int,
) -> tuple[UInt32s, Signed, int]:
    """Read and sign items from a position on, if there are any; and tell the position after."""
    most_bytes = max(1, access.memory // SHARE_OF_MEMORY)
    batches = live_batches(
        collection,
        position,
        most_items=min(REBUILT_AT_ONCE, signer.most_indexed(most_bytes)),
        most_bytes=most_bytes,
        weights=signer.items.weights,
    )
    batch = next(batches, None)
    if batch is None:
        return np.empty(0, np.uint32), signer.empty(), collection.manifest.next_number
    try:
        signed = signer.sign(batch.items, access.pool())
    except CorruptionError:
        _require_fitting(collection, before, signer, batch)
        raise
    return batch.numbers, signed, int(batch.numbers[-1]) + 1


def _require_fitting(
    collection: CollectionReader, before: CollectionSettings, signer: Signer, batch: LiveBatch
) -> None:
    """Raise ConfigurationError for an item that is sound, but refused by the new settings."""
    items = before.make_items()
    for place, data in enumerate(batch.items):
        item = items.decode(data)
        try:
            signer.items.encode(item)
        except BadItemError as error:
            (key,) = keys_of_numbers(collection, batch.numbers[place : place + 1])
            raise ConfigurationError(
                f"the stored items of collection {before.name!r} do not fit the new settings "
                f"({contrast(before.kind, signer.kind)}); key {key!r}: {error}"
            ) from None

"""What a collection looks like inside: counts and sizes as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from simdb.arrays import UInt16s
from simdb.batches.signer import Signer
from simdb.exact.thresholds import Threshold
from simdb.opened.catalogue import CollectionSettings, KeptGroups
from simdb.opened.opened import Opened
from simdb.storage.collection.manifest import open_postings
from simdb.storage.collection.reader import CollectionReader, live_batches
from simdb.storage.tables.runs import HEADER_SIZE, POSTING_BYTES, RunDirectory
from simdb.storage.tables.views import RunView, largest_bucket

SYMBOL_BYTES = 8
CHUNK_ENTRY_BYTES = 12  # bucket key and item number


def describe(opened: Opened) -> dict[str, Any]:
    """Return counts, sizes and settings of a collection as plain values.

    What proposes its candidates, where it is not bands, comes last, with warnings.
    """
    settings, collection, family = opened.settings, opened.reader, opened.signer.family
    manifest = collection.manifest
    signature_bytes = manifest.index.signature_width * manifest.live
    bands = _size(manifest.index.bands, CHUNK_ENTRY_BYTES)

    return {
        "name": settings.name,
        "items": manifest.live,
        "deleted_not_yet_dropped": manifest.tombstones,
        "item_bytes": manifest.item_bytes,
        "settings": {
            **settings.kind.describe(),
            **_bound(settings),
            "recall": float(settings.recall),
            "bands": settings.bands,
            "rows": settings.rows,
            "cascade": None if settings.cascade is None else str(settings.cascade),
            "sketch": settings.sketch,
            "unicode_version": settings.unicode_version,
            "exact_floor": (
                None
                if settings.exact_floor is None
                else float(settings.kind.outer_similarity(settings.exact_floor))
            ),
            "containment": settings.containment,
            "key_sources": list(settings.key_sources),
            "compression": settings.compression,
            # Prints have a setting that is called groups.
            "kept_groups": None if settings.groups is None else _groups(settings, settings.groups),
        },
        "expected_recall": (
            settings.plan.expected_recall(settings.threshold) if settings.is_probable else 1.0
        ),
        "index": {
            **_described(manifest.index.bands, collection.bands),
            "bucket_entries": manifest.index.bands.entries,
            "bucket_bytes": bands,
            "signature_bytes": signature_bytes,
            "bytes_per_item": (bands + signature_bytes) / manifest.live if manifest.live else 0.0,
        },
        "exact_index": describe_exact(settings, collection),
        "item_numbers_used": manifest.next_number,
        "commits": manifest.changes,
        **(
            {}
            if family is None
            else settings.kind.candidate_stats(
                family, partial(_signatures, collection), manifest.live
            )
        ),
    }


def require_candidates(opened: Opened, left: Opened | None = None) -> None:
    """Raise ConfigurationError if the index proposes more pairs than the settings permit.

    Pairs of the collection, or with the items of another one.
    """
    if opened.signer.family is not None:
        opened.settings.kind.require_candidates(
            opened.signer.family,
            partial(_signatures, opened.reader),
            None if left is None else partial(_signed, left, opened.signer),
        )


def _signed(left: Opened, signer: Signer) -> Iterator[UInt16s]:
    """Sign the items of a collection as those of another one are."""
    for batch in live_batches(left.reader, weights=signer.items.weights):
        yield signer.sign(batch.items, left.resources.pool()).signatures


def _signatures(collection: CollectionReader) -> Iterator[UInt16s]:
    for block in collection.signatures.scan():
        yield block.as_rows(np.uint16)[collection.alive(block.numbers)]


def _groups(settings: CollectionSettings, kept: KeptGroups) -> dict[str, Any]:
    kind = settings.kind
    bounds = [float(kind.outer_bound(kind.bound_of(one)).fraction) for one in kept.bounds]
    return {"method": kept.method, "bounds": bounds}


def _bound(settings: CollectionSettings) -> dict[str, Any]:
    if settings.kind.is_distance:
        return {"max_distance": float(settings.threshold) if settings.is_probable else None}
    return {"threshold": float(settings.kind.outer_similarity(settings.threshold))}


def describe_exact(
    settings: CollectionSettings, collection: CollectionReader
) -> dict[str, Any] | None:
    """Return counts and sizes of an exact index, None without one."""
    manifest = collection.manifest
    exact = manifest.index.exact
    if exact is None:
        return None
    directory, view = exact.current.postings, open_postings(collection.transaction, exact.current)
    size = _size(directory, POSTING_BYTES) + exact.current.frequent * SYMBOL_BYTES
    entries, building, floor = directory.entries, exact.building, settings.exact_floor
    return {
        "floor": None if floor is None else str(settings.kind.outer_bound(Threshold(floor))),
        "epoch": exact.current.number,
        "frequent_symbols": exact.current.frequent,
        **_described(directory, view),
        "postings": entries,
        "postings_bytes": size,
        "bytes_per_posting": size / entries if entries else 0.0,
        "postings_per_item": entries / manifest.live if manifest.live else 0.0,
        "scanned_per_probe": exact.scanned * manifest.live,
        "lowest_scanned_per_probe": exact.baseline * manifest.live,
        "next_epoch": None if building is None else building.number,
        "next_epoch_items": 0 if building is None else building.position,
        "retired_epochs": len(exact.retired),
    }


def _size(directory: RunDirectory, entry_bytes: int) -> int:
    chunks = sum(run.end_chunk - run.first_chunk for run in directory.runs)
    return directory.entries * entry_bytes + chunks * HEADER_SIZE


def _described(directory: RunDirectory, view: RunView) -> dict[str, int]:
    largest = largest_bucket(view)
    return {
        "runs": len(directory.runs),
        "merges_under_way": len(directory.merges),
        "largest_bucket": largest.entries,
        "largest_bucket_bound": largest.bound,
    }

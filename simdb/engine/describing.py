"""What a collection looks like inside: counts and sizes as plain values."""

from __future__ import annotations

from typing import Any

from simdb.engine.catalogue import CollectionSettings, describe_kind
from simdb.storage.blocks import BlockReader
from simdb.storage.chunks import HEADER_SIZE
from simdb.storage.tables import CollectionReader

CHUNK_ENTRY_BYTES = 12  # bucket key and item number


def describe(settings: CollectionSettings, collection: CollectionReader) -> dict[str, Any]:
    """Return counts, sizes and settings of a collection as plain values."""
    state = collection.state
    runs = state.index.bands.runs
    entries = state.index.bands.entries
    chunks = sum(run.end_chunk - run.first_chunk for run in runs)
    signatures = state.index.signature_width * state.live
    bands = entries * CHUNK_ENTRY_BYTES + chunks * HEADER_SIZE
    return {
        "name": settings.name,
        "items": state.live,
        "deleted_not_yet_dropped": state.marked,
        "item_bytes": state.item_bytes,
        "settings": {
            **describe_kind(settings.kind),
            "threshold": float(settings.threshold),
            "recall": float(settings.recall),
            "bands": settings.bands,
            "rows": settings.rows,
            "sketch": settings.sketch,
            "unicode_version": settings.unicode_version,
        },
        "expected_recall": settings.plan.expected_recall(settings.threshold),
        "index": {
            "runs": len(runs),
            "merges_under_way": len(state.index.bands.merges),
            "bucket_entries": entries,
            "bucket_bytes": bands,
            "signature_bytes": signatures,
            "bytes_per_item": (bands + signatures) / state.live if state.live else 0.0,
        },
        "item_numbers_used": state.next_number,
        "commits": state.changes,
    }


def block_statistics(blocks: BlockReader) -> dict[str, int]:
    """Return how many blocks there are and what they hold; reads all of them."""
    count = records = size = 0
    for block in blocks.scan():
        count += 1
        records += block.numbers.size
        size += len(block.records)
    return {"blocks": count, "records": records, "bytes": size}

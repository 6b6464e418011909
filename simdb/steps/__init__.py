"""The steps of a join as functions of Arrow batches: bring your engine.

Each step takes a recipe (``simdb.Recipe``) and an iterable of record batches, and yields record
batches. What it computes depends on the rows alone, never on how they are cut into batches or dealt
to tasks; so an engine that sorts, joins and hands batches on (Spark, DuckDB, Ray Data) gives the
answers of a collection of that recipe, pair for pair. No engine is imported here, and no storage.

Rows have a ``number``, int64: which of two rows is the earlier. ``docs/steps.md`` draws the plans;
``reference`` has them on pyarrow alone.

- ``sign``, ``entries``, ``shared``, ``meet``: items to candidates by buckets (MMDS 3.4.3).
- ``pack_entries``, ``shared_packed``; ``pack_digests``, ``copies_packed``: entries, and digests, as
  few large rows, for engines to whom rows are dear.
- ``sample``, ``order_of``, ``post``, ``meet_posted``: items to candidates, exactly (MMDS 3.9).
- ``connect``, ``components``, ``contract``: candidates to components.
- ``encode``, ``spread``, ``verify``: candidates to similar pairs.
- ``dedupe``, ``groups``: whole components to what ``dedupe`` drops, and to groups.
- ``partial_minima``, ``merge_minima``: signatures of items whose elements are dealt to tasks
  (MMDS 3.3, exercise 3.3.7).
"""

from __future__ import annotations

from simdb.steps.buckets import connect, entries, meet, shared
from simdb.steps.deciding import dedupe, groups
from simdb.steps.graph import components, contract, spread
from simdb.steps.packing import (
    copies_packed,
    pack_digests,
    pack_entries,
    parts_of,
    shared_packed,
)
from simdb.steps.posting import Ordered, meet_posted, order_of, post, sample
from simdb.steps.rows import merge_minima, partial_minima
from simdb.steps.schemas import (
    COPIES,
    DROPPED,
    ENTRIES,
    GATHERED,
    GROUPED,
    ITEMS,
    LABELS,
    MINIMA,
    PACKED,
    PAIRS,
    POSTINGS,
    SHARED,
    SIGNED,
    SIMILAR,
    SYMBOLS,
    Schema,
)
from simdb.steps.signing import encode, require_served, sign
from simdb.steps.verifying import verify

__all__ = [
    "COPIES",
    "DROPPED",
    "ENTRIES",
    "GATHERED",
    "GROUPED",
    "ITEMS",
    "LABELS",
    "MINIMA",
    "PACKED",
    "PAIRS",
    "POSTINGS",
    "SHARED",
    "SIGNED",
    "SIMILAR",
    "SYMBOLS",
    "Ordered",
    "Schema",
    "components",
    "connect",
    "contract",
    "copies_packed",
    "dedupe",
    "encode",
    "entries",
    "groups",
    "meet",
    "meet_posted",
    "merge_minima",
    "order_of",
    "pack_digests",
    "pack_entries",
    "partial_minima",
    "parts_of",
    "post",
    "require_served",
    "sample",
    "shared",
    "shared_packed",
    "sign",
    "spread",
    "verify",
]

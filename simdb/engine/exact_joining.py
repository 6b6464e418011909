"""Many-many, exact: all similar pairs of a collection, or of two, streamed; none is missed.

Where the symbols of all items fit into a share of the memory setting, they are loaded and joined
there (``simdb.exact.joins``). Else the postings of the exact index are swept
(``exact_sweeping``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from simdb.datatypes import PairBatch
from simdb.engine.exact_loading import Loaded, join_order, load_sets
from simdb.engine.exact_tokens import MemoryToken, Token, parse_token
from simdb.engine.signing import Signer
from simdb.exact.joins import Counters, PairColumns, self_join, two_sided_join
from simdb.exact.thresholds import Threshold
from simdb.storage.tables import CollectionReader


@dataclass(frozen=True, slots=True)
class JoinResources:
    """What a join may use.

    Attributes:
        memory: bytes.
        pool: threads, None for the caller's alone.
        require_open: raises if the database was closed.
    """

    memory: int
    pool: Executor | None
    require_open: Callable[[], None]


def load_all(
    signer: Signer, collection: CollectionReader, resources: JoinResources
) -> Loaded | None:
    """Return all items arranged in a good order, None if they take too much memory."""
    return load_sets(
        collection,
        signer,
        join_order(collection, signer),
        memory=resources.memory,
        pool=resources.pool,
        require_open=resources.require_open,
    )


def join(
    signer: Signer,
    collection: CollectionReader,
    threshold: Threshold,
    resources: JoinResources,
    *,
    resume: str | None = None,
    counters: Counters | None = None,
) -> Iterator[tuple[PairBatch, str]]:
    """Yield all pairs of live items at or above the threshold, and tokens to go on after them.

    Exact; each pair comes once, in no particular order. Empty sets are similar to nothing.
    """
    counters = counters or Counters()
    token = None if resume is None else parse_token(resume, threshold)
    if token is None or isinstance(token, MemoryToken):
        loaded = load_all(signer, collection, resources)
        if loaded is not None:
            pairs = self_join(loaded.sets, threshold, counters=counters)
            yield from _in_memory(collection, threshold, loaded, pairs, token)
            return
    raise NotImplementedError


def _in_memory(
    collection: CollectionReader,
    threshold: Threshold,
    loaded: Loaded,
    pairs: Iterator[PairColumns],
    token: Token | None,
) -> Iterator[tuple[PairBatch, str]]:
    done = 0
    if token is not None:
        assert isinstance(token, MemoryToken)
        token.require(collection)
        done = token.batches
    for place, columns in enumerate(pairs, 1):
        if place > done and len(columns):
            after = MemoryToken(threshold, collection.number, collection.state.changes, place)
            yield pair_batch(loaded, loaded, columns), str(after)


def pair_batch(left: Loaded, right: Loaded, columns: PairColumns) -> PairBatch:
    """Return pairs of places as pairs of item numbers."""
    return PairBatch(
        left.numbers[columns.left],
        right.numbers[columns.right],
        columns.similarities,
    )

"""Two-sided joins, exact: which items of one collection are similar to which of another?

Symbols depend on the secret of a collection, so the items of the left one are cut into symbols as
those of the right one. In memory where both fit; else the left items are looked up in the exact
index of the right collection, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simdb.answers.choose import require_index
from simdb.answers.exact.load import arranged_batches, join_order, load_sets
from simdb.answers.exact.pairs import JoinResources, pair_batch
from simdb.answers.exact.probe import PairProber, pair_batches
from simdb.answers.exact.search import Prober, SearchCounters, jaccard
from simdb.answers.exact.tokens import CrossToken, parse_token
from simdb.errors import ConfigurationError
from simdb.exact import joins
from simdb.exact.joins import BEGINNING, Counters, Place
from simdb.exact.thresholds import Threshold
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.signer import Signer
from simdb.results import PairBatch
from simdb.storage.collection.reader import CollectionReader


class Side(NamedTuple):
    """A collection in a snapshot, and what makes its symbols."""

    signer: Signer
    collection: CollectionReader


def require_same_kind(left: CollectionSettings, right: CollectionSettings) -> None:
    """Raise unless the items of both collections are cut into symbols alike.

    Raises:
        ConfigurationError: they are not.
    """
    if left.kind != right.kind:
        raise ConfigurationError(
            f"collections of different kinds cannot be joined: {left.name!r} has {left.kind}, "
            f"{right.name!r} has {right.kind}"
        )


def cross(
    left: Side,
    right: Side,
    threshold: Threshold,
    resources: JoinResources,
    *,
    resume: str | None = None,
    counters: Counters | None = None,
) -> Iterator[tuple[PairBatch, str]]:
    """Yield all pairs of a live left and a live right item at or above the threshold.

    Exact; each pair comes once, with a token to go on after its batch. A join that goes on in
    memory loads the items again and joins the ranges that are left; one that probes begins at the
    first left item that was not done.

    Raises:
        ConfigurationError: the kinds of items differ.
        ConfigurationError, ThresholdTooLowError: the items do not fit into memory, and the right
            collection has no exact index that serves the threshold.
    """
    require_same_kind(left.signer.settings, right.signer.settings)
    counters = counters or Counters(effort=resources.effort)
    changes = left.collection.manifest.changes, right.collection.manifest.changes
    token = CrossToken(threshold, *changes, way="m", place=BEGINNING)
    if resume is not None:
        resumed = parse_token(resume, threshold)
        if not isinstance(resumed, CrossToken):
            raise ConfigurationError("the resume token is not one of a join of two collections")
        resumed.require(left.collection, right.collection)
        token = resumed
    if token.way == "m":
        batches = _in_memory(left, right, token, resources, counters)
        if batches is not None:
            yield from batches
            return
        if resume is not None:
            raise ConfigurationError(
                "the join to be resumed was made in memory, and the items do not fit into the "
                "memory setting now; open the stores with more memory"
            )
        token = CrossToken(threshold, *changes, way="p", place=BEGINNING)
    require_index(right.signer.settings, jaccard(threshold))
    yield from _probed(left, right, token, resources)


def _in_memory(
    left: Side, right: Side, token: CrossToken, resources: JoinResources, counters: Counters
) -> Iterator[tuple[PairBatch, str]] | None:
    """Return the batches of pairs, None if the items take too much memory."""
    order = join_order(right.collection, right.signer)
    loaded = []
    for side in (right, left):
        sets = load_sets(
            side.collection,
            right.signer,
            order,
            memory=resources.memory // 2,
            pool=resources.pool,
            require_open=resources.require_open,
        )
        if sets is None:
            return None
        loaded.append(sets)
    right_sets, left_sets = loaded
    pairs = joins.join(
        left_sets.sets,
        right_sets.sets,
        token.threshold,
        counters=counters,
        workers=resources.workers,
        start=token.place,
    )
    return (
        (pair_batch(left_sets, right_sets, columns), str(token.after(columns.after)))
        for columns in pairs
    )


def _probed(
    left: Side, right: Side, token: CrossToken, resources: JoinResources
) -> Iterator[tuple[PairBatch, str]]:
    counters = SearchCounters(resources.effort)
    prober = Prober(right.collection, jaccard(token.threshold), counters=counters)
    order, start = prober.epoch.order, token.place.range
    batches = arranged_batches(
        left.collection, right.signer, order, resources.pool, start=max(0, start)
    )
    pairs = PairProber(right.signer, right.collection, prober)
    for batch, done in pair_batches(batches, pairs, resources.require_open, earlier_only=False):
        yield batch, str(token.after(Place(done, 0)))

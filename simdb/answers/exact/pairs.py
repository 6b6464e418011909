"""Many-many, exact: all similar pairs of a collection, streamed; none is missed.

Where the symbols of all items fit into a share of the memory setting, they are loaded and joined
there (``simdb.exact.joins``). Else the postings of the exact index are swept (``exact_sweeping``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.answers.buckets.groups import Forest
from simdb.answers.buckets.pairs import are_few
from simdb.answers.choose import require_index, serves_exactly
from simdb.answers.exact.arrange import selected_sets
from simdb.answers.exact.classes import ItemClasses, classify, classify_by_postings
from simdb.answers.exact.load import Loaded, arranged_batches, join_order, load_sets
from simdb.answers.exact.probe import PairProber, pair_batches
from simdb.answers.exact.search import Prober, SearchCounters, jaccard
from simdb.answers.exact.slices import PostingSlices, room_of
from simdb.answers.exact.sweep import ClassPairs, Sweep
from simdb.answers.exact.tokens import (
    CrossToken,
    MemoryToken,
    NewToken,
    OwnToken,
    SweepToken,
    parse_token,
)
from simdb.errors import ConfigurationError
from simdb.exact import joins
from simdb.exact.joins import BEGINNING, CHUNK, OWN_PAIRS, Counters, PairColumns, Workers, numbered
from simdb.exact.measures import Criterion, Measure
from simdb.exact.thresholds import Threshold
from simdb.ingest.postings import current_epoch
from simdb.opened.signer import Signer
from simdb.results import Effort, PairBatch
from simdb.storage.collection.reader import CollectionReader


@dataclass(frozen=True, slots=True)
class JoinResources:
    """What a join may use.

    Attributes:
        memory: bytes.
        pool: threads, None for the caller's alone.
        require_open: raises if the database was closed.
        effort: that may be spent.
    """

    memory: int
    pool: Executor | None
    require_open: Callable[[], None]
    effort: Effort

    @property
    def workers(self) -> Workers:
        """The threads, and how far they may work ahead."""
        return Workers.within(self.pool, self.memory)


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
    since: int = 0,
    resume: str | None = None,
    counters: Counters | None = None,
) -> Iterator[tuple[PairBatch, str]]:
    """Yield all pairs of live items at or above the threshold, and tokens to go on after them.

    Exact; each pair comes once. The order depends on the store, the threshold and the memory
    setting, not on threads. Empty sets are similar to nothing.

    A join that goes on after a token does not do again what is done of joining, reading and
    comparing; what all of it depends on it does: in memory, loading all items and posting their
    prefixes; else, reading the postings and finding identical items.

    Args:
        signer, collection: what is joined.
        threshold: least similarity.
        resources: what may be used.
        since: only pairs with an item of this number or a higher one. Such items are looked up in
            the exact index if they are few and it serves the threshold; else everything is joined.
        resume: a token to go on after.
        counters: where to count what a join did.

    Raises:
        ConfigurationError, ThresholdTooLowError: the items do not fit into memory, and there is no
            exact index that serves the threshold.
    """
    counters = counters or Counters(effort=resources.effort)
    token = None if resume is None else _own_token(collection, threshold, since, resume)
    if isinstance(token, NewToken) or (
        token is None and _probes(signer, collection, threshold, since)
    ):
        yield from _new_pairs(signer, collection, threshold, resources, since=since, token=token)
        return
    for batch, after in _joined(
        signer, collection, threshold, resources, since=since, token=token, counters=counters
    ):
        of_new = batch.since(since)
        if len(of_new):
            yield of_new, after


def _own_token(
    collection: CollectionReader, threshold: Threshold, since: int, resume: str
) -> OwnToken:
    token = parse_token(resume, threshold)
    if isinstance(token, CrossToken):
        raise ConfigurationError("the resume token is one of a join of two collections")
    if token.since != since:
        raise ConfigurationError(
            f"the resume token is of pairs since {token.since}, not since {since}"
        )
    token.require(collection)
    return token


def _joined(
    signer: Signer,
    collection: CollectionReader,
    threshold: Threshold,
    resources: JoinResources,
    *,
    since: int,
    token: MemoryToken | SweepToken | None,
    counters: Counters,
) -> Iterator[tuple[PairBatch, str]]:
    """Yield all pairs; the tokens say since when they are wanted."""
    changes = collection.manifest.changes
    prepared = None
    if isinstance(token, SweepToken) or (token is None and _sweeps_first(signer, threshold)):
        room = token.room if token is not None else room_of(resources.memory)
        prepared = _open_sweep(
            signer, collection, threshold, resources, room=room, counters=counters
        )
    if prepared is None or (token is None and not prepared[1].count()):
        loaded = load_all(signer, collection, resources)
        if loaded is not None:
            if not isinstance(token, MemoryToken):
                token = MemoryToken(threshold, collection.number, changes, since, BEGINNING)
            yield from _in_memory(loaded, token, resources.workers, counters)
            return
        if token is not None:
            raise ConfigurationError(
                "the join to be resumed was made in memory, and the items do not fit into the "
                "memory setting now; open the store with more memory"
            )
    require_index(signer.settings, Criterion(Measure.JACCARD, threshold))
    if not isinstance(token, SweepToken):
        epoch, room = current_epoch(collection), room_of(resources.memory)
        assert epoch is not None
        token = SweepToken(
            threshold, epoch.number, changes, since, BEGINNING, counted=False, room=room
        )
    if prepared is None:
        prepared = _open_sweep(
            signer, collection, threshold, resources, room=token.room, counters=counters
        )
    yield from _swept(*prepared, resources, token)


def _in_memory(
    loaded: Loaded, token: MemoryToken, workers: Workers, counters: Counters
) -> Iterator[tuple[PairBatch, str]]:
    for columns in joins.pairs(
        loaded.sets, token.threshold, counters=counters, workers=workers, start=token.place
    ):
        yield pair_batch(loaded, loaded, columns), str(token.after(columns.after))


def pair_batch(left: Loaded, right: Loaded, columns: PairColumns) -> PairBatch:
    """Return pairs of places as pairs of item numbers."""
    return PairBatch(left.numbers[columns.left], right.numbers[columns.right], columns.similarities)


# -- new items ---------------------------------------------------------------------------------


def _probes(signer: Signer, collection: CollectionReader, threshold: Threshold, since: int) -> bool:
    """Whether looking new items up is quicker than to join all items."""
    return are_few(collection, since) and serves_exactly(
        signer.settings, Criterion(Measure.JACCARD, threshold)
    )


def _new_pairs(
    signer: Signer,
    collection: CollectionReader,
    threshold: Threshold,
    resources: JoinResources,
    *,
    since: int,
    token: NewToken | None,
) -> Iterator[tuple[PairBatch, str]]:
    """Look up each new item, and pair it with those before it: old ones and new ones."""
    if token is None:
        changes = collection.manifest.changes
        token = NewToken(threshold, collection.number, changes, since, since)
    prober = Prober(collection, jaccard(threshold), counters=SearchCounters(resources.effort))
    batches = arranged_batches(
        collection, signer, prober.epoch.order, resources.pool, start=token.done
    )
    pairs = PairProber(signer, collection, prober)
    for batch, done in pair_batches(batches, pairs, resources.require_open, earlier_only=True):
        yield batch, str(token.after(done))


# -- sweeping ----------------------------------------------------------------------------------


def _swept(
    classes: ItemClasses, sweep: Sweep, resources: JoinResources, token: SweepToken
) -> Iterator[tuple[PairBatch, str]]:
    for batch, place in numbered(_expanded(classes, sweep, token, resources.workers), token.place):
        yield batch, str(token.after(place, counted=sweep.counted))


def _open_sweep(
    signer: Signer,
    collection: CollectionReader,
    threshold: Threshold,
    resources: JoinResources,
    *,
    room: int,
    counters: Counters,
) -> tuple[ItemClasses, Sweep]:
    """Find the classes of identical items, and prepare to sweep the postings.

    Texts have to be cut into shingles to be read, so only those are read that may be identical. Of
    other items all are: that is quick, and brings their bitmaps, which tell most of small sets.
    """
    epoch = current_epoch(collection)
    assert epoch is not None
    postings = PostingSlices(collection, threshold, room)
    if _is_slow_to_read(signer):
        classes = classify_by_postings(signer, collection, epoch, postings)
    else:
        classes = classify(signer, collection, epoch, resources.pool, resources.require_open)
    sweep = Sweep(
        signer,
        collection,
        epoch,
        classes,
        threshold,
        postings=postings,
        counters=counters,
    )
    return classes, sweep


def _is_slow_to_read(signer: Signer) -> bool:
    """Whether symbols are computed anew from items, which costs more than to sweep postings."""
    return signer.settings.kind.is_slow_to_read


def _sweeps_first(signer: Signer, threshold: Threshold) -> bool:
    """Whether sweeping may be quicker than loading all items, though they may fit into memory.

    It is if few pairs are met in the postings; where so many are that they cannot be counted, each
    item would be read many times, and loading all of them once is quicker.
    """
    settings = signer.settings
    return _is_slow_to_read(signer) and serves_exactly(
        settings, Criterion(Measure.JACCARD, threshold)
    )


def _expanded(
    classes: ItemClasses, sweep: Sweep, token: SweepToken, workers: Workers
) -> Iterator[tuple[int, PairBatch]]:
    """Write out the pairs of items of pairs of classes, and of items of one class."""
    first = token.place.range
    copied = np.unique(classes.representatives[classes.copies])
    if first == OWN_PAIRS and copied.size:
        own = ClassPairs(OWN_PAIRS, copied, copied, classes.sizes[copied])
        for batch in _members(classes, own):
            yield OWN_PAIRS, batch
    for pairs in sweep.pairs(workers, max(first, 0), counted=token.counted):
        if pairs.left.size:
            for batch in _members(classes, pairs):
                yield pairs.range, batch


def _members(classes: ItemClasses, pairs: ClassPairs) -> Iterator[PairBatch]:
    chosen = np.unique(np.concatenate([pairs.left, pairs.right]))
    members = classes.members(chosen)
    places = np.searchsorted(chosen, pairs.left), np.searchsorted(chosen, pairs.right)
    sizes = classes.sizes[pairs.left], classes.sizes[pairs.right]
    similarities = pairs.overlaps / (sizes[0] + sizes[1] - pairs.overlaps)
    state = np.zeros(3, np.int64)
    found = np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    while state[0] < pairs.left.size:
        count = kernels.order.expand_pairs(
            places, members, members, same=True, state=state, found=found
        )
        rows, one, other = (column[:count] for column in found)
        if count:
            yield PairBatch(
                np.minimum(one, other).astype(np.uint32),
                np.maximum(one, other).astype(np.uint32),
                similarities[rows],
            )


# -- groups ------------------------------------------------------------------------------------


def group(
    signer: Signer,
    collection: CollectionReader,
    threshold: Threshold,
    resources: JoinResources,
    *,
    counters: Counters | None = None,
) -> list[npt.NDArray[np.uint32]]:
    """Return the groups of items connected by pairs at or above the threshold.

    Exact. Pairs of identical items are not written out: each is connected with the first one.
    """
    counters = counters or Counters(effort=resources.effort)
    forest = Forest(collection.manifest.next_number)
    prepared = loaded = None
    room = room_of(resources.memory)
    if _sweeps_first(signer, threshold):
        prepared = _open_sweep(
            signer, collection, threshold, resources, room=room, counters=counters
        )
    if prepared is None or not prepared[1].count():
        loaded = load_all(signer, collection, resources)
    if loaded is None:
        require_index(signer.settings, Criterion(Measure.JACCARD, threshold))
        edges = _swept_edges(
            *(
                prepared
                or _open_sweep(
                    signer, collection, threshold, resources, room=room, counters=counters
                )
            ),
            resources.workers,
        )
    else:
        edges = _loaded_edges(loaded, threshold, resources.workers, counters)
    for left, right in edges:
        if left.size:
            forest.connect(left, right)
    return forest.groups()


def _loaded_edges(
    loaded: Loaded, threshold: Threshold, workers: Workers, counters: Counters
) -> Iterator[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]:
    sets = loaded.sets
    shift = kernels.hashes.table_shift(max(1, len(sets)))
    same, _ = kernels.order.identical_representatives(sets.values, sets.offsets, shift)
    copies = np.flatnonzero((same != np.arange(len(sets))) & (sets.sizes > 0))
    yield loaded.numbers[same[copies]], loaded.numbers[copies]
    chosen = np.flatnonzero(same == np.arange(len(sets)))
    few = selected_sets(sets, chosen)
    numbers = loaded.numbers[chosen]
    for pairs in joins.pairs(few, threshold, counters=counters, workers=workers):
        yield numbers[pairs.left], numbers[pairs.right]


def _swept_edges(
    classes: ItemClasses, sweep: Sweep, workers: Workers
) -> Iterator[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]:
    yield classes.representatives[classes.copies], classes.copies
    for pairs in sweep.pairs(workers):
        yield pairs.left, pairs.right

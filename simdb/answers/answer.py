"""Answers as callers see them: by the index that was chosen, in their values, with their keys.

What finds, joins and groups is reached through the package, so that a search loads no joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb import engine
from simdb.errors import KeyNotFoundError, WrongTypeError
from simdb.kinds.bounds import outer_pairs
from simdb.results import Effort, Key, Match, Matches, Pair, PairBatch, Progress
from simdb.storage.tables.layout import decode_user_key

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from simdb.answers.buckets.pairs import JoinCounters
    from simdb.answers.choose import Served
    from simdb.answers.exact.pairs import JoinResources
    from simdb.opened.signer import Signer
    from simdb.storage.collection.reader import CollectionReader

# A batch of pairs, what looks their keys up, and the token to go on after it, if there is one.
AnsweredBatch: TypeAlias = tuple[PairBatch, Callable[[], list[Pair]], str | None]


class Lent(NamedTuple):
    """What the database lends to an answer.

    Attributes:
        memory: bytes.
        pool: makes threads, or returns None for the caller's alone.
        require_open: raises if the database was closed.
        effort: that may be spent.
    """

    memory: int
    pool: Callable[[], Executor | None]
    require_open: Callable[[], None]
    effort: Effort

    def to_joins(self) -> JoinResources:
        """Return the same, as exact joins want it."""
        return engine.exact_joining.JoinResources(
            self.memory, self.pool(), self.require_open, self.effort
        )


def search(
    signer: Signer,
    collection: CollectionReader,
    item: bytes,
    served: Served,
    limit: int | None,
) -> Matches:
    """Find the stored items that are similar to one item in canonical form, the best first."""
    if served.scans:
        similar = engine.scanning.search(signer, collection, item, served.bound, limit)
    elif served.is_exact:
        similar = engine.exact_searching.search(signer, collection, item, served.criterion, limit)
    else:
        similar = engine.searching.search(signer, collection, item, served.bound, limit)
    keys = [decode_user_key(document.key) for document in similar.documents]
    values = similar.values
    if signer.is_distance:
        matches = [Match(key, distance=value) for key, value in zip(keys, values, strict=True)]
    else:
        if served.measure == "jaccard":
            values = signer.settings.kind.outer_values(np.asarray(values, np.float64)).tolist()
        matches = list(map(Match, keys, values))
    return Matches(tuple(matches), served.guarantee, served.recall, similar.candidates)


def pairs(
    signer: Signer,
    collection: CollectionReader,
    served: Served,
    lent: Lent,
    counters: JoinCounters,
    *,
    since: int = 0,
    resume: str | None = None,
) -> Iterator[AnsweredBatch]:
    """Yield all pairs of live items that are similar enough, each once.

    Args:
        signer, collection: what is joined.
        served: how.
        lent: what may be used.
        counters: added to by the probable index; with the effort that is lent.
        since: only pairs with an item of this number or a higher one.
        resume: a token to go on after, of exact pairs by symbols.
    """
    batches: Iterator[tuple[PairBatch, str | None]]
    if served.measure != "jaccard":
        side = engine.exact_crossing.Side(signer, collection)
        batches = _without_tokens(
            engine.exact_measuring.pairs(side, served.criterion, lent.to_joins(), since=since)
        )
    elif served.scans:
        batches = _without_tokens(
            engine.scanning.pairs(signer, collection, served.bound, lent.effort, since=since)
        )
    elif served.is_exact:
        batches = engine.exact_joining.join(
            signer, collection, served.threshold, lent.to_joins(), since=since, resume=resume
        )
    else:
        batches = _without_tokens(
            engine.joining.join(
                signer, collection, served.bound, lent.memory, counters, since=since
            )
        )
    return _answered(signer, (collection, collection), served, batches)


def cross(
    left: tuple[Signer, CollectionReader],
    right: tuple[Signer, CollectionReader],
    served: Served,
    lent: Lent,
    counters: JoinCounters,
    *,
    resume: str | None = None,
) -> Iterator[AnsweredBatch]:
    """Yield all pairs of a live left and a live right item that are similar enough, each once.

    Args:
        left: the collection whose items are looked up.
        right: the collection that ``served`` is about.
        served: how.
        lent: what may be used.
        counters: added to by the probable index; with the effort that is lent.
        resume: a token to go on after, of an exact join by symbols.
    """
    (left_signer, own), (right_signer, others) = left, right
    batches: Iterator[tuple[PairBatch, str | None]]
    if served.scans:
        batches = _without_tokens(
            engine.scanning.cross(right_signer, own, others, served.bound, lent.effort)
        )
    elif not served.is_exact:
        batches = _without_tokens(
            engine.crossing.cross(own, others, right_signer, served.bound, counters)
        )
    else:
        sides = engine.exact_crossing.Side(*left), engine.exact_crossing.Side(*right)
        if served.measure == "jaccard":
            batches = engine.exact_crossing.cross(
                *sides, served.threshold, lent.to_joins(), resume=resume
            )
        else:
            batches = _without_tokens(
                engine.exact_measuring.cross(*sides, served.criterion, lent.to_joins())
            )
    return _answered(left_signer, (own, others), served, batches)


def _without_tokens(
    batches: Iterator[PairBatch],
) -> Iterator[tuple[PairBatch, str | None]]:
    return ((batch, None) for batch in batches)


def _answered(
    signer: Signer,
    collections: tuple[CollectionReader, CollectionReader],
    served: Served,
    batches: Iterator[tuple[PairBatch, str | None]],
) -> Iterator[AnsweredBatch]:
    for inner, token in batches:
        batch = inner
        if served.measure == "jaccard":
            batch = outer_pairs(signer.settings.kind, inner)
        yield batch, partial(pairs_with_keys, *collections, batch), token


def groups(
    signer: Signer,
    collection: CollectionReader,
    served: Served,
    lent: Lent,
    progress: Callable[[Progress], None] | None = None,
) -> list[list[Key]]:
    """Return the keys of the groups of items connected by similar pairs, by their first items."""
    if served.scans:
        numbers = engine.scanning.group(signer, collection, served.bound, lent.effort)
    elif served.is_exact:
        numbers = engine.exact_joining.group(signer, collection, served.threshold, lent.to_joins())
    else:
        counters = engine.joining.JoinCounters()
        counters.effort = lent.effort
        numbers = engine.grouping.group(
            signer, collection, served.bound, lent.memory, counters, progress=progress
        )
    return [keys_of_numbers(collection, members) for members in numbers]


# -- keys --------------------------------------------------------------------------------------


def keys_of_live(
    collection: CollectionReader, numbers: Sequence[int] | npt.NDArray[np.uint32]
) -> list[Key]:
    """Return the keys of item numbers that a caller gives.

    Raises:
        KeyNotFoundError: one of them is not stored, or not any more.
        WrongTypeError: they are no numbers.
    """
    given = np.asarray(numbers)
    if given.size and given.dtype.kind not in "iu":
        raise WrongTypeError("item numbers must be whole numbers, as a PairBatch has them")
    for number in given[(given < 0) | (given >= 2**32)].tolist():
        raise KeyNotFoundError(f"{number} is no item number")
    wanted = given.astype(np.uint32)
    for number in wanted[~collection.alive(wanted)].tolist():
        raise KeyNotFoundError(f"item number {number} was deleted")
    return keys_of_numbers(collection, wanted)


def keys_of_numbers(collection: CollectionReader, numbers: npt.NDArray[np.uint32]) -> list[Key]:
    """Return the keys of item numbers in any order.

    Raises:
        KeyNotFoundError: one of them is not stored.
    """
    distinct, places = np.unique(numbers, return_inverse=True)
    keys: list[Key | None] = [None] * distinct.size
    for position, document in collection.documents_of(distinct):
        keys[position] = decode_user_key(document.key)
    found: list[Key] = []
    for place in places.tolist():
        key = keys[place]
        if key is None:
            raise KeyNotFoundError(f"item number {int(distinct[place])} is not stored")
        found.append(key)
    return found


def pairs_with_keys(
    left: CollectionReader, right: CollectionReader, batch: PairBatch
) -> list[Pair]:
    """Return the pairs of a batch with their keys; of one collection these are read at once."""
    if left is right:
        keys = keys_of_numbers(left, np.concatenate([batch.left, batch.right]))
        lefts, rights = keys[: len(batch)], keys[len(batch) :]
    else:
        lefts, rights = keys_of_numbers(left, batch.left), keys_of_numbers(right, batch.right)
    if batch.is_of_distances:
        return [Pair(*pair) for pair in zip(lefts, rights, repeat(None), batch.distance.tolist())]
    return list(map(Pair, lefts, rights, batch.similarity.tolist()))

"""From the pairs that a method finds to entities: one to one between two sides, groups within one.

What decides about a pair depends on all others, so they are held in memory, 16 bytes each and as
much again several times while they are sorted: more than have room are refused.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, get_args
from zipfile import BadZipFile

import numpy as np

from simdb.answers.method import (
    AnsweredBatch,
    Method,
    ProgressCallback,
    answered,
    keys_of_numbers,
    lookups,
    metadata_of_groups,
    number_of,
)
from simdb.arguments import can_be_iterated, short
from simdb.arrays import Float64s, UInt32s
from simdb.errors import ConfigurationError, Remedy, WrongTypeError
from simdb.exact.measures import SetSimilarity
from simdb.kinds import Kind
from simdb.linkage.assignment import one_to_one
from simdb.linkage.clusters import WAYS
from simdb.linkage.clusters import Method as Clusters
from simdb.linkage.entities import Clustering, Entities, SimilarPairs, cluster, unpacked
from simdb.opened.opened import Opened
from simdb.results import Groups, Guarantee, Key, Pair, PairBatch, Progress

STATE_VERSION = 3
METHODS: dict[str, Clusters] = {name: name for name in WAYS}
_GUARANTEES: dict[str, Guarantee] = {name: name for name in get_args(Guarantee)}
NOT_A_STATE = "what is to be gone on from is not the state of groups that this version keeps"
BYTES_A_PAIR = 144  # while pairs are held and sorted
SHARE_OF_CELLS = 8  # of the memory setting, for what the items of one component are to each other


class Scale(NamedTuple):
    """What weighs a similarity or a distance; see ``simdb.linkage``."""

    farthest: float | None  # the largest distance; None of similarities
    least: float

    @classmethod
    def of(cls, method: Method, kind: Kind) -> Scale:
        """Return the scale of what a method finds."""
        by_own = method.measure is SetSimilarity.JACCARD
        bound = float((kind.outer_bound(method.bound) if by_own else method.bound).fraction)
        return cls(bound, 0.5 if bound else 1.0) if kind.is_distance else cls(None, bound)

    def weights(self, batch: PairBatch) -> Float64s:
        """Return the weights of pairs."""
        if self.farthest is None:
            return batch.similarity
        return 1.0 - batch.distance / (2.0 * self.farthest or 1.0)

    def measured(self, weight: float) -> tuple[float | None, float | None]:
        """Return the similarity, or the distance but for rounding, that has a weight."""
        if self.farthest is None:
            return weight, None
        return None, (1.0 - weight) * 2.0 * self.farthest


@dataclass(frozen=True, slots=True)
class Grouped:
    """What groups were made of, to go on from.

    Attributes:
        settings: the history of the store, and the settings of the collection as they are stored,
            without where keys come from.
        guarantee: of the pairs.
        scale: of the pairs.
        method: by which the entities were made.
        entities: these.
        before: the number that the next item had.
    """

    settings: bytes
    guarantee: Guarantee
    scale: Scale
    method: Clusters
    entities: Entities
    before: int

    def state(self) -> bytes:
        """Return all of it, as an archive of NumPy arrays."""
        made, file = self.entities, io.BytesIO()
        farthest = math.nan if self.scale.farthest is None else self.scale.farthest
        np.savez_compressed(
            file,
            version=np.array(STATE_VERSION),
            settings=np.frombuffer(self.settings, np.uint8),
            guarantee=np.array(self.guarantee),
            scale=np.array([farthest, self.scale.least]),
            method=np.array(self.method),
            before=np.array(self.before),
            pairs=SimilarPairs.packed_of(made.pairs.left, made.pairs.right),
            weights=made.pairs.weights,
            apart=made.apart.packed,
            representatives=made.representatives,
        )
        return file.getvalue()

    @classmethod
    def of_state(cls, state: bytes) -> Grouped:
        """Read what ``state`` returned; ConfigurationError if it is something else."""
        try:
            with np.load(io.BytesIO(state), allow_pickle=False) as kept:
                pairs = SimilarPairs.of(*unpacked(kept["pairs"]), kept["weights"])
                items = np.unique(np.concatenate([pairs.left, pairs.right]))
                representatives = kept["representatives"].astype(np.uint32)
                is_whole = (
                    int(kept["version"]) == STATE_VERSION
                    and representatives.shape == items.shape
                    and bool(np.isin(representatives, items).all())
                )
                farthest, least = map(float, kept["scale"])
                made = cls(
                    kept["settings"].tobytes(),
                    _GUARANTEES[str(kept["guarantee"])],
                    Scale(None if math.isnan(farthest) else farthest, least),
                    METHODS[str(kept["method"])],
                    Entities(
                        pairs,
                        SimilarPairs.between(*unpacked(kept["apart"])),
                        items,
                        representatives,
                        0,
                    ),
                    int(kept["before"]),
                )
        except (
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            OSError,
            EOFError,
            BadZipFile,
            RuntimeError,  # of an archive that is said to be locked, or packed in an unknown way
            zlib.error,
            struct.error,
        ) as error:
            raise ConfigurationError(NOT_A_STATE) from error
        if not is_whole:
            raise ConfigurationError(NOT_A_STATE)
        return made


def numbers_of(
    left: Opened, right: Opened, apart: Iterable[tuple[Key, Key]]
) -> tuple[UInt32s, UInt32s]:
    """Return the item numbers of pairs of keys, left and right.

    Raises:
        KeyNotFoundError: a key is not stored.
        ConfigurationError: an item is said to be never the same as itself.
        WrongTypeError: something is no pair.
    """
    found = []
    for pair in apart:
        if isinstance(pair, str | bytes) or not can_be_iterated(pair):
            raise WrongTypeError(f"apart must be pairs of keys, not {short(pair)}")
        keys = tuple(pair)
        if len(keys) != 2:
            raise WrongTypeError(f"apart must be pairs of keys, not {short(pair)}")
        found.append([number_of(side, key) for side, key in zip((left, right), keys, strict=True)])
        if left is right and found[-1][0] == found[-1][1]:
            raise ConfigurationError(f"{keys[0]!r} cannot be kept apart from itself")
    numbers = np.array(found, np.uint32).reshape(-1, 2)
    return numbers[:, 0], numbers[:, 1]


def assigned(
    method: Method, left: Opened, right: Opened, apart: Iterable[tuple[Key, Key]]
) -> Iterator[AnsweredBatch]:
    """Yield the pairs of a join in which each item is once at most: one batch, by left item."""
    never = SimilarPairs.packed_of(*numbers_of(left, right, apart))
    scale = Scale.of(method, right.settings.kind)
    batch = _held(right, answered(method, left, right, method.join(left, right)))
    allowed = np.isin(SimilarPairs.packed_of(batch.left, batch.right), never, invert=True)
    batch = batch.select(np.flatnonzero(allowed))
    chosen = one_to_one(batch.left, batch.right, scale.weights(batch))
    yield batch.select(chosen), lookups(left, right), None


def grouped(
    method: Method,
    opened: Opened,
    clusters: Clusters,
    apart: Iterable[tuple[Key, Key]],
    *,
    earlier: Groups | bytes | None = None,
    progress: ProgressCallback | None = None,
) -> Grouped:
    """Make the entities of a collection, or go on from earlier ones with the pairs of new items.

    Raises:
        ConfigurationError: the earlier ones are of another collection or made otherwise; or there
            is no room.
    """
    kind, reader = opened.settings.kind, opened.reader
    scale = Scale.of(method, kind)
    # Of another history numbers may mean other items.
    settings = reader.transaction.environment.history + opened.settings.identity
    never = SimilarPairs.between(*numbers_of(opened, opened, apart))
    guarantee = method.promise(kind)
    since, pairs, before = 0, SimilarPairs.none(), None
    if earlier is not None:
        if not isinstance(earlier, Groups | bytes):
            raise WrongTypeError(
                "earlier must be the groups of an earlier call or their state(), not "
                f"{type(earlier).__name__}"
            )
        made = Grouped.of_state(earlier) if isinstance(earlier, bytes) else earlier.made
        own = settings, scale, clusters
        if not isinstance(made, Grouped) or (made.settings, made.scale, made.method) != own:
            raise ConfigurationError(
                "the earlier groups are not from this collection, bound and method, or from before "
                "it was rebuilt with other settings or the store loaded, repaired or restored, or "
                "hold no pairs, like groups that chain: ask for all anew without them"
            )
        if made.guarantee != guarantee:
            raise ConfigurationError(
                f"the earlier groups were found with guarantee={made.guarantee!r}, and these would "
                f"be with {guarantee!r}: ask for the same, or for all anew without earlier"
            )
        if made.before > reader.manifest.next_number:
            raise ConfigurationError("the earlier groups come from a later state of the collection")
        since, before = made.before, made.entities
        live = reader.live_numbers()
        pairs = before.pairs.select(
            np.isin(before.pairs.left, live) & np.isin(before.pairs.right, live)
        )
    told = _told(
        answered(method, opened, opened, method.pairs(opened, since=since)), opened, progress
    )
    batch = _held(opened, told, len(pairs.left))
    pairs = pairs.plus(SimilarPairs(batch.left, batch.right, scale.weights(batch)))
    clustering = Clustering(clusters, scale.least, opened.resources.memory // SHARE_OF_CELLS)
    entities = cluster(pairs, never, clustering, before)
    return Grouped(settings, guarantee, scale, clusters, entities, reader.manifest.next_number)


def groups(made: Grouped, method: Method, opened: Opened) -> Groups:
    """Return entities as an answer, with the keys of their items."""
    entities, kind = made.entities, opened.settings.kind
    found = entities.groups()
    keys = keys_of_numbers(opened.reader, np.concatenate([np.empty(0, np.uint32), *found]))
    ends = np.cumsum([0, *map(len, found)]).tolist()
    wrong = entities.contradictions
    return Groups(
        [keys[begin:end] for begin, end in pairwise(ends)],
        method.promise(kind),
        method.recall,
        opened.work.looked_at,
        method=made.method,
        objective=entities.cost if made.method == "correlation" else None,
        contradictions=[
            Pair(left, right, *made.scale.measured(weight))
            for left, right, weight in zip(
                keys_of_numbers(opened.reader, wrong.left),
                keys_of_numbers(opened.reader, wrong.right),
                wrong.weights.tolist(),
                strict=True,
            )
        ],
        made=made,
        metadata=metadata_of_groups(opened, found),
        of_numbers=opened.has_number_keys,
    )


def _told(
    batches: Iterator[AnsweredBatch], opened: Opened, progress: ProgressCallback | None
) -> Iterator[AnsweredBatch]:
    """Yield batches, and tell after each how many pairs were looked at."""
    for batch in batches:
        yield batch
        if progress is not None:
            progress(Progress("comparing", opened.work.looked_at, None))


def _held(opened: Opened, batches: Iterator[AnsweredBatch], others: int = 0) -> PairBatch:
    """Return all pairs in one batch.

    Raises:
        ConfigurationError: they, and ``others`` that are held already, have no room in memory.
    """
    most = opened.resources.memory // BYTES_A_PAIR
    parts = [PairBatch(np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0))]
    held = others
    for batch, _, _ in batches:
        parts.append(batch)
        held += len(batch)
        if held > most:
            raise ConfigurationError(
                f"there are more than the {most:,} pairs that have room in memory, and what is "
                "decided about one depends on all of them; a stricter bound finds fewer",
                remedies=[Remedy("memory", ..., "makes room for more", "simdb.open")],
            )
    return PairBatch.together(parts)

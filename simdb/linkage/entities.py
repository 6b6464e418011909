"""Entities: the groups of all items, and the pairs they come from, to go on from.

Each component of the graph of pairs is clustered by itself. So pairs that come later, or go since
an item was deleted, change the groups of the components that they touch and of no other:
``cluster`` with the earlier entities takes over all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simdb.arrays import Bools, Float64s, Int64s, UInt32s, UInt64s
from simdb.errors import ConfigurationError, Remedy
from simdb.forest import Forest
from simdb.linkage.clusters import WAYS, Component, Method, cost


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Pairs of items by number.

    Attributes:
        left, right: uint32, ``left < right``; each pair once, ascending.
        weights: float64.
    """

    left: UInt32s
    right: UInt32s
    weights: Float64s

    @classmethod
    def of(cls, left: UInt32s, right: UInt32s, weights: Float64s) -> SimilarPairs:
        """Put pairs of any order into theirs; of one that is there twice the first is kept."""
        packed = cls.packed_of(np.minimum(left, right), np.maximum(left, right))
        distinct, firsts = np.unique(packed, return_index=True)
        return cls(*unpacked(distinct), weights[firsts])

    @classmethod
    def between(cls, left: UInt32s, right: UInt32s) -> SimilarPairs:
        """Return pairs of which the weight means nothing."""
        return cls.of(left, right, np.zeros(left.size))

    @classmethod
    def none(cls) -> SimilarPairs:
        """Return no pairs."""
        return cls(np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0))

    @staticmethod
    def packed_of(left: UInt32s, right: UInt32s) -> UInt64s:
        """Return each pair as one number."""
        return (left.astype(np.uint64) << np.uint64(32)) | right

    @property
    def packed(self) -> UInt64s:
        """Each pair as one number, ascending."""
        return self.packed_of(self.left, self.right)

    def select(self, chosen: Bools) -> SimilarPairs:
        """Return some of the pairs."""
        return SimilarPairs(self.left[chosen], self.right[chosen], self.weights[chosen])

    def plus(self, other: SimilarPairs) -> SimilarPairs:
        """Return the pairs of both."""
        return SimilarPairs.of(
            np.concatenate([self.left, other.left]),
            np.concatenate([self.right, other.right]),
            np.concatenate([self.weights, other.weights]),
        )


def unpacked(packed: UInt64s) -> tuple[UInt32s, UInt32s]:
    """Return the left and right items of pairs that are one number each."""
    return (packed >> np.uint64(32)).astype(np.uint32), packed.astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Clustering:
    """How pairs are clustered.

    Attributes:
        method: which of ``WAYS``.
        least: the weight of two items just within the bound.
        room: bytes of memory that the cells of one component may take.
    """

    method: Method
    least: float
    room: int


@dataclass(frozen=True, slots=True)
class Entities:
    """The groups of all items that are in a pair.

    Attributes:
        pairs: all that were found.
        apart: what is never the same, as pairs of numbers.
        items: those of the pairs, ascending.
        representatives: of each item, the number of the item that stands for its group: the centre
            of a star, else the first of the group.
        renewed: how many components of three items or more were clustered for this, and not taken
            over from earlier entities.
    """

    pairs: SimilarPairs
    apart: SimilarPairs
    items: UInt32s
    representatives: UInt32s
    renewed: int

    @property
    def contradictions(self) -> SimilarPairs:
        """The pairs of items that are similar and said to be never the same."""
        return self.pairs.select(np.isin(self.pairs.packed, self.apart.packed))

    @property
    def cost(self) -> float:
        """What ``correlation`` makes low; see ``clusters.cost``."""
        pairs = self.pairs.select(~np.isin(self.pairs.packed, self.apart.packed))
        left, right = (np.searchsorted(self.items, side) for side in (pairs.left, pairs.right))
        return cost(left, right, pairs.weights, self.representatives.astype(np.int64))

    def groups(self) -> list[UInt32s]:
        """List the groups of two items or more, by their first items.

        Each begins with its representative; the others ascend.
        """
        _, firsts, places, counts = np.unique(
            self.representatives, return_index=True, return_inverse=True, return_counts=True
        )
        several = np.flatnonzero(counts[places] > 1)
        if not several.size:
            return []
        first = firsts[places[several]]  # the place of the first item of each one's group
        follows = self.items[several] != self.representatives[several]
        order = np.lexsort((several, follows, first))
        cuts = np.flatnonzero(np.diff(first[order])) + 1
        return np.split(self.items[several[order]], cuts)


def cluster(
    pairs: SimilarPairs,
    apart: SimilarPairs,
    clustering: Clustering,
    earlier: Entities | None = None,
) -> Entities:
    """Make the entities of pairs.

    Args:
        pairs: all of them, of which each weighs ``least`` or more.
        apart: what is never the same; their weights mean nothing.
        clustering: how.
        earlier: entities of the same items by the same clustering, of which the groups of all
            components are taken over in which no pair is new or gone.

    Raises:
        ConfigurationError: a component takes more than its room.
    """
    items = np.unique(np.concatenate([pairs.left, pairs.right]))
    allowed = ~np.isin(pairs.packed, apart.packed)
    left, right = (np.searchsorted(items, side[allowed]) for side in (pairs.left, pairs.right))
    forest = Forest(items.size)
    forest.connect(left, right)
    labels = forest.labels()
    # What is alone or one of two is in the group of its first item, as all are that chain.
    _, firsts = np.unique(labels, return_index=True)
    representatives = firsts[labels]
    inner = np.isin(apart.left, items) & np.isin(apart.right, items)
    one, other = (np.searchsorted(items, side[inner]) for side in (apart.left, apart.right))
    inner = labels[one] == labels[other]
    never = np.stack([one[inner], other[inner]], axis=1)
    sizes = np.bincount(labels)
    wanted = sizes > 2
    if clustering.method == "chain":
        wanted &= np.bincount(labels[never[:, 0]], minlength=sizes.size) > 0
    if earlier is not None:
        same = ~np.isin(np.arange(sizes.size), labels[_changed(items, pairs, apart, earlier)])
        known = same[labels] & (sizes[labels] > 2)
        before = earlier.representatives[np.searchsorted(earlier.items, items[known])]
        representatives[known] = np.searchsorted(items, before)
        wanted &= ~same
    whole = _Whole(labels, left, right, pairs.weights[allowed], never)
    for members, part in whole.parts(wanted, clustering):
        representatives[members] = members[WAYS[clustering.method].cluster(part)]
    return Entities(pairs, apart, items, items[representatives], int(wanted.sum()))


def _changed(items: UInt32s, pairs: SimilarPairs, apart: SimilarPairs, earlier: Entities) -> Int64s:
    """Return the places of items of which a pair, or what they must not be, is new or gone."""
    packed = np.concatenate(
        [
            np.setxor1d(now.packed, before.packed, assume_unique=True)
            for now, before in ((pairs, earlier.pairs), (apart, earlier.apart))
        ]
    )
    return np.flatnonzero(np.isin(items, np.concatenate(unpacked(packed))))


@dataclass(frozen=True, slots=True)
class _Whole:
    """A graph of pairs and what is never the same, by the places of items, with components."""

    labels: Int64s
    left: Int64s
    right: Int64s
    weights: Float64s
    never: Int64s

    def parts(self, wanted: Bools, clustering: Clustering) -> Iterator[tuple[Int64s, Component]]:
        """Yield the components that are wanted: the places of their items, and what they are."""
        items = _Runs(self.labels)
        pairs, never = _Runs(self.labels[self.left]), _Runs(self.labels[self.never[:, 0]])
        within = np.empty(self.labels.size, np.int64)
        within[items.order] = np.arange(self.labels.size) - items.begins[self.labels[items.order]]
        for label in np.flatnonzero(wanted).tolist():
            members, own = items.of(label), pairs.of(label)
            _require_room(members.size, clustering)
            yield (
                members,
                Component(
                    members.size,
                    within[self.left[own]],
                    within[self.right[own]],
                    self.weights[own],
                    within[self.never[never.of(label)]],
                    clustering.least,
                ),
            )


class _Runs:
    """The places of what has the same label, ascending.

    Attributes:
        order: all places, by label.
        begins: where in ``order`` those of a label begin.
    """

    def __init__(self, labels: Int64s) -> None:
        self.order = np.argsort(labels, kind="stable")
        counts = np.bincount(labels)
        self.begins = np.append(0, np.cumsum(counts))

    def of(self, label: int) -> Int64s:
        """Return the places of one label."""
        if label + 1 >= self.begins.size:
            return self.order[:0]
        return self.order[self.begins[label] : self.begins[label + 1]]


def _require_room(size: int, clustering: Clustering) -> None:
    """Raise unless the cells of a component have room."""
    needed = WAYS[clustering.method].bytes_a_cell * size**2
    if needed > clustering.room:
        raise ConfigurationError(
            f"{size:,} items are connected by pairs: to cluster them by {clustering.method!r} "
            f"takes {needed:,} bytes, and there are {clustering.room:,}; a stricter bound connects "
            "fewer",
            remedies=[Remedy("method", "star", "takes no more memory than the pairs themselves")],
        )

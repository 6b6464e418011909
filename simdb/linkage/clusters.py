"""Ways to cluster what pairs connect, so that groups do not chain.

Each takes one component: items that pairs connect. That two of its items are no pair means that
they are less alike than the bound, or were not found; how much less is not known.

===============  =================================================================================
``chain``        connected is together: a is like b and b like c, whatever a and c are
``star``         each item is within the bound of the centre of its group
``average``      groups are joined as long as their items are within the bound on average
``correlation``  few pairs are apart and few that are no pairs together, by weight
===============  =================================================================================

All of them keep apart what is said never to be the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from simdb.arrays import Bools, Float64s, Int64s
from simdb.extras import of_extra

Method: TypeAlias = Literal["chain", "star", "average", "correlation"]

_ROUNDING = 1e-9  # a sum of weights is rounded: differences below this are none


@dataclass(frozen=True, slots=True)
class Component:
    """Items that pairs connect; all else names them by their places, from 0, in their order.

    Attributes:
        size: how many items.
        left, right: of each pair, ``left < right``; each pair once, ascending.
        weights: of each pair, at least ``least`` and at most 1.
        apart: (n, 2), the items that are never the same; none of them is a pair.
        least: the weight of two items just within the bound.
    """

    size: int
    left: Int64s
    right: Int64s
    weights: Float64s
    apart: Int64s
    least: float


def chain(part: Component) -> Int64s:
    """Join connected items, the most alike first, unless that joined what is never the same.

    Kruskal's algorithm, which of two chains that must not meet breaks the weaker link.
    """
    groups = _Groups(part)
    for place in np.lexsort((part.right, part.left, -part.weights)).tolist():
        groups.join(int(part.left[place]), int(part.right[place]))
    return _by_first(np.array(groups.group_of))


def star(part: Component) -> Int64s:
    """Give each item to a centre that it is a pair with, the centre that it is most like.

    Centres are chosen one after the other: of the items that are no pair with one before, the one
    with the largest sum of weights (of equal ones the earliest). What a centre cannot take, since
    it has something that is never the same, goes to the next centre, or is in a star of its own.

    Returns:
        The place of each item's centre.
    """
    strength = np.bincount(part.left, part.weights, part.size)
    strength += np.bincount(part.right, part.weights, part.size)
    rank = np.empty(part.size, np.int64)
    rank[np.lexsort((np.arange(part.size), -strength))] = np.arange(part.size)
    # The pairs of an item stand together, once by the left and once by the right one.
    by_right = np.argsort(part.right, kind="stable")
    earlier = _cut(part.left[by_right], part.right[by_right], part.size)
    later = _cut(part.right, part.left, part.size)
    groups = _Groups(part)
    is_left = np.ones(part.size, np.bool_)
    centre_of = np.arange(part.size)
    while is_left.any():
        centres = _centres(rank, (earlier, later), is_left)
        is_left &= ~centres
        left = np.flatnonzero(is_left[part.left] & centres[part.right])
        right = np.flatnonzero(is_left[part.right] & centres[part.left])
        items = np.concatenate([part.left[left], part.right[right]])
        wanted = np.concatenate([part.right[left], part.left[right]])
        weights = np.concatenate([part.weights[left], part.weights[right]])
        # The best first; then by the rank of the centre.
        order = np.lexsort((rank[wanted], -weights))
        for one, centre in zip(items[order].tolist(), wanted[order].tolist(), strict=True):
            if is_left[one] and groups.join(one, centre):
                is_left[one] = False
                centre_of[one] = centre
    return centre_of


def _cut(others: Int64s, items: Int64s, size: int) -> list[Int64s]:
    """Return of each of so many items what it is paired with, of pairs by rising item."""
    cuts = np.searchsorted(items, np.arange(size + 1)).tolist()
    return [others[begin:end] for begin, end in pairwise(cuts)]


def _centres(rank: Int64s, near: Sequence[Sequence[Int64s]], is_left: Bools) -> Bools:
    """Choose centres among what is left: each in turn, unless it is a pair with one before."""
    centres = np.zeros(rank.size, np.bool_)
    taken = ~is_left
    for one in np.argsort(rank).tolist():
        if not taken[one]:
            centres[one] = True
            for side in near:
                taken[side[one]] = True
    return centres


def average(part: Component) -> Int64s:
    """Join the two groups that are most alike on average, as long as that is within the bound.

    Items that are no pair count as 0, the least that they may be alike.
    """
    with of_extra("statistics", "clustering by the average needs"):
        from scipy.cluster.hierarchy import fcluster, linkage

    def place(one: Int64s, other: Int64s) -> Int64s:
        return one * part.size - one * (one + 1) // 2 + other - one - 1

    apart_by = np.ones(part.size * (part.size - 1) // 2)
    apart_by[place(part.left, part.right)] = 1.0 - part.weights
    # So far that it is beyond the bound in the average of all pairs, too.
    apart_by[place(part.apart[:, 0], part.apart[:, 1])] = float(part.size) ** 2
    tree = linkage(apart_by, "average")
    groups = fcluster(tree, 1.0 - part.least + _ROUNDING, "distance")
    return _by_first(groups.astype(np.int64))


def correlation(part: Component) -> Int64s:
    """Cluster at a low cost: the weights of pairs apart, and 1 for each non-pair together.

    Pivots first, which are the stars; then single items move, and groups are joined, wherever that
    lowers the cost. The result is a local optimum: no such step lowers it further.
    """
    gains = np.full((part.size, part.size), -1.0)
    gains[part.left, part.right] = gains[part.right, part.left] = part.weights
    never = -(float(part.size) ** 2)
    gains[part.apart[:, 0], part.apart[:, 1]] = gains[part.apart[:, 1], part.apart[:, 0]] = never
    np.fill_diagonal(gains, 0.0)
    groups = star(part)
    while _moved(gains, groups) or _joined(gains, groups):
        pass
    return _by_first(groups)


def _moved(gains: Float64s, groups: Int64s) -> bool:
    """Move each item to the group where it gains most, or to one of its own; tell if any moved."""
    moved = False
    for one, gain in enumerate(gains):
        with_each = np.bincount(groups, gain, groups.size)
        # With an item that gains less than 0 where it is, some group is empty: there it gains 0.
        best = int(np.argmax(with_each))
        if with_each[best] > with_each[groups[one]] + _ROUNDING:
            groups[one] = best
            moved = True
    return moved


def _joined(gains: Float64s, groups: Int64s) -> bool:
    """Join the two groups that gain most by it; tell if any do."""
    names, places = np.unique(groups, return_inverse=True)
    between = np.zeros((names.size, groups.size))
    np.add.at(between, places, gains)
    table = np.stack([np.bincount(places, row, names.size) for row in between])
    np.fill_diagonal(table, 0.0)
    one, other = np.unravel_index(int(np.argmax(table)), table.shape)
    if table[one, other] <= _ROUNDING:
        return False
    groups[places == other] = names[one]
    return True


class Way(NamedTuple):
    """A method, and the bytes of memory that it takes for each two items of a component."""

    cluster: Callable[[Component], Int64s]
    bytes_a_cell: int


WAYS: dict[Method, Way] = {
    "chain": Way(chain, 0),
    "star": Way(star, 0),
    "average": Way(average, 16),
    "correlation": Way(correlation, 32),
}


def cost(left: Int64s, right: Int64s, weights: Float64s, groups: Int64s) -> float:
    """Compute the cost of a clustering, which ``correlation`` makes low.

    The weights of the pairs that are apart, and 1 for each two items together that are no pair.

    Args:
        left, right, weights: all pairs, without those that must be apart.
        groups: of each item, whatever names its group.
    """
    together = groups[left] == groups[right]
    sizes = np.unique_counts(groups).counts
    inside = int((sizes * (sizes - 1) // 2).sum())
    return math.fsum(weights[~together].tolist()) + inside - int(together.sum())


class _Groups:
    """Groups that are joined unless that joined what is never the same."""

    def __init__(self, part: Component) -> None:
        self.group_of = list(range(part.size))
        self._members = [[place] for place in self.group_of]
        self._enemies: dict[int, set[int]] = {}
        for one, other in part.apart.tolist():
            self._enemies.setdefault(one, set()).add(other)
            self._enemies.setdefault(other, set()).add(one)

    def join(self, one: int, other: int) -> bool:
        """Join the groups of two items; tell whether they are one now."""
        small, large = sorted(
            (self.group_of[one], self.group_of[other]), key=lambda group: len(self._members[group])
        )
        if small == large:
            return True
        if self._enemies and not self._may_meet(self._members[small], large):
            return False
        for member in self._members[small]:
            self.group_of[member] = large
        self._members[large] += self._members[small]
        self._members[small] = []
        return True

    def _may_meet(self, members: Iterable[int], group: int) -> bool:
        return not any(
            self.group_of[enemy] == group
            for member in members
            for enemy in self._enemies.get(member, ())
        )


def _by_first(groups: Int64s) -> Int64s:
    """Name each item's group by the place of its first item."""
    _, firsts, places = np.unique(groups, return_index=True, return_inverse=True)
    return firsts[places]

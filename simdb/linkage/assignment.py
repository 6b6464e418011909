"""One to one: each left item gets at most one right item, and each right one at most one left.

What is chosen is a matching of maximum weight: no other choice of pairs that uses every item once
at most has a larger sum of weights. Components of the graph of pairs do not know of each other. One
that has a single item on either side takes its best pair; all others go to the solver of scipy, a
sparse form of the algorithm of Jonker and Volgenant (Computing 38, 1987), many at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.errors import ConfigurationError
from simdb.extras import of_extra
from simdb.forest import Forest

# Weights are counted in units of 2^-32: sums of half a million of them are exact in floats, so
# that what is equal stays equal, and no order of adding decides.
UNITS = 2.0**32
SOLVED_AT_ONCE = 1_024  # items; the solver takes a step for each of them for every left item
MOST_STEPS = 2 * 10**10  # of the solver in one component: about a minute


def one_to_one(
    left: UInt32s, right: UInt32s, weights: Float64s, *, most_steps: int | None = None
) -> Int64s:
    """Choose pairs of maximum total weight in which no item of a side is twice; see ``Choice``."""
    return Choice(left, right, most_steps=most_steps).heaviest(weights)


class Choice:
    """Pairs to choose from one to one, as often as they get other weights.

    Args:
        left, right: items of either side by number; each pair once.
        most_steps: of the solver in one component; by default ``MOST_STEPS``.

    Raises:
        ConfigurationError: a component has too many items to be solved.
    """

    def __init__(self, left: UInt32s, right: UInt32s, *, most_steps: int | None = None) -> None:
        lefts, self._rows = np.unique(left, return_inverse=True)
        rights, columns = np.unique(right, return_inverse=True)
        forest = Forest(lefts.size + rights.size)
        forest.connect(self._rows, columns + lefts.size)
        labels = forest.labels()
        count = int(labels.max(initial=-1)) + 1
        ends = np.split(labels, [lefts.size])
        sides = np.stack([np.bincount(side, minlength=count) for side in ends])
        own = labels[self._rows]
        order = np.lexsort((columns, self._rows, own))  # by component, the earliest items first
        is_star = (sides.min(axis=0, initial=2) == 1)[own[order]]
        self._in_stars, remaining = order[is_star], order[~is_star]
        self._stars = np.flatnonzero(np.diff(own[self._in_stars], prepend=-1))
        self._parts = [
            _Part.of(remaining[part], self._rows, columns)
            for part in _parts(own[remaining], sides, most_steps or MOST_STEPS)
        ]

    def heaviest(self, weights: Float64s) -> Int64s:
        """Return the places of the pairs that are chosen, by ascending left item.

        The order of the pairs makes no difference: of several best choices it is always the same
        one, and between two items that are equally alike to a third the earlier one is chosen.

        Args:
            weights: of the pairs, above 0, at most 1; differences below 2^-32 do not count.
        """
        units = np.rint(weights * UNITS)
        chosen = [part.places[part.solved(units[part.places])] for part in self._parts]
        if self._stars.size:
            in_stars = units[self._in_stars]
            most = np.maximum.reduceat(in_stars, self._stars)
            sizes = np.diff(self._stars, append=in_stars.size)
            best = np.flatnonzero(in_stars == np.repeat(most, sizes))
            chosen.append(self._in_stars[best[np.searchsorted(best, self._stars)]])
        found = np.concatenate([np.empty(0, np.int64), *chosen])
        return found[np.argsort(self._rows[found])]


def _parts(own: Int64s, sides: Int64s, most_steps: int) -> list[slice]:
    """Cut pairs, which stand by component, into runs of whole components for the solver."""
    begins = np.flatnonzero(np.diff(own, prepend=-1))
    ends = np.append(begins[1:], own.size)
    sizes = sides[:, own[begins]].sum(axis=0)
    steps = sides[0, own[begins]] * (ends - begins + sizes)
    if steps.size and steps.max() > most_steps:
        raise ConfigurationError(
            f"{sizes[steps.argmax()]:,} items are connected by pairs, too many for a one-to-one "
            "choice; a stricter bound connects fewer"
        )
    # A part ends before the component with which it would be too large.
    parts, first, filled = [], 0, 0
    for place, size in enumerate(sizes.tolist()):
        if filled and filled + size > SOLVED_AT_ONCE:
            parts.append(slice(int(begins[first]), int(begins[place])))
            first, filled = place, 0
        filled += size
    return [*parts, slice(int(begins[first]), own.size)] if filled else parts


class _Part(NamedTuple):
    """Some pairs as the rows of a sparse matrix, which the solver takes.

    It gives each row a column, so each has a column more that only it may have, which stands for
    none and is its last.
    """

    places: Int64s  # of the pairs, by row and column
    row: Int64s  # of each pair
    column: Int64s
    cells: Int64s  # where the pairs stand among the cells of the matrix
    indices: Int64s
    bounds: Int64s

    @classmethod
    def of(cls, places: Int64s, rows: Int64s, columns: Int64s) -> _Part:
        places = places[np.lexsort((columns[places], rows[places]))]
        lefts, row = np.unique(rows[places], return_inverse=True)
        rights, column = np.unique(columns[places], return_inverse=True)
        cells = np.arange(row.size) + row
        bounds = np.append(0, np.cumsum(np.bincount(row) + 1))
        indices = np.empty(bounds[-1], np.int64)
        indices[cells] = column
        indices[bounds[1:] - 1] = rights.size + np.arange(lefts.size)
        return cls(places, row, column, cells, indices, bounds)

    def solved(self, units: Float64s) -> Int64s:
        """Return which pairs are a best choice."""
        with of_extra("statistics", "choosing one to one needs"):
            from scipy.sparse import csr_array
            from scipy.sparse.csgraph import min_weight_full_bipartite_matching

        without = UNITS + 1.0  # the cost of none; costs must be above 0
        costs = np.full(self.indices.size, without)
        costs[self.cells] -= units
        lefts = self.bounds.size - 1
        shape = lefts, int(self.indices[-1]) + 1
        matrix = csr_array((costs, self.indices, self.bounds), shape)
        matched, given = min_weight_full_bipartite_matching(matrix)
        partners = np.empty(lefts, np.int64)
        partners[matched] = given
        return np.flatnonzero(partners[self.row] == self.column)

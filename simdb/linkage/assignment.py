"""One to one: each left item gets at most one right item, and each right one at most one left.

What is chosen is a matching of maximum weight: no other choice of pairs that uses every item once
at most has a larger sum of weights. Components of the graph of pairs do not know of each other. One
that has a single item on either side takes its best pair; all others go to the solver of scipy, a
sparse form of the algorithm of Jonker and Volgenant (Computing 38, 1987), many at once.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.errors import ConfigurationError

# Weights are counted in units of 2^-32: sums of half a million of them are exact in floats, so
# that what is equal stays equal, and no order of adding decides.
UNITS = 2.0**32
SOLVED_AT_ONCE = 1_024  # items; the solver takes a step for each of them for every left item
MOST_STEPS = 2 * 10**10  # of the solver in one component: about a minute


def one_to_one(
    left: UInt32s, right: UInt32s, weights: Float64s, *, most_steps: int | None = None
) -> Int64s:
    """Choose pairs of maximum total weight in which no item of a side is twice.

    The order of the pairs makes no difference: of several best choices it is always the same one,
    and between two items that are equally alike to a third the earlier one is chosen.

    Args:
        left, right: items of either side by number; each pair once.
        weights: above 0, at most 1; differences below 2^-32 do not count.
        most_steps: of the solver in one component; by default ``MOST_STEPS``.

    Returns:
        The places of the pairs that are chosen, by ascending left item.

    Raises:
        ConfigurationError: a component has too many items to be solved.
    """
    if not left.size:
        return np.empty(0, np.int64)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    lefts, rows = np.unique(left, return_inverse=True)
    rights, columns = np.unique(right, return_inverse=True)
    nodes = lefts.size + rights.size
    graph = coo_array((np.ones(rows.size, np.int8), (rows, columns + lefts.size)), (nodes, nodes))
    count, labels = connected_components(graph, directed=False)
    ends = np.split(labels, [lefts.size])
    sides = np.stack([np.bincount(side, minlength=count) for side in ends])
    own = labels[rows]
    units = np.rint(weights * UNITS)
    # By component, the best pair first, of equal ones that of the earliest items.
    order = np.lexsort((columns, rows, -units, own))
    begins = np.flatnonzero(np.diff(own[order], prepend=-1))
    is_star = sides.min(axis=0) == 1
    chosen = [order[begins[is_star]]]
    remaining = np.sort(order[~is_star[own[order]]])
    remaining = remaining[np.lexsort((columns[remaining], rows[remaining], own[remaining]))]
    for part in _parts(own[remaining], sides, most_steps or MOST_STEPS):
        places = remaining[part]
        chosen.append(places[_solved(rows[places], columns[places], units[places])])
    found = np.concatenate(chosen)
    return found[np.argsort(rows[found])]


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


def _solved(rows: Int64s, columns: Int64s, units: Float64s) -> Int64s:
    """Return the places of the pairs of a best choice.

    The solver gives each row a column, so each gets a column more that only it may have, which
    stands for none.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    lefts, row = np.unique(rows, return_inverse=True)
    rights, column = np.unique(columns, return_inverse=True)
    alone = np.arange(lefts.size)
    without = UNITS + 1.0  # the cost of none; costs must be above 0
    costs = np.concatenate([without - units, np.full(lefts.size, without)])
    at = (np.concatenate([row, alone]), np.concatenate([column, rights.size + alone]))
    matrix = coo_array((costs, at), (lefts.size, rights.size + lefts.size)).tocsr()
    matched, given = min_weight_full_bipartite_matching(matrix)
    partners = np.empty(lefts.size, np.int64)
    partners[matched] = given
    return np.flatnonzero(partners[row] == column)

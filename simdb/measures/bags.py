"""Jaccard similarity of bags in both definitions (MMDS 3.1.3 and its footnote).

A bag in which an element occurs n times is the set of the symbols (element, 1) to (element, n).
The overlap o of two such *expanded* sets of the sizes s and t is the intersection of the bags, each
element counted as often as in the bag that has fewer of it. Then

- with the *larger* count in the union, the similarity of the bags is the Jaccard similarity
  J = o / (s + t - o) of the expanded sets;
- with the *sum* of the counts, it is S = o / (s + t), which is at most 1/2, and
  J = S / (1 - S), S = J / (1 + J). Both grow with each other, so that an index, a plan or a bound
  for J serves S.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from simdb.errors import ConfigurationError
from simdb.measures.compared import Compared
from simdb.measures.sets import SetMeasure

LARGEST_SUM = Fraction(1, 2)


def jaccard_of_sum(similarity: Fraction) -> Fraction:
    """Return the Jaccard similarity of the expanded sets, S / (1 - S), for a sum similarity S.

    Exact, and the inverse of ``sum_of_jaccard``.

    Raises:
        ConfigurationError: it is not between 0 and 1/2, beyond which no two bags are similar.

    >>> jaccard_of_sum(Fraction(1, 3))
    Fraction(1, 2)
    """
    if not 0 <= similarity <= LARGEST_SUM:
        raise ConfigurationError(
            "a similarity of bags whose union adds up the counts must lie between 0 and 1/2, not "
            f"be {_shown(similarity)}: a bag has 1/2 to itself; with union='maximum' it is up to 1"
        )
    return similarity / (1 - similarity)


def sum_of_jaccard(similarity: Fraction) -> Fraction:
    """Return the sum similarity J / (1 + J) for a Jaccard similarity J of the expanded sets.

    >>> sum_of_jaccard(Fraction(1))
    Fraction(1, 2)
    """
    return similarity / (1 + similarity)


def _shown(value: Fraction) -> str:
    return str(float(value)) if Fraction(str(float(value))) == value else str(value)


class BagMeasure(SetMeasure):
    """Compare bags by their expanded sets, exactly.

    Args:
        union: ``"sum"`` adds the counts of an element up (MMDS 3.1.3), ``"maximum"`` takes the
            larger (its footnote).
    """

    def __init__(self, union: Literal["sum", "maximum"]) -> None:
        self._sums = union == "sum"

    def jaccard(self, similarity: Fraction) -> Fraction:
        """Return the Jaccard similarity of the expanded sets of bags that similar.

        Raises:
            ConfigurationError: no bags are so similar: above 1/2 where the union is the sum.
        """
        return jaccard_of_sum(similarity) if self._sums else super().jaccard(similarity)

    def similarity(self, jaccard: Fraction) -> Fraction:
        """Return the similarity of bags whose expanded sets have a Jaccard similarity."""
        return sum_of_jaccard(jaccard) if self._sums else super().similarity(jaccard)

    def _compared(
        self, overlaps: npt.NDArray[np.int64], total_sizes: npt.NDArray[np.int64]
    ) -> Compared:
        if self._sums:
            return Compared(overlaps, total_sizes)
        return super()._compared(overlaps, total_sizes)

"""Distances of MMDS 3.5 between any two sets and any two sequences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction


def jaccard_distance(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> Fraction:
    """Compute 1 minus the Jaccard similarity; 0 for two empty sets, which are equal (MMDS 3.5.3).

    >>> jaccard_distance({1, 2, 3, 4}, {2, 3, 4, 5})
    Fraction(2, 5)
    """
    if not left and not right:
        return Fraction(0)
    return 1 - Fraction(len(left & right), len(left | right))


def hamming_distance(left: Sequence[object], right: Sequence[object]) -> int:
    """Count the components in which two vectors of anything differ (MMDS 3.5.6).

    Raises:
        ValueError: they have different lengths.

    >>> hamming_distance("10101", "11110")
    3
    """
    return sum(one != other for one, other in zip(left, right, strict=True))

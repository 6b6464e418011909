"""Similarities of sets and bags as fractions, the obvious way (MMDS 3.1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Any


def jaccard(left: Iterable[Hashable], right: Iterable[Hashable]) -> Fraction:
    """Compute the Jaccard similarity of sets: common elements among all (MMDS 3.1.1).

    Two empty sets have no elements to share: 0.

    >>> jaccard({1, 2, 3}, {2, 3, 4})
    Fraction(1, 2)
    """
    one, other = set(left), set(right)
    return _ratio(len(one & other), len(one | other))


def dice(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> Fraction:
    """Compute the Dice similarity: twice the common elements among both sizes added."""
    return _ratio(2 * len(left & right), len(left) + len(right))


def cosine(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> float:
    """Compute the cosine of two sets as 0/1 vectors: common elements by the sizes' mean root."""
    common = len(left & right)
    return common / math.sqrt(len(left) * len(right)) if common else 0.0


def containment(inner: AbstractSet[Hashable], outer: AbstractSet[Hashable]) -> Fraction:
    """Compute the share of ``inner`` that ``outer`` has."""
    return _ratio(len(inner & outer), len(inner))


def overlap_coefficient(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> Fraction:
    """Compute the share of the smaller set that the larger has."""
    return _ratio(len(left & right), min(len(left), len(right)))


def bag_jaccard_of_sums(left: Iterable[Hashable], right: Iterable[Hashable]) -> Fraction:
    """Compute the Jaccard similarity of bags whose union adds up the counts (MMDS 3.1.3).

    It is at most 1/2: a bag has that similarity to itself.

    >>> bag_jaccard_of_sums("aaab", "aabbc")
    Fraction(1, 3)
    """
    one, other = Counter(left), Counter(right)
    return _ratio((one & other).total(), one.total() + other.total())


def bag_jaccard_of_maxima(left: Iterable[Hashable], right: Iterable[Hashable]) -> Fraction:
    """Compute the Jaccard similarity of bags whose union has the larger count (3.1.3, footnote)."""
    one, other = Counter(left), Counter(right)
    return _ratio((one & other).total(), (one | other).total())


def _ratio(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)


def weighted_jaccard(one: Mapping[Any, float], other: Mapping[Any, float]) -> Fraction:
    """The sum of smaller weights divided by the sum of larger ones; 0 of two empty sets."""
    elements = one.keys() | other.keys()
    pairs = [(_whole(one.get(each, 0.0)), _whole(other.get(each, 0.0))) for each in elements]
    return _ratio(sum(map(min, pairs)), sum(map(max, pairs)))


def _whole(weight: float) -> int:
    """How many of the smallest float it is, which every float is a multiple of."""
    numerator, denominator = float(weight).as_integer_ratio()
    return numerator << (1_075 - denominator.bit_length())

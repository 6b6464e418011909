"""Distances of MMDS 3.5 between two of anything, one pair or many at once.

Edit distances (3.5.5 and exercise 3.5.8) count code points, not letters as a reader sees them:
normalise first what may be composed in two ways. rapidfuzz computes them; it is imported on use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.arguments import short
from simdb.arrays import Float64s, Int64s
from simdb.errors import ConfigurationError

Components: TypeAlias = Sequence[float] | npt.NDArray[Any]
StringDistance: TypeAlias = Literal["edit", "levenshtein", "alignment", "damerau"]

_CLASSES = {
    "edit": "Indel",
    "levenshtein": "Levenshtein",
    "alignment": "OSA",
    "damerau": "DamerauLevenshtein",
    "common": "LCSseq",
    "winkler": "JaroWinkler",
}


def jaccard_distance(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> Fraction:
    """Compute 1 minus the Jaccard similarity; 0 for two empty sets, which are equal (MMDS 3.5.3).

    >>> jaccard_distance({1, 2, 3, 4}, {2, 3, 4, 5})
    Fraction(2, 5)
    """
    if not left and not right:
        return Fraction(0)
    return 1 - Fraction(len(left & right), len(left | right))


def hamming_distance(
    left: Sequence[object] | npt.NDArray[Any], right: Sequence[object] | npt.NDArray[Any]
) -> int:
    """Count the components in which two vectors of anything differ (MMDS 3.5.6).

    ValueError if they have different lengths.

    >>> hamming_distance("10101", "11110")
    3
    """
    _require_equally_many(left, right)
    return sum(one != other for one, other in zip(left, right, strict=True))


def lr_distance(left: Components, right: Components, order: float = 2) -> float:
    """Compute the distance by the Lr norm for r = ``order``, also ``math.inf`` (MMDS 3.5.2).

    Differences are scaled by the largest, so that no power overflows. nan if one of them is nan.
    ConfigurationError: r is below 1, where the triangle inequality fails; ValueError: different
    dimensions.

    >>> lr_distance([2, 7], [6, 4]), lr_distance([2, 7], [6, 4], 1)
    (5.0, 7.0)
    >>> lr_distance([2, 7], [6, 4], math.inf)
    4.0
    """
    if not order >= 1:
        raise ConfigurationError(f"for an Lr norm, r must be at least 1, not {short(order)}")
    _require_equally_many(left, right)
    differences = [abs(float(one) - float(other)) for one, other in zip(left, right, strict=True)]
    if any(map(math.isnan, differences)):
        return math.nan
    largest = max(differences, default=0.0)
    if largest in (0, math.inf) or math.isinf(order):
        return largest
    if order == 1:
        try:
            return math.fsum(differences)
        except OverflowError:
            return math.inf
    if order == 2:
        return math.hypot(*differences)
    powers = math.fsum((each / largest) ** order for each in differences)
    return float(largest * powers ** (1 / order))


def angle(left: Components, right: Components) -> float:
    """Compute the cosine distance: the angle between two vectors in degrees, 0 to 180 (MMDS 3.5.4).

    By half the angle's tangent, and not by the arc cosine, which is blind to small angles.
    nan if a component is nan. ValueError: the vectors have different dimensions, or one has no
    direction.

    >>> round(angle([1, 2, -1], [2, 1, 1]), 12)
    60.0
    """
    _require_equally_many(left, right)
    if any(math.isnan(a) or math.isnan(b) for a, b in zip(left, right, strict=True)):
        return math.nan
    pairs = list(zip(_unit(left), _unit(right), strict=True))
    apart = math.hypot(*(a - b for a, b in pairs))
    along = math.hypot(*(a + b for a, b in pairs))
    return math.degrees(2 * math.atan2(apart, along))


def _require_equally_many(
    left: Sequence[object] | npt.NDArray[Any], right: Sequence[object] | npt.NDArray[Any]
) -> None:
    if len(left) != len(right):
        raise ValueError(f"{len(left)} and {len(right)} components cannot be compared")


def _unit(vector: Components) -> list[float]:
    components = [float(component) for component in vector]
    largest = max(map(abs, components), default=0.0)
    if not 0 < largest < math.inf:
        raise ValueError(f"a vector whose largest component is {largest} has no direction")
    scaled = [component / largest for component in components]
    length = math.hypot(*scaled)
    return [component / length for component in scaled]


# -- of strings ----------------------------------------------------------------------------------


def _rapidfuzz() -> ModuleType:
    import rapidfuzz
    import rapidfuzz.distance
    import rapidfuzz.process

    return rapidfuzz


def _scorer(distance: str) -> Any:
    return getattr(_rapidfuzz().distance, _CLASSES[distance])


def longest_common_subsequence(left: str, right: str) -> int:
    """Compute the length of the longest string that both become by deleting (MMDS 3.5.5).

    >>> longest_common_subsequence("abcde", "acfdeg")
    4
    """
    return int(_scorer("common").similarity(left, right))


def edit_distance(left: str, right: str) -> int:
    """Compute how many insertions and deletions turn one string into the other (MMDS 3.5.5).

    It is |left| + |right| - 2 * (length of their longest common subsequence); a distance measure.

    >>> edit_distance("abcde", "acfdeg")
    3
    """
    return int(_scorer("edit").distance(left, right))


def levenshtein_distance(left: str, right: str) -> int:
    """Compute how many insertions, deletions and mutations are needed (exercise 3.5.8, i).

    A distance measure.

    >>> levenshtein_distance("Jones", "Jomes")
    1
    """
    return int(_scorer("levenshtein").distance(left, right))


def damerau_distance(left: str, right: str) -> int:
    """Compute the same with transpositions of neighbours (exercise 3.5.8, ii).

    What was transposed may be edited again, so this is a distance measure (exercise 3.5.9).

    >>> damerau_distance("ca", "abc")
    2
    """
    return int(_scorer("damerau").distance(left, right))


def alignment_distance(left: str, right: str) -> int:
    """Compute the same where nothing is edited twice: the optimal string alignment.

    It is never below ``damerau_distance``, five times as quick, and **no** distance measure: the
    triangle inequality fails for "ca", "ac" and "abc".

    >>> alignment_distance("ca", "abc")
    3
    """
    return int(_scorer("alignment").distance(left, right))


def pair_distances(
    left: Sequence[str],
    right: Sequence[str],
    *,
    distance: StringDistance = "edit",
    cutoff: int | None = None,
) -> Int64s:
    """Compute the distance of ``left[i]`` and ``right[i]`` for every i, int64.

    A distance above ``cutoff`` is given as cutoff + 1, which is much faster.
    """
    return _pairs(left, right, _scorer(distance).distance, cutoff).astype(np.int64)


def pair_common_lengths(left: Sequence[str], right: Sequence[str]) -> Int64s:
    """Compute the longest common subsequence of ``left[i]`` and ``right[i]`` for every i.

    Of two strings of different characters in the same order that is their number of common
    characters.
    """
    return _pairs(left, right, _scorer("common").similarity, None).astype(np.int64)


def pair_winklers(left: Sequence[str], right: Sequence[str]) -> Float64s:
    """Compute the similarity of Jaro and Winkler, 0 to 1, of ``left[i]`` and ``right[i]``.

    Characters that are in both, not far from each other and in what order, and up to four equal
    ones at the beginning (W. E. Winkler, Survey Research Methods Section 1990).
    """
    return _pairs(left, right, _scorer("winkler").similarity, None, np.float64)


def _pairs(
    left: Sequence[str],
    right: Sequence[str],
    scorer: Callable[..., float],
    cutoff: int | None,
    dtype: type[np.number] = np.int32,
) -> npt.NDArray[Any]:
    if len(left) != len(right):
        raise ValueError(f"{len(left)} strings cannot be paired with {len(right)}")
    if not len(left):
        return np.empty(0, dtype)
    computed = _rapidfuzz().process.cpdist(
        left, right, scorer=scorer, score_cutoff=cutoff, dtype=dtype
    )
    return np.asarray(computed)

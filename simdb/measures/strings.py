"""Edit distances of strings (MMDS 3.5.5 and exercise 3.5.8), one pair or many at once.

They count code points, not letters as a reader sees them: normalise first what may be composed in
two ways. rapidfuzz computes them; it is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from simdb.errors import MissingExtraError

StringDistance: TypeAlias = Literal["edit", "levenshtein", "alignment", "damerau"]
STRING_DISTANCES: tuple[StringDistance, ...] = get_args(StringDistance)

_CLASSES = {
    "edit": "Indel",
    "levenshtein": "Levenshtein",
    "alignment": "OSA",
    "damerau": "DamerauLevenshtein",
    "common": "LCSseq",
}


def _rapidfuzz() -> ModuleType:
    try:
        import rapidfuzz
        import rapidfuzz.distance
        import rapidfuzz.process
    except ImportError as error:
        raise MissingExtraError(
            'edit distances need the records extra: pip install "simdb-store[records]"'
        ) from error
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
    workers: int = 1,
) -> npt.NDArray[np.int64]:
    """Compute the distance of ``left[i]`` and ``right[i]`` for every i.

    Args:
        left: m strings.
        right: as many.
        distance: which.
        cutoff: a larger distance may be given as cutoff + 1, which is much faster.
        workers: threads; -1 is one a core.

    Returns:
        int64 (m,).
    """
    scorer = _scorer(distance).distance
    return _pairs(left, right, scorer, cutoff, workers)


def pair_common_lengths(
    left: Sequence[str], right: Sequence[str], *, workers: int = 1
) -> npt.NDArray[np.int64]:
    """Compute the longest common subsequence of ``left[i]`` and ``right[i]`` for every i.

    Of two strings of different characters in the same order that is their number of common
    characters.
    """
    return _pairs(left, right, _scorer("common").similarity, None, workers)


def _pairs(
    left: Sequence[str],
    right: Sequence[str],
    scorer: Callable[..., int],
    cutoff: int | None,
    workers: int,
) -> npt.NDArray[np.int64]:
    if len(left) != len(right):
        raise ValueError(f"{len(left)} strings cannot be paired with {len(right)}")
    if not len(left):
        return np.empty(0, np.int64)
    computed = _rapidfuzz().process.cpdist(
        left, right, scorer=scorer, score_cutoff=cutoff, workers=workers, dtype=np.int32
    )
    return np.asarray(computed, np.int64)

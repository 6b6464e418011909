"""Candidates of a sweep: pairs of items with the positions of a common symbol, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simdb import kernels

if TYPE_CHECKING:
    from simdb.kernels.postings import Candidates


def by_number(
    item_numbers: npt.NDArray[np.uint32], found: Candidates, rows: npt.NDArray[np.int64]
) -> Candidates:
    """Return some candidates with item numbers in place of ranks."""
    return type(found)(
        item_numbers[found.left[rows]],
        item_numbers[found.right[rows]],
        found.left_positions[rows],
        found.right_positions[rows],
    )


def concatenated(parts: list[Candidates]) -> Candidates:
    """Return the candidates of several parts as one."""
    columns = [
        np.concatenate([np.empty(0, np.uint32), *(part[column] for part in parts)])
        for column in range(4)
    ]
    return kernels.postings.Candidates(*columns)


def packed(candidates: Candidates) -> npt.NDArray[np.uint64]:
    """Return a number for each pair, rising with left, then right."""
    return (candidates.left.astype(np.uint64) << np.uint64(32)) | candidates.right

"""What comparing items gives, whatever they are: one exact ratio for each pair."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Compared(NamedTuple):
    """Similarities or distances of n pairs, as ratios.

    Attributes:
        numerators, denominators: int64 (n,) where the measure is rational, so that bounds are
            exact, else float64 (n,).
    """

    numerators: npt.NDArray[Any]
    denominators: npt.NDArray[Any]

    @classmethod
    def empty(cls, pairs: int, like: Compared) -> Compared:
        """Return room for so many pairs, of the types of another."""
        return cls(
            np.empty(pairs, like.numerators.dtype), np.empty(pairs, like.denominators.dtype)
        )

    def values(self) -> npt.NDArray[np.float64]:
        """Return the ratios; 0 / 0 is 0."""
        nothing = self.denominators == 0
        ratios: npt.NDArray[np.float64] = self.numerators / np.where(nothing, 1, self.denominators)
        return ratios

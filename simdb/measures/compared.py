"""What comparing items gives: similarities or distances as exact quotients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Compared(NamedTuple):
    """Values of a measure, each numerator / denominator: two arrays of one length.

    int64 wherever the measure is rational, so that comparing with a threshold is exact; else
    float64. 0 / 0 stands for 0: nothing is similar to an empty item.
    """

    numerators: npt.NDArray[Any]
    denominators: npt.NDArray[Any]

    def values(self) -> npt.NDArray[np.float64]:
        """Return the quotients as float64, correctly rounded; 0 / 0 is 0."""
        result = np.zeros(self.numerators.shape, np.float64)
        np.divide(self.numerators, self.denominators, out=result, where=self.denominators != 0)
        return result

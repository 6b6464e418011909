"""Where items have their places in arrays that have something for each item."""

from __future__ import annotations

import numpy as np

from simdb.arrays import Bools, Int64s, UInt32s
from simdb.errors import CorruptionError


class Places:
    """The places of items in arrays, which rise with their numbers.

    Either the number is the place, or the items have the given numbers, ascending, and no place is
    left for others: so arrays need not grow with every number that was ever used.
    """

    def __init__(self, size: int, numbers: UInt32s | None = None) -> None:
        self.size = size  # of the arrays
        self._numbers = numbers

    def find(self, numbers: UInt32s) -> tuple[UInt32s, Bools]:
        """Return the places of items, and which of these have one."""
        if self._numbers is None:
            return numbers, numbers < self.size
        places = np.searchsorted(self._numbers, numbers).astype(np.uint32)
        found = np.zeros(numbers.size, np.bool_)
        inside = np.flatnonzero(places < self.size)
        found[inside] = self._numbers[places[inside]] == numbers[inside]
        return places, found

    def of(self, numbers: UInt32s) -> UInt32s:
        """Return the places of items that have one."""
        places, found = self.find(numbers)
        if not found.all():
            lost = int(numbers[~found][0])
            raise CorruptionError(f"item number {lost} is of no stored item; run 'simdb check'")
        return places

    def numbers(self, places: UInt32s | Int64s) -> UInt32s:
        """Return the numbers of the items at some places."""
        if self._numbers is None:
            return places.astype(np.uint32, copy=False)
        return self._numbers[places]

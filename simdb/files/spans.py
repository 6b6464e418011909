"""Numbers of rows, most of which follow one another, in few bytes: spans are kept, not numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from simdb.arrays import Int64s


class Spans:
    """Whole numbers in the order in which they came; 16 bytes for each span of successive ones."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._firsts = array("q")  # of the spans
        self._begins = array("q")  # how many numbers came before each span
        self._size = 0
        self.extend(np.fromiter(numbers, np.int64))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int) -> int:
        """Return the number that came as the one of that place, from 0."""
        span = bisect_right(self._begins, range(self._size)[place]) - 1
        return self._firsts[span] + range(self._size)[place] - self._begins[span]

    def extend(self, numbers: Int64s) -> None:
        """Add numbers at the end."""
        if not numbers.size:
            return
        begins = np.append(0, np.flatnonzero(np.diff(numbers) != 1) + 1)
        if self._size and numbers[0] == self[-1] + 1:
            begins = begins[1:]
        self._firsts.frombytes(numbers[begins].tobytes())
        self._begins.frombytes((begins + self._size).tobytes())
        self._size += numbers.size

    def between(self, begin: int, end: int) -> Int64s:
        """Return the numbers from ``begin`` on and before ``end``; all of them must rise."""
        first = max(0, bisect_right(self._firsts, begin) - 1)
        last = bisect_right(self._firsts, end - 1)
        begins = np.array([*self._begins[first : last + 1], self._size][: last - first + 1])
        firsts = np.frombuffer(self._firsts[first:last], np.int64)
        sizes = np.diff(begins)
        found = np.repeat(firsts - begins[:-1], sizes) + np.arange(begins[0], begins[-1])
        return found[slice(*np.searchsorted(found, (begin, end)))]

"""Which keys of an input are those of rows that were removed: a later row under one may differ.

Of each row 12 bytes are in memory: 64 bits of a hash of its key, 32 of one of its content. The hash
is Python's own, whose secret is another in every process: nobody can make keys that meet. Of 10
million rows that are compared with as many, two keys meet by chance once in 180,000 runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from simdb.arrays import UInt32s, UInt64s
from simdb.kinds.base import Stored
from simdb.ragged import ByteStrings

_ONE_RUN = 2**22  # rows; fewer are sorted together again and again, more would take as much anew


class RemovedKeys:
    """The keys of removed rows, each with the content that it had; sorted runs of hashes."""

    def __init__(self) -> None:
        self._runs: list[tuple[UInt64s, UInt32s]] = []

    def add(self, keys: ByteStrings, items: Sequence[Stored], rows: Sequence[int]) -> None:
        """Note the keys and the contents of some rows of a batch."""
        if not rows:
            return
        noted = _hashes(keys[row] for row in rows)
        contents = _hashes(items[row] for row in rows).astype(np.uint32)
        while self._runs and self._runs[-1][0].size <= min(2 * noted.size, _ONE_RUN):
            earlier, known = self._runs.pop()
            noted, contents = np.append(earlier, noted), np.append(known, contents)
        order = np.argsort(noted, kind="stable")  # the first content of a key stays the first
        self._runs.append((noted[order], contents[order]))

    def of_other_content(self, keys: ByteStrings, items: Sequence[Stored]) -> set[int]:
        """Return which rows of a batch have the key of a removed one, but not its content."""
        found: set[int] = set()
        if not self._runs:
            return found
        asked = _hashes(keys)
        for noted, contents in self._runs:
            places = np.minimum(np.searchsorted(noted, asked), noted.size - 1)
            for row in np.flatnonzero(noted[places] == asked).tolist():
                if _hashes([items[row]]).astype(np.uint32)[0] != contents[places[row]]:
                    found.add(row)
        return found


def _hashes(strings: Iterable[bytes | memoryview]) -> UInt64s:
    """Return a hash of each byte string."""
    return np.array([hash(bytes(one)) for one in strings], np.int64).view(np.uint64)

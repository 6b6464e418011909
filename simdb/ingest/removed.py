"""Which keys of an input are those of rows that were removed: a later row under one may differ.

Of each row 12 bytes are in memory: 64 bits of a hash of its key, 32 of one of its content, under a
seed that is another each time. Of 10 million rows that are compared with as many, two keys meet by
chance once in 180,000 runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from simdb.arrays import Int64s, UInt32s, UInt64s
from simdb.kinds.base import Items, Stored
from simdb.ragged import ByteStrings, some_of
from simdb.storage.tables.layout import checksums_of

_ONE_RUN = 2**22  # rows; fewer are sorted together again and again, more would take as much anew


class RemovedKeys:
    """The keys of removed rows, each with the content that it had; sorted runs of hashes.

    Args:
        items: of the collection, which tell what is the same content.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._seed = np.frombuffer(os.urandom(8), np.uint64)
        self._runs: list[tuple[UInt64s, UInt32s]] = []

    def add(self, keys: ByteStrings, items: Sequence[Stored], rows: Sequence[int]) -> None:
        """Note the keys and the contents of some rows of a batch."""
        if not rows:
            return
        places = np.array(rows, np.int64)
        noted = self._hashes(some_of(keys, places))
        contents = self._contents(items, places)
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
        asked = self._hashes(keys)
        for noted, contents in self._runs:
            places = np.minimum(np.searchsorted(noted, asked), noted.size - 1)
            rows = np.flatnonzero(noted[places] == asked)
            unlike = self._contents(items, rows) != contents[places[rows]]
            found.update(rows[unlike].tolist())
        return found

    def _contents(self, items: Sequence[Stored], rows: Int64s) -> UInt32s:
        return self._hashes(self._items.contents(some_of(items, rows))).astype(np.uint32)

    def _hashes(self, strings: Sequence[Stored]) -> UInt64s:
        """Return a hash of each byte string."""
        column = ByteStrings.of(strings)
        return checksums_of(column, self._seed.repeat(len(column)))

"""Exact answers about bit vectors by the pigeonhole principle: pairs without an index, or by one.

``Pigeonhole`` needs none. ``ChunkIndex`` looks items up in an index that misses nothing within its
bound (``lsh.chunks``); pairs of many items it leaves to ``Pigeonhole``: to sort is as quick as to
sweep an index.
"""

from __future__ import annotations

from typing import ClassVar

from simdb.answers.buckets import NEW_SHARE, Buckets, are_few
from simdb.answers.method import Batches, ProgressCallback
from simdb.answers.slabs import Slabs
from simdb.arrays import UInt32s
from simdb.opened.opened import Opened
from simdb.results import Guarantee


class Pigeonhole(Slabs):
    """Answers by comparing in full what is equal in a chunk. None is missed."""

    name: ClassVar[str] = "pigeonhole"


class ChunkIndex(Buckets):
    """Answers by the stored chunks of an index that is planned for the bound. None is missed."""

    guarantee: ClassVar[Guarantee] = "exact"
    name: ClassVar[str] = "chunk index"

    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Look new items up in the index if they are few; else sort all by each chunk."""
        if are_few(opened.reader, since):
            return super().pairs(opened, since=since)
        return Pigeonhole(self.bound).pairs(opened, since=since)

    def join(self, left: Opened, right: Opened) -> Batches:
        """Look left items up in the right index if they are few; else sort both by each chunk."""
        if left.reader.manifest.live * NEW_SHARE <= right.reader.manifest.live:
            return super().join(left, right)
        return Pigeonhole(self.bound).join(left, right)

    def groups(self, opened: Opened, progress: ProgressCallback | None = None) -> list[UInt32s]:
        """Connect all pairs, but compare equal items once."""
        return Pigeonhole(self.bound).groups(opened, progress)

"""What every locality-sensitive family does, and the bucket keys that items get from it.

A family maps an item to base hash values, its *signature*; ANDs of these become 64-bit bucket
keys, of which two items must share one to be candidates (MMDS 3.6.3). A new family is one class.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt


class BucketKeys(NamedTuple):
    """The bucket keys of n items, one after the other.

    Attributes:
        values: uint64 (m,).
        offsets: int64 (n + 1,); those of item i are ``values[offsets[i]:offsets[i + 1]]``.
        groups: uint8 (m,), or None where there is one group. Candidates must share a key of
            *every* group: an AND of the ORs (MMDS 3.8.5).
        group_count: how many groups there are; an item may have keys of fewer.
    """

    values: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    groups: npt.NDArray[np.uint8] | None = None
    group_count: int = 1

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many keys each item has."""
        return np.diff(self.offsets)

    def select(self, rows: npt.NDArray[np.int64]) -> BucketKeys:
        """Return the keys of some items, in ascending order of their rows."""
        if rows.size == len(self):
            return self
        counts = self.counts[rows]
        offsets = np.append(0, np.cumsum(counts))
        places = np.arange(int(offsets[-1])) + np.repeat(self.offsets[rows] - offsets[:-1], counts)
        groups = None if self.groups is None else self.groups[places]
        return BucketKeys(self.values[places], offsets, groups, self.group_count)

    def sorted_within(self) -> BucketKeys:
        """Return the same keys, ascending within each item."""
        order = np.lexsort((self.values, np.repeat(np.arange(len(self)), self.counts)))
        groups = None if self.groups is None else self.groups[order]
        return BucketKeys(self.values[order], self.offsets, groups, self.group_count)

    @property
    def every_group(self) -> int:
        """A bit for each group."""
        return (1 << self.group_count) - 1

    @classmethod
    def of_matrix(cls, keys: npt.NDArray[np.uint64], has_keys: npt.NDArray[np.bool_]) -> BucketKeys:
        """Return the rows of a matrix (items, bands) as keys, none for items that have none."""
        items, bands = keys.shape
        if has_keys.all():
            return cls(keys.ravel(), np.arange(0, items * bands + 1, bands))
        offsets = np.append(0, np.cumsum(has_keys.astype(np.int64) * bands))
        return cls(keys[has_keys].ravel(), offsets)

    @classmethod
    def none(cls, items: int) -> BucketKeys:
        """Return no keys for so many items."""
        return cls(np.empty(0, np.uint64), np.zeros(items + 1, np.int64))

    @classmethod
    def concatenated(cls, parts: list[BucketKeys]) -> BucketKeys:
        """Return the keys of the items of all parts."""
        counts = np.concatenate([part.counts for part in parts])
        groups = [part.groups for part in parts if part.groups is not None]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.append(0, np.cumsum(counts)),
            np.concatenate(groups) if groups else None,
            parts[0].group_count,
        )


class Family(Protocol):
    """A locality-sensitive family under the settings and the secret of one collection.

    Attributes:
        words: uint16 words of a signature.
        band_words: words of a band, where each of an item's bands is so many successive words of
            its signature and one bucket key; 0 where keys come otherwise.
    """

    words: int
    band_words: int

    def sign(self, features: Any) -> npt.NDArray[np.uint16]:
        """Return the signatures, uint16 (n, words), of a batch of items; zeros have no bucket."""

    def bucket_keys(self, signatures: npt.NDArray[np.uint16]) -> BucketKeys:
        """Return the bucket keys of signatures."""

    def needed_matches(self, bound: Any) -> int:
        """Return how many equal words a similar pair has with near certainty; 0 for no such."""

"""What an exact index would take: postings and bytes, measured on a sample of items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from simdb import kernels
from simdb.errors import BadItemError
from simdb.exact.thresholds import Threshold
from simdb.kinds import Items, Kind
from simdb.storage.tables.runs import POSTING_BYTES

_AT_ONCE = 100  # items


@dataclass(frozen=True, slots=True)
class ExactPlan:
    """What an exact index takes for a sample of items.

    Attributes:
        floor: the least threshold that it would serve.
        items: of the sample.
        item_bytes: what the store keeps of them.
        symbols: distinct ones of each item, added.
        postings: those of the symbols that would be posted, the prefixes (MMDS 3.9.4).
        largest_prefix: the most postings of an item.
    """

    floor: Fraction
    items: int
    item_bytes: int
    symbols: int
    postings: int
    largest_prefix: int

    @property
    def postings_per_item(self) -> float:
        """Postings of an item on average."""
        return self.postings / max(1, self.items)

    @property
    def bytes_per_item(self) -> float:
        """Bytes of the postings of an item on average."""
        return self.postings_per_item * POSTING_BYTES

    @property
    def weight(self) -> float:
        """Bytes of postings for one byte of items."""
        return self.postings * POSTING_BYTES / max(1, self.item_bytes)


def measure(
    items: Items, sample: Iterable[object], floor: Threshold, *, containment: bool
) -> ExactPlan:
    """Count what would be posted of a sample, which is read a few items at a time.

    Raises:
        BadItemError: an item cannot be stored; ``row`` says which, from 0.
    """
    count = item_bytes = symbols = postings = largest = 0
    nothing = np.empty(0, np.uint64)
    for part in _parts(sample):
        encoded = [_encoded(items, item, row) for row, item in enumerate(part, count)]
        sets = items.symbols(encoded)
        _, sizes, _ = kernels.overlaps.probe_overlaps(nothing, sets.values, sets.offsets)
        posted = sizes if containment else floor.prefix_lengths(sizes)
        count += len(encoded)
        item_bytes += sum(map(len, encoded))
        symbols += int(sizes.sum())
        postings += int(posted.sum())
        largest = max(largest, int(posted.max()))
    return ExactPlan(floor.fraction, count, item_bytes, symbols, postings, largest)


def _encoded(items: Items, item: object, row: int) -> bytes:
    try:
        return items.encode(item)
    except BadItemError as error:
        raise BadItemError(f"row {row}: {error}", row=row) from error


def _parts(sample: Iterable[object]) -> Iterator[Sequence[object]]:
    iterator = iter(sample)
    while part := list(islice(iterator, _AT_ONCE)):
        yield part


def expected_weight(kind: Kind, floor: Threshold, *, containment: bool = False) -> float | None:
    """Return bytes of postings for one byte of English text, None where nothing is known of items.

    A rule of thumb for before there are items; ``measure`` counts.
    """
    if kind.symbols_a_byte is None:
        return None
    sample = 1_000
    posted = sample if containment else floor.prefix_length(sample)
    return posted / sample * POSTING_BYTES * kind.symbols_a_byte

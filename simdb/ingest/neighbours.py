"""All pairs that come with the rows of a batch: with each other, and with what is stored.

They are those that ``pairs(since=)`` finds: what the index proposes for a row when it is added,
compared in full. They come by ranges of rows, all pairs of a row with earlier ones at once, so that
there need be no room for those of a whole batch.

Equal rows have the same neighbours: unless all pairs are wanted, only the first of them is looked
up, and the others are *copies*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from simdb.answers.compare import stored_of_pairs
from simdb.answers.method import Method
from simdb.arrays import Bools, Float64s, Int64s, UInt32s
from simdb.batches.deciding import MOST_HELD, Comparer, Pairs
from simdb.batches.meeting import BucketSlice, candidate_pairs, slice_of_batch, with_later
from simdb.batches.signer import Signed
from simdb.ingest.dedupe import Deduplicator
from simdb.kinds.base import Stored
from simdb.late import cached_property
from simdb.opened.opened import Opened
from simdb.ragged import are_equal
from simdb.storage.tables.views import KeyFilter
from simdb.work import Work

MOST_COMPARED = 65_536  # pairs of a batch at once


class Found(NamedTuple):
    """The neighbours of rows: which rows, of which items, and how alike, as the kind measures.

    Attributes:
        later: int64, places of rows.
        earlier: int64, item numbers; or those that earlier rows of the batch will have.
        values: float64, similarities or distances.
        equal: which pairs are of equal items.
    """

    later: Int64s
    earlier: Int64s
    values: Float64s
    equal: Bools


class Neighbours(Deduplicator):
    """Finds the neighbours of rows that are to be stored.

    Args:
        opened: the store before they are.
        method: how they are looked for.
        items, signed: the rows; those that are not comparable have no neighbours.
        whole: all pairs are wanted; else, of what is equal to something, only one such pair.
        gone: ascending numbers of stored items that go with the same commit.
        first: the number that the first row will have.
        stored_keys: as for ``Deduplicator``.
    """

    def __init__(
        self,
        opened: Opened,
        method: Method,
        items: Sequence[Stored],
        signed: Signed,
        *,
        whole: bool,
        gone: UInt32s,
        first: int,
        stored_keys: KeyFilter,
    ) -> None:
        super().__init__(
            opened, method, items, signed, keep=True, replaced={}, stored_keys=stored_keys
        )
        self._whole = whole
        self._gone = gone
        self._first = first
        self._origin, self._alike = self._origins()
        firsts = self._origin == np.arange(len(items))
        self._rows = np.flatnonzero(firsts & signed.comparable)
        self._copies = np.flatnonzero(~firsts)

    def in_ranges(self) -> Iterator[Found]:
        """Yield them by ranges of rows, all pairs of each row at once: of as many as have room."""
        begin, size = 0, len(self._items)
        while begin < len(self._items):
            found = self._of_range(begin, begin + size, MOST_HELD if size > 1 else None)
            if found is None:
                size = (size + 1) // 2
                continue
            yield found
            begin += size
            if found.later.size < MOST_HELD // 4:
                size *= 2

    def _of_range(self, begin: int, end: int, most: int | None) -> Found | None:
        """Find the neighbours of a range of rows; None if there are more than that."""
        parts: list[Found] = [_NOTHING]
        known = np.zeros(len(self._items), np.bool_)
        rows, copies = (
            some[slice(*np.searchsorted(some, [begin, end]))] for some in (self._rows, self._copies)
        )
        count = copies.size
        for part in self._found(rows, known):
            count += part.later.size
            if most is not None and count > most:
                return None
            parts.append(part)
        equal = np.ones(copies.size, np.bool_)
        origin = self._origin[copies] + self._first
        parts.append(Found(copies, origin, self._alike[copies], equal))
        return Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _found(self, rows: Int64s, known: Bools) -> Iterator[Found]:
        """Find the pairs of rows with what is stored, then with earlier rows.

        What is equal to a stored item, which is noted in ``known``, has the neighbours of that.
        """
        for stored in self._of_store(rows):
            equal = np.flatnonzero(stored.equal)
            equal = equal[np.unique(stored.later[equal], return_index=True)[1]]
            known[stored.later[equal]] = True
            few = ~known[stored.later]
            few[equal] = True
            yield _some(stored, few)
        for earlier, later, values in self._of_batch(rows):
            batch = Found(later, earlier + self._first, values, np.zeros(later.size, np.bool_))
            yield _some(batch, ~known[later])

    def _origins(self) -> tuple[Int64s, Float64s]:
        """Return the first row that each is equal to, and how alike it is to that."""
        alike = np.full(len(self._items), self._signer.kind.identical_value)
        if self._whole:
            return np.arange(len(self._items)), alike
        origin = self._first_equal(self._signed.comparable)
        if not self._signer.kind.has_symbols:
            self._keep_apart(origin, alike)
        return origin, alike

    def _of_store(self, rows: Int64s) -> Iterator[Found]:
        """Find the neighbours of rows among what is stored and stays, each row's at once."""
        if not self._opened.reader.manifest.live or not rows.size:
            return
        wanted = np.zeros(len(self._items), np.bool_)
        wanted[rows] = True
        for probes, numbers, *_ in self._all_candidates(wanted):
            stays = ~np.isin(numbers, self._gone)
            later, earlier = probes[stays], numbers[stays]
            met, values = self._compare(later, earlier)
            later, earlier, values = later[met], earlier[met], values[met]
            equal = np.zeros(later.size, np.bool_)
            if not self._whole:
                equal = self._equal_to(later, earlier)
            yield Found(later, earlier.astype(np.int64), values, equal)

    def _equal_to(self, rows: Int64s, numbers: UInt32s) -> Bools:
        """Return which rows are equal, byte for byte, to stored items that are like them."""
        equal = np.zeros(rows.size, np.bool_)
        forms = self._signer.items
        for pairs, others, stored in stored_of_pairs(self._opened.reader, numbers, forms):
            equal[pairs] = are_equal(self._column, rows[pairs], stored, others)
        return equal

    def _of_batch(self, rows: Int64s) -> Iterator[Pairs]:
        """Find the similar pairs of a range of rows with each other, and with those before."""
        if not rows.size:
            return
        if self._order is None and not self._sorts:
            yield from self._pairs_of_buckets(rows)
            return
        before = self._rows[: np.searchsorted(self._rows, rows[0])]
        if before.size:
            yield from self._similar_pairs(before, rows)
        if rows.size > 1:
            yield from self._similar_pairs(rows)

    @cached_property
    def _met(self) -> tuple[Int64s, BucketSlice | None, Comparer]:
        """The rows that share a bucket with another, their buckets, and what compares them."""
        rows = self._rows[self._shares[self._rows]]
        signed = replace(self._signed, rising=None).select(rows)
        part = slice_of_batch(self._signer, signed)
        return rows, part, Comparer(self._judge, self._items, rows)

    def _pairs_of_buckets(self, rows: Int64s) -> Iterator[Pairs]:
        """Compare the rows that share a bucket, in the first that they share."""
        sharing, part, comparer = self._met
        if part is not None:
            ends = np.searchsorted(sharing[part.numbers], [rows[0], rows[-1] + 1])
            part = with_later(part, *ends.tolist())
        if part is None:
            return
        needed = self._signer.agreement(self._bound)
        for left, right in candidate_pairs(part, needed, Work(), at_once=MOST_COMPARED):
            compared = comparer.compare(left, right)
            met = self._meets(compared)
            yield sharing[left[met]], sharing[right[met]], compared.values()[met]


_NOTHING = Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_))


def _some(found: Found, chosen: Bools) -> Found:
    later, earlier, values, equal = found
    return Found(later[chosen], earlier[chosen], values[chosen], equal[chosen])

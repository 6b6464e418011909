"""All pairs that come with the rows of a batch: with each other, and with what is stored.

They are those that ``pairs(since=)`` finds: what the index proposes for a row when it is added,
compared in full. Equal rows have the same neighbours: of these only the first is looked up, and the
others are *copies*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from simdb import kernels
from simdb.answers.compare import stored_of_pairs
from simdb.answers.method import Method
from simdb.arrays import Bools, Float64s, Int64s, UInt32s
from simdb.batches.compare import compare_items
from simdb.batches.deciding import first_identical, in_every_group, pairs_of_sets
from simdb.batches.signer import Signed
from simdb.exact.thresholds import Threshold
from simdb.ingest.dedupe import Deduplicator, ramps
from simdb.kinds.base import Stored
from simdb.opened.opened import Opened
from simdb.ragged import are_equal
from simdb.storage.tables.views import KeyFilter

MOST_COMPARED = 2**20  # pairs of a batch at once


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
        gone: UInt32s,
        first: int,
        stored_keys: KeyFilter,
    ) -> None:
        super().__init__(
            opened, method, items, signed, keep=True, replaced={}, stored_keys=stored_keys
        )
        self._gone = gone
        self._first = first

    def found(self, *, whole: bool) -> Found:
        """Find them; not ``whole``, of what is equal to something only one such pair."""
        origin, alike = self._origins()
        rows = np.flatnonzero((origin == np.arange(len(origin))) & self._signed.comparable)
        stored = self._of_store(rows)
        left, right, values = self._of_batch(rows)
        batch = Found(right, left + self._first, values, np.zeros(left.size, np.bool_))
        copies = np.flatnonzero(origin != np.arange(len(origin)))
        own = Found(
            copies, origin[copies] + self._first, alike[copies], np.ones(copies.size, np.bool_)
        )
        if whole:
            return self._with_copies(origin, _together(stored, batch), own)
        # What is equal to a stored item has the neighbours of that.
        equal = np.flatnonzero(stored.equal)
        equal = equal[np.unique(stored.later[equal], return_index=True)[1]]
        known = np.zeros(len(origin), np.bool_)
        known[stored.later[equal]] = True
        few = ~known[stored.later]
        few[equal] = True
        return _together(_some(stored, few), _some(batch, ~known[batch.later]), own)

    def _with_copies(self, origin: Int64s, found: Found, own: Found) -> Found:
        """Give all rows of a class what its first has, each with each and with their equals."""
        classes: dict[int, list[int]] = {}
        for row in np.flatnonzero(self._signed.comparable).tolist():
            classes.setdefault(int(origin[row]), []).append(row)
        pairs: list[tuple[int, int, float, bool]] = []
        columns = (column.tolist() for column in found)
        for later, earlier, value, equal in zip(*columns, strict=True):
            others = classes.get(earlier - self._first, [earlier - self._first])
            for row in classes[later]:
                for other in others:
                    low, high = sorted((row, other))
                    pairs.append((high, low + self._first, value, equal))
        alike = dict(zip(own.later.tolist(), own.values.tolist(), strict=True))
        for members in classes.values():
            for place, row in enumerate(members):
                pairs += [(row, one + self._first, alike[row], True) for one in members[:place]]
        empty: list[tuple[int, int, float, bool]] = []
        made = list(zip(*(pairs or empty), strict=True)) or [(), (), (), ()]
        return Found(
            np.array(made[0], np.int64),
            np.array(made[1], np.int64),
            np.array(made[2], np.float64),
            np.array(made[3], np.bool_),
        )

    def _origins(self) -> tuple[Int64s, Float64s]:
        """Return the first row that each is equal to, and how alike it is to that."""
        comparable = self._signed.comparable
        alike = np.full(len(self._items), self._signer.kind.identical_value)
        origin = self._first_equal(comparable)
        if not self._signer.kind.has_symbols:
            self._keep_apart(origin, alike)
        return origin, alike

    def _of_store(self, rows: Int64s) -> Found:
        """Find the neighbours of rows among what is stored and stays."""
        wanted = np.zeros(len(self._items), np.bool_)
        wanted[rows] = True
        if not self._opened.reader.manifest.live or not rows.size:
            return _NOTHING
        parts = [_NOTHING]
        for probes, numbers, *_ in self._all_candidates(wanted):
            stays = ~np.isin(numbers, self._gone)
            later, earlier = probes[stays], numbers[stays]
            met, values = self._compare(later, earlier)
            later, earlier, values = later[met], earlier[met], values[met]
            equal = self._equal_to(later, earlier)
            parts.append(Found(later, earlier.astype(np.int64), values, equal))
        return _together(*parts)

    def _equal_to(self, rows: Int64s, numbers: UInt32s) -> Bools:
        """Return which rows are equal, byte for byte, to stored items that are like them."""
        equal = np.zeros(rows.size, np.bool_)
        forms = self._signer.items
        for pairs, others, stored in stored_of_pairs(self._opened.reader, numbers, forms):
            equal[pairs] = are_equal(self._column, rows[pairs], stored, others)
        return equal

    def _of_batch(self, rows: Int64s) -> tuple[Int64s, Int64s, Float64s]:
        """Find the similar pairs of rows, none of which are equal, the earlier first."""
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        if rows.size < 2:
            return parts[0]
        if self._order is not None:
            parts += self._pairs_of_sets(rows)
        elif self._sorts:
            parts += [
                (rows[one], rows[two], value) for one, two, value in self._pairs_of_bits(rows)
            ]
        else:
            parts += self._pairs_of_buckets(rows)
        left, right, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        low, high = np.minimum(left, right), np.maximum(left, right)
        _, firsts = np.unique(high * len(self._items) + low, return_index=True)
        kept = firsts[self._confirmed(low[firsts], high[firsts])]
        return low[kept], high[kept], values[kept]

    def _pairs_of_sets(self, rows: Int64s) -> Iterator[tuple[Int64s, Int64s, Float64s]]:
        """Join rows by their symbols; those of the same symbols take part once, and then each."""
        assert self._order is not None
        assert isinstance(self._bound, Threshold)
        symbols = self._signer.symbols(self._items)
        arranged = self._order.arrange(symbols.values, symbols.offsets)
        takes_part = np.zeros(len(self._items), np.bool_)
        takes_part[rows] = True
        first = first_identical(arranged, takes_part)[rows]
        classes = {one: rows[first == one] for one in np.unique(first).tolist()}
        for members in classes.values():
            left, right = np.triu_indices(members.size, 1)
            yield members[left], members[right], np.ones(left.size)
        distinct = np.array(sorted(classes), np.int64)
        for left, right, values in pairs_of_sets(arranged, distinct, self._bound):
            if all(classes[one].size == 1 for one in distinct[np.append(left, right)].tolist()):
                yield distinct[left], distinct[right], values
                continue
            for one, other, value in zip(
                distinct[left].tolist(), distinct[right].tolist(), values.tolist(), strict=True
            ):
                mine, yours = classes[one], classes[other]
                pairs = np.repeat(mine, yours.size), np.tile(yours, mine.size)
                yield *pairs, np.full(mine.size * yours.size, value)

    def _pairs_of_buckets(self, rows: Int64s) -> Iterator[tuple[Int64s, Int64s, Float64s]]:
        """Compare the rows that share a bucket."""
        rows = rows[self._shares[rows]]
        signed = replace(self._signed, rising=None).select(rows)
        keys = signed.buckets
        if keys.groups is not None:
            keys = keys.sorted_within()
        needed = self._signer.agreement(self._bound)
        order = kernels.runs.order_of(keys.values)
        members = keys.owners(order)
        ordered = keys.values[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + np.uint64(1)))
        first = np.repeat(starts, np.diff(np.append(starts, ordered.size)))
        earlier = np.arange(ordered.size) - first  # members of the bucket before each
        ends = np.cumsum(earlier)
        begin = 0
        while begin < ordered.size:
            most = (int(ends[begin - 1]) if begin else 0) + MOST_COMPARED
            end = max(begin + 1, int(np.searchsorted(ends, most, side="right")))
            counts = earlier[begin:end]
            some = np.repeat(np.arange(begin, end), counts)
            place = np.repeat(first[begin:end], counts) + ramps(counts)
            left, right = members[place], members[some]
            left, right = np.minimum(left, right), np.maximum(left, right)
            packed = np.unique((left * rows.size + right)[left != right])
            left, right = np.divmod(packed, max(1, rows.size))
            begin = end
            fits = in_every_group(keys, left, right)
            fits[fits] = needed.holds(signed.signatures[left[fits]], signed.signatures[right[fits]])
            left, right = rows[left[fits]], rows[right[fits]]
            if left.size:
                compared = compare_items(self._judge, self._items, left, right)
                met = self._meets(compared)
                yield left[met], right[met], compared.values()[met]


_NOTHING = Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_))


def _together(*parts: Found) -> Found:
    return Found(
        np.concatenate([part.later for part in parts]),
        np.concatenate([part.earlier for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.equal for part in parts]),
    )


def _some(found: Found, chosen: Bools) -> Found:
    later, earlier, values, equal = found
    return Found(later[chosen], earlier[chosen], values[chosen], equal[chosen])

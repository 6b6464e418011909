"""Which rows of a batch are similar to a row kept before them?

The definition: a row is a duplicate if it is similar enough to a row *kept* before it; the first
such row is the one it duplicates. The decision about a row depends on the decisions about earlier
ones, so rows are decided in waves: in each, every undecided row is compared with the next earlier
rows that share a bucket with it and are not dropped. A row that is similar to one waits until it is
known what becomes of that one. A row all of whose candidates are used up is kept.

Where all similar pairs are found, none is compared twice: rows are decided from their pairs, in
order. Those of more pairs than may be held are halved: what of the later half is similar to a kept
row of the earlier is dropped, and the rest decided among itself.

Rows that share no bucket, directly or over others, do not depend on each other: whole components
may be decided anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arrays import Bools, Float64s, Int64s
from simdb.batches.compare import COMPARED_BYTES, compare_items
from simdb.batches.meeting import are_shared
from simdb.batches.signer import Signed, Signer
from simdb.exact import joins
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Bound, Threshold
from simdb.kinds import Compared
from simdb.kinds.base import Stored
from simdb.late import cached_property
from simdb.lsh.family import BucketKeys
from simdb.ragged import ByteStrings, are_equal, as_bytes, picked, some_of
from simdb.recipe import secret_of
from simdb.work import Work

UNDECIDED, KEPT, DROPPED = 0, 1, 2  # as in kernels.buckets, which is not imported for them
NONE_LEFT = -1
MOST_A_WAVE = 64  # earlier rows that a row is compared with
PAIRS_A_WAVE = 262_144
MANY_WAVES = 4
MOST_HELD = 262_144  # similar pairs of rows

Pairs: TypeAlias = tuple[Int64s, Int64s, Float64s]  # the places of both, and their values


class Decisions(Struct):
    """What each row of a batch duplicates.

    Attributes:
        stored: int64 (n,), item number of the stored item that it duplicates, or -1.
        row: int64 (n,), the earlier row of the batch that it duplicates, or -1.
        value: float64 (n,), true similarity, or distance, to that one.
    """

    stored: Int64s
    row: Int64s
    value: Float64s

    @classmethod
    def none(cls, rows: int) -> Decisions:
        """Let no row duplicate anything."""
        return cls(np.full(rows, -1, np.int64), np.full(rows, -1, np.int64), np.zeros(rows))

    @property
    def is_duplicate(self) -> Bools:
        """Which rows are duplicates."""
        return (self.stored >= 0) | (self.row >= 0)


class BatchDecider:
    """Decides about the rows of one batch among each other.

    Args:
        signer: by which they were signed.
        bound: what is similar enough.
        items, signed: the rows; those that are not comparable take no part.
        keep: rows are kept although they are duplicates, so that later rows may duplicate them.
        order: of symbols, by which all similar pairs are found, exactly; without one buckets
            propose.
        sorts: all near pairs are found by the measure, which sorts the rows.
    """

    def __init__(
        self,
        signer: Signer,
        bound: Bound,
        items: Sequence[Stored],
        signed: Signed,
        *,
        keep: bool = False,
        order: SymbolOrder | None = None,
        sorts: bool = False,
    ) -> None:
        self._signer = signer
        self._bound = bound
        self._items = items
        self._signed = signed
        self._keep = keep
        self._order = order
        self._sorts = sorts
        self._decisions = Decisions.none(len(items))

    def decide_among_each_other(self) -> Decisions:
        """Find which earlier row each row duplicates; similarities are exact."""
        self._decide_by_batch()
        return self._decisions

    def _decide_by_batch(self) -> None:
        items, comparable, decisions = self._items, self._signed.comparable, self._decisions
        # Where a store has decided about some before (``ingest.dedupe``), equal rows of which only
        # some duplicate a stored item are no class.
        open_rows = comparable & (decisions.stored < 0)
        settled = comparable & ~open_rows
        if self._order is None:
            first_equal, other = map(self._first_equal, (open_rows, settled))
        else:
            first_equal, other = (
                first_identical(self._arranged, rows) for rows in (open_rows, settled)
            )
        first_equal = np.where(settled, other, first_equal)
        if self._order is not None:
            copies = np.flatnonzero(first_equal != np.arange(len(items)))
            apart = copies[~self._confirmed(copies, first_equal[copies], identical=True)]
            first_equal[apart] = apart
        alike = np.full(len(items), self._signer.kind.identical_value)
        if not self._signer.kind.has_symbols:
            self._keep_apart(first_equal, alike)
        own = np.arange(len(items))
        takes_part = (first_equal == own) & comparable
        if not self._keep:
            takes_part &= decisions.stored < 0
        rows = np.flatnonzero(takes_part)
        if rows.size > 1:
            if self._order is None and not self._sorts:
                self._decide_rows(rows, decisions.stored[rows] < 0)
            elif self._keep:
                self._take_first(self._similar_pairs(rows))
            else:
                self._decide_by_pairs(rows)
        # A row equal to an earlier one duplicates what that one does, or else that one itself.
        copies = np.flatnonzero((first_equal != own) & open_rows)
        origin = first_equal[copies]
        has_target = decisions.row[origin] >= 0
        decisions.row[copies] = np.where(has_target, decisions.row[origin], origin)
        decisions.value[copies] = np.where(has_target, decisions.value[origin], alike[copies])

    def _keep_apart(self, first_equal: Int64s, alike: Float64s) -> None:
        """Let equal rows that are not similar enough to themselves stand for themselves.

        A record that lacks a field is less than all similar to itself, and one that no rule
        covers is never found: in a batch no more than in the store. How similar copies are to
        themselves is written to ``alike``.
        """
        copies = np.flatnonzero(first_equal != np.arange(len(self._items)))
        if not copies.size:
            return
        compared = compare_items(self._signer, self._items, copies, copies)
        alike[copies] = compared.values()
        keys = self._signed.buckets.sorted_within()
        found = (keys.sizes[copies] > 0) & in_every_group(keys, copies, copies)
        apart = copies[~(self._meets(compared) & found)]
        first_equal[apart] = apart

    @cached_property
    def _shares(self) -> Bools:
        """Which rows share a bucket with another row of the batch."""
        keys, order = self._signed.buckets, self._signed.order
        ordered = keys.values[order]
        shares = np.zeros(len(keys), np.bool_)
        owners = keys.owners(order[are_shared(ordered)])
        shares[owners] = True
        return shares

    def _decide_rows(self, rows: Int64s, wanted: Bools) -> None:
        """Decide about the given rows of the batch among each other; only the wanted ones."""
        # Nearly all share no bucket with any other row, and are kept.
        sharing = self._shares[rows]
        rows, wanted = rows[sharing], wanted[sharing]
        signed = replace(self._signed, rising=None).select(rows)
        signatures, keys = signed.signatures, signed.buckets
        if keys.groups is not None:
            keys = keys.sorted_within()
        buckets = _Buckets(keys)
        status = np.full(rows.size, KEPT if self._keep else UNDECIDED, np.uint8)
        last_compared = np.full(rows.size, -1, np.int64)
        similar_to = np.full(rows.size, -1, np.int64)
        values = np.zeros(rows.size)
        needed = self._signer.agreement(self._bound)
        undecided = np.flatnonzero(wanted & buckets.shared)
        status[~buckets.shared] = KEPT
        comparer = Comparer(self._judge, self._items, rows)
        at_once = 1
        while undecided.size:
            most = min(at_once, max(1, PAIRS_A_WAVE // undecided.size))
            earlier = np.empty((undecided.size, most), np.int64)
            kernels.buckets.next_earlier(
                undecided,
                buckets.members,
                buckets.own_places,
                buckets.next_places,
                last_compared,
                similar_to,
                status,
                signatures,
                needed.words,
                earlier,
            )
            lines, places = np.nonzero(earlier >= 0)
            left, right = undecided[lines], earlier[lines, places]
            compared = comparer.compare(left, right)
            met = self._meets(compared) & in_every_group(keys, left, right)
            met[met] = needed.holds(signatures[left[met]], signatures[right[met]])
            hits = np.flatnonzero(met)[::-1]
            similar_to[left[hits]] = right[hits]  # the first stays
            values[left[hits]] = compared.values()[hits]
            similar = left[hits]
            if not self._keep:
                status[similar[status[similar_to[similar]] == KEPT]] = DROPPED
                # Should that one be dropped, they go on behind it.
                behind = similar[similar_to[similar] < last_compared[similar]]
                last_compared[behind] = similar_to[behind]
                buckets.begin_again(behind)
            decided = earlier[:, 0] == NONE_LEFT
            decided |= (similar_to[undecided] >= 0) if self._keep else status[undecided] == DROPPED
            undecided = undecided[~decided]
            at_once = min(2 * at_once, MOST_A_WAVE)
        found = np.flatnonzero(similar_to >= 0)
        self._decisions.row[rows[found]] = rows[similar_to[found]]
        self._decisions.value[rows[found]] = values[found]

    # -- by all similar pairs ----------------------------------------------------------------

    @cached_property
    def _arranged(self) -> ArrangedSets:
        """The symbols of all rows, in the order by which pairs are found."""
        assert self._order is not None
        symbols = self._signer.symbols(self._items)
        return self._order.arrange(symbols.values, symbols.offsets)

    def _similar_pairs(self, rows: Int64s, others: Int64s | None = None) -> Iterator[Pairs]:
        """Find all similar pairs of rows with each other, or with later ones; the earlier first."""
        later = rows if others is None else others
        find = self._pairs_of_bits if self._sorts else self._pairs_of_sets
        for left, right, values in find(rows, others):
            one, other = rows[left], later[right]
            met = self._confirmed(one, other)
            yield np.minimum(one, other)[met], np.maximum(one, other)[met], values[met]

    def _pairs_of_sets(self, rows: Int64s, others: Int64s | None) -> Iterator[Pairs]:
        assert isinstance(self._bound, Threshold)
        sets = self._arranged.select(rows)
        if others is None:
            found = joins.pairs(sets, self._bound)
        else:
            found = joins.join(sets, self._arranged.select(others), self._bound)
        for part in found:
            yield part.left, part.right, part.similarities

    def _pairs_of_bits(self, rows: Int64s, others: Int64s | None) -> Iterator[Pairs]:
        features = self._signer.features(some_of(self._items, rows))
        later = None if others is None else self._signer.features(some_of(self._items, others))
        for found in self._signer.measure.near_pairs(features, later, self._bound, Work()):
            yield found.left, found.right, found.distances.astype(np.float64)

    def _decide_by_pairs(self, rows: Int64s) -> None:
        """Decide about rows, all different, that are similar to none that was kept before them."""
        if rows.size < 2:
            return
        decisions = self._decisions
        pairs = held(self._similar_pairs(rows), MOST_HELD)
        if pairs is None:
            first, second = np.split(rows, [rows.size // 2])
            self._decide_by_pairs(first)
            self._take_first(self._similar_pairs(first[decisions.row[first] < 0], second))
            self._decide_by_pairs(second[decisions.row[second] < 0])
            return
        order = np.lexsort(pairs[:2])
        for one, row, value in zip(*(column[order].tolist() for column in pairs), strict=True):
            if decisions.row[row] < 0 and decisions.row[one] < 0:
                decisions.row[row], decisions.value[row] = one, value

    def _take_first(self, pairs: Iterator[Pairs]) -> None:
        """Let rows duplicate the first that they are a pair with, if nothing that is stored."""
        decisions = self._decisions
        for earlier, later, values in pairs:
            order = np.lexsort((earlier, later))
            places = order[np.unique(later[order], return_index=True)[1]]
            rows, found = later[places], earlier[places]
            known = decisions.row[rows]
            better = (decisions.stored[rows] < 0) & ((known < 0) | (found < known))
            decisions.row[rows[better]] = found[better]
            decisions.value[rows[better]] = values[places[better]]

    @cached_property
    def _column(self) -> ByteStrings:
        return ByteStrings.of(self._items)

    @cached_property
    def _repeated(self) -> Int64s:
        """The rows whose items may equal that of another row: their hashes do."""
        column = self._column
        begins, ends = column.offsets[:-1], column.offsets[1:]
        digests = kernels.checksums.checksums(
            column.values, begins, ends, np.zeros(len(column), np.uint64)
        )
        order = kernels.runs.order_of(digests)
        return np.sort(order[are_shared(digests[order])])

    def _first_equal(self, takes_part: Bools) -> Int64s:
        """Return for each item the position of the first equal one, both of those that do."""
        first_equal = np.arange(len(self._items))
        positions = self._repeated[takes_part[self._repeated]]
        firsts: dict[bytes, int] = {}
        items = as_bytes(picked(self._column, positions))
        first_equal[positions] = [*map(firsts.setdefault, items, positions.tolist())]
        return first_equal

    def _meets(self, compared: Compared) -> Bools:
        return self._bound.meets_many(compared.numerators, compared.denominators)

    # -- forged hashes -----------------------------------------------------------------------

    @cached_property
    def _drawn(self) -> Signer | None:
        """What hashes items under a secret drawn for the batch; None where nothing is hashed.

        Who knows the secret of a collection, as that of a known ``seed``, makes items that share
        all hashes of another's. So what is not equal byte for byte is compared under a secret that
        nobody knows: no row is dropped for one that it is not like.
        """
        kind = self._signer.kind
        if not (kind.has_symbols and kind.signs_what_it_compares):
            return None
        return Signer(replace(self._signer.settings, secret=secret_of(None)))

    @property
    def _judge(self) -> Signer:
        """What compares items of which the index says that they may be similar."""
        return self._drawn or self._signer

    def _confirmed(self, left: Int64s, right: Int64s, *, identical: bool = False) -> Bools:
        """Return which similar rows are similar, or identical, in truth."""
        met = np.ones(left.size, np.bool_)
        if self._drawn is not None:
            unequal = np.flatnonzero(~are_equal(self._column, left, self._column, right))
            if unequal.size:
                compared = compare_items(self._drawn, self._items, left[unequal], right[unequal])
                alike = compared.numerators == compared.denominators
                met[unequal] = alike if identical else self._meets(compared)
        return met


def held(pairs: Iterator[Pairs], most: int) -> Pairs | None:
    """Return all pairs together; None if there are more than that."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    count = 0
    for part in pairs:
        count += part[0].size
        if count > most:
            return None
        parts.append(part)
    earlier, later, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return earlier, later, values


def first_identical(sets: ArrangedSets, takes_part: Bools) -> Int64s:
    """Find the first set that is identical to each, both of those that take part."""
    first = np.arange(len(sets))
    chosen = np.flatnonzero(takes_part)
    few = sets.select(chosen)
    same, _ = kernels.order.identical_representatives(few.values, few.offsets)
    first[chosen] = chosen[same]
    return first


class _Buckets:
    """The buckets of a batch, as ``kernels.buckets.next_earlier`` reads them."""

    def __init__(self, keys: BucketKeys) -> None:
        order = kernels.runs.order_of(keys.values)
        ordered = keys.values[order]
        begins = np.ones(ordered.size, np.bool_)
        begins[1:] = ordered[1:] != ordered[:-1]
        # A bucket of one item proposes nothing, and nearly all are so: they are left out.
        ends = np.append(begins[1:], np.ones(min(1, ordered.size), np.bool_))
        of_several = ~(begins & ends)
        order, begins = order[of_several], begins[of_several]
        starts = np.flatnonzero(begins)
        sizes = np.diff(np.append(starts, order.size))
        self.members = keys.owners(order)
        # One column for each key of the item with most; where an item has fewer, an empty bucket.
        width = int(keys.sizes.max()) if len(keys) else 0
        cell = self.members * width + order - keys.offsets[self.members]
        self.own_places = np.zeros((len(keys), width), np.int64)
        self._first_places = np.zeros((len(keys), width), np.int64)
        self.own_places.ravel()[cell] = np.arange(order.size)
        self._first_places.ravel()[cell] = np.repeat(starts, sizes)
        self.next_places = self._first_places.copy()
        self.shared = np.zeros(len(keys), np.bool_)
        self.shared[self.members] = True

    def begin_again(self, rows: Int64s) -> None:
        """Let rows look from the first members of their buckets on."""
        self.next_places[rows] = self._first_places[rows]


class Comparer:
    """Compares rows of a batch in wave after wave.

    Where waves are many, as of rows all moderately alike, features are made once of all rows, if
    they may be held.
    """

    def __init__(self, signer: Signer, items: Sequence[Stored], rows: Int64s) -> None:
        self._signer = signer
        self._items = items
        self._rows = rows
        self._waves = 0
        self._features: Any = None

    def compare(self, left: Int64s, right: Int64s) -> Compared:
        """Compare pairs of rows, by their places among the given ones."""
        self._waves += 1
        if self._waves == MANY_WAVES:
            chosen = some_of(self._items, self._rows)
            if int(self._signer.items.weights(chosen).sum()) <= COMPARED_BYTES:
                self._features = self._signer.features(chosen)
        if self._features is not None:
            return self._signer.measure.compare_pairs(self._features, left, right)
        return compare_items(self._signer, self._items, self._rows[left], self._rows[right])


def in_every_group(keys: BucketKeys, left: Int64s, right: Int64s) -> Bools:
    """Return which pairs share a bucket of every group; they share one already."""
    if keys.groups is None:
        return np.ones(left.size, np.bool_)
    return kernels.buckets.share_every_group(
        keys.values, keys.offsets, keys.groups, keys.every_group, left, right
    )

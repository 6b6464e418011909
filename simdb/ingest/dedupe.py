"""Which rows of a batch are similar to something kept before them?

The definition: a row is a duplicate if it is similar enough to a row *kept* before it, those of
the store first, then those of the batch in their order; the first such row is the one it
duplicates. The decision about a row depends on the decisions about earlier ones, so rows are
decided in waves: in each, every undecided row is compared with the next earlier kept row that
shares a bucket with it. A row all of whose candidates are used up is kept.

A row that replaces a stored item takes it out of the store for the rows after it, but only if the
row is kept, which may depend on rows before it in turn. So a batch with such rows is decided anew
until their fates stay: each round settles at least the first row that had the wrong fate.

How rows are cut into batches changes nothing: kept rows of earlier batches are in the store, under
item numbers in the order of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from simdb import kernels
from simdb.answers.buckets import Proposals, as_probes, propose
from simdb.answers.compare import compare_items, items_in_parts
from simdb.answers.exact.memory import first_identical
from simdb.answers.exact.probe import Prober
from simdb.answers.method import Method
from simdb.arrays import Bools, Float64s, Int64s, UInt32s, UInt64s
from simdb.exact import joins
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold
from simdb.kinds import Compared
from simdb.kinds.base import Stored
from simdb.lsh.family import BucketKeys
from simdb.opened.catalogue import secret_of
from simdb.opened.opened import Opened
from simdb.opened.signer import Prefixes, Signed, Signer
from simdb.ragged import ByteStrings, as_bytes
from simdb.storage.tables.layout import checksums_of
from simdb.storage.tables.runs import order_of
from simdb.storage.tables.views import NO_LIMIT, KeyFilter
from simdb.work import Work

FIRST_LIMIT = 16  # members of a bucket looked at before it is read whole
COMPARED_A_WAVE = 4  # stored candidates of a row compared at once

MOST_ROUNDS = 4  # in which the fates of replacing rows must settle

UNDECIDED, KEPT, DROPPED = 0, 1, 2  # as in kernels.buckets, which is not imported for them
NONE_LEFT = -1

_Pairs: TypeAlias = tuple[Int64s, Int64s, Float64s]  # the places of both, and their values


@dataclass(slots=True)
class Decisions:
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


class Deduplicator:
    """Decides about one batch.

    Args:
        opened: the store before the batch.
        method: says what is similar enough, and which index proposes.
        items, signed: the rows; those that are not comparable take no part.
        keep: rows are kept although they are duplicates, so that later rows may duplicate them.
        replaced: item numbers that rows of the batch replace if they are kept, and their rows.
        stored_keys: what the batches before have found out of the bucket keys in the store.
    """

    def __init__(
        self,
        opened: Opened,
        method: Method,
        items: Sequence[Stored],
        signed: Signed,
        *,
        keep: bool,
        replaced: Mapping[int, int],
        stored_keys: KeyFilter,
    ) -> None:
        self._opened = opened
        self._signer = opened.signer
        self._method = method
        self._bound = method.bound
        self._items = items
        self._signed = signed
        self._probes = as_probes(opened.signer, signed, items)
        self._keep = keep
        self._replaced = np.array(sorted(replaced), np.uint32)
        self._replacing = np.array([replaced[number] for number in sorted(replaced)], np.int64)
        self._dropped = np.zeros(len(items), np.bool_)
        self._held: dict[int, bytes] = {}  # items that have been read one by one
        self._decisions = Decisions.none(len(items))
        self._prober = method.prober(opened)
        self._filter = stored_keys

    def decide(self) -> Decisions | None:
        """Find what each row duplicates; None if the batch must be cut to find it.

        Exact or probable as a search; similarities are exact.
        """
        for _ in range(MOST_ROUNDS):
            # As if the replacing rows had the fates of last time.
            decisions = self._decisions = Decisions.none(len(self._items))
            self._decide_by_store()
            self._decide_by_batch()
            dropped = decisions.is_duplicate
            changed = dropped[self._replacing] != self._dropped[self._replacing]
            if self._keep or not changed.any():
                return decisions
            self._dropped = dropped
        return None

    # -- the store ---------------------------------------------------------------------------

    def _decide_by_store(self) -> None:
        if not self._opened.reader.manifest.live:
            return
        comparable, decisions = self._signed.comparable, self._decisions
        # Equal rows are looked up once: a class of many equal items is read as a whole.
        # Not if rows replace items: what is stored then differs from row to row.
        own = first_equal = np.arange(len(self._items))
        if not self._replaced.size:
            first_equal = self._first_equal(comparable)
        copies = np.flatnonzero(first_equal != own)
        candidates = self._propose(comparable & (first_equal == own), FIRST_LIMIT)
        self._compare_in_order(candidates)
        open_rows = candidates.cut & (decisions.stored < 0)
        if open_rows.any():
            self._compare_in_order(self._propose(open_rows, NO_LIMIT))
        decisions.stored[copies] = decisions.stored[first_equal[copies]]
        decisions.value[copies] = decisions.value[first_equal[copies]]

    def _propose(self, rows: Bools, limit: int) -> Proposals:
        signed = self._probes._replace(comparable=rows)
        if self._prober is None:
            needed = self._signer.agreement(self._bound)
            known = self._filter
            candidates = propose(self._opened.reader, signed, needed, limit=limit, known=known)
        else:
            assert signed.prefixes is not None
            candidates = _looked_up(self._prober, signed.prefixes, rows)
        if not self._replaced.size:
            return candidates
        stays = ~self._is_gone(candidates.probes, candidates.numbers)
        return Proposals(candidates.probes[stays], candidates.numbers[stays], candidates.cut)

    def _is_gone(self, rows: Int64s, numbers: UInt32s) -> Bools:
        """Tell which stored items a row does not meet any more, its own predecessor included."""
        places = np.minimum(np.searchsorted(self._replaced, numbers), self._replaced.size - 1)
        replacing = self._replacing[places]
        removed = (replacing < rows) & ~self._dropped[replacing]
        gone: Bools = (replacing == rows) | removed
        gone &= self._replaced[places] == numbers
        return gone

    def _compare_in_order(self, candidates: Proposals) -> None:
        """Compare each row with its candidates by rising item number, until one is similar."""
        decisions = self._decisions
        starts = np.searchsorted(candidates.probes, np.arange(len(self._items) + 1))
        position, ends = starts[:-1].copy(), starts[1:]
        while True:
            rows = np.flatnonzero((position < ends) & (decisions.stored < 0))
            if not rows.size:
                return
            stops = np.minimum(position[rows] + COMPARED_A_WAVE, ends[rows])
            counts = stops - position[rows]
            which = np.repeat(position[rows], counts) + _ramps(counts)
            met, values = self._compare(candidates.probes[which], candidates.numbers[which])
            places = np.flatnonzero(met)[::-1]
            hits = which[places]
            decisions.stored[candidates.probes[hits]] = candidates.numbers[hits]  # the first stays
            decisions.value[candidates.probes[hits]] = values[places]
            position[rows] = stops

    def _compare(self, rows: Int64s, numbers: UInt32s) -> tuple[Bools, Float64s]:
        """Compare ``rows[i]`` with the stored item ``numbers[i]``.

        Returns whether each is similar enough, and how similar. An item that another process has
        deleted for good is like none.
        """
        kind = self._signer.kind
        met, values = np.zeros(rows.size, np.bool_), np.zeros(rows.size)
        distinct, of_pair = np.unique(numbers, return_inverse=True)
        for positions, views in items_in_parts(self._opened.reader, distinct, self._signer.items):
            stored = as_bytes(views)  # views are compared element by element
            place_of = np.full(distinct.size, -1, np.int64)
            place_of[positions] = np.arange(positions.size)
            pairs = np.flatnonzero(place_of[of_pair] >= 0)
            others = place_of[of_pair[pairs]]
            if kind.has_symbols:  # others may be less than all similar to themselves
                both = zip(rows[pairs].tolist(), others.tolist(), strict=True)
                equal = (self._item(row) == stored[other] for row, other in both)
                same = np.fromiter(equal, np.bool_, pairs.size)
                met[pairs[same]], values[pairs[same]] = True, kind.identical_value
                pairs, others = pairs[~same], others[~same]
            if not pairs.size:
                continue
            used, left = np.unique(rows[pairs], return_inverse=True)
            items = [*(self._item(row) for row in used.tolist()), *stored]
            right = others + used.size
            compared = compare_items(self._judge, items, left, right)
            met[pairs], values[pairs] = self._meets(compared), compared.values()
        return met, values

    # -- the batch itself --------------------------------------------------------------------

    def _decide_by_batch(self) -> None:
        items, comparable, decisions = self._items, self._signed.comparable, self._decisions
        # Equal rows of which only some duplicate a stored item are no class: see decide_by_store.
        open_rows = comparable & (decisions.stored < 0)
        settled = comparable & ~open_rows
        arranged = None
        if self._prober is None:
            first_equal, other = map(self._first_equal, (open_rows, settled))
        else:
            arranged = self._prober.epoch.arrange(self._signer.symbols(items))
            first_equal, other = (first_identical(arranged, rows) for rows in (open_rows, settled))
        first_equal = np.where(settled, other, first_equal)
        if arranged is not None:
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
            wanted = decisions.stored[rows] < 0
            if self._prober is not None and arranged is not None:
                threshold = self._prober.criterion.threshold
                self._decide_by_pairs(rows, wanted, _pairs_of_sets(arranged, rows, threshold))
            elif self._method.sorts:
                self._decide_by_pairs(rows, wanted, self._pairs_of_bits(rows))
            else:
                self._decide_rows(rows, wanted)
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
        found = (keys.sizes[copies] > 0) & _in_every_group(keys, copies, copies)
        apart = copies[~(self._meets(compared) & found)]
        first_equal[apart] = apart

    @cached_property
    def _shares(self) -> Bools:
        """Which rows share a bucket with another row of the batch."""
        keys, order = self._signed.buckets, self._signed.order
        ordered = keys.values[order]
        repeated = np.zeros(ordered.size, np.bool_)
        repeated[1:] = ordered[1:] == ordered[:-1]
        repeated[:-1] |= repeated[1:]
        shares = np.zeros(len(keys), np.bool_)
        shares[np.searchsorted(keys.offsets, order[repeated], side="right") - 1] = True
        return shares

    def _decide_rows(self, rows: Int64s, wanted: Bools) -> None:
        """Decide about the given rows of the batch among each other; only the wanted ones."""
        # Nearly all share no bucket with any other row, and are kept.
        sharing = self._shares[rows]
        rows, wanted = rows[sharing], wanted[sharing]
        signed = self._signed._replace(rising=None).select(rows)
        signatures, keys = signed.signatures, signed.buckets
        if keys.groups is not None:
            keys = keys.sorted_within()
        buckets = _Buckets(keys)
        status = np.full(rows.size, KEPT if self._keep else UNDECIDED, np.uint8)
        last_compared = np.full(rows.size, -1, np.int64)
        needed = self._signer.agreement(self._bound)
        undecided = np.flatnonzero(wanted & buckets.shared)
        status[~buckets.shared] = KEPT
        while undecided.size:
            earlier = np.empty(undecided.size, np.int64)
            kernels.buckets.next_earlier(
                undecided,
                buckets.members,
                buckets.own_places,
                buckets.next_places,
                last_compared,
                status,
                signatures,
                needed.words,
                earlier,
            )
            alone = undecided[earlier == NONE_LEFT]
            status[alone] = KEPT
            comparing = np.flatnonzero(earlier >= 0)
            left, right = undecided[comparing], earlier[comparing]
            last_compared[left] = right
            compared = compare_items(self._judge, self._items, rows[left], rows[right])
            met = self._meets(compared) & _in_every_group(keys, left, right)
            met[met] = needed.holds(signatures[left[met]], signatures[right[met]])
            self._decisions.row[rows[left[met]]] = rows[right[met]]
            self._decisions.value[rows[left[met]]] = compared.values()[met]
            if not self._keep:
                status[left[met]] = DROPPED
            undecided = np.setdiff1d(undecided, np.append(left[met], alone), assume_unique=True)

    def _pairs_of_bits(self, rows: Int64s) -> Iterator[_Pairs]:
        """Find all near pairs of the given rows, as places among them, the earlier first."""
        measure = self._signer.measure
        features = self._signer.features([self._items[row] for row in rows.tolist()])
        for found in measure.near_pairs(features, None, self._bound, Work()):
            earlier = np.minimum(found.left, found.right)
            yield earlier, np.maximum(found.left, found.right), found.distances.astype(np.float64)

    def _decide_by_pairs(self, rows: Int64s, wanted: Bools, pairs: Iterator[_Pairs]) -> None:
        """Decide about the given rows, all different, from all their similar pairs."""
        decisions = self._decisions
        parts = list(pairs)
        if not parts:
            return
        left, right, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
        dropped = np.zeros(rows.size, np.bool_)
        confirmed = self._confirmed(rows[left], rows[right])
        left, right, similarity = left[confirmed], right[confirmed], similarity[confirmed]
        for place in np.lexsort((left, right)).tolist():
            row, earlier = int(right[place]), int(left[place])
            settled = decisions.row[rows[row]] >= 0
            if wanted[row] and not settled and not dropped[earlier]:
                decisions.row[rows[row]] = rows[earlier]
                decisions.value[rows[row]] = similarity[place]
                dropped[row] = not self._keep

    def _item(self, row: int) -> bytes:
        """Return an item, as an object that is made once."""
        found = self._held.get(row)
        if found is None:
            found = self._held[row] = bytes(self._items[row])
        return found

    @cached_property
    def _digests(self) -> UInt64s:
        """A number for each item, the same for equal ones."""
        column = ByteStrings.of(self._items)
        return checksums_of(column, np.zeros(len(column), np.uint64))

    def _first_equal(self, takes_part: Bools) -> Int64s:
        """Return for each item the position of the first equal one, both of those that do."""
        first_equal = np.arange(len(self._items))
        positions = np.flatnonzero(takes_part)
        _, which, count = np.unique(
            self._digests[positions], return_inverse=True, return_counts=True
        )
        firsts: dict[bytes, int] = {}
        for position in positions[count[which] > 1].tolist():
            first_equal[position] = firsts.setdefault(self._item(position), position)
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
        return Signer(replace(self._opened.settings, secret=secret_of(None)))

    @property
    def _judge(self) -> Signer:
        """What compares items of which the index says that they may be similar."""
        return self._drawn or self._signer

    def _confirmed(self, left: Int64s, right: Int64s, *, identical: bool = False) -> Bools:
        """Return which similar rows are similar, or identical, in truth."""
        met = np.ones(left.size, np.bool_)
        if self._drawn is not None:
            pairs = enumerate(zip(left.tolist(), right.tolist(), strict=True))
            unequal = [n for n, (row, other) in pairs if self._item(row) != self._item(other)]
            if unequal:
                compared = compare_items(self._drawn, self._items, left[unequal], right[unequal])
                alike = compared.numerators == compared.denominators
                met[unequal] = alike if identical else self._meets(compared)
        return met


def _pairs_of_sets(arranged: ArrangedSets, rows: Int64s, least: Threshold) -> Iterator[_Pairs]:
    """Find all similar pairs of the given rows, all different, as places among them."""
    for found in joins.pairs(arranged.select(rows), least):
        yield found.left, found.right, found.similarities


def _looked_up(prober: Prober, prefixes: Prefixes, comparable: Bools) -> Proposals:
    """Look rows up in the exact index by their prefixes."""
    rows = np.flatnonzero(comparable)
    sizes = prefixes.set_sizes.tolist()
    found = [prober.candidates(prefixes[row], sizes[row]) for row in rows.tolist()]
    return Proposals(
        np.repeat(rows, [numbers.size for numbers in found]),
        np.concatenate([np.empty(0, np.uint32), *found]),
        np.zeros(len(prefixes), np.bool_),
    )


class _Buckets:
    """The buckets of a batch, as ``kernels.buckets.next_earlier`` reads them."""

    def __init__(self, keys: BucketKeys) -> None:
        order = order_of(keys.values)
        ordered = keys.values[order]
        begins = np.ones(ordered.size, np.bool_)
        begins[1:] = ordered[1:] != ordered[:-1]
        # A bucket of one item proposes nothing, and nearly all are so: they are left out.
        ends = np.append(begins[1:], np.ones(min(1, ordered.size), np.bool_))
        of_several = ~(begins & ends)
        order, begins = order[of_several], begins[of_several]
        starts = np.flatnonzero(begins)
        sizes = np.diff(np.append(starts, order.size))
        self.members = np.searchsorted(keys.offsets, order, side="right") - 1
        # One column for each key of the item with most; where an item has fewer, an empty bucket.
        width = int(keys.sizes.max()) if len(keys) else 0
        cell = self.members * width + order - keys.offsets[self.members]
        self.own_places = np.zeros((len(keys), width), np.int64)
        self.next_places = np.zeros((len(keys), width), np.int64)
        self.own_places.ravel()[cell] = np.arange(order.size)
        self.next_places.ravel()[cell] = np.repeat(starts, sizes)
        self.shared = np.zeros(len(keys), np.bool_)
        self.shared[self.members] = True


def _in_every_group(keys: BucketKeys, left: Int64s, right: Int64s) -> Bools:
    """Return which pairs share a bucket of every group; they share one already."""
    if keys.groups is None:
        return np.ones(left.size, np.bool_)
    return kernels.buckets.share_every_group(
        keys.values, keys.offsets, keys.groups, keys.every_group, left, right
    )


def _ramps(counts: Int64s) -> Int64s:
    """Return 0, 1, ..., n - 1 for each count n, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - counts, counts)

"""Which rows of a batch are similar to something kept before them?

The definition: a row is a duplicate if it is similar enough to a row *kept* before it, those of
the store first, then those of the batch in their order; the first such row is the one it
duplicates. The decision about a row depends on the decisions about earlier ones, so rows are
decided in waves: in each, every undecided row is compared with the next earlier kept row that
shares a bucket with it. A row all of whose candidates are used up is kept.

A row that replaces a stored item takes it out of the store for the rows after it, but only if the
row is kept, which may depend on rows before it in turn. So a batch with such rows is decided anew
until their fates stay: each round settles at least the first row that had the wrong fate.

Under a policy rows come in its order, and a stored item that comes after a row in that order is
none of those before it: it goes if the row is kept (``Challenge``).

How rows are cut into batches changes nothing: kept rows of earlier batches are in the store, under
item numbers in the order of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from simdb.answers.buckets import (
    Proposals,
    as_probes,
    in_parts,
    looks_around,
    most_probed,
    propose,
)
from simdb.answers.compare import stored_of_pairs
from simdb.answers.exact.probe import Prober
from simdb.answers.method import Method
from simdb.arrays import Bools, Float64s, Int64s, UInt32s
from simdb.batches.compare import compare_items
from simdb.batches.deciding import BatchDecider, Decisions
from simdb.batches.meeting import LARGE_BUCKET
from simdb.batches.signer import Prefixes, Signed
from simdb.ingest.standing import ItemNumbers
from simdb.kinds.base import Stored
from simdb.opened.opened import Opened
from simdb.ragged import ByteStrings, are_equal, picked
from simdb.storage.tables.views import NO_LIMIT, KeyFilter

FIRST_LIMIT = 16  # members of a bucket looked at before it is read whole
COMPARED_A_WAVE = 4  # stored candidates of a row compared at first, then twice as many

MOST_ROUNDS = 4  # in which the fates of replacing rows must settle


class Challenge(NamedTuple):
    """Rows that take the place of stored items which come after them in an order."""

    is_before: Callable[[Opened, Int64s, UInt32s], Bools]  # which items come before which rows
    positions: Int64s  # of the rows in the input, by which they are told apart
    first_new: int  # items from this number on came with the input, in the order

    def before(self, opened: Opened, rows: Int64s, numbers: UInt32s) -> Bools:
        """Return which stored items come before which rows of the batch."""
        found = np.asarray(numbers >= self.first_new)
        old = np.flatnonzero(~found)
        if old.size:
            found[old] = self.is_before(opened, self.positions[rows[old]], numbers[old])
        return found


class Deduplicator(BatchDecider):
    """Decides about one batch by the store and by itself.

    Args:
        opened: the store before the batch.
        method: says what is similar enough, and which index proposes.
        items, signed: the rows; those that are not comparable take no part.
        keep: rows are kept although they are duplicates, so that later rows may duplicate them.
        replaced: item numbers that rows of the batch replace if they are kept, and their rows.
        leaving: stored items that decide about no row, as the input has other content for them.
        stored_keys: what the batches before have found out of the bucket keys in the store.
        challenge: which stored items come before which rows, if not all do.
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
        leaving: ItemNumbers | None = None,
        stored_keys: KeyFilter,
        challenge: Challenge | None = None,
    ) -> None:
        self._prober = method.prober(opened)
        super().__init__(
            opened.signer,
            method.bound,
            items,
            signed,
            keep=keep,
            order=None if self._prober is None else self._prober.epoch.order,
            sorts=method.sorts,
        )
        self._opened = opened
        self._replaced = np.array(sorted(replaced), np.uint32)
        self._replacing = np.array([replaced[number] for number in sorted(replaced)], np.int64)
        self._dropped = np.zeros(len(items), np.bool_)
        self._leaving = leaving
        self._filter = stored_keys
        self._challenge = challenge

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

    def decide_without(self, numbers: Sequence[int]) -> Decisions | None:
        """Decide as if some stored items were gone."""
        self._leaving = (self._leaving or ItemNumbers()).with_more(numbers)
        return self.decide()

    def superseded(self) -> dict[int, int]:
        """Find the stored items that go for kept rows, and for which: the first of them each."""
        kept = self._signed.comparable & ~self._decisions.is_duplicate
        if self._challenge is None or not self._opened.reader.manifest.live or not kept.any():
            return {}
        found: dict[int, int] = {}
        for candidates in self._all_candidates(kept):
            rows, numbers = candidates.probes, candidates.numbers
            after = ~self._challenge.before(self._opened, rows, numbers)
            rows, numbers = rows[after], numbers[after]
            met, _ = self._compare(rows, numbers)
            for row, number in zip(rows[met].tolist(), numbers[met].tolist(), strict=True):
                found[number] = min(row, found.get(number, row))
        return found

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
        rest = comparable & (first_equal == own)
        if self._prober is None:
            candidates = self._candidates(rest, FIRST_LIMIT)
            self._compare_in_order(self._only_before(candidates))
            rest = candidates.cut & (decisions.stored < 0)
        for part in self._in_parts(rest):
            self._compare_in_order(self._only_before(part))
        decisions.stored[copies] = decisions.stored[first_equal[copies]]
        decisions.value[copies] = decisions.value[first_equal[copies]]

    def _only_before(self, candidates: Proposals) -> Proposals:
        """Keep the stored items that come before their rows, where an order is given."""
        if self._challenge is None:
            return candidates
        before = self._challenge.before(self._opened, candidates.probes, candidates.numbers)
        probes, numbers = candidates.probes[before], candidates.numbers[before]
        return candidates._replace(probes=probes, numbers=numbers)

    def _all_candidates(self, rows: Bools) -> Iterator[Proposals]:
        """Yield all candidates of rows, each row's in one part."""
        rest = rows
        if self._prober is None:
            found = self._candidates(rows, LARGE_BUCKET)
            small = ~found.cut[found.probes]
            yield found._replace(probes=found.probes[small], numbers=found.numbers[small])
            rest = found.cut
        yield from self._in_parts(rest)

    def _in_parts(self, rows: Bools) -> Iterator[Proposals]:
        """Yield all candidates of rows, of few rows at once where their buckets are large."""

        def look_up(own: Int64s) -> Proposals:
            chosen = np.zeros(rows.size, np.bool_)
            chosen[own] = True
            return self._candidates(chosen, NO_LIMIT)

        return in_parts(np.flatnonzero(rows), look_up, self._opened.resources.memory)

    def _candidates(self, rows: Bools, limit: int) -> Proposals:
        """Return the stored items that share a bucket with rows, and are there when they come."""
        if self._prober is not None:
            assert self._signed.prefixes is not None
            candidates = _looked_up(self._prober, self._signed.prefixes, rows)
        elif looks_around(self._signer):
            candidates = self._proposed_around(rows, limit)
        else:
            candidates = self._proposed(replace(self._signed, comparable=rows), limit)
        if self._leaving is not None:
            stays = ~self._leaving.among(candidates.numbers)
        elif self._replaced.size:
            stays = ~self._is_gone(candidates.probes, candidates.numbers)
        else:
            return candidates
        probes, numbers = candidates.probes[stays], candidates.numbers[stays]
        return candidates._replace(probes=probes, numbers=numbers)

    def _proposed(self, probes: Signed, limit: int) -> Proposals:
        needed, known = self._signer.agreement(self._bound), self._filter
        return propose(self._opened.reader, probes, needed, limit=limit, known=known)

    def _proposed_around(self, rows: Bools, limit: int) -> Proposals:
        """Look rows up that look around, so many at once as their keys have room."""
        cut = np.zeros(rows.size, np.bool_)
        parts = [Proposals(np.empty(0, np.int64), np.empty(0, np.uint32), cut)]
        chosen, at_once = np.flatnonzero(rows), most_probed(self._opened)
        for begin in range(0, chosen.size, at_once):
            own = chosen[begin : begin + at_once]
            items = picked(self._column, own)
            found = self._proposed(as_probes(self._signer, self._signed.select(own), items), limit)
            cut[own] = found.cut
            parts.append(Proposals(own[found.probes], found.numbers, cut, found.met))
        return Proposals.together(parts)

    def _is_gone(self, rows: Int64s, numbers: UInt32s) -> Bools:
        """Tell which stored items a row does not meet any more, its own predecessor included."""
        places = np.minimum(np.searchsorted(self._replaced, numbers), self._replaced.size - 1)
        replacing = self._replacing[places]
        removed = (replacing < rows) & ~self._dropped[replacing]
        gone: Bools = (replacing == rows) | removed
        gone &= self._replaced[places] == numbers
        return gone

    def _compare_in_order(self, candidates: Proposals) -> None:
        """Compare each row with its candidates by rising item number, until one is similar.

        Twice as many in each wave: the fewer waves, the fewer times a stored item is read.
        """
        decisions = self._decisions
        starts = np.searchsorted(candidates.probes, np.arange(len(self._items) + 1))
        position, ends = starts[:-1].copy(), starts[1:]
        at_once = COMPARED_A_WAVE
        while True:
            rows = np.flatnonzero((position < ends) & (decisions.stored < 0))
            if not rows.size:
                return
            stops = np.minimum(position[rows] + at_once, ends[rows])
            counts = stops - position[rows]
            which = np.repeat(position[rows], counts) + ramps(counts)
            met, values = self._compare(candidates.probes[which], candidates.numbers[which])
            places = np.flatnonzero(met)[::-1]
            hits = which[places]
            decisions.stored[candidates.probes[hits]] = candidates.numbers[hits]  # the first stays
            decisions.value[candidates.probes[hits]] = values[places]
            position[rows] = stops
            at_once *= 2

    def _compare(self, rows: Int64s, numbers: UInt32s) -> tuple[Bools, Float64s]:
        """Compare ``rows[i]`` with the stored item ``numbers[i]``.

        Returns whether each is similar enough, and how similar. An item that another process has
        deleted for good is like none.
        """
        kind = self._signer.kind
        met, values = np.zeros(rows.size, np.bool_), np.zeros(rows.size)
        forms = self._signer.items
        for pairs, others, stored in stored_of_pairs(self._opened.reader, numbers, forms):
            apart, right = pairs, others
            if kind.has_symbols:  # others may be less than all similar to themselves
                same = are_equal(self._column, rows[pairs], stored, others)
                met[pairs[same]], values[pairs[same]] = True, kind.identical_value
                apart, right = pairs[~same], others[~same]
            if not apart.size:
                continue
            used, left = np.unique(rows[apart], return_inverse=True)
            items = ByteStrings.concatenated([picked(self._column, used), stored])
            compared = compare_items(self._judge, items, left, right + used.size)
            met[apart], values[apart] = self._meets(compared), compared.values()
        return met, values


def _looked_up(prober: Prober, prefixes: Prefixes, comparable: Bools) -> Proposals:
    """Look rows up in the exact index by their prefixes."""
    rows = np.flatnonzero(comparable)
    sizes = prefixes.set_sizes.tolist()
    found = [prober.candidates(prefixes[row], sizes[row]) for row in rows.tolist()]
    numbers = np.concatenate([np.empty(0, np.uint32), *found])
    return Proposals(
        np.repeat(rows, [some.size for some in found]),
        numbers,
        np.zeros(len(prefixes), np.bool_),
        numbers.size,
    )


def ramps(counts: Int64s) -> Int64s:
    """Return 0, 1, ..., n - 1 for each count n, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - counts, counts)

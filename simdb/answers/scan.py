"""Exact answers without an index: the probe is compared with every stored item.

The time is that of reading all items, once a search, or once a batch of them for pairs, which
makes it quadratic. Items of one width lie in blocks of their own and are compared in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from simdb.answers.compare import PAIRS_COMPARED, Ranked, live_features
from simdb.answers.costs import Task
from simdb.answers.method import Batches, Method
from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.batches.signer import Signer
from simdb.kinds import Compared, Measure
from simdb.kinds.base import Finder
from simdb.opened.opened import Opened
from simdb.ragged import ByteStrings, Ragged
from simdb.results import Matches, PairBatch
from simdb.storage.collection.reader import LiveBatch, live_batches

WORTH_ARRANGING = 8  # probes that are compared with the same items
SHARE_OF_MEMORY = 8  # for items that are kept arranged
_BEFORE_FILTER, _AGAIN = 16, 32  # how many times as many of the nearest a filter looks at
_BYTES_A_MATCH = 40  # while it is ranked
HELD = 2**18  # matches of several items
BYTES_AT_ONCE = 2**26  # of the map, which are looked at before an interruption is


class Scan(Method, frozen=True):
    """Answers by comparing with everything. None is missed."""

    name: ClassVar[str] = "scan"

    def search(self, opened: Opened, item: bytes, limit: int | None) -> Matches:
        """Compare an item with all stored ones."""
        return self.search_many(opened, [item], limit)[0]

    def search_many(
        self, opened: Opened, items: Sequence[bytes], limit: int | None
    ) -> list[Matches]:
        """Compare several items with all stored ones, of which each slice is read once."""
        if len(items) > 1 and opened.signer.measure.is_slow_to_prepare:
            return self._searched_together(opened, items, limit)
        return self._searched(opened, items, limit, self.nearest(opened, limit))

    def _searched_together(
        self, opened: Opened, items: Sequence[bytes], limit: int | None
    ) -> list[Matches]:
        """Search for items whose features cost more than comparing, many pairs in one call."""
        probes = LiveBatch(np.arange(len(items), dtype=np.uint32), ByteStrings.of(items))

        def found() -> Iterator[tuple[Int64s, UInt32s, Float64s]]:
            for stored in live_features(opened):
                met = self._met_together(opened.signer, probes, stored, ordered=False)
                for own, numbers, values in met:
                    yield own.astype(np.int64), numbers, values

        live = opened.reader.manifest.live
        opened.work.looked_at += len(items) * live
        return self.matches_of_many(opened, found(), [live] * len(items), limit)

    def nearest(self, opened: Opened, limit: int | None) -> int:
        """Tell how many of the nearest a finder is to find; 0 if it finds all within the bound."""
        if limit is None or not opened.signer.measure.finds_nearest:
            return 0
        manifest = opened.reader.manifest
        wanted = limit if opened.only is None else _BEFORE_FILTER * limit
        return min(wanted, manifest.live) + manifest.tombstones  # the dead are found too

    def _searched(
        self, opened: Opened, items: Sequence[bytes], limit: int | None, most: int
    ) -> list[Matches]:
        """Search for several items; of what a filter accepts is too little, among more again."""
        live = opened.reader.manifest.live
        if limit is not None:  # what is found is held
            # A filter is not asked about what others are better than.
            is_much = len(items) > 1 and len(items) * live > HELD
            if is_much and not most and opened.only is None:
                return self._best(opened, items, limit)
            room = opened.resources.memory // SHARE_OF_MEMORY
            at_once = max(1, room // (_BYTES_A_MATCH * max(1, most or live)))
            if len(items) > at_once:
                parts = (items[begin : begin + at_once] for begin in range(0, len(items), at_once))
                return [one for part in parts for one in self._searched(opened, part, limit, most)]
        found = self._found(opened, items, most)
        answers = [
            self.matches(opened, ranked, limit, candidates=compared) for ranked, compared in found
        ]
        if opened.only is None or limit is None or not most:
            return answers
        short = [
            place
            for place, ((ranked, _), answer) in enumerate(zip(found, answers, strict=True))
            if len(answer) < limit and ranked.numbers.size >= most
        ]
        if short:
            accepts_some = any(len(answers[place]) for place in short)
            more = _AGAIN * most if accepts_some and _AGAIN * most < live else 0
            again = self._searched(opened, [items[place] for place in short], limit, more)
            for place, answer in zip(short, again, strict=True):
                answers[place] = answer
        return answers

    def _best(self, opened: Opened, items: Sequence[bytes], limit: int) -> list[Matches]:
        """Search for several items, holding only the best of what is within the bound."""
        finders = self._finders(opened, items, 0)
        looked_at = [0] * len(items)

        def found() -> Iterator[tuple[Int64s, UInt32s, Float64s]]:
            for portion in _portions(opened, len(items)):
                for probe, within in enumerate(finders):
                    places, compared = within(portion.features)
                    if places.size:
                        numbers, values = portion.numbers_at(places), compared.values()
                        alive = opened.reader.alive(numbers)
                        numbers, values = numbers[alive], values[alive]
                        yield np.full(numbers.size, probe), numbers, values
            opened.reader.transaction.require_open()  # as in ``_found``
            looked_at[:] = _looked_at(opened, finders)

        return self.matches_of_many(opened, found(), looked_at, limit)

    def _finders(self, opened: Opened, items: Sequence[bytes], most: int) -> list[Finder]:
        """Make what finds the features near each item, or so many of the nearest, if not 0."""
        measure = opened.signer.measure
        told = (most,) if most else ()  # which others need not know
        features = opened.signer.features
        return [measure.finder(features([item]), self.bound, *told) for item in items]

    def _found(self, opened: Opened, items: Sequence[bytes], most: int) -> list[tuple[Ranked, int]]:
        """Find what is within the bound of each item, or so many of the nearest, if not 0.

        With each, how many stored items it was compared with.
        """
        finders = self._finders(opened, items, most)
        numbers: list[list[UInt32s]] = [[] for _ in items]
        found: list[list[Compared]] = [[] for _ in items]
        for portion in _portions(opened, len(items)):
            for own_numbers, own_found, within in zip(numbers, found, finders, strict=True):
                places, compared = within(portion.features)
                if places.size:
                    own_numbers.append(portion.numbers_at(places))
                    own_found.append(compared)
        opened.reader.transaction.require_open()  # nobody has written over what was read in place
        looked_at = _looked_at(opened, finders)
        answers = []
        for own_numbers, own_found, count in zip(numbers, found, looked_at, strict=True):
            if not own_found:
                answers.append((Ranked.nothing(), count))
                continue
            # What lies in one piece, as most does, is not put together.
            of_all = own_numbers[0] if len(own_numbers) == 1 else np.concatenate(own_numbers)
            values = Compared.together(own_found).values()
            met = opened.reader.alive(of_all)
            if 0 < most < values.size:  # of what is farther than the last some were left out
                far = values if opened.settings.kind.is_distance else -values
                met &= far <= np.partition(far, most - 1)[most - 1]
            answers.append((Ranked(of_all, values, met.nonzero()[0], None), count))
        return answers

    def seconds(self, task: Task) -> float:
        """Estimate how long it takes to compare all, those of batches as ``_met_together`` does."""
        rates = task.rates(self.bound)
        is_together = task.verb != "search" and task.right.signer.measure.is_slow_to_prepare
        return self.looked_at(task) * (rates.paired if is_together else rates.scanned)

    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Compare each item with every later one, in the order of the slices they are read in."""
        for probes in live_batches(opened.reader):
            start = max(since, int(probes.numbers[0]))
            for stored in live_features(opened, start):
                earlier = np.searchsorted(stored[0], probes.numbers, side="right")
                opened.work.spend(int((stored[0].size - earlier).sum()))
                yield from self._compared(opened.signer, probes, stored, ordered=True)

    def join(self, left: Opened, right: Opened) -> Batches:
        """Compare each left item with every right one."""
        for probes in live_batches(left.reader):
            for stored in live_features(right):
                left.work.spend(probes.numbers.size * stored[0].size)
                yield from self._compared(right.signer, probes, stored)

    def _compared(
        self,
        signer: Signer,
        probes: LiveBatch,
        stored: tuple[UInt32s, Any],
        *,
        ordered: bool = False,
    ) -> Batches:
        columns: list[tuple[UInt32s, UInt32s, Float64s]] = []
        size = 0
        find = self._met_together if signer.measure.is_slow_to_prepare else self._met
        for found in find(signer, probes, stored, ordered=ordered):
            if found[0].size:
                columns.append(found)
                size += found[0].size
            if size >= PAIRS_COMPARED:
                yield _batch(signer, columns), None
                columns, size = [], 0
        if size:
            yield _batch(signer, columns), None

    def _met(
        self, signer: Signer, probes: LiveBatch, stored: tuple[UInt32s, Any], *, ordered: bool
    ) -> Iterator[tuple[UInt32s, UInt32s, Float64s]]:
        """Find what is within the bound of each probe, of later items only if ``ordered``."""
        others, features = stored
        for number, item in zip(probes.numbers.tolist(), probes.items, strict=True):
            within = signer.measure.finder(signer.features([item]), self.bound)
            places, compared = within(features)
            similarities = compared.values()
            if ordered:
                later = others[places] > number
                places, similarities = places[later], similarities[later]
            yield np.full(places.size, number, np.uint32), others[places], similarities

    def _met_together(
        self, signer: Signer, probes: LiveBatch, stored: tuple[UInt32s, Any], *, ordered: bool
    ) -> Iterator[tuple[UInt32s, UInt32s, Float64s]]:
        """Find the same, in the same order, comparing about so many pairs at once as may be."""
        others, features = stored
        at_once = max(1, PAIRS_COMPARED // others.size)
        for begin in range(0, probes.numbers.size, at_once):
            numbers = probes.numbers[begin : begin + at_once]
            left, right = np.divmod(np.arange(numbers.size * others.size), others.size)
            if ordered:
                later = others[right] > numbers[left]
                left, right = left[later], right[later]
            if left.size:
                own = signer.features(probes.items[begin : begin + at_once])
                compared = signer.measure.compare_between(own, features, left, right)
                met = self.bound.meets_many(compared.numerators, compared.denominators)
                yield numbers[left[met]], others[right[met]], compared.values()[met]


def _batch(signer: Signer, columns: list[tuple[UInt32s, UInt32s, Float64s]]) -> PairBatch:
    found = map(np.concatenate, zip(*columns, strict=True))
    return PairBatch.of(*found, is_distance=signer.kind.is_distance)


def _looked_at(opened: Opened, finders: Sequence[Finder]) -> list[int]:
    """Return how many items each finder has looked at, which are counted as work."""
    live = opened.reader.manifest.live
    looked_at = [getattr(finder, "looked_at", live) for finder in finders]
    opened.work.looked_at += sum(looked_at)
    return looked_at


class _Portion(Struct, frozen=True, eq=False):
    """Some items that are looked at in one call.

    Attributes:
        features: of items, or ``Pieces`` of items as they lie in the map, dead ones among them.
        numbers_at: tells the item numbers of rising rows.
    """

    features: Any
    numbers_at: Callable[[Int64s], UInt32s]


def _portions(opened: Opened, probes: int) -> Iterator[_Portion]:
    """Yield all live items, where they lie if the measure reads them there."""
    if not opened.signer.measure.reads_pieces:
        for numbers, features in _arranged(opened, probes):
            yield _Portion(features, numbers.__getitem__)
        return
    if (blocks := opened.reader.item_blocks()) is None:
        return
    for before, pieces in blocks.pieces(BYTES_AT_ONCE):
        opened.reader.transaction.require_open()
        yield _Portion(pieces, partial(blocks.numbers_at, before))


def _arranged(opened: Opened, probes: int) -> Iterator[tuple[UInt32s, Any]]:
    """Yield the numbers of all live items and their features, arranged for the measure if it pays.

    It does for several probes at once, and from the second search on that sees the same state:
    then what is arranged is kept for those that follow, if it takes little of the memory setting.
    """
    measure = opened.signer.measure
    several = probes >= WORTH_ARRANGING

    def whole() -> list[tuple[UInt32s, Any]]:
        # Copies: what lies in the map is another's when the transaction has ended.
        parts = [(numbers.copy(), features) for numbers, features in live_features(opened)]
        return [_together(measure, parts)] if parts else []

    slabs = None
    if measure.arranges:
        share = opened.resources.memory // SHARE_OF_MEMORY
        if opened.reader.manifest.item_bytes <= share:
            slabs = opened.kept("arranged", whole, worth=1.0 if several else 0.5)
    if slabs is not None:
        yield from slabs
        return
    for numbers, features in live_features(opened):
        yield numbers, measure.arranged(features) if measure.arranges and several else features


def _together(measure: Measure, parts: list[tuple[UInt32s, Any]]) -> tuple[UInt32s, Any]:
    """Return the numbers and the features of several slices as one, arranged."""
    numbers, features = zip(*parts, strict=True)
    is_ragged = isinstance(features[0], Ragged)
    whole = features[0].concatenated(features) if is_ragged else np.concatenate(features)
    return np.concatenate(numbers), measure.arranged(whole)

"""What would an answer cost? Estimated from counts of the store and from rates of the machine.

Counts are read off the manifest, and off a sample of the index: how many entries an entry meets in
its bucket says how many candidates a search has, and how many pairs a sweep. Rates are how long an
item of the collection takes that is compared where it lies, and one that an index proposes; they
are measured on some of its own items, in processor time, once in a process. Both are kept with the
open file. Each method says by them what it would cost (``Method.seconds``). An estimate decides
which one answers (``choose``), and nothing else: an answer is no less complete for a wrong one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.answers.compare import compare_probe_with_stored, live_rows
from simdb.arrays import UInt32s, UInt64s
from simdb.exact import joins
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Bound, Threshold
from simdb.kinds import Measure
from simdb.lsh.family import Family
from simdb.opened.opened import Opened
from simdb.storage.collection.manifest import open_postings
from simdb.storage.collection.reader import (
    CollectionReader,
    live_batches,
    read_items,
    stored_signatures,
)
from simdb.storage.tables.views import RunView, every
from simdb.work import Work

Verb: TypeAlias = Literal["search", "pairs", "join", "groups", "add"]

SAMPLED_ENTRIES = 128  # of an index
SAMPLED_PROBES = 32  # items that are looked up
MET_AT_MOST = 8_192  # entries of one bucket that are counted
SHOWN_OF_BUCKET = 16  # whose signatures are compared with that of the first
JOINED_ITEMS = 1_024  # that are joined with each other
SAMPLED_ITEMS = 256  # whose features are made, or that are picked
PAIRED, SHORT = 32, 0.01  # times as many pairs if those take less seconds: a call is some itself
SAMPLED_BYTES = 2**20  # of them, whose symbols are held at once


class Counts(Struct, frozen=True):
    """What is known of the indexes of a collection; nought of one that is not there."""

    live: int  # items
    keys_of_item: float = 0.0  # entries of an item in the probable index
    keys: float = 0.0  # that a search looks up in it, each in every run
    runs: int = 0
    met: float = 0.0  # entries that an entry meets under its key, itself included, on average
    around: float = 0.0  # entries in all other buckets that a search looks into
    postings_of_item: float = 0.0  # the same of the exact index
    met_postings: float = 0.0
    equal_words: tuple[int, ...] = ()  # of the signatures of pairs that meet in a bucket, sampled

    def agreeing(self, words: int) -> float:
        """Return which share of the pairs that meet agree in so many words of their signatures."""
        agree = sum(equal >= words for equal in self.equal_words)
        return agree / len(self.equal_words) if self.equal_words else 1.0

    def met_under(self, keys: float, met: float) -> float:
        """Count how many items are met under any of so many keys, if these are independent."""
        share = min(1.0, met / self.live) if self.live else 0.0
        missed: float = (1.0 - share) ** keys
        return self.live * (1.0 - missed)


class Rates(Struct, frozen=True):
    """Seconds an item takes: compared where it lies; picked by an index; in a join of batches.

    ``paired`` is a comparison of two items of a batch whose features are there, if it was measured.
    """

    scanned: float
    picked: float
    joined: float = 0.0
    paired: float = 0.0


class SampledJoin(Struct, frozen=True):
    """What an exact join of some sets of symbols says of a join of all."""

    symbols: float  # for each byte of the items
    met: float  # pairs of postings, as a share of all pairs of items


class Task(Struct, frozen=True):
    """What a method would have to do; of a search and of one collection both sides are the same."""

    verb: Verb
    left: Opened
    right: Opened  # whose indexes answer

    @property
    def counts(self) -> Counts:
        """What is known of the collection that answers."""
        return counts_of(self.right)

    def rates(self, bound: Bound) -> Rates:
        """How long its items take."""
        return rates_of(self.right, bound)

    def sampled_join(self, threshold: Threshold) -> SampledJoin:
        """What an exact join of some of the sets that answer says of one of all."""
        return sampled_join_of(self.right, threshold)

    def symbols(self, threshold: Threshold) -> float:
        """Estimate how many symbols the items have that are joined, of both sides."""
        return sum(
            sampled_join_of(side, threshold).symbols * side.reader.manifest.item_bytes
            for side in self._sides
        )

    @property
    def items(self) -> int:
        """How many these are."""
        return sum(side.reader.manifest.live for side in self._sides)

    @property
    def item_bytes(self) -> int:
        """Bytes of these items."""
        return sum(side.reader.manifest.item_bytes for side in self._sides)

    @property
    def _sides(self) -> tuple[Opened, ...]:
        return (self.left, self.right) if self.verb == "join" else (self.right,)

    @property
    def looks_up(self) -> bool:
        """Whether items are looked up one by one."""
        return self.verb in ("search", "join")

    @property
    def probes(self) -> int:
        """How many items others are found for."""
        return 1 if self.verb == "search" else self.left.reader.manifest.live

    @property
    def everything(self) -> float:
        """How many items there are, or pairs."""
        live = self.right.reader.manifest.live
        return float(self.probes * live if self.looks_up else live * max(0, live - 1) / 2)


# -- counts --------------------------------------------------------------------------------------


def counts_of(opened: Opened) -> Counts:
    """Count what a collection has, or take it from the cache if it has hardly grown."""
    reader = opened.reader
    state = reader.manifest.index.number, opened.size_class
    return opened.made("counts", state, lambda: _counted(opened))


def _counted(opened: Opened) -> Counts:
    reader, family = opened.reader, opened.signer.family
    index, live = reader.manifest.index, reader.manifest.live
    counts = Counts(live)
    if not live:
        return counts
    if family is not None:
        of_item = index.bands.entries / live
        keys, around, view = of_item, 0.0, reader.bands
        if family.looks_around:
            keys, met_by_probe = _looked_up(opened, family)
            around = max(0.0, met_by_probe - of_item * _met(view))
        counts = replace(
            counts,
            keys_of_item=of_item,
            keys=keys,
            runs=view.run_count,
            met=_met(view),
            around=around,
            equal_words=_equal_words(reader) if family.band_words else (),
        )
    if index.exact is not None:
        current = index.exact.current
        of_item = current.postings.entries / live
        met = _met(open_postings(reader.transaction, current))
        counts = replace(counts, postings_of_item=of_item, met_postings=met)
    return counts


def _looked_up(opened: Opened, family: Family) -> tuple[float, float]:
    """Count the keys that a probe looks up, and the entries it meets, of a sample of the items."""
    reader, signer = opened.reader, opened.signer
    spread = np.linspace(0, reader.manifest.next_number - 1, SAMPLED_PROBES)
    numbers = np.unique(spread.astype(np.uint32))
    items = read_items(reader, numbers[reader.alive(numbers)])[1]
    if not items:
        return 0.0, 0.0
    features = signer.features(items)
    probes = family.probe_keys(features, family.sign(features)).values
    met = reader.bands.probe(probes, limit=MET_AT_MOST).queries.size
    return probes.size / len(items), met / len(items)


def _sampled(view: RunView) -> UInt64s:
    """Return the keys of a sample of the entries."""
    chunks = [keys for of_run in view.keys_of_runs() for keys in of_run]
    total = sum(keys.size for keys in chunks)
    if not total:
        return np.empty(0, np.uint64)
    return np.concatenate([*every(chunks, -(-total // SAMPLED_ENTRIES))])


def _met(view: RunView) -> float:
    """Count how many entries an entry meets under its key, on average over a sample of them."""
    sampled = _sampled(view)
    return float(view.probe(sampled, limit=MET_AT_MOST).queries.size / max(1, sampled.size))


def _equal_words(reader: CollectionReader) -> tuple[int, ...]:
    """Count in how many words signatures agree that share a bucket, of a sample of the entries."""
    found = reader.bands.probe(_sampled(reader.bands), limit=SHOWN_OF_BUCKET)
    items = reader.bands.column(found, 0)
    begins = np.append(True, found.queries[1:] != found.queries[:-1])[: items.size]
    firsts = items[begins][np.cumsum(begins) - 1]  # of its bucket, for each
    left, right = firsts[~begins], items[~begins]
    numbers, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    signatures, present = stored_signatures(reader, numbers)
    ones, others = np.split(places, 2)
    there = present[ones] & present[others]
    ones, others = ones[there], others[there]
    equal = kernels.sketches.matching_rows(signatures[ones], signatures[others])
    return tuple(equal.tolist())


# -- rates ---------------------------------------------------------------------------------------


def rates_of(opened: Opened, bound: Bound) -> Rates:
    """Measure how long items of a collection take, or take it from the cache."""
    reader = opened.reader
    if not reader.manifest.live:
        return Rates(0.0, 0.0)
    # What every call costs weighs less, the more items there are to measure.
    state = opened.settings.kind, reader.manifest.live.bit_length() // 2
    return opened.made("rates", state, lambda: _measured(opened, bound))


def _measured(opened: Opened, bound: Bound) -> Rates:
    signer, reader = opened.signer, opened.reader
    measure = signer.measure
    if reader.items is None:
        batch = next(live_batches(reader, most_items=SAMPLED_ITEMS))
        numbers, items = batch.numbers, batch.items
        probe, some = signer.features(items[:1]), signer.features(items)

        def scan() -> None:
            measure.finder(probe, bound)(signer.features(items))

    else:
        numbers, rows = next(live_rows(reader))
        features, probe, some = (
            signer.features_of_rows(part) for part in (rows, rows[:1], rows[:JOINED_ITEMS])
        )

        def scan() -> None:
            measure.finder(probe, bound)(features)

    joined = paired = 0.0
    if opened.settings.kind.share_looked_at(bound.fraction) is not None and len(some) > 1:
        seconds = _seconds(lambda: deque(measure.near_pairs(some, None, bound, Work()), 0))
        joined = seconds / (len(some) * (len(some) - 1) / 2)
    if opened.settings.kind.has_symbols or measure.is_slow_to_prepare:
        paired = _paired(measure, some, numbers.size)
        if measure.is_slow_to_prepare and paired * numbers.size < SHORT:
            paired = _paired(measure, some, PAIRED * numbers.size)
    picked: UInt32s = numbers[:: -(-numbers.size // SAMPLED_ITEMS)]
    return Rates(
        _seconds(scan) / numbers.size,
        _seconds(lambda: compare_probe_with_stored(opened, probe, picked, bound)) / picked.size,
        joined,
        paired,
    )


def _paired(measure: Measure, some: Any, pairs: int) -> float:
    """Measure how long a pair of some features takes, of so many that are compared in one call."""
    left, right = np.random.default_rng(0).integers(len(some), size=(2, pairs))
    return _seconds(lambda: measure.compare_pairs(some, left, right)) / pairs


def sampled_join_of(opened: Opened, threshold: Threshold) -> SampledJoin:
    """Join some sets of a collection exactly, or take what was counted then from the cache.

    The postings that two sets meet in are those of one universe of symbols, so that of all items
    as many pairs of them meet, as a share, as of a sample.
    """
    manifest = opened.reader.manifest
    if not manifest.live:
        return SampledJoin(0.0, 0.0)

    def joined() -> SampledJoin:
        fit = SAMPLED_BYTES * manifest.live // max(1, manifest.item_bytes)
        step = -(-manifest.live // min(SAMPLED_ITEMS, max(2, fit)))
        begins = np.arange(0, manifest.live, step)
        # One of each range, at no equal distances: items of several sorts may take turns.
        places = begins + np.random.default_rng(0).integers(step, size=begins.size)
        numbers = opened.reader.live_numbers()[places[places < manifest.live]]
        _, items = read_items(opened.reader, numbers)
        symbols = opened.signer.symbols(items)
        order = SymbolOrder.from_sample(symbols.values)
        sets, work = order.arrange(symbols.values, symbols.offsets), Work()
        deque(joins.pairs(sets, threshold, work=work), 0)
        share = work.looked_at / max(1, len(items) * (len(items) - 1) / 2)
        expanded = sets.values.size / max(1, sum(map(len, items)))
        return SampledJoin(expanded, share)

    state = threshold, opened.size_class
    return opened.made("sampled join", state, joined)


def _seconds(work: Callable[[], object]) -> float:
    """Measure the processor time of work that was done once before, so that all is compiled."""
    work()
    begun = time.thread_time()
    work()
    return time.thread_time() - begun

"""What would an answer cost? Estimated from counts of the store and from rates of the machine.

Counts are read off the manifest, and off a sample of the index: how many entries an entry meets in
its bucket says how many candidates a search has, and how many pairs a sweep. Rates are how long an
item of the collection takes that is compared where it lies, and one that an index proposes; they
are measured on some of its own items, in processor time, once in a process. Both are kept with the
open file. An estimate decides which method answers (``choose``), and nothing else: an answer is no
less complete for a wrong one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from simdb.answers.buckets import Buckets
from simdb.answers.compare import compare_probe_with_stored
from simdb.answers.exact.method import Exact
from simdb.answers.exact.whole import WholeSets
from simdb.answers.method import Method
from simdb.answers.scan import live_features
from simdb.answers.slabs import ChunkIndex, Pigeonhole, Slabs
from simdb.arrays import UInt32s
from simdb.opened.opened import Opened
from simdb.storage.collection.manifest import open_postings
from simdb.storage.collection.reader import live_batches
from simdb.storage.tables.views import RunView
from simdb.work import Work

T = TypeVar("T")

SAMPLED_ENTRIES = 128  # of an index
MET_AT_MOST = 8_192  # entries of one bucket that are counted
JOINED_ITEMS = 1_024  # that are joined with each other
SAMPLED_ITEMS = 256  # whose features are made, or that are picked

# Seconds, of what hardly depends on the items: a key looked up in a run, a pair of entries of a
# bucket whose signatures are compared, a posting, a row sorted.
KEY_IN_RUN, PAIR_MET, POSTING_MET, ROW_SORTED = 2e-7, 2e-8, 1e-8, 1e-7
# How much longer it takes to read a set, bring it into an order and look all of it up, than to
# compare it with another one.
ARRANGED = 8


class Estimate(NamedTuple):
    """What an answer is expected to cost: items, or pairs, looked at, and seconds of one thread."""

    looked_at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Counts:
    """What is known of the indexes of a collection; nought of one that is not there."""

    live: int  # items
    keys_of_item: float = 0.0  # entries of an item in the probable index
    keys: float = 0.0  # that a search looks up in it, each in every run
    runs: int = 0
    met: float = 0.0  # entries that an entry meets under its key, itself included, on average
    around: float = 0.0  # entries in all other buckets that a search looks into
    postings_of_item: float = 0.0  # the same of the exact index
    met_postings: float = 0.0


class Rates(NamedTuple):
    """Seconds an item takes: compared where it lies; picked by an index; in a join of batches."""

    scanned: float
    picked: float
    joined: float


# -- estimates -----------------------------------------------------------------------------------


def looked_at(method: Method, verb: str, left: Opened, right: Opened) -> float:
    """Estimate by counts how many items, or pairs, are looked at; one collection is both sides."""
    counts = counts_of(right)
    if isinstance(method, WholeSets):  # of a join, what is met is known only when it is done
        return float(counts.live + (left.reader.manifest.live if verb == "join" else 0))
    if _sorts(method, verb):
        share = right.settings.kind.share_looked_at(method.bound.fraction)
        return (1.0 if share is None else share) * _all_of(verb, left, right)
    if verb in ("search", "join"):
        each = float(counts.live)
        if isinstance(method, Buckets):
            each = counts.around + _distinct(counts.met, counts.keys_of_item, counts.live)
        elif isinstance(method, Exact):
            each = _distinct(counts.met_postings, counts.postings_of_item, counts.live)
        return each if verb == "search" else each * left.reader.manifest.live
    if isinstance(method, Buckets):
        return counts.live * counts.keys_of_item * max(0.0, counts.met - 1) / 2
    if isinstance(method, Exact):
        return counts.live * counts.postings_of_item * max(0.0, counts.met_postings - 1) / 2
    return _all_of(verb, left, right)


def estimate(method: Method, verb: str, left: Opened, right: Opened) -> Estimate:
    """Estimate what a method looks at, and how long that takes."""
    counts, found = counts_of(right), looked_at(method, verb, left, right)
    if not counts.live:
        return Estimate(found, 0.0)
    rates = rates_of(right, method)
    if isinstance(method, WholeSets) and verb == "join":  # each side is read once
        sides = [side for side in (left, right) if side.reader.manifest.live]
        read = sum(side.reader.manifest.live * rates_of(side, method).scanned for side in sides)
        return Estimate(found, read * ARRANGED)
    probes = 1 if verb == "search" else left.reader.manifest.live
    if _sorts(method, verb):
        rows = probes + (counts.live if verb == "join" else 0)
        chunks = int(method.bound.fraction) + 1
        return Estimate(found, found * rates.scanned + chunks * rows * ROW_SORTED)
    is_looked_up = verb in ("search", "join")
    picked = min(found, _all_of(verb, left, right)) * rates.picked
    if isinstance(method, Buckets):
        keys = probes * counts.keys * counts.runs if is_looked_up else 0
        return Estimate(found, keys * KEY_IN_RUN + found * PAIR_MET + picked)
    if isinstance(method, Exact) and not isinstance(method, WholeSets):
        read = picked if is_looked_up else probes * rates.scanned
        return Estimate(found, found * POSTING_MET + read)
    is_joined = isinstance(method, Slabs) and verb != "search"
    return Estimate(found, found * (rates.joined if is_joined else rates.scanned))


def _distinct(met: float, keys: float, live: int) -> float:
    """Count how many items are met under any of so many keys, if these are independent."""
    share = min(1.0, met / live) if live else 0.0
    missed: float = (1.0 - share) ** keys
    return live * (1.0 - missed)


def _sorts(method: Method, verb: str) -> bool:
    """Whether all items are sorted by chunks of their bits."""
    return verb != "search" and isinstance(method, Pigeonhole | ChunkIndex)


def _all_of(verb: str, left: Opened, right: Opened) -> float:
    """Count all items, or all pairs."""
    probes, live = left.reader.manifest.live, right.reader.manifest.live
    if verb == "search":
        return float(live)
    return float(probes * live if verb == "join" else live * max(0, live - 1) / 2)


# -- counts --------------------------------------------------------------------------------------


def counts_of(opened: Opened) -> Counts:
    """Count what a collection has, or take it from the cache if it has hardly grown."""
    reader = opened.reader
    state = reader.manifest.index.number, opened.size_class
    return _kept(opened, f"counts {reader.number}", state, lambda: _counted(opened))


def _counted(opened: Opened) -> Counts:
    reader, family = opened.reader, opened.signer.family
    index, live = reader.manifest.index, reader.manifest.live
    counts = Counts(live)
    if not live:
        return counts
    if family is not None:
        of_item = index.bands.entries / live
        keys, around = of_item, 0.0
        if family.looks_around:
            any_one = np.ones((1, index.signature_width // 2), np.uint16)
            keys = float(family.probe_keys(any_one).values.size)
            around = (keys - of_item) * live / 2.0**opened.settings.rows
        view = reader.bands
        counts = replace(
            counts,
            keys_of_item=of_item,
            keys=keys,
            runs=view.run_count,
            met=_met(view),
            around=around,
        )
    if index.exact is not None:
        current = index.exact.current
        of_item = current.postings.entries / live
        met = _met(open_postings(reader.transaction, current))
        counts = replace(counts, postings_of_item=of_item, met_postings=met)
    return counts


def _met(view: RunView) -> float:
    """Count how many entries an entry meets under its key, on average over a sample of them."""
    chunks = [keys for of_run in view.keys_of_runs() for keys in of_run]
    total = sum(keys.size for keys in chunks)
    if not total:
        return 0.0
    step, passed, parts = -(-total // SAMPLED_ENTRIES), 0, []
    for keys in chunks:  # every n-th of all
        parts.append(keys[-passed % step :: step])
        passed += keys.size
    sampled = np.concatenate(parts)
    return float(view.probe(sampled, limit=MET_AT_MOST).queries.size / sampled.size)


# -- rates ---------------------------------------------------------------------------------------


def rates_of(opened: Opened, method: Method) -> Rates:
    """Measure how long items of a collection take, or take it from the cache."""
    reader = opened.reader
    # What every call costs weighs less, the more items there are to measure.
    state = opened.settings.kind, reader.manifest.live.bit_length() // 2
    return _kept(opened, f"rates {reader.number}", state, lambda: _measured(opened, method))


def _measured(opened: Opened, method: Method) -> Rates:
    signer, reader, bound = opened.signer, opened.reader, method.bound
    measure = signer.measure
    if reader.items is None:
        batch = next(live_batches(reader, most_items=SAMPLED_ITEMS))
        numbers, items = batch.numbers, batch.items
        probe = signer.features(items[:1])

        def scan() -> None:
            measure.finder(probe, bound)(signer.features(items))

    else:
        numbers, features = next(live_features(opened))
        probe, some = features[:1], features[:JOINED_ITEMS]

        def scan() -> None:
            measure.finder(probe, bound)(features)

    joined, share = 0.0, opened.settings.kind.share_looked_at(bound.fraction)
    if share is not None and len(some) > 1:
        seconds = _seconds(lambda: deque(measure.near_pairs(some, None, bound, Work()), 0))
        joined = seconds / (len(some) * (len(some) - 1) / 2)
    picked: UInt32s = numbers[:: -(-numbers.size // SAMPLED_ITEMS)]
    return Rates(
        _seconds(scan) / numbers.size,
        _seconds(lambda: compare_probe_with_stored(opened, probe, picked, bound)) / picked.size,
        joined,
    )


def _seconds(work: Callable[[], object]) -> float:
    """Measure the processor time of work that was done once before, so that all is compiled."""
    work()
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def _kept(opened: Opened, name: str, state: object, make: Callable[[], T]) -> T:
    """Take what was made before of this state from the cache of the open file, or make it."""
    caches = opened.reader.transaction.environment.caches
    known: tuple[object, T] | None = caches.get(name)
    if known is None or known[0] != state:
        known = caches[name] = state, make()
    return known[1]

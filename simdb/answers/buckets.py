"""The probable method: buckets propose, signatures drop, the items decide (MMDS 3.4.3).

A search looks up the bucket keys of its item. Pairs come from a sweep over the bucket runs in the
order of keys, so that each bucket is seen whole; a pair is taken only in the bucket of its *first*
shared band, which its two signatures tell, so it comes out once and no set of seen pairs is kept.
Memory is bounded by the setting, not by the corpus or by the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace

from simdb import kernels
from simdb.answers.ahead import done_ahead
from simdb.answers.compare import (
    PAIRS_COMPARED,
    Comparison,
    compare_probe_with_stored,
    compare_stored,
    comparisons,
)
from simdb.answers.costs import Task
from simdb.answers.method import Batches, Method, ProgressCallback
from simdb.arrays import Bools, Float64s, Int64s, UInt8s, UInt32s, UInt64s
from simdb.batches.compare import COMPARED_BYTES
from simdb.batches.meeting import (
    LARGE_BUCKET,
    BucketSlice,
    are_shared,
    by_signature,
    candidate_pairs,
    connect_similar,
    slice_of,
)
from simdb.batches.signer import Agreement, Signed, Signer
from simdb.errors import CorruptionError
from simdb.exact.thresholds import admits
from simdb.forest import Forest
from simdb.kinds import Compared
from simdb.lsh.family import BucketKeys
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Opened
from simdb.ragged import distinct_of, slices_of
from simdb.results import Guarantee, Matches, PairBatch, Progress
from simdb.storage.collection.reader import (
    CollectionReader,
    live_batches,
    read_items,
    stored_signatures,
)
from simdb.storage.file.environment import WriteTransaction
from simdb.storage.tables.views import NO_LIMIT, KeyFilter
from simdb.work import Work

if TYPE_CHECKING:
    from simdb.threads import Pool


SHARE_OF_MEMORY = 4_096  # bytes of the memory setting for one entry of a slice and all it needs
SHARE_OF_SIGNED = 64  # of the memory setting, for signatures and keys; an eighth of their bytes
LEAST_ROOM = 16  # entries of a slice
SHARE_OF_MET = 1_024  # bytes of the memory setting for an entry of a large bucket; it takes a tenth
SHARE_OF_FILTER = 16  # of the memory setting, for what tells which bucket keys are stored
MANY_KEYS = 32  # of a search
FEW_MET = 32  # entries of the buckets of a search
MANY_MET = 8  # entries of the buckets of each of many probes, of which few are near it
ITEMS_MET = 4  # times each item of a range is met, where all of the range are read
MARKED_A_KEY = 64  # keys that are marked in the time that one is looked up, about
NEW_SHARE = 32  # new items are looked up if at most this part of all is new
PROBES_AT_ONCE = 2_000  # items of the left collection
PROBED_AT_ONCE = 1_024  # items
LEAST_PROBED = 128  # items, of many that are given
PARTS_OF_MANY = 8
# Seconds: a key is looked up in a run, an entry is swept, two signatures of a bucket are compared.
KEY_IN_RUN, ENTRY_SWEPT, PAIR_MET = 2e-7, 3e-8, 4e-8

NumberPairs: TypeAlias = tuple[UInt32s, UInt32s]
T = TypeVar("T")
# The name and the items of a part, their features where they are needed again, and what is signed.
_SignedPart: TypeAlias = tuple[T, Sequence[bytes | memoryview], Any, Signed]


class Similar(NamedTuple):
    """Pairs of a probe and a stored item within the bound, and what was compared to find them."""

    probes: Int64s  # positions in their batch
    others: UInt32s  # item numbers
    values: Float64s  # similarities or distances
    compared: Int64s  # of each comparison, the position of its probe

    @classmethod
    def together(cls, parts: Iterable[Similar]) -> Similar:
        """Put parts, of which there is one at least, together."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Buckets(Method, frozen=True):
    """Answers by the probable index, with the true values of what it finds."""

    guarantee: ClassVar[Guarantee] = "probable"
    name: ClassVar[str] = "buckets"

    def is_served_by(self, settings: CollectionSettings) -> bool:
        """Whether there is a probable index that is planned for the bound, or finds as many."""
        if not settings.is_probable:
            return False
        is_planned = admits(settings.bound, self.bound)
        return is_planned or settings.expected_recall(self.bound) >= self.recall

    def search(self, opened: Opened, item: bytes, limit: int | None) -> Matches:
        """Find the stored items that are similar to one item."""
        signer = opened.signer
        probe = signer.features([item])
        hashed = probe if signer.kind.signs_what_it_compares else signer.hashed([item])
        probing = as_probes(signer, signer.sign_hashed(hashed), [item], features=probe)
        known = _stored_keys(opened, probing.buckets.values.size)
        if known is not None:
            keys = probing.buckets.values
            probing = replace(probing, buckets=BucketKeys.of_one(keys[known.perhaps_stored(keys)]))
        candidates = propose(opened.reader, probing, signer.agreement(self.bound))
        opened.work.looked_at += candidates.numbers.size
        if not candidates.numbers.size:
            return self.answer(opened, (), 0)
        found = compare_probe_with_stored(opened, probe, candidates.numbers, self.bound)
        return self.matches(opened, found, limit)

    def search_many(
        self, opened: Opened, items: Sequence[bytes], limit: int | None
    ) -> list[Matches]:
        """Look several items up together; they are signed on threads."""
        if len(items) == 1:
            return [self.search(opened, items[0], limit)]
        answers: list[Matches] = []
        weights = opened.signer.items.weights(items)
        at_once = PROBED_AT_ONCE
        if opened.resources.pool() is not None:  # enough parts that all threads have some to do
            at_once = max(LEAST_PROBED, min(at_once, len(items) // PARTS_OF_MANY))
        most = min(at_once, most_probed(opened))
        slices = slices_of(np.maximum(weights, COMPARED_BYTES // most), COMPARED_BYTES)
        parts = ((some, items[some]) for some in slices)
        for some, similar in groupby(self._similar_to(opened, parts, opened.work), itemgetter(0)):
            found = Similar.together(part for _, part in similar)
            compared = np.bincount(found.compared, minlength=some.stop - some.start)
            pairs = found.probes, found.others, found.values
            answers += self.matches_of_many(opened, [pairs], compared.tolist(), limit)
        return answers

    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Yield pairs in the order of buckets; or look new items up in theirs, if they are few."""
        for left, right in self.candidates(opened, since=since):
            compared, met = self._compared(opened, left, right)
            if met.any():
                values = compared.values()[met]
                is_distance = opened.signer.kind.is_distance
                yield PairBatch.of(left[met], right[met], values, is_distance=is_distance), None

    def candidates(self, opened: Opened, *, since: int = 0) -> Iterator[NumberPairs]:
        """Yield what ``pairs`` compares, by item numbers, the earlier one first."""
        if are_few(opened.reader, since):
            candidates = self._candidates_of_new(opened, since)
        else:
            candidates = self._candidates_of_all(opened)
        for one, other in candidates:
            new = other >= since
            yield one[new], other[new]

    def candidates_between(self, left: Opened, right: Opened) -> Iterator[NumberPairs]:
        """Yield what ``join`` compares, by item numbers."""
        needed = right.signer.agreement(self.bound)
        for numbers, items in self._probes(left, right):
            _, signed = _signed(right.signer, items, right.resources.pool())
            for probes, others, *_ in _candidates_of_probes(right, signed, needed):
                left.work.spend(others.size)
                yield numbers[probes], others

    def _probes(self, left: Opened, right: Opened) -> Iterator[tuple[UInt32s, Any]]:
        """Yield the items of the left collection, in batches that are signed together."""
        return live_batches(
            left.reader,
            most_items=min(PROBES_AT_ONCE, most_probed(right)),
            weights=right.signer.items.weights,
        )

    def join(self, left: Opened, right: Opened) -> Batches:
        """Look the items of the left collection up in the buckets of the right one."""
        is_distance = right.signer.kind.is_distance
        for numbers, found in self._similar_to(right, self._probes(left, right), left.work):
            left.work.found += found.others.size
            if found.others.size:
                ones = numbers[found.probes]
                yield PairBatch.of(ones, found.others, found.values, is_distance=is_distance), None

    def _similar_to(
        self,
        opened: Opened,
        parts: Iterable[tuple[T, Sequence[bytes | memoryview]]],
        work: Work,
    ) -> Iterator[tuple[T, Similar]]:
        """Look items up in the buckets, and compare what is found there in full.

        They come in parts, each with what stands for it, and so do the answers, one at least of
        each part. While one is looked up, threads sign the next, and compare what was found.
        """
        signer, pool = opened.signer, opened.resources.pool()
        needed = signer.agreement(self.bound)

        def sign(name: T, items: Sequence[bytes | memoryview]) -> _SignedPart[T]:
            return name, items, *_signed(signer, items)

        def compare(
            name: T, proposals: Proposals, comparison: Comparison
        ) -> tuple[T, Proposals, Int64s, Compared]:
            return name, proposals, *comparison.result()

        def compared_parts() -> Generator[
            Callable[[], tuple[T, Proposals, Int64s, Compared]], None, None
        ]:
            calls = (partial(sign, *part) for part in parts)
            with closing(done_ahead(calls, pool)) as signed_parts:
                for name, items, features, signed in signed_parts:
                    for proposals in _candidates_of_probes(opened, signed, needed):
                        work.spend(proposals.numbers.size)
                        pairs = proposals.probes, proposals.numbers
                        for comparison in comparisons(opened, items, *pairs, features=features):
                            yield partial(compare, name, proposals, comparison)

        with closing(compared_parts()) as calls, closing(done_ahead(calls, pool)) as done:
            for name, (probes, others, *_), places, compared in done:
                work.compared += places.size
                met = self.bound.meets_many(compared.numerators, compared.denominators)
                hits, values = places[met], compared.values()[met]
                yield name, Similar(probes[hits], others[hits], values, probes[places])

    def groups(self, opened: Opened, progress: ProgressCallback | None = None) -> list[UInt32s]:
        """Connect items without comparing those that are connected already.

        So a bucket of many equal items costs one comparison an item, not one a pair: first every
        member is compared with the first of its bucket, then only members that are still in
        different groups with each other. The groups are the same as those of all pairs. Memory
        beside the setting: eight bytes an item.
        """
        forest = Forest(opened.reader.places())
        needed = opened.signer.agreement(self.bound)

        def similar(left: UInt32s, right: UInt32s) -> Bools:
            return self._compared(opened, left, right)[1]

        for part in bucket_slices(opened):
            connect_similar(part, forest, needed, opened.work, similar, at_once=PAIRS_COMPARED)
            if progress is not None:
                progress(Progress("comparing candidates", opened.work.compared, None))
        return forest.groups()

    def looked_at(self, task: Task) -> float:
        """Estimate what is met in the buckets, by a sample of them."""
        counts = task.counts
        if not task.looks_up:
            return counts.live * counts.keys_of_item * max(0.0, counts.met - 1) / 2
        return task.probes * (counts.around + counts.met_under(counts.keys_of_item, counts.met))

    def seconds(self, task: Task) -> float:
        """Estimate how long it takes to find candidates, and to compare them."""
        counts, found, rates = task.counts, self.looked_at(task), task.rates(self.bound)
        pairs = min(found, task.everything)
        if task.looks_up:
            entries = task.probes * counts.keys * counts.runs * KEY_IN_RUN
        else:
            entries = counts.live * counts.keys_of_item * ENTRY_SWEPT
        pairs *= counts.agreeing(task.right.signer.agreement(self.bound).words)
        compared = pairs * rates.picked
        if rates.paired and not task.looks_up:  # each item of a batch is read once
            compared = min(compared, counts.live * rates.scanned + pairs * rates.paired)
        return entries + found * PAIR_MET + compared

    def _compared(self, opened: Opened, left: UInt32s, right: UInt32s) -> tuple[Compared, Bools]:
        """Compare candidates in full; which are within the bound?"""
        compared = compare_stored(opened, left, right)
        met = self.bound.meets_many(compared.numerators, compared.denominators)
        opened.work.compared += left.size
        opened.work.found += int(np.count_nonzero(met))
        return compared, met

    def _candidates_of_all(self, opened: Opened) -> Iterator[NumberPairs]:
        needed = opened.signer.agreement(self.bound)
        for part in map(by_signature, bucket_slices(opened)):
            for one, other in candidate_pairs(part, needed, opened.work, at_once=PAIRS_COMPARED):
                yield np.minimum(one, other), np.maximum(one, other)

    def _candidates_of_new(self, opened: Opened, since: int) -> Iterator[NumberPairs]:
        """Look new items up in the buckets, and pair each with those before it."""
        signer, reader = opened.signer, opened.reader
        needed = signer.agreement(self.bound)
        for numbers in _live_numbers(reader, since, min(PROBED_AT_ONCE, most_probed(opened))):
            signatures, present = stored_signatures(reader, numbers)
            own = Signed(signatures, signer.bucket_keys(signatures), present)
            items = read_items(reader, numbers)[1] if looks_around(signer) else []
            signed = as_probes(signer, own, items)
            for probes, others, *_ in _candidates_of_probes(opened, signed, needed):
                opened.work.spend(others.size)
                before = others < numbers[probes]
                left, right = others[before], numbers[probes[before]]
                for begin in range(0, left.size, PAIRS_COMPARED):
                    some = slice(begin, begin + PAIRS_COMPARED)
                    yield left[some], right[some]


def are_few(reader: CollectionReader, since: int) -> bool:
    """Whether so few items are new that it is quicker to look each up."""
    return (reader.manifest.next_number - since) * NEW_SHARE <= reader.manifest.live


def most_probed(opened: Opened) -> int:
    """Of how many probes signatures and bucket keys fit into a share of the memory setting."""
    return opened.signer.most_probed(opened.resources.memory // SHARE_OF_SIGNED)


def _live_numbers(reader: CollectionReader, since: int, at_once: int) -> Iterator[UInt32s]:
    for block in reader.documents.scan(since):
        numbers = block.numbers[block.numbers >= since]
        numbers = numbers[reader.alive(numbers)]
        for begin in range(0, numbers.size, at_once):
            yield numbers[begin : begin + at_once]


def _signed(
    signer: Signer, items: Sequence[bytes | memoryview], pool: Pool | None = None
) -> tuple[Any, Signed]:
    """Sign probes; and keep their features, where both need the same."""
    if signer.kind.signs_what_it_compares and signer.measure.is_slow_to_prepare:
        features = signer.hashed(items)
        return features, as_probes(signer, signer.sign_hashed(features), items, features=features)
    return None, as_probes(signer, signer.sign(items, pool), items)


def looks_around(signer: Signer) -> bool:
    """Whether probes look into more buckets than those that they would be in."""
    return signer.family is not None and signer.family.looks_around


def as_probes(
    signer: Signer,
    signed: Signed,
    items: Sequence[bytes | memoryview],
    *,
    features: Any = None,
) -> Signed:
    """Give items the keys that they are looked up by: of all buckets that may hold similar ones.

    Their ``features`` are made anew where they are not had already.
    """
    if signer.family is None or not signer.family.looks_around:
        return signed
    known = signer.features(items) if features is None else features
    keys = signer.family.probe_keys(known, signed.signatures)
    return replace(signed, buckets=keys, rising=None)


def _candidates_of_probes(right: Opened, signed: Signed, needed: Agreement) -> Iterator[Proposals]:
    """Look probes up; those with a large bucket in parts."""
    found = propose(right.reader, signed, needed, limit=LARGE_BUCKET)
    small = ~found.cut[found.probes]
    yield found._replace(probes=found.probes[small], numbers=found.numbers[small])

    def look_up(own: Int64s) -> Proposals:
        part = Signed(signed.signatures[own], signed.buckets.select(own), signed.comparable[own])
        similar = propose(right.reader, part, needed)
        return similar._replace(probes=own[similar.probes])

    yield from in_parts(np.flatnonzero(found.cut), look_up, right.resources.memory)


def in_parts(
    probes: Int64s, look_up: Callable[[Int64s], Proposals], memory: int
) -> Iterator[Proposals]:
    """Look probes up whose buckets may be large: so many at once that a memory setting bounds them.

    Buckets of neighbours are about as large; a single one may be that of all items. What is left
    of them for comparing is often little, and is put together.
    """
    held: list[Proposals] = []
    size, at_once, most_met = 0, 1, memory // SHARE_OF_MET
    while probes.size:
        own, probes = probes[:at_once], probes[at_once:]
        part = look_up(own)
        each = max(1, part.met // own.size)
        at_once = min(max(1, most_met // each), 2 * at_once, PROBED_AT_ONCE)
        if held and size + part.numbers.size > PAIRS_COMPARED:
            yield Proposals.together(held)
            held, size = [], 0
        held.append(part)
        size += part.numbers.size
    if held:
        yield Proposals.together(held)


# -- probing: which stored items share a bucket with each probe? -------------------------------


class Proposals(NamedTuple):
    """Proposed pairs of a probe and a stored item, by probe, then by item number."""

    probes: Int64s  # positions in their batch
    numbers: UInt32s
    cut: Bools  # of each probe, whether a bucket of it held more than the limit
    met: int = 0  # entries of buckets, some of the same items

    @classmethod
    def together(cls, parts: Sequence[Proposals]) -> Proposals:
        """Put parts of rising probes together, of which there is one at least."""
        probes, numbers = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
        return cls(probes, numbers, parts[0].cut, sum(part.met for part in parts))


def propose(
    reader: CollectionReader,
    signed: Signed,
    needed: Agreement,
    *,
    limit: int = NO_LIMIT,
    known: KeyFilter | None = None,
) -> Proposals:
    """Find the live items that share a bucket with each probe, and agree with it as is needed.

    Of one bucket at most ``limit`` items, the oldest first. Of a probe with a bucket that holds
    more, the candidates end with the last item that was seen of every such bucket. A filter tells
    of most keys of many probes that they are not stored; see ``RunView.perhaps_stored``.
    """
    probes_count = signed.comparable.size
    usable = signed.comparable.nonzero()[0]
    chosen = signed if usable.size == probes_count else signed.select(usable)
    buckets = chosen.buckets
    if buckets.groups is not None:
        limit = NO_LIMIT  # what is cut off in one group might be all that another has
    queries, places = buckets.values, None
    if probes_count > 1 and buckets.groups is None:
        queries, places = _arranged(reader, chosen, known)
    found = reader.bands.probe(queries, limit=limit)
    cut = np.zeros(probes_count, np.bool_)
    if not found.queries.size:  # as of most items that are like no other
        return Proposals(np.empty(0, np.int64), np.empty(0, np.uint32), cut)
    items = reader.bands.column(found, 0)
    if probes_count == 1 and limit == NO_LIMIT and buckets.groups is None:
        numbers = _of_one_probe(reader, signed, items, needed)
        return Proposals(np.zeros(numbers.size, np.int64), numbers, cut, items.size)

    def owners_of(asked: Int64s | UInt32s) -> Int64s:
        """Return the probes of queries."""
        return usable[buckets.owners(asked if places is None else places[asked])]

    # Of one probe no entry needs to be told whose it is.
    owners = np.zeros(queries.size, np.int64)
    if probes_count > 1:
        owners = owners_of(np.arange(queries.size))
    hits, horizon = found.queries, np.full(cut.size, np.iinfo(np.uint32).max)
    if limit != NO_LIMIT:
        full = np.flatnonzero(np.bincount(hits, minlength=queries.size) >= limit)
        cut[owners[full]] = True
        # What a bucket was cut at is all that is known of it. Beyond the smallest such item number
        # an item of another bucket might not be the next candidate, so it is left for another time.
        last_items = np.zeros(queries.size, np.uint32)
        np.maximum.at(last_items, hits, items)
        np.minimum.at(horizon, owners[full], last_items[full])
    agree = needed.words > 0 or needed.family is not None
    is_much = probes_count > 1 and buckets.groups is None and items.size > MANY_MET * probes_count
    if agree and is_much:
        # Most of so many agree in a band alone: they go before they are sorted.
        near = _agreeing_hits((reader, hits, items), signed, owners, horizon, needed)
        hits, items, agree = hits[near], items[near], False
    elif limit != NO_LIMIT:
        near = items <= horizon[owners.take(hits)]
        hits, items = hits[near], items[near]
    probe_of = owners.take(hits)
    if buckets.groups is None:
        packed = _distinct(probe_of, items)
    else:
        groups = buckets.groups[found.queries]
        packed = _in_every_group(probe_of, items, groups, buckets.group_count)
    probes, numbers = _unpacked(packed)
    if reader.manifest.tombstones:
        alive = reader.alive(numbers)
        probes, numbers = probes[alive], numbers[alive]
    if agree:
        promising = _agreeing(reader, signed, probes, numbers, needed)
        probes, numbers = probes[promising], numbers[promising]
    return Proposals(probes, numbers, cut, found.queries.size)


def _of_one_probe(
    reader: CollectionReader, signed: Signed, items: UInt32s, needed: Agreement
) -> UInt32s:
    """Find the live items that agree with a probe as is needed, of those of all its buckets."""
    numbers, shared = _counted(items)
    if reader.manifest.tombstones:
        numbers = numbers[reader.alive(numbers)]
    if needed.family is None and shared * needed.shared >= needed.words:
        return numbers  # as their buckets tell
    return numbers[_agreeing(reader, signed, np.zeros(numbers.size, np.int64), numbers, needed)]


def _counted(items: UInt32s) -> tuple[UInt32s, int]:
    """Return the distinct ones of some items, ascending, and how often the rarest is there."""
    if items.size <= FEW_MET:  # as of most searches; which Python's own numbers do sooner
        listed = items.tolist()
        distinct = sorted(set(listed))
        return np.array(distinct, np.uint32), min(map(listed.count, distinct))
    numbers, counts = np.unique(items, return_counts=True)
    return numbers, int(counts.min())


def _stored_keys(opened: Opened, keys: int) -> KeyFilter | None:
    """Return a filter of the stored keys for a search of many buckets, where it has paid to make.

    It is kept as long as the state is the same. Nothing is said of the keys of groups.
    """
    reader, family = opened.reader, opened.signer.family
    if keys < MANY_KEYS or isinstance(reader.transaction, WriteTransaction):
        return None
    if family is None or not family.looks_around:
        return None

    def made() -> tuple[KeyFilter | None]:
        try:
            return (reader.bands.key_filter(opened.resources.memory // SHARE_OF_FILTER),)
        except CorruptionError:  # which ends the searches that need what is damaged, not all
            return (None,)

    worth = keys * MARKED_A_KEY / max(1, reader.bands.entries)
    (known,) = opened.kept("stored keys", made, worth=worth) or (None,)
    return known


def _arranged(
    reader: CollectionReader, signed: Signed, known: KeyFilter | None
) -> tuple[UInt64s, Int64s]:
    """Return the keys that may be stored, rising, since what one reads serves the next.

    And their places among all.
    """
    keys, order = signed.buckets.values, signed.rising
    queries = keys if order is None else keys[order]
    stored = None if known is None else reader.bands.perhaps_stored(queries, known)
    if stored is None:
        order = signed.order
    elif order is None:
        order = stored[kernels.runs.order_of(queries[stored])].astype(np.int64)
    else:
        order = order[stored]
    return keys[order], order


def _in_every_group(probes: Int64s, numbers: UInt32s, groups: UInt8s, group_count: int) -> UInt64s:
    """Return the pairs that share a bucket of every group, packed (MMDS 3.8.5)."""
    packed: UInt64s | None = None
    if probes[0] == probes[-1]:  # bitmaps are quicker, and one probe needs few
        found = kernels.fingerprints.in_every_group(
            numbers, groups, group_count, int(numbers.max()) + 1
        )
        return (np.uint64(probes[0]) << np.uint64(32)) | found.astype(np.uint64)
    for group in range(group_count):
        inside = groups == group
        pairs = _distinct(probes[inside], numbers[inside])
        packed = pairs if packed is None else np.intersect1d(packed, pairs, assume_unique=True)
    return np.empty(0, np.uint64) if packed is None else packed


def _distinct(probes: Int64s, numbers: UInt32s) -> UInt64s:
    """Return each pair of probe and item once, packed and sorted."""
    packed = (probes.astype(np.uint64) << np.uint64(32)) | numbers
    packed.sort()
    new = np.empty(packed.size, np.bool_)
    new[:1] = True
    np.not_equal(packed[1:], packed[:-1], out=new[1:])
    return packed[new]


def _unpacked(packed: UInt64s) -> tuple[Int64s, UInt32s]:
    return (packed >> np.uint64(32)).astype(np.int64), packed.astype(np.uint32)


def _agreeing_hits(
    found: tuple[CollectionReader, UInt32s, UInt32s],
    signed: Signed,
    owners: Int64s,
    horizon: Int64s,
    needed: Agreement,
) -> Bools:
    """Tell which entries of buckets agree with their probe in as much as is needed.

    ``owners`` are the probes of queries, ``horizon`` is the last item of each that counts.
    """
    reader, queries, items = found
    least, most = int(items.min()), int(items.max())
    numbers, rows = np.arange(least, most + 1, dtype=np.uint32), items
    if ITEMS_MET * numbers.size > items.size:
        numbers, places = distinct_of(items)
        rows, least = places.astype(np.uint32), 0
    own, (words, present) = signed.signatures, stored_signatures(reader, numbers)
    near = kernels.sketches.agreeing_hits(
        queries, items, rows, least, owners, horizon, own, words, present, needed.words
    )
    if needed.family is not None:
        chosen = near.nonzero()[0]
        others = words[rows[chosen].astype(np.int64) - least]
        near[chosen] = needed.holds(own[owners[queries[chosen]]], others)
    return near


def _agreeing(
    reader: CollectionReader, signed: Signed, probes: Int64s, numbers: UInt32s, needed: Agreement
) -> Bools:
    """Tell which candidates agree with their probe in as much of the signature as is needed."""
    if not numbers.size:
        return np.empty(0, np.bool_)
    distinct, places = numbers, np.arange(numbers.size)
    if signed.comparable.size > 1:  # several probes may propose one item
        distinct, places = distinct_of(numbers)
    own, (words, present) = signed.signatures, stored_signatures(reader, distinct)
    enough = kernels.sketches.agreeing_rows(own, probes, words, places, needed.words)
    enough &= present[places]
    if needed.family is not None:
        enough[enough] = needed.holds(own[probes[enough]], words[places[enough]])
    return enough


# -- sweeping: which items share a bucket? ----------------------------------------------------


def bucket_slices(opened: Opened) -> Iterator[BucketSlice]:
    """Sweep the buckets of all live items in the order of their keys."""
    reader = opened.reader
    room = max(4_096, opened.resources.memory // SHARE_OF_MEMORY)
    most_indexed = opened.signer.most_indexed(opened.resources.memory // SHARE_OF_SIGNED)
    room = max(LEAST_ROOM, min(room, most_indexed))
    for keys, columns in reader.bands.sweep(reader.tombstones, room=room):
        in_buckets = are_shared(keys)
        if in_buckets.any():
            yield _slice(opened, keys[in_buckets], columns[0][in_buckets])


def _slice(opened: Opened, keys: UInt64s, entries: UInt32s) -> BucketSlice:
    numbers, members = np.unique(entries, return_inverse=True)
    signatures, _ = stored_signatures(opened.reader, numbers)
    return slice_of(opened.signer, numbers, signatures, keys, members)

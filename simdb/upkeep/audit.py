"""The self-audit: how much of the truth does the index find, measured on a sample?

The sampled items' symbols are gathered in one table; then every stored item is read once and its
overlap with each sampled item counted exactly. That is the truth, which the answers of searches
are held against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import sqrt

import numpy as np

from simdb import kernels
from simdb.answers.buckets import propose
from simdb.answers.scan import live_features
from simdb.arrays import Int64s, UInt32s, UInt64s
from simdb.exact.thresholds import Bound, Threshold
from simdb.kinds import Kind
from simdb.kinds.bounds import outer_bound
from simdb.lsh.symbols import SymbolSets
from simdb.opened.opened import Opened
from simdb.results import AuditBin, AuditReport, Progress
from simdb.storage.collection.reader import CollectionReader, live_batches

BIN_WIDTH = 0.05


def audit(
    opened: Opened,
    bound: Bound,
    *,
    sample: int,
    seed: int,
    progress: Callable[[Progress], None] | None,
) -> AuditReport:
    """Measure recall and precision of an index on a random sample of its items."""
    kind, signer, collection = opened.settings.kind, opened.signer, opened.reader
    expected_recall = opened.settings.expected_recall(bound)  # also tells that there is no index
    sampled, items = _sample(collection, sample, seed)
    if signer.kind.has_symbols:
        assert isinstance(bound, Threshold)
        symbols = _distinct(signer.symbols(items))
        true_pairs = _true_pairs(opened, bound, sampled, symbols, progress=progress)
    else:
        true_pairs = _scanned_pairs(opened, bound, sampled, items, progress=progress)
    candidates = propose(collection, signer.sign(items), signer.needed_matches(bound))
    others = candidates.numbers != sampled[candidates.probes]
    proposed = {
        (int(probe), int(number))
        for probe, number in zip(candidates.probes[others], candidates.numbers[others], strict=True)
    }
    found = {pair: similarity for pair, similarity in true_pairs.items() if pair in proposed}
    total = len(true_pairs)
    return AuditReport(
        sampled=len(items),
        compared=collection.manifest.live,
        threshold=float(outer_bound(kind, bound).fraction),
        true_pairs=total,
        found_pairs=len(found),
        recall=len(found) / total if total else None,
        recall_interval=recall_interval(_by_probe(true_pairs), _by_probe(found)) if total else None,
        expected_recall=expected_recall,
        candidates=len(proposed),
        precision=len(found) / len(proposed) if proposed else None,
        bins=()
        if signer.kind.is_distance
        else tuple(_bins(outer_bound(kind, bound), _outer(kind, true_pairs), _outer(kind, found))),
    )


def _outer(kind: Kind, pairs: dict[tuple[int, int], float]) -> list[float]:
    values: list[float] = kind.outer_values(np.array(list(pairs.values()), np.float64)).tolist()
    return values


def _by_probe(pairs: Iterable[tuple[int, int]]) -> Counter[int]:
    return Counter(probe for probe, _ in pairs)


def recall_interval(true: Counter[int], found: Counter[int]) -> tuple[float, float]:
    """Return the 95 % interval of the share of true pairs that are found.

    Pairs of one item are found or missed together: their items, not they, were drawn at random. So
    as many independent pairs are reckoned with as would make the share as uncertain as the items
    make it (the variance of a ratio of sums; Cochran, Sampling Techniques, 6.3), or, where all or
    none are found and nothing varies, as many as there would be if those of an item were one.

    Args:
        true: true pairs of each item that has any.
        found: those of them that were found.
    """
    total = true.total()
    share = found.total() / total
    errors = [found[item] - share * pairs for item, pairs in true.items()]
    variance = sum(error**2 for error in errors) / total**2
    if variance:
        variance *= len(errors) / (len(errors) - 1)
        independent = share * (1 - share) / variance
    else:
        independent = total**2 / sum(pairs**2 for pairs in true.values())
    return wilson_interval(share, min(independent, total), freedom=max(1, len(errors) - 1))


def wilson_interval(share: float, trials: float, *, freedom: int) -> tuple[float, float]:
    """Return the 95 % interval of a proportion (E. B. Wilson, JASA 1927), by Student's points.

    Args:
        share: of successes.
        trials: how many, also between whole numbers.
        freedom: degrees of freedom in the number of trials, if that is an estimate.
    """
    from scipy.special import stdtrit  # takes long to load

    point = float(stdtrit(freedom, 0.975))
    square = point**2
    center = share + square / (2 * trials)
    spread = point * sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    scale = 1 + square / trials
    return max(0.0, (center - spread) / scale), min(1.0, (center + spread) / scale)


def _sample(collection: CollectionReader, sample: int, seed: int) -> tuple[UInt32s, list[bytes]]:
    """Choose live items at random; fewer if there are not so many."""
    generator = np.random.default_rng(seed)
    chosen = np.empty(0, np.uint32)
    live = collection.live_numbers()
    if live.size:
        chosen = np.sort(generator.choice(live, min(sample, live.size), replace=False))
    items = [bytes(document.item) for _, document in collection.documents_of(chosen)]
    return chosen, items


def _distinct(symbols: SymbolSets) -> list[UInt64s]:
    offsets = symbols.offsets.tolist()
    return [np.unique(symbols.values[begin:end]) for begin, end in pairwise(offsets)]


def _true_pairs(
    opened: Opened,
    threshold: Threshold,
    sampled: UInt32s,
    sets: list[UInt64s],
    *,
    progress: Callable[[Progress], None] | None,
) -> dict[tuple[int, int], float]:
    """Compare every stored item with every sampled one; return the similar pairs."""
    probes = _Probes(sets, threshold)
    pairs: dict[tuple[int, int], float] = {}
    done = 0
    for numbers, items in live_batches(opened.reader):
        symbols = opened.signer.symbols(items)
        which_item, which_probe, overlaps = probes.overlaps(symbols)
        unions = _distinct_sizes(symbols, which_item) + probes.sizes[which_probe] - overlaps
        met = threshold.meets_many(overlaps, unions)
        met &= numbers[which_item] != sampled[which_probe]
        for place in np.flatnonzero(met).tolist():
            pair = int(which_probe[place]), int(numbers[which_item[place]])
            pairs[pair] = int(overlaps[place]) / int(unions[place])
        done += len(items)
        if progress is not None:
            progress(Progress("comparing with all items", done, opened.reader.manifest.live))
    return pairs


def _scanned_pairs(
    opened: Opened,
    bound: Bound,
    sampled: UInt32s,
    items: list[bytes],
    *,
    progress: Callable[[Progress], None] | None,
) -> dict[tuple[int, int], float]:
    """Compare every stored item with every sampled one, of a kind without symbols."""
    signer = opened.signer
    probes = [signer.features([item]) for item in items]
    pairs: dict[tuple[int, int], float] = {}
    done = 0
    for numbers, features in live_features(opened):
        for place, probe in enumerate(probes):
            compared = signer.measure.compare_probe(probe, features)
            met = bound.meets_many(compared.numerators, compared.denominators)
            met &= numbers != sampled[place]
            values = compared.values()
            for other in np.flatnonzero(met).tolist():
                pairs[place, int(numbers[other])] = float(values[other])
        done += numbers.size
        if progress is not None:
            progress(Progress("comparing with all items", done, opened.reader.manifest.live))
    return pairs


class _Probes:
    """The symbols of the sampled items, by symbol."""

    def __init__(self, sets: list[UInt64s], threshold: Threshold) -> None:
        self.sizes = np.array([part.size for part in sets], np.int64)
        owners = np.repeat(np.arange(len(sets)), self.sizes)
        values = np.concatenate(sets) if sets else np.empty(0, np.uint64)
        order = np.argsort(values, kind="stable")
        self._owners = owners[order]
        self._symbols, starts = np.unique(values[order], return_index=True)
        self._starts = np.append(starts, values.size).astype(np.int64)
        # Whatever the other set, the overlap is at least J times the size of this one.
        self._needed = threshold.minimum_sizes(self.sizes)

    def overlaps(self, symbols: SymbolSets) -> tuple[Int64s, ...]:
        """Return item, probe and overlap of all pairs that may be similar."""
        room = 4_096
        while True:
            output = tuple(np.empty(room, np.int64) for _ in range(3))
            rows = kernels.overlaps.overlaps_with_many(
                self._symbols,
                self._starts,
                self._owners,
                self._needed,
                symbols.values,
                symbols.offsets,
                *output,
            )
            if rows <= room:
                return tuple(column[:rows] for column in output)
            room = rows


def _distinct_sizes(symbols: SymbolSets, wanted: Int64s) -> Int64s:
    """Return the number of distinct symbols of the items wanted."""
    distinct, places = np.unique(wanted, return_inverse=True)
    sizes = np.array(
        [
            np.unique(symbols.values[symbols.offsets[item] : symbols.offsets[item + 1]]).size
            for item in distinct.tolist()
        ],
        np.int64,
    )
    return sizes[places] if sizes.size else np.empty(0, np.int64)


def _bins(
    bound: Bound, true_similarities: list[float], found_similarities: list[float]
) -> Iterator[AuditBin]:
    """Count true and found pairs by ranges of similarity from the threshold to 1."""
    lowest = float(bound.fraction)
    edges = [lowest]
    while edges[-1] + BIN_WIDTH < 1 - 1e-9:
        edges.append(edges[-1] + BIN_WIDTH)
    for begin, end in zip(edges, [*edges[1:], 1.0 + 1e-9], strict=True):
        yield AuditBin(
            lowest=begin,
            highest=min(end, 1.0),
            true_pairs=sum(begin <= value < end for value in true_similarities),
            found_pairs=sum(begin <= value < end for value in found_similarities),
        )

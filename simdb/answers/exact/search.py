"""Many-one, exact: which stored items are similar to this one? None is missed.

The prefix of the probe is looked up in the postings; sizes, positions and counts of common symbols
leave few candidates (MMDS 3.9.3 to 3.9.6), which are compared in full.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.answers.buckets.search import Candidates, Similar
from simdb.answers.compare import compare_with_probe
from simdb.answers.exact.arrange import Epoch, Prefixes, arrange
from simdb.errors import ConfigurationError
from simdb.exact.measures import Criterion, Measure
from simdb.exact.thresholds import Threshold
from simdb.ingest.postings import current_epoch
from simdb.kinds import Compared
from simdb.opened.signer import Signer
from simdb.results import Effort
from simdb.storage.collection.manifest import ITEM, POSITION, SIZE, open_postings
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.tables.views import RunView

if TYPE_CHECKING:
    from simdb.kernels.postings import Bounds

CACHED_SIZE = 16_384  # symbols; the bounds of larger probes are large tables


@dataclass(slots=True)
class SearchCounters:
    """What searches did.

    Attributes:
        effort: limits the postings scanned: each is a pair of a probe and an item.
        runs: runs of postings that were looked into.
        looked_up: symbols of probes that were looked up.
        scanned: postings found under them.
        candidates: items that passed the bounds on postings.
        verified: live ones, compared in full.
    """

    effort: Effort = field(default_factory=Effort)
    runs: int = 0
    looked_up: int = 0
    scanned: int = 0
    candidates: int = 0
    verified: int = 0


class Prober:
    """Looks up probes in the exact index of a collection, in one snapshot.

    Attributes:
        epoch: the order in which probes must be arranged.
        criterion: what similar enough means.
    """

    def __init__(
        self,
        collection: CollectionReader,
        criterion: Criterion,
        *,
        counters: SearchCounters | None = None,
    ) -> None:
        epoch, exact = current_epoch(collection), collection.manifest.index.exact
        if epoch is None or exact is None:
            raise ConfigurationError("the collection has no exact index")
        self.epoch: Epoch = epoch
        self.counters = counters or SearchCounters()
        self.criterion = criterion
        self._collection = collection
        self._view: RunView = open_postings(collection.transaction, exact.current)
        self.counters.runs = self._view.run_count

    def candidates(self, keys: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.uint32]:
        """Return the live items that can be similar to a probe, ascending; no similar one misses.

        Args:
            keys: the first symbols of the probe in the order of the epoch, as many at least as the
                criterion looks up.
            size: symbols of the probe.
        """
        prefix = self.criterion.probe_prefix(size)
        looked_up = keys[:prefix]
        found = self._view.probe(looked_up)
        items = self._view.column(found, ITEM)
        positions = self._view.column(found, POSITION)
        sizes = self._view.column(found, SIZE)
        self.counters.looked_up += looked_up.size
        self.counters.effort.note(items.size)
        self.counters.scanned += items.size
        if not items.size:
            return items
        offsets = np.searchsorted(found.queries, np.arange(looked_up.size + 1, dtype=np.uint32))
        hits = kernels.postings.Hits(offsets.astype(np.int64), items, positions, sizes - positions)
        bounds = bounds_of(self.criterion, size, int(sizes.max()))
        shift = kernels.hashes.table_shift(items.size)
        numbers, _ = kernels.postings.probe_candidates(hits, bounds, shift)
        self.counters.candidates += numbers.size
        if self._collection.manifest.tombstones:
            numbers = numbers[self._collection.alive(numbers)]
        self.counters.verified += numbers.size
        return np.sort(numbers)

    def propose(self, prefixes: Prefixes, rows: npt.NDArray[np.int64]) -> Candidates:
        """Return the candidates of several probes, as ``searching.propose`` does.

        Args:
            prefixes: of the probes, in the order of this epoch.
            rows: the probes that are looked up.
        """
        offsets = prefixes.offsets
        found = [
            self.candidates(
                prefixes.keys[offsets[row] : offsets[row + 1]], int(prefixes.sizes[row])
            )
            for row in rows.tolist()
        ]
        counts = [numbers.size for numbers in found]
        return Candidates(
            np.repeat(rows, counts),
            np.concatenate([np.empty(0, np.uint32), *found]),
            np.zeros(prefixes.sizes.size, np.bool_),
        )


@lru_cache(maxsize=256)
def _bounds(criterion: Criterion, size: int, largest: int) -> Bounds:
    return criterion.bounds(size, largest)


def bounds_of(criterion: Criterion, size: int, largest_stored: int) -> Bounds:
    """Return what stored sets of every size must have, from the cache if it was computed before."""
    largest = criterion.largest_size(size)
    if size > CACHED_SIZE:
        return criterion.bounds(size, largest_stored)
    largest = largest_stored if largest is None else largest
    return _bounds(criterion, size, largest)


def search(
    signer: Signer,
    collection: CollectionReader,
    item: bytes,
    criterion: Criterion,
    limit: int | None,
    *,
    counters: SearchCounters | None = None,
) -> Similar:
    """Find the stored items that are similar to one item.

    Exact: every similar item is found, those at the threshold included.
    """
    symbols = signer.symbols([item])
    prober = Prober(collection, criterion, counters=counters)
    arranged = arrange(prober.epoch.order, symbols)
    if not arranged.values.size:
        return Similar([], [], 0)
    numbers = prober.candidates(arranged.values, arranged.values.size)
    documents = [document for _, document in collection.documents_of(numbers)]
    probe = symbols if signer.hashes_what_it_compares else signer.features([item])
    compared = compare_with_probe(signer, probe, [document.item for document in documents])
    size = arranged.values.size
    stored_sizes = compared.denominators + compared.numerators - size
    similarities = similarities_of(criterion.measure, compared, size, stored_sizes)
    met = np.flatnonzero(compared.numerators >= criterion.needed_overlaps(size, stored_sizes))
    best = met[np.argsort(-similarities[met], kind="stable")][:limit].tolist()
    return Similar(
        [documents[place] for place in best],
        [float(similarities[place]) for place in best],
        len(documents),
    )


def similarities_of(
    measure: Measure, compared: Compared, size: int, stored_sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the values of a measure as floating-point numbers, to be shown and sorted by."""
    overlaps = compared.numerators.astype(np.float64)
    if measure is Measure.JACCARD:
        return compared.values()
    if measure is Measure.DICE:
        return 2 * overlaps / (size + stored_sizes)
    if measure is Measure.COSINE:
        return overlaps / (sqrt(size) * np.sqrt(np.maximum(stored_sizes, 1)))
    if measure is Measure.STORED_IN_PROBE:
        return overlaps / np.maximum(stored_sizes, 1)
    return overlaps / size


def jaccard(threshold: Threshold) -> Criterion:
    """Return the criterion of at least so much Jaccard similarity."""
    return Criterion(Measure.JACCARD, threshold)

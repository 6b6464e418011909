"""Joins by other measures than Jaccard's, exact: Dice, cosine, containment.

Every item of the left collection is looked up in the exact index of the right one, so that memory
is bounded by a batch of items and the items that are similar to one.
"""

from __future__ import annotations

from collections.abc import Iterator

from simdb.answers.choose import require_index
from simdb.answers.exact.join import Side, require_same_kind
from simdb.answers.exact.load import arranged_batches
from simdb.answers.exact.pairs import JoinResources
from simdb.answers.exact.probe import PairProber, pair_batches
from simdb.answers.exact.search import Prober, SearchCounters
from simdb.errors import ConfigurationError
from simdb.exact.measures import Criterion, Measure
from simdb.results import PairBatch

SYMMETRIC = (Measure.JACCARD, Measure.DICE, Measure.COSINE)


def require_symmetric(measure: Measure) -> None:
    """Raise unless a measure is the same for both orders of two items.

    Raises:
        ConfigurationError: it is not, and so says nothing of an unordered pair.
    """
    if measure not in SYMMETRIC:
        known = ", ".join(repr(str(symmetric)) for symmetric in SYMMETRIC)
        raise ConfigurationError(
            f"measure must be one of {known}, not {str(measure)!r}, which depends on the order of "
            "two items; join() has a left and a right one"
        )


def pairs(
    side: Side, criterion: Criterion, resources: JoinResources, *, since: int = 0
) -> Iterator[PairBatch]:
    """Yield all pairs of live items of a collection that meet a criterion.

    Exact; each pair comes once, the earlier inserted item on the left.

    Args:
        side: the collection.
        criterion: of a symmetric measure.
        resources: memory, threads, and what tells whether the database is open.
        since: only pairs with an item of this number or a higher one; only those are looked up.

    Raises:
        ConfigurationError, ThresholdTooLowError: no exact index serves the criterion, or the
            measure is not symmetric.
    """
    require_symmetric(criterion.measure)
    yield from _probed(side, side, criterion, resources, start=since, earlier_only=True)


def cross(
    left: Side, right: Side, criterion: Criterion, resources: JoinResources
) -> Iterator[PairBatch]:
    """Yield all pairs of a live left and a live right item that meet a criterion.

    Exact; each pair comes once. The left item is the probe, the right one the stored item.

    Raises:
        ConfigurationError: the kinds of items differ.
        ConfigurationError, ThresholdTooLowError: the right collection has no exact index that
            serves the criterion.
    """
    require_same_kind(left.signer.settings, right.signer.settings)
    yield from _probed(left, right, criterion, resources, start=0, earlier_only=False)


def _probed(
    left: Side,
    right: Side,
    criterion: Criterion,
    resources: JoinResources,
    *,
    start: int,
    earlier_only: bool,
) -> Iterator[PairBatch]:
    require_index(right.signer.settings, criterion)
    prober = Prober(right.collection, criterion, counters=SearchCounters(resources.effort))
    batches = arranged_batches(
        left.collection, right.signer, prober.epoch.order, resources.pool, start=start
    )
    found = PairProber(right.signer, right.collection, prober)
    for batch, _ in pair_batches(batches, found, resources.require_open, earlier_only=earlier_only):
        yield batch

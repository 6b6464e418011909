"""Which index answers a question: the exact one if it can, else the probable one if it may."""

from __future__ import annotations

from math import isnan
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from simdb.errors import ConfigurationError, Remedy, ThresholdTooLowError
from simdb.exact.measures import Criterion, Measure
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike, admits
from simdb.kinds import Kind
from simdb.kinds.bounds import bound_of, index_remedy, outer_bound, parse_bound
from simdb.opened.catalogue import CollectionSettings
from simdb.results import Guarantee

AskedGuarantee: TypeAlias = Literal["auto", "exact", "probable"]


class Served(NamedTuple):
    """How a question is answered.

    Attributes:
        bound: what similar enough means.
        measure: of similarity, where items have symbols.
        guarantee: ``"exact"`` or ``"probable"``.
        recall: the share of the true matches *at* the bound that is expected to be found; nan
            where it cannot be stated.
        scans: exact by comparing with every item, for kinds that have no exact index.
    """

    bound: Bound
    measure: Measure
    guarantee: Guarantee
    recall: float
    scans: bool = False

    @property
    def threshold(self) -> Threshold:
        """The least similarity, of a kind that has symbols."""
        assert isinstance(self.bound, Threshold)
        return self.bound

    @property
    def criterion(self) -> Criterion:
        """What an exact index is asked for."""
        return Criterion(self.measure, self.threshold)

    @property
    def is_exact(self) -> bool:
        """Whether nothing is missed."""
        return self.guarantee == "exact"


def parse_measure(measure: object) -> Measure:
    """Return a measure by its name.

    Raises:
        ConfigurationError: there is none of that name.
    """
    for known in Measure:
        if known == measure:
            return known
    names = ", ".join(repr(str(known)) for known in Measure)
    raise ConfigurationError(f"measure must be one of {names}, not {measure!r}")


def parse_since(since: object) -> int:
    """Return the item number that pairs are wanted from.

    Raises:
        ConfigurationError: it is no whole number.
    """
    if (
        not isinstance(since, int | np.integer)
        or isinstance(since, bool)
        or not 0 <= since < 2**32  # item numbers have 32 bits
    ):
        raise ConfigurationError(
            f"since must be what checkpoint() or an AddReport says, not {since!r}"
        )
    return int(since)


def bound_by(
    measure: Measure,
    kind: Kind,
    threshold: ThresholdLike | None,
    max_distance: ThresholdLike | None,
) -> Bound | None:
    """Read what a caller asks for; only Jaccard's similarity may have another scale inside."""
    if measure is Measure.JACCARD or threshold is None or kind.is_distance:
        return parse_bound(kind, threshold, max_distance)
    parse_bound(kind, None, max_distance)
    return Threshold.parse(threshold)


def serve(
    settings: CollectionSettings,
    bound: Bound | None,
    min_recall: float | None,
    guarantee: AskedGuarantee,
    *,
    measure: Measure = Measure.JACCARD,
    without_index: bool = False,
    adding: bool = False,
) -> Served:
    """Choose the index that answers.

    Args:
        settings: of the collection.
        bound: what the caller asked for; the collection's own if None.
        min_recall: permits the probable index beyond what it is planned for.
        guarantee: what the caller asked for.
        measure: of similarity; other than Jaccard's only the exact index serves.
        without_index: asked for pairs: where everything fits into memory an exact answer needs no
            index, and a scan takes quadratic time.
        adding: asked about rows to be added, a call that takes neither recall nor guarantee.

    Raises:
        ConfigurationError: there is no such index.
        ThresholdTooLowError: no index that may answer serves the bound; names the remedy.
    """
    if guarantee not in ("auto", "exact", "probable"):
        raise ConfigurationError(
            f"guarantee must be 'auto', 'exact' or 'probable', not {guarantee!r}"
        )
    if without_index and bound is None and settings.kind.is_distance and not settings.is_probable:
        # Everything is within the largest distance: all pairs, a square of the collection.
        raise ConfigurationError(
            f"collection {settings.name!r} has no distance of its own to find pairs within",
            remedies=[Remedy("max_distance", ..., "says which are meant")],
        )
    wanted = bound_of(settings.kind, settings.threshold) if bound is None else bound
    exact = Served(wanted, measure, "exact", 1.0)
    if not settings.kind.has_symbols:
        return _serve_by_scan(
            settings,
            exact._replace(scans=True),
            min_recall,
            guarantee,
            many_many=without_index,
            adding=adding,
        )
    if guarantee == "exact":
        if without_index or serves_exactly(settings, exact.criterion):
            return exact
        if settings.kind.scans_quickly and measure is Measure.JACCARD:
            return exact._replace(scans=True)
        require_index(settings, exact.criterion)
    if guarantee == "auto" and serves_exactly(settings, exact.criterion):
        return exact
    if measure is not Measure.JACCARD or not settings.is_probable:
        if guarantee == "probable":
            helps = [Remedy("guarantee", "exact", "misses nothing")] if settings.is_exact else []
            if measure is Measure.JACCARD:
                helps.append(index_remedy(settings.kind, settings.threshold))
            raise ConfigurationError(
                f"collection {settings.name!r} has no probable index for {measure} similarity",
                remedies=helps,
            )
        require_index(settings, exact.criterion)
    can_be_exact = without_index or serves_exactly(settings, exact.criterion)
    return _serve_probably(settings, exact, min_recall, can_be_exact=can_be_exact, adding=adding)


def serve_join(
    settings: CollectionSettings,
    bound: Bound | None,
    min_recall: float | None,
    guarantee: AskedGuarantee,
    measure: Measure,
    *,
    resume: str | None,
    answers: Literal["pairs", "joins"],
) -> Served:
    """Choose how pairs are found; by another measure than Jaccard's, in the exact index only.

    Args:
        settings, bound, min_recall, guarantee, measure: as for ``serve``.
        resume: the token to go on after, if there is one.
        answers: what cannot go on, for the message.

    Raises:
        ConfigurationError: also of a token, if such an answer cannot be resumed.
        ThresholdTooLowError: no index that may answer serves the bound.
    """
    by_jaccard = measure is Measure.JACCARD
    if resume is not None and not by_jaccard:
        raise ConfigurationError(
            f"only pairs by jaccard similarity can be resumed, not by {measure}"
        )
    served = serve(
        settings, bound, min_recall, guarantee, measure=measure, without_index=by_jaccard
    )
    if resume is not None and (served.scans or not served.is_exact):
        raise ConfigurationError(f"only exact {answers} of sets of symbols can be resumed")
    return served


def _serve_by_scan(
    settings: CollectionSettings,
    exact: Served,
    min_recall: float | None,
    guarantee: AskedGuarantee,
    *,
    many_many: bool,
    adding: bool,
) -> Served:
    """Choose for a kind without symbols, whose exact answers come from comparing with all."""
    if exact.measure is not Measure.JACCARD:
        raise ConfigurationError(f"{settings.kind} has one measure; leave out {exact.measure!s}")
    if not settings.is_probable and (adding or guarantee == "probable"):
        raise ConfigurationError(
            f"collection {settings.name!r} has no index to find duplicates by",
            remedies=[index_remedy(settings.kind, settings.threshold)],
        )
    if guarantee == "exact" or not settings.is_probable:
        return exact
    own = bound_of(settings.kind, settings.threshold)
    asks_one = guarantee == "auto" and not (many_many or adding) and min_recall is None
    if asks_one and not admits(own, exact.bound):
        return exact
    return _serve_probably(settings, exact, min_recall, can_be_exact=True, adding=adding)


def _serve_probably(
    settings: CollectionSettings,
    exact: Served,
    min_recall: float | None,
    *,
    can_be_exact: bool,
    adding: bool,
) -> Served:
    """Answer by the probable index if it is planned for the bound, or the caller permits it.

    Raises:
        ThresholdTooLowError: neither; the message names the remedy.
    """
    kind, wanted = settings.kind, exact.bound
    own = bound_of(kind, settings.threshold)
    recall = settings.plan.expected_recall(wanted.fraction)
    if not admits(own, wanted) and not _is_permitted(recall, min_recall):
        argument = "max_distance" if kind.is_distance else "threshold"
        shown, planned = outer_bound(kind, wanted), outer_bound(kind, own)
        remedies = [Remedy(argument, shown, "plans for it", "rebuild")]
        if kind.has_symbols:
            remedies.append(Remedy("exact_floor", shown, "misses nothing from there on", "rebuild"))
        if not adding:
            if can_be_exact:
                remedies.append(Remedy("guarantee", "exact", "misses nothing"))
            if not isnan(recall):
                remedies.append(Remedy("min_recall", int(recall * 100) / 100, "permits it"))
        less = "" if min_recall is None else f", less than the {min_recall:g} asked for"
        finds = "" if isnan(recall) else f"; at {shown} it finds {recall:.1%}{less}"
        beyond = "above" if kind.is_distance else "below"
        raise ThresholdTooLowError(
            f"{argument} {shown} is {beyond} {planned}, for which collection {settings.name!r} is "
            f"planned{finds}{_exact_from(settings)}",
            remedies=remedies,
        )
    return exact._replace(guarantee="probable", recall=recall, scans=False)


def _exact_from(settings: CollectionSettings) -> str:
    """Say from where on an exact index serves, if there is one."""
    floor = settings.posted_floor
    if floor is None:
        return ""
    return f" (its exact index serves {outer_bound(settings.kind, floor)} and above)"


def _is_permitted(recall: float, min_recall: float | None) -> bool:
    """Return whether the caller permits a recall below that of the collection."""
    if min_recall is None:
        return False
    if not isinstance(min_recall, int | float) or not 0 <= min_recall <= 1:
        raise ConfigurationError(f"min_recall must be between 0 and 1, not {min_recall!r}")
    return recall >= min_recall


def serves_exactly(settings: CollectionSettings, criterion: Criterion) -> bool:
    """Whether the exact index of a collection misses nothing by a criterion."""
    floor, needed = settings.posted_floor, criterion.floor
    return settings.is_exact and (floor is None or (needed is not None and floor <= needed))


def require_index(settings: CollectionSettings, criterion: Criterion) -> None:
    """Raise unless the collection has an exact index that serves a criterion.

    Raises:
        ConfigurationError, ThresholdTooLowError: it has not; the message names the remedy.
    """
    needed = criterion.floor
    shown = needed
    if needed is not None and criterion.measure is Measure.JACCARD:
        shown = Threshold(settings.kind.outer_similarity(needed.fraction))
    if not settings.is_exact:
        floor = shown or criterion.threshold
        raise ConfigurationError(
            f"collection {settings.name!r} has no exact index",
            remedies=[Remedy("exact_floor", floor, "adds one", "rebuild")],
        )
    if serves_exactly(settings, criterion):
        return
    if needed is None:
        raise ThresholdTooLowError(
            f"{criterion.measure} needs an exact index of all symbols, which collection "
            f"{settings.name!r} has not",
            remedies=[Remedy("containment", value=True, effect="makes it one", method="rebuild")],
        )
    at = "" if criterion.measure is Measure.JACCARD else f" ({criterion.measure}: floor {shown})"
    raise ThresholdTooLowError(
        f"threshold {criterion.threshold}{at} is below the floor {settings.posted_floor} of the "
        f"exact index of collection {settings.name!r}",
        remedies=[Remedy("exact_floor", shown, "lowers it", "rebuild")],
    )

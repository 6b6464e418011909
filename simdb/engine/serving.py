"""Which index answers a question: the exact one if it can, else the probable one if it may."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from simdb.datatypes import Guarantee
from simdb.engine.catalogue import CollectionSettings
from simdb.errors import ConfigurationError, Remedy, ThresholdTooLowError
from simdb.exact.measures import Criterion, Measure
from simdb.exact.thresholds import Threshold, ThresholdLike

AskedGuarantee: TypeAlias = Literal["auto", "exact", "probable"]


class Served(NamedTuple):
    """How a question is answered.

    Attributes:
        criterion: what similar enough means.
        guarantee: ``"exact"`` or ``"probable"``.
        recall: the share of the true matches *at* the threshold that is expected to be found.
    """

    criterion: Criterion
    guarantee: Guarantee
    recall: float

    @property
    def threshold(self) -> Threshold:
        """The least similarity."""
        return self.criterion.threshold

    @property
    def is_exact(self) -> bool:
        """Whether nothing is missed."""
        return self.guarantee == "exact"


def parse_measure(measure: object) -> Measure:
    """Return a measure by its name.

    Raises:
        ConfigurationError: there is none of that name.
    """
    try:
        return Measure(measure)  # type: ignore[arg-type]
    except ValueError:
        known = ", ".join(repr(str(known)) for known in Measure)
        raise ConfigurationError(f"measure must be one of {known}, not {measure!r}") from None


def serve(
    settings: CollectionSettings,
    threshold: ThresholdLike | None,
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
        threshold: as the caller wrote it; the collection's own if None.
        min_recall: permits the probable index below its threshold.
        guarantee: what the caller asked for.
        measure: of similarity; other than Jaccard's only the exact index serves.
        without_index: an exact answer needs no index where everything fits into memory.
        adding: asked about rows to be added, a call that takes neither recall nor guarantee.

    Raises:
        ConfigurationError: there is no such index.
        ThresholdTooLowError: no index that may answer serves the threshold; names the remedy.
    """
    if guarantee not in ("auto", "exact", "probable"):
        raise ConfigurationError(
            f"guarantee must be 'auto', 'exact' or 'probable', not {guarantee!r}"
        )
    own = Threshold(settings.threshold)
    wanted = own if threshold is None else Threshold.parse(threshold)
    criterion = Criterion(measure, wanted)
    exact = Served(criterion, "exact", 1.0)
    if guarantee == "exact":
        if not without_index:
            require_index(settings, criterion)
        return exact
    if guarantee == "auto" and serves_exactly(settings, criterion):
        return exact
    if measure is not Measure.JACCARD or not settings.is_probable:
        if guarantee == "probable":
            raise ConfigurationError(
                f"collection {settings.name!r} has no probable index for {measure} similarity"
            )
        require_index(settings, criterion)
    recall = settings.plan.expected_recall(wanted.fraction)
    if wanted < own and not _is_permitted(recall, min_recall):
        remedies = [
            Remedy("threshold", wanted, "plans for it", "rebuild"),
            Remedy("exact_floor", wanted, "misses nothing from there on", "rebuild"),
        ]
        if not adding:
            if without_index or serves_exactly(settings, criterion):
                remedies.append(Remedy("guarantee", "exact", "misses nothing"))
            remedies.append(Remedy("min_recall", int(recall * 100) / 100, "permits it"))
        less = "" if min_recall is None else f", less than the {min_recall:g} asked for"
        raise ThresholdTooLowError(
            f"threshold {wanted} is below {own}, for which collection {settings.name!r} is "
            f"planned; at {wanted} it finds {recall:.1%}{less}",
            remedies=remedies,
        )
    return Served(criterion, "probable", recall)


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
    if not settings.is_exact:
        floor = needed or criterion.threshold
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
    at = "" if criterion.measure is Measure.JACCARD else f" ({criterion.measure}: floor {needed})"
    raise ThresholdTooLowError(
        f"threshold {criterion.threshold}{at} is below the floor {settings.posted_floor} of the "
        f"exact index of collection {settings.name!r}",
        remedies=[Remedy("exact_floor", needed, "lowers it", "rebuild")],
    )

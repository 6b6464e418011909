"""What settings lead to, before a collection is made: ``simdb.plan`` and ``simdb.plan_exact``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simdb.exact.thresholds import Threshold, ThresholdLike
from simdb.kinds import Kind
from simdb.kinds.bounds import inner_threshold
from simdb.lsh import planning
from simdb.lsh.planning import Plan
from simdb.upkeep import exact_plan as exact_planning
from simdb.upkeep.exact_plan import ExactPlan as ExactPlan  # noqa: PLC0414 - exported


def plan(
    threshold: ThresholdLike = 0.8,
    *,
    recall: ThresholdLike = 0.99,
    bands: int | None = None,
    rows: int | None = None,
) -> Plan:
    """Choose bands and rows for a threshold, as ``Database.collection`` does.

    Args:
        threshold: the similarity to plan for.
        recall: the share of pairs at the threshold that the index is to find.
        bands: taken as given, if given.
        rows: taken as given, if given.

    Returns:
        The plan, with its S-curve as data (``curve``) and its ``expected_recall``.

    Raises:
        ConfigurationError: a value is out of range, or no plan reaches the recall.

    >>> chosen = plan(0.8)
    >>> chosen.bands, chosen.rows
    (16, 6)
    """
    return planning.plan(
        Threshold.parse(threshold).fraction,
        Threshold.parse(recall, name="recall").fraction,
        bands,
        rows,
    )


def plan_exact(
    sample: Iterable[object],
    kind: Kind,
    *,
    exact_floor: ThresholdLike = 0.7,
    containment: bool = False,
) -> ExactPlan:
    """Count what an exact index would take for items like those of a sample.

    Args:
        sample: items, which are read once.
        kind: what they are and how they are compared.
        exact_floor: the least threshold that the index is to serve.
        containment: as for ``Database.collection``.

    Raises:
        ConfigurationError: the floor is out of range.
        BadItemError: an item cannot be stored; ``row`` says which, from 0.

    >>> import simdb
    >>> plan_exact([range(10), range(20)], simdb.Set(), exact_floor=0.7).postings
    11
    """
    floor = inner_threshold(kind, Threshold.parse(exact_floor, name="exact_floor"))
    return exact_planning.measure(kind.make_items(b""), sample, floor, containment=containment)


def posted_symbols(kind: Kind, exact_floor: ThresholdLike, sizes: Sequence[int]) -> list[int]:
    """Return how many symbols of items of so many symbols an exact index posts.

    Raises:
        ConfigurationError: the floor is out of range.
    """
    floor = inner_threshold(kind, Threshold.parse(exact_floor, name="exact_floor"))
    return [floor.prefix_length(size) for size in sizes]


def expected_weight(
    kind: Kind, exact_floor: ThresholdLike, *, containment: bool = False
) -> float | None:
    """Return bytes of an exact index for one byte of English text; None if that says nothing."""
    floor = inner_threshold(kind, Threshold.parse(exact_floor, name="exact_floor"))
    return exact_planning.expected_weight(kind, floor, containment=containment)

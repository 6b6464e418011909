"""``simdb.plan``: which banding a threshold and a recall lead to, before a collection is made."""

from __future__ import annotations

from simdb.exact.thresholds import Threshold, ThresholdLike
from simdb.lsh import planning
from simdb.lsh.planning import Plan


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

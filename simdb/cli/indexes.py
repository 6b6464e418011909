"""What the indexes of a collection are, and what an exact one would take, in words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from simdb.cli.output import counted, note
from simdb.config import Fingerprint, Kind, Record

if TYPE_CHECKING:
    from simdb.collection import CollectionView


def indexes_of(collection: CollectionView) -> str:
    """Return the indexes of a collection in one line."""
    from simdb.exact.thresholds import MaximumDistance, Threshold

    described = []
    settings = collection.stats()["settings"]
    if settings["bands"]:
        bands, rows = settings["bands"], settings["rows"]
        bound = f"max. distance {MaximumDistance(collection.max_distance or Fraction())}"
        if collection.threshold is not None:
            bound = f"threshold {Threshold(collection.threshold)}"
        described.append(f"{bound}, {index_in_words(collection.kind, bands, rows)}")
    if collection.exact_floor is not None:
        text = f"exact from {Threshold(collection.exact_floor)} on"
        described.append(text + (", all symbols posted" if settings["containment"] else ""))
    if not described:
        return "none: answers come from comparing with all items"
    return "; ".join(described)


def index_in_words(kind: Kind, bands: int, rows: int) -> str:
    """Return what the probable index of a kind is made of."""
    if isinstance(kind, Record):
        return f"candidates by {counted(bands, 'rule', 'rules')}"
    if isinstance(kind, Fingerprint):
        return f"{counted(bands, 'group', 'groups')} of {rows:,} functions"
    return f"{bands} bands of {rows} rows"


def report_of(collection: CollectionView) -> dict[str, Any]:
    """Return the name and the settings of a collection for programs."""
    return {"collection": collection.name, "settings": collection.stats()["settings"]}


def warn_of_weight(collection: CollectionView, *, containment: bool) -> None:
    """Say so if the exact index of a collection is likely to outweigh its texts."""
    from simdb.planning import expected_weight

    if collection.exact_floor is None:
        return
    weight = expected_weight(collection.kind, collection.exact_floor, containment=containment)
    if weight is not None and weight > 1:
        note(
            f"warning: the exact index is likely to take {weight:.1f} times the bytes of the "
            "texts; word shingles or a higher floor make it smaller, and "
            "simdb plan --exact measures it on a sample"
        )

"""From what a caller asks for to the settings of a collection, bands and rows planned."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from simdb.errors import ConfigurationError, Remedy
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike
from simdb.kinds import Kind, SketchScheme
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.storage.file.environment import ReadTransaction


def plan_settings(
    name: str,
    kind: Kind,
    *,
    bound: Bound | None,
    recall: ThresholdLike,
    bands: int | None,
    rows: int | None,
    sketch: SketchScheme,
    secret: bytes,
    floor: Threshold | None = None,
    containment: bool = False,
) -> CollectionSettings:
    """Return the settings of a collection, bands and rows planned where they are not given.

    Without a bound there is no probable index, without a floor no exact one. Only kinds without
    symbols can do without both: they are compared with all. ConfigurationError: a value is out
    of range, no plan reaches the recall, or there would be no index.
    """
    if sketch not in ("fast", "classical"):
        raise ConfigurationError(f"sketch must be 'fast' or 'classical', not {sketch!r}")
    if floor is not None and not kind.has_symbols:
        raise ConfigurationError(f"{kind} has no exact index: exact answers compare with all items")
    if floor is None and containment:
        raise ConfigurationError("containment=True needs an exact_floor")
    wanted_recall = Threshold.parse(recall, name="recall").fraction
    planned = None
    if bound is not None:
        planned = kind.plan(bound.fraction, wanted_recall, bands, rows)
    elif bands is not None or rows is not None:
        raise ConfigurationError("bands and rows need a threshold, or a max_distance")
    wanted = planned.threshold if planned is not None else floor.fraction if floor else None
    if wanted is None:
        if kind.has_symbols:
            raise ConfigurationError("a collection needs a threshold, an exact_floor, or both")
        wanted = kind.widest_bound
    return CollectionSettings(
        name=name,
        number=0,
        kind=kind,
        threshold=wanted,
        recall=wanted_recall,
        bands=0 if planned is None else planned.bands,
        rows=0 if planned is None else planned.rows,
        sketch=sketch,
        secret=secret,
        unicode_version=unicodedata.unidata_version,
        exact_floor=None if floor is None else floor.fraction,
        containment=containment,
        finds_equal=kind.may_miss_equals and planned is not None,
    )


def changed_settings(
    present: CollectionSettings,
    *,
    kind: Kind | None,
    threshold: ThresholdLike | None,
    max_distance: ThresholdLike | None,
    recall: ThresholdLike | None,
    bands: int | None,
    rows: int | None,
    sketch: SketchScheme | None,
    seed: int | None,
    exact_floor: ThresholdLike | None = None,
    containment: bool | None = None,
    drop_exact: bool = False,
    drop_probable: bool = False,
) -> CollectionSettings:
    """Return settings in which what is not None has changed; ConfigurationError if it cannot."""
    if kind is not None and type(kind) is not type(present.kind):
        raise ConfigurationError(
            f"the items of collection {present.name!r} are stored for {present.kind}; they cannot "
            f"become {kind}"
        )
    wanted = present.kind if kind is None else kind
    if not present.kind.stores_alike(wanted):
        raise ConfigurationError(
            f"the items of collection {present.name!r} are stored as those of {present.kind}, not "
            f"of {wanted}; add them to another collection"
        )
    if drop_exact and (exact_floor is not None or containment):
        raise ConfigurationError("drop_exact=True contradicts exact_floor and containment")
    if drop_probable and (threshold is not None or max_distance is not None):
        raise ConfigurationError("drop_probable=True contradicts a threshold")
    bound = wanted.parse_bound(threshold, max_distance)
    if bound is None and present.is_probable and not drop_probable:
        if wanted.is_distance != present.kind.is_distance:
            raise ConfigurationError(
                f"{wanted} is compared otherwise than {present.kind}: give "
                f"{'max_distance' if wanted.is_distance else 'threshold'}"
            )
        bound = wanted.bound_of(present.threshold)
    floor = wanted.parse_floor(exact_floor)
    if floor is None and present.exact_floor is not None and not drop_exact:
        floor = Threshold(present.exact_floor)
    if containment is None:
        containment = present.containment and not drop_exact
    settings = plan_settings(
        present.name,
        wanted,
        bound=bound,
        recall=present.recall if recall is None else recall,
        bands=bands,
        rows=rows,
        sketch=present.sketch if sketch is None else sketch,
        secret=present.secret if seed is None else catalogue.secret_of(seed),
        floor=floor,
        containment=containment,
    )
    return replace(settings, number=present.number, key_sources=present.key_sources)


def require_absent(transaction: ReadTransaction, name: str) -> None:
    """Raise ConfigurationError if there is a collection of a name."""
    if catalogue.settings_of(transaction, name) is not None:
        raise ConfigurationError(
            f"collection {name!r} exists",
            remedies=[
                Remedy(None, None, "opens it", "collection"),
                Remedy(None, None, "changes its settings", "rebuild"),
            ],
        )


def require_same(present: CollectionSettings, wanted: CollectionSettings, *, seeded: bool) -> None:
    """Refuse to open a collection under other settings than its own; ConfigurationError."""
    names = ["kind", "threshold", "recall", "bands", "rows", "sketch"]
    names += ["exact_floor", "containment", *["secret"] * seeded]
    differing = [name for name in names if getattr(present, name) != getattr(wanted, name)]
    if differing:
        name = differing[0]
        what, has, given = name, getattr(present, name), getattr(wanted, name)
        if name == "secret":
            what, has, given = "seed", "another", "this"
        raise ConfigurationError(
            f"collection {present.name!r} has {what} {has}, not {given}",
            remedies=[
                Remedy(None, None, "without settings opens it as it is", "collection"),
                Remedy(None, None, "changes them", "rebuild"),
            ],
        )

"""What a caller asks of a collection's indexes, and the settings planned from it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field, replace

from simdb.errors import ConfigurationError, Remedy
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike
from simdb.kinds import Kind, SketchScheme, require
from simdb.lsh.planning import PlanRequest
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.storage.file.environment import ReadTransaction


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """The arguments of ``Database.collection``, which describes them, and of ``rebuild``."""

    threshold: ThresholdLike | None
    max_distance: ThresholdLike | None = None
    plan: PlanRequest = field(default_factory=PlanRequest)
    sketch: SketchScheme = "fast"
    seed: int | None = None
    exact_floor: ThresholdLike | None = None
    containment: bool | None = None
    compression: str | None = None


def new_settings(name: str, kind: Kind, request: IndexRequest) -> CollectionSettings:
    """Return the settings of a new collection; ConfigurationError if it cannot be so."""
    name, kind = catalogue.check_name(name), require(kind)
    settings = _planned(
        name,
        kind,
        request,
        bound=kind.planned_bound(request.threshold, request.max_distance),
        secret=catalogue.secret_of(request.seed),
        floor=kind.parse_floor(request.exact_floor),
    )
    if request.compression is not None:
        require_compression(kind, request.compression)
    return replace(settings, compression=request.compression)


def require_compression(kind: Kind, compression: str) -> None:
    """Raise ConfigurationError unless the items of a kind can be compressed so."""
    if compression not in catalogue.COMPRESSIONS:
        raise ConfigurationError(f"compression must be 'zstd' or None, not {compression!r}")
    if kind.make_items(catalogue.secret_of(0)).width:
        raise ConfigurationError(
            f"{kind.plural} are not compressed: all have the same size, and are compared where "
            "they lie"
        )


def _planned(
    name: str,
    kind: Kind,
    request: IndexRequest,
    *,
    bound: Bound | None,
    secret: bytes,
    floor: Threshold | None,
) -> CollectionSettings:
    """Return the settings of a collection, bands and rows planned where they are not given.

    Without a bound there is no probable index, without a floor no exact one. Only kinds without
    symbols can do without both: they are compared with all. ConfigurationError: a value is out
    of range, no plan reaches the recall, or there would be no index.
    """
    sketch = request.sketch
    if sketch not in ("fast", "classical"):
        raise ConfigurationError(f"sketch must be 'fast' or 'classical', not {sketch!r}")
    if floor is not None and not kind.has_symbols:
        raise ConfigurationError(f"{kind} has no exact index: exact answers compare with all items")
    if floor is None and request.containment:
        raise ConfigurationError("containment=True needs an exact_floor")
    planned, asked = None, request.plan
    if bound is not None:
        asked = kind.settled(bound.fraction, asked)
        planned = kind.plan(bound.fraction, asked)
    elif not asked.is_free:
        what = "bands and rows need" if asked.cascade is None else "a cascade needs"
        raise ConfigurationError(f"{what} a threshold, or a max_distance")
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
        recall=asked.recall,
        bands=0 if planned is None else planned.bands,
        rows=0 if planned is None else planned.rows,
        sketch=sketch,
        secret=secret,
        unicode_version=unicodedata.unidata_version,
        exact_floor=None if floor is None else floor.fraction,
        containment=bool(request.containment),
        finds_equal=kind.may_miss_equals and planned is not None,
        cascade=None if planned is None else planned.cascade,
    )


def changed_settings(
    present: CollectionSettings,
    kind: Kind | None,
    request: IndexRequest,
    *,
    drop_exact: bool,
    drop_probable: bool,
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
    if drop_exact and (request.exact_floor is not None or request.containment):
        raise ConfigurationError("drop_exact=True contradicts exact_floor and containment")
    threshold, max_distance = request.threshold, request.max_distance
    if drop_probable and (threshold is not None or max_distance is not None):
        raise ConfigurationError("drop_probable=True contradicts a threshold")
    bound = wanted.parse_bound(threshold, max_distance)
    if bound is None and present.is_probable and not drop_probable:
        if wanted.is_distance != present.kind.is_distance:
            raise ConfigurationError(
                f"{wanted} and {present.kind} use different measures: give "
                f"{'max_distance' if wanted.is_distance else 'threshold'}"
            )
        bound = wanted.bound_of(present.threshold)
    if bound is not None and present.cascade is not None and request.plan.is_free:
        plan = replace(request.plan, cascade=present.cascade.construction)
        request = replace(request, plan=plan)
    floor = wanted.parse_floor(request.exact_floor)
    if floor is None and present.exact_floor is not None and not drop_exact:
        floor = Threshold(present.exact_floor)
    if request.containment is None:
        request = replace(request, containment=present.containment and not drop_exact)
    secret = present.secret if request.seed is None else catalogue.secret_of(request.seed)
    settings = _planned(present.name, wanted, request, bound=bound, secret=secret, floor=floor)
    kept = ("number", "key_sources", "compression")
    return replace(settings, **{name: getattr(present, name) for name in kept})


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
    names = ["kind", "threshold", "recall", "cascade", "bands", "rows", "sketch"]
    names += ["exact_floor", "containment", "compression", *["secret"] * seeded]
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

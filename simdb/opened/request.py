"""What a caller asks of a collection's indexes, and the settings planned from it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from simdb.arguments import require_choice
from simdb.errors import ConfigurationError, Remedy
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike
from simdb.kinds import Kind, SketchScheme, require
from simdb.kinds.contrast import contrast
from simdb.lsh.planning import PlanRequest
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.recipe import Recipe, planned, secret_of
from simdb.storage.file.environment import ReadTransaction


class IndexRequest(Struct, frozen=True):
    """The arguments of ``Database.collection``, which describes them, and of ``rebuild``."""

    threshold: ThresholdLike | None
    max_distance: ThresholdLike | None = None
    plan: PlanRequest = field(default_factory=PlanRequest)
    sketch: SketchScheme = "fast"
    seed: int | None = None
    exact_floor: ThresholdLike | None = None
    containment: bool | None = None
    compression: str | None = None


# Settings that ``rebuild`` takes one by one, as ``Database.collection`` does.
_REBUILT = ("threshold", "recall", "sketch", "exact_floor", "containment", "compression")
UNASKED = IndexRequest("default", plan=PlanRequest(is_usual=True), containment=False)


def new_settings(name: str, kind: Kind | None, request: IndexRequest) -> CollectionSettings:
    """Return the settings of a new collection; ConfigurationError if it cannot be so."""
    name, kind = catalogue.check_name(name), require(kind)
    recipe = planned(
        kind,
        bound=kind.planned_bound(request.threshold, request.max_distance),
        plan=request.plan,
        sketch=request.sketch,
        secret=secret_of(request.seed),
        floor=kind.parse_floor(request.exact_floor),
        containment=bool(request.containment),
    )
    return settings_by(recipe, name, request.compression)


def settings_by(recipe: Recipe, name: str, compression: str | None) -> CollectionSettings:
    """Return the settings of a new collection that is made by a recipe; errors as above."""
    if compression is not None:
        require_compression(recipe.kind, compression)
    return CollectionSettings.made_by(recipe, catalogue.check_name(name), compression=compression)


def require_compression(kind: Kind, compression: str) -> None:
    """Raise ConfigurationError unless the items of a kind can be compressed so."""
    require_choice("compression", compression, *catalogue.COMPRESSIONS, None)
    if kind.make_items(secret_of(0)).width:
        raise ConfigurationError(
            f"{kind.plural} cannot be compressed: all have the same size, and are compared where "
            "they are stored"
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
    if kind is not None and type(require(kind)) is not type(present.kind):
        raise ConfigurationError(
            f"collection {present.name!r} cannot be rebuilt as another kind: "
            f"{contrast(present.kind, kind)}"
        )
    wanted = present.kind if kind is None else kind
    if wanted != present.kind:
        wanted.require_useful()
    if not present.kind.stores_alike(wanted):
        raise ConfigurationError(
            f"the stored items of collection {present.name!r} do not fit the new settings "
            f"({contrast(present.kind, wanted)}); add them to another collection"
        )
    if drop_exact and (request.exact_floor is not None or request.containment):
        raise ConfigurationError("drop_exact=True contradicts exact_floor and containment")
    threshold, max_distance = request.threshold, request.max_distance
    if drop_probable and (threshold is not None or max_distance is not None):
        raise ConfigurationError("drop_probable=True contradicts a threshold")
    plan = request.plan
    bound = wanted.parse_bound(threshold, max_distance)
    is_new = bound is not None or not plan.is_usual
    # To miss nothing means something only where the kind can.
    if plan.is_usual and (present.recall < 1 or wanted.misses_nothing(present.recall)):
        plan = replace(plan, recall=present.recall, is_usual=False)
    if bound is None and present.is_probable and not drop_probable:
        if wanted.is_distance != present.kind.is_distance:
            raise ConfigurationError(
                f"the new settings compare by {_measured(wanted)}, those of collection "
                f"{present.name!r} by {_measured(present.kind)}: give "
                f"{'max_distance' if wanted.is_distance else 'threshold'}"
            )
        bound = wanted.bound_of(present.threshold)
    if bound is not None and present.is_probable:
        plan = replanned(present, wanted, bound, plan, is_new=is_new)
    floor = wanted.parse_floor(request.exact_floor)
    if floor is None and present.exact_floor is not None and not drop_exact:
        floor = Threshold(present.exact_floor)
    if request.containment is None:
        request = replace(request, containment=present.containment and not drop_exact)
    secret = present.secret if request.seed is None else secret_of(request.seed)
    recipe = planned(
        wanted,
        bound=bound,
        plan=plan,
        sketch=request.sketch,
        secret=secret,
        floor=floor,
        containment=bool(request.containment),
    )
    made = CollectionSettings.made_by(
        recipe, present.name, number=present.number, compression=present.compression
    )
    return replace(made, key_sources=present.key_sources, groups=present.groups)


def replanned(
    present: CollectionSettings, kind: Kind, bound: Bound, plan: PlanRequest, *, is_new: bool = True
) -> PlanRequest:
    """Return what a rebuild asks of a plan: what the present index is made of, where it can be.

    A cascade stays, and bands and rows do unless what they were planned by changes, such as a bound
    or a recall that are given (``is_new``). Others are planned as for a new collection, but where
    the usual rows of signature are not enough, with those that there are.
    """
    if not plan.is_free:
        return plan
    if present.cascade is not None:
        return replace(plan, cascade=present.cascade.construction)
    bands, rows = present.bands, present.rows
    curve, wanted = present.kind.make_curve(present.threshold), kind.make_curve(bound.fraction)
    asked = [plan]
    if bands * rows > wanted.row_budget or rows == 1:  # which nothing but a budget permits
        asked.append(replace(plan, row_budget=max(bands * rows, wanted.row_budget)))
    if not is_new and (curve, plan.recall) == (wanted, present.recall):
        asked.insert(0, replace(plan, bands=bands, rows=rows))
    # Kinds whose buckets follow from the bound, or from settings of theirs, take only the plan.
    return next((one for one in asked if can_be_planned(kind, bound, one)), plan)


def can_be_planned(kind: Kind, bound: Bound, plan: PlanRequest) -> bool:
    """Whether there is a plan for a bound."""
    try:
        kind.plan(bound.fraction, kind.settled(bound.fraction, plan))
    except ConfigurationError:
        return False
    return True


def _measured(kind: Kind) -> str:
    return "distance" if kind.is_distance else "similarity"


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
    if wanted.groups is not None:
        names.append("groups")
    differing = [name for name in names if _asked_for(present, name) != _asked_for(wanted, name)]
    if differing:
        told, change = _differing(differing[0], present, wanted)
        raise ConfigurationError(
            f"collection {present.name!r} has other settings: {told}",
            remedies=[
                Remedy(None, None, "without settings opens it as it is", "collection"),
                change,
            ],
        )


def _differing(
    name: str, present: CollectionSettings, wanted: CollectionSettings
) -> tuple[str, Remedy]:
    """Say in words what the first setting that differs is, and what it is not; and what mends it.

    That has the setting where it is one that a rebuild takes, alone and as it is.
    """
    rebuild = Remedy(None, None, "changes them", "rebuild")
    if name == "kind":
        return contrast(present.kind, wanted.kind), rebuild
    if name == "secret":
        return "its seed is another one", rebuild
    is_taken = name in _REBUILT
    has, asked = (_asked_for(settings, name) for settings in (present, wanted))
    if name == "recall":
        has, asked = map(Threshold, (has, asked))
    elif isinstance(has, Fraction | None) and isinstance(asked, Fraction | None):
        kind = present.kind
        name = "max_distance" if kind.is_distance else name
        has, asked = (
            None if value is None else kind.outer_bound(kind.bound_of(value))
            for value in (has, asked)
        )
    elif name == "groups":
        has, asked = map(_told_groups, (present, wanted))
    if is_taken and asked:
        rebuild = Remedy(name, asked, "changes them", "rebuild")
    return f"{name} is {has}, not {asked}", rebuild


def _asked_for(settings: CollectionSettings, name: str) -> Any:
    """Return a setting; the threshold is None without a probable index, whatever is stored then."""
    has_none = name == "threshold" and not settings.is_probable
    return None if has_none else getattr(settings, name)


def _told_groups(settings: CollectionSettings) -> str | None:
    """Return the groups that a collection keeps in words, at bounds as the caller knows them."""
    if settings.groups is None:
        return None
    kind = settings.kind
    bounds = (kind.outer_bound(kind.bound_of(bound)).fraction for bound in settings.groups.bounds)
    return str(replace(settings.groups, bounds=tuple(bounds)))

"""From what a caller asks for to the settings of a collection, bands and rows planned."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from simdb import config
from simdb.engine import catalogue
from simdb.engine.catalogue import CollectionSettings
from simdb.errors import ConfigurationError, Remedy
from simdb.exact.thresholds import Threshold, ThresholdLike
from simdb.lsh.planning import plan
from simdb.storage.transactions import ReadTransaction


def plan_settings(
    name: str,
    kind: config.Kind,
    *,
    threshold: ThresholdLike | None,
    recall: ThresholdLike,
    bands: int | None,
    rows: int | None,
    sketch: config.SketchScheme,
    secret: bytes,
    exact_floor: ThresholdLike | None = None,
    containment: bool = False,
) -> CollectionSettings:
    """Return the settings of a collection, bands and rows planned where they are not given.

    Without a threshold there is no probable index, without a floor no exact one.

    Raises:
        ConfigurationError: a value is out of range, no plan reaches the recall, or there would be
            no index.
    """
    if sketch not in ("fast", "classical"):
        raise ConfigurationError(f"sketch must be 'fast' or 'classical', not {sketch!r}")
    floor = None
    if exact_floor is not None:
        floor = Threshold.parse(exact_floor, name="exact_floor").fraction
    elif containment:
        raise ConfigurationError("containment=True needs an exact_floor")
    wanted_recall = Threshold.parse(recall, name="recall").fraction
    planned = None
    if threshold is not None:
        planned = plan(Threshold.parse(threshold).fraction, wanted_recall, bands, rows)
    elif bands is not None or rows is not None:
        raise ConfigurationError("bands and rows need a threshold")
    wanted = floor if planned is None else planned.threshold
    if wanted is None:
        raise ConfigurationError("a collection needs a threshold, an exact_floor, or both")
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
        exact_floor=floor,
        containment=containment,
    )


def changed_settings(
    present: CollectionSettings,
    *,
    kind: config.Kind | None,
    threshold: ThresholdLike | None,
    recall: ThresholdLike | None,
    bands: int | None,
    rows: int | None,
    sketch: config.SketchScheme | None,
    seed: int | None,
    exact_floor: ThresholdLike | None = None,
    containment: bool | None = None,
    drop_exact: bool = False,
    drop_probable: bool = False,
) -> CollectionSettings:
    """Return settings in which what is not None has changed.

    Raises:
        ConfigurationError: another kind of item, which the stored ones are not.
    """
    if kind is not None and type(kind) is not type(present.kind):
        raise ConfigurationError(
            f"the items of collection {present.name!r} are stored for {present.kind}; they cannot "
            f"become {kind}"
        )
    if drop_exact and (exact_floor is not None or containment):
        raise ConfigurationError("drop_exact=True contradicts exact_floor and containment")
    if drop_probable and threshold is not None:
        raise ConfigurationError("drop_probable=True contradicts a threshold")
    if threshold is None and present.is_probable and not drop_probable:
        threshold = present.threshold
    if exact_floor is None and not drop_exact:
        exact_floor = present.exact_floor
    if containment is None:
        containment = present.containment and not drop_exact
    settings = plan_settings(
        present.name,
        present.kind if kind is None else kind,
        threshold=threshold,
        recall=present.recall if recall is None else recall,
        bands=bands,
        rows=rows,
        sketch=present.sketch if sketch is None else sketch,
        secret=present.secret if seed is None else catalogue.secret_of(seed),
        exact_floor=exact_floor,
        containment=containment,
    )
    return replace(settings, number=present.number)


def require_absent(transaction: ReadTransaction, name: str) -> None:
    """Raise if there is a collection of a name.

    Raises:
        ConfigurationError: there is.
    """
    if catalogue.settings_of(transaction, name) is not None:
        raise ConfigurationError(
            f"collection {name!r} exists",
            remedies=[
                Remedy(None, None, "opens it", "collection"),
                Remedy(None, None, "changes its settings", "rebuild"),
            ],
        )


def require_same(
    present: CollectionSettings,
    wanted: CollectionSettings,
    *,
    seeded: bool,
) -> None:
    """Refuse to open a collection under other settings than its own.

    Args:
        present: its settings.
        wanted: those that the caller gave.
        seeded: whether a seed was among them.

    Raises:
        ConfigurationError: one differs.
    """
    names = ["kind", "threshold", "recall", "bands", "rows", "sketch"]
    names += ["exact_floor", "containment", *["secret"] * seeded]
    differing = [name for name in names if getattr(present, name) != getattr(wanted, name)]
    if differing:
        name = differing[0]
        shown = (
            ("seed", "another", "this")
            if name == "secret"
            else (
                name,
                getattr(present, name),
                getattr(wanted, name),
            )
        )
        raise ConfigurationError(
            f"collection {present.name!r} has {shown[0]} {shown[1]}, not {shown[2]}",
            remedies=[
                Remedy(None, None, "without settings opens it as it is", "collection"),
                Remedy(None, None, "changes them", "rebuild"),
            ],
        )

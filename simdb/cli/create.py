"""The command that creates a collection, and the description of its indexes in words."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import simdb
from simdb.cli.options import Bound, Groups, GroupsAt
from simdb.cli.output import Telling, note
from simdb.cli.settings import IndexOptions, KindOptions
from simdb.cli.stores import NamedCollection
from simdb.errors import UsageError
from simdb.exact.thresholds import MaximumDistance, Threshold
from simdb.kinds import Kind
from simdb.planning import expected_weight

_NOTHING = (KindOptions(), Bound(), IndexOptions())


def create(
    *,
    stored: NamedCollection,
    bound: Bound,
    described: KindOptions,
    index: IndexOptions,
    exact_only: Annotated[
        bool,
        typer.Option(
            "--exact-only",
            rich_help_panel=IndexOptions.HEADING,
            help="Make no probable index; needs --exact-floor.",
        ),
    ] = False,
    containment: Annotated[
        bool,
        typer.Option(
            "--containment",
            rich_help_panel=IndexOptions.HEADING,
            help="Let the exact index hold all symbols, for every threshold and measure.",
        ),
    ] = False,
    compression: Annotated[
        Literal["zstd"] | None,
        typer.Option("--compression", help="Compress items and metadata (not compressed)."),
    ] = None,
    groups: Groups = None,
    groups_at: GroupsAt = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="FILE",
            help="Take kind, settings and secret from a file that 'simdb recipe' wrote.",
        ),
    ] = None,
    telling: Telling,
) -> None:
    """Create a collection, and the store if there is none.

    The settings say what counts as similar, and are stored with the collection. It is an error if
    the collection exists. The default threshold is 0.8 (4/9 for bags whose union is the sum). Kinds
    that are compared by distance get an index only with --max-distance; without it every answer
    compares all items, and nothing looks for duplicates.

    Example: simdb create images.simdb photos --kind bits:64 --max-distance 8
    """
    if recipe is not None:
        if exact_only or containment or (described, bound, index) != _NOTHING:
            raise UsageError(
                "--recipe contains the kind and all settings: leave the other options out"
            )
        settings: dict[str, Any] = {"recipe": simdb.Recipe.from_json(Path(recipe).read_bytes())}
    else:
        kind = described.new()
        if exact_only and index.exact_floor is None:
            raise UsageError("--exact-only needs --exact-floor")
        if containment and index.exact_floor is None:
            raise UsageError("--containment needs --exact-floor")
        if exact_only and bound.given():
            raise UsageError("--exact-only contradicts --threshold and --max-distance")
        settings = index.given() | ({"threshold": None} if exact_only else bound.of(kind))
        settings |= {"kind": kind, "containment": containment}
        simdb.Recipe.of(**settings)  # raises before there is a new store
    with stored.opened(create=True) as database:
        stored.about(stored.name)
        created = database.create_collection(
            stored.name,
            compression=compression,
            groups=groups,
            groups_at=groups_at or None,
            **settings,
        )
        told = f"created collection {created.name} in {stored.path}: {indexes_of(created)}"
        telling.tell(report_of(created), told)
        _warn_of_weight(created, containment=created.recipe().containment)


def report_of(collection: simdb.CollectionView) -> dict[str, Any]:
    """Return the name and the settings of a collection for programs."""
    return {"collection": collection.name, "settings": collection.stats()["settings"]}


def indexes_of(collection: simdb.CollectionView) -> str:
    """Return the indexes of a collection in one line."""
    described = []
    settings = collection.stats()["settings"]
    if settings["bands"]:
        bound = f"max. distance {MaximumDistance(collection.max_distance or Fraction())}"
        if collection.threshold is not None:
            bound = f"threshold {Threshold(collection.threshold)}"
        words = index_in_words(collection.kind, collection.plan)
        described.append(f"{bound}, {words}")
    if collection.exact_floor is not None:
        text = f"exact from {Threshold(collection.exact_floor)} on"
        described.append(text + (", all symbols posted" if settings["containment"] else ""))
    described = described or ["no index: every answer compares all items"]
    kept = settings["kept_groups"]
    if kept is not None:
        bounds = ", ".join(f"{bound:g}" for bound in kept["bounds"])
        described.append(f"groups: {kept['method']} at {bounds}")
    return "; ".join(described)


def index_in_words(kind: Kind, plan: simdb.Plan) -> str:
    """Return the parts of a probable index in words."""
    if plan.cascade is not None:
        return f"cascade {plan.cascade}, {plan.keys:,} bucket keys an item"
    return kind.index_in_words(plan.bands, plan.rows)


def _warn_of_weight(collection: simdb.CollectionView, *, containment: bool) -> None:
    """Warn if the exact index of a collection is likely to be larger than its texts."""
    if collection.exact_floor is None:
        return
    weight = expected_weight(collection.kind, collection.exact_floor, containment=containment)
    if weight is not None and weight > 1:
        note(
            f"warning: the exact index is likely to take {weight:.1f} times the bytes of the "
            "texts; word shingles or a higher floor make it smaller, and "
            "simdb plan --exact measures it on a sample"
        )

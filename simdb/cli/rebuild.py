"""The command that indexes stored items again with other settings."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from simdb.cli.create import indexes_of, report_of
from simdb.cli.options import Bound, Groups, GroupsAt
from simdb.cli.output import Working
from simdb.cli.settings import OtherIndexOptions, OtherKindOptions
from simdb.cli.stores import StoredCollection
from simdb.errors import UsageError


def rebuild(
    *,
    stored: StoredCollection,
    bound: Bound,
    described: OtherKindOptions,
    index: OtherIndexOptions,
    containment: Annotated[
        bool | None,
        typer.Option(
            "--containment/--no-containment",
            rich_help_panel=OtherIndexOptions.HEADING,
            help="Let the exact index hold all symbols, or undo that.",
        ),
    ] = None,
    drop_exact: Annotated[
        bool,
        typer.Option(
            "--drop-exact",
            rich_help_panel=OtherIndexOptions.HEADING,
            help="Remove the exact index.",
        ),
    ] = False,
    drop_probable: Annotated[
        bool,
        typer.Option(
            "--drop-probable",
            rich_help_panel=OtherIndexOptions.HEADING,
            help="Remove the probable index.",
        ),
    ] = False,
    compression: Annotated[
        Literal["zstd"] | None,
        typer.Option("--compression", help="Compress items and metadata."),
    ] = None,
    drop_compression: Annotated[
        bool, typer.Option("--drop-compression", help="Store items and metadata uncompressed.")
    ] = False,
    groups: Groups = None,
    groups_at: GroupsAt = None,
    drop_groups: Annotated[
        bool, typer.Option("--drop-groups", help="Stop keeping groups, and forget their ids.")
    ] = False,
    telling: Working,
) -> None:
    """Index the stored items again with other settings.

    Settings that are not given stay as they are, but bands and rows are planned again where a
    threshold, a distance or a recall is given without both. --compression, --groups and their
    opposites alone do not change the indexes.

    Example: simdb rebuild corpus.simdb documents --threshold 0.7
    """
    if drop_exact and (index.exact_floor is not None or containment):
        raise UsageError("--drop-exact contradicts --exact-floor and --containment")
    if drop_probable and bound.given():
        raise UsageError("--drop-probable contradicts --threshold and --max-distance")
    if drop_exact and drop_probable:
        raise UsageError("--drop-exact and --drop-probable together leave no index")
    if drop_compression and compression is not None:
        raise UsageError("--drop-compression contradicts --compression")
    if drop_groups and (groups is not None or groups_at):
        raise UsageError("--drop-groups contradicts --groups and --groups-at")
    with stored.change(stored.name) as target, telling.bar() as bar:
        kind = described.changed(target.kind)
        target.rebuild(
            kind if kind != target.kind else None,
            containment=containment,
            drop_exact=drop_exact,
            drop_probable=drop_probable,
            compression=compression,
            drop_compression=drop_compression,
            groups=groups,
            groups_at=groups_at or None,
            drop_groups=drop_groups,
            progress=bar.callback,
            **index.given(),
            **bound.of(kind),
        )
        told = f"rebuilt {target.name}: {indexes_of(target)}"
        telling.tell(
            report_of(target), f"{told}; groups are no longer kept" if drop_groups else told
        )

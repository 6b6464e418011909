"""The command that indexes stored items anew under other settings."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.create import indexes_of, report_of
from simdb.cli.options import (
    AsJson,
    Bound,
    CollectionName,
    ExactFloor,
    OtherIndexOptions,
    OtherKindOptions,
    Quiet,
    StorePath,
    rational,
)
from simdb.cli.output import ProgressBar, note, print_json_line
from simdb.cli.stores import opened_collection
from simdb.errors import UsageError


def rebuild(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    described: OtherKindOptions,
    bound: Bound,
    recall: Annotated[
        str | None,
        typer.Option(
            "--recall", metavar="SHARE", help="Share of pairs at the threshold to find (unchanged)."
        ),
    ] = None,
    index: OtherIndexOptions,
    exact_floor: ExactFloor = None,
    containment: Annotated[
        bool | None,
        typer.Option(
            "--containment/--no-containment", help="Whether the exact index posts all symbols."
        ),
    ] = None,
    drop_exact: Annotated[
        bool, typer.Option("--drop-exact", help="Leave the exact index out.")
    ] = False,
    drop_probable: Annotated[
        bool, typer.Option("--drop-probable", help="Leave the probable index out.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Index the stored items anew under other settings.

    Settings that are not given stay as they are; only bands and rows are planned anew, unless
    both are given.
    """
    if drop_exact and (exact_floor is not None or containment):
        raise UsageError("--drop-exact contradicts --exact-floor and --containment")
    if drop_probable and bound.given():
        raise UsageError("--drop-probable contradicts --threshold and --max-distance")
    if drop_exact and drop_probable:
        raise UsageError("--drop-exact and --drop-probable together leave no index")
    with (
        opened_collection(context, store, collection) as target,
        ProgressBar(quiet=quiet) as bar,
    ):
        kind = described.changed(target.kind)
        target.rebuild(
            kind if kind != target.kind else None,
            recall=rational(recall, name="recall"),
            bands=index.bands,
            rows=index.rows,
            sketch=index.sketch,
            seed=index.seed,
            exact_floor=rational(exact_floor, name="--exact-floor"),
            containment=containment,
            drop_exact=drop_exact,
            drop_probable=drop_probable,
            progress=bar.callback,
            **bound.of(kind),
        )
        if as_json:
            print_json_line(report_of(target))
        else:
            note(f"rebuilt {target.name}: {indexes_of(target)}", quiet=quiet)

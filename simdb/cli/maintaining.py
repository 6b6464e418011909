"""The commands that look after a store: stats check compact backup rebuild audit."""

from __future__ import annotations

import dataclasses
from math import isnan
from pathlib import Path
from typing import Annotated

import typer

from simdb.cli.bounds import Bound, MaxDistanceText
from simdb.cli.describing import KindOptions
from simdb.cli.failures import EXIT_PROBLEMS, told_when_interrupted
from simdb.cli.indexes import indexes_of, report_of
from simdb.cli.kinds import measures_distance
from simdb.cli.options import (
    AsJson,
    Bands,
    CollectionName,
    ExactFloor,
    OptionalCollectionName,
    OtherLowercase,
    OtherRecall,
    OtherSeed,
    OtherShinglesText,
    OtherSketch,
    OtherUnicodeForm,
    OtherWhiteSpace,
    Quiet,
    Rows,
    SettingsText,
    StorePath,
    ThresholdText,
    rational,
    sketch_scheme,
)
from simdb.cli.output import (
    ProgressBar,
    counted,
    note,
    print_fields,
    print_json,
    print_json_line,
    print_line,
    print_table,
    printable,
)
from simdb.cli.stores import existing, opened, opened_collection
from simdb.errors import UsageError
from simdb.results import AuditReport


def stats(
    context: typer.Context,
    *,
    store: StorePath,
    collection: OptionalCollectionName = None,
    as_json: AsJson = False,
) -> None:
    """Print what a store holds and how much room it takes."""
    with opened(context, store, read_only=True) as database:
        found = (existing(database, collection) if collection else database).stats()
    if as_json:
        print_json(found)
    else:
        print_fields(found)


def check(
    context: typer.Context,
    *,
    store: StorePath,
    collection: OptionalCollectionName = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also sign every item again and compare.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Read every record of a store and tell what is wrong.

    Exit code 0 when it is sound, 1 when problems were found, 3 when it cannot be opened.
    """
    with (
        opened(context, store, read_only=True) as database,
        ProgressBar(quiet=quiet) as bar,
    ):
        checked = existing(database, collection) if collection else database
        report = checked.check(deep=deep, progress=bar.callback)
    if as_json:
        problems = [dataclasses.asdict(problem) for problem in report.problems]
        print_json({"sound": report.sound, "records": report.records, "problems": problems})
    else:
        for problem in report.problems:
            print_line(printable(f"{problem.table}, {problem.record}: {problem.problem}"))
        verdict = "sound" if report.sound else counted(len(report.problems), "problem", "problems")
        print_line(f"{verdict}; {counted(report.records, 'record', 'records')} read")
    if not report.sound:
        raise typer.Exit(EXIT_PROBLEMS)


def compact(
    context: typer.Context,
    *,
    store: StorePath,
    collection: OptionalCollectionName = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Merge the index and drop what is deleted, in place."""
    with (
        opened(context, store) as database,
        told_when_interrupted(lambda: "the store is whole; the same command continues"),
        ProgressBar(quiet=quiet) as bar,
    ):
        target = existing(database, collection) if collection else database
        report = target.compact(progress=bar.callback)
    if as_json:
        print_json(report)
    else:
        print_fields(report)


def backup(
    context: typer.Context,
    *,
    store: StorePath,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The new file.")],
    compacted: Annotated[
        bool, typer.Option("--compact", help="Leave the free pages out: slower, smaller.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Copy a store to a new file, while others use it."""
    with (
        opened(context, store, read_only=True) as database,
        told_when_interrupted(lambda: "there is no complete backup"),
    ):
        database.backup(target, compact=compacted)
    size = Path(target).stat().st_size
    if as_json:
        print_json_line({"store": store, "target": target, "bytes": size})
    else:
        note(f"backed up to {target}: {size:,} bytes", quiet=quiet)


def rebuild(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    settings: SettingsText = None,
    shingles: OtherShinglesText = None,
    threshold: ThresholdText = None,
    max_distance: MaxDistanceText = None,
    recall: OtherRecall = None,
    lowercase: OtherLowercase = None,
    white_space: OtherWhiteSpace = None,
    unicode: OtherUnicodeForm = None,
    bands: Bands = None,
    rows: Rows = None,
    sketch: OtherSketch = None,
    seed: OtherSeed = None,
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
    bound = Bound.parse(threshold, max_distance)
    if drop_probable and bound.is_given:
        raise UsageError("--drop-probable contradicts --threshold and --max-distance")
    if drop_exact and drop_probable:
        raise UsageError("--drop-exact and --drop-probable together leave no index")
    with (
        opened_collection(context, store, collection) as target,
        ProgressBar(quiet=quiet) as bar,
    ):
        wanted = KindOptions(None, settings, shingles, lowercase, white_space, unicode)
        kind = wanted.changed(target.kind)
        target.rebuild(
            kind if kind != target.kind else None,
            recall=rational(recall, name="recall"),
            bands=bands,
            rows=rows,
            sketch=sketch_scheme(sketch),
            seed=seed,
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


def audit(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Items to compare with all others.")
    ] = 200,
    threshold: ThresholdText = None,
    max_distance: MaxDistanceText = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the choice of the sample.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure the recall of a collection on a sample.

    Compares each sampled item with all others, and counts which similar ones the index finds.
    """
    bound = Bound.parse(threshold, max_distance)
    with (
        opened_collection(context, store, collection, read_only=True) as source,
        ProgressBar(quiet=quiet) as bar,
    ):
        kind = source.kind
        report = source.self_audit(
            sample=sample, seed=seed, progress=bar.callback, **bound.of(kind)
        )
    name = "max_distance" if measures_distance(kind) else "threshold"
    if as_json:
        told = dataclasses.asdict(report)
        print_json({name if known == "threshold" else known: told[known] for known in told})
    else:
        _print_audit(report, name, "distance" if measures_distance(kind) else "similarity")


def _print_audit(report: AuditReport, bound: str, measured: str) -> None:
    interval = ""
    if report.recall_interval is not None:
        low, high = report.recall_interval
        interval = f" (95 %: {low:.4f} to {high:.4f})"
    recall = "no true pairs in the sample" if report.recall is None else f"{report.recall:.4f}"
    expected = "not known" if isnan(report.expected_recall) else f"{report.expected_recall:.4f}"
    print_fields(
        {
            "sampled": report.sampled,
            "compared with": report.compared,
            bound.replace("_", " "): f"{report.threshold:g}",
            "true pairs": report.true_pairs,
            "found": report.found_pairs,
            "recall measured": recall + interval,
            f"recall expected at the {bound.replace('_', ' ')}": expected,
            "candidates": report.candidates,
            "true among them": "-" if report.precision is None else f"{report.precision:.4f}",
        }
    )
    if report.bins:
        print_table(
            (f"{measured} from ", "to ", "true pairs ", "found "),
            [
                (f"{b.lowest:.2f}", f"{b.highest:.2f}", f"{b.true_pairs:,}", f"{b.found_pairs:,}")
                for b in report.bins
            ],
        )

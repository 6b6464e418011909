"""The command that puts the rows of files into a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

import simdb
from simdb.cli.failures import told_when_interrupted
from simdb.cli.inputs import Feed, InputOptions, require_inputs, require_no_input
from simdb.cli.options import AsJson, Bound, CollectionName, Quiet, StorePath, SyncMode
from simdb.cli.output import ProgressBar, measured_duplicate, note, print_json
from simdb.cli.stores import opened_collection
from simdb.errors import UsageError
from simdb.files import Output, json_line, require_fitting_name, written_together
from simdb.results import AddReport, Outcome


def add(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="JSON lines, CSV, NumPy arrays, text files, folders; .gz and .zst; - is standard "
            "input.",
        ),
    ],
    reading: InputOptions,
    on_existing: Annotated[
        Literal["error", "skip", "replace"],
        typer.Option("--on-existing", help="A key that is stored already."),
    ] = "error",
    on_duplicate: Annotated[
        Literal["keep", "skip"],
        typer.Option("--on-duplicate", help="An item similar to a stored one."),
    ] = "keep",
    find_duplicates: Annotated[
        bool, typer.Option("--find-duplicates", help="Count the items similar to stored ones.")
    ] = False,
    duplicates: Annotated[
        str | None,
        typer.Option(
            "--duplicates", metavar="FILE", help="Write each of them there as a line of JSON."
        ),
    ] = None,
    bound: Bound,
    sync: SyncMode = "full",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add the rows of files and folders to a collection.

    Fields that are neither key nor item are kept as metadata. Rows are committed in batches; when
    the work is cut short, the same command with --on-existing skip continues it.
    """
    require_inputs(inputs)
    require_fitting_name(duplicates, "jsonl")
    require_no_input([duplicates], inputs, reading.pattern)
    with opened_collection(context, store, collection, sync=sync) as target:
        policy: dict[str, Any] = {
            "on_bad": reading.on_bad,
            "on_existing": on_existing,
            "on_duplicate": on_duplicate,
            "find_duplicates": find_duplicates or duplicates is not None,
            **bound.of(target.kind),
        }
        options = reading.of(target.kind, target)
        feed = Feed(reading.sources(inputs, options), options, on_bad=reading.on_bad)
        report = _added(target, feed, duplicates, policy, quiet=quiet)
    _tell_report(report, feed, as_json=as_json, quiet=quiet)


def _added(
    target: simdb.Collection,
    feed: Feed,
    duplicates: str | None,
    policy: dict[str, Any],
    *,
    quiet: bool,
) -> AddReport:
    with (
        written_together(*([duplicates] if duplicates else [])) as files,
        told_when_interrupted(lambda: _stored(feed)),
        ProgressBar(feed.share, quiet=quiet) as bar,
    ):
        try:
            return target.add_many(
                feed.rows(),
                progress=bar.callback,
                outcomes=lambda outcomes: _write_duplicates(feed, outcomes, files),
                **policy,
            )
        except UsageError as error:
            placed = feed.placed(error)
            if feed.done:
                told = f"{placed.problem}; {_stored(feed)}"
                placed = UsageError(told, remedies=placed.remedies)
            raise placed from error


def _stored(feed: Feed) -> str:
    return f"{feed.done:,} rows are done and stored; --on-existing skip continues after them"


def _write_duplicates(feed: Feed, outcomes: Sequence[Outcome], files: Sequence[Output]) -> None:
    for outcome, waiting in feed.settled(outcomes):
        if outcome.duplicate_of is not None and files:
            files[0].write(
                json_line(
                    {
                        "input": waiting.reader.source,
                        "line": waiting.line,
                        "id": outcome.key,
                        "duplicate_of": outcome.duplicate_of,
                        **measured_duplicate(outcome),
                        "within_input": outcome.within_input,
                        "stored": outcome.action in ("added", "replaced"),
                    }
                )
            )


def _tell_report(report: AddReport, feed: Feed, *, as_json: bool, quiet: bool) -> None:
    counts = {
        "rows": feed.done + feed.bad - report.bad,
        "added": report.added,
        "replaced": report.replaced,
        "present": report.present,
        "duplicates_old": report.duplicates_old,
        "duplicates_new": report.duplicates_new,
        "bad": feed.bad,
    }
    if as_json:
        bad_rows = [{"place": place, "problem": problem} for place, problem in feed.bad_rows]
        print_json({**counts, "since": report.since, "bad_rows": bad_rows})
        return
    told = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    note("; ".join(told) or "no rows", quiet=quiet)

"""The command that adds the rows of files to a collection."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import typer
from msgspec.structs import replace

from simdb.cli.failures import told_when_interrupted
from simdb.cli.feed import Feed, duplicate_fields
from simdb.cli.inputs import InputOptions, Inputs, require_no_input
from simdb.cli.options import Bound, SyncMode
from simdb.cli.output import Working, counted
from simdb.cli.stores import NamedCollection
from simdb.errors import UsageError
from simdb.files.inputs import require_there
from simdb.files.writing import Output, json_line, require_fitting_name, written_together
from simdb.results import Outcomes


def add(
    *,
    stored: NamedCollection,
    inputs: Inputs,
    reading: InputOptions,
    on_existing: Annotated[
        Literal["error", "skip", "replace"],
        typer.Option("--on-existing", help="What to do with a key that is already stored."),
    ] = "error",
    on_duplicate: Annotated[
        Literal["keep", "skip"],
        typer.Option(
            "--on-duplicate", help="What to do with an item that is similar to a stored one."
        ),
    ] = "keep",
    find_duplicates: Annotated[
        bool,
        typer.Option("--find-duplicates", help="Count the items that are similar to stored ones."),
    ] = False,
    duplicates: Annotated[
        str | None,
        typer.Option(
            "--duplicates", metavar="FILE", help="Write the duplicates here, as JSON lines."
        ),
    ] = None,
    bound: Bound,
    sync: SyncMode = "full",
    telling: Working,
) -> None:
    """Add the rows of files and folders to a collection.

    All fields except key and item are stored as metadata. Rows are committed in batches: if the
    command is interrupted, repeat it with --on-existing skip to continue; with --on-existing
    replace, repeat it as it is.

    Example: simdb add corpus.simdb documents may.jsonl --id-field id
    """
    require_there(*inputs)
    outputs = telling.require_files(duplicates, reading.bad)
    if duplicates is not None:
        require_fitting_name(duplicates, "jsonl")
    require_no_input(outputs, inputs, reading.pattern)
    with stored.change(stored.name, sync) as target:
        options = reading.of(target.kind, target)
        sources = reading.sources(inputs, options)
        reading.require_key_field(sources, options)
        reading.require_keys(target, target.kind, sources)
        options = replace(options, raw=reading.bad is not None, below=sources, all_fields=True)
        feed = Feed(sources, options, on_bad=reading.when_bad)
        policy: dict[str, Any] = {
            "on_bad": reading.when_bad,
            "on_existing": on_existing,
            "on_duplicate": on_duplicate,
            "find_duplicates": find_duplicates or duplicates is not None,
            **bound.of(target.kind),
        }
        with (
            written_together(*outputs) as files,
            told_when_interrupted(lambda: _stored(feed, on_existing)),
            telling.bar(feed.share) as bar,
        ):
            opened = dict(zip(outputs, files, strict=True))
            feed.bad_file = opened.get(reading.bad or "")
            into = opened.get(duplicates or "")
            settle = partial(_write_duplicates, feed, into, target.kind.is_distance)
            try:
                report = target.add_many(feed, progress=bar.callback, outcomes=settle, **policy)
            except UsageError as error:
                placed = feed.placed(error)
                if feed.done:
                    told = f"{placed.problem}; {_stored(feed, on_existing)}"
                    placed = UsageError(told, remedies=placed.remedies)
                raise placed from error
    counts = feed.counted(
        report,
        added=report.added,
        replaced=report.replaced,
        present=report.present,
        duplicates_old=report.duplicates_old,
        duplicates_new=report.duplicates_new,
    )
    rows = counted(counts["rows"], "row", "rows")
    others = {name.replace("_", " "): count for name, count in counts.items() if name != "rows"}
    words = [rows, *(f"{count:,} {name}" for name, count in others.items() if count)]
    fields = {**counts, "since": report.since, "bad_rows": feed.bad_rows}
    telling.tell(fields, "; ".join(words), lines=True)


def _stored(feed: Feed, on_existing: str) -> str:
    # Skipping would leave the old items of the rows that follow.
    again = "the same command" if on_existing == "replace" else "with --on-existing skip"
    return f"{feed.done:,} rows are stored; repeat {again} to continue"


def _write_duplicates(
    feed: Feed, file: Output | None, is_distance: bool, outcomes: Outcomes
) -> None:
    for rows, told in feed.settled(outcomes):
        for place, outcome in told.items():
            if outcome.duplicate_of is not None and file is not None:
                line = rows.lines[place]
                fields = duplicate_fields(outcome, line, is_distance=is_distance)
                stored = outcome.action in ("added", "replaced")
                file.write(json_line({"input": rows.reader.source, **fields, "stored": stored}))

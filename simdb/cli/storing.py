"""The commands that put items into a store and take them out: create add get delete export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from simdb.cli.failures import told_when_interrupted
from simdb.cli.feeding import Feed
from simdb.cli.options import (
    AsJson,
    Bands,
    CollectionName,
    FormatName,
    IdField,
    IntegerKeys,
    Lowercase,
    OnBad,
    Pattern,
    Rows,
    Seed,
    ShinglesText,
    Sketch,
    StorePath,
    SyncMode,
    TextFields,
    Threshold,
    ThresholdText,
    UnicodeForm,
    WhiteSpace,
    key_from,
    one_of,
    rational,
    reading_options,
    settings_of,
    sketch_scheme,
    text_kind,
)
from simdb.cli.output import (
    ProgressBar,
    counted,
    note,
    print_json,
    print_json_line,
    print_line,
    printable,
    shown_key,
)
from simdb.cli.stores import opened, opened_collection, viewed_collection
from simdb.config import Text
from simdb.datatypes import AddReport, Key, Outcome, Record
from simdb.errors import UsageError
from simdb.interchange import Output, json_line, written_together
from simdb.interchange.compression import InputStream

_LONGEST_KEY_LINE = 1 << 20


def create(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    kind: Annotated[str, typer.Option("--kind", metavar="text", help="What it holds.")] = "text",
    shingles: ShinglesText = None,
    threshold: Threshold = "0.8",
    recall: Annotated[
        str, typer.Option("--recall", metavar="SHARE", help="Share of such pairs to find.")
    ] = "0.99",
    lowercase: Lowercase = None,
    white_space: WhiteSpace = None,
    unicode: UnicodeForm = None,
    bands: Bands = None,
    rows: Rows = None,
    sketch: Sketch = None,
    seed: Seed = None,
) -> None:
    """Create a collection, and the store where there is none.

    Its settings say what is similar to what; they are kept with it. A collection that exists
    already is refused.
    """
    one_of("--kind", kind, "text")
    settings = text_kind(Text(), shingles, lowercase, white_space, unicode)
    chosen_threshold = rational(threshold)
    chosen_recall = rational(recall, name="recall")
    scheme = sketch_scheme(sketch) or "fast"
    with opened(context, store, create=True) as database:
        created = database.create_collection(
            collection,
            settings,
            threshold=chosen_threshold,
            recall=chosen_recall,
            bands=bands,
            rows=rows,
            sketch=scheme,
            seed=seed,
        )
        note(
            f"created collection {created.name} in {store}: threshold {created.threshold},"
            f" {created.plan.bands} bands of {created.plan.rows} rows",
            quiet=settings_of(context).quiet,
        )


def add(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="JSON lines, CSV, text files, folders; .gz and .zst; - is standard input.",
        ),
    ],
    text_field: TextFields = None,
    id_field: IdField = None,
    format_name: FormatName = None,
    pattern: Pattern = None,
    integer_keys: IntegerKeys = False,
    on_existing: Annotated[
        str,
        typer.Option(
            "--on-existing", metavar="error|skip|replace", help="A key that is stored already."
        ),
    ] = "error",
    on_duplicate: Annotated[
        str,
        typer.Option(
            "--on-duplicate", metavar="keep|skip", help="An item similar to a stored one."
        ),
    ] = "keep",
    on_bad: OnBad = "error",
    find_duplicates: Annotated[
        bool, typer.Option("--find-duplicates", help="Count the items similar to stored ones.")
    ] = False,
    duplicates: Annotated[
        str | None,
        typer.Option(
            "--duplicates", metavar="FILE", help="Write each of them there as a line of JSON."
        ),
    ] = None,
    threshold: ThresholdText = None,
    sync: SyncMode = "full",
    as_json: AsJson = False,
) -> None:
    """Add the rows of files and folders to a collection.

    Fields that are neither key nor text are kept as metadata. Rows are committed in batches; when
    the work is cut short, the same command with --on-existing skip continues it.
    """
    options = reading_options(text_field, id_field, format_name, integer_keys, pattern)
    policy: dict[str, Any] = {
        "on_bad": one_of("--on-bad", on_bad, "error", "skip"),
        "on_existing": one_of("--on-existing", on_existing, "error", "skip", "replace"),
        "on_duplicate": one_of("--on-duplicate", on_duplicate, "keep", "skip"),
        "find_duplicates": find_duplicates or duplicates is not None,
        "threshold": rational(threshold),
    }
    feed = Feed(inputs, options, on_bad=on_bad, keep_raw=False)
    quiet = settings_of(context).quiet
    with (
        opened_collection(context, store, collection, sync=sync) as target,
        written_together(*([duplicates] if duplicates else [])) as files,
        told_when_interrupted(lambda: _stored(feed)),
        ProgressBar(feed.share, quiet=quiet) as bar,
    ):
        try:
            report = target.add_many(
                feed.rows(),
                progress=bar.callback,
                outcomes=lambda outcomes: _write_duplicates(feed, outcomes, files),
                **policy,
            )
        except UsageError as error:
            placed = feed.placed(error)
            if feed.done:
                placed = UsageError(f"{placed}; {_stored(feed)}")
            raise placed from error
    _tell_report(report, feed, as_json=as_json, quiet=quiet)


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
                        "similarity": outcome.similarity,
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
        print_json({**counts, "bad_rows": bad_rows})
        return
    told = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    note("; ".join(told) or "no rows", quiet=quiet)


def get(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Keys of stored items.")],
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
) -> None:
    """Print stored items: the text as it was given, and its metadata."""
    with viewed_collection(context, store, collection) as source:
        for text in keys:
            record = source.get(key_from(text, integer_keys=integer_keys))
            if as_json:
                _print_record(record)
                continue
            print_line(f"key: {shown_key(record.key)}")
            for name, value in (record.metadata or {}).items():
                print_line(f"{printable(str(name))}: {printable(str(value))}")
            print_line("")
            print_line(printable(record.item, keep="\n\t"))


def _print_record(record: Record) -> None:
    with _told_as_usage(record.key):
        print_json_line({"key": record.key, "item": record.item, "metadata": record.metadata})


@contextlib.contextmanager
def _told_as_usage(key: Key) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise UsageError(f"the item {key!r} cannot be written as JSON: {error}") from error


def delete(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Keys of stored items.")
    ] = None,
    keys_file: Annotated[
        str | None,
        typer.Option("--keys", metavar="FILE", help="A file of keys, one a line; - reads them."),
    ] = None,
    missing: Annotated[
        str, typer.Option("--missing", metavar="error|skip", help="A key that is not stored.")
    ] = "error",
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
) -> None:
    """Delete items by their keys.

    A key that is not stored is an error, told after others were deleted; --missing skip passes
    over it.
    """
    one_of("--missing", missing, "error", "skip")
    if not keys and keys_file is None:
        raise UsageError("name keys to delete, or a file of them with --keys")
    texts = [*(keys or ()), *(_keys_in(keys_file) if keys_file else ())]
    chosen = [key_from(text, integer_keys=integer_keys) for text in texts]
    with opened_collection(context, store, collection) as target:
        deleted = target.delete_many(chosen, missing="skip" if missing == "skip" else "error")
    if as_json:
        print_json({"keys": len(chosen), "deleted": deleted})
    else:
        note(
            f"deleted {deleted:,} of {counted(len(chosen), 'key', 'keys')}",
            quiet=settings_of(context).quiet,
        )


def _keys_in(source: str) -> list[str]:
    """Return the keys in a file, one a line; empty lines are none."""
    keys = []
    with InputStream(source) as stream:
        number = 0
        while line := stream.readline(_LONGEST_KEY_LINE):
            number += 1
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                raise UsageError(f"{source}, line {number}: not UTF-8") from None
            if text:
                keys.append(text)
    return keys


def export(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="JSON lines, or .gz, .zst; - prints."),
    ] = "-",
    text_field: Annotated[
        str, typer.Option("--text-field", metavar="FIELD", help="The field for the text.")
    ] = "text",
    id_field: Annotated[
        str, typer.Option("--id-field", metavar="FIELD", help="The field for the key.")
    ] = "id",
) -> None:
    """Write all items as JSON lines.

    In order of insertion, with their metadata as fields. What it writes can be added again with
    the same field names. The file appears when it is complete.
    """
    if text_field == id_field:
        raise UsageError("the key and the text cannot go to one field")
    quiet = settings_of(context).quiet
    count = 0
    with (
        viewed_collection(context, store, collection) as source,
        written_together(output) as (target,),
        ProgressBar(quiet=quiet) as bar,
    ):
        total = len(source)
        for record in source.items():
            target.write(_exported(record, id_field, text_field))
            count += 1
            if count % 1000 == 0:
                bar.advance("exporting", count, total)
    note(f"exported {counted(count, 'item', 'items')}", quiet=quiet)


def _exported(record: Record, id_field: str, text_field: str) -> bytes:
    metadata: Mapping[str, Any] = record.metadata or {}
    for option, field in (("--id-field", id_field), ("--text-field", text_field)):
        if field in metadata:
            raise UsageError(
                f"the metadata of {record.key!r} has a field {field!r}: name another with {option}"
            )
    with _told_as_usage(record.key):
        return json_line({id_field: record.key, text_field: record.item, **metadata})

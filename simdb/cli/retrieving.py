"""The commands that take items out of a store, to see them or for good: get delete export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from simdb.cli.kinds import KINDS, name_of, plain_item, plain_record, shown_item
from simdb.cli.options import (
    AsJson,
    CollectionName,
    IntegerKeys,
    Quiet,
    StorePath,
    key_from,
    one_of,
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
from simdb.cli.stores import opened_collection, viewed_collection
from simdb.config import Record
from simdb.errors import UsageError
from simdb.files import json_line, written_together
from simdb.files.compression import InputStream
from simdb.results import Entry, Key

_LONGEST_KEY_LINE = 1 << 20


def get(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Keys of stored items.")],
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
) -> None:
    """Print stored items as they were given, and their metadata; sets and bags sorted."""
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
            print_line(printable(shown_item(record.item), keep="\n\t"))


def _print_record(record: Entry) -> None:
    with _told_as_usage(record.key):
        print_json_line(
            {"key": record.key, "item": plain_item(record.item), "metadata": record.metadata}
        )


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
    quiet: Quiet = False,
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
            quiet=quiet,
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
        str | None,
        typer.Option(
            "--text-field",
            "--set-field",
            "--item-field",
            metavar="FIELD",
            help="The field for the item (named as its kind); records have fields of their own.",
        ),
    ] = None,
    id_field: Annotated[
        str, typer.Option("--id-field", metavar="FIELD", help="The field for the key.")
    ] = "id",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write all items as JSON lines.

    In order of insertion, with their metadata as fields. What it writes can be added again with
    the same field names. The file appears when it is complete.
    """
    if id_field in ((text_field,) if text_field is not None else KINDS):
        raise UsageError("the key and the item cannot go to one field: name the item's too")
    if as_json and output == "-":
        raise UsageError("--json and an output cannot both go to standard output")
    count = 0
    with (
        viewed_collection(context, store, collection) as source,
        written_together(output) as (target,),
        ProgressBar(quiet=quiet) as bar,
    ):
        total = len(source)
        item_field: str | None = text_field or name_of(source.kind)
        if isinstance(source.kind, Record):
            if text_field is not None:
                raise UsageError("--text-field is not for records: they have fields of their own")
            item_field = None
        for record in source.items():
            target.write(_exported(record, id_field, item_field))
            count += 1
            if count % 1000 == 0:
                bar.advance("exporting", count, total)
    if as_json:
        print_json_line({"collection": collection, "output": output, "items": count})
    else:
        note(f"exported {counted(count, 'item', 'items')}", quiet=quiet)


def _exported(record: Entry, id_field: str, item_field: str | None) -> bytes:
    """Return an item as a line; a record, for which there is no field, as fields of the line."""
    metadata: Mapping[str, Any] = record.metadata or {}
    if item_field is None:
        item = plain_record(record.item)
    else:
        item = {item_field: plain_item(record.item)}
    if id_field in item:
        raise UsageError(
            f"the record {record.key!r} has a field {id_field!r}: name another with --id-field"
        )
    for option, names in (("--id-field", (id_field,)), ("--text-field", item)):
        field = next((name for name in names if name in metadata), None)
        if field is not None:
            raise UsageError(
                f"the metadata of {record.key!r} has a field {field!r}: name another with {option}"
            )
    with _told_as_usage(record.key):
        return json_line({id_field: record.key, **item, **metadata})

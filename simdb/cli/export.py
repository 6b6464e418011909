"""The command that writes all items of a collection as JSON lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from simdb import kinds
from simdb.cli.get import stored_line
from simdb.cli.output import Telling, counted
from simdb.cli.stores import StoredCollection
from simdb.errors import UsageError
from simdb.files.writing import require_fitting_name, written_together
from simdb.results import Entry


def export(
    *,
    stored: StoredCollection,
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
    metadata_field: Annotated[
        str | None,
        typer.Option(
            "--metadata-field", metavar="FIELD", help="One field for all metadata, an object."
        ),
    ] = None,
    telling: Telling,
) -> None:
    """Write all items as JSON lines.

    In order of insertion, with their metadata as fields, or as one, which also tells no metadata
    from empty ones. What it writes can be added again with the same field names. The file appears
    when it is complete.
    """
    if id_field in ((text_field,) if text_field is not None else kinds.known()):
        raise UsageError("the key and the item cannot go to one field: name the item's too")
    if telling.as_json and output == "-":
        raise UsageError("--json and an output cannot both go to standard output")
    require_fitting_name(output, "jsonl")
    with (
        stored.viewed() as source,
        written_together(output) as (target,),
        telling.bar() as bar,
    ):
        total = len(source)
        item_field: str | None = text_field or source.kind.name
        if source.kind.field_names is not None:
            if text_field is not None:
                raise UsageError("--text-field is not for records: they have fields of their own")
            item_field = None
        for count, record in enumerate(source.items(), 1):
            others: Mapping[str, Any] = record.metadata or {}
            if metadata_field is not None:
                others = {metadata_field: record.metadata}
            target.write(_exported(source.kind, record, others, id_field, item_field))
            if count % 1000 == 0:
                bar.advance("exporting", count, total)
    told = {"collection": stored.name, "output": output, "items": total}
    telling.tell(told, f"exported {counted(total, 'item', 'items')}")


def _exported(
    kind: kinds.Kind,
    record: Entry,
    metadata: Mapping[str, Any],
    id_field: str,
    item_field: str | None,
) -> bytes:
    """Return an item as a line; a record, for which there is no field, as fields of the line."""
    plain = kind.plain_item(record.item)
    item: dict[str, Any] = plain if item_field is None else {item_field: plain}
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
    return stored_line(record.key, {id_field: record.key, **item, **metadata})

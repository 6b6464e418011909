"""The command that writes all items of a collection as JSON lines or as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from simdb import arrow
from simdb.cli.get import stored_line
from simdb.cli.output import Answering, counted
from simdb.cli.stores import StoredCollection
from simdb.errors import Remedy, UsageError
from simdb.files.compression import STANDARD_STREAM
from simdb.metadata import json_text
from simdb.results import Entry


def export(
    *,
    stored: StoredCollection,
    text_field: Annotated[
        str | None,
        typer.Option(
            "--text-field",
            "--set-field",
            "--item-field",
            metavar="FIELD",
            help="The field to write the item to (named like its kind); records have their own "
            "fields.",
        ),
    ] = None,
    id_field: Annotated[
        str, typer.Option("--id-field", metavar="FIELD", help="The field to write the key to.")
    ] = "id",
    metadata_field: Annotated[
        str | None,
        typer.Option(
            "--metadata-field",
            metavar="FIELD",
            help="One field to write all metadata to, as an object; in a table, as JSON text.",
        ),
    ] = None,
    telling: Answering,
) -> None:
    """Write all items as JSON lines or as a table.

    Items are written in order of insertion, with their metadata as fields, or in one field if
    --metadata-field is given. 'simdb add' reads the output with the same field names. A file
    appears when it is complete; without --output the lines are printed.

    Example: simdb export corpus.simdb documents -o documents.parquet
    """
    if telling.output is None:
        telling = replace(telling, output=STANDARD_STREAM)
    with stored.view(stored.name) as source, telling.bar() as bar:
        total = len(source)
        item_field: str | None = text_field or source.kind.name
        if source.kind.field_names is not None:
            if text_field is not None:
                raise UsageError(
                    "--text-field and --item-field are not for records, which have their own fields"
                )
            if id_field in source.kind.field_names:
                raise UsageError(f"records have a field {id_field!r}: name another with --id-field")
            item_field = None
        if id_field == item_field:
            raise UsageError(
                "the key and the item cannot both go to one field: name the item's field too"
            )
        item_fields = source.kind.field_names or [text_field or source.kind.name]
        if metadata_field in (id_field, *item_fields):
            of = "key" if metadata_field == id_field else "item"
            raise UsageError(
                f"the {of} goes to the field {metadata_field!r}: name another with --metadata-field"
            )
        # A record may lack one, which no metadata may stand for.
        of_item = "--metadata-field" if item_field is None else "--text-field"
        taken = {"--id-field": [id_field], of_item: item_fields}

        def rows(task: str = "exporting", *, of_table: bool = False) -> Iterator[dict[str, Any]]:
            kind = source.kind  # to ask for it takes as long as to read an item
            item_of = kind.column_item if of_table else kind.plain_item
            for count, record in enumerate(source.items(), 1):
                others: Mapping[str, Any] = record.metadata or {}
                if metadata_field is not None:
                    told: Any = record.metadata
                    if of_table and told is not None:  # objects of one column have the same fields
                        told = json_text(told)
                    others = {metadata_field: told}
                plain = item_of(record.item)
                # Of a row without any of the fields one cannot tell that it is a record.
                item = {item_field: plain} if item_field else plain or dict.fromkeys(item_fields)
                yield _exported(record, item, others, id_field, taken)
                if count % 1000 == 0:
                    bar.advance(task, count, total)

        passes = iter(("looking at types", "exporting"))  # of the rows of a table
        telling.write(
            rows(),
            lambda: arrow.reader_of(
                lambda: rows(next(passes), of_table=True),
                id_field,
                *item_fields,
                maps=set(item_fields) if source.kind.of_weights else frozenset(),
                remedies=[Remedy("metadata_field", ..., "writes all metadata as JSON")],
            ),
            lambda row: stored_line(row[id_field], row),
        )
    told = {"collection": source.name, "output": telling.output, "items": total}
    telling.tell(told, f"exported {counted(total, 'item', 'items')}")


def _exported(
    record: Entry,
    item: dict[str, Any],
    metadata: Mapping[str, Any],
    id_field: str,
    taken: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return an item as a row; ``taken`` are fields of others than metadata, by what names them."""
    for option, names in taken.items():
        field = next((name for name in names if name in metadata), None)
        if field is not None:
            raise UsageError(
                f"the metadata of {record.key!r} has a field {field!r}: name another with {option}"
            )
    return {id_field: record.key, **item, **metadata}

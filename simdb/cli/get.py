"""The command that prints stored items."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from simdb.cli.options import IntegerKeys, key_from
from simdb.cli.output import AsJson, note, shown_key
from simdb.cli.stores import NamedCollection
from simdb.files.writing import json_line, printable
from simdb.metadata import expressible
from simdb.results import Key


def get(
    *,
    stored: NamedCollection,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="The keys of stored items.")],
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
) -> None:
    """Print stored items and their metadata.

    Items are printed as they were given, sets and bags in sorted order.

    Example: simdb get corpus.simdb documents a17
    """
    with stored.view(stored.name) as source:
        for text in keys:
            record = source.get(key_from(text, integer_keys=integer_keys))
            if as_json:
                item = source.kind.plain_item(record.item)
                fields = {"key": record.key, "item": item, "metadata": record.metadata}
                sys.stdout.buffer.write(stored_line(record.key, fields))
                continue
            print(f"key: {shown_key(record.key)}")
            for name, value in (record.metadata or {}).items():
                print(f"{printable(str(name))}: {printable(str(value))}")
            print("")
            print(printable(source.kind.shown_item(record.item), keep="\n\t"))


def stored_line(key: Key, fields: Mapping[str, Any]) -> bytes:
    """Return a stored item as a JSON line.

    Metadata of earlier versions may contain NaN, infinities or bytes. They are written as text,
    with a note, so that one item does not keep the others from being read.
    """
    try:
        return json_line(fields)
    except (TypeError, ValueError):
        note(f"the metadata of {key!r} is not all JSON: NaN, infinities and bytes are text here")
        return json_line(expressible(fields))

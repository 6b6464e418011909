"""The command that prints stored items."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import typer

from simdb.cli.options import AsJson, CollectionName, IntegerKeys, StorePath, key_from
from simdb.cli.output import print_json_line, shown_key
from simdb.cli.stores import viewed_collection
from simdb.errors import UsageError
from simdb.files import printable
from simdb.kinds import Kind
from simdb.results import Entry, Key


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
                _print_record(source.kind, record)
                continue
            print(f"key: {shown_key(record.key)}")
            for name, value in (record.metadata or {}).items():
                print(f"{printable(str(name))}: {printable(str(value))}")
            print("")
            print(printable(source.kind.shown_item(record.item), keep="\n\t"))


def _print_record(kind: Kind, record: Entry) -> None:
    with told_as_usage(record.key):
        print_json_line(
            {
                "key": record.key,
                "item": kind.plain_item(record.item),
                "metadata": record.metadata,
            }
        )


@contextlib.contextmanager
def told_as_usage(key: Key) -> Iterator[None]:
    """Tell an item that JSON cannot hold as the wish that cannot be met."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise UsageError(f"the item {key!r} cannot be written as JSON: {error}") from error

"""The command that deletes items by their keys."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from simdb.cli.options import AsJson, CollectionName, IntegerKeys, Quiet, StorePath, key_from
from simdb.cli.output import counted, note, print_json
from simdb.cli.stores import opened_collection
from simdb.errors import UsageError
from simdb.files.compression import InputStream

_LONGEST_KEY_LINE = 1 << 20


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
        Literal["error", "skip"], typer.Option("--missing", help="A key that is not stored.")
    ] = "error",
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Delete items by their keys.

    A key that is not stored is an error, told after others were deleted; --missing skip passes
    over it.
    """
    if not keys and keys_file is None:
        raise UsageError("name keys to delete, or a file of them with --keys")
    texts = [*(keys or ()), *(_keys_in(keys_file) if keys_file else ())]
    chosen = [key_from(text, integer_keys=integer_keys) for text in texts]
    with opened_collection(context, store, collection) as target:
        deleted = target.delete_many(chosen, missing=missing)
    if as_json:
        print_json({"keys": len(chosen), "deleted": deleted})
    else:
        note(f"deleted {deleted:,} of {counted(len(chosen), 'key', 'keys')}", quiet=quiet)


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

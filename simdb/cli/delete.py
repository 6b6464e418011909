"""The command that deletes items by their keys."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from simdb.cli.options import IntegerKeys, key_from
from simdb.cli.output import Telling, counted
from simdb.cli.stores import NamedCollection
from simdb.errors import UsageError
from simdb.files.texts import lines_of


def delete(
    *,
    stored: NamedCollection,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="The keys of stored items.")
    ] = None,
    keys_file: Annotated[
        str | None,
        typer.Option(
            "--keys", metavar="FILE", help="A file of keys, one per line; - for standard input."
        ),
    ] = None,
    missing: Annotated[
        Literal["error", "skip"],
        typer.Option("--missing", help="What to do with a key that is not stored."),
    ] = "error",
    integer_keys: IntegerKeys = False,
    telling: Telling,
) -> None:
    """Delete items by their keys.

    Keys are deleted in batches of 10,000. If a key is not stored, nothing of its batch is deleted
    and the command fails; --missing skip ignores such keys.

    Example: simdb delete corpus.simdb documents a17 a18
    """
    if not keys and keys_file is None:
        raise UsageError("give the keys to delete, or a file of keys with --keys")
    texts = [*(keys or ())]
    if keys_file is not None:
        texts += (line for _, line in lines_of(keys_file))
    chosen = [key_from(text, integer_keys=integer_keys) for text in texts]
    with stored.change(stored.name) as target:
        deleted = target.delete_many(chosen, missing=missing)
    told = {"keys": len(chosen), "deleted": deleted}
    text = f"deleted {deleted:,} of {counted(len(chosen), 'key', 'keys')}"
    telling.tell(told, text, lines=True)

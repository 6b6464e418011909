"""The command that removes a collection."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.output import Telling, counted
from simdb.cli.stores import NamedCollection
from simdb.errors import UsageError


def drop(
    *,
    stored: NamedCollection,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it; without this option nothing is removed.")
    ] = False,
    telling: Telling,
) -> None:
    """Remove a collection with everything in it.

    Later writes reuse its space in the file; 'simdb backup --compact' writes a smaller file.

    Example: simdb drop corpus.simdb drafts --yes
    """
    with stored.opened() as database:
        items = len(database[stored.name])
        if not yes:
            held = counted(items, "item", "items")
            raise UsageError(f"{stored.name!r} holds {held}: --yes removes it permanently")
        database.drop_collection(stored.name)
    telling.tell(
        {"dropped": stored.name, "items": items},
        f"removed {stored.name} with {counted(items, 'item', 'items')}",
    )

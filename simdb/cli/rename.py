"""The command that renames a collection."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.output import Telling
from simdb.cli.stores import NamedCollection


def rename(
    *,
    stored: NamedCollection,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    telling: Telling,
) -> None:
    """Rename a collection.

    Example: simdb rename corpus.simdb documents articles
    """
    with stored.opened() as database:
        database.rename_collection(stored.name, new)
    telling.tell({"renamed": stored.name, "to": new}, f"{stored.name} is now {new}")

"""The command that prints groups that a collection keeps: of a key, by id, or all."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.options import Bound, IntegerKeys
from simdb.cli.output import Telling, print_json_line, shown_key
from simdb.cli.stores import NamedCollection
from simdb.errors import UsageError


def group(
    *,
    stored: NamedCollection,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The group of the item with this key.")
    ] = None,
    identity: Annotated[
        int | None,
        typer.Option("--id", metavar="ID", help="The group with this id, or an alias of it."),
    ] = None,
    at: Bound,
    integer_keys: IntegerKeys = False,
    telling: Telling,
) -> None:
    """Print kept groups: of a key, with an id, or all of them.

    One group a line, separated by tabs: its id, which stays as long as one of its items does, its
    size, and its keys in order of insertion. All groups are those of two or more items. An item
    that is in no group is printed alone, with the id -. A collection keeps groups if it was made or
    rebuilt with --groups.

    Example: simdb group corpus.simdb documents a17
    """
    if key is not None and identity is not None:
        raise UsageError("give a key or --id, not both")
    with stored.viewed() as source:
        bound = at.of(source.kind)
        if identity is not None:
            found = iter([source.group(identity)])
        elif key is not None:
            found = iter([source.group_of(int(key) if integer_keys else key, **bound)])
        else:
            found = source.kept_groups(**bound)
        for one in found:
            if telling.as_json:
                print_json_line({"id": one.id, "keys": list(one.keys)})
            else:
                told = "-" if one.id is None else str(one.id)
                print("\t".join((told, str(len(one.keys)), *map(shown_key, one.keys))))

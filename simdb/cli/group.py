"""The command that prints groups that a collection keeps: of a key, by id, or all."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.options import Bound, IntegerKeys, key_from
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
        typer.Option("--id", metavar="ID", help="The group with this id or alias."),
    ] = None,
    at: Bound,
    integer_keys: IntegerKeys = False,
    telling: Telling,
) -> None:
    """Print the groups that a collection keeps: of a key, by id, or all.

    One group per line, separated by tabs: its id, which stays as long as one of its items does, its
    size, and its keys in order of insertion. Without KEY and --id, all groups of two or more items
    are printed. An item in no group is printed alone, with the id -. A collection keeps groups if
    it was created or rebuilt with --groups.

    Example: simdb group corpus.simdb documents a17
    """
    if key is not None and identity is not None:
        raise UsageError("give a key or --id, not both")
    with stored.view(stored.name) as source:
        bound = at.of(source.kind)
        if bound and identity is not None:
            raise UsageError("an id is of one threshold's groups: leave out the threshold")
        if identity is not None:
            found = iter([source.group(identity)])
        elif key is not None:
            found = iter([source.group_of(key_from(key, integer_keys=integer_keys), **bound)])
        else:
            found = source.kept_groups(**bound)
        for one in found:
            if telling.as_json:
                print_json_line({"id": one.id, "keys": list(one.keys)})
            else:
                told = "-" if one.id is None else str(one.id)
                print("\t".join((told, str(len(one.keys)), *map(shown_key, one.keys))))

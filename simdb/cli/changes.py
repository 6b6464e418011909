"""The command that prints what happened to the groups that a collection keeps."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import asdict

from simdb.cli.output import Telling, print_json_line, shown_key
from simdb.cli.stores import StoredCollection


def changes(
    *,
    stored: StoredCollection,
    since: Annotated[
        int, typer.Option("--since", metavar="N", min=0, help="Only changes after number N.")
    ] = 0,
    telling: Telling,
) -> None:
    """Print what happened to the kept groups, in order.

    One change per line, separated by tabs: its number, the threshold, what happened (created,
    joined, left, merged, split), the group, the other group (- if there is none), and keys.
    Replaying all changes gives the present groups.

    Example: simdb changes corpus.simdb documents --since 120
    """
    with stored.view(stored.name) as source:
        for change in source.changes(since):
            bound = float(change.bound)
            if telling.as_json:
                told = {**asdict(change), "bound": bound, "keys": list(change.keys)}
                print_json_line(told)
                continue
            other = "-" if change.other is None else str(change.other)
            named = (str(change.number), f"{bound:g}", change.action, str(change.group), other)
            print("\t".join((*named, *map(shown_key, change.keys))))

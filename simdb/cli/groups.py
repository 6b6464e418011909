"""The command that prints the groups of items that similar pairs connect."""

from __future__ import annotations

import sys

import typer

from simdb.cli.options import (
    AsJson,
    Bound,
    Budget,
    CollectionName,
    Question,
    Quiet,
    StorePath,
)
from simdb.cli.output import ProgressBar, counted, note, print_json_line, promise, shown_key
from simdb.cli.stores import opened_collection


def groups(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    bound: Bound,
    question: Question,
    budget: Budget = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the groups of items that similar pairs connect.

    One a line, separated by tabs: how many, the representative (the first inserted), the others.
    With --json one object a line: representative, keys.
    """
    with (
        opened_collection(context, store, collection, read_only=True) as source,
        ProgressBar(quiet=quiet) as bar,
    ):
        found = source.groups(
            budget=budget, progress=bar.callback, **question.asked(), **bound.of(source.kind)
        )
        of_distance = source.kind.is_distance
    for group in found:
        if as_json:
            print_json_line({"representative": group.representative, "keys": list(group.keys)})
        else:
            others = [key for key in group.keys if key != group.representative]
            shown = [shown_key(key) for key in (group.representative, *others)]
            print("\t".join((str(len(group)), *shown)))
    sys.stdout.flush()
    note(
        f"{counted(len(found), 'group', 'groups')} of "
        f"{sum(len(group) for group in found):,} items; "
        f"{promise(found.guarantee, found.expected_recall, of_distance=of_distance)}",
        quiet=quiet,
    )

"""The command that prints the groups of items that similar pairs connect."""

from __future__ import annotations

import sys

from simdb.cli.options import Budget, Question
from simdb.cli.output import Telling, counted, print_json_line, promise, shown_key
from simdb.cli.stores import StoredCollection


def groups(
    *,
    stored: StoredCollection,
    question: Question,
    budget: Budget = None,
    telling: Telling,
) -> None:
    """Print the groups of items that similar pairs connect.

    One a line, separated by tabs: how many, the representative (the first inserted), the others.
    With --json one object a line: representative, keys.
    """
    with stored.viewed() as source, telling.bar() as bar:
        kind = source.kind
        found = source.groups(budget=budget, progress=bar.callback, **question.of(kind))
    for group in found:
        if telling.as_json:
            print_json_line({"representative": group.representative, "keys": list(group.keys)})
        else:
            print("\t".join((str(len(group)), *map(shown_key, group.keys))))
    sys.stdout.flush()
    items = sum(len(group) for group in found)
    told = f"{counted(len(found), 'group', 'groups')} of {items:,} items"
    telling.note(f"{told}; {promise(found, kind)}")

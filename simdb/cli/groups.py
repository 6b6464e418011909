"""The command that prints the groups of items that similar pairs connect."""

from __future__ import annotations

import sys

from simdb.cli.options import Budget, Question
from simdb.cli.output import Answering, counted, print_json_line, promise, promised, shown_key
from simdb.cli.stores import StoredCollection


def groups(
    *,
    stored: StoredCollection,
    question: Question,
    budget: Budget = None,
    telling: Answering,
) -> None:
    """Print the groups of items that similar pairs connect.

    One a line, separated by tabs: how many, the representative (the first inserted), the others.
    With --json one object a line: representative, keys.
    """
    with stored.viewed() as source, telling.bar() as bar:
        kind = source.kind
        found = source.groups(budget=budget, progress=bar.callback, **question.of(kind))
    lines = ({"representative": one.representative, "keys": list(one.keys)} for one in found)
    rows = telling.write(lines, lambda: found.to_arrow().to_reader())
    if rows is None:
        for group, line in zip(found, lines, strict=True):
            if telling.as_json:
                print_json_line(line)
            else:
                print("\t".join((str(len(group)), *map(shown_key, group.keys))))
        sys.stdout.flush()
    items = sum(len(group) for group in found)
    told = f"{counted(len(found), 'group', 'groups')} of {items:,} items"
    telling.told(rows or 0, f"{told}; {promise(found, kind)}", **promised(found))

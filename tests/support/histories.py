"""How rows came into a collection, where the answers must not depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import simdb


def added_in_two_parts(collection: simdb.Collection, items: Sequence[Any]) -> dict[int, Any]:
    """Add items by their places, the last quarter by itself, and delete three; return the others.

    So there are several runs, and deletions in the first and in the last of them.
    """
    rows = dict(enumerate(items))
    first = len(rows) * 3 // 4
    collection.add_many(list(rows.items())[:first])
    collection.add_many(list(rows.items())[first:])
    for key in (3, first - 3, len(rows) - 1):
        collection.delete(key)
        del rows[key]
    return rows

"""The command that merges the index of a store and drops deleted data."""

from __future__ import annotations

from simdb.cli.failures import told_when_interrupted
from simdb.cli.output import Working, print_fields, print_json
from simdb.cli.stores import StoreOrCollection


def compact(
    *,
    compacted: StoreOrCollection,
    telling: Working,
) -> None:
    """Merge the indexes and drop deleted data, in place.

    Example: simdb compact corpus.simdb
    """
    with (
        compacted.chosen(read_only=False) as target,
        told_when_interrupted(lambda: "the store is intact; repeat the command to continue"),
        telling.bar() as bar,
    ):
        report = target.compact(progress=bar.callback)
    if telling.as_json:
        print_json(report)
    elif report:
        print_fields(report)
    else:
        telling.note("the store has no collections")

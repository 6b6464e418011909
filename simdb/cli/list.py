"""The command that lists the collections of a store."""

from __future__ import annotations

from simdb.cli.output import AsJson, print_json
from simdb.cli.stores import Store
from simdb.files.writing import printable


def list_(*, store: Store, as_json: AsJson = False) -> None:
    """Print the names of the collections of a store, one per line.

    'simdb stats' prints what each contains.

    Example: simdb list corpus.simdb
    """
    with store.opened(read_only=True) as database:
        names = sorted(database)
    if as_json:
        print_json({"collections": names})
        return
    for name in names:
        print(printable(name))

"""The command that prints what a collection is made by."""

from __future__ import annotations

import json

from simdb.cli.output import AsJson, print_json
from simdb.cli.stores import StoredCollection


def recipe(*, stored: StoredCollection, as_json: AsJson = False) -> None:
    """Print what a collection is made by, as JSON: kind, settings, bound and secret.

    simdb create --recipe makes the same collection of other items, and simdb.steps signs by it
    without a store. Whoever has it can make items that share all hashes of another one: keep it
    as the store itself.
    """
    with stored.viewed() as source:
        text = source.recipe().to_json()
    if as_json:
        print_json(json.loads(text))
    else:
        print(text)

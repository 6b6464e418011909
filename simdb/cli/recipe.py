"""The command that prints the recipe of a collection."""

from __future__ import annotations

import json

from simdb.cli.output import AsJson, print_json
from simdb.cli.stores import StoredCollection


def recipe(*, stored: StoredCollection, as_json: AsJson = False) -> None:
    """Print kind, settings, threshold and secret, as JSON.

    'simdb create --recipe' makes a collection with the same settings, and simdb.steps makes the
    same signatures without a store. Keep a recipe as safe as the store: whoever has it can make
    items that share all hashes of another.

    Example: simdb recipe corpus.simdb documents
    """
    with stored.view(stored.name) as source:
        text = source.recipe().to_json()
    if as_json:
        print_json(json.loads(text))
    else:
        print(text)

"""The command that prints what a store contains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simdb.cli.output import AsJson, print_fields, print_json, print_table
from simdb.cli.stores import StoreOrCollection
from simdb.files.writing import printable

_COLUMNS = ("collection", "kind", "similar", "items ", "bytes of items ", "of indexes ")


def stats(
    *,
    described: StoreOrCollection,
    as_json: AsJson = False,
) -> None:
    """Print what a store contains and how much space it takes.

    For a store, one line per collection: its kind, what counts as similar, and its size. For one
    collection, or with --json, all settings and all counts of the indexes.

    Example: simdb stats corpus.simdb
    """
    with described.chosen(read_only=True) as source:
        found = source.stats()
    if as_json:
        print_json(found)
        return
    fields = dict(found)
    collections = fields.pop("collections", ())
    if collections:
        print_table(_COLUMNS, map(_briefly, collections))
    print_fields(fields)


def _briefly(collection: Mapping[str, Any]) -> list[str]:
    name = printable(collection["name"])
    if "problem" in collection:
        return [name, printable(collection["problem"]), "", "", "", ""]
    settings, exact = collection["settings"], collection["exact_index"] or {}
    index = collection["index"]
    of_indexes = (index["bucket_bytes"], index["signature_bytes"], exact.get("postings_bytes", 0))
    numbers = (collection["items"], collection["item_bytes"], sum(of_indexes))
    return [name, settings["kind"], _bound(settings), *(f"{number:,}" for number in numbers)]


def _bound(settings: Mapping[str, Any]) -> str:
    if settings.get("max_distance") is not None:
        return f"up to {settings['max_distance']:g}"
    threshold = settings.get("threshold")
    return "all compared" if threshold is None else f"from {threshold:g}"

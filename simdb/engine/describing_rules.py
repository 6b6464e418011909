"""What the rules of a collection of records make candidates of, as plain values."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from simdb import config
from simdb.engine.catalogue import CollectionSettings
from simdb.lsh.records import RecordFamily, large_bucket_warnings, rule_costs
from simdb.storage.collection_reader import CollectionReader


def describe_rules(settings: CollectionSettings, collection: CollectionReader) -> dict[str, Any]:
    """Return what each rule for records makes candidates of, and warnings; nothing of other kinds.

    The keys of one rule are held at a time, 8 bytes a record.
    """
    kind, family = settings.kind, settings.family()
    if not isinstance(kind, config.Record) or not isinstance(family, RecordFamily):
        return {}
    costs = []
    for number, rule in enumerate(kind.rules):
        keys = [np.empty((0, 1), np.uint64)]
        for block in collection.signatures.scan():
            alive = collection.alive(block.numbers)
            keys.append(family.keys(block.as_rows(np.uint16)[alive])[:, [number]])
        costs += rule_costs(replace(kind, candidates=[rule]), np.concatenate(keys))
    return {
        "rules": [asdict(cost) for cost in costs],
        "warnings": large_bucket_warnings(kind, costs),
    }

"""What the candidates of records and of fingerprints come from, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb import config
from simdb.lsh.fingerprints import SquaresFamily
from simdb.lsh.records import RecordFamily, large_bucket_warnings, rule_costs
from simdb.opened.catalogue import CollectionSettings
from simdb.storage.collection.reader import CollectionReader

MOST_PRINTS = 16_384  # looked at
UNFINDABLE_SHARE = 0.02  # of all prints, above which it is a warning


def describe_rules(settings: CollectionSettings, collection: CollectionReader) -> dict[str, Any]:
    """Return what proposes the candidates of records or fingerprints; nothing of other kinds.

    Of records, what each rule makes candidates of; of fingerprints, how many are in no bucket; of
    both, warnings.
    """
    family = settings.family()
    if isinstance(family, RecordFamily) and isinstance(settings.kind, config.Record):
        return _of_records(settings.kind, family, collection)
    if isinstance(family, SquaresFamily) and settings.is_probable:
        return _of_prints(family, collection)
    return {}


def _of_records(
    kind: config.Record, family: RecordFamily, collection: CollectionReader
) -> dict[str, Any]:
    """Describe rules; the keys of one are held at a time, 8 bytes a record."""
    costs = []
    for number, rule in enumerate(kind.rules):
        keys = [np.empty((0, 1), np.uint64)]
        keys += [family.keys(rows)[:, [number]] for rows in _live_signatures(collection)]
        costs += rule_costs(replace(kind, candidates=[rule]), np.concatenate(keys))
    return {
        "rules": [asdict(cost) for cost in costs],
        "warnings": large_bucket_warnings(kind, costs),
    }


def _of_prints(family: SquaresFamily, collection: CollectionReader) -> dict[str, Any]:
    """Count the prints to which, in some group, no function says yes: they are in no pair.

    Exact up to ``MOST_PRINTS``, an estimate by every so many-th print beyond.
    """
    live = collection.state.live
    step = max(1, -(-live // MOST_PRINTS))
    lost = step * sum(
        int(np.count_nonzero(family.first_shared(rows[::step], rows[::step]) < 0))
        for rows in _live_signatures(collection)
    )
    warnings = []
    if lost > UNFINDABLE_SHARE * live:
        warnings.append(
            f"{'about ' * (step > 1)}{lost:,} of {live:,} prints are in no bucket: the probable "
            "index finds neither them nor what is like them; more functions, larger squares or "
            "fewer squares a function put them into some"
        )
    return {"in_no_bucket": lost, "warnings": warnings}


def _live_signatures(collection: CollectionReader) -> Iterator[npt.NDArray[np.uint16]]:
    for block in collection.signatures.scan():
        yield block.as_rows(np.uint16)[collection.alive(block.numbers)]

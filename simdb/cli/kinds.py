"""Kinds of items on the command line: their names, how they are compared, how items are shown."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from simdb.files import PLURALS, KindOfRows
from simdb.kinds import Bag, Bits, Fingerprint, Kind, Record, Set, Text, Vector

KINDS: dict[KindOfRows, type[Kind]] = {
    "text": Text,
    "set": Set,
    "bag": Bag,
    "bits": Bits,
    "vector": Vector,
    "fingerprint": Fingerprint,
    "record": Record,
}


def name_of(kind: Kind) -> KindOfRows:
    """Return what the command line calls a kind."""
    return next(name for name, known in KINDS.items() if isinstance(kind, known))


def plural_of(kind: Kind) -> str:
    """Return what the command line calls several items of a kind."""
    return PLURALS[name_of(kind)]


def measures_distance(kind: Kind) -> bool:
    """Whether items of a kind are compared by a distance, not by a similarity."""
    return isinstance(kind, Vector) or (isinstance(kind, Bits) and kind.measure == "hamming")


def has_exact_index(kind: Kind) -> bool:
    """Whether items of a kind are sets of symbols, which an exact index may hold."""
    if isinstance(kind, Bits):
        return kind.measure == "tanimoto"
    return isinstance(kind, Text | Set | Bag)


def plain_item(item: object) -> object:
    """Return an item as JSON can hold it, in a form that ``add`` reads back.

    Sets and bags are sorted lists, bit vectors texts of 0 and 1, vectors and minutiae lists; dates
    in records are texts.
    """
    if isinstance(item, Counter):
        return sorted(item.elements())
    if isinstance(item, frozenset):
        return sorted(item)
    if isinstance(item, np.ndarray):
        return _bits(item) if item.dtype == np.uint8 else item.tolist()
    if isinstance(item, tuple):
        return [list(minutia) for minutia in item]
    if isinstance(item, Mapping):
        return plain_record(item)
    return item


def _bits(item: np.ndarray[Any, Any]) -> str:
    return "".join(map(str, item.tolist()))


def plain_record(item: Mapping[str, object]) -> dict[str, object]:
    """Return a record as JSON can hold it."""
    return {
        name: value.isoformat() if isinstance(value, datetime.date) else value
        for name, value in item.items()
    }


def shown_item(item: object) -> str:
    """Return an item as text for people."""
    if isinstance(item, Counter):
        counted = sorted(item.items())
        return " ".join(
            f"{element} x{count}" if count > 1 else f"{element}" for element, count in counted
        )
    if isinstance(item, frozenset):
        return " ".join(map(str, sorted(item)))
    if isinstance(item, np.ndarray):
        return _bits(item) if item.dtype == np.uint8 else " ".join(f"{x:g}" for x in item.tolist())
    if isinstance(item, tuple):
        return " ".join(f"({', '.join(f'{x:g}' for x in minutia)})" for minutia in item)
    if isinstance(item, Mapping):
        return "; ".join(f"{name}: {value}" for name, value in item.items())
    return str(item)

"""Which items a question is about, by their metadata: ``where=`` of the public calls.

Metadata are decoded of items that are within the bound only, each once in an answer, and equal ones
once among those that are looked at together. An answer is cut to its limit afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from simdb.arguments import short
from simdb.arrays import Bools, Int64s, UInt32s
from simdb.arrow import plain
from simdb.errors import ConfigurationError, WrongTypeError
from simdb.metadata import accepting
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.tables import layout

# Values by name, all of which metadata must have, a set standing for any of its values; or a
# function of metadata, None where an item has none.
Where: TypeAlias = Mapping[str, Any] | Callable[[Mapping[str, Any] | None], object]

Accepts: TypeAlias = Callable[[Mapping[str, Any] | None], object]

AT_ONCE = 64  # matches whose metadata are read together, at first

_REFUSED, _ACCEPTED = 1, 2


def read_where(where: Where) -> Accepts:
    """Return a filter as a function; WrongTypeError, ConfigurationError: it is none."""
    if callable(where):
        return where
    if not isinstance(where, Mapping):
        raise WrongTypeError(
            "where must be a mapping of names to values, or a function of metadata, not "
            f"{type(where).__name__}"
        )
    for name in where:
        if not isinstance(name, str):
            raise ConfigurationError(f"the names in where must be texts, not {short(name)}")
    try:
        wanted = {
            name: [*map(plain, value if isinstance(value, set | frozenset) else [value])]
            for name, value in where.items()
        }
    except RecursionError:
        raise ConfigurationError("where is nested too deeply, or contains itself") from None
    return accepting(wanted)


class Chosen:
    """The items of a collection that a filter accepts, found as they are asked for."""

    def __init__(self, accepts: Accepts, reader: CollectionReader) -> None:
        self._accepts = accepts
        self._reader = reader
        # A byte for each item number; the system gives pages as they are written.
        self._known = np.zeros(reader.manifest.next_number, np.uint8)

    def among(self, numbers: UInt32s) -> Bools:
        """Return which of some stored items are accepted."""
        unknown = np.unique(numbers[self._known[numbers] == 0])
        if unknown.size:
            positions, metadata = self._reader.metadata_of(unknown)
            told: dict[bytes, int] = {}
            for encoded in metadata:
                if encoded not in told:
                    value = layout.unpack(encoded) if encoded else None
                    told[encoded] = _ACCEPTED if self._accepts(value) else _REFUSED
            self._known[unknown[positions]] = [told[encoded] for encoded in metadata]
        accepted: Bools = self._known[numbers] == _ACCEPTED
        return accepted

    def first(self, numbers: UInt32s, limit: int | None) -> Int64s:
        """Return the places of the first so many that are accepted, ascending."""
        found = [np.empty(0, np.int64)]
        begin, count = 0, 0
        at_once = numbers.size if limit is None else max(limit, AT_ONCE)
        while begin < numbers.size and (limit is None or count < limit):
            found.append(begin + np.flatnonzero(self.among(numbers[begin : begin + at_once])))
            count += found[-1].size
            begin, at_once = begin + at_once, 2 * at_once
        return np.concatenate(found)[:limit]

"""Values of metadata, compared as JSON has them: what a filter asks for, and what an item has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def has_all(metadata: Mapping[str, Any] | None, wanted: Mapping[str, Collection[Any]]) -> bool:
    """Whether metadata have, under each name, one of some values; what is missing is None."""
    known = metadata or {}
    for name, values in wanted.items():
        held = known.get(name)
        # What is not equal in Python is not in JSON either, and that is quick to see.
        if held not in values or not any(are_equal(held, value) for value in values):
            return False
    return True


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON: true is not 1, as it is in Python, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[name], other[name]) for name in one)
    return bool(one == other)

"""Values of metadata as JSON has them: compared by a filter with what an item has, and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Mapping
from math import isfinite
from typing import Any

_OF_OTHER_KINDS = bool, list, dict  # which are equal in Python where they are not in JSON


def accepting(
    wanted: Mapping[str, Collection[Any]],
) -> Callable[[Mapping[str, Any] | None], bool]:
    """Return a function of metadata: whether they have, under each name, one of some values.

    What is missing is None. Of many values under a name, one is found at the cost of one.
    """
    names = [(name, *_divided(values)) for name, values in wanted.items()]

    def accepts(metadata: Mapping[str, Any] | None) -> bool:
        known = metadata or {}
        for name, plain, others in names:
            held = known.get(name)
            if not isinstance(held, _OF_OTHER_KINDS) and held in plain:
                continue
            if not others or not any(are_equal(held, value) for value in others):
                return False
        return True

    return accepts


def _divided(values: Collection[Any]) -> tuple[frozenset[Any], list[Any]]:
    """Return the values that are equal in JSON if they are in Python, and the others."""
    plain = {one for one in values if isinstance(one, Hashable) and not isinstance(one, bool)}
    others = [one for one in values if not isinstance(one, Hashable) or isinstance(one, bool)]
    return frozenset(plain), others


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON: true is not 1, as it is in Python, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[name], other[name]) for name in one)
    return bool(one == other)


def json_text(metadata: Any) -> str:
    """Return metadata as JSON, in which ``expressible`` values stand for the others."""
    try:
        return json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(expressible(metadata))


def expressible(value: Any) -> Any:
    """Return a value with text for what JSON cannot express: NaN, infinities, bytes as hexadecimal.

    Earlier versions took such metadata, and they are read as they were stored.
    """
    if isinstance(value, Mapping):
        return {name: expressible(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [expressible(part) for part in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value

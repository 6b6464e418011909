"""Rows that are compared as they are: sets that only rows with the same values have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, TypeAlias

WholeRows: TypeAlias = Literal["as given", "as texts"]


def whole_row(row: Mapping[str, Any], names: Sequence[str], form: WholeRows) -> list[str]:
    """Return a row as a set; two are equal, and so similar by 1, if all their values are.

    A value that is missing is one that is null: two rows may lack the same.

    Args:
        row: its values, as JSON has them, or dates or bytes.
        names: of the columns.
        form: ``"as given"``; or ``"as texts"``, for two tables of which only one may have types:
            numbers are the texts that write them, and empty texts are missing.
    """
    read = _as_text if form == "as texts" else _as_given
    return [json.dumps({name: read(row.get(name))}, sort_keys=True) for name in names]


def _as_text(value: Any) -> Any:
    value = _as_given(value)
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, sort_keys=True)


def _as_given(value: Any) -> Any:
    """Return a value as JSON that tells it from all others; 1 and 1.0 are one number."""
    if isinstance(value, Mapping):
        return {str(name): _as_given(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_as_given, value))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | None) else [repr(value)]

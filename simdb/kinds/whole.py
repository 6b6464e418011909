"""Rows that are compared as they are: sets that only rows with the same values have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from simdb.arguments import short

Form: TypeAlias = Literal["as given", "as texts", "as numbers"]
WholeRows: TypeAlias = Mapping[str, Form]

NAMES_TOLD = 6  # of columns, in a message

_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,99})\.[0-9]{1,999}")  # 01.0 is a code
_WITH_EXPONENT = re.compile(r"-?[0-9](?:\.[0-9]+)?e[+-][0-9]{2,3}")  # as Python writes floats

_MIDNIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]00:00(?::00(?:\.0+)?)?")


def whole_rows(names: Iterable[str], *sides: Iterable[Mapping[str, Any]]) -> WholeRows:
    """Return the forms in which the columns of one table, or of two, are compared.

    Args:
        names: of the columns.
        sides: rows of each table, all or a sample.
    """
    if len(sides) == 1:
        return dict.fromkeys(names, "as given")
    forms: dict[str, Form] = dict.fromkeys(names, "as texts")
    for side in map(list, sides):
        for name in forms:
            present = (row.get(name) for row in side)
            types = {type(value) for value in present if value is not None}
            if types and types <= {int, float}:
                forms[name] = "as numbers"
    return forms


def told_of_whole_rows(which: str, names: Sequence[str], left_out: Collection[str]) -> str:
    """Say which rows count as the same.

    Args:
        which: columns must be equal, in words; all that there are if empty.
        names: of these columns.
        left_out: columns of which was told that no field is made of them; they count, too.
    """
    few = ", ".join(map(short, names[:NAMES_TOLD]))
    more = f" and {len(names) - NAMES_TOLD:,} more" if len(names) > NAMES_TOLD else ""
    told = f" {which} ({few}{more})" if which else ""
    told += ", left out or not," if any(name in left_out for name in names) else ""
    return f"only rows that are equal in all columns{told} count as the same"


def whole_row(row: Mapping[str, Any], forms: WholeRows) -> list[str]:
    """Return a row as a set; two are equal, and so similar by 1, if all their values are.

    A value that is missing is one that is null: two rows may lack the same.

    Args:
        row: its values, as JSON has them, or dates or bytes.
        forms: of each column, ``"as given"``; or, for two tables of which only one may have types,
            ``"as texts"``: numbers are the texts that write them, times of midnight their dates,
            and empty texts are missing; or ``"as numbers"`` where one table has numbers alone:
            decimal fractions in texts, and numbers such as 1e+22, are the numbers that they write.
    """
    return [
        json.dumps({name: _READ[form](row.get(name))}, sort_keys=True)
        for name, form in forms.items()
    ]


def _as_number(value: Any) -> Any:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        whole, fraction = value.split(".")
        number: float | int = float(value) if fraction.strip("0") else int(whole)
        if Decimal(repr(number)) == Decimal(value):  # of more digits than a float has, it is a text
            value = number
    elif isinstance(value, str) and _WITH_EXPONENT.fullmatch(value):
        value = float(value) if repr(float(value)) == value else value
    return _as_text(value)


def _as_text(value: Any) -> Any:
    value = _as_given(value)
    if value is None or isinstance(value, str):
        day = _MIDNIGHT.fullmatch(value or "")
        return day[1] if day else value or None
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


_READ: dict[Form, Callable[[Any], Any]] = {
    "as given": _as_given,
    "as texts": _as_text,
    "as numbers": _as_number,
}

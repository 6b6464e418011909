"""Values of fields: what they may be, and what is compared of them."""

from __future__ import annotations

import datetime
import math
import re
import reprlib
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from simdb.errors import BadItemError, ConfigurationError
from simdb.exact.thresholds import exact_fraction
from simdb.kinds.base import shown, utf8

if TYPE_CHECKING:
    from simdb.kinds.records import Field

Value: TypeAlias = str | int | float | datetime.date
Transform: TypeAlias = Callable[[str], str]

MAXIMUM_VALUE_BYTES = 65_535
_INTEGERS = range(-(2**63), 2**63)
_SEPARATORS = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")
_DATE = re.compile(r"\s*(\d{4})(-?)(\d{2})\2(\d{2})\s*", re.ASCII)


# -- transformations -----------------------------------------------------------------------------


def _unaccented(text: str) -> str:
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    return "".join(part for part in parts if not unicodedata.combining(part))


TRANSFORMATIONS: dict[str, Transform] = {
    "lowercase": str.lower,
    "unaccented": _unaccented,
    "collapse": lambda text: " ".join(text.split()),
    "alphanumeric": lambda text: _SEPARATORS.sub(" ", text).strip(),
    "digits": lambda text: "".join(_DIGITS.findall(text)),
    "letters": lambda text: "".join(filter(str.isalpha, text)),
    "sorted-words": lambda text: " ".join(sorted(text.split())),
    "first-word": lambda text: "".join(text.split()[:1]),
    "last-word": lambda text: "".join(text.split()[-1:]),
    "initials": lambda text: "".join(word[0] for word in text.split()),
}
COUNTED = re.compile(r"(first|last):0*[1-9][0-9]{0,7}")  # of characters


def transformation(name: str) -> Transform:
    """Return what one of the ``TRANSFORMATIONS``, or ``first:4``, does to a text."""
    stem, _, count = name.partition(":")
    if stem == "first":
        return lambda text: text[: int(count)]
    if stem == "last":
        return lambda text: text[-int(count) :]
    return TRANSFORMATIONS[name]


def chained(transforms: Sequence[Transform]) -> Transform:
    """Return one function that applies transformations in their order."""
    if tuple(transforms) == (TRANSFORMATIONS["lowercase"], TRANSFORMATIONS["collapse"]):
        return lambda text: " ".join(text.lower().split())  # the usual one, in one call
    if len(transforms) == 1:
        return transforms[0]

    def apply(text: str) -> str:
        for transform in transforms:
            text = transform(text)
        return text

    return apply


class Equivalents:
    """Replace every word, or whole value, of a group by the first of the group (MMDS 3.8.2).

    What is longer is replaced first; nothing is replaced inside a word.
    """

    def __init__(self, field: Field, prepare: Transform) -> None:
        self._first: dict[str, str] = {}
        for group in field.equivalents:
            prepared = [prepare(value) for value in group]
            for given, value in zip(group, prepared, strict=True):
                if not value:
                    raise ConfigurationError(
                        f"field {field.name!r}: of the equivalent {given!r} the preparation "
                        "leaves nothing"
                    )
                if self._first.setdefault(value, prepared[0]) != prepared[0]:
                    raise ConfigurationError(
                        f"field {field.name!r}: {given!r} is in two groups of equivalents"
                    )
        longest_first = sorted(self._first, key=lambda value: (-len(value), value))
        choices = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(rf"(?<!\w)(?:{choices})(?!\w)")

    def replaced(self, text: str) -> str:
        """Return the text in which words of one group are the same word."""
        return self._pattern.sub(lambda found: self._first[found[0]], text)


# -- what is taken as a value; what is not raises BadItemError -----------------------------------


def plain_value(name: str, value: object) -> Value | None:
    """Return a value as Python's own string, integer, float or date; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        if value not in _INTEGERS:
            raise BadItemError(
                f"the field {name!r} is {reprlib.repr(value)}, beyond 64 bits; give a string"
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadItemError(
                f"the field {name!r} is {value}, which is no number; a missing value is None"
            )
        return float(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    raise BadItemError(
        f"the field {name!r} must be a string, a number, a date or None, not {shown(value)}"
    )


def text_size(name: str, text: str) -> int:
    """Return the bytes of a string in UTF-8, at most ``MAXIMUM_VALUE_BYTES``."""
    size = len(text) if text.isascii() else len(utf8(text, f"the field {name!r}"))
    if size > MAXIMUM_VALUE_BYTES:
        raise BadItemError(
            f"the field {name!r} has {size:,} bytes in UTF-8, more than the "
            f"{MAXIMUM_VALUE_BYTES:,} of a field; long texts belong into a collection of texts"
        )
    return size


def read_text(name: str, value: Value) -> str:
    """Return a value as the text that is compared, before its preparation."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise BadItemError(
        f"the field {name!r} is compared as a text: it must be a string or an integer, not "
        f"{type(value).__name__} {value!r}"
    )


def read_number(name: str, value: Value) -> Fraction | None:
    """Return a value, or what a string says, as the number that is written; None for no text.

    A float stands for the decimal number that it prints as: 0.1 is 1/10.
    """
    if isinstance(value, str) and not value.strip():
        return None
    # Python reads "1_000" and digits of other scripts too; in a table they are no numbers.
    is_plain = not isinstance(value, str) or (value.isascii() and "_" not in value)
    if is_plain and not isinstance(value, datetime.date):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            with suppress(ValueError, ArithmeticError):  # of hundreds of digits the first 17 count
                return exact_fraction(value.strip() if isinstance(value, str) else value)
            return Fraction(number)
    raise BadItemError(
        f"the field {name!r} is compared as a number, which {reprlib.repr(value)} is not"
    )


def read_day(name: str, value: Value) -> Fraction | None:
    """Return the day from 0001-01-01 of a date, 2001-12-31 or 20011231; None for no text."""
    if isinstance(value, datetime.date):
        return Fraction(value.toordinal())
    if isinstance(value, str) and not value.strip():
        return None
    found = None if isinstance(value, float) else _DATE.fullmatch(str(value))
    if found is None:
        raise BadItemError(
            f"the field {name!r} is compared as a date, which {reprlib.repr(value)} is not; "
            "write 2001-12-31 or 20011231"
        )
    try:
        return Fraction(datetime.date(int(found[1]), int(found[3]), int(found[4])).toordinal())
    except ValueError as error:
        raise BadItemError(
            f"the field {name!r} is {reprlib.repr(value)}, which is no date of the calendar: "
            f"{error}"
        ) from None

"""Policies: which row of several like ones is kept? The one that comes first in an order.

A policy is a text of terms, the first of which that tells two rows apart decides:

- ``longest``, ``shortest``: by the length of the item: characters, elements, components; of a
  record that of its texts, of a bag or a weighted set the sum.
- ``NAME desc``, ``NAME asc``: the greatest or the least value of a field first. A field is one of
  the metadata, or else of the item, where that is a record; ``a.b`` is the field b of the field a;
  where there is no such field, ``key`` and ``item`` are these themselves.
  ``number(NAME)`` reads texts as numbers, ``time(NAME)`` texts in ISO's form as points in time, of
  a day, or as durations; ``length(NAME)`` is how long a value is. Other texts, so those of
  categories, are in the order of their characters.
- ``NAME in VALUE|VALUE``: rows of these values, in this order, come before all others, which are
  alike with and without the field.
- ``first``: what was stored, or came, first; no term can follow it.

Terms are separated by commas; names and values that are not made of letters, digits and any of
``_-.:/@`` stand in double quotes, as JSON has them. Nothing of a policy is run as Python. Or a
policy is a function of an ``Entry``: the row for which it returns the greatest value is kept.

Rows without a field come after all that have it, in either direction; so do those with a blank text
where a number or a time is read. What was stored before comes before a row that is as good.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from simdb.errors import BadItemError, ConfigurationError, UsageError, WrongTypeError
from simdb.results import Entry

PolicyLike: TypeAlias = "str | Callable[[Entry], Any] | Policy"
Place: TypeAlias = tuple[Any, ...]  # where a row stands in the order; the least is kept
Function: TypeAlias = Literal["number", "time", "length"]

OF_ROWS = ("key", "item")  # fields that rows have where there are no others so called

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[\w\-.:/@]+)|(?P<sign>[(),|]))"""
)
_HELP = (
    "a policy is terms such as longest, 'date desc', 'number(price) asc', 'source in wiki|news', "
    "with commas between them"
)
_MISSING = (1,)  # after (0, value)
_PARTS = tuple(rf"(?:([+-]?\d+(?:[.,]\d+)?){name})?" for name in "YMWDHMS")
_DURATION = re.compile(
    rf"([+-]?)P(?=.*\d){''.join(_PARTS[:4])}(?:T(?=.*\d){''.join(_PARTS[4:])})?", re.ASCII
)
# Of years, months, weeks, days, hours, minutes and seconds.
_PARTS_OF_DURATION = (360 * 86_400, 30 * 86_400, 7 * 86_400, 86_400, 3_600, 60, 1)
# A day, whose year may be any, an hour with minutes and seconds, a fraction of these, and a zone.
_TIME = re.compile(
    r"(?:([+-]?\d{4,})-(\d\d)-(\d\d)(?:[T ](?=\d)|(?=$|[Z+-])))?"
    r"(?:(\d\d)(?::(\d\d)(?::(\d\d)([.,]\d+)?)?)?)?"
    r"(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d)(?::?([0-5]\d(?:\.\d+)?))?)?)?",
    re.ASCII,
)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00+00:00")
_LONGEST_TIME = 100  # characters
# What terms raise of a value. Anything else comes from the handler of a signal, as a time-out.
_OF_TERMS = (ArithmeticError, TypeError, ValueError)


class _Term(Struct, frozen=True):
    """One term: what it looks at, and which values come first."""

    field: str | None  # None means the item itself
    function: Function | None = None
    descending: bool = False
    preferred: tuple[str, ...] | None = None
    part: str = ""  # "key" or "item", which the field is where a row has no other so called

    def value(self, row: Entry) -> Any:
        """Return what it looks at, None where there is none."""
        return row.item if self.field is None else _value(row, self.field, self.part)

    def place(self, row: Entry) -> Place:
        value = self.value(row)
        if self.preferred is not None:
            names = _names_of(value)
            chosen = (place for place, name in enumerate(self.preferred) if name in names)
            return (next(chosen, len(self.preferred)),)
        if value is None or self._is_blank(value):
            return _MISSING
        value = self._computed(value)
        if isinstance(value, str):
            return (0, _Falling(value) if self.descending else value)
        if _is_nan(value):
            return _MISSING
        if isinstance(value, Decimal):  # which minus would round
            return (0, value.copy_negate() if self.descending else value)
        return (0, -value if self.descending else value)

    def _is_blank(self, value: Any) -> bool:
        """Whether a text is of nothing, as in CSV a number or a time is that is not there."""
        reads = self.function in ("number", "time")
        return reads and isinstance(value, str) and (not value or value.isspace())

    def _computed(self, value: Any) -> Any:
        if self.function == "length":
            return _length(value)
        if self.function == "number":
            try:
                return _number(value)
            except (InvalidOperation, TypeError):
                raise ValueError(f"{value!r} is not a number") from None
        if self.function == "time":
            return _time(value)
        if not isinstance(value, str | int | float):
            raise TypeError(f"{_shown(value)[:60]} is neither a number nor a text")
        return value


def _number(value: Any) -> int | Decimal:
    """Return the number that a value, or a text, is, with all its digits."""
    if isinstance(value, float):
        return Decimal(repr(value))  # the number that is written, as a text of it is
    if not isinstance(value, str):
        whole: int = value + 0
        return whole
    if not value.isascii() or "_" in value:  # which Python reads; fields of records do not
        raise ValueError(f"{value!r} is not a number")
    try:
        return int(value)
    except ValueError:
        return Decimal(value)


def _time(text: Any) -> int | Fraction:
    """Return a point in time as seconds since 1970, a clock's or a duration in seconds.

    A month of a duration counts as 30 days and a year as twelve of these, as where databases
    compare intervals.
    """
    if isinstance(text, str) and 0 < len(text := text.strip()) <= _LONGEST_TIME:
        if (found := _DURATION.fullmatch(text)) is not None:
            sign, *parts = found.groups(default="0")
            given = zip(parts, _PARTS_OF_DURATION, strict=True)
            seconds: int | Fraction = sum(_decimal(part) * each for part, each in given)
            return -seconds if sign == "-" else seconds
        if (found := _TIME.fullmatch(text)) is not None and (found[1] or (found[4] and found[5])):
            with contextlib.suppress(ValueError):
                return _point(found)
        with contextlib.suppress(ValueError):  # weeks, and what has no hyphens
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return _decimal(f"{(moment - _EPOCH) // timedelta(microseconds=1)}e-6")
    raise ValueError(f"{_shown(text)[:60]!r} is not a time")


def _decimal(text: str) -> int | Fraction:
    """Return a decimal number, with all its digits; a whole one as an int, which is quicker."""
    number = int(text) if text.lstrip("+-").isdigit() else Fraction(text.replace(",", "."))
    return number.numerator if number.denominator == 1 else number


def _point(found: re.Match[str]) -> int | Fraction:
    """Return what ``_TIME`` has found in seconds; ValueError: there is no such day or hour."""
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    sign, *zone = found.groups(default="0")[7:]
    days = 0
    if found[1]:
        # Any year is like one of the first 400 that datetime has, and the calendar repeats then.
        eras, within = divmod(year - 1, 400)
        days = eras * 146_097 + date(within + 1, month, day).toordinal() - _EPOCH.toordinal()
    fraction = _decimal(found[7] or "0")
    is_end = hour == 24 and not (minute or second or fraction)
    if (hour > 23 and not is_end) or minute > 59 or second > 59:
        raise ValueError("there is no such hour")
    east = int(zone[0]) * 3_600 + int(zone[1]) * 60 + _decimal(zone[2])
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
    return seconds + fraction - (-east if sign == "-" else east)


class _Record(dict[str, Any]):
    """A record, which alone has fields: the numbers of others are counts or weights."""


def _length(value: Any) -> Any:
    """Return how long a value is: of a record its texts, of a bag or a weighted set the sum."""
    if isinstance(value, _Record):
        return sum(len(part) for part in value.values() if isinstance(part, str))
    if isinstance(value, Mapping):
        texts = [len(part) for part in value.values() if isinstance(part, str)]
        numbers = [part for part in value.values() if isinstance(part, int | float)]
        return sum(texts) if texts else sum(numbers)
    if not hasattr(value, "__len__"):
        raise ValueError(f"{_shown(value)} has no length")
    return len(value)


class _Falling(str):
    """A text that comes before those that are less."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _is_nan(value: Any) -> bool:
    """Whether a value is one of those that are no number, though their types are of numbers."""
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, Real) and not isinstance(value, Rational) and math.isnan(value)


class _Greatest:
    """What a function returned: the greatest comes first."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Greatest) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Greatest) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


class Policy:
    """An order of rows, the first of which are kept.

    Attributes:
        fields: the names of the fields that it looks at; None if it is a function, which may look
            at any.
        last: the place of a row for which all terms fail, behind all others.
    """

    def __init__(self, given: PolicyLike, *, of_records: bool = False) -> None:
        """Read a policy, or take one that was read, of rows whose items are records or are not.

        Raises:
            UsageError: the text is none; the message says what is wrong in it.
            WrongTypeError: it is neither a text nor a function.
        """
        self._of_records = of_records
        self.fields: tuple[str, ...] | None = None
        self.last: Place
        self._function: Callable[[Entry], Any] | None = None
        self._terms: tuple[_Term, ...] = ()
        if isinstance(given, Policy):
            self.fields, self.last = given.fields, given.last
            self._function, self._terms = given._function, given._terms
        elif isinstance(given, str):
            self._terms = tuple(_terms(given))
            named = (term.field for term in self._terms if term.field is not None)
            self.fields = tuple(dict.fromkeys(named))
            self.last = tuple(
                (len(term.preferred),) if term.preferred else _MISSING for term in self._terms
            )
        elif callable(given):
            self._function, self.last = given, (_MISSING,)
        else:
            raise WrongTypeError(f"{_HELP}, or a function; not a {type(given).__name__}")

    def reading(self, functions: Mapping[str, Function]) -> Policy:
        """Return the same policy with functions for fields whose terms have none.

        So values that are texts only because JSON has none like them are compared by value.
        """
        read = Policy(self)
        read._terms = tuple(
            replace(term, function=functions.get(term.field))
            if term.field is not None and not term.function
            else term
            for term in self._terms
        )
        return read

    def naming(self, *, key: str | None, item: str | None) -> Policy:
        """Return the same policy for rows whose key and item have names of their own as well."""
        parts = {name: part for name, part in ((key, "key"), (item, "item")) if name is not None}
        named = Policy(self)
        named._terms = tuple(
            replace(term, part=term.part or parts.get(term.field, ""))
            if term.field is not None
            else term
            for term in self._terms
        )
        return named

    def seeing(self, seen: Callable[[Entry], Entry]) -> Policy:
        """Return the same policy, whose function gets what another makes of rows."""
        read, function = Policy(self), self._function
        if function is not None:
            read._function = lambda row: function(seen(row))
        return read

    @property
    def is_order(self) -> bool:
        """Whether it is more than the order in which rows come."""
        return bool(self.last)

    def place(self, row: Entry, *, skip_bad: bool = False) -> Place:
        """Return where a row stands; of two rows the one of the lesser place is kept.

        Args:
            row: as it comes, or is stored.
            skip_bad: a term that fails puts the row last, by this term alone.

        Raises:
            BadItemError: a term, or the function, fails for it.
        """
        failures: tuple[type[Exception], ...] = _OF_TERMS
        if self._function is not None:
            computing, failures = [self._by_function], (Exception,)
        else:
            computing = [term.place for term in self._terms]
            row = self._as_record(row)
        place = []
        for compute, last in zip(computing, self.last, strict=True):
            try:
                place.append(compute(row))
            except failures as error:
                if not skip_bad:
                    problem = f"the policy failed for key {row.key!r}: {error}"
                    raise BadItemError(problem) from error
                place.append(last)
        return tuple(place)

    def _as_record(self, row: Entry) -> Entry:
        return replace(row, item=_Record(row.item)) if self._of_records else row

    def _by_function(self, row: Entry) -> Place:
        assert self._function is not None
        value = self._function(row)
        return _MISSING if value is None or _is_nan(value) else (0, _Greatest(value))

    def fields_of(self, row: Entry) -> set[str]:
        """Return the fields that it looks at and that a row has."""
        row = self._as_record(row)
        named = ((term.field, term.value(row)) for term in self._terms)
        return {name for name, value in named if name is not None and value is not None}

    def order(self, places: Sequence[Place]) -> list[int]:
        """Return the numbers of places, the first first; equal ones as they stand.

        Raises:
            UsageError: some cannot be compared.
        """
        try:
            return sorted(range(len(places)), key=places.__getitem__)
        except (TypeError, ValueError) as error:  # of arrays, which are neither true nor false
            raise self._incomparable(error) from error

    def is_before(self, place: Place, other: Place) -> bool:
        """Whether what was stored at a place comes before a row at another: also if it is as good.

        If the two cannot be compared, it does not: what is stored ends no call.
        """
        try:
            return not other < place
        except (TypeError, ValueError):
            return False

    def _incomparable(self, error: Exception) -> UsageError:
        if self._function is None:
            return UsageError(
                "a field of the policy is a text in some rows and a number in others; "
                "number(NAME) reads texts as numbers"
            )
        return UsageError(f"the policy returned values that cannot be compared ({error})")


def _value(row: Entry, name: str, part: str) -> Any:
    """Return the value of a field, or else a part of the row; None where there is none."""
    for fields in (row.metadata, row.item if isinstance(row.item, _Record) else None):
        value: Any = fields
        if isinstance(value, Mapping) and name in value:
            return value[name]
        for step in name.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return getattr(row, part) if part else None


def _shown(value: Any) -> str:
    """Return a value as messages show it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _names_of(value: Any) -> set[str]:
    """Return the texts that name a value among preferred ones; none where there is no value."""
    if value is None:
        return set()
    names = {_shown(value)}
    if isinstance(value, bool):
        names.add(str(value))
    elif isinstance(value, float) and value.is_integer():  # as whole numbers beside a null are
        names.add(str(int(value)))
    return names


# -- reading a text -------------------------------------------------------------------------------


class _Tokens:
    """The words and signs of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._found: list[tuple[str, bool]] = []  # each, and whether it is a name or a value
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise UsageError(f"{text[position:].strip()!r} cannot be read: {_HELP}")
            quoted, word, sign = match.group("text", "word", "sign")
            if sign:
                self._found.append((sign, False))
            else:
                self._found.append((_unquoted(quoted) if quoted else word, True))
            position = match.end()

    def __bool__(self) -> bool:
        return bool(self._found)

    def takes(self, *words: str) -> str:
        """Take the next one if it is among these; else return nothing."""
        if self._found and self._found[0][0] in words:
            return self._found.pop(0)[0]
        return ""

    def name(self, what: str) -> str:
        """Take a name or a value."""
        if not self._found or not self._found[0][1]:
            found = f"has {self._found[0][0]!r}" if self._found else "ends"
            raise UsageError(f"a policy {found} where {what} should be: {_HELP}")
        return self._found.pop(0)[0]


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise UsageError(f"{text} in a policy is not a text as JSON has it: {error}") from None


def _terms(text: str) -> Iterator[_Term]:
    """Yield the terms of a policy; none if it is ``first``."""
    tokens = _Tokens(text)
    if not tokens:
        raise UsageError(f"the policy is empty: {_HELP}")
    while True:
        term = _term(tokens)
        if term is not None:
            yield term
        if not tokens:
            return
        if term is None:
            raise ConfigurationError(
                "in a policy nothing can follow 'first', which tells any two rows apart"
            )
        if not tokens.takes(","):
            raise UsageError(f"a policy has {tokens.name('a comma')!r} after a term: {_HELP}")


def _term(tokens: _Tokens) -> _Term | None:
    name = tokens.name("a field")
    function: Function | None = None
    if tokens.takes("("):
        function = next((one for one in get_args(Function) if one == name), None)
        if function is None:
            raise UsageError(
                f"a policy has number(NAME), time(NAME) and length(NAME), and no {name}(...)"
            )
        name = tokens.name("a field")
        if not tokens.takes(")"):
            raise UsageError(f"a policy lacks a parenthesis after {function}({name}")
    part = name if name in OF_ROWS else ""
    direction = tokens.takes("asc", "desc", *(() if function else ("in",)))
    if direction == "in":
        preferred = [tokens.name("a value")]
        while tokens.takes("|"):
            preferred.append(tokens.name("a value"))
        return _Term(name, preferred=tuple(preferred), part=part)
    if direction:
        return _Term(name, function, descending=direction == "desc", part=part)
    if not function and name in ("longest", "shortest"):
        return _Term(None, "length", descending=name == "longest")
    if not function and name == "first":
        return None
    raise UsageError(f"a policy must say whether {name!r} is asc (least first) or desc: {_HELP}")

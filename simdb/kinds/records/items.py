"""Records: their stored form, and their fields as columns of values (MMDS 3.8.2).

The stored form begins with one byte for each field of the settings, in their order: 0 the record
has no such field, 1 None, 2 a string, 3 an integer, 4 a float, 5 a date. Then follow, for each
field that has a value, the length of the string in bytes (uint16), the integer (int64), the float
(float64) or the day (uint32, 0001-01-01 is 1), all little-endian; then the strings in UTF-8, one
after the other. ``get`` returns every value as it was given.

"""

from __future__ import annotations

import datetime
import math
import re
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from simdb.arguments import short
from simdb.arrays import Float64s, Int64s
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    CorruptionError,
)
from simdb.exact.thresholds import exact_fraction
from simdb.extras import of_extra
from simdb.kinds.base import Differences, Items, shown, utf8
from simdb.kinds.characters import in_normal_form

if TYPE_CHECKING:
    from simdb.kinds.records import Field, Record

Value: TypeAlias = str | int | float | datetime.date
Transform: TypeAlias = Callable[[str], str]

MAXIMUM_VALUE_BYTES = 65_535
_DEGREES = r"[-+]?\d{1,3}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?"  # as Python writes any float
_SEPARATORS = re.compile(r"[\W_]+")
_SEPARATORS_OF_LINE = re.compile(r"[^a-z0-9\n]+")  # of small ASCII letters
_DIGITS = re.compile(r"\d+")
_PLACE = re.compile(rf"\s*({_DEGREES})\s*[,; ]\s*({_DEGREES})\s*", re.ASCII)
_MIDNIGHT = r"[T ]00:00(?::00(?:\.0+)?)?"  # as columns of times have it that hold days
_DATE = re.compile(rf"\s*(\d{{4}})(-?)(\d{{2}})\2(\d{{2}})(?:{_MIDNIGHT})?\s*", re.ASCII)


class Place(NamedTuple):
    """A place on the Earth, in degrees."""

    north: float
    east: float


Read = TypeVar("Read", str, Fraction)

ABSENT, NONE, STRING, INTEGER, FLOAT, DATE = range(6)
MISSING = -1

_LETTERS = {STRING: "H", INTEGER: "q", FLOAT: "d", DATE: "I"}  # of struct
_PATTERNS_KEPT = 1_024


# -- transformations -----------------------------------------------------------------------------


def _unaccented(text: str) -> str:
    if text.isascii():
        return text
    parts = in_normal_form("NFKD", text)
    return "".join(part for part in parts if not unicodedata.combining(part))


def _sounds(code: str, text: str) -> str:
    """Return the code of what each word sounds like in English, by its letters without accents."""
    with of_extra("phonetics", f"{code!r} needs"):
        coded = getattr(import_module("jellyfish"), code)
    words = ("".join(filter(str.isalpha, word)) for word in _unaccented(text).split())
    return " ".join(filter(None, (coded(word) for word in words if word)))


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
    "soundex": lambda text: _sounds("soundex", text),
    "metaphone": lambda text: _sounds("metaphone", text),
}
USUAL = ("lowercase", "collapse")
PLAIN = ("lowercase", "unaccented", "alphanumeric")
_UNEVEN = ("  ", " \n", "\n ", *map(chr, (9, 11, 12, 13, 28, 29, 30, 31)))  # what collapses
COUNTED = re.compile(r"(first|last):0*[1-9][0-9]{0,7}")  # of characters


def _transformation(name: str) -> Transform:
    stem, _, count = name.partition(":")
    if stem == "first":
        return lambda text: text[: int(count)]
    if stem == "last":
        return lambda text: text[-int(count) :]
    return TRANSFORMATIONS[name]


def chained(names: Sequence[str]) -> Transform:
    """Return one function that applies ``TRANSFORMATIONS``, or ``first:4``, in their order."""
    if tuple(names) == USUAL:
        return lambda text: " ".join(text.lower().split())  # in one call
    transforms = [_transformation(name) for name in names]
    if len(transforms) == 1:
        return transforms[0]

    def apply(text: str) -> str:
        for transform in transforms:
            text = transform(text)
        return text

    return apply


def lower_and_collapsed(texts: list[str]) -> list[str]:
    """Return many texts as the usual preparation makes them, in a few calls where most are so."""
    whole = "\n".join(texts)
    is_even = (
        whole.isascii()
        and whole.count("\n") == len(texts) - 1
        and not any(mark in whole for mark in _UNEVEN)
        and not whole.startswith(" ")
        and not whole.endswith(" ")
    )
    if is_even:
        return whole.lower().split("\n")
    return [" ".join(text.lower().split()) for text in texts]


def lower_and_alphanumeric(texts: list[str]) -> list[str]:
    """Return many texts in small letters without accents and punctuation, if all are ASCII."""
    whole = "\n".join(texts)
    if not whole.isascii() or whole.count("\n") != len(texts) - 1:
        return list(map(chained(PLAIN), texts))
    lines = _SEPARATORS_OF_LINE.sub(" ", whole.lower()).split("\n")
    return [text.strip(" ") for text in lines]


PREPARED_AT_ONCE: dict[tuple[str, ...], Callable[[list[str]], list[str]]] = {
    USUAL: lower_and_collapsed,
    PLAIN: lower_and_alphanumeric,
}


def firsts_of(field: Field) -> dict[str, str]:
    """Return the first of its group of each equivalent of a field, as they are prepared.

    ConfigurationError: one is in two groups, or the preparation leaves nothing of it.
    """
    prepare = chained(field.prepare)
    firsts: dict[str, str] = {}
    for group in field.equivalents:
        prepared = [prepare(value) for value in group]
        for given, value in zip(group, prepared, strict=True):
            if not value:
                raise ConfigurationError(
                    f"field {field.name!r}: of the equivalent {given!r} the preparation "
                    "leaves nothing"
                )
            if firsts.setdefault(value, prepared[0]) != prepared[0]:
                raise ConfigurationError(
                    f"field {field.name!r}: {given!r} is in two groups of equivalents"
                )
    return firsts


class Equivalents:
    """Replace every word, or whole value, of a group by the first of the group (MMDS 3.8.2).

    What is longer is replaced first; nothing is replaced inside a word.
    """

    def __init__(self, field: Field) -> None:
        self._first = firsts_of(field)
        longest_first = sorted(self._first, key=lambda value: (-len(value), value))
        choices = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(rf"(?<!\w)(?:{choices})(?!\w)")

    def replaced(self, text: str) -> str:
        """Return the text in which words of one group are the same word."""
        return self._pattern.sub(lambda found: self._first[found[0]], text)


# -- what is taken as a value; what is not raises BadItemError -----------------------------------


def native(value: Any) -> Any:
    """Return a number or a day of NumPy as Python's own; anything else stays."""
    if not isinstance(value, np.generic):
        return value
    own = value.item()  # of points in time in nanoseconds, and of durations, a bare integer
    is_time = isinstance(value, np.datetime64 | np.timedelta64)
    return own if not is_time or isinstance(own, datetime.date) else value


def plain_value(name: str, value: object) -> Value | None:
    """Return a value as Python's own string, integer, float or date; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)
    value = native(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise BadItemError(
                f"the field {name!r} is {short(value)}, beyond 64 bits; give a string"
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadItemError(
                f"the field {name!r} is {value}, not a number; use None for a missing value"
            )
        return float(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    raise BadItemError(
        f"the field {name!r} must be a string, a number, a date or None, not {shown(value)}"
    )


def joined(field: Field, values: object) -> object:
    """Return a list of texts as one text, where a field has what is between them; else the same."""
    if not field.separator or not isinstance(values, list | tuple):
        return values
    for value in values:
        if not isinstance(value, str) or field.separator in value:
            raise BadItemError(
                f"the field {field.name!r} has {shown(value)} in its list: the list must "
                "contain strings "
                f"without the separator {field.separator!r}"
            )
    text: str = field.separator.join(values)
    if text.split(field.separator) != list(values) and values:  # as where one ends with its begin
        raise BadItemError(
            f"the field {field.name!r} has a list that is another one when it is joined by its "
            f"separator {field.separator!r}: {shown(text)}"
        )
    return text


def text_size(name: str, text: str) -> int:
    """Return the bytes of a string in UTF-8, at most ``MAXIMUM_VALUE_BYTES``."""
    size = len(text) if text.isascii() else len(utf8(text, f"the field {name!r}"))
    if size > MAXIMUM_VALUE_BYTES:
        raise BadItemError(
            f"the field {name!r} has {size:,} bytes in UTF-8, more than the "
            f"{MAXIMUM_VALUE_BYTES:,} that a field may have; long texts belong in a "
            "collection of texts"
        )
    return size


def read_text(name: str, value: Value) -> str:
    """Return a value as the text that is compared, before its preparation."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise BadItemError(
        f"the field {name!r} is compared as text: it must be a string or an integer, not "
        f"{type(value).__name__} {value!r}"
    )


def read_number(name: str, value: Value) -> Fraction | None:
    """Return a value, or what a string says, as the number that is written; None for no text.

    A float stands for the decimal number that it prints as: 0.1 is 1/10.
    """
    if isinstance(value, str) and not value.strip():
        return None
    number = as_float(value)
    if math.isfinite(number) and not isinstance(value, datetime.date):
        with suppress(ValueError, ArithmeticError):  # of hundreds of digits the first 17 count
            return exact_fraction(value.strip() if isinstance(value, str) else value)
        return Fraction(number)
    raise BadItemError(
        f"the field {name!r} is compared as a number, but {short(value)} is not a number"
    )


def as_float(value: Value) -> float:
    """Return a value, or what a string says, as a number; nan if it is none."""
    # Python reads "1_000" and digits of other scripts too; in a table they are no numbers.
    is_plain = not isinstance(value, str) or (value.isascii() and "_" not in value)
    if not is_plain or isinstance(value, datetime.date):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan
    except OverflowError:  # a whole number beyond all floats, as "1e400" is
        return math.inf if isinstance(value, int) and value > 0 else -math.inf


def read_day(name: str, value: Value) -> Fraction | None:
    """Return the day from 0001-01-01 of a date, 2001-12-31 or 20011231; None for no text.

    A text may have the time of midnight.
    """
    if isinstance(value, datetime.date):
        return Fraction(value.toordinal())
    if isinstance(value, str) and not value.strip():
        return None
    found = None if isinstance(value, float) else _DATE.fullmatch(str(value))
    if found is None:
        raise BadItemError(
            f"the field {name!r} is compared as a date, but {short(value)} is not one; "
            "write 2001-12-31 or 20011231"
        )
    try:
        return Fraction(datetime.date(int(found[1]), int(found[3]), int(found[4])).toordinal())
    except ValueError as error:
        raise BadItemError(
            f"the field {name!r} is {short(value)}, which is not a valid date: {error}"
        ) from None


def read_place(name: str, value: Value) -> Place | None:
    """Return the place of ``47.38, 8.54``: degrees to the north and to the east."""
    if isinstance(value, str):
        if not value.strip():
            return None
        found = _PLACE.fullmatch(value)
        if found is not None:
            place = Place(float(found[1]), float(found[2]))
            if abs(place.north) <= 90 and abs(place.east) <= 180:
                return place
    raise BadItemError(
        f"the field {name!r} is compared as a place, but {short(value)} is not one; write "
        "degrees to the north, -90 to 90, and to the east, -180 to 180: '47.38, 8.54'"
    )


# -- items and their columns -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumn:
    """The values of one field in a batch of records, each different value once."""

    codes: Int64s  # (n,), the place of each record's value in ``values``; -1 where it is missing
    values: list[str]  # the prepared texts; of a number or a day its exact value
    # What rules compare: the same with words of one group of equivalents replaced, ``values``
    # itself where the field has none; of a number its float64, of a date itself.
    canonical: list[str]
    numbers: list[Fraction]  # the number or the day of each of ``values``; empty for others
    places: list[Place]  # the place of each of ``values``, where they are places

    @property
    def floats(self) -> Float64s:
        """The numbers, rounded to float64."""
        return np.array(list(map(float, self.numbers)), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class RecordFeatures:
    """A batch of records: a column for each field that is scored or that a rule names."""

    columns: dict[str, RecordColumn]
    count: int

    def __len__(self) -> int:
        return self.count


class _Reader:
    """Read the values of one field into what is compared."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.is_text = field.is_text
        readers = {"date": read_day, "place": read_place}
        self._read_number = cast(
            "Callable[[str, Value], Fraction | None]", readers.get(field.compare, read_number)
        )
        self._prepare = chained(field.prepare)
        self._equivalents = Equivalents(field) if field.equivalents else None

    def check(self, value: Value) -> None:
        """Raise BadItemError if a value cannot be read and the settings refuse that."""
        if self.is_text:
            self._read(read_text, value)
        elif self._read_number is not read_number or not math.isfinite(as_float(value)):
            self._read(self._read_number, value)

    def column(self, values: Sequence[Value | None]) -> RecordColumn:
        """Return the column of one value a record; each different one is read once."""
        if self.is_text:
            return self._text_column(values)
        places: dict[str, int] = {}
        known: dict[Any, int] = {}
        numbers: list[Any] = []
        rounded: list[str] = []
        apart = _told_apart(values)
        for one, value in dict(zip(apart, values, strict=True)).items():
            number = None if value is None else self._read(self._read_number, value)
            if number is None:
                known[one] = MISSING
                continue
            exact = str(number)
            if exact not in places:
                numbers.append(number)
                rounded.append(self._written(number))
            known[one] = places.setdefault(exact, len(places))
        codes = np.fromiter(map(known.__getitem__, apart), np.int64, len(values))
        is_place = self.field.compare == "place"
        kept: tuple[list[Any], list[Any]] = ([], numbers) if is_place else (numbers, [])
        return RecordColumn(codes, list(places), rounded, *kept)

    def _text_column(self, values: Sequence[Value | None]) -> RecordColumn:
        apart = _told_apart(values)
        different = dict(zip(apart, values, strict=True))
        different.pop(None, None)
        texts: list[str] = []
        for value in different.values():
            text = value if isinstance(value, str) else self._read(read_text, value)
            texts.append(text or "")
        prepared = self._prepare_many(texts)
        if self.field.separator:  # between which there may be nothing
            prepared = [text if self.field.words_of(text) else "" for text in prepared]
        places = {text: place for place, text in enumerate(filter(None, dict.fromkeys(prepared)))}
        places[""] = MISSING
        known = dict(zip(different, map(places.__getitem__, prepared), strict=True))
        known[None] = MISSING
        codes = np.fromiter(map(known.__getitem__, apart), np.int64, len(values))
        del places[""]
        kept = list(places)
        if self._equivalents is None:
            return RecordColumn(codes, kept, kept, [], [])
        return RecordColumn(codes, kept, list(map(self._equivalents.replaced, kept)), [], [])

    def _prepare_many(self, texts: list[str]) -> list[str]:
        at_once = PREPARED_AT_ONCE.get(tuple(self.field.prepare))
        return list(map(self._prepare, texts)) if at_once is None else at_once(texts)

    def _read(self, read: Callable[[str, Value], Read | None], value: Value) -> Read | None:
        """The part of a value that is compared; None if it is missing, or taken for it."""
        try:
            return read(self.field.name, value)
        except BadItemError:
            if self.field.invalid == "missing":
                return None
            raise

    def _written(self, number: Fraction | Place) -> str:
        """Return the text by which rules know a number; signatures of all versions hash it."""
        if isinstance(number, Place):
            return f"{number.north + 0.0!r} {number.east + 0.0!r}"
        if self.field.compare != "date":
            return repr(float(number) + 0.0)
        return datetime.date.fromordinal(int(number)).isoformat()


class RecordItems(Items):
    """Encode records and prepare their fields under one collection's settings."""

    def __init__(self, settings: Record) -> None:
        self._names = tuple(field.name for field in settings.fields)
        self._known = frozenset(self._names)
        self._readers = tuple(map(_Reader, settings.fields))
        self._dates = [
            place for place, field in enumerate(settings.fields) if field.compare == "date"
        ]
        self._read_otherwise = [reader for reader in self._readers if not reader.is_text]
        ruled = {name for rule in settings.rules for part in rule for name in part.names}
        self._used = tuple(bool(field.weight) or field.name in ruled for field in settings.fields)

    def encode(self, item: object) -> bytes:
        """Return the stored form of a record: a mapping of field names to values.

        A value is a string, an integer of 64 bits, a finite float, a date, or None, which is
        missing like a field that is not there. 1 and 1.0 are different values.
        """
        if not isinstance(item, Mapping):
            raise BadItemError(
                f"a record must be a mapping of field names to values, not {shown(item)}"
            )
        if not self._known.issuperset(item):
            wrong = next(name for name in item if name not in self._known)
            raise BadItemError(
                f"the record has a field {wrong!r}, but the fields are {', '.join(self._names)}; "
                "a field of weight 0 keeps values that are not scored"
            )
        whole = self._encoded_texts(item)
        if whole is not None:
            return whole
        forms = bytearray(len(self._names))
        numbers: list[int | float] = []
        texts: list[str] = []
        for place, reader in enumerate(self._readers):
            value = item.get(reader.field.name, _NOTHING)
            if value is _NOTHING:
                continue
            if type(value) is not str:
                value = plain_value(reader.field.name, joined(reader.field, value))
            if value is None:
                forms[place] = NONE
                continue
            if not reader.is_text or type(value) is not str:
                reader.check(value)
            if type(value) is str:
                size = len(value)
                if size > MAXIMUM_VALUE_BYTES or not value.isascii():
                    size = text_size(reader.field.name, value)
                forms[place] = STRING
                numbers.append(size)
                texts.append(value)
            else:
                forms[place], number = _number_of(value)
                numbers.append(number)
        return bytes(forms) + _pattern(bytes(forms))[0].pack(*numbers) + "".join(texts).encode()

    def _encoded_texts(self, item: Mapping[str, Any]) -> bytes | None:
        """Return the stored form of a record that has an ASCII text for each field; else None."""
        if len(item) < len(self._names):
            return None
        whole = _encoded_texts(list(map(item.__getitem__, self._names)))
        if whole is not None:
            for reader in self._read_otherwise:
                reader.check(item[reader.field.name])
        return whole

    def decode(self, data: bytes | memoryview) -> dict[str, Any]:
        stored = bytes(data)
        rows = zip(self._names, _decoded(stored, len(self._names)), stored, strict=False)
        return {name: value for name, value, form in rows if form != ABSENT}

    def contents(self, items: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Return the forms with dates for their texts in ISO's form, where dates are compared.

        What has a date in a list of Python has such a text in every table that is read as JSON.
        """
        return list(map(self._with_dates, items)) if self._dates else items

    def _with_dates(self, item: bytes | memoryview) -> bytes | memoryview:
        texts = [place for place in self._dates if item[place] == STRING]
        if not texts:
            return item
        record = self.decode(item)
        for name in map(self._names.__getitem__, texts):
            with suppress(ValueError):
                day = datetime.date.fromisoformat(record[name])
                if day.isoformat() == record[name]:
                    record[name] = day
        return self.encode(record)

    def features(self, items: Sequence[bytes | memoryview]) -> RecordFeatures:
        by_field = _decoded_together(items, len(self._names))
        columns = {}
        for reader, used, values in zip(self._readers, self._used, by_field, strict=True):
            if not used:
                continue
            try:
                columns[reader.field.name] = reader.column(values)
            except BadItemError as error:
                raise CorruptionError(f"a stored record cannot be read: {error}") from error
        return RecordFeatures(columns, len(items))

    def features_of(self, records: Sequence[Mapping[str, Any]]) -> RecordFeatures:
        """Return the features of records that are not stored; BadItemError if one cannot be."""
        if not all(map(self._known.issuperset, records)):
            return self.features(list(map(self.encode, records)))
        columns = {}
        for reader, used in zip(self._readers, self._used, strict=True):
            name = reader.field.name
            values = [record.get(name) for record in records]
            if not {*map(type, values)} <= {str, type(None)}:
                return self.features(list(map(self.encode, records)))
            for value in dict.fromkeys(values):
                if value is not None:
                    text_size(name, value)
                    if not reader.is_text:
                        reader.check(value)
            if used:
                columns[name] = reader.column(values)
        return RecordFeatures(columns, len(records))

    def differences(self, field: str) -> Differences:
        """The function that computes how records differ in a field; by 0 or 1 if in no number."""

        def between(left: Sequence[bytes], right: Sequence[bytes]) -> Float64s:
            column = self.features([*left, *right]).columns[field]
            one, other = column.codes[: len(left)], column.codes[len(left) :]
            missing = (one < 0) | (other < 0)
            if column.numbers:
                numbers = column.floats
                with np.errstate(over="ignore"):  # beyond all numbers is unknown, too
                    apart = np.abs(numbers[one] - numbers[other])
            else:
                places: dict[str, int] = {}
                same = [places.setdefault(text, len(places)) for text in column.canonical]
                equal = np.array([*same, -1], np.int64)
                apart = (equal[one] != equal[other]).astype(np.float64)
            apart[missing] = np.nan
            return apart

        return between


# -- the stored form -----------------------------------------------------------------------------

_NOTHING = object()
_ONLY_TEXTS = {str}


def _told_apart(values: Sequence[Value | None]) -> Sequence[Any]:
    """Return what stands for each value: 1 and 1.0 are equal, and are not read alike."""
    if {int, float}.issubset(map(type, values)):
        return [value if value is None else (type(value), value) for value in values]
    return values


def _encoded_texts(values: list[Any]) -> bytes | None:
    """Return the stored form of values that all are ASCII texts, as most are; else None."""
    if set(map(type, values)) != _ONLY_TEXTS:
        return None
    whole = "".join(values)
    if not whole.isascii() or len(whole) > MAXIMUM_VALUE_BYTES:
        return None
    forms = bytes([STRING]) * len(values)
    return forms + _pattern(forms)[0].pack(*map(len, values)) + whole.encode()


@lru_cache(maxsize=_PATTERNS_KEPT)
def _pattern(forms: bytes) -> tuple[struct.Struct, list[int], list[int]]:
    """The layout of records of so formed fields: numbers, and places and forms of values."""
    places = [place for place, form in enumerate(forms) if form > NONE]
    kept = [forms[place] for place in places]
    return struct.Struct("<" + "".join(map(_LETTERS.__getitem__, kept))), places, kept


def _number_of(value: Value) -> tuple[int, int | float]:
    """Return the form of a value that is no string, and the number that stands for it."""
    if isinstance(value, datetime.date):
        return DATE, value.toordinal()
    if isinstance(value, int):
        return INTEGER, value
    return FLOAT, cast("float", value)


def _decoded_together(
    items: Sequence[bytes | memoryview], count: int
) -> Sequence[Sequence[Value | None]]:
    """Return the values of many records, a column for each field.

    Where all have an ASCII text for each field, as most tables do, they are cut out of one string.
    """
    stored = list(map(bytes, items))
    forms = bytes([STRING]) * count
    begin = count + _pattern(forms)[0].size
    if all(item.startswith(forms) for item in stored):
        numbers = np.frombuffer(b"".join([item[count:begin] for item in stored]), np.uint8)
        strings = b"".join([item[begin:] for item in stored])
        if numbers.size == len(stored) * (begin - count) and strings.isascii():
            sizes = numbers.view("<u2").astype(np.int64)
            whole = sizes.reshape(-1, count).sum(axis=1) + begin
            if np.array_equal(whole, list(map(len, stored))):
                text, ends = strings.decode(), [0, *np.cumsum(sizes).tolist()]
                values = [text[start:end] for start, end in pairwise(ends)]
                return [values[field::count] for field in range(count)]
    rows = [_decoded(item, count) for item in stored]
    return list(zip(*rows, strict=True)) if rows else [()] * count


def _decoded(data: bytes, count: int) -> list[Value | None]:
    """Return the value of each field, None where it has none; check every length."""
    values: list[Value | None] = [None] * count
    try:
        structure, places, forms = _pattern(data[:count])
        numbers = structure.unpack_from(data, count)
        strings = data[count + structure.size :]
        text = strings.decode() if strings.isascii() else None
        if text is not None and forms == [STRING] * count:
            ends = [*accumulate(numbers, initial=0)]
            if ends[-1] == len(text):
                return [text[begin:end] for begin, end in pairwise(ends)]
        begin = 0
        for place, form, number in zip(places, forms, numbers, strict=True):
            if form == STRING:
                end = begin + number
                values[place] = strings[begin:end].decode() if text is None else text[begin:end]
                begin = end
            else:
                values[place] = datetime.date.fromordinal(number) if form == DATE else number
    except (KeyError, ValueError, OverflowError, struct.error) as error:
        raise CorruptionError(f"a stored record cannot be read: {error!r}") from error
    if begin != len(strings) or len(data) < count:
        raise CorruptionError(
            f"a stored record cannot be read: it has {len(strings)} bytes of strings where {begin} "
            "are expected"
        )
    return values

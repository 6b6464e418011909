"""One row of an input, and how inputs are to be read.

A row that cannot be read is a row with a problem, never an exception: its line number reaches the
user, and the rows around it are not lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from simdb.errors import ConfigurationError
from simdb.kinds import Kind, Text
from simdb.kinds.base import Format, shortened
from simdb.kinds.ratings import Stars, Treatment
from simdb.results import Key

Elements: TypeAlias = Literal["auto", "integers", "strings"]
# The class depends on the kind; a record is a mapping of its fields.
Item: TypeAlias = str | int | bytes | list[Any] | dict[Any, Any] | npt.NDArray[Any]

# A file without line ends, or a CSV file with one stray quote, is one endless record.
LONGEST_RECORD = 64 * 2**20

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Row:
    """One record of an input.

    Attributes:
        line: number of the record's first line, from 1; of text files, the number of the file, of
            arrays that of the row.
        key: the row's key, None where it could not be read.
        item: what is to be stored, as the collection takes it; None where there is a problem.
        metadata: the other fields, None where there are none.
        raw: the record exactly as it stands in the input, line end included; empty where it was
            too long to be kept. Of text files the path, of arrays the key, and a line end.
        problem: what is wrong with the row, None when nothing is.
    """

    line: int
    key: Key | None
    item: Item | None
    metadata: Mapping[str, Any] | None
    raw: bytes
    problem: str | None = None


class RowProblemError(ValueError):
    """What is wrong with a row; it becomes ``Row.problem`` and never leaves this package."""


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How rows are taken from an input.

    Attributes:
        text_fields: the fields that are the item; several texts are joined by a line end, several
            sets united, several bags added up, several vectors and bit vectors put one behind the
            other. Of a record, all the fields that it may have.
        id_field: the field that is the key; None makes the line number the key. In lines and
            baskets, the place of the token that is the key, from "1".
        format: None tells it from the file's name; standard input is then JSON lines.
        integer_keys: read keys that are text as whole numbers.
        pattern: of a folder, take only files whose name matches (shell wildcards).
        kind: what the items are.
        ratings: how ratings become the elements of sets or bags; the rows are then a CSV file of
            ratings, ``id_field`` names the field of what becomes a set, ``text_fields`` that of
            what it rated or who rated it.
        rating_field: the field of the rating, a number.
        elements: what the elements of sets and bags are where the input does not tell (all formats
            but lists in JSON lines); ``"auto"`` takes integers if the first is one of integers.
        separator: what stands between elements in lines and in a field of CSV; white space if
            None.
    """

    text_fields: tuple[str, ...] = ("text",)
    id_field: str | None = None
    format: Format | None = None
    integer_keys: bool = False
    pattern: str | None = None
    kind: Kind = field(default_factory=Text)
    ratings: Treatment | None = None
    rating_field: str = "rating"
    elements: Elements = "auto"
    separator: str | None = None

    def __post_init__(self) -> None:
        if not self.text_fields:
            raise ConfigurationError("text_fields must name at least one field")
        if self.id_field in self.text_fields:
            raise ConfigurationError(f"{self.id_field!r} cannot be both the key and the text")
        formats = self.kind.formats
        if self.format is not None and self.format not in formats:
            raise ConfigurationError(
                f"the format of {self.kind.plural} must be one of {', '.join(formats)}, "
                f"not {self.format!r}"
            )
        if self.elements not in ("auto", "integers", "strings"):
            raise ConfigurationError(
                f"elements must be 'auto', 'integers' or 'strings', not {self.elements!r}"
            )
        if self.separator == "":
            raise ConfigurationError("the separator must not be empty")
        if self.format in ("lines", "baskets") and not _is_place(self.id_field):
            raise ConfigurationError(
                f"{self.format} have no names: the key is told by its place, from 1, not by "
                f"{self.id_field!r}"
            )
        if self.ratings is not None:
            self._require_ratings()

    def _require_ratings(self) -> None:
        as_bags = isinstance(self.ratings, Stars)
        if not self.kind.of_elements or self.kind.of_counts != as_bags:
            raise ConfigurationError(
                f"ratings as {type(self.ratings).__name__} make {'bags' if as_bags else 'sets'}, "
                f"not {self.kind.plural}"
            )
        if self.format not in (None, "csv"):
            raise ConfigurationError(f"ratings are read from csv, not from {self.format}")
        names = [self.id_field, self.rating_field, *self.text_fields]
        if None in names or len(set(names)) != 3:
            raise ConfigurationError(
                "ratings need three different fields: the key, the item and the rating, not "
                f"{', '.join(map(repr, names))}"
            )


def _is_place(text: str | None) -> bool:
    return text is None or re.fullmatch(r"[1-9][0-9]{0,8}", text) is not None


def whole_number(text: str) -> int:
    """Return the whole number that a key's text spells, in its one canonical spelling.

    Other spellings (``007``, ``+7``, ``7.0``) raise RowProblemError: two keys must not become one.
    """
    if not WHOLE_NUMBER.fullmatch(text):
        raise RowProblemError(f"the key {shortened(text)} is not a whole number")
    return int(text)


def decoded(raw: bytes) -> str:
    """Return bytes as text; bytes that are not UTF-8 raise RowProblemError."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "; this is the mark of UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise RowProblemError(
            f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}{hint}"
        ) from None

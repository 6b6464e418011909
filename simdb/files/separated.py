"""Rows of CSV files, as Python's ``csv`` module understands them, byte for byte."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, ClassVar

from simdb.errors import BadItemError
from simdb.files.compression import InputStream
from simdb.files.lines import iter_lines, without_mark
from simdb.files.numbers import number_tokens
from simdb.files.reader import NamedFieldsReader
from simdb.files.rows import (
    KINDS_OF_SETS,
    LONGEST_RECORD,
    Format,
    Item,
    ReadingOptions,
    RowProblemError,
    decoded,
)


class _Place(Enum):
    """Where in a record the reading stands: what a quotation mark here means."""

    FIELD_START = auto()
    PLAIN = auto()
    QUOTED = auto()
    QUOTE_IN_QUOTED = auto()


class _Record:
    """The bytes of one record while it grows; dropped, not its place, when it grows too long."""

    def __init__(self, line: int, longest: int) -> None:
        self.line = line
        self.ends = 0
        self.too_long = False
        self._longest = longest
        self._length = 0
        self._parts: list[bytes] = []
        self._place = _Place.FIELD_START

    def append(self, part: bytes, *, complete: bool) -> bool:
        """Take a line or a portion of one; return whether the record ends with it."""
        self._length += len(part)
        if self._length > self._longest:
            self.too_long = True
            self._parts.clear()
        else:
            self._parts.append(part)
        self._place = _advance(self._place, part)
        if complete and part.endswith((b"\n", b"\r")):
            self.ends += 1
        return complete and self._place is not _Place.QUOTED

    @property
    def raw(self) -> bytes:
        return b"".join(self._parts)

    @property
    def open(self) -> bool:
        """Whether the input ended inside a quoted field."""
        return self._place is _Place.QUOTED


def _advance(place: _Place, part: bytes) -> _Place:
    """Return the place after ``part``.

    A quotation mark opens a quoted field only as the first character of a field; inside one, two
    of them are one of its characters; after the closing one the field goes on as a plain one.
    """
    position = 0
    while position < len(part):
        if place is _Place.QUOTED:
            closing = part.find(b'"', position)
            if closing < 0:
                return place
            place, position = _Place.QUOTE_IN_QUOTED, closing + 1
        elif place is not _Place.PLAIN and part.startswith(b'"', position):
            place, position = _Place.QUOTED, position + 1
        else:
            opening = part.find(b',"', position)
            if opening < 0:
                return _Place.FIELD_START if part.endswith(b",") else _Place.PLAIN
            place, position = _Place.FIELD_START, opening + 1
    return place


def iter_records(
    stream: InputStream, *, longest: int = LONGEST_RECORD
) -> Iterator[tuple[int, bytes, str | None]]:
    r"""Yield each record: number of its first line, its bytes, and what is wrong with it.

    Lines end with ``\n``, ``\r\n`` or ``\r``, as ``csv`` has it. Joined, the records are the input
    (but for those longer than ``longest``, whose bytes are dropped).
    """
    record = _Record(1, longest)
    begun = False
    for line, complete in iter_lines(stream, longest=longest):
        parts = line.splitlines(keepends=True) if complete and b"\r" in line else [line]
        for part in parts:
            begun = True
            if record.append(part, complete=complete):
                yield record.line, record.raw, _length_problem(record, longest)
                record = _Record(record.line + record.ends, longest)
                begun = False
    if begun:
        problem = _length_problem(record, longest)
        if problem is None and record.open:
            problem = "the file ends inside a quoted field"
        yield record.line, record.raw, problem


def _length_problem(record: _Record, longest: int) -> str | None:
    return f"longer than {longest} bytes" if record.too_long else None


class SeparatedReader(NamedFieldsReader):
    """Rows of a CSV file whose first record names the fields; all values are text.

    Separated by commas, quoted by ``"``, as ``csv.reader`` reads it by default. Empty lines are no
    rows. A row with more or fewer fields than the header is a problem.
    """

    format: ClassVar[Format] = "csv"

    def __init__(
        self, stream: InputStream, options: ReadingOptions, *, longest: int = LONGEST_RECORD
    ) -> None:
        super().__init__(stream, options, longest=longest)
        # The module's limit of 128 KiB a field is one for the whole process: it is only raised.
        csv.field_size_limit(max(csv.field_size_limit(), longest))

    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        """Yield the records after the header, which is read here."""
        for line, raw, problem in iter_records(self._stream, longest=self._longest):
            if self.header is not None:
                yield line, raw, problem
            else:
                self.preamble += raw
                if problem is not None or raw.strip(b"\r\n"):
                    self._take_header(line, raw, problem)

    def _is_blank(self, raw: bytes) -> bool:
        return not raw.strip(b"\r\n")

    def _take_header(self, line: int, raw: bytes, problem: str | None) -> None:
        """Read the names of the fields; without them no row can be read, so here it ends."""
        if problem is None:
            try:
                names = values_of(without_mark(raw) if line == 1 else raw)
            except RowProblemError as error:
                problem = str(error)
            else:
                problem = _header_problem(names, self.options)
        if problem is not None:
            raise BadItemError(f"{self.place(line)}: {problem}")
        self.header = tuple(names)

    def fields_of(self, raw: bytes) -> dict[str, str]:
        """Return the fields of a record by the names of the header."""
        header = self.header or ()
        values = values_of(raw)
        if len(values) != len(header):
            raise RowProblemError(f"{len(values)} fields, but the header has {len(header)}")
        return dict(zip(header, values, strict=True))

    def _elements(self, name: str, value: str) -> list[Any]:
        return self.tokens.split(value)

    def _part(self, name: str, value: str) -> Item:
        try:
            return number_tokens(self.tokens.split(value), self.options)
        except RowProblemError as problem:
            raise RowProblemError(f"in the field {name!r}, {problem}") from None

    def _item(self, fields: Mapping[str, str]) -> Item:
        item = super()._item(fields)
        if self.options.kind in KINDS_OF_SETS and isinstance(item, list):
            return self.tokens.typed(item)
        return item


def _header_problem(names: list[str], options: ReadingOptions) -> str | None:
    if len(set(names)) < len(names):
        return "the header names a field twice"
    for name in (*options.text_fields, options.id_field):
        if name is not None and name not in names:
            return f"the header has no field {name!r}; it has {', '.join(map(repr, names))}"
    return None


def values_of(raw: bytes) -> list[str]:
    """Return the fields of a record; what is no CSV raises RowProblemError."""
    try:
        return next(csv.reader((decoded(raw),)))
    except csv.Error as error:
        raise RowProblemError(f"not CSV: {error}") from None

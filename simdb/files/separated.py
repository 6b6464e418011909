"""Rows of CSV files, as Python's ``csv`` module understands them, byte for byte."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from simdb.errors import BadItemError
from simdb.files.compression import InputStream
from simdb.files.reader import NamedFieldsReader
from simdb.files.rows import (
    BYTE_ORDER_MARK,
    LONGEST_RECORD,
    Item,
    ReadingOptions,
    RowProblemError,
    decoded,
)
from simdb.kinds.base import Format

# What a quotation mark means next, by what stands before it: at the start of a field it opens a
# quoted one, within a plain one it is a character, within a quoted one it closes.
_AT_START, _IN_PLAIN, _IN_QUOTED = b"", b"x", b'"'
_CLOSED = re.compile(rb'"[^"]*"|[^",][^,]*|,')


def _place_after(place: bytes, part: bytes) -> bytes:
    """Return where a record stands after a line, or a portion of one, that began at a place.

    After the closing mark of a quoted field comes a comma, the end, or what goes on as a plain
    field; another mark opens it again (two of them are one of its characters). That is as at the
    start of a field, so the two are one place here.
    """
    before = place + part
    if b'"' not in before:
        return _AT_START if before[-1:] in (b"", b",") else _IN_PLAIN
    if _CLOSED.sub(b"", before):  # nothing is left of what is closed
        return _IN_QUOTED
    return _AT_START if _CLOSED.sub(b"", before + b'"') else _IN_PLAIN


def iter_records(
    stream: InputStream, *, longest: int = LONGEST_RECORD
) -> Iterator[tuple[int, bytes, str | None]]:
    r"""Yield each record: number of its first line, its bytes, and what is wrong with it.

    Lines end with ``\n``, ``\r\n`` or ``\r``, as ``csv`` has it. Joined, the records are the input
    (but for those longer than ``longest``, whose bytes are dropped while their end is found).
    """
    first = line = 1
    parts: list[bytes] = []
    length = 0
    place = _AT_START

    def record(problem: str | None = None) -> tuple[int, bytes, str | None]:
        too_long = f"longer than {longest} bytes" if length > longest else None
        return first, b"".join(parts), too_long or problem

    for portion, complete in stream.lines(longest):
        several = complete and b"\r" in portion
        for part in portion.splitlines(keepends=True) if several else (portion,):
            length += len(part)
            parts.append(part)
            if length > longest:
                parts.clear()
            place = _place_after(place, part)
            line += complete and part.endswith((b"\n", b"\r"))
            if complete and place != _IN_QUOTED:
                yield record()
                first, length, place = line, 0, _AT_START
                parts.clear()
    if length:
        yield record("the file ends inside a quoted field" if place == _IN_QUOTED else None)


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
                names = values_of(raw.removeprefix(BYTE_ORDER_MARK) if line == 1 else raw)
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
        kind = self.options.kind
        try:
            item: Item
            if "lines" in kind.formats:
                item = kind.item_of_tokens(self.tokens.split(value))
            else:
                item = kind.item_of_text(value)
        except BadItemError as problem:
            raise RowProblemError(f"in the field {name!r}, {problem}") from None
        return item

    def _item(self, fields: Mapping[str, str]) -> Item:
        item = super()._item(fields)
        if self.options.kind.of_elements and isinstance(item, list):
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

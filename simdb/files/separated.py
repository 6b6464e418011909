"""Rows whose parts are separated: CSV with or without a header, and lines of tokens.

CSV is what Python's ``csv`` module understands, byte for byte. Where its rows are ratings, they are
gathered into a set or bag a user, or one an item (MMDS 3.1.3).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from msgspec.structs import replace

from simdb.errors import BadItemError, ConfigurationError
from simdb.files.compression import InputStream, plain_name
from simdb.files.rows import (
    BYTE_ORDER_MARK,
    LONGEST_RECORD,
    Item,
    NamedFieldsReader,
    ReadingOptions,
    Row,
    RowProblemError,
    RowReader,
    StreamReader,
    decoded,
    named_shortly,
    present,
    whole_number,
)
from simdb.kinds import Text
from simdb.kinds.base import shortened
from simdb.kinds.ratings import Liked, LikedOrHated, RatingTable, Stars, Treatment
from simdb.results import Key

_FIELD_LIMIT = 128 * 2**10  # bytes; of the csv module where nobody has changed it
_DELIMITERS = (",", ";", "\t", "|")  # that a header may tell
_NAMED_DELIMITER = re.compile(rb'(?:\xef\xbb\xbf)?"?(?i:sep)=([\t -!#-~])"?[\r\n]')
# A header that has come whole, or a line before it that names the delimiter. A quotation mark opens
# a quoted field at its start only.
_HEADER = re.compile(
    rb'(?:\xef\xbb\xbf)?+[\r\n]*+(?:"[^"]*+"|[,;\t|]|[^",;\t|\r\n][^,;\t|\r\n]*+)++[\r\n]'
)
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
# What a quotation mark means next, by what stands before it: at the start of a field it opens a
# quoted one, within a plain one it is a character, within a quoted one it closes.
_AT_START, _IN_PLAIN, _IN_QUOTED = b"", b"x", b'"'


@cache
def _closed(delimiter: bytes) -> re.Pattern[bytes]:
    mark = re.escape(delimiter)
    return re.compile(rb'"[^"]*"|[^"%b][^%b]*|%b' % (mark, mark, mark))


def _place_after(place: bytes, part: bytes, delimiter: bytes = b",") -> bytes:
    """Return where a record stands after a line, or a portion of one, that began at a place.

    After the closing mark of a quoted field comes a comma, the end, or what goes on as a plain
    field; another mark opens it again (two of them are one of its characters). That is as at the
    start of a field, so the two are one place here.
    """
    before = place + part
    if b'"' not in before:
        return _AT_START if before[-1:] in (b"", delimiter) else _IN_PLAIN
    if _closed(delimiter).sub(b"", before):  # nothing is left of what is closed
        return _IN_QUOTED
    return _AT_START if _closed(delimiter).sub(b"", before + b'"') else _IN_PLAIN


def iter_records(
    stream: InputStream, *, longest: int = LONGEST_RECORD, delimiter: str = ","
) -> Iterator[tuple[int, bytes, str | None]]:
    r"""Yield each record: number of its first line, its bytes, and what is wrong with it.

    Lines end with ``\n``, ``\r\n`` or ``\r``, as ``csv`` has it. Joined, the records are the input
    (but for those longer than ``longest``, whose bytes are dropped while their end is found).
    """
    first = line = 1
    parts: list[bytes] = []
    length = 0
    place = _AT_START
    mark = delimiter.encode()

    def record(problem: str | None = None) -> tuple[int, bytes, str | None]:
        too_long = f"longer than {longest} bytes" if length > longest else None
        return first, b"".join(parts), too_long or problem

    held = b""  # what ends a line alone, or with what the next portion begins with
    for read, complete in stream.lines(longest):
        portion, held = held + read, b""
        if not complete and portion.endswith(b"\r"):
            portion, held = portion[:-1], b"\r"
        several = portion.splitlines(keepends=True) if b"\r" in portion else [portion]
        for number, part in enumerate(several, 1):
            ends = complete or number < len(several) or part.endswith(b"\r")
            length += len(part)
            parts.append(part)
            if length > longest:
                parts.clear()
            # A byte order mark is no character of the first field.
            seen = part.removeprefix(BYTE_ORDER_MARK) if length == len(part) and line == 1 else part
            place = _place_after(place, seen, mark)
            line += ends and part.endswith((b"\n", b"\r"))
            if ends and place != _IN_QUOTED:
                yield record()
                first, length, place = line, 0, _AT_START
                parts.clear()
    if length:
        yield record("the file ends inside a quoted field" if place == _IN_QUOTED else None)


def delimiter_of(source: str, options: ReadingOptions) -> str:
    """Return what stands between the fields of a CSV file."""
    by_name = "\t" if plain_name(source).lower().endswith(".tsv") else ","
    return options.delimiter or by_name


def delimiter_in_words(delimiter: str) -> str:
    """Return what stands between fields, for a message."""
    return "a tab" if delimiter == "\t" else repr(delimiter)


class _CsvReader(StreamReader):
    """Rows of one stream whose records are those of CSV; empty lines are no rows."""

    line_ends = (b"\n", b"\r")
    delimiter: str

    def __init__(self, stream: InputStream, options: ReadingOptions) -> None:
        super().__init__(stream, options)
        self.delimiter = delimiter_of(stream.name, options)

    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        longest = self.options.longest
        return iter_records(self._stream, longest=longest, delimiter=self.delimiter)

    def _is_blank(self, raw: bytes) -> bool:
        return not raw.strip(b"\r\n")

    def _values(self, raw: bytes) -> list[str]:
        """Return the fields of a record; what is no CSV raises RowProblemError."""
        # The module's limit of 128 KiB a field is one for the whole process: it is only raised.
        if len(raw) > _FIELD_LIMIT:
            csv.field_size_limit(max(csv.field_size_limit(), len(raw)))
        text = decoded(raw, self.options.encoding)
        try:
            return next(csv.reader((text,), delimiter=self.delimiter))
        except csv.Error as error:
            raise RowProblemError(f"not CSV: {error}") from None


class SeparatedReader(_CsvReader, NamedFieldsReader):
    """Rows of a CSV file whose first record names the fields; all values are text.

    Separated by commas, or the delimiter of the options, quoted by ``"``, as ``csv.reader`` reads
    it. A row with more or fewer fields than the header is a problem. As Excel writes them, a line
    before the header may name the delimiter (``sep=;``), and several columns at the end may have
    neither names nor values.
    """

    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        """Yield the records after the header, which is read here."""
        self._take_delimiter()
        for line, raw, problem in super()._records():
            if self.header is not None:
                yield line, raw, problem
            else:
                names_delimiter = line == 1 and _NAMED_DELIMITER.match(raw)
                bare = raw.removeprefix(BYTE_ORDER_MARK) if line == 1 else raw
                is_blank = problem is None and self._is_blank(bare)
                if not is_blank:
                    self.preamble += raw
                if not (is_blank or names_delimiter):
                    self._take_header(line, raw, problem)

    def _take_delimiter(self) -> None:
        """Take another delimiter than the usual one if only it makes the fields of the header.

        None that the user names is doubted, nor one that the file does; none is taken that lacks a
        field that is read.
        """
        if self.options.delimiter is not None:
            return
        wanted = set(self._wanted())
        peeked = self._stream.peek(_HEADER)
        named = _NAMED_DELIMITER.match(peeked)
        if named is not None:
            self.delimiter = named[1].decode()
            return
        if len(peeked) > _FIELD_LIMIT:
            csv.field_size_limit(max(csv.field_size_limit(), len(peeked)))
        begin = peeked.decode(self.options.encoding, "replace").lstrip("\ufeff\r\n")
        for mark in dict.fromkeys([self.delimiter, *_DELIMITERS]):
            header = next(csv.reader(io.StringIO(begin, newline=""), delimiter=mark), [])
            if wanted <= set(header) and len(header) > self.options.any_fields:
                if mark != self.delimiter:
                    told = delimiter_in_words(mark)
                    self.notes.append(f"{self.source}: {told} separates its fields, by its header")
                self.delimiter = mark
                return

    def _wanted(self) -> list[str]:
        """Return the fields that the header must name."""
        named = (*self.options.text_fields, self.options.id_field)
        return [] if self.options.any_fields else [name for name in named if name is not None]

    def _take_header(self, line: int, raw: bytes, problem: str | None) -> None:
        """Read the names of the fields; without them no row can be read, so here it ends."""
        names: list[str] = []
        try:
            names = self._values(raw.removeprefix(BYTE_ORDER_MARK) if line == 1 else raw)
        except RowProblemError as error:
            problem = problem or str(error)
        if names[-2:] == ["", ""]:
            named = max((place for place, name in enumerate(names, 1) if name), default=0)
            names, self.unnamed = names[:named], len(names) - named
        if problem is None and len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            problem = f"the header names the field {twice!r} twice"
        for name in self._wanted():
            if problem is None and name not in names:
                known = named_shortly(names)
                problem = f"the header has no field {name!r}; it has {known}"
                problem += self._split_otherwise(raw, names) or self.options.way_to_name(name)
        if problem is not None:
            raise BadItemError(f"{self.place(line)}: {problem}")
        self.header = tuple(names)

    def _split_otherwise(self, raw: bytes, names: list[str]) -> str:
        """Say by which other delimiter a header has more fields, if by one, for a message."""
        text = raw.removeprefix(BYTE_ORDER_MARK).decode(self.options.encoding, "replace").strip()
        for mark in _DELIMITERS if len(names) == 1 else ():
            split = next(csv.reader((text,), delimiter=mark), [])
            if len(split) > 1:
                known = named_shortly(split)
                return f" (split at {delimiter_in_words(mark)} it has {known})"
        return ""

    def fields_of(self, raw: bytes) -> dict[str, str]:
        """Return the fields of a record by the names of the header."""
        header = self.header or ()
        values = self._values(raw)
        width = len(header) + self.unnamed
        if len(header) < len(values) <= width:  # Excel leaves some of what is empty out
            values, beyond = values[: len(header)], values[len(header) :]
            for column, value in enumerate(beyond, len(header) + 1):
                if value:
                    problem = f"a value in column {column}, which the header does not name"
                    raise RowProblemError(problem)
        if len(values) != len(header):
            raise RowProblemError(f"{len(values)} fields, but the header has {width}")
        return dict(zip(header, values, strict=True))

    def _elements(self, name: str, value: str) -> list[Any]:
        return self.tokens.split(value)

    def _part(self, name: str, value: str) -> Item:
        kind = self.options.kind
        try:
            item: Item
            if kind.of_tokens:
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


class LinesReader(StreamReader):
    """Rows of a file with one item a line: tokens between white space, or a separator.

    They are the elements of a set or bag, in which what occurs twice is twice, the components of a
    vector, or bits. ``options.id_field`` is the place of the token that is the key, from 1; without
    it the line number is the key. This is the format of the FIMI repository. Of kinds whose items
    are lines as they stand nothing is cut.
    """

    def fields_of(self, raw: bytes) -> list[str]:
        """Cut a line into tokens."""
        line = decoded(raw, self.options.encoding)
        if self.options.kind.of_lines:
            return [line.removesuffix("\n").removesuffix("\r")]
        return self.tokens.split(line)

    def _key(self, fields: list[str], line: int) -> Key:
        """Return the key and take it out of the tokens."""
        if self.options.id_field is None:
            return line
        place = int(self.options.id_field)
        if place > len(fields):
            raise RowProblemError(f"{len(fields)} tokens, but the key is token number {place}")
        key = fields.pop(place - 1)
        return whole_number(key) if self.options.integer_keys else key

    def _item(self, fields: list[str]) -> Item:
        if self.options.kind.of_elements:
            return self.tokens.typed(fields)
        if self.options.kind.of_lines:
            text: Item = self.options.kind.item_of_text(*fields)
            return text
        item: Item = self.options.kind.item_of_tokens(fields)
        return item

    def item_in(self, raw: bytes) -> Item:
        """Return the item of a row without problem."""
        tokens = self.fields_of(raw)
        self._key(tokens, 0)
        return self._item(tokens)

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the item of a row without problem, under the name that the options give it."""
        return {self.options.text_fields[0]: self.item_in(raw)}


class BasketReader(_CsvReader, LinesReader):
    """Rows of a CSV file without header: the fields of a record are the tokens.

    Records may differ in length. White space around a field does not count, empty fields are none.
    """

    def fields_of(self, raw: bytes) -> list[str]:
        """Return the fields of a record."""
        return present(self._values(raw))


def treatment_from(text: str) -> Treatment:
    """Return what a text of the command line wants made of ratings.

    ``liked:4`` keeps ratings of at least 4; ``liked-hated:4,2`` tells those from ratings of at most
    2; ``stars`` makes as many copies as there are stars.
    """
    name, _, given = text.partition(":")
    numbers = [Fraction(number) for number in given.split(",") if _NUMBER.fullmatch(number)]
    if text == "stars":
        return Stars()
    if len(numbers) == given.count(",") + 1:
        if name == "liked" and len(numbers) == 1:
            return Liked(numbers[0])
        if name == "liked-hated" and len(numbers) == 2:
            return LikedOrHated(*numbers)
    raise ConfigurationError(
        f"ratings must be 'liked:LEAST', 'liked-hated:LEAST,MOST' or 'stars', not {shortened(text)}"
    )


class RatingsReader(RowReader):
    """Rows of a CSV file of ratings: one set or bag a value of the key's field.

    The file is read whole before the first set is complete; ratings that cannot be read are rows
    with a problem before that. A row of a set has the line of its first rating, and all its ratings
    as ``raw`` where that is needed. Sets and bags come in the order of their first ratings.
    """

    def __init__(self, stream: InputStream, options: ReadingOptions) -> None:
        super().__init__(stream.name, options, stream)
        # Of a single rating the rated is a text; it becomes a string or an integer here.
        single = replace(options, kind=Text(), ratings=None, metadata=True)
        self._ratings = SeparatedReader(stream, single)
        self._table = RatingTable(options.ratings or Stars())

    def __iter__(self) -> Iterator[Row]:
        lines: dict[Key, int] = {}
        raws: dict[Key, list[bytes]] = {}
        for row in self._ratings:
            self._take_beginning()
            problem = row.problem or self._take(row)
            if problem is not None or row.key is None:
                yield replace(row, item=None, metadata=None, problem=problem)
                continue
            lines.setdefault(row.key, row.line)
            if self.options.raw:
                # The last record of a file may lack the end of its line.
                ended = row.raw if row.raw.endswith((b"\n", b"\r")) else row.raw + b"\n"
                raws.setdefault(row.key, []).append(ended)
        self._take_beginning()
        self.notes = self._ratings.notes
        for key in self._table:
            counts = self._table.counts(key)
            item = dict(counts) if self.options.kind.of_counts else list(counts)
            yield Row(lines[key], key, item, None, b"".join(raws.pop(key, ())))

    def _take_beginning(self) -> None:
        """Take what is known of the file before its first row."""
        read = self._ratings
        self.preamble, self.header, self.delimiter = read.preamble, read.header, read.delimiter
        self.unnamed = read.unnamed

    def _take(self, row: Row) -> str | None:
        """Take a rating into the table; return what is wrong with it."""
        rating = (row.metadata or {}).get(self.options.rating_field)
        if rating is None:
            return f"the field {self.options.rating_field!r} is missing"
        if not _NUMBER.fullmatch(rating):
            return f"the rating {shortened(rating)} is not a number"
        assert row.key is not None
        assert isinstance(row.item, str)
        try:
            (rated,) = self.tokens.typed([row.item])
            self._table.add(row.key, rated, Fraction(rating))
        except (RowProblemError, BadItemError) as problem:
            return str(problem)
        return None

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the ratings of a row, each by the names of the header."""
        names = self.header or ()
        text = io.StringIO(raw.decode(self.options.encoding), newline="")
        records = csv.reader(text, delimiter=self._ratings.delimiter)
        named = [record[: len(names)] for record in records]
        return {"ratings": [dict(zip(names, record, strict=True)) for record in named]}

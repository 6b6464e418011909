"""Rows of an input: what one is, how inputs are to be read, and what all readers share.

A row that cannot be read is a row with a problem, never an exception: its line number reaches the
user, and the rows around it are not lost.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Self, TypeAlias

import numpy.typing as npt
from msgspec import Struct, field

from simdb.arguments import WHOLE_NUMBER
from simdb.errors import BadItemError, ConfigurationError, Remedy
from simdb.files.compression import InputStream
from simdb.kinds import Kind, Text
from simdb.kinds.base import Format, shortened
from simdb.kinds.ratings import Stars, Treatment
from simdb.kinds.whole import WholeRows, whole_row
from simdb.late import cached_property
from simdb.ragged import Column
from simdb.results import Key

Elements: TypeAlias = Literal["auto", "integers", "strings"]
MadeKeys: TypeAlias = Literal["content", "place"]
# The class depends on the kind; a record is a mapping of its fields.
Item: TypeAlias = str | int | bytes | list[Any] | dict[Any, Any] | npt.NDArray[Any]

# A file without line ends, or a CSV file with one stray quote, is one endless record.
LONGEST_RECORD = 64 * 2**20

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NAMES_TOLD, _LONGEST_NAME = 20, 60

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

KINDS_OF_VALUES = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    bytes: "bytes",  # of a table
}


def kind_of_value(value: object) -> str:
    """Say what a value of a field is; that of a table may be any object."""
    return KINDS_OF_VALUES.get(type(value), f"of the type {type(value).__name__}")


class Row(Struct, frozen=True):
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


class ReadingOptions(Struct, frozen=True):
    """How rows are taken from an input.

    Attributes:
        text_fields: the fields that are the item; several texts are joined by a line end, several
            sets united, several bags added up, several vectors and bit vectors put one behind the
            other. Of a record, all the fields that it may have. Only whole rows may have none.
        id_field: the field that is the key; None makes the line number the key. In lines and
            baskets, the place of the token that is the key, from "1".
        format: None tells it from the file's name.
        unnamed: the format of standard input and of files whose name tells none; by default the
            first is JSON lines, and the others are an error.
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
        delimiter: what stands between the fields of CSV; None is a comma, or a tab in files whose
            name ends in ``.tsv``.
        encoding: of text: UTF-8, or one of a byte a character that holds ASCII.
        metadata_field: the field that is the metadata, an object; None takes all other fields.
        columns: of tables, those that are kept besides key and item; None keeps all.
        made_keys: make the key of a row: of its bytes (``"content"``), or of the name of its input
            and its line (``"place"``).
        key_prefix: what made keys begin with.
        longest: the most bytes of a record that are read; a longer one is a problem.
        raw: whether rows need their bytes where these have to be made.
        metadata: whether rows of tables need their metadata, or which fields of these rows need.
        below: of inputs that were found in a folder or by a pattern, their paths below it, which
            tell the columns of a table that is partitioned.
        whole_rows: the fields of the item are values of any type, and the item is a set that only
            the same values give, by ``whole_row`` in these forms.
        all_fields: tables have all fields of records; else these may lack some, as those may that
            are searched for.
        any_fields: which fields there are is not known yet: rows may lack those of the item, and
            ``RowReader.fields`` reads them all.
    """

    text_fields: tuple[str, ...] = ("text",)
    id_field: str | None = None
    format: Format | None = None
    unnamed: Format | None = None
    integer_keys: bool = False
    pattern: str | None = None
    kind: Kind = field(default_factory=Text)
    ratings: Treatment | None = None
    rating_field: str = "rating"
    elements: Elements = "auto"
    separator: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    metadata_field: str | None = None
    columns: tuple[str, ...] | None = None
    made_keys: MadeKeys | None = None
    key_prefix: str = ""
    longest: int = LONGEST_RECORD
    raw: bool = True
    metadata: bool | frozenset[str] = True
    below: Mapping[str, str] = field(default_factory=dict)
    all_fields: bool = False
    any_fields: bool = False
    whole_rows: WholeRows | None = None

    def takes(self, name: str) -> bool:
        """Whether a field that is neither the key nor the item is wanted as metadata."""
        return self.metadata if isinstance(self.metadata, bool) else name in self.metadata

    def __post_init__(self) -> None:
        if not self.text_fields and self.whole_rows is None:
            raise ConfigurationError("text_fields must name at least one field")
        if self.id_field in self.text_fields:
            raise ConfigurationError(f"{self.id_field!r} cannot be both the key and the item")
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
        if self.delimiter is not None and not re.fullmatch(r"[\t -!#-~]", self.delimiter):
            raise ConfigurationError(
                "the delimiter must be one ASCII character other than a quote, not "
                f"{self.delimiter!r}"
            )
        if not _is_bytewise(self.encoding):
            raise ConfigurationError(
                "the encoding must be utf-8, or one that extends ASCII with one byte for "
                "each character, such "
                f"as latin-1 or cp1252, not {self.encoding!r}"
            )
        if self.metadata_field in {self.id_field, *self.text_fields} - {None}:
            raise ConfigurationError(
                f"{self.metadata_field!r} cannot be the metadata and the key or the item as well"
            )
        if self.made_keys is not None and self.id_field is not None:
            raise ConfigurationError("keys are either made or taken from a field, not both")
        is_place = re.fullmatch(r"[1-9][0-9]{0,8}", "1" if self.id_field is None else self.id_field)
        if self.format in ("lines", "baskets") and not is_place:
            raise ConfigurationError(
                f"{self.format} have no names: give the key's place, counted from 1, not "
                f"{self.id_field!r}"
            )
        if self.format == "lines" and self.kind.of_lines and self.id_field is not None:
            raise ConfigurationError(
                f"lines of {self.kind.plural} contain no keys: the line numbers are the keys",
                remedies=[Remedy("make_keys", ..., "makes others")],
            )
        if self.ratings is not None:
            self._require_ratings()

    def read_names(self) -> set[str]:
        """Return the names of key, item and kept columns, those of fields by their objects."""
        named = {name.partition(".")[0] for name in (*self.text_fields, self.id_field or "")}
        return {*named, *self.text_fields, self.id_field or "", *(self.columns or ())}

    def way_to_name(self, name: str) -> str:
        """Return the option for a field of the item that nobody named, as the end of a message."""
        if self.kind.field_names is not None or name != self.kind.name:
            return ""
        return f"; --{'text' if name == 'text' else 'item'}-field names that of the item"

    def _require_ratings(self) -> None:
        as_bags = isinstance(self.ratings, Stars)
        if not self.kind.of_elements or self.kind.of_counts != as_bags:
            raise ConfigurationError(
                f"ratings as {type(self.ratings).__name__} make {'bags' if as_bags else 'sets'}, "
                f"not {self.kind.plural}"
            )
        if self.format not in (None, "csv"):
            raise ConfigurationError(f"ratings are read from CSV, not from {self.format}")
        names = [self.id_field, self.rating_field, *self.text_fields]
        if None in names or len(set(names)) != 3:
            raise ConfigurationError(
                "ratings need three different fields: the key, the item and the rating, not "
                f"{', '.join(map(repr, names))}"
            )


def _is_bytewise(encoding: str) -> bool:
    """Whether bytes of ASCII mean themselves in an encoding, wherever they stand."""
    every = bytes(range(256))
    try:
        if codecs.lookup(encoding).name == "utf-8":
            return True
        characters = every.decode(encoding, "replace")
    except LookupError:
        return False
    # Encodings with escapes have no character for a byte of the upper half alone.
    ascii_as_it_is = len(characters) == 256 and characters[:128] == every[:128].decode()
    return ascii_as_it_is and set(characters[128:]) != {"\ufffd"}


def whole_number(text: str) -> int:
    """Return the whole number that a key's text spells, in its one canonical spelling.

    Other spellings (``007``, ``+7``, ``7.0``) raise RowProblemError: two keys must not become one.
    """
    if not WHOLE_NUMBER.fullmatch(text):
        raise RowProblemError(f"the key {shortened(text)} is not a whole number")
    return int(text)


def decoded(raw: bytes, encoding: str = "utf-8") -> str:
    """Return bytes as text; bytes that are none raise RowProblemError."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        hint = "; this is the mark of UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise RowProblemError(
            f"not {encoding.upper()}: byte 0x{raw[error.start]:02x} at position {error.start}{hint}"
        ) from None


class Tokens:
    """Cuts text into the elements of sets.

    What ``"auto"`` means is decided by the first set or bag that has elements, for all of the
    input: were it decided set by set, ``1 2 3`` and ``1 2 x`` would have nothing in common.

    Attributes:
        elements: ``"integers"`` or ``"strings"``; ``"auto"`` until it is decided.
    """

    def __init__(self, options: ReadingOptions) -> None:
        self.elements: Elements = options.elements
        self._separator = options.separator
        self._told = options.elements != "auto"

    def split(self, text: str) -> list[str]:
        """Cut text at white space, or at the separator; what is empty then is no token."""
        if self._separator is None:
            return text.split()
        return present(text.split(self._separator))

    def take_example(self, elements: list[Any]) -> None:
        """Let a bag whose elements have types decide what ``"auto"`` means, if nothing has."""
        if self.elements == "auto" and elements:
            self.elements = "strings" if isinstance(elements[0], str) else "integers"

    def typed(self, tokens: list[str]) -> list[str] | list[int]:
        """Return tokens as the elements that they stand for."""
        if self.elements == "auto" and tokens:
            integers = all(_is_integer(token) for token in tokens)
            self.elements = "integers" if integers else "strings"
        if self.elements != "integers":
            return tokens
        if all(map(WHOLE_NUMBER.fullmatch, tokens)):
            return list(map(int, tokens))
        wrong = next(token for token in tokens if not WHOLE_NUMBER.fullmatch(token))
        hint = ", as those before it are; where that is not meant, take all as strings"
        if self._told:
            hint = ""
        raise RowProblemError(f"the element {shortened(wrong)} is not a whole number{hint}")


def present(tokens: list[str]) -> list[str]:
    """Return tokens without white space around them, and without those that are empty then."""
    return [stripped for token in tokens if (stripped := token.strip())]


def _is_integer(token: str) -> bool:
    return bool(WHOLE_NUMBER.fullmatch(token)) and _SMALLEST <= int(token) <= _LARGEST


class ColumnRows(ABC):
    """Successive rows of an input that can be read column by column.

    Attributes:
        lines, keys: one for each.
    """

    lines: Sequence[int]
    keys: Sequence[Key]

    @abstractmethod
    def cut(self, begin: int, end: int) -> Self:
        """Return some of the rows."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How many bytes they take, about."""

    @property
    @abstractmethod
    def raws(self) -> Sequence[bytes]:
        """The bytes of each row, as ``Row`` has them."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield the rows one by one."""

    @abstractmethod
    def is_like(self, other: ColumnRows) -> bool:
        """Whether the items of both can be one column."""

    @abstractmethod
    def item_column(self, others: Sequence[Self]) -> Column | None:
        """Return the items, and those of others like these after them, None for no such column."""

    @abstractmethod
    def metadata_of_rows(self) -> list[dict[str, Any] | None] | None:
        """Return the metadata of each row, if there are any."""


class RowReader(ABC):
    """Rows of one input in order, as an iterable and a context manager; it is read once.

    Attributes:
        source: the name of the input as the user gave it.
        preamble: the bytes before the first row (byte order mark, CSV header), known once the
            first row was read.
        header: the names of the fields in order where the input names them once, else None.
        delimiter: what stands between the fields of CSV, known once the first row was read; else
            None.
        unnamed: columns at the end of CSV that have neither names nor values.
        tokens: what cuts text into the elements of sets, and knows what they are here.
        stream: the bytes that are read; None where they are not those of one file.
        notes: what the user should know of how the input was read, as far as it was.
        line_ends: what ends a row, so that another can follow it.
        is_array: whether the rows are the elements of a JSON array.
    """

    line_ends: tuple[bytes, ...] = (b"\n",)

    def __init__(
        self, source: str, options: ReadingOptions, stream: InputStream | None = None
    ) -> None:
        self.source = source
        self.options = options
        self.stream = stream
        self.preamble = b""
        self.tokens = Tokens(options)
        self.header: tuple[str, ...] | None = None
        self.delimiter: str | None = None
        self.unnamed = 0
        self.is_array = False
        self.notes: list[str] = []

    @abstractmethod
    def __iter__(self) -> Iterator[Row]:
        """Yield every row; one that cannot be read carries its problem."""

    def blocks(self, most_bytes: int) -> Iterator[ColumnRows | Iterator[Row]]:
        """Yield the rows in order, column by column where they can be read so.

        Args:
            most_bytes: of what is read together, about, where that can be chosen.
        """
        yield iter(self)

    @abstractmethod
    def fields(self, raw: bytes) -> Mapping[str, Any]:
        """Return all fields of a row without problem, from its ``raw`` bytes."""

    def values(self, raw: bytes) -> Mapping[str, Any]:
        """Return all fields of a row without problem as items have them."""
        return self.fields(raw)

    def item_in(self, raw: bytes) -> Item | None:
        """Return the item of a row without problem; None where its ``raw`` bytes do not hold it."""
        return None

    def place(self, line: int) -> str:
        """Return where a row stands, for a message."""
        return f"{self.source}, line {line}"

    def naming(self, key: Key) -> str:
        """Return what a message about a row says of its key, beside ``place``; mostly nothing."""
        return ""

    @property
    def bytes_read(self) -> int:
        """How many bytes of the input, as it is stored, were taken so far."""
        return 0 if self.stream is None else self.stream.position

    @property
    def bytes_total(self) -> int | None:
        """How many bytes the input has, None where that cannot be known."""
        return None if self.stream is None else self.stream.size

    def close(self) -> None:
        """Close the input, where it is one that stays open."""
        if self.stream is not None:
            self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


class StreamReader(RowReader):
    r"""Rows of one stream of bytes, cut into records: here into lines that end with ``\n``.

    A record becomes fields (``fields_of``), and these the key, the item and the metadata of a row.
    Lines of white space only are no rows but count as lines.
    """

    def __init__(self, stream: InputStream, options: ReadingOptions) -> None:
        super().__init__(stream.name, options, stream)
        self._stream = stream

    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        """Yield each record: number of its first line, its bytes, and what is wrong with it."""
        return self._stream.whole_lines(self.options.longest)

    def _is_blank(self, raw: bytes) -> bool:
        """Whether a record is no row."""
        return not raw or raw.isspace()

    def __iter__(self) -> Iterator[Row]:
        for line, record, problem in self._records():
            raw = record
            if line == 1:
                raw = record.removeprefix(BYTE_ORDER_MARK)
                self.preamble = record[: len(record) - len(raw)]
            if problem is not None:
                yield Row(line, None, None, None, raw, problem)
            elif not self._is_blank(raw):
                yield self._row(line, raw)

    def _row(self, line: int, raw: bytes) -> Row:
        try:
            return self.row_of(line, raw, self.fields_of(raw))
        except RowProblemError as problem:
            return Row(line, None, None, None, raw, str(problem))

    def row_of(self, line: int, raw: bytes, fields: Any) -> Row:
        """Return the row of a record whose fields are known."""
        key = None
        try:
            made = self.options.made_keys is not None
            key = self._made_key(line, raw) if made else self._key(fields, line)
            return Row(line, key, self._item(fields), self._metadata(fields), raw)
        except (RowProblemError, BadItemError) as problem:
            return Row(line, key, None, None, raw, str(problem))
        except RecursionError:  # of what could be read, a few calls less deep
            return Row(line, key, None, None, raw, "nested too deeply")

    def _made_key(self, line: int, raw: bytes) -> Key:
        """Return a key that the same content has everywhere, or that no other row has."""
        made = f"{os.path.normpath(self.source)}:{line}"
        if self.options.made_keys == "content":
            made = hashlib.blake2b(raw.rstrip(b"\r\n"), digest_size=16).hexdigest()
        return self.options.key_prefix + made

    def item_in(self, raw: bytes) -> Item | None:
        """Return the item of a row without problem."""
        return self._item(self.fields_of(raw))

    @abstractmethod
    def fields_of(self, raw: bytes) -> Any:
        """Return the fields of a record; raise RowProblemError where it has none."""

    @abstractmethod
    def _key(self, fields: Any, line: int) -> Key:
        """Return the key among the fields, or the line where none of them is it."""

    @abstractmethod
    def _item(self, fields: Any) -> Item:
        """Return the item among the fields."""

    def _metadata(self, fields: Any) -> dict[str, Any] | None:
        """Return what else is among the fields, None where there is nothing."""
        return None


class NamedFieldsReader(StreamReader):
    """Rows whose fields have names: key, item and metadata are told by the options."""

    @abstractmethod
    def _elements(self, name: str, value: Any) -> list[Any] | dict[Any, int]:
        """Return the elements of a set or bag in a field, or their counts."""

    @abstractmethod
    def _part(self, name: str, value: Any) -> Item:
        """Return the item, or the part of one, in a field."""

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the fields of a row without problem."""
        fields: dict[str, Any] = self.fields_of(raw)
        return fields

    def _key(self, fields: Mapping[str, Any], line: int) -> Key:
        name = self.options.id_field
        if name is None:
            return line
        key = fields[name] if name in fields else _only(fields, name)
        if isinstance(key, str):
            return whole_number(key) if self.options.integer_keys else key
        if isinstance(key, int) and not isinstance(key, bool):
            return key
        kind = "a number with a fraction" if isinstance(key, float) else kind_of_value(key)
        raise RowProblemError(
            f"the field {name!r} is {kind}, but a key must be text or a whole number"
        )

    def _item(self, fields: Mapping[str, Any]) -> Item:
        names = self.options.text_fields
        kind = self.options.kind
        if self.options.whole_rows is not None:
            return whole_row(fields, self.options.whole_rows)
        if kind.field_names is not None:  # a record, which may lack some of them, but not all
            record = {name: fields[name] for name in names if name in fields}
            for name in names:
                if "." in name and name not in record and _inside(fields, name):
                    record[name] = _only(fields, name)
            if not record:
                raise RowProblemError(f"all fields of the record are missing: {', '.join(names)}")
            return record
        if self._taken <= fields.keys():
            values = [(name, fields[name]) for name in names]
        else:  # one is of a nested object, or missing
            values = [(name, value) for name in names for value in _values(fields, name)]
        if kind.of_elements:
            return _united([self._elements(*named) for named in values])
        item: Item = kind.joined([self._part(*named) for named in values])
        return item

    def _metadata(self, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        taken = self._taken
        others: dict[str, Any] = {name: fields[name] for name in fields if name not in taken}
        if not taken <= fields.keys():
            for name in taken.difference(fields):
                if "." not in name or not _inside(fields, name):  # a field that a record lacks
                    continue
                others = _without(others, name.split("."))
        wanted = self.options.metadata_field
        if wanted is None:
            return {name: others[name] for name in others if self.options.takes(name)} or None
        metadata: Any = others.pop(wanted, None)
        if metadata is not None and not isinstance(metadata, dict):
            kind = kind_of_value(metadata)
            raise RowProblemError(f"the field {wanted!r} is {kind}, not an object")
        for name in others:
            raise RowProblemError(f"the field {name!r} is neither the key, the item nor metadata")
        return None if metadata is None else dict(metadata)

    @cached_property
    def _taken(self) -> frozenset[str]:
        """The names of key and item; whole rows are metadata, too."""
        fields = self.options.text_fields if self.options.whole_rows is None else ()
        names = (*fields, self.options.id_field)
        return frozenset(name for name in names if name is not None)


def _only(fields: Mapping[str, Any], name: str) -> Any:
    values = _values(fields, name)
    if len(values) > 1:
        raise RowProblemError(
            f"the field {name!r} has {len(values)} values, but only one is expected"
        )
    return values[0]


def _values(fields: Mapping[str, Any], name: str) -> list[Any]:
    """Return the value of a field, or those of b in the object or list of objects in ``a.b``."""
    if name in fields:
        return [fields[name]]
    found = _inside(fields, name)
    if not found:
        known = "" if "." in name else f"; the row has {named_shortly(fields)}"
        raise RowProblemError(f"the field {name!r} is missing{known}")
    return found


def _inside(fields: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values of b in the object or list of objects in ``a.b``; none where one lacks."""
    found: list[Any] = [fields]
    for part in name.split("."):
        inner = [each for one in found for each in (one if isinstance(one, list) else [one])]
        if not all(isinstance(one, Mapping) and part in one for one in inner):
            return []
        found = [one[part] for one in inner]
    return found


def named_shortly(fields: Collection[str]) -> str:
    """Return the names of the first fields, for a message."""
    names = [
        repr(name) if len(name) <= _LONGEST_NAME else shortened(name, _LONGEST_NAME)
        for name in islice(fields, _NAMES_TOLD)
    ]
    return ", ".join(names + ["..."] * (len(fields) > _NAMES_TOLD)) or "none"


def _without(value: Any, path: list[str]) -> Any:
    """Return a copy of nested objects in which what a path leads to is left out."""
    if isinstance(value, list):
        return [_without(part, path) for part in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    others = {name: part for name, part in value.items() if name != path[0]}
    inner = _without(value[path[0]], path[1:]) if len(path) > 1 else None
    return {**others, path[0]: inner} if inner else others


def _united(parts: list[list[Any] | dict[Any, int]]) -> list[Any] | dict[Any, int]:
    """Return the elements of several fields together; counts are added up."""
    if len(parts) == 1:
        return parts[0]
    if not any(isinstance(part, dict) for part in parts):
        return [element for part in parts for element in part]
    counts: Counter[Any] = Counter()
    for part in parts:
        counts.update(part)
    return dict(counts) if counts else []

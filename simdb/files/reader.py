"""What every reader of rows has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from simdb.errors import BadItemError
from simdb.files.compression import InputStream
from simdb.files.rows import (
    BYTE_ORDER_MARK,
    LONGEST_RECORD,
    Item,
    ReadingOptions,
    Row,
    RowProblemError,
    whole_number,
)
from simdb.files.tokens import Tokens
from simdb.kinds.base import Format
from simdb.results import Key

KINDS_OF_VALUES = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


class RowReader(ABC):
    """Rows of one input in order, as an iterable and a context manager; it is read once.

    Attributes:
        source: the name of the input as the user gave it.
        preamble: the bytes before the first row (byte order mark, CSV header), known once the
            first row was read.
        header: the names of the fields in order where the input names them once, else None.
        tokens: what cuts text into the elements of sets, and knows what they are here.
    """

    format: ClassVar[Format]

    def __init__(self, source: str, options: ReadingOptions) -> None:
        self.source = source
        self.options = options
        self.preamble = b""
        self.tokens = Tokens(options)
        self.header: tuple[str, ...] | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Row]:
        """Yield every row; one that cannot be read carries its problem."""

    @abstractmethod
    def fields(self, raw: bytes) -> Mapping[str, Any]:
        """Return all fields of a row without problem, from its ``raw`` bytes."""

    def place(self, line: int) -> str:
        """Return where a row stands, for a message."""
        return f"{self.source}, line {line}"

    def naming(self, key: Key) -> str:
        """Return what a message about a row says of its key, beside ``place``; mostly nothing."""
        return ""

    @property
    def bytes_read(self) -> int:
        """How many bytes of the input, as it is stored, were taken so far."""
        return 0

    @property
    def bytes_total(self) -> int | None:
        """How many bytes the input has, None where that cannot be known."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Close the input."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class StreamReader(RowReader):
    """Rows of one stream of bytes, cut into records.

    A record becomes fields (``fields_of``), and these the key, the item and the metadata of a row.
    """

    def __init__(
        self, stream: InputStream, options: ReadingOptions, *, longest: int = LONGEST_RECORD
    ) -> None:
        super().__init__(stream.name, options)
        self._stream = stream
        self._longest = longest

    @abstractmethod
    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        """Yield each record: number of its first line, its bytes, and what is wrong with it."""

    @abstractmethod
    def _is_blank(self, raw: bytes) -> bool:
        """Return whether a record is no row."""

    def __iter__(self) -> Iterator[Row]:
        for line, record, problem in self._records():
            raw = self._without_mark(line, record)
            if problem is not None:
                yield Row(line, None, None, None, raw, problem)
            elif not self._is_blank(raw):
                yield self._row(line, raw)

    def _without_mark(self, line: int, record: bytes) -> bytes:
        if line > 1:
            return record
        raw = record.removeprefix(BYTE_ORDER_MARK)
        self.preamble = record[: len(record) - len(raw)]
        return raw

    def _row(self, line: int, raw: bytes) -> Row:
        key = None
        try:
            fields = self.fields_of(raw)
            key = self._key(fields, line)
            return Row(line, key, self._item(fields), self._metadata(fields), raw)
        except (RowProblemError, BadItemError) as problem:
            return Row(line, key, None, None, raw, str(problem))

    @abstractmethod
    def fields_of(self, raw: bytes) -> Any:
        """Return the fields of a record; raise RowProblemError where it has none."""

    @abstractmethod
    def _key(self, fields: Any, line: int) -> Key:
        """Return the key among the fields, or the line where they have none."""

    @abstractmethod
    def _item(self, fields: Any) -> Item:
        """Return the item among the fields."""

    def _metadata(self, fields: Any) -> dict[str, Any] | None:
        """Return what else is among the fields, None where there is nothing."""
        return None

    @property
    def bytes_read(self) -> int:
        """How many bytes of the input, as it is stored, were taken so far."""
        return self._stream.position

    @property
    def bytes_total(self) -> int | None:
        """How many bytes the input has, None where that cannot be known."""
        return self._stream.size

    def close(self) -> None:
        """Close the input."""
        self._stream.close()


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
        """Return the key among a row's fields, or its line where no field is the key."""
        name = self.options.id_field
        if name is None:
            return line
        key = _field(fields, name)
        if isinstance(key, str):
            return whole_number(key) if self.options.integer_keys else key
        if isinstance(key, int) and not isinstance(key, bool):
            return key
        kind = "a number with a fraction" if isinstance(key, float) else KINDS_OF_VALUES[type(key)]
        raise RowProblemError(f"the field {name!r} is {kind}, but a key is text or a whole number")

    def _item(self, fields: Mapping[str, Any]) -> Item:
        names = self.options.text_fields
        kind = self.options.kind
        if kind.field_names is not None:
            return _record(fields, names)
        values = [_field(fields, name) for name in names]
        parts = zip(names, values, strict=True)
        if kind.of_elements:
            return _united([self._elements(*each) for each in parts])
        item: Item = kind.joined([self._part(*each) for each in parts])
        return item

    def _metadata(self, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        taken = {*self.options.text_fields, self.options.id_field}
        return {name: value for name, value in fields.items() if name not in taken} or None


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise RowProblemError(f"the field {name!r} is missing")
    return fields[name]


def _record(fields: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that are the record; it may lack some of them, but not all."""
    record = {name: fields[name] for name in names if name in fields}
    if not record:
        raise RowProblemError(f"none of the record's fields is there: {', '.join(names)}")
    return record


def _united(parts: list[list[Any] | dict[Any, int]]) -> list[Any] | dict[Any, int]:
    """Return the elements of several fields together; counts are added up."""
    if len(parts) == 1:
        return parts[0]
    elements: list[Any] = []
    counts: dict[Any, int] = {}
    for part in parts:
        if isinstance(part, list):
            elements += part
        else:
            for element, count in part.items():
                counts[element] = counts.get(element, 0) + count
    if not counts:
        return elements
    for element in elements:
        counts[element] = counts.get(element, 0) + 1
    return counts

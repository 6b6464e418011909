"""What every reader of rows has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from simdb.datatypes import Key
from simdb.interchange.rows import Format, ReadingOptions, Row, RowProblemError, whole_number
from simdb.interchange.tokens import Tokens

_KINDS = {
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


def item_of(fields: Mapping[str, Any], options: ReadingOptions) -> str | list[Any]:
    """Return the item among a row's fields; raise RowProblemError where there is none."""
    if options.kind == "set":
        return _set_of(fields, options)
    texts = []
    for name in options.text_fields:
        if name not in fields:
            raise RowProblemError(f"the field {name!r} is missing")
        text = fields[name]
        if not isinstance(text, str):
            raise RowProblemError(f"the field {name!r} is {_KINDS[type(text)]}, not text")
        texts.append(text)
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def _set_of(fields: Mapping[str, Any], options: ReadingOptions) -> list[Any]:
    elements: list[Any] = []
    for name in options.text_fields:
        if name not in fields:
            raise RowProblemError(f"the field {name!r} is missing")
        if not isinstance(fields[name], list):
            raise RowProblemError(f"the field {name!r} is {_KINDS[type(fields[name])]}, not a list")
        elements += fields[name]
    return elements


def key_of(fields: Mapping[str, Any], options: ReadingOptions, line: int) -> Key:
    """Return the key among a row's fields, or its line number where no field is the key."""
    name = options.id_field
    if name is None:
        return line
    if name not in fields:
        raise RowProblemError(f"the field {name!r} is missing")
    key = fields[name]
    if isinstance(key, str):
        return whole_number(key) if options.integer_keys else key
    if isinstance(key, int) and not isinstance(key, bool):
        return key
    kind = "a number with a fraction" if isinstance(key, float) else _KINDS[type(key)]
    raise RowProblemError(f"the field {name!r} is {kind}, but a key is text or a whole number")


def metadata_of(fields: Mapping[str, Any], options: ReadingOptions) -> dict[str, Any] | None:
    """Return the fields that are neither key nor item, None where there are none."""
    taken = {*options.text_fields, options.id_field}
    return {name: value for name, value in fields.items() if name not in taken} or None

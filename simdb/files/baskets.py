"""One item a line: tokens between blanks, or the fields of a CSV record without header.

The tokens are the elements of a set or bag, the components of a vector, or bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from simdb.files.compression import InputStream
from simdb.files.rows import (
    LONGEST_RECORD,
    Item,
    ReadingOptions,
    RowProblemError,
    StreamReader,
    decoded,
    present,
    whole_number,
)
from simdb.files.separated import iter_records, values_of
from simdb.kinds.base import Format
from simdb.results import Key


class _TokensReader(StreamReader):
    """Rows that are nothing but tokens; what occurs twice is twice in a bag.

    ``options.id_field`` is the place of the token that is the key, from 1; without it the line
    number is the key. Empty lines are no rows but count as lines.
    """

    def __init__(
        self, stream: InputStream, options: ReadingOptions, *, longest: int = LONGEST_RECORD
    ) -> None:
        super().__init__(stream, options, longest=longest)
        self._key_place = None if options.id_field is None else int(options.id_field) - 1

    @abstractmethod
    def fields_of(self, raw: bytes) -> list[str]:
        """Cut a row into tokens."""

    def _key(self, fields: list[str], line: int) -> Key:
        """Return the key and take it out of the tokens."""
        place = self._key_place
        if place is None:
            return line
        if place >= len(fields):
            raise RowProblemError(f"{len(fields)} tokens, of which number {place + 1} is the key")
        key = fields.pop(place)
        return whole_number(key) if self.options.integer_keys else key

    def _item(self, fields: list[str]) -> Item:
        if self.options.kind.of_elements:
            return self.tokens.typed(fields)
        item: Item = self.options.kind.item_of_tokens(fields)
        return item

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the item of a row without problem, under the name that the options give it."""
        tokens = self.fields_of(raw)
        self._key(tokens, 0)
        return {self.options.text_fields[0]: self._item(tokens)}


class LinesReader(_TokensReader):
    r"""Rows of a file with one item a line, its parts between white space or a separator.

    Lines end with ``\n``. This is the format of the FIMI repository.
    """

    format: ClassVar[Format] = "lines"

    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        return self._stream.whole_lines(self._longest)

    def _is_blank(self, raw: bytes) -> bool:
        return not raw or raw.isspace()

    def fields_of(self, raw: bytes) -> list[str]:
        """Cut a line into tokens."""
        return self.tokens.split(decoded(raw))


class BasketReader(_TokensReader):
    """Rows of a CSV file without header: the fields of a record are the parts of the item.

    Records may differ in length. White space around a field does not count, empty fields are none.
    """

    format: ClassVar[Format] = "baskets"

    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        return iter_records(self._stream, longest=self._longest)

    def _is_blank(self, raw: bytes) -> bool:
        return not raw.strip(b"\r\n")

    def fields_of(self, raw: bytes) -> list[str]:
        """Return the fields of a record."""
        return present(values_of(raw))

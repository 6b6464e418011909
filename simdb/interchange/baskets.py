"""One set a line: tokens between blanks, or the fields of a CSV record without header."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from simdb.datatypes import Key
from simdb.interchange.compression import InputStream
from simdb.interchange.lines import iter_lines, without_mark
from simdb.interchange.reader import RowReader
from simdb.interchange.rows import (
    LONGEST_RECORD,
    Format,
    ReadingOptions,
    Row,
    RowProblemError,
    decoded,
    whole_number,
)
from simdb.interchange.separated import iter_records, values_of
from simdb.interchange.tokens import present


class _BasketReader(RowReader):
    """Rows that are nothing but tokens.

    ``options.id_field`` is the place of the token that is the key, from 1; without it the line
    number is the key. Empty lines are no rows but count as lines.
    """

    def __init__(
        self, stream: InputStream, options: ReadingOptions, *, longest: int = LONGEST_RECORD
    ) -> None:
        super().__init__(stream.name, options)
        self._stream = stream
        self._longest = longest
        self._key_place = None if options.id_field is None else int(options.id_field) - 1

    @abstractmethod
    def _tokens(self, raw: bytes) -> list[str]:
        """Cut a row into tokens."""

    def _row(self, number: int, raw: bytes) -> Row:
        key: Key | None = None
        try:
            key, tokens = self._keyed(number, self._tokens(raw))
            return Row(number, key, self.tokens.typed(tokens), None, raw)
        except RowProblemError as problem:
            return Row(number, key, None, None, raw, str(problem))

    def _keyed(self, number: int, tokens: list[str]) -> tuple[Key, list[str]]:
        place = self._key_place
        if place is None:
            return number, tokens
        if place >= len(tokens):
            raise RowProblemError(f"{len(tokens)} tokens, of which number {place + 1} is the key")
        key = tokens.pop(place)
        return (whole_number(key) if self.options.integer_keys else key), tokens

    def _without_mark(self, number: int, raw: bytes) -> bytes:
        if number > 1:
            return raw
        marked, raw = raw, without_mark(raw)
        self.preamble = marked[: len(marked) - len(raw)]
        return raw

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the set of a row without problem, under the name that the options give it."""
        _, tokens = self._keyed(0, self._tokens(raw))
        return {self.options.text_fields[0]: self.tokens.typed(tokens)}

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


class LinesReader(_BasketReader):
    r"""Rows of a file with one set a line, its elements between white space or a separator.

    Lines end with ``\n``. This is the format of the FIMI repository.
    """

    format: ClassVar[Format] = "lines"

    def __iter__(self) -> Iterator[Row]:
        number = 1
        too_long = False
        for line, complete in iter_lines(self._stream, longest=self._longest):
            too_long = too_long or not complete
            if not complete:
                continue
            if too_long:
                yield Row(number, None, None, None, b"", f"longer than {self._longest} bytes")
            else:
                raw = self._without_mark(number, line)
                if raw and not raw.isspace():
                    yield self._row(number, raw)
            too_long = False
            number += 1

    def _tokens(self, raw: bytes) -> list[str]:
        return self.tokens.split(decoded(raw))


class BasketReader(_BasketReader):
    """Rows of a CSV file without header: the fields of a record are the elements of a set.

    Records may differ in length. White space around a field does not count, empty fields are no
    elements.
    """

    format: ClassVar[Format] = "baskets"

    def __iter__(self) -> Iterator[Row]:
        for line, record, problem in iter_records(self._stream, longest=self._longest):
            raw = self._without_mark(line, record)
            if problem is not None:
                yield Row(line, None, None, None, raw, problem)
            elif raw.strip(b"\r\n"):
                yield self._row(line, raw)

    def _tokens(self, raw: bytes) -> list[str]:
        return present(values_of(raw))

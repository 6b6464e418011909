"""Rows of JSON lines: one JSON object a line, in UTF-8."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from simdb.interchange.compression import InputStream
from simdb.interchange.lines import iter_lines, without_mark
from simdb.interchange.reader import RowReader, item_of, key_of, metadata_of
from simdb.interchange.rows import (
    LONGEST_RECORD,
    Format,
    ReadingOptions,
    Row,
    RowProblemError,
    decoded,
    shortened,
)

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonLinesReader(RowReader):
    r"""Rows of a file of JSON lines.

    Lines end with ``\n``; lines of white space only are no rows but count as lines. Stricter than
    Python's json: ``NaN``, ``Infinity``, numbers too large for a double and escapes of half a
    surrogate pair are problems. Of a name that occurs twice in an object the last value counts.
    """

    format: ClassVar[Format] = "jsonl"

    def __init__(
        self, stream: InputStream, options: ReadingOptions, *, longest: int = LONGEST_RECORD
    ) -> None:
        super().__init__(stream.name, options)
        self._stream = stream
        self._longest = longest
        self._decoder = json.JSONDecoder(
            parse_constant=_refused_constant, parse_float=_finite_number
        )

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
                raw = line
                if number == 1:
                    raw = without_mark(line)
                    self.preamble = line[: len(line) - len(raw)]
                if raw and not raw.isspace():
                    yield self._row(number, raw)
            too_long = False
            number += 1

    def _row(self, number: int, raw: bytes) -> Row:
        key = None
        try:
            fields = self.fields(raw)
            key = key_of(fields, self.options, number)
            item = item_of(fields, self.options)
            return Row(number, key, item, metadata_of(fields, self.options), raw)
        except RowProblemError as problem:
            return Row(number, key, None, None, raw, str(problem))

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the object on a line."""
        text = decoded(raw)
        try:
            fields = self._decoder.decode(text)
        except RowProblemError:
            raise
        except RecursionError:
            raise RowProblemError("nested too deeply") from None
        except json.JSONDecodeError as error:
            raise RowProblemError(f"not JSON: {error.msg} at position {error.pos}") from None
        except ValueError as error:
            raise RowProblemError(f"not JSON that can be read: {error}") from None
        if not isinstance(fields, dict):
            raise RowProblemError("not a JSON object")
        if _SURROGATE_ESCAPE.search(raw):
            _refuse_lone_surrogates(fields)
        return fields

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


def _refused_constant(name: str) -> None:
    raise RowProblemError(f"{name} is no number that JSON knows")


def _finite_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise RowProblemError(f"the number {shortened(text)} is too large")
    return number


def _refuse_lone_surrogates(fields: dict[str, Any]) -> None:
    # Escapes of whole pairs are usual and have become one character by now.
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise RowProblemError(f"half a surrogate pair: {character!a}") from None

"""Rows of JSON lines: one JSON object a line, in UTF-8."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from simdb.interchange.compression import InputStream
from simdb.interchange.lines import iter_whole_lines
from simdb.interchange.reader import KINDS_OF_VALUES, NamedFieldsReader
from simdb.interchange.rows import (
    KINDS_OF_SETS,
    LONGEST_RECORD,
    Format,
    ReadingOptions,
    RowProblemError,
    decoded,
    shortened,
)

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonLinesReader(NamedFieldsReader):
    r"""Rows of a file of JSON lines.

    Lines end with ``\n``; lines of white space only are no rows but count as lines. Stricter than
    Python's json: ``NaN``, ``Infinity``, numbers too large for a double and escapes of half a
    surrogate pair are problems. Of a name that occurs twice in an object the last value counts.
    A bag is a list with repeats, or an object of elements and counts, whose names are strings or
    integers as ``options.elements`` says: names in JSON are always text.
    """

    format: ClassVar[Format] = "jsonl"

    def __init__(
        self, stream: InputStream, options: ReadingOptions, *, longest: int = LONGEST_RECORD
    ) -> None:
        super().__init__(stream, options, longest=longest)
        self._decoder = json.JSONDecoder(
            parse_constant=_refused_constant, parse_float=_finite_number
        )

    def _records(self) -> Iterator[tuple[int, bytes, str | None]]:
        return iter_whole_lines(self._stream, longest=self._longest)

    def _is_blank(self, raw: bytes) -> bool:
        return not raw or raw.isspace()

    def fields_of(self, raw: bytes) -> dict[str, Any]:
        """Return the object on a line; of sets and bags, also a list, as the field of the item."""
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
        if isinstance(fields, list) and self.options.kind in KINDS_OF_SETS:
            fields = {self.options.text_fields[0]: fields}
        if not isinstance(fields, dict):
            raise RowProblemError("not a JSON object")
        if _SURROGATE_ESCAPE.search(raw):
            _refuse_lone_surrogates(fields)
        return fields

    def _elements(self, name: str, value: Any) -> list[Any] | dict[Any, int]:  # noqa: ANN401
        if isinstance(value, list):
            if self.options.kind == "bag":
                self.tokens.take_example(value)
            return value
        if self.options.kind == "bag" and isinstance(value, dict):
            return self._counts(name, value)
        wanted = "a list, or an object of counts" if self.options.kind == "bag" else "a list"
        raise RowProblemError(f"the field {name!r} is {KINDS_OF_VALUES[type(value)]}, not {wanted}")

    def _counts(self, name: str, value: dict[str, Any]) -> dict[Any, int]:
        for element, count in value.items():
            if type(count) is not int or count < 0:
                raise RowProblemError(
                    f"the count of {shortened(element)} in the field {name!r} is "
                    f"{shortened(str(count))}, not a whole number from 0"
                )
        return dict(zip(self.tokens.typed(list(value)), value.values(), strict=True))


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

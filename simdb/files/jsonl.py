"""Rows of JSON lines: one JSON object a line, in UTF-8."""

from __future__ import annotations

import json
import math
import os
import re
import reprlib
from dataclasses import replace
from typing import Any

from simdb.errors import BadItemError, UsageError
from simdb.files.compression import InputStream
from simdb.files.rows import (
    KINDS_OF_VALUES,
    Item,
    NamedFieldsReader,
    ReadingOptions,
    RowProblemError,
    decoded,
)
from simdb.kinds.base import shortened

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonLinesReader(NamedFieldsReader):
    """Rows of a file of JSON lines.

    Stricter than Python's json: ``NaN``, ``Infinity``, numbers too large for a double and escapes
    of half a surrogate pair are problems. Of a name that occurs twice the last value counts. A bag
    is a list with repeats, or an object of elements and counts, whose names are strings or integers
    as ``options.elements`` says: names in JSON are always text. A vector is a list of numbers
    (where several fields are one vector also a number), a bit vector a text or a list of 0 and 1 or
    a hexadecimal text, a fingerprint a list of minutiae or of squares.
    """

    def fields_of(self, raw: bytes) -> dict[str, Any]:
        """Return the object on a line; a list alone stands for the field of the item."""
        fields = self._value(raw)
        kind = self.options.kind
        alone = isinstance(fields, list) and kind.field_names is None
        if alone and kind.item_of_json(fields) is not NotImplemented:
            return {self.options.text_fields[0]: fields}
        if not isinstance(fields, dict):
            raise RowProblemError("not a JSON object")
        return fields

    def item_alone(self, raw: bytes) -> Item:
        """Return the item that stands alone, without a row around it."""
        value = self._value(raw)
        if self.options.kind.field_names is None:
            return self._item({self.options.text_fields[0]: value})
        if not isinstance(value, dict):
            raise RowProblemError("a record is a JSON object")
        unknown = [name for name in value if name not in self.options.text_fields]
        if unknown:
            known = ", ".join(self.options.text_fields)
            raise RowProblemError(f"the record has no field {shortened(unknown[0])}, but {known}")
        return self._item(value)

    def _value(self, raw: bytes) -> Any:
        text = decoded(raw, self.options.encoding)
        try:
            value = _DECODER.decode(text)
        except RowProblemError:
            raise
        except RecursionError:
            raise RowProblemError("nested too deeply") from None
        except json.JSONDecodeError as error:
            raise RowProblemError(f"not JSON: {error.msg} at position {error.pos}") from None
        except ValueError as error:
            raise RowProblemError(f"not JSON that can be read: {error}") from None
        if _SURROGATE_ESCAPE.search(raw):
            _refuse_lone_surrogates(value)
        return value

    def _part(self, name: str, value: Any) -> Item:
        several = len(self.options.text_fields) > 1
        item: Item = self.options.kind.item_of_json(value, several=several)
        if item is NotImplemented:
            raise self._unlike(name, value)
        return item

    def _elements(self, name: str, value: Any) -> list[Any] | dict[Any, int]:
        of_counts = self.options.kind.of_counts
        if isinstance(value, list):
            if of_counts:
                self.tokens.take_example(value)
            return value
        if not of_counts or not isinstance(value, dict):
            raise self._unlike(name, value)
        for element, count in value.items():
            if type(count) is not int or count < 0:
                raise RowProblemError(
                    f"the count of {shortened(element)} in the field {name!r} is "
                    f"{reprlib.repr(count)}, not a whole number from 0"
                )
        return dict(zip(self.tokens.typed(list(value)), value.values(), strict=True))

    def _unlike(self, name: str, value: Any) -> RowProblemError:
        return RowProblemError(
            f"the field {name!r} is {KINDS_OF_VALUES[type(value)]}, not "
            f"{self.options.kind.json_form}"
        )


def item_of_json(text: str, options: ReadingOptions, name: str) -> Item:
    """Return the item that JSON spells, as it would stand in the field of the item; a record alone.

    Raises:
        UsageError: it spells none; the message begins with ``name``.
    """
    options = replace(options, encoding="utf-8")
    with JsonLinesReader(InputStream(name, b""), options) as reader:
        try:
            return reader.item_alone(os.fsencode(text))
        except (RowProblemError, BadItemError) as problem:
            raise UsageError(f"{name}: {problem}") from None


def _refused_constant(name: str) -> None:
    raise RowProblemError(f"{name} is not valid JSON")


def _finite_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise RowProblemError(f"the number {shortened(text)} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refused_constant, parse_float=_finite_number)


def _refuse_lone_surrogates(value: Any) -> None:
    # Escapes of whole pairs are usual and have become one character by now.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise RowProblemError(f"half a surrogate pair: {character!a}") from None

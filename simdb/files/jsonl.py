"""Rows of JSON lines: one JSON object a line, in UTF-8."""

from __future__ import annotations

import json
import math
import os
import re
import reprlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
import numpy as np
from msgspec import structs

from simdb.errors import BadItemError, UsageError
from simdb.files.compression import InputStream
from simdb.files.rows import (
    BYTE_ORDER_MARK,
    ColumnRows,
    Item,
    NamedFieldsReader,
    ReadingOptions,
    Row,
    RowProblemError,
    decoded,
    kind_of_value,
)
from simdb.kinds.base import shortened
from simdb.ragged import Column, offsets_of
from simdb.results import Key

# Bytes of lines that are read together.
_LEAST_AT_ONCE, _MOST_AT_ONCE = 2**16, 2**22
_FIELDS_TOLD = 5
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def reads_columns(options: ReadingOptions) -> bool:
    """Whether lines of JSON may be read column by column: one field of each is the item, a text."""
    kind = options.kind
    return (
        len(options.text_fields) == 1
        and kind.field_names is None
        and "text" in kind.formats
        and options.metadata_field is None
        and options.encoding.lower() == "utf-8"
        and options.longest >= _MOST_AT_ONCE
    )


@dataclass(frozen=True)
class _LineRows(ColumnRows):
    """Rows of lines of JSON whose items are texts.

    Attributes:
        reader: of the lines.
        given: the bytes of each line.
        fields: those of each row.
    """

    reader: JsonLinesReader
    lines: Sequence[int]
    given: Sequence[bytes]
    fields: Sequence[dict[str, Any]]
    keys: Sequence[Key]

    def cut(self, begin: int, end: int) -> Self:
        some = slice(begin, end)
        return replace(
            self,
            lines=self.lines[some],
            given=self.given[some],
            fields=self.fields[some],
            keys=self.keys[some],
        )

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.given))

    @property
    def raws(self) -> Sequence[bytes]:
        return self.given

    def rows(self) -> Iterator[Row]:
        return map(self.reader.row_of, self.lines, self.given, self.fields)

    def is_like(self, other: ColumnRows) -> bool:
        return isinstance(other, _LineRows)

    def item_column(self, others: Sequence[Self]) -> Column | None:
        name = self.reader.options.text_fields[0]
        texts = [fields[name] for one in (self, *others) for fields in one.fields]
        whole = "".join(texts)
        if whole.isascii():
            encoded = whole.encode("ascii")
            sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        else:
            parts = [text.encode() for text in texts]
            encoded = b"".join(parts)
            sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        return Column("text", np.frombuffer(encoded, np.uint8), offsets_of(sizes))

    def metadata_of_rows(self) -> list[dict[str, Any] | None] | None:
        options = self.reader.options
        if not options.metadata:
            return None
        taken = {options.text_fields[0], options.id_field}
        others = [
            {name: fields[name] for name in fields if name not in taken and options.takes(name)}
            for fields in self.fields
        ]
        return [one or None for one in others] if any(others) else None


class JsonLinesReader(NamedFieldsReader):
    """Rows of a file of JSON lines.

    Stricter than Python's json: ``NaN``, ``Infinity``, numbers too large for a double and escapes
    of half a surrogate pair are problems. Of a name that occurs twice the last value counts. A bag
    is a list with repeats, or an object of elements and counts, whose names are strings or integers
    as ``options.elements`` says: names in JSON are always text; or a list of pairs. A vector is a
    list of numbers (where several fields are one vector also a number), a bit vector a text or a
    list of 0 and 1, a hexadecimal text or a whole number, a fingerprint a list of minutiae or of
    squares.
    """

    def blocks(self, most_bytes: int) -> Iterator[ColumnRows | Iterator[Row]]:
        """Yield the rows as columns, block by block; one by one where something is not plain."""
        if not reads_columns(self.options):
            yield iter(self)
            return
        number = 1
        size = min(max(most_bytes, _LEAST_AT_ONCE), _MOST_AT_ONCE)
        for raws, is_cut in self._stream.blocks(size, self.options.longest):
            if number == 1 and raws and raws[0].startswith(BYTE_ORDER_MARK):
                self.preamble = BYTE_ORDER_MARK
                raws[0] = raws[0].removeprefix(BYTE_ORDER_MARK)
            lines = range(number, number + len(raws))
            yield self._in_columns(lines, raws) or self._one_by_one(lines, raws)
            number += len(raws)
            if is_cut:
                problem = f"longer than {self.options.longest} bytes"
                yield iter([Row(number, None, None, None, b"", problem)])
                number += 1

    def _in_columns(self, lines: Sequence[int], raws: list[bytes]) -> _LineRows | None:
        """Return lines as rows in columns; None unless each is one without a problem."""
        if not all(map(bytes.strip, raws)):
            lines = tuple(n for n, raw in zip(lines, raws, strict=True) if raw.strip())
            raws = [raw for raw in raws if raw.strip()]
        try:
            # It takes no more than the decoder that tells what is wrong, and makes the same of it.
            fields = list(map(_QUICK.decode, raws))
        except (ValueError, RecursionError):
            return None
        name, key = self.options.text_fields[0], self.options.id_field
        if set(map(type, fields)) != {dict}:
            return None
        try:
            texts = [one[name] for one in fields]
            keys: Sequence[Key] = lines if key is None else [one[key] for one in fields]
        except KeyError:
            return None
        if self.options.made_keys is not None:
            keys = list(map(self._made_key, lines, raws))
        kinds = set(map(type, keys))
        if set(map(type, texts)) != {str} or kinds not in ({str}, {int}):
            return None
        if kinds == {str} and self.options.integer_keys and key is not None:
            return None
        return _LineRows(self, lines, raws, fields, keys)

    def _one_by_one(self, lines: Sequence[int], raws: Sequence[bytes]) -> Iterator[Row]:
        for line, raw in zip(lines, raws, strict=True):
            if not self._is_blank(raw):
                yield self._row(line, raw)

    def fields_of(self, raw: bytes) -> dict[str, Any]:
        """Return the object on a line; a list alone stands for the field of the item."""
        fields = self._value(raw)
        kind = self.options.kind
        alone = isinstance(fields, list) and kind.field_names is None
        if alone and kind.item_of_json(fields) is not NotImplemented:
            return {self.options.text_fields[0]: fields}
        if not isinstance(fields, dict):
            told = ", but an array: each line has one object" if isinstance(fields, list) else ""
            raise RowProblemError(f"not a JSON object{told}")
        return fields

    def item_alone(self, raw: bytes) -> Item:
        """Return the item that stands alone, without a row around it."""
        value = self._value(raw)
        if self.options.kind.field_names is None:
            return self._item({self.options.text_fields[0]: value})
        if not isinstance(value, dict):
            raise RowProblemError("a record must be a JSON object")
        unknown = [name for name in value if name not in self.options.text_fields]
        if unknown:
            known = ", ".join(self.options.text_fields)
            raise RowProblemError(f"the record has no field {shortened(unknown[0])}, but {known}")
        return self._item(value)

    def _value(self, raw: bytes) -> Any:
        text = decoded(raw, self.options.encoding)
        try:
            value = _DECODER.decode(text)
            if _SURROGATE_ESCAPE.search(raw):
                _refuse_lone_surrogates(value)
        except RowProblemError:
            raise
        except RecursionError:
            raise RowProblemError("nested too deeply") from None
        except json.JSONDecodeError as error:
            raise RowProblemError(f"not JSON: {error.msg} at position {error.pos}") from None
        except ValueError:
            most = sys.get_int_max_str_digits()
            raise RowProblemError(f"a whole number of more than {most:,} digits") from None
        return value

    def _part(self, name: str, value: Any) -> Item:
        several = len(self.options.text_fields) > 1
        item: Item = self.options.kind.item_of_json(value, several=several)
        if item is NotImplemented:
            raise self._unlike(name, value)
        return item

    def _elements(self, name: str, value: Any) -> list[Any] | dict[Any, int]:
        of_counts = self.options.kind.of_counts
        if isinstance(value, list) and not (of_counts and value and all(map(_is_pair, value))):
            if of_counts:
                self.tokens.take_example(value)
            return value
        if not of_counts or not isinstance(value, list | dict):
            raise self._unlike(name, value)
        counts = dict(value)
        if len(counts) < len(value):
            raise RowProblemError(
                f"an element in the field {name!r} is there twice: add its counts up"
            )
        for element, count in counts.items():
            if type(count) is not int or count < 0:
                raise RowProblemError(
                    f"the count of {shortened(str(element))} in the field {name!r} is "
                    f"{reprlib.repr(count)}, not a whole number from 0"
                )
        if isinstance(value, list):  # whose elements have types
            self.tokens.take_example(list(counts))
            return counts
        return dict(zip(self.tokens.typed(list(counts)), counts.values(), strict=True))

    def _unlike(self, name: str, value: Any) -> RowProblemError:
        inside = value[0] if isinstance(value, list) and value else value
        names = [f"{name}.{one}" for one in inside] if isinstance(inside, dict) else []
        hint = f"; name one of its own: {', '.join(names[:_FIELDS_TOLD])}" if names else ""
        return RowProblemError(
            f"the field {name!r} is {kind_of_value(value)}, not {self.options.kind.json_form}{hint}"
        )


def item_of_json(text: str, options: ReadingOptions, name: str) -> Item:
    """Return the item that JSON spells, as it would stand in the field of the item; a record alone.

    Raises:
        UsageError: it spells none; the message begins with ``name``.
    """
    options = structs.replace(options, encoding="utf-8")
    with JsonLinesReader(InputStream(name, b""), options) as reader:
        try:
            return reader.item_alone(os.fsencode(text))
        except (RowProblemError, BadItemError) as problem:
            raise UsageError(f"{name}: {problem}") from None


def _is_pair(value: object) -> bool:
    """Whether a value is an element with its count, as rows of tables have maps."""
    return isinstance(value, list) and len(value) == 2 and not isinstance(value[0], list | dict)


def _refused_constant(name: str) -> None:
    raise RowProblemError(f"{name} is not valid JSON")


def _finite_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise RowProblemError(f"the number {shortened(text)} is too large")
    return number


_QUICK = msgspec.json.Decoder()
_DECODER = json.JSONDecoder(parse_constant=_refused_constant, parse_float=_finite_number)


def _refuse_lone_surrogates(value: Any) -> None:
    # Escapes of whole pairs are usual and have become one character by now.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise RowProblemError(f"half a surrogate pair: {character!a}") from None

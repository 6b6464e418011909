"""Tables in and out as Arrow columns: frames, relations and data sets, through pyarrow.

What has ``__arrow_c_stream__`` or ``__arrow_c_array__`` is read batch by batch: tables of pyarrow,
pandas and polars, relations of DuckDB. A ``Dataset`` of Hugging Face has neither and is read in
its own Arrow form. pyarrow is the extra ``arrow``, imported when the first table is met.
"""

from __future__ import annotations

import json
import re
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AnySet
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from itertools import chain, groupby
from math import isfinite, isinf, isnan
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, overload
from uuid import UUID

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simdb.arguments import can_be_iterated, require_once, several, short
from simdb.arrays import Int64s, UInt8s
from simdb.errors import BadItemError, Remedy, UsageError, WrongTypeError
from simdb.extras import of_extra, optional
from simdb.metadata import json_text
from simdb.ragged import ByteStrings, Column

BATCH_ROWS = 10_000
BATCH_BYTES = 2**24
_LOOKED_AT = 64  # rows of a group, by which it is told how long its values are
PART_BYTES = 4 * 2**20  # of rows that are written
VALUE_BYTES = 64  # about what Python takes for a value
Key = str | int
Row = TypeVar("Row")
# Of rows: numbers, the UTF-8 of texts, or whatever is given.
Keys: TypeAlias = Int64s | ByteStrings | Sequence[Any]
# What is raised for values that Python cannot hold; text that is not UTF-8 is a ValueError, too.
_UNHELD = (OverflowError, ValueError, LookupError)
_AS_JSON = frozenset((str, int, bool))
_SMALL = frozenset((int, float, bool, type(None)))
# Types of DuckDB: those that come as numbers of fewer bits, as bytes and without their zone.
_CHANGED_OF_DUCKDB = frozenset(("uhugeint", "bit", "time with time zone"))
_VECTOR_OF_DUCKDB = 2048  # rows, the fewest that it gives at once
_NESTED_IN_DUCKDB = frozenset(("struct", "list", "array", "map", "union"))
_ROWS_A_PIECE = 16  # of those that are copied together, at least, that they need not be picked
_WIDE = 32  # bits of the numbers of a dictionary
_ALIKE = frozenset((str, bytes, int, float, bool, date))  # types whose values Arrow keeps
_PLAINLY_TOLD = frozenset((str, bytes, int, float, bool, type(None)))
_DEEPEST = 4  # parts of parts; what lies deeper is told as Python prints it
_DAY_IN_MILLISECONDS = 86_400_000
# Of the years 1 to 9999 in UTC, in which Arrow writes any zone; far from them it may write garbage.
_FIRST_SECOND, _END_SECOND = -62_135_596_800, 253_402_300_800
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_OFFSET = "([+-][0-9]{2})([0-9]{2})$"  # of a zone, as Arrow writes it
_NO_FRACTION = r"\.0+(?![0-9])"
ReadByPolicy: TypeAlias = Literal["number", "time"]
MIXED_KEYS = (
    "some keys are texts and some are numbers, which one Arrow column cannot hold: iterate over "
    "the answer instead, or write lines of JSON"
)


def library() -> Any:
    """Return pyarrow.

    Raises:
        MissingExtraError: it is not installed, or cannot be loaded.
    """
    with of_extra("arrow", "Arrow tables need"):
        import pyarrow
    return pyarrow


def parquet() -> Any:
    """Return pyarrow's module for Parquet files; MissingExtraError as of ``library``."""
    with of_extra("arrow", "Arrow tables need"):
        import pyarrow.parquet
    return pyarrow.parquet


def require_pandas() -> None:
    """Raise MissingExtraError if pandas is not installed, or cannot be loaded."""
    with optional("to_pandas needs pandas", "pandas"):
        import_module("pandas")


def polars() -> Any:
    """Return polars; MissingExtraError if it is not installed, or cannot be loaded."""
    with optional("to_polars needs polars", "polars"):
        import polars
    return polars


def is_pandas(data: object) -> bool:
    """Whether an object is a frame of pandas; nothing is imported to tell."""
    modules = (kind.__module__.partition(".")[0] for kind in type(data).__mro__)
    return "pandas" in modules and hasattr(data, "columns")


class ArrowStream(Protocol):
    """An object that gives its rows as a stream of Arrow, as tables and frames do."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        """Return a capsule of the stream."""


class ArrowArray(Protocol):
    """An object that gives its rows as one array of Arrow, as a batch does."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> object:
        """Return capsules of the schema and of the array."""


Table: TypeAlias = ArrowStream | ArrowArray


def is_polars(data: object) -> bool:
    """Whether an object is a frame of polars; nothing is imported to tell."""
    return type(data).__module__.startswith("polars.") and type(data).__name__ == "DataFrame"


def is_table(data: object) -> bool:
    """Whether an object gives Arrow columns."""
    kind = type(data)
    return (
        hasattr(kind, "__arrow_c_stream__")
        or hasattr(kind, "__arrow_c_array__")
        or _is_data_set(data)
    )


def _is_data_set(data: object) -> bool:
    """Whether an object is a data set of Hugging Face; nothing is imported to tell."""
    return hasattr(data, "with_format") and hasattr(data, "column_names")


def has_columns(data: object) -> bool:
    """Whether an object has columns, or fields, by name; a single column of a table has none.

    Asked of the type: a row of a Series may be named "columns".
    """
    return any(hasattr(type(data), one) for one in ("columns", "column_names", "schema"))


def require_no_table(name: str, given: object, of: str, column: str) -> None:
    """Raise WrongTypeError for a table, which a loop would take the columns of, or their names.

    Args:
        name, of: of the argument, and what it is to have one by one.
        column: an example of one that has them.
    """
    if has_columns(given) and (is_table(given) or is_pandas(given)):
        listed = ".to_pylist()" if hasattr(given, "to_pylist") else ""
        raise WrongTypeError(
            f"{name} must be an iterable of {of}, not {type(given).__name__}: "
            f"give one column of it, as frame[{column!r}]{listed}"
        )


def one_by_one(name: str, given: Any, of: str, column: str) -> Iterable[Any]:
    """Return items that can be iterated; WrongTypeError for a table, and for what names them."""
    require_no_table(name, given, of, column)
    _require_no_mapping(name, given, of)
    return several(name, given, of)


def _require_no_mapping(name: str, given: object, of: str) -> None:
    if isinstance(given, Mapping):
        raise WrongTypeError(
            f"{name} must be an iterable of {of}, not {type(given).__name__}, of which a loop "
            "takes the keys: give its values(), or one of them"
        )


def batches(data: Any) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a table and its record batches, which are read as they are asked for.

    Raises:
        UsageError: it has no named columns, or can be read no more.
        MissingExtraError: pyarrow is not installed.
    """
    arrow = library()
    try:
        if isinstance(data, arrow.RecordBatchReader):
            reader = data
        elif isinstance(data, Mapping):
            named = ", ".join(map(repr, data))
            raise UsageError(f"a {type(data).__name__} is several tables: give one of {named}")
        elif _is_data_set(data):
            if data.features is None:
                raise UsageError(
                    f"the columns of this {type(data).__name__} are not known: give a "
                    "Dataset, or data.cast(features)"
                )
            return data.features.arrow_schema, _batches_of_data_set(data)
        elif hasattr(type(data), "__arrow_c_stream__"):
            reader = arrow.RecordBatchReader.from_stream(_with_texts(data))
        else:
            batch = arrow.record_batch(data)
            return batch.schema, iter([batch])
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise UsageError(
            f"a {type(data).__name__} cannot be read as a table of named columns: {error}"
        ) from error
    return reader.schema, iter(reader)


def _batches_of_data_set(data: Any) -> Iterator[Any]:
    """Yield the rows of a data set of Hugging Face; UsageError if it cannot join them itself.

    Of a stream of Python's objects it takes the types row by row, those of nulls too.
    """
    tables = data.with_format("arrow").iter(BATCH_ROWS)
    while True:
        try:
            table = next(tables, None)
        except library().ArrowException as error:
            raise UsageError(
                f"this {type(data).__name__} has rows of other types than its features: give a "
                "Dataset, such as Dataset.from_list(list(data), features=data.features) "
                f"({error})"
            ) from error
        if table is None:
            return
        yield from table.to_batches()


def of_duckdb(relation: Any) -> Any:
    """Return a reader of a relation of DuckDB that gives 2,048 rows at once, its fewest.

    Nothing else may be asked of its connection before the last row is read: the rest of the rows
    would be lost. As a stream it gives 64 times as many, and minds nothing.
    """
    whole = _with_texts(relation)
    before = not hasattr(whole, "to_arrow_reader")  # DuckDB 1.5
    return (whole.fetch_record_batch if before else whole.to_arrow_reader)(_VECTOR_OF_DUCKDB)


def _with_texts(data: Any) -> Any:
    """Return a table; of DuckDB with text for what Arrow has no type for, which it would change."""
    if type(data).__name__ != "DuckDBPyRelation":
        return data
    columns, is_changed = [], False
    for place, (name, kind) in enumerate(zip(data.columns, data.types, strict=True), 1):
        quoted = '"{}"'.format(name.replace('"', '""'))
        read = f"#{place}"  # by its place, since names may come twice
        if _is_changed_by_arrow(kind):
            is_changed = True
            read = f"CAST({read} AS VARCHAR)"
        columns.append(f"{read} AS {quoted}")
    return data.project(", ".join(columns)) if is_changed else data


def _is_changed_by_arrow(kind: Any) -> bool:
    """Whether a type of DuckDB is one, or has one in it, whose values Arrow gets otherwise."""
    if kind.id not in _NESTED_IN_DUCKDB:
        return kind.id in _CHANGED_OF_DUCKDB
    return any(_is_changed_by_arrow(part) for _, part in kind.children if hasattr(part, "id"))


def narrowed(frame: Any, columns: Columns) -> Any:
    """Return the columns that are named of a frame of pandas or polars; others may not fit.

    If values of pandas in one column are of several types, which Arrow would refuse or make alike,
    the rows are dicts in a list.

    Raises:
        UsageError: a column is missing, or stands twice; or one of polars does not fit into Arrow.
    """
    known = list(map(str, frame.columns))
    columns.require_among(known)
    names = list(dict.fromkeys(columns.names()))
    if is_polars(frame):
        return library().table({name: _column_of_polars(frame, name) for name in names})
    # A name need not be a text.
    chosen = frame.iloc[:, list(map(known.index, names))].set_axis(names, axis=1)
    held = (getattr(chosen[name].dtype, "categories", chosen[name]) for name in names)
    objects = (values for values in held if values.dtype == np.object_)
    if all(_are_alike(values[values.notna()]) for values in objects):
        with suppress(library().ArrowException, TypeError, ValueError, OverflowError):
            return library().Table.from_pandas(chosen, preserve_index=False)
    rows = zip(*(chosen[name].tolist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _are_alike(values: Iterable[Any]) -> bool:
    """Whether values are of one type that a column of Arrow holds as they are, or lists of one."""
    kinds = set(map(type, values))
    if kinds <= _ALIKE:
        return len(kinds) <= 1
    if kinds == {np.ndarray}:
        dtypes = {value.dtype for value in values}
        if not any(dtype.hasobject for dtype in dtypes):
            return len(dtypes) == 1
    elif kinds not in ({list}, {tuple}):
        return False
    parts = set(map(type, chain.from_iterable(values))) - {type(None)}
    return parts <= _ALIKE and len(parts) <= 1


def _column_of_polars(frame: Any, name: str) -> Any:
    kind = frame.schema[name]
    with suppress(UsageError):
        if not kind.is_object():  # of which it would give the places in memory
            return read(frame.select(name)).column(0)
    raise UsageError(f"Arrow cannot hold the column {name!r} of {kind}: convert it to another type")


def read(data: Any) -> Any:
    """Return a table as one of pyarrow, whole."""
    schema, found = batches(data)
    return library().Table.from_batches(list(found), schema)


def with_column(reader: Any, name: str, of: str, made: Callable[[float], float]) -> Any:
    """Return a reader of tables with a column more, a number made of each number of another."""
    arrow = library()
    place = reader.schema.get_field_index(of)
    schema = reader.schema.append(arrow.field(name, arrow.float64()))

    def batches() -> Iterator[Any]:
        for batch in reader:
            values = arrow.array(map(made, batch.column(place).to_pylist()), arrow.float64())
            yield arrow.record_batch([*batch.columns, values], schema=schema)

    return arrow.RecordBatchReader.from_batches(schema, batches())


def selected(whole: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Return the rows of a table that are to be kept; see ``without_views``.

    Run-end-encoded columns, which pyarrow cannot pick from either, become plain ones. Each batch
    keeps its dictionaries: that of all rows might need larger numbers.
    """
    for place, name in enumerate(whole.column_names):
        if library().types.is_run_end_encoded(whole.column(place).type):
            plain = _run_end_decoded(whole.column(place), name)
            field = whole.schema.field(place).with_type(plain.type)
            whole = whole.set_column(place, field, plain)
    whole = as_types_of(whole, without_views(whole.schema))
    chosen, first = [whole.slice(0, 0)], 0
    for batch in whole.to_batches():
        places = np.flatnonzero(kept[first : first + batch.num_rows])
        chosen.append(rows_at(library().Table.from_batches([batch]), places))
        first += batch.num_rows
    return library().concat_tables(chosen)


def can_pick(column: Any) -> bool:
    """Whether pyarrow can pick rows of a column as it is."""
    try:
        column.take(numbers(np.empty(0, np.int64)))
    except library().ArrowNotImplementedError:
        return False
    return True


def _run_end_decoded(column: Any, name: Any) -> Any:
    """Return a run-end-encoded column as a plain one; UsageError if pyarrow cannot decode it."""
    try:
        return import_module("pyarrow.compute").run_end_decode(column)
    except library().ArrowNotImplementedError as error:
        raise UsageError(
            f"pyarrow cannot pick rows of the column {name!r} of {column.type}: decode it, or "
            "leave it out"
        ) from error


def as_types_of(table: Any, schema: Any) -> Any:
    """Return a table or batch with other types; pyarrow would spoil slices that keep theirs."""
    pairs = zip(table.columns, schema, strict=True)
    columns = [one if one.type == field.type else one.cast(field.type) for one, field in pairs]
    return type(table).from_arrays(columns, schema=schema)


def rows_at(table: Any, places: Int64s) -> Any:
    """Return the rows of a table at rising places; as they lie there, where they are most of it.

    pyarrow cannot pick rows of columns that tell how often a value follows itself.
    """
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    are_scattered = breaks.size * _ROWS_A_PIECE > places.size
    if are_scattered:
        with suppress(library().ArrowNotImplementedError):
            return table.take(numbers(places))
    runs = (run for run in np.split(places, breaks) if run.size)
    slices = [table.slice(int(run[0]), run.size) for run in runs] or [table.slice(0, 0)]
    found = library().concat_tables(slices)
    return found.combine_chunks() if are_scattered else found


def without_views(schema: Any) -> Any:
    """Return a schema with large texts and bytes for views of them.

    pyarrow cannot pick from views, nor write dictionaries of them as Parquet.
    """
    fields = [field.with_type(_cast_to(field.type, _without_view)) for field in schema]
    return library().schema(fields, schema.metadata)


def _without_view(kind: Any) -> Any:
    arrow = library()
    if arrow.types.is_string_view(kind):
        return arrow.large_string()
    return arrow.large_binary() if arrow.types.is_binary_view(kind) else kind


def with_wide_dictionaries(field: Any) -> Any:
    """Return a field whose dictionaries are as large as need be: their numbers have 32 bits."""
    return field.with_type(_cast_to(field.type, _with_wide_numbers))


def has_narrow_dictionary(kind: Any) -> bool:
    """Whether a type has a dictionary that its numbers, of 8 or 16 bits, may keep from growing."""
    return bool(_cast_to(kind, _with_wide_numbers) != kind)


def _with_wide_numbers(kind: Any) -> Any:
    arrow = library()
    if not arrow.types.is_dictionary(kind) or kind.index_type.bit_width >= _WIDE:
        return kind
    return arrow.dictionary(arrow.int32(), kind.value_type, kind.ordered)


def _cast_to(kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return the type that values are cast to for a change; pyarrow would spoil runs in them."""
    return kind if _has(kind, library().types.is_run_end_encoded) else _changed(kind, change)


def _changed(kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return a type that is changed, as are those of its parts."""
    arrow = library()
    types = arrow.types

    def part(field: Any) -> Any:
        return field.with_type(_changed(field.type, change))

    if types.is_dictionary(kind):
        values = _changed(kind.value_type, change)
        kind = arrow.dictionary(kind.index_type, values, kind.ordered)
    elif types.is_struct(kind):
        kind = arrow.struct(list(map(part, kind)))
    elif types.is_map(kind):
        kind = arrow.map_(part(kind.key_field), part(kind.item_field), kind.keys_sorted)
    elif types.is_fixed_size_list(kind):
        kind = arrow.list_(part(kind.value_field), kind.list_size)
    elif types.is_list(kind):
        kind = arrow.list_(part(kind.value_field))
    elif types.is_large_list(kind):
        kind = arrow.large_list(part(kind.value_field))
    return change(kind)


class Columns(Struct, frozen=True):
    """Which columns of a table are what.

    Attributes:
        item: the column of the items, or the columns that together make an object of each row.
        key: the column of the keys; None makes the number of the row the key, from 0.
        metadata: the columns that are kept as metadata.
    """

    item: str | tuple[str, ...]
    key: str | None = None
    metadata: tuple[str, ...] = ()

    @classmethod
    def named(
        cls, key: str | None, item: str | Sequence[str] | None, metadata: str | Sequence[str]
    ) -> Columns:
        """Return the columns that arguments name.

        Raises:
            UsageError: no column of items is named, or one twice.
            WrongTypeError: what is named cannot be the name of one.
        """
        if item is None:
            raise UsageError(
                "for a table, item= must name the column of the items, or the columns of "
                "their fields"
            )
        several: Any = tuple(item) if can_be_iterated(item) else (item,)
        if not several or not all(isinstance(name, str) for name in several):
            raise WrongTypeError(
                f"item= must be the name of a column, or several, not {short(item)}"
            )
        if key is not None and not isinstance(key, str):
            raise WrongTypeError(f"key= must be the name of a column, not {short(key)}")
        items = item if isinstance(item, str) else tuple(map(str, several))
        named = cls(items, key, (metadata,) if isinstance(metadata, str) else tuple(metadata))
        require_once(named.item_names(), "item= names the column")
        return named

    def item_names(self) -> list[str]:
        """Return the names of the columns that are read as items."""
        return [self.item] if isinstance(self.item, str) else list(self.item)

    def names(self) -> list[str]:
        """Return the names of all the columns that are read."""
        return [*self.item_names(), *self.metadata, *([] if self.key is None else [self.key])]

    def require_among(self, names: Sequence[str]) -> None:
        """Raise unless a table of columns so named has each of these once.

        Raises:
            UsageError: one is missing, or stands twice.
        """
        for name in self.names():
            count = list(names).count(name)
            if count != 1:
                fault = "has no column" if not count else f"has {count} columns"
                raise UsageError(
                    f"the table {fault} {name!r}; "
                    f"it has {', '.join(map(repr, names)) or 'no column'}"
                )

    def require_in(self, schema: Any) -> None:
        """Raise unless a table has each of the columns once, and keys of a fitting type.

        Raises:
            UsageError: one is missing, or stands twice, as may a field in it; or keys are neither
                numbers nor texts.
        """
        self.require_among(schema.names)
        if (problem := fields_twice(schema, self.names())) is not None:
            raise UsageError(problem)
        for name in self.metadata:
            if has_bytes(schema.field(name).type):
                raise UsageError(
                    f"metadata={name!r} is a column of {schema.field(name).type}: metadata must be "
                    "something that JSON can express, not bytes"
                )
        if self.key is not None:
            kind = schema.field(self.key).type
            if not is_key(kind):
                raise UsageError(
                    f"key={self.key!r} is a column of {_plain_type(kind)}: keys are whole numbers "
                    "or texts"
                )


def rows_of(
    data: Any, key: str | None, item: str | Sequence[str] | None, metadata: str | Sequence[str]
) -> Iterable[Any]:
    """Return rows as ``add_many`` takes them; those of a table where one is given.

    Raises:
        UsageError: columns are named, and there is no table; or none is, and there is one; or a
            column is missing or wrong.
        MissingExtraError: it is a table, and pyarrow is not installed.
    """
    if is_table(data):
        columns = Columns.named(key, item, metadata)
        data = narrowed(data, columns) if is_pandas(data) or is_polars(data) else data
        return rows_of_dicts(data, columns) if isinstance(data, list) else Rows(data, columns)
    if key is not None or item is not None or metadata:
        are_dicts = isinstance(data, list) and bool(data) and isinstance(data[0], Mapping)
        raise UsageError(
            "key, item and metadata name columns of a table, but the rows are "
            + (
                "dicts: pyarrow.Table.from_pylist(rows) makes a table of them"
                if are_dicts
                else f"{type(data).__name__}: give each row as (key, item) or (key, item, metadata)"
            )
        )
    plain_rows: Iterable[Any] = data
    return plain_rows


def rows_of_dicts(rows: Iterable[Mapping[str, Any]], columns: Columns) -> Iterator[Any]:
    """Yield rows as ``add_many`` takes them; what they have is as that of a table is.

    Dates of items stay dates.
    """
    names, known = columns.item, columns.metadata
    for number, row in enumerate(rows):
        item: Any
        if isinstance(names, str):
            item = row.get(names)
            item = None if is_nothing(item) else item
        else:
            values = {name: row.get(name) for name in names}
            item = {
                name: value if type(value) is date else plain(value)
                for name, value in values.items()
            }
        key = number if columns.key is None else row.get(columns.key)
        yield (key, item, {name: plain(row.get(name)) for name in known}) if known else (key, item)


def items_of(data: Any, item: str | Sequence[str] | None) -> Iterable[Any]:
    """Return the items that are given, be it as one column, or the column of a table that is named.

    Raises:
        UsageError: as ``rows_of``; or an item is null.
        WrongTypeError: it is a single text, or bytes, or a mapping.
    """
    if isinstance(data, str | bytes):
        raise WrongTypeError(f"several items are searched for, not one {type(data).__name__}")
    if item is not None and isinstance(data, list) and not isinstance(next(iter(data), None), dict):
        raise UsageError("item names a column of a table, but the items are a list: leave it out")
    if is_table(data) and not has_columns(data):
        for name in ("to_pylist", "to_list"):  # of Arrow, and of pandas and polars
            if hasattr(data, name):
                if item is not None:
                    raise UsageError(
                        "item names a column of a table, but the items are one column: leave it out"
                    )
                listed: list[Any] = getattr(data, name)()
                return listed
    if not is_table(data):
        _require_no_mapping("items", data, "items")
    rows = rows_of(data, None, item, ())
    return _items_of_rows(rows) if is_table(data) else rows


def _items_of_rows(rows: Iterable[Any]) -> Iterator[Any]:
    for number, row in enumerate(rows):
        if isinstance(row, BadItemError):
            raise BadItemError(f"row {number}: {row}", row=number)
        yield row[1]


class Parts:
    """Rows that come in parts, which may be columns: one by one as ``add_many`` takes them."""

    @abstractmethod
    def parts(self, most_rows: int, most_bytes: int) -> Iterator[Part]:
        """Yield successive rows, at most so many where they come in columns."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows."""
        for part in self.parts(BATCH_ROWS, BATCH_BYTES):
            yield from part.rows()


class Part:
    """Successive rows.

    Attributes:
        first: the position of the first of them.
    """

    __slots__: tuple[str, ...] = ()
    first: int

    @abstractmethod
    def rows(self) -> Iterator[Any]:
        """Yield each row as ``add_many`` takes it."""

    def columns(self) -> tuple[Keys, Column, list[Any] | None] | None:
        """Return the keys, the items as they lie in a table, and the metadata if there are any.

        None where the rows are to be read one by one.
        """
        return None


class Rows(Parts):
    """The rows of a table; UsageError if it can be read no more.

    A null key or item is a bad row.
    """

    def __init__(self, data: Any, columns: Columns) -> None:
        """Name the columns that are read.

        Raises:
            UsageError: a column is missing or wrong.
            MissingExtraError: pyarrow is not installed.
        """
        self._columns = columns
        schema, self._batches = batches(data)
        columns.require_among(schema.names)
        try:
            columns.require_in(schema)
        except UsageError:
            with suppress(library().ArrowException, OSError):
                if not any(batch.num_rows for batch in self._batches):
                    return  # nothing says of what types its columns are
            raise

    def parts(self, most_rows: int, most_bytes: int) -> Iterator[Part]:
        """Yield successive rows, at most so many; batches that are shorter are put together."""
        names = list(dict.fromkeys(self._columns.names()))
        arrow = library()
        first = rows = size = 0
        waiting: list[Any] = []
        try:
            for batch in chain(self._batches, [None]):
                read = None if batch is None else batch.select(names)
                more = 0 if read is None else read.nbytes
                full = size + more > most_bytes
                if waiting and (batch is None or full or rows + batch.num_rows > most_rows):
                    for whole in _joined(waiting) if len(waiting) > 1 else waiting:
                        for part in pieces(whole, most_rows, most_bytes):
                            yield _TablePart(first, part, self._columns)
                            first += part.num_rows
                    waiting, rows, size = [], 0, 0
                if read is not None and read.num_rows:
                    waiting.append(read)
                    rows += read.num_rows
                    size += more
        except (arrow.ArrowException, OSError) as error:
            raise UsageError(f"the table cannot be read after {first:,} rows: {error}") from error


def pieces(batch: Any, most_rows: int, most_bytes: int) -> Iterator[Any]:
    """Yield a record batch in slices of at most so many rows and so many bytes of texts.

    They are counted as often as rows have them, where they are once in a dictionary. One row is
    never cut.
    """
    waiting = [batch.slice(begin, most_rows) for begin in range(0, batch.num_rows, most_rows)]
    waiting.reverse()
    while waiting:
        part = waiting.pop()
        half = part.num_rows // 2
        if half and _texts_of_dictionaries(part, most_bytes) > most_bytes:
            waiting += part.slice(half), part.slice(0, half)
        else:
            yield part


def _texts_of_dictionaries(batch: Any, most: int) -> int:
    """Return the bytes of texts that rows have from dictionaries; less if there cannot be most."""
    compute, size = import_module("pyarrow.compute"), 0
    for column in filter(lambda column: library().types.is_dictionary(column.type), batch.columns):
        kind = column.type.value_type
        if batch.num_rows * column.dictionary.nbytes > most and (_is_text(kind) or is_binary(kind)):
            lengths = compute.binary_length(column.dictionary.cast(_without_view(kind)))
            size += compute.sum(compute.take(lengths, column.indices)).as_py() or 0
    return size


def _joined(batches: list[Any]) -> list[Any]:
    """Return record batches as one that has room for all the values of their dictionaries.

    They stay apart where pyarrow cannot join them, as those of dictionaries that have nulls.
    """
    whole = library().Table.from_batches(batches)
    wide = library().schema(map(with_wide_dictionaries, whole.schema))
    with suppress(library().ArrowException):
        joined: list[Any] = as_types_of(whole, wide).combine_chunks().to_batches()
        return joined
    return batches


class _TablePart(Part, Struct, frozen=True, eq=False):
    """Successive rows of a table.

    Attributes:
        batch: their record batch.
        named: which of its columns are what.
    """

    first: int
    batch: Any
    named: Columns

    @property
    def has_nulls(self) -> bool:
        """Whether a key or an item is null."""
        single = [name for name in (self.named.key, self.named.item) if isinstance(name, str)]
        return any(self.batch.column(name).null_count for name in single)

    def columns(self) -> tuple[Keys, Column, list[Any] | None] | None:
        item = self.named.item
        if not isinstance(item, str) or self.has_nulls:
            return None
        keys, column = self._key_column(), column_of(self.batch.column(item))
        if keys is None or column is None:
            return None
        try:
            return keys, column, self._metadata()
        except _UNHELD:  # which ``rows`` reads one by one
            return None

    def _key_column(self) -> Int64s | ByteStrings | None:
        """Return the keys as they lie in the table, None where one of them is none."""
        if self.named.key is None:
            return np.arange(self.first, self.first + self.batch.num_rows)
        return _key_column(self.batch.column(self.named.key))

    def _keys(self) -> Sequence[Any]:
        if self.named.key is not None:
            return values(self.batch.column(self.named.key))
        return range(self.first, self.first + self.batch.num_rows)

    def _metadata(self) -> list[Any] | None:
        if not self.named.metadata:
            return None
        return self._objects(self.named.metadata, _of_python)

    def rows(self) -> Iterator[Any]:
        item = self.named.item
        items: Iterable[Any]
        if isinstance(item, str):
            items = values(self.batch.column(item))
            if library().types.is_struct(_plain_type(self.batch.column(item).type)):
                items = map(plain, items)  # as those of several columns are
        else:
            items = self._objects(item, _listed)
        read = [self._keys(), items]
        if self.named.metadata:
            read.append(self._objects(self.named.metadata, _listed))
        return map(self._sound, zip(*read, strict=True))

    def _objects(
        self, names: Sequence[str], read: Callable[[Any], list[Any]]
    ) -> list[dict[str, Any]]:
        """Return an object of each row, of some columns."""
        columns = [map(plain, read(self.batch.column(name))) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _sound(self, row: tuple[Any, ...]) -> Any:
        """Return the row, or what is wrong with it."""
        for value, name in zip(row, (self.named.key, self.named.item), strict=False):
            if isinstance(value, BadItemError):
                return value
            if value is None:
                return BadItemError(f"the column {name!r} is null", key=row[0])
            if isinstance(value, UnicodeDecodeError):
                return BadItemError(f"the column {name!r} is not UTF-8: {value}", key=row[0])
        objects = row[1 if isinstance(self.named.item, tuple) else 2 :]
        for name, value in chain.from_iterable(one.items() for one in objects):
            if isinstance(value, UnicodeDecodeError):
                return BadItemError(f"the column {name!r} is not UTF-8: {value}", key=row[0])
        return row


class KeyColumn(Sequence[Key]):
    """Keys as they lie in a table, which become objects where they are asked for.

    Attributes:
        column: the numbers, or the UTF-8 of texts.
    """

    def __init__(self, column: Int64s | ByteStrings) -> None:
        self.column = column

    @classmethod
    def of(cls, array: Any) -> KeyColumn | None:
        """Return the keys of an Arrow array without nulls, None where one of them is none."""
        column = _key_column(array)
        return None if column is None else cls(column)

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, place: int) -> Key: ...
    @overload
    def __getitem__(self, place: slice) -> KeyColumn: ...
    def __getitem__(self, place: int | slice) -> Key | KeyColumn:
        if isinstance(place, slice):
            return KeyColumn(self.column[place])
        found = self.column[place]
        return str(found, "utf-8") if isinstance(found, memoryview) else int(found)


def joined_keys(parts: Sequence[Sequence[Key]]) -> Keys:
    """Return the keys of several parts of a table, at least one, as one column if they are such."""
    columns = [part.column for part in parts if isinstance(part, KeyColumn)]
    texts = [column for column in columns if isinstance(column, ByteStrings)]
    if len(texts) == len(parts):
        return texts[0] if len(texts) == 1 else ByteStrings.concatenated(texts)
    numbers = [column for column in columns if isinstance(column, np.ndarray)]
    numbers += [np.arange(part.start, part.stop) for part in parts if isinstance(part, range)]
    if len(numbers) == len(parts):
        return np.concatenate(numbers)
    return list(chain.from_iterable(parts))


def _key_column(array: Any) -> Int64s | ByteStrings | None:
    """Return keys as they lie in a table, None where one of them is none."""
    kind = _plain_type(array.type)
    if library().types.is_integer(kind):
        given = decoded(array)
        if given.null_count:
            return None
        found = numbers_in(given)
        fits = found.dtype != np.uint64 or not (found >> np.uint64(63)).any()
        return found.astype(np.int64) if fits else None
    texts = column_of(array)
    return None if texts is None else ByteStrings(texts.values, texts.offsets)


def numbers_in(array: Any) -> npt.NDArray[Any]:
    """Return an Arrow array of numbers, or of truths, as one of NumPy; nulls count as anything.

    pyarrow does the same, but imports pandas for it where it is installed, for half a second.
    """
    types, kind, count = library().types, array.type, len(array)
    if isinstance(array, library().ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if types.is_boolean(kind):
        first = array.offset % 8
        size = -(-(first + count) // 8)
        packed = _in_buffer(array, np.dtype(np.uint8), size, array.offset // 8)
        return np.unpackbits(packed, bitorder="little")[first : first + count].view(np.bool_)
    form = "f" if types.is_floating(kind) else "u" if types.is_unsigned_integer(kind) else "i"
    dtype = np.dtype(f"{form}{kind.bit_width // 8}")
    return _in_buffer(array, dtype, count, array.offset * dtype.itemsize)


def _in_buffer(array: Any, dtype: np.dtype[Any], count: int, begin: int) -> npt.NDArray[Any]:
    """Return so many values of an Arrow array from a byte of its second buffer on, not copied."""
    data = array.buffers()[1] if count else b""
    return np.frombuffer(data, dtype, count, begin if count else 0)


def decoded(array: Any) -> Any:
    """Return an Arrow array, or one of the values that the numbers of a dictionary stand for."""
    arrow = library()
    if not arrow.types.is_dictionary(array.type):
        return array
    plain = _without_view(array.type.value_type)  # Arrow cannot take some of views
    if plain != array.type.value_type:
        whole = array.dictionary.cast(plain)
        array = arrow.DictionaryArray.from_arrays(array.indices, whole)
    return array.dictionary_decode()


def column_of(array: Any) -> Column | None:
    """Return an Arrow array as a column; its bytes or numbers are not copied.

    None for what is neither text nor bytes nor lists of numbers, where there are nulls, and where
    it is not sound.
    """
    arrow = library()
    types = arrow.types
    array = decoded(array)
    if array.null_count:  # of a dictionary its values may have some, too
        return None
    if types.is_string_view(array.type):
        array = array.cast(arrow.large_string())
    elif types.is_binary_view(array.type) or types.is_fixed_size_binary(array.type):
        array = array.cast(arrow.large_binary())
    try:
        array.validate(full=True)  # that texts are UTF-8, and where they end
    except arrow.ArrowInvalid:
        return None
    if types.is_string(array.type) or types.is_large_string(array.type):
        return Column("text", *_parts_of(array, wide=types.is_large_string(array.type)))
    if types.is_binary(array.type) or types.is_large_binary(array.type):
        return Column("bytes", *_parts_of(array, wide=types.is_large_binary(array.type)))
    return _numbers_of(array)


def bytes_of(values: Any) -> tuple[Int64s, bytes]:
    """Return how many bytes each of some values has, and all of them, to be told from others.

    Texts are their UTF-8, in any type of Arrow and in lists alike; nothing has -1.
    """
    if isinstance(values, list):
        whole = [_told(value) for value in values]
    else:
        values = decoded(values)
        is_null = numbers_in(values.is_null())
        if has_texts(values.type) or is_binary(values.type):
            values = values.cast(library().large_binary()).fill_null(b"")
        column = column_of(values)
        if column is not None:
            lengths = np.diff(column.offsets) * column.values.itemsize
            lengths[is_null] = -1
            return lengths, column.values.tobytes()
        whole = [_told(value) for value in values_as_text(values)]
    lengths = np.array([-1 if one is None else len(one) for one in whole], np.int64)
    return lengths, b"".join(filter(None, whole))


def _told(value: Any) -> bytes | None:
    """Return the bytes that tell a value from others, the same in every process; None of none."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    return None if is_nothing(value) else b"\0" + _told_of_parts(value)  # 1 is not "1"


def _told_of_parts(value: Any, depth: int = 0) -> bytes:
    """Tell a value that is no text by its parts; those of a set come in an order of their own."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype.str}{value.shape}".encode() + value.tobytes()
    parts: list[Any] | None = None
    if depth < _DEEPEST:  # an object may be a part of itself
        if isinstance(value, Mapping):
            parts = [list(pair) for pair in value.items()]
        elif isinstance(value, list | tuple | AnySet):
            parts = list(value)
    if parts is None:
        return repr(value).encode("utf-8", "surrogatepass")
    is_ordered = not isinstance(value, Mapping | AnySet)
    if _PLAINLY_TOLD.issuperset(map(type, parts)):
        plain = map(repr, parts)
        return f"[{', '.join(plain if is_ordered else sorted(plain))}]".encode()
    told = [_told_of_parts(part, depth + 1) for part in parts]
    if not is_ordered:
        told.sort()
    return b"[%d:%b]" % (len(told), b"".join(b"%d:%b" % (len(one), one) for one in told))


def _parts_of(array: Any, *, wide: bool) -> tuple[UInt8s, Int64s]:
    """Return the bytes of texts or byte strings, and where each begins."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64 if wide else np.int32)
    bounds = bounds[array.offset : array.offset + len(array) + 1].astype(np.int64)
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return whole[bounds[0] : bounds[-1]], bounds - bounds[0]


def _numbers_of(array: Any) -> Column | None:
    """Return lists of numbers as a column."""
    types, kind = library().types, array.type
    if not _is_list(kind) or not (
        types.is_integer(kind.value_type) or types.is_floating(kind.value_type)
    ):
        return None
    numbers = array.flatten()
    if numbers.null_count:
        return None
    if types.is_fixed_size_list(kind):
        bounds = np.arange(len(array) + 1) * kind.list_size
    else:
        bounds = numbers_in(array.offsets).astype(np.int64)
    return Column("numbers", numbers_in(numbers), bounds - bounds[0])


def _is_list(kind: Any) -> bool:
    types = library().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def values(column: Any) -> list[Any]:
    """Return the values of an Arrow array as items are given: arrays where lists hold numbers."""
    arrow = library()
    kind = column.type
    if arrow.types.is_dictionary(kind):
        return values(decoded(column))
    if arrow.types.is_map(kind):
        return [None if value is None else _mapping(value) for value in column.to_pylist()]
    if _is_list(kind) and arrow.types.is_primitive(kind.value_type):
        inner = column.flatten()  # without what lies under a null
        if inner.null_count == 0 and not arrow.types.is_temporal(kind.value_type):
            numbers = numbers_in(inner)
            lengths = arrow.compute.fill_null(arrow.compute.list_value_length(column), 0)
            ends = np.cumsum(numbers_in(lengths), dtype=np.int64)
            parts: list[Any] = np.split(numbers, ends[:-1]) if len(column) else []
            if column.null_count:
                valid = column.is_valid().to_pylist()
                return [
                    part if is_there else None for part, is_there in zip(parts, valid, strict=True)
                ]
            return parts
    return _listed(column)


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any] | BadItemError:
    """Return the pairs of a map as a mapping, or what is wrong with them."""
    try:
        found = dict(pairs)
    except TypeError as error:  # of lists, or of structs
        return BadItemError(f"an element of the map cannot be one: {error}")
    if len(found) == len(pairs):
        return found
    return BadItemError("an element of the map is there twice: add its weights up")


def _listed(column: Any) -> list[Any]:
    """Return the values of an Arrow array, and why one cannot be read in its place."""
    try:
        found: list[Any] = _of_python(column)
    except _UNHELD:  # Arrow does not look at what others hand to it
        found = list(map(_value, column))
    return found


def is_sound(batch: Any) -> bool:
    """Whether texts are UTF-8, and lie where they are said to, in all columns of a batch."""
    try:
        batch.validate(full=True)
    except library().ArrowInvalid:
        return False
    return True


def is_within(batch: Any) -> bool:
    """Return whether a batch is sound; raise ArrowInvalid where values lie outside its memory.

    That is a damaged file. Text that is not UTF-8 is left to what reads its row, but for that of
    dictionaries: many rows may have it, and even one that none has is copied with them.
    """
    if is_sound(batch):
        return True
    for column in batch.columns:
        (column if has_dictionary(column.type) else _as_bytes(column)).validate(full=True)
    return False


def _as_bytes(column: Any) -> Any:
    """Return an Arrow array whose texts, also those within its values, are bytes."""
    arrow = library()
    types = {
        arrow.string(): arrow.binary(),
        arrow.large_string(): arrow.large_binary(),
        arrow.string_view(): arrow.binary_view(),
    }
    kind = _changed(column.type, lambda own: types.get(own, own))
    return column if kind == column.type else column.view(kind)


def values_as_text(column: Any) -> list[Any]:
    """Return the values of an Arrow array; text that is not UTF-8 has half surrogates in it.

    No collection takes these, so that it makes a bad row of its row, and not of all.
    """
    try:
        found: list[Any] = _of_python(column)
    except _UNHELD:
        broken = _listed(_as_bytes(column))
        found = [
            "\udcff" if isinstance(one, UnicodeDecodeError) else _decoded_texts(one, column.type)
            for one in broken
        ]
    return found


def _decoded_texts(value: Any, kind: Any) -> Any:
    """Return a value of Python of which what a type calls text is bytes, with that text."""
    types, kind = library().types, _plain_type(kind)
    if value is None or not has_text(kind):
        return value
    if _is_text(kind):
        return value.decode("utf-8", "surrogateescape")
    if types.is_struct(kind):
        return {field.name: _decoded_texts(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        pair = kind.key_type, kind.item_type
        return [tuple(map(_decoded_texts, one, pair)) for one in value]
    return [_decoded_texts(one, kind.value_type) for one in value] if _is_list(kind) else value


def _of_python(array: Any) -> Any:
    """Return the value of a scalar of Arrow, or the values of an array, as Arrow makes them.

    ``_UNHELD`` is raised where Python cannot hold one, and where Arrow would leave nanoseconds out.
    """
    if _has(array.type, _has_nanoseconds):
        raise ValueError("a time of day in nanoseconds")
    return array.as_py() if isinstance(array, library().Scalar) else array.to_pylist()


def _value(scalar: Any) -> Any:
    """Return a value of Python, or why it cannot be read."""
    try:
        return _held(scalar)
    except UnicodeDecodeError as error:
        return error


def _held(scalar: Any) -> Any:
    """Return a value of Python; times and durations that it cannot hold as text in ISO's form."""
    arrow = library()
    if not scalar.is_valid:
        return None
    try:
        return _of_python(scalar)
    except UnicodeDecodeError:
        raise
    except _UNHELD:
        if isinstance(scalar, arrow.StructScalar):
            return {name: _held(part) for name, part in scalar.items()}
        if isinstance(scalar, arrow.ListScalar):
            parts = [_held(part) for part in scalar.values]
            of_map = isinstance(scalar, arrow.MapScalar)
            return [tuple(part.values()) for part in parts] if of_map else parts
        if isinstance(scalar, _wrappers()):
            return _held(scalar.value)
        if arrow.types.is_temporal(scalar.type):
            return _in_iso_form(scalar)
        raise


def _wrappers() -> tuple[Any, ...]:
    """Return the scalars whose value is another scalar."""
    arrow = library()
    plain = arrow.DictionaryScalar, arrow.ExtensionScalar
    return *plain, arrow.RunEndEncodedScalar, arrow.UnionScalar


def _in_iso_form(scalar: Any) -> str:
    """Return a date, a time or a duration as text in ISO's form, however large."""
    arrow, kind = library(), scalar.type
    if arrow.types.is_duration(kind):
        return _duration(scalar.value * _NANOSECONDS[kind.unit])
    if arrow.types.is_time(kind) and scalar.value % 1_000 == 0:
        return cast("time", scalar.as_py()).isoformat()
    if arrow.types.is_date(kind):
        days = scalar.value // (1 if arrow.types.is_date32(kind) else _DAY_IN_MILLISECONDS)
        return _day(days)
    if arrow.types.is_timestamp(kind):
        a_second = 10**9 // _NANOSECONDS[kind.unit]
        if not _FIRST_SECOND <= scalar.value // a_second < _END_SECOND:
            return _moment(scalar.value, kind.unit) + ("+00:00" if kind.tz else "")
    try:
        told = scalar.cast(arrow.string())
    except arrow.ArrowInvalid:  # the zone is not known
        told = scalar.cast(arrow.timestamp(kind.unit, "UTC")).cast(arrow.string())
    text: str = told.as_py()
    day, blank, rest = text.partition(" ")
    if not blank:
        return text
    zoned = re.sub(_OFFSET, r"\1:\2", rest.replace("Z", "+00:00"))
    return f"{day}T{re.sub(_NO_FRACTION, '', zoned)}"


def _moment(value: int, unit: Any) -> str:
    """Return a point in time in ISO's form, given by how many units since 1970."""
    day, rest = divmod(value, 86_400 * 10**9 // _NANOSECONDS[unit])
    within = str(np.datetime64(rest, unit)).partition("T")[2]  # of whatever day
    return f"{_day(day)}T{re.sub(_NO_FRACTION, '', within)}"


def _day(number: int) -> str:
    """Return a day since 1970-01-01 in ISO's form, by the Gregorian calendar of all times.

    NumPy writes the year -1 with three digits.
    """
    day = str(np.datetime64(number, "D"))
    return re.sub("^-([0-9]+)", lambda year: f"-{year[1]:0>4}", day)


def _duration(nanoseconds: int) -> str:
    """Return a duration in ISO's form, in seconds."""
    whole, part = divmod(abs(nanoseconds), 10**9)
    fraction = f".{part:09d}".rstrip("0") if part else ""
    return f"{'-' if nanoseconds < 0 else ''}PT{whole}{fraction}S"


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval in ISO's form, whose parts have a sign each."""
    parts = [f"{count}{name}" for count, name in ((months, "M"), (days, "D")) if count]
    seconds = _duration(abs(nanoseconds)).removeprefix("P")
    if nanoseconds < 0:
        seconds = seconds.replace("T", "T-")
    return f"P{''.join(parts)}{seconds if nanoseconds or not parts else ''}"


def is_plain(column: Any) -> bool:
    """Whether ``plain`` changes no value of an Arrow array."""
    types, kind = library().types, _plain_type(column.type)
    if _is_list(kind):
        return is_plain(decoded(column).flatten())
    if types.is_float32(kind) or types.is_float64(kind):
        given = numbers_in(decoded(column).drop_null())
        return bool(np.isfinite(given).all())
    simple = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
    return simple or _is_text(kind) or is_binary(kind)


def is_key(kind: Any) -> bool:
    """Whether values of a type can be keys; what is null can be, and makes a bad row each."""
    kind, types = _plain_type(kind), library().types
    return types.is_integer(kind) or types.is_null(kind) or _is_text(kind)


def has_texts(kind: Any) -> bool:
    """Whether values of a type are texts."""
    return _is_text(_plain_type(kind))


def has_bytes(kind: Any) -> bool:
    """Whether values of a type are bytes, or have some in them."""
    return _has(kind, is_binary)


def has_text(kind: Any) -> bool:
    """Whether values of a type are texts, or have some in them."""
    return _has(kind, _is_text)


def has_dictionary(kind: Any) -> bool:
    """Whether values of a type are numbers of the values of a dictionary, or have some in them."""
    return _has(kind, library().types.is_dictionary)


def _has(kind: Any, is_one: Callable[[Any], bool]) -> bool:
    """Whether a type is such a one, or has one in it."""
    inner = _plain_type(kind)
    parts = (inner.field(number).type for number in range(inner.num_fields))
    return is_one(kind) or is_one(inner) or any(_has(part, is_one) for part in parts)


def fields_twice(schema: Any, names: Iterable[str]) -> str | None:
    """Say which of some columns has structs with a name twice, which objects cannot have."""
    for column in names:
        for path, count in Counter(_paths_of_fields(schema.field(column).type, ())).items():
            if count > 1:
                return f"the column {column!r} has {count} fields {path[-1]!r}: rename them"
    return None


def _paths_of_fields(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all fields of the structs in a type."""
    inner = _plain_type(kind)
    is_struct = library().types.is_struct(inner)
    for place in range(inner.num_fields):
        field = inner.field(place)
        own = (*path, field.name if is_struct else f"[{place}]")
        if is_struct:
            yield own
        yield from _paths_of_fields(field.type, own)


def _has_nanoseconds(kind: Any) -> bool:
    return bool(library().types.is_time(kind) and kind.unit == "ns")


def plain(value: Any) -> Any:
    """Return a value of a table as JSON can express it.

    Dates, times and durations are text in ISO's form, decimals, infinities and UUIDs text; what
    pandas and floats have in the place of a value is None. Bytes stay.
    """
    if type(value) in _AS_JSON:
        return value
    if isinstance(value, dict):
        return {name: plain(child) for name, child in value.items()}
    if isinstance(value, list | tuple):
        # Arrow's interval, a tuple, which is named so that others need not be loaded.
        is_interval = type(value).__name__ == "MonthDayNano"
        return _interval(*value) if is_interval else list(map(plain, value))
    if isinstance(value, np.ndarray):
        return plain(list(value) if value.dtype.kind in "mM" else value.tolist())
    return None if is_nothing(value) else _plain_scalar(value)


def _is_of_python(value: np.datetime64) -> bool:
    """Whether Python has a date or a time for one of NumPy; else it would give a bare number."""
    return _FIRST_SECOND <= int(value.astype("M8[s]").astype(np.int64)) < _END_SECOND


def _beyond_python(value: np.datetime64) -> str:
    """Return a date or a time of any year as a column of Arrow does."""
    if value.dtype == "M8[D]":
        return _day(int(value.astype(np.int64)))
    unit = np.datetime_data(value.dtype)[0]
    unit = unit if unit in _NANOSECONDS else "s"
    return _moment(int(value.astype(f"M8[{unit}]").astype(np.int64)), unit)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        if isinstance(value, np.datetime64) and not _is_of_python(value):
            return _beyond_python(value)
        unit = "D" if value.dtype == "M8[D]" else "us"
        value = value.astype(f"{value.dtype.kind}8[{unit}]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        microseconds = value // timedelta(microseconds=1)
        return _duration(microseconds * 1_000 + getattr(value, "nanoseconds", 0))  # of pandas
    if isinstance(value, Decimal | UUID) or (isinstance(value, float) and not isfinite(value)):
        return str(value)
    return value


def is_nothing(value: Any) -> bool:
    """Whether a value stands for none: NaN, and what pandas and NumPy have in their place."""
    if isinstance(value, float | Decimal):
        return isnan(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    is_half = isinstance(value, np.floating)  # a double is a float
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (is_half and bool(np.isnan(value)))
    )


def is_json(value: Any) -> bool:
    """Whether JSON can express a value as it is."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_json(part) for name, part in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    return isinstance(value, str | int | float | None)


def read_by_policy(schema: Any, names: Iterable[str]) -> dict[str, ReadByPolicy]:
    """Return how a policy reads what ``plain`` makes of fields, of those that are no texts.

    A field ``a.b`` is the field b of the column a.
    """
    types = library().types
    found: dict[str, ReadByPolicy] = {}
    for name in names:
        kind = _type_of_field(schema, name)
        if kind is None:
            continue
        if types.is_decimal(kind) or types.is_floating(kind):  # infinities are texts
            found[name] = "number"
        elif types.is_temporal(kind) and not types.is_time(kind):
            found[name] = "time"
    return found


def _type_of_field(fields: Any, name: str) -> Any:
    """Return the type of a field of a schema or a struct, None if there is none."""
    first, *others = [name] if fields.get_field_index(name) >= 0 else name.split(".", 1)
    place = fields.get_field_index(first)
    if place < 0:
        return None
    kind = _plain_type(fields.field(place).type)
    if not others:
        return kind
    return _type_of_field(kind, *others) if library().types.is_struct(kind) else None


def read_by_policy_of(
    rows: Sequence[Mapping[str, Any]], names: Iterable[str]
) -> dict[str, ReadByPolicy]:
    """Return the same of fields of dicts, by the first value that is no text."""
    found: dict[str, ReadByPolicy] = {}
    for name in names:
        for value in (row.get(name) for row in rows):
            if (how := _read_by_policy(value)) is not None:
                found[name] = how
                break
    return found


def _read_by_policy(value: Any) -> ReadByPolicy | None:
    if isinstance(value, Decimal) or (isinstance(value, float) and isinf(value)):
        return "number"
    is_instant = isinstance(value, datetime) and value.tzinfo is not None
    return "time" if is_instant or isinstance(value, timedelta | np.timedelta64) else None


def dates_of(schema: Any) -> list[str]:
    """Return the names of the columns of dates, which ``plain`` makes texts of."""
    return [field.name for field in schema if library().types.is_date(_plain_type(field.type))]


def key_type(schema: Any, name: str) -> type[str] | type[int] | None:
    """Return of what type the keys are in a column of a table; None if it is none for keys."""
    kind = _plain_type(schema.field(name).type)
    if _is_text(kind):
        return str
    return int if library().types.is_integer(kind) else None


def _plain_type(kind: Any) -> Any:
    return kind.value_type if library().types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    types = library().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: Any) -> bool:
    """Whether values of a type are bytes."""
    types = library().types
    of_any_length = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(of_any_length or types.is_binary_view(kind) or types.is_fixed_size_binary(kind))


# -- out -----------------------------------------------------------------------------------------


def table(columns: Mapping[str, Any], promise: Mapping[str, Any] | None = None) -> Any:
    """Return a table of columns; what is promised of them stands in the schema's metadata.

    Args:
        columns: by name, arrays of NumPy or of Arrow, or lists.
        promise: kept as JSON under ``simdb``.
    """
    made = library().table({name: column(values) for name, values in columns.items()})
    return made.replace_schema_metadata({"simdb": json.dumps(promise)}) if promise else made


def reader(
    found: Iterator[Mapping[str, Any]],
    none: Callable[[], Mapping[str, Any]],
    promise: Callable[[], Mapping[str, Any]],
) -> Any:
    """Return a reader of columns that are found as they are read.

    Args:
        found: the columns of one batch after the other.
        none: makes the columns of a batch without rows, which tell the schema if there is no other.
        promise: what is kept as JSON under ``simdb`` in the schema's metadata, known only when the
            first batch was looked for.

    Raises:
        UsageError: while reading, a batch has keys of another type than the first.
    """
    made = (table(columns, promise()) for columns in found)
    filled = (one for one in made if one.num_rows)
    first = next(filled, None) or table(none(), promise())

    def batches() -> Iterator[Any]:
        for one in chain([first], filled):
            if one.schema != first.schema:
                raise UsageError(MIXED_KEYS)
            yield from one.to_batches()

    return library().RecordBatchReader.from_batches(first.schema, batches())


def reader_of(
    rows: Callable[[], Iterable[Mapping[str, Any]]],
    *names: str,
    maps: AnySet[str] = frozenset(),
    remedies: Sequence[Remedy] = (),
) -> Any:
    """Return a reader of rows that are read twice: once for the types of their columns.

    A field that a row lacks is null. Columns of whole numbers and of fractions are of the latter.
    Columns of the names given are there also without rows, as texts. Those named by ``maps`` have
    weights of elements in each row, as mappings or lists of pairs.

    Raises:
        UsageError: the values of a field have types that no column holds; of another field than
            those named, with ``remedies``.
    """
    arrow = library()
    schema = arrow.schema([(name, arrow.null()) for name in names])
    for columns in _columns_of(rows()):
        for name, values in columns.items():
            place = schema.get_field_index(name)
            with _told_of_types(name, () if name in names else remedies):
                known = arrow.null() if place < 0 else schema.field(place).type
                # Of a map, its elements alone have different types.
                told = [list(dict(one)) for one in values] if name in maps else values
                field = arrow.field(name, _type_of_both(known, _type_of(told)))
            schema = schema.append(field) if place < 0 else schema.set(place, field)

    for name in maps:
        place = schema.get_field_index(name)
        schema = schema.set(place, arrow.field(name, _map_of(schema.field(place).type)))
    for place, field in enumerate(schema):
        if field.name in names and arrow.types.is_null(field.type):
            schema = schema.set(place, field.with_type(arrow.string()))

    def batches() -> Iterator[Any]:
        for columns in _columns_of(rows()):
            count = len(next(iter(columns.values())))
            arrays = []
            for field in schema:
                values = columns.get(field.name, [None] * count)
                if field.name in maps:
                    values = [list(dict(one).items()) for one in values]
                with _told_of_types(field.name, () if field.name in names else remedies):
                    arrays.append(column(values, field.type))
            yield arrow.record_batch(arrays, schema=schema)

    return arrow.RecordBatchReader.from_batches(schema, batches())


@contextmanager
def _told_of_types(name: str, remedies: Sequence[Remedy]) -> Iterator[None]:
    """Raise UsageError where Arrow has no column for the values of a field."""
    try:
        yield
    except (library().ArrowException, OverflowError) as error:
        raise UsageError(
            f"the values of {name!r} have types that no one Arrow column can hold: write lines of "
            f"JSON instead ({error})",
            remedies=remedies,
        ) from error


def _type_of(values: list[Any]) -> Any:
    """Return the type of a column of values; of whole numbers it is int64 if these have room.

    Arrays are of one length.
    """
    arrow = library()
    if values and isinstance(values[0], np.ndarray):
        return arrow.list_(arrow.from_numpy_dtype(values[0].dtype), values[0].size)
    try:
        return column(values).type
    except OverflowError:
        lists = any(isinstance(value, list) for value in values)
        wide = arrow.list_(arrow.uint64()) if lists else arrow.uint64()
        return arrow.array(values, wide).type


def _map_of(elements: Any) -> Any:
    """Return the type of a column of weights, by that of lists of their elements."""
    arrow = library()
    known = not arrow.types.is_null(elements) and not arrow.types.is_null(elements.value_type)
    return arrow.map_(elements.value_type if known else arrow.string(), arrow.float64())


def _type_of_both(one: Any, other: Any) -> Any:
    """Return the type of a column that has values of both types."""
    arrow = library()
    whole, wide = arrow.int64(), arrow.uint64()
    for plain, unsigned in ((whole, wide), (arrow.list_(whole), arrow.list_(wide))):
        if plain in (one, other) and unsigned in (one, other):
            return unsigned
    schemas = [arrow.schema([("", one)]), arrow.schema([("", other)])]
    return arrow.unify_schemas(schemas, promote_options="permissive").field(0).type


def _columns_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, list[Any]]]:
    """Yield rows column by column, so many at once."""
    for part in parts_of(rows, lambda row: column_size(list(row.values()))):
        names = dict.fromkeys(name for row in part for name in row)
        yield {name: [row.get(name) for row in part] for name in names}


def parts_of(rows: Iterable[Row], size_of: Callable[[Row], int]) -> Iterator[list[Row]]:
    """Cut rows into parts that are written at once: of so many rows, or of about so many bytes."""
    part: list[Row] = []
    size = 0
    for row in rows:
        part.append(row)
        size += size_of(row)
        if len(part) >= BATCH_ROWS or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def groups_by_rows(
    file: Any, most_rows: int, most_bytes: int, columns: Sequence[str] | None = None
) -> list[tuple[int, list[int]]]:
    """Return the row groups of a Parquet file in order, and how many rows of them to read at once.

    Groups that follow each other are together where as many of each are within both limits, about.
    Where lists or structs have dictionaries in them, which are of one group each, Arrow cannot read
    several at once.
    """
    chosen = [one for one in file.schema_arrow if columns is None or one.name in columns]
    kinds, of_values = [one.type for one in chosen], library().types.is_dictionary
    are_apart = any(has_dictionary(kind) and not of_values(kind) for kind in kinds)
    of_any_length = [one.name for one in chosen if _is_text(one.type) or is_binary(one.type)]

    def rows_of(number: int) -> tuple[int, int]:
        group = file.metadata.row_group(number)
        fit = most_bytes * group.num_rows // max(1, group.total_byte_size)
        rows: int = min(most_rows, fit)
        if of_any_length and min(rows, group.num_rows) * group.total_byte_size > most_bytes:
            # Values that repeat are counted once there: the first rows tell how long they are.
            first = next(file.iter_batches(_LOOKED_AT, row_groups=[number], columns=of_any_length))
            rows = min(rows, most_bytes * first.num_rows // max(1, first.nbytes))
        return max(1, rows), number * are_apart

    found = groupby(range(file.metadata.num_row_groups), rows_of)
    return [(rows, list(groups)) for (rows, _), groups in found]


def column_size(value: Any) -> int:
    """Return about how many bytes a value takes that is to be one of a column."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Mapping):
        return column_size([*value, *value.values()])
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        size = len if kinds == {str} else column_size
        return VALUE_BYTES * len(value) + (0 if kinds <= _SMALL else sum(map(size, value)))
    return 0


def keys_column(keys: Sequence[Key | None], *, of_numbers: bool = False) -> Any:
    """Return keys as a column: int64 if they are numbers, else texts; None is null.

    Args:
        keys: of some items.
        of_numbers: they are numbers if there are none.

    Raises:
        UsageError: some are numbers and some are texts, which no column holds.
    """
    arrow = library()
    kinds = set(map(type, keys)) - {type(None)}
    if len(kinds) > 1:
        raise UsageError(MIXED_KEYS)
    are_numbers = kinds == {int} if kinds else of_numbers
    return column(keys, arrow.int64() if are_numbers else arrow.string())


def json_column(values: Sequence[Any]) -> Any:
    """Return metadata as a column of JSON text; None is null."""
    texts = [None if value is None else json_text(value) for value in values]
    return column(texts, library().string())


def column(values: Any, kind: Any = None) -> Any:
    """Return what ``pyarrow.array`` does, which imports pandas where it is installed.

    That takes a third of a second. Once it is imported that is the faster; and always it is left
    to what is not made here: values of several types, mappings, and those that a column has no room
    for, which it refuses.

    Args:
        values: an array of NumPy or of Arrow, or a sequence.
        kind: the type; by the values if it is not given.
    """
    arrow = library()
    if isinstance(values, arrow.Array | arrow.ChunkedArray) and kind is None:
        return values
    if "pandas" in sys.modules:
        return arrow.array(values, kind)
    if type(values) is np.ndarray and kind is None and values.ndim == 1:
        plain = values.dtype.kind in "iuf" and values.dtype.isnative
        return numbers(values) if plain else arrow.array(values)
    own = set(map(type, values)) if isinstance(values, list | tuple) else {object}
    has_nulls = type(None) in own
    own.discard(type(None))
    made, types = None, arrow.types
    if not own:
        made = arrow.nulls(len(values), kind)
    elif own == {str} and (kind is None or types.is_string(kind) or types.is_large_string(kind)):
        made = _texts(values, arrow.string() if kind is None else kind)
    elif own == {bool} and (kind is None or types.is_boolean(kind)):
        made = arrow.BooleanArray.from_buffers(
            arrow.bool_(), len(values), [_validity(values), _bits(map(bool, values), len(values))]
        )
    elif own == {int} and (kind is None or kind in (arrow.int64(), arrow.uint64())):
        made = _of_numbers(values, np.uint64 if kind == arrow.uint64() else np.int64)
    elif own == {float} and (kind is None or types.is_float64(kind)):
        made = _of_numbers(values, np.float64)
    elif own == {list} and (kind is None or types.is_list(kind)):
        made = _lists(values, kind)
    elif own == {np.ndarray} and not has_nulls and kind and types.is_fixed_size_list(kind):
        flat = column(np.concatenate(values))
        if flat.type == kind.value_type and all(one.size == kind.list_size for one in values):
            made = arrow.FixedSizeListArray.from_arrays(flat, type=kind)
    return arrow.array(values, kind) if made is None else made


def _lists(values: Sequence[list[Any] | None], kind: Any) -> Any:
    """Return lists as a column; None where it has no room."""
    arrow = library()
    inner = column(
        list(chain.from_iterable(value or () for value in values)),
        None if kind is None else kind.value_type,
    )
    if not isinstance(inner, arrow.Array) or len(inner) >= 2**31:
        return None
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value or ()) for value in values], out=offsets[1:])
    buffers = [_validity(values), arrow.py_buffer(offsets)]
    kind = arrow.list_(inner.type) if kind is None else kind
    return arrow.Array.from_buffers(kind, len(values), buffers, children=[inner])


def _texts(values: Sequence[str | None], kind: Any) -> Any:
    """Return texts as a column; None where it has no room, or one is no text that Arrow takes."""
    arrow = library()
    try:
        encoded = [b"" if value is None else value.encode() for value in values]
    except UnicodeEncodeError:
        return None
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(values)), out=offsets[1:])
    if kind == arrow.string():
        if offsets[-1] >= 2**31 - 1:
            return None
        offsets = offsets.astype(np.int32)
    buffers = [_validity(values), arrow.py_buffer(offsets), arrow.py_buffer(b"".join(encoded))]
    return arrow.Array.from_buffers(kind, len(values), buffers)


def _of_numbers(values: Sequence[Any], dtype: type[np.generic]) -> Any:
    """Return numbers as a column; None if one is too large."""
    try:
        made = np.fromiter((0 if value is None else value for value in values), dtype, len(values))
    except OverflowError:
        return None
    return numbers(made, _validity(values))


def _validity(values: Sequence[Any]) -> Any:
    """Return the bits that tell which values are there; None if all are."""
    if None not in values:
        return None
    return _bits((value is not None for value in values), len(values))


def _bits(truths: Iterable[bool], count: int) -> Any:
    """Return so many truths as Arrow has them."""
    return library().py_buffer(np.packbits(np.fromiter(truths, np.bool_, count), bitorder="little"))


def numbers(values: npt.NDArray[Any], validity: Any = None) -> Any:
    """Return an array of numbers of NumPy as one of Arrow, as ``column`` does."""
    arrow = library()
    kind, buffer = arrow.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return arrow.Array.from_buffers(kind, values.size, [validity, arrow.py_buffer(buffer)])


def taken(
    keys: npt.NDArray[np.int64] | ByteStrings | Sequence[Key], places: npt.NDArray[np.int64]
) -> Any:
    """Return the column of the keys at some places; UsageError as ``keys_column``."""
    arrow = library()
    if isinstance(keys, np.ndarray):
        return numbers(keys.take(places))
    if isinstance(keys, ByteStrings):
        buffers = map(arrow.py_buffer, (keys.offsets.astype(np.int32), keys.values))
        texts = arrow.StringArray.from_buffers(len(keys), *buffers)
        return texts.take(numbers(places))
    return keys_column(keys).take(numbers(places))


def bytes_column(rows: npt.NDArray[Any]) -> Any:
    """Return the rows of a matrix as a column of bytes, which are not copied."""
    arrow = library()
    rows = np.ascontiguousarray(rows)
    width = rows.shape[1] * rows.itemsize
    offsets = np.arange(rows.shape[0] + 1, dtype=np.int64) * width
    kind, small = arrow.large_binary(), offsets[-1] < 2**31
    if small:
        kind, offsets = arrow.binary(), offsets.astype(np.int32)
    buffers = [None, arrow.py_buffer(offsets), arrow.py_buffer(rows)]
    return arrow.Array.from_buffers(kind, rows.shape[0], buffers)


def matrix(column: Any, dtype: type[np.generic], width: int) -> npt.NDArray[Any] | None:
    """Return a column of bytes as the rows of a matrix; None if one has not that width."""
    found = None if column.null_count else column_of(column)
    size = width * np.dtype(dtype).itemsize
    if found is None or found.form != "bytes" or (np.diff(found.offsets) != size).any():
        return None
    whole: npt.NDArray[Any] = np.ascontiguousarray(found.values).view(dtype)
    return whole.reshape(len(column), width)

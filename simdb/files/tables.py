"""Tables in files: Parquet, and Arrow as data sets of Hugging Face are; rows in, rows out."""

from __future__ import annotations

import base64
import io
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Self, overload
from urllib.parse import unquote

import numpy as np

from simdb import arrow
from simdb.arrays import Int64s
from simdb.errors import BadItemError, ConfigurationError, UsageError
from simdb.files.compression import STANDARD_STREAM, plain_name
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import ColumnRows, Item, ReadingOptions, Row, RowProblemError, RowReader
from simdb.files.spans import Spans
from simdb.ragged import Column
from simdb.results import Key
from simdb.threads import Pool, Task

BATCH_ROWS = 10_000
_BATCH_BYTES = arrow.BATCH_BYTES  # of rows that are read at once, about
GROUP_ROWS = 100_000  # of a row group of a table that is made
MOST_BYTES = 256 * 2**20  # of a row group that is written
_MADE_BYTES = 32 * 2**20  # of one of a table that is made
_LINES_AT_ONCE = 256  # that are made of rows as lines are asked for
_LINE_BYTES = 2**20  # of the rows of these, about
_READ_AT_ONCE = 2**20  # bytes of a column of a Parquet file
_PARQUET = b"PAR1"  # with which a Parquet file begins
_ENCRYPTED = b"PARE"  # with which one begins whose metadata are encrypted, too
_OWN_SCHEMA = b"ARROW:schema"  # under which Parquet keeps that of Arrow
_ARROW = b"ARROW1"  # with which an Arrow file begins that can be read from the middle
_PARTITION = re.compile(r"([^=/]+)=([^/]*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a table, column by column.

    Attributes:
        columns: the values of each, as JSON can express them, but for bytes.
        binary: the names of the columns that are bytes, or have bytes somewhere in them.
        is_sound: whether it is known that all text in it is UTF-8.
    """

    columns: Mapping[str, Sequence[Any]]
    binary: Iterable[str] = ()
    is_sound: bool = True

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each row."""
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, values, strict=True))


@dataclass(frozen=True)
class _BatchRows(ColumnRows):
    """Rows of a record batch.

    Attributes:
        reader: of the table.
        batch: what is read of them.
        item: the column of the items.
        metadata: the columns that are kept as metadata.
    """

    reader: TableReader
    batch: Any
    lines: range
    keys: Sequence[Key]
    item: str
    metadata: Sequence[str]

    def cut(self, begin: int, end: int) -> Self:
        batch = self.batch.slice(begin, end - begin)
        return replace(self, batch=batch, lines=self.lines[begin:end], keys=self.keys[begin:end])

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes)

    @property
    def raws(self) -> RowLines:
        return RowLines(self.batch)

    def rows(self) -> Iterator[Row]:
        return self.reader.rows_of(part_of(self.batch), self.lines.start)

    def is_like(self, other: ColumnRows) -> bool:
        return (
            isinstance(other, _BatchRows)
            and self.batch.schema.equals(other.batch.schema)
            and self.item == other.item
        )

    def item_column(self, others: Sequence[Self]) -> Column | None:
        items = [one.batch.column(one.item) for one in (self, *others)]
        joined = items[0] if len(items) == 1 else arrow.library().concat_arrays(items)
        return arrow.column_of(joined)

    def metadata_of_rows(self) -> list[dict[str, Any] | None] | None:
        names = list(self.metadata)
        return list(part_of(self.batch.select(names)).rows()) if names else None


class RowLines(Sequence[bytes]):
    """Rows of a record batch as lines of JSON, which are made when they are asked for."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._first = 0  # of the rows whose lines are made
        self._made: list[bytes] = []

    def __len__(self) -> int:
        rows: int = self._batch.num_rows
        return rows

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> RowLines: ...
    def __getitem__(self, place: int | slice) -> bytes | RowLines:
        if isinstance(place, slice):
            begin, end, _ = place.indices(len(self))
            return RowLines(self._batch.slice(begin, max(0, end - begin)))
        place = range(len(self))[place]
        if not 0 <= place - self._first < len(self._made):  # what is asked for next follows it
            fit = _LINE_BYTES * len(self) // max(1, self._batch.nbytes)
            part = part_of(self._batch.slice(place, max(1, min(_LINES_AT_ONCE, fit))))
            self._first, self._made = place, list(map(_line_of, part.rows()))
        return self._made[place - self._first]

    def __iter__(self) -> Iterator[bytes]:
        return map(_line_of, part_of(self._batch).rows())


class TableReader(JsonLinesReader):
    """Rows of a Parquet file or an Arrow file; each is what its JSON would be.

    Dates and times are read as text in ISO's form, decimals and infinities as text, NaN as null.
    Bytes are left out of metadata, and stand in JSON in base64. The place of a row is its number,
    from 1. ``raw`` is the row as a line of JSON. A row is bad where a text in it that is read, or
    written, is not UTF-8.

    Attributes:
        written: the columns that are written besides; their texts are read to that end.
        copied: takes every batch as it is read, with the columns that are copied; None if none are.
    """

    def __init__(self, source: str, options: ReadingOptions) -> None:
        RowReader.__init__(self, source, options)
        self.written: AbstractSet[str] = frozenset()
        self.copied: CopiedRows | None = None
        self._needs_raw = options.raw or options.made_keys == "content"
        self._binary: set[str] = set()
        self._require_readable()

    def _require_readable(self) -> None:
        _require_file(self.source)
        arrow.library()

    @property
    def has_batches(self) -> bool:
        """Whether the rows come in record batches of Arrow."""
        return True

    def schema(self) -> Any:
        """Return the schema of the table, None where it has none."""
        with TableFile(self.source) as file:
            return file.schema

    def batches(self) -> Iterator[tuple[Any, bool]]:
        """Yield the rows as record batches, and whether all text in each is UTF-8.

        Of the columns that are read, and where text is not UTF-8 also of others.
        """
        with TableFile(self.source) as file:
            folders = partitions_of(self.options.below.get(self.source, ""))
            added = {name: folders[name] for name in folders if name not in file.schema.names}
            wanted = self._wanted([*file.schema.names, *added])
            own = [name for name in wanted if name not in added]
            if (problem := arrow.fields_twice(file.schema, own)) is not None:
                raise BadItemError(f"{self.source}: {problem}")
            told = {name: added[name] for name in added if name in wanted}
            copied = [] if self.copied is None else self.copied.names
            texts = {field.name for field in file.schema if arrow.has_text(field.type)}
            needed = {*own, *copied, *(texts & self.written)}
            names = [name for name in file.schema.names if name in needed]
            for batch in file.batches(names):
                if self.copied is not None:
                    self.copied.wait(batch.select(copied))
                is_sound = file.is_sound(batch)
                read = batch.select(own) if is_sound and names != own else batch
                yield _with_columns(read, told), is_sound

    def blocks(self, most_bytes: int) -> Iterator[ColumnRows | Iterator[Row]]:
        """Yield the rows batch by batch."""
        if not self.has_batches:
            yield iter(self)
            return
        line = 1
        for batch, is_sound in self.batches():
            rows = self.in_columns(batch, line) if is_sound else None
            yield rows or self.rows_of(part_of(batch, is_sound=is_sound), line)
            line += batch.num_rows

    def _parts(self) -> Iterator[Part]:
        """Yield the rows in parts."""
        return (part_of(batch, is_sound=is_sound) for batch, is_sound in self.batches())

    def _wanted(self, names: Sequence[str]) -> list[str]:
        """Return the names of the columns that are read.

        Raises:
            BadItemError: one that the options name is missing, or stands twice.
        """
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BadItemError(f"{self.source}: there are two columns {twice!r}")
        taken = {
            name: name if name in names else name.partition(".")[0]
            for name in (*self.options.text_fields, self.options.id_field)
            if name is not None
        }
        of_record = self.options.kind.field_names is not None
        missing = [
            name
            for name in taken
            if taken[name] not in names
            and (name == self.options.id_field or not of_record or self.options.all_fields)
        ]
        kept = self.options.columns
        missing += [name for name in kept or () if name not in names]
        if missing:
            raise BadItemError(
                f"{self.source}: there is no column {missing[0]!r}; there are "
                f"{', '.join(map(repr, names)) or 'none'}{self.options.way_to_name(missing[0])}"
            )
        if kept is None and (self._needs_raw or self.options.metadata is True):
            return list(names)
        others = filter(self.options.takes, names) if kept is None else kept
        wanted = {*taken.values(), *others}
        return [name for name in names if name in wanted]

    def __iter__(self) -> Iterator[Row]:
        line = 1
        for part in self._parts():
            for row in self.rows_of(part, line):
                line += 1
                yield row

    def rows_of(self, part: Part, line: int) -> Iterator[Row]:
        """Yield the rows of a part, of which the first has the number ``line``."""
        self._note(part.binary)
        as_line = self._needs_raw or not part.is_sound  # which text that is not UTF-8 cannot be
        for number, fields in enumerate(part.rows(), line):
            try:
                raw = _line_of(fields) if as_line else b""
            except UnicodeEncodeError:
                yield self._row_without_text(number, fields)
            else:
                yield self.row_of(number, raw, fields)

    def _row_without_text(self, line: int, fields: Mapping[str, Any]) -> Row:
        """Return the bad row of a record that has text which is not UTF-8."""
        raw, key = _line_of(fields, errors="backslashreplace"), None
        with suppress(RowProblemError, BadItemError):
            key = None if self.options.made_keys else self._key(fields, line)
        return Row(line, key, None, None, raw, _not_utf8(fields))

    def in_columns(self, batch: Any, line: int) -> _BatchRows | None:
        """Return the rows of a batch as columns, None where they are to be read one by one.

        Args:
            batch: of ``batches``, all of whose text is UTF-8.
            line: the number of its first row.
        """
        options = self.options
        item = options.text_fields[0]
        others = set(filter(options.takes, batch.schema.names)) - self._taken
        plain = not any(arrow.has_bytes(batch.schema.field(name).type) for name in others)
        simple = options.kind.field_names is None and len(options.text_fields) == 1
        simple = simple and options.whole_rows is None
        if options.metadata and not (plain and options.metadata_field is None):
            return None
        if not simple or item not in batch.schema.names or batch.column(item).null_count:
            return None
        if arrow.has_bytes(batch.schema.field(item).type):
            self._binary.add(item)
        lines = range(line, line + batch.num_rows)
        keys = self._keys_of(batch, lines)
        names = [name for name in batch.schema.names if name in others]
        return None if keys is None else _BatchRows(self, batch, lines, keys, item, names)

    def _keys_of(self, batch: Any, lines: range) -> Sequence[Key] | None:
        """Return the keys of the rows of a batch, if all are as their column has them, or made."""
        options = self.options
        if options.made_keys == "place":
            return [self._made_key(line, b"") for line in lines]
        if options.id_field is None:
            return None if options.made_keys else lines
        if options.id_field not in batch.schema.names:
            return None
        column = batch.column(options.id_field)
        wanted = arrow.is_key(column.type) and not (
            options.integer_keys and not arrow.library().types.is_integer(column.type)
        )
        return arrow.KeyColumn.of(column) if wanted and not column.null_count else None

    def _note(self, binary: Iterable[str]) -> None:
        """Say which columns are left out of the metadata, once for each."""
        for name in binary:
            if name not in self._binary | self._taken and self.options.takes(name):
                self.notes.append(
                    f"{self.source}: bytes of the column {name!r} are not kept as metadata"
                )
            self._binary.add(name)

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the fields of a row without problem."""
        fields: dict[str, Any] = json.loads(raw)
        return fields

    def values(self, raw: bytes) -> dict[str, Any]:
        """Return the fields of a row without problem, bytes as bytes."""
        fields = self.fields(raw)
        for name in self._binary.intersection(fields):
            if isinstance(fields[name], str):
                fields[name] = base64.b64decode(fields[name])
        return fields

    def item_in(self, raw: bytes) -> Item:
        """Return the item of a row without problem."""
        return self._item(self.values(raw))

    def place(self, line: int) -> str:
        """Return where a row stands, for a message."""
        return f"{self.source}, row {line}"

    def _part(self, name: str, value: Any) -> Item:
        item = super()._part(name, value)
        if isinstance(item, list) and None in item:
            raise RowProblemError(
                f"the field {name!r} has null or NaN at position {item.index(None)}"
            )
        return item

    def _metadata(self, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        if not self.options.metadata:
            return None
        text = fields.get(self.options.metadata_field or "")
        if isinstance(text, str):  # as they are exported
            with suppress(ValueError, RecursionError):
                fields = {**fields, self.options.metadata_field or "": json.loads(text)}
        if self._binary:
            fields = {
                name: value if name in self._taken else _without_bytes(value)
                for name, value in fields.items()
                if name in self._taken or name not in self._binary or not _is_bytes(value)
            }
        return super()._metadata(fields)


def _require_file(source: str) -> None:
    """Raise unless a table may be read there: from its end, and not as a stream of bytes."""
    if source == STANDARD_STREAM or plain_name(source) != source:
        raise ConfigurationError(
            f"{source}: a table cannot be read from standard input or compressed"
        )


def _is_bytes(value: Any) -> bool:
    """Whether a value of a column that has bytes is left out: it is bytes, or was null there."""
    return value is None or isinstance(value, bytes)


def _without_bytes(value: Any) -> Any:
    """Return a value without the bytes in it, however deep they lie."""
    if isinstance(value, dict):
        return {
            name: _without_bytes(part)
            for name, part in value.items()
            if not isinstance(part, bytes)
        }
    if isinstance(value, list):
        return [_without_bytes(part) for part in value if not isinstance(part, bytes)]
    return value


def _line_of(fields: Mapping[str, Any], *, errors: str = "strict") -> bytes:
    told = json.dumps(fields, ensure_ascii=False, default=_not_json)
    return told.encode("utf-8", errors) + b"\n"


def _not_utf8(fields: Mapping[str, Any]) -> str:
    """Say which fields of a row have text that is not UTF-8."""
    found = []
    for name in fields:
        try:
            _line_of({name: fields[name]})
        except UnicodeEncodeError:
            found.append(repr(name))
    return f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} not UTF-8"


def _with_columns(batch: Any, added: Mapping[str, str | None]) -> Any:
    """Return rows with columns more, of one text each."""
    library = arrow.library()
    for name, value in added.items():
        values = library.repeat(library.scalar(value, library.string()), batch.num_rows)
        batch = batch.append_column(name, values)
    return batch


def _not_json(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def part_of(batch: Any, *, is_sound: bool = True) -> Part:
    """Return a record batch of Arrow column by column."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = arrow.values_as_text(column)
        columns[name] = values if arrow.is_plain(column) else list(map(arrow.plain, values))
    binary = [field.name for field in batch.schema if arrow.has_bytes(field.type)]
    return Part(columns, binary, is_sound)


def partitions_of(place: str) -> dict[str, str | None]:
    """Return what the folders of a file say of all its rows: those that are called NAME=VALUE."""
    found = map(_PARTITION.fullmatch, Path(place).parts[:-1])
    return {
        unquote(folder[1]): None if folder[2] == _NO_VALUE else unquote(folder[2])
        for folder in found
        if folder is not None
    }


def partitions_together(places: Mapping[str, str]) -> dict[str, dict[str, str | None]]:
    """Return what the folders of each file say of its rows, None where those of others say more.

    Args:
        places: of each file, the path of it whose folders say columns.
    """
    told = {source: partitions_of(place) for source, place in places.items()}
    names = dict.fromkeys(chain.from_iterable(told.values()))
    return {source: {name: own.get(name) for name in names} for source, own in told.items()}


class TableFile:
    """A Parquet file or an Arrow file, as a context manager; what it is, its first bytes say.

    Attributes:
        schema: of its columns.
        group_rows: rows of the largest row group of a Parquet file; else of a batch. Of a file
            without rows, those of a table that is made.
        row_bytes: bytes of a row of a Parquet file, about; None of other files.
        is_stream: whether it is a stream of Arrow, as the shards of Hugging Face are.

    Raises:
        BadItemError: it is neither, or is damaged; also while its batches are read.
    """

    def __init__(self, source: str) -> None:
        _require_file(source)
        self.source = source
        self._parquet: Any = None
        self._is_sound: bool | None = None  # all text of the batch that is cut; None: not known
        self.group_rows = BATCH_ROWS
        self.row_bytes: float | None = None
        self.is_stream = False
        self._opened = ExitStack()
        try:
            self._batches = self._reader()
            _ = self.schema.names  # which may not be UTF-8
        except FileNotFoundError:
            raise
        except (arrow.library().ArrowException, OSError, ValueError) as error:
            self._opened.close()
            raise self._unreadable(error) from error

    def _reader(self) -> Any:
        """Open the file and return what yields its batches, of the columns that it is asked for."""
        library = arrow.library()
        file = self._opened.enter_context(library.OSFile(self.source))
        begin = file.read(len(_ARROW))
        file.seek(0)
        if begin.startswith(_PARQUET):
            # One row group after the other, of which no more is in memory than has to be: without a
            # buffer it would be all that is compressed of a column.
            found = arrow.parquet().ParquetFile(file, pre_buffer=False, buffer_size=_READ_AT_ONCE)
            schema, described = self._opened.enter_context(found).schema_arrow, found.metadata
            # Where the file has a schema of Arrow, that alone tells metadata; others are beside it.
            told = {**(described.metadata or {}), **(schema.metadata or {})}
            told.pop(_OWN_SCHEMA, None)
            self.schema = schema.with_metadata(told or None)
            groups = [described.row_group(number) for number in range(described.num_row_groups)]
            self.group_rows = max((group.num_rows for group in groups), default=0) or GROUP_ROWS
            self.row_bytes = max(
                (group.total_byte_size / max(1, group.num_rows) for group in groups), default=0.0
            )
            self._parquet = found
            return partial(self._of_parquet, found)
        if begin.startswith(_ENCRYPTED):
            raise ValueError("it is encrypted")
        of_file = begin == _ARROW
        self.is_stream = not of_file
        opened = library.ipc.open_file(file) if of_file else library.ipc.open_stream(file)
        found = self._opened.enter_context(opened)
        self.schema = found.schema
        batches = map(found.get_batch, range(found.num_record_batches)) if of_file else iter(found)
        return partial(self._of_arrow, batches)

    def _of_arrow(self, batches: Iterable[Any], columns: Sequence[str] | None) -> Iterator[Any]:
        for batch in batches:
            chosen = batch if columns is None else batch.select(columns)
            self._is_sound = arrow.is_within(chosen)
            yield from arrow.pieces(chosen, BATCH_ROWS, _BATCH_BYTES)

    @staticmethod
    def _of_parquet(file: Any, columns: Sequence[str] | None) -> Iterator[Any]:
        for rows, groups in arrow.groups_by_rows(file, BATCH_ROWS, _BATCH_BYTES, columns):
            for batch in file.iter_batches(rows, row_groups=groups, columns=columns):
                # By names of columns Arrow also finds parts of others: ``a.b`` of ``a``.
                chosen = batch if columns is None else batch.select(columns)
                yield from arrow.pieces(chosen, BATCH_ROWS, _BATCH_BYTES)

    def compression(self, columns: Sequence[str]) -> dict[str, str]:
        """Return how columns of a Parquet file are compressed, by their paths; none of others."""
        found: dict[str, str] = {}
        if self._parquet is None or not self._parquet.metadata.num_row_groups:
            return found
        try:  # to ask for that of an encrypted column would end the process; to read it is an error
            next(self._parquet.iter_batches(1, row_groups=[0], columns=list(columns)), None)
        except (arrow.library().ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from error
        described = self._parquet.metadata
        group, codecs = described.row_group(0), arrow.library().Codec
        for number in range(group.num_columns):
            path = described.schema.column(number).path
            if any(path == name or path.startswith(f"{name}.") for name in columns):
                name = group.column(number).compression.lower()
                known = name == "uncompressed" or codecs.is_available(name)
                found[path] = {"uncompressed": "none"}.get(name, name) if known else "zstd"
        return found

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield its rows as record batches of the columns that are named, else of all."""
        try:
            yield from self._batches(columns=columns)
        except (arrow.library().ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from error

    def is_sound(self, batch: Any) -> bool:
        """Whether all text of the batch that was yielded last is UTF-8."""
        return arrow.is_sound(batch) if self._is_sound is None else self._is_sound

    def _unreadable(self, error: Exception) -> BadItemError:
        return BadItemError(f"{self.source}: no Parquet or Arrow file that can be read: {error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._opened.close()


def version_of(source: str) -> tuple[int, ...]:
    """Return what tells a file from another that takes its place, or from itself written anew."""
    status = Path(source).stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def require_same_columns(sources: Sequence[str], columns: AbstractSet[str] | None = None) -> None:
    """Raise BadItemError unless all files have the columns of the first, in their order.

    Args:
        sources: the files.
        columns: those that matter; None for all.
    """
    first = None
    for source in sources:
        with TableFile(source) as file:
            schema = _narrowed(file.schema, columns)
        first = schema if first is None else first
        if schema.equals(first):
            continue
        own, others = (
            dict(zip(one.names, map(str, one.types), strict=True)) for one in (schema, first)
        )
        for name, kind in sorted(own.items() ^ others.items()):
            told = f"lacks {name!r} of {kind}"
            if name in own:
                told = f"has {name!r} of {own[name]}" + f", not {others[name]}" * (name in others)
            raise BadItemError(
                f"{source}: its columns differ from those of {sources[0]}: it {told}"
            )
        how = "are in a different order from"
        if schema.names == first.names:
            unlike = (one.name for one, other in zip(schema, first, strict=True) if one != other)
            how = f"differ, {next(unlike)!r} by whether it may be null, from"
        raise BadItemError(f"{source}: its columns {how} those of {sources[0]}")


def _narrowed(schema: Any, columns: AbstractSet[str] | None) -> Any:
    """Return some columns of a schema, None for all."""
    fields = [field for field in schema if columns is None or field.name in columns]
    return arrow.library().schema(fields, schema.metadata)


class CopiedRows:
    """Rows of a file on their way into a copy; batches wait until it is known which are kept.

    Args:
        source: the file.
        folders: columns that its folders say, which are written too.
        columns: those that are written, in the order of the file; None for all.
        outgrown: those whose dictionaries get wider numbers; see ``outgrown_dictionaries``.

    Attributes:
        is_stream: whether the file is a stream of Arrow.
        names: the columns that are read of the file.
        schema: of the rows that are kept; views of texts and bytes become large texts and bytes.
        row_bytes: of a row, about; of a file that does not tell, None.

    Raises:
        BadItemError: it cannot be read.
    """

    def __init__(
        self,
        source: str,
        folders: Mapping[str, str | None],
        columns: AbstractSet[str] | None,
        outgrown: AbstractSet[str] = frozenset(),
    ) -> None:
        library = arrow.library()
        self._source = source
        with TableFile(source) as file:
            schema = arrow.without_views(file.schema)
            for place, field in enumerate(schema):
                if field.name in outgrown:
                    schema = schema.set(place, arrow.with_wide_dictionaries(field))
            self.row_bytes = file.row_bytes
            self._group_rows = file.group_rows
            self.is_stream = file.is_stream
        self._added = {
            name: value
            for name, value in folders.items()
            if name not in schema.names and (columns is None or name in columns)
        }
        self._own = _narrowed(schema, columns)
        self.names = self._own.names
        self.schema = self._own
        for name in self._added:
            self.schema = self.schema.append(library.field(name, library.string()))
        self._waiting: deque[Any] = deque()
        self._first = 0  # place of the first row that waits

    @property
    def is_arrow_file(self) -> bool:
        """Whether they are of an Arrow file, which has one dictionary for all rows of a column."""
        return self.row_bytes is None and not self.is_stream

    @property
    def of_dictionaries(self) -> list[str]:
        """The names of the columns that have dictionaries."""
        return [field.name for field in self._own if arrow.has_dictionary(field.type)]

    @property
    def narrow(self) -> list[str]:
        """The names of those whose dictionaries may be too small for the values of all rows."""
        return [field.name for field in self._own if arrow.has_narrow_dictionary(field.type)]

    def require_possible(self, *, as_parquet: bool) -> None:
        """Raise UsageError if Parquet has no place for a type of these columns."""
        if not as_parquet or _fits_parquet(self.schema):
            return
        alone = (arrow.library().schema([field]) for field in self.schema)
        wrong = next(one for one in alone if not _fits_parquet(one)).field(0)
        raise UsageError(
            f"{self._source}: Parquet has no place for the column {wrong.name!r} of {wrong.type}: "
            "write an Arrow file, or name the columns to keep with --columns"
        )

    def categories(self) -> Iterator[Any]:
        """Yield tables without rows of the columns that have dictionaries, with all of these."""
        names = self.of_dictionaries
        schema = arrow.library().schema([self._own.field(name) for name in names])
        with TableFile(self._source) as file:
            for batch in islice(file.batches(names), 1 if self.is_arrow_file else None):
                yield arrow.library().Table.from_batches([batch]).slice(0, 0).cast(schema)

    def wait(self, batch: Any) -> None:
        """Take the next batch of the file."""
        self._waiting.append(batch)

    def kept(self, places: Int64s, end: int) -> Iterator[Any]:
        """Yield some of the rows that wait as tables, and forget all before ``end``.

        Args:
            places: of the rows, from 0, rising.
            end: no later call names a place before it.
        """
        first = self._first
        for batch in list(self._waiting):
            after = first + batch.num_rows
            begin, stop = np.searchsorted(places, (first, after))
            if begin < stop:
                yield self._picked(batch, places[begin:stop] - first)
            if after <= end:
                self._waiting.popleft()
                self._first = after
            first = after

    def _picked(self, batch: Any, places: Int64s) -> Any:
        """Return some rows of a batch, with the columns that folders say."""
        rows = arrow.library().Table.from_batches([batch])
        if not rows.schema.equals(self._own):
            rows = arrow.as_types_of(rows, self._own)
        return _with_columns(arrow.rows_at(rows, places), self._added)

    def writer(
        self,
        target: IO[bytes],
        *,
        as_parquet: bool,
        most_bytes: int,
        may_stream: bool,
        dictionaries: Any = None,
        threads: int = 1,
    ) -> GroupWriter:
        """Return what writes these rows, and those of other files with the same columns.

        With several ``threads`` one of them writes groups, where these are at most half as large as
        they may be: one more is in memory then.
        """
        packed = {}
        if as_parquet:
            with TableFile(self._source) as file:
                packed = file.compression(self.names)
        group_bytes = self._group_rows * (self.row_bytes or most_bytes)
        return GroupWriter(
            target,
            self.schema,
            as_parquet=as_parquet,
            as_stream=may_stream and self.is_stream,
            dictionaries=dictionaries,
            packed=packed,
            most_rows=self._group_rows,
            most_bytes=most_bytes,
            in_background=threads > 1 and as_parquet and group_bytes * 2 <= most_bytes,
        )


def _fits_parquet(schema: Any) -> bool:
    """Whether Parquet has a place for all columns."""
    try:
        arrow.parquet().ParquetWriter(io.BytesIO(), schema).close()
    except (arrow.library().ArrowNotImplementedError, OSError):  # as of a negative scale
        return False
    return True


def copy_rows(
    kept: Mapping[str, Spans],
    target: IO[bytes],
    *,
    as_parquet: bool,
    folders: Mapping[str, Mapping[str, str | None]] | None = None,
    columns: AbstractSet[str] | None = None,
    most_bytes: int = MOST_BYTES,
    may_stream: bool = True,
    threads: int = 1,
) -> None:
    """Write rows of files, under the schema of the first file.

    Memory is that of one row group that is written.

    Args:
        kept: of each file, in order, the rows to be written, rising, from 1 as their places are.
        target: where to.
        as_parquet: in row groups as large as those of the first file, up to ``most_bytes``, and
            compressed as it is; else as an Arrow file, or a stream if the first file is one.
        folders: of each file, columns that its folders say, which are written too.
        columns: those that are written, in the order of the file; None for all.
        most_bytes: of a row group, about.
        may_stream: whether it may be a stream; names in ``.feather`` promise a file.
        threads: with several, rows are read while others are written, if there is room.

    Raises:
        BadItemError: the schemas of two files differ, or one cannot be read any more.
    """
    require_same_columns(list(kept), columns)
    with ExitStack() as opened:  # the writer is closed in any case, or does so when it is forgotten
        outgrown = outgrown_dictionaries(list(kept), columns) if as_parquet else frozenset()
        copies = [
            CopiedRows(source, (folders or {}).get(source, {}), columns, outgrown)
            for source in kept
        ]
        streams = may_stream and copies[0].is_stream  # in which dictionaries may take turns
        writer = opened.enter_context(
            copies[0].writer(
                target,
                as_parquet=as_parquet,
                most_bytes=most_bytes,
                may_stream=may_stream,
                dictionaries=None if as_parquet or streams else _one_of_each_dictionary(copies),
                threads=threads,
            )
        )
        for (source, rows), copied in zip(kept.items(), copies, strict=True):
            with TableFile(source) as file:
                end = 0
                for batch in file.batches(copied.names):
                    copied.wait(batch)
                    first, end = end, end + batch.num_rows
                    for table in copied.kept(rows.between(first + 1, end + 1) - 1, end):
                        writer.write(table)


def outgrown_dictionaries(
    sources: Sequence[str], columns: AbstractSet[str] | None
) -> frozenset[str]:
    """Find the columns of which all dictionaries together have more values than can be numbered.

    Rows of several files, and row groups, get into one row group of Parquet, which nobody can read
    where its values are more. Of dictionaries within lists and structs that is not counted.
    """
    copies = [CopiedRows(source, {}, columns) for source in sources]
    narrow = copies[0].narrow
    types = {name: copies[0].schema.field(name).type for name in narrow}
    known: dict[str, Any] = {}
    found = {name for name in narrow if not arrow.library().types.is_dictionary(types[name])}
    if narrow and not (copies[0].is_arrow_file and len(copies) == 1):
        for part in chain.from_iterable(copied.categories() for copied in copies):
            for name in set(narrow).intersection(part.column_names) - found:
                own = part.column(name).chunk(0).dictionary
                known[name] = _distinct_of(known.get(name), own)
                if len(known[name]) > _numbered_by(types[name].index_type):
                    found.add(name)
    return frozenset(found)


def _distinct_of(values: Any, more: Any) -> Any:
    """Return the values of a dictionary, and of others before."""
    if values is None or values.equals(more):
        return more
    return arrow.library().concat_arrays([values, more]).unique()


def _numbered_by(kind: Any) -> int:
    """Return how many values a dictionary may have."""
    is_signed = arrow.library().types.is_signed_integer(kind)
    bits: int = kind.bit_width - is_signed
    return 1 << bits


def _one_of_each_dictionary(copies: Sequence[CopiedRows]) -> Any:
    """Return a table without rows whose dictionaries have the values of those of all files.

    None where the files have no more than one dictionary a column anyway.

    Raises:
        UsageError: two dictionaries cannot become one.
    """
    library, (first, *others) = arrow.library(), copies
    names = first.of_dictionaries
    if not names or (first.is_arrow_file and not others):
        return None
    found = library.schema([first.schema.field(name) for name in names]).empty_table()
    for part in chain.from_iterable(copied.categories() for copied in copies):
        try:
            found = library.concat_tables([found, part]).unify_dictionaries().slice(0, 0)
        except library.ArrowException as error:
            raise UsageError(
                f"the dictionaries of {', '.join(map(repr, names))} cannot become one, as an Arrow "
                f"file needs it: write Parquet instead ({error})"
            ) from error
        found = library.table([column.chunk(0) for column in found.columns], found.schema)
    whole = library.Table.from_batches([], first.schema)  # which unions have, too
    for name in names:
        place = first.schema.get_field_index(name)
        whole = whole.set_column(place, first.schema.field(place), found.column(name))
    return whole


def write_table(
    found: Any,
    target: IO[bytes],
    *,
    as_parquet: bool,
    told: Callable[[int], None] | None = None,
) -> int:
    """Write what a reader of record batches reads as a file; return how many rows it has.

    Args:
        found: the reader.
        target: where to.
        as_parquet: which of the two forms.
        told: called with the number of rows so far.

    Raises:
        UsageError: a type of a column has no place in such a file.
    """
    count = 0
    try:
        with GroupWriter(
            target, found.schema, as_parquet=as_parquet, most_bytes=_MADE_BYTES
        ) as writer:
            for batch in found:
                count += batch.num_rows
                writer.write(arrow.library().Table.from_batches([batch]))
                if told is not None:
                    told(count)
    except arrow.library().ArrowNotImplementedError as error:
        raise UsageError(f"a column cannot be written: {error}") from error
    return count


class GroupWriter:
    """Writes tables in groups of rows as a Parquet file, or as an Arrow file.

    Args:
        target: where to.
        schema: of all tables.
        as_parquet: which of the two.
        as_stream: of Arrow, a stream in the place of a file.
        dictionaries: a table without rows, whose dictionaries all rows share; None where they do
            so anyway, or need not.
        packed: compression by the paths of the columns.
        most_rows, most_bytes: of a group.
        in_background: a thread of its own writes a group while rows of the next one are gathered.
    """

    def __init__(
        self,
        target: IO[bytes],
        schema: Any,
        *,
        as_parquet: bool,
        as_stream: bool = False,
        dictionaries: Any = None,
        packed: Mapping[str, str] | None = None,
        most_rows: int = GROUP_ROWS,
        most_bytes: int = MOST_BYTES,
        in_background: bool = False,
    ) -> None:
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._dictionaries = dictionaries
        self._waiting: list[Any] = []
        self._thread = Pool(1, "simdb-writer") if in_background else None
        self._begun: Task[None] | None = None
        if not as_parquet:
            made = arrow.library().ipc
            self._writer = (made.new_stream if as_stream else made.new_file)(target, schema)
            return
        codecs = set((packed or {}).values())
        chosen = codecs.pop() if len(codecs) == 1 else packed or "zstd"
        self._writer = arrow.parquet().ParquetWriter(target, schema, compression=chosen)

    def write(self, rows: Any) -> None:
        """Write rows, as soon as they are enough for a group."""
        self._waiting.append(rows)
        while sum(table.num_rows for table in self._waiting) >= self._most_rows:
            self._write_group(self._most_rows)
        if sum(table.nbytes for table in self._waiting) >= self._most_bytes:
            self._write_group(self._most_rows)

    def _write_group(self, most: int) -> None:
        whole = arrow.library().concat_tables(self._waiting)
        group = whole.slice(0, most)
        if self._dictionaries is not None:
            shared = arrow.library().concat_tables([self._dictionaries, group]).unify_dictionaries()
            for batch in filter(len, shared.to_batches()):
                self._writer.write_batch(batch)
        elif self._thread is None:
            self._put(group)
        else:
            self._require_written()
            self._begun = self._thread.submit(self._put, group)
        self._waiting = [whole.slice(most)] if whole.num_rows > most else []

    def _put(self, group: Any) -> None:
        try:
            self._writer.write_table(group)
        except arrow.library().ArrowInvalid as error:  # as of times that Parquet cannot hold
            raise UsageError(
                f"rows cannot be written: {error}; write an Arrow file, or name the columns to "
                "keep with --columns"
            ) from error

    def _require_written(self) -> None:
        """Wait for the group that is being written, and raise what went wrong."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_raised: object) -> None:
        try:
            if kind is None and self._waiting:
                self._write_group(self._most_rows)
            if kind is None:
                self._require_written()
        finally:
            if self._thread is not None:
                self._thread.close()
            self._writer.close()  # forgotten it would write its end into a closed file

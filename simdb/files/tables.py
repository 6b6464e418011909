"""Tables in files: Parquet, and Arrow as data sets of Hugging Face are; rows in, rows out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from simdb import arrow
from simdb.errors import BadItemError, ConfigurationError
from simdb.files.compression import STANDARD_STREAM, plain_name
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import Item, ReadingOptions, Row, RowReader

BATCH_ROWS = 10_000
_PARQUET = b"PAR1"  # with which a Parquet file begins
_ARROW = b"ARROW1"  # with which an Arrow file begins that can be read from the middle


class TableReader(JsonLinesReader):
    """Rows of a Parquet file or an Arrow file; each is what its JSON would be.

    Dates and times are read as text in ISO's form, decimals as text. The place of a row is its
    number, from 1. ``raw`` is the row as a line of JSON.
    """

    def __init__(self, source: str, options: ReadingOptions) -> None:
        RowReader.__init__(self, source, options)
        if source == STANDARD_STREAM or plain_name(source) != source:
            raise ConfigurationError(f"{source}: tables are read from files, as they are")
        arrow.library()

    def __iter__(self) -> Iterator[Row]:
        done = 0
        with _opened(self.source, in_groups=False) as (_, parts, _):
            for part in parts:
                for begin in range(0, part.num_rows, BATCH_ROWS):
                    rows = map(arrow.plain, part.slice(begin, BATCH_ROWS).to_pylist())
                    for line, fields in enumerate(rows, done + begin + 1):
                        told = json.dumps(fields, ensure_ascii=False, default=_not_json)
                        yield self._row_of(line, told.encode("utf-8", "replace") + b"\n", fields)
                done += part.num_rows

    def fields(self, raw: bytes) -> dict[str, Any]:
        """Return the fields of a row without problem."""
        fields: dict[str, Any] = json.loads(raw)
        return fields

    def place(self, line: int) -> str:
        """Return where a row stands, for a message."""
        return f"{self.source}, row {line}"

    def _part(self, name: str, value: Any) -> Item:
        return value if isinstance(value, bytes) else super()._part(name, value)


def _not_json(value: object) -> str:
    return f"<{type(value).__name__}>"


@contextmanager
def _opened(source: str, *, in_groups: bool) -> Iterator[tuple[Any, Iterator[Any], str]]:
    """Open a file; what it is, its first bytes say.

    Yields:
        its schema, its parts one after the other, and the compression of a Parquet file. Parts
        are batches, of Parquet the row groups if those are asked for.

    Raises:
        BadItemError: it is neither Parquet nor Arrow, or is damaged.
    """
    library, parquet = arrow.library(), arrow.parquet()
    try:
        with Path(source).open("rb") as file:
            begin = file.read(len(_ARROW))
            file.seek(0)
            if begin.startswith(_PARQUET):
                with parquet.ParquetFile(file) as found:
                    described = found.metadata
                    groups = range(described.num_row_groups)
                    columns = described.row_group(0).num_columns if groups else 0
                    packed = described.row_group(0).column(0).compression if columns else "NONE"
                    batches = found.iter_batches(BATCH_ROWS)
                    parts = map(found.read_row_group, groups) if in_groups else batches
                    yield found.schema_arrow, parts, packed
            elif begin == _ARROW:
                with library.ipc.open_file(file) as found:
                    yield found.schema, map(found.get_batch, range(found.num_record_batches)), ""
            else:
                with library.ipc.open_stream(file) as found:
                    yield found.schema, iter(found), ""
    except FileNotFoundError:
        raise
    except (library.ArrowException, OSError, ValueError) as error:
        problem = f"{source}: no Parquet or Arrow file that can be read: {error}"
        raise BadItemError(problem) from error


def copy_rows(kept: Mapping[str, Sequence[int]], target: IO[bytes], *, as_parquet: bool) -> None:
    """Write rows of files with all their columns, under the schema of the first file.

    Memory is that of one part of a file.

    Args:
        kept: of each file, in order, the rows to be written, rising, from 1 as their places are.
        target: where to.
        as_parquet: in row groups as those of the sources, and compressed as they are; else as an
            Arrow file.

    Raises:
        BadItemError: the schemas of two files differ, or one cannot be read any more.
    """
    library = arrow.library()
    wanted = None
    with ExitStack() as opened:  # the writer is closed in any case, or does so when it is forgotten
        for source, rows in kept.items():
            places = np.asarray(rows, np.int64) - 1
            with _opened(source, in_groups=True) as (schema, parts, packed):
                if wanted is None:
                    wanted, make = schema, library.ipc.new_file
                    if as_parquet:
                        make = partial(arrow.parquet().ParquetWriter, compression=packed or "zstd")
                    writer = opened.enter_context(make(target, schema))
                elif not schema.equals(wanted):
                    raise BadItemError(f"{source}: its columns are not those of {next(iter(kept))}")
                first = 0
                for part in parts:
                    begin, end = np.searchsorted(places, (first, first + part.num_rows))
                    if begin < end:
                        writer.write(part.take(library.array(places[begin:end] - first)))
                    first += part.num_rows

"""The formats of inputs: what reads each, what it is called, which options it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from simdb.errors import Remedy, UsageError
from simdb.files.compression import STANDARD_STREAM, InputStream
from simdb.files.json_arrays import JsonReader, lines_reader
from simdb.files.jsonl import JsonLinesReader, reads_columns
from simdb.files.rows import ReadingOptions, RowReader, StreamReader
from simdb.files.separated import BasketReader, LinesReader, RatingsReader, SeparatedReader
from simdb.files.tables import TableReader
from simdb.files.texts import TextReader
from simdb.files.writing import TABLES
from simdb.kinds.base import Format

# How files begin whose content is told from any text.
_BEGINNINGS: Mapping[bytes, tuple[str, Format | None]] = {
    b"PAR1": ("Parquet", "parquet"),
    b"ARROW1": ("Arrow", "arrow"),
    b"\x93NUMPY": ("a NumPy array", "numpy"),
    b"\x1f\x8b": ("compressed by gzip, which a name ending in .gz says", None),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd, which a name ending in .zst says", None),
    b"PK\x03\x04": ("a zip archive, as spreadsheets are", None),
}
_OF_FIELDS = {"id_field", "text_field", "make_keys"}


class FileFormat(Struct, frozen=True):
    """What simdb knows of a format.

    Attributes:
        reader: opens an input by its name.
        options: those of reading that mean something in it.
        words: what an input of it is called in messages.
        kept: what rows of it can be written as again, by what names of files promise; the first
            where a name promises nothing.
        is_table: its rows have columns of their own types.
        reads_columns: tells whether a reader of it yields rows column by column.
    """

    reader: Callable[[str, ReadingOptions], RowReader]
    options: frozenset[str]
    words: str
    kept: tuple[str, ...]
    is_table: bool = False
    reads_columns: Callable[[ReadingOptions], bool] = lambda _options: False


def _in_stream(
    reader: Callable[[InputStream, ReadingOptions], StreamReader | RatingsReader],
    source: str,
    options: ReadingOptions,
) -> RowReader:
    stream = InputStream(source)
    try:
        _require_text(stream)
        return reader(stream, options)
    except BaseException:
        stream.close()
        raise


def _require_text(stream: InputStream) -> None:
    for told, (content, name) in _BEGINNINGS.items():
        if not stream.begins_with(told):
            continue
        if stream.name == STANDARD_STREAM:
            kind, _, _ = content.partition(",")
            raise UsageError(
                f"{stream.name}: the content is {kind}, which is not read from standard input"
            )
        helps = [] if name is None else [Remedy("format", name, "reads it")]
        raise UsageError(f"{stream.name}: the content is {content}", remedies=helps)


def _separated(stream: InputStream, options: ReadingOptions) -> SeparatedReader | RatingsReader:
    return (SeparatedReader if options.ratings is None else RatingsReader)(stream, options)


def _array(source: str, options: ReadingOptions) -> RowReader:
    from simdb.files.arrays import ArrayReader  # slow to load, with archives

    return ArrayReader(source, options)


def _table(words: str) -> FileFormat:
    options = frozenset(_OF_FIELDS | {"metadata_field", "columns"})
    return FileFormat(
        TableReader,
        options,
        words,
        kept=("jsonl", *TABLES),
        is_table=True,
        reads_columns=lambda _options: True,
    )


def _json(
    reader: Callable[[InputStream, ReadingOptions], JsonLinesReader], words: str
) -> FileFormat:
    return FileFormat(
        partial(_in_stream, reader),
        frozenset(_OF_FIELDS | {"metadata_field", "encoding"}),
        words,
        ("jsonl",),
        reads_columns=reads_columns,
    )


FORMATS: Mapping[Format, FileFormat] = {
    "jsonl": _json(lines_reader, "lines of JSON"),
    "json": _json(JsonReader, "JSON"),
    "parquet": _table("Parquet"),
    "arrow": _table("Arrow"),
    "csv": FileFormat(
        partial(_in_stream, _separated),
        frozenset(_OF_FIELDS | {"separator", "delimiter", "encoding"}),
        "CSV",
        ("csv",),
    ),
    "lines": FileFormat(
        partial(_in_stream, LinesReader),
        frozenset(_OF_FIELDS | {"separator", "encoding"}),
        "lines of tokens",
        ("lines",),
    ),
    "baskets": FileFormat(
        partial(_in_stream, BasketReader),
        frozenset(_OF_FIELDS | {"separator", "delimiter", "encoding"}),
        "baskets",
        ("baskets",),
    ),
    "text": FileFormat(TextReader, frozenset({"encoding"}), "each a text", ("a list of files",)),
    "numpy": FileFormat(
        _array, frozenset({"id_field", "text_field"}), "arrays", ("a list of keys",)
    ),
}

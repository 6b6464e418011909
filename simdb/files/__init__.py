"""Files in and out: JSON lines, CSV, tables, NumPy arrays, plain files and folders, compressed.

Knows rows, bytes and names of files, and nothing of stores.
"""

from __future__ import annotations

from pathlib import Path

from simdb.errors import ConfigurationError
from simdb.files.arrays import ArrayReader
from simdb.files.compression import STANDARD_STREAM, InputStream
from simdb.files.databases import DatabaseReader
from simdb.files.inputs import TABLES, database_of, require_there, told_format
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import ReadingOptions, RowReader, StreamReader
from simdb.files.separated import BasketReader, LinesReader, RatingsReader, SeparatedReader
from simdb.files.tables import TableReader
from simdb.files.texts import TextReader
from simdb.kinds.base import Format

_READERS: dict[Format, type[StreamReader]] = {
    "jsonl": JsonLinesReader,
    "csv": SeparatedReader,
    "lines": LinesReader,
    "baskets": BasketReader,
}


def open_rows(source: str, options: ReadingOptions | None = None) -> RowReader:
    """Return a reader of the rows of a file, a folder, a database, or ``-`` for standard input.

    Nothing is read before the first row is asked for. A name ending in ``.gz`` or ``.zst`` is
    decompressed on the way.

    Raises:
        ConfigurationError: the format is neither told by the name nor by the options.
        MissingExtraError: a table without its library.
        FileNotFoundError: no such file or folder.
    """
    options = options or ReadingOptions()
    chosen = told_format(source, options)
    require_there(source)
    if database_of(source) is not None:
        return DatabaseReader(source, options)
    if chosen == "text":
        return TextReader(source, options)
    if Path(source).is_dir() and source != STANDARD_STREAM:
        wholly = (
            "" if "text" in options.kind.formats else f", of which none is a {options.kind.name}"
        )
        raise ConfigurationError(f"{source} is a folder: folders are read as text files{wholly}")
    if chosen == "numpy":
        return ArrayReader(source, options)
    if chosen in TABLES:
        return TableReader(source, options)
    reader = RatingsReader if options.ratings is not None else _READERS[chosen]
    return reader(InputStream(source), options)

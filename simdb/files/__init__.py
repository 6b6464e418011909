"""Files in and out: JSON lines, CSV, NumPy arrays, plain files and folders, also compressed.

Knows rows, bytes and names of files, and nothing of stores.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simdb.errors import ConfigurationError
from simdb.files.arrays import ArrayReader
from simdb.files.baskets import BasketReader, LinesReader
from simdb.files.compression import STANDARD_STREAM, InputStream, plain_name
from simdb.files.jsonl import JsonLinesReader, item_of_json
from simdb.files.ratings import RatingsReader
from simdb.files.reader import RowReader, StreamReader
from simdb.files.rows import (
    FORMATS,
    LONGEST_RECORD,
    PLURALS,
    Elements,
    Format,
    Item,
    KindOfRows,
    ReadingOptions,
    Row,
)
from simdb.files.separated import SeparatedReader
from simdb.files.texts import TextReader
from simdb.files.writing import Output, json_line, printable, written_together

__all__ = [
    "LONGEST_RECORD",
    "PLURALS",
    "Elements",
    "Format",
    "Item",
    "KindOfRows",
    "Output",
    "ReadingOptions",
    "Row",
    "RowReader",
    "format_of_name",
    "item_of_json",
    "json_line",
    "open_rows",
    "printable",
    "written_together",
]

_LINES_OF_JSON: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl"}
_OF_TEXTS: dict[str, Format] = {
    **_LINES_OF_JSON,
    ".csv": "csv",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".rst": "text",
}
_OF_SETS: dict[str, Format] = {
    **_LINES_OF_JSON,
    ".csv": "csv",
    ".basket": "baskets",
    ".txt": "lines",
    ".text": "lines",
    ".dat": "lines",
}
_OF_NUMBERS: dict[str, Format] = {**_OF_SETS, ".npy": "numpy", ".npz": "numpy"}
# What the name of a file tells, by kind. Programs that find minutiae write .xyt.
FORMAT_OF_SUFFIX: dict[KindOfRows, dict[str, Format]] = {
    "text": _OF_TEXTS,
    "set": _OF_SETS,
    "bag": _OF_SETS,
    "bits": _OF_NUMBERS,
    "vector": _OF_NUMBERS,
    "fingerprint": {**_LINES_OF_JSON, ".txt": "text", ".text": "text", ".xyt": "text"},
    "record": {**_LINES_OF_JSON, ".csv": "csv"},
}


_READERS: dict[Format, type[StreamReader]] = {
    "jsonl": JsonLinesReader,
    "csv": SeparatedReader,
    "lines": LinesReader,
    "baskets": BasketReader,
}


def open_rows(source: str, options: ReadingOptions | None = None) -> RowReader:
    """Return a reader of the rows of a file, a folder, or ``-`` for standard input.

    Nothing is read before the first row is asked for. A name ending in ``.gz`` or ``.zst`` is
    decompressed on the way.

    Raises:
        ConfigurationError: the format is neither told by the name nor by the options.
        MissingExtraError: a ``.zst`` file without the zstandard extra.
        FileNotFoundError: no such file or folder.
    """
    options = ReadingOptions() if options is None else options
    chosen = _format(source, options)
    if chosen == "text":
        if source != STANDARD_STREAM and not Path(source).exists():
            raise FileNotFoundError(2, "no such file or folder", source)
        return TextReader(source, options)
    if Path(source).is_dir() and source != STANDARD_STREAM:
        wholly = "" if "text" in FORMATS[options.kind] else f", of which none is a {options.kind}"
        raise ConfigurationError(f"{source} is a folder: folders are read as text files{wholly}")
    if chosen == "numpy":
        return ArrayReader(source, options)
    reader = RatingsReader if options.ratings is not None else _READERS[chosen]
    return reader(InputStream(source), options)


def format_of_name(source: str, options: ReadingOptions) -> Format | None:
    """Return the format that the name of a file tells."""
    return FORMAT_OF_SUFFIX[options.kind].get(Path(plain_name(source)).suffix.lower())


def _format(source: str, options: ReadingOptions) -> Format:
    if options.format is not None:
        return options.format
    if source == STANDARD_STREAM:
        return "jsonl"
    formats = FORMATS[options.kind]
    if Path(source).is_dir():
        return "text" if "text" in formats else formats[0]
    told = format_of_name(source, options)
    if told is None:
        raise ConfigurationError(
            f"the name of {source} does not tell its format: name it, one of {', '.join(formats)}"
        )
    # What the name tells has to agree with the other options too.
    return replace(options, format=told).format or told

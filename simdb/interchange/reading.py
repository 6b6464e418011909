"""Open an input of any kind as rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simdb.errors import ConfigurationError
from simdb.interchange.baskets import BasketReader, LinesReader
from simdb.interchange.compression import STANDARD_STREAM, InputStream, plain_name
from simdb.interchange.jsonl import JsonLinesReader
from simdb.interchange.ratings import RatingsReader
from simdb.interchange.reader import RowReader, StreamReader
from simdb.interchange.rows import (
    FORMATS_OF_SETS,
    FORMATS_OF_TEXTS,
    KINDS_OF_SETS,
    Format,
    ReadingOptions,
)
from simdb.interchange.separated import SeparatedReader
from simdb.interchange.texts import TextReader

FORMAT_OF_SET_SUFFIX: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".basket": "baskets",
    ".txt": "lines",
    ".text": "lines",
    ".dat": "lines",
}
FORMAT_OF_SUFFIX: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".rst": "text",
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
        of_sets = f", of which none is a {options.kind}" if options.kind in KINDS_OF_SETS else ""
        raise ConfigurationError(f"{source} is a folder: folders are read as text files{of_sets}")
    reader = RatingsReader if options.ratings is not None else _READERS[chosen]
    return reader(InputStream(source), options)


def _format(source: str, options: ReadingOptions) -> Format:
    if options.format is not None:
        return options.format
    if source == STANDARD_STREAM:
        return "jsonl"
    sets = options.kind in KINDS_OF_SETS
    if Path(source).is_dir():
        return "lines" if sets else "text"
    suffixes = FORMAT_OF_SET_SUFFIX if sets else FORMAT_OF_SUFFIX
    told = suffixes.get(Path(plain_name(source)).suffix.lower())
    if told is None:
        formats = ", ".join(FORMATS_OF_SETS if sets else FORMATS_OF_TEXTS)
        raise ConfigurationError(
            f"the name of {source} does not tell its format: name it, one of {formats}"
        )
    # What the name tells has to agree with the other options too.
    return replace(options, format=told).format or told

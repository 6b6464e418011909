"""Files in and out: JSON lines, CSV, NumPy arrays, plain files and folders, also compressed.

Knows rows, bytes and names of files, and nothing of stores.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simdb.errors import ConfigurationError
from simdb.files.arrays import ArrayReader
from simdb.files.compression import STANDARD_STREAM, InputStream, plain_name
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import ReadingOptions, RowReader, StreamReader
from simdb.files.separated import (
    BasketReader,
    LinesReader,
    RatingsReader,
    SeparatedReader,
    delimiter_of,
)
from simdb.files.tables import TableReader
from simdb.files.texts import TextReader, iter_files, leads_out
from simdb.kinds.base import Format

_READERS: dict[Format, type[StreamReader]] = {
    "jsonl": JsonLinesReader,
    "csv": SeparatedReader,
    "lines": LinesReader,
    "baskets": BasketReader,
}
TABLES: tuple[Format, ...] = ("parquet", "arrow")
_BESIDE_SHARDS = ("dataset_info.json", "state.json")  # in a folder of a data set of Hugging Face


def open_rows(source: str, options: ReadingOptions | None = None) -> RowReader:
    """Return a reader of the rows of a file, a folder, or ``-`` for standard input.

    Nothing is read before the first row is asked for. A name ending in ``.gz`` or ``.zst`` is
    decompressed on the way.

    Raises:
        ConfigurationError: the format is neither told by the name nor by the options.
        MissingExtraError: a ``.zst`` file without the zstandard extra.
        FileNotFoundError: no such file or folder.
    """
    options = options or ReadingOptions()
    chosen = told_format(source, options)
    require_there(source)
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


def require_there(*sources: str) -> None:
    """Raise FileNotFoundError unless each input is standard input, or a file or folder there is."""
    for source in sources:
        if source != STANDARD_STREAM and not Path(source).exists():
            raise FileNotFoundError(2, "no such file or folder", source)


def format_of_name(source: str, options: ReadingOptions) -> Format | None:
    """Return the format that the name of a file tells."""
    suffix = Path(plain_name(source)).suffix.lower()
    return options.kind.suffixes.get(".csv" if suffix == ".tsv" else suffix)


def written_forms(source: str, options: ReadingOptions) -> tuple[str, ...]:
    """Return the formats that rows of an input can be written in.

    It is their own, in which ``"tsv"`` is told from ``"csv"``; tables may also become JSON lines.
    """
    told = told_format(source, options)
    if told in TABLES:
        return ("jsonl", *TABLES)
    return ("tsv" if told == "csv" and delimiter_of(source, options) == "\t" else told,)


def inputs_of(source: str, options: ReadingOptions) -> list[str]:
    """Return the inputs that an input is: itself, or the files of rows in a folder, its shards.

    A folder whose files' names tell a format of rows is all of these; a folder of texts is one
    input, of a text a file.

    Raises:
        ConfigurationError: the files in a folder have several formats, or one is a link out of it.
    """
    if source == STANDARD_STREAM or not Path(source).is_dir() or options.format == "text":
        return [source]
    names = iter_files(Path(source), options.pattern)
    files = [str(Path(source, name)) for name in names if name not in _BESIDE_SHARDS]
    formats = {options.format or format_of_name(name, options) for name in files}
    if not formats - {None, "text"}:
        return [source]
    if len(formats) > 1:
        told = ", ".join(sorted(one or "unknown" for one in formats))
        raise ConfigurationError(
            f"{source} holds files of several formats ({told}): name those that are meant, with "
            "a pattern or a format"
        )
    for name in files:
        if leads_out(Path(source), Path(name)):
            raise ConfigurationError(f"{name} is a link to a file outside of the folder")
    return files


def told_format(source: str, options: ReadingOptions) -> Format:
    """Return the format of an input, as its name or the options tell it."""
    if options.format is not None:
        return options.format
    if source == STANDARD_STREAM:
        return "jsonl"
    formats = options.kind.formats
    if Path(source).is_dir():
        return "text" if "text" in formats else formats[0]
    told = format_of_name(source, options)
    if told is None:
        raise ConfigurationError(
            f"the name of {source} does not tell its format: name it, one of {', '.join(formats)}"
        )
    replace(options, format=told)  # it has to agree with the other options too
    return told

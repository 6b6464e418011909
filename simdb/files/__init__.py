"""Files in and out: JSON lines, CSV, tables, NumPy arrays, plain files and folders, compressed.

Knows rows, bytes and names of files, and nothing of stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb.errors import ConfigurationError

if TYPE_CHECKING:
    from simdb.files.rows import ReadingOptions, RowReader


def open_rows(source: str, options: ReadingOptions | None = None) -> RowReader:
    """Return a reader of the rows of a file, a folder, a database, or ``-`` for standard input.

    Nothing is read before the first row is asked for. A name ending in ``.gz`` or ``.zst`` is
    decompressed on the way.

    Raises:
        ConfigurationError: the format is neither told by the name nor by the options.
        MissingExtraError: a table without its library.
        FileNotFoundError: no such file or folder.
    """
    # Commands that read no rows write lines all the same: they need no format.
    from simdb.files.databases import DatabaseReader, database_of
    from simdb.files.formats import FORMATS
    from simdb.files.inputs import require_there, told_format
    from simdb.files.rows import ReadingOptions
    from simdb.files.texts import is_folder

    options = options or ReadingOptions()
    told = told_format(source, options)
    require_there(source)
    if database_of(source) is not None:
        return DatabaseReader(source, options)
    if is_folder(source) and told != "text":
        wholly = (
            "" if "text" in options.kind.formats else f", of which none is a {options.kind.name}"
        )
        raise ConfigurationError(
            f"{source} is a folder in which no name tells a format of rows, and such folders are "
            f"read as text files{wholly}"
        )
    return FORMATS[told].reader(source, options)

"""Files in and out: JSON lines, CSV, plain text files and folders, also compressed.

Knows rows, bytes and names of files, and nothing of stores.
"""

from __future__ import annotations

from simdb.interchange.reader import RowReader
from simdb.interchange.reading import open_rows
from simdb.interchange.rows import LONGEST_RECORD, Elements, Format, ReadingOptions, Row
from simdb.interchange.writing import Output, json_line, written_together

__all__ = [
    "LONGEST_RECORD",
    "Elements",
    "Format",
    "Output",
    "ReadingOptions",
    "Row",
    "RowReader",
    "json_line",
    "open_rows",
    "written_together",
]

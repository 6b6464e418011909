"""Files in and out: JSON lines, CSV, NumPy arrays, plain files and folders, also compressed.

Knows rows, bytes and names of files, and nothing of stores.
"""

from __future__ import annotations

from simdb.files.jsonl import item_of_json
from simdb.files.reader import RowReader
from simdb.files.reading import open_rows
from simdb.files.rows import (
    LONGEST_RECORD,
    PLURALS,
    Elements,
    Format,
    Item,
    KindOfRows,
    ReadingOptions,
    Row,
)
from simdb.files.writing import Output, json_line, written_together

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
    "item_of_json",
    "json_line",
    "open_rows",
    "written_together",
]

"""Files in and out: JSON lines, CSV, NumPy arrays, plain files and folders, also compressed.

Knows rows, bytes and names of files, and nothing of stores.
"""

from __future__ import annotations

from simdb.interchange.jsonl import item_of_json
from simdb.interchange.reader import RowReader
from simdb.interchange.reading import open_rows
from simdb.interchange.rows import (
    LONGEST_RECORD,
    PLURALS,
    Elements,
    Format,
    Item,
    KindOfRows,
    ReadingOptions,
    Row,
)
from simdb.interchange.writing import Output, json_line, written_together

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

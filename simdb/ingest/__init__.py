"""Rows on their way into a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb import late

if TYPE_CHECKING:
    from simdb.ingest import (
        add,
        contained,
        dedupe,
        grouping,
        ordered,
    )

__all__ = [
    "add",
    "contained",
    "dedupe",
    "grouping",
    "ordered",
]

__getattr__ = late.modules_of(__name__, __all__)

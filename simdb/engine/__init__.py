"""Items meet bytes: indexing, searching, joining, grouping, checking. No files, no printing.

The public objects reach the modules through this package, which imports them on first use
(``engine.searching.search(...)``): ``import simdb`` stays quick, and a program that only searches
never loads what joins, checks or rebuilds.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simdb.engine import (
        answering,
        auditing,
        calibrating,
        catalogue,
        checking,
        comparing,
        crossing,
        deduplicating,
        describing,
        describing_rules,
        distrusting,
        exact_arranging,
        exact_checking,
        exact_classes,
        exact_crossing,
        exact_indexing,
        exact_joining,
        exact_loading,
        exact_measuring,
        exact_planning,
        exact_searching,
        exact_sweeping,
        exact_tokens,
        grouping,
        indexing,
        joining,
        kind_values,
        kinds,
        loading,
        maintaining,
        reading_rows,
        repairing,
        scanning,
        searching,
        serving,
        settings,
        signing,
    )

__all__ = [
    "answering",
    "auditing",
    "calibrating",
    "catalogue",
    "checking",
    "comparing",
    "crossing",
    "deduplicating",
    "describing",
    "describing_rules",
    "distrusting",
    "exact_arranging",
    "exact_checking",
    "exact_classes",
    "exact_crossing",
    "exact_indexing",
    "exact_joining",
    "exact_loading",
    "exact_measuring",
    "exact_planning",
    "exact_searching",
    "exact_sweeping",
    "exact_tokens",
    "grouping",
    "indexing",
    "joining",
    "kind_values",
    "kinds",
    "loading",
    "maintaining",
    "reading_rows",
    "repairing",
    "scanning",
    "searching",
    "serving",
    "settings",
    "signing",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"simdb.engine.{name}")
    raise AttributeError(f"module 'simdb.engine' has no attribute {name!r}")

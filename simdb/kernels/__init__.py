"""The hot loops: compiled functions of arrays, with no I/O and no Python objects.

The modules are imported on first use (``kernels.shingling.character_shingles(...)``), because
they import numba, which takes longer than everything else in simdb together.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simdb.kernels import (
        aligning,
        bags,
        bits,
        buckets,
        classes,
        elements,
        fingerprints,
        joining,
        ordering,
        overlaps,
        posting,
        probing,
        projections,
        runs,
        shingling,
        sketching,
        vectors,
    )

__all__ = [
    "aligning",
    "bags",
    "bits",
    "buckets",
    "classes",
    "elements",
    "fingerprints",
    "joining",
    "ordering",
    "overlaps",
    "posting",
    "probing",
    "projections",
    "runs",
    "shingling",
    "sketching",
    "vectors",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"simdb.kernels.{name}")
    raise AttributeError(f"module 'simdb.kernels' has no attribute {name!r}")

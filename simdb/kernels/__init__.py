"""The hot loops: compiled functions of arrays, with no I/O and no Python objects.

The modules are imported on first use (``kernels.shingles.character_shingles(...)``), because they
import numba, which takes longer than everything else in simdb together. ``register`` lists every
compiled function with its types, and docs/kernels.md is made from it.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simdb.kernels import (
        bits,
        buckets,
        elements,
        fingerprints,
        hashes,
        order,
        overlaps,
        postings,
        runs,
        shingles,
        sketches,
        vectors,
    )

__all__ = [
    "bits",
    "buckets",
    "elements",
    "fingerprints",
    "hashes",
    "order",
    "overlaps",
    "postings",
    "runs",
    "shingles",
    "sketches",
    "vectors",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"simdb.kernels.{name}")
    raise AttributeError(f"module 'simdb.kernels' has no attribute {name!r}")

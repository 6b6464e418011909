"""The hot loops: compiled functions of arrays, with no I/O and no Python objects.

The modules are imported on first use (``kernels.shingles.character_shingles(...)``), and numba by
``compiling`` only where one must be compiled: that takes longer than everything else in simdb
together. ``register`` lists every compiled function, and docs/kernels.md is made from it.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from simdb import late
from simdb.errors import StorageError
from simdb.extras import is_of_handler

if TYPE_CHECKING:
    from simdb.kernels import (
        bits,
        buckets,
        checksums,
        columns,
        edits,
        elements,
        fingerprints,
        forest,
        hashes,
        markup,
        order,
        overlaps,
        postings,
        runs,
        shingles,
        sketches,
        strings,
        vectors,
        weighted,
    )

__all__ = [
    "bits",
    "buckets",
    "checksums",
    "columns",
    "edits",
    "elements",
    "fingerprints",
    "forest",
    "hashes",
    "markup",
    "order",
    "overlaps",
    "postings",
    "runs",
    "shingles",
    "sketches",
    "strings",
    "vectors",
    "weighted",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        try:
            return late.module(f"simdb.kernels.{name}")
        except OSError as error:
            if is_of_handler(error):
                raise
            raise StorageError(
                f"the compiled kernels cannot be loaded: {error}; if too many files are "
                "open, allow this process "
                "more descriptors ('ulimit -n')"
            ) from error
    raise AttributeError(f"module 'simdb.kernels' has no attribute {name!r}")

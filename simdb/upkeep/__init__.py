"""Looking after a collection: checking, compacting, rebuilding, measuring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb import late

if TYPE_CHECKING:
    from simdb.upkeep import (
        audit,
        calibrate,
        check,
        labelling,
        rebuild,
        regroup,
        repack,
        stats,
        survey,
        uncertain,
        weigh,
    )

__all__ = [
    "audit",
    "calibrate",
    "check",
    "labelling",
    "rebuild",
    "regroup",
    "repack",
    "stats",
    "survey",
    "uncertain",
    "weigh",
]

__getattr__ = late.modules_of(__name__, __all__)

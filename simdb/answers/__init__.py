"""Questions answered: a question is turned into a method, the method finds, the items decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb import late

if TYPE_CHECKING:
    from simdb.answers import (
        buckets,
        choose,
        entities,
        evidence,
        exact,
        kept,
        method,
        scan,
        scoring,
        slabs,
    )

__all__ = [
    "buckets",
    "choose",
    "entities",
    "evidence",
    "exact",
    "kept",
    "method",
    "scan",
    "scoring",
    "slabs",
]

__getattr__ = late.modules_of(__name__, __all__)

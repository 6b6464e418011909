"""Questions answered: a question is turned into a method, the method finds, the items decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb import late

if TYPE_CHECKING:
    from simdb.answers import (
        entities,
        evidence,
        kept,
    )

__all__ = [
    "entities",
    "evidence",
    "kept",
]

__getattr__ = late.modules_of(__name__, __all__)

"""Damaged files, and files from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb import late

if TYPE_CHECKING:
    from simdb.recovery import dump, untrusted

__all__ = ["dump", "untrusted"]

__getattr__ = late.modules_of(__name__, __all__)

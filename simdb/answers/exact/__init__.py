"""The exact method of sets of symbols: prefixes are looked up, swept, or joined in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb import late

if TYPE_CHECKING:
    from simdb.answers.exact import sweep, whole

__all__ = ["sweep", "whole"]

__getattr__ = late.modules_of(__name__, __all__)

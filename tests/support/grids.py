"""Grids of parameters: some of them are tried always, and all with ``--slow``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def some_of(rows: Iterable[Any], step: int) -> list[Any]:
    """The rows as parameters, of which all but every ``step``-th are marked as slow."""
    marks = [pytest.mark.slow]
    return [
        row
        if place % step == 0
        else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=marks)
        for place, row in enumerate(rows)
    ]


def grid(*choices: Iterable[Any], step: int) -> list[Any]:
    """Every combination as parameters, of which all but every ``step``-th are marked as slow.

    A step that has no factor in common with any number of choices meets each choice.
    """
    return some_of(product(*choices), step)

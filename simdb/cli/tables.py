"""Simple tables as rich draws them, because importing rich takes longer than a search."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import TextIO

_WIDE_OF_FILES = 500  # into a pipe or a file goes the whole line, not what fits some terminal
_FIRST_OF_ODD_WIDTH = "\u0300"  # below it each printable character takes one column
_ELLIPSIS = "…"


def drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> str | None:
    """Draw a table for a stream; None if that needs rich: long or wide cells, unusual terminals.

    Columns whose name ends in a blank are aligned to the right; without names there is no head.
    """
    room = _room(stream)
    names = [column.strip() for column in columns]
    lines = [names, *rows] if names else rows
    if (
        not lines
        or room is None
        or not all(map(_is_plain, (cell for row in lines for cell in row)))
    ):
        return None
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 > room:
        return None
    to_right = [column.endswith(" ") for column in columns] or [False] * len(widths)
    bold, plain = ("\x1b[1m", "\x1b[0m") if stream.isatty() else ("", "")

    def row_of(cells: Sequence[str], side: str, start: str = "", end: str = "") -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, to_right, strict=True)
        )
        return side + side.join(f"{start} {cell} {end}" for cell in padded) + side

    def rule_of(left: str, line: str, middle: str, right: str) -> str:
        return left + middle.join(line * (width + 2) for width in widths) + right

    if names:
        head = [
            rule_of("┏", "━", "┳", "┓"),
            row_of(names, "┃", bold, plain),
            rule_of("┡", "━", "╇", "┩"),
        ]
    else:
        head = [rule_of("┌", "─", "┬", "┐")]
    return "\n".join([*head, *(row_of(row, "│") for row in rows), rule_of("└", "─", "┴", "┘")])


def _is_plain(cell: str) -> bool:
    if cell.isascii():
        return cell.isprintable()
    return cell.replace(_ELLIPSIS, "").isprintable() and all(
        character < _FIRST_OF_ODD_WIDTH or character == _ELLIPSIS for character in cell
    )


def _room(stream: TextIO) -> int | None:
    """Return the width of a line; None if rich must determine it."""
    if not (stream.encoding or "").lower().startswith("utf"):
        return None
    if not stream.isatty():
        return None if "FORCE_COLOR" in os.environ else _WIDE_OF_FILES
    if os.environ.get("TERM", "dumb") in {"dumb", "unknown"}:
        return None
    return shutil.get_terminal_size().columns

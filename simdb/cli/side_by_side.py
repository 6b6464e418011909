"""Two texts beside each other, with the lines that differ marked."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from simdb.cli.output import printable

_CONTEXT = 2
_GAP = ("...", " ", "...")


def aligned(left: str, right: str) -> Iterator[tuple[str, str, str]]:
    """Yield rows of left line, mark and right line.

    The mark is a blank where the lines are equal, ``<`` or ``>`` where only one side has the line
    and ``|`` where they differ. Of long equal runs only the lines beside a difference are given.
    """
    left_lines, right_lines = left.split("\n"), right.split("\n")
    matcher = difflib.SequenceMatcher(None, left_lines, right_lines, autojunk=False)
    last = None
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        if last is not None or group[0][1] > 0:
            yield _GAP
        for _, left_from, left_to, right_from, right_to in group:
            for step in range(max(left_to - left_from, right_to - right_from)):
                has_left, has_right = left_from + step < left_to, right_from + step < right_to
                left_line = left_lines[left_from + step] if has_left else ""
                right_line = right_lines[right_from + step] if has_right else ""
                yield left_line, _mark(has_left, has_right, left_line == right_line), right_line
        last = group[-1]
    if last is not None and last[2] < len(left_lines):
        yield _GAP


def _mark(has_left: bool, has_right: bool, equal: bool) -> str:
    if not has_right:
        return "<"
    if not has_left:
        return ">"
    return " " if equal else "|"


def side_by_side(
    left_name: str, left: str, right_name: str, right: str, *, width: int, longest: int
) -> Table:
    """Return a table of two texts, at most ``longest`` lines of it and ``width`` columns wide."""
    table = Table(width=width, box=None, pad_edge=False, padding=(0, 1))
    table.add_column(Text(printable(left_name)), ratio=1, no_wrap=True)
    table.add_column(Text(""), width=1)
    table.add_column(Text(printable(right_name)), ratio=1, no_wrap=True)
    for number, (left_line, mark, right_line) in enumerate(aligned(left, right)):
        if number == longest:
            table.add_row(*_GAP)
            break
        style = "dim" if mark == " " else ""
        table.add_row(
            Text(_shown(left_line), style=style or "red"),
            Text(mark, style=style or "bold"),
            Text(_shown(right_line), style=style or "green"),
        )
    return table


def _shown(line: str) -> str:
    return printable(line.expandtabs(4))

"""Two items side by side in the terminal, with the differences marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdb.cli.output import console
from simdb.differences import GAP, Marked, rows, shortened
from simdb.evidence import PairExplanation, in_words
from simdb.files.writing import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 120
LINES_SHOWN = 40


def show(told: PairExplanation, names: tuple[str, str], *, longest: int = LINES_SHOWN) -> None:
    """Print two items side by side: texts line by line, others by what they are compared by."""
    screen = console()
    if not screen.is_terminal:
        screen.width = WIDTH_WITHOUT_TERMINAL
    one, other = told.items
    if isinstance(one, str) and isinstance(other, str):
        texts = names[0], one, names[1], other
        coloured = screen.color_system is not None
        made = side_by_side(*texts, width=screen.width, longest=longest, coloured=coloured)
    else:
        made = facets(told, names, longest=longest)
    screen.print(made)


def side_by_side(
    left_name: str,
    left: str,
    right_name: str,
    right: str,
    *,
    width: int,
    longest: int,
    coloured: bool = True,
) -> Table:
    """Return a table of two texts, at most ``longest`` lines of it and ``width`` columns wide.

    Words that differ are in colour, or in brackets without colour.
    """
    from rich.text import Text

    table = _columns(left_name, right_name, width)
    for number, row in enumerate(rows(left, right)):
        if number == longest:
            table.add_row(*GAP)
            break
        dim = "dim" if row.mark == " " else ""
        mark = Text(row.mark, style=dim or "bold")
        brackets = ("[-", "-]", "{+", "+}") if row.mark == "|" and not coloured else ("",) * 4
        ones = _line(row.left, "bold red", *brackets[:2])
        table.add_row(ones, mark, _line(row.right, "bold green", *brackets[2:]))
    if not table.row_count:
        table.add_row(Text("(equal)", style="dim"), "", Text("(equal)", style="dim"))
    return table


def _columns(left_name: str, right_name: str, width: int | None = None) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(width=width, box=None, pad_edge=False, padding=(0, 1))
    table.add_column(Text(printable(left_name)), ratio=1, overflow="fold")
    table.add_column(Text(""), width=1)
    table.add_column(Text(printable(right_name)), ratio=1, overflow="fold")
    return table


def _line(pieces: Marked, style: str, opening: str, closing: str) -> Text:
    from rich.text import Text

    line = Text()
    for text, changed in shortened(pieces):
        shown = printable(text.expandtabs(4))
        if changed and opening:
            word = shown.rstrip()
            shown = f"{opening}{word}{closing}{shown[len(word) :]}"
        line.append(shown, style=style if changed else "dim")
    return line


def facets(told: PairExplanation, names: tuple[str, str], *, longest: int) -> Table:
    """Return a table of the parts that two items are compared by, differences first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for name in (told.unit, "", *names):
        table.add_column(Text(printable(name)), overflow="fold")
    ordered = [*told.differing, *(facet for facet in told.facets if facet.agrees)]
    for facet in ordered[:longest]:
        equal = facet.agrees
        styles = ("dim", "dim") if equal else ("bold red", "bold green")
        mark = " " if equal else "<" if facet.right is None else ">" if facet.left is None else "|"
        cells = (
            Text(_shown(side), style=style)
            for side, style in zip((facet.left, facet.right), styles, strict=True)
        )
        table.add_row(Text(_shown(facet.what)), Text(mark, style="bold"), *cells)
    if len(ordered) > longest:
        table.add_row(f"... {len(ordered) - longest:,} more", "", "", "")
    return table


def _shown(value: object) -> str:
    return "-" if value is None else printable(in_words(value))

"""The evidence for a pair, field by field, as a waterfall in the terminal or a picture."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from simdb import PairEvidence
from simdb.cli.output import console, excerpt
from simdb.cli.pictures import picture
from simdb.files.writing import Output

if TYPE_CHECKING:
    from rich.text import Text

_CELLS = 40
_FOR, _AGAINST, _TOTAL = "green", "red", "blue"


def print_waterfall(told: PairEvidence) -> None:
    """Print a bar for each field, from the evidence before it to the evidence after it."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, side in (("field", "left"), ("bits", "right"), ("to", "right")):
        table.add_column(name, justify="left" if side == "left" else "right")
    table.add_column("", no_wrap=True)
    for name in ("left", "right", ""):
        table.add_column(name, overflow="fold")
    shown = console()
    size = max(1, min(_CELLS, shown.width // 4))
    ends = _ends(told)
    lowest, highest = min(map(min, ends)), max(map(max, ends))
    fields = {one.name: one for one in told.fields}
    for (name, bits), (begin, end) in zip(_steps(told), ends, strict=True):
        cells: list[Any] = ["", "", ""]
        if name in fields:
            one = fields[name]
            cells = [_shown(one.left), _shown(one.right), _level(one)]
        bar = _bar(begin, end, lowest, highest, size)
        table.add_row(name, f"{bits:+.2f}", f"{end:+.2f}", bar, *cells)
    shown.print(table)
    print(f"probability {told.probability:.4f}")


def draw_waterfall(file: Output, told: PairEvidence, title: str) -> None:
    """Draw it into an open .svg or .png file."""
    steps = _steps(told)
    with picture(file, height=1.5 + 0.35 * len(steps)) as figure:
        axes = figure.subplots()
        for place, ((_, bits), (begin, end)) in enumerate(zip(steps, _ends(told), strict=True)):
            color = _TOTAL if place in (0, len(steps) - 1) else _FOR if bits > 0 else _AGAINST
            axes.barh(place, end - begin, left=begin, color=f"tab:{color}")
            axes.annotate(
                f" {bits:+.2f}", (max(begin, end), place), va="center", annotation_clip=False
            )
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(steps)), labels=_labels(told), parse_math=False)
        axes.invert_yaxis()
        axes.use_sticky_edges = False
        axes.margins(x=0.12, y=0.02)
        axes.set(xlabel="bits of evidence for a match")
        axes.set_title(f"{title}: probability {told.probability:.4f}", parse_math=False)


def _steps(told: PairEvidence) -> list[tuple[str, float]]:
    """Return the evidence of each step, and finally the sum."""
    fields = [(one.name, one.bits) for one in told.fields]
    return [("prior", told.prior), *fields, ("all", told.prior + told.bits)]


def _ends(told: PairEvidence) -> list[tuple[float, float]]:
    """Return the start and end of each step."""
    after = list(accumulate((bits for _, bits in _steps(told)[:-1]), initial=0.0))
    return [*pairwise(after), (0.0, after[-1])]


def _labels(told: PairEvidence) -> list[str]:
    values = [f"{one.name}\n{_shown(one.left)} / {_shown(one.right)}" for one in told.fields]
    return ["prior", *values, "all"]


def _shown(value: Any) -> str:
    return "" if value is None else excerpt(str(value), 30)


def _level(one: Any) -> str:
    if one.level is None:
        return "missing"
    return f"from {one.level:g}" + (", frequent" if one.adjustment else "")


def _bar(begin: float, end: float, lowest: float, highest: float, size: int) -> Text:
    """Return a bar between two ends on a scale from the lowest to the highest, of so many cells.

    A | marks zero.
    """
    from rich.text import Text

    scale = size / max(highest - lowest, 1e-9)
    low, high, zero = (
        min(size - 1, int((value - lowest) * scale))
        for value in (min(begin, end), max(begin, end), 0.0)
    )
    cells = ["█" if low <= place <= high else " " for place in range(size)]
    if cells[zero] == " ":
        cells[zero] = "|"
    return Text("".join(cells), style=_FOR if end > begin else _AGAINST)

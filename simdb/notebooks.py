"""Pictures of answers in notebooks: HTML in which whatever comes from a store is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

SHOWN = 20  # rows of a long answer
_UNSEEN = {*range(32), *range(127, 160), 0x061C, 0x200E, 0x200F}
_UNSEEN |= {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # which turn the direction of text
_CODES = {code: ascii(chr(code))[1:-1] for code in _UNSEEN - {ord("\n"), ord("\t")}}
_WIDTH, _HEIGHT = 280, 140  # of a curve


class Bar(float):
    """A share from 0 to 1 that is drawn as a bar, with itself beside it."""


def visible(shown: Any) -> Any:
    """Return text with control characters and marks of direction as their codes."""
    return shown.translate(_CODES) if type(shown) is str else shown  # and not what is HTML already


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, its title above it."""
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    names = "".join(f"<th>{_escaped(name)}</th>" for name in head)
    return (
        f"<table><caption>{_escaped(title)}</caption>"
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: object) -> str:
    if isinstance(value, Bar):
        return f'<meter min="0" max="1" value="{float(value):.4f}"></meter> {float(value):.4f}'
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _escaped(visible(str(value)))
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _escaped(text: str) -> str:
    from html import escape  # slow to load, and only for notebooks

    return escape(text)


def curve(title: str, points: Iterable[tuple[float, float]], mark: float | None = None) -> str:
    """Return a drawing of a function from 0..1 to 0..1, with a line at one of its places."""
    line = " ".join(f"{x * _WIDTH:.1f},{(1 - y) * _HEIGHT:.1f}" for x, y in points)
    there = ""
    if mark is not None:
        place = f"{mark * _WIDTH:.1f}"
        there = (
            f'<line x1="{place}" x2="{place}" y1="0" y2="{_HEIGHT}" stroke="currentColor" '
            'stroke-dasharray="3 3" opacity="0.5"/>'
        )
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">'
        f"<title>{_escaped(title)}</title>{there}"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="currentColor" '
        f'opacity="0.3"/><polyline points="{line}" fill="none" stroke="currentColor"/></svg>'
    )

"""Curves of a run: tables, and SVG files where matplotlib is installed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

Curve: TypeAlias = tuple[Sequence[float], Sequence[float]]


def draw(
    path: Path, title: str, panels: Mapping[str, Mapping[str, Curve]], *, logarithmic: bool = False
) -> str:
    """Draw panels of named curves beside each other.

    Args:
        path: of the SVG file.
        title: above all.
        panels: curves by name, panels by what their vertical axis shows.
        logarithmic: both axes.

    Returns:
        where the drawing is, or why there is none, to be printed.
    """
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError:
        return "not drawn, since matplotlib is not installed; the points are in the JSON"
    # Text as text, and no chance in names: a small file, the same for the same points.
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "simdb"})
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(6 * len(panels), 4), squeeze=False, layout="constrained"
    )
    for axis, (name, curves) in zip(axes[0], panels.items(), strict=True):
        for label, (across, up) in curves.items():
            axis.plot(across, up, marker="o", label=label)
        axis.set(title=name, xlabel="items")
        if logarithmic:
            axis.set(xscale="log", yscale="log", ylim=whole_decades(curves))
        if len(curves) > 1:
            axis.legend()
    figure.suptitle(title)
    plain = {"Date": None, "Creator": None} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=plain)
    pyplot.close(figure)
    return f"drawn in {path}"


def whole_decades(curves: Mapping[str, Curve]) -> tuple[float, float] | None:
    """Return powers of ten around all values above 0, so that chance does not look like a trend."""
    values = [value for _, up in curves.values() for value in up if value > 0]
    if not values:
        return None
    lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**lowest, 10.0 ** max(highest, lowest + 1)


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay rows out in columns, to be printed."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return [
        "   " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (headings, *rows)
    ]

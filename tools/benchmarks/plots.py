"""Curves of a run: tables, and SVG files where matplotlib is installed."""

from __future__ import annotations

import importlib
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
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(6 * len(panels), 4), squeeze=False, layout="constrained"
    )
    for axis, (name, curves) in zip(axes[0], panels.items(), strict=True):
        for label, (across, up) in curves.items():
            axis.plot(across, up, marker="o", label=label)
        axis.set(title=name, xlabel="items")
        if logarithmic:
            axis.set(xscale="log", yscale="log")
        axis.legend()
    figure.suptitle(title)
    figure.savefig(path)
    pyplot.close(figure)
    return f"drawn in {path}"


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay rows out in columns, to be printed."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return [
        "   " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (headings, *rows)
    ]

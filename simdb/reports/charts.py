"""Charts as SVG in the page's own colours, drawn by matplotlib."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from simdb.extras import of_extra

# Colours that the page gives another value of in the dark: matplotlib writes them, CSS reads them.
INK, ACCENT, SOFT = "#010203", "#040506", "#070809"
_IN_CSS = {INK: "currentColor", ACCENT: "var(--accent)", SOFT: "var(--soft)"}
_LINEAR = 200  # times which the largest count is the smallest, beyond which scales are logarithmic
_SIZE = 4.6, 2.6  # inches; the page scales it
# Of the figure: fixed, since to find out what labels need takes as long as drawing it.
_PLACE = 0.145, 0.165, 0.84, 0.79

# Settings of matplotlib are of the whole process, so one thread draws at a time; and a fork waits,
# since its child would not have the thread that ends it.
_drawing = threading.RLock()
os.register_at_fork(
    before=_drawing.acquire, after_in_parent=_drawing.release, after_in_child=_drawing.release
)


def drawn(name: str, title: str, draw: Callable[[Any], None]) -> str:
    """Return a chart as an SVG element.

    Args:
        name: of the chart, by which its parts are told from those of others on a page.
        title: read out by those who do not see it.
        draw: draws into axes of matplotlib.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with of_extra("report", "a report needs"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    settings: Any = {
        "svg.fonttype": "none",  # texts stay texts, which a page can be searched for
        "svg.hashsalt": name,
        "font.family": "sans-serif",
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        **dict.fromkeys(
            ("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "text.color"), INK
        ),
        "legend.frameon": False,
    }
    with _drawing, mpl.rc_context(settings):
        figure = Figure(figsize=_SIZE)
        figure.patch.set_alpha(0)
        axes = figure.add_axes(_PLACE)
        axes.patch.set_alpha(0)
        draw(axes)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(
        r'<svg [^>]*viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text, count=1
    )
    text = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{name}-", text)
    text = text.replace("xlink:href", "href")
    for colour, in_css in _IN_CSS.items():
        text = text.replace(colour, in_css)
    return text.replace('role="img">', f'role="img" aria-label="{title}">', 1)


def removal(bounds: Sequence[float], rows: Sequence[float], own: float, *, measured: str) -> str:
    """Draw how many rows each bound removes."""

    def draw(axes: Any) -> None:
        axes.plot(bounds, rows, color=ACCENT, linewidth=2)
        axes.fill_between(bounds, rows, color=ACCENT, alpha=0.15, linewidth=0)
        _mark(axes, own)
        axes.set_xlabel(f"{measured} from which on rows are similar")
        axes.set_ylabel("rows removed, estimated")
        axes.set_ylim(bottom=0)
        _thousands(axes)

    return drawn("removal", "Rows that each threshold removes", draw)


def histogram(
    edges: Sequence[float],
    counts: Sequence[float],
    own: float,
    *,
    measured: str,
    below: bool,
    name: str = "histogram",
) -> str:
    """Draw how many pairs there are of each similarity; those beyond the bound are near misses."""

    def draw(axes: Any) -> None:
        colours = []
        for begin, end in pairwise(edges):
            middle = (begin + end) / 2
            within = middle <= own if below else middle >= own
            colours.append(ACCENT if within else SOFT)
        widths = [end - begin for begin, end in pairwise(edges)]
        axes.bar(edges[:-1], counts, widths, align="edge", color=colours, linewidth=0)
        _mark(axes, own)
        axes.set_xlabel(measured)
        axes.set_ylabel("pairs")
        if max(counts, default=0) > 200 * max(
            1, min((one for one in counts if one > 0), default=1)
        ):
            axes.set_yscale("log")
        else:
            _thousands(axes)

    return drawn(name, "Pairs by similarity", draw)


def curve(
    points: Sequence[tuple[float, float]],
    seen: Sequence[tuple[float, float, int]],
    own: float,
    *,
    measured: str,
) -> str:
    """Draw how probably an index meets a pair, and the share of real pairs that it met."""

    def draw(axes: Any) -> None:
        axes.plot(*zip(*points, strict=True), color=ACCENT, linewidth=2, label="as planned")
        if seen:
            places, shares, _ = zip(*seen, strict=True)
            axes.scatter(
                places, shares, s=26, facecolor="none", edgecolor=INK, label="measured", zorder=3
            )
            axes.legend(loc="lower right")
        _mark(axes, own)
        axes.set_xlabel(measured)
        axes.set_ylabel("probability that a pair is met")
        axes.set_ylim(0, 1.04)

    return drawn("curve", "Probability that the index meets a pair, by similarity", draw)


def sizes(counts: Sequence[tuple[str, int]]) -> str:
    """Draw how many groups there are of each size."""

    def draw(axes: Any) -> None:
        names, numbers = zip(*counts, strict=True)
        bars = axes.bar(names, numbers, color=ACCENT, linewidth=0)
        axes.bar_label(bars, [f"{number:,}" if number else "" for number in numbers], fontsize=8)
        axes.set_xlabel("rows of a group")
        axes.set_ylabel("groups")
        if max(numbers) > _LINEAR * max(1, min(number for number in numbers if number)):
            axes.set_yscale("log")
        else:
            axes.yaxis.get_major_locator().set_params(integer=True)
        axes.tick_params(axis="x", labelsize=7)

    return drawn("sizes", "Groups by size", draw)


def _mark(axes: Any, own: float) -> None:
    axes.axvline(own, color=INK, linestyle=(0, (4, 3)), linewidth=1, alpha=0.7)
    axes.annotate(
        f"{own:g}",
        (own, 0.78),
        xycoords=("data", "axes fraction"),
        xytext=(3, 0),
        textcoords="offset points",
    )


def _thousands(axes: Any) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: short(value))


def short(value: float) -> str:
    """Return a count in a few characters."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * unit or (value >= unit and name == "M"):
            return f"{value / unit:g} {name}"
    return f"{value:,.0f}" if value >= 1 or not value else f"{value:g}"

"""Pictures of S-curves, as SVG or PNG files (MMDS 3.4.2, 3.6.3)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.errors import MissingExtraError, UsageError
from simdb.lsh.amplification import Construction, fixed_point, steepest

SUFFIXES = (".svg", ".png")
_POINTS = 501


@dataclass(frozen=True, slots=True)
class Axis:
    """What the horizontal axis of a curve shows.

    Attributes:
        label: its name.
        lowest, highest: its ends.
        probability: that one base function agrees on two items of this similarity or distance; it
            must rise all along, or fall all along. None: the axis is that probability, which for
            minhash is the similarity (MMDS 3.3.3).
        bound: what the value is called that the curve is planned for.
    """

    label: str = "similarity"
    lowest: float = 0.0
    highest: float = 1.0
    probability: Callable[[float], float] | None = None
    bound: str = "threshold"


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve as data, and what is marked on it.

    Attributes:
        points: float64 (n, 2): value of the axis, probability of a candidate pair.
        threshold, fixed_point, steepest: values of the axis, the first of them the similarity or
            the largest distance that is planned for; None where there is none.
        slope: of the curve at ``steepest``, per unit of the base functions' probability.
    """

    points: npt.NDArray[np.float64]
    threshold: float | None
    fixed_point: float | None
    steepest: float | None
    slope: float


def curve_of(
    construction: Construction, axis: Axis | None = None, threshold: float | None = None
) -> Curve:
    """Compute the S-curve of a construction over an axis, with its threshold, fixed point, slope.

    The fixed point is where amplification leaves the probability of one base function as it is;
    above it probabilities rise, below it they fall.
    """
    axis = axis or Axis()
    values = np.linspace(axis.lowest, axis.highest, _POINTS)
    single = values
    if axis.probability is not None:
        single = np.array([axis.probability(value) for value in values.tolist()], np.float64)
    fixed = fixed_point(construction)
    steep, slope = steepest(construction)
    return Curve(
        points=np.column_stack((values, construction.probability(single))),
        threshold=threshold,
        fixed_point=None if fixed is None else _value_at(fixed, values, single),
        steepest=_value_at(steep, values, single),
        slope=slope,
    )


def _value_at(
    wanted: float, values: npt.NDArray[np.float64], single: npt.NDArray[np.float64]
) -> float | None:
    """Return where on the axis one function has a probability; None beyond its ends."""
    rising = np.argsort(single, kind="stable")
    if not single[rising[0]] <= wanted <= single[rising[-1]]:
        return None
    return float(np.interp(wanted, single[rising], values[rising]))


def draw_curve(path: Path, curve: Curve, axis: Axis | None = None, title: str = "") -> None:
    """Draw a curve with its marks into a file whose suffix says whether it is SVG or PNG.

    The same curve gives the same SVG file.

    Raises:
        UsageError: the file is neither.
        MissingExtraError: matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"a curve is drawn as {' or '.join(SUFFIXES)}, not as {path.name!r}")
    axis = axis or Axis()
    matplotlib = _matplotlib("matplotlib")
    # Text as text, and names of the parts without chance.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "simdb"}):
        figure = _matplotlib("matplotlib.figure").Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.subplots()
        axes.plot(curve.points[:, 0], curve.points[:, 1], color="black")
        marks = (
            (f"{axis.bound} {_shown(curve.threshold)}", curve.threshold, "-"),
            (f"fixed point {_shown(curve.fixed_point)}", curve.fixed_point, "--"),
            (f"steepest {_shown(curve.steepest)}, slope {curve.slope:.3g}", curve.steepest, ":"),
        )
        for number, (label, value, style) in enumerate(marks):
            if value is not None:
                axes.axvline(value, linestyle=style, color=f"C{number}", label=label)
        axes.set(xlabel=axis.label, ylabel="probability of a candidate pair", title=title)
        axes.set(xlim=(axis.lowest, axis.highest), ylim=(0, 1.02))
        axes.legend()
        dated = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, **dated)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _matplotlib(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            'a picture of a curve needs the plot extra: pip install "simdb-store[plot]"'
        ) from error

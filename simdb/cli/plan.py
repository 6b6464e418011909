"""The command that shows the index that settings lead to, and draws its S-curve (MMDS 3.4.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import isnan
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
import typer
from msgspec import Struct, structs

import simdb
from simdb.cli.create import index_in_words
from simdb.cli.inputs import UnstoredInputs
from simdb.cli.options import Bound, rational
from simdb.cli.output import AsJson, print_json, print_table
from simdb.cli.pictures import picture, require_picture
from simdb.cli.settings import KindOptions, PlanOptions
from simdb.errors import UsageError
from simdb.exact.thresholds import Threshold
from simdb.files.inputs import require_there
from simdb.files.writing import written_together
from simdb.kinds import Kind
from simdb.lsh.amplification import Construction, fixed_point, steepest
from simdb.lsh.curves import Sensitivity
from simdb.lsh.planning import Plan, PlanRequest
from simdb.planning import ExactPlan, RulePlan, posted_symbols

Measured = TypeVar("Measured")
_DEFAULT_FLOOR = Fraction(4, 5)
_SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
_POINTS = 501  # of a curve that is drawn
_CURVE = "a curve"  # in messages of pictures


def plan(
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="With --exact, or for records: items to measure, read as by 'simdb add'.",
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Plan an exact index, whose floor is the threshold.")
    ] = False,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="The number of items of the inputs to measure.")
    ] = 1_000,
    items: Annotated[
        int | None,
        typer.Option(
            "--items",
            min=1,
            help="The number of items to plan for: more items meet more often by chance.",
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option(
            "--other",
            metavar="INPUT",
            help="For records: another table, to plan a join of the inputs with it.",
        ),
    ] = None,
    other_items: Annotated[
        int | None,
        typer.Option("--other-items", min=1, help="The number of records of the other table."),
    ] = None,
    bound: Bound,
    wanted: PlanOptions,
    described: KindOptions,
    reading: UnstoredInputs,
    points: Annotated[
        int,
        typer.Option(
            "--points", min=2, max=1001, help="The number of points of the curve to print."
        ),
    ] = 11,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw the curve into an .svg or .png file (extra 'plot').",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the index that settings lead to; no store is needed.

    It prints the bands and rows for a threshold, or a largest distance, and a recall, and the
    curve: the probability that a pair is found, by its similarity or distance. With --exact it
    prints how many symbols of an item are indexed, and how many bytes that takes for the first
    items of the inputs. For records with inputs it prints how many pairs each rule proposes, in
    one table or, with --other, in a join of two.

    Example: simdb plan --threshold 0.7 --recall 0.95
    """
    chosen = described.new()
    _require_used(inputs, chosen, wanted, bound, plot, exact=exact)
    if items is not None and exact:
        raise UsageError(
            "--items is for buckets and rules: leave it out with --exact, whose index grows evenly"
        )
    if other is not None and (exact or not inputs):
        raise UsageError("--other is for a join of records: give the inputs of its left table")
    if other is None and other_items is not None:
        raise UsageError("--other-items needs --other, the table that has so many records")

    def measured(names: list[str], measure: Callable[[Iterator[Any]], Measured]) -> Measured:
        return reading.measured(names, chosen, sample, measure)

    if not exact:
        if inputs:
            require_there(*inputs, *([] if other is None else [other]))
            planned_rules = partial(
                simdb.plan_rules, kind=chosen, items=items, other_items=other_items
            )
            if other is None:
                rules = measured(inputs, planned_rules)
            else:
                rules = measured(
                    inputs,
                    lambda rows: measured(
                        [other], lambda others: planned_rules(rows, other=others)
                    ),
                )
            _show_rules(rules, as_json=as_json)
            return
        request = PlanRequest(**wanted.given(), is_usual=wanted.recall is None, items=items)
        planned = _planned(chosen, bound, request)
        if plot is not None:
            _draw(Path(plot), planned)
        _show_planned(planned, points, items, as_json=as_json)
        return
    if not chosen.has_symbols:
        raise UsageError(f"{chosen.plural} of this measure have no exact index")
    bound.of(chosen)
    default = chosen.outer_similarity(_DEFAULT_FLOOR)
    floor = Threshold(rational(bound.threshold) if bound.threshold is not None else default)
    require_there(*(inputs or []))
    size = None
    if inputs:
        size = measured(
            inputs, lambda rows: simdb.plan_exact(rows, chosen, exact_floor=floor.fraction)
        )
    _show_exact(chosen, floor, size, as_json=as_json)


def _require_used(
    inputs: list[str] | None,
    kind: Kind,
    wanted: PlanOptions,
    bound: Bound,
    plot: str | None,
    *,
    exact: bool,
) -> None:
    """Raise UsageError for inputs that nothing is measured of, and options that do nothing."""
    if inputs and not exact and not kind.has_rules:
        raise UsageError("inputs are only measured with --exact, or for records")
    if plot is not None and exact:
        raise UsageError("--plot draws the curve of a probable index: leave out --exact")
    if inputs or exact:
        named = {**({} if exact else structs.asdict(bound)), **dataclasses.asdict(wanted)}
        named["plot"] = plot
        given = [f"--{name.replace('_', '-')}" for name in named if named[name] is not None]
        if given:
            are, them = ("is", "it") if len(given) == 1 else ("are", "them")
            other = "an exact one" if exact else "rules of records"
            raise UsageError(
                f"{', '.join(given)} {are} for a probable index, not for {other}: leave {them} out"
            )
    if plot is not None:
        require_picture(plot, _CURVE)


def _show_rules(rules: list[RulePlan], *, as_json: bool) -> None:
    if as_json:
        print_json({"rules": [dataclasses.asdict(rule) for rule in rules]})
        return
    print_table(
        ("rule ", "records ", "largest ", "its pairs ", "pairs ", "expected pairs "),
        [
            (
                rule.rule,
                f"{rule.records:,}",
                f"{rule.largest:,}",
                f"{rule.largest_pairs:,}",
                f"{rule.pairs:,}",
                f"{rule.expected_pairs:,.0f}",
            )
            for rule in rules
        ],
    )


def _show_exact(kind: Kind, floor: Threshold, measured: ExactPlan | None, *, as_json: bool) -> None:
    prefixes = list(zip(_SIZES, posted_symbols(kind, floor.fraction, _SIZES), strict=True))
    if as_json:
        counted = {} if measured is None else dataclasses.asdict(measured)
        if measured is not None:
            for name in ("postings_per_item", "bytes_per_item", "weight"):
                counted[name] = getattr(measured, name)
        listed = [{"symbols": size, "posted": posted} for size, posted in prefixes]
        print_json({**counted, "floor": str(floor), "prefixes": listed})
        return
    print(f"an exact index from {floor} on posts, for an item:")
    print_table(
        ("with symbols ", "posts "), [(f"{size:,}", f"{posted:,}") for size, posted in prefixes]
    )
    if measured is None:
        return
    print(
        f"{measured.items:,} items of {measured.item_bytes:,} bytes: "
        f"{measured.symbols:,} symbols, {measured.postings:,} postings, at most "
        f"{measured.largest_prefix:,} per item"
    )
    print(
        f"per item: {measured.postings_per_item:,.1f} postings, {measured.bytes_per_item:,.0f} "
        f"bytes, {measured.weight:.2f} times those of the item"
    )


class _Planned(Struct, frozen=True):
    """The index of a kind, and what its curve is over.

    Attributes:
        kind: what the items are.
        bound: the threshold or the largest distance that it was planned for, as the user knows it.
        plan: the bands and rows.
    """

    kind: Kind
    bound: float
    plan: Plan

    @property
    def axis(self) -> tuple[str, str]:
        """What is measured, and what its bound is called."""
        if self.kind.is_distance:
            return "distance", "largest distance"
        return "similarity", "threshold"

    @property
    def end(self) -> float:
        """The end of the axis: no similarity is higher, and no distance of interest."""
        if not self.kind.is_distance:
            return float(self.kind.outer_similarity(Fraction(1)))
        return min(3 * self.bound or 1.0, float(self.kind.largest_distance))

    def sensitivity(self) -> Sensitivity | None:
        """Compare items at the bound with items half as similar, or at twice the distance."""
        near, far = self.bound, 2 * self.bound
        if not self.kind.is_distance:
            near, far = 1 - self.bound, 1 - self.bound / 2
        if not near < far or isnan(self.plan.family.probability(self.bound)):
            return None
        found = self.plan.sensitivity(near, far)
        return None if isnan(found.far_probability) else found


def _planned(kind: Kind, bound: Bound, request: PlanRequest) -> _Planned:
    """Return the index that a new collection would have."""
    if kind.is_distance and not bound.given():
        raise UsageError(f"{kind.plural} compared by distance need --max-distance for a plan")
    given = bound.of(kind)
    wanted = kind.planned_bound(given.get("threshold", "default"), given.get("max_distance"))
    assert wanted is not None
    request = kind.settled(wanted.fraction, request)
    plan = kind.outer_plan(kind.plan(wanted.fraction, request))
    return _Planned(kind, float(plan.threshold), plan)


def _draw(path: Path, planned: _Planned) -> None:
    plan = planned.plan
    if isnan(plan.expected_recall(planned.bound)):
        raise UsageError("--plot: no probability is known for these items")
    curve = curve_of(plan.construction, planned.end, plan.family.probability, bound=planned.bound)
    title = index_in_words(planned.kind, plan)
    draw_curve(path, curve, title, planned.axis)


def _show_planned(planned: _Planned, points: int, items: int | None, *, as_json: bool) -> None:
    plan = planned.plan
    met = None if items is None else plan.chance_meetings(items)
    measured, bounded_by = planned.axis
    values = [planned.end * number / (points - 1) for number in range(points)]
    curve = [(value, float(plan.expected_recall(value))) for value in values]
    known = not all(isnan(recall) for _, recall in curve)
    expected = plan.expected_recall(planned.bound)
    # Of fingerprints, strings and records a band does not stand for one key of every item.
    keys = planned.kind.expected_keys(plan.bands) if plan.cascade is None else plan.keys
    sensitivity = planned.sensitivity()
    if as_json:
        listed = [{measured: x, "probability": y} for x, y in curve] if known else []
        told = None if sensitivity is None else structs.asdict(sensitivity)
        print_json(
            {
                "bands": plan.bands,
                "rows": plan.rows,
                "cascade": None if plan.cascade is None else str(plan.cascade),
                "keys": keys,
                "expected_recall": expected,
                "chance_meetings": met,
                "fixed_points": plan.fixed_points(),
                "sensitivity": told,
                "curve": listed,
            }
        )
        return
    print(index_in_words(planned.kind, plan))
    if isnan(expected):
        print(f"the recall at the {bounded_by} is not known: simdb audit measures it")
    else:
        print(f"expected recall at the {bounded_by} {planned.bound:g}: {expected:.6f}")
    if met is not None:
        shown = "not known" if isnan(met) else f"{met:.3g}"
        print(f"others that an item meets by chance among {items:,}: {shown}")
    if sensitivity is not None:
        print(_in_words(plan.fixed_points(), sensitivity))
    if known:
        print_table(
            (f"{measured} ", "probability of being found "),
            [(f"{x:.3f}", "not known" if isnan(y) else f"{y:.6f}") for x, y in curve],
        )


def _in_words(points: list[float], sensitivity: Sensitivity) -> str:
    values = (
        sensitivity.near,
        sensitivity.far,
        sensitivity.near_probability,
        sensitivity.far_probability,
    )
    shown = ", ".join(f"{value:.4g}" for value in values)
    fixed = " and ".join(f"{point:.4f}" for point in points) or "none"
    return f"({shown})-sensitive; fixed point: {fixed}"


class Curve(Struct, frozen=True):
    """A curve over a similarity or a distance, and what is marked on it.

    Attributes:
        points: float64 (n, 2): value of the axis, probability of a candidate pair.
        bound, fixed_point, steepest: values of the axis; None where they do not lie on it.
        slope: of the curve at ``steepest``, per unit of the base functions' probability.
    """

    points: npt.NDArray[np.float64]
    bound: float | None
    fixed_point: float | None
    steepest: float | None
    slope: float


def curve_of(
    construction: Construction,
    end: float = 1.0,
    probability: Callable[[float], float] = float,
    *,
    bound: float | None = None,
) -> Curve:
    """Compute the S-curve of a construction from 0 to an end, with its fixed point and slope.

    The fixed point is where amplification leaves the probability of one base function as it is;
    above it probabilities rise, below it they fall. That probability must rise all along the axis,
    or fall; of minhash it is the similarity itself (MMDS 3.3.3).
    """
    values = np.linspace(0.0, end, _POINTS)
    single = np.array([probability(value) for value in values.tolist()], np.float64)
    points = np.column_stack((values, construction.probability(single)))
    rising = np.argsort(single, kind="stable")

    def value_at(wanted: float | None) -> float | None:
        """Where on the axis one function has a probability; None beyond its ends."""
        if wanted is None or not single[rising[0]] <= wanted <= single[rising[-1]]:
            return None
        return float(np.interp(wanted, single[rising], values[rising]))

    steep, slope = steepest(construction)
    return Curve(points, bound, value_at(fixed_point(construction)), value_at(steep), slope)


def draw_curve(
    path: Path, curve: Curve, title: str = "", axis: tuple[str, str] = ("similarity", "threshold")
) -> None:
    """Draw a curve with its marks into a file whose suffix says whether it is SVG or PNG."""
    measured, bounded_by = axis
    require_picture(str(path), _CURVE)
    with written_together(str(path)) as (file,), picture(file) as figure:
        axes = figure.subplots()
        axes.plot(curve.points[:, 0], curve.points[:, 1], color="black")
        marks = (
            (bounded_by, curve.bound, "-", ""),
            ("fixed point", curve.fixed_point, "--", ""),
            ("steepest", curve.steepest, ":", f", slope {curve.slope:.3g}"),
        )
        for number, (name, value, style, more) in enumerate(marks):
            if value is not None:
                label = f"{name} {value:.4g}{more}"
                axes.axvline(value, linestyle=style, color=f"C{number}", label=label)
        axes.set(xlabel=measured, ylabel="probability of a candidate pair", title=title)
        axes.set(xlim=(0, curve.points[-1, 0]), ylim=(0, 1.02))
        axes.legend()

"""The command that shows what settings lead to: plan."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simdb.cli.bounds import Bound, MaxDistanceText
from simdb.cli.describing import KindOptions
from simdb.cli.feeding import Feed
from simdb.cli.indexes import index_in_words
from simdb.cli.inputs import InputOptions, require_inputs
from simdb.cli.kinds import has_exact_index, measures_distance, name_of, plural_of
from simdb.cli.options import (
    AsJson,
    Bands,
    ElementsText,
    FormatName,
    IdField,
    KindText,
    Lowercase,
    Pattern,
    Rows,
    Separator,
    SettingsText,
    ShinglesText,
    TextFields,
    ThresholdText,
    UnicodeForm,
    WhiteSpace,
    rational,
)
from simdb.cli.output import print_json, print_line, print_table
from simdb.config import Bag, Bits, Kind, Vector
from simdb.errors import UsageError
from simdb.exact import thresholds

if TYPE_CHECKING:
    from simdb.database import Database
    from simdb.lsh.planning import Plan
    from simdb.planning import ExactPlan

_DEFAULT_FLOOR = Fraction(4, 5)
_DEFAULT_FLOOR_OF_SUMS = Fraction(4, 9)  # the same bags: S = J / (1 + J)
_SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)


def plan(
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="With --exact: items to measure, as for add."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Of an exact index whose floor is the threshold.")
    ] = False,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="With --exact: so many items of the inputs.")
    ] = 1_000,
    kind: KindText = None,
    settings: SettingsText = None,
    shingles: ShinglesText = None,
    lowercase: Lowercase = None,
    white_space: WhiteSpace = None,
    unicode: UnicodeForm = None,
    text_field: TextFields = None,
    id_field: IdField = None,
    format_name: FormatName = None,
    pattern: Pattern = None,
    elements: ElementsText = None,
    separator: Separator = None,
    threshold: ThresholdText = None,
    max_distance: MaxDistanceText = None,
    recall: Annotated[
        str, typer.Option("--recall", metavar="SHARE", help="Share of pairs at the threshold.")
    ] = "0.99",
    bands: Bands = None,
    rows: Rows = None,
    points: Annotated[
        int, typer.Option("--points", min=2, max=1001, help="Points of the curve.")
    ] = 11,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="FILE", help="Also draw the curve: .svg or .png (the plot extra)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the index that settings lead to.

    Needs no store. Prints bands and rows for a threshold, or a largest distance, and a recall, and
    the curve: the probability that a pair is found, by its similarity or distance. With --exact,
    how much of an item is posted, and what that takes for the first items of the inputs.
    """
    chosen = KindOptions(kind, settings, shingles, lowercase, white_space, unicode).new()
    bound = Bound.parse(threshold, max_distance)
    if not exact:
        if inputs:
            raise UsageError("inputs are measured with --exact only")
        wanted = {"recall": rational(recall, name="recall"), "bands": bands, "rows": rows}
        planned = _planned(chosen, bound, wanted)
        if plot is not None:
            _draw(Path(plot), planned)
        _show_planned(planned, points, as_json=as_json)
        return
    if plot is not None:
        raise UsageError("--plot draws the curve of a probable index, not of one with --exact")
    if not has_exact_index(chosen):
        raise UsageError(f"{plural_of(chosen)} of this measure have no exact index")
    bound.of(chosen)
    default = _DEFAULT_FLOOR_OF_SUMS if _adds_up(chosen) else _DEFAULT_FLOOR
    floor = thresholds.Threshold(bound.threshold or default)
    options = InputOptions(text_field, id_field, format_name, False, pattern, elements, separator)
    require_inputs(inputs or [])
    measured = _measured(inputs, options, chosen, floor, sample) if inputs else None
    _show_exact(chosen, floor, measured, as_json=as_json)


def _adds_up(kind: Kind) -> bool:
    """Whether items are bags whose union adds the counts up, so that no similarity is above 1/2."""
    return isinstance(kind, Bag) and kind.union == "sum"


def _measured(
    inputs: list[str], options: InputOptions, kind: Kind, floor: thresholds.Threshold, sample: int
) -> ExactPlan:
    import simdb

    feed = Feed(inputs, options.of(kind), on_bad="error", keep_raw=False)
    items = (row[1] for row in islice(feed.rows(), sample))
    try:
        return simdb.plan_exact(items, kind, exact_floor=floor.fraction)
    except UsageError as error:
        raise feed.placed(error) from error


def _show_exact(
    kind: Kind, floor: thresholds.Threshold, measured: ExactPlan | None, *, as_json: bool
) -> None:
    from simdb.planning import posted_symbols

    posted_of_each = posted_symbols(kind, floor.fraction, _SIZES)
    prefixes = list(zip(_SIZES, posted_of_each, strict=True))
    if as_json:
        counted = {} if measured is None else dataclasses.asdict(measured)
        if measured is not None:
            counted["floor"] = str(floor)
            for name in ("postings_per_item", "bytes_per_item", "weight"):
                counted[name] = getattr(measured, name)
        listed = [{"symbols": size, "posted": posted} for size, posted in prefixes]
        print_json({"floor": str(floor), **counted, "prefixes": listed})
        return
    print_line(f"an exact index from {floor} on posts of an item")
    print_table(
        ("of symbols ", "posted "), [(f"{size:,}", f"{posted:,}") for size, posted in prefixes]
    )
    if measured is None:
        return
    print_line(
        f"of {measured.items:,} items with {measured.item_bytes:,} bytes: "
        f"{measured.symbols:,} symbols, {measured.postings:,} postings, at most "
        f"{measured.largest_prefix:,} of an item"
    )
    print_line(
        f"an item: {measured.postings_per_item:,.1f} postings, {measured.bytes_per_item:,.0f} "
        f"bytes, {measured.weight:.2f} times the item's own"
    )


@dataclass(frozen=True, slots=True)
class _Planned:
    """The index of a kind, and what its curve is over.

    Attributes:
        kind: what the items are.
        bound: the threshold or the largest distance that it was planned for, as the user knows it.
        plan: the bands and rows.
    """

    kind: Kind
    bound: Fraction
    plan: Plan

    @property
    def measured(self) -> str:
        """What is measured: a similarity or a distance."""
        return "distance" if measures_distance(self.kind) else "similarity"

    @property
    def bounded_by(self) -> str:
        """What the bound is called."""
        return "largest distance" if measures_distance(self.kind) else "threshold"

    @property
    def end(self) -> float:
        """The end of the axis: no similarity is higher, and no distance of interest."""
        if not measures_distance(self.kind):
            return 0.5 if _adds_up(self.kind) else 1.0
        largest = 3 * float(self.bound) or 1.0
        if isinstance(self.kind, Bits):
            return min(largest, float(self.kind.length))
        of_angles = isinstance(self.kind, Vector) and self.kind.measure == "cosine"
        return min(largest, 180.0) if of_angles else largest


def _planned(kind: Kind, bound: Bound, wanted: dict[str, Any]) -> _Planned:
    """Return the index that a new collection would have."""
    if measures_distance(kind) and not bound.is_given:
        raise UsageError(f"{plural_of(kind)} compared by distance are planned for a --max-distance")
    with _empty_store() as database:
        made = database.create_collection(name_of(kind), kind, **bound.of(kind), **wanted)
        planned_for = made.max_distance if measures_distance(kind) else made.threshold
        return _Planned(kind, planned_for or Fraction(), made.plan)


@contextmanager
def _empty_store() -> Iterator[Database]:
    import simdb

    with (
        tempfile.TemporaryDirectory(prefix="simdb-plan-") as folder,
        simdb.open(Path(folder) / "empty.simdb", sync="batch") as database,
    ):
        yield database


def _draw(path: Path, planned: _Planned) -> None:
    from simdb.cli.plotting import Axis, curve_of, draw_curve
    from simdb.lsh.amplification import And, Or

    if isnan(planned.plan.expected_recall(float(planned.bound))):
        raise UsageError("no probability is known that could be drawn")
    axis = Axis(
        planned.measured, 0.0, planned.end, planned.plan.family.probability, planned.bounded_by
    )
    construction = Or(planned.plan.bands, And(planned.plan.rows))
    curve = curve_of(construction, axis, float(planned.bound))
    title = index_in_words(planned.kind, planned.plan.bands, planned.plan.rows)
    draw_curve(path, curve, axis, title)


def _show_planned(planned: _Planned, points: int, *, as_json: bool) -> None:
    plan = planned.plan
    values = [planned.end * number / (points - 1) for number in range(points)]
    curve = [(value, float(planned.plan.expected_recall(value))) for value in values]
    known = not all(isnan(recall) for _, recall in curve)
    expected = planned.plan.expected_recall(float(planned.bound))
    if as_json:
        listed = [{planned.measured: x, "probability": y} for x, y in curve] if known else []
        print_json(
            {"bands": plan.bands, "rows": plan.rows, "expected_recall": expected, "curve": listed}
        )
        return
    print_line(index_in_words(planned.kind, plan.bands, plan.rows))
    at = planned.bounded_by
    if isnan(expected):
        print_line(f"no recall can be stated at the {at}: simdb audit measures it")
    else:
        print_line(f"expected recall at the {at} {float(planned.bound):g}: {expected:.6f}")
    if known:
        print_table(
            (f"{planned.measured} ", "probability to be found "),
            [(f"{x:.3f}", "not known" if isnan(y) else f"{y:.6f}") for x, y in curve],
        )

"""The command that shows what settings lead to: plan."""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from simdb.cli.feeding import Feed
from simdb.cli.inputs import InputOptions, require_inputs
from simdb.cli.kinds import kind_from
from simdb.cli.options import (
    AsJson,
    Bands,
    ElementsText,
    FormatName,
    IdField,
    Lowercase,
    Pattern,
    Rows,
    Separator,
    ShinglesText,
    TextFields,
    Threshold,
    UnicodeForm,
    WhiteSpace,
    rational,
)
from simdb.cli.output import print_json, print_line, print_table
from simdb.config import Kind
from simdb.errors import UsageError
from simdb.exact import thresholds

if TYPE_CHECKING:
    from simdb.planning import ExactPlan

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
    kind: Annotated[
        str, typer.Option("--kind", metavar="text|set", help="With --exact: what the items are.")
    ] = "text",
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
    threshold: Threshold = "0.8",
    recall: Annotated[
        str, typer.Option("--recall", metavar="SHARE", help="Share of pairs at the threshold.")
    ] = "0.99",
    bands: Bands = None,
    rows: Rows = None,
    points: Annotated[
        int, typer.Option("--points", min=2, max=1001, help="Points of the curve.")
    ] = 11,
    as_json: AsJson = False,
) -> None:
    """Show the index that settings lead to.

    Needs no store. Prints bands and rows for a threshold and a recall, and the curve: the
    probability that a pair of a similarity is found. With --exact, how much of an item is posted,
    and what that takes for the first items of the inputs.
    """
    if not exact:
        if inputs:
            raise UsageError("inputs are measured with --exact only")
        _show_banding(threshold, recall, bands, rows, points, as_json=as_json)
        return
    floor = thresholds.Threshold.parse(threshold)
    chosen = kind_from(kind, shingles, lowercase, white_space, unicode)
    options = InputOptions(text_field, id_field, format_name, False, pattern, elements, separator)
    require_inputs(inputs or [])
    measured = _measured(inputs, options, chosen, floor, sample) if inputs else None
    _show_exact(floor, measured, as_json=as_json)


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


def _show_exact(floor: thresholds.Threshold, measured: ExactPlan | None, *, as_json: bool) -> None:
    prefixes = [(size, floor.prefix_length(size)) for size in _SIZES]
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


def _show_banding(
    threshold: str, recall: str, bands: int | None, rows: int | None, points: int, *, as_json: bool
) -> None:
    import simdb

    exact_threshold = rational(threshold)
    planned = simdb.plan(
        exact_threshold, recall=rational(recall, name="recall"), bands=bands, rows=rows
    )
    similarities = [number / (points - 1) for number in range(points)]
    curve = [(similarity, planned.expected_recall(similarity)) for similarity in similarities]
    at_threshold = planned.expected_recall(exact_threshold)
    if as_json:
        print_json(
            {
                "bands": planned.bands,
                "rows": planned.rows,
                "expected_recall": at_threshold,
                "curve": [{"similarity": x, "probability": float(y)} for x, y in curve],
            }
        )
        return
    print_line(f"{planned.bands} bands of {planned.rows} rows")
    print_line(f"expected recall at the threshold {threshold}: {at_threshold:.6f}")
    print_table(
        ("similarity ", "probability to be found "),
        [(f"{x:.3f}", f"{y:.6f}") for x, y in curve],
    )

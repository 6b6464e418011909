"""The commands that make collections and put items into them: create add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simdb.cli.bounds import Bound, MaxDistanceText, measured_duplicate
from simdb.cli.describing import KindOptions
from simdb.cli.failures import told_when_interrupted
from simdb.cli.feeding import Feed
from simdb.cli.indexes import indexes_of, report_of, warn_of_weight
from simdb.cli.inputs import InputOptions, require_inputs, require_no_input
from simdb.cli.options import (
    AsJson,
    Bands,
    CollectionName,
    ElementsText,
    ExactFloor,
    FormatName,
    IdField,
    IntegerKeys,
    KindText,
    Lowercase,
    OnBad,
    Pattern,
    Quiet,
    RatingField,
    Ratings,
    Rows,
    Seed,
    Separator,
    SettingsText,
    ShinglesText,
    Sketch,
    StorePath,
    SyncMode,
    TextFields,
    ThresholdText,
    UnicodeForm,
    WhiteSpace,
    one_of,
    rational,
    sketch_scheme,
)
from simdb.cli.output import ProgressBar, note, print_json, print_json_line
from simdb.cli.stores import opened, opened_collection
from simdb.errors import UsageError
from simdb.files import Output, json_line, written_together
from simdb.results import AddReport, Outcome

if TYPE_CHECKING:
    from simdb.collection import Collection


def create(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    kind: KindText = None,
    settings: SettingsText = None,
    shingles: ShinglesText = None,
    threshold: ThresholdText = None,
    max_distance: MaxDistanceText = None,
    recall: Annotated[
        str, typer.Option("--recall", metavar="SHARE", help="Share of such pairs to find.")
    ] = "0.99",
    exact_floor: ExactFloor = None,
    exact_only: Annotated[
        bool, typer.Option("--exact-only", help="No probable index; needs --exact-floor.")
    ] = False,
    containment: Annotated[
        bool,
        typer.Option(
            "--containment", help="The exact index posts all: every threshold and measure."
        ),
    ] = False,
    lowercase: Lowercase = None,
    white_space: WhiteSpace = None,
    unicode: UnicodeForm = None,
    bands: Bands = None,
    rows: Rows = None,
    sketch: Sketch = None,
    seed: Seed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Create a collection, and the store where there is none.

    Its settings say what is similar to what; they are kept with it. A collection that exists
    already is refused. The threshold is 0.8 (4/9 for bags whose union is the sum); items that are
    compared by distance have an index only with --max-distance, else all are compared with all.
    """
    described = KindOptions(kind, settings, shingles, lowercase, white_space, unicode).new()
    bound = Bound.parse(threshold, max_distance)
    if exact_only and exact_floor is None:
        raise UsageError("--exact-only needs --exact-floor")
    if containment and exact_floor is None:
        raise UsageError("--containment needs --exact-floor")
    if exact_only and bound.is_given:
        raise UsageError("--exact-only contradicts --threshold and --max-distance")
    chosen: dict[str, Any] = {
        **({"threshold": None} if exact_only else bound.of(described)),
        "recall": rational(recall, name="recall"),
        "bands": bands,
        "rows": rows,
        "sketch": sketch_scheme(sketch) or "fast",
        "seed": seed,
        "exact_floor": rational(exact_floor, name="--exact-floor"),
        "containment": containment,
    }
    with opened(context, store, create=True) as database:
        created = database.create_collection(collection, described, **chosen)
        if as_json:
            print_json_line(report_of(created))
        else:
            told = f"created collection {created.name} in {store}: {indexes_of(created)}"
            note(told, quiet=quiet)
        warn_of_weight(created, containment=containment)


def add(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="JSON lines, CSV, NumPy arrays, text files, folders; .gz and .zst; - is standard "
            "input.",
        ),
    ],
    text_field: TextFields = None,
    id_field: IdField = None,
    format_name: FormatName = None,
    pattern: Pattern = None,
    integer_keys: IntegerKeys = False,
    elements: ElementsText = None,
    separator: Separator = None,
    ratings: Ratings = None,
    rating_field: RatingField = None,
    on_existing: Annotated[
        str,
        typer.Option(
            "--on-existing", metavar="error|skip|replace", help="A key that is stored already."
        ),
    ] = "error",
    on_duplicate: Annotated[
        str,
        typer.Option(
            "--on-duplicate", metavar="keep|skip", help="An item similar to a stored one."
        ),
    ] = "keep",
    on_bad: OnBad = "error",
    find_duplicates: Annotated[
        bool, typer.Option("--find-duplicates", help="Count the items similar to stored ones.")
    ] = False,
    duplicates: Annotated[
        str | None,
        typer.Option(
            "--duplicates", metavar="FILE", help="Write each of them there as a line of JSON."
        ),
    ] = None,
    threshold: ThresholdText = None,
    max_distance: MaxDistanceText = None,
    sync: SyncMode = "full",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add the rows of files and folders to a collection.

    Fields that are neither key nor item are kept as metadata. Rows are committed in batches; when
    the work is cut short, the same command with --on-existing skip continues it.
    """
    wanted = InputOptions(
        text_field,
        id_field,
        format_name,
        integer_keys,
        pattern,
        elements,
        separator,
        ratings,
        rating_field,
    )
    bound = Bound.parse(threshold, max_distance)
    policy: dict[str, Any] = {
        "on_bad": one_of("--on-bad", on_bad, "error", "skip"),
        "on_existing": one_of("--on-existing", on_existing, "error", "skip", "replace"),
        "on_duplicate": one_of("--on-duplicate", on_duplicate, "keep", "skip"),
        "find_duplicates": find_duplicates or duplicates is not None,
    }
    require_inputs(inputs)
    require_no_input([duplicates], inputs, pattern)
    with opened_collection(context, store, collection, sync=sync) as target:
        policy |= bound.of(target.kind)
        feed = Feed(inputs, wanted.of(target.kind, target), on_bad=on_bad, keep_raw=False)
        report = _added(target, feed, duplicates, policy, quiet=quiet)
    _tell_report(report, feed, as_json=as_json, quiet=quiet)


def _added(
    target: Collection, feed: Feed, duplicates: str | None, policy: dict[str, Any], *, quiet: bool
) -> AddReport:
    with (
        written_together(*([duplicates] if duplicates else [])) as files,
        told_when_interrupted(lambda: _stored(feed)),
        ProgressBar(feed.share, quiet=quiet) as bar,
    ):
        try:
            return target.add_many(
                feed.rows(),
                progress=bar.callback,
                outcomes=lambda outcomes: _write_duplicates(feed, outcomes, files),
                **policy,
            )
        except UsageError as error:
            placed = feed.placed(error)
            if feed.done:
                told = f"{placed.problem}; {_stored(feed)}"
                placed = UsageError(told, remedies=placed.remedies)
            raise placed from error


def _stored(feed: Feed) -> str:
    return f"{feed.done:,} rows are done and stored; --on-existing skip continues after them"


def _write_duplicates(feed: Feed, outcomes: Sequence[Outcome], files: Sequence[Output]) -> None:
    for outcome, waiting in feed.settled(outcomes):
        if outcome.duplicate_of is not None and files:
            files[0].write(
                json_line(
                    {
                        "input": waiting.reader.source,
                        "line": waiting.line,
                        "id": outcome.key,
                        "duplicate_of": outcome.duplicate_of,
                        **measured_duplicate(outcome),
                        "within_input": outcome.within_input,
                        "stored": outcome.action in ("added", "replaced"),
                    }
                )
            )


def _tell_report(report: AddReport, feed: Feed, *, as_json: bool, quiet: bool) -> None:
    counts = {
        "rows": feed.done + feed.bad - report.bad,
        "added": report.added,
        "replaced": report.replaced,
        "present": report.present,
        "duplicates_old": report.duplicates_old,
        "duplicates_new": report.duplicates_new,
        "bad": feed.bad,
    }
    if as_json:
        bad_rows = [{"place": place, "problem": problem} for place, problem in feed.bad_rows]
        print_json({**counts, "since": report.since, "bad_rows": bad_rows})
        return
    told = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    note("; ".join(told) or "no rows", quiet=quiet)

"""The command that removes near duplicates from a file: dedupe."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simdb.cli.bounds import Bound, MaxDistanceText, measured_duplicate
from simdb.cli.describing import KindOptions
from simdb.cli.failures import told_when_interrupted
from simdb.cli.feeding import Feed, Waiting
from simdb.cli.inputs import InputOptions, require_inputs, require_no_input
from simdb.cli.kinds import measures_distance, plural_of
from simdb.cli.options import (
    AsJson,
    ElementsText,
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
    Recall,
    Separator,
    SettingsText,
    ShinglesText,
    SyncMode,
    TextFields,
    ThresholdText,
    UnicodeForm,
    WhiteSpace,
    one_of,
    rational,
)
from simdb.cli.output import ProgressBar, note, print_json
from simdb.cli.stores import opened
from simdb.config import Kind
from simdb.errors import ConfigurationError, UsageError
from simdb.files import Output, json_line, written_together
from simdb.results import AddReport, Outcome

if TYPE_CHECKING:
    from simdb.collection import Collection
    from simdb.database import Database

_DEFAULT_RECALL = "0.99"


def dedupe(
    context: typer.Context,
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="JSON lines, CSV, a NumPy array, a text file or a folder; .gz and .zst; - is "
            "standard input.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="The kept rows; - prints them."),
    ],
    removed: Annotated[
        str | None,
        typer.Option(
            "--removed", metavar="FILE", help="The removed rows and why, as lines of JSON."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="STORE", help="Keep the rows here, and compare with those in it."
        ),
    ] = None,
    collection: Annotated[
        str, typer.Option("--collection", help="The collection in the store.")
    ] = "documents",
    kind: KindText = None,
    settings: SettingsText = None,
    threshold: ThresholdText = None,
    max_distance: MaxDistanceText = None,
    text_field: TextFields = None,
    id_field: IdField = None,
    format_name: FormatName = None,
    pattern: Pattern = None,
    integer_keys: IntegerKeys = False,
    elements: ElementsText = None,
    separator: Separator = None,
    ratings: Ratings = None,
    rating_field: RatingField = None,
    on_bad: OnBad = "error",
    shingles: ShinglesText = None,
    lowercase: Lowercase = None,
    white_space: WhiteSpace = None,
    unicode: UnicodeForm = None,
    recall: Recall = None,
    sync: SyncMode = "full",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Copy a file without its near duplicates.

    A row is removed if it is similar enough to a row kept before it: in the store first, then in
    the order of the input. Kept rows come out unchanged, byte for byte, and the outputs appear
    when they are complete. With --store the next file is compared with all files before, and the
    same file again gives the same output. Of text files and NumPy arrays the output is the list of
    the keys kept. What is compared by distance needs --max-distance.
    """
    options = InputOptions(
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
    bad_policy = one_of("--on-bad", on_bad, "error", "skip")
    if as_json and "-" in (output, removed):
        raise UsageError("--json and an output cannot both go to standard output")
    wanted = _Wanted(
        Bound.parse(threshold, max_distance),
        rational(recall, name="recall"),
        KindOptions(kind, settings, shingles, lowercase, white_space, unicode),
    )
    if store is None or not Path(store).exists():
        # Refuses a wrong setting before anything is made.
        options.of(wanted.kind_for(None))
        wanted.bound_for(wanted.kind_for(None))
    require_inputs([source])
    require_no_input([output, removed], [source], pattern)
    began = time.monotonic()
    with _workspace(context, store, output, sync) as database:
        present: Collection | None = None
        if collection in database:
            present = database[collection]
        held = wanted.kind_for(None if present is None else present.kind)
        feed = Feed(
            [source],
            options.of(held, present),
            on_bad=on_bad,
            keep_raw=True,
            keep_lines=store is None and id_field is not None,
        )
        with (
            written_together(*(name for name in (output, removed) if name is not None)) as files,
            told_when_interrupted(lambda: _left_by(feed, output, store)),
            ProgressBar(feed.share, quiet=quiet) as bar,
        ):
            target = wanted.collection(database, collection, throw_away=store is None)
            feed.target = target
            splitting = _Splitting(feed, *files)
            try:
                report = target.dedupe(
                    feed.rows(),
                    on_bad=bad_policy,
                    progress=bar.callback,
                    outcomes=splitting.settle,
                    **wanted.bound.of(held),
                )
            except UsageError as error:
                raise feed.placed(error) from error
            splitting.finish()
    _tell(report, splitting, feed, time.monotonic() - began, as_json=as_json, quiet=quiet)


def _left_by(feed: Feed, output: str, store: str | None) -> str:
    text = f"{output} is as it was" if output != "-" else "the output is not complete"
    if store is not None:
        text += f"; {feed.done:,} rows are in {store}, and the same command gives the same output"
    return text


@contextlib.contextmanager
def _workspace(
    context: typer.Context, store: str | None, output: str, sync: str
) -> Iterator[Database]:
    """Open the store that was named, or one that is gone afterwards, whatever happens."""
    if store is not None:
        with opened(context, store, create=True, sync=sync) as database:
            yield database
        return
    # Beside the output there is room for about as much; the system's own folder may be memory.
    target = Path(output)
    folder = target.parent if output != "-" and (target.is_file() or not target.exists()) else None
    if folder is not None and not folder.is_dir():
        raise FileNotFoundError(2, "no such folder", str(folder))
    with (
        tempfile.TemporaryDirectory(prefix=".simdb-dedupe-", dir=folder) as place,
        opened(context, str(Path(place) / "rows.simdb"), create=True, sync="batch") as database,
    ):
        yield database


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The settings that the user named, for a new collection or against an existing one."""

    bound: Bound
    recall: Fraction | None
    kind: KindOptions

    def kind_for(self, present: Kind | None) -> Kind:
        """Return the kind of the rows: that of the collection, or of a new one.

        Raises:
            ConfigurationError: the collection has another kind, or a setting is none of it.
        """
        if present is None:
            return self.kind.new()
        self.kind.changed(present)
        return present

    def bound_for(self, kind: Kind) -> dict[str, Any]:
        """Return what a new collection is planned for; nothing means its default.

        Raises:
            UsageError: items are compared by distance, and none is given.
        """
        if measures_distance(kind) and not self.bound.is_given:
            raise UsageError(f"{plural_of(kind)} compared by distance need --max-distance")
        return self.bound.of(kind)

    def collection(self, database: Database, name: str, *, throw_away: bool) -> Collection:
        """Return the collection, made under these settings where there is none.

        Raises:
            ConfigurationError: there is one, and it has others.
        """
        if name in database:
            found = database[name]
            if self.kind.changed(found.kind) != found.kind:
                raise ConfigurationError(
                    f"the collection {name!r} has other settings: {found.kind}"
                )
            if self.recall is not None and self.recall != found.recall:
                raise ConfigurationError(
                    f"the collection {name!r} was made for a recall of {float(found.recall):g}"
                )
            return found
        kind = self.kind_for(None)
        return database.create_collection(
            name,
            kind,
            recall=self.recall or rational(_DEFAULT_RECALL, name="recall"),
            # The same file gives the same output only under the same hash functions.
            seed=0 if throw_away else None,
            **self.bound_for(kind),
        )


class _Splitting:
    """The rows of the input as they are settled: into the kept and the removed ones."""

    def __init__(self, feed: Feed, kept: Output, removed: Output | None = None) -> None:
        self.kept = 0
        self._feed = feed
        self._kept = kept
        self._removed = removed
        self._begun = False

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Write the rows of a commit."""
        for outcome, waiting in self._feed.settled(outcomes):
            if outcome.action == "duplicate":
                self._write_removed(outcome, waiting)
            elif outcome.action != "bad":
                self._begin()
                self._kept.write(waiting.raw)
                self.kept += 1

    def _begin(self) -> None:
        # The header of a CSV file is known once its first row was read, which is by now.
        if not self._begun and self._feed.reader is not None:
            self._kept.write(self._feed.reader.preamble)
            self._begun = True

    def _write_removed(self, outcome: Outcome, waiting: Waiting) -> None:
        if self._removed is None:
            return
        self._removed.write(
            json_line(
                {
                    "line": waiting.line,
                    "id": outcome.key,
                    "duplicate_of": outcome.duplicate_of,
                    **measured_duplicate(outcome),
                    "within_input": outcome.within_input,
                    "row": waiting.reader.fields(waiting.raw),
                }
            )
        )

    def finish(self) -> None:
        """Write what an output without rows has too."""
        self._begin()


def _tell(
    report: AddReport,
    splitting: _Splitting,
    feed: Feed,
    seconds: float,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    counts: dict[str, Any] = {
        "rows": feed.done + feed.bad - report.bad,
        "kept": splitting.kept,
        "removed_old": report.duplicates_old,
        "removed_new": report.duplicates_new,
        "bad": feed.bad,
        "seconds": round(seconds, 3),
    }
    if as_json:
        bad_rows = [{"place": place, "problem": problem} for place, problem in feed.bad_rows]
        print_json({**counts, "bad_rows": bad_rows})
        return
    removed = report.duplicates_old + report.duplicates_new
    note(
        f"{counts['rows']:,} rows: {splitting.kept:,} kept, {removed:,} removed "
        f"({report.duplicates_old:,} like rows stored before, {report.duplicates_new:,} like rows "
        f"of this input), {feed.bad:,} bad; {seconds:.1f} s",
        quiet=quiet,
    )

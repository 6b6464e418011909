"""The command that copies a file without its near duplicates."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import simdb
from simdb.cli.failures import told_when_interrupted
from simdb.cli.inputs import (
    Feed,
    InputOptions,
    Inputs,
    Waiting,
    content_seed,
    duplicate_fields,
    require_no_input,
)
from simdb.cli.options import Bound, KindOptions, Recall, SyncMode, rational
from simdb.cli.output import Telling
from simdb.cli.stores import Store
from simdb.errors import ConfigurationError, UsageError
from simdb.files.inputs import TABLES, require_there, written_forms
from simdb.files.rows import ReadingOptions, RowReader
from simdb.files.tables import copy_rows, require_same_columns
from simdb.files.writing import (
    Output,
    folders_made,
    json_line,
    promised_form,
    require_fitting_name,
    written_together,
)
from simdb.results import Outcome, Outcomes
from simdb.unfinished import held, remove_abandoned

_DEFAULT_RECALL = "0.99"
_MANY = 100  # rows, from which on it is asked whether nearly all shall be removed
_NEARLY_ALL = 0.9
_MOST_SHARDS = 500  # of an output, all of which are open until all are complete
_WORKSPACE = ".simdb-dedupe-"  # how the folder of a store begins that is thrown away


def dedupe(
    context: typer.Context,
    *,
    inputs: Inputs,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The kept rows; a folder of shards; - prints."
        ),
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
    described: KindOptions,
    bound: Bound,
    recall: Recall = None,
    reading: InputOptions,
    on_existing: Annotated[
        Literal["error", "keep", "replace"],
        typer.Option(
            "--on-existing",
            help="A key stored before with another content: keep removes the row, replace updates "
            "what is stored.",
        ),
    ] = "error",
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Also where more than 90 % are like rows stored before."),
    ] = False,
    sync: SyncMode = "full",
    telling: Telling,
) -> None:
    """Copy a file without its near duplicates.

    A row is removed if it is similar enough to a row kept before it: in the store first, then in
    the order of the input. Kept rows come out unchanged, byte for byte, and the outputs appear
    when they are complete; those of a folder of shards may go to a folder, a file each. With
    --store the next file is compared with all files before, and the same file again gives the same
    output. Of text files and NumPy arrays the output is the list of the keys kept. What is compared
    by distance needs --max-distance.
    """
    outputs = telling.require_files(output, removed, reading.bad)
    wanted = _Wanted(described, bound, recall)
    require_there(*inputs)
    if store is None or not Path(store).exists():
        # Refuses a wrong setting before anything is made.
        reading.sources(inputs, reading.of(wanted.settings()["kind"]))
    require_no_input(outputs, inputs, reading.pattern)
    for name in outputs[1:]:
        require_fitting_name(name, "jsonl")
    began = time.monotonic()
    with _workspace(context, store, output, sync) as database:
        present = wanted.present(database, collection)
        kind = described.new() if present is None else present.kind
        options = reading.of(kind, present)
        sources = reading.sources(inputs, options)
        targets = _targets(inputs, sources, output)
        if targets == [output]:
            require_fitting_name(output, *_common_forms(sources, options))
        outputs = [*targets, *outputs[1:]]
        require_no_input(targets, sources, reading.pattern)
        copied = {target for target in targets if promised_form(target) in TABLES}
        if copied == {output}:
            require_same_columns(list(sources))
        if store is not None:
            reading.require_keys(present, kind, sources)
        feed = _feed(
            reading,
            sources,
            options,
            present,
            only_tables=len(outputs) == len(copied),
            stays=store is not None,
        )
        with (
            folders_made(targets if targets != [output] else []),
            written_together(*outputs) as files,
            told_when_interrupted(lambda: _left_by(feed, output, store)),
            telling.bar(feed.share) as bar,
        ):
            if present is None:
                # The same file gives the same output only under the same hash functions.
                seed = content_seed(inputs, reading.pattern) if store is None else None
                present = database.create_collection(collection, **wanted.settings(), seed=seed)
                if store is not None:
                    reading.require_keys(present, kind, sources)
            feed.target = present
            opened = dict(zip(outputs, files, strict=True))
            feed.bad_file = opened.get(reading.bad or "")
            kept = targets if len(targets) == len(sources) else targets * len(sources)
            placed = {name: opened[target] for name, target in zip(sources, kept, strict=True)}
            tables = {opened[target] for target in copied}
            splitting = _Splitting(feed, placed, opened.get(removed or ""), tables)
            try:
                report = present.dedupe(
                    feed,
                    on_bad=reading.when_bad,
                    on_existing=on_existing,
                    progress=bar.callback,
                    outcomes=splitting.settle,
                    **bound.of(kind),
                )
            except UsageError as error:
                raise feed.placed(error) from error
            counts: dict[str, Any] = feed.counted(
                report,
                kept=splitting.kept - report.replaced,
                updated=report.replaced,
                removed_old=report.duplicates_old,
                removed_new=report.duplicates_new,
            )
            _require_few_removed(counts, confirmed=yes)
            written = None if options.columns is None else options.read_names()
            splitting.finish(sources if targets == [output] else {}, written)
    counts["seconds"] = round(time.monotonic() - began, 3)
    _tell(telling, counts, feed)


def _tell(telling: Telling, counts: dict[str, Any], feed: Feed) -> None:
    text = (
        "{rows:,} rows: {kept:,} kept, {updates}{removed:,} removed ({removed_old:,} like rows "
        "stored before, {removed_new:,} like rows of this input), {bad:,} bad; {seconds:.1f} s"
    )
    removed = counts["removed_old"] + counts["removed_new"]
    updates = f"{counts['updated']:,} updated, " if counts["updated"] else ""
    words = text.format(removed=removed, updates=updates, **counts)
    telling.tell({**counts, "bad_rows": feed.bad_rows}, words, lines=True)


def _feed(
    reading: InputOptions,
    sources: dict[str, str],
    options: ReadingOptions,
    present: simdb.Collection | None,
    *,
    only_tables: bool,
    stays: bool,
) -> Feed:
    """Return the rows of the inputs.

    Where the store does not stay, the place of a row is its key if line numbers of several inputs
    would be the same keys, and is noted under other keys.

    Args:
        only_tables: nothing is written but tables, whose rows are copied at the end.
        stays: the rows go to a store that stays.
    """
    made = reading.make_keys
    if not stays and len(sources) > 1 and (made or reading.id_field) is None:
        made = None if "numpy" in options.kind.formats else "place"
    options = replace(
        options,
        made_keys=made,
        raw=not only_tables or made == "content",
        metadata=stays or reading.metadata_field is not None,
        below=sources,
    )
    stored = None if present is None else next(iter(present.items()), None)
    return Feed(
        sources,
        options,
        on_bad=reading.when_bad,
        keep_raw=True,
        keep_lines=not stays,
        like=None if stored is None else stored.key,
    )


def _targets(inputs: list[str], sources: dict[str, str], output: str) -> list[str]:
    """Return the output, or where it is a folder, one for each shard that the inputs are."""
    alone = len(inputs) == 1 and list(sources) == inputs
    if alone or not (output.endswith("/") or Path(output).is_dir()):
        return [output]
    if len(sources) > _MOST_SHARDS:
        raise UsageError(
            f"there are {len(sources):,} shards, and at most {_MOST_SHARDS} go to a folder: "
            "name a file for the output"
        )
    targets = [str(Path(output, place)) for place in sources.values()]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise UsageError(f"two inputs would both go to {twice}: name a file for the output")
    return targets


def _common_forms(sources: dict[str, str], options: ReadingOptions) -> list[str]:
    """Return the formats that the rows of all inputs can be written in, to one file."""
    forms = [written_forms(source, options) for source in sources] or [("jsonl",)]
    common = [form for form in forms[0] if all(form in others for others in forms)]
    if not common:
        told = " and ".join(sorted({names[0] for names in forms}))
        raise UsageError(f"inputs of {told} have no output in common: take those of one format")
    return common


def _require_few_removed(counts: dict[str, int], *, confirmed: bool) -> None:
    """Raise if nearly all rows are removed for rows stored before, unless that is meant."""
    rows, removed = counts["rows"], counts["removed_old"]
    if confirmed or rows < _MANY or removed <= _NEARLY_ALL * rows:
        return
    raise UsageError(
        f"{removed:,} of {rows:,} rows are like rows stored before under other keys "
        "and would be removed: if that is meant, the same command with --yes writes the outputs"
    )


def _left_by(feed: Feed, output: str, store: str | None) -> str:
    text = f"{output} is as it was" if output != "-" else "the output is not complete"
    if store is not None:
        text += f"; {feed.done:,} rows are in {store}, and the same command gives the same output"
    return text


@contextlib.contextmanager
def _workspace(
    context: typer.Context, store: str | None, output: str, sync: Literal["full", "batch"]
) -> Iterator[simdb.Database]:
    """Open the store that was named, or one that is gone afterwards, whatever happens."""
    with contextlib.ExitStack() as stack:
        if store is None:
            # Beside the output there is room for about as much; the system's own folder may be
            # memory.
            target = Path(output)
            beside = output != "-" and (target.is_file() or not target.exists())
            folder = target.parent if beside else None
            if output.endswith("/") or target.is_dir():
                folder = next(place for place in (target, *target.parents) if place.is_dir())
            if folder is not None and not folder.is_dir():
                raise FileNotFoundError(2, "no such folder", str(folder))
            remove_abandoned(folder or Path(tempfile.gettempdir()), f"{_WORKSPACE}*")
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix=_WORKSPACE, dir=folder))
            descriptor = os.open(place, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            held(descriptor)
            store, sync = str(Path(place) / "rows.simdb"), "batch"
        yield stack.enter_context(Store(context, store).opened(create=True, sync=sync))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The settings that the user named, for a new collection or against the one there is."""

    described: KindOptions
    bound: Bound
    recall: str | None

    def settings(self) -> dict[str, Any]:
        """Return those of a new collection; raises UsageError if one is wrong or lacks."""
        kind = self.described.new()
        if kind.is_distance and not self.bound.given():
            raise UsageError(f"{kind.plural} compared by distance need --max-distance")
        recall = rational(self.recall or _DEFAULT_RECALL, name="recall")
        return {"kind": kind, "recall": recall, **self.bound.of(kind)}

    def present(self, database: simdb.Database, name: str) -> simdb.Collection | None:
        """Return the collection where there is one; raises ConfigurationError if it differs."""
        if name not in database:
            return None
        found = database[name]
        if self.described.changed(found.kind) != found.kind:
            raise ConfigurationError(f"the collection {name!r} has other settings: {found.kind}")
        if self.recall is not None and rational(self.recall, name="recall") != found.recall:
            raise ConfigurationError(
                f"the collection {name!r} was made for a recall of {float(found.recall):g}"
            )
        return found


class _Splitting:
    """The rows of the input as they are settled: into the kept and the removed ones.

    Args:
        feed: the rows.
        kept: the output of each input; of several inputs it may be the same.
        removed: the output of removed rows.
        copied: of the outputs of kept rows, those that are tables; their rows are copied at the
            end, with all columns.
    """

    def __init__(
        self,
        feed: Feed,
        kept: Mapping[str, Output],
        removed: Output | None,
        copied: AbstractSet[Output],
    ) -> None:
        self._copied = {source: array("q") for source, output in kept.items() if output in copied}
        self.kept = 0
        self._feed = feed
        self._kept = kept
        self._removed = removed
        self._begun: set[Output] = set()
        self._unended: set[Output] = set()

    def settle(self, outcomes: Outcomes) -> None:
        """Write the rows of a commit."""
        for rows, told in self._feed.settled(outcomes):
            kept = np.ones(len(rows), np.bool_)
            for place, outcome in told.items():
                kept[place] = outcome.action not in ("duplicate", "bad")
                if outcome.action == "duplicate":
                    self._write_removed(outcome, rows, place)
            self.kept += int(kept.sum())
            source = rows.reader.source
            if source in self._copied:
                self._copied[source].frombytes(np.array(rows.lines, np.int64)[kept].tobytes())
            else:
                self._write_kept(rows.reader, compress(rows.raws, kept))

    def _write_kept(self, reader: RowReader, raws: Iterable[bytes]) -> None:
        output = self._kept[reader.source]
        for raw in raws:
            self._begin(output, reader.preamble)
            if output in self._unended:  # the last row of a shard
                output.write(b"\n")
                self._unended.discard(output)
            output.write(raw)
            if not raw.endswith((b"\n", b"\r")):
                self._unended.add(output)

    def _begin(self, output: Output, preamble: bytes) -> None:
        if output not in self._begun:
            output.write(preamble)
            self._begun.add(output)

    def _write_removed(self, outcome: Outcome, rows: Waiting, place: int) -> None:
        if self._removed is not None:
            source = {"input": rows.reader.source} if self._feed.is_of_several else {}
            row = rows.reader.fields(rows.raw(place))
            told = duplicate_fields(outcome, rows.lines[place])
            self._removed.write(json_line({**source, **told, "row": row}))

    def finish(self, below: Mapping[str, str], columns: AbstractSet[str] | None) -> None:
        """Write what an output without rows has too, and the rows that are copied.

        Args:
            below, columns: of tables; see ``copy_rows``.
        """
        tables: dict[Output, dict[str, array[int]]] = {}
        for source, output in self._kept.items():
            if source in self._copied:
                tables.setdefault(output, {})[source] = self._copied[source]
            else:
                self._begin(output, self._feed.preambles.get(source, b""))
        for output, rows in tables.items():
            as_parquet = promised_form(output.target) == "parquet"
            copy_rows(rows, output.file, as_parquet=as_parquet, below=below, columns=columns)

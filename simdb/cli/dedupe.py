"""The command that copies a file without its near duplicates."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from functools import partial
from itertools import compress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
import typer
from msgspec import Struct
from msgspec.structs import replace

import simdb
from simdb import extras, kinds
from simdb.arrays import Bools, Int64s
from simdb.arrow import read_by_policy
from simdb.cli.failures import left_alone, told_when_interrupted
from simdb.cli.feed import Feed, Waiting, duplicate_fields, without_lasting_keys
from simdb.cli.inputs import (
    InputOptions,
    Inputs,
    content_seed,
    require_again,
    require_no_input,
)
from simdb.cli.options import Bound, SyncMode, rational
from simdb.cli.output import FACETS_TOLD, ProgressBar, Working, counted, note
from simdb.cli.proposing import (
    ANY_RECORD,
    AS_THEY_ARE,
    RuleChoices,
    looked_at,
    of_whole_rows,
    proposed_for_one,
    require_rows,
)
from simdb.cli.report import as_given, require_page
from simdb.cli.settings import KindOptions, Recall
from simdb.cli.stores import Store, settings_of
from simdb.database import is_there, open_throwaway
from simdb.errors import ConfigurationError, KeyNotFoundError, NothingAlikeError, UsageError
from simdb.exact.thresholds import decimal
from simdb.files import open_rows
from simdb.files.compression import STANDARD_STREAM, plain_name
from simdb.files.databases import database_of
from simdb.files.formats import FORMATS
from simdb.files.inputs import (
    format_of_name,
    require_there,
    told_format,
    written_forms,
)
from simdb.files.rows import BYTE_ORDER_MARK, ReadingOptions, RowReader
from simdb.files.spans import Spans
from simdb.files.tables import (
    BATCH_ROWS,
    MOST_BYTES,
    CopiedRows,
    GroupWriter,
    TableReader,
    copy_rows,
    outgrown_dictionaries,
    partitions_together,
    require_same_columns,
    version_of,
)
from simdb.files.texts import is_folder, iter_files
from simdb.files.writing import (
    TABLES,
    Output,
    folders_made,
    json_line,
    named_by,
    promised_form,
    require_distinct,
    require_fitting_name,
    temporary_in,
    written_together,
)
from simdb.kinds.contrast import contrast
from simdb.policies import OF_ROWS, Function, Policy
from simdb.results import AddReport, Outcome, Outcomes
from simdb.unfinished import held, remove_abandoned

if TYPE_CHECKING:
    from simdb.reports import Removed

Measure = Literal["jaccard", "containment", "both"]

_MANY = 100  # rows, from which on it is asked whether nearly all shall be removed
_NEARLY_ALL = 0.9
_BATCHES_WAITING = 8  # of an input, whose rows may take as much as a row group that is written
_MOST_SHARDS = 500  # of an output, all of which are open until all are complete
_SHARE_OF_MEMORY = 4  # a row group that is written may take this part; writing it, as much again
_LEAST_SAMPLED, _MOST_SAMPLED = 100, 500  # rows that a report searches for
_ROWS_A_SAMPLE = 20
_WORKSPACE = ".simdb-dedupe-"  # how the folder of a store begins that is thrown away


class Places(Struct, frozen=True):
    """Where the rows go."""

    context: typer.Context
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the kept rows here: a file, a folder for a folder of shards, or - for "
            "standard output.",
        ),
    ]
    removed: Annotated[
        str | None,
        typer.Option(
            "--removed",
            metavar="FILE",
            help="Write the removed rows here with the reason, as JSON lines.",
        ),
    ] = None
    with_kept: Annotated[
        bool,
        typer.Option(
            "--with-kept", help="With --removed: include the kept item that each row duplicates."
        ),
    ] = False
    explain: Annotated[
        bool, typer.Option("--explain", help="With --removed: include why the two are similar.")
    ] = False
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help="Also compare with the rows of this store, and keep the new ones in it; a new one "
            "needs --id-field or --make-keys.",
        ),
    ] = None
    collection: Annotated[str, typer.Option("--collection", help="The name of the collection.")] = (
        "documents"
    )
    sync: SyncMode = "full"
    report: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write an HTML page: what was removed and why, and what other thresholds would "
            "remove. Needs the extra 'report'.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.report is not None:
            require_page(self.report)
        if self.removed is not None:
            require_fitting_name(self.removed, "jsonl")
        if self.removed is None and (self.with_kept or self.explain):
            raise UsageError(
                "--with-kept and --explain describe the rows of --removed: give --removed "
                "FILE as well"
            )

    def required(self, telling: Working, bad: str | None) -> list[str]:
        """Return all outputs, that of the kept rows first; see ``Telling.require_files``."""
        named = (self.output, self.removed, bad, self.report)
        made = self.output if _is_for_shards(self.output) else None
        return telling.require_files(*named, made=made)

    def require_apart_from_store(self, outputs: Sequence[str]) -> None:
        """Raise if an output would be the store, or a file beside it, there or not yet."""
        if self.store is None:
            return
        own = {os.path.realpath(f"{self.store}{beside}") for beside in ("", "-lock", "-turn")}
        for name in outputs:
            if name != STANDARD_STREAM and os.path.realpath(name) in own:
                raise UsageError(f"{name} belongs to the store; name another file for the output")

    def require_store(self, *options: str) -> None:
        """Raise if options that decide about a store are not as by default, and none is given."""
        usual = {one.name: one.default for one in self.context.command.params}
        for option in options if self.store is None else ():
            if self.context.params[option] != usual[option]:
                raise UsageError(f"--{option.replace('_', '-')} needs --store")

    @contextlib.contextmanager
    def opened(self) -> Iterator[simdb.Database]:
        """Open the named store, or a temporary one that is removed afterwards in any case."""
        with contextlib.ExitStack() as stack:
            store = self.store
            if store is not None:
                opened = Store(self.context, store).opened(create=True, sync=self.sync)
                yield stack.enter_context(opened)
                return
            settings = settings_of(self.context)
            place = Path(self._workspace(stack)) / "rows.simdb"
            yield stack.enter_context(
                open_throwaway(place, threads=settings.threads, memory=settings.memory)
            )

    def _workspace(self, stack: contextlib.ExitStack) -> str:
        """Make a folder for a store, which goes with the stack.

        Beside the output there is room for about as much; the system's own folder may be memory.
        """
        target = Path(self.output)
        if target.is_file():
            target = target.resolve()  # /dev/stdout may be a file elsewhere
        beside = self.output != "-" and (target.is_file() or not target.exists())
        folder = target.parent if beside else None
        if _is_for_shards(self.output):
            folder = next(place for place in (target, *target.parents) if place.is_dir())
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(2, "no such folder", str(folder))
        if folder is not None and not os.access(folder, os.W_OK):
            if os.statvfs(folder).f_flag & os.ST_RDONLY:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), self.output)
            raise PermissionError(13, "no permission to write in this folder", str(folder))
        remove_abandoned(folder or Path(tempfile.gettempdir()), f"{_WORKSPACE}*")
        with contextlib.nullcontext() if folder is None else named_by(self.output):
            made = tempfile.TemporaryDirectory(prefix=_WORKSPACE, dir=folder)
        place = stack.enter_context(made)
        descriptor = os.open(place, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        held(descriptor)
        return place


class InDoubt(Struct, frozen=True):
    """Which row is kept, and when to ask first."""

    HEADING: ClassVar[str] = "Which row is kept"

    on_existing: Annotated[
        Literal["error", "keep", "replace"],
        typer.Option(
            "--on-existing",
            help="What to do with a key that is stored with other content: keep removes the new "
            "row, replace updates the stored one.",
        ),
    ] = "error"
    order: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="TERMS",
            help="Which of several similar rows to keep instead of the first: longest, 'date "
            "desc', or 'source in wiki|news, number(score) desc'. A better row also "
            "replaces one in the store.",
        ),
    ] = None
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Go on even if more than 90 % of the rows duplicate stored ones, or would take "
            "their stored texts out of the store and be removed themselves.",
        ),
    ] = False

    def require_few_removed(self, rows: int, similar: int, own: int) -> None:
        """Raise if stored rows remove nearly all, as similar or by their keys, unless --yes."""
        if self._are_too_many(similar + own, rows):
            told = f"{similar:,} duplicate rows stored under other keys" if similar else ""
            kept = f"the keys of {own:,} are stored, whose rows --on-existing keep keeps"
            told = " and ".join(filter(None, (told, kept if own else "")))
            raise UsageError(
                f"{similar + own:,} of {rows:,} rows would be removed: {told}; if that is "
                "intended, repeat the command with --yes"
            )

    def require_few_lost(self, rows: int, lost: int, old: int, superseded: int) -> None:
        """Raise if nearly all rows so far go, and stored ones too."""
        if self._are_too_many(lost, rows):
            raise UsageError(
                f"{lost:,} of {rows:,} rows would delete the stored rows with the same keys, and "
                "be removed themselves as duplicates: if that is intended, repeat the command with "
                "--yes"
            )
        if superseded and self._are_too_many(old, rows):
            better = counted(superseded, "stored row", "stored rows")
            raise UsageError(
                f"{old:,} of {rows:,} rows so far would be removed, since they duplicate rows "
                "stored under other keys or have stored keys themselves, while "
                f"{better} would be replaced by better ones: if that is intended, repeat the "
                "command with --yes"
            )

    def _are_too_many(self, removed: int, rows: int) -> bool:
        return not self.yes and rows >= _MANY and removed > _NEARLY_ALL * rows


def dedupe(
    *,
    inputs: Inputs,
    places: Places,
    bound: Bound,
    recall: Recall = None,
    measure: Annotated[
        Measure,
        typer.Option(
            "--measure",
            rich_help_panel=Bound.HEADING,
            help="containment removes rows that a larger row contains, wherever it is; both "
            "also removes similar rows. These two are exact.",
        ),
    ] = "jaccard",
    containment: Annotated[
        str | None,
        typer.Option(
            "--containment",
            rich_help_panel=Bound.HEADING,
            metavar="SHARE",
            help="With --measure both: the share of a row that another must contain (the "
            "threshold).",
        ),
    ] = None,
    reading: InputOptions,
    policy: InDoubt,
    described: KindOptions,
    choices: RuleChoices,
    telling: Working,
) -> None:
    """Copy rows without near duplicates.

    A row is removed if it is similar to a row that was kept before it, in the store or earlier in
    the input. The default threshold of texts and sets is 0.8. Kept rows are copied unchanged, byte
    for byte, and the outputs appear when they are complete. For text files and NumPy arrays the
    output is the list of kept keys. For a folder of shards it can be a folder, with one file per
    shard.

    With --store, rows are also compared with those of earlier runs, and repeating a command gives
    the same output. The store holds only the kept rows; --removed with --with-kept and --explain
    records why a row was removed. With --policy, the longest row or the best by its fields is kept
    instead of the first; rows without the field come last.

    --kind record without --settings proposes how to compare the columns and learns how much each
    counts. The rows are then read twice. Learning needs the extra 'statistics'; with --threshold
    nothing is learnt.

    Example: simdb dedupe posts.jsonl --id-field id --threshold 0.8 -o kept.jsonl
    """
    began = time.monotonic()
    places.require_store("collection", "sync", "on_existing", "other_keys")
    places.required(telling, reading.bad)  # before weights are learnt
    if _are_to_be_proposed(described, choices, places):
        described, bound, reading = _proposed(
            inputs, choices, places=places, bound=bound, reading=reading, telling=telling
        )
    elif described.kind == kinds.name_of(simdb.Record) and described.settings is None:
        reading = _keyed_as_before(places, reading)
    wanted = _Wanted(described, bound, recall, measure, containment)
    asked = _Asked(inputs, places, wanted, reading, policy)
    asked.require_sound(telling)
    with places.opened() as database, asked.spilled(database) as spilled:
        job = _Job(asked, database, spilled)
        with folders_made(job.folders()), asked.report_open() as page:
            with (
                job.outputs_open() as files,
                told_when_interrupted(job.left),
                telling.bar(job.feed.share) as bar,
            ):
                counts = job.run(files, bar)
            if page is not None:
                with told_when_interrupted(asked.left_without_report):
                    made = job.report(counts).encode()
                    with named_by(page.target):
                        page.write(made)
                        page.file.flush()
    counts["seconds"] = round(time.monotonic() - began, 3)
    _tell(telling, counts, job.feed)


def _tell(telling: Working, counts: dict[str, Any], feed: Feed) -> None:
    text = (
        "{read}: {kept:,} kept, {updates}{removed:,} removed ({removed_old:,} like stored rows, "
        "{removed_new:,} like rows of this input), {bad:,} bad; {least}{seconds:.1f} s"
    )
    read = counted(counts["rows"], "row", "rows")
    removed = counts["removed_old"] + counts["removed_new"]
    updates = f"{counts['updated']:,} updated, " if counts["updated"] else ""
    if counts.get("superseded"):
        replaced = counted(counts["superseded"], "stored row was", "stored rows were")
        text += f"; {replaced} replaced by a better one"
    for name in counts.get("lacking", ()):
        telling.note(
            f"--policy: no row has the field {name!r} (a policy calls the key itself 'key', and "
            "the item 'item')"
        )
    names = (name for name in ("threshold", "max_distance") if name in counts)
    least = "".join(f"{name.replace('_', ' ')} {counts[name]}; " for name in names)
    words = text.format(read=read, removed=removed, updates=updates, least=least, **counts)
    telling.tell({**counts, "bad_rows": feed.bad_rows}, words, lines=True)


def _least(target: simdb.Collection, bound: Bound) -> dict[str, str]:
    """Return the lowest similarity or largest distance of a removed row, if there is one."""
    set_by = {"threshold": target.threshold, "max_distance": target.max_distance}
    found = {**set_by, **bound.of(target.kind)}
    return {name: decimal(value) for name, value in found.items() if value is not None}


def _of_policy(report: AddReport) -> dict[str, Any]:
    """Return what a policy did: stored items it replaced, and fields that no row had."""
    return {"superseded": report.superseded, "lacking": [*report.lacking]}


def _are_to_be_proposed(described: KindOptions, choices: RuleChoices, places: Places) -> bool:
    """Whether rows are records without given settings."""
    stays = places.store is not None and is_there(places.store)
    if stays:
        with places.opened() as database:
            stays = places.collection in database
    if choices.are_given and (described.settings is not None or stays):
        said = f"the collection {places.collection!r}" if stays else "--settings"
        raise UsageError(
            f"{said} already says how records are compared: leave out --rule and --compare"
        )
    is_record = choices.are_given or described.kind == kinds.name_of(simdb.Record)
    if choices.are_given and described.kind not in (None, kinds.name_of(simdb.Record)):
        raise UsageError(
            f"--rule and --compare are only for records, not for --kind {described.kind}"
        )
    return is_record and described.settings is None and not stays


def _proposed(
    inputs: list[str],
    choices: RuleChoices,
    *,
    places: Places,
    bound: Bound,
    reading: InputOptions,
    telling: Working,
) -> tuple[KindOptions, Bound, InputOptions]:
    """Return the proposed settings of records as if they had been given."""
    require_again(*inputs, advice="give a file, or --settings")
    require_there(*inputs)
    given: Fraction | None = bound.of(ANY_RECORD).get("threshold")
    if given is None:
        extras.require("statistics", "learning weights needs", "scipy")
    side = looked_at(inputs, reading, keyed=False)
    if places.store is not None and side.count and (side.key or reading.make_keys) is None:
        raise without_lasting_keys("csv")  # before what takes long
    opened = replace(places, store=None).opened
    try:
        require_rows([side])
        kind, least = proposed_for_one(side, choices, given, opened, telling)
    except NothingAlikeError as error:
        # These would keep to such settings, but for choices of which no row asks.
        if places.store is not None and side.count and given is None:
            told = f"{error.problem}; {AS_THEY_ARE}, and --settings gives them"
            raise NothingAlikeError(told) from error
        if places.store is not None or (choices.are_given and side.count):
            raise
        (side,) = of_whole_rows([side], error)
        return KindOptions(kind=kinds.name_of(simdb.Set)), Bound(threshold="1"), side.reading
    settings = json.dumps({"kind": kinds.name_of(simdb.Record), **kind.describe()})
    return KindOptions(settings=settings), Bound(threshold=str(least)), side.reading


def _keyed_as_before(places: Places, reading: InputOptions) -> InputOptions:
    """Return how rows are read whose settings, and column of keys, an earlier run proposed."""
    if reading.id_field is not None or reading.make_keys is not None:
        return reading
    with places.opened() as database:
        return reading.keyed_as(database[places.collection])


def _named_in(order: str | None) -> tuple[str, ...]:
    """Return the fields of a row that a policy looks at, as it names them."""
    return () if order is None else Policy(order).fields or ()


def _fields_of(order: str | None) -> frozenset[str]:
    """Return the fields of a row that a policy looks at: of ``a.b`` the field a, too."""
    fields = _named_in(order)
    return frozenset(fields) | {name.partition(".")[0] for name in fields}


class _Wanted(Struct, frozen=True):
    """The settings that the user gave, for a new collection or to check an existing one."""

    described: KindOptions
    bound: Bound
    recall: str | None
    measure: Measure
    containment: str | None

    def __post_init__(self) -> None:
        if self.containment is not None and self.measure != "both":
            raise UsageError("--containment needs --measure both")
        if self.recall is not None and self.measure != "jaccard":
            raise UsageError(
                f"--recall is not for --measure {self.measure}, by which nothing is missed"
            )

    def _require_measure(self, kind: kinds.Kind) -> None:
        if self.measure != "jaccard" and not kind.has_symbols:
            raise UsageError(
                f"{kind.plural} are not compared by containment: leave out --measure {self.measure}"
            )

    @property
    def by(self) -> str:
        """What rows are removed by, if it is not their similarity alone."""
        return {"jaccard": "", "both": "similarity or containment"}.get(self.measure, self.measure)

    def how(self) -> dict[str, Any]:
        """Return how rows are compared."""
        share = self.containment
        if share is None:
            return {"measure": self.measure}
        return {"measure": self.measure, "containment": rational(share, name="containment")}

    def settings(self) -> dict[str, Any]:
        """Return the settings of a new collection; UsageError if one is wrong or missing."""
        kind = self.described.new()
        self._require_measure(kind)
        if kind.is_distance and not self.bound.given():
            raise UsageError(f"{kind.plural} compared by distance need --max-distance")
        recall = None if self.recall is None else rational(self.recall, name="recall")
        bound = self.bound.of(kind)
        # By containment no index finds anything.
        return {"kind": kind, "recall": recall, **(bound if self.measure == "jaccard" else {})}

    def present(self, database: simdb.Database, name: str) -> simdb.Collection | None:
        """Return the collection if it exists; ConfigurationError if its settings differ."""
        if name not in database:
            return None
        found = database[name]
        try:
            self._require_like(found)
        except ConfigurationError as error:
            if len(found):
                raise
            advice = "it is empty: 'simdb drop' removes it"
            raise ConfigurationError(f"{error.problem}; {advice}") from error
        return found

    def _require_like(self, found: simdb.Collection) -> None:
        """Raise ConfigurationError if the settings of a collection are not those wanted."""
        name = found.name
        self._require_measure(found.kind)
        others = contrast(found.kind, self.described.changed(found.kind))
        if others:
            raise ConfigurationError(f"the collection {name!r} has other settings: {others}")
        if self.recall is not None and rational(self.recall, name="recall") != found.recall:
            raise ConfigurationError(
                f"the collection {name!r} was created for a recall of {float(found.recall):g}"
            )


class _Asked(Struct, frozen=True):
    """What the user asked for."""

    inputs: list[str]
    places: Places
    wanted: _Wanted
    reading: InputOptions
    policy: InDoubt

    def require_sound(self, telling: Working) -> None:
        """Raise for errors that do not depend on the store, before anything is written."""
        if self.policy.order is not None:
            Policy(self.policy.order)
        output, *others = self.places.required(telling, self.reading.bad)
        self.places.require_apart_from_store([output, *others])
        require_there(*self.inputs)
        store = self.places.store
        if store is None or not is_there(store):
            kind = self.wanted.settings()["kind"]
            self.reading.sources(self.inputs, self.reading.of(kind))
        require_no_input([output, *others], self.inputs, self.reading.pattern)

    @property
    def waits(self) -> bool:
        """Whether no row is settled before the last one is read."""
        policy = self.policy
        by_similarity = self.wanted.measure == "jaccard"
        return not by_similarity or policy.order is not None or policy.on_existing == "replace"

    @contextlib.contextmanager
    def spilled(self, database: simdb.Database) -> Iterator[IO[bytes] | None]:
        """Open a file beside the store for the bytes of rows that wait, if they do."""
        if not self.waits:
            yield None
            return
        folder = database.path.parent
        lasting = folder if self.places.store is not None else folder.parent
        with temporary_in(folder, str(lasting)) as file:
            yield file

    def _outputs(self) -> tuple[str | None, ...]:
        return self.places.output, self.places.removed, self.reading.bad

    def files_beside(self) -> list[str]:
        """Return the outputs besides that of the kept rows; the last may be the report."""
        beside = (*self._outputs()[1:], self.places.report)
        return [name for name in beside if name is not None]

    @contextlib.contextmanager
    def report_open(self) -> Iterator[Output | None]:
        """Open the report, if one is asked for: if it fails, the other outputs stay."""
        with written_together(*filter(None, [self.places.report])) as files:
            yield files[0] if files else None

    def left_without_report(self) -> str:
        """Return what an interruption of the report leaves, in words."""
        return f"{left_alone(self.places.report or '')}; the other outputs are complete"


class _Job:
    """A run: its inputs, its outputs and the outcomes of its rows.

    Attributes:
        feed: the rows.
    """

    def __init__(self, asked: _Asked, database: simdb.Database, spilled: IO[bytes] | None) -> None:
        """Determine the inputs and outputs; nothing is written yet."""
        self._spilled = spilled
        self._asked = asked
        self._database = database
        reading, store = asked.reading, asked.places.store
        self._present = asked.wanted.present(database, asked.places.collection)
        kind = asked.wanted.described.new() if self._present is None else self._present.kind
        self._options = reading.of(kind, self._present)
        self._sources = reading.sources(asked.inputs, self._options)
        reading.require_key_field(self._sources, self._options)
        self._require_policy_sees()
        self._place_outputs(asked.places.output)
        self._stays = store is not None
        self._seen: Removed | None = None  # for a report
        if store is not None:
            Store(asked.places.context, store).about(asked.places.collection)
            if self._present is None or not len(self._present):
                reading.require_lasting_keys(kind, self._sources)
            reading.require_keys(self._present, kind, self._sources)
        elif len(self._sources) == 1:
            self._tell_of_text(*self._sources)
        self.feed = self._rows()

    def _require_policy_sees(self) -> None:
        """Raise if the policy looks at a field that rows do not keep, though they may have it."""
        options = self._options
        joins = options.kind.field_names is None and len(options.text_fields) > 1
        joined = options.text_fields if joins and options.whole_rows is None else ()
        kept = options.read_names() if options.columns and options.metadata_field is None else None
        for name in _named_in(self._asked.policy.order):
            if name in joined:
                raise UsageError(
                    f"--policy looks at {name!r}, which is joined with other fields to the item "
                    "and is no field of its own: longest, shortest and 'item' look at all of it"
                )
            if kept is not None and {name, name.partition(".")[0]}.isdisjoint({*kept, *OF_ROWS}):
                raise UsageError(
                    f"--columns leaves out {name!r}, which --policy looks at: name it, too"
                )

    def _tell_of_text(self, source: str) -> None:
        """Say of a single text that it is one: its lines may have been meant."""
        is_file = source != STANDARD_STREAM and not is_folder(source)
        if is_file and told_format(source, self._options) == "text":
            note(f"{source} is one text; --format lines reads each of its lines as one")

    def _place_outputs(self, output: str) -> None:
        """Determine the file for the kept rows of each input, and which of these are tables."""
        asked, sources = self._asked, self._sources
        targets = _targets(sources, output)
        self._is_one = targets == [output]
        if self._is_one:
            require_fitting_name(output, *_common_forms(sources, self._options))
        require_no_input(targets, sources, asked.reading.pattern)
        if not self._is_one and list(sources) != asked.inputs[:1]:
            _require_no_others(output, targets, asked.files_beside(), self._options)
        self._copied = {target for target in targets if promised_form(target) in TABLES}
        if self._copied == {output}:
            require_same_columns(list(sources), self._columns())
        self._targets = targets
        kept = targets if len(targets) == len(sources) else targets * len(sources)
        self._kept = dict(zip(sources, kept, strict=True))

    def _rows(self) -> Feed:
        """Return the rows of the inputs.

        Where the store does not stay, the place of a row is its key if line numbers of several
        inputs would be the same keys, and is noted under other keys.
        """
        reading, options, sources = self._asked.reading, self._options, self._sources
        made, order = reading.make_keys, self._asked.policy.order
        if not self._stays and len(sources) > 1 and (made or reading.id_field) is None:
            made = None if "numpy" in options.kind.formats else "place"
        # Where nothing is written but tables, rows are copied at the end.
        only_tables = len(self._targets) == len(self._copied) and not self._asked.files_beside()
        options = replace(
            options,
            made_keys=made,
            raw=not only_tables,
            metadata=self._stays or reading.metadata_field is not None or _fields_of(order),
            below=sources,
            all_fields=self._stays,
        )
        return Feed(
            sources,
            options,
            on_bad=reading.when_bad,
            keep_raw=True,
            spilled=self._spilled,
            in_one=self._is_one,
            keep_lines=not self._stays
            and order is None
            and self._asked.wanted.measure == "jaccard",
            stays=self._stays,
        )

    @contextlib.contextmanager
    def outputs_open(self) -> Iterator[dict[str, Output]]:
        """Open all outputs, by name; they appear together when the block ends without an error.

        The report is none of them: it comes after them.
        """
        names = [*self._targets, *self._asked.files_beside()]
        require_distinct(*names)
        names = names[: len(names) - (self._asked.places.report is not None)]
        with written_together(*names) as files:
            yield dict(zip(names, files, strict=True))

    def folders(self) -> list[str]:
        """Return the outputs whose folders are to be made."""
        return [] if self._is_one else self._targets

    def left(self) -> str:
        """Return what an interruption leaves, in words."""
        output, store = self._asked.places.output, self._asked.places.store
        text = left_alone(output) if output != "-" else "the output is not complete"
        if store is None:
            return text
        done = f"{self.feed.done:,} rows of the input are done, in {store}"
        if self._asked.waits:
            done = f"some rows may be in {store}"
        same = "keeps the same rows" if self._asked.policy.order else "gives the same output"
        return f"{text}; {done}, and the same command {same}"

    def run(self, files: Mapping[str, Output], bar: ProgressBar) -> dict[str, Any]:
        """Divide the rows into the files, and return the counts."""
        feed, bound = self.feed, self._asked.wanted.bound
        feed.target = target = self._collection()
        feed.bad_file = files.get(self._asked.reading.bad or "")
        wanted = self._asked.wanted
        own = {} if wanted.by else bound.of(target.kind)
        removed = _Removed.to(files, self._asked.places, target, own, wanted.by)
        outputs = {source: files[output] for source, output in self._kept.items()}
        with self._tables(files) as tables:
            feed.on_opening = tables.begin
            splitting = _Splitting(feed, outputs, removed, tables)
            return self._divided(target, splitting, bar)

    def _columns(self) -> AbstractSet[str] | None:
        """Return the columns that tables are copied with, None for all."""
        return None if self._options.columns is None else self._options.read_names()

    def _tables(self, files: Mapping[str, Output]) -> _Tables:
        """Return the outputs that are tables."""
        asked = self._asked
        settings = settings_of(asked.places.context)
        return _Tables(
            {source: files[name] for source, name in self._kept.items() if name in self._copied},
            self._columns(),
            partitions_together(self._sources) if self._is_one else {},
            settings.memory // _SHARE_OF_MEMORY,
            settings.threads or len(os.sched_getaffinity(0)),
            at_once=not asked.waits,
        )

    def _divided(
        self,
        target: simdb.Collection,
        splitting: _Splitting,
        bar: ProgressBar,
    ) -> dict[str, Any]:
        policy, wanted = self._asked.policy, self._asked.wanted
        feed, reading, bound = self.feed, self._asked.reading, self._asked.wanted.bound
        if self._asked.places.report is not None:
            from simdb.reports import Removed  # with all that makes pages

            self._seen = splitting.seen = Removed(target.kind.is_distance, by=wanted.by)
        try:
            report = target.dedupe(
                feed,
                on_bad=reading.when_bad,
                on_existing=policy.on_existing,
                policy=self._order(),
                **wanted.how(),
                progress=bar.callback,
                outcomes=splitting.settle,
                lost=policy.require_few_lost,
                **bound.of(target.kind),
            )
        except UsageError as error:
            raise feed.placed(error) from error
        counts: dict[str, Any] = feed.counted(
            report,
            kept=splitting.kept - report.replaced,
            updated=report.replaced,
            removed_old=report.duplicates_old,
            removed_new=report.duplicates_new,
            **({} if policy.order is None else _of_policy(report)),
        )
        counts.update(_least(target, bound))
        if counts["bad"] == counts["rows"] > 0 and self._asked.reading.bad is None:
            raise UsageError("every row is bad: no output is written")
        policy.require_few_removed(counts["rows"], splitting.like_others, splitting.of_own_keys)
        splitting.finish()
        return counts

    def _order(self) -> Policy | None:
        """Return the policy, which compares by value what is no text in tables.

        The fields of the key and of the item, which rows do not keep as metadata, are these.
        """
        if self._asked.policy.order is None:
            return None
        options = self._options
        is_one = len(options.text_fields) == 1 and options.kind.field_names is None
        item = options.text_fields[0] if is_one else None
        order = Policy(self._asked.policy.order).naming(key=options.id_field, item=item)
        read: dict[str, Function] = {}
        for source in self._sources:
            if not FORMATS[told_format(source, self._options)].is_table:
                continue
            with open_rows(source, self._options) as reader:
                schema = reader.schema() if isinstance(reader, TableReader) else None
            if schema is not None:
                read |= read_by_policy(schema, order.fields or ())
        return order.reading(read)

    def report(self, counts: Mapping[str, int]) -> str:
        """Return the page about a run that has ended."""
        target, seen = self.feed.target, self._seen
        assert target is not None
        assert seen is not None
        names = {
            "rows": "rows",
            "kept": "kept",
            "removed_old": "removed, like stored rows",
            "removed_new": "removed, like rows of the input",
            "bad": "bad",
        }
        seen.counts = {words: counts[name] for name, words in names.items()}
        named = ", ".join(Path(name).name for name in self._asked.inputs[:3])
        sample = min(_MOST_SAMPLED, max(_LEAST_SAMPLED, counts["rows"] // _ROWS_A_SAMPLE))
        return simdb.report(
            target,
            sample=sample,
            title=f"Near duplicates of {named}",
            command=as_given(),
            removed=seen,
        )

    def _collection(self) -> simdb.Collection:
        """Return the collection; create it if it does not exist."""
        if self._present is not None:
            return self._present
        asked, settings = self._asked, self._asked.wanted.settings()
        # The same file gives the same output only under the same hash functions.
        seed = None if self._stays else content_seed(asked.inputs, asked.reading.pattern)
        name = asked.places.collection
        try:
            made = self._database.create_collection(name, **settings, seed=seed)
        except ConfigurationError:
            found = asked.wanted.present(self._database, name)  # another process was first
            if found is None:
                raise
            made = found
        if self._stays:
            asked.reading.require_keys(made, made.kind, self._sources)
        return made


def _is_for_shards(output: str) -> bool:
    """Whether an output is a folder, there or to be made."""
    return output.endswith("/") or Path(output).is_dir()


def _targets(sources: Mapping[str, str], output: str) -> list[str]:
    """Return the output; if it is a folder, one output for each file of the inputs."""
    if not _is_for_shards(output):
        return [output]
    for source in sources:
        if source == STANDARD_STREAM or is_folder(source) or database_of(source) is not None:
            raise UsageError(
                f"the output {output} is a folder, and {source} has no file name to use in it: "
                "name a file"
            )
    if len(sources) > _MOST_SHARDS:
        raise UsageError(
            f"there are {len(sources):,} shards, and a folder takes at most {_MOST_SHARDS}: "
            "name a file for the output"
        )
    targets = [str(Path(output, place)) for place in sources.values()]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise UsageError(f"two inputs would both go to {twice}: name a file for the output")
    return targets


def _require_no_others(
    folder: str, shards: Sequence[str], beside: Sequence[str], options: ReadingOptions
) -> None:
    """Raise if a folder for shards has files that would be read with them, as of an earlier run."""
    formats = {format_of_name(name, options) for name in shards} - {None}
    replaced = set(map(os.path.realpath, [*shards, *beside]))
    for relative in iter_files(Path(folder)) if is_folder(folder) else ():
        name = str(Path(folder, relative))
        if format_of_name(name, options) in formats and os.path.realpath(name) not in replaced:
            raise UsageError(
                f"{name} is in the output folder, would stay there, and would be read as one of "
                "its shards: name an empty folder for the output, or delete the file"
            )


def _common_forms(sources: Mapping[str, str], options: ReadingOptions) -> list[str]:
    """Return the formats in which the rows of all inputs can be written to one file."""
    forms = [written_forms(source, options) for source in sources] or [("jsonl",)]
    common = [form for form in forms[0] if all(form in others for others in forms)]
    if not common:
        told = " and ".join(sorted({names[0] for names in forms}))
        raise UsageError(f"inputs of {told} cannot share an output: give inputs of one format")
    return common


class _Removed(Struct, frozen=True):
    """The output of removed rows, with what is written about the rows that they duplicate."""

    file: Output
    places: Places
    target: simdb.Collection
    bound: Mapping[str, Any]
    by: str
    is_distance: bool

    @classmethod
    def to(
        cls,
        files: Mapping[str, Output],
        places: Places,
        target: simdb.Collection,
        bound: Mapping[str, Any],
        by: str,
    ) -> _Removed | None:
        """Return it if removed rows are written."""
        file = files.get(places.removed or "")
        if file is None:
            return None
        return cls(file, places, target, bound, by, target.kind.is_distance)

    def of_kept(self, outcome: Outcome, item: Any) -> dict[str, Any]:
        """Return what is written beside the row; ``item`` is None if it is not available."""
        told: dict[str, Any] = {}
        kept = outcome.duplicate_of
        if kept is None:
            return told
        with contextlib.suppress(KeyNotFoundError):  # a better row has taken its place since
            if self.places.with_kept:
                told["kept"] = self.target.kind.plain_item(self.target.get(kept).item)
            if self.places.explain and item is not None:
                reasons = self.target.explain_match(item, kept, **self.bound)
                told["evidence"] = reasons.to_dict(FACETS_TOLD)
                if self.by:  # something else than how similar they are decided
                    del told["evidence"]["similar"]
        return told


class _Tables:
    """Outputs of kept rows that are tables; the rows are copied, with all columns.

    Rows of Parquet are written as soon as they are known to be kept, if there are not too many
    bytes of each to wait for that in memory; all others at the end, when the files are read again.

    Args:
        outputs: of each input that is copied; of several inputs it may be the same.
        columns: those that are written; None for all.
        folders: of inputs, columns that their folders say, which are written too.
        most_bytes: of a row group, about.
        threads: with several, row groups are written while rows are decided about.
        at_once: whether a row that is settled as kept stays so.
    """

    def __init__(
        self,
        outputs: Mapping[str, Output],
        columns: AbstractSet[str] | None,
        folders: Mapping[str, Mapping[str, str | None]],
        most_bytes: int,
        threads: int,
        *,
        at_once: bool,
    ) -> None:
        self._outputs = outputs
        self._threads = threads
        self._columns = columns
        self._folders = folders
        self._most_bytes = min(most_bytes, MOST_BYTES)
        self._outgrown: dict[str, frozenset[str]] = {}
        for source, output in outputs.items():
            self._copied(source).require_possible(as_parquet=_form_of(output)["as_parquet"])
        self._at_once = at_once and all(map(self._may_wait, outputs))
        for output in set(outputs.values()) if self._at_once else ():
            together = [source for source, where in outputs.items() if where is output]
            if _form_of(output)["as_parquet"]:
                outgrown = outgrown_dictionaries(together, columns)
                self._outgrown.update(dict.fromkeys(together, outgrown))
        self._versions = {source: version_of(source) for source in outputs}
        self._places = {source: Spans() for source in outputs}
        self._waiting: dict[str, CopiedRows] = {}
        self._writing: tuple[Output, GroupWriter] | None = None
        self._opened = contextlib.ExitStack()

    def __contains__(self, source: str) -> bool:
        return source in self._outputs

    def _copied(self, source: str) -> CopiedRows:
        outgrown = self._outgrown.get(source, frozenset())
        return CopiedRows(source, self._folders.get(source, {}), self._columns, outgrown)

    def _may_wait(self, source: str) -> bool:
        copied, output = self._copied(source), self._outputs[source]
        if copied.of_dictionaries and not _form_of(output)["as_parquet"]:  # to become one first
            return False
        size = copied.row_bytes
        return size is not None and size * BATCH_ROWS * _BATCHES_WAITING <= self._most_bytes

    def begin(self, reader: RowReader) -> None:
        """Tell a reader what is written; it also passes its rows to the copy if that is at once."""
        if reader.source in self and isinstance(reader, TableReader):
            copied = self._copied(reader.source)
            reader.written = frozenset(copied.names)
            if self._at_once:
                reader.copied = self._waiting[reader.source] = copied

    def settle(self, source: str, lines: Int64s, kept: Bools) -> None:
        """Note which of some successive rows of an input are kept."""
        if not self._at_once:
            self._places[source].extend(lines[kept])
            return
        for earlier in list(self._waiting):
            if earlier == source:
                break
            del self._waiting[earlier]
        writer, copied = self._writer(source), self._waiting[source]
        for rows in copied.kept(lines[kept] - 1, int(lines[-1])):
            writer.write(rows)

    def _writer(self, source: str) -> GroupWriter:
        output = self._outputs[source]
        if self._writing is None or self._writing[0] is not output:
            self._opened.close()
            together = [one for one, where in self._outputs.items() if where is output]
            writer = self._copied(together[0]).writer(
                output.file,
                most_bytes=self._most_bytes,
                threads=self._threads,
                **_form_of(output),
            )
            self._writing = output, self._opened.enter_context(writer)
            for other in together:
                self._places.pop(other)
        return self._writing[1]

    def finish(self) -> None:
        """Write the remaining rows; the outputs are then complete."""
        self._waiting.clear()
        self._opened.close()
        tables: dict[Output, dict[str, Spans]] = {}
        for source, places in self._places.items():
            tables.setdefault(self._outputs[source], {})[source] = places
        for output, rows in tables.items():
            copy_rows(
                rows,
                output.file,
                folders=self._folders,
                columns=self._columns,
                most_bytes=self._most_bytes,
                threads=self._threads,
                **_form_of(output),
            )
        for source, version in self._versions.items():
            if version_of(source) != version:
                raise UsageError(f"{source} changed while it was read: no output was written")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._opened.__exit__(*raised)


def _form_of(output: Output) -> dict[str, bool]:
    """Return the table format of an output, as arguments of ``copy_rows``."""
    return {
        "as_parquet": promised_form(output.target) == "parquet",
        "may_stream": not output.target.lower().endswith(".feather"),
    }


def _is_empty(preamble: bytes) -> bool:
    return preamble in (b"", BYTE_ORDER_MARK)


class _Copies:
    """Rows in an output as they came, with what stood before them.

    Elements of a JSON array are one in a file called ``.json``, and lines in any other.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._has_begun = False
        self._is_array = False
        self._between = b""  # what the last row lacks, so that another can follow it

    def begin(self, preamble: bytes, *, is_array: bool) -> None:
        """Write what stands before the rows, unless that was done."""
        if not self._has_begun:
            self._has_begun = True
            self._is_array = is_array and plain_name(self._output.target).lower().endswith(".json")
            self._output.write(b"[\n" if self._is_array else preamble)

    def write(self, reader: RowReader, raws: Iterable[bytes]) -> None:
        """Write rows of an input."""
        for raw in raws:
            self.begin(reader.preamble, is_array=reader.is_array)
            if self._between:
                self._output.write(self._between)
            if self._is_array:
                self._output.write(raw.strip())
                self._between = b",\n"
            else:
                self._output.write(raw)
                self._between = b"" if raw.endswith(reader.line_ends) else b"\n"

    def finish(self) -> None:
        """Write what stands after the rows."""
        if self._is_array:
            self._output.write(b"\n]\n" if self._between else b"]\n")


class _Splitting:
    """Divides the rows of the input into kept and removed ones when their outcomes are known.

    Args:
        feed: the rows.
        kept: the output of each input; of several inputs it may be the same.
        removed: the output of removed rows.
        tables: those of the outputs of kept rows that are tables.

    Attributes:
        kept: how many rows were kept so far.
        like_others: how many were removed as like rows that are stored under other keys.
        of_own_keys: how many were removed since their keys are stored.
        seen: the removed rows for a report, if one is asked for.
    """

    def __init__(
        self,
        feed: Feed,
        kept: Mapping[str, Output],
        removed: _Removed | None,
        tables: _Tables,
    ) -> None:
        self.kept = 0
        self.like_others = 0
        self.of_own_keys = 0
        self.seen: Removed | None = None
        self._feed = feed
        self._kept = kept
        self._removed = removed
        self._tables = tables
        self._written = {output: _Copies(output) for output in kept.values()}

    def settle(self, outcomes: Outcomes) -> None:
        """Write the rows of a commit."""
        for rows, told in self._feed.settled(outcomes):
            kept = np.ones(len(rows), np.bool_)
            for place, outcome in told.items():
                kept[place] = outcome.action not in ("duplicate", "bad")
                if outcome.action == "duplicate":
                    is_of_own_key = outcome.duplicate_of == outcome.key
                    self.of_own_keys += is_of_own_key and not outcome.within_input
                    self.like_others += not (outcome.within_input or is_of_own_key)
                    self._write_removed(outcome, rows, place)
                    self._note_removed(outcome, rows, place)
                self._write_superseded(outcome)
            self.kept += int(kept.sum())
            source = rows.reader.source
            if source in self._tables:
                self._tables.settle(source, np.array(rows.lines, np.int64), kept)
            else:
                self._written[self._kept[source]].write(rows.reader, compress(rows.raws, kept))

    def _write_removed(self, outcome: Outcome, rows: Waiting, place: int) -> None:
        if self._removed is not None:
            raw = rows.raw(place)
            source = {"input": rows.reader.source} if self._feed.is_of_several else {}
            row = rows.reader.fields(raw)
            is_distance = self._removed.is_distance
            told = duplicate_fields(outcome, rows.lines[place], is_distance=is_distance)
            of_kept = self._removed.of_kept(outcome, rows.reader.item_in(raw))
            self._removed.file.write(json_line({**source, **told, **of_kept, "row": row}))

    def _note_removed(self, outcome: Outcome, rows: Waiting, place: int) -> None:
        if self.seen is not None and outcome.duplicate_of is not None:
            value = outcome.similarity if outcome.distance is None else outcome.distance
            item = partial(rows.reader.item_in, rows.raw(place))
            self.seen.note(outcome.key, outcome.duplicate_of, value, item)

    def _write_superseded(self, outcome: Outcome) -> None:
        if self._removed is not None:
            for key in outcome.superseded:
                self._removed.file.write(json_line({"id": key, "superseded_by": outcome.key}))

    def finish(self) -> None:
        """Write what even an output without rows contains."""
        written = {
            source: self._written[output]
            for source, output in self._kept.items()
            if source not in self._tables
        }
        begun = [
            (self._feed.preambles.get(source, b""), copies, source in self._feed.arrays)
            for source, copies in written.items()
        ]
        # An empty file may come before one with a header, or before an array.
        begun.sort(key=lambda one: _is_empty(one[0]) and not one[2])
        for preamble, copies, is_array in begun:
            copies.begin(preamble, is_array=is_array)
        for copies in set(written.values()):
            copies.finish()
        self._tables.finish()

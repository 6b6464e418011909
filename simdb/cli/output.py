"""Output for people and for programs.

Programs get JSON on standard output and nothing else there. People get tables and lines; what
comes from a store is shown with its control characters escaped, and progress goes to standard
error when that is a terminal. ``NO_COLOR`` is honoured by rich.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

import typer
from msgspec import Struct

from simdb import starting
from simdb.cli.failures import left_alone, say, told_when_interrupted
from simdb.cli.stores import settings_of
from simdb.cli.tables import drawn
from simdb.errors import UsageError
from simdb.files.compression import STANDARD_STREAM
from simdb.files.writing import (
    TABLES,
    json_line,
    printable,
    promised_form,
    require_distinct,
    require_fitting_name,
    require_folders,
    written_together,
)
from simdb.results import Groups, Match, Matches, Pair, Pairs, Progress, leaves_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from simdb.evidence import PairExplanation
    from simdb.kinds import Kind

T = TypeVar("T")
REASONS_SHOWN = 3  # facets that differ, for people
FACETS_TOLD = 20  # the same, for programs
_BETWEEN = 2.0  # seconds between two lines that tell how far work is

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _quiet(context: typer.Context, given: bool) -> bool:
    is_quiet = given or settings_of(context).quiet
    if is_quiet:
        starting.before_compiling.clear()
    return is_quiet


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_quiet, help="Print no progress and no summary.")
]


class Telling(Struct, frozen=True):
    """How a command reports what it did."""

    HEADING: ClassVar[str] = "Output"

    as_json: AsJson = False
    quiet: Quiet = False

    def tell(self, fields: Mapping[str, Any], text: str, *, lines: bool = False) -> None:
        """Report the result: as JSON on one line or several, or as a note for people."""
        if not self.as_json:
            self.note(text)
        elif lines:
            print_json(fields)
        else:
            print_json_line(fields)

    def note(self, text: str) -> None:
        """Print a summary on standard error, if it is wanted."""
        if not self.quiet:
            note(text)

    def require_files(self, *outputs: str | None, made: str | None = None) -> list[str]:
        """Return the named outputs, each another; with --json none may be standard output.

        Their folders are there, but for one that the command makes, if it is given as an output.
        """
        named = [name for name in outputs if name is not None]
        if "" in named:  # which would be the present folder
            raise UsageError("the name of an output is empty")
        if self.as_json and STANDARD_STREAM in named:
            raise UsageError("--json and an output cannot both go to standard output")
        require_distinct(*named)
        require_folders(*[name for name in named if made is None or not _is_made(name, made)])
        return named


def _is_made(name: str, folder: str) -> bool:
    """Whether an output is a folder that is made, or a file in it."""
    place, made = (Path(os.path.realpath(one)) for one in (name, folder))
    return made in (place, place.parent)


class Working(Telling, frozen=True):
    """How a command that may take long reports what it does."""

    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Show progress on standard error: a bar in a terminal, otherwise lines (JSON "
            "with --json).",
        ),
    ] = None

    def bar(self, share: Callable[[], float | None] | None = None) -> ProgressBar:
        """Return the progress of a long call, shown if that is wanted; see ``ProgressBar``."""
        if self.quiet and self.progress:
            raise UsageError("--quiet and --progress contradict each other")
        wanted = not self._fills_terminal() if self.progress is None else self.progress
        if self.quiet or not wanted:
            return ProgressBar(share, None)
        if self.progress and (self.as_json or not sys.stderr.isatty()):
            return ProgressBar(share, "json" if self.as_json else "lines")
        return ProgressBar(share)

    def _fills_terminal(self) -> bool:
        """Whether the answer itself goes to the terminal, where a bar would be in its way."""
        return False


class Answering(Working, frozen=True):
    """How a command prints an answer, or writes it to a file."""

    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file: Parquet or Arrow (extra 'arrow'), or JSON lines, by its "
            "name, also .gz or .zst.",
        ),
    ] = None

    def __post_init__(self) -> None:
        for name in self.require_files(self.output):
            require_fitting_name(name, "jsonl", *TABLES)

    def require_lines(self) -> None:
        """Raise UsageError if the answer goes to a table, which has no column for reasons."""
        if self.output is not None and promised_form(self.output) in TABLES:
            raise UsageError("--explain writes lines: --output must be .jsonl, not a table")

    def _fills_terminal(self) -> bool:
        return self.output in (None, STANDARD_STREAM) and sys.stdout.isatty()

    def write(
        self,
        rows: Iterable[Mapping[str, Any]],
        table: Callable[[], Any],
        line: Callable[[Mapping[str, Any]], bytes] = json_line,
        *,
        told: Callable[[int], None] | None = None,
        beside: Mapping[str, bytes] = MappingProxyType({}),
    ) -> int | None:
        """Write an answer to its file; return the number of rows, or None without a file.

        Args:
            rows: as lines of JSON have them.
            table: makes the Arrow reader of the rows.
            line: makes a line of a row.
            told: called with the number of rows of a table that are written so far.
            beside: the content of other files, which appear together with that of the answer.
        """
        if self.output is None:
            return None
        with (
            told_when_interrupted(partial(left_alone, self.output)),
            written_together(self.output, *beside) as (file, *others),
        ):
            for other in others:
                other.write(beside[other.target])
            form = promised_form(self.output)
            if form in TABLES:
                from simdb.files.tables import write_table  # only for what is a table

                return write_table(table(), file.file, as_parquet=form == "parquet", told=told)
            count = 0
            for row in rows:
                file.write(line(row))
                count += 1
            return count

    def told(self, rows: int, text: str, **others: Any) -> None:
        """Report what was written, or the summary of a printed answer."""
        if self.output is None or not self.as_json:
            self.note(text)
        else:
            print_json_line({**others, "output": self.output, "rows": rows})


def counted(number: int, one: str, many: str) -> str:
    """Return a number with the singular or plural of what it counts."""
    return f"{number:,} {one if number == 1 else many}"


def excerpt(text: str, longest: int = 70) -> str:
    """Return the beginning of a text on one line."""
    # A text may be huge; its beginning is enough to find that many characters in.
    words = " ".join(text[: longest * 8].split())
    return printable(words if len(words) <= longest else words[: longest - 1] + "…")


def shown_key(key: object) -> str:
    """Return a key as people see it; a number looks like its text."""
    return printable(str(key))


def promise(answer: Matches | Pairs | Groups, kind: Kind, *, of_join: bool = False) -> str:
    """Return in words what an answer may miss."""
    if answer.guarantee == "exact":
        return "none is missing"
    if answer.guarantee == "estimate":
        return (
            f"similarities are estimates; expected recall of estimates {answer.expected_recall:.4f}"
        )
    if isnan(answer.expected_recall):
        # An audit samples one collection: it says nothing about two.
        if of_join:
            return "some may be missing: --exact on a sample of one side shows how many"
        return "some may be missing: simdb audit measures how many"
    expected = f"{answer.expected_recall:.4f}"
    if kind.is_distance:
        return f"expected recall {expected} at the largest distance, higher below it"
    return f"expected recall {expected} at the threshold, higher above it"


def promised(answer: Matches | Pairs | Groups) -> dict[str, Any]:
    """Return the guarantee of an answer, for programs."""
    return {"guarantee": answer.guarantee, "expected_recall": _unless_nan(answer.expected_recall)}


def measured(found: Match | Pair) -> dict[str, float]:
    """Return the similarity, or the distance, of what was found, and whether it is estimated."""
    told = {"similarity" if found.distance is None else "distance": found.value}
    return {**told, "estimated": True} if found.estimated else told


def console(*, stderr: bool = False) -> Console:
    """Return a console that interprets nothing in what it prints."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Into a pipe or a file goes the whole line, not what fits some terminal.
    width = None if stream.isatty() else 500
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def print_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table for people.

    Columns whose name ends in a blank are aligned to the right; without names there is no head.
    """
    known = [[*row] for row in rows]
    simple = drawn(columns, known, sys.stdout)
    if simple is not None:
        print(simple)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=bool(columns))
    for column in columns:
        side: Literal["left", "right"] = "right" if column.endswith(" ") else "left"
        table.add_column(Text(column.strip()), justify=side, overflow="fold")
    for row in known:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def note(text: str) -> None:
    """Print one line on standard error."""
    say(f"{printable(text)}\n")


def note_json(fields: Mapping[str, Any]) -> None:
    """Print one object as a JSON line on standard error."""
    say(json_line(fields).decode())


def print_reasons(told: PairExplanation) -> None:
    """Print why a pair is similar, below it."""
    for line in told.lines(REASONS_SHOWN):
        print(f"    {printable(line)}")


def print_json_line(fields: Mapping[str, Any]) -> None:
    """Print one object as one line of JSON."""
    sys.stdout.buffer.write(json_line(fields))


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one object as indented JSON."""
    known = with_leaves(fields, _unless_nan)
    text = json.dumps(known, indent=2, allow_nan=False, default=str)
    sys.stdout.buffer.write(text.encode("ascii") + b"\n")


def _unless_nan(value: Any) -> Any:
    """Return a value, with None for NaN."""
    return None if isinstance(value, float) and isnan(value) else value


def with_leaves(value: Any, changed: Callable[[Any], Any]) -> Any:
    """Return nested mappings and lists in which every other value is changed."""
    if isinstance(value, Mapping):
        return {name: with_leaves(part, changed) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [with_leaves(part, changed) for part in value]
    return changed(value)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print a nested mapping for people, one value per line; see ``leaves_of``."""
    leaves = leaves_of(fields)
    print_table((), ((printable(path), _shown(value)) for path, value in leaves))


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "not known" if isinstance(value, float) and isnan(value) else printable(str(value))


class ProgressBar:
    """The progress of a long call, which takes it as ``progress=``.

    Args:
        share: tells what part of the work is done, from 0 to 1, where the call itself cannot know
            (of an input, by its bytes); None where that is unknown too.
        form: a bar with rate and time left, of which nothing is shown where standard error is no
            terminal; or lines, of words or of JSON: one at the first news, one every few seconds,
            one at the end. None shows nothing.

    ``callback`` is None where nothing is shown.
    """

    def __init__(
        self,
        share: Callable[[], float | None] | None = None,
        form: Literal["bar", "lines", "json"] | None = "bar",
    ) -> None:
        self._share = share
        self._form = None if form == "bar" and not sys.stderr.isatty() else form
        self._bar: RichProgress | None = None
        self._began = self._told = 0.0

    @property
    def callback(self) -> Callable[[Progress], None] | None:
        """The argument for the long call."""
        return self._update if self._form is not None else None

    def advance(self, task: str, done: int, total: int | None = None) -> None:
        """Show the progress of work that is not a single call."""
        self._update(Progress(task, done, total))

    def each(self, task: str, found: Iterable[T]) -> Iterator[T]:
        """Yield the results, and show their number."""
        for count, one in enumerate(found):
            if count % 1_000 == 0:
                self.advance(task, count)
            yield one

    def _update(self, progress: Progress) -> None:
        if self._bar is not None:
            self._move(self._bar, progress)
        elif self._form is not None and (not self._told or self._since(self._told) >= _BETWEEN):
            self._told = time.monotonic()
            self._tell(progress)

    def _part(self, progress: Progress) -> float | None:
        """Return the share of the work that is done; None if it is unknown."""
        if progress.total:
            return progress.done / progress.total
        return self._share() if self._share is not None else None

    def _move(self, bar: RichProgress, progress: Progress) -> None:
        (task,), name = bar.tasks, printable(progress.task)
        if task.description not in ("", name):
            bar.reset(task.id, total=None)
        passed = task.elapsed or 0.0
        rate = f", {progress.done / passed:,.0f}/s" if passed > 0.5 else ""
        part = self._part(progress)
        total: float | None = progress.total
        completed: float = progress.done
        if total is None and part is not None:
            total, completed = 1.0, part
        count = f"{progress.done:,}{rate}"
        bar.update(task.id, description=name, total=total, completed=completed, count=count)

    def _tell(self, progress: Progress) -> None:
        part, seconds = self._part(progress), self._since(self._began)
        if self._form == "json":
            told = {"task": progress.task, "done": progress.done, "total": progress.total}
            note_json({**told, "share": part, "seconds": round(seconds, 3)})
        else:
            of_all = "" if part is None else f", {part:.0%}"
            note(f"{progress.task}: {progress.done:,}{of_all}; {seconds:.1f} s")

    def _since(self, moment: float) -> float:
        return time.monotonic() - moment

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self._form == "bar":
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[count]}", markup=False),
                TimeRemainingColumn(),
                console=console(stderr=True),
                transient=True,
            )
            self._bar.add_task("", total=None, count="")
            self._bar.start()
        return self

    def __exit__(self, kind: object, *_raised: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif kind is None and self._form is not None:
            seconds = round(self._since(self._began), 3)
            if self._form == "json":
                note_json({"task": "done", "share": 1.0, "seconds": seconds})
            else:
                note(f"done in {seconds:.1f} s")

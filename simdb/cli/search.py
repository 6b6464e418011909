"""The command that prints the stored items that are similar to a given one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import typer
from msgspec import Struct
from msgspec.structs import replace

import simdb
from simdb import arrow
from simdb.cli import differences
from simdb.cli.feed import Waiting, noted
from simdb.cli.inputs import InputOptions, UnstoredInputs, require_no_input, set_from
from simdb.cli.options import Explain, IntegerKeys, Question, Where, key_from, tell_unmet
from simdb.cli.output import (
    FACETS_TOLD,
    Answering,
    counted,
    excerpt,
    measured,
    print_json_line,
    print_reasons,
    print_table,
    promise,
    promised,
    shown_key,
)
from simdb.cli.stores import StoredCollection
from simdb.collection import entries_of
from simdb.errors import BadItemError, UsageError
from simdb.evidence import PairExplanation
from simdb.files import open_rows
from simdb.files.jsonl import item_of_json
from simdb.files.rows import ReadingOptions, Row, RowReader
from simdb.kinds import Kind
from simdb.metadata import expressible
from simdb.results import Key

# A match, the key of what was searched for where there are several, and why it is one if asked.
_Found: TypeAlias = tuple[Key | None, simdb.Match, PairExplanation | None]

_AT_ONCE = 1_000  # matches in a table; more come in several
# Of a portion of probes that are searched for together: how many at most, and what it may take and
# find if the next is to have more. What it holds, and what Ctrl-C in it loses, remains little.
_PROBES, _SECONDS, _MATCHES = 1_000, 1.0, 100_000


class Probe(NamedTuple):
    """An item to search for; of several rows its key, and of an input the row itself."""

    key: Key | None
    item: Any
    row: Waiting | None = None


class Given(Struct, frozen=True):
    """What to search for: one of these, or a key."""

    HEADING: ClassVar[str] = "What to search for"

    text: Annotated[str | None, typer.Option("--text", help="Search for a text.")] = None
    spelled: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="ELEMENTS",
            help="Search for a set or bag, such as '1 2 3' or 'milk bread'.",
        ),
    ] = None
    item: Annotated[
        str | None,
        typer.Option(
            "--item", metavar="JSON", help="Search for an item of any kind, written as JSON."
        ),
    ] = None
    file: Annotated[
        str | None,
        typer.Option(
            "--input",
            "--file",
            metavar="INPUT",
            help="Search for every row of a file, a folder or a pattern; - for standard input.",
        ),
    ] = None

    key: Annotated[
        str | None,
        typer.Option("--key", help="Search for a stored item, which is not its own match."),
    ] = None

    def __post_init__(self) -> None:
        ways = (self.text, self.spelled, self.item, self.file, self.key)
        if sum(way is not None for way in ways) != 1:
            raise UsageError(
                "say what to search for, with exactly one of --text, --set, --item, --input "
                "and --key"
            )

    def require_used(self, reading: InputOptions) -> None:
        """Raise UsageError if an option of reading does nothing where there is no input."""
        if self.file is not None:
            return
        of_files = (reading.text_field, reading.id_field, reading.format_name)
        if any((*of_files, reading.delimiter, reading.encoding)):
            raise UsageError(
                "--text-field, --id-field, --format, --delimiter and --encoding need --input"
            )
        if reading.integer_keys and self.key is None:
            raise UsageError("--integer-keys needs --key or --input")
        if reading.separator is not None and self.spelled is None:
            raise UsageError("--separator needs --set or --input")
        if reading.elements is not None and self.spelled is None and self.item is None:
            raise UsageError("--elements needs --set, --item or --input")

    def probes(self, source: simdb.CollectionView, reading: InputOptions) -> Iterator[Probe]:
        """Yield what to search for, as items of the collection's kind."""
        kind = source.kind
        if self.key is not None:
            own = key_from(self.key, integer_keys=reading.integer_keys)
            yield Probe(None, source.get(own).item)
            return
        options = reading.of(kind, source)
        if self.file is not None:
            yield from _rows_of(self.file, options, reading)
        elif self.item is not None:
            yield Probe(None, item_of_json(self.item, options, "--item"))
        elif self.text is not None and kind.probe_option == "--text":
            yield Probe(None, kind.item_of_text(self.text))
        elif self.spelled is not None and kind.of_elements:
            yield Probe(None, set_from(self.spelled, options))
        else:
            spelled = " as JSON" if kind.probe_option == "--item" else ""
            raise UsageError(
                f"the collection holds {kind.plural}: search with {kind.probe_option}{spelled}"
            )


class ProbeOptions(UnstoredInputs, frozen=True):
    """How --input is read."""

    pattern: str | None = None
    integer_keys: IntegerKeys = False


def search(
    *,
    stored: StoredCollection,
    given: Given,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="K", help="Print only the K most similar.")
    ] = None,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            rich_help_panel=Question.HEADING,
            metavar="jaccard|dice|cosine|stored-in-probe|probe-in-stored|overlap",
            help="The measure of similarity; all items are compared unless an exact index "
            "serves it.",
        ),
    ] = "jaccard",
    among: Where,
    explain: Explain = False,
    show: Annotated[
        bool,
        typer.Option(
            "--show", help="Print each match beside the probe, with the differences marked."
        ),
    ] = False,
    exists: Annotated[
        bool,
        typer.Option(
            "--exists",
            help="Print nothing; the exit code is 0 if there is a match, 1 if there is none.",
        ),
    ] = False,
    reading: ProbeOptions,
    telling: Answering,
) -> None:
    """Print the stored items that are similar to a given one.

    The most similar come first. With --input, every row of a file or of several is searched for,
    and each answer names its row as the probe. With --json, one object per line: key, similarity or
    distance, and the metadata if there is any.

    Example: simdb search corpus.simdb documents --text "a quick brown fox"
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    given.require_used(reading)
    of_matches = show or explain or limit is not None
    if exists and (of_matches or telling.as_json or telling.output is not None):
        raise UsageError(
            "--exists prints no matches: leave out --limit, --show, --explain, --json and --output"
        )
    if show and (telling.as_json or telling.output is not None):
        raise UsageError("--show prints for people: leave out --json and --output")
    if explain:
        telling.require_lines()
    require_no_input([telling.output], [] if given.file is None else [given.file])
    own = None if given.key is None else key_from(given.key, integer_keys=reading.integer_keys)
    asked = limit if limit is None or own is None else limit + 1
    with stored.view(stored.name) as source, telling.bar() as bar:
        kind = source.kind
        wanted = {**question.of(kind), **among.given(), "measure": measure}
        within = question.of_reasons(measure, telling.note) if explain else question.given()
        answers: list[tuple[Key | None, simdb.Matches]] = []  # to the last probe

        if exists:
            of_one = {**wanted, "limit": 1 if own is None else 2}
            answered = _searched(source, given.probes(source, reading), of_one, _PROBES)
            there = any(match.key != own for _, answer in answered for match in answer)
            raise typer.Exit(0 if there else 1)

        def found() -> Iterator[_Found]:
            probes = bar.each("searching", given.probes(source, reading))
            of_each = {**wanted, "limit": asked, "metadata": True}
            most = 1 if explain or show else _PROBES  # what is explained takes far longer
            for (probe, item, _), answer in _searched(source, probes, of_each, most):
                answers[:] = [(probe, answer)]
                matches = [match for match in answer if own is None or match.key != own]
                for match in matches[:limit]:
                    why = None
                    if explain or show:
                        why = source.explain_match(item, match.key, **within)
                    yield probe, match, why

        lines = (
            {**({} if probe is None else {"probe": probe}), "key": match.key, **_told(match, why)}
            for probe, match, why in found()
        )
        of_numbers = source.key_types() == {int}
        count = telling.write(
            lines, lambda: _reader(list(lines), kind, answers, of_numbers=of_numbers)
        )
        if count is None and telling.as_json:
            count = 0
            for line in lines:
                print_json_line(line)
                count += 1
        elif count is None:
            name = "given" if own is None else shown_key(own)
            count = _print_matches(found(), source, name, explain=explain, show=show)
    sys.stdout.flush()
    told = {} if not answers else promised(answers[0][1])
    words = f"; {promise(answers[0][1], kind)}" if answers else ""
    telling.told(count, counted(count, "match", "matches") + words, **told)
    tell_unmet(wanted, telling.note)


def _searched(
    source: simdb.CollectionView, probes: Iterator[Probe], asked: Mapping[str, Any], most: int
) -> Iterator[tuple[Probe, simdb.Matches]]:
    """Yield probes with their answers; portions of up to so many are searched for together."""
    at_once = 1
    while True:
        began, found = time.monotonic(), 0
        portion: list[Probe] = []
        size = 0
        try:
            for probe in islice(probes, at_once):
                portion.append(probe)
                size += arrow.column_size(probe.item)
                if size >= arrow.PART_BYTES:
                    break
        finally:  # what was read before a wrong row, or Ctrl-C, is answered before that is told
            for probe, answer in zip(portion, _answers(source, portion, asked), strict=True):
                found += len(answer)
                yield probe, answer
        if not portion:
            return
        is_little = time.monotonic() - began < _SECONDS and found < _MATCHES
        at_once = min(2 * at_once, most) if is_little else max(1, at_once // 2)


def _answers(
    source: simdb.CollectionView, portion: Sequence[Probe], asked: Mapping[str, Any]
) -> Iterable[simdb.Matches]:
    """Search for a portion of probes; one by one if it is one, or if one of several is wrong."""
    items = [probe.item for probe in portion]
    if len(items) > 1:
        with suppress(Exception):  # told again after the answers to the probes before that one
            return source.search_many(items, **asked)
    return (_answer(source, probe, asked) for probe in portion)


def _answer(source: simdb.CollectionView, probe: Probe, asked: Mapping[str, Any]) -> simdb.Matches:
    """Search for a probe; BadItemError says in which row it stands."""
    try:
        return source.search(probe.item, **asked)
    except BadItemError as error:
        if probe.row is None:
            raise
        raise BadItemError(": ".join(probe.row.about(0, error.problem))) from error


def _reader(
    lines: list[dict[str, Any]],
    kind: Kind,
    answers: Sequence[tuple[Key | None, simdb.Matches]],
    *,
    of_numbers: bool,
) -> Any:
    """Return an Arrow reader of matches; it has their columns even if there are none.

    What the answers promise stands in the schema, as for tables of pairs. Without a match, keys
    are numbers if all in the collection are.
    """
    measure = "distance" if kind.is_distance else "similarity"
    has_probes = any(probe is not None for probe, _ in answers)
    columns: dict[str, Any] = {
        name: arrow.keys_column([line[name] for line in lines], of_numbers=of_numbers)
        for name in (["probe"] * has_probes + ["key"])
    }
    columns[measure] = np.array([line[measure] for line in lines], np.float64)
    columns["metadata"] = arrow.json_column([line.get("metadata") for line in lines])
    return arrow.table(columns, promised(answers[0][1]) if answers else None).to_reader()


def _told(match: simdb.Match, why: PairExplanation | None) -> dict[str, Any]:
    """Return a match without its key, as JSON has it."""
    told: dict[str, Any] = dict(measured(match))
    if match.metadata is not None:
        told["metadata"] = expressible(match.metadata)
    return told if why is None else {**told, "evidence": why.to_dict(FACETS_TOLD)}


def _print_matches(
    found: Iterator[_Found], source: simdb.CollectionView, given: str, *, explain: bool, show: bool
) -> int:
    """Print matches as tables with the beginnings of the items; return how many there were.

    Where reasons or differences are wanted, one after the other. A single probe is named ``given``.
    """
    part: list[_Found] = []
    count = 0
    try:
        for one in found:
            count += 1
            if one[2] is None:
                part.append(one)
            else:
                _print_reasoned(one, given, explain=explain, show=show)
            if len(part) == _AT_ONCE:
                _print_part(part, source)
    finally:  # what was found before an error, or Ctrl-C, is not lost
        _print_part(part, source)
    return count


def _print_reasoned(found: _Found, given: str, *, explain: bool, show: bool) -> None:
    """Print a match, and why it is one."""
    probe, match, why = found
    assert why is not None
    names = given if probe is None else shown_key(probe), shown_key(match.key)
    print("\t".join([f"{match.value:.6f}", *names]))
    if explain:
        print_reasons(why)
    if show:
        differences.show(why, names)
        print()


def _print_part(part: list[_Found], source: simdb.CollectionView) -> None:
    """Print some matches as a table, and forget them."""
    found = part[:]
    part.clear()  # what could not be printed is not tried again
    if not found:
        return
    kind = source.kind
    items = {
        entry.key: excerpt(kind.shown_item(entry.item))
        for entry in entries_of(source, [match.key for _, match, _ in found])
    }
    table = [
        [
            *([] if probe is None else [shown_key(probe)]),
            f"{match.value:.6f}",
            shown_key(match.key),
            items[match.key],
        ]
        for probe, match, _ in found
    ]
    value = "distance " if kind.is_distance else "similarity "
    print_table(("probe", value, "key", kind.name)[-len(table[0]) :], table)
    sys.stdout.flush()


def _rows_of(named: str, options: ReadingOptions, reading: InputOptions) -> Iterator[Probe]:
    """Yield the rows of an input, with their keys if there are several.

    Line numbers of several files would be the same keys: these are places then, as in dedupe.
    Plain text has no fields: if some are named, an input whose name indicates no format is JSON
    lines, not one text.
    """
    unnamed = options.kind.probe_format
    if unnamed == "text" and (reading.text_field or reading.id_field):
        unnamed = "jsonl"
    options = replace(options, unnamed=unnamed)
    sources = reading.sources([named], options)
    reading.require_key_field(sources, options)
    if len(sources) > 1 and options.id_field is None and "numpy" not in options.kind.formats:
        options = replace(options, made_keys="place")
    options = replace(options, below=sources)
    rows = chain.from_iterable(_rows_in(source, options) for source in sources)
    first = list(islice(rows, 2))
    if not first:
        raise UsageError(f"{named}: it contains no rows")
    for reader, row in chain(first, rows):
        if row.item is None:
            raise UsageError(f"{reader.place(row.line)}: {row.problem}")
        own = Waiting(reader, [row.line], [row.key], [])
        yield Probe(row.key if len(first) > 1 else None, row.item, own)


def _rows_in(source: str, options: ReadingOptions) -> Iterator[tuple[RowReader, Row]]:
    """Yield the rows of a file, each with its reader."""
    with open_rows(source, options) as reader:
        for row in noted(reader):
            yield reader, row

"""The command that prints the stored items that are similar to a given one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Annotated, Any, Literal, TypeAlias

import typer

import simdb
from simdb.cli.inputs import InputOptions, set_from
from simdb.cli.options import (
    AsJson,
    Bound,
    CollectionName,
    Question,
    Quiet,
    StorePath,
    key_from,
)
from simdb.cli.output import (
    counted,
    excerpt,
    measured,
    note,
    print_json_line,
    print_table,
    promise,
    shown_key,
)
from simdb.cli.stores import viewed_collection
from simdb.errors import UsageError
from simdb.files import ReadingOptions, format_of_name, item_of_json, open_rows
from simdb.files.compression import STANDARD_STREAM
from simdb.results import Key, Match

Probe: TypeAlias = tuple[Key | None, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """What to search for: one of these, or a key."""

    text: Annotated[
        str | None, typer.Option("--text", help="What to search for similar items of.")
    ] = None
    spelled: Annotated[
        str | None,
        typer.Option(
            "--set", metavar="ELEMENTS", help="The same, a set or bag: '1 2 3', 'milk bread'."
        ),
    ] = None
    item: Annotated[
        str | None,
        typer.Option(
            "--item", metavar="JSON", help="The same, an item of any kind, as in a line of JSON."
        ),
    ] = None
    file: Annotated[
        str | None,
        typer.Option(
            "--input", "--file", metavar="FILE", help="The same, every row of a file; - reads it."
        ),
    ] = None

    def probes(self, source: simdb.CollectionView, reading: InputOptions) -> Iterator[Probe]:
        """Yield what to search for, as items of the collection's kind."""
        kind = source.kind
        options = reading.of(kind, source)
        if self.file is not None:
            yield from _rows_of(self.file, options)
        elif self.item is not None:
            yield None, item_of_json(self.item, options, "--item")
        elif self.text is not None and kind.probe_option == "--text":
            yield None, kind.item_of_text(self.text)
        elif self.spelled is not None and kind.of_elements:
            yield None, set_from(self.spelled, options)
        else:
            raise UsageError(f"the collection holds {kind.plural}: {kind.probe_option} gives one")


@dataclass(frozen=True, slots=True)
class ProbeOptions(InputOptions):
    """How --input is read."""

    pattern: str | None = None
    ratings: str | None = None
    rating_field: str | None = None
    on_bad: Literal["error", "skip"] = "error"


def search(
    context: typer.Context,
    *,
    store: StorePath,
    collection: CollectionName,
    given: Given,
    key: Annotated[
        str | None, typer.Option("--key", help="The same, a stored item; it is not its own match.")
    ] = None,
    bound: Bound,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="K", help="Only the K most similar.")
    ] = None,
    question: Question,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            metavar="jaccard|dice|cosine|stored-in-probe|probe-in-stored",
            help="Of similarity; all but jaccard need an exact index.",
        ),
    ] = "jaccard",
    reading: ProbeOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the stored items that are similar to a given one.

    The most similar come first. With --json one object a line: key, and similarity or distance.
    Of a file with several rows each is searched for, and every answer names its row as the probe.
    """
    ways = (given.text, given.spelled, given.item, given.file, key)
    if sum(way is not None for way in ways) != 1:
        raise UsageError(
            "say what to search for with one of --text, --set, --item, --input and --key"
        )
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    if given.file is None and (reading.text_field or reading.id_field or reading.format_name):
        raise UsageError("--text-field, --id-field and --format are for --input")
    count, answered = 0, None
    table: list[tuple[str, ...]] = []
    with viewed_collection(context, store, collection) as source:
        of_distance = source.kind.is_distance
        own = key_from(key, integer_keys=reading.integer_keys) if key is not None else None
        probes: Iterable[Probe] = given.probes(source, reading)
        if own is not None:
            probes = [(None, source.get(own).item)]
        for name, item in probes:
            answered = source.search(
                item,
                limit=limit + 1 if limit is not None and own is not None else limit,
                measure=measure,
                **question.asked(),
                **bound.of(source.kind),
            )
            matches = [match for match in answered if own is None or match.key != own][:limit]
            count += len(matches)
            if not as_json:
                table += _shown(source, name, matches)
                continue
            probe = {} if name is None else {"probe": name}
            for match in matches:
                print_json_line({**probe, "key": match.key, **measured(match)})
        if table:
            value = "distance" if of_distance else "similarity"
            columns = ("probe", f"{value} ", "key", source.kind.name)
            print_table(columns[-len(table[0]) :], table)
    sys.stdout.flush()
    told = counted(count, "match", "matches")
    if answered is not None:
        told += "; " + promise(
            answered.guarantee, answered.expected_recall, of_distance=of_distance
        )
    note(told, quiet=quiet)


def _rows_of(file: str, options: ReadingOptions) -> Iterator[Probe]:
    """Yield the rows of a file, with their keys where there are several."""
    if options.format is None and (
        file == STANDARD_STREAM or format_of_name(file, options) is None
    ):
        options = replace(options, format=options.kind.probe_format)
    with open_rows(file, options) as reader:
        rows = iter(reader)
        first = list(islice(rows, 2))
        if not first:
            raise UsageError(f"{file}: there is no row in it")
        for row in chain(first, rows):
            if row.item is None:
                raise UsageError(f"{reader.place(row.line)}: {row.problem}")
            yield (row.key if len(first) > 1 else None), row.item


def _shown(
    source: simdb.CollectionView, probe: Key | None, matches: list[Match]
) -> list[tuple[str, ...]]:
    return [
        (
            *([] if probe is None else [shown_key(probe)]),
            f"{next(iter(measured(match).values())):.6f}",
            shown_key(match.key),
            excerpt(source.kind.shown_item(source.get(match.key).item)),
        )
        for match in matches
    ]

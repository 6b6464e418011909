"""The command that prints the stored items that are similar to a given one."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

import simdb
from simdb.cli.inputs import ElementsText, InputOptions, Separator, set_from
from simdb.cli.kinds import measures_distance, name_of, plural_of, shown_item
from simdb.cli.options import (
    AsJson,
    Bound,
    CollectionName,
    IntegerKeys,
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
from simdb.files import ReadingOptions, item_of_json, open_rows
from simdb.kinds import Bag, Set, Text
from simdb.results import Match


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
            "--input", "--file", metavar="FILE", help="The same, what is in a file; - reads it."
        ),
    ] = None

    def probe(self, source: simdb.CollectionView, reading: InputOptions) -> Any:
        """Return it as an item of the collection's kind."""
        kind = source.kind
        options = reading.of(kind, source)
        if self.file is not None:
            if isinstance(kind, Text):
                return _only_row(self.file, replace(options, format="text"))
            if isinstance(kind, Set | Bag):
                return _only_row(self.file, replace(options, format="lines"))
            return _only_row(self.file, options)
        if self.item is not None:
            return item_of_json(self.item, options, "--item")
        if self.text is not None and isinstance(kind, Text):
            return self.text
        if self.spelled is not None and isinstance(kind, Set | Bag):
            return set_from(self.spelled, options)
        option = "--set" if isinstance(kind, Set | Bag) else "--item"
        option = "--text" if isinstance(kind, Text) else option
        raise UsageError(f"the collection holds {plural_of(kind)}: {option} gives one")


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
    elements: ElementsText = None,
    separator: Separator = None,
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the stored items that are similar to a given one.

    The most similar come first. With --json one object a line: key, and similarity or distance.
    """
    ways = (given.text, given.spelled, given.item, given.file, key)
    if sum(way is not None for way in ways) != 1:
        raise UsageError(
            "say what to search for with one of --text, --set, --item, --input and --key"
        )
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    reading = InputOptions(elements=elements, separator=separator)
    own = key_from(key, integer_keys=integer_keys) if key is not None else None
    with viewed_collection(context, store, collection) as source:
        found = source.search(
            source.get(own).item if own is not None else given.probe(source, reading),
            limit=limit + 1 if limit is not None and own is not None else limit,
            measure=measure,
            **question.asked(),
            **bound.of(source.kind),
        )
        matches = [match for match in found if own is None or match.key != own][:limit]
        if as_json:
            for match in matches:
                print_json_line({"key": match.key, **measured(match)})
        else:
            _print_matches(source, matches)
        of_distance = measures_distance(source.kind)
    sys.stdout.flush()
    promised = promise(found.guarantee, found.expected_recall, of_distance=of_distance)
    note(f"{counted(len(matches), 'match', 'matches')}; {promised}", quiet=quiet)


def _only_row(file: str, options: ReadingOptions) -> Any:
    if options.kind == "text" or file == "-" or not Path(file).is_dir():
        with open_rows(file, options) as reader:
            rows = list(islice(reader, 2))
        if len(rows) == 1 and rows[0].item is not None:
            return rows[0].item
        problem = rows[0].problem if len(rows) == 1 else None
    else:
        problem = None
    raise UsageError(f"{file}: {problem or f'is not one {options.kind}'}")


def _print_matches(source: simdb.CollectionView, matches: list[Match]) -> None:
    rows = [
        (
            f"{next(iter(measured(match).values())):.6f}",
            shown_key(match.key),
            excerpt(shown_item(source.get(match.key).item)),
        )
        for match in matches
    ]
    if rows:
        value = next(iter(measured(matches[0])))
        print_table((f"{value} ", "key", name_of(source.kind)), rows)

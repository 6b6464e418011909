"""The command that links the rows of two tables, by settings that it proposes itself."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal, cast

import numpy as np
import typer

import simdb
from simdb.cli.dedupe import Places
from simdb.cli.feed import Feed
from simdb.cli.inputs import UnstoredInputs, content_seed, require_no_input
from simdb.cli.options import Apart, KindOptions, rational
from simdb.cli.output import ProgressBar, Working, counted, measured, note
from simdb.errors import ConfigurationError, KeyExistsError, UsageError
from simdb.files import open_rows
from simdb.files.compression import STANDARD_STREAM
from simdb.files.inputs import require_there
from simdb.files.tables import write_table
from simdb.files.writing import (
    TABLES,
    json_line,
    promised_form,
    require_fitting_name,
    written_together,
)
from simdb.kinds.records.proposal import Proposal, propose_record
from simdb.results import Pairs

_SEPARATED = {"csv": ",", "tsv": "\t"}
_ABOUT = (
    "Settings of records: simdb link --settings takes them, and so do create and rebuild.",
    "fields: compare is exact, edit, levenshtein, damerau, alignment, jaro-winkler, words, "
    "overlap, intersect, cosine, numeric, relative, date or place; tolerance is the difference "
    "that leaves nothing; prepare is what is done to a text before; weight are the points of "
    "equal values, which link learns unless --threshold is given.",
    "candidates: only pairs that agree in one rule are compared; a rule is a list of parts that "
    "must all hold. A part is of equal values, or by within (numbers), edits (texts) or alike "
    "(words).",
)


@dataclass(frozen=True, slots=True)
class LinkedInputs(UnstoredInputs):
    """How the two tables are read."""

    text_field: list[str] | None = None
    right_id_field: Annotated[
        str | None,
        typer.Option(
            "--right-id-field", metavar="FIELD", help="That of RIGHT, if it is another there."
        ),
    ] = None
    pattern: str | None = None
    elements: Literal["auto", "integers", "strings"] | None = None
    separator: str | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """What is said in the place of a proposal."""

    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="Compare pairs that agree in this: FIELD+FIELD, equal in all, or JSON as in a "
            "settings file; may be repeated.",
        ),
    ] = None
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="FIELD=HOW[:TOLERANCE]",
            help="Compare a field so: year=numeric:2; may be repeated.",
        ),
    ] = None
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings", metavar="FILE", help="Settings of records; nothing is proposed."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.settings is not None and (self.rule or self.compare):
            raise UsageError("--settings contradicts --rule and --compare: change the file")

    def rules(self) -> list[Any]:
        """Return the rules that are given, in their plain form."""
        return [_rule_from(text) for text in self.rule or ()]

    def fields(self) -> list[simdb.Field]:
        """Return the fields that are given."""
        return [_field_from(text) for text in self.compare or ()]


def _rule_from(text: str) -> Any:
    if not text.lstrip().startswith(("[", "{")):
        return text.split("+")
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"--rule {text}: not JSON: {error}") from None


def _field_from(text: str) -> simdb.Field:
    name, _, how = text.rpartition("=")
    compare, _, tolerance = how.partition(":")
    given: Any = {"compare": compare}
    try:
        if tolerance:
            given["tolerance"] = json.loads(tolerance)
    except ValueError:
        raise UsageError(f"--compare: the tolerance {tolerance!r} is not a number") from None
    if not name or not compare:
        raise UsageError(
            f"--compare takes a field and how it is compared, as year=numeric:2, not {text!r}"
        )
    return simdb.Field(name, **given)


def link(
    *,
    context: typer.Context,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A table: CSV, JSON lines, Parquet.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Another.")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The pairs: by its name CSV, Parquet, Arrow, or lines of JSON; - prints these.",
        ),
    ],
    one_to_one: Annotated[
        bool,
        typer.Option(
            "--one-to-one",
            help="Each row in one pair at most: of all such choices the most similar pairs.",
        ),
    ] = False,
    apart: Apart,
    choices: Choices,
    probability: Annotated[
        float | None,
        typer.Option(
            "--probability", help="The least with which a pair matches, as is learnt (0.5)."
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="SIMILARITY",
            help="The least similarity, by the weights as they are: nothing is learnt.",
        ),
    ] = None,
    save_settings: Annotated[
        str | None,
        typer.Option(
            "--save-settings", metavar="FILE", help="The settings, to be changed and given again."
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=2, help="Rows of each table that are looked at first.")
    ] = 5_000,
    reading: LinkedInputs,
    telling: Working,
) -> None:
    """Link the rows of two tables that mean the same.

    Columns that both have are compared, each by what it holds; weights are learnt without labels.
    What is chosen is told on standard error. Keys are the columns named id, else the first ones.
    Each table is read twice. Lines of the output are left key, right key and similarity.
    """
    least = None if threshold is None else rational(threshold)
    if least is not None and probability is not None:
        raise UsageError("--threshold and --probability contradict each other")
    if probability is not None and not 0 < probability < 1:
        raise UsageError(f"--probability must be between 0 and 1, not {probability:g}")
    outputs = telling.require_files(output, save_settings)
    require_fitting_name(output, "jsonl", *_SEPARATED, *TABLES)
    if STANDARD_STREAM in (left, right):
        raise UsageError("tables are read twice, which standard input cannot be: give a file")
    require_there(left, right)
    reading = replace(reading, integer_keys=apart.integer_keys)
    looked_at = _looked_at((left, right), reading, sample)
    require_no_input(outputs, [*looked_at[0].sources, *looked_at[1].sources])
    kind, proposal = _settings(looked_at, choices)
    _tell_choice(telling, looked_at, kind, proposal)
    whole = kind.counted(row for side in looked_at for row in side.samples(kind))
    with Places(context, output).opened() as database, telling.bar() as bar:
        sides = [_stored(database, side, whole, least, bar) for side in looked_at]
        if least is None:
            weights = _learnt(sides, bar)
            least = weights.threshold(probability or 0.5)
            for side in sides:
                side.rebuild(weights.kind, threshold=least)
            told = f"about {weights.matches:,.0f} matches among {weights.pairs:,} candidates"
            telling.note(f"learnt: {told}; they match from similarity {float(least):g} on")
            for warning in weights.warnings:
                note(f"warning: {warning}")
        found = sides[0].join(sides[1], threshold=least, one_to_one=one_to_one, apart=apart.pairs())
        count = _write(outputs, found, kind, bar)
    fields = {"output": output, "pairs": count, "threshold": float(least)}
    telling.tell(fields, f"{counted(count, 'pair', 'pairs')} in {output}")


# -- what is read ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the tables.

    Attributes:
        sources: its files.
        key: its column of keys.
        rows: some of its rows, drawn at random.
        count: of all.
        reading: how it is read.
    """

    name: str
    sources: Mapping[str, str]
    key: str
    rows: list[Mapping[str, Any]]
    count: int
    reading: LinkedInputs

    def samples(self, kind: simdb.Record) -> list[dict[str, Any]]:
        """Return the rows drawn as records of a kind."""
        names = kind.field_names
        return [{name: row[name] for name in names if name in row} for row in self.rows]


def _looked_at(names: Sequence[str], reading: LinkedInputs, sample: int) -> tuple[_Side, _Side]:
    keys = (reading.id_field, reading.right_id_field or reading.id_field)
    left, right = (
        _side(name, replace(reading, id_field=key, right_id_field=None), sample)
        for name, key in zip(names, keys, strict=True)
    )
    return left, right


def _side(name: str, reading: LinkedInputs, sample: int) -> _Side:
    """Read a table once: rows drawn at random, and which column has the keys."""
    any_record = simdb.Record([simdb.Field("id")])
    options = replace(reading, id_field=None).of(any_record)
    sources = reading.sources([name], options)
    chance = np.random.default_rng(0)
    rows: list[Mapping[str, Any]] = []
    columns: dict[str, None] = {}
    count = 0
    for fields in _rows_of(sources, options):
        count += 1
        columns |= dict.fromkeys(fields)
        if len(rows) < sample:
            rows.append(fields)
        elif (place := int(chance.integers(count))) < sample:
            rows[place] = fields
    if not count:
        raise UsageError(f"{name}: there are no rows")
    key = reading.id_field
    if key is None:
        key = next((column for column in columns if column.lower() == "id"), next(iter(columns)))
    elif key not in columns:
        raise UsageError(f"{name}: there is no column {key!r}; there are {', '.join(columns)}")
    return _Side(name, sources, key, rows, count, replace(reading, id_field=key))


def _rows_of(sources: Mapping[str, str], options: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of each row; what is wrong with one is told when the rows are stored."""
    for source in sources:
        with open_rows(source, replace(options, below=sources, any_fields=True)) as reader:
            for row in reader:
                try:
                    fields = reader.fields(row.raw)
                except ValueError:
                    continue
                yield fields


def _settings(sides: tuple[_Side, _Side], choices: Choices) -> tuple[simdb.Record, Proposal | None]:
    """Return the settings that are given or proposed."""
    left, right = sides
    keys = {left.key, right.key}
    if choices.settings is not None:
        kind = cast("simdb.Record", KindOptions(kind="record", settings=choices.settings).new())
        for side in sides:
            known = {name for row in side.rows for name in row}
            for name in kind.field_names:
                if name not in known:
                    raise UsageError(f"{side.name}: there is no column {name!r} of the settings")
        return kind, None
    rows = [
        [{name: row[name] for name in row if name not in keys} for row in side.rows]
        for side in sides
    ]
    proposal = propose_record(
        *rows,
        rows=(left.count, right.count),
        fields=choices.fields(),
        candidates=choices.rules(),
    )
    return proposal.kind, proposal


def _tell_choice(
    telling: Working, sides: Sequence[_Side], kind: simdb.Record, proposal: Proposal | None
) -> None:
    for side in sides:
        rows = counted(side.count, "row", "rows")
        telling.note(f"{side.name}: {rows}, keys in the column {side.key!r}")
    if proposal is None:
        return
    for field in kind.fields:
        within = "" if field.compare in _BY_SIMILARITY else f" within {field.tolerance:g}"
        reason = proposal.reasons[field.name]
        telling.note(f"field {field.name!r}: {field.compare}{within} ({reason})")
    for name, problem in proposal.left_out.items():
        telling.note(f"column {name!r} is left out: it {problem}")
    for rule, pairs in proposal.pairs.items():
        telling.note(f"rule {rule}: about {pairs:,.0f} pairs")


_BY_SIMILARITY = ("exact", "jaro-winkler", "words", "overlap", "intersect", "cosine")


# -- what is done ----------------------------------------------------------------------------------


def _stored(
    database: simdb.Database,
    side: _Side,
    kind: simdb.Record,
    least: Fraction | None,
    bar: ProgressBar,
) -> simdb.Collection:
    """Store a table."""
    name = "left" if "left" not in database else "right"
    seed = content_seed(side.sources, None) or 0
    target = database.create_collection(name, kind, threshold=least or Fraction(1, 2), seed=seed)
    options = side.reading.of(kind)
    options = replace(options, raw=False, metadata=False, below=side.sources)
    feed = Feed(side.sources, options, on_bad="error")
    try:
        target.add_many(feed, progress=bar.callback)
    except KeyExistsError as error:
        told = feed.placed(error).problem
        raise UsageError(
            f"{told}: the column {side.key!r} does not tell all rows apart; --id-field names "
            "another"
        ) from error
    except UsageError as error:
        raise feed.placed(error) from error
    return target


def _learnt(sides: Sequence[simdb.Collection], bar: ProgressBar) -> simdb.Weights:
    left, right = sides
    try:
        return left.learn(other=right, progress=bar.callback)
    except ConfigurationError as error:
        raise UsageError(
            f"no weights can be learnt: {error.problem}; --threshold goes by weights as they are"
        ) from error


def _write(outputs: list[str], found: Pairs, kind: simdb.Record, bar: ProgressBar) -> int:
    """Write the pairs, and the settings if there is a file for them; return how many pairs."""
    form = promised_form(outputs[0])
    with written_together(*outputs) as files:
        for file in files[1:]:
            settings = {"about": _ABOUT, "kind": "record", **kind.describe()}
            file.write(json.dumps(settings, indent=2, ensure_ascii=False).encode() + b"\n")
        if form in TABLES:
            return write_table(found.to_reader(), files[0].file, as_parquet=form == "parquet")
        if form in _SEPARATED:
            files[0].write(_separated(form, ("left", "right", "similarity")))
        count = 0
        for pair in bar.each("pairs", found):
            row = {"left": pair.left, "right": pair.right, **measured(pair)}
            files[0].write(_separated(form, row.values()) if form in _SEPARATED else json_line(row))
            count += 1
        return count


def _separated(form: str, values: Any) -> bytes:
    """Return a record of CSV, or of tabs."""
    text = io.StringIO()
    csv.writer(text, delimiter=_SEPARATED[form], lineterminator="\n").writerow(values)
    return text.getvalue().encode()

"""The command that links the rows of two tables, with settings that it proposes."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, cast

import typer
from msgspec.structs import replace

import simdb
from simdb.arrow import with_column
from simdb.cli.dedupe import Places
from simdb.cli.feed import Feed
from simdb.cli.inputs import OnBadRow, UnstoredInputs, require_again, require_no_input
from simdb.cli.options import ApartPairs, rational
from simdb.cli.output import ProgressBar, Working, counted, measured
from simdb.cli.proposing import (
    RuleChoices,
    Side,
    learnt,
    looked_at,
    of_whole_rows,
    proposed,
    require_rows,
    stored,
    tell_choice,
)
from simdb.cli.settings import KindOptions, is_object
from simdb.errors import NothingAlikeError, UsageError
from simdb.extras import require
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
from simdb.kinds.records.proposal import SAMPLED_ROWS, Proposal
from simdb.results import Pairs

_SEPARATED = {"csv": ",", "tsv": "\t"}
_ABOUT = (
    "Settings of records, for simdb link, create or rebuild with --settings.",
    "fields: compare is exact, edit, levenshtein, damerau, alignment, jaro-winkler, words, "
    "overlap, intersect, cosine, numeric, relative, date or place; tolerance is the difference "
    "that leaves no points; prepare lists what is done to a text first; weight is the points "
    "of equal values, which link learns unless --threshold is given.",
    "frequencies: in how many rows each word is, by which cosine weighs words; link counts them "
    "anew. A field that is compared by no words must have none.",
    "candidates: only pairs that agree in one rule are compared; a rule is a list of parts "
    "that must all hold. A part is the name of a field with equal values, or by within "
    "(numbers), near (places), edits (texts) or alike (words).",
)


class LinkedInputs(UnstoredInputs, frozen=True):
    """How the two tables are read."""

    text_field: list[str] | None = None
    id_field: Annotated[
        str | None,
        typer.Option(
            "--id-field",
            metavar="FIELD",
            help="The field of the key; the field id, or else the first one, if not given.",
        ),
    ] = None
    right_id_field: Annotated[
        str | None,
        typer.Option(
            "--right-id-field",
            metavar="FIELD",
            help="The field of the key in RIGHT, if it differs.",
        ),
    ] = None
    on_bad: OnBadRow = None
    pattern: str | None = None
    elements: Literal["auto", "integers", "strings"] | None = None
    separator: str | None = None


class Choices(RuleChoices, frozen=True):
    """Settings, rules and fields that replace a proposal."""

    settings: Annotated[
        str | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Compare by these settings instead of proposing some.",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.settings is not None and self.are_given:
            raise UsageError(
                "--settings contradicts --rule and --compare: edit the settings file instead"
            )

    def kind(self) -> simdb.Record | None:
        """Return the settings; None where they are to be proposed."""
        if self.settings is None:
            return None
        kind = KindOptions(settings=self.settings).new("record")
        if not kind.has_rules:
            raise UsageError(f"--settings must be of records, not of {kind.plural}")
        return cast("simdb.Record", kind)


def link(
    *,
    context: typer.Context,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A table: CSV, JSON or Parquet.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Another table.")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the pairs here: Parquet or Arrow (extra 'arrow'), CSV or JSON lines, by "
            "the name of the file; - prints JSON lines.",
        ),
    ],
    one_to_one: Annotated[
        bool,
        typer.Option(
            "--one-to-one",
            help="Put each row in at most one pair, with the largest sum of similarities. "
            "Needs the extra 'statistics'.",
        ),
    ] = False,
    apart: ApartPairs,
    choices: Choices,
    probability: Annotated[
        float | None,
        typer.Option(
            "--probability", help="The lowest probability of a match, by learnt weights (0.5)."
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="SIMILARITY",
            help="The lowest similarity of a match, by the weights as they are; nothing is learnt.",
        ),
    ] = None,
    save_settings: Annotated[
        str | None,
        typer.Option(
            "--save-settings",
            metavar="FILE",
            help="Write the settings here, to edit and give to --settings.",
        ),
    ] = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample",
            min=2,
            help="The number of rows of each table that the proposal is based on.",
        ),
    ] = SAMPLED_ROWS,
    reading: LinkedInputs,
    telling: Working,
) -> None:
    """Link the rows of two tables that describe the same thing.

    It compares the columns that both tables have, each by its content, and learns weights without
    labels; its choices are printed on standard error. Keys are the columns named id, or else the
    first columns. Each table is read twice. A line of the output has the left key, the right key,
    the similarity and, if weights are learnt, the probability of a match. Learning needs the extra
    'statistics'; with --threshold nothing is learnt.

    Example: simdb link customers.csv orders.csv --one-to-one -o matches.csv
    """
    apart.require(one_to_one=one_to_one)
    never = apart.pairs()
    settings = choices.kind()
    least = None if threshold is None else rational(threshold)
    if least is not None and probability is not None:
        raise UsageError("--threshold and --probability contradict each other")
    if probability is not None and not 0 < probability < 1:
        raise UsageError(f"--probability must be between 0 and 1, not {probability:g}")
    if least is None:
        require("statistics", "learning weights needs", "scipy")
    if one_to_one:
        require("statistics", "--one-to-one needs", "scipy")
    outputs = telling.require_files(output, save_settings)
    require_fitting_name(output, "jsonl", *_SEPARATED, *TABLES)
    require_again(left, right)
    require_there(left, right)
    given = [] if choices.settings is None or is_object(choices.settings) else [choices.settings]
    require_no_input(outputs, [left, right, *apart.files(), *given])
    reading = replace(reading, integer_keys=apart.integer_keys)
    keys = (reading.id_field, reading.right_id_field or reading.id_field)
    feeds: list[Feed] = []
    sides = [
        looked_at([name], replace(reading, id_field=key, right_id_field=None), sample, keyed=True)
        for name, key in zip((left, right), keys, strict=True)
    ]
    if settings is not None:
        _require_columns(sides, settings)
    tell_choice(telling, sides, None)
    with Places(context, output).opened() as database, telling.bar() as bar:
        likely = None if least is not None else probability or 0.5
        try:
            how: dict[str, Any] = {"likely": likely, "one_to_one": one_to_one}
            how |= {"telling": telling, "bar": bar, "feeds": feeds}
            made = _stored(database, sides, choices, settings, least, **how)
        except NothingAlikeError as error:
            if save_settings is not None:
                raise
            names = None if settings is None else settings.field_names
            feeds.clear()
            made = _stored_whole(database, of_whole_rows(sides, error, names), bar, feeds)
        own, other = made.tables
        for side, table, keys in zip(sides, made.tables, zip(*never, strict=True), strict=False):
            _require_known(keys, table, side, apart)
        found = own.join(other, threshold=made.least, one_to_one=one_to_one, apart=never)
        count = _write(outputs, found, made, bar)
    bad = sum(feed.bad for feed in feeds)
    fields = {"output": output, "pairs": count, "threshold": float(made.least), "bad": bad}
    fields["bad_rows"] = [row for feed in feeds for row in feed.bad_rows]
    where = "" if output == STANDARD_STREAM else f" in {output}"
    left_out = f"; {counted(bad, 'bad row', 'bad rows')} left out" if bad else ""
    telling.tell(fields, f"{counted(count, 'pair', 'pairs')}{where}{left_out}")


# -- what is read ----------------------------------------------------------------------------------


def _require_columns(sides: Sequence[Side], kind: simdb.Record) -> None:
    """Raise UsageError if a table lacks a column that settings name."""
    for side in sides:
        known = {name for row in side.rows for name in row}
        for name in kind.field_names:
            if side.count and name not in known:
                raise UsageError(
                    f"{side.name}: column {name!r}, which the settings name, is missing"
                )


def _require_known(
    keys: Sequence[Any], table: simdb.Collection, side: Side, apart: ApartPairs
) -> None:
    """Raise UsageError unless all keys that are to stay apart are those of rows of a table."""
    unknown = next((key for key in keys if key not in table), None)
    if unknown is None:
        return
    is_number = isinstance(unknown, str) and unknown.isdecimal()
    is_there = is_number and int(unknown) in table
    remedy = (
        ", but the number is: a .jsonl file of objects with left and right has keys as "
        "they are, and --integer-keys reads those of both tables as numbers"
    )
    told = f"{unknown!r} is no key of {side.name}{remedy if is_there else ''}"
    raise UsageError(f"{apart.apart}: {told}")


class _Stored(NamedTuple):
    """The two tables as collections, and how they are compared.

    Attributes:
        least: the lowest similarity of a match.
        described: the settings as a file; nothing of rows that are compared whole.
    """

    tables: list[simdb.Collection]
    least: Fraction
    weights: simdb.Weights | None = None
    described: bytes = b""


def _stored(
    database: simdb.Database,
    sides: Sequence[Side],
    choices: Choices,
    kind: simdb.Record | None,
    least: Fraction | None,
    *,
    likely: float | None,
    one_to_one: bool,
    telling: Working,
    bar: ProgressBar,
    feeds: list[Feed],
) -> _Stored:
    """Store the tables under settings that are given or proposed; learn weights without a bound.

    Args:
        likely: the lowest probability of a match; None where there is the lowest similarity.
        feeds: takes the rows of both, with the bad ones among them.

    Raises:
        NothingAlikeError: there are no rows, or nothing can be proposed, or learnt.
    """
    require_rows(sides)
    proposal = None
    if kind is None:
        proposal = proposed(sides, choices, telling)
        kind = proposal.kind
    else:
        kind = kind.counted(row for side in sides for row in side.samples(kind))
    tell_choice(telling, [], proposal)
    tables = [stored(database, side, kind, least, bar, feeds=feeds) for side in sides]
    weights = None
    if least is None:
        how: dict[str, Any] = {"proposal": proposal, "one_to_one": one_to_one}
        weights, least = learnt(tables, likely or 0.5, telling, bar, **how)
        kind = cast("simdb.Record", weights.kind)
        for table in tables:
            table.rebuild(kind, threshold=least)
    return _Stored(tables, least, weights, _described(kind, proposal, weights, least))


def _stored_whole(
    database: simdb.Database, sides: Sequence[Side], bar: ProgressBar, feeds: list[Feed]
) -> _Stored:
    """Store tables of whole rows, in the place of what was stored."""
    for name in list(database):
        database.drop_collection(name)
    least = Fraction(1)
    kind = simdb.Set()
    return _Stored([stored(database, side, kind, least, bar, feeds=feeds) for side in sides], least)


# -- what is done ----------------------------------------------------------------------------------


def _write(outputs: list[str], found: Pairs, made: _Stored, bar: ProgressBar) -> int:
    """Write the pairs, and the settings if there is a file for them; return how many pairs."""
    weights = made.weights
    form = promised_form(outputs[0])
    with written_together(*outputs) as files:
        for file in files[1:]:
            file.write(made.described)
        if form in TABLES:
            table = found.to_reader()
            if weights is not None:
                table = with_column(table, "probability", "similarity", weights.probability_at)
            return write_table(table, files[0].file, as_parquet=form == "parquet")
        names = ("left", "right", "similarity", *(() if weights is None else ("probability",)))
        if form in _SEPARATED:
            files[0].write(_separated(form, names))
        count = 0
        for pair in bar.each("pairs", found):
            row = {"left": pair.left, "right": pair.right, **measured(pair)}
            if weights is not None:
                row["probability"] = weights.probability_at(pair.value)
            files[0].write(_separated(form, row.values()) if form in _SEPARATED else json_line(row))
            count += 1
        return count


def _described(
    kind: simdb.Record, proposal: Proposal | None, weights: simdb.Weights | None, least: Fraction
) -> bytes:
    """Return settings as a file with an explanation."""
    about = list(_ABOUT)
    if proposal is not None:
        about += (f"{name}: {reason}" for name, reason in proposal.reasons.items())
        about += (f"{name} is left out because it {why}" for name, why in proposal.left_out.items())
    if weights is not None:
        about.append(
            "Points and levels are learnt, 100 points per bit of evidence. With "
            f"--threshold {float(least):g} link uses them as they are; otherwise it learns again."
        )
    settings = {"about": about, "kind": "record", **kind.describe()}
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    # A value and its points, or a level and its own, on one line.
    return re.sub(r"\[\s+([^\s\[{][^\n]*),\s+(-?\d+)\s+\]", r"[\1, \2]", text).encode() + b"\n"


def _separated(form: str, values: Any) -> bytes:
    """Return a record separated by commas or tabs."""
    text = io.StringIO()
    # Only what ends a line is quoted: with its usual end, that is a carriage return as well.
    csv.writer(text, delimiter=_SEPARATED[form], lineterminator="\r\n").writerow(values)
    return text.getvalue().removesuffix("\r\n").encode() + b"\n"

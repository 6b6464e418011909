"""Settings of records that a command proposes, based on a first look at the tables."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import typer
from msgspec import Struct
from msgspec.structs import replace

import simdb
from simdb import arrow
from simdb.arguments import require_once
from simdb.cli.feed import Feed
from simdb.cli.inputs import PROPOSED_KEYS, InputOptions, content_seed
from simdb.cli.output import ProgressBar, Working, counted, note
from simdb.errors import ConfigurationError, KeyExistsError, NothingAlikeError, UsageError
from simdb.files import open_rows
from simdb.files.tables import TableReader
from simdb.kinds import Kind
from simdb.kinds.records.proposal import (
    OF_ONE_TABLE,
    SAMPLED_ROWS,
    Proposal,
    fits,
    propose_record,
    sampled,
)
from simdb.kinds.records.rules import rule_of
from simdb.kinds.whole import told_of_whole_rows, whole_rows
from simdb.results import Outcomes

_BY_SIMILARITY = ("exact", "jaro-winkler", "words", "overlap", "intersect", "cosine")
ANY_RECORD = simdb.Record([simdb.Field("id")])
AS_THEY_ARE = "with --threshold the weights are used as they are"


class RuleChoices(Struct, frozen=True):
    """Rules and fields that replace parts of a proposal, without a file."""

    HEADING: ClassVar[str] = "How records are compared"

    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="Compare records that agree in these fields, given as FIELD+FIELD or as a rule "
            "in JSON; may be repeated.",
        ),
    ] = None
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="FIELD=HOW[:TOLERANCE]",
            help="How a field is compared, for example year=numeric:2; may be repeated.",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Raise for what cannot be read, before any table is."""
        self.rules()
        self.fields()

    @property
    def are_given(self) -> bool:
        """Whether any are given."""
        return bool(self.rule or self.compare)

    def rules(self) -> list[Any]:
        """Return the rules that are given, in their plain form."""
        return [_rule_from(text) for text in self.rule or ()]

    def fields(self) -> list[simdb.Field]:
        """Return the fields that are given."""
        fields = [_field_from(text) for text in self.compare or ()]
        require_once([field.name for field in fields], "--compare names the field")
        return fields


def _rule_from(text: str) -> Any:
    is_name = len(text) > 1 and text[0] == text[-1] == '"'
    if not is_name and not text.lstrip().startswith(("[", "{")):
        return text.split("+")
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(f"--rule {text[:60]}: nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"--rule {text[:60]}: not JSON: {error}") from None


def _field_from(text: str) -> simdb.Field:
    name, _, how = text.rpartition("=")
    compare, _, tolerance = how.partition(":")
    given: Any = {"compare": compare}
    try:
        if tolerance:
            given["tolerance"] = json.loads(tolerance)
    except (ValueError, RecursionError):
        raise UsageError(f"--compare: the tolerance {tolerance[:60]!r} is not a number") from None
    if not name or not compare:
        raise UsageError(
            f"--compare takes FIELD=HOW[:TOLERANCE], such as year=numeric:2, not {text!r}"
        )
    return simdb.Field(name, **given)


# -- what is looked at -----------------------------------------------------------------------------


class Side(Struct, frozen=True):
    """A table for which settings are proposed.

    Attributes:
        name: as the user gave it.
        sources: its files.
        key: its column of keys; None if rows have no key of their own.
        columns: all of them, but for that of the keys; none where there are no rows.
        rows: some of its rows, drawn at random.
        count: of all.
        reading: how it is read.
        dates: columns whose type says that their texts are dates.
    """

    name: str
    sources: Mapping[str, str]
    key: str | None
    columns: list[str]
    rows: list[Mapping[str, Any]]
    count: int
    reading: InputOptions
    dates: AbstractSet[str] = frozenset()

    def samples(self, kind: simdb.Record) -> list[dict[str, Any]]:
        """Return the rows drawn as records of a kind; bad ones are told when all are stored."""
        names, items = kind.field_names, kind.make_items(b"")
        records = ({name: row[name] for name in names if name in row} for row in self.rows)
        return [record for record in records if fits(items, record)]

    def fields(self) -> list[dict[str, Any]]:
        """Return the rows without their keys."""
        return [{name: row[name] for name in row if name != self.key} for row in self.rows]


def looked_at(
    inputs: Sequence[str], reading: InputOptions, sample: int = SAMPLED_ROWS, *, keyed: bool
) -> Side:
    """Read a table once: draw rows at random, and find the column of the keys.

    Args:
        inputs: its files.
        reading: how they are read.
        sample: how many rows are drawn.
        keyed: the first column has the keys if nothing else tells which.

    Raises:
        UsageError: it has no column so named, or no row of it can be read.
    """
    options = replace(reading, id_field=None).of(ANY_RECORD)
    name = " and ".join(inputs)
    sources = reading.sources(inputs, options)
    columns: dict[str, None] = {}
    unread: list[str] = []  # the first problem of a row that cannot be read
    dates: set[str] = set()

    def readable() -> Iterator[Mapping[str, Any]]:
        for fields in _rows_of(sources, options, dates):
            if not isinstance(fields, str):
                columns.update(dict.fromkeys(fields))
                yield fields
            elif not unread:
                unread.append(fields)

    rows, count = sampled(readable(), sample)
    key = reading.id_field
    if unread and not count:
        raise UsageError(f"{name}: no row of it can be read: {unread[0]}")
    if not count:
        return Side(name, sources, key, [], rows, count, reading)
    if key is None:
        first = next(iter(columns)) if keyed else None
        key = next((column for column in columns if column in PROPOSED_KEYS), first)
    elif key not in columns:
        raise UsageError(f"{name}: there is no column {key!r}; there are {', '.join(columns)}")
    others = [column for column in columns if column != key]
    if reading.make_keys is None:
        reading = replace(reading, id_field=key)
    else:  # nor is it compared
        rows = [{name: row[name] for name in row if name != key} for row in rows]
    return Side(name, sources, reading.id_field, others, rows, count, reading, dates)


def _rows_of(
    sources: Mapping[str, str], options: Any, dates: set[str]
) -> Iterator[Mapping[str, Any] | str]:
    """Yield the fields of each row; of bad ones, reported when the rows are stored, the problem.

    Names of columns of type date are added to ``dates``.
    """
    for source in sources:
        with open_rows(source, replace(options, below=sources, any_fields=True)) as reader:
            schema = reader.schema() if isinstance(reader, TableReader) else None
            dates |= set() if schema is None else set(arrow.dates_of(schema))
            for row in reader:
                try:
                    fields = reader.values(row.raw)
                except ValueError as error:
                    yield f"{reader.place(row.line)}: {row.problem or error}"
                else:
                    yield fields


def require_rows(sides: Sequence[Side]) -> None:
    """Raise NothingAlikeError if a table has no rows."""
    for side in sides:
        if not side.count:
            raise NothingAlikeError(f"{side.name}: there are no rows")


def proposed(sides: Sequence[Side], choices: RuleChoices, telling: Working) -> Proposal:
    """Return the settings that are proposed for one table or two.

    NothingAlikeError: there are none; columns that are left out have been told.
    """
    held = set.intersection(*({*side.columns, side.key} for side in sides))
    for text in choices.rule or ():
        if text in held and not held.issuperset(text.split("+")):
            raise UsageError(
                f"--rule {text} means {' and '.join(text.split('+'))}; the one column of this name "
                f"is {json.dumps(text, ensure_ascii=False)}, quotation marks included"
            )
    _require_no_keys(sides, choices)

    def known(left_out: Mapping[str, str]) -> dict[str, str]:
        """Leave out keys, and columns that are in both tables, but not in the rows drawn."""
        return {
            name: problem
            for name, problem in left_out.items()
            if name not in held or not problem.startswith(OF_ONE_TABLE)
        }

    try:
        proposal = propose_record(
            *(side.fields() for side in sides),
            rows=tuple(side.count for side in sides),
            fields=choices.fields(),
            candidates=choices.rules(),
            dates={name for side in sides for name in side.dates},
        )
    except NothingAlikeError as error:
        left_out = known(error.left_out)
        _tell_left_out(telling, left_out)
        raise NothingAlikeError(error.problem, left_out=left_out) from error
    return dataclasses.replace(proposal, left_out=known(proposal.left_out))


def _require_no_keys(sides: Sequence[Side], choices: RuleChoices) -> None:
    """Raise UsageError if a rule or a comparison names the column of the keys of a table."""
    parts = (part for rule in choices.rules() for part in rule_of(rule))
    named = {field.name for field in choices.fields()}.union(*(part.names for part in parts))
    for side in sides:
        if side.key in named:
            option = "--id-field" if side.key == sides[0].key else "--right-id-field"
            raise UsageError(
                f"{side.name}: column {side.key!r} has the keys, which are not compared; "
                f"{option} names another"
            )


def tell_choice(telling: Working, sides: Sequence[Side], proposal: Proposal | None) -> None:
    """Report the tables and the proposal."""
    for side in sides:
        rows = counted(side.count, "row", "rows")
        keys = "" if side.key is None else f", keys in the column {side.key!r}"
        telling.note(f"{side.name}: {rows}{keys}")
    if proposal is None:
        return
    for field in proposal.kind.fields:
        within = "" if field.compare in _BY_SIMILARITY else f" within {field.tolerance:g}"
        reason = proposal.reasons[field.name]
        telling.note(f"field {field.name!r}: {field.compare}{within} ({reason})")
    _tell_left_out(telling, proposal.left_out)
    for rule, pairs in proposal.pairs.items():
        telling.note(f"rule {rule}: about {pairs:,.0f} pairs")


def _tell_left_out(telling: Working, left_out: Mapping[str, str]) -> None:
    """Report the columns that no field is made of, and why."""
    for name, problem in left_out.items():
        telling.note(f"column {name!r} is left out because it {problem}")


def of_whole_rows(
    sides: Sequence[Side], error: NothingAlikeError, names: Sequence[str] | None = None
) -> list[Side]:
    """Return tables whose rows are read as sets that only equal rows share, with a warning.

    Tables without rows are read as such tables, too.

    Args:
        sides: one table, whose values count as they are given; or two, which may have their values
            in other forms and share some columns.
        error: why nothing better is known.
        names: the columns that count; by default all, or all that both have.
    """
    shared = [name for name in sides[0].columns if name in sides[-1].columns]
    which = "that both have" if sides[1:] else ""
    if names is not None:
        shared, which = list(names), "that the settings name"
    how = f"; {told_of_whole_rows(which, shared, error.left_out)}"
    note(f"warning: {error.problem}{how if all(side.count for side in sides) else ''}")
    forms = whole_rows(shared, *(side.rows for side in sides))
    return [
        replace(side, reading=replace(side.reading, text_field=shared, whole_rows=forms))
        for side in sides
    ]


def proposed_for_one(
    side: Side,
    choices: RuleChoices,
    least: Fraction | None,
    opened: Callable[[], AbstractContextManager[simdb.Database]],
    telling: Working,
) -> tuple[simdb.Record, Fraction]:
    """Return settings for one table, and the lowest similarity of a match.

    Args:
        side: the table.
        choices: what is said in the place of a proposal.
        least: the similarity, by weights as they are; None where weights are to be learnt.
        opened: opens a store for that, which is thrown away.
        telling: tells people what was chosen.
    """
    proposal = proposed([side], choices, telling)
    tell_choice(telling, [side], proposal)
    kind = proposal.kind
    if least is not None:
        return kind, least
    with opened() as database, telling.bar() as bar:
        table = stored(database, side, kind, None, bar)
        weights, least = learnt([table], 0.5, telling, bar, proposal=proposal)
    return cast("simdb.Record", weights.kind), least


# -- what is learnt --------------------------------------------------------------------------------


def stored(
    database: simdb.Database,
    side: Side,
    kind: Kind,
    least: Fraction | None,
    bar: ProgressBar,
    *,
    feeds: list[Feed] | None = None,
) -> simdb.Collection:
    """Store a table, under its keys or the numbers of its rows.

    Its bad rows are told if its rows are to be noted among ``feeds``; others tell them later.
    """
    name = "left" if "left" not in database else "right"
    seed = content_seed(side.sources, None) or 0
    target = database.create_collection(name, kind, threshold=least or Fraction(1, 2), seed=seed)
    options = side.reading.of(kind)
    options = replace(options, raw=False, metadata=False, below=side.sources)
    feed = Feed(side.sources, options, on_bad=side.reading.when_bad)
    rows: Any = feed
    if side.key is None:
        rows = ((number, row[1]) for number, row in enumerate(feed))
    settle: Any = None
    if feeds is not None:
        feeds.append(feed)
        settle = partial(_settle, feed)
    try:
        how: dict[str, Any] = {"on_bad": side.reading.when_bad, "outcomes": settle}
        target.add_many(rows, progress=bar.callback, **how)
    except KeyExistsError as error:
        told = feed.placed(error).problem
        option = "--right-id-field" if name == "right" else "--id-field"
        raise UsageError(
            f"{told}: the column {side.key!r} is not unique; {option} names another"
        ) from error
    except UsageError as error:
        raise feed.placed(error) from error
    return target


def _settle(feed: Feed, outcomes: Outcomes) -> None:
    """Tell the bad rows of a commit."""
    for _ in feed.settled(outcomes):
        pass


def learnt(
    sides: Sequence[simdb.Collection],
    probability: float,
    telling: Working,
    bar: ProgressBar,
    *,
    proposal: Proposal | None,
    one_to_one: bool = False,
) -> tuple[simdb.Weights, Fraction]:
    """Return the weights learnt from one or two collections, and the lowest matching similarity.

    NothingAlikeError: none can be learnt; it has the columns that a proposal left out.
    """
    left, *others = sides
    try:
        other = others[0] if others else None
        weights = left.learn(other=other, one_to_one=one_to_one, progress=bar.callback)
    except NothingAlikeError as error:
        left_out = None if proposal is None else proposal.left_out
        raise NothingAlikeError(error.problem, left_out=left_out) from error
    except ConfigurationError as error:
        raise UsageError(f"no weights can be learnt: {error.problem}; {AS_THEY_ARE}") from error
    try:
        least = weights.threshold(probability)
    except ConfigurationError as error:
        why = (
            "; --one-to-one is misled by rows that a table has twice: deduplicate that table, or "
            "leave out --one-to-one"
        )
        told = f"{error.problem}{why if one_to_one else ''}; {AS_THEY_ARE}"
        raise UsageError(told) from error
    told = f"about {weights.matches:,.0f} matches among {weights.pairs:,} candidates"
    telling.note(f"learnt: {told}; pairs match from similarity {float(least):g}")
    for warning in weights.warnings:
        note(f"warning: {warning}")
    return weights, least

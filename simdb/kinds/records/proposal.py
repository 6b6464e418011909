"""Settings of records proposed from the data: how columns are compared, and rules of candidates.

What a column holds is told by a sample of its values: numbers, digits of one length, how many words
they are, how many of them differ. Its rule is the most forgiving one that proposes few enough pairs
of two tables, or of one; columns whose values too many records share make rules of two.
"""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, combinations
from numbers import Real
from typing import Any, TypeAlias, TypeVar

import numpy as np

from simdb import arrow
from simdb.arguments import is_whole, require_once, several, short
from simdb.errors import BadItemError, ConfigurationError, NothingAlikeError, WrongTypeError
from simdb.kinds.base import Items, shown
from simdb.kinds.records import (
    MOST_FIELDS,
    Alike,
    Edits,
    Equal,
    Field,
    Part,
    Record,
    RecordFamily,
    Rule,
    Within,
)
from simdb.kinds.records.items import (
    PLAIN,
    RecordItems,
    as_float,
    native,
    plain_value,
    read_day,
    text_size,
)
from simdb.kinds.records.rules import meetings

Row: TypeAlias = Mapping[str, Any]
T = TypeVar("T")

OF_ONE_TABLE = "is only in the"  # left or right table: how what is told of such a column begins
SAMPLED_ROWS = 5_000  # of each table, by which settings are proposed
PAIRS_A_ROW = 20  # that a rule may propose
PAIRS_OF_ALL = 10  # a row, that rules may propose together, from the third on
LEAST_RULES = 3
MOST_RULES = 16
WORDS_OF_A_TEXT = 4  # on average, from which on a value is a set of words
FEW_VALUES = 20
SHARE_OF_NUMBERS = 0.95
DIGITS_OF_A_CODE = 4
LENGTH_OF_A_DAY = len("2001-12-31")
YEARS = range(1500, 2200)
_VALUES = (str, Real, Decimal, datetime.date)
_NO_VALUES = (bool, np.timedelta64)  # which Python and NumPy count among the numbers
TYPED = 2_000  # values of a column, by which it is told what it holds
_RULES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings that were proposed for one or two tables of records.

    Attributes:
        kind: the settings, with the word counts of the rows that were looked at.
        reasons: why each field is compared as it is.
        left_out: why a column is not a field.
        pairs: about how many pairs of the tables each rule proposes, by the rule in words; one that
            shares several keys counts as often.
    """

    kind: Record
    reasons: Mapping[str, str]
    left_out: Mapping[str, str]
    pairs: Mapping[str, float]


def sampled(rows: Iterable[T], most: int = SAMPLED_ROWS) -> tuple[list[T], int]:
    """Return some rows drawn at random, of the same rows the same, and how many rows there are."""
    chance = random.Random(0)  # noqa: S311 - a draw that nobody can gain by
    drawn: list[T] = []
    count = 0
    for count, row in enumerate(rows, 1):
        if len(drawn) < most:
            drawn.append(row)
        elif (place := chance.randrange(count)) < most:
            drawn[place] = row
    return drawn, count


def propose_record(
    left: Sequence[Row],
    right: Sequence[Row] | None = None,
    *,
    rows: tuple[int, ...] | None = None,
    fields: Collection[Field] = (),
    candidates: Sequence[Any] = (),
    dates: Collection[str] = (),
) -> Proposal:
    """Propose settings of records to link two tables, or to deduplicate one.

    Long texts are compared by their words, rare words counting more; short texts by typing errors,
    numbers by their difference, codes and dates by their digits. The same rows give the same
    settings. All weights are 100; ``Collection.learn`` finds better ones.

    Args:
        left, right: rows of each table, all or a sample, without their keys; all common columns are
            looked at. Without ``right``, pairs are those of one table.
        rows: how many rows each table has; by default those given.
        fields: how some columns are compared, in place of a proposal.
        candidates: the rules, in place of a proposal.
        dates: columns of type date in tables whose rows have them as texts, 2001-12-31.

    Raises:
        NothingAlikeError: no column tells rows apart, or no rule proposes few enough pairs.
        ConfigurationError: the tables share no column, ``fields`` names another one, a column has
            both texts and fractional numbers or dates and others, there are more columns than a
            record may have, or ``rows`` are not as many numbers as tables.
        BadItemError: a row is no mapping; or each of a table has a value that does not fit how its
            field is compared (such rows count for nothing where others do).
        WrongTypeError: a table is no iterable of rows, or a frame, whose rows are to be dicts; or
            ``fields`` has what is no field.

    >>> people = [{"name": f"name {n:x}{n * n}", "born": 1900 + n % 90} for n in range(500)]
    >>> propose_record(people, people).reasons
    {'name': 'short texts', 'born': 'numbers'}
    """
    named = {"left": left} if right is None else {"left": left, "right": right}
    tables = tuple(_read(name, table) for name, table in named.items())
    counts = _counts(rows, tables)
    days = set(several("dates", dates, "names"))
    given_rules = list(several("candidates", candidates, "rules"))
    shared = _shared(tables)
    chosen = {field.name: field for field in _fields(fields)}
    unknown = next((name for name in chosen if name not in shared), None)
    alone = _alone(tables)
    if unknown is not None:
        known = ", ".join(map(repr, shared)) or "none"
        told = (
            f"column {unknown!r} {alone[unknown]}"
            if unknown in alone
            else (
                f"{'the table has' if right is None else 'both tables have'} no column {unknown!r}"
            )
        )
        there = "it has" if right is None else "they share"
        raise ConfigurationError(f"{told}; {there} {known}")
    made: list[Field] = []
    reasons: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name in shared:
        sides = [[native(row[name]) for row in side if _is_there(row.get(name))] for side in tables]
        problem = _problem(name, sides, is_chosen=name in chosen) if name != "" else "has no name"
        if problem is not None:
            left_out[name] = problem
            continue
        field, reason = chosen.get(name), "as given"
        if field is None:
            proposed, reason = _field(name, sides, is_date=name in days)
            field = proposed.changed(invalid="missing")  # in rows that were not looked at, too
        made.append(field)
        reasons[name] = reason
    if not made:
        told = "; ".join(f"{name!r} {problem}" for name, problem in left_out.items())
        if not shared:
            which = "the table has" if right is None else "the tables share"
            other = "".join(
                f"; the left one has {short(name)}, the right one {short(twin)}: rename one"
                for name, twin in [*_twins(tables).items()][:1]
            )
            raise ConfigurationError(f"{which} no column to compare{other}")
        which = "the table" if right is None else "both tables"
        told = f"no column of {which} tells rows apart: {told}"
        raise NothingAlikeError(told, left_out=alone)
    left_out |= alone
    if len(made) > MOST_FIELDS:
        raise ConfigurationError(
            f"there are {len(made)} columns to compare, more than the {MOST_FIELDS} of a record"
        )
    samples = [
        [{name: row[name] for name in row if name in reasons} for row in side] for side in tables
    ]
    estimate = _Estimate(tuple(made), samples, counts)
    if given_rules:
        given = estimate.counted(Record(made, given_rules))
        return Proposal(given, reasons, left_out, dict(estimate.of(given.rules)))
    rules = _rules(estimate, left_out)
    words = {" and ".join(map(str, rule)): pairs for rule, pairs in rules.items()}
    return Proposal(estimate.counted(Record(made, list(rules))), reasons, left_out, words)


def _read(name: str, table: Sequence[Row]) -> list[Row]:
    """Return the rows of a table; BadItemError: one is no mapping; WrongTypeError: a frame."""
    rows = list(several(name, table, "rows"))
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            if arrow.is_table(table) or arrow.is_pandas(table):  # which yields its columns
                raise WrongTypeError(
                    f"{name} must be a list of dicts, not {type(table).__name__}: "
                    f"{_dicts_of(table)} makes one"
                )
            problem = f"row {number} must be a mapping of field names to values, not {shown(row)}"
            raise BadItemError(problem, row=number)
    return rows


def _counts(given: Any, tables: Sequence[Sequence[Row]]) -> tuple[int, ...]:
    """Return how many rows each table has; ConfigurationError: that was not given for each."""
    if given is None:
        return tuple(map(len, tables))
    counts = tuple(given) if isinstance(given, Sequence) else ()
    if len(counts) != len(tables) or not all(is_whole(count) and count >= 0 for count in counts):
        each = "a whole number" if len(tables) == 1 else "two whole numbers"
        raise ConfigurationError(
            f"rows must be {each} in a tuple, how many rows each table has, not {short(given)}"
        )
    return tuple(map(int, counts))


def _fields(given: Any) -> list[Field]:
    """Return fields that replace a proposal; WrongTypeError: one is none."""
    fields = list(several("fields", given, "Field"))
    for field in fields:
        if not isinstance(field, Field):
            raise WrongTypeError(f"fields must be Field objects, not {shown(field)}")
    require_once([field.name for field in fields], "fields has the field")
    return fields


def _dicts_of(table: object) -> str:
    """Return the call that makes dicts of a table, as a user writes it."""
    if arrow.is_pandas(table):
        return 'frame.to_dict("records")'
    return "frame.to_dicts()" if arrow.is_polars(table) else "table.to_pylist()"


def _shared(tables: Sequence[Sequence[Row]]) -> list[str]:
    """Return the names of columns that all have, in the order of the first."""
    names = [dict.fromkeys(chain.from_iterable(side)) for side in tables]
    return [name for name in names[0] if name in names[-1]]


def _of_one(tables: Sequence[Sequence[Row]]) -> list[list[str]]:
    """Return the names of columns that the first has alone, and those that the last has."""
    names = [dict.fromkeys(chain.from_iterable(side)) for side in tables]
    first, last = names[0], names[-1]
    sides = (first, last), (last, first)
    return [[name for name in own if name not in others] for own, others in sides]


def _twins(tables: Sequence[Sequence[Row]]) -> dict[str, str]:
    """Return columns of the left table alone, each with that of the right one meant by its name.

    The two names are equal but for the case of letters and blanks around them.
    """
    left, right = _of_one(tables)
    meant = {_meant_by(name): name for name in reversed(right)}
    return {name: meant[_meant_by(name)] for name in left if _meant_by(name) in meant}


def _meant_by(name: str) -> str:
    return str(name).strip().casefold()


def _alone(tables: Sequence[Sequence[Row]]) -> dict[str, str]:
    """Return the columns that one of two tables has alone, each with what to tell of it."""
    left, right = _of_one(tables)
    told = dict.fromkeys(left, f"{OF_ONE_TABLE} left table")
    for name, twin in _twins(tables).items():
        told[name] += f"; the right one has {short(twin)}: rename one"
    return told | dict.fromkeys(right, f"{OF_ONE_TABLE} right table")


def _is_there(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value) and not value.isspace()
    return not arrow.is_nothing(value) and bool(str(value).strip())


def _is_value(kind: type) -> bool:
    """Whether values of a type are such as fields have, or are refused where they are read."""
    return issubclass(kind, _VALUES) and not issubclass(kind, _NO_VALUES)


def _refusal(name: str, value: Any) -> str | None:
    """Return why no record can hold a text or a whole number; None if one can."""
    try:
        if isinstance(value, str):
            text_size(name, value)
        elif isinstance(value, int):
            plain_value(name, value)
    except BadItemError as error:
        return error.problem
    return None


def _problem(name: str, sides: Sequence[Sequence[Any]], *, is_chosen: bool) -> str | None:
    """Return why a column is no field, by its values that are there; None if it is one."""
    if not all(sides):
        if len(sides) == 1:
            return "has no value"
        without = [
            side for side, values in zip(("left", "right"), sides, strict=True) if not values
        ]
        return f"has no value in the {' and the '.join(without)} table"
    if is_chosen:
        return None
    both = [*chain.from_iterable(sides)]
    if not all(map(_is_value, {*map(type, both)})):
        odd = [value for value in both if not _is_value(type(value))]
        few = f"{len(odd):,} of {len(both):,} values, such as {short(odd[0])}"
        return f"holds what is neither a text, a number nor a date: {few}"
    refused = [[told for value in side if (told := _refusal(name, value))] for side in sides]
    if _are_many([*map(len, refused)], sides):  # fewer make bad rows of theirs
        why = [*chain.from_iterable(refused)]
        return f"holds what no record can: {len(why):,} of {len(both):,} values; {why[0]}"
    return "is the same everywhere" if len({*map(str, both)}) == 1 else None


def _field(
    name: str, sides: Sequence[Sequence[Any]], *, is_date: bool = False
) -> tuple[Field, str]:
    """Propose how a column is compared, and say what it holds."""
    values = [*chain.from_iterable(sides)]
    found = _date_field(name, sides, is_date=is_date)
    if found is not None:
        return found
    numbers = _numbers(sides)
    is_plain = not any(isinstance(value, float) and math.isfinite(value) for value in values)
    texts = [str(value) for value in values[:: math.ceil(len(values) / TYPED)]]
    digits = ["".join(filter(str.isdigit, text)) for text in texts]
    marks = sum(sum(map(str.isalnum, text)) for text in texts)
    if is_plain and sum(map(len, digits)) >= 0.95 * max(1, marks) and not _measures(texts, numbers):
        size = sum(map(len, digits)) / len(digits)
        if size >= DIGITS_OF_A_CODE:
            tolerance = max(2, round(size / 2))
            field = Field(name, compare="levenshtein", tolerance=tolerance, prepare="digits")
            return field, "codes or dates, by their digits"
    if numbers is not None:
        return _number_field(name, numbers, len(values) - len(numbers))
    if is_plain:
        return _text_field(name, texts, [set(map(str.lower, map(str, side))) for side in sides])
    plain = [[value for value in side if not isinstance(value, float)] for side in sides]
    others = [len(side) - len(kept) for side, kept in zip(sides, plain, strict=True)]
    if _are_many(others, sides):
        raise ConfigurationError(
            f"the column {name!r} has both texts and fractional numbers: say how to compare it"
        )
    field, reason = _field(name, plain)
    return field, f"{reason}; {sum(others):,} other values are missing ones"


def _date_field(
    name: str, sides: Sequence[Sequence[Any]], *, is_date: bool
) -> tuple[Field, str] | None:
    """Propose how dates are compared, and say so; None if the column holds none."""
    values = [*chain.from_iterable(sides)]
    by_type = [isinstance(value, datetime.date) for value in values]
    if all(by_type):
        return Field(name, compare="date", tolerance=31), "dates"
    in_two_forms = _are_in_two_forms(values)
    if not (is_date or in_two_forms or any(by_type)):
        return None
    others = [sum(not _is_day(name, value) for value in side) for side in sides]
    field = Field(name, compare="date", tolerance=31)
    if not any(others):
        return field, "dates, with and without the time of midnight" if in_two_forms else "dates"
    if not any(by_type):
        return None
    if _are_many(others, sides):
        if _numbers(sides) is not None:
            return None
        raise ConfigurationError(
            f"the column {name!r} has both dates and other values: say how to compare it"
        )
    return field, f"dates; {sum(others):,} other values are missing ones"


def _are_many(others: Sequence[int], sides: Sequence[Sequence[Any]]) -> bool:
    """Whether too many values are others for these to be missing ones.

    In each table as well: where one had hardly any value left, nothing of it would be alike.
    """
    sizes = [*map(len, sides)]
    of_one = any(2 * count > size for count, size in zip(others, sizes, strict=True))
    return of_one or sum(others) > (1 - SHARE_OF_NUMBERS) * sum(sizes)


def _are_in_two_forms(values: Sequence[Any]) -> bool:
    """Whether some values are longer than a date, as with the times that those of pandas have."""
    return len({len(str(value)) > LENGTH_OF_A_DAY for value in values}) == 2


def _is_day(name: str, value: Any) -> bool:
    """Whether a value, of type date or a text, is a date."""
    try:
        return read_day(name, str(value)) is not None
    except BadItemError:
        return False


def _number_field(name: str, numbers: Sequence[float], others: int) -> tuple[Field, str]:
    low, high = np.quantile(numbers, [0.25, 0.75]).tolist()
    is_whole = all(map(float.is_integer, numbers))
    tolerance = max((high - low) / 4, 2.0 if is_whole else abs(high) / 50 or 1.0)
    rounded = min(max(float(f"{tolerance:.2g}"), 1e-6), 1e6)
    field = Field(name, compare="numeric", tolerance=rounded)
    return field, f"numbers; {others:,} other values are missing ones" if others else "numbers"


def _text_field(name: str, texts: Sequence[str], distinct: Sequence[set[str]]) -> tuple[Field, str]:
    """Propose how texts are compared, by some of them and by all that differ on each side."""
    words = Counter(len(text.split()) for text in texts)
    if sum(count * times for count, times in words.items()) / len(texts) >= WORDS_OF_A_TEXT:
        return Field(name, compare="cosine", prepare=PLAIN), "long texts, by their words"
    few = max(map(len, distinct)) <= min(FEW_VALUES, len(texts) / 10)
    if few and distinct[0] & distinct[-1]:
        return Field(name, compare="exact", prepare=PLAIN), "few different values"
    with_digits = sum(any(map(str.isdigit, text)) for text in texts)
    if words[1] >= 0.8 * len(texts) and with_digits <= 0.05 * len(texts):
        return Field(name, compare="jaro-winkler", prepare=PLAIN), "names"
    tolerance = max(2, min(20, round(sum(map(len, texts)) / len(texts) / 2)))
    return Field(name, compare="levenshtein", tolerance=tolerance, prepare=PLAIN), "short texts"


def _numbers(sides: Sequence[Sequence[Any]]) -> list[float] | None:
    """Return the values that are numbers; None where too many of a table are none."""
    known = {value: as_float(value) for value in dict.fromkeys(chain.from_iterable(sides))}
    told = [[known[value] for value in side] for side in sides]
    # What is infinite is no text, and no reason against the others.
    finite = [[value for value in side if not math.isinf(value)] for side in told]
    numbers = list(filter(math.isfinite, chain.from_iterable(finite)))
    others = [sum(map(math.isnan, side)) for side in finite]
    return None if not numbers or _are_many(others, finite) else numbers


def _measures(texts: Sequence[str], numbers: Sequence[float] | None) -> bool:
    """Whether numbers say how much or when, as years do; codes and dates have a length."""
    if numbers is None:
        return False
    if all(number in YEARS for number in numbers) or not all(map(float.is_integer, numbers)):
        return True
    (_, most), *_ = Counter(map(len, texts)).most_common(1)
    return most < 0.9 * len(texts)


# -- rules -----------------------------------------------------------------------------------------


class _Estimate:
    """How many pairs rules propose of two tables, or of one, by samples of them."""

    def __init__(
        self, fields: tuple[Field, ...], samples: Sequence[Sequence[Row]], rows: tuple[int, ...]
    ) -> None:
        self.fields = fields
        self.rows = sum(rows)
        self.most = PAIRS_A_ROW * self.rows
        # Any field may be looked at: all are scored.
        items = RecordItems(Record(fields))
        try:
            self._features = items.features_of([*chain.from_iterable(samples)])
        except BadItemError:
            fitting = [[row for row in side if fits(items, row)] for side in samples]
            if not all(fitting):
                raise
            samples = fitting
            self._features = items.features_of([*chain.from_iterable(samples)])
        self._ends = np.cumsum([*map(len, samples)])[:-1]
        self._times = rows[0] * rows[-1] / max(1, len(samples[0]) * len(samples[-1]))

    def of(self, rules: Sequence[Rule]) -> Iterator[tuple[str, float]]:
        """Yield each rule in words, and its pairs; those that share several keys count as often."""
        known = {field.name: field for field in self.fields}
        for begin in range(0, len(rules), _RULES_AT_ONCE):
            some = rules[begin : begin + _RULES_AT_ONCE]
            counted = [tuple(part.counted(known, self._features) for part in rule) for rule in some]
            family = RecordFamily(Record(self.fields, counted), b"")
            signed = np.split(family.sign(self._features), self._ends)
            for number, rule in enumerate(some):
                met, _ = meetings(*(family.keys_of_rule(side, number) for side in signed))
                yield " and ".join(map(str, rule)), self._times * int(met.sum())

    def counted(self, kind: Record) -> Record:
        """Return settings with the words of the samples counted."""
        return kind.counted_by(self._features)

    def fitting(self, rules: Sequence[Rule]) -> dict[Rule, float]:
        """Return the rules that propose few enough pairs, and any, with their number."""
        counted = zip(rules, self.of(rules), strict=True)
        return {rule: pairs for rule, (_, pairs) in counted if 0 < pairs <= self.most}


def fits(items: Items, row: Row) -> bool:
    """Whether a row can be stored as a record."""
    try:
        items.encode(row)
    except BadItemError:
        return False
    return True


def _rules(estimate: _Estimate, left_out: Mapping[str, str]) -> dict[Rule, float]:
    """Return rules of one field each, and of two for fields that make none alone.

    NothingAlikeError: there are none; it has the columns that were left out.
    """
    chosen: dict[Rule, float] = {}
    others = []
    for parts in map(_ladder, estimate.fields):
        widest: dict[Rule, float] = {}
        for part in parts:
            ((_, pairs),) = estimate.of([(part,)])
            if pairs > estimate.most:
                break  # those that follow propose these pairs too
            if pairs:
                widest = {(part,): pairs}
        if not widest:
            others.append(parts[0])
        chosen |= widest
    of_two = estimate.fitting([*combinations(others, 2)])
    chosen |= dict(sorted(of_two.items(), key=lambda one: one[1]))
    if not chosen and len(others) > 2:
        chosen = estimate.fitting([tuple(others)])
    if not chosen:
        if not any(pairs for _, pairs in estimate.of([(part,) for part in others])):
            told = "no two rows agree in any column that tells rows apart"
            raise NothingAlikeError(told, left_out=left_out)
        raise NothingAlikeError(
            f"no rule proposes some pairs, and at most {estimate.most:,} (rules may be given)",
            left_out=left_out,
        )
    return _cheapest(chosen, estimate.rows * PAIRS_OF_ALL)


def _cheapest(chosen: Mapping[Rule, float], most: float) -> dict[Rule, float]:
    """Return the rules of the fewest pairs, three and as many more as propose few together.

    Who matches agrees in most fields: what many rules do not find hardly one more does.
    """
    kept: list[Rule] = []
    pairs = 0.0
    for rule in sorted(chosen, key=chosen.__getitem__)[:MOST_RULES]:
        pairs += chosen[rule]
        if len(kept) >= LEAST_RULES and pairs > most:
            break
        kept.append(rule)
    return {rule: own for rule, own in chosen.items() if rule in kept}


def _ladder(field: Field) -> list[Part]:
    """Return rules for a field alone, the strictest one first."""
    name = field.name
    if field.compare == "cosine":
        return [Equal(name), Alike(name, 0.6, recall=1), Alike(name, 0.4, recall=1)]
    if field.compare == "numeric":
        return [Within(name, field.tolerance)]
    if field.compare in ("levenshtein", "jaro-winkler") and field.prepare != ("digits",):
        return [Equal(name), Edits(name, 1)]
    return [Equal(name)]

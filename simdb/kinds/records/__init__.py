"""Records: their fields, and which fields of two records make them candidates (MMDS 3.8).

A rule sends two records to one bucket if the fields that it names are equal, as they are or
transformed (MMDS 3.8.2). What agrees in no rule is no candidate, whatever its score: the answer is
exact among candidates, and ``certain_above`` says above which similarity a pair must be one.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import combinations
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeAlias, cast, get_args

import numpy as np
from msgspec import Meta

from simdb.arrays import UInt16s, UInt64s
from simdb.errors import ConfigurationError
from simdb.kinds.base import OBJECTS, Differences, Examples, Items, Kind, Measure, Settings
from simdb.kinds.records.items import (
    COUNTED,
    HUNDREDTHS,
    TRANSFORMATIONS,
    RecordColumn,
    RecordFeatures,
    RecordItems,
    RecordMeasure,
    chained,
)
from simdb.lsh.curves import CertainCurve, Curve
from simdb.lsh.family import BucketKeys, Family, SketchScheme, secret_words
from simdb.lsh.planning import Plan, PlanRequest
from simdb.ragged import offsets_of

TextComparison: TypeAlias = Literal["edit", "levenshtein", "alignment", "damerau", "words", "exact"]
Comparison: TypeAlias = Literal[TextComparison, "numeric", "date"]

TEXT_COMPARISONS: tuple[str, ...] = get_args(TextComparison)

LARGEST_WEIGHT = 1_000_000
LARGEST_TOLERANCE = 1_000_000
LARGEST_WHOLE_TOLERANCE = 65_535
MOST_FIELDS = 64
MOST_RULES = 64
WORDS_A_RULE = 4
_MOST_FIELDS_SEARCHED = 12
_SECRET_WORDS = 4
_NO_DIGEST = bytes(8)
_KEEPS_SOMETHING = ("lowercase", "first", "last")


def _listed(given: object, problem: str, *, one: type | UnionType | None = None) -> tuple[Any, ...]:
    """Return the parts of a collection, ``one`` part alone as a tuple of one; else the problem."""
    if one is not None and isinstance(given, one):
        return (given,)
    if isinstance(given, str | Equal) or not isinstance(given, Iterable):
        raise ConfigurationError(problem)
    return tuple(given)


def _require_transformations(owner: str, given: object) -> tuple[str, ...]:
    """Return the names of transformations, one alone as a tuple of one."""
    kept = _listed(given, f"{owner} must be a sequence of names, not {given!r}", one=str)
    for name in kept:
        if isinstance(name, str) and (name in TRANSFORMATIONS or COUNTED.fullmatch(name)):
            continue
        raise ConfigurationError(
            f"{owner} names {name!r}, which is none of {', '.join(TRANSFORMATIONS)}, first:4, "
            "last:4 (or another number)"
        )
    return kept


class Field(Settings, frozen=True):
    """One field of a record: how two values of it are compared, and what that counts.

    Two values at the difference d get ``weight * max(0, 1 - (d / tolerance)^2)`` points, cut to
    whole hundredths. With the weight of 100 and the tolerance of 10 that is 100 - d^2: as in MMDS
    3.8.2 the penalty grows quadratically with the distance.

    Attributes:
        name: the key of its value in a record.
        weight: the points of two equal values; 0 keeps a field that is not scored, such as the one
            that scores are calibrated by (MMDS 3.8.3).
        compare: the difference. Of texts: ``"edit"`` counts insertions and deletions of characters
            (MMDS 3.5.5), ``"levenshtein"`` also mutations, ``"damerau"`` also transpositions
            (exercise 3.5.8) and ``"alignment"`` does that five times as fast where nothing is
            edited twice; ``"words"`` gives the points by the Jaccard similarity of the words
            instead, ``"exact"`` gives all or none. ``"numeric"`` is the difference of numbers,
            ``"date"`` of days.
        tolerance: the difference that leaves no points; a whole number for all but numbers.
        prepare: transformations of a text, in their order, before anything is compared.
        equivalents: groups of words or values that stand for each other: ``[("william", "bill")]``.
            Values that are equal but for such words differ in one letter (MMDS 3.8.2); ``"words"``
            takes them for the same word.
        missing: the points if one value is missing or both are: by default 0, as if nothing were
            alike. ``"ignore"`` takes the field out of the score and of the total that it is
            measured against; then two records that share a single field can be equal by it.
        invalid: what a value is that cannot be read, such as the 31st of February: ``"refuse"`` it
            with an error, or store it and take it for ``"missing"`` when comparing.
    """

    name: Annotated[str, Meta(min_length=1)]
    weight: Annotated[int, Meta(ge=0, le=LARGEST_WEIGHT)] = 100
    compare: Comparison = "edit"
    tolerance: (
        Annotated[int, Meta(gt=0, le=LARGEST_TOLERANCE)]
        | Annotated[float, Meta(gt=0, le=LARGEST_TOLERANCE)]
    ) = 10
    prepare: str | Sequence[str] = ("lowercase", "collapse")
    equivalents: Sequence[Sequence[str]] = ()
    missing: Annotated[int, Meta(ge=0)] | Literal["ignore"] = 0
    invalid: Literal["refuse", "missing"] = "refuse"

    def __post_init__(self) -> None:
        prepare = _require_transformations(f"field {self.name!r}: prepare", self.prepare)
        self._set("prepare", prepare)
        self._set("equivalents", self._require_equivalents())
        super().__post_init__()
        whole = math.trunc(self.tolerance) == self.tolerance <= LARGEST_WHOLE_TOLERANCE
        if self.compare != "numeric" and not whole:
            raise ConfigurationError(
                f"field {self.name!r}: the tolerance of {self.compare!r} must be a whole number of "
                f"at most {LARGEST_WHOLE_TOLERANCE:,}, not {self.tolerance!r}"
            )
        if self.missing != "ignore" and self.missing > self.weight:
            raise ConfigurationError(
                f"field {self.name!r}: missing must be 'ignore' or points from 0 to the weight of "
                f"{self.weight}, not {self.missing!r}"
            )
        if self.equivalents and not self.is_text:
            raise ConfigurationError(
                f"field {self.name!r}: equivalents are of texts, not of compare={self.compare!r}"
            )

    def _named(self, setting: str) -> str:
        return "Field.name" if setting == "name" else f"field {self.name!r}: {setting}"

    @property
    def is_text(self) -> bool:
        """Tell whether its values are compared as texts."""
        return self.compare in TEXT_COMPARISONS

    @property
    def least_loss(self) -> int:
        """The hundredths that it surely loses where it differs or has no value."""
        if self.missing == "ignore" or not self.is_text or self.compare == "words":
            return 0  # another number may differ by next to nothing, a text have the same words
        full, tolerance = HUNDREDTHS * self.weight, int(self.tolerance)
        one_letter = full - full * (tolerance**2 - 1) // tolerance**2
        return min(one_letter, full - HUNDREDTHS * self.missing)

    def _require_equivalents(self) -> tuple[tuple[str, ...], ...]:
        problem = (
            f"field {self.name!r}: equivalents must be groups of two strings or more that stand "
            f"for each other, such as [('william', 'bill')], not {self.equivalents!r}"
        )
        groups = tuple(_listed(group, problem) for group in _listed(self.equivalents, problem))
        for group in groups:
            if len(group) < 2 or not all(isinstance(value, str) and value for value in group):
                raise ConfigurationError(problem)
        return groups


class Equal(Settings, frozen=True):
    """Two records agree if this field of both is equal, both values being there (MMDS 3.8.2).

    ``Equal("phone", "digits")`` compares the digits, ``Equal("surname", "first:4")`` the first four
    letters. The field's own preparation comes first, and words of one group of its equivalents are
    equal. Numbers and dates are equal if they are the same number or day, however written.

    Attributes:
        field: the name of the field.
        transformations: what the value is turned into, in their order.
    """

    field: str
    transformations: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        names = _require_transformations(f"Equal({self.field!r})", self.transformations)
        self._set("transformations", names)
        super().__post_init__()

    def __str__(self) -> str:
        return " ".join((self.field, *self.transformations))


Rule: TypeAlias = tuple[Equal, ...]


class Record(Kind, frozen=True):
    """Records: mappings of field names to strings, numbers or dates (MMDS 3.8.1 to 3.8.3).

    The similarity of two records is the points of all fields by the sum of the weights. Only
    candidates are compared, those that agree in one of the rules: answers are exact among them, and
    what agrees in no rule is missed.

    Attributes:
        fields: all that a record may have; another field is refused.
        candidates: the rules. Each is an ``Equal``, the name of a field for its equality, or a
            tuple of several that must all hold. Nothing given means as in MMDS 3.8.2: one field
            that is scored must be equal, whichever.
        large_bucket: records that agree in one rule beyond which there is a warning, since
            each of them is compared with each: 1,000 records are half a million pairs.
    """

    fields: Sequence[Field]
    candidates: Sequence[str | Equal | Sequence[str | Equal]] = ()
    large_bucket: Annotated[int, Meta(ge=1)] = 1_000

    plural = "records"
    suffixes = OBJECTS | {".csv": "csv"}
    may_miss_equals = True

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        name, town = Field("name", weight=200), Field("town", equivalents=[("ny", "york")])
        people = [("smithson", "ulm"), ("anderson", "york"), ("jameson", "bonn"),
                  ("petersen", "oslo"), ("nielsen", "bern")]  # fmt: skip
        items = [{"name": person, "town": home} for person, home in people]
        near = [{**item, "name": item["name"][:-1] + "m"} for item in items]
        invalid = (None, 3.5, "x", ["ann"], {"age": 3}, {"name": ["ann"]})
        kind = cls([name, town], ["town", Equal("name", "first:3")])
        return (Examples(kind, "0.9", items, near, invalid),)

    def __post_init__(self) -> None:
        fields: object = self.fields
        kept = tuple(fields) if isinstance(fields, Iterable) else ()
        if not kept or not all(isinstance(field, Field) for field in kept):
            raise ConfigurationError(f"Record.fields must be a sequence of Field, not {fields!r}")
        if len(kept) > MOST_FIELDS:
            raise ConfigurationError(
                f"Record.fields are {len(kept)}, more than the {MOST_FIELDS} of a record"
            )
        self._set("fields", kept)
        names = [field.name for field in kept]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError(f"Record.fields has the field {twice!r} twice")
        if not self.total_weight:
            raise ConfigurationError("Record.fields must have a weight above 0 somewhere")
        self._set("candidates", self._require_rules())
        super().__post_init__()

    @property
    def total_weight(self) -> int:
        """The points of two records that are equal in all fields."""
        return sum(field.weight for field in self.fields)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of ``candidates``, each as all that must be equal."""
        return cast("tuple[Rule, ...]", self.candidates)

    def _require_rules(self) -> tuple[Rule, ...]:
        given = self.candidates
        problem = (
            f"Record.candidates must be a sequence of rules, not {given!r}; put it into a list"
        )
        rules = tuple(_rule(one) for one in _listed(given, problem))
        if not rules:
            rules = tuple((Equal(field.name),) for field in self.fields if field.weight)
        if len(rules) > MOST_RULES:
            raise ConfigurationError(
                f"Record.candidates are {len(rules)}, more than the {MOST_RULES} of a record"
            )
        by_name = {field.name: field for field in self.fields}
        for equal in (equal for rule in rules for equal in rule):
            if equal.field not in by_name:
                raise ConfigurationError(
                    f"Record.candidates names the field {equal.field!r}, which is none of "
                    f"{', '.join(by_name)}"
                )
        return rules

    # -- the contract ----------------------------------------------------------------------------

    def finding_equals(self, family: Family) -> Family:
        assert isinstance(family, RecordFamily)
        family.finds_equal = True
        return family

    def make_items(self, secret: bytes) -> Items:
        return RecordItems(self)

    def make_measure(self) -> Measure:
        return RecordMeasure(self)

    def make_curve(self, bound: Fraction) -> Curve:
        return CertainCurve(float(self.certain_above()))

    def certain_above(self) -> Fraction:
        """Return the largest similarity of two records that agree in no rule, from above.

        Such a pair differs, or lacks a value, in one field at least of every rule; the cheapest
        such fields are sought among all choices.
        """
        fields = {field.name: field for field in self.fields}
        rules = [{equal.field for equal in rule} for rule in self.rules]
        losses = {name: fields[name].least_loss for rule in rules for name in rule}
        for equal in (equal for rule in self.rules for equal in rule):
            stems = {name.partition(":")[0] for name in equal.transformations}
            if not stems.issubset(_KEEPS_SOMETHING):
                losses[equal.field] = 0  # equal values of which nothing is left have no bucket
        if len(losses) > _MOST_FIELDS_SEARCHED:
            return Fraction(1)
        cheapest = min(
            sum(losses[name] for name in chosen)
            for count in range(1, len(losses) + 1)
            for chosen in combinations(losses, count)
            if all(rule.intersection(chosen) for rule in rules)
        )
        return 1 - Fraction(cheapest, HUNDREDTHS * self.total_weight)

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        return RecordFamily(self, secret)

    def plan(self, bound: Fraction, request: PlanRequest) -> Plan:
        if not request.is_free:
            raise ConfigurationError("records have rules (candidates=...), not bands and rows")
        return Plan(bound, len(self.rules), 1, self.make_curve(bound))

    def can_have(self, bands: int, rows: int) -> bool:
        return (bands, rows) == (len(self.rules), 1)

    def index_in_words(self, bands: int, rows: int) -> str:
        return f"candidates by {bands:,} {'rule' if bands == 1 else 'rules'}"

    def stores_alike(self, other: Self) -> bool:
        return [field.name for field in self.fields] == [field.name for field in other.fields]

    def candidate_stats(
        self, family: Family, signatures: Callable[[], Iterator[UInt16s]], live: int
    ) -> dict[str, Any]:
        """Return what each rule makes candidates of, without making them, as plain values.

        ``records`` have a value for it, ``buckets`` of them are different, ``largest`` are in one,
        and ``pairs`` are candidates, those of other rules among them. The keys of one rule are held
        at a time. Nothing is left out of a large bucket: the warning says what it costs and what
        helps.
        """
        assert isinstance(family, RecordFamily)
        rules, warnings = [], []
        for number, rule in enumerate(self.rules):
            parts = [family.keys(rows)[:, [number]].ravel() for rows in signatures()]
            keys = np.concatenate([np.empty(0, np.uint64), *parts])
            of_rules = keys & np.uint64(family.finds_equal) == 0
            sizes = np.unique_counts(keys[(keys != 0) & of_rules]).counts
            words = " and ".join(map(str, rule))
            records, largest = int(sizes.sum()), int(sizes.max(initial=0))
            pairs = int((sizes * (sizes - 1) // 2).sum())
            counted = {"records": records, "buckets": sizes.size, "largest": largest}
            rules.append({"rule": words, **counted, "pairs": pairs})
            if largest > self.large_bucket:
                warnings.append(
                    f"{largest:,} records are equal in {words}: that rule compares {pairs:,} "
                    "pairs; ask for a second field in the same rule, or leave it out"
                )
        return {"rules": rules, "warnings": warnings}

    def field_differences(self, field: str) -> Differences:
        names = self.field_names
        if field not in names:
            raise ConfigurationError(f"there is no field {field!r}; there are {', '.join(names)}")
        if self.fields[names.index(field)].weight:
            raise ConfigurationError(
                f"the field {field!r} is scored: what is calibrated by must not be; rebuild with "
                "its weight 0"
            )
        if any(equal.field == field for rule in self.rules for equal in rule):
            raise ConfigurationError(
                f"a rule for candidates names the field {field!r}: of what is equal by the rule it "
                "tells nothing; rebuild without that rule"
            )
        fields = [one.changed(weight=int(one.name == field), missing=0) for one in self.fields]
        by_field = self.changed(fields=fields, candidates=[field])
        return RecordItems(by_field).differences(field)

    @classmethod
    def prepared(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings in which a field may be its name alone."""
        fields = described.get("fields")
        if not isinstance(fields, list):
            return dict(described)
        named = [{"name": field} if isinstance(field, str) else field for field in fields]
        return {**described, "fields": named}

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def plain_item(self, item: Mapping[str, object]) -> dict[str, object]:
        return {
            name: value.isoformat() if isinstance(value, datetime.date) else value
            for name, value in item.items()
        }

    def shown_item(self, item: Mapping[str, object]) -> str:
        return "; ".join(f"{name}: {value}" for name, value in item.items())


def _rule(given: object) -> Rule:
    """Return a rule as the tuple of all that must be equal."""
    problem = f"a rule must be an Equal, a field's name or a tuple of them, not {given!r}"
    rule = []
    for part in _listed(given, problem, one=str | Equal):
        equal = Equal(part) if isinstance(part, str) else part
        if not isinstance(equal, Equal):
            raise ConfigurationError(f"a rule is made of Equal and names, not {part!r}")
        rule.append(equal)
    if not rule:
        raise ConfigurationError("a rule must name a field: all records would be candidates")
    return tuple(rule)


# -- candidates -----------------------------------------------------------------------------------


class RecordFamily(Family):
    """Hash what each rule makes of a record; equal hashes are one bucket.

    Two different values of a rule have the same hash with a probability of about 2^-63, whoever
    chose them.

    Attributes:
        finds_equal: a record that has a value for no rule has one key, the hash of all its values,
            in the place of that of the first rule. It is odd, and the keys of rules are even.
    """

    def __init__(self, settings: Record, secret: bytes) -> None:
        self.rules = settings.rules
        self.words = WORDS_A_RULE * len(self.rules)
        equals = dict.fromkeys(equal for rule in self.rules for equal in rule)
        self._equals = tuple(equals)
        words = secret_words(secret, b"simdb.record", _SECRET_WORDS * len(equals))
        self._secrets = words.reshape(-1, _SECRET_WORDS).astype("<u8")
        count = sum(map(len, self.rules))
        # Odd factors, so that multiplying is a bijection; another one in each place of each rule.
        self._factors = secret_words(secret, b"simdb.rule", count) | np.uint64(1)
        self.finds_equal = False
        self._secret = secret

    def sign(self, features: RecordFeatures) -> UInt16s:
        """Return the signatures, uint16 (n, words): a hash of 64 bits a rule, 0 for no bucket."""
        hashed = {
            equal: _hashes(features.columns[equal.field], equal.transformations, own.tobytes())
            for equal, own in zip(self._equals, self._secrets, strict=True)
        }
        least = np.uint64(2 if self.finds_equal else 1)
        keys = np.zeros((len(features), len(self.rules)), np.uint64)
        place = 0
        for number, rule in enumerate(self.rules):
            there = np.ones(len(features), np.bool_)
            state = np.zeros(len(features), np.uint64)
            for equal in rule:
                there &= hashed[equal] != 0
                state += hashed[equal] * self._factors[place]
                place += 1
            keys[there, number] = np.maximum(state[there] & ~(least - np.uint64(1)), least)
        alone = ~keys.any(axis=1)
        if self.finds_equal and alone.any():
            keys[alone, 0] = self._hashes_of_all(features)[alone]
        return keys.view(np.uint16)

    def _hashes_of_all(self, features: RecordFeatures) -> UInt64s:
        """Return an odd hash of all values of each record, 0 of one without any."""
        secrets = secret_words(self._secret, b"simdb.equal", 5 * len(features.columns))
        state = np.zeros(len(features), np.uint64)
        there = np.zeros(len(features), np.bool_)
        for column, own in zip(features.columns.values(), secrets.reshape(-1, 5), strict=True):
            hashes = _hashes(column, (), own[:4].astype("<u8").tobytes())
            there |= hashes != 0
            state += hashes * (own[4] | np.uint64(1))
        return np.where(there, state | np.uint64(1), np.uint64(0))

    def keys(self, signatures: UInt16s) -> UInt64s:
        """Return the hashes of signatures, uint64 (n, rules)."""
        return np.ascontiguousarray(signatures).view(np.uint64)

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the bucket keys: one for each rule whose fields all have a value."""
        keys = self.keys(signatures)
        there = keys != 0
        return BucketKeys(keys[there], offsets_of(there.sum(axis=1)))


def _hashes(column: RecordColumn, transformations: Sequence[str], secret: bytes) -> UInt64s:
    """Return a hash of what a part of a rule makes of each record; 0 if nothing is left.

    The values are hashed by BLAKE2b with the secret before them, each different one once.
    """
    texts: Iterable[str] = column.canonical
    if transformations:
        texts = map(chained(transformations), texts)
    digests = b"".join(
        blake2b(secret + text.encode(), digest_size=8).digest() if text else _NO_DIGEST
        for text in texts
    )
    # The last one is what the code of a missing value, -1, refers to.
    hashes = np.frombuffer(digests + _NO_DIGEST, "<u8").astype(np.uint64)
    return hashes[column.codes]

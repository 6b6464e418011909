"""Records: their fields, and which fields of two records make them candidates (MMDS 3.8).

A rule sends two records to one bucket if the fields that it names are equal, or near (``rules``).
What agrees in no rule is no candidate, whatever its score: the answer is exact among candidates,
and ``certain_above`` says above which similarity a pair must be one.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, Self, TypeAlias, cast, get_args

import numpy as np
from msgspec import Meta

from simdb.arguments import require_once, short
from simdb.arrays import Bools, UInt16s, UInt64s
from simdb.errors import ConfigurationError
from simdb.evidence import Evidence, Facet
from simdb.exact.thresholds import exact_fraction
from simdb.kinds.base import (
    OBJECTS,
    Agreement,
    Differences,
    Examples,
    Items,
    Kind,
    Measure,
    Settings,
    Stored,
)
from simdb.kinds.records.items import RecordFeatures, RecordItems, firsts_of
from simdb.kinds.records.levels import RecordAgreement
from simdb.kinds.records.points import METRES, RecordMeasure, frequencies
from simdb.kinds.records.rules import (
    MOST_KEYS,
    Alike,
    Edits,
    Equal,
    Near,
    Part,
    RecordFamily,
    Rule,
    Within,
    certain_loss,
    key_count_of,
    listed,
    proposed,
    require_transformations,
    rule_of,
    sorted_pairs,
)
from simdb.lsh.curves import CertainCurve, Curve
from simdb.lsh.family import Family, SketchScheme
from simdb.lsh.planning import Plan, PlanRequest

__all__ = [
    "Alike",
    "Edits",
    "Equal",
    "Field",
    "Near",
    "Part",
    "Record",
    "RecordFamily",
    "Rule",
    "Within",
]

Distance: TypeAlias = Literal["edit", "levenshtein", "alignment", "damerau", "exact"]
SetComparison: TypeAlias = Literal["words", "overlap", "intersect", "cosine"]
TextComparison: TypeAlias = Literal[Distance, SetComparison, "jaro-winkler"]
Comparison: TypeAlias = Literal[TextComparison, "numeric", "relative", "date", "place"]

DISTANCES: tuple[str, ...] = get_args(Distance)
SET_COMPARISONS: tuple[str, ...] = get_args(SetComparison)
TEXT_COMPARISONS: tuple[str, ...] = get_args(TextComparison)
ANY_TOLERANCE = ("numeric", "relative", "place")

LARGEST_WEIGHT = 1_000_000
LARGEST_TOLERANCE = 1_000_000
LARGEST_WHOLE_TOLERANCE = 65_535
LARGEST_REACH = math.isqrt(2**63 - 1)
MOST_FIELDS = 64
_DATE = "date"  # what stands beside a date in a dump, which a text of the same form has not
MOST_RULES = 64


class Field(Settings, frozen=True):
    """One field of a record: how two of its values are compared, and how many points that gives.

    Two values at the difference d get ``weight * max(0, 1 - (d / tolerance)^2)`` points. With a
    weight of 100 and a tolerance of 10 that is 100 - d^2: as in MMDS 3.8.2 the penalty grows
    quadratically with the distance. A comparison by a similarity gives that share of the weight.
    Points are quotients and are added without rounding (``records.points``).

    Attributes:
        name: the key of its value in a record.
        weight: the points of two equal values; 0 keeps a field that is not scored, such as the one
            that calibrates scores (MMDS 3.8.3).
        compare: the measure. Differences of texts: ``"edit"`` counts insertions and deletions of
            characters (MMDS 3.5.5), ``"levenshtein"`` also mutations, ``"damerau"`` also
            transpositions (exercise 3.5.8); ``"alignment"`` does the same five times as fast, but
            edits nothing twice. ``"exact"`` gives all points or none. Similarities of texts:
            ``"words"`` is the Jaccard similarity of the words, ``"overlap"`` the share of the
            shorter text's words that are common, ``"intersect"`` gives all points for one common
            word, ``"cosine"`` is the cosine of the words, weighted by how rare they are
            (``frequencies``), and ``"jaro-winkler"`` that of Jaro and Winkler, for names. Other
            differences: ``"numeric"`` of numbers, ``"relative"`` of numbers divided by the larger
            one, ``"date"`` in days, ``"place"`` in kilometres between texts such as
            ``"47.38, 8.54"`` (degrees north and east).
        tolerance: the difference from which on there are no points; a whole number for texts and
            days. ``"relative"`` needs one up to 1: 0.1 for a tenth.
        prepare: transformations of a text, in this order, before anything is compared.
        equivalents: groups of words or values that stand for each other: ``[("william", "bill")]``.
            Values that are equal except for such words differ in one letter (MMDS 3.8.2); for
            ``"words"`` they are the same word.
        missing: the points if one value or both are missing; by default 0, as if nothing were
            alike. ``"ignore"`` takes the field out of the score and of the total; two records that
            share a single field can then be equal by it.
        invalid: what happens to a value that cannot be read, such as the 31st of February:
            ``"refuse"`` raises an error, ``"missing"`` stores it and treats it as missing.
        levels: steps instead of a continuous share. ``[(1, 100), ("0.8", 60)]`` gives 100 points
            for the whole weight, 60 from eight tenths of it on, and else none, or what a last
            level of 0 gives. Points are whole numbers up to the weight, and fall with the share.
        separator: the text between the words of a set: ``";"`` in ``"data mining; sketches"``; by
            default white space. With a separator a value may also be a list of strings, which is
            stored as such a text.
        frequencies: in how many texts each word is, by which ``"cosine"`` weights words, and under
            ``""`` how many texts there are. ``Record.counted`` counts them. They are stored with
            the settings and do not change as records come and go, so scores stay the same. A word
            that is missing counts as a word of a single text.
        frequent: values whose equality is weak evidence because many records have them. Each has
            its form after ``prepare``, and the points taken from the weight: ``{"york": 40}``.
            ``Collection.learn`` finds them.
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
    levels: Sequence[tuple[float | str, int]] = ()
    separator: str = ""
    frequencies: Mapping[str, int] | Sequence[tuple[str, Annotated[int, Meta(ge=1)]]] = ()
    frequent: Mapping[str, int] | Sequence[tuple[str, Annotated[int, Meta(ge=0)]]] = ()

    def __post_init__(self) -> None:
        prepare = require_transformations(f"{self._title}: prepare", self.prepare)
        self._set("prepare", prepare)
        self._set("equivalents", self._require_equivalents())
        super().__post_init__()
        self._set("levels", self._require_levels())
        self._set("frequencies", sorted_pairs(self.frequencies))
        less = sorted_pairs(self.frequent)
        self._set("frequent", less)
        if not all(0 <= points <= self.weight for _, points in less):
            raise ConfigurationError(
                f"{self._title}: frequent takes points from 0 up to the weight of {self.weight}"
            )
        if self.compare == "relative" and self.tolerance > 1:
            raise ConfigurationError(
                f"{self._title}: the tolerance of 'relative' must be a share of at most 1, "
                f"not {short(self.tolerance)}"
            )
        for setting in ("separator", "frequencies"):
            if getattr(self, setting) and self.compare not in SET_COMPARISONS:
                raise ConfigurationError(
                    f"{self._title}: {setting} is for words, not for compare={self.compare!r}"
                )
        whole = math.trunc(self.tolerance) == self.tolerance <= LARGEST_WHOLE_TOLERANCE
        if self.compare not in ANY_TOLERANCE and not whole:
            raise ConfigurationError(
                f"{self._title}: the tolerance of {self.compare!r} must be a whole number of "
                f"at most {LARGEST_WHOLE_TOLERANCE:,}, not {short(self.tolerance)}"
            )
        if self.missing != "ignore" and self.missing > self.weight:
            raise ConfigurationError(
                f"{self._title}: missing must be 'ignore' or points from 0 to the weight of "
                f"{self.weight}, not {short(self.missing)}"
            )
        if self.equivalents and not self.is_text:
            raise ConfigurationError(
                f"{self._title}: equivalents are for texts, not for compare={self.compare!r}"
            )
        firsts_of(self)  # raises of what is in two groups

    def _named(self, setting: str) -> str:
        return "Field.name" if setting == "name" else f"{self._title}: {setting}"

    @property
    def _title(self) -> str:
        return f"field {short(self.name)}"

    @property
    def is_text(self) -> bool:
        """Tell whether its values are compared as texts."""
        return self.compare in TEXT_COMPARISONS

    @property
    def is_edited(self) -> bool:
        """Whether different values of it are one edit apart or more."""
        return self.compare in DISTANCES

    @property
    def reach(self) -> Fraction:
        """The tolerance as shares are computed with it: of places in metres, at least one.

        There it is the nearest fraction whose square fits into 64 bits, if it needs more. The
        distances of places are whole metres, of which none is within less than one.
        """
        exact = exact_fraction(self.tolerance)
        if self.compare != "place":
            return exact
        metres = max(Fraction(1), METRES * exact)
        if metres.numerator <= LARGEST_REACH:
            return metres
        return metres.limit_denominator(LARGEST_REACH // math.ceil(metres))

    def loss_beyond(self, distance: int | Fraction) -> Fraction:
        """The points that it loses, or more, from a distance on or where it has no value."""
        if self.missing == "ignore":
            return Fraction(0)
        if self.compare == "exact":
            distance = self.reach  # what differs at all gives none
        scale = METRES if self.compare == "place" else 1
        share = 1 - min(Fraction(1), (scale * distance / self.reach) ** 2)
        points = self.weight * share
        if self.levels:
            reached = (given for least, given in self.levels if share >= exact_fraction(least))
            points = Fraction(next(reached, 0))
        return min(self.weight - points, Fraction(self.weight - self.missing))

    @property
    def extremes(self) -> tuple[int, int]:
        """The points of two values that have nothing in common, and of two that are equal."""
        if not self.levels:
            return 0, self.weight
        least, lowest = self.levels[-1]
        return 0 if exact_fraction(least) else lowest, self.levels[0][1]

    def words_of(self, text: str) -> list[str]:
        """Return the words of a text, or what is between separators."""
        if not self.separator:
            return text.split()
        return [word for word in map(str.strip, text.split(self.separator)) if word]

    def _require_levels(self) -> tuple[tuple[float | str, int], ...]:
        problem = (
            f"{self._title}: levels must be pairs of a share, from 0 up to 1, and of "
            "whole points up to the weight that fall with it, such as [(1, 100), (0.8, 60)], not "
            f"{short(self.levels)}"
        )
        levels = tuple(listed(level, problem) for level in listed(self.levels, problem))
        try:
            shares = [exact_fraction(least) for least, _ in levels]
            points = [given for _, given in levels]
            whole = all(type(given) is int and 0 <= given <= self.weight for given in points)
            within = all(0 <= share <= 1 for share in shares)
        except (TypeError, ValueError, ArithmeticError):
            raise ConfigurationError(problem) from None
        rising = [shares, points] != [sorted(shares, reverse=True), sorted(points, reverse=True)]
        if rising or not whole or not within:
            raise ConfigurationError(problem)
        written = (least if isinstance(least, str) else float(least) for least, _ in levels)
        return tuple(zip(written, points, strict=True))

    def _require_equivalents(self) -> tuple[tuple[str, ...], ...]:
        problem = (
            f"{self._title}: equivalents must be groups of two strings or more that stand "
            f"for each other, such as [('william', 'bill')], not {short(self.equivalents)}"
        )
        groups = tuple(listed(group, problem) for group in listed(self.equivalents, problem))
        for group in groups:
            if len(group) < 2 or not all(isinstance(value, str) and value for value in group):
                raise ConfigurationError(problem)
        return groups


class Record(Kind, frozen=True):
    """Records: mappings of field names to strings, numbers or dates (MMDS 3.8.1 to 3.8.3).

    The similarity of two records is the sum of the points of all fields, divided by the sum of the
    weights. Only candidates are compared: pairs that agree in one of the rules. Answers are exact
    among them, and pairs that agree in no rule are missed.

    Attributes:
        fields: all fields that a record may have; another field is refused.
        candidates: the rules. Each is an ``Equal``, ``Within``, ``Near``, ``Edits`` or ``Alike``,
            the name of a field for its equality, or a tuple of several that must all hold. By
            default any one scored field must be equal, as in MMDS 3.8.2.
        large_bucket: the number of records with the same key of a rule from which on there is a
            warning, since all of them are compared: 1,000 records are half a million pairs.
        rule_budget: the most pairs that one rule may propose, of one collection or of two; None for
            any number. Beyond it ``pairs``, ``groups``, ``join``, ``learn`` and ``calibrate`` by
            the rules raise an error that names the rule, and so does ``dedupe`` as soon as it
            notices. With a budget ``join`` signs the left items twice, and first holds their
            signatures.
    """

    fields: Sequence[Field]
    candidates: Sequence[Any] = ()
    large_bucket: Annotated[int, Meta(ge=1)] = 1_000
    rule_budget: Annotated[int, Meta(ge=1)] | None = None

    plural = "records"
    suffixes = OBJECTS | {".csv": "csv"}
    may_miss_equals = True
    has_rules = True

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
            raise ConfigurationError(
                f"Record.fields must be a sequence of Field, not {short(fields)}"
            )
        if len(kept) > MOST_FIELDS:
            raise ConfigurationError(
                f"Record.fields has {len(kept)} fields, but a record has at most {MOST_FIELDS}"
            )
        self._set("fields", kept)
        require_once([field.name for field in kept], "Record.fields has the field")
        if not self.total_weight:
            raise ConfigurationError("Record.fields must contain a field with a weight above 0")
        self._set("candidates", self._require_rules())
        super().__post_init__()

    @property
    def total_weight(self) -> int:
        """The points of two records that are equal in all fields."""
        return sum(field.weight for field in self.fields)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of ``candidates``, each as all its parts."""
        return cast("tuple[Rule, ...]", self.candidates)

    def _require_rules(self) -> tuple[Rule, ...]:
        given = self.candidates
        problem = (
            f"Record.candidates must be a sequence of rules, not {short(given)}; put it into a list"
        )
        rules = tuple(rule_of(one) for one in listed(given, problem))
        if not rules:
            rules = tuple((Equal(field.name),) for field in self.fields if field.weight)
        if len(rules) > MOST_RULES:
            raise ConfigurationError(
                f"Record.candidates has {len(rules)} rules, but a record has at most {MOST_RULES}"
            )
        by_name = {field.name: field for field in self.fields}
        for part in (part for rule in rules for part in rule):
            unknown = next((name for name in part.names if name not in by_name), None)
            if unknown is not None:
                raise ConfigurationError(
                    f"Record.candidates names the field {unknown!r}, but the fields are "
                    f"{', '.join(by_name)}"
                )
            part.require_fitting(by_name)
        keys = sum(map(key_count_of, rules))
        if keys > MOST_KEYS:
            raise ConfigurationError(
                f"Record.candidates make up to {keys:,} keys of a record, more than {MOST_KEYS:,}: "
                "the numbers of keys of a rule's parts are multiplied"
            )
        return rules

    def counted(self, rows: Iterable[Mapping[str, object]]) -> Self:
        """Return the same with the frequencies of words in some records, by which they are weighed.

        Of each field that is compared by ``"cosine"``: in how many records each word is, but for
        those of one record, and how many records have the field; and of each ``Alike`` that is to
        miss nothing. BadItemError: one is no record.
        """
        items = RecordItems(self)
        return self.counted_by(items.features(list(map(items.encode, rows))))

    def counted_by(self, features: RecordFeatures) -> Self:
        """Return the same with the frequencies of words in some records, by their features."""
        by_name = {field.name: field for field in self.fields}
        return self.changed(
            fields=[
                field.changed(frequencies=frequencies(field, features.columns[field.name]))
                if field.compare == "cosine" and field.name in features.columns
                else field
                for field in self.fields
            ],
            candidates=[
                tuple(part.counted(by_name, features) for part in rule) for rule in self.rules
            ],
        )

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

        Such a pair differs, or lacks a value, in one part at least of every rule.
        """
        fields = {field.name: field for field in self.fields}
        return 1 - certain_loss(self.rules, fields) / self.total_weight

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        return RecordFamily(self, secret)

    def plan(self, bound: Fraction, request: PlanRequest) -> Plan:
        if not request.is_free:
            raise ConfigurationError("records have rules of candidates, not bands and rows")
        return Plan(bound, len(self.rules), 1, self.make_curve(bound))

    def can_have(self, bands: int, rows: int) -> bool:
        return (bands, rows) == (len(self.rules), 1)

    def expected_keys(self, bands: int) -> int:
        return self.most_keys(bands, 1)

    def most_keys(self, bands: int, rows: int) -> int:
        return sum(map(key_count_of, self.rules))

    def index_in_words(self, bands: int, rows: int) -> str:
        return f"candidates by {bands:,} {'rule' if bands == 1 else 'rules'}"

    def stores_alike(self, other: Self) -> bool:
        return [field.name for field in self.fields] == [field.name for field in other.fields]

    def signs_alike(self, other: Self) -> bool:
        return self._signed == other._signed

    @property
    def _signed(self) -> tuple[Any, ...]:
        """What signatures depend on: how values are read, which are looked at, and the rules."""
        unsigned = {"tolerance": 1, "missing": 0, "levels": (), "frequencies": (), "frequent": ()}
        fields = [field.changed(weight=int(field.weight > 0), **unsigned) for field in self.fields]
        return fields, self.rules

    def candidate_stats(
        self, family: Family, signatures: Callable[[], Iterator[UInt16s]], live: int
    ) -> dict[str, Any]:
        """Return what each rule makes candidates of, without making them, as plain values.

        Nothing is left out of a large bucket: the warning says what it costs and what helps.
        """
        rules, warnings = [], []
        for words, counted in self.rule_counts(family, signatures):
            rules.append({"rule": words, **counted})
            if counted["largest"] > self.large_bucket:
                is_equality = all(isinstance(part, Equal) for part in self.rules[len(rules) - 1])
                agree = "are equal in" if is_equality else "share a key of"
                warnings.append(
                    f"{counted['largest']:,} records {agree} {words}: that rule compares "
                    f"{counted['pairs']:,} pairs; ask for a second field in the same rule, or "
                    "leave it out"
                )
            if self.rule_budget is not None and counted["pairs"] > self.rule_budget:
                warnings.append(self._beyond_budget(words, counted["pairs"]))
        return {"rules": rules, "warnings": warnings}

    @property
    def limits_candidates(self) -> bool:
        return self.rule_budget is not None

    def require_candidates(
        self,
        family: Family,
        signatures: Callable[[], Iterator[UInt16s]],
        probes: Callable[[], Iterator[UInt16s]] | None = None,
    ) -> None:
        if self.rule_budget is None:
            return
        for words, counted in self.rule_counts(family, signatures, probes):
            if counted["pairs"] > self.rule_budget:
                raise ConfigurationError(self._beyond_budget(words, counted["pairs"]))

    def rule_counts(
        self,
        family: Family,
        signatures: Callable[[], Iterator[UInt16s]],
        probes: Callable[[], Iterator[UInt16s]] | None = None,
    ) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield each rule in words, and what it makes candidates of, as ``proposed`` counts it.

        Pairs of other rules are among them. The keys of one rule are held at a time.
        """
        assert isinstance(family, RecordFamily)
        signed = [] if probes is None else [list(probes())]
        for number, rule in enumerate(self.rules):
            keys = [_keys_of_rule(family, side, number) for side in (*signed, signatures())]
            yield " and ".join(map(str, rule)), proposed(*keys)

    def _beyond_budget(self, words: str, pairs: int) -> str:
        return (
            f"the rule {words} proposes {pairs:,} pairs, more than the rule_budget of "
            f"{self.rule_budget:,}; rebuild with a second field in that rule, or without it"
        )

    def proposing_rules(self, family: Family, left: UInt16s, right: UInt16s) -> Mapping[str, Bools]:
        assert isinstance(family, RecordFamily)
        names = [" and ".join(map(str, rule)) for rule in self.rules]
        return dict(zip(names, family.agreeing_rules(left, right).T, strict=True))

    def field_differences(self, field: str) -> Differences:
        names = self.field_names
        if field not in names:
            raise ConfigurationError(f"there is no field {field!r}; there are {', '.join(names)}")
        if self.fields[names.index(field)].weight:
            raise ConfigurationError(
                f"the field {field!r} is scored: what is calibrated by must not be; rebuild with "
                "its weight 0"
            )
        if any(field in part.names for rule in self.rules for part in rule):
            raise ConfigurationError(
                f"a rule for candidates names the field {field!r}: of what is equal by the rule it "
                "tells nothing; rebuild without that rule"
            )
        plain = {"missing": 0, "levels": (), "frequent": ()}  # which go by the weight
        fields = [one.changed(weight=int(one.name == field), **plain) for one in self.fields]
        by_field = self.changed(fields=fields, candidates=[field])
        return RecordItems(by_field).differences(field)

    def agreement(self, family: Family | None) -> Agreement:
        if not isinstance(family, RecordFamily):
            raise ConfigurationError(
                "weights are learnt from candidates, but the collection has no index"
            )
        return RecordAgreement(self, family)

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        """Return the fields that are scored, with their values and the share of their points."""
        one, other = items.decode(left), items.decode(right)
        features = items.features([left, right])
        places = np.zeros(1, np.int64), np.ones(1, np.int64)
        facets = []
        for own, present, shares in RecordMeasure(self).shares(features, features, *places):
            given, least, most = (one.get(own.name), other.get(own.name)), 0.0, 1.0
            if present[0]:
                share = float(shares.numerators[0] / shares.denominators[0])
                least, most = (points / own.weight for points in own.extremes)
            else:  # a field that is ignored counts nothing
                share = 0.0 if own.missing == "ignore" else float(own.missing / own.weight)
            weight = 0 if own.missing == "ignore" and not present[0] else own.weight
            column = features.columns[own.name]
            first, second = column.codes.tolist()
            frequent = share < most and present[0] and first == second and bool(own.frequent)
            if frequent:
                frequent = column.values[first] in dict(own.frequent)
            facets.append(
                Facet(own.name, *given, share, float(weight), bool(frequent), least, most)
            )
        return Evidence("fields", tuple(facets))

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

    def dumped_item(self, item: Mapping[str, object]) -> dict[str, object]:
        return {
            name: {_DATE: value.isoformat()} if isinstance(value, datetime.date) else value
            for name, value in item.items()
        }

    def loaded_item(self, plain: Any) -> Any:
        if not isinstance(plain, dict):
            return self.item_of_json(plain)
        dates = {
            name: datetime.date.fromisoformat(value[_DATE])
            for name, value in plain.items()
            if isinstance(value, dict) and value.keys() == {_DATE}
        }
        return self.item_of_json({**plain, **dates})

    def shown_item(self, item: Mapping[str, object]) -> str:
        return "; ".join(f"{name}: {value}" for name, value in item.items())


def _keys_of_rule(family: RecordFamily, signatures: Iterable[UInt16s], number: int) -> UInt64s:
    """Return the keys of one rule, of all signatures."""
    columns = family.columns[number]
    nothing = np.empty((0, columns.stop - columns.start), np.uint64)
    return np.concatenate([nothing, *(family.keys_of_rule(rows, number) for rows in signatures)])

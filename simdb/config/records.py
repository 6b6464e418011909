"""Settings of records: their fields, and which fields of two records make them candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from simdb.errors import ConfigurationError

TextComparison: TypeAlias = Literal["edit", "levenshtein", "alignment", "damerau", "words", "exact"]
Comparison: TypeAlias = TextComparison | Literal["numeric", "date"]

TEXT_COMPARISONS: tuple[str, ...] = get_args(TextComparison)
COMPARISONS: tuple[str, ...] = (*TEXT_COMPARISONS, "numeric", "date")
# What a text can be turned into; "first:4" and "last:4" take a number.
TRANSFORMATIONS: tuple[str, ...] = (
    *("lowercase", "unaccented", "collapse", "alphanumeric", "digits", "letters"),
    *("sorted-words", "first-word", "last-word", "initials"),
)
COUNTED_TRANSFORMATIONS: tuple[str, ...] = ("first", "last")

LARGEST_WEIGHT = 1_000_000
LARGEST_TOLERANCE = 1_000_000
LARGEST_WHOLE_TOLERANCE = 65_535
MOST_FIELDS = 64
MOST_RULES = 64


def _require_transformations(owner: str, given: object) -> tuple[str, ...]:
    """Return the names of transformations, one alone as a tuple of one."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Iterable):
        raise ConfigurationError(f"{owner} must be a sequence of names, not {given!r}")
    kept = tuple(names)
    for name in kept:
        if isinstance(name, str):
            stem, colon, count = name.partition(":")
            if name in TRANSFORMATIONS:
                continue
            positive = count.isascii() and count.isdigit() and 0 < int(count[:9]) < 10**8
            if colon and stem in COUNTED_TRANSFORMATIONS and positive:
                continue
        raise ConfigurationError(
            f"{owner} names {name!r}, which is none of {', '.join(TRANSFORMATIONS)}, first:4, "
            "last:4 (or another number)"
        )
    return kept


@dataclass(frozen=True, slots=True)
class Field:
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

    name: str
    weight: int = 100
    compare: Comparison = "edit"
    tolerance: float = 10
    prepare: str | Sequence[str] = ("lowercase", "collapse")
    equivalents: Sequence[Sequence[str]] = ()
    missing: int | Literal["ignore"] = 0
    invalid: Literal["refuse", "missing"] = "refuse"

    def __post_init__(self) -> None:
        name: object = self.name  # what a caller gives is not always what is declared
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"Field.name must be a string, not {name!r}")
        if self.compare not in COMPARISONS:
            raise ConfigurationError(
                f"field {name!r}: compare must be one of {', '.join(COMPARISONS)}, "
                f"not {self.compare!r}"
            )
        self._require_numbers()
        if self.invalid not in ("refuse", "missing"):
            raise ConfigurationError(
                f"field {name!r}: invalid must be 'refuse' or 'missing', not {self.invalid!r}"
            )
        prepare = _require_transformations(f"field {name!r}: prepare", self.prepare)
        object.__setattr__(self, "prepare", prepare)
        object.__setattr__(self, "equivalents", self._require_equivalents())

    @property
    def is_text(self) -> bool:
        """Tell whether its values are compared as texts."""
        return self.compare in TEXT_COMPARISONS

    def _require_numbers(self) -> None:
        weight: object = self.weight
        whole = isinstance(weight, int) and not isinstance(weight, bool)
        if not whole or not 0 <= self.weight <= LARGEST_WEIGHT:
            raise ConfigurationError(
                f"field {self.name!r}: weight must be a whole number from 0 to "
                f"{LARGEST_WEIGHT:,}, not {weight!r}"
            )
        tolerance: object = self.tolerance
        number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
        if not number or not 0 < self.tolerance <= LARGEST_TOLERANCE:
            raise ConfigurationError(
                f"field {self.name!r}: tolerance must be above 0 and at most "
                f"{LARGEST_TOLERANCE:,}, not {tolerance!r}"
            )
        whole = math.trunc(self.tolerance) == self.tolerance <= LARGEST_WHOLE_TOLERANCE
        if self.compare != "numeric" and not whole:
            raise ConfigurationError(
                f"field {self.name!r}: the tolerance of {self.compare!r} must be a whole number of "
                "at most "
                f"{LARGEST_WHOLE_TOLERANCE:,}, not {tolerance!r}"
            )
        missing: object = self.missing
        if missing == "ignore":
            return
        points = isinstance(missing, int) and not isinstance(missing, bool)
        if not points or not 0 <= int(self.missing) <= self.weight:
            raise ConfigurationError(
                f"field {self.name!r}: missing must be 'ignore' or points from 0 to the weight of "
                f"{self.weight}, not {missing!r}"
            )

    def _require_equivalents(self) -> tuple[tuple[str, ...], ...]:
        given: object = self.equivalents
        wrong = ConfigurationError(
            f"field {self.name!r}: equivalents must be groups of two strings or more that stand "
            f"for each other, such as [('william', 'bill')], not {given!r}"
        )
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise wrong
        groups: list[tuple[str, ...]] = []
        for group in given:
            if isinstance(group, str) or not isinstance(group, Iterable):
                raise wrong
            groups.append(tuple(group))
            if len(groups[-1]) < 2 or not all(
                isinstance(value, str) and value for value in groups[-1]
            ):
                raise wrong
        if groups and not self.is_text:
            raise ConfigurationError(
                f"field {self.name!r}: equivalents are of texts, not of compare={self.compare!r}"
            )
        return tuple(groups)


@dataclass(frozen=True, slots=True)
class Equal:
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
        field: object = self.field
        if not isinstance(field, str):
            raise ConfigurationError(f"Equal.field must be the name of a field, not {field!r}")
        names = _require_transformations(f"Equal({field!r})", self.transformations)
        object.__setattr__(self, "transformations", names)

    def __str__(self) -> str:
        """Name the field and the transformations."""
        return " ".join((self.field, *self.transformations))


Rule: TypeAlias = tuple[Equal, ...]


@dataclass(frozen=True, slots=True)
class Record:
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
    large_bucket: int = 1_000

    def __post_init__(self) -> None:
        fields: object = self.fields
        kept = tuple(fields) if isinstance(fields, Iterable) else ()
        if not kept or not all(isinstance(field, Field) for field in kept):
            raise ConfigurationError(f"Record.fields must be a sequence of Field, not {fields!r}")
        if len(kept) > MOST_FIELDS:
            raise ConfigurationError(
                f"Record.fields are {len(kept)}, more than the {MOST_FIELDS} of a record"
            )
        object.__setattr__(self, "fields", kept)
        names = [field.name for field in kept]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError(f"Record.fields has the field {twice!r} twice")
        if not self.total_weight:
            raise ConfigurationError("Record.fields must have a weight above 0 somewhere")
        large: object = self.large_bucket
        if not isinstance(large, int) or isinstance(large, bool) or large < 1:
            raise ConfigurationError(
                f"Record.large_bucket must be a whole number of at least 1, not {large!r}"
            )
        object.__setattr__(self, "candidates", self._require_rules())

    @property
    def total_weight(self) -> int:
        """The points of two records that are equal in all fields."""
        return sum(field.weight for field in self.fields)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of ``candidates``, each as all that must be equal."""
        return cast("tuple[Rule, ...]", self.candidates)

    def _require_rules(self) -> tuple[Rule, ...]:
        given: object = self.candidates
        if isinstance(given, str | Equal) or not isinstance(given, Iterable):
            raise ConfigurationError(
                f"Record.candidates must be a sequence of rules, not {given!r}; put it into a list"
            )
        rules = tuple(_rule(one) for one in given)
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


def _rule(given: object) -> Rule:
    """Return a rule as the tuple of all that must be equal."""
    parts = (given,) if isinstance(given, str | Equal) else given
    if not isinstance(parts, Iterable):
        raise ConfigurationError(
            f"a rule must be an Equal, a field's name or a tuple of them, not {given!r}"
        )
    rule = []
    for part in parts:
        equal = Equal(part) if isinstance(part, str) else part
        if not isinstance(equal, Equal):
            raise ConfigurationError(f"a rule is made of Equal and names, not {part!r}")
        rule.append(equal)
    if not rule:
        raise ConfigurationError("a rule must name a field: all records would be candidates")
    return tuple(rule)


def describe_rule(rule: Rule) -> str:
    """Return a rule in words, such as ``surname first:4 and postcode``."""
    return " and ".join(map(str, rule))

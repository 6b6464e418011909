"""Records compared field by field: on which level each agrees, and which rules propose a pair.

A level is a share of the weight from which on it is reached: ``Field.levels``, or else those that
suit how the field is compared. Weights of evidence are learnt by levels, and become settings that
give points by levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from simdb.arrays import Float64s, Int64s, UInt64s
from simdb.errors import ConfigurationError
from simdb.exact.thresholds import Threshold, exact_fraction
from simdb.kinds.base import Agreement, FieldAgreement
from simdb.kinds.records.items import RecordFeatures
from simdb.kinds.records.points import RecordMeasure, in_codes_of
from simdb.kinds.records.rules import RecordFamily, common_keys, used_columns

if TYPE_CHECKING:
    from simdb.kinds.records import Field, Record

EQUAL = (Fraction(1),)
CONTINUOUS = tuple(Fraction(tenths, 10) for tenths in (10, 9, 7, 5, 3))
TENTHS = tuple(Fraction(tenths, 10) for tenths in range(10, 0, -1))
POINTS_A_BIT = 100


class RecordAgreement(Agreement):
    """How records of one kind agree."""

    def __init__(self, settings: Record, family: RecordFamily) -> None:
        self._settings = settings
        # Levels are reached by shares, not by the points that they themselves give.
        plain = [field.changed(levels=(), frequent=()) for field in settings.fields]
        self._measure = RecordMeasure(settings.changed(fields=plain))
        self._family = family
        self._scored = [field for field in settings.fields if field.weight]
        self.names = tuple(field.name for field in self._scored)
        self.levels = tuple(map(_leasts, self._scored))
        self.looks_at = np.array(
            [
                [any(name in part.names for part in rule) for name in self.names]
                for rule in settings.rules
            ]
        )

    def fields(
        self, ones: RecordFeatures, others: RecordFeatures, left: Int64s, right: Int64s
    ) -> list[FieldAgreement]:
        found = []
        for (field, present, shares), leasts in zip(
            self._measure.shares(ones, others, left, right), self.levels, strict=True
        ):
            codes = np.full(left.size, -1, np.int64)
            codes[present] = 0
            for level, least in enumerate(leasts, 1):
                codes[present & Threshold(least).meets_many(*shares)] = level
            column, other = ones.columns[field.name], others.columns[field.name]
            value = np.full(left.size, -1, np.int64)
            own = column.codes[left[present]]
            same = in_codes_of(column, other)[other.codes[right[present]]]
            value[present] = np.where(own == same, own, -1)
            found.append(FieldAgreement(codes, value, column.values))
        return found

    def keys(self, features: RecordFeatures) -> UInt64s:
        return self._family.keys(self._family.sign(features))

    def proposed(self, ones: UInt64s, others: UInt64s, left: Int64s, right: Int64s) -> UInt64s:
        masks = np.zeros(left.size, np.uint64)
        for rule, own in enumerate(self._family.columns):
            keys, other_keys = used_columns(ones[:, own]), used_columns(others[:, own])
            same = common_keys(keys[left], other_keys[right]) > 0
            masks |= same.astype(np.uint64) << np.uint64(rule)
        return masks

    def value_counts(self, features: RecordFeatures, places: Int64s) -> list[dict[str, int]]:
        counted = []
        for name in self.names:
            column = features.columns[name]
            codes = column.codes[places]
            values, counts = np.unique(codes[codes >= 0], return_counts=True)
            known = map(column.values.__getitem__, values.tolist())
            counted.append(dict(zip(known, counts.tolist(), strict=True)))
        return counted

    def weighed(self, bits: Sequence[Float64s], frequent: Sequence[Mapping[str, float]]) -> Record:
        weighed = {
            field.name: _weighed(field, leasts, own, common)
            for field, leasts, own, common in zip(
                self._scored, self.levels, bits, frequent, strict=True
            )
        }
        if not any(field.weight for field in weighed.values()):
            raise ConfigurationError("no field provides evidence about matches")
        fields = [weighed.get(field.name, field) for field in self._settings.fields]
        return self._settings.changed(fields=fields)


def _leasts(field: Field) -> tuple[Fraction, ...]:
    """Return the least shares of the levels of a field above the lowest, rising."""
    given = tuple(exact_fraction(least) for least, _ in reversed(field.levels))
    if any(given):
        return tuple(filter(None, given))
    if field.compare in ("exact", "intersect"):
        # Words that stand for each other are nearly equal.
        return CONTINUOUS[1::-1] if field.equivalents else EQUAL
    if field.compare == "cosine":  # of rare words, also a little is evidence
        return TENTHS[::-1]
    return CONTINUOUS[::-1]


def _weighed(
    field: Field, leasts: Sequence[Fraction], bits: Float64s, frequent: Mapping[str, float]
) -> Field:
    """Return a field whose points are the evidence of its levels above the least of any pair.

    What is missing is no evidence, and has the points that stand for none: fewer than the lowest
    level where all levels are evidence for a match, more than the highest where all are against it.
    """
    low, high = min(0.0, float(bits[0])), max(0.0, float(bits[-1]))
    weight, nothing = round(POINTS_A_BIT * (high - low)), round(-POINTS_A_BIT * low)
    points = np.rint(POINTS_A_BIT * (bits - low)).astype(np.int64).tolist()
    levels = [(str(least), own) for least, own in zip((Fraction(0), *leasts), points, strict=True)]
    kept = levels if points[0] else levels[1:]
    beneath = weight - points[-1]
    less = {
        value: min(weight, beneath - round(POINTS_A_BIT * own)) for value, own in frequent.items()
    }
    return field.changed(weight=weight, levels=kept[::-1], missing=nothing, frequent=less)

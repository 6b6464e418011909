"""The similarity of records: points of their fields, added up (MMDS 3.8.2).

Points are counted in whole hundredths, so that a score is an exact quotient: of two values at the
difference d, with the weight w and the tolerance t of their field, ``floor(100 w (1 - d^2 / t^2))``
hundredths, or none. Words give ``floor(100 w J)`` by their Jaccard similarity J.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from simdb.arrays import Int64s
from simdb.exact.thresholds import exact_fraction
from simdb.kinds.base import Compared, PairedMeasure
from simdb.kinds.distances import StringDistance, pair_common_lengths, pair_distances

if TYPE_CHECKING:
    from simdb.kinds.records import Field, Record
    from simdb.kinds.records.items import RecordColumn, RecordFeatures

HUNDREDTHS = 100

_MOST_LETTERS = 0x110000
_LARGEST_WHOLE = 2**62
_ROUNDINGS = 2.0**-48  # what the few roundings of a share are together, and more
_DENSE = 4  # cells of a table of all pairs of values, for each pair of records


class RecordMeasure(PairedMeasure):
    """Compare records by the points of their fields."""

    def __init__(self, settings: Record) -> None:
        self._fields = tuple(field for field in settings.fields if field.weight)

    def compare_between(
        self, ones: RecordFeatures, others: RecordFeatures, left: Int64s, right: Int64s
    ) -> Compared:
        """Compare record ``left[i]`` of one batch with record ``right[i]`` of another.

        Returns:
            hundredths of points by hundredths of the weights. Where a field is ignored because it
            is missing, its weight is not among them: 0 / 0 if all are.
        """
        numerators = np.zeros(len(left), np.int64)
        denominators = np.zeros(len(left), np.int64)
        for field in self._fields:
            one, other = ones.columns[field.name], others.columns[field.name]
            codes, other_codes = one.codes[left], other.codes[right]
            present = (codes >= 0) & (other_codes >= 0)
            absent = 0 if field.missing == "ignore" else HUNDREDTHS * field.missing
            points = np.full(len(left), absent, np.int64)
            points[present] = _points(field, one, other, codes[present], other_codes[present])
            numerators += points
            weight = HUNDREDTHS * field.weight
            denominators += weight * present if field.missing == "ignore" else weight
        return Compared(numerators, denominators)

    def _between(
        self, ones: RecordFeatures, others: RecordFeatures, left: Int64s, right: Int64s
    ) -> Compared:
        return self.compare_between(ones, others, left, right)


def _points(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Int64s:
    """Return the hundredths of pairs of values that are there."""
    if not field.is_text:
        return _number_points(field, one, other, left, right)
    unequal = np.flatnonzero(left != _in_codes_of(one, other)[right])
    points = np.full(left.size, HUNDREDTHS * field.weight, np.int64)
    compare = _word_points if field.compare == "words" else _text_points
    points[unequal] = _once(
        lambda i, j: compare(field, one, other, i, j),
        left[unequal],
        right[unequal],
        (len(one.values), len(other.values)),
    )
    return points


def _text_points(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Int64s:
    """Return the hundredths of pairs of different texts by their distance."""
    apart = _distances(field, one.values, other.values, left, right)
    if one.canonical is not one.values:
        replaced = _distances(field, one.canonical, other.canonical, left, right)
        apart = np.minimum(apart, replaced + 1)
    tolerance = int(field.tolerance)
    left_of_it = tolerance**2 - np.minimum(apart, tolerance) ** 2
    points: Int64s = HUNDREDTHS * field.weight * left_of_it // tolerance**2
    return points


def _distances(
    field: Field, ones: list[str], others: list[str], left: Int64s, right: Int64s
) -> Int64s:
    """Return the distances of pairs of texts, those that leave no points as the tolerance."""
    texts = [ones[code] for code in left.tolist()]
    other_texts = [others[code] for code in right.tolist()]
    tolerance = int(field.tolerance)
    if field.compare == "exact":
        equal = np.fromiter(map(str.__eq__, texts, other_texts), np.bool_, len(texts))
        return np.where(equal, 0, tolerance)
    return pair_distances(
        texts, other_texts, distance=cast("StringDistance", field.compare), cutoff=tolerance - 1
    )


def _word_points(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Int64s:
    """Return the hundredths of pairs of texts by their words.

    A set of words is written as a string of one letter a word, in order. Common letters of two
    such strings are a common subsequence, which is found without a Python set a pair.
    """
    letters: dict[str, str] = {}
    words, others = (
        _word_strings(column.canonical, codes, letters)
        for column, codes in ((one, left), (other, right))
    )
    if len(letters) > _MOST_LETTERS:
        parts = zip(np.array_split(left, 2), np.array_split(right, 2), strict=True)
        return np.concatenate([_word_points(field, one, other, *part) for part in parts])
    common = pair_common_lengths(words, others)
    sizes = np.fromiter(map(len, words), np.int64, len(words))
    union = sizes + np.fromiter(map(len, others), np.int64, len(others)) - common
    points: Int64s = HUNDREDTHS * field.weight * common // np.maximum(union, 1)
    return points


def _number_points(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Int64s:
    """Return the hundredths of pairs of numbers, ``floor(100 w (1 - (d / t)^2))`` exactly.

    Numbers with few decimals are whole numbers of a common unit, which is quick. For others floats
    tell how many hundredths it is at least and at most; where that differs, fractions decide.
    """
    full = HUNDREDTHS * field.weight
    tolerance = exact_fraction(field.tolerance)
    unit = math.lcm(tolerance.denominator, *(n.denominator for n in one.numbers + other.numbers))
    largest = max(map(abs, (*one.numbers, *other.numbers)), default=Fraction(0))
    reach = int(tolerance * unit)
    if largest * unit < _LARGEST_WHOLE and full * reach**2 < _LARGEST_WHOLE:
        ones, others = (
            np.array([int(number * unit) for number in column.numbers], np.int64)
            for column in (one, other)
        )
        apart = np.minimum(np.abs(ones[left] - others[right]), reach)
        points: Int64s = full * (reach**2 - apart**2) // reach**2
        return points
    with np.errstate(all="ignore"):  # what overflows is in doubt
        a, b = one.floats[left], other.floats[right]
        share = np.minimum(np.abs(a - b) / float(tolerance), 2.0)
        near = full * (1.0 - np.square(share))
        doubt = full * _ROUNDINGS * ((np.abs(a) + np.abs(b)) / float(tolerance) + 1.0)
        least, most = (np.maximum(np.floor(near + sign * doubt), 0.0) for sign in (-1, 1))
        points = least.astype(np.int64)
    unsure = np.flatnonzero(~(least == most))

    def exactly(i: Int64s, j: Int64s) -> Int64s:
        gaps = (
            min(abs(one.numbers[x] - other.numbers[y]), tolerance) / tolerance
            for x, y in zip(i.tolist(), j.tolist(), strict=True)
        )
        return np.array([math.floor(full * (1 - gap**2)) for gap in gaps], np.int64)

    if unsure.size:
        shape = len(one.numbers), len(other.numbers)
        points[unsure] = _once(exactly, left[unsure], right[unsure], shape)
    return points


def _in_codes_of(one: RecordColumn, other: RecordColumn) -> Int64s:
    """Return for each value of ``other`` its code in ``one``, -1 where that has it not."""
    if one is other:
        return np.arange(len(other.values), dtype=np.int64)
    places = {value: code for code, value in enumerate(one.values)}
    return np.array([places.get(value, -1) for value in other.values], np.int64)


def _once(
    compare: Callable[[Int64s, Int64s], Int64s], left: Int64s, right: Int64s, shape: tuple[int, int]
) -> Int64s:
    """Compare each pair of values once, however many records have it."""
    cells = shape[0] * shape[1]
    pairs = left * shape[1] + right
    if cells <= _DENSE * pairs.size:
        seen = np.zeros(cells, np.bool_)
        seen[pairs] = True
        different = np.flatnonzero(seen)
        places = (np.cumsum(seen) - 1)[pairs]
    else:
        different, places = np.unique(pairs, return_inverse=True)
    points: Int64s = compare(different // shape[1], different % shape[1])[places]
    return points


def _word_strings(values: list[str], codes: Int64s, letters: dict[str, str]) -> list[str]:
    """Return the words of values as strings of one letter a word; new words get new letters.

    Where there are more words than letters the strings are of no use.
    """
    strings: dict[int, str] = {}
    for code in np.unique(codes).tolist():
        words = set(values[code].split())
        for word in words:
            letters.setdefault(word, chr(min(len(letters), _MOST_LETTERS - 1)))
        strings[code] = "".join(sorted(letters[word] for word in words))
    return [strings[code] for code in codes.tolist()]

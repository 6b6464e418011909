"""The similarity of records: points of their fields, added up (MMDS 3.8.2).

A field gives a share of its weight, a quotient of whole numbers, and so the similarity is one: a
threshold is met exactly. At the difference d, with the tolerance t, the share is 1 - (d / t)^2, or
none; of sets of words it is their Jaccard similarity, say. What is no quotient, the similarity of
Jaro and Winkler and a cosine, is cut to 1 / 10,000; distances on the Earth are whole metres.

Shares are added up in a common unit of 1 / u points, u a multiple of 100, that all shares of most
pairs fit into. It is extended for a pair as its values need it, as long as all stays below 2^53, so
that float64 has it; a share that needs more, as of numbers of many decimals, is cut to the unit, so
to a hundredth of a point or less. What is cut depends on the two records and the settings alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import numpy as np

from simdb.arrays import Bools, Float64s, Int64s
from simdb.exact.thresholds import Threshold, exact_fraction
from simdb.kinds.base import Compared, PairedMeasure
from simdb.kinds.distances import (
    StringDistance,
    pair_common_lengths,
    pair_distances,
    pair_winklers,
)
from simdb.kinds.records.items import Place, RecordColumn, RecordFeatures
from simdb.lsh.family import mixed
from simdb.ragged import offsets_of, slices_of

if TYPE_CHECKING:
    from simdb.kinds.records import Field, Record

HUNDREDTHS = 100
OF_REALS = 10_000  # parts that a share is cut to which is no quotient
METRES = 1_000  # of a kilometre
EARTH = 6_371_008.8  # metres, the mean radius
IDF_UNITS = 1_000

_MOST_LETTERS = 0x110000
_LARGEST = 2**53
_LARGEST_ROOT = 2**20  # of the denominator of a share
_LARGEST_NUMBER = 2**40
_ROUNDINGS = 2.0**-48  # what the few roundings of a share are together, and more
_WORDS_AT_ONCE = 2**18  # of texts that are multiplied; there may be thousands for each pair
_DENSE = 4  # cells of a table of all pairs of values, for each pair of records


class Shares(NamedTuple):
    """The shares of a weight that pairs of values get, as quotients of whole numbers."""

    numerators: Int64s
    denominators: Int64s

    @classmethod
    def of(cls, numerators: Int64s, denominator: int) -> Shares:
        """Shares of one denominator."""
        return cls(numerators, np.full(numerators.size, denominator, np.int64))


# The shares of values by their places in two columns.
Comparer: TypeAlias = Callable[["Field", RecordColumn, RecordColumn, Int64s, Int64s], Shares]


class FieldShares(NamedTuple):
    """What a field gives to pairs of records: shares of its weight where both have a value."""

    field: Field
    present: Bools
    shares: Shares  # 0 / 1 where a value is missing


class RecordMeasure(PairedMeasure):
    """Compare records by the points of their fields."""

    is_slow_to_prepare = True

    def __init__(self, settings: Record) -> None:
        self._fields = tuple(field for field in settings.fields if field.weight)
        self._most = _LARGEST // settings.total_weight
        self._unit = HUNDREDTHS
        for field in self._fields:
            unit = math.lcm(self._unit, _denominator(field))
            if unit <= self._most:
                self._unit = unit

    def compare_between(
        self, ones: RecordFeatures, others: RecordFeatures, left: Int64s, right: Int64s
    ) -> Compared:
        """Compare record ``left[i]`` of one batch with record ``right[i]`` of another.

        Returns:
            points by weights, in one unit for each pair. Where a field is ignored because it is
            missing, its weight is not among them: 0 / 0 if all are.
        """
        numerators = np.zeros(len(left), np.int64)
        units = np.full(len(left), self._unit, np.int64)
        weights = np.zeros(len(left), np.int64)
        for field, present, shares in self.shares(ones, others, left, right):
            if field.missing == "ignore":
                weights += field.weight * present
            else:
                weights += field.weight
                numerators += np.where(present, 0, field.missing) * units
            self._extend(numerators, units, field.weight, shares.denominators)
            numerators += _in_units(field.weight, shares, units)
        return Compared(numerators, weights * units)

    def shares(
        self, ones: RecordFeatures, others: RecordFeatures, left: Int64s, right: Int64s
    ) -> list[FieldShares]:
        """Return what each field that is scored gives to the same pairs, by itself."""
        found = []
        for field in self._fields:
            one, other = ones.columns[field.name], others.columns[field.name]
            codes, other_codes = one.codes[left], other.codes[right]
            present = (codes >= 0) & (other_codes >= 0)
            if present.all():
                shares = _shares(field, one, other, codes, other_codes)
            else:
                shares = Shares.of(np.zeros(len(left), np.int64), 1)
                some = _shares(field, one, other, codes[present], other_codes[present])
                shares.numerators[present] = some.numerators
                shares.denominators[present] = some.denominators
            found.append(FieldShares(field, present, shares))
        return found

    def _extend(self, numerators: Int64s, units: Int64s, weight: int, denominators: Int64s) -> None:
        """Extend the units of pairs by what their shares of a weight need, if that is not much."""
        lacking = np.flatnonzero(weight * units % denominators)
        if lacking.size:
            own = denominators[lacking]
            factors = own // np.gcd(weight * units[lacking], own)
            fits = factors <= self._most // units[lacking]
            numerators[lacking[fits]] *= factors[fits]
            units[lacking[fits]] *= factors[fits]


def _in_units(weight: int, shares: Shares, units: Int64s) -> Int64s:
    """Return the points of shares of a weight in units, cut to one where they do not fit."""
    whole, rest = np.divmod(weight * units, shares.denominators)
    points = shares.numerators * whole
    for place in np.flatnonzero(rest).tolist():
        share = int(shares.numerators[place]) * weight * int(units[place])
        points[place] = share // int(shares.denominators[place])
    return points


def _denominator(field: Field) -> int:
    """The denominator of the shares of a field, as far as its settings alone decide that."""
    if field.levels:
        return field.weight
    if field.compare in COMPARED_AS_SETS:
        return OF_REALS if field.compare == "cosine" else 1
    if field.compare == "jaro-winkler":
        return OF_REALS
    return field.reach.numerator**2


def _shares(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Shares:
    """Return the shares of pairs of values that are there."""
    compare = COMPARERS[field.compare]
    is_equal = left == in_codes_of(one, other)[right]
    if field.is_text:
        unequal = np.flatnonzero(~is_equal)
        shares = Shares.of(np.ones(left.size, np.int64), 1)
        some = _once(compare, field, (one, other), left[unequal], right[unequal])
        shares.numerators[unequal], shares.denominators[unequal] = some
    else:
        shares = _once(compare, field, (one, other), left, right)
    if field.levels:
        shares = _on_levels(field, shares)
    if field.frequent:
        # Equality of a frequent value gets less.
        known = dict(cast("tuple[tuple[str, int], ...]", field.frequent))
        less = np.array([known.get(value, 0) for value in one.values], np.int64)[left]
        places = np.flatnonzero((less > 0) & is_equal)
        shares.numerators[places] = field.weight - less[places]
        shares.denominators[places] = field.weight
    return shares


def _on_levels(field: Field, shares: Shares) -> Shares:
    """Return the shares of the points of the first level that each reaches."""
    points = np.zeros(shares.numerators.size, np.int64)
    for least, given in reversed(field.levels):  # the highest comes first, and is set last
        share = exact_fraction(least)
        points[Threshold(share).meets_many(*shares) if share else slice(None)] = given
    return Shares.of(points, field.weight)


def _of_distances(apart: Int64s, tolerance: int) -> Shares:
    """Return the shares of whole differences."""
    return Shares.of(tolerance**2 - np.minimum(apart, tolerance) ** 2, tolerance**2)


# -- texts ----------------------------------------------------------------------------------------


def _edited(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Shares:
    """Compare different texts by their distance."""
    apart = _distances(field, one.values, other.values, left, right)
    if one.canonical is not one.values:
        replaced = _distances(field, one.canonical, other.canonical, left, right)
        apart = np.minimum(apart, replaced + 1)
    return _of_distances(apart, int(field.tolerance))


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


def _winkler(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Shares:
    """Compare texts by the similarity of Jaro and Winkler."""
    texts = [one.canonical[code] for code in left.tolist()]
    other_texts = [other.canonical[code] for code in right.tolist()]
    return _of_reals(pair_winklers(texts, other_texts))


def _of_reals(values: Float64s) -> Shares:
    """Return shares cut to parts, as if the last few bits of a value were right."""
    return Shares.of(np.floor(OF_REALS * values + 2.0**-30).astype(np.int64), OF_REALS)


def _word_sets(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Shares:
    """Compare texts by their sets of words.

    A set of words is written as a string of one letter a word, in order. Common letters of two
    such strings are a common subsequence, which is found without a Python set a pair.
    """
    letters: dict[str, str] = {}
    words, others = (
        _word_strings(field, column.canonical, codes, letters)
        for column, codes in ((one, left), (other, right))
    )
    if len(letters) > _MOST_LETTERS:
        parts = zip(np.array_split(left, 2), np.array_split(right, 2), strict=True)
        halves = [_word_sets(field, one, other, *part) for part in parts]
        return Shares(*map(np.concatenate, zip(*halves, strict=True)))
    common = pair_common_lengths(words, others)
    sizes = np.fromiter(map(len, words), np.int64, len(words))
    other_sizes = np.fromiter(map(len, others), np.int64, len(others))
    if field.compare == "intersect":
        return Shares.of((common > 0).astype(np.int64), 1)
    if field.compare == "overlap":
        whole = np.minimum(sizes, other_sizes)
    else:
        whole = sizes + other_sizes - common
    return Shares(common, np.maximum(whole, 1))


def _word_strings(
    field: Field, values: list[str], codes: Int64s, letters: dict[str, str]
) -> list[str]:
    """Return words as strings of one letter each, of use while there are letters enough."""
    strings: dict[int, str] = {}
    for code in np.unique(codes).tolist():
        words = set(field.words_of(values[code]))
        for word in words:
            letters.setdefault(word, chr(min(len(letters), _MOST_LETTERS - 1)))
        strings[code] = "".join(sorted(letters[word] for word in words))
    return [strings[code] for code in codes.tolist()]


def _cosines(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Shares:
    """Compare texts by the cosine of their words, each counted and weighed by how rare it is."""
    frequent = dict(cast("tuple[tuple[str, int], ...]", field.frequencies))
    places: dict[str, int] = {}
    weights: list[int] = []
    sides = []
    for column, codes in ((one, left), (other, right)):
        used, rows = np.unique(codes, return_inverse=True)
        words: list[int] = []
        sizes: list[int] = []
        for code in used.tolist():
            own = field.words_of(column.canonical[code])
            sizes.append(len(own))
            for word in own:
                if word not in places:
                    places[word] = len(places)
                    weights.append(_rarity(frequent, word))
                words.append(places[word])
        sides.append((np.array(words, np.int64), np.array(sizes, np.int64), rows))
    rarities = np.array(weights, np.float64)  # whole numbers, as are all sums of products
    one_side, other_side = (_Words.of(words, sizes, rarities) for words, sizes, _ in sides)
    lefts, rights = sides[0][2], sides[1][2]
    lengths = np.sqrt(one_side.squares[lefts]) * np.sqrt(other_side.squares[rights])
    products = one_side.products(other_side, lefts, rights)
    return _of_reals(np.minimum(1.0, products / np.maximum(lengths, 1.0)))


class _Words(NamedTuple):
    """The words of some texts: each word of a text once, with how much it weighs there."""

    keys: Int64s  # of text and word, ascending
    texts: Int64s
    weights: Float64s
    offsets: Int64s  # of the words of each text
    vocabulary: int

    @classmethod
    def of(cls, words: Int64s, sizes: Int64s, rarities: Float64s) -> _Words:
        """Count the words of texts, of which each has so many; they weigh as much as they are rare.

        Args:
            words: of one text after the other, by number.
            sizes: how many each text has.
            rarities: of each word.
        """
        vocabulary = max(1, rarities.size)
        keys = np.repeat(np.arange(sizes.size), sizes) * vocabulary + words
        keys, counts = np.unique(keys, return_counts=True)
        texts, words = np.divmod(keys, vocabulary)
        offsets = offsets_of(np.bincount(texts, minlength=sizes.size))
        return cls(keys, texts, counts * rarities[words], offsets, vocabulary)

    @property
    def squares(self) -> Float64s:
        """The squares of the lengths of the texts as vectors."""
        return _sums(self.texts, self.weights**2, self.offsets.size - 1)

    def products(self, other: _Words, left: Int64s, right: Int64s) -> Float64s:
        """Multiply each text of ``left`` with that of the others in ``right``, as vectors."""
        parts = slices_of(np.diff(self.offsets)[left], _WORDS_AT_ONCE)
        products = [self._products_of(other, left[part], right[part]) for part in parts]
        return np.concatenate([np.empty(0), *products])

    def _products_of(self, other: _Words, left: Int64s, right: Int64s) -> Float64s:
        sizes = np.diff(self.offsets)[left]
        pairs = np.repeat(np.arange(left.size), sizes)  # one entry for each word of a left text
        places = self.offsets[left][pairs] + np.arange(pairs.size) - offsets_of(sizes)[pairs]
        wanted = self.keys[places] + (right - left)[pairs] * self.vocabulary
        at = np.searchsorted(other.keys, wanted)
        shared = np.flatnonzero(np.append(other.keys, -1)[at] == wanted)
        values = self.weights[places[shared]] * other.weights[at[shared]]
        return _sums(pairs[shared], values, left.size)


def _sums(places: Int64s, values: Float64s, size: int) -> Float64s:
    return np.bincount(places, values, size).astype(np.float64, copy=False)


def _rarity(frequent: Mapping[str, int], word: str) -> int:
    """Return 1 + ln((1 + n) / (1 + f)) of a word in f of n texts, in thousandths."""
    texts = frequent.get("", 0)
    share = (1 + texts) / (1 + min(texts, frequent.get(word, 1)))
    return round(IDF_UNITS * (1 + math.log(share)))


def frequencies(field: Field, column: RecordColumn) -> dict[str, int]:
    """Count in how many texts each word is, those of one left out; under "" how many texts."""
    texts = Counter(column.codes[column.codes >= 0].tolist())
    counted: Counter[str] = Counter()
    for code, count in texts.items():
        counted.update(dict.fromkeys(field.words_of(column.canonical[code]), count))
    kept = {word: count for word, count in sorted(counted.items()) if count > 1}
    return {"": texts.total(), **kept} if texts else {}


# -- numbers and places ---------------------------------------------------------------------------


def _numbers(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Shares:
    """Compare numbers by their difference, or by that over the larger, without rounding.

    Numbers with few decimals are whole numbers of a common unit, which is quick. The shares of
    others are cut to hundredths of a point.
    """
    tolerance = field.reach
    (numbers, units), (others, other_units) = map(_whole, (one, other))
    unit = np.lcm(units[left], other_units[right])  # 0 where a number is not whole in any
    usual = np.flatnonzero(unit)
    unit = unit[usual]
    a = numbers[left[usual]] * (unit // units[left[usual]])
    b = others[right[usual]] * (unit // other_units[right[usual]])
    gap = np.abs(a - b)
    scale = np.maximum(np.abs(a), np.abs(b)) if field.compare == "relative" else unit
    shares = Shares.of(np.zeros(left.size, np.int64), HUNDREDTHS * field.weight)
    if tolerance.denominator <= _LARGEST_ROOT:
        scale = np.maximum(scale, 1)  # two zeros are equal
        fits = scale <= _LARGEST_ROOT // tolerance.numerator
        usual, reach = usual[fits], tolerance.numerator * scale[fits]
        apart = np.minimum(gap[fits], reach // tolerance.denominator + 1)
        apart = np.minimum(apart * tolerance.denominator, reach)
        shares.numerators[usual] = reach**2 - apart**2
        shares.denominators[usual] = reach**2
    else:
        usual = usual[:0]
    rest = np.delete(np.arange(left.size), usual)
    if rest.size:
        shares.numerators[rest] = _hundredths(field, one, other, left[rest], right[rest])
    return shares


def _whole(column: RecordColumn) -> tuple[Int64s, Int64s]:
    """Return numbers as whole ones of units, each 1 / unit; 0 of a number that has too many."""
    columns = np.zeros((2, len(column.numbers)), np.int64)
    for place, number in enumerate(column.numbers):
        numerator, unit = number.as_integer_ratio()
        if unit <= _LARGEST_ROOT and abs(numerator) <= _LARGEST_NUMBER:
            columns[:, place] = numerator, unit
    return columns[0], columns[1]


def _hundredths(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Int64s:
    """Return ``floor(100 w (1 - (d / t)^2))`` of pairs of numbers, exactly.

    Floats tell how many hundredths it is at least and at most; where that differs, fractions
    decide.
    """
    full = HUNDREDTHS * field.weight
    tolerance = field.reach
    is_relative = field.compare == "relative"
    with np.errstate(all="ignore"):  # what overflows is in doubt
        a, b = one.floats[left], other.floats[right]
        sizes = np.maximum(np.abs(a), np.abs(b)) if is_relative else np.ones(left.size)
        reach = float(tolerance) * sizes
        share = np.minimum(np.abs(a - b) / reach, 2.0)
        near = full * (1.0 - np.square(share))
        doubt = full * _ROUNDINGS * ((np.abs(a) + np.abs(b)) / reach + 1.0)
        least, most = (np.maximum(np.floor(near + sign * doubt), 0.0) for sign in (-1, 1))
        points = least.astype(np.int64)
    for place in np.flatnonzero(~(least == most)).tolist():
        x, y = one.numbers[left[place]], other.numbers[right[place]]
        within = tolerance * max(abs(x), abs(y)) if is_relative else tolerance
        gap = min(abs(x - y), within) / within if within else 0
        points[place] = math.floor(full * (1 - gap**2))
    return points


def metres_between(ones: list[Place], others: list[Place]) -> Float64s:
    """Return the distances of places on a sphere as large as the Earth, in whole metres."""
    if not ones:
        return np.empty(0)
    (north, east), (other_north, other_east) = (
        np.radians(np.array(side, np.float64)).T for side in (ones, others)
    )
    half = np.sin((north - other_north) / 2) ** 2
    half += np.cos(north) * np.cos(other_north) * np.sin((east - other_east) / 2) ** 2
    return cast("Float64s", np.floor(2 * EARTH * np.arcsin(np.sqrt(np.minimum(half, 1.0)))))


def _places(
    field: Field, one: RecordColumn, other: RecordColumn, left: Int64s, right: Int64s
) -> Shares:
    """Compare places by their distance."""
    ones = [one.places[code] for code in left.tolist()]
    others = [other.places[code] for code in right.tolist()]
    reach = field.reach
    apart = metres_between(ones, others).astype(np.int64) * reach.denominator
    return _of_distances(apart, reach.numerator)


COMPARED_AS_SETS = ("words", "overlap", "intersect", "cosine")
COMPARERS: dict[str, Comparer] = {
    **dict.fromkeys(("edit", "levenshtein", "alignment", "damerau", "exact"), _edited),
    **dict.fromkeys(("words", "overlap", "intersect"), _word_sets),
    "cosine": _cosines,
    "jaro-winkler": _winkler,
    **dict.fromkeys(("numeric", "relative", "date"), _numbers),
    "place": _places,
}


# -- pairs of values ------------------------------------------------------------------------------


def in_codes_of(one: RecordColumn, other: RecordColumn) -> Int64s:
    """Return for each value of ``other`` its code in ``one``, -1 where that has it not."""
    if one is other:
        return np.arange(len(other.values), dtype=np.int64)
    places = {value: code for code, value in enumerate(one.values)}
    return np.array([places.get(value, -1) for value in other.values], np.int64)


def _once(
    compare: Comparer,
    field: Field,
    columns: tuple[RecordColumn, RecordColumn],
    left: Int64s,
    right: Int64s,
) -> Shares:
    """Compare each pair of values once, if many records have the same."""
    if not left.size:
        return Shares.of(left, 1)
    width = len(columns[1].values)
    cells = len(columns[0].values) * width
    pairs = left * width + right
    if cells <= _DENSE * pairs.size:
        seen = np.zeros(cells, np.bool_)
        seen[pairs] = True
        different = np.flatnonzero(seen)
        places = (np.cumsum(seen) - 1)[pairs]
    elif _mostly_differ(pairs):
        return compare(field, *columns, left, right)
    else:
        different, places = np.unique(pairs, return_inverse=True)
    shares = compare(field, *columns, different // width, different % width)
    return Shares(shares.numerators[places], shares.denominators[places])


def _mostly_differ(pairs: Int64s) -> bool:
    """Whether at least half of the pairs of values differ from all others, judged by hashes."""
    marked = np.zeros(4 << pairs.size.bit_length(), np.bool_)
    marked[mixed(pairs.view(np.uint64)) % np.uint64(marked.size)] = True
    return 2 * int(np.count_nonzero(marked)) > pairs.size

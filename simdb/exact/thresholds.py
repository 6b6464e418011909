"""A threshold of similarity as a rational number, and every bound that follows from it.

Exactness is not a matter for floating point: ``floor((1 - 0.9) * 10) + 1`` is 1 in doubles and 2 in
truth, and a pair whose similarity *is* the threshold is lost. So a threshold is a fraction
*numerator / denominator*, every bound below is arithmetic of whole numbers, and no other module
multiplies by a threshold.

Notation: a set of *size* symbols; two sets of the sizes *s* and *t* with *overlap* common symbols
have the Jaccard similarity overlap / (s + t - overlap). With J the threshold that is at least J
exactly if ``overlap >= ceil(J (s + t) / (1 + J))``, the *needed overlap* of the total size s + t.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simdb.arguments import short
from simdb.arrays import Bools, Float64s, Int64s
from simdb.errors import ConfigurationError, WrongTypeError

ThresholdLike: TypeAlias = int | float | str | Fraction | Decimal

_FEW = 8
_ROUNDED = 2.0**-50  # of a product of float64, what it may be off by, and more
# Products of two numbers up to this one are within int64.
_LARGEST_FACTOR = 3_037_000_499
# "1e-999999999" is a few characters, and a fraction that does not fit into memory.
_LONGEST_TEXT = 200
_LARGEST_EXPONENT = 400
_MOST_ZEROS = 20  # of a number in decimals, before its digits or behind them
_MOST_BITS = 10_000  # of the parts of a fraction, about 3,000 digits: Python writes up to 4,300


def decimal(value: Fraction) -> str:
    """Return a number in decimals where it has few, else as a fraction."""
    quotient = Decimal(value.numerator) / Decimal(value.denominator)
    if Fraction(quotient) != value:
        return str(value)
    many_zeros = abs(quotient.adjusted()) > _MOST_ZEROS
    return format(quotient.normalize(), "e" if many_zeros else "f")


class _Rational(Struct, frozen=True, order=True):
    """An exact value, in the units of the measure."""

    fraction: Fraction

    def __str__(self) -> str:
        return decimal(self.fraction)


class Threshold(_Rational, frozen=True, order=True):
    """A threshold of Jaccard similarity: a rational number above 0 and at most 1."""

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise _out_of_range("threshold", self.fraction)

    @classmethod
    def parse(cls, value: ThresholdLike, *, name: str = "threshold") -> Self:
        """Read a threshold; a float stands for the decimal number that it prints as.

        ``0.8`` is 4/5 and not the binary number next to it. Text may be a decimal number or a
        fraction (``"4/5"``). Messages call it by ``name``. ConfigurationError: it is not above 0
        and at most 1, not a number, or a truth value; WrongTypeError: no number and no text.

        >>> Threshold.parse(0.8).needed_overlap(19)
        9
        """
        return _parsed(cls, value, name) if type(value) in _PLAIN else cls._read(value, name)

    @classmethod
    def _read(cls, value: ThresholdLike, name: str) -> Self:
        if not isinstance(value, int | float | str | Fraction | Decimal | np.number | np.bool_):
            raise WrongTypeError(f"{name} must be a number or text, not {type(value).__name__}")
        fraction = _fraction_of(value)
        if not 0 < fraction <= 1:
            raise _out_of_range(name, value)
        return cls(fraction)

    def order(self, values: Float64s) -> Float64s:
        """Sort keys of values: the best comes first."""
        return -values

    def needed_overlap(self, total_size: int) -> int:
        """Compute the smallest overlap of two sets of that total size that are similar enough.

        At least 1, also of two empty sets: sets without a common symbol are never similar.
        """
        numerator, denominator = self.fraction.as_integer_ratio()
        return max(1, _ceiling(numerator * total_size, numerator + denominator))

    def needed_overlaps(self, total_sizes: npt.NDArray[np.integer]) -> Int64s:
        """Compute ``needed_overlap`` of every element, exactly."""
        numerator, denominator = self.fraction.as_integer_ratio()
        if total_sizes.ndim == 1 and total_sizes.size <= _FEW:  # Python's own numbers do it sooner
            whole = numerator + denominator
            few = [max(1, _ceiling(numerator * total, whole)) for total in total_sizes.tolist()]
            return np.array(few, np.int64)
        share = Fraction(numerator, numerator + denominator)
        return np.maximum(_ceiling_products(share, total_sizes), 1)

    def needed_overlap_table(self, largest_total: int) -> Int64s:
        """Tabulate ``needed_overlap`` of 0 to ``largest_total``, for kernels to look up."""
        return self.needed_overlaps(np.arange(largest_total + 1, dtype=np.int64))

    def meets_many(
        self, overlaps: npt.NDArray[np.integer], unions: npt.NDArray[np.integer]
    ) -> Bools:
        """Tell where overlap / union is at least the threshold; nothing meets 0 / 0.

        Exact for what is given, whole numbers or floats.
        """
        if np.asarray(overlaps).dtype.kind == "f":
            least = float(self.fraction) * unions
            near: Bools = (overlaps >= least) & (overlaps > 0)
            doubtful = np.flatnonzero(np.abs(overlaps - least) <= _ROUNDED * least)
            for place in doubtful.tolist():
                overlap = Fraction(float(overlaps[place]))
                near[place] = overlap >= self.fraction * Fraction(float(unions[place])) > 0
            return near
        if overlaps.ndim == 1 and overlaps.size <= _FEW:  # which Python's own numbers do sooner
            numerator, denominator = self.fraction.as_integer_ratio()
            pairs = zip(overlaps.tolist(), unions.tolist(), strict=True)
            found = [one > 0 and one * denominator >= other * numerator for one, other in pairs]
            return np.array(found, np.bool_)
        many_overlaps, many_unions = np.asarray(overlaps, np.int64), np.asarray(unions, np.int64)
        largest = max(_largest(many_overlaps), _largest(many_unions))
        ratio = _at_least(self.fraction, largest)
        if _may_overflow(largest, ratio):
            many_overlaps, many_unions = many_overlaps.astype(object), many_unions.astype(object)
        met = many_overlaps * ratio.denominator >= many_unions * ratio.numerator
        met &= many_overlaps > 0
        return np.asarray(met, dtype=np.bool_)

    def minimum_size(self, size: int) -> int:
        """Compute the size of the smallest set similar enough to one of ``size`` (MMDS 3.9.3)."""
        numerator, denominator = self.fraction.as_integer_ratio()
        return _ceiling(numerator * size, denominator)

    def minimum_sizes(self, sizes: npt.NDArray[np.integer]) -> Int64s:
        """Compute ``minimum_size`` of every element, exactly."""
        return _ceiling_products(self.fraction, sizes)

    def maximum_size(self, size: int) -> int:
        """Compute the size of the largest set similar enough to one of ``size`` (MMDS 3.9.3)."""
        numerator, denominator = self.fraction.as_integer_ratio()
        return denominator * size // numerator

    def prefix_length(self, size: int) -> int:
        """Compute how many first symbols of a set must be posted, or probed (MMDS 3.9.4).

        Two sets that are similar enough have a common symbol among the first so many of each:
        size - ceil(J size) + 1, which is the book's floor((1 - J) size) + 1. An empty set has 0.
        """
        return size - self.minimum_size(size) + 1 if size else 0

    def prefix_lengths(self, sizes: npt.NDArray[np.integer]) -> Int64s:
        """Compute ``prefix_length`` of every element, exactly."""
        whole = np.asarray(sizes).astype(np.int64)
        return np.where(whole > 0, whole - self.minimum_sizes(whole) + 1, 0)

    def posted_prefix_lengths(self, sizes: npt.NDArray[np.integer]) -> Int64s:
        """Compute how many first symbols must be posted if no probe is smaller than the set.

        size - needed_overlap(2 size) + 1: against a larger probe the set needs no smaller overlap
        than against one of its own size (Xiao and others, WWW 2008, section 3.1).
        """
        whole = np.asarray(sizes).astype(np.int64)
        return np.where(whole > 0, whole - self.needed_overlaps(2 * whole) + 1, 0)


class MaximumDistance(_Rational, frozen=True, order=True):
    """A largest distance: a rational number of at least 0."""

    @classmethod
    def parse(cls, value: ThresholdLike, *, name: str = "max_distance") -> Self:
        """Read a distance as ``Threshold.parse`` reads a threshold; ConfigurationError below 0.

        But NumPy's numbers of less than double precision are what they are, not what they print
        as: distances that were computed in it lie at their own values.
        """
        return _parsed(cls, value, name) if type(value) in _PLAIN else cls._read(value, name)

    @classmethod
    def _read(cls, value: ThresholdLike | np.number, name: str) -> Self:
        fraction = _fraction_of(float(value) if isinstance(value, np.floating) else value)
        if fraction < 0:
            raise _refused(name, value, "a number of at least 0")
        return cls(fraction)

    def meets_many(self, numerators: npt.NDArray[Any], denominators: npt.NDArray[Any]) -> Bools:
        """Tell of every pair of elements whether its ratio is at most the distance.

        Exact for whole numbers; else in float64, against the distance rounded to it.
        """
        if numerators.dtype.kind in "iu" and denominators.dtype.kind in "iu":
            if numerators.ndim == 1 and numerators.size <= _FEW:  # as in Threshold.meets_many
                numerator, denominator = self.fraction.as_integer_ratio()
                pairs = zip(numerators.tolist(), denominators.tolist(), strict=True)
                few = [one * denominator <= other * numerator for one, other in pairs]
                return np.array(few, np.bool_)
            whole = numerators.astype(np.int64)
            most = self._largest_numerators(denominators.astype(np.int64), _largest(whole))
            exact: Bools = np.asarray(whole <= most, np.bool_)
            return exact
        near: Bools = numerators <= float(self) * denominators
        return near

    def __float__(self) -> float:
        """Round to float64: infinity above its range, where ``float(self.fraction)`` fails."""
        try:
            return float(self.fraction)
        except OverflowError:
            return inf

    def _largest_numerators(self, denominators: Int64s, largest: int) -> Int64s:
        """Compute the largest numerator that each denominator allows, of those up to ``largest``.

        floor(f d) is w d + d - ceil((1 - r) d) with the whole part w and the rest r of the distance
        f. What is above ``largest`` need not be told apart, so w may be cut to it, and all products
        are below that of the largest numerator and denominator, plus that denominator.
        """
        quotient, rest = divmod(self.fraction, 1)
        quotient = min(quotient, largest)
        if max(largest, _largest(denominators)) > _LARGEST_FACTOR:
            exact = [(quotient + rest) * int(value) // 1 for value in denominators.flat]
            return np.array(exact, dtype=object).reshape(denominators.shape)
        return quotient * denominators + denominators - _ceiling_products(1 - rest, denominators)

    def order(self, values: Float64s) -> Float64s:
        """Sort keys of values: the best comes first."""
        return values


Bound: TypeAlias = Threshold | MaximumDistance
_AnyBound = TypeVar("_AnyBound", Threshold, MaximumDistance)

_PLAIN = float, int  # and no truth values, which are of another type


@lru_cache(maxsize=256)  # search after search asks for the same
def _parsed(sort: type[_AnyBound], value: float, name: str) -> _AnyBound:
    return sort._read(value, name)


def admits(own: Bound, other: Bound) -> bool:
    """Tell whether what is within the other bound, of the same sort, is within the own one."""
    if isinstance(own, MaximumDistance):
        return other.fraction <= own.fraction
    return other.fraction >= own.fraction


def _out_of_range(name: str, value: object) -> ConfigurationError:
    return _refused(name, value, "a number above 0 and at most 1")


def _refused(name: str, value: object, wanted: str) -> ConfigurationError:
    """Say what a bound must be, and of a number that is one whether it is too long or too far."""
    why = ""
    if isinstance(value, str | Decimal):
        with suppress(InvalidOperation):
            if abs(Decimal(value).adjusted()) > _LARGEST_EXPONENT:
                why = f"; its exponent may be from -{_LARGEST_EXPONENT} to {_LARGEST_EXPONENT}"
        if len(str(value)) > _LONGEST_TEXT:
            why = f"; it may have {_LONGEST_TEXT} characters"
    if isinstance(value, int | Fraction) and _has_too_many_bits(value):
        parts = "it" if isinstance(value, int) else "its parts"
        why = f"; {parts} may have {_MOST_BITS:,} bits"
    return ConfigurationError(f"{name} must be {wanted}, not {short(value)}{why}")


def _fraction_of(value: ThresholdLike | np.number | np.bool_) -> Fraction:
    """Return ``exact_fraction`` of a number, -1 of what is none: True, False, other text."""
    if not isinstance(value, bool | np.bool_):
        with suppress(ValueError, ArithmeticError):
            return exact_fraction(value)
    return Fraction(-1)


def exact_fraction(value: ThresholdLike | np.number) -> Fraction:
    """Turn a number or text into the fraction that it prints as."""
    if isinstance(value, int | Fraction):
        if _has_too_many_bits(value):
            raise ValueError("a fraction of too many digits")
        return Fraction(value)
    text = str(value)
    if len(text) > _LONGEST_TEXT:
        raise ValueError(text)
    if "/" in text:
        return Fraction(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(text)
    return Fraction(number)


def _has_too_many_bits(value: int | Fraction) -> bool:
    return max(map(int.bit_length, value.as_integer_ratio())) > _MOST_BITS


def _ceiling(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _largest(values: Int64s) -> int:
    return int(values.max()) if values.size else 0


def _may_overflow(largest: int, ratio: Fraction) -> bool:
    """Whether a product of a number up to the largest and a part of a fraction leaves 64 bits."""
    return largest * max(ratio.as_integer_ratio()) >= 2**63


def _ceiling_products(share: Fraction, values: npt.NDArray[np.integer]) -> Int64s:
    """Compute ceil(share * value) of every element, exactly, for 0 < share <= 1.

    ceil(share * value) is the least whole m with m / value >= share. With the least fraction that
    is at least ``share`` and has no larger denominator than any of the values, the same m result,
    and then all products are below the square of the largest value.
    """
    whole = np.asarray(values).astype(np.int64)
    largest = _largest(whole)
    ratio = _at_least(share, largest)
    if _may_overflow(largest, ratio):
        exact = [_ceiling(ratio.numerator * int(value), ratio.denominator) for value in whole.flat]
        return np.array(exact, dtype=np.int64).reshape(whole.shape)
    return -(-ratio.numerator * whole // ratio.denominator)


def _at_least(share: Fraction, largest_denominator: int) -> Fraction:
    """Find the least fraction at or above ``share`` with a denominator up to the given one.

    The descent of the Stern-Brocot tree between 0 and 1, whole runs of equal steps at a time:
    lower < share <= upper are neighbours, so that any fraction between them has at least the sum
    of their denominators.
    """
    goal, unit = share.as_integer_ratio()
    lower, lower_unit, upper, upper_unit = 0, 1, 1, 1
    while lower_unit + upper_unit <= largest_denominator:
        above = upper * unit - goal * upper_unit
        below = goal * lower_unit - lower * unit
        if above == 0:
            break
        steps = min((below - 1) // above, (largest_denominator - lower_unit) // upper_unit)
        lower, lower_unit = lower + steps * upper, lower_unit + steps * upper_unit
        below -= steps * above
        steps = min(above // below, (largest_denominator - upper_unit) // lower_unit)
        upper, upper_unit = upper + steps * lower, upper_unit + steps * lower_unit
    return Fraction(upper, upper_unit)

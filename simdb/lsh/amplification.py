"""AND and OR of locality-sensitive families, and the S-curves they make (MMDS 3.4.2, 3.6).

A construction is a function of the probability p that one function of the family calls two items a
candidate pair: ``And(rows)`` gives p^rows, ``Or(bands)`` gives 1 - (1 - p)^bands, and each may hold
another inside, so that banding is ``Or(bands, And(rows))``. ``lsh/cascades.py`` makes buckets of
any of them.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb
from operator import index
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from simdb.arguments import is_whole, short
from simdb.arrays import Float64s
from simdb.errors import ConfigurationError

Probability = TypeVar("Probability", float, Fraction, Float64s)

_MOST_MEMBERS = 10**18
_LONGEST = 256  # characters of a cascade as text
_LAYER = r"\s*(And|Or)\s*\(\s*(\d{1,9})\s*"

_GRID = 4096
_REFINEMENTS = 4  # of a grid between two of its points, after which these are next to each other


class Construction(Struct, frozen=True):
    """Turn the collision probability of a family into that of an amplified one."""

    @abstractmethod
    def probability(self, single: Probability) -> Probability:
        """Return the probability of a candidate pair, given that of a single function."""

    @abstractmethod
    def slope(self, single: Probability) -> Probability:
        """Return the derivative of ``probability``."""

    @abstractmethod
    def ways(self, agreeing: int) -> Ways:
        """Count the ways in which its functions agree or not, ``agreeing`` for each that does."""

    @property
    def layers(self) -> list[Layer]:
        """What it is made of, the outermost first; layers of one member change nothing."""
        return []


class Ways(Struct, frozen=True):
    """Ways in which functions agree or not, each weighted by a number for every one that does."""

    met: int  # those that make a candidate pair
    every: int


class Layer(Struct, frozen=True):
    """So many members of which all must agree (``And``), or one (``Or``)."""

    combine: type[And] | type[Or]
    members: int


class Single(Construction, frozen=True):
    """One function of the family as it is."""

    def probability(self, single: Probability) -> Probability:
        """Return p."""
        return single

    def slope(self, single: Probability) -> Probability:
        """Return 1, in the type of p."""
        return single * 0 + 1

    def ways(self, agreeing: int) -> Ways:
        """Return the way in which it agrees, and the other."""
        return Ways(agreeing, agreeing + 1)


class And(Construction, frozen=True):
    """``rows`` members of the inner family must all agree (MMDS 3.6.3)."""

    rows: int
    inner: Construction = Single()

    def __post_init__(self) -> None:
        force_setattr(self, "rows", _members(self, self.rows, self.inner))

    def __str__(self) -> str:
        return _written(self, self.rows, self.inner)

    @property
    def layers(self) -> list[Layer]:
        """This layer, then those inside."""
        return _layered(And, self.rows, self.inner)

    def probability(self, single: Probability) -> Probability:
        """Return q^rows for the inner probability q."""
        return self.inner.probability(single) ** self.rows

    def slope(self, single: Probability) -> Probability:
        """Return rows q^(rows - 1) q'."""
        inner = self.inner.probability(single)
        return self.inner.slope(single) * self.rows * inner ** (self.rows - 1)

    def ways(self, agreeing: int) -> Ways:
        """Return the ways in which all members are met."""
        inner = self.inner.ways(agreeing)
        return Ways(inner.met**self.rows, inner.every**self.rows)


class Or(Construction, frozen=True):
    """At least one of ``bands`` members of the inner family must agree (MMDS 3.6.3)."""

    bands: int
    inner: Construction = Single()

    def __post_init__(self) -> None:
        force_setattr(self, "bands", _members(self, self.bands, self.inner))

    def __str__(self) -> str:
        return _written(self, self.bands, self.inner)

    @property
    def layers(self) -> list[Layer]:
        """This layer, then those inside."""
        return _layered(Or, self.bands, self.inner)

    def probability(self, single: Probability) -> Probability:
        """Return 1 - (1 - q)^bands for the inner probability q."""
        return 1 - (1 - self.inner.probability(single)) ** self.bands

    def slope(self, single: Probability) -> Probability:
        """Return bands (1 - q)^(bands - 1) q'."""
        inner = self.inner.probability(single)
        return self.inner.slope(single) * self.bands * (1 - inner) ** (self.bands - 1)

    def ways(self, agreeing: int) -> Ways:
        """Return the ways but those in which no member is met."""
        inner = self.inner.ways(agreeing)
        every = inner.every**self.bands
        return Ways(every - (inner.every - inner.met) ** self.bands, every)


def _members(construction: Construction, members: object, inner: object) -> int:
    name = type(construction).__name__
    if not is_whole(members):
        raise ConfigurationError(f"{name} needs a whole number of members, not {short(members)}")
    if members < 1:
        raise ConfigurationError(f"{name} needs at least one member, not {short(members)}")
    if members > _MOST_MEMBERS:
        raise ConfigurationError(f"{name} has at most {_MOST_MEMBERS:,} members")
    if not isinstance(inner, Construction):
        raise ConfigurationError(f"{name} holds another And or Or, not {short(inner)}")
    return index(members)


def _written(construction: Construction, members: int, inner: Construction) -> str:
    inside = "" if isinstance(inner, Single) else f", {inner}"
    return f"{type(construction).__name__}({members}{inside})"


def _layered(combine: type[And] | type[Or], members: int, inner: Construction) -> list[Layer]:
    """Put a layer around others, as one with the next of these if that is of its kind."""
    inside = inner.layers
    if members == 1:
        return inside
    if inside and inside[0].combine is combine:
        return [Layer(combine, members * inside[0].members), *inside[1:]]
    return [Layer(combine, members), *inside]


def of_layers(layers: Sequence[Layer]) -> Construction:
    """Return the construction of layers, the outermost first."""
    construction: Construction = Single()
    for layer in reversed(layers):
        if layer.members > 1:
            construction = layer.combine(layer.members, construction)
    return construction


def parse_construction(text: str) -> Construction:
    """Return the construction that a text spells; ConfigurationError for none.

    >>> parse_construction("And(4, Or(4, And(2)))").probability(0.5)
    0.21836967789568007
    """
    remaining, found = text, []
    while layer := re.match(_LAYER, remaining, re.I) if len(text) <= _LONGEST else None:
        found.append(Layer(And if layer[1].lower() == "and" else Or, int(layer[2])))
        remaining = remaining[layer.end() :]
        if not remaining.startswith(","):
            break
        remaining = remaining[1:]
    if not found or remaining.replace(" ", "") != ")" * len(found):
        raise ConfigurationError(
            f"a cascade is written as And(4, Or(4, And(2))), not {text[:_LONGEST]!r}"
        )
    return of_layers(found)


@lru_cache(maxsize=32)
def candidate_shares(construction: Construction, functions: int) -> Float64s:
    """Return how likely a pair is a candidate of which k functions agree: float64 by k from 0.

    It is the share of all choices of k that make one. The choices are counted by ``ways`` as the
    coefficients of a polynomial, whose value at a number larger than each of them has all as its
    digits (Kronecker substitution); so they are exact.
    """
    digit = functions // 8 + 1  # bytes, for at most C(functions, k) choices
    met = construction.ways(1 << 8 * digit).met.to_bytes(digit * (functions + 1), "little")
    digits = (met[place : place + digit] for place in range(0, len(met), digit))
    counts = [int.from_bytes(one, "little") for one in digits]
    shares = np.array([count / comb(functions, k) for k, count in enumerate(counts)])
    shares.flags.writeable = False
    return shares


def s_curve(construction: Construction, points: int = 101) -> Float64s:
    """Return float64 (points, 2): p evenly from 0 to 1 and its candidate probability."""
    single = np.linspace(0.0, 1.0, points)
    return np.column_stack((single, construction.probability(single)))


def fixed_points(construction: Construction) -> list[float]:
    """Return the p in (0, 1) that the construction leaves as they are, rising.

    Above one of them amplification raises probabilities, below it lowers them, or the other way
    round where several curves cross (MMDS 3.6.3). Each lies between two points of ever finer grids
    where the curve crosses the diagonal.
    """
    return [
        _crossing(construction, float(left), float(right))
        for left, right in _crossings(construction, np.linspace(0.0, 1.0, _GRID + 1)[1:-1])
    ]


def fixed_point(construction: Construction) -> float | None:
    """Return the first of ``fixed_points``, or None without one."""
    points = fixed_points(construction)
    return points[0] if points else None


def _crossing(construction: Construction, left: float, right: float) -> float:
    single = np.array([left, right])
    for _ in range(_REFINEMENTS - 1):
        grid = np.linspace(single[0], single[1], _GRID + 1)
        closer = _crossings(construction, grid)
        if not len(closer):
            break
        single = closer[0]
    return float(single[0])


def _crossings(construction: Construction, single: Float64s) -> Float64s:
    """Return the neighbours on a grid between which the curve crosses the diagonal: (n, 2)."""
    above = construction.probability(single) > single
    places = np.flatnonzero(above[1:] != above[:-1])
    return np.column_stack((single[places], single[places + 1]))


def steepest(construction: Construction) -> tuple[float, float]:
    """Return the p at which the S-curve is steepest, and its slope there (MMDS 3.4.2)."""
    low, high = 0.0, 1.0
    for _ in range(_REFINEMENTS):
        single = np.linspace(low, high, _GRID + 1)
        best = int(np.argmax(construction.slope(single)))
        low, high = float(single[max(best - 1, 0)]), float(single[min(best + 1, _GRID)])
    return float(single[best]), float(construction.slope(float(single[best])))

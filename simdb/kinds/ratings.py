"""Ratings as sets and bags: which users, and which items, are alike (MMDS 3.1.3).

A table of (user, item, rating) becomes one set or bag a user, of what that user rated, or one an
item, of who rated it. Sets know no degrees, so a rating is either

1. ignored where it is low, as if it had never been given (``Liked``),
2. one of two elements, liked or hated, and ignored in between (``LikedOrHated``), or
3. as many copies of the element as it has stars, for bags (``Stars``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from operator import index
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from simdb.arguments import is_number, is_whole, require_choice, short
from simdb.errors import BadItemError, ConfigurationError
from simdb.kinds.base import shown
from simdb.results import Key

Number: TypeAlias = int | float | Fraction | Decimal
Rated: TypeAlias = tuple[Key, Key, Number]
By: TypeAlias = Literal["user", "item"]


class Liked(Struct, frozen=True):
    """Keep ratings of at least ``least`` and ignore the others: the first way."""

    least: Number = 4

    def __post_init__(self) -> None:
        _require_number("Liked.least", self.least)

    def occurrences(self, element: Key, rating: Number) -> tuple[Key, int]:
        """Return the element that a rating stands for, and how often it occurs."""
        return element, int(rating >= self.least)


class LikedOrHated(Struct, frozen=True):
    """Make "liked x" of ratings of x of at least ``liked``, "hated x" of those up to ``hated``."""

    liked: Number = 4
    hated: Number = 2

    def __post_init__(self) -> None:
        _require_number("LikedOrHated.liked", self.liked)
        _require_number("LikedOrHated.hated", self.hated)
        if not self.hated < self.liked:
            raise ConfigurationError(
                f"LikedOrHated.hated must be below liked, but {self.hated} is not below "
                f"{self.liked}"
            )

    def occurrences(self, element: Key, rating: Number) -> tuple[Key, int]:
        """Return the element that a rating stands for, and how often it occurs."""
        if rating >= self.liked:
            return f"liked {element}", 1
        return f"hated {element}", int(rating <= self.hated)


class Stars(Struct, frozen=True):
    """Make as many copies of the element as the rating has stars: bags, the third way."""

    def occurrences(self, element: Key, rating: Number) -> tuple[Key, int]:
        """Return the element that a rating stands for, and how often it occurs."""
        if rating < 0 or rating % 1:
            written = f"{float(rating):g}" if isinstance(rating, Fraction) else rating
            raise BadItemError(
                f"a number of stars must be a whole number from 0 on, not {written}: multiply half "
                "stars by 2"
            )
        return element, int(rating)


Treatment: TypeAlias = Liked | LikedOrHated | Stars


class RatingTable:
    """Ratings taken one by one, in any order; every pair of user and item once."""

    def __init__(self, treatment: Treatment) -> None:
        self._treatment = treatment
        self._rated: dict[Key, dict[Key, int]] = {}
        self._elements: dict[Key, set[Key]] = {}
        self._type: type | None = None

    def add(self, key: Key, element: Key, rating: Number) -> None:
        """Take the rating of ``element`` into the set or bag of ``key``, or raise BadItemError."""
        key, element = _plain(key), _plain(element)
        if self._type not in (None, type(element)):
            raise BadItemError(
                "rated items must be all texts or all whole numbers, but "
                f"{short(element)} differs from those before"
            )
        if not _is_number(rating):
            raise BadItemError(f"a rating must be a number, not {short(rating)}")
        if element in self._elements.get(key, ()):
            raise BadItemError(
                f"{short(key)} and {short(element)} already have a rating; keep one of them"
            )
        occurring, count = self._treatment.occurrences(element, rating)
        self._type = type(element)
        self._elements.setdefault(key, set()).add(element)
        counts = self._rated.setdefault(key, {})
        if count:
            counts[occurring] = count

    def __iter__(self) -> Iterator[Key]:
        """Yield the keys in the order in which they were first rated."""
        return iter(self._rated)

    def counts(self, key: Key) -> dict[Key, int]:
        """Return the elements of a key and how often each occurs; none if all were ignored."""
        return self._rated[key]


def _plain(name: object) -> Key:
    if isinstance(name, str):
        return str.__str__(name)
    if is_whole(name):
        return index(name)
    raise BadItemError(f"a user or item must be text or a whole number, not {shown(name)}")


def _require_number(name: str, value: object) -> None:
    if not _is_number(value):
        raise ConfigurationError(f"{name} must be a number, not {short(value)}")


def _is_number(value: object) -> bool:
    given: Any = value
    try:
        return is_number(given) and math.isfinite(given)
    except (OverflowError, ValueError):  # beyond what a float holds; a signalling NaN
        return False


def _three(row: Any) -> Rated:
    try:
        user, item, rating = row
    except (TypeError, ValueError):  # no values, or another number of them
        told = f"a rating is a user, an item and a number, not {short(row)}"
        raise BadItemError(told) from None
    return user, item, rating


def _table(ratings: Iterable[Rated], treatment: Treatment, by: By) -> RatingTable:
    require_choice("by", by, "user", "item")
    table = RatingTable(treatment)
    for row, given in enumerate(ratings):
        try:
            user, item, rating = _three(given)
            table.add(*((user, item) if by == "user" else (item, user)), rating)
        except BadItemError as error:
            raise BadItemError(f"row {row}: {error}", row=row) from None
    return table


def sets_of_liked(
    ratings: Iterable[Rated], *, least: Number = 4, by: By = "user"
) -> dict[Key, frozenset[Any]]:
    """Make a set of every user, of the items rated highly; or of every item, of such users.

    Ratings below ``least`` are ignored, as if they had never been given (MMDS 3.1.3, the first
    option). A user with none but low ones has the empty set. Rows are (user, item, rating), every
    user and item together at most once. The sets are in the order of first rating.

    Raises:
        BadItemError: a row is no rating, or there are two of one pair; ``row`` tells which.

    >>> sets_of_liked([("ann", "Alien", 5), ("ann", "Brazil", 1), ("bob", "Alien", 4)])
    {'ann': frozenset({'Alien'}), 'bob': frozenset({'Alien'})}
    """
    table = _table(ratings, Liked(least), by)
    return {key: frozenset(table.counts(key)) for key in table}


def sets_of_liked_or_hated(
    ratings: Iterable[Rated], *, liked: Number = 4, hated: Number = 2, by: By = "user"
) -> dict[Key, frozenset[str]]:
    """Make a set of every user, of elements "liked item" and "hated item"; or of every item.

    Ratings in between ``hated``, the highest that is hatred, and ``liked``, the lowest that is
    liking, are ignored (MMDS 3.1.3, the second option). Other arguments, answer and errors are
    those of ``sets_of_liked``.

    >>> sets_of_liked_or_hated([("ann", "Alien", 5), ("bob", "Alien", 1)])
    {'ann': frozenset({'liked Alien'}), 'bob': frozenset({'hated Alien'})}
    """
    table = _table(ratings, LikedOrHated(liked, hated), by)
    return {key: frozenset(map(str, table.counts(key))) for key in table}


def bags_of_stars(ratings: Iterable[Rated], *, by: By = "user") -> dict[Key, Counter[Any]]:
    """Make a bag of every user, in which an item occurs once a star; or of every item.

    (MMDS 3.1.3, the third option.) Ratings are whole numbers; none of an item is none in the bag.
    Arguments, order and errors are those of ``sets_of_liked``.

    >>> bags_of_stars([("ann", "Alien", 3), ("ann", "Brazil", 1)])
    {'ann': Counter({'Alien': 3, 'Brazil': 1})}
    """
    table = _table(ratings, Stars(), by)
    return {key: Counter(table.counts(key)) for key in table}

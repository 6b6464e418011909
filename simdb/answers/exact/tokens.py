"""Resume tokens: where an exact join that was left off goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from simdb.errors import ConfigurationError
from simdb.exact.joins import Place
from simdb.exact.thresholds import Threshold
from simdb.storage.collection.reader import CollectionReader


@dataclass(frozen=True, slots=True)
class MemoryToken:
    """A join in memory: the same state of the collection gives the same ranges and batches.

    Attributes:
        threshold: of the join.
        collection: its number.
        changes: commits that had changed it.
        since: pairs of two items of lower numbers are left out.
        place: where the join goes on.
    """

    threshold: Threshold
    collection: int
    changes: int
    since: int
    place: Place

    def __str__(self) -> str:
        numbers = self.collection, self.changes, self.since, *self.place
        return ":".join(["m", str(self.threshold.fraction), *map(str, numbers)])

    def after(self, place: Place) -> MemoryToken:
        """Return the token when more is done."""
        return replace(self, place=place)

    def require(self, collection: CollectionReader) -> None:
        """Raise unless the collection is as it was.

        Raises:
            ConfigurationError: it has changed, or is another one.
        """
        if (collection.number, collection.manifest.changes) != (self.collection, self.changes):
            raise _outdated()


@dataclass(frozen=True, slots=True)
class SweepToken:
    """A join by sweeping the postings of an epoch.

    Attributes:
        threshold: of the join.
        epoch: its number.
        changes: commits that had changed the collection.
        since: pairs of two items of lower numbers are left out.
        place: where the join goes on.
        counted: the ranges are parts of all candidates together, else slices of postings.
        room: postings of a slice.
    """

    threshold: Threshold
    epoch: int
    changes: int
    since: int
    place: Place
    counted: bool
    room: int

    def __str__(self) -> str:
        numbers = self.epoch, self.changes, self.since, *self.place, int(self.counted), self.room
        return ":".join(["s", str(self.threshold.fraction), *map(str, numbers)])

    def after(self, place: Place, *, counted: bool) -> SweepToken:
        """Return the token when more is done."""
        return replace(self, place=place, counted=counted)

    def require(self, collection: CollectionReader) -> None:
        """Raise unless the collection is as it was.

        Raises:
            ConfigurationError: it has changed, or is another one.
        """
        exact = collection.manifest.index.exact
        if exact is None or (exact.current.number, collection.manifest.changes) != (
            self.epoch,
            self.changes,
        ):
            raise _outdated()


@dataclass(frozen=True, slots=True)
class NewToken:
    """Pairs of new items, found by probing.

    Attributes:
        threshold: of the pairs.
        collection: its number.
        changes: commits that had changed it.
        since: number of the first new item.
        done: new items of lower numbers are done.
    """

    threshold: Threshold
    collection: int
    changes: int
    since: int
    done: int

    def __str__(self) -> str:
        numbers = self.collection, self.changes, self.since, self.done
        return ":".join(["n", str(self.threshold.fraction), *map(str, numbers)])

    def after(self, done: int) -> NewToken:
        """Return the token when more is done."""
        return replace(self, done=done)

    def require(self, collection: CollectionReader) -> None:
        """Raise unless the collection is as it was.

        Raises:
            ConfigurationError: it has changed, or is another one.
        """
        if (collection.number, collection.manifest.changes) != (self.collection, self.changes):
            raise _outdated()


@dataclass(frozen=True, slots=True)
class CrossToken:
    """A join of two collections.

    Attributes:
        threshold: of the join.
        left_changes, right_changes: commits that had changed the collections.
        way: ``"m"`` in memory, ``"p"`` by probing the right collection.
        place: in memory, where the join goes on; by probing, the left items of numbers lower than
            its range are done.
    """

    threshold: Threshold
    left_changes: int
    right_changes: int
    way: str
    place: Place

    def __str__(self) -> str:
        numbers = self.left_changes, self.right_changes, *self.place
        return ":".join([self.way + "x", str(self.threshold.fraction), *map(str, numbers)])

    def after(self, place: Place) -> CrossToken:
        """Return the token when more is done."""
        return replace(self, place=place)

    def require(self, left: CollectionReader, right: CollectionReader) -> None:
        """Raise unless both collections are as they were.

        Raises:
            ConfigurationError: one has changed.
        """
        present = left.manifest.changes, right.manifest.changes
        if present != (self.left_changes, self.right_changes):
            raise _outdated()


OwnToken: TypeAlias = MemoryToken | SweepToken | NewToken
Token: TypeAlias = OwnToken | CrossToken


def parse_token(text: str, threshold: Threshold) -> Token:
    """Return the token that was written as text.

    Raises:
        ConfigurationError: it is none, or one of a join at another threshold.
    """
    if not isinstance(text, str):
        raise TypeError(f"a resume token is a str, not {type(text).__name__}")
    try:
        kind, fraction, *fields = text.split(":")
        token = _token(kind, Threshold(Fraction(fraction)), [int(field) for field in fields])
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise ConfigurationError(f"{text[:60]!r} is no resume token") from None
    if token.threshold != threshold:
        raise ConfigurationError(
            f"the resume token is of a join at {token.threshold}, not at {threshold}"
        )
    return token


def _token(kind: str, threshold: Threshold, fields: list[int]) -> Token:
    if kind == "m":
        *numbers, reached, batches = fields
        collection, changes, since = numbers
        return MemoryToken(threshold, collection, changes, since, Place(reached, batches))
    if kind == "s":
        epoch, changes, since, reached, batches, counted, room = fields
        place = Place(reached, batches)
        return SweepToken(threshold, epoch, changes, since, place, bool(counted), room)
    if kind == "n":
        return NewToken(threshold, *fields)
    if kind in ("mx", "px"):
        left, right, reached, batches = fields
        return CrossToken(threshold, left, right, kind[0], Place(reached, batches))
    raise ValueError(kind)


def _outdated() -> ConfigurationError:
    return ConfigurationError(
        "the collection has changed since the resume token was made; begin the join anew"
    )

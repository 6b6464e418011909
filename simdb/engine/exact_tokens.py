"""Resume tokens: where an exact join that was left off goes on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from simdb.errors import ConfigurationError
from simdb.exact.thresholds import Threshold
from simdb.storage.tables import CollectionReader


@dataclass(frozen=True, slots=True)
class MemoryToken:
    """A join in memory: the same state of the collection gives the same batches.

    Attributes:
        threshold: of the join.
        collection: its number.
        changes: commits that had changed it.
        batches: how many were delivered.
    """

    threshold: Threshold
    collection: int
    changes: int
    batches: int

    def __str__(self) -> str:
        fraction = self.threshold.fraction
        return f"m:{fraction}:{self.collection}:{self.changes}:{self.batches}"

    def require(self, collection: CollectionReader) -> None:
        """Raise unless the collection is as it was.

        Raises:
            ConfigurationError: it has changed, or is another one.
        """
        if (collection.number, collection.state.changes) != (self.collection, self.changes):
            raise _outdated()


@dataclass(frozen=True, slots=True)
class SweepToken:
    """A join by sweeping the postings of an epoch.

    Attributes:
        threshold: of the join.
        epoch: its number.
        changes: commits that had changed the collection.
        key: the buckets of lower keys are done.
        batches: how many batches after that were delivered.
    """

    threshold: Threshold
    epoch: int
    changes: int
    key: int
    batches: int

    def __str__(self) -> str:
        fraction = self.threshold.fraction
        return f"s:{fraction}:{self.epoch}:{self.changes}:{self.key}:{self.batches}"

    def require(self, collection: CollectionReader) -> None:
        """Raise unless the collection is as it was.

        Raises:
            ConfigurationError: it has changed, or is another one.
        """
        exact = collection.state.index.exact
        if exact is None or (exact.current.number, collection.state.changes) != (
            self.epoch,
            self.changes,
        ):
            raise _outdated()


Token: TypeAlias = MemoryToken | SweepToken


def parse_token(text: str, threshold: Threshold) -> Token:
    """Return the token that was written as text.

    Raises:
        ConfigurationError: it is none, or one of a join at another threshold.
    """
    if not isinstance(text, str):
        raise TypeError(f"a resume token is a str, not {type(text).__name__}")
    try:
        kind, fraction, *numbers = text.split(":")
        token = {"m": MemoryToken, "s": SweepToken}[kind](
            Threshold(Fraction(fraction)), *map(int, numbers)
        )
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise ConfigurationError(f"{text[:60]!r} is no resume token") from None
    if token.threshold != threshold:
        raise ConfigurationError(
            f"the resume token is of a join at {token.threshold}, not at {threshold}"
        )
    return token


def _outdated() -> ConfigurationError:
    return ConfigurationError(
        "the collection has changed since the resume token was made; begin the join anew"
    )

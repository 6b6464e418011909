"""How similar is similar, or how far is far: one of --threshold and --max-distance, by the kind."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Self

import typer

from simdb.cli.kinds import measures_distance, plural_of
from simdb.cli.options import rational
from simdb.config import Kind
from simdb.errors import UsageError
from simdb.exact.thresholds import MaximumDistance
from simdb.results import Match, Outcome, Pair

MaxDistanceText = Annotated[
    str | None,
    typer.Option(
        "--max-distance",
        metavar="DISTANCE",
        help="How far similar items may be apart, where they are compared by distance.",
    ),
]


@dataclass(frozen=True, slots=True)
class Bound:
    """What the user gave, exactly as it was written; None for what was not given."""

    threshold: Fraction | None = None
    max_distance: Fraction | None = None

    @classmethod
    def parse(cls, threshold: str | None, max_distance: str | None) -> Self:
        """Read both options.

        Raises:
            UsageError: one is out of range, or both are given.
        """
        if threshold is not None and max_distance is not None:
            raise UsageError("--threshold and --max-distance contradict each other")
        if max_distance is None:
            return cls(threshold=rational(threshold))
        return cls(max_distance=MaximumDistance.parse(max_distance, name="--max-distance").fraction)

    @property
    def is_given(self) -> bool:
        """Whether there is one."""
        return self.threshold is not None or self.max_distance is not None

    def of(self, kind: Kind) -> dict[str, Any]:
        """Return it by the name that the Python API knows it by; nothing where none was given.

        Raises:
            UsageError: items of the kind are compared by the other.
        """
        if self.threshold is not None and measures_distance(kind):
            raise UsageError(
                f"these {plural_of(kind)} are compared by distance: give --max-distance, not "
                "--threshold"
            )
        if self.max_distance is not None and not measures_distance(kind):
            raise UsageError(
                f"these {plural_of(kind)} are compared by similarity: give --threshold, not "
                "--max-distance"
            )
        given = {"threshold": self.threshold, "max_distance": self.max_distance}
        return {name: value for name, value in given.items() if value is not None}


def measured(found: Match | Pair) -> dict[str, float]:
    """Return the similarity, or the distance, of what was found."""
    return {"similarity" if found.distance is None else "distance": found.value}


def measured_duplicate(outcome: Outcome) -> dict[str, float | None]:
    """Return how similar a row is to what it duplicates, or how far from it."""
    if outcome.distance is not None:
        return {"distance": outcome.distance}
    return {"similarity": outcome.similarity}

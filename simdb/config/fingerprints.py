"""Settings of fingerprints: their plate, their grid, the functions that look at it (MMDS 3.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simdb.errors import ConfigurationError

LENGTH_UNITS = 16  # of a unit of length
DIRECTION_UNITS = 64  # of a degree
MAXIMUM_SIDE = 4_095  # the largest x in 1/16 fits into 16 bits
MAXIMUM_SQUARES = 65_536


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Fingerprints: sets of minutiae, or of occupied grid squares (MMDS 3.8.4).

    Attributes:
        width: of the plate, in any unit of length (pixels, say); x lies in [0, width).
        height: of the plate; y lies in [0, height).
        items: ``"minutiae"``, sequences of (x, y, direction in degrees from the x axis towards the
            y axis), or ``"squares"``, sets of numbers of grid squares, row by row from 0.
        square: side of a grid square.
        border: a minutia this close to the border of its square counts in the next one too.
        sectors: into how many squares, one a range of directions, each grid square is cut; 1 as
            in the book. Directions within 8 degrees of the border of a range count in both.
        alignment: ``"none"``: the grid lies on the plate; ``"centre"``: it is moved so that the
            mean minutia is in its middle; ``"shift"``: there is one grid for every minutia, with
            it in the middle; ``"turn"``: each of them is turned into the minutia's direction too.
        reach: how far the grid around a minutia goes to each side, with ``"shift"`` and ``"turn"``.
        functions: functions in a group, of which one must be shared (MMDS 3.8.5).
        groups: groups, in each of which one must be shared.
        squares_a_function: squares that must all be occupied for a function to say yes.
        measure: ``"minutiae"``: matched minutiae under the best rigid alignment, over the distinct
            ones of both; ``"squares"``: Jaccard similarity of the squares on the plate.
        tolerance: distance at which two aligned minutiae match.
        direction_tolerance: in degrees, the difference at which their directions match.
        rotation: in degrees, the largest turn between two prints of a finger.
    """

    width: int
    height: int
    items: Literal["minutiae", "squares"] = "minutiae"
    square: int = 20
    border: int = 4
    sectors: int = 1
    alignment: Literal["none", "centre", "shift", "turn"] = "none"
    reach: int = 96
    functions: int = 1_024
    groups: int = 2
    squares_a_function: int = 3
    measure: Literal["minutiae", "squares"] = "minutiae"
    tolerance: int = 10
    direction_tolerance: int = 15
    rotation: int = 180

    def __post_init__(self) -> None:
        """Refuse settings out of range, and such as contradict one another."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigurationError(
                    f"Fingerprint.{name} must be a whole number from {low:,} to {high:,}, "
                    f"not {value!r}"
                )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigurationError(
                    f"Fingerprint.{name} must be one of {', '.join(map(repr, choices))}, "
                    f"not {getattr(self, name)!r}"
                )
        if 2 * self.border >= self.square:
            raise ConfigurationError(
                f"Fingerprint.border {self.border} must be less than half of the square, "
                f"{self.square}"
            )
        if self.items == "squares" and (self.measure != "squares" or self.alignment != "none"):
            raise ConfigurationError(
                "Fingerprint.items='squares' needs measure='squares' and alignment='none': "
                "without minutiae nothing can be aligned"
            )
        self._require_squares()

    def _require_squares(self) -> None:
        for columns, rows in (self.plate_grid, self.function_grid):
            count = columns * rows * self.sectors
            if not self.squares_a_function <= count <= MAXIMUM_SQUARES:
                raise ConfigurationError(
                    f"Fingerprint has a grid of {count:,} squares where "
                    f"{self.squares_a_function} to {MAXIMUM_SQUARES:,} are needed; change square, "
                    "reach or sectors"
                )

    @property
    def around_minutiae(self) -> bool:
        """Whether functions look at a grid around each minutia."""
        return self.alignment in ("shift", "turn")

    @property
    def aligning(self) -> tuple[int, int, int, int, int]:
        """Return both tolerances, the largest turn, width and height in the stored units."""
        return (
            self.tolerance * LENGTH_UNITS,
            self.direction_tolerance * DIRECTION_UNITS,
            self.rotation * DIRECTION_UNITS,
            self.width * LENGTH_UNITS,
            self.height * LENGTH_UNITS,
        )

    @property
    def plate_grid(self) -> tuple[int, int]:
        """Return columns and rows of the grid on the plate."""
        return -(-self.width // self.square), -(-self.height // self.square)

    @property
    def function_grid(self) -> tuple[int, int]:
        """Return columns and rows of the grid that functions look at."""
        if self.around_minutiae:
            across = max(1, 2 * self.reach // self.square)
            return across, across
        return self.plate_grid


_RANGES = (
    ("width", 1, MAXIMUM_SIDE),
    ("height", 1, MAXIMUM_SIDE),
    ("square", 1, MAXIMUM_SIDE),
    ("border", 0, MAXIMUM_SIDE),
    ("sectors", 1, 16),
    ("reach", 1, MAXIMUM_SIDE),
    ("functions", 1, 65_536),
    ("groups", 1, 4),
    ("squares_a_function", 1, 8),
    ("tolerance", 1, MAXIMUM_SIDE),
    ("direction_tolerance", 0, 180),
    ("rotation", 0, 180),
)
_CHOICES = {
    "items": ("minutiae", "squares"),
    "alignment": ("none", "centre", "shift", "turn"),
    "measure": ("minutiae", "squares"),
}

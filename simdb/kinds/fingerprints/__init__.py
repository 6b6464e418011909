"""Fingerprints: their plate, their grid, the functions that look at it (MMDS 3.8.4, 3.8.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal, Self, TypeAlias

from msgspec import Meta

from simdb.arrays import UInt16s
from simdb.errors import ConfigurationError
from simdb.kinds.base import OBJECTS, Items, Kind, Measure
from simdb.kinds.fingerprints.family import SquaresFamily, unfindable
from simdb.kinds.fingerprints.items import FingerprintItems, FingerprintMeasure, print_of_text
from simdb.lsh.curves import Curve, UnstatedCurve
from simdb.lsh.family import Family, SketchScheme
from simdb.lsh.planning import Plan

MAXIMUM_SIDE = 4_095  # the largest x in 1/16 fits into 16 bits
MAXIMUM_SQUARES = 65_536

Length: TypeAlias = Annotated[int, Meta(ge=1, le=MAXIMUM_SIDE)]
Degrees: TypeAlias = Annotated[int, Meta(ge=0, le=180)]


class Fingerprint(Kind, frozen=True):
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

    width: Length
    height: Length
    items: Literal["minutiae", "squares"] = "minutiae"
    square: Length = 20
    border: Annotated[int, Meta(ge=0, le=MAXIMUM_SIDE)] = 4
    sectors: Annotated[int, Meta(ge=1, le=16)] = 1
    alignment: Literal["none", "centre", "shift", "turn"] = "none"
    reach: Length = 96
    functions: Annotated[int, Meta(ge=1, le=65_536)] = 1_024
    groups: Annotated[int, Meta(ge=1, le=4)] = 2
    squares_a_function: Annotated[int, Meta(ge=1, le=8)] = 3
    measure: Literal["minutiae", "squares"] = "minutiae"
    tolerance: Length = 10
    direction_tolerance: Degrees = 15
    rotation: Degrees = 180

    plural = "fingerprints"
    in_the_name = ("width", "height")
    # .xyt: of programs that find minutiae
    suffixes = OBJECTS | dict.fromkeys((".txt", ".text", ".xyt"), "text")
    may_miss_equals = True
    json_form = "a list"

    def __post_init__(self) -> None:
        super().__post_init__()
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

    # -- the contract ----------------------------------------------------------------------------

    def finding_equals(self, family: Family) -> Family:
        assert isinstance(family, SquaresFamily)
        family.find_equal()
        return family

    def make_items(self, secret: bytes) -> Items:
        return FingerprintItems(self)

    def make_measure(self) -> Measure:
        return FingerprintMeasure(self)

    def make_curve(self, bound: Fraction) -> Curve:
        return UnstatedCurve(falls=False)

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        return SquaresFamily(self, secret)

    def plan(self, bound: Fraction, recall: Fraction, bands: int | None, rows: int | None) -> Plan:
        if bands is not None or rows is not None:
            raise ConfigurationError("fingerprints have groups and functions, not bands and rows")
        return Plan(bound, self.groups, self.functions, self.make_curve(bound))

    def can_have(self, bands: int, rows: int) -> bool:
        return (bands, rows) == (self.groups, self.functions)

    def expected_keys(self, bands: int) -> int:
        # Of the functions of three squares, one in 125 says yes to one grid of which a fifth is
        # occupied; with grids around minutiae, about one in 8.
        functions = self.groups * self.functions
        return max(1, functions // (8 if self.around_minutiae else 128)) if bands else 0

    def most_keys(self, bands: int, rows: int) -> int:
        return bands * rows

    def index_in_words(self, bands: int, rows: int) -> str:
        return f"{bands} {'group' if bands == 1 else 'groups'} of {rows:,} functions"

    def stores_alike(self, other: Self) -> bool:
        grid = ("square", "sectors") if self.items == "squares" else ()
        names = ("items", "width", "height", *grid)
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def candidate_stats(
        self, family: Family, signatures: Callable[[], Iterator[UInt16s]], live: int
    ) -> dict[str, Any]:
        return unfindable(family, signatures(), live)

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        return value if isinstance(value, list) else NotImplemented

    def item_of_text(self, text: str) -> list[Any]:
        return print_of_text(text, squares=self.items == "squares")

    def plain_item(self, item: Any) -> list[Any]:
        return sorted(item) if self.items == "squares" else [list(minutia) for minutia in item]

    def shown_item(self, item: Any) -> str:
        if self.items == "squares":
            return " ".join(map(str, sorted(item)))
        return " ".join(f"({', '.join(f'{x:g}' for x in minutia)})" for minutia in item)

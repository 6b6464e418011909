"""Fingerprints: minutiae, or occupied grid squares, and functions of squares (MMDS 3.8.4, 3.8.5).

The stored form is canonical: equal prints are equal bytes. Minutiae are rounded to 1/16 of the
unit of length and 1/64 of a degree, sorted, without repeats, 6 bytes each: x, y and direction as
little-endian unsigned integers of 16 bits. Squares are a bit set of as many bytes as the grid
needs: square i is bit i % 8 of byte i // 8.

A function of the family says yes to a print that occupies all its squares; those are in "the"
bucket of the function, all others in buckets of their own, which are not kept. Prints are
candidates if they share a bucket in every group: OR over the functions of a group, AND over groups.

A print may have one grid or, where it is unknown how two prints lie to each other, one around each
of its minutiae. A function then says yes if any of them occupies its squares, so that neither a
shift of the finger nor, with ``alignment="turn"``, a turn changes its answer.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from fractions import Fraction
from hashlib import blake2b
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from simdb import kernels
from simdb.arguments import is_whole, short
from simdb.arrays import Bools, Float64s, Int32s, Int64s, UInt8s, UInt16s, UInt64s
from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.evidence import Evidence, Facet, Label, facets_of_labels
from simdb.kinds.base import (
    OBJECTS,
    Compared,
    Examples,
    Items,
    Kind,
    Measure,
    PairedMeasure,
    Stored,
    lengths_of,
    require_readable,
    require_sound,
    rows_of,
    shortened,
    shown,
    unmasked,
)
from simdb.kinds.vectors import number_of
from simdb.lsh.curves import Curve, UnstatedCurve
from simdb.lsh.family import (
    BucketKeys,
    Family,
    SketchScheme,
    derived_words,
    mixed,
    secret_words,
)
from simdb.lsh.planning import Plan, PlanRequest
from simdb.ragged import offsets_of

MAXIMUM_SIDE = 4_095  # the largest x in 1/16 fits into 16 bits
MAXIMUM_SQUARES = 65_536
MOST_SHAPES = 16_384  # of triangles, in the signature of a print

Length: TypeAlias = Annotated[int, Meta(ge=1, le=MAXIMUM_SIDE)]
Degrees: TypeAlias = Annotated[int, Meta(ge=0, le=180)]

LENGTH_UNITS = 16  # of a unit of length
DIRECTION_UNITS = 64  # of a degree

TURN = 360 * DIRECTION_UNITS
MAXIMUM_MINUTIAE = 1_024
_SECTOR_BORDER = 8 * DIRECTION_UNITS  # a direction so close to the border of a sector is in both
_BYTES = 6
_SQUARE = re.compile(r"0|[1-9][0-9]{0,17}")
_NUMBERS_OF_MINUTIA = (3, 4)  # on a line: x, y, direction, and maybe a quality

Minutia: TypeAlias = tuple[float, float, float]

MOST_PRINTS = 16_384  # looked at for statistics
PRINTS_AT_ONCE = 4_096  # pairs of them matched by a call of the kernel: some tenths of a second
UNFINDABLE_SHARE = 0.02  # of all prints, above which it is a warning
_WORDS = 4  # a signature is a whole number of 64-bit words


class Fingerprint(Kind, frozen=True):
    """Fingerprints: sets of minutiae, or of occupied grid squares (MMDS 3.8.4).

    Attributes:
        width: the width of the plate, in any unit of length (pixels, say); x lies in [0, width).
        height: the height of the plate; y lies in [0, height).
        items: ``"minutiae"``, sequences of (x, y, direction in degrees from the x axis towards the
            y axis), or ``"squares"``, sets of numbers of grid squares, row by row from 0.
        square: the side of a grid square; for triangles, the width of a range of lengths.
        border: a minutia this close to the border of its square also counts in the next one; for
            triangles, a side this close to the border of its range.
        sectors: the number of ranges of directions into which each grid square is divided; 1 as in
            the book. Directions within 8 degrees of the border of a range count in both; for
            triangles, in one.
        alignment: ``"none"``: the grid lies on the plate. ``"centre"``: it is moved so that the
            mean minutia is in its middle. ``"shift"``: there is one grid for every minutia, with
            the minutia in the middle. ``"turn"``: each of these is also turned into the minutia's
            direction. ``"triangles"``: there is no grid, and a function is a shape of triangle,
            which a print has or has not, wherever it lies.
        reach: with ``"shift"`` and ``"turn"``, how far the grid around a minutia extends to each
            side; for triangles, the longest side.
        neighbours: with ``"triangles"``, how many nearest minutiae form triangles with each one.
        functions: the number of functions in a group, of which one must be shared (MMDS 3.8.5); for
            triangles, the most shapes of a print that are kept in a group.
        groups: the number of groups; two prints must share a function in each.
        squares_a_function: the number of squares that must all be occupied for a function to say
            yes.
        measure: ``"minutiae"``: matched minutiae under the best rigid alignment, divided by the
            distinct ones of both; ``"squares"``: Jaccard similarity of the squares on the plate.
        tolerance: the largest distance at which two aligned minutiae match.
        direction_tolerance: the largest difference of their directions, in degrees, once the prints
            are aligned. Directions are rounded to 1/64 degree; with 0 they may differ by half of
            that, so a turned print matches only where the turn, which is fitted to positions, is
            found as exactly: seldom where these are whole pixels.
        rotation: the largest turn between two prints of a finger, in degrees: by no larger one is a
            print laid on another. Directions may differ by ``direction_tolerance`` more.
    """

    width: Length
    height: Length
    items: Literal["minutiae", "squares"] = "minutiae"
    square: Length = 20
    border: Annotated[int, Meta(ge=0, le=MAXIMUM_SIDE)] = 4
    sectors: Annotated[int, Meta(ge=1, le=16)] = 1
    alignment: Literal["none", "centre", "shift", "turn", "triangles"] = "none"
    reach: Length = 96
    neighbours: Annotated[int, Meta(ge=2, le=16)] = 5
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
                "squares cannot be aligned without minutiae"
            )
        if self.alignment == "triangles":
            if self.measure != "minutiae":
                raise ConfigurationError(
                    "Fingerprint.alignment='triangles' lays no grid and needs measure='minutiae'"
                )
            if self.groups * self.functions > MOST_SHAPES:
                raise ConfigurationError(
                    f"Fingerprint keeps at most {MOST_SHAPES:,} shapes of triangles a print, not "
                    f"groups x functions = {self.groups * self.functions:,}"
                )
            return
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
        """Return columns and rows of the grid on the plate; none where triangles count."""
        if self.alignment == "triangles":
            return 0, 0
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
        assert isinstance(family, GroupedFamily)
        family.find_equal()
        return family

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        shifted = cls(160, 160, alignment="shift", reach=60, sectors=4, functions=512, groups=1)
        prints = [
            [
                (20.0 + (place + 3) * n * n % 101, 20.0 + (place + 2) * n**3 % 103, 29.0 * n % 360)
                for n in range(1, 25)
            ]
            for place in range(5)
        ]
        moved = [[(x + 2, y - 3, angle) for x, y, angle in print_] for print_ in prints]
        on_the_plate = cls(160, 160, square=10, items="squares", measure="squares", functions=2048)
        squares = [{(place + 3) * n * n % 251 for n in range(90)} for place in range(5)]
        fewer = [occupied - {min(occupied)} for occupied in squares]
        return (
            Examples(shifted, "0.4", prints, moved, (None, 3.5, "x", [], [(1, 2)], [(200, 1, 1)])),
            Examples(on_the_plate, "0.8", squares, fewer, (None, 3.5, {256}, {"x"}, {0.5})),
        )

    def make_items(self, secret: bytes) -> Items:
        return FingerprintItems(self)

    def make_measure(self) -> Measure:
        return FingerprintMeasure(self)

    def make_curve(self, bound: Fraction) -> Curve:
        return UnstatedCurve(is_distance=False)

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        chosen = TrianglesFamily if self.alignment == "triangles" else SquaresFamily
        return chosen(self, secret)

    def plan(self, bound: Fraction, request: PlanRequest) -> Plan:
        if not request.is_free:
            raise ConfigurationError("fingerprints have groups and functions, not bands and rows")
        return Plan(bound, self.groups, self.functions, self.make_curve(bound))

    def can_have(self, bands: int, rows: int) -> bool:
        return (bands, rows) == (self.groups, self.functions)

    def expected_keys(self, bands: int) -> int:
        # Of the functions of three squares, one in 125 says yes to one grid of which a fifth is
        # occupied; with grids around minutiae, about one in 8.
        functions = self.groups * self.functions
        if bands and self.alignment == "triangles":
            return min(functions, 320)  # of 50 minutiae with five neighbours each
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
        """Count the prints to which, in some group, no function says yes: they are in no pair.

        Exact up to ``MOST_PRINTS``, an estimate by every so many-th print beyond.
        """
        assert isinstance(family, GroupedFamily)
        step = max(1, -(-live // MOST_PRINTS))
        lost = step * sum(family.count_lacking(rows[::step]) for rows in signatures())
        warnings = []
        if lost > UNFINDABLE_SHARE * live:
            warnings.append(
                f"{'about ' * (step > 1)}{lost:,} of {live:,} prints are in no bucket"
                f"{' but that of their equals' * family.finds_equal}: the probable index does not "
                "find what is like them; more functions, larger squares or fewer squares a "
                "function put them into some"
            )
        return {"in_no_bucket": lost, "warnings": warnings}

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        return value if isinstance(value, list) else NotImplemented

    def item_of_text(self, text: str) -> list[Any]:
        """Return the fingerprint in a file: a minutia a line, or numbers of squares.

        A minutia is x, y and direction in degrees between white space; a fourth number, which other
        programs write, is its quality and does not count.
        """
        if self.items == "squares":
            tokens = text.split()
            wrong = next((token for token in tokens if not _SQUARE.fullmatch(token)), None)
            if wrong is not None:
                raise BadItemError(f"{shortened(wrong)} is not the number of a square")
            return list(map(int, tokens))
        lines = enumerate(text.splitlines(), 1)
        return [_minutia(place, line.split()) for place, line in lines if line.strip()]

    def plain_item(self, item: Any) -> list[Any]:
        return sorted(item) if self.items == "squares" else [list(minutia) for minutia in item]

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        """Return the minutiae that the measure couples and those that it leaves, or the squares."""
        if self.measure == "squares":
            prints = items.features([left, right])
            squares = (
                map(Label, np.flatnonzero(np.unpackbits(grid, bitorder="little")).tolist())
                for grid in prints.grids.astype("<u8").view(np.uint8)
            )
            return Evidence("squares", facets_of_labels(*squares))
        one, other = items.decode(left), items.decode(right)
        prints = items.features([left, right])
        couples = FingerprintMeasure(self).couples(prints)
        facets = [
            Facet(minutia, minutia, other[place] if place >= 0 else None, float(place >= 0))
            for minutia, place in zip(one, couples, strict=True)
        ]
        free = set(range(len(other))).difference(couples)
        facets += [Facet(other[place], None, other[place], 0.0) for place in sorted(free)]
        return Evidence("minutiae", tuple(facets))

    def shown_item(self, item: Any) -> str:
        if self.items == "squares":
            return " ".join(map(str, sorted(item)))
        return " ".join(f"({', '.join(f'{x:g}' for x in minutia)})" for minutia in item)


# -- items ----------------------------------------------------------------------------------------


class Prints(NamedTuple):
    """Fingerprints as arrays."""

    grids: UInt64s  # (n, words), the occupied squares on the plate; bit i % 64 of word i // 64
    minutiae: Int32s  # (m, 3), x, y in 1/16 of a unit and direction in 1/64 of a degree
    offsets: Int64s  # (n + 1,); print i is ``minutiae[offsets[i]:offsets[i + 1]]``

    def __len__(self) -> int:
        return self.offsets.size - 1


def grid_settings(kind: Fingerprint, columns: int, rows: int) -> Int64s:
    """Return a grid as kernels want it: int64 (6,), lengths in 1/16."""
    return np.array(
        [
            columns,
            rows,
            kind.square * LENGTH_UNITS,
            kind.border * LENGTH_UNITS,
            kind.sectors,
            _SECTOR_BORDER if kind.sectors > 1 else 0,
        ],
        np.int64,
    )


class FingerprintItems(Items):
    """Encode fingerprints and lay grids over them; those of squares are of one width."""

    def __init__(self, kind: Fingerprint) -> None:
        self._kind = kind
        columns, rows = kind.plate_grid
        self._squares = columns * rows * kind.sectors
        self._grid = grid_settings(kind, columns, rows)
        middle = [side * LENGTH_UNITS // 2 for side in (kind.width, kind.height)]
        self._centre = np.array(middle if kind.alignment == "centre" else [], np.int64)
        self.width = (self._squares + 7) // 8 if kind.items == "squares" else 0
        self.expands = not self.width

    def encode(self, item: object) -> bytes:
        """Return the stored form of a print, in which order and repeats do not count.

        It is given as minutiae, (x, y, direction) each, in a sequence or an array (n, 3); or as a
        collection of square numbers, where the settings say so.
        """
        if self._kind.items == "squares":
            return self._encode_squares(item)
        return self._encode_minutiae(_array_of(item))

    def decode(self, data: bytes | memoryview) -> tuple[Minutia, ...] | frozenset[int]:
        if self._kind.items == "squares":
            occupied = np.unpackbits(self._rows_of_squares([data]), bitorder="little")
            return frozenset(np.flatnonzero(occupied).tolist())
        minutiae = self.features([data]).minutiae
        lengths = (minutiae[:, :2] / LENGTH_UNITS).tolist()
        directions = (minutiae[:, 2] / DIRECTION_UNITS).tolist()
        pairs = zip(lengths, directions, strict=True)
        return tuple((x, y, direction) for (x, y), direction in pairs)

    def weights(self, items: Sequence[bytes | memoryview]) -> Int64s:
        """Return the bytes of each print and, of one given by minutiae, the words of its grid."""
        lengths = super().weights(items)
        return lengths + -(-self._squares // 64) if self.expands else lengths

    def features(self, items: Sequence[bytes | memoryview]) -> Prints:
        if self._kind.items == "squares":
            return self.features_of_rows(self._rows_of_squares(items))
        sizes = lengths_of(items)
        wrong = np.flatnonzero((sizes % _BYTES != 0) | (sizes > _BYTES * MAXIMUM_MINUTIAE))
        if wrong.size:
            raise CorruptionError(
                f"a stored fingerprint, {wrong[0]} of its batch, has {sizes[wrong[0]]:,} bytes"
            )
        offsets = offsets_of(sizes // _BYTES)
        minutiae = np.frombuffer(b"".join(items), "<u2").astype(np.int32).reshape(-1, 3)
        ends = [self._kind.width * LENGTH_UNITS, self._kind.height * LENGTH_UNITS, TURN]
        if minutiae.size and (minutiae.max(axis=0) >= ends).any():
            raise CorruptionError("a stored fingerprint has a minutia off the plate")
        grids = kernels.fingerprints.grids_of_minutiae(minutiae, offsets, self._grid, self._centre)
        return Prints(grids, minutiae, offsets)

    def features_of_rows(self, rows: UInt8s) -> Prints:
        padded = rows
        # Kernels are compiled for aligned arrays that could be written to.
        if self.width % 8 or not (rows.flags.carray and rows.ctypes.data % 8 == 0):
            padded = np.empty((len(rows), -(-self.width // 8) * 8), np.uint8)
            padded[:, : self.width] = rows
            padded[:, self.width :] = 0
        none = np.zeros(len(rows) + 1, np.int64)
        grids = padded.view("<u8").astype(np.uint64, copy=False)
        return Prints(grids, np.empty((0, 3), np.int32), none)

    def _encode_minutiae(self, given: Float64s) -> bytes:
        kind = self._kind
        if not len(given):
            raise BadItemError("a fingerprint must have at least one minutia")
        if len(given) > MAXIMUM_MINUTIAE:
            raise BadItemError(
                f"a fingerprint must have at most {MAXIMUM_MINUTIAE:,} minutiae, not {len(given):,}"
            )
        places, ends = given[:, :2], np.array([kind.width, kind.height])
        inside = np.isfinite(given).all(axis=1)
        inside &= ((places >= 0) & (places < ends)).all(axis=1)
        if not inside.all():
            number = int(np.argmin(inside))
            x, y, direction = given[number].tolist()
            if not all(map(math.isfinite, (x, y, direction))):
                raise BadItemError(
                    f"minutia {number} must be three finite numbers, not {(x, y, direction)}"
                )
            raise BadItemError(
                f"minutia {number} at ({x}, {y}) lies off the plate, which is "
                f"{kind.width} x {kind.height} from (0, 0)"
            )
        whole = np.empty(given.shape, np.int64)
        # What rounds up to the far border still lies inside it.
        whole[:, :2] = np.minimum(np.rint(places * LENGTH_UNITS), ends * LENGTH_UNITS - 1)
        whole[:, 2] = np.rint(np.mod(given[:, 2], 360.0) * DIRECTION_UNITS) % TURN
        return np.unique(whole, axis=0).astype("<u2").tobytes()

    def _encode_squares(self, item: object) -> bytes:
        numbers = _square_numbers(item)
        if not numbers.size:
            raise BadItemError("a fingerprint must have at least one occupied grid square")
        wrong = (numbers < 0) | (numbers >= self._squares)
        if wrong.any():
            raise BadItemError(
                f"grid squares are numbered from 0 to {self._squares - 1:,}; "
                f"there is no square {short(int(numbers[wrong][0]))}"
            )
        occupied = np.zeros(8 * self.width, np.bool_)
        occupied[numbers.astype(np.int64)] = True
        return np.packbits(occupied, bitorder="little").tobytes()

    def _rows_of_squares(self, items: Sequence[bytes | memoryview]) -> UInt8s:
        """Return stored bit sets of squares as rows without bits past the last square."""
        rows = rows_of(items, self.width, "fingerprint")
        used = self._squares - 8 * (self.width - 1)  # bits of the last byte
        require_sound(rows[:, -1] < 1 << used, "fingerprint")
        return rows


def _square_numbers(item: object) -> npt.NDArray[Any]:
    """Return square numbers as they were given, as an array of integers (of Python's, if large)."""
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind in "iu":
        plain: npt.NDArray[Any] = unmasked(item)
        return plain
    is_single = isinstance(item, np.ndarray) and not item.ndim
    if is_single or isinstance(item, str | bytes) or not isinstance(item, Iterable):
        raise BadItemError(
            f"a fingerprint must be a collection of square numbers, not {shown(item)}"
        )
    if isinstance(item, Sized):
        require_readable(item, "fingerprint")
    squares = list(item)
    # The types of all are told much sooner than one after the other is looked at.
    if set(map(type, squares)) != {int}:
        for square in squares:
            if not is_whole(square):
                raise BadItemError(
                    f"the number of a grid square must be an integer, not {short(square)}"
                )
    try:
        return np.array(squares, np.int64)
    except OverflowError:
        return np.array(squares, np.object_)


def _array_of(item: object) -> Float64s:
    if isinstance(item, str | bytes) or not isinstance(item, Sequence | np.ndarray):
        raise BadItemError(
            f"a fingerprint must be a sequence of minutiae (x, y, direction), not {shown(item)}"
        )
    if isinstance(item, np.ndarray) and item.dtype == np.object_ and item.ndim:
        item = list(unmasked(item))  # pandas reads minutiae from a file as an array of arrays
    if isinstance(item, np.ndarray):
        given: Any = unmasked(item)
        numeric = given.dtype.kind in "iuf"
    else:
        require_readable(item, "fingerprint", MAXIMUM_MINUTIAE)
        if not item:
            return np.empty((0, 3))
        given = list(map(unmasked, item))
        numeric = all(map(_is_minutia, given))
    array = np.array(given, np.float64) if numeric else np.empty(0)
    if array.ndim != 2 or array.shape[1] != 3:
        shape = f" of shape {array.shape}" if numeric else ""
        raise BadItemError(
            f"every minutia must be three numbers, x, y and direction, not {short(item)}{shape}"
        )
    return array


def _is_minutia(given: Any) -> bool:
    """Whether something holds three numbers; NumPy would take texts and truths too."""
    return (
        isinstance(given, Sequence | np.ndarray)
        and not isinstance(given, str | bytes)
        and len(given) == 3
        and all(map(_is_number, given))
    )


def _is_number(value: object) -> bool:
    """Whether a value is a number that float64 holds, or may round."""
    if isinstance(value, int) and (isinstance(value, bool) or abs(value) > 2**53):
        return False
    return is_whole(value) or isinstance(value, float | np.floating)


# -- how prints are compared -----------------------------------------------------------------------


class FingerprintMeasure(PairedMeasure):
    """Compare prints by the measure of their settings.

    ``"squares"`` is the Jaccard similarity of the occupied squares on the plate (MMDS 3.8.4):
    exact, some nanoseconds a pair.

    ``"minutiae"`` lays one print on the other by a turn and a shift (MMDS leaves "the best ways to
    normalize" open) and is matched / (n1 + n2 - matched): n1 and n2 minutiae, of which as many as
    ``matched`` couples, each in one couple, lie within the tolerances of distance and direction.
    The pose is found by votes of all couples (a Hough transform), of which the two most voted are
    fitted by least squares; a better one may exist. It is 1 for equal prints and the same for
    either order of a pair. Turning or shifting a print changes it little. It takes some 0.08 ms for
    prints of 50 minutiae, and grows with the product of their numbers.
    """

    def __init__(self, kind: Fingerprint) -> None:
        self._squares = kind.measure == "squares"
        lengths = np.array([kind.tolerance, kind.width, kind.height], np.int64) * LENGTH_UNITS
        angles = np.array([kind.direction_tolerance, kind.rotation], np.int64) * DIRECTION_UNITS
        self._settings = np.concatenate((lengths[:1], angles, lengths[1:]))

    def compare_between(
        self, ones: Prints, others: Prints, left: Int64s, right: Int64s
    ) -> Compared:
        if self._squares:
            return Compared(*kernels.bits.compare_rows(ones.grids, others.grids, left, right))
        minutiae, offsets = others.minutiae, others.offsets
        if ones is not others:
            minutiae = np.concatenate((minutiae, ones.minutiae))
            offsets = np.append(offsets, ones.offsets[1:] + offsets[-1])
            left = left + len(others)
        matched = np.zeros(left.size, np.int64)
        for begin in range(0, left.size, PRINTS_AT_ONCE):
            some = slice(begin, begin + PRINTS_AT_ONCE)
            matched[some] = kernels.fingerprints.matched_minutiae(
                minutiae, offsets, left[some], right[some], self._settings
            )
        sizes = np.diff(offsets)
        return Compared(matched, sizes[left] + sizes[right] - matched)

    def couples(self, two: Prints) -> list[int]:
        """Return for each minutia of the first of two prints its couple in the other, -1 for none.

        There are as many couples as ``compare_between`` counts.
        """
        couples = kernels.fingerprints.couples_of(two.minutiae, two.offsets, self._settings)
        return [int(place) for place in couples]


def _minutia(place: int, tokens: Sequence[str]) -> list[float]:
    if len(tokens) not in _NUMBERS_OF_MINUTIA:
        raise BadItemError(
            f"line {place} has {len(tokens)} numbers: a minutia needs x, y and direction"
        )
    try:
        return [number_of(token) for token in tokens][:3]
    except BadItemError as problem:
        raise BadItemError(f"line {place}: {problem}") from None


# -- functions -------------------------------------------------------------------------------------


class GroupedFamily(Family):
    """Sign prints by numbered functions in groups, of each of which two must share one (3.8.5).

    Attributes:
        groups: how many.
        group_size: functions of a group.
        finds_equal: in each group where no function says yes to a print it has a key of its own:
            a hash of all of it, which four more words of the signature hold where the others do not
            tell it (zeros where it is not needed).
        words: a signature is uint16 (words,), a multiple of 4.
    """

    tells_all = False  # the signature is the print
    numbers_of_group: int  # function i belongs to group i // this

    def __init__(self, kind: Fingerprint, words: int, secret: bytes) -> None:
        self.groups = kind.groups
        self.group_size = kind.functions
        self.words = -(-words // _WORDS) * _WORDS
        self._functions_words = self.words
        self._secret = derived_words(secret, b"simdb.squares.k", 1)[0]
        self._equal_secret = secret_words(secret, b"simdb.squares.eq", 4).astype("<u8").tobytes()
        self.finds_equal = False

    def find_equal(self) -> None:
        """Give prints keys of their own from now on, where no function says yes."""
        self.finds_equal = True
        self.words += _WORDS * (not self.tells_all)

    @abstractmethod
    def numbers(self, signatures: UInt16s) -> tuple[Int64s, Int64s]:
        """Return the numbers of the functions that say yes, ascending, and their offsets."""

    @abstractmethod
    def _signed(self, features: Prints) -> UInt16s:
        """Return the signatures without what only equal prints share."""

    def sign(self, features: Prints) -> UInt16s:
        """Return the signatures, uint16 (n, words), of a batch of prints."""
        signatures = self._signed(features)
        if not self.finds_equal or self.tells_all:
            return signatures
        lacking = ~self._has_key(*self.numbers(signatures)).all(axis=1)
        hashes = np.zeros(len(signatures), "<u8")
        for place in np.flatnonzero(lacking).tolist():
            begin, end = features.offsets[place : place + 2]
            hashes[place] = self._hash(features.minutiae[begin:end].astype("<i4").tobytes())
        own = hashes.view("<u2").reshape(-1, _WORDS).astype(np.uint16)
        return np.concatenate((signatures, own), axis=1)

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the keys of the functions that say yes, and their groups.

        A print whose groups do not all have one is in no pair, but with its equals.
        """
        numbers, offsets = self.numbers(self._checked(signatures))
        groups = (numbers // self.numbers_of_group).astype(np.uint8)
        keys = BucketKeys(self.keys_of(numbers), offsets, groups, self.groups)
        if not self.finds_equal:
            return keys
        prints, lacking = np.nonzero(~self._has_key(numbers, offsets))
        if not prints.size:
            return keys
        own = mixed(self._hashes(signatures, prints) + lacking.astype(np.uint64))
        owners = np.append(np.repeat(np.arange(len(keys)), keys.sizes), prints)
        order = np.argsort(owners, kind="stable")
        return BucketKeys(
            np.append(keys.values, own)[order],
            offsets_of(keys.sizes + np.bincount(prints, minlength=len(keys))),
            np.append(groups, lacking.astype(np.uint8))[order],
            self.groups,
        )

    def key_names(self, signatures: UInt16s) -> list[str]:
        """Return the functions that say yes to a single print, by group, or that it is equal."""
        numbers, _ = self.numbers(self._checked(signatures))
        names = [
            f"function {number % self.numbers_of_group + 1} of group "
            f"{number // self.numbers_of_group + 1}"
            for number in numbers.tolist()
        ]
        equals = self.bucket_keys(signatures).values.size - len(names)
        return names + ["equal prints"] * equals

    def count_lacking(self, signatures: UInt16s) -> int:
        """Count the prints that have no key but their own in some group."""
        found = self._has_key(*self.numbers(self._checked(signatures)))
        return int(np.count_nonzero(~found.all(axis=1)))

    def keys_of(self, numbers: Int64s) -> UInt64s:
        """Return the bucket keys of functions by number; two functions never have the same."""
        return mixed(numbers.astype(np.uint64) + self._secret)

    def _checked(self, signatures: UInt16s) -> UInt16s:
        """Return the part of signatures that says which functions say yes."""
        if signatures.ndim != 2 or signatures.shape[1] != self.words:
            raise ValueError(
                f"signatures of shape {signatures.shape} do not have {self.words} words"
            )
        return np.ascontiguousarray(signatures[:, : self._functions_words])

    def _has_key(self, numbers: Int64s, offsets: Int64s) -> Bools:
        """Return in which groups functions say yes to prints, (n, groups)."""
        has_key = np.zeros((offsets.size - 1, self.groups), np.bool_)
        prints = np.repeat(np.arange(len(has_key)), np.diff(offsets))
        has_key[prints, numbers // self.numbers_of_group] = True
        return has_key

    def _hashes(self, signatures: UInt16s, prints: Int64s) -> UInt64s:
        """The hash of each of some prints, which its signature tells."""
        if not self.tells_all:
            own = np.ascontiguousarray(signatures[prints, -_WORDS:]).astype("<u2")
            return own.view("<u8").astype(np.uint64).ravel()
        squares = signatures.astype("<u2")
        hashes = [self._hash(squares[place].tobytes()) for place in prints.tolist()]
        return np.array(hashes, np.uint64)

    def _hash(self, content: bytes) -> int:
        digest = blake2b(self._equal_secret + content, digest_size=8).digest()
        return int.from_bytes(digest, "little")


class TrianglesFamily(GroupedFamily):
    """Sign prints by the shapes of the triangles that neighbouring minutiae make.

    A function is a shape, of which there are more than can be counted: a signature is, for each
    group, the smallest of their 32-bit hashes, as many as a group has functions.
    """

    numbers_of_group = 2**32

    def __init__(self, kind: Fingerprint, secret: bytes) -> None:
        super().__init__(kind, 2 * kind.groups * kind.functions, secret)
        lengths = [side * LENGTH_UNITS for side in (kind.square, kind.border, kind.reach)]
        sizes = [kind.sectors, lengths[2], kind.groups, kind.functions]
        self._settings = np.array([kind.neighbours, *lengths[:2], *sizes], np.int64)
        self._shape_secret = derived_words(secret, b"simdb.triangles", 1)[0]

    def _signed(self, features: Prints) -> UInt16s:
        hashes = kernels.fingerprints.triangles_of_minutiae(
            features.minutiae, features.offsets, self._settings, self._shape_secret
        )
        words = hashes.reshape(len(hashes), -1).astype("<u4").view("<u2")
        signatures = np.zeros((len(hashes), self._functions_words), np.uint16)
        signatures[:, : words.shape[1]] = words
        return signatures

    def numbers(self, signatures: UInt16s) -> tuple[Int64s, Int64s]:
        words = signatures[:, : 2 * self.groups * self.group_size].astype("<u2")
        hashes = np.ascontiguousarray(words).view("<u4").reshape(-1, self.groups, self.group_size)
        _, groups, _ = places = np.nonzero(hashes)
        sizes = np.count_nonzero(hashes, axis=(1, 2))
        return groups * self.numbers_of_group + hashes[places], offsets_of(sizes)


class SquaresFamily(GroupedFamily):
    """Sign prints by the functions that say yes to them, since they have all their squares.

    A signature is the bit set of its grid's occupied squares or, with grids around minutiae, of the
    functions that say yes in any of them, which is smaller than so many grids.

    Attributes:
        functions: int32 (groups * functions of a group, squares of a function), distinct in a row.
    """

    def __init__(self, kind: Fingerprint, secret: bytes) -> None:
        columns, rows = kind.function_grid
        squares = columns * rows * kind.sectors
        self.functions = chosen_functions(
            squares, kind.groups * kind.functions, kind.squares_a_function, secret
        )
        self._around = kind.around_minutiae
        self._turned = kind.alignment == "turn"
        self._grid = grid_settings(kind, columns, rows)
        bits = len(self.functions) if self._around else squares
        super().__init__(kind, (bits + 15) // 16, secret)
        self.tells_all = not self._around
        self.numbers_of_group = self.group_size

    def _signed(self, features: Prints) -> UInt16s:
        if self._around:
            return kernels.fingerprints.functions_of_minutiae(
                features.minutiae, features.offsets, self._grid, self._turned, self.functions
            )
        grids = np.ascontiguousarray(features.grids).astype("<u8", copy=False)
        return grids.view("<u2").astype(np.uint16, copy=False)

    def numbers(self, signatures: UInt16s) -> tuple[Int64s, Int64s]:
        return kernels.fingerprints.members(self._yes(signatures))

    def yes(self, signatures: UInt16s) -> UInt16s:
        """Return the bit sets of the functions that say yes: uint16 (n, words of functions)."""
        return self._yes(self._checked(signatures))

    def _yes(self, signatures: UInt16s) -> UInt16s:
        if self._around:
            return signatures
        return kernels.fingerprints.functions_of_grids(signatures, self.functions)

    def first_shared(self, left: UInt16s, right: UInt16s) -> Int64s:
        """Return the first function that pairs share, int64; -1 if they are no candidates."""
        if self._around:
            left, right = self.yes(left), self.yes(right)
        else:
            left = right = self.yes(left & right)
        return kernels.fingerprints.first_shared(left, right, self.group_size, self.groups)


def chosen_functions(squares: int, count: int, size: int, secret: bytes) -> Int32s:
    """Choose functions of ``size`` different squares each, int32 (count, size), by a secret."""
    chosen = np.empty((0, size), np.int64)
    portion = 2 * count
    while len(chosen) < count:
        # Words are a stream, so that a longer one begins with the shorter; few rows are refused.
        words = derived_words(secret, b"simdb.squares", portion * size)
        rows = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * squares
        drawn = rows.astype(np.int64).reshape(portion, size)
        ordered = np.sort(drawn, axis=1)
        chosen = ordered[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)][:count]
        portion *= 2
    return chosen.astype(np.int32)


def share_of_functions(shared: Int64s, squares: int, size: int) -> Float64s:
    """Return the share of all functions that say yes to two prints, by the squares they share.

    A function is any ``size`` different squares, all equally likely: of c shared ones among s,
    C(c, size) / C(s, size) of the functions say yes to both. It is exact for the two prints,
    wherever on the plate minutiae are frequent; the mean over pairs with independent squares is the
    chapter's product of densities (MMDS 3.8.5). ``And(groups, Or(functions))`` of it is the
    probability, over the choice of functions, that the two are candidates.

    Args:
        shared: int64 (n,), squares that both prints of a pair occupy.
        squares: of the grid.
        size: squares of a function.
    """
    share = np.ones(shared.shape)
    for place in range(size):
        share *= np.maximum(shared - place, 0) / (squares - place)
    return share

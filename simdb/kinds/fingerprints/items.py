"""Fingerprints: minutiae, or occupied grid squares; their stored form, grids, measure (MMDS 3.8.4).

The stored form is canonical: equal prints are equal bytes. Minutiae are rounded to 1/16 of the
unit of length and 1/64 of a degree, sorted, without repeats, 6 bytes each: x, y and direction as
little-endian unsigned integers of 16 bits. Squares are a bit set of as many bytes as the grid
needs: square i is bit i % 8 of byte i // 8.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.arrays import Float64s, Int32s, Int64s, UInt8s, UInt64s
from simdb.errors import BadItemError, CorruptionError
from simdb.kinds.base import (
    Compared,
    Items,
    PairedMeasure,
    lengths_of,
    require_sound,
    rows_of,
    shortened,
    shown,
)
from simdb.kinds.vectors import number_of
from simdb.ragged import offsets_of

if TYPE_CHECKING:
    from simdb.kinds.fingerprints import Fingerprint

LENGTH_UNITS = 16  # of a unit of length
DIRECTION_UNITS = 64  # of a degree

TURN = 360 * DIRECTION_UNITS
MAXIMUM_MINUTIAE = 1_024
_SECTOR_BORDER = 8 * DIRECTION_UNITS  # a direction so close to the border of a sector is in both
_BYTES = 6
_SQUARE = re.compile(r"0|[1-9][0-9]{0,17}")
_NUMBERS_OF_MINUTIA = (3, 4)  # on a line: x, y, direction, and maybe a quality

Minutia: TypeAlias = tuple[float, float, float]


class Prints(NamedTuple):
    """Fingerprints as arrays.

    Attributes:
        grids: uint64 (n, words), the occupied squares on the plate; bit i % 64 of word i // 64.
        minutiae: int32 (m, 3), x, y in 1/16 of a unit and direction in 1/64 of a degree.
        offsets: int64 (n + 1,); print i is ``minutiae[offsets[i]:offsets[i + 1]]``.
    """

    grids: UInt64s
    minutiae: Int32s
    offsets: Int64s

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
                f"{reprlib.repr(int(numbers[wrong][0]))} is none"
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
        return item
    if isinstance(item, str | bytes) or not isinstance(item, Iterable):
        raise BadItemError(
            f"a fingerprint must be a collection of square numbers, not {shown(item)}"
        )
    squares = list(item)
    # The types of all are told much sooner than one after the other is looked at.
    if set(map(type, squares)) != {int}:
        for square in squares:
            if isinstance(square, bool) or not isinstance(square, int | np.integer):
                raise BadItemError(
                    f"the number of a grid square must be an integer, not {reprlib.repr(square)}"
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
    if isinstance(item, np.ndarray):
        numeric = item.dtype.kind in "iuf"
    else:
        if not len(item):
            return np.empty((0, 3))
        numeric = all(map(_is_minutia, item))
    array = np.array(item, np.float64) if numeric else np.empty(0)
    if array.ndim != 2 or array.shape[1] != 3:
        shape = f" of shape {array.shape}" if numeric else ""
        raise BadItemError(
            f"every minutia must be three numbers, x, y and direction; given was "
            f"{reprlib.repr(item)}{shape}"
        )
    return array


def _is_minutia(given: Any) -> bool:
    """Return whether something holds three numbers; NumPy would take texts and truths too."""
    return (
        isinstance(given, Sequence | np.ndarray)
        and not isinstance(given, str | bytes)
        and len(given) == 3
        and all(map(_is_number, given))
    )


def _is_number(value: object) -> bool:
    """Return whether a value is a number that float64 holds, or may round."""
    if isinstance(value, int) and (isinstance(value, bool) or abs(value) > 2**53):
        return False
    return isinstance(value, int | float | np.integer | np.floating)


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

    def _between(self, ones: Prints, others: Prints, left: Int64s, right: Int64s) -> Compared:
        if self._squares:
            return Compared(*kernels.bits.compare_rows(ones.grids, others.grids, left, right))
        minutiae, offsets = others.minutiae, others.offsets
        if ones is not others:
            minutiae = np.concatenate((minutiae, ones.minutiae))
            offsets = np.append(offsets, ones.offsets[1:] + offsets[-1])
            left = left + len(others)
        matched = kernels.fingerprints.matched_minutiae(
            minutiae, offsets, left, right, self._settings
        )
        sizes = np.diff(offsets)
        return Compared(matched, sizes[left] + sizes[right] - matched)


# -- prints in text ------------------------------------------------------------------------------


def print_of_text(text: str, *, squares: bool) -> list[Any]:
    """Return the fingerprint in a file: a minutia a line, or numbers of squares.

    A minutia is x, y and direction in degrees between white space; a fourth number, which other
    programs write, is its quality and does not count.
    """
    if squares:
        tokens = text.split()
        wrong = next((token for token in tokens if not _SQUARE.fullmatch(token)), None)
        if wrong is not None:
            raise BadItemError(f"{shortened(wrong)} is not the number of a square")
        return list(map(int, tokens))
    lines = enumerate(text.splitlines(), 1)
    return [_minutia(place, line.split()) for place, line in lines if line.strip()]


def _minutia(place: int, tokens: Sequence[str]) -> list[float]:
    if len(tokens) not in _NUMBERS_OF_MINUTIA:
        raise BadItemError(
            f"line {place} has {len(tokens)} numbers: a minutia is x, y and direction"
        )
    try:
        return [number_of(token) for token in tokens][:3]
    except BadItemError as problem:
        raise BadItemError(f"line {place}: {problem}") from None

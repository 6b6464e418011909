"""Vectors of numbers of one dimension: what is taken as one, and its stored form.

The stored form are the components as float32, little-endian: of one width for all. Negative zero
becomes zero, so that equal vectors are equal bytes.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.config import Vector
from simdb.errors import BadItemError
from simdb.items.one_width import require_sound, rows_of

MAXIMUM_DIMENSION = 65_536  # the random directions of an index have so many components each
NARROWEST_BUCKET, WIDEST_BUCKET = 1e-30, 1e30  # within these no bucket number overflows
_MEASURES = ("cosine", "euclidean", "manhattan", "maximum")
_NO_NUMBERS = (bool, np.bool_, str, bytes, type(None))


class VectorItems:
    """Encode vectors of one dimension.

    Attributes:
        width: bytes of a stored vector.
    """

    def __init__(self, settings: Vector) -> None:
        self._dimension = settings.dimension
        self._directed = settings.measure == "cosine"
        self.width = 4 * settings.dimension

    def encode(self, item: object) -> bytes:
        """Return the stored form of a vector; every component is rounded to float32.

        Raises:
            BadItemError: it is no list or array of numbers, has another dimension, holds a number
                that is not finite or too large for float32, or, for angles, nothing but zeros.
        """
        given = _array_of(item)
        if given.ndim != 1 or given.size != self._dimension:
            shape = "x".join(map(str, given.shape)) or "no"
            raise BadItemError(
                f"the vectors of this collection have {self._dimension:,} components, and this one "
                f"has {shape}"
            )
        with np.errstate(over="ignore"):  # what overflows is refused below
            vector = given.astype("<f4") + np.float32(0)  # which turns -0 into 0
        if not np.isfinite(vector).all():
            position = int(np.flatnonzero(~np.isfinite(vector))[0])
            wrong = given[position]
            why = "is beyond float32" if math.isfinite(wrong) else "is no finite number"
            raise BadItemError(f"the component {wrong} of a vector, at position {position}, {why}")
        if self._directed and not vector.any():
            what = "all its components are 0"
            if given.any():
                what += " in float32"
            raise BadItemError(f"a vector without a direction has no angle to others: {what}")
        return vector.tobytes()

    def decode(self, data: bytes | memoryview) -> npt.NDArray[np.float32]:
        """Return the vector of a stored form, float32 (dimension,).

        Raises:
            CorruptionError: it is no stored form of a vector of this dimension.
        """
        vector: npt.NDArray[np.float32] = self.features([data])[0]
        return vector

    def features_of_rows(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return stored vectors that lie one after the other, uint8 (n, width), as they are."""
        vectors: npt.NDArray[np.float32] = np.ascontiguousarray(rows).view(np.float32)
        return vectors

    def features(self, items: Sequence[bytes | memoryview]) -> npt.NDArray[np.float32]:
        """Return stored vectors, float32 (n, dimension).

        Raises:
            CorruptionError: one of them is no stored form of a vector of this dimension.
        """
        vectors = rows_of(items, self.width, "vector").view("<f4")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.vecdot(vectors, vectors)
        # One reading tells of nearly all vectors what otherwise takes two.
        if not ((squares > 0) & (squares < np.inf)).all():
            sound = np.isfinite(vectors).all(axis=1)
            if self._directed:
                sound &= vectors.any(axis=1)
            require_sound(sound, "vector")
        return vectors.astype(np.float32, copy=False)


def _array_of(item: object) -> npt.NDArray[Any]:
    """Return what is given as an array of integers or of floats."""
    if not isinstance(item, list | tuple) and not hasattr(item, "__array__"):
        raise BadItemError(
            "a vector must be a list or an array of numbers, not "
            f"{type(item).__name__} {reprlib.repr(item)}"
        )
    if isinstance(item, list | tuple):
        _require_numbers(item)
    try:
        given = np.asarray(item)
        if given.dtype.kind == "O":  # whole numbers beyond 64 bits, fractions, what is no number
            given = np.array([_number(component) for component in given.tolist()], np.float64)
    except (ValueError, OverflowError) as error:
        raise BadItemError(
            f"{reprlib.repr(item)} cannot be read as a vector of numbers: {error}"
        ) from error
    if given.dtype.kind not in "iuf":
        raise BadItemError(
            f"the components of a vector must be numbers, not {given.dtype}: {reprlib.repr(item)}"
        )
    return given.astype(np.float64) if given.dtype.kind in "iu" else given


def _require_numbers(item: Sequence[object]) -> None:
    """Refuse what NumPy turns into numbers, or numbers into: True would be 1, and 1 "1"."""
    if not any(issubclass(kind, _NO_NUMBERS) for kind in set(map(type, item))):
        return
    position, wrong = next(
        (place, part) for place, part in enumerate(item) if isinstance(part, _NO_NUMBERS)
    )
    raise BadItemError(
        f"the components of a vector must be numbers, not {type(wrong).__name__} "
        f"{reprlib.repr(wrong)} at position {position}"
    )


def _number(component: object) -> float:
    if isinstance(component, _NO_NUMBERS) or not hasattr(component, "__float__"):
        raise ValueError(f"{type(component).__name__} {reprlib.repr(component)} is no number")
    return float(component)

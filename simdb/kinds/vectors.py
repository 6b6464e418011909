"""Vectors of numbers of one dimension: angles and Lr norms (MMDS 3.5.2, 3.5.4, 3.7).

The stored form are the components as float32, little-endian: of one width for all. Negative zero
becomes zero, so that equal vectors are equal bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from simdb import kernels
from simdb.arguments import short
from simdb.arrays import Bools, Float32s, Int64s, UInt8s
from simdb.errors import BadItemError, ConfigurationError
from simdb.evidence import Evidence, facets_of_amounts
from simdb.exact import products
from simdb.exact.joins import ALONE, Workers
from simdb.exact.pigeonhole import Near
from simdb.exact.thresholds import Bound
from simdb.kinds.base import (
    ROWS_OF_NUMBERS,
    Compared,
    Examples,
    Finder,
    Items,
    Kind,
    Measure,
    PairedMeasure,
    Stored,
    require_sound,
    rows_of,
    shortened,
    shown,
    unmasked,
)
from simdb.lsh.curves import AngleCurve, Curve, LineCurve, UnstatedCurve, bucket_width_for
from simdb.lsh.family import Family, SketchScheme
from simdb.lsh.projections import RandomHyperplanes, RandomLines
from simdb.ragged import ByteStrings, Column, Pieces, cut_rows
from simdb.work import Work

VectorMeasureName: TypeAlias = Literal["cosine", "euclidean", "manhattan", "maximum"]

# In the order of the numbers that the kernels know them by.
VECTOR_MEASURES: tuple[VectorMeasureName, ...] = get_args(VectorMeasureName)

MAXIMUM_DIMENSION = 65_536  # the random directions of an index have so many components each
NARROWEST_BUCKET, WIDEST_BUCKET = 1e-30, 1e30  # within these no bucket number overflows
_NORMS = {"manhattan": 1, "euclidean": 2, "maximum": math.inf}
# Whose squares are sums of products.
_BY_PRODUCTS: tuple[VectorMeasureName, ...] = ("cosine", "euclidean")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
_MOST_KEPT = 2**23  # components of directions: of these and their other order, 64 MiB
_NO_NUMBERS = (bool, np.bool_, str, bytes, type(None))


class Vector(Kind, frozen=True):
    """Vectors of real numbers of one dimension, stored as float32.

    An item is a list or an array of finite numbers; ``get`` returns an array of float32.

    Attributes:
        dimension: the number of components of every vector.
        measure: ``"cosine"`` compares by the angle in degrees (MMDS 3.5.4) and refuses a vector of
            zeros, which has no direction; ``"euclidean"``, ``"manhattan"`` and ``"maximum"`` by the
            L2, L1 and L-infinity norm of the difference (MMDS 3.5.2).
        directions: the directions of the hyperplanes of ``"cosine"``: ``"gaussian"``, or
            ``"signs"`` for vectors of +1 and -1 (MMDS 3.7.3), whose probability of a collision is
            not known.
        bucket_width: the width of buckets on the lines of the other measures (MMDS 3.7.4); planned
            if None.
    """

    dimension: Annotated[int, Meta(ge=1, le=MAXIMUM_DIMENSION)]
    measure: VectorMeasureName = "cosine"
    directions: Literal["gaussian", "signs"] = "gaussian"
    bucket_width: int | float | None = None

    plural = "vectors"
    in_the_name = ("dimension", "measure")
    suffixes = ROWS_OF_NUMBERS
    json_form = "a list of numbers"

    def __post_init__(self) -> None:
        width: Any = self.bucket_width  # what a caller gives is not always what is declared
        is_number = isinstance(width, int | float) and not isinstance(width, bool)
        if width is not None and not (is_number and NARROWEST_BUCKET <= width <= WIDEST_BUCKET):
            raise ConfigurationError(
                f"Vector.bucket_width must be a number from {NARROWEST_BUCKET} to "
                f"{WIDEST_BUCKET}, not {short(width)}"
            )
        super().__post_init__()
        if self.directions == "signs" and self.measure != "cosine":
            raise ConfigurationError("Vector.directions='signs' is only for the measure 'cosine'")
        if self.bucket_width is not None and self.measure == "cosine":
            raise ConfigurationError("Vector.bucket_width is for measures other than 'cosine'")

    @property
    def is_distance(self) -> bool:
        return True

    @property
    def largest_distance(self) -> Fraction:
        return Fraction(180) if self.measure == "cosine" else super().largest_distance

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        corners = [[(place + 2) ** axis % 7 - 3 for axis in range(1, 7)] for place in range(5)]
        items = [[number / 2 for number in corner] for corner in corners]
        near = [[number + 1 / 64 for number in item] for item in items]
        invalid = (None, 3.5, "1 2", [1] * 5, [1] * 5 + ["x"], [1] * 5 + [float("nan")])
        return (
            Examples(cls(6), "5", items, near, invalid),
            Examples(cls(6, "euclidean"), "0.1", items, near, invalid),
        )

    def make_items(self, secret: bytes) -> VectorItems:
        return VectorItems(self)

    def make_measure(self) -> Measure:
        if self.measure in _BY_PRODUCTS:
            return ProductMeasure(self.measure)
        return VectorMeasure(self.measure)

    def share_looked_at(self, bound: Fraction) -> float | None:
        return 1.0 if self.measure in _BY_PRODUCTS else None

    def make_curve(self, bound: Fraction) -> Curve:
        if self.measure == "cosine":
            return (
                AngleCurve() if self.directions == "gaussian" else UnstatedCurve(is_distance=True)
            )
        return LineCurve(self._width_for(bound), self.dimension, _NORMS[self.measure])

    def make_family(
        self, bound: Fraction, *, bands: int, rows: int, sketch: SketchScheme, secret: bytes
    ) -> Family:
        make = _made if self.dimension * bands * rows <= _MOST_KEPT else _made.__wrapped__
        return make(self, bound, bands, rows, secret)

    def stores_alike(self, other: Self) -> bool:
        return self.dimension == other.dimension

    def _width_for(self, distance: Fraction) -> float:
        """Return the width of the buckets on random lines, in units of distance."""
        planned = bucket_width_for(float(distance), self.dimension, _NORMS[self.measure])
        return float(self.bucket_width or planned or 1.0)

    def item_of_json(self, value: Any, *, several: bool = False) -> Any:
        if several and type(value) in (int, float):
            return [value]
        return value if isinstance(value, list) else NotImplemented

    def item_of_tokens(self, tokens: list[str]) -> list[float]:
        return list(map(number_of, tokens))

    def plain_item(self, item: Float32s) -> list[float]:
        components: list[float] = item.tolist()
        return components

    def column_item(self, item: Float32s) -> Float32s:
        return item

    def evidence(self, items: Items, left: Stored, right: Stored) -> Evidence:
        sides = (dict(enumerate(items.decode(side).tolist())) for side in (left, right))
        return Evidence("components", facets_of_amounts(*sides))

    def shown_item(self, item: Float32s) -> str:
        return " ".join(f"{component:g}" for component in item.tolist())


@lru_cache(maxsize=1)  # the last one: creating, adding, rebuilding and searching ask for it
def _made(kind: Vector, bound: Fraction, bands: int, rows: int, secret: bytes) -> Family:
    """Make a family, whose directions take seconds where vectors are long."""
    if kind.measure == "cosine":
        gaussian = kind.directions == "gaussian"
        return RandomHyperplanes(kind.dimension, bands, rows, secret, gaussian=gaussian)
    return RandomLines(kind.dimension, kind._width_for(bound), bands, rows, secret)


def number_of(token: str) -> float:
    """Return the number that a word spells; BadItemError for none."""
    if not _NUMBER.fullmatch(token):
        raise BadItemError(f"{shortened(token)} is not a number")
    return float(token)


class VectorItems(Items):
    """Encode vectors of one dimension; every component is rounded to float32."""

    def __init__(self, settings: Vector) -> None:
        self._dimension = settings.dimension
        self._directed = settings.measure == "cosine"
        self.width = 4 * settings.dimension

    def encode(self, item: object) -> bytes:
        given = _array_of(item)
        if given.ndim != 1 or given.size != self._dimension:
            shape = "x".join(map(str, given.shape)) or "no"
            raise BadItemError(
                f"the vectors of this collection have {self._dimension:,} components, but this one "
                f"has {shape}"
            )
        with np.errstate(over="ignore"):  # what overflows is refused below
            vector = given.astype("<f4") + np.float32(0)  # which turns -0 into 0
        if not np.isfinite(vector).all():
            position = int(np.flatnonzero(~np.isfinite(vector))[0])
            wrong = given[position]
            why = "is beyond float32" if math.isfinite(wrong) else "is not a finite number"
            raise BadItemError(f"the component {wrong} of a vector, at position {position}, {why}")
        if self._directed and not vector.any():
            what = "all its components are 0"
            if given.any():
                what += " in float32"
            raise BadItemError(
                f"a vector without a direction has no angle to other vectors: {what}"
            )
        return vector.tobytes()

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        shape, known = (self._dimension,), np.dtype(np.float32)
        are_plain = (type(i) is np.ndarray and i.dtype == known and i.shape == shape for i in items)
        if items and all(are_plain):
            vectors = np.array(items, "<f4") + np.float32(0)
            if self._sound(vectors).all():
                return cut_rows(vectors)
        return super().encode_many(items)

    def encode_column(self, column: Column) -> ByteStrings | None:
        is_float = column.form == "numbers" and column.values.dtype.kind == "f"
        if not is_float or (np.diff(column.offsets) != self._dimension).any():
            return None
        with np.errstate(over="ignore"):
            vectors = column.values.reshape(-1, self._dimension).astype("<f4") + np.float32(0)
        return ByteStrings.of_rows(vectors) if self._sound(vectors).all() else None

    def decode(self, data: bytes | memoryview) -> Float32s:
        if len(data) == self.width:  # one is read sooner by itself than as a batch
            vector = np.frombuffer(data, "<f4").astype(np.float32)
            with np.errstate(over="ignore", invalid="ignore"):
                is_sound = 0 < vector.dot(vector) < np.inf
            if is_sound:
                return vector
        return np.asarray(self.features([data])[0])

    def features_of_rows(self, rows: UInt8s) -> Float32s:
        vectors: Float32s = np.ascontiguousarray(rows).view(np.float32)
        return vectors

    def features(self, items: Sequence[bytes | memoryview]) -> Float32s:
        vectors = rows_of(items, self.width, "vector").view("<f4")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.vecdot(vectors, vectors)
        # One reading tells of nearly all vectors what otherwise takes two.
        if not ((squares > 0) & (squares < np.inf)).all():
            require_sound(self._sound(vectors), "vector")
        return vectors.astype(np.float32, copy=False)

    def _sound(self, vectors: Float32s) -> Bools:
        """Tell which vectors have finite components and, if it is needed, a direction."""
        sound = np.asarray(np.isfinite(vectors).all(axis=1))
        return sound & vectors.any(axis=1) if self._directed else sound


def _array_of(item: object) -> npt.NDArray[Any]:
    if not isinstance(item, list | tuple) and not hasattr(item, "__array__"):
        raise BadItemError(f"a vector must be a list or an array of numbers, not {shown(item)}")
    if isinstance(item, list | tuple):
        _require_numbers(item)
    try:
        given = np.asarray(unmasked(item))
        if given.dtype.kind == "O":  # whole numbers beyond 64 bits, fractions, what is no number
            given = np.array([_number(component) for component in given.tolist()], np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last as by tensors
        raise BadItemError(
            f"{short(item)} cannot be read as a vector of numbers: {error}"
        ) from error
    if given.dtype.kind not in "iuf":
        raise BadItemError(
            f"the components of a vector must be numbers, not {given.dtype}: {short(item)}"
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
        f"the components of a vector must be numbers, not {shown(wrong)} at position {position}"
    )


def _number(component: object) -> float:
    if isinstance(component, _NO_NUMBERS) or not hasattr(component, "__float__"):
        raise ValueError(f"{shown(component)} is not a number")
    return float(component)


class VectorMeasure(PairedMeasure):
    """Compare float32 vectors by one measure, in float64.

    ``"cosine"`` is the angle in degrees, ``"euclidean"``, ``"manhattan"`` and ``"maximum"`` are the
    L2, L1 and L-infinity norm of the difference; all are distances. The same two vectors have the
    same distance in every batch and on every machine, whichever comes first; equal ones have 0.
    """

    reads_pieces = finds_nearest = True

    def __init__(self, measure: VectorMeasureName) -> None:
        self._number = VECTOR_MEASURES.index(measure)

    def finder(self, probe: Float32s, bound: Bound, most: int = 0) -> Finder:
        """The finder: it reads all at about the speed of memory, and writes only what matches."""
        return partial(self.scan, probe[0], limit=float(bound.fraction), most=most)

    def scan(
        self, probe: Float32s, features: Float32s | Pieces, limit: float, most: int = 0
    ) -> tuple[Int64s, Compared]:
        """Find the rows of ``features`` at most ``limit`` away, and how far each is: exact."""
        if not isinstance(features, Pieces):
            features = np.ascontiguousarray(features)
            return self.scan(probe, Pieces.of(features), limit, most)
        rows, distances = kernels.vectors.scan(probe, *features, self._number, limit, most)
        return rows, Compared.whole(distances)

    def compare_between(
        self, ones: Float32s, others: Float32s, left: Int64s, right: Int64s
    ) -> Compared:
        distances = kernels.vectors.compare_rows(ones, others, left, right, self._number)
        return Compared.whole(distances)


class ProductMeasure(VectorMeasure):
    """Angles and Euclidean distances, which a product of two matrices tells of all pairs about."""

    def near_pairs(
        self,
        ones: Float32s,
        others: Float32s | None,
        bound: Bound,
        work: Work,
        workers: Workers = ALONE,
    ) -> Iterator[Near]:
        """Find pairs as ``compare_pairs`` compares them, with the help of ``exact.products``."""
        limit, apart = float(bound.fraction), float(bound.fraction)
        if self._number == kernels.vectors.ANGLE:  # the ends of unit vectors are a chord apart
            apart = 2 * math.sin(math.radians(min(limit, 180.0)) / 2)
        right_side = ones if others is None else others
        directed = self._number == kernels.vectors.ANGLE
        for found in products.may_be_near(ones, others, apart, directions=directed):
            work.spend(found.looked_at)
            left, right = found.left, found.right
            distances = self.compare_between(ones, right_side, left, right).numerators
            met = distances <= limit
            yield Near(left[met], right[met], distances[met])

"""Settings of bit vectors and of vectors (MMDS 3.5, 3.7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from simdb.errors import ConfigurationError

MAXIMUM_LENGTH = 8 * 32 * 2**20  # bits: an item has at most 32 MiB
MAXIMUM_DIMENSION = 65_536  # the random directions of an index have so many components each
NARROWEST_BUCKET, WIDEST_BUCKET = 1e-30, 1e30  # within these no bucket number overflows
_MEASURES = ("cosine", "euclidean", "manhattan", "maximum")


@dataclass(frozen=True, slots=True)
class Bits:
    """Vectors of so many bits.

    An item is an array or a list of 0 and 1 (or False and True), a text of ``0`` and ``1``, a whole
    number, whose highest bit of ``length`` comes first, or the bits packed into ``bytes`` as by
    ``np.packbits``. ``get`` returns an array of 0 and 1.

    Attributes:
        length: how many bits every vector has.
        measure: ``"hamming"`` compares by the number of bits that differ (MMDS 3.5.6),
            ``"tanimoto"`` by the set bits that two vectors have in common, as a share of all that
            are set in one of them.
    """

    length: int
    measure: Literal["hamming", "tanimoto"] = "hamming"

    def __post_init__(self) -> None:
        length: object = self.length
        whole = isinstance(length, int) and not isinstance(length, bool)
        if not whole or not 1 <= self.length <= MAXIMUM_LENGTH:
            raise ConfigurationError(
                f"Bits.length must be a whole number from 1 to {MAXIMUM_LENGTH:,}, not {length!r}"
            )
        if self.measure not in ("hamming", "tanimoto"):
            raise ConfigurationError(
                f"Bits.measure must be 'hamming' or 'tanimoto', not {self.measure!r}"
            )


@dataclass(frozen=True, slots=True)
class Vector:
    """Vectors of so many real numbers, kept as float32.

    An item is a list or an array of finite numbers; ``get`` returns an array of float32.

    Attributes:
        dimension: how many components every vector has.
        measure: ``"cosine"`` compares by the angle in degrees (MMDS 3.5.4) and refuses a vector of
            zeros, which has no direction; ``"euclidean"``, ``"manhattan"`` and ``"maximum"`` by the
            L2, L1 and L-infinity norm of the difference (MMDS 3.5.2).
        directions: of the hyperplanes of ``"cosine"``: ``"gaussian"``, or ``"signs"`` for vectors
            of +1 and -1 (MMDS 3.7.3), with which no probability of a collision is known.
        bucket_width: of the lines of the other measures (MMDS 3.7.4); None leaves it to the plan.
    """

    dimension: int
    measure: Literal["cosine", "euclidean", "manhattan", "maximum"] = "cosine"
    directions: Literal["gaussian", "signs"] = "gaussian"
    bucket_width: float | None = None

    def __post_init__(self) -> None:
        dimension: object = self.dimension
        whole = isinstance(dimension, int) and not isinstance(dimension, bool)
        if not whole or not 1 <= self.dimension <= MAXIMUM_DIMENSION:
            raise ConfigurationError(
                f"Vector.dimension must be a whole number from 1 to {MAXIMUM_DIMENSION:,}, "
                f"not {dimension!r}"
            )
        if self.measure not in _MEASURES:
            raise ConfigurationError(
                f"Vector.measure must be one of {', '.join(map(repr, _MEASURES))}, "
                f"not {self.measure!r}"
            )
        if self.directions not in ("gaussian", "signs"):
            raise ConfigurationError(
                f"Vector.directions must be 'gaussian' or 'signs', not {self.directions!r}"
            )
        if self.directions == "signs" and self.measure != "cosine":
            raise ConfigurationError("Vector.directions='signs' is for the measure 'cosine'")
        self._require_bucket_width()

    def _require_bucket_width(self) -> None:
        width: object = self.bucket_width
        if width is None:
            return
        if self.measure == "cosine":
            raise ConfigurationError("Vector.bucket_width is for other measures than 'cosine'")
        number = float(width) if isinstance(width, int | float) else math.nan
        if isinstance(width, bool) or not NARROWEST_BUCKET <= number <= WIDEST_BUCKET:
            raise ConfigurationError(
                f"Vector.bucket_width must be a number from {NARROWEST_BUCKET} to "
                f"{WIDEST_BUCKET}, not {width!r}"
            )

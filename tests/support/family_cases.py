"""What the tests of the families of bits and vectors share: items, a secret and a bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.kinds import Bits
from simdb.kinds.bits import BitsItems

SECRET = b"secret"
FUNCTIONS = 4096  # base functions of a collision rate
# Of the rate in 4,096 functions its standard deviations that a test allows: of about 60
# rates a right family exceeds it in one secret of 2,500.
BOUND = 4.5


def within_bound(observed: float, stated: float, samples: int = FUNCTIONS) -> bool:
    return abs(observed - stated) <= BOUND * math.sqrt(stated * (1 - stated) / samples) + 1e-12


def bit_features(length: int, *vectors: Any) -> npt.NDArray[np.uint64]:
    items = BitsItems(Bits(length), b"")
    return items.features([items.encode(vector) for vector in vectors])


def some_vectors(count: int, dimension: int, scale: float = 1) -> npt.NDArray[np.float32]:
    generator = np.random.default_rng(1)
    return (scale * generator.standard_normal((count, dimension))).astype(np.float32)

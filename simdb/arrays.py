"""The arrays that functions take and give, by the type of their elements."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bools: TypeAlias = npt.NDArray[np.bool_]
UInt8s: TypeAlias = npt.NDArray[np.uint8]
UInt16s: TypeAlias = npt.NDArray[np.uint16]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Float32s: TypeAlias = npt.NDArray[np.float32]
Float64s: TypeAlias = npt.NDArray[np.float64]
Complex128s: TypeAlias = npt.NDArray[np.complex128]
Floats: TypeAlias = npt.NDArray[np.floating]

# The most that glibc can be made to keep arrays of (M_MMAP_THRESHOLD), with room for its header.
_LARGEST_KEPT = 2**25 - 2**13


@cache
def keep_freed_memory() -> None:
    """Let the allocator keep up to 64 MiB of what is freed, for work that makes arrays without end.

    glibc fetches arrays of 128 KiB and more from the system one by one, zeroed page by page, and
    gives them back; until a larger one is freed, from which on it keeps those that are smaller than
    that (mallopt(3)). This one is never written to, and so takes nothing. Elsewhere it does
    nothing.
    """
    np.empty(_LARGEST_KEPT, np.uint8)

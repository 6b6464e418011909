"""Stored forms of one width: many of them as the rows of an array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simdb.errors import CorruptionError


def rows_of(items: Sequence[bytes | memoryview], width: int, what: str) -> npt.NDArray[np.uint8]:
    """Return a copy of stored forms, uint8 (n, width).

    Raises:
        CorruptionError: one of them, which the message calls a stored ``what``, has another width.
    """
    joined = bytearray().join(items)  # and not bytes, which would be a type more to compile for
    require_sound(np.fromiter(map(len, items), np.int64, len(items)) == width, what)
    return np.frombuffer(joined, np.uint8).reshape(len(items), width)


def require_sound(sound: npt.NDArray[np.bool_], what: str) -> None:
    """Raise unless all stored forms of a batch are sound.

    Raises:
        CorruptionError: one of them is not; the message says which one is the first.
    """
    if not sound.all():
        raise CorruptionError(f"a stored {what}, {sound.argmin()} of its batch, cannot be read")

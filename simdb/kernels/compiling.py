"""How a kernel is compiled: cached on disk where a cache folder can be written, else in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function of arrays on first call, releasing the GIL while it runs."""
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # numba found no folder that it may write a cache to (a read-only installation and home).
        compiled = numba.njit(nogil=True)(function)
    return cast("Function", compiled)


def inlined(function: Function) -> Function:
    """Compile a small function into every kernel that calls it."""
    return cast("Function", numba.njit(inline="always")(function))

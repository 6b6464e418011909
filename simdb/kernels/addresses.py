"""Reading arrays that lie in the map of the file, by address.

A kernel that probes hundreds of chunks cannot be handed hundreds of arrays, so it is handed
their addresses. Whoever makes the table of addresses owns the transaction that keeps them valid
(``storage.runs.RunView``, ``storage.blocks.BlockView``), and has checked counts and bounds.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic


def _loader(element: Any) -> Any:
    """Make an intrinsic that reads element ``position`` of the array at ``address``."""

    @intrinsic
    def load(_context: Any, address: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value_type = context.get_value_type(element)
            pointer = builder.inttoptr(arguments[0], value_type.as_pointer())
            loaded = builder.load(builder.gep(pointer, [arguments[1]]))
            loaded.align = 1  # small records are not aligned in the map
            return loaded

        return element(types.int64, types.int64), generate

    return load


if numba.config.DISABLE_JIT:

    def load_uint64(address: int, position: int) -> int:
        """Read a uint64."""
        return ctypes.c_uint64.from_address(int(address) + 8 * int(position)).value

    def load_uint32(address: int, position: int) -> int:
        """Read a uint32."""
        return ctypes.c_uint32.from_address(int(address) + 4 * int(position)).value

    def load_uint16(address: int, position: int) -> int:
        """Read a uint16."""
        return ctypes.c_uint16.from_address(int(address) + 2 * int(position)).value

else:
    load_uint64 = _loader(types.uint64)
    load_uint32 = _loader(types.uint32)
    load_uint16 = _loader(types.uint16)

"""How kernels are compiled, and the five instructions that numba has no word for.

``kernel`` is for functions of arrays, ``inlined`` for what they are made of, ``in_any_order`` for
sums of these that need not be exact. The instructions count
the bits of a word, multiply two words into a wide one, read arrays by address, add eight words to
the sums of a checksum, and copy bytes, which a loop over an array does one by one. A kernel that
probes hundreds of chunks cannot be handed hundreds of arrays, so it is handed their addresses:
whoever makes the table of addresses owns the transaction that keeps them valid
(``RunView``, say), and has checked counts and bounds.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import ctypes
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import serialize
from numba.core.caching import FunctionCache
from numba.core.cgutils import raw_memcpy
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

# What a kernel that returns arrays calls last, at every call, for their type. As a function of
# Python it is the first place after a long kernel where Ctrl-C is raised, which numba does not
# expect there and makes a SystemError of. What is remembered is found without running Python, so
# that the KeyboardInterrupt comes after the kernel, where it belongs; and sooner.
if hasattr(serialize, "_numba_unpickle"):
    serialize._numba_unpickle = cache(serialize._numba_unpickle)


class _Cache(FunctionCache):
    """Compiled kernels kept on the disk, without which every process works too, but for seconds.

    numba raises whatever meets it there, in every process for ever: a full disk, or files that
    one, or a power failure, has cut short.
    """

    def load_overload(self, *given: Any) -> Any:
        """A compiled kernel, or None if it has to be compiled."""
        try:
            return super().load_overload(*given)
        except OSError as error:
            self._do_without(error)
        except Exception:  # noqa: BLE001 - unpickling, and LLVM, raise anything of damaged bytes
            try:
                self.flush()
            except OSError as error:
                self._do_without(error)
        return None

    def save_overload(self, *given: Any) -> None:
        """Keep a compiled kernel."""
        try:
            super().save_overload(*given)
        except OSError as error:
            self._do_without(error)

    def _do_without(self, error: OSError) -> None:
        self.disable()
        warnings.warn(
            f"compiled kernels cannot be kept in {self.cache_path} ({error}), so each process "
            "compiles them in memory, which takes seconds; free space there, or name another "
            "folder by NUMBA_CACHE_DIR",
            RuntimeWarning,
            stacklevel=2,
        )


def kernel(function: Function) -> Function:
    """Compile a function of arrays on first call, releasing the GIL while it runs."""
    compiled = numba.njit(nogil=True)(function)
    # Without a folder that it may write to (a read-only installation and home) numba raises.
    with contextlib.suppress(RuntimeError):
        compiled._cache = _Cache(function)
    return cast("Function", compiled)


# Nobody calls these from Python.
_INSIDE: dict[str, Any] = {
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def inlined(function: Function) -> Function:
    """Compile a small function into every kernel that calls it."""
    return cast("Function", numba.njit(**_INSIDE)(function))


def in_any_order(function: Function) -> Function:
    """Compile a small function into its callers; its sums are added in any order, so about right.

    For numbers that are finite, and where a bound of the rounding errors decides what they mean.
    """
    flags = {"reassoc", "contract", "nnan", "nsz"}
    return cast("Function", numba.njit(fastmath=flags, **_INSIDE)(function))


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

    def set_bit_count(word: np.uint64) -> np.int64:
        """Count the bits of a word that are set."""
        return np.int64(int(word).bit_count())

    def high_product(left: np.uint64, right: np.uint64) -> np.uint64:
        """Compute the high 64 bits of the 128-bit product."""
        return np.uint64((int(left) * int(right)) >> 64)

    def load_uint64(address: int, position: int) -> int:
        """Read a uint64."""
        return ctypes.c_uint64.from_address(int(address) + 8 * int(position)).value

    def load_uint32(address: int, position: int) -> int:
        """Read a uint32."""
        return ctypes.c_uint32.from_address(int(address) + 4 * int(position)).value

    def copy_bytes(target: int, source: int, size: int) -> None:
        """Copy bytes that do not overlap, from one address to another."""
        ctypes.memmove(int(target), int(source), int(size))

    def add_stripe(sums: int, data: int, secret: int) -> None:
        """Add eight words of data to eight sums, all by their addresses (XXH3)."""
        eight = ctypes.c_uint64 * 8
        totals = eight.from_address(int(sums))
        words, keys = eight.from_address(int(data)), eight.from_address(int(secret))
        for lane, (word, key) in enumerate(zip(words, keys, strict=True)):
            totals[lane ^ 1] = (totals[lane ^ 1] + word) % 2**64
            low, high = (word ^ key) & 0xFFFFFFFF, (word ^ key) >> 32
            totals[lane] = (totals[lane] + low * high) % 2**64

else:

    @intrinsic
    def set_bit_count(_typing: object, _word: object) -> tuple[object, object]:
        """Count the bits of a word that are set: one instruction, on eight words where it can."""

        def generate(
            _context: object, builder: ir.IRBuilder, _signature: object, arguments: list[ir.Value]
        ) -> ir.Value:
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), generate

    @intrinsic
    def high_product(_typing: object, _left: object, _right: object) -> tuple[object, object]:
        """Compute the high 64 bits of the 128-bit product."""

        def generate(
            _context: object, builder: ir.IRBuilder, _signature: object, arguments: list[ir.Value]
        ) -> ir.Value:
            wide = ir.IntType(128)
            left, right = (builder.zext(argument, wide) for argument in arguments)
            product = builder.mul(left, right)
            return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    @intrinsic
    def copy_bytes(
        _typing: object, _target: object, _source: object, _size: object
    ) -> tuple[object, object]:
        """Copy bytes that do not overlap, from one address to another."""

        def generate(
            _context: object, builder: ir.IRBuilder, _signature: object, arguments: list[ir.Value]
        ) -> ir.Value:
            byte = ir.IntType(8)
            target, source = (
                builder.inttoptr(address, byte.as_pointer()) for address in arguments[:2]
            )
            raw_memcpy(builder, target, source, arguments[2], 1)
            return _context.get_dummy_value()

        return types.none(types.int64, types.int64, types.int64), generate

    @intrinsic
    def add_stripe(
        _typing: object, _sums: object, _data: object, _secret: object
    ) -> tuple[object, object]:
        """Add eight words of data to eight sums, all by their addresses (XXH3)."""

        def generate(
            _context: object, builder: ir.IRBuilder, _signature: object, arguments: list[ir.Value]
        ) -> ir.Value:
            eight = ir.VectorType(ir.IntType(64), 8)
            places = [builder.inttoptr(argument, eight.as_pointer()) for argument in arguments]
            totals, words, keys = (builder.load(place, align=1) for place in places)
            keyed = builder.xor(words, keys)
            low = builder.and_(keyed, ir.Constant(eight, [0xFFFFFFFF] * 8))
            product = builder.mul(low, builder.lshr(keyed, ir.Constant(eight, [32] * 8)))
            others = ir.Constant(ir.VectorType(ir.IntType(32), 8), [1, 0, 3, 2, 5, 4, 7, 6])
            swapped = builder.shuffle_vector(words, ir.Constant(eight, None), others)
            total = builder.add(totals, builder.add(product, swapped))
            builder.store(total, places[0], align=1)
            return _context.get_dummy_value()

        return types.none(types.int64, types.int64, types.int64), generate

    load_uint64 = _loader(types.uint64)
    load_uint32 = _loader(types.uint32)

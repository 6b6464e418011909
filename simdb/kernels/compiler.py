"""What makes a kernel of a function, without numba until it must be compiled.

``kernel`` is for functions of arrays, ``inlined`` for what they are made of, ``in_any_order`` for
sums of these that need not be exact. A kernel that was compiled before is loaded from the disk
(``kept.py``), which takes a fraction of a millisecond; numba is imported (``compiling.py``) only
for one that was not, or where nothing can be kept.

Kernels have five instructions that Python has no word for. They count the bits of a word, multiply
two words into a wide one, read arrays by address, add eight words to the sums of a checksum, and
copy bytes, which a loop over an array does one by one. A kernel that probes hundreds of chunks
cannot be handed hundreds of arrays, so it is handed their addresses: whoever makes the table of
addresses owns the transaction that keeps them valid (``RunView``, say), and has checked counts and
bounds.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from simdb.arrays import Float32s, UInt64s
from simdb.extras import of_extra
from simdb.kernels import kept
from simdb.kernels.register import BY_NAME

Function = TypeVar("Function", bound=Callable[..., Any])

# As numba reads it: kernels are then Python, which is slow and can be looked into.
IS_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}


class Inlined:
    """What numba compiles when it is needed, into those that call it.

    Kernels call each other by their names in modules, where numba finds these and takes them for
    what it makes of them.
    """

    is_inlined = True

    def __init__(self, function: Callable[..., Any], *, in_any_order: bool = False) -> None:
        self.py_func = function
        self._in_any_order = in_any_order
        update_wrapper(self, function)

    @cached_property
    def compiled(self) -> Any:
        """The function as numba has it, which runs what it compiles."""
        return self._dispatcher(is_kept=False)

    @cached_property
    def compiled_to_keep(self) -> Any:
        """The function as numba has it in kernels that are kept."""
        return self._dispatcher(is_kept=True)

    @property
    def _numba_type_(self) -> Any:
        from simdb.kernels import target

        return (self.compiled_to_keep if target.is_current() else self.compiled)._numba_type_

    def _dispatcher(self, *, is_kept: bool) -> Any:
        return _compiling(self.py_func.__name__).dispatcher(
            self.py_func,
            is_kept=is_kept,
            is_inlined=self.is_inlined,
            in_any_order=self._in_any_order,
        )


class Kernel(Inlined):
    """A function of arrays that runs compiled, with the GIL released unless they are small."""

    is_inlined = False

    def __init__(self, function: Callable[..., Any], weighed: tuple[str, ...] = ()) -> None:
        super().__init__(function)
        self._weighed = weighed
        module = function.__module__.rpartition(".")
        self.name = f"{module[2]}.{function.__name__}" if module[0] == __package__ else None
        self.variants: tuple[Callable[..., Any], ...] | None = None  # each for certain types

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run what is compiled for the types of the arguments."""
        if named:
            code = self.py_func.__code__
            count = code.co_argcount + code.co_kwonlyargcount
            wanted = code.co_varnames[len(arguments) : count]
            arguments += tuple(map(named.__getitem__, wanted))
        for variant in self.variants or ():
            found = variant(*arguments)
            if found is not NotImplemented:
                return found
        return self._otherwise(arguments)

    def _otherwise(self, arguments: tuple[Any, ...]) -> Any:
        """Load what is kept; or compile, for types that were not seen before.

        Nothing is compiled for arrays of subclasses, or that were pickled, are not aligned, have
        gaps or their axes in another order: a kernel gets plain ones, and what it wrote is copied
        back.
        """
        if self.variants is None:
            self.variants = () if self.name is None else tuple(kept.find(self.name))
            return self(*arguments)
        replaced: list[_Replaced] = []
        names = self.py_func.__code__.co_varnames  # and then those of what is not an argument
        given = [_plain(name, of, replaced) for name, of in zip(names, arguments, strict=False)]
        if replaced:
            found = self(*given)
            entry = BY_NAME.get(str(self.name))
            for name, array, instead in replaced:
                if entry is None or entry.is_written(name):
                    array[...] = instead
            return found
        compiling = _compiling(self.name)
        made = compiling.kept_kernel(self.compiled_to_keep, self.name, arguments, self._weighed)
        for variant in made:
            found = variant(*arguments)
            if found is not NotImplemented:
                self.variants = (variant, *self.variants)
                return found
        found = self.compiled(*arguments)
        if self.compiled not in self.variants:  # for types that cannot be kept
            self.variants = (*self.variants, self.compiled)
        return found


class _Replaced(NamedTuple):
    """An argument, or a field of one, and the plain array that a kernel gets in its place."""

    name: str
    array: NDArray[Any]
    instead: NDArray[Any]


def _plain(name: str, of: Any, replaced: list[_Replaced]) -> Any:
    """Return an argument with arrays as kernels take them, and note which are not as they came."""
    if isinstance(of, np.ndarray):
        dtype = np.dtype(of.dtype.type)  # an array that was pickled has a copy of it
        is_plain = type(of) is np.ndarray and of.flags.c_contiguous and of.flags.aligned
        if (is_plain and of.dtype is dtype) or of.dtype != dtype:
            return of
        plain = np.require(np.asarray(of), requirements=("C", "A")).view(dtype)
        if plain.flags.writeable != of.flags.writeable:  # a copy
            plain.flags.writeable = False
        replaced.append(_Replaced(name, of, plain))
        return plain
    if isinstance(of, tuple):
        fields = getattr(of, "_fields", map(str, range(len(of))))
        parts = [
            _plain(f"{name}.{field}", part, replaced)
            for field, part in zip(fields, of, strict=True)
        ]
        return type(of)(*parts) if hasattr(of, "_fields") else tuple(parts)
    return of


def _compiling(name: str | None) -> ModuleType:
    """Import what compiles a kernel; MissingExtraError where numba is not installed."""
    missing = f"the kernel {name!r} is not compiled for this Python, processor or types of arrays"
    with of_extra("compile", f"{missing}, which needs"):
        from simdb.kernels import compiling
    return compiling


class Instruction:
    """An instruction that kernels may use, and nobody else."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _numba_type_(self) -> Any:
        from simdb.kernels import compiling, target

        return compiling.type_of_instruction(self._name, is_kept=target.is_current())


def kernel(function: Function) -> Function:
    """Compile a function of arrays, on first call or before, releasing the GIL while it runs."""
    return function if IS_INTERPRETED else cast("Function", Kernel(function))


def kernel_of(*weighed: str) -> Callable[[Function], Function]:
    """Compile a function that reads memory by addresses, as much as the arguments so named tell.

    It keeps the GIL if these are small. What lies at the addresses must be in memory: have been
    read by this process.
    """

    def made(function: Function) -> Function:
        return function if IS_INTERPRETED else cast("Function", Kernel(function, weighed))

    return made


def inlined(function: Function) -> Function:
    """Compile a small function into every kernel that calls it."""
    return function if IS_INTERPRETED else cast("Function", Inlined(function))


def in_any_order(function: Function) -> Function:
    """Compile a small function into its callers; its sums are added in any order, so about right.

    For numbers that are finite, and where a bound of the rounding errors decides what they mean.
    """
    made = function if IS_INTERPRETED else Inlined(function, in_any_order=True)
    return cast("Function", made)


def _instruction(function: Function) -> Function:
    """Let kernels have, compiled, the instruction that a function of Python stands for."""
    return function if IS_INTERPRETED else cast("Function", Instruction(function.__name__))


@_instruction
def set_bit_count(word: np.uint64) -> np.int64:
    """Count the bits of a word that are set."""
    return np.int64(int(word).bit_count())


@_instruction
def high_product(left: np.uint64, right: np.uint64) -> np.uint64:
    """Compute the high 64 bits of the 128-bit product."""
    return np.uint64((int(left) * int(right)) >> 64)


@_instruction
def load_uint64(address: int, position: int) -> int:
    """Read a uint64."""
    return ctypes.c_uint64.from_address(int(address) + 8 * int(position)).value


@_instruction
def load_uint32(address: int, position: int) -> int:
    """Read a uint32."""
    return ctypes.c_uint32.from_address(int(address) + 4 * int(position)).value


@_instruction
def load_uint8(address: int, position: int) -> int:
    """Read a byte."""
    return ctypes.c_uint8.from_address(int(address) + int(position)).value


@_instruction
def words_at(address: int, count: int, width: int) -> UInt64s:
    """Take what lies at an address for rows of uint64, which keep nothing in memory."""
    memory = (ctypes.c_uint64 * int(count * width)).from_address(int(address))
    return np.ndarray((int(count), int(width)), np.uint64, memory)


@_instruction
def singles_at(address: int, count: int, width: int) -> Float32s:
    """Take what lies at an address for rows of float32, which keep nothing in memory."""
    memory = (ctypes.c_float * int(count * width)).from_address(int(address))
    return np.ndarray((int(count), int(width)), np.float32, memory)


@_instruction
def copy_bytes(target: int, source: int, size: int) -> None:
    """Copy bytes that do not overlap, from one address to another."""
    ctypes.memmove(int(target), int(source), int(size))


@_instruction
def fetch_ahead(address: int) -> None:
    """Begin to bring what lies at an address into the processor's cache; nothing waits for it."""


@_instruction
def add_stripe(sums: int, data: int, secret: int) -> None:
    """Add eight words of data to eight sums, all by their addresses (XXH3)."""
    eight = ctypes.c_uint64 * 8
    totals = eight.from_address(int(sums))
    words, keys = eight.from_address(int(data)), eight.from_address(int(secret))
    for lane, (word, key) in enumerate(zip(words, keys, strict=True)):
        totals[lane ^ 1] = (totals[lane ^ 1] + word) % 2**64
        low, high = (word ^ key) & 0xFFFFFFFF, (word ^ key) >> 32
        totals[lane] = (totals[lane] + low * high) % 2**64

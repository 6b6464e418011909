"""How kernels are compiled by numba, and what their instructions are.

Imported when a kernel must be compiled, by ``compiler.py`` alone.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numba
from llvmlite import ir
from numba import types
from numba.core import serialize
from numba.core.caching import FunctionCache
from numba.core.cgutils import raw_memcpy
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.target_extension import target_override
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from simdb import starting
from simdb.extras import is_of_handler
from simdb.kernels import kept, target
from simdb.kernels.machine import NotPossibleError, library_of, parts_of
from simdb.kernels.register import BY_NAME, Entry

Function: TypeAlias = Callable[..., Any]

# What a kernel that returns arrays calls last, at every call, for their type. As a function of
# Python it is the first place after a long kernel where Ctrl-C is raised, which numba does not
# expect there and makes a SystemError of. What is remembered is found without running Python, so
# that the KeyboardInterrupt comes after the kernel, where it belongs; and sooner.
if hasattr(serialize, "_numba_unpickle"):
    serialize._numba_unpickle = cache(serialize._numba_unpickle)


class _Cache(FunctionCache):
    """Compiled kernels kept on the disk as numba does it, where it is done no other way.

    Without it every process works too, but for seconds. numba raises whatever meets it there, in
    every process for ever: a full disk, or files that one, or a power failure, has cut short.
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

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled kernel."""
        try:
            super().save_overload(signature, compiled)
        except OSError as error:
            self._do_without(error)

    def _do_without(self, error: OSError) -> None:
        if is_of_handler(error):
            raise error
        self.disable()
        kept.tell_not_kept(Path(self.cache_path), error.strerror or str(error))


def kept_kernel(
    kernel: Any, name: str | None, arguments: tuple[Any, ...], weighed: tuple[str, ...]
) -> list[Function]:
    """Compile a kernel for the types of its arguments, keep it under its name, and load it.

    Arguments that are ``weighed`` tell whether it has little to do; see ``library_of``.
    Nothing where that is not possible: it is no kernel that is kept, or these are no types that can
    be told without numba, or nothing is kept on this machine.
    """
    entry = None if name is None else BY_NAME.get(name)
    if entry is None or kept.fingerprint() is None:
        return []
    while starting.before_compiling:
        starting.before_compiling.pop()()
    names = kernel.py_func.__code__.co_varnames  # and then those of what is not an argument
    taken = tuple(
        _as_used(argument, kernel.typeof_pyval(one), entry)
        for argument, one in zip(names, arguments, strict=False)
    )
    try:
        with global_compiler_lock, target_override(target.NAME):
            kernel.compile(taken)
            library, named = library_of(kernel.overloads[taken], weighed)
    except (numba.errors.NumbaError, NotPossibleError):
        return []
    return kept.keep(entry.name, repr(taken), library, named)


def _as_used(name: str, of: Any, entry: Entry) -> Any:
    """The type of an argument, or a field of one, whose arrays are read only unless written."""
    if entry.is_written(name):
        return of
    if isinstance(of, types.Array):
        return of.copy(readonly=True)
    if isinstance(of, types.BaseTuple):
        fields = getattr(of, "fields", map(str, range(len(of))))
        named = zip(fields, parts_of(of), strict=True)
        parts = tuple(_as_used(f"{name}.{field}", part, entry) for field, part in named)
        return types.BaseTuple.from_types(parts, getattr(of, "instance_class", None))
    return of


def dispatcher(function: Function, *, is_kept: bool, is_inlined: bool, in_any_order: bool) -> Any:
    """Make what numba compiles of a function, for the types that it is called with.

    As part of what is kept it is compiled for a target of its own. What is inlined is compiled into
    its callers; Python calls none of these.
    """
    options: dict[str, Any] = {"_target": target.NAME} if is_kept else {}
    if not is_inlined:
        options["nogil"] = True
    else:
        options |= {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if in_any_order:
        options["fastmath"] = {"reassoc", "contract", "nnan", "nsz"}
    made: Any = numba.njit(**options)(function)
    if not (is_kept or is_inlined):
        try:
            made._cache = _Cache(function)
        except RuntimeError as error:  # no folder that may be written to
            kept.tell_not_kept(Path(function.__code__.co_filename).parent, str(error))
    return made


@cache
def type_of_instruction(name: str, *, is_kept: bool) -> Any:
    """Tell numba's type of an instruction."""
    context = (target.descriptor if is_kept else cpu_target).typing_context
    return context.resolve_value_type(globals()[name])


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


def _taker(element: Any) -> Any:
    """Make an intrinsic that takes what lies at ``address`` for rows that nobody writes to."""

    @intrinsic
    def take(_context: Any, address: Any, count: Any, width: Any) -> Any:
        of = types.Array(element, 2, "C", readonly=True)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            begin, *shape = arguments
            size = context.get_abi_sizeof(context.get_data_type(element))
            itemsize = context.get_constant(types.intp, size)
            array = context.make_array(of)(context, builder)
            populate_array(
                array,
                data=builder.inttoptr(begin, array.data.type),
                shape=shape,
                strides=[builder.mul(shape[1], itemsize), itemsize],
                itemsize=itemsize,
                meminfo=None,
            )
            return array._getvalue()

        return of(types.int64, types.int64, types.int64), generate

    return take


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
        target, source = (builder.inttoptr(address, byte.as_pointer()) for address in arguments[:2])
        raw_memcpy(builder, target, source, arguments[2], 1)
        return _context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


@intrinsic
def fetch_ahead(_typing: object, _address: object) -> tuple[object, object]:
    """Begin to bring what lies at an address into the processor's cache."""

    def generate(
        _context: Any, builder: ir.IRBuilder, _signature: object, arguments: list[ir.Value]
    ) -> ir.Value:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        for_reading, of_all_caches, of_data = word(0), word(3), word(1)
        place = builder.inttoptr(arguments[0], byte)
        builder.call(function, [place, for_reading, of_all_caches, of_data])
        return _context.get_dummy_value()

    return types.none(types.int64), generate


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
load_uint8 = _loader(types.uint8)
words_at = _taker(types.uint64)
singles_at = _taker(types.float32)

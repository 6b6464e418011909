"""The machine code of a kernel as a function that Python calls without numba.

numba compiles a kernel to a function of machine words, and a wrapper around it that needs numba at
run time. Here the same code gets a wrapper that needs nothing but Python: it looks at its arguments
as numba does (a kernel's code is for certain types), lets the GIL go unless they are small, calls,
and makes arrays of what comes out. What is an ``ndarray`` of which type it tells by the addresses
of ``CONTEXT``, which ``kept.py`` fills in when it loads the code. Fields of objects are read where
NumPy's interface of C has them; a ``probe`` of each library is called on a known array before the
code is believed.
"""

# mypy: allow-untyped-calls, allow-untyped-defs

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.np.arrayobj import make_array, populate_array

from simdb.kernels import kept, target
from simdb.kernels.kept import CALL, CONTEXT
from simdb.kernels.shared import NotLinkableError, shared_object

_WORD, _INT, _BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_OBJECT = _BYTE.as_pointer()
_ALIGNMENT = 16  # where none is asked for, as of malloc
# Bytes of all arguments below which the GIL is kept. Handing it to a thread that waits, and waiting
# for it then, takes longer than most kernels take with so little. One that takes addresses lets it
# go always, since what lies there may be large, or have to be read from disk, unless it says which
# arguments tell how much it reads of what is in memory (``kernel_of``).
_SMALL = 32_768
_FEW = 4_096  # bytes of such arguments: 512 keys, which are looked up in some 0.1 ms
_HEADER = 64  # bytes before the data that a kernel has allocated: five words, and alignment


# What code may call: of C and its mathematics, as it is linked into Python; and of Python.
_OF_C = {"malloc", "free", "memcpy", "memmove", "memset", "memcmp", "bcmp"}
_MATHEMATICS = {"atan2", "cos", "exp", "exp2", "log", "log10", "log2", "pow", "sin", "sincos"}


class NotPossibleError(Exception):
    """A kernel that cannot be kept: it takes or gives what the wrapper knows nothing of."""


def library_of(compiled: Any, weighed: tuple[str, ...] = ()) -> tuple[bytes, list[str]]:
    """Return what numba has compiled for ``target`` as a shared library, and what it must be told.

    These are the names of scalar types of NumPy, or of named tuples by ``module:name``, in the
    order of their places in the context. All that a kernel calls is in its library, so it is
    optimised once, as a whole: first what numba does to count fewer users of arrays, then LLVM.
    Arguments that are ``weighed`` alone say whether it has little to do; without any, all do.
    """
    wrapper = _Wrapper(compiled.fndesc, weighed)
    codegen = compiled.library.codegen
    compiled.library._ensure_finalized()
    module = compiled.library.get_function(compiled.fndesc.llvm_func_name).module.clone()
    module.link_in(binding.parse_assembly(cgutils.normalize_ir_text(str(wrapper.module))))
    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name not in {CALL, CONTEXT}:
            value.linkage = binding.Linkage.internal
    for options in ({"opt": 0, "loop_vectorize": False, "cost": "cheap"}, {}):
        passes, builder = codegen._module_pass_manager(**options)
        passes.run(module, builder)
    module.verify()
    built = _target_machine(codegen).emit_object(module)
    try:
        return shared_object(built, {CALL, CONTEXT}, _may_be_outside), wrapper.named
    except NotLinkableError as error:
        raise NotPossibleError(str(error)) from error


def _may_be_outside(name: str) -> bool:
    return name.startswith("Py") or name in _OF_C | _MATHEMATICS


def parts_of(of: Any) -> list[Any]:
    """Return the types of the parts of a tuple."""
    return [*of]


def _name_of(of: Any) -> str:
    """Return the name of the class of a tuple."""
    if isinstance(of, types.BaseNamedTuple):
        return f"{of.instance_class.__module__}:{of.instance_class.__qualname__}"
    return "builtins:tuple"


def _target_machine(codegen: Any) -> Any:
    triple = binding.get_process_triple()
    return binding.Target.from_triple(triple).create_target_machine(
        cpu=codegen._get_host_cpu_name(),
        features=codegen._tm_features,
        opt=3,
        reloc="pic",
        codemodel="default",
    )


class _Wrapper:
    """Builds the module that has the wrapper of one compiled kernel."""

    def __init__(self, described: Any, weighed: tuple[str, ...]) -> None:
        self._context = target.descriptor.target_context
        self.named: list[str] = []
        self.module = ir.Module("wrapper")
        self.module.triple = binding.get_process_triple()
        addresses = ir.ArrayType(_OBJECT, kept.CONTEXT_SIZE)
        self._known = ir.GlobalVariable(self.module, addresses, CONTEXT)
        self._known.initializer = ir.Constant(self._known.value_type, None)
        self._add_memory()
        kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _WORD])
        call = ir.Function(self.module, kind, CALL)
        _, arguments, count = call.args
        self._call = call
        self._builder = builder = ir.IRBuilder(call.append_basic_block("entry"))
        self._others = call.append_basic_block("others")
        self._size: Any = _WORD(0)  # bytes of the arrays that are taken
        with builder.goto_block(self._others):
            found = self._from_context(kept.NOT_THESE)
            self._count_up(found)
            builder.ret(found)
        self._require(builder.icmp_signed("==", count, _WORD(len(described.argtypes))))
        values = []
        for place, (name, of) in enumerate(zip(described.args, described.argtypes, strict=True)):
            before = self._size
            given = builder.load(builder.gep(arguments, [_WORD(place)]))
            values.append(self._taken(given, of))
            if weighed and name not in weighed:
                self._size = before
        function = self._context.declare_function(self.module, described)
        saved_at = cgutils.alloca_once_value(builder, _OBJECT(None))
        takes_addresses = not weighed and any("address" in name for name in described.args)
        least = 0 if takes_addresses else _FEW if weighed else _SMALL
        is_small = builder.icmp_unsigned("<", self._size, _WORD(least))
        with builder.if_then(builder.not_(is_small)):
            saved = builder.call(self._python("PyEval_SaveThread", _OBJECT, []), [])
            builder.store(saved, saved_at)
        status, result = self._context.call_conv.call_function(
            builder, function, described.restype, described.argtypes, values
        )
        restore = self._python("PyEval_RestoreThread", ir.VoidType(), [_OBJECT])
        with builder.if_then(builder.not_(is_small)):
            builder.call(restore, [builder.load(saved_at)])
        with builder.if_then(status.is_error, likely=False):
            # Kernels raise nothing themselves: what fails is taking memory.
            builder.ret(builder.call(self._python("PyErr_NoMemory", _OBJECT, []), []))
        builder.ret(self._given(result, described.restype))

    # -- what is called ----------------------------------------------------------------------

    def _python(self, name: str, returned: Any, taken: list[Any]) -> Any:
        kind = ir.FunctionType(returned, taken)
        function = cgutils.get_or_insert_function(self.module, kind, name)
        function.attributes.add("nonlazybind")
        return function

    def _add_memory(self) -> None:
        """Define how a kernel takes memory for arrays, and gives it back.

        What counts its users is as numba's runtime has it: their number, what ends it and its
        argument, the data, the size.
        """
        words = ir.LiteralStructType([_WORD, _OBJECT, _OBJECT, _OBJECT, _WORD])
        take = self._python("malloc", _OBJECT, [_WORD])
        aligned, unaligned = [_WORD, _INT], [_WORD]
        for name, taken in (
            *(("NRT_MemInfo_alloc_safe_aligned", aligned), ("NRT_MemInfo_alloc_aligned", aligned)),
            *(("NRT_MemInfo_alloc_safe", unaligned), ("NRT_MemInfo_alloc", unaligned)),
        ):
            function = ir.Function(self.module, ir.FunctionType(_OBJECT, taken), name)
            function.linkage = "linkonce_odr"
            size, *alignment = function.args
            builder = ir.IRBuilder(function.append_basic_block())
            align = builder.zext(alignment[0], _WORD) if alignment else _WORD(_ALIGNMENT)
            whole = builder.add(size, builder.add(align, _WORD(_HEADER)))
            small = builder.icmp_unsigned("<", size, _WORD(2**62))
            made = builder.call(take, [builder.select(small, whole, _WORD(2**62))])
            with builder.if_then(builder.icmp_unsigned("==", made, _OBJECT(None))):
                builder.ret(_OBJECT(None))
            start = builder.add(builder.ptrtoint(made, _WORD), _WORD(_HEADER))
            up = builder.add(start, builder.sub(align, _WORD(1)))
            data = builder.and_(up, builder.sub(_WORD(0), align))
            place = builder.bitcast(made, words.as_pointer())
            fields = (_WORD(1), _OBJECT(None), _OBJECT(None), builder.inttoptr(data, _OBJECT), size)
            for position, field in enumerate(fields):
                builder.store(field, cgutils.gep(builder, place, 0, position))
            builder.ret(made)
        kind = ir.FunctionType(_OBJECT, [_WORD])
        function = ir.Function(self.module, kind, "NRT_Allocate")
        function.linkage = "linkonce_odr"
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(builder.call(take, function.args))
        give_back = self._python("free", ir.VoidType(), [_OBJECT])
        kind = ir.FunctionType(ir.VoidType(), [_OBJECT])
        for name in ("NRT_MemInfo_call_dtor", "NRT_Free"):
            function = ir.Function(self.module, kind, name)
            function.linkage = "linkonce_odr"
            builder = ir.IRBuilder(function.append_basic_block())
            builder.call(give_back, function.args)
            builder.ret_void()

    def _released(self) -> Any:
        """Return the function that a capsule of memory calls at its end."""
        name = "simdb_release"
        if name in self.module.globals:
            return self.module.globals[name]
        kind = ir.FunctionType(ir.VoidType(), [_OBJECT])
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        builder = ir.IRBuilder(function.append_basic_block())
        pointer = self._python("PyCapsule_GetPointer", _OBJECT, [_OBJECT, _OBJECT])
        memory = builder.call(pointer, [function.args[0], _OBJECT(None)])
        users = builder.bitcast(memory, _WORD.as_pointer())
        left = builder.sub(builder.load(users), _WORD(1))  # with the GIL: nobody else counts
        builder.store(left, users)
        with builder.if_then(builder.icmp_unsigned("==", left, _WORD(0))):
            builder.call(self._python("free", ir.VoidType(), [_OBJECT]), [memory])
        builder.ret_void()
        return function

    # -- arguments ---------------------------------------------------------------------------

    def _require(self, condition: Any) -> None:
        """Go on where it holds; else these are not the types that the code is for."""
        after = self._call.append_basic_block()
        self._builder.cbranch(condition, after, self._others)
        self._builder.position_at_end(after)

    def _field(self, of: Any, offset: int, kind: Any) -> Any:
        place = self._builder.gep(of, [_WORD(offset)])
        return self._builder.load(self._builder.bitcast(place, kind.as_pointer()))

    def _from_context(self, place: int) -> Any:
        return self._builder.load(cgutils.gep(self._builder, self._known, 0, place))

    def _named(self, name: str) -> Any:
        if name not in self.named:
            self.named.append(name)
        return self._from_context(kept.FIRST_TYPE + self.named.index(name))

    def _count_up(self, found: Any) -> None:
        self._builder.call(self._python("Py_IncRef", ir.VoidType(), [_OBJECT]), [found])

    def _is(self, one: Any, other: Any) -> Any:
        return self._builder.icmp_unsigned("==", one, other)

    def _taken(self, given: Any, of: Any) -> Any:
        """Make a value of numba's of an object of Python's."""
        if isinstance(of, types.Array):
            return self._array(given, of)
        if isinstance(of, types.BaseTuple):
            kind = self._named(_name_of(of))
            self._require(self._is(self._field(given, kept.TYPE, _OBJECT), kind))
            size = self._field(given, kept.TUPLE_SIZE, _WORD)
            self._require(self._builder.icmp_signed("==", size, _WORD(len(of))))
            item = self._python("PyTuple_GetItem", _OBJECT, [_OBJECT, _WORD])
            parts = [
                self._taken(self._builder.call(item, [given, _WORD(place)]), part)
                for place, part in enumerate(parts_of(of))
            ]
            return self._context.make_tuple(self._builder, of, parts)
        if isinstance(of, types.Boolean):
            return self._boolean(given)
        if isinstance(of, types.Integer | types.Float):
            return self._number(given, of)
        raise NotPossibleError(str(of))

    def _array(self, given: Any, of: Any) -> Any:
        builder = self._builder
        self._require(
            self._is(self._field(given, kept.TYPE, _OBJECT), self._from_context(kept.ARRAY))
        )
        dtype = self._named(f"numpy.dtype:{of.dtype}")
        self._require(self._is(self._field(given, kept.DTYPE, _OBJECT), dtype))
        count = self._field(given, kept.DIMENSION_COUNT, _INT)
        self._require(builder.icmp_signed("==", count, _INT(of.ndim)))
        # As numba tells a type from flags.
        wanted = {"C": kept.C_ORDER, "F": kept.FORTRAN_ORDER, "A": 0}[of.layout]
        looked_at = kept.C_ORDER if of.layout == "C" else kept.C_ORDER | kept.FORTRAN_ORDER
        wanted |= (kept.WRITEABLE if of.mutable else 0) | (kept.ALIGNED if of.aligned else 0)
        looked_at |= wanted | kept.ALIGNED  # what is only read may be writeable
        flags = builder.and_(self._field(given, kept.FLAGS, _INT), _INT(looked_at))
        self._require(builder.icmp_signed("==", flags, _INT(wanted)))
        array = make_array(of)(self._context, builder)
        kind = self._context.get_data_type(of.dtype)
        shape, strides = (
            [self._field(self._field(given, where, _OBJECT), 8 * i, _WORD) for i in range(of.ndim)]
            for where in (kept.DIMENSIONS, kept.STRIDES)
        )
        size = self._context.get_abi_sizeof(kind)
        bytes_of = _WORD(size)
        for elements in shape:
            bytes_of = builder.mul(bytes_of, elements)
        self._size = builder.add(self._size, bytes_of)
        populate_array(
            array,
            data=builder.bitcast(self._field(given, kept.DATA, _OBJECT), kind.as_pointer()),
            shape=shape,
            strides=strides,
            itemsize=_WORD(size),
            meminfo=None,  # the memory is Python's; that of a view that is returned, too
            parent=given,
        )
        return array._getvalue()

    def _boolean(self, given: Any) -> Any:
        is_true = self._is(given, self._named("builtins:True"))
        is_false = self._is(given, self._named("builtins:False"))
        is_true_too = self._is(given, self._named("numpy:True_"))
        is_false_too = self._is(given, self._named("numpy:False_"))
        builder = self._builder
        known = builder.or_(builder.or_(is_true, is_false), builder.or_(is_true_too, is_false_too))
        self._require(known)
        return builder.zext(
            builder.or_(is_true, is_true_too), self._context.get_value_type(types.boolean)
        )

    def _number(self, given: Any, of: Any) -> Any:
        """Read a number of Python, or of NumPy, of exactly the type."""
        builder = self._builder
        kind = self._context.get_value_type(of)
        python = {"int64": "builtins:int", "float64": "builtins:float"}.get(str(of))
        read = self._call.append_basic_block()
        done = self._call.append_basic_block()
        type_of = self._field(given, kept.TYPE, _OBJECT)
        found: list[tuple[Any, Any]] = []
        if python is not None:
            of_python = self._call.append_basic_block()
            builder.cbranch(self._is(type_of, self._named(python)), of_python, read)
            builder.position_at_end(of_python)
            if python == "builtins:int":
                overflow = cgutils.alloca_once(builder, _INT)
                read_long = self._python(
                    "PyLong_AsLongLongAndOverflow", _WORD, [_OBJECT, _INT.as_pointer()]
                )
                value = builder.call(read_long, [given, overflow])
                self._require(builder.icmp_signed("==", builder.load(overflow), _INT(0)))
            else:
                value = self._field(given, kept.VALUE, kind)
            found.append((value, builder.block))
            builder.branch(done)
        else:
            builder.branch(read)
        builder.position_at_end(read)
        self._require(self._is(type_of, self._named(f"numpy:{of}")))
        found.append((self._field(given, kept.VALUE, kind), builder.block))
        builder.branch(done)
        builder.position_at_end(done)
        value = builder.phi(kind)
        for one, block in found:
            value.add_incoming(one, block)
        return value

    # -- results -----------------------------------------------------------------------------

    def _given(self, value: Any, of: Any) -> Any:  # noqa: PLR0911 - one for each type
        """Make an object of Python's of a value of numba's."""
        builder = self._builder
        if isinstance(of, types.NoneType):
            found = self._named("builtins:None")
            self._count_up(found)
            return found
        if isinstance(of, types.Boolean):
            found = builder.select(
                builder.icmp_unsigned("!=", value, value.type(0)),
                self._named("builtins:True"),
                self._named("builtins:False"),
            )
            self._count_up(found)
            return found
        if isinstance(of, types.Integer):
            widen = builder.sext if of.signed else builder.zext
            wide = value if of.bitwidth == 64 else widen(value, _WORD)
            name = "PyLong_FromLongLong" if of.signed else "PyLong_FromUnsignedLongLong"
            return builder.call(self._python(name, _OBJECT, [_WORD]), [wide])
        if isinstance(of, types.Float) and of.bitwidth == 64:
            kind = ir.DoubleType()
            return builder.call(self._python("PyFloat_FromDouble", _OBJECT, [kind]), [value])
        if isinstance(of, types.Array):
            return self._given_array(value, of)
        if isinstance(of, types.BaseTuple):
            whole = builder.call(self._python("PyTuple_New", _OBJECT, [_WORD]), [_WORD(len(of))])
            put = self._python("PyTuple_SetItem", _INT, [_OBJECT, _WORD, _OBJECT])
            for place, part in enumerate(parts_of(of)):
                made = self._given(builder.extract_value(value, place), part)
                builder.call(put, [whole, _WORD(place), made])
            if not isinstance(of, types.BaseNamedTuple):
                return whole
            make = self._python("PyObject_CallObject", _OBJECT, [_OBJECT, _OBJECT])
            named = builder.call(make, [self._named(_name_of(of)), whole])
            builder.call(self._python("Py_DecRef", ir.VoidType(), [_OBJECT]), [whole])
            return named
        raise NotPossibleError(str(of))

    def _given_array(self, value: Any, of: Any) -> Any:
        builder = self._builder
        array = make_array(of)(self._context, builder, value)
        dtype = self._named(f"numpy.dtype:{of.dtype}")
        self._count_up(dtype)
        words = _WORD.as_pointer()
        places = []
        for field in (array.shape, array.strides):
            place = cgutils.alloca_once_value(builder, field)
            places.append(builder.bitcast(place, words))
        # Of PyArray_NewFromDescr: type, elements, axes, shape, strides, data, flags, no object.
        taken = [_OBJECT, _OBJECT, _INT, words, words, _OBJECT, _INT, _OBJECT]
        kind = ir.FunctionType(_OBJECT, taken).as_pointer()
        new = builder.bitcast(self._from_context(kept.NEW_ARRAY), kind)
        data = builder.bitcast(array.data, _OBJECT)
        made = builder.call(
            new,
            [
                *(self._from_context(kept.ARRAY), dtype, _INT(of.ndim), *places),
                *(data, _INT(kept.WRITEABLE | kept.ALIGNED), _OBJECT(None)),
            ],
        )
        capsule = self._python("PyCapsule_New", _OBJECT, [_OBJECT] * 3)
        released = builder.bitcast(self._released(), _OBJECT)
        memory = builder.bitcast(array.meminfo, _OBJECT)
        owner_at = cgutils.alloca_once_value(builder, builder.bitcast(array.parent, _OBJECT))
        with builder.if_else(self._is(memory, _OBJECT(None))) as (of_argument, taken_here):
            with of_argument:
                self._count_up(builder.load(owner_at))
            with taken_here:
                builder.store(builder.call(capsule, [memory, _OBJECT(None), released]), owner_at)
        owner = builder.load(owner_at)
        failed = builder.or_(self._is(made, _OBJECT(None)), self._is(owner, _OBJECT(None)))
        with builder.if_then(failed, likely=False):
            builder.ret(_OBJECT(None))
        kind = ir.FunctionType(_INT, [_OBJECT, _OBJECT]).as_pointer()
        builder.call(builder.bitcast(self._from_context(kept.SET_BASE), kind), [made, owner])
        return made

"""Compiled kernels on the disk: shared libraries, one for a kernel and the types it is called with.

numba compiles a kernel once, which takes a second; its import alone takes longer than all that a
small call does. So the machine code is kept (``machine.py``) in a form that needs neither numba nor
LLVM, and loaded when the kernel is first called: by every Python, on every processor with the
features of ``LEVEL``. A wheel brings what is compiled with it. The name of a file says for which
processors and sources it is; what follows the library in it says which types it must be told, and
is the checksum of all, so that what one, or a power failure, has cut short is not run. Where
anything is odd nothing is kept or loaded, and numba does it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from simdb.extras import is_of_handler

CALL, CONTEXT = "simdb_call", "simdb_context"
# Places in the context: addresses that are known when the code is loaded.
NOT_THESE, ARRAY, NEW_ARRAY, SET_BASE, FIRST_TYPE = range(5)
CONTEXT_SIZE = 64
# Where objects have their fields, in bytes: of CPython, and of NumPy since 1.7.
TYPE, VALUE, TUPLE_SIZE = 8, 16, 16
DATA, DIMENSION_COUNT, DIMENSIONS, STRIDES, DTYPE, FLAGS = 16, 24, 32, 40, 56, 64
C_ORDER, FORTRAN_ORDER, ALIGNED, WRITEABLE = 0x1, 0x2, 0x100, 0x400

# The third level of the psABI of x86-64: what processors have since 2013, but for the smallest.
LEVEL = "x86-64-v3"
_FEATURES_OF_LEVEL = {  # as Linux names them; those that they imply are left out
    *("abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "lahf_lm", "movbe", "popcnt"),
    *("sse4_1", "sse4_2", "ssse3", "xsave"),
}

_SOURCES = Path(__file__).parent
_BROUGHT = _SOURCES / "compiled"  # the folder of what a wheel brings
_TAIL = struct.Struct("<QQ")  # bytes of the description, and the checksum of all before it
_NEW_FROM_DTYPE, _SET_BASE_OBJECT = 94, 282  # in NumPy's table of functions
_FASTCALL = 0x80  # METH_FASTCALL
_CPU_INFO = Path("/proc/cpuinfo")
# What numba and LLVM go by, beside what the processor says of itself.
_CHOICES = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT")

Loaded = Callable[..., Any]
_loaded: list[object] = []  # what must live as long as the process


class _PassedOver(suppress):
    """Passes over errors of the system, but not over what the handler of a signal raises."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        return not is_of_handler(error) and super().__exit__(kind, error, traceback)


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        *(("name", ctypes.c_char_p), ("function", ctypes.c_void_p)),
        *(("flags", ctypes.c_int), ("text", ctypes.c_char_p)),
    )


@cache
def fingerprint() -> str | None:
    """Name the processors and the sources that what is compiled here is for, joined by a dash.

    None, and nothing is kept, where objects lie in memory otherwise than kept code reads them, or
    the machine is not known.
    """
    is_known = (
        *(sys.platform == "linux", platform.machine() == "x86_64"),
        *(sys.implementation.name == "cpython", "t" not in sys.abiflags),
        not hasattr(sys, "gettotalrefcount"),
    )
    if not all(is_known) or not _lies_as_expected():
        return None
    target = processors()
    with _PassedOver(OSError):
        sources = [path.read_bytes() for path in sorted(_SOURCES.glob("*.py"))]
        return None if target is None else f"{target}-{_name(sources)}"
    return None


@cache
def processors() -> str | None:
    """Name those that kernels are compiled for here: ``LEVEL``, or such as this one.

    None if that is not known. What is chosen for numba counts only where there is numba.
    """
    told: list[bytes] = []
    with _PassedOver(OSError), _CPU_INFO.open("rb") as file:
        told = file.read(8192).split(b"\n\n")[0].split(b"\n")
    if not told:
        return None
    features = [line for line in told if line.startswith((b"model name", b"flags"))]
    choices = [os.environ.get(name, "").encode() for name in _CHOICES]
    has = {word for line in features for word in line.decode(errors="replace").split()}
    is_chosen = any(choices) and find_spec("numba") is not None
    return LEVEL if has >= _FEATURES_OF_LEVEL and not is_chosen else _name(features + choices)


def _name(parts: list[bytes]) -> str:
    return xxhash.xxh3_64_hexdigest(b"\0".join(parts))


def _lies_as_expected() -> bool:
    """Whether arrays, numbers and tuples have their fields where kept code reads them."""
    array = np.arange(6, dtype=np.uint16).reshape(2, 3)
    whole, real, pair = np.uint64(2**63 + 5), 1.5, (array, None)  # kept while they are looked at
    at = id(array)
    words, numbers = ctypes.c_uint64.from_address, ctypes.c_int32.from_address
    shape, strides = (words(at + place).value for place in (DIMENSIONS, STRIDES))
    return (
        (words(at + TYPE).value, words(at + DATA).value) == (id(np.ndarray), array.ctypes.data)
        and (numbers(at + DIMENSION_COUNT).value, words(at + DTYPE).value) == (2, id(array.dtype))
        and (words(shape).value, words(shape + 8).value) == (2, 3)
        and (words(strides).value, words(strides + 8).value) == (6, 2)
        and numbers(at + FLAGS).value & 0x503 == C_ORDER | ALIGNED | WRITEABLE
        and words(id(whole) + VALUE).value == whole
        and ctypes.c_double.from_address(id(real) + VALUE).value == real
        and words(id(pair) + TUPLE_SIZE).value == len(pair)
    )


def _folders() -> Iterator[Path]:
    """Yield where libraries are kept, the first that can be written to first."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen) / "simdb"
        return
    yield _SOURCES / "__pycache__"
    with suppress(RuntimeError):  # no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "simdb"


@cache
def _present(folder: Path) -> list[str]:
    with _PassedOver(OSError):
        return sorted(file.name for file in folder.iterdir())
    return []


def find(name: str) -> list[Loaded]:
    """Load what is kept of a kernel: functions of the same arguments, NotImplemented for others."""
    mark = fingerprint()
    if mark is None:
        return []
    beginning = f"{name}-{mark}-"
    return [
        function
        for folder in (_BROUGHT, *_folders())
        for file in _present(folder)
        if file.startswith(beginning) and file.endswith(".so")
        for function in _load(folder / file)
    ]


def keep(name: str, types: str, library: bytes, named: list[str]) -> list[Loaded]:
    """Keep a kernel, and load it; for this process alone where it cannot be written, and say so.

    ``named`` are the types it must be told, by their places in the context. Those of the kernel
    that are of other sources, for the same processors, are removed.
    """
    mark = fingerprint()
    assert mark is not None
    described = json.dumps(named).encode()
    whole = library + described
    whole += _TAIL.pack(len(described), xxhash.xxh3_64_intdigest(whole))
    file = f"{name}-{mark}-{_name([types.encode()])}.so"
    failed: list[tuple[Path, OSError]] = []
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / file, whole)
        except OSError as error:
            if is_of_handler(error):
                raise
            failed.append((folder, error))
            continue
        _present.cache_clear()
        beginning, own = f"{name}-{mark.rpartition('-')[0]}-", f"{name}-{mark}-"
        for other in _present(folder):
            if other.startswith(beginning) and not other.startswith(own):
                with _PassedOver(OSError):
                    (folder / other).unlink()
        return _load(folder / file)
    for folder, met in failed:
        tell_not_kept(folder, met.strerror or str(met))
    return _loaded_from_memory(name, whole)


@cache
def tell_not_kept(folder: Path, why: str) -> None:
    """Warn, once, that what is compiled cannot be kept where it belongs."""
    warnings.warn(
        f"compiled kernels cannot be kept in {folder} ({why}), so each process compiles them in "
        "memory, which takes seconds; free space there, or name another folder by NUMBA_CACHE_DIR",
        RuntimeWarning,
        stacklevel=2,
    )


def _write(path: Path, whole: bytes) -> None:
    """Write a file that appears whole or not at all."""
    from tempfile import mkstemp  # slow to load

    number, unfinished = mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(whole)
            os.fchmod(number, 0o644)  # as others may read what lies beside it
        Path(unfinished).replace(path)
    except BaseException:
        with _PassedOver(OSError):
            Path(unfinished).unlink()
        raise


def _load(path: Path) -> list[Loaded]:
    """Load a library; nothing where it is damaged, gone or cannot be run."""
    whole = b""
    with _PassedOver(OSError):
        whole = path.read_bytes()
    if not whole:
        return []
    name = path.name.partition("-")[0]
    with _PassedOver(OSError):
        return _functions(name, whole, str(path))
    return _loaded_from_memory(name, whole)  # of a folder from which nothing may be run


def _loaded_from_memory(name: str, whole: bytes) -> list[Loaded]:
    """Load a library that is in no file; nothing where that is not possible, either."""
    with _PassedOver(OSError):
        number = os.memfd_create("simdb")
        try:
            with open(number, "wb", closefd=False) as file:
                file.write(whole)
            # The loader takes what has the same name for the same: so many slashes are another's.
            return _functions(name, whole, f"/proc/self/fd{'/' * (1 + len(_loaded))}{number}")
        finally:
            os.close(number)
    return []


def _functions(name: str, whole: bytes, path: str) -> list[Loaded]:
    """Load a library from where it is; nothing if it is damaged, OSError if it cannot be run."""
    try:
        size, checksum = _TAIL.unpack(whole[-_TAIL.size :])
        whole = whole[: -_TAIL.size]
        if xxhash.xxh3_64_intdigest(whole) != checksum:
            return []
        named = json.loads(whole[len(whole) - size :])
    except (ValueError, struct.error):
        return []
    library = ctypes.CDLL(path)
    known = (ctypes.c_void_p * CONTEXT_SIZE).in_dll(library, CONTEXT)
    for place, address in enumerate([*_common(), *map(_address_of, named)]):
        known[place] = address
    function = ctypes.cast(getattr(library, CALL), ctypes.c_void_p).value
    method = _Method(name.encode(), function, _FASTCALL, None)
    made = _make_function(ctypes.byref(method), None, None)
    _loaded.extend((library, method))
    return [made]


_make_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))


@cache
def _common() -> tuple[int, ...]:
    """The addresses that every library is told."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)
    functions = (ctypes.c_void_p * (_SET_BASE_OBJECT + 1)).from_address(table)
    new, base = functions[_NEW_FROM_DTYPE], functions[_SET_BASE_OBJECT]
    return id(NotImplemented), id(np.ndarray), new or 0, base or 0


@cache
def _address_of(name: str) -> int:
    """The address of a type of elements, or of what a module names; it lives for ever."""
    module, _, attribute = name.partition(":")
    if module == "numpy.dtype":
        found: object = np.dtype(attribute)
    else:
        found = getattr(importlib.import_module(module), attribute)
    _loaded.append(found)
    return id(found)

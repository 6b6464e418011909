"""What numba compiles a kept kernel for: LLVM's code of it and of what it calls, and no machine.

numba optimises every function by itself, then with what it calls, makes machine code of it and a
wrapper that Python could call. Of a kernel that is kept (``machine.py``) all of that is thrown
away. So it has a target of its own, with types and implementations beside those that other code of
the process is compiled with, whose libraries are neither optimised nor run.
"""

# mypy: allow-untyped-calls, allow-untyped-defs

from __future__ import annotations

import ctypes
from functools import cached_property, partial
from typing import Any

import numba
from numba import _dynfunc
from numba.core import cpu, typing
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.descriptors import TargetDescriptor
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.target_extension import (
    CPU,
    current_target,
    dispatcher_registry,
    jit_registry,
    target_registry,
)

from simdb.kernels import kept

NAME = "simdb-kept"
# numba tells what it compiled by a function of Python. It calls none of these; who did would be
# told that memory has run out.
_NEVER_CALLED = ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value


class _Target(CPU):
    """Numba's name for it: what is implemented for the processor is so for this."""


class _Library(CPUCodeLibrary):
    """The code of a function, as numba wrote it."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Leave it to what is made of a whole kernel."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _Codegen(JITCPUCodegen):
    """Code for all processors that it may be kept for, not only for this one."""

    _library_class = _Library

    def _get_host_cpu_name(self) -> Any:
        is_level = kept.processors() == kept.LEVEL
        return kept.LEVEL if is_level else super()._get_host_cpu_name()

    def _get_host_cpu_features(self) -> Any:
        is_level = kept.processors() == kept.LEVEL
        return "" if is_level else super()._get_host_cpu_features()


class _Context(cpu.CPUContext):
    def init(self) -> None:
        self.is32bit = False
        self._internal_codegen = _Codegen(NAME)

    def load_additional_registries(self) -> None:
        # What numba's runtime is made of is of the process, so it is run.
        rtsys.initialize(cpu_target.target_context)
        super().load_additional_registries()

    def create_cpython_wrapper(self, *_: Any, **__: Any) -> None:
        """Make none: ``machine.py`` has one."""

    def create_cfunc_wrapper(self, *_: Any, **__: Any) -> None:
        """Make none."""

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        name = fndesc.qualname.rpartition(".")[2]
        module = fndesc.lookup_module()
        return _dynfunc.make_function(module, name, "", _NEVER_CALLED, env, (library,))


class _Descriptor(TargetDescriptor):
    options = cpu.CPUTargetOptions

    @cached_property
    def typing_context(self) -> Any:
        return typing.Context()

    @cached_property
    def target_context(self) -> Any:
        return _Context(self.typing_context, NAME)


descriptor = _Descriptor(NAME)


class _Dispatcher(Dispatcher):
    targetdescr = descriptor


target_registry[NAME] = _Target
dispatcher_registry[_Target] = _Dispatcher
jit_registry[_Target] = partial(numba.jit, _target=NAME)


def is_current() -> bool:
    """Whether this thread compiles for this target."""
    return bool(current_target() == NAME)

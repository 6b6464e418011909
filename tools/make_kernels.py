"""Prints the table of all kernels, from their register and their annotations.

.venv/bin/python -m tools.make_kernels > docs/kernels.md
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from simdb import kernels
from simdb.kernels.register import BY_NAME


class Compiled(NamedTuple):
    """A compiled function as it is found in the code."""

    module: str
    name: str
    function: Any

    @property
    def inlined(self) -> bool:
        """Whether it is compiled into its callers."""
        return bool(self.function.is_inlined)


def compiled() -> Iterator[Compiled]:
    """Find every compiled function of the kernels, in the order of modules and names."""
    for module in sorted(found.name for found in pkgutil.iter_modules(kernels.__path__)):
        if module == "register":
            continue
        contents = vars(importlib.import_module(f"simdb.kernels.{module}"))
        for name, function in sorted(contents.items()):
            if hasattr(function, "py_func") and function.__module__.endswith(f".{module}"):
                yield Compiled(module, name, function)


def arrays(function: Any) -> tuple[dict[str, tuple[str, ...]], list[tuple[str, ...]]]:
    """Read the element types of arrays in and out from the annotations of a function.

    Returns:
        of each array that is an argument, or a field of one (``left.items``), the types that it may
        have; the same of each array that is returned.
    """
    hints = get_type_hints(function.py_func)
    returned = hints.pop("return", None)
    taken: dict[str, tuple[str, ...]] = {}
    for name, hint in hints.items():
        taken.update(_of_hint(name, hint))
    return taken, list(_of_hint("", returned).values())


def _of_hint(name: str, hint: Any) -> dict[str, tuple[str, ...]]:
    """Element types of the arrays in an annotation, by name."""
    alias = getattr(get_origin(hint), "__value__", None)
    if alias is not None:  # ``NDArray`` from NumPy 2.5 on
        hint = alias[get_args(hint)]
    if get_origin(hint) is np.ndarray:
        (element,) = get_args(get_args(hint)[1])
        return {name: _numbers(element)}
    if get_origin(hint) is types.UnionType:
        parts = [_of_hint(name, part) for part in get_args(hint)]
        return {name: tuple(one for part in parts for one in part[name])}
    if get_origin(hint) is tuple:
        inside = {str(place): part for place, part in enumerate(get_args(hint))}
    else:
        inside = get_type_hints(hint) if hasattr(hint, "_fields") else {}
    found: dict[str, tuple[str, ...]] = {}
    for field, part in inside.items():
        found.update(_of_hint(f"{name}.{field}" if name else field, part))
    return found


def _numbers(element: Any) -> tuple[str, ...]:
    return ("float32", "float64") if element is np.floating else (np.dtype(element).name,)


def document() -> str:
    """Write docs/kernels.md."""
    lines = [
        "# Kernels",
        "",
        "Every compiled function of `simdb/kernels/`, printed from `simdb/kernels/register.py` by "
        "`python -m tools.make_kernels`. An entry is called by Python; its twin in "
        "`tests/support/twins.py` computes the same the obvious way, and a test compares the two. "
        "Inner functions are called by kernels alone, and inlined ones are compiled into them. All "
        "run with the GIL released unless they have little to do. A wheel brings them compiled; "
        "elsewhere they are compiled when they are first called, and kept on the disk "
        "(`simdb/kernels/kept.py`), from where a later process loads them without numba. "
        "Sections are those of *Mining of Massive Datasets*.",
    ]
    module = ""
    inner: list[str] = []
    for one in [*compiled(), None]:
        if one is None or one.module != module:
            if inner:
                lines += ["", "Inner: " + ", ".join(inner) + "."]
            if one is None:
                break
            module, inner = one.module, []
            summary = str(importlib.import_module(f"simdb.kernels.{module}").__doc__)
            lines += ["", f"## {module}", "", summary.partition("\n")[0]]
            if any(name.startswith(f"{module}.") for name in BY_NAME):
                lines += ["", "| entry | arrays in | arrays out | work | section |"]
                lines += ["|---|---|---|---|---|"]
        entry = BY_NAME.get(f"{one.module}.{one.name}")
        if entry is None:
            inner.append(f"`{one.name}`" + (" (inlined)" if one.inlined else ""))
            continue
        taken, returned = arrays(one.function)
        into = ", ".join(
            f"{name} {' or '.join(kinds)}{' (written)' if entry.is_written(name) else ''}"
            for name, kinds in taken.items()
        )
        out = ", ".join(" or ".join(kinds) for kinds in returned)
        lines.append(f"| `{one.name}` | {into} | {out} | {entry.work} | {entry.section} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())

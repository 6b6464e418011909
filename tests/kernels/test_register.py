"""The register lists every kernel; each has a twin that it agrees with, its flags and its types."""

from __future__ import annotations

import ast
import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdb.kernels import kept
from simdb.kernels.compiler import Kernel
from simdb.kernels.register import ENTRIES
from tests.support.grids import some_of
from tests.support.sources import nodes_of, tree_of
from tests.support.twins import TWINS, Twin
from tools import make_kernels

ROOT = Path(__file__).resolve().parents[2]
COMPILED = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)

pytestmark = pytest.mark.usefixtures("wrap_around")


def kernel_sources() -> dict[str, ast.Module]:
    folder = ROOT / "simdb" / "kernels"
    return {path.stem: tree_of(path) for path in folder.glob("*.py")}


def decorated() -> dict[str, str]:
    """Every compiled function in the sources, and by what it is compiled."""
    return {
        f"{module}.{node.name}": how
        for module, tree in kernel_sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for how in ways_of(node)
    }


def ways_of(node: ast.FunctionDef) -> set[str]:
    """By what a function is compiled; ``kernel_of`` has arguments."""
    names = {ast.unparse(one).partition("(")[0] for one in node.decorator_list}
    return names & {"kernel", "kernel_of", "inlined", "in_any_order"}


@COMPILED
def test_the_register_finds_every_function_that_the_sources_compile():
    found = {f"{one.module}.{one.name}": one for one in make_kernels.compiled()}
    assert found.keys() == decorated().keys()
    for name, how in decorated().items():
        assert found[name].inlined == (not how.startswith("kernel"))
    text = "".join(path.read_text() for path in (ROOT / "simdb").rglob("*.py"))
    assert text.count("numba.njit(") == 1  # in ``compiling.dispatcher``


def test_what_python_calls_is_an_entry_and_no_other():
    """An entry is called from outside the kernels, or by a function that is not compiled."""
    names = {name.partition(".")[2] for name in decorated()}
    called = set()
    for path in (ROOT / "simdb").rglob("*.py"):
        if "kernels" not in path.read_text(encoding="utf-8") and path.parent.name != "kernels":
            continue
        for node in nodes_of(path):
            if (
                path.parent.name == "kernels"
                and isinstance(node, ast.FunctionDef)
                and not ways_of(node)
            ):
                called |= {
                    f"{path.stem}.{one.func.id}"
                    for one in ast.walk(node)
                    if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
                }
            if isinstance(node, ast.Attribute) and node.attr in names:
                called.add(f"{ast.unparse(node.value).rpartition('.')[2]}.{node.attr}")
    listed = [entry.name for entry in ENTRIES]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= set(decorated())
    # Under another name than its module's: ``order = kernels.order``, and the twins' own imports.
    for name in set(listed) - called:
        assert any(one.endswith(name.partition(".")[2]) for one in called), name


def test_every_entry_has_a_twin():
    assert {entry.name for entry in ENTRIES} == TWINS.keys()


# One of each module, which the newest version of Python compiles, too: that which is soonest.
SOONEST = (
    *("bits.near_pairs", "buckets.next_earlier", "checksums.checksums", "columns.taken"),
    "elements.element_symbols",
    *(
        "fingerprints.first_shared",
        "forest.connect",
        "markup.unmarked",
        "order.expand_pairs",
        "overlaps.pair_overlaps",
    ),
    *("postings.probe_candidates", "runs.probe", "shingles.decoded", "sketches.bucket_keys"),
    *("strings.near_bags", "vectors.scan", "weighted.compare_pairs"),
)


def test_a_kernel_of_each_module_is_compiled_anew():
    modules = {entry.name.partition(".")[0] for entry in ENTRIES}
    assert {name.partition(".")[0] for name in SOONEST} == modules


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(twin, marks=[] if twin in map(TWINS.get, SOONEST) else [pytest.mark.heavy])
        for twin in sorted(set(TWINS.values()), key=str)
    ],
)
@pytest.mark.parametrize("seed", some_of(range(12), 4))
def test_kernels_agree_with_their_twins(twin: Twin, seed: int) -> None:
    twin(np.random.default_rng(seed))


@COMPILED
def test_kernels_are_cached_and_release_the_gil():
    for one in make_kernels.compiled():
        if not one.inlined:
            options = one.function.compiled.targetoptions
            assert options["nogil"], one.name
            assert "parallel" not in options or not options["parallel"]
            assert type(one.function.compiled._cache).__name__ == "_Cache", one.name


@COMPILED
@pytest.mark.heavy
def test_kernels_are_called_with_the_types_that_they_document(monkeypatch):
    called: dict[str, set[tuple[tuple[str, ...], tuple[str, ...]]]] = {}

    def noted(one: Kernel, *arguments: Any, **named: Any) -> Any:
        found = call(one, *arguments, **named)
        given = tuple(element_types((arguments, tuple(named.values()))))
        called.setdefault(str(one.name), set()).add((given, tuple(element_types(found))))
        return found

    call = Kernel.__call__
    monkeypatch.setattr(Kernel, "__call__", noted)
    for twin in dict.fromkeys(TWINS.values()):
        twin(np.random.default_rng(0))
    for entry in ENTRIES:
        module, _, name = entry.name.partition(".")
        function = getattr(importlib.import_module(f"simdb.kernels.{module}"), name)
        taken, returned = make_kernels.arrays(function)
        assert entry.name in called
        for given, found in called[entry.name]:
            assert len(given) == len(taken), entry.name
            for (argument, allowed), dtype in zip(taken.items(), given, strict=True):
                assert dtype in allowed, f"{entry.name}: {argument} is {dtype}"
            assert len(found) == len(returned), entry.name
            assert all(dtype in allowed for allowed, dtype in zip(returned, found, strict=True))
        if kept.fingerprint() is not None:  # what is not kept imports numba in every process
            assert all(isinstance(one, type(len)) for one in function.variants), entry.name


def element_types(of: Any) -> list[str]:
    """The element types of the arrays in arguments or results."""
    if isinstance(of, np.ndarray):
        return [of.dtype.name]
    return [name for part in of for name in element_types(part)] if isinstance(of, tuple) else []


def test_the_document_is_the_one_that_is_printed():
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("nothing is compiled")
    written = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert written == make_kernels.document(), "python -m tools.make_kernels > docs/kernels.md"

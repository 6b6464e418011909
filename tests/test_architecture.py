"""Imports go downwards only, and outside libraries stay where they belong."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import simdb.kinds

PACKAGE = Path(__file__).resolve().parent.parent / "simdb"
MODULES = sorted(PACKAGE.rglob("*.py"))

BOTTOM = {"checks", "results", "errors", "ragged", "work"}
MATHEMATICS = {"kernels"}
MIDDLE = {"lsh", "exact", "storage", "kinds"}
ENGINE = {"opened", "answers", "ingest", "upkeep", "recovery"}
DATABASE = {"database", "collection", "planning"}

# What each part of simdb may import of simdb. "" is the package itself: the public names.
ALLOWED_IMPORTS = {
    "errors": set(),
    "work": {"errors"},
    "ragged": set(),
    "results": {"errors", "work"},
    "checks": {"errors"},
    "kernels": {"kernels"},
    "lsh": {"lsh"} | MATHEMATICS | BOTTOM,
    "exact": {"exact"} | MATHEMATICS | BOTTOM,
    "storage": {"storage", "kernels"} | BOTTOM,
    "kinds": {"kinds", "lsh", "exact", "kernels"} | BOTTOM,
    **dict.fromkeys(ENGINE, ENGINE | MIDDLE | MATHEMATICS | BOTTOM),
    "opened": {"opened"} | MIDDLE | MATHEMATICS | BOTTOM,
    "answers": {"answers", "opened"} | MIDDLE | MATHEMATICS | BOTTOM,
    "recovery": ENGINE | DATABASE | MIDDLE | MATHEMATICS | BOTTOM,
    "planning": {"kinds", "lsh", "exact", "storage", "kernels"} | BOTTOM,
    "database": ENGINE | DATABASE | MIDDLE | MATHEMATICS | BOTTOM,
    "collection": ENGINE | DATABASE | MIDDLE | MATHEMATICS | BOTTOM,
    "files": {"files", "kinds"} | DATABASE | BOTTOM,
    "cli": {"", "cli", "files", "kinds", "lsh", "exact"} | DATABASE | BOTTOM,
    "__main__": {"cli"},
    "starting": set(),
    "": DATABASE | BOTTOM | {"kinds", "lsh", "upkeep", "recovery", "starting"},
}

# Where an outside library may be imported: prefixes of module names.
OUTSIDE = {
    # The file is made, opened and used by the first; the others name errors, and verify pages.
    "lmdb": tuple(
        f"simdb.storage.file.{module}"
        for module in ("creation", "environment", "errors", "preflight")
    ),
    "msgpack": ("simdb.storage.tables.layout",),
    "numba": ("simdb.kernels",),
    "llvmlite": ("simdb.kernels",),
    "typer": ("simdb.cli",),
    "rich": ("simdb.cli",),
}

# Libraries that take long to load: imported on use, inside functions.
LAZY = ("scipy", "backports", "compression", "simdb.kernels.")


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """The part of simdb that a module belongs to: ``lsh`` of ``simdb.lsh.planning``."""
    return [*module.split("."), ""][1]


def imported(node: ast.AST) -> list[str]:
    """The modules and names that one statement imports, in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        yield from imported(node)


def imports_on_load(path: Path) -> Iterator[str]:
    """What is imported as soon as the module is: outside functions and TYPE_CHECKING blocks."""
    remaining: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while remaining:
        node = remaining.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            remaining += node.orelse
            continue
        yield from imported(node)
        remaining += ast.iter_child_nodes(node)


def target_part(name: str) -> str:
    """The part that ``simdb.x.y`` belongs to; "" for a public name of the package itself."""
    part = part_of(name)
    return part if part in ALLOWED_IMPORTS else ""


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_within_simdb_go_downwards(path):
    part = part_of(module_name(path))
    inside = {name for name in imports(path) if name == "simdb" or name.startswith("simdb.")}
    wrong = {name for name in inside if target_part(name) not in ALLOWED_IMPORTS[part]}
    assert not wrong, f"{part or 'simdb'} may import only {sorted(ALLOWED_IMPORTS[part])}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_outside_libraries_are_imported_only_where_they_belong(path):
    module = module_name(path)
    wrong = {
        name
        for name in imports(path)
        if name.partition(".")[0] in OUTSIDE
        and not module.startswith(OUTSIDE[name.partition(".")[0]])
    }
    assert not wrong


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_slow_libraries_are_imported_on_use(path):
    module = module_name(path)
    wrong = {
        name
        for name in imports_on_load(path)
        if name.startswith(LAZY) and not module.startswith("simdb.kernels")
    }
    assert not wrong


def test_the_table_of_imports_has_no_circle():
    """Parts that may import each other would be one part; only the two public classes are."""
    for part, allowed in ALLOWED_IMPORTS.items():
        mutual = {other for other in allowed - {part} if part in ALLOWED_IMPORTS[other]}
        assert mutual <= DATABASE | ENGINE, part


def test_importing_simdb_loads_nothing_slow():
    program = (
        "import json, sys, simdb; "
        "slow = ('numba', 'llvmlite', 'scipy', 'typer', 'rich', 'backports.zstd', 'pandas'); "
        "print(json.dumps([name for name in slow if name in sys.modules]))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    assert json.loads(completed.stdout) == []


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import scipy.sparse", ["scipy.sparse"]),
        ("def f():\n    import scipy", []),
        ("try:\n    from scipy import sparse\nexcept ImportError:\n    pass", ["scipy.sparse"]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import scipy", []),
        ("class A:\n    import scipy", ["scipy"]),
    ],
)
def test_imports_on_load_are_those_outside_functions(tmp_path, source, wanted):
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    assert [name for name in imports_on_load(path) if "scipy" in name] == wanted


# -- kinds ---------------------------------------------------------------------------------------

CLASSES_OF_KINDS = {kind.__name__ for kind in simdb.kinds.known().values()}
NAMES_OF_KINDS = set(simdb.kinds.known())
OUTSIDE_KINDS = [path for path in MODULES if part_of(module_name(path)) != "kinds"]


def asks_for_a_kind(node: ast.AST) -> bool:
    """Whether a part of a module asks which kind it has: by its class, or by its name."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
        named = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
        return bool(named & CLASSES_OF_KINDS)
    if isinstance(node, ast.Dict):
        keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
        return len(keys & NAMES_OF_KINDS) > 1
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        named = [part for side in sides for part in ast.walk(side) if is_name(part)]
        return bool(named) and any(
            ast.unparse(side).endswith(("kind", "kind.name")) for side in sides
        )
    return False


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in NAMES_OF_KINDS


@pytest.mark.parametrize("path", OUTSIDE_KINDS, ids=module_name)
def test_no_module_asks_which_kind_it_has(path):
    found = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.expr) and asks_for_a_kind(node)
    ]
    assert not found, "the contract of kinds in simdb/kinds/base.py should say it"


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ("isinstance(kind, Text | Set)", True),
        ("isinstance(settings.kind, kinds.Record)", True),
        ("{'text': 1, 'bag': 2}", True),
        ("options.kind == 'text'", True),
        ("kind.name in ('set', 'bag')", True),
        ("isinstance(value, str)", False),
        ("kind.has_symbols", False),
        ("{'text': 1}", False),
    ],
)
def test_asking_for_a_kind_is_noticed(source, asks):
    assert any(asks_for_a_kind(node) for node in ast.walk(ast.parse(source))) == asks

"""Imports go downwards only, and outside libraries stay where they belong."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import simdb.kinds
from tests.support.sources import tree_of

PACKAGE = Path(__file__).resolve().parent.parent / "simdb"
MODULES = sorted(PACKAGE.rglob("*.py"))

BOTTOM = {"arrays", "arrow", "errors", "policies", "ragged", "results", "unfinished", "work"}
BOTTOM |= {"arguments", "differences", "evidence", "extras", "forest", "late", "metadata"}
BOTTOM |= {"notebooks", "places", "threads", "zstandard"}
MATHEMATICS = {"lsh", "exact", "kernels"}
OF_ITEMS = {"batches", "kinds", "recipe"}
# Each knows those before it; all know the mathematics, the kinds and the storage.
ROOMS = ("opened", "answers", "ingest", "upkeep", "recovery")
BELOW_ROOMS = {"linkage", "storage"} | OF_ITEMS | MATHEMATICS | BOTTOM

# What each part of simdb may import of simdb, besides itself. "" is the package: the public names.
ALLOWED_IMPORTS = {
    "errors": set(),
    "arguments": {"errors"},
    "extras": {"errors", "late"},
    "arrow": {"arguments", "arrays", "errors", "extras", "metadata", "ragged"},
    "policies": {"errors", "results"},
    "work": {"errors"},
    "arrays": set(),
    "late": {"errors"},
    "metadata": set(),
    "threads": {"errors"},
    "differences": set(),
    "notebooks": set(),
    "unfinished": set(),
    "zstandard": {"errors", "late"},
    "ragged": {"arrays", "kernels"},
    "results": {"arrays", "arrow", "errors", "notebooks", "ragged", "work"},
    "evidence": {"arrays", "late", "results"},
    "kernels": {"arrays", "errors", "extras", "late", "starting"},
    "lsh": {"kernels"} | BOTTOM,
    "exact": {"kernels"} | BOTTOM,
    "places": {"arrays", "errors"},
    "forest": {"arrays", "kernels", "places"},
    "linkage": {"arrays", "errors", "extras", "forest"},
    "storage": {"kernels"} | BOTTOM,
    "kinds": MATHEMATICS | BOTTOM,
    "recipe": {"kinds"} | MATHEMATICS | BOTTOM,
    "batches": {"kinds", "recipe"} | MATHEMATICS | BOTTOM,
    "steps": {"batches", "kinds", "recipe"} | MATHEMATICS | BOTTOM,
    **{room: {*ROOMS[:place]} | BELOW_ROOMS for place, room in enumerate(ROOMS)},
    "planning": {"kinds", "storage"} | MATHEMATICS | BOTTOM,
    "collection": {*ROOMS[:-1]} | BELOW_ROOMS,
    "database": {"collection", *ROOMS} | BELOW_ROOMS,
    "spark": {"collection", "database", "kinds", "recipe", "steps"} | MATHEMATICS | BOTTOM,
    "frames": {"collection", "database", "exact", "kinds"} | BOTTOM,
    # It writes what it could read into a new store, as a user would.
    "recovery.repair": {"database", *ROOMS} | BELOW_ROOMS,
    "reports": {"collection", "tuning", "upkeep"} | BOTTOM,
    "tuning": {"database", "exact", "kinds", "upkeep"} | BOTTOM,
    "starting": set(),
    "": {
        "collection",
        "database",
        "frames",
        "kinds",
        "lsh",
        "planning",
        "recovery",
        "recipe",
        "recovery.repair",
        "reports",
        "tuning",
    }
    | {"starting", "upkeep"}
    | BOTTOM,
    "files": {"kinds"} | BOTTOM,
    "spark.__main__": {"cli"},
    "serve": {"", "files", "kinds", "reports"} | BOTTOM,
    "cli": {"", "collection", "database", "reports", "serve", "spark", "starting", "tuning"}
    | {"files", "kinds", "lsh", "exact", "planning"}
    | BOTTOM,
    "__main__": {"cli"},
}

# Where an outside library may be imported: prefixes of module names.
OUTSIDE = {
    # The file is made, opened and used by the first; the others name errors, and verify pages.
    "lmdb": tuple(
        f"simdb.storage.file.{module}"
        for module in ("creation", "environment", "errors", "preflight")
    ),
    "pyarrow": ("simdb.arrow",),
    "msgpack": ("simdb.storage.tables.layout",),
    "numba": ("simdb.kernels",),
    "llvmlite": ("simdb.kernels",),
    "typer": ("simdb.cli",),
    "rich": ("simdb.cli",),
    "duckdb": ("simdb.files.databases",),
    "sqlite3": ("simdb.files.databases",),
    "pyspark": ("simdb.spark",),
    "starlette": ("simdb.serve",),
    "uvicorn": ("simdb.serve",),
}

KIND_FOLDER = re.compile(r"(simdb\.kinds\.\w+)\.\w+")

# Libraries that take long to load: imported on use, inside functions.
LAZY = ("scipy", "pyarrow", "pyspark", "backports", "compression", "simdb.kernels.")


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """The part of simdb that a module, or a name in one, belongs to: ``lsh`` of ``simdb.lsh.x``."""
    parts = module.split(".")[1:]
    named = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((part for part in named if part in ALLOWED_IMPORTS), "")


def imported(node: ast.AST) -> list[str]:
    """The modules and names that one statement imports, in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@cache
def imports(path: Path, *, types: bool = True, functions: bool = True) -> list[str]:
    """What is imported, with or without TYPE_CHECKING blocks and what functions import on use."""
    found: list[str] = []
    remaining: list[ast.AST] = [tree_of(path)]
    while remaining:
        node = remaining.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not functions:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types:
            remaining += node.orelse
            continue
        found += imported(node)
        if not isinstance(node, ast.expr):
            remaining += ast.iter_child_nodes(node)
    return found


def test_imports_within_simdb_go_downwards():
    wrong = {}
    for path in MODULES:
        part = part_of(module_name(path))
        inside = {name for name in imports(path) if name == "simdb" or name.startswith("simdb.")}
        wrong[path] = {
            name for name in inside if part_of(name) not in {part, *ALLOWED_IMPORTS[part]}
        }
    assert {path: names for path, names in wrong.items() if names} == {}


def test_outside_libraries_are_imported_only_where_they_belong():
    wrong = [
        (module_name(path), name)
        for path in MODULES
        for name in imports(path)
        if name.partition(".")[0] in OUTSIDE
        and not module_name(path).startswith(OUTSIDE[name.partition(".")[0]])
    ]
    assert wrong == []


def test_slow_libraries_are_imported_on_use():
    wrong = [
        (module_name(path), name)
        for path in MODULES
        for name in imports(path, types=False, functions=False)
        if name.startswith(LAZY) and not module_name(path).startswith("simdb.kernels")
    ]
    assert wrong == []


def circles(graph: dict[str, set[str]]) -> list[str]:
    """What is left when names that know none of the others, or that none knows, are taken away."""
    left = dict(graph)
    while True:
        known = set().union(*(targets for name, targets in left.items()))
        gone = {name for name in left if name not in known or not graph[name] & left.keys()}
        if not gone:
            return sorted(left)
        left = {name: targets for name, targets in left.items() if name not in gone}


def test_neither_parts_nor_modules_import_each_other_in_a_circle():
    assert circles(ALLOWED_IMPORTS) == []
    modules = {module_name(path) for path in MODULES}
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        known = [name for name in imports(path, types=False) if name.startswith("simdb.")]
        targets = {name if name in modules else name.rpartition(".")[0] for name in known}
        # The modules of one kind's folder are one module in parts.
        name, *others = (KIND_FOLDER.sub(r"\1", one) for one in (module_name(path), *targets))
        graph[name] = graph.get(name, set()) | {*others} - {name}
    assert circles(graph) == []


def test_every_part_of_the_table_exists():
    assert {part_of(module_name(path)) for path in MODULES} == set(ALLOWED_IMPORTS)


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
    assert [
        name for name in imports(path, types=False, functions=False) if "scipy" in name
    ] == wanted


# -- kinds ---------------------------------------------------------------------------------------

CLASSES_OF_KINDS = {kind.__name__ for kind in simdb.kinds.known().values()}
NAMES_OF_KINDS = set(simdb.kinds.known())
OUTSIDE_KINDS = [path for path in MODULES if part_of(module_name(path)) != "kinds"]


def asks_for_a_kind(node: ast.AST) -> bool:
    """Whether a part of a module asks which kind it has: by its class, or by its name."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
        named = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
        return bool(named & CLASSES_OF_KINDS)
    if isinstance(node, ast.Dict):
        keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
        return len(keys & NAMES_OF_KINDS) > 1
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        is_asked = any(is_name(part) for side in sides for part in ast.walk(side))
        return is_asked and any(ast.unparse(side).endswith(("kind", "kind.name")) for side in sides)
    return False


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in NAMES_OF_KINDS


def test_no_module_outside_kinds_asks_which_kind_it_has():
    found = [
        f"{module_name(path)}, line {node.lineno}: {ast.unparse(node)}"
        for path in OUTSIDE_KINDS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.expr) and asks_for_a_kind(node)
    ]
    assert found == [], "the contract of kinds in simdb/kinds/base.py should say it"


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


# -- the tests -----------------------------------------------------------------------------------


def test_tests_start_programs_through_one_helper():
    """``tests/support/processes.py``, which runs them in the checkout and ends them in time."""
    folder = PACKAGE.parent / "tests"
    imported = re.compile(r"^\s*(?:import|from)\s+subprocess\b", re.MULTILINE)
    for path in folder.rglob("*.py"):
        assert path.parent == folder / "support" or not imported.search(path.read_text()), path


def test_the_twins_of_kernels_need_only_what_simdb_does():
    """They compile the kernels of a new environment before anything else is installed."""
    support = PACKAGE.parent / "tests" / "support"
    waiting, seen = [support / "twins.py"], set()
    while waiting:
        path = waiting.pop()
        names = imports(path)
        wrong = [name for name in names if name.startswith(("pytest", "hypothesis", "pyarrow"))]
        assert not wrong, path
        seen.add(path)
        files = {support / f"{name.split('.')[2]}.py" for name in names if "tests.support." in name}
        waiting += files - seen
    assert len(seen) > 2

"""The functions of Python's standard library: text that every machine with Python has."""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

SHORTEST_SOURCE = 200

_LEFT_OUT = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "pydoc_data"}
)


def iter_functions(folder: Path | None = None) -> Iterator[tuple[str, str]]:
    """Yield the key and the source of every function and method of the library.

    The key is ``module:qualified.name``; where a module defines a name again, ``#2`` and so on
    follow. Sources shorter than ``SHORTEST_SOURCE`` characters, functions inside functions, test
    packages and files that cannot be read are left out.

    Args:
        folder: where the library lies; None asks Python.
    """
    root = Path(sysconfig.get_path("stdlib")) if folder is None else folder
    for path in _python_files(root):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        seen: dict[str, int] = {}
        for name, source in _functions_of(path):
            if len(source) < SHORTEST_SOURCE:
                continue
            seen[name] = seen.get(name, 0) + 1
            again = f"#{seen[name]}" if seen[name] > 1 else ""
            yield f"{module}:{name}{again}", source


def _python_files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        if path.name in _LEFT_OUT:
            continue
        if path.suffix == ".py" and path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink() and path.name.isidentifier():
            yield from _python_files(path)


def _functions_of(path: Path) -> Iterator[tuple[str, str]]:
    try:
        source = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old modules escape characters in old ways
            tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    lines = source.split("\n")
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop(0)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(mark.lineno for mark in child.decorator_list)])
                yield prefix + child.name, "\n".join(lines[first - 1 : child.end_lineno])
            elif isinstance(child, ast.ClassDef):
                waiting.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                waiting.append((prefix, child))

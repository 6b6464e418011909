"""Files, modules and functions that documents, docstrings and comments name still exist."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
SOURCES = sorted(
    path for folder in ("simdb", "tests", "tools") for path in (ROOT / folder).rglob("*.py")
)

QUOTED = re.compile(r"``([^`\n]+)``|`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"[^\W\d]\w*")
COMMENT = re.compile(r"(?:^|\s)#(.*)$", re.MULTILINE)
TOKEN = re.compile(  # a comment or a string
    r'#[^\n]*|"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
STATEMENT = re.compile(r"(?:\A|[^\s(,\[={])\s*\n[ \t]*r?\Z|\Ar?\Z")  # what comes before a docstring
FILE = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|c|md|toml|cff)\Z")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
CALLED = re.compile(r"([A-Za-z_][\w.]*)\(.*\)\Z")

# What belongs to others: LMDB's source, macOS, datasketch, terminals, Spark, a file of an attacker.
ELSEWHERE = {
    *("mdb.c", "MDB_meta", "MDB_page", "MDB_NOSUBDIR", "NO_COLOR", "NaN", "numpy.py"),
    *("F_FULLFSYNC", "MinHashLSHForest"),
    *("spark.driver.maxResultSize", "spark.executor.memoryOverhead"),
    *("spark.executorEnv.NUMBA_CACHE_DIR", "spark.python.worker.reuse"),
    "spark.sql.execution.arrow.maxRecordsPerBatch",
}


@cache
def known() -> frozenset[str]:
    """Every word in the Python of the checkout that is neither in a docstring nor in a comment."""
    found = {*dir(builtins), *sys.stdlib_module_names}
    for path in SOURCES:
        found.update(path.with_suffix("").relative_to(ROOT).parts)
        text = path.read_text(encoding="utf-8")
        for docstring in reversed(docstrings(path)):
            text = text[: docstring.start()] + text[docstring.end() :]
        found.update(WORD.findall(COMMENT.sub("", text)))
    return frozenset(found)


@cache
def files() -> frozenset[str]:
    """The name of every file of the checkout, with and without its folders."""
    folders = (ROOT / name for name in ("simdb", "tests", "tools", "docs"))
    paths = [*ROOT.glob("*.*"), *(path for folder in folders for path in folder.rglob("*.*"))]
    found = {path.name for path in paths}
    for folder in ("", "simdb", "tests", "tools"):
        inside = [path for path in paths if path.is_relative_to(ROOT / folder)]
        found.update(path.relative_to(ROOT / folder).as_posix() for path in inside)
    return frozenset(found)


@cache
def docstrings(path: Path) -> tuple[re.Match[str], ...]:
    """The docstrings of a module, where they stand: to parse all modules takes seconds."""
    text = path.read_text(encoding="utf-8")
    return tuple(
        found
        for found in TOKEN.finditer(text)
        if found[0].endswith('"""')
        and STATEMENT.search(text, max(0, found.start() - 200), found.start())
    )


def prose(path: Path) -> Iterator[str]:
    """The text of a document without its code, or the docstrings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield FENCED.sub("", text)
        return
    yield from (found[0].strip('"') for found in docstrings(path))
    yield from COMMENT.findall(text)


def names(path: Path) -> Iterator[str]:
    for text in prose(path):
        for double, single in QUOTED.findall(text):
            yield (double or single).strip()


def is_stale(name: str) -> bool:
    if name in ELSEWHERE:
        return False
    if name.endswith("/"):
        return not any((ROOT / folder / name).is_dir() for folder in ("", "simdb", "tests"))
    if FILE.fullmatch(name):
        return name not in files()
    called = CALLED.fullmatch(name)
    dotted = DOTTED.fullmatch(called[1] if called else name)
    if not dotted:
        return False
    parts = dotted[0].split(".")
    plain = len(parts) == 1 and not called
    if plain and "_" not in name and not re.match(r"[A-Z][a-z]+[A-Z]", name):
        return False  # a word, of which nothing tells that it is a name in the code
    return not known().issuperset(parts)


@pytest.mark.parametrize("paths", [DOCUMENTS, SOURCES], ids=["documents", "sources"])
def test_every_quoted_name_is_one_of_the_code(paths):
    stale = {path: {name for name in names(path) if is_stale(name)} for path in paths}
    assert {path.name: found for path, found in stale.items() if found} == {}

"""Show what simdb does, on text that every machine with Python has: its standard library.

::

    python3 tools/run.py demo [STORE] [--quiet]

Puts the sources of the library's functions into a store, shows the most similar pairs side by side,
a group and a search, and says what to try next on the store, which is kept.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import platform
import shlex
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import simdb
from simdb.cli.differences import WIDTH_WITHOUT_TERMINAL, side_by_side
from simdb.cli.output import ProgressBar, console
from simdb.files.writing import printable

_COLLECTION = "functions"
_THRESHOLD = 0.8
_PAIRS_SHOWN = 3
_LINES_SHOWN = 16
_MEMBERS_SHOWN = 8

SHORTEST_SOURCE = 200  # characters of a function that is taken
_LEFT_OUT = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "pydoc_data"}
)


class NothingToShowError(Exception):
    """This Python came without the sources of its library."""


def main(arguments: list[str]) -> int:
    """Show it; return the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "store", nargs="?", metavar="STORE", help="where to keep it; else in a temporary folder"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    options = parser.parse_args(arguments)
    path = options.store or str(Path(tempfile.mkdtemp(prefix="simdb-demo-")) / "demo.simdb")
    try:
        show(path, quiet=options.quiet)
    except KeyboardInterrupt:
        print(f"interrupted; what was committed is in {path}", file=sys.stderr)
        return 130
    except (NothingToShowError, simdb.SimdbError) as error:
        print(f"demo: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


def show(
    path: str,
    functions: Callable[[], Iterator[tuple[str, str]]] | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Show it on the functions given, else on those of the standard library."""
    _warm_up(quiet=quiet)
    with simdb.open(path) as database:
        stored = _collection(database)
        _fill(stored, path, functions or iter_functions, quiet=quiet)
        shown = _show_pairs(stored)
        _show_group(stored)
        probe = _show_search(stored, shown)
    _show_next(path, probe)


def _collection(database: simdb.Database) -> simdb.Collection:
    return database.collection(
        _COLLECTION, simdb.Text(shingles=simdb.CharacterShingles(9)), threshold=_THRESHOLD, seed=0
    )


def _warm_up(*, quiet: bool) -> None:
    """Have the kernels loaded, or compiled, before anything is timed."""
    if not quiet:
        print(
            "Loading the kernels; they are compiled once on this machine, which takes a while.",
            file=sys.stderr,
        )
    texts = [f"{'the same beginning of a text ' * 4}{number}" for number in range(64)]
    with (
        tempfile.TemporaryDirectory(prefix="simdb-demo-") as folder,
        simdb.open(Path(folder) / "warm.simdb", sync="batch") as database,
    ):
        functions = _collection(database)
        functions.add_many(enumerate(texts))
        for _ in functions.pairs():
            pass
        functions.groups()
        functions.search(texts[0], limit=3)
        functions.search(texts[0], limit=3, guarantee="exact")  # of which the keys are looked up


def _fill(
    functions: simdb.Collection,
    path: str,
    rows: Callable[[], Iterator[tuple[str, str]]],
    *,
    quiet: bool,
) -> None:
    print(
        f"The functions of Python {platform.python_version()}'s standard library, from "
        f"{SHORTEST_SOURCE} characters on, cut into shingles of 9 characters."
    )
    began = time.monotonic()
    with ProgressBar(form=None if quiet else "bar") as bar:
        report = functions.add_many(rows(), on_existing="skip", progress=bar.callback)
    if not len(functions):
        raise NothingToShowError("the sources of the standard library are not installed here")
    print(
        f"{report.added:,} added in {time.monotonic() - began:.1f} s; the store has "
        f"{len(functions):,}: {path} ({Path(path).stat().st_size / 2**20:.1f} MiB)"
    )


def _show_pairs(functions: simdb.Collection) -> list[simdb.Pair]:
    """Show the pairs most worth it and return them."""
    began = time.monotonic()
    found = functions.pairs()
    pairs = sorted(found, key=lambda pair: -pair.value)
    same = sum(pair.similarity == 1 for pair in pairs)
    possible = len(functions) * (len(functions) - 1) // 2
    print(
        f"{len(pairs):,} pairs are similar to {_THRESHOLD:.0%} or more, {same:,} of them have all "
        f"shingles in common: found among {possible:,} pairs in {time.monotonic() - began:.1f} s, "
        f"with an expected recall of {found.expected_recall:.3f} at {_THRESHOLD} and more above."
    )
    screen = console()
    if not screen.is_terminal:
        screen.width = WIDTH_WITHOUT_TERMINAL
    shown = _worth_showing(pairs)
    for pair in shown:
        print(f"\nsimilarity {pair.similarity:.4f}")
        left, right = functions.get(pair.left), functions.get(pair.right)
        screen.print(
            side_by_side(
                str(left.key),
                left.item,
                str(right.key),
                right.item,
                width=screen.width,
                longest=_LINES_SHOWN,
            )
        )
    return shown


def _worth_showing(pairs: list[simdb.Pair]) -> list[simdb.Pair]:
    """Return the most similar pairs that differ, of different modules, each module once."""
    chosen: list[simdb.Pair] = []
    shown: set[str] = set()
    for pair in pairs:
        modules = {str(pair.left).partition(":")[0], str(pair.right).partition(":")[0]}
        if pair.value < 1 and len(modules) == 2 and not modules & shown:
            chosen.append(pair)
            shown |= modules
        if len(chosen) == _PAIRS_SHOWN:
            break
    return chosen or pairs[:_PAIRS_SHOWN]


def _show_group(functions: simdb.Collection) -> None:
    groups = sorted(functions.groups(), key=len, reverse=True)
    if not groups:
        return
    largest = groups[0]
    print(f"\nThese pairs connect {len(groups):,} groups; the largest has {len(largest)}:")
    for key in itertools.islice(largest.keys, _MEMBERS_SHOWN):
        print(f"  {printable(str(key))}")
    if len(largest) > _MEMBERS_SHOWN:
        print(f"  and {len(largest) - _MEMBERS_SHOWN} more")


def _show_search(functions: simdb.Collection, shown: list[simdb.Pair]) -> str:
    """Search for a changed copy of a function that was shown; return its key."""
    records = [functions.get(pair.left) for pair in shown] or list(
        itertools.islice(functions.items(), 1)
    )
    record = max(records, key=lambda record: len(record.item))
    changed = record.item.rstrip() + "\n    # one line more\n"
    began = time.monotonic()
    matches = functions.search(changed, limit=3)
    milliseconds = (time.monotonic() - began) * 1000
    print(
        f"\nA search for a copy of {printable(str(record.key))} with one line more, "
        f"{milliseconds:.1f} ms:"
    )
    for match in matches:
        print(f"  {match.similarity:.4f}  {printable(str(match.key))}")
    return str(record.key)


def _show_next(path: str, key: str) -> None:
    place, quoted = shlex.quote(path), shlex.quote(key)
    print(
        f"""
The store is kept in {path}. Try:
  simdb stats {place}
  simdb search {place} {_COLLECTION} --key {quoted}
  simdb get {place} {_COLLECTION} {quoted}
  simdb groups {place} {_COLLECTION} --threshold 0.9
  simdb check {place}
and on texts of your own, JSON lines with a field "text":
  simdb dedupe IN.jsonl --text-field text -o kept.jsonl --removed removed.jsonl"""
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

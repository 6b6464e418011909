"""The command that shows what simdb does, on text that every machine with Python has: demo."""

from __future__ import annotations

import itertools
import platform
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simdb.cli.failures import told_when_interrupted
from simdb.cli.options import Quiet
from simdb.cli.output import ProgressBar, console, note, print_line, printable
from simdb.cli.stores import opened
from simdb.config import CharacterShingles, Text
from simdb.datatypes import Pair
from simdb.errors import UsageError

if TYPE_CHECKING:
    from simdb.collection import Collection
    from simdb.database import Database

_COLLECTION = "functions"
_THRESHOLD = 0.8
_PAIRS_SHOWN = 3
_LINES_SHOWN = 16
_MEMBERS_SHOWN = 8
_WIDTH_WITHOUT_TERMINAL = 120


def demo(
    context: typer.Context,
    *,
    store: Annotated[
        str | None,
        typer.Argument(
            metavar="STORE", help="Where to keep it; else in a new temporary folder, which stays."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Find near copies among Python's own functions.

    Puts the sources of the standard library's functions into a store, shows the most similar
    pairs side by side, a group and a search, and says what to try next on the store, which is
    kept.
    """
    path = store or str(Path(tempfile.mkdtemp(prefix="simdb-demo-")) / "demo.simdb")
    _warm_up(context, quiet=quiet)
    with (
        told_when_interrupted(lambda: f"what was committed is in {path}"),
        opened(context, path, create=True) as database,
    ):
        functions = _collection(database)
        _fill(functions, path, quiet=quiet)
        shown = _show_pairs(functions)
        _show_group(functions)
        probe = _show_search(functions, shown)
    _show_next(path, probe)


def _collection(database: Database) -> Collection:
    return database.collection(
        _COLLECTION, Text(shingles=CharacterShingles(9)), threshold=_THRESHOLD, seed=0
    )


def _warm_up(context: typer.Context, *, quiet: bool) -> None:
    """Have the kernels loaded, or compiled, before anything is timed."""
    note(
        "Loading the kernels; they are compiled once on this machine, which takes a while.",
        quiet=quiet,
    )
    texts = [f"{'the same beginning of a text ' * 4}{number}" for number in range(64)]
    with (
        tempfile.TemporaryDirectory(prefix="simdb-demo-") as folder,
        opened(context, str(Path(folder) / "warm.simdb"), create=True, sync="batch") as database,
    ):
        functions = _collection(database)
        functions.add_many(enumerate(texts))
        for _ in functions.pairs():
            pass
        functions.groups()
        functions.search(texts[0], limit=3)


def _fill(functions: Collection, path: str, *, quiet: bool) -> None:
    from simdb.cli.standard_library import SHORTEST_SOURCE, iter_functions

    print_line(
        f"The functions of Python {platform.python_version()}'s standard library, from "
        f"{SHORTEST_SOURCE} characters on, cut into shingles of 9 characters."
    )
    began = time.monotonic()
    with ProgressBar(quiet=quiet) as bar:
        report = functions.add_many(iter_functions(), on_existing="skip", progress=bar.callback)
    if not len(functions):
        raise UsageError("the sources of the standard library are not installed here")
    print_line(
        f"{report.added:,} added in {time.monotonic() - began:.1f} s; the store has "
        f"{len(functions):,}: {path} ({Path(path).stat().st_size / 2**20:.1f} MiB)"
    )


def _show_pairs(functions: Collection) -> list[Pair]:
    """Show the pairs most worth it and return them."""
    began = time.monotonic()
    found = functions.pairs()
    pairs = sorted(found, key=lambda pair: -pair.similarity)
    same = sum(pair.similarity == 1 for pair in pairs)
    possible = len(functions) * (len(functions) - 1) // 2
    print_line(
        f"{len(pairs):,} pairs are similar to {_THRESHOLD:.0%} or more, {same:,} of them have all "
        f"shingles in common: found among {possible:,} pairs in {time.monotonic() - began:.1f} s, "
        f"with an expected recall of {found.expected_recall:.3f} at {_THRESHOLD} and more above."
    )
    screen = console()
    if not screen.is_terminal:
        screen.width = _WIDTH_WITHOUT_TERMINAL
    from simdb.cli.side_by_side import side_by_side

    shown = _worth_showing(pairs)
    for pair in shown:
        print_line(f"\nsimilarity {pair.similarity:.4f}")
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


def _worth_showing(pairs: list[Pair]) -> list[Pair]:
    """Return the most similar pairs that differ, of different modules, each module once."""
    chosen: list[Pair] = []
    shown: set[str] = set()
    for pair in pairs:
        modules = {str(pair.left).partition(":")[0], str(pair.right).partition(":")[0]}
        if pair.similarity < 1 and len(modules) == 2 and not modules & shown:
            chosen.append(pair)
            shown |= modules
        if len(chosen) == _PAIRS_SHOWN:
            break
    return chosen or pairs[:_PAIRS_SHOWN]


def _show_group(functions: Collection) -> None:
    groups = sorted(functions.groups(), key=len, reverse=True)
    if not groups:
        return
    largest = groups[0]
    print_line(f"\nThese pairs connect {len(groups):,} groups; the largest has {len(largest)}:")
    for key in itertools.islice(largest.keys, _MEMBERS_SHOWN):
        print_line(f"  {printable(str(key))}")
    if len(largest) > _MEMBERS_SHOWN:
        print_line(f"  and {len(largest) - _MEMBERS_SHOWN} more")


def _show_search(functions: Collection, shown: list[Pair]) -> str:
    """Search for a changed copy of a function that was shown; return its key."""
    records = [functions.get(pair.left) for pair in shown] or list(
        itertools.islice(functions.items(), 1)
    )
    record = max(records, key=lambda record: len(record.item))
    changed = record.item.rstrip() + "\n    # one line more\n"
    began = time.monotonic()
    matches = functions.search(changed, limit=3)
    milliseconds = (time.monotonic() - began) * 1000
    print_line(
        f"\nA search for a copy of {printable(str(record.key))} with one line more, "
        f"{milliseconds:.1f} ms:"
    )
    for match in matches:
        print_line(f"  {match.similarity:.4f}  {printable(str(match.key))}")
    return str(record.key)


def _show_next(path: str, key: str) -> None:
    import shlex

    place, quoted = shlex.quote(path), shlex.quote(key)
    print_line(
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

"""The command that reads every record of a store and reports problems."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import to_builtins

from simdb.cli.failures import EXIT_PROBLEMS
from simdb.cli.output import Working, counted, print_json
from simdb.cli.stores import StoreOrCollection
from simdb.files.writing import printable


def check(
    *,
    checked: StoreOrCollection,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compute every index entry again and compare.")
    ] = False,
    telling: Working,
) -> None:
    """Verify every record of a store.

    The exit code is 0 if the store is sound, 1 if it has problems, 3 if it cannot be opened.

    Example: simdb check corpus.simdb --deep
    """
    with checked.chosen(read_only=True) as source, telling.bar() as bar:
        report = source.check(deep=deep, progress=bar.callback)
    if telling.as_json:
        problems = to_builtins(report.problems)
        print_json({"sound": report.sound, "records": report.records, "problems": problems})
    else:
        for problem in report.problems:
            print(printable(f"{problem.table}, {problem.record}: {problem.problem}"))
        verdict = "sound" if report.sound else counted(len(report.problems), "problem", "problems")
        print(f"{verdict}; {counted(report.records, 'record', 'records')} read")
    if not report.sound:
        raise typer.Exit(EXIT_PROBLEMS)

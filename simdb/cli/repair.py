"""The command that recovers what can be read from a damaged store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

import simdb
from simdb.cli.failures import EXIT_PROBLEMS, left_alone, told_when_interrupted
from simdb.cli.output import Working, counted, print_json
from simdb.cli.stores import settings_of
from simdb.files.writing import printable

SHOWN_KEYS = 20
SHOWN_PROBLEMS = 20


def repair(
    context: typer.Context,
    *,
    # What may not be read is told as of any store: the parser would call it wrong usage.
    damaged: Annotated[
        Path, typer.Argument(metavar="DAMAGED", help="The damaged store.", readable=False)
    ],
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW", help="The store to write, which must not exist.", readable=False
        ),
    ],
    telling: Working,
) -> None:
    """Write a new store with everything that can be read from a damaged one.

    The damaged store is not changed. The exit code is 0 if nothing is lost, 1 if something is, 3 if
    nothing can be read.

    Example: simdb repair damaged.simdb repaired.simdb
    """
    with told_when_interrupted(lambda: left_alone(str(new))), telling.bar() as bar:
        asked = settings_of(context)
        report = simdb.repair(
            damaged, new, threads=asked.threads, memory=asked.memory, progress=bar.callback
        )
    if telling.as_json:
        print_json({"complete": report.complete, **to_builtins(report)})
    else:
        for problem in report.problems[:SHOWN_PROBLEMS]:
            print(printable(f"{problem.table}: {problem.problem}"))
        for name in report.lost_collections:
            print(printable(f"collection {name} is lost: its settings cannot be read"))
        if not report.certain:
            print("more may be lost than reported: settings or keys could not be read")
        for found in report.collections:
            lost = f", {found.lost:,} lost" if found.lost else ""
            unsure = f", {found.uncertain:,} possibly deleted earlier" if found.uncertain else ""
            items = counted(found.items, "item", "items")
            print(printable(f"{found.name}: {items}{lost}{unsure}"))
            if found.groups == "new":
                print("  groups have new ids and no earlier changes: not all could be read")
            for key in found.lost_keys[:SHOWN_KEYS]:
                print(printable(f"  lost: {key!r}"))
        print(printable(f"{new}: " + ("complete" if report.complete else "incomplete")))
    if not report.complete:
        raise typer.Exit(EXIT_PROBLEMS)

"""The command that prints the groups of items that similar pairs connect."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from simdb.cli.options import Apart, Budget, Carrying, Question
from simdb.cli.output import (
    Answering,
    counted,
    measured,
    note,
    print_json_line,
    promise,
    promised,
    shown_key,
)
from simdb.cli.stores import StoredCollection
from simdb.files.writing import written_together
from simdb.results import Group


def groups(
    *,
    stored: StoredCollection,
    question: Question,
    method: Annotated[
        Literal["chain", "star", "average", "correlation"],
        typer.Option("--method", help="What belongs together of what pairs connect."),
    ] = "chain",
    apart: Apart,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Go on from this file, if it is there, and keep in it what the next run goes on "
            "from: only new items are compared.",
        ),
    ] = None,
    among: Carrying,
    budget: Budget = None,
    telling: Answering,
) -> None:
    """Print the groups of items that similar pairs connect.

    By the method chain all that is connected; by star what is within the bound of a centre, which
    is the representative; by average what is within the bound on average; by correlation so that
    few similar items are apart and few others together.

    One a line, separated by tabs: how many, the representative (the first inserted), the others.
    With --json one object a line: representative, keys, and metadata where these are asked for.
    """
    with stored.viewed() as source, telling.bar() as bar:
        kind = source.kind
        earlier = Path(state).read_bytes() if state and Path(state).exists() else None
        found = source.groups(
            method=method,
            apart=apart.pairs(),
            earlier=earlier,
            budget=budget,
            progress=bar.callback,
            **{**question.of(kind), **among.given()},
        )
    kept = None if state is None else found.state()
    for pair in found.contradictions:
        names = f"{shown_key(pair.left)} and {shown_key(pair.right)}"
        note(f"{names} are kept apart, but {next(iter(measured(pair)))} {pair.value:.6f}")
    lines = (_told(group) for group in found)
    rows = telling.write(lines, lambda: found.to_arrow().to_reader())
    if rows is None:
        for group, line in zip(found, lines, strict=True):
            if telling.as_json:
                print_json_line(line)
            else:
                print("\t".join((str(len(group)), *map(shown_key, group.keys))))
        sys.stdout.flush()
    if state is not None and kept is not None:
        with written_together(state) as (file,):
            file.write(kept)
    items = sum(len(group) for group in found)
    told = f"{counted(len(found), 'group', 'groups')} of {items:,} items"
    made: dict[str, str | float] = {"method": found.method}
    if found.objective is not None:
        told = f"{told}; cost {found.objective:,.6g}"
        made["objective"] = found.objective
    telling.told(rows or 0, f"{told}; {promise(found, kind)}", **promised(found), **made)


def _told(group: Group) -> dict[str, Any]:
    """Return a group as programs have it."""
    told = {"representative": group.representative, "keys": list(group.keys)}
    return told | ({"metadata": list(group.metadata)} if group.metadata else {})

"""The command that prints the groups of items that similar pairs connect."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from simdb.cli.inputs import require_no_input
from simdb.cli.options import Apart, Budget, Carrying, Question, tell_unmet
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
from simdb.errors import UsageError
from simdb.files.writing import written_together
from simdb.metadata import expressible
from simdb.results import Group


def groups(
    *,
    stored: StoredCollection,
    question: Question,
    method: Annotated[
        Literal["chain", "star", "average", "correlation"],
        typer.Option("--method", help="How groups are made of similar pairs."),
    ] = "chain",
    apart: Apart,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Continue from this file if it exists, and update it: only new items are "
            "compared. Needs --apart or another --method than chain.",
        ),
    ] = None,
    among: Carrying,
    budget: Budget = None,
    telling: Answering,
) -> None:
    """Print the groups of items that similar pairs connect.

    --method chain puts all connected items in one group; star groups the items within the threshold
    of a centre, which is the representative; average those within the threshold on average, which
    needs the extra 'statistics';
    correlation separates few similar items and joins few dissimilar ones.

    One group per line, separated by tabs: its size, the representative (the item inserted first),
    and the others. With --json, one object per line: representative, keys, and metadata on request.

    Example: simdb groups corpus.simdb documents --method star
    """
    if among.metadata and not telling.as_json and telling.output is None:
        raise UsageError("--metadata needs --json or --output: lines of keys have no column for it")
    if state is not None and method == "chain" and apart.apart is None:
        raise UsageError(
            "--state needs --apart or another --method: groups by the method chain keep no pairs "
            "to continue from"
        )
    there = [state] if state and Path(state).exists() else []
    require_no_input([telling.output], there)
    require_no_input(telling.require_files(telling.output, state), apart.files())
    with stored.view(stored.name) as source, telling.bar() as bar:
        kind = source.kind
        earlier = Path(there[0]).read_bytes() if there else None
        asked = {**question.of(kind), **among.given()}
        found = source.groups(
            method=method,
            apart=None if apart.apart is None else apart.pairs(),
            earlier=earlier,
            budget=budget,
            progress=bar.callback,
            **asked,
        )
    kept = {} if state is None else {state: found.state()}
    for pair in found.contradictions:
        names = f"{shown_key(pair.left)} and {shown_key(pair.right)}"
        note(f"{names} are kept apart, but {next(iter(measured(pair)))} {pair.value:.6f}")
    lines = (_told(group) for group in found)
    rows = telling.write(lines, lambda: found.to_arrow().to_reader(), beside=kept)
    if rows is None:
        for group, line in zip(found, lines, strict=True):
            if telling.as_json:
                print_json_line(line)
            else:
                print("\t".join((str(len(group)), *map(shown_key, group.keys))))
        sys.stdout.flush()
        with written_together(*kept) as files:
            for file in files:
                file.write(kept[file.target])
    items = sum(len(group) for group in found)
    told = f"{counted(len(found), 'group', 'groups')} of {items:,} items"
    made: dict[str, str | float] = {"method": found.method}
    if found.objective is not None:
        told = f"{told}; cost {found.objective:,.6g}"
        made["objective"] = found.objective
    telling.told(rows or 0, f"{told}; {promise(found, kind)}", **promised(found), **made)
    tell_unmet(asked, telling.note)


def _told(group: Group) -> dict[str, Any]:
    """Return a group as JSON has it."""
    told = {"representative": group.representative, "keys": list(group.keys)}
    return told | ({"metadata": expressible(group.metadata)} if group.metadata else {})

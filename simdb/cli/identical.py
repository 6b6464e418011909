"""The command that finds identical files."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from simdb.cli.failures import EXIT_PROBLEMS
from simdb.cli.output import Working, counted, note, print_json
from simdb.files.identical import IdenticalReport, identical_files
from simdb.files.inputs import require_there
from simdb.files.writing import printable


def identical(
    *,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files, and folders with everything below them."),
    ],
    positions: Annotated[
        int,
        typer.Option(
            "--positions",
            min=1,
            help="How many positions are compared before files are read in full.",
        ),
    ] = 8,
    telling: Working,
) -> None:
    """Print groups of files that are byte for byte the same.

    One group per line: its size and the paths, separated by tabs. Only files that share their size
    are opened, and only those that agree at a few positions are read in full. The exit code is 1 if
    something could not be read.

    Example: simdb identical photos/
    """
    require_there(*files)
    with telling.bar() as bar:
        report = identical_files(files, positions=positions, progress=bar.callback)
    if telling.as_json:
        unreadable = [{"path": str(path), "problem": why} for path, why in report.unreadable]
        groups = [list(map(str, group)) for group in report.groups]
        print_json({**dataclasses.asdict(report), "groups": groups, "unreadable": unreadable})
    else:
        for group in report.groups:
            print("\t".join((str(len(group)), *(printable(str(path)) for path in group))))
        sys.stdout.flush()
        for path, reason in report.unreadable:
            note(f"{path}: {reason}")
        telling.note(_summary(report))
    if report.unreadable:
        raise typer.Exit(EXIT_PROBLEMS)


def _summary(report: IdenticalReport) -> str:
    share = report.bytes_read / max(1, report.bytes_total)
    passed = counted(report.skipped, "link or special file", "links and special files")
    skipped = f", {passed} skipped" if report.skipped else ""
    return (
        f"{counted(len(report.groups), 'group', 'groups')} of "
        f"{sum(map(len, report.groups)):,} files, among {report.files:,}{skipped}; read "
        f"{report.bytes_read:,} of {report.bytes_total:,} bytes ({share:.2%}), "
        f"{counted(report.files_read_in_full, 'file', 'files')} in full"
    )

"""The command that writes a report about a collection: a self-contained HTML page."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

import simdb
from simdb.cli.output import Working
from simdb.cli.stores import StoredCollection
from simdb.errors import UsageError
from simdb.extras import require
from simdb.files.compression import STANDARD_STREAM, plain_name
from simdb.files.writing import written_together

FORMS = (".html", ".htm")


def report(
    *,
    stored: StoredCollection,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Write the page here, an .html file."),
    ],
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="The number of items to search for.")
    ] = 1_000,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the sample.")] = 0,
    telling: Working,
) -> None:
    """Write a report about a collection as one HTML page.

    It shows the settings; how many rows each threshold would remove; pairs by similarity, with near
    misses below the threshold; the S-curve with the recall measured on real pairs; groups; and
    pairs of every similarity side by side, with the differences marked. The page has no scripts and
    loads nothing. Needs the extra 'report'.

    Example: simdb report corpus.simdb documents -o report.html
    """
    telling.require_files(output)
    require_page(output)
    with stored.view(stored.name) as source, telling.bar() as bar:
        bar.advance("searching for a sample", 0, 1)
        title = f"{Path(stored.path).name}: {source.name}"
        text = simdb.report(source, sample=sample, seed=seed, title=title, command=as_given())
    write_page(output, text)
    telling.tell({"output": output, "bytes": len(text.encode())}, f"wrote {output}")


def require_page(name: str) -> None:
    """Raise UsageError unless a page can be made, and is named like one; a device has any name."""
    require("report", "a report needs", "jinja2", "matplotlib")
    is_page = Path(plain_name(name)).suffix.lower() in FORMS
    is_device = Path(name).exists() and not Path(name).is_file()
    if not (is_page or is_device or name == STANDARD_STREAM):
        raise UsageError(f"a report is a page of HTML: its name must end in .html, not {name}")


def write_page(name: str, text: str) -> None:
    """Write a page; it appears when it is complete."""
    with written_together(name) as (file,):
        file.write(text.encode())


def as_given() -> str | None:
    """Return the command as it was given; None if this process is not a command of simdb."""
    name = Path(sys.argv[0]).name
    return shlex.join(["simdb", *sys.argv[1:]]) if name in ("simdb", "__main__.py") else None

"""The command ``simdb`` and the list of its commands."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Annotated

import typer

from simdb.cli.failures import CommandGroup
from simdb.cli.options import grouped
from simdb.cli.stores import Settings, mode_from

# Each is a function in a module of its name; the help lists them in this order.
COMMANDS = (
    ("dedupe", "create", "add"),
    ("search", "pairs", "join", "groups"),
    ("get", "delete", "export", "identical"),
    ("stats", "check", "compact", "backup", "repair", "restore", "dump", "load"),
    ("rebuild", "audit", "explain", "plan"),
)

app = typer.Typer(
    name="simdb",
    cls=CommandGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: quick, and paragraphs are wrapped
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"simdb {version('simdb-store')}")
        except PackageNotFoundError:
            print("simdb (not installed)")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def simdb(
    context: typer.Context,
    *,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="At most this many; else all cores.")
    ] = None,
    memory: Annotated[
        int, typer.Option("--memory", min=16, metavar="MIB", help="For work in memory, in MiB.")
    ] = 1024,
    busy_timeout: Annotated[
        float,
        typer.Option(
            "--busy-timeout", min=0, metavar="SECONDS", help="How long to wait for other writers."
        ),
    ] = 10.0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no summary.")
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", metavar="OCTAL", help="Who may read and write a new store: 600, only you."
        ),
    ] = None,
    untrusted: Annotated[
        bool,
        typer.Option(
            "--untrusted", help="The store may be damaged, or made to do harm: verify it first."
        ),
    ] = False,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end."),
    ] = False,
) -> None:
    """Keep items in one file and ask what is similar: SQLite for similarity.

    Exit codes: 0 done, 1 problems found, 2 usage, 3 storage, 130 interrupted.
    """
    del show_version
    context.obj = Settings(threads, memory * 2**20, busy_timeout, quiet, mode_from(mode), untrusted)
    if context.invoked_subcommand is None:
        print(context.get_help())


for name in chain.from_iterable(COMMANDS):
    command = getattr(import_module(f"simdb.cli.{name}"), name)
    app.command()(grouped(command))

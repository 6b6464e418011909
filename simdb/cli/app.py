"""The command ``simdb`` and the list of its commands."""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import Callable
from importlib import import_module
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from simdb import starting
from simdb.cli.coercion import make_adapters_late, refusing_repetition
from simdb.cli.failures import CommandGroup
from simdb.cli.help import Command, write_options
from simdb.cli.stores import Settings, mode_from

# Each is a function in a module of its name; the help lists them so.
COMMANDS = {
    "Files without a store": ("dedupe", "link", "identical", "spark"),
    "Items in a store": ("create", "add", "get", "delete", "export"),
    "Queries": (*("search", "pairs", "join", "groups", "group", "changes", "score", "show"),),
    "Settings and evaluation": (
        "plan",
        "tune",
        "recipe",
        "explain",
        "audit",
        "report",
        "calibrate",
        "learn",
        "label",
        "rebuild",
    ),
    "Whole stores": (
        *("list", "stats", "rename", "drop", "check", "compact"),
        *("backup", "restore", "dump", "load", "repair"),
    ),
    "Service": ("serve",),
    "Installation": ("warm",),
}

make_adapters_late()


class _OnDemand(UserDict[str, Any]):
    """The commands by name. Each is made, and its module imported, at first use."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            from simdb.cli.options import grouped  # loads numpy, which the help does not need

            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            function = function_of(name)
            told = None if function.__doc__ else documented(name)
            alone.command(name, cls=Command, help=told)(grouped(function))
            self.data[name] = typer.main.get_command(alone)
            starting.finish()
        return self.data[name]


class _Commands(CommandGroup):
    """All commands, in groups in the help."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        names: Any = _OnDemand(dict.fromkeys(chain.from_iterable(COMMANDS.values())))
        self.commands = names

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser, which takes an option of one value once."""
        return refusing_repetition(super().make_parser(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options before a command, and the commands."""
        write_options(self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands into the help."""
        room = formatter.width - 6 - max(map(len, self.commands))
        for group, names in COMMANDS.items():
            with formatter.section(group):
                formatter.write_dl(
                    [(name, self._briefly(name).get_short_help_str(room)) for name in names]
                )

    def _briefly(self, name: str) -> Any:
        """Return a command that is only asked for its help, without importing its module."""
        told = documented(name)
        if told is None:
            return self.commands[name]
        return typer.core.TyperCommand(name, help=told)


def function_of(name: str) -> Callable[..., None]:
    """Return the function of a command; its name ends with ``_`` if Python has a built-in of it."""
    module = import_module(f"simdb.cli.{name}")
    function: Callable[..., None] = getattr(module, f"{name}_", None) or getattr(module, name)
    return function


def documented(name: str) -> str | None:
    """Read the docstring of a command from its source; None if there is no source.

    Importing the modules of all commands would take longer than the rest of the help.
    """
    try:
        text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(rf'^def {name}_?\(.*?\) -> None:\n    """(.*?)"""', text, re.M | re.S)
    return None if found is None else cleandoc(found[1])


app = typer.Typer(
    name="simdb",
    cls=_Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: quick, and paragraphs are wrapped
    context_settings={"help_option_names": ["-h", "--help"]},
)


# Not a docstring, which Python drops where it is told to (PYTHONOPTIMIZE=2).
_ABOUT = """Store items in one file and find similar ones: SQLite for similarity.

Exit codes: 0 done, 1 problems found, 2 usage, 3 storage, 130 interrupted.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        from simdb import __version__  # slow to load

        print(f"simdb {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, help=_ABOUT)
def simdb(
    context: typer.Context,
    *,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, metavar="N", help="The most threads to use (all cores)."),
    ] = None,
    memory: Annotated[
        int, typer.Option("--memory", min=16, metavar="MIB", help="Working memory in MiB.")
    ] = 1024,
    busy_timeout: Annotated[
        float,
        typer.Option(
            "--busy-timeout", min=0, metavar="SECONDS", help="How long to wait for another writer."
        ),
    ] = 10.0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no progress and no summary.")
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="OCTAL",
            help="The permissions of a new store, such as 600 for you alone.",
        ),
    ] = None,
    untrusted: Annotated[
        bool,
        typer.Option("--untrusted", help="Verify the store first: it may be damaged or malicious."),
    ] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Read the options before a command."""
    del show_version
    context.obj = Settings(threads, memory * 2**20, busy_timeout, quiet, mode_from(mode), untrusted)
    if context.invoked_subcommand is None:
        print(context.get_help())

"""What failed, as one line and an exit code.

Exit codes: 0 done, 1 problems found, 2 usage, 3 storage, 130 interrupted, 141 the reader of our
output went away. A fault of simdb itself keeps its traceback; so does everything when the
environment sets ``SIMDB_TRACEBACK``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from simdb.cli.output import printable
from simdb.errors import SimdbError, StorageError

EXIT_PROBLEMS = 1
EXIT_USAGE = 2
EXIT_STORAGE = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class CommandGroup(TyperGroup):
    """The commands, whose errors become a line on standard error and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,  # noqa: ANN401 typer leaves it open
    ) -> Any:  # noqa: ANN401 likewise
        """Run a command; in standalone mode leave the process with its exit code."""
        if standalone_mode:
            # A polite end, as Ctrl-C: temporary files and throw-away stores are removed.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        code = 0
        try:
            result = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
            code = result if isinstance(result, int) else 0
            sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 what it does not know it raises again
            code = _reported(error)
        if standalone_mode:
            sys.exit(code)
        return code

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401
        """Run the command of a context; typer would otherwise report some errors on its own."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            _tell(str(error) or "interrupted; what was committed before is intact")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError as error:
            raise typer.Exit(_reported(error)) from None


def _reported(error: Exception) -> int:
    """Print what failed and return the exit code; raise again what is a fault of simdb."""
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return EXIT_BROKEN_PIPE
    told = _message(error)
    if told is None or os.environ.get("SIMDB_TRACEBACK"):
        raise error
    message, code = told
    _tell(message)
    return code


def _message(error: Exception) -> tuple[str, int] | None:
    # Errors of the parser are told by what they can do: their classes moved between versions.
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        return " ".join(error.format_message().split()) + hint, EXIT_USAGE
    if isinstance(error, SimdbError):
        return str(error), EXIT_STORAGE if isinstance(error, StorageError) else EXIT_USAGE
    if isinstance(error, OSError):
        of_names = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return text, EXIT_USAGE if isinstance(error, of_names) else EXIT_STORAGE
    if isinstance(error, TypeError):
        return str(error), EXIT_USAGE
    if isinstance(error, MemoryError):
        return "out of memory; what was committed before is intact", EXIT_STORAGE
    return None


def _tell(message: str) -> None:
    print(f"simdb: {printable(message)}", file=sys.stderr)


def _drop_output() -> None:
    # What is still buffered would fail again when the interpreter ends.
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def told_when_interrupted(committed: Callable[[], str]) -> Iterator[None]:
    """Let an interruption (Ctrl-C) say what is committed."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {committed()}") from None

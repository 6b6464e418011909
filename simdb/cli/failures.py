"""Errors as one line and an exit code.

Exit codes: 0 done, 1 problems found, 2 usage, 3 storage, 70 a fault of simdb, 130 interrupted, 141
the reader of the output has ended. ``SIMDB_TRACEBACK=1`` in the environment adds the traceback.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from simdb.cli import signals
from simdb.errors import KeyNotFoundError, Remedy, SimdbError, StorageError, UsageError
from simdb.extras import is_for_want_of_memory
from simdb.files.writing import printable

EXIT_PROBLEMS = 1
EXIT_USAGE = 2
EXIT_STORAGE = 3
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_WRAPPING = (SystemError, RuntimeError)
_OUTPUT_FAILED = {errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
# The commands that are methods which remedies name.
_COMMANDS = {"rebuild": "simdb rebuild"}
_FLAGS = {("guarantee", "exact"): "--exact", ("on_bad", "skip"): "--skip-bad"}
# Under these a context keeps what a command is about, for commands that an error names.
STORE, COLLECTION = "simdb.store", "simdb.collection"


class CommandGroup(TyperGroup):
    """The commands, whose errors become a line on standard error and an exit code."""

    def main(self, *args: Any, **others: Any) -> int:
        """Run a command; in standalone mode leave the process with its exit code."""
        standalone = others.get("standalone_mode", True)
        if standalone:
            signals.take_endings()
        code = 0
        try:
            result = super().main(*args, **{**others, "standalone_mode": False})
            code = result if isinstance(result, int) else 0
            sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 - none is passed over: each is told
            # Before the command is known, of whose Ctrl-C ``invoke`` tells.
            code = EXIT_INTERRUPTED if _is_interruption(error) else _reported(error)
        if standalone:
            sys.exit(code)
        return code

    def invoke(self, ctx: Any) -> Any:
        """Run the command of a context; typer would otherwise report some errors on its own."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, *_WRAPPING) as error:
            if not _is_interruption(error):
                raise
            told = str(error) if isinstance(error, KeyboardInterrupt) else ""
            _tell(told or "interrupted; what was committed before is intact")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except (BrokenPipeError, UsageError) as error:
            raise typer.Exit(_reported(error, ctx.meta)) from None


def _is_interruption(error: BaseException) -> bool:
    """Whether it is Ctrl-C, possibly wrapped by what C calls, or by the making of a class."""
    cause: BaseException | None = error
    while isinstance(cause, _WRAPPING):
        cause = cause.__cause__
    return isinstance(cause, KeyboardInterrupt)


def tell_of_compiling() -> None:
    """Say on standard error why nothing happens for a while."""
    say("compiling for this processor, once: up to a minute ('simdb warm' does it ahead)\n")


def _reported(error: Exception, about: Mapping[str, str] | None = None) -> int:
    """Print what failed and return the exit code; ``about`` says which store it is about."""
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return EXIT_BROKEN_PIPE
    if isinstance(error, typer.Abort):  # Ctrl-C before a command has begun
        return EXIT_INTERRUPTED
    if os.environ.get("SIMDB_TRACEBACK", "0") not in ("", "0"):
        report = "".join(traceback.format_exception(error))
        say(printable(report, "\n\t"))
    message, code = _message(error, about or {})
    if code == EXIT_STORAGE:
        _drop_output()
    _tell(message)
    return code


def _message(error: Exception, about: Mapping[str, str]) -> tuple[str, int]:
    # Errors of the parser are told by what they can do: their classes moved between versions.
    if hasattr(error, "format_message"):
        return _of_parser(error), EXIT_USAGE
    if isinstance(error, UsageError):
        return in_options(error, about), EXIT_USAGE
    if isinstance(error, StorageError):
        return in_options(error, about), EXIT_STORAGE
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, MemoryError) or is_for_want_of_memory(error):
        return "out of memory; what was committed before is intact", EXIT_STORAGE
    report = "please report it with the traceback that SIMDB_TRACEBACK=1 adds"
    return f"a fault of simdb: {type(error).__name__}: {error}; {report}", EXIT_FAULT


def _of_parser(error: Any) -> str:
    # What is wrong with a value comes from pydantic, in words that are not for users.
    words = error.format_message().replace(": Value error, ", ": ").split()
    message, context = " ".join(words), getattr(error, "ctx", None)
    if context is None:
        return message
    misplaced = _before_the_command(context, getattr(error, "option_name", None))
    return misplaced or f"{message} (see {context.command_path} --help)"


def _before_the_command(context: Any, option: str | None) -> str | None:
    """Return how to write an option that belongs before the command; None if it does not."""
    root = context.find_root()
    if context is root:
        return None
    for parameter in root.command.params:
        if option in parameter.opts:
            value = "" if parameter.is_flag else f" {parameter.metavar or 'N'}"
            example = f"{root.info_name} {option}{value} {context.info_name} ..."
            return f"{option} stands before the command: {example}"
    return None


def _of_system(error: OSError) -> tuple[str, int]:
    problem = error.strerror or str(error)
    if isinstance(error, FileNotFoundError) and error.filename is None and not _is_somewhere():
        problem = "the present folder is gone"
    if error.errno in _OUTPUT_FAILED:
        where = f" to {error.filename}" if error.filename else ""
        return f"the output could not be written{where}: {problem}", EXIT_STORAGE
    of_names = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
    text = f"{error.filename}: {problem}" if error.filename else problem
    return text, EXIT_USAGE if isinstance(error, of_names) else EXIT_STORAGE


def _is_somewhere() -> bool:
    """Whether the present folder is there, which names that do not begin with / need."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def in_options(error: SimdbError, about: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the message of an error, with its remedies as options and commands."""
    if isinstance(error, KeyNotFoundError) and isinstance(error.stored, int):
        return f"{error}: --integer-keys reads keys as numbers"
    helps = [
        f"{_command_line(remedy, about)} {remedy.effect}"
        for remedy in error.remedies
        if remedy.method is None or remedy.method in _COMMANDS
    ]
    return f"{error.problem}; {', or '.join(helps)}" if helps else error.problem


def _command_line(remedy: Remedy, about: Mapping[str, str]) -> str:
    """Return the command or the option that a remedy stands for."""
    words = []
    if remedy.method is not None:
        names = (about.get(STORE, "STORE"), about.get(COLLECTION, "COLLECTION"))
        words = [_COMMANDS[remedy.method], *map(shlex.quote, names)]
    for argument, value in remedy.arguments:
        flag = _FLAGS.get((argument, str(value)))
        if flag is not None:
            words.append(flag)
            continue
        words.append(f"--{argument.replace('_', '-')}")
        if value is not True:
            words.append("..." if value is ... else str(value))
    return " ".join(words)


def _tell(message: str) -> None:
    say(f"simdb: {printable(message)}\n")


def say(text: str) -> None:
    """Write on standard error, which is no answer: a command does not fail for want of it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _drop_output() -> None:
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    """Let a stream that cannot be written lead nowhere.

    What is still buffered would fail again when the interpreter ends.
    """
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def left_alone(output: str) -> str:
    """Return in words what an interruption leaves of an output that appears when it is complete."""
    return f"{output} is as it was" if Path(output).exists() else f"{output} was not written"


@contextlib.contextmanager
def told_when_interrupted(committed: Callable[[], str]) -> Iterator[None]:
    """Let the message of an interruption (Ctrl-C) say what is committed."""
    try:
        yield
    except (KeyboardInterrupt, *_WRAPPING) as error:
        if not _is_interruption(error):
            raise
        raise KeyboardInterrupt(f"interrupted; {committed()}") from None

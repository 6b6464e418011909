"""The ``simdb`` command. Each of its commands is a module, over the Python API."""

from __future__ import annotations

import os
import sys

from simdb import starting
from simdb.cli import collector


def _complete_streams() -> None:
    """Give standard streams that are closed a place, which no file that is opened later takes.

    Messages go nowhere. What is written to standard output would be lost, so writing it fails.
    """
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest number that is free
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def main() -> None:
    """Run the command line, and exit with the code of the result."""
    try:
        # Arrow's own allocator gives pages back that the next batch of a table takes again.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        # numpy's threads spin for 0.1 s before they sleep, once at the start, too: 2^28 cycles.
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
        collector.rest()
        _complete_streams()
        from simdb.cli import signals
        from simdb.cli.app import app
        from simdb.cli.failures import tell_of_compiling

        sys.unraisablehook = signals.interrupt_again
        starting.before_compiling.append(tell_of_compiling)
        if sys.stdin is not None:
            sys.stdin = signals.awake(sys.stdin)
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                # A terminal that cannot show a character shows its escape; nothing fails for it.
                reconfigure(errors="backslashreplace")
        try:
            app()
        finally:
            signals.pass_over_endings()
    except KeyboardInterrupt:  # while modules are imported or options read: nothing has begun
        sys.exit(130)
    finally:
        collector.finish()

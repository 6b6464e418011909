"""What the command ``simdb`` needs of the package before and below its own modules.

Ctrl-C while it loads ends it at once, without a traceback: nothing has begun, and a library that is
amid its own loading may not bear the exception. ``simdb.cli`` ends that where a command begins. It
is so in the command's own process alone. For that this module comes before all others, and imports
nothing that takes time. And whoever waits for kernels to be compiled is told.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False  # that of ``typing``
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

INTERRUPTED = 130  # the exit code: 128 and the number of SIGINT

before_compiling: list[Callable[[], None]] = []  # each is called once, and taken out


def _end(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


def is_command() -> bool:
    """Whether this process is ``simdb``, or ``python -m simdb`` that looks for the package."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # which stands for the module, to which Python's own options lead
        return sys.orig_argv[-len(sys.argv) :][:1] in (["simdb"], ["-msimdb"])
    return os.path.basename(program) == "simdb"  # noqa: PTH119 - pathlib takes time to load


def finish() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again: what the command imports is there, or it is none.

    Python lets the main thread alone say so; of another one this does nothing.
    """
    _hand_over(_end, signal.default_int_handler)


def _hand_over(present: object, following: Callable[[int, FrameType | None], object]) -> None:
    if signal.getsignal(signal.SIGINT) is present:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, following)


if is_command():
    _hand_over(signal.default_int_handler, _end)

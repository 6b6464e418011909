"""What the command ``simdb`` needs of the package before and below its own modules.

Ctrl-C while it loads ends it at once, without a traceback: nothing has begun, and a library that is
amid its own loading may not bear the exception. ``simdb.cli`` ends that where a command begins. It
is so in the command's own process alone, and while another program of its name imports something.
For that this module comes before all others, and imports nothing that takes time. And whoever waits
for kernels to be compiled is told.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what ``signal`` has of C: loaded at once
import os
import sys

TYPE_CHECKING = False  # that of ``typing``
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_IMPORTING = "<frozen importlib", "<frozen runpy"
INTERRUPTED = 130  # the exit code: 128 and the number of SIGINT

before_compiling: list[Callable[[], None]] = []  # each is called once, and taken out


def _end(number: int, frame: FrameType | None) -> None:
    around = frame
    while around is not None and not around.f_code.co_filename.startswith(_IMPORTING):
        around = around.f_back
    if around is not None or "simdb.cli" in sys.modules:
        os._exit(INTERRUPTED)
    _signal.default_int_handler(number, frame)  # of another program that is called simdb


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
    _hand_over(_end, _signal.default_int_handler)


def _hand_over(present: object, following: Callable[[int, FrameType | None], object]) -> None:
    if _signal.getsignal(_signal.SIGINT) is present:
        try:
            _signal.signal(_signal.SIGINT, following)
        except ValueError:  # not the main thread
            return


if is_command():
    _hand_over(_signal.default_int_handler, _end)

"""What the command ``simdb`` needs of the package before and below its own modules.

Ctrl-C while it starts ends it without a traceback. ``simdb.cli.main`` sees to that once it runs.
Before it, Python imports the packages ``simdb`` and ``simdb.cli``; so they are quiet for as long,
and only in the command's own process. For that this module comes before all others, and imports
nothing that takes time. And whoever waits for kernels to be compiled is told.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # that of ``typing``
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

INTERRUPTED = 130  # the exit code: 128 and the number of SIGINT

before_compiling: list[Callable[[], None]] = []  # each is called once, and taken out

_usual_hook = sys.excepthook


def _quiet_hook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        os._exit(INTERRUPTED)
    _usual_hook(kind, error, trace)


def is_command() -> bool:
    """Whether this process is ``simdb``, or ``python -m simdb`` that looks for the package."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # which stands for the module, to which Python's own options lead
        return sys.orig_argv[-len(sys.argv) :][:1] in (["simdb"], ["-msimdb"])
    return os.path.basename(program) == "simdb"  # noqa: PTH119 - pathlib takes time to load


def finish() -> None:
    """Let an interruption be told as usual: what the command imports is there, or it is none."""
    if sys.excepthook is _quiet_hook:
        sys.excepthook = _usual_hook


if is_command():
    sys.excepthook = _quiet_hook

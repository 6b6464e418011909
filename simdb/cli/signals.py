"""The signals that end a command: taken as Ctrl-C, heard while it waits, ignored once it has ended.

Python looks for signals before it reads and when a signal wakes it from the read. One that comes
between the two would be heard only after more input, maybe never. So reads of standard input wait
a second at a time, and Python looks in between.
"""

from __future__ import annotations

import atexit
import io
import select
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SHORTLY = 0.05  # seconds
_A_SECOND = 1_000  # milliseconds
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def take_endings() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _end_politely)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
        signal.signal(signal.SIGHUP, _end_politely)


def _end_politely(number: int, frame: FrameType | None) -> None:
    """End as by Ctrl-C, so that temporary files and throw-away stores are removed.

    A closed terminal is told by more than one signal: the others must not end that.
    """
    for other in _ENDINGS:
        signal.signal(other, _pass_over)  # where one has come by now, SIG_IGN would be reported
    signal.default_int_handler(number, frame)


def _pass_over(number: int, frame: FrameType | None) -> None:
    """Do nothing: the end has begun."""


def pass_over_endings() -> None:
    """Ignore the signals that end a command: it has ended, and Python would have them kill it."""
    for late in _ENDINGS:
        signal.signal(late, signal.SIG_IGN)


def interrupt_again(ignored: Any) -> None:
    """Take up a Ctrl-C that came where Python ignores all errors, as in a finaliser; a hook.

    Raised here it would be ignored again. Once the command has ended there is nothing to end.
    """
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        if sys.is_finalizing():
            return
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, _SHORTLY)
    else:
        sys.__unraisablehook__(ignored)


class _AwakeInput(io.FileIO):
    """A descriptor that is read once there is something to read, or nothing more to come."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, closefd=False)
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLIN)

    def readinto(self, into: WriteableBuffer) -> int | None:
        while not self._ready.poll(_A_SECOND):
            pass
        return super().readinto(into)


def awake(stream: TextIO) -> TextIO:
    """Return a stream that reads as another does, whose descriptor it shares."""
    buffered = io.BufferedReader(_AwakeInput(stream.fileno()))
    return io.TextIOWrapper(buffered, stream.encoding, stream.errors)

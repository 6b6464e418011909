"""Standard input that hears signals while it waits.

Python looks for signals before it reads and when a signal wakes it from the read. One that comes
between the two would be heard only after more input, maybe never. So reads wait for input a second
at a time, and Python looks in between.
"""

from __future__ import annotations

import io
import select
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_A_SECOND = 1_000  # milliseconds


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

"""Byte streams in and out, compressed by the suffix of their name: ``.gz`` and ``.zst``.

Both directions have bounded memory, lines too. A compressed input that ends early is an error and
never a shorter input.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Self, TextIO

from simdb import zstandard
from simdb.errors import UsageError

STANDARD_STREAM = "-"
COMPRESSED_SUFFIXES = (".gz", ".zst")

_CHUNK = 1 << 20


def standard_input() -> TextIO:
    """Return standard input; UsageError if it is closed."""
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    return sys.stdin


def plain_name(name: str) -> str:
    """Return a file's name without the suffix of its compression."""
    for suffix in COMPRESSED_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


class InputStream:
    """The decompressed bytes of a file or of standard input, as a context manager.

    Args:
        name: as the user gave it.
        content: what there is to read, without any file.

    Attributes:
        name: as the user gave it.
        size: bytes of the file as it is stored, None when it is no ordinary file.
    """

    def __init__(self, name: str, content: bytes | None = None) -> None:
        self.name = name
        self.size: int | None = None
        # What the libraries raise for data that are damaged or cut short.
        self._damages: tuple[type[Exception], ...] = (EOFError, zlib.error, gzip.BadGzipFile)
        self._owned = content is None and name != STANDARD_STREAM
        if content is not None:
            self._stored: IO[bytes] = io.BytesIO(content)
        elif self._owned:
            self._stored = io.BufferedReader(io.FileIO(name), _CHUNK)
        else:
            self._stored = standard_input().buffer
        try:
            if self._owned:
                status = os.fstat(self._stored.fileno())
                self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
            self._stream = self._decompressed()
        except BaseException:
            self.close()
            raise

    def _decompressed(self) -> IO[bytes]:
        if self.name.lower().endswith(".gz"):
            # To gzip an empty file is a damaged one; GzipFile takes it for one without content.
            if isinstance(self._stored, io.BufferedReader) and not self._stored.peek(1):
                raise self._damaged(EOFError("the file is empty"))
            # GzipFile is no RawIOBase but reads like one; a buffer above it makes lines fast.
            unpacked: Any = gzip.GzipFile(fileobj=self._stored, mode="rb")
            return io.BufferedReader(unpacked, _CHUNK)
        if self.name.lower().endswith(".zst"):
            library = zstandard.library()
            self._damages += (library.ZstdError,)
            return io.BufferedReader(library.ZstdFile(self._stored), _CHUNK)
        return self._stored

    def change(self, changing: Callable[[IO[bytes], str], io.RawIOBase]) -> None:
        """Read what is left through something that is made of it and of the name."""
        self._stream = io.BufferedReader(changing(self._stream, self.name), _CHUNK)

    @property
    def position(self) -> int:
        """Bytes taken so far from the file as it is stored; for progress, not for seeking."""
        return self._stored.tell() if self.size is not None else 0

    def read(self, longest: int) -> bytes:
        """Return up to ``longest`` bytes, fewer only at the end."""
        try:
            return self._stream.read(longest)
        except self._damages as error:
            raise self._damaged(error) from error

    def peek(self, enough: re.Pattern[bytes]) -> bytes:
        """Return the bytes that come next, without taking them.

        They are so many that a pattern matches at their beginning, if any are: of a pipe they may
        come one by one. At most a portion is looked at, 1 MiB.
        """
        stream: Any = self._stream  # of io, whose streams have more than IO declares
        looked_at = getattr(stream, "peek", bytes)  # bytes in memory have nothing like it
        try:
            ahead = bytes(looked_at())
            if enough.match(ahead) is not None:
                return ahead
            ahead = b""
            while len(ahead) < _CHUNK and enough.match(ahead) is None:
                more = stream.read1(_CHUNK - len(ahead))
                if not more:
                    break
                ahead += more
        except self._damages as error:
            raise self._damaged(error) from error
        self._stream = io.BufferedReader(_Again(ahead, stream), _CHUNK)
        return ahead

    def begins_with(self, told: bytes) -> bool:
        """Whether an input that nothing was read of yet, and is stored as it is, begins so."""
        stored = self._stored
        plain = self._stream is stored
        return plain and isinstance(stored, io.BufferedReader) and stored.peek().startswith(told)

    def readline(self, longest: int) -> bytes:
        r"""Return the bytes up to and with the next ``\n``, or the first ``longest`` of them."""
        try:
            return self._stream.readline(longest)
        except self._damages as error:
            raise self._damaged(error) from error

    def lines(self, longest: int) -> Iterator[tuple[bytes, bool]]:
        r"""Yield every line with its ``\n``, and whether it is complete.

        Of a line longer than ``longest`` bytes (its end not counted) only portions are yielded,
        each marked incomplete except the last, so that it never lies in memory whole.
        """
        line = self.readline(longest + 1)
        while line:
            complete = len(line) <= longest or line.endswith(b"\n")
            yield line, complete
            while not complete:
                line = self.readline(_CHUNK)
                complete = line.endswith(b"\n") or len(line) < _CHUNK
                yield line, complete
            line = self.readline(longest + 1)

    def whole_lines(self, longest: int) -> Iterator[tuple[int, bytes, str | None]]:
        r"""Yield each line: its number, its bytes with their ``\n``, and what is wrong with it.

        The bytes of a line longer than ``longest`` are dropped.
        """
        number = 1
        too_long = False
        for line, complete in self.lines(longest):
            too_long = too_long or not complete
            if complete:
                yield number, *((b"", f"longer than {longest} bytes") if too_long else (line, None))
                too_long = False
                number += 1

    def blocks(self, size: int, longest: int) -> Iterator[tuple[list[bytes], bool]]:
        r"""Yield lines, about ``size`` bytes of them together, each with its ``\n``.

        Beside them is whether a line follows that is longer than ``longest`` bytes, which are at
        least ``size``: it is dropped.
        """
        while block := self.read(size):
            lines = io.BytesIO(block).readlines()
            last = lines.pop()
            if not last.endswith(b"\n"):
                last += self.readline(longest + 1 - len(last))
            complete = len(last) <= longest or last.endswith(b"\n")
            yield [*lines, last] if complete else lines, not complete
            while not complete:
                last = self.readline(_CHUNK)
                complete = last.endswith(b"\n") or len(last) < _CHUNK

    def _damaged(self, error: Exception) -> UsageError:
        return UsageError(f"{self.name}: the compressed file is damaged or cut short: {error}")

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._owned:
            self._stored.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


class _Again(io.RawIOBase):
    """Bytes that were taken from a stream already, and what comes after them as it comes."""

    def __init__(self, ahead: bytes, stream: Any) -> None:
        self._ahead = memoryview(ahead)
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        taken = self._ahead[: len(buffer)] or self._stream.read1(len(buffer))
        self._ahead = self._ahead[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def compressing(stored: IO[bytes], name: str) -> IO[bytes]:
    """Return a stream that compresses into ``stored`` as the suffix of ``name`` asks.

    The same content gives the same bytes: no time and no name is written. Closing the returned
    stream completes the compressed data and leaves ``stored`` open.
    """
    if name.lower().endswith(".gz"):
        packed: Any = gzip.GzipFile(
            filename="", fileobj=stored, mode="wb", compresslevel=6, mtime=0
        )
        return io.BufferedWriter(packed, _CHUNK)
    if name.lower().endswith(".zst"):
        writer: IO[bytes] = zstandard.library().ZstdFile(stored, mode="wb", level=3)
        writer.write(b"")  # else nothing at all is written of no content
        return writer
    return stored

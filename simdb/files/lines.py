"""Lines of bounded length, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

from simdb.files.compression import InputStream
from simdb.files.rows import BYTE_ORDER_MARK, LONGEST_RECORD

_PORTION = 1 << 20


def iter_lines(
    stream: InputStream, *, longest: int = LONGEST_RECORD
) -> Iterator[tuple[bytes, bool]]:
    r"""Yield every line with its ``\n``, and whether it is complete.

    Of a line longer than ``longest`` bytes (its end not counted) only portions are yielded, each
    marked incomplete except the last, so that it never lies in memory whole.
    """
    line = stream.readline(longest + 1)
    while line:
        complete = len(line) <= longest or line.endswith(b"\n")
        yield line, complete
        while not complete:
            line = stream.readline(_PORTION)
            complete = line.endswith(b"\n") or len(line) < _PORTION
            yield line, complete
        line = stream.readline(longest + 1)


def iter_whole_lines(
    stream: InputStream, *, longest: int = LONGEST_RECORD
) -> Iterator[tuple[int, bytes, str | None]]:
    r"""Yield each line: its number, its bytes with their ``\n``, and what is wrong with it.

    The bytes of a line longer than ``longest`` are dropped.
    """
    number = 1
    too_long = False
    for line, complete in iter_lines(stream, longest=longest):
        too_long = too_long or not complete
        if complete:
            yield number, *((b"", f"longer than {longest} bytes") if too_long else (line, None))
            too_long = False
            number += 1


def without_mark(line: bytes) -> bytes:
    """Return the first line of a file without the byte order mark of UTF-8."""
    return line.removeprefix(BYTE_ORDER_MARK)

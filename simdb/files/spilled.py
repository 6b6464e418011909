"""The bytes of rows that wait in a file: of more rows than memory may hold."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from os import SEEK_END
from typing import IO, overload


class Spilled(Sequence[bytes]):
    """The bytes of successive rows, in a file that only such sequences write to.

    Args:
        file: open for reading and writing.
        ends: where the first row begins, and where each of them ends.
    """

    def __init__(self, file: IO[bytes], ends: array[int] | None = None) -> None:
        self._file = file
        self._ends = array("q", [file.seek(0, SEEK_END)]) if ends is None else ends

    def append(self, raw: bytes) -> None:
        """Add a row; the last rows of the file must be those of this sequence."""
        self._file.seek(0, SEEK_END)
        self._file.write(raw)
        self._ends.append(self._ends[-1] + len(raw))

    def extend(self, raws: Iterable[bytes]) -> None:
        """Add several rows."""
        for raw in raws:
            self.append(raw)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> Spilled: ...

    def __getitem__(self, place: int | slice) -> bytes | Spilled:
        if isinstance(place, slice):
            begin, end, _ = place.indices(len(self))
            return Spilled(self._file, self._ends[begin : max(begin, end) + 1])
        if not 0 <= place < len(self):
            raise IndexError(place)
        begin, end = self._ends[place : place + 2]
        self._file.seek(begin)
        return self._file.read(end - begin)

"""The bytes and keys of rows that wait in a file: of more rows than memory may hold."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from os import SEEK_END
from typing import IO, overload

from simdb.results import Key

MOST_WAITING = 2**16  # bytes of rows that are written at once
ROW_BYTES = 64  # about, that a row takes in memory besides its own


class Spilled(Sequence[bytes]):
    """The bytes of successive rows, in a file that only such sequences write to.

    Each row has its own place in the file, so that sequences may take turns with it.

    Args:
        file: open for reading and writing.
        begins, ends: where the rows are, if there are any.
    """

    def __init__(
        self, file: IO[bytes], begins: array[int] | None = None, ends: array[int] | None = None
    ) -> None:
        self._file = file
        self._begins = array("q") if begins is None else begins
        self._ends = array("q") if ends is None else ends
        self._added: list[bytes] = []  # rows that came one by one, and are to be written
        self._size = 0  # of these

    def append(self, raw: bytes) -> None:
        """Add a row, which is written with those after it: to find the end of a file is slow."""
        self._added.append(raw)
        self._size += ROW_BYTES + len(raw)
        if self._size >= MOST_WAITING:
            self._write()

    def extend(self, raws: Iterable[bytes]) -> None:
        """Add several rows."""
        self._write(raws)

    def _write(self, raws: Iterable[bytes] = ()) -> None:
        added, self._added, self._size = self._added, [], 0
        end = self._file.seek(0, SEEK_END)
        for raw in chain(added, raws):
            self._begins.append(end)
            end += self._file.write(raw)
            self._ends.append(end)

    def __len__(self) -> int:
        return len(self._ends) + len(self._added)

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> Spilled: ...

    def __getitem__(self, place: int | slice) -> bytes | Spilled:
        if self._added:
            self._write()
        if isinstance(place, slice):
            return Spilled(self._file, self._begins[place], self._ends[place])
        begin, end = self._begins[place], self._ends[place]
        self._file.seek(begin)
        return self._file.read(end - begin)


class SpilledKeys(Sequence[Key | None]):
    """The keys of successive rows, in a file as ``Spilled`` has their bytes."""

    def __init__(self, spilled: Spilled) -> None:
        self._spilled = spilled

    def append(self, key: Key) -> None:
        """Add the key of a row."""
        self._spilled.append(_bytes_of(key))

    def extend(self, keys: Iterable[Key]) -> None:
        """Add the keys of several rows."""
        self._spilled.extend(map(_bytes_of, keys))

    def __len__(self) -> int:
        return len(self._spilled)

    @overload
    def __getitem__(self, place: int) -> Key: ...

    @overload
    def __getitem__(self, place: slice) -> SpilledKeys: ...

    def __getitem__(self, place: int | slice) -> Key | SpilledKeys:
        found = self._spilled[place]
        return SpilledKeys(found) if isinstance(found, Spilled) else _key_of(found)


def _bytes_of(key: Key) -> bytes:
    # A text that is no key may hold anything; it is told as it came.
    text = key if isinstance(key, str) else str(key)
    return (b"t" if isinstance(key, str) else b"n") + text.encode("utf-8", "surrogatepass")


def _key_of(known: bytes) -> Key:
    text = known[1:].decode("utf-8", "surrogatepass")
    return text if known[:1] == b"t" else int(text)

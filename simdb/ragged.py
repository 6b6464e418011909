"""Rows of different lengths in one array: the symbols of sets, the bucket keys of items, texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels

Array = TypeVar("Array", bound=npt.NDArray[Any])


class Ragged(Struct, frozen=True, eq=False):
    """Rows of 64-bit words, one after the other."""

    values: npt.NDArray[np.uint64]  # the words of all rows
    offsets: npt.NDArray[np.int64]  # row i is ``values[offsets[i]:offsets[i + 1]]``

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.uint64]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many words each row has."""
        return sizes_of(self.offsets)

    def row_bytes(self, row: int) -> bytes:
        """Return what tells whether two rows are equal."""
        return self[row].tobytes()

    def select(self, rows: npt.NDArray[np.int64]) -> Self:
        """Take some rows."""
        return self._cut(self.offsets[rows], self.sizes[rows])

    def first(self, sizes: npt.NDArray[np.int64]) -> Self:
        """Cut every row to so many of its first words."""
        return self._cut(self.offsets[:-1], sizes)

    def _cut(self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Self:
        offsets = offsets_of(sizes)
        return self._taken(
            np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets
        )

    def _taken(self, places: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> Self:
        """Take the words at some places as rows; subclasses take what they have beside them."""
        return replace(self, values=self.values[places], offsets=offsets)

    @classmethod
    def concatenated(cls, parts: Sequence[Self]) -> Self:
        """Put the rows of several parts together."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([np.empty(0, np.uint64), *(part.values for part in parts)]),
            offsets_of(np.concatenate([np.empty(0, np.int64), *(part.sizes for part in parts)])),
            **cls._other_fields(parts),
        )

    @classmethod
    def _other_fields(cls, _parts: Sequence[Self]) -> dict[str, Any]:
        """Put together what a subclass has beside the words, of one part or more."""
        return {}


class WeightedSets(Ragged, frozen=True, eq=False):
    """The symbols of items, rising within each, and their weights."""

    weights: npt.NDArray[np.float64]

    def row_bytes(self, row: int) -> bytes:
        """Return what tells whether two rows and their weights are equal."""
        return self[row].tobytes() + self.weights[slice(*self.offsets[row : row + 2])].tobytes()

    def _taken(self, places: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> WeightedSets:
        return WeightedSets(self.values[places], offsets, self.weights[places])

    @classmethod
    def _other_fields(cls, parts: Sequence[WeightedSets]) -> dict[str, Any]:
        return {"weights": np.concatenate([np.empty(0), *(part.weights for part in parts)])}


def as_bytes(strings: Sequence[bytes | memoryview]) -> list[bytes]:
    """Return byte strings as objects of their own, which Python's collector need not visit."""
    if not isinstance(strings, ByteStrings):
        return list(map(bytes, strings))
    width = int(strings.offsets[1]) if len(strings) > 1 else 0
    if width and (sizes_of(strings.offsets) == width).all():
        return cut_rows(strings.values.reshape(-1, width))
    whole, bounds = strings.values.tobytes(), strings.offsets.tolist()
    return [whole[begin:end] for begin, end in pairwise(bounds)]


def cut_rows(rows: npt.NDArray[Any]) -> list[bytes]:
    """Return the rows of an array as bytes each."""
    whole = np.ascontiguousarray(rows).view(f"V{rows.shape[1] * rows.itemsize}")
    found: list[bytes] = whole.ravel().tolist()
    return found


def cut_out(
    values: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> ByteStrings:
    """Return a copy of some strings that lie anywhere among bytes."""
    sizes = ends - begins
    offsets = offsets_of(sizes)
    places = np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])
    return ByteStrings(values[places], offsets)


def distinct_of(
    numbers: npt.NDArray[np.uint32],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the distinct numbers, ascending, and where among them each of the given ones is."""
    least = int(numbers.min(initial=2**32 - 1))
    spread = int(numbers.max(initial=0)) - least + 1
    if spread > 8 * numbers.size + 1024:
        distinct, places = np.unique(numbers, return_inverse=True)
        return distinct, places
    within = np.subtract(numbers, least, dtype=np.int64)
    met = np.zeros(max(0, spread), np.bool_)
    met[within] = True
    distinct = (np.flatnonzero(met) + least).astype(np.uint32)
    if distinct.size == spread:  # none between them is missing
        return distinct, within
    ranks = np.cumsum(met) - 1
    return distinct, ranks.take(within)


def distinct_pairs(
    left: npt.NDArray[Any], right: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return each pair of numbers, which 32 bits hold, once, ascending."""
    pairs = np.unique((left.astype(np.uint64) << np.uint64(32)) | right.astype(np.uint64))
    low = pairs & np.uint64(2**32 - 1)
    return (pairs >> np.uint64(32)).astype(left.dtype), low.astype(right.dtype)


def offsets_of(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where rows of these sizes begin, and where the last one ends."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    sizes.cumsum(out=offsets[1:])
    return offsets


def sizes_of(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sizes of rows, given where they begin and where the last one ends."""
    return offsets[1:] - offsets[:-1]  # np.diff takes several times as long for a few


def slices_of(weights: npt.NDArray[np.int64], most: int) -> Iterator[slice]:
    """Cut consecutive things into slices of about so much weight; what is heavier stands alone."""
    if weights.size == 1:
        yield slice(0, 1)
        return
    ends = np.cumsum(weights)
    begin = 0
    while begin < weights.size:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(begin, end)
        begin = end


def read_only(array: Array) -> Array:
    """Return an array as one that cannot be written to."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)
    return view


def address_of(array: npt.NDArray[Any]) -> int:
    """Return where the elements of an array lie."""
    address: int = array.__array_interface__["data"][0]
    return address


class Pieces(NamedTuple):
    """Rows of one width that lie in several pieces of memory, which the caller keeps.

    Attributes:
        counts: how many rows each piece has.
        addresses: where its first one lies.
    """

    counts: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: npt.NDArray[Any]) -> Pieces:
        """Return one piece: an array of adjacent rows."""
        return cls(np.array([len(rows)], np.int64), np.array([address_of(rows)], np.int64))


class ByteStrings(Sequence[memoryview]):
    """Byte strings, one after the other, as Arrow keeps a column of them; slices copy nothing.

    Attributes:
        values: the bytes of all strings and no other, not to be written to.
        offsets: string i is ``values[offsets[i]:offsets[i + 1]]``.
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        self.values = read_only(values) if values.flags.writeable else values
        self.offsets = offsets

    @classmethod
    def of(cls, strings: Sequence[bytes | memoryview]) -> ByteStrings:
        """Put byte strings one after the other, if they are not."""
        if type(strings) is ByteStrings:  # not isinstance, which is slow for what is none
            return strings
        bounds = accumulate(map(len, strings), initial=0)
        offsets = np.fromiter(bounds, np.int64, len(strings) + 1)
        return cls(np.frombuffer(b"".join(strings), np.uint8), offsets)

    @classmethod
    def concatenated(cls, parts: Sequence[ByteStrings]) -> ByteStrings:
        """Put several columns of byte strings, at least one, together."""
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([sizes_of(part.offsets) for part in parts])
        return cls(np.concatenate([part.values for part in parts]), offsets_of(sizes))

    @classmethod
    def of_rows(cls, rows: npt.NDArray[Any]) -> ByteStrings:
        """Return the bytes of each row of a contiguous array."""
        width = rows.itemsize * math.prod(rows.shape[1:])
        return cls(rows.reshape(-1).view(np.uint8), np.arange(len(rows) + 1) * width)

    def are_utf8(self) -> bool:
        """Whether each of them is text."""
        try:
            str(self.values.data, "utf-8")
        except UnicodeDecodeError:
            return False
        begins = self.offsets[:-1][sizes_of(self.offsets) > 0]
        return not bool((self.values[begins] & 0xC0 == 0x80).any())  # none begins in a character

    def __len__(self) -> int:
        return self.offsets.size - 1

    @overload
    def __getitem__(self, place: int) -> memoryview: ...

    @overload
    def __getitem__(self, place: slice) -> ByteStrings: ...

    def __getitem__(self, place: int | slice) -> memoryview | ByteStrings:
        if isinstance(place, slice):
            count = self.offsets.size - 1
            start, stop, step = place.indices(count)
            if step != 1:
                return cut_out(self.values, self.offsets[:-1][place], self.offsets[1:][place])
            if start == 0 and stop == count:
                return self
            offsets = self.offsets[start : max(start, stop) + 1]
            return ByteStrings(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])
        begin = range(self.offsets.size - 1)[place]
        start, stop = self.offsets.item(begin), self.offsets.item(begin + 1)
        return self.values.data[start:stop]

    def __iter__(self) -> Iterator[memoryview]:
        whole, bounds = self.values.data.toreadonly(), self.offsets.tolist()
        return map(whole.__getitem__, map(slice, bounds, bounds[1:]))


def picked(strings: ByteStrings, places: npt.NDArray[np.int64], prefix: bytes = b"") -> ByteStrings:
    """Return the byte strings at some places, with the same bytes in front of each."""
    front = np.frombuffer(prefix, np.uint8)
    return ByteStrings(*kernels.columns.taken(strings.values, strings.offsets, places, front))


def are_equal(
    strings: ByteStrings,
    left: npt.NDArray[np.int64],
    others: ByteStrings,
    right: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Return whether ``strings[left[i]]`` equals ``others[right[i]]``."""
    return kernels.columns.are_equal(
        strings.values, strings.offsets, left, others.values, others.offsets, right
    )


def some_of(
    strings: Sequence[bytes | memoryview], places: npt.NDArray[np.int64]
) -> Sequence[bytes | memoryview]:
    """Return the byte strings at some places, as a column if they are one."""
    if isinstance(strings, ByteStrings):
        return picked(strings, places)
    return [strings[place] for place in places.tolist()]


class Column(Struct, frozen=True, eq=False):
    """Items as they lie in a table: rows of different lengths in one array."""

    form: Literal["text", "bytes", "numbers"]  # sound UTF-8, any uint8, numbers of any type
    values: npt.NDArray[Any]  # of all rows and no other
    offsets: npt.NDArray[np.int64]  # row i is ``values[offsets[i]:offsets[i + 1]]``

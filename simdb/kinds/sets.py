"""Sets of strings or of integers, and what sets and bags store of their elements.

The stored form is canonical: equal elements, sorted and without repeats, are equal bytes. Integers
take the fewest bytes that hold all of them (1, 2 or 4 unsigned, else 8 signed), strings are their
lengths and their UTF-8; ``kernels.elements`` has the layout. No element is no byte at all. Elements
are compared as they are: ``1`` is not ``"1"``, and two spellings of a character in Unicode are two
strings. Many sets of integers are brought to it together, as one array: what it costs to handle a
set in Python is more than what its elements cost, if they are few.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import accumulate, chain, pairwise
from operator import index
from typing import Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.arguments import is_whole, short
from simdb.arrays import Bools, Int64s, UInt64s
from simdb.errors import BadItemError, CorruptionError
from simdb.evidence import Label, labelled
from simdb.kinds.base import (
    MAXIMUM_ITEM_BYTES,
    TOKENS,
    Examples,
    Items,
    SymbolKind,
    joined,
    require_readable,
    shown,
    unmasked,
    utf8,
)
from simdb.lsh.family import SymbolSets, polynomial_base, secret_words
from simdb.ragged import Column

PLAIN_COLLECTIONS = (set, frozenset, list, tuple)
INTEGERS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}  # by width, which is the first byte
UNSIGNED = {1: "B", 2: "H", 4: "I"}  # the letters of struct, by width
EXAMPLES = (  # of sets and of bags
    "bread milk butter eggs jam tea",
    "nails screws hammer saw glue tape",
    "rice beans maize oil salt pepper",
    "rope tent stove lamp map tea",
    "ink paper pens stamps glue tape",
)

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_NO_COLLECTIONS = (str, bytes, bytearray, memoryview, Mapping)
_PLAIN: tuple[set[type], ...] = ({int}, {str}, set())  # the types of elements taken as they are
_STRINGS = 16
_WIDEST = 8
_MOST_ELEMENTS = (MAXIMUM_ITEM_BYTES - 1) // _WIDEST  # which fit however wide they are


class Set(SymbolKind, frozen=True):
    """Sets of integers, or of strings, compared by Jaccard similarity (MMDS 3.1.1).

    An item is any collection of either: ``{1, 2}``, ``["milk", "bread"]``, an array of integers.
    Order and repetitions do not count; ``get`` returns a ``frozenset``.
    """

    plural = "sets"
    suffixes = TOKENS
    of_elements = True
    json_form = "a list"
    probe_option = "--set"
    probe_format = "lines"

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        items = [frozenset(basket.split()) for basket in EXAMPLES]
        near = [item | {"bag"} for item in items]
        return (Examples(cls(), "0.8", items, near, (None, 3.5, "tea", {"a": 1}, [1, "a"], [0.5])),)

    def make_items(self, secret: bytes) -> SetItems:
        return SetItems(secret)

    def plain_item(self, item: frozenset[Any]) -> list[Any]:
        return sorted(item)

    def shown_item(self, item: frozenset[Any]) -> str:
        return " ".join(map(str, sorted(item)))


class SetItems(Items):
    """Encode sets and hash their elements under one collection's secret.

    Equal secrets give equal symbols on every machine. NumPy's integers and strings are taken as
    Python's; texts, mappings and iterators are no collections.
    """

    def __init__(self, secret: bytes) -> None:
        self._keys = element_keys(secret_words(secret, b"simdb.set", 3))

    def encode(self, item: object) -> bytes:
        if isinstance(item, np.ndarray):
            array = _FORM.sorted_array(item)
            if isinstance(array, np.ndarray):
                return _FORM.stored_array(array[distinct(array)])
            ordered = array
        else:  # sets come sorted more often than not, which makes this quick
            ordered = sorted(_FORM.plain(_FORM.require_collection(item)))
        if len(set(ordered)) < len(ordered):
            ordered = sorted(set(ordered))
        return _FORM.stored(ordered)

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        # One is sooner encoded by itself, as of a search.
        stored = stored_integer_sets(items) if len(items) > 1 else None
        return list(map(self.encode, items)) if stored is None else stored

    def encode_column(self, column: Column) -> list[bytes] | None:
        values, counts = column.values, np.diff(column.offsets)
        if column.form != "numbers" or values.dtype.kind not in "iu" or not values.size:
            return None
        if counts.max() > _MOST_ELEMENTS or int(values.max()) > _LARGEST:
            return None
        return _stored(*_in_order(values.astype(np.int64), counts))

    def decode(self, data: bytes | memoryview) -> frozenset[Any]:
        try:
            return frozenset(stored_elements(data))
        except (ValueError, struct.error) as error:
            raise CorruptionError(f"a stored set cannot be read: {error}") from error

    def features(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        data, bounds = joined(items)
        values, offsets = kernels.elements.element_symbols(data, bounds[1:], self._keys)
        require_found(offsets, "set")
        return SymbolSets(values, offsets)

    def labels(self, item: bytes | memoryview) -> list[Label]:
        return labelled(stored_elements(item))


def stored_integer_sets(items: Sequence[object]) -> list[bytes] | None:
    """Encode sets of a few plain integers of 64 bits as ``encode`` does; None of others."""
    if not set(map(type, items)).issubset(PLAIN_COLLECTIONS):
        return None
    sets = cast("Sequence[Sequence[Any]]", items)
    counts = np.fromiter(map(len, sets), np.int64, len(sets))
    if not counts.any() or counts.max() > _MOST_ELEMENTS:
        return None
    elements = list(chain.from_iterable(sets))
    if set(map(type, elements)) != {int}:
        return None
    try:
        packed = struct.pack(f"={len(elements)}q", *elements)  # np.fromiter takes twice as long
    except struct.error:
        return None
    values, ends = _in_order(np.frombuffer(packed, np.int64), counts)
    return _stored(values, ends)


def _in_order(values: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Sort the elements of every set and drop repeats; return them and where each set ends."""
    ends = np.cumsum(counts)
    begins = np.zeros(values.size + 1, np.bool_)
    begins[0] = True
    begins[ends] = True
    begins = begins[:-1]
    rising = begins.copy()
    rising[1:] |= values[1:] > values[:-1]
    if rising.all():
        return values, ends
    owners = np.repeat(np.arange(counts.size), counts)
    values = values[np.lexsort((values, owners))]
    kept = distinct(values) | begins
    return values[kept], np.append(0, np.cumsum(kept))[ends]


def _stored(values: Int64s, ends: Int64s) -> list[bytes]:
    """Return the stored forms of sets of sorted elements, the first byte of which is the width."""
    starts = np.append(0, ends[:-1])
    widths = np.full(ends.size, _WIDEST)
    filled = ends > starts
    lows, highs = values[starts[filled]], values[ends[filled] - 1]
    for width in sorted(UNSIGNED, reverse=True):
        widths[np.flatnonzero(filled)[(lows >= 0) & (highs < 1 << 8 * width)]] = width
    heads, forms = {}, {}
    for width in set(widths.tolist()):  # np.unique loads more of NumPy
        heads[width] = bytes([width])
        forms[width] = values.astype(INTEGERS[width]).tobytes()
    return [
        heads[width] + forms[width][start * width : end * width] if start < end else b""
        for width, start, end in zip(widths.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]


# -- elements, of sets and bags ------------------------------------------------------------------


def element_keys(words: UInt64s) -> UInt64s:
    """Return the keys that the kernel hashes elements with, from the first three secret words."""
    return np.array([words[0], polynomial_base(int(words[1])), words[2]], np.uint64)


def require_found(offsets: Int64s, what: str) -> None:
    """Raise CorruptionError where a kernel says by its offsets which stored form it cannot read."""
    if offsets[0] < 0:
        raise CorruptionError(f"a stored {what}, {-1 - offsets[0]} of its batch, cannot be read")


class ElementForm:
    """Checks and stores the elements of items, which messages call by a noun."""

    def __init__(self, noun: str) -> None:
        self._noun = noun

    def require_collection(self, item: object) -> Collection[Any]:
        """Check that an item can be read repeatedly: a list, a range, the keys of a mapping."""
        if isinstance(item, PLAIN_COLLECTIONS):  # told sooner than what else is one
            return item
        again = isinstance(item, Iterable) and isinstance(item, Sized)
        if again and not isinstance(item, _NO_COLLECTIONS):
            elements = cast("Collection[Any]", item)
            require_readable(elements, self._noun)
            return elements
        hint = ""
        if isinstance(item, str | bytes):
            hint = f"; a text is no {self._noun} of its characters: split it, or put it into a list"
        elif isinstance(item, Iterator):
            hint = "; make a list of what can be read only once"
        elif isinstance(item, float) and math.isnan(item):
            hint = f" (a nan usually stands for a missing {self._noun})"
        raise BadItemError(
            f"a {self._noun} must be a collection of integers or of strings, not "
            f"{shown(item)}{hint}"
        )

    def plain(self, elements: Collection[Any]) -> Collection[Any]:
        """Return elements as Python's own integers or strings, all of one type."""
        if set(map(type, elements)) in _PLAIN:
            return elements
        plain: list[Any] = []
        for element in elements:
            if isinstance(element, str):
                plain.append(str.__str__(element))  # str() of an enumeration is its name
            elif is_whole(element):
                plain.append(index(element))
            else:
                self._refuse_element(shown(element))
            if type(plain[-1]) is not type(plain[0]):
                raise BadItemError(
                    f"the elements of a {self._noun} must be all integers or all strings, not "
                    f"both: {short(plain[0])} and {short(plain[-1])}"
                )
        return plain

    def sorted_array(self, item: npt.NDArray[Any]) -> npt.NDArray[Any] | list[Any]:
        """Return an array's elements sorted, repeats included; a list unless they are integers."""
        item = unmasked(item)
        if item.ndim != 1:
            raise BadItemError(
                f"a {self._noun} must be an array of one dimension, not of {item.ndim}"
            )
        if item.dtype.kind in "UTO":
            return sorted(self.plain(item.tolist()))
        if not item.size:
            return []
        if item.dtype.kind not in "iu":
            self._refuse_element(f"{item.dtype} {short(item[0])}")
        return np.sort(item)

    def _refuse_element(self, given: str) -> NoReturn:
        raise BadItemError(
            f"an element of a {self._noun} must be an integer or a string, not {given}"
        )

    def stored(self, ordered: list[Any]) -> bytes:
        """Return the stored form of plain elements, sorted and without repeats."""
        if not ordered:
            return b""
        if type(ordered[0]) is int:
            width = self._width_of(ordered[0], ordered[-1])
            self.require_room(len(ordered), 1 + len(ordered) * width)
            letter = UNSIGNED.get(width, "q")
            return struct.pack(f"<B{len(ordered)}{letter}", width, *ordered)
        return self._stored_strings(ordered)

    def stored_array(self, ordered: npt.NDArray[Any]) -> bytes:
        """Return the stored form of an array of integers, sorted and without repeats."""
        width = self._width_of(int(ordered[0]), int(ordered[-1]))
        self.require_room(ordered.size, 1 + ordered.size * width)
        return bytes([width]) + ordered.astype(INTEGERS[width]).tobytes()

    def require_room(self, count: int, size: int) -> None:
        """Raise BadItemError if an item would be longer than ``MAXIMUM_ITEM_BYTES``."""
        if size > MAXIMUM_ITEM_BYTES:
            raise BadItemError(
                f"the {self._noun} of {count:,} elements takes {size:,} bytes, more than the "
                f"{MAXIMUM_ITEM_BYTES:,} that an item may take; split it"
            )

    def _width_of(self, low: int, high: int) -> int:
        """Return the bytes of an integer among those between the smallest and the largest."""
        if low >= 0 and high < 1 << 32:
            return unsigned_width(high)
        if low < _SMALLEST or high > _LARGEST:
            wrong = low if low < _SMALLEST else high
            raise BadItemError(
                f"an integer of a {self._noun} must lie between -2^63 and 2^63 - 1, but "
                f"{short(wrong)} does not; use strings"
            )
        return _WIDEST

    def _stored_strings(self, ordered: list[str]) -> bytes:
        # Halves of a pair that meet at the seam of two elements do not become a character.
        try:
            data = "".join(ordered).encode()
        except UnicodeEncodeError:
            data = b"".join(utf8(one, f"the element {ascii(one)[:60]}") for one in ordered)
        if len(data) > MAXIMUM_ITEM_BYTES:
            self.require_room(len(ordered), len(data))
        if data.isascii():
            lengths = list(map(len, ordered))
        else:
            lengths = [len(element.encode()) for element in ordered]
        width = unsigned_width(max(lengths))
        count = len(ordered)
        self.require_room(count, 5 + count * width + len(data))
        letter = UNSIGNED[width]
        return struct.pack(f"<BI{count}{letter}", _STRINGS + width, count, *lengths) + data


def unsigned_width(largest: int) -> int:
    """The fewest bytes, 1, 2 or 4, that hold whole numbers up to the largest."""
    return 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4


def distinct(ordered: npt.NDArray[Any]) -> Bools:
    """Tell which values of a sorted array differ from the one before; the first does."""
    first = np.ones(ordered.size, np.bool_)  # np.unique takes ten times as long
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def stored_elements(data: bytes | memoryview) -> list[int] | list[str]:
    """Return the elements of their stored form; ValueError or struct.error says that it is none."""
    if not len(data):
        return []
    form = data[0]
    if form in INTEGERS:
        integers: list[int] = np.frombuffer(data, INTEGERS[form], offset=1).tolist()
        return integers
    width = form - _STRINGS
    if width not in UNSIGNED:
        raise ValueError(f"{form} is not a form of elements")
    (count,) = struct.unpack_from("<I", data, 1)
    lengths = struct.unpack_from(f"<{count}{UNSIGNED[width]}", data, 5)
    strings = bytes(data[5 + count * width :])
    ends = list(accumulate(lengths, initial=0))
    if ends[-1] != len(strings):
        raise ValueError(f"{len(strings)} bytes of strings where {ends[-1]} are expected")
    if strings.isascii():
        text = strings.decode()
        return [text[start:end] for start, end in pairwise(ends)]
    return [strings[start:end].decode() for start, end in pairwise(ends)]


_FORM = ElementForm("set")

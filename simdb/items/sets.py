"""Sets of strings or of integers: their stored form and their elements as 64-bit symbols.

The stored form is canonical: equal sets are equal bytes. Elements are sorted, integers in the
fewest bytes that hold all of them (1, 2 or 4 unsigned, else 8 signed), strings as their lengths and
their UTF-8; ``kernels.elements`` has the layout. An empty set is no byte at all.

Elements are compared as they are: ``1`` is not ``"1"``, and two spellings of a character in Unicode
are two strings.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import accumulate, pairwise
from typing import Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.errors import BadItemError, CorruptionError
from simdb.items.symbols import SymbolSets, polynomial_base, secret_words
from simdb.items.text import MAXIMUM_ITEM_BYTES

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_COLLECTIONS = (set, frozenset, list, tuple)
_NO_COLLECTIONS = (str, bytes, bytearray, memoryview, Mapping)
_PLAIN: tuple[set[type], ...] = ({int}, {str}, set())  # the types of elements taken as they are
_STRINGS = 16
_INTEGERS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}  # by width, which is the first byte
_UNSIGNED = {1: "B", 2: "H", 4: "I"}  # the letters of struct, by width


class SetItems:
    """Encode sets and hash their elements under one collection's secret.

    Equal secrets give equal symbols on every machine.
    """

    def __init__(self, secret: bytes) -> None:
        words = [int(word) for word in secret_words(secret, b"simdb.set", 3)]
        self._keys = np.array([words[0], polynomial_base(words[1]), words[2]], np.uint64)

    def encode(self, item: object) -> bytes:
        """Return the stored form of a set: any collection of integers, or of strings.

        What occurs twice counts once. NumPy's integers and strings are taken as Python's.

        Raises:
            BadItemError: it is no collection (texts, mappings and iterators are none), an element
                is neither an integer of 64 bits nor a string, there are both, or it would be
                longer than ``MAXIMUM_ITEM_BYTES``.
        """
        if isinstance(item, np.ndarray):
            return _encode_array(item)
        return _encode(item if isinstance(item, _COLLECTIONS) else _require_collection(item))

    def decode(self, data: bytes | memoryview) -> frozenset[int] | frozenset[str]:
        """Return the set of its stored form.

        Raises:
            CorruptionError: it is no stored form of a set.
        """
        if not len(data):
            return frozenset()
        form = data[0]
        try:
            if form in _INTEGERS:
                return frozenset(np.frombuffer(data, _INTEGERS[form], offset=1).tolist())
            letter = _UNSIGNED[form - _STRINGS]
            (count,) = struct.unpack_from("<I", data, 1)
            lengths = struct.unpack_from(f"<{count}{letter}", data, 5)
            return frozenset(_strings(bytes(data[5 + count * (form - _STRINGS) :]), lengths))
        except (ValueError, KeyError, struct.error) as error:
            raise CorruptionError(f"a stored set cannot be read: {error}") from error

    def symbols(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of stored sets, without repeats, in the order of their elements.

        Raises:
            CorruptionError: one of them is no stored form of a set.
        """
        ends = np.cumsum(np.fromiter(map(len, items), np.int64, len(items)), dtype=np.int64)
        data = np.frombuffer(b"".join(items), np.uint8)
        values, offsets = kernels.elements.element_symbols(data, ends, self._keys)
        if offsets[0] < 0:
            raise CorruptionError(f"a stored set, {-1 - offsets[0]} of its batch, cannot be read")
        return SymbolSets(values, offsets)


# -- what is taken as a set ----------------------------------------------------------------------


def _require_collection(item: object) -> Collection[Any]:
    """Return anything else that can be read again and again: a range, the keys of a mapping."""
    again = isinstance(item, Iterable) and isinstance(item, Sized)
    if again and not isinstance(item, _NO_COLLECTIONS):
        return cast("Collection[Any]", item)
    hint = ""
    if isinstance(item, str | bytes):
        hint = "; a text is no set of its characters: split it, or put it into a list"
    elif isinstance(item, Iterator):
        hint = "; make a list of what can be read only once"
    elif isinstance(item, float) and item != item:  # noqa: PLR0124 - only nan differs from itself
        hint = " (a nan usually stands for a missing set)"
    raise BadItemError(
        f"a set must be a collection of integers or of strings, not {type(item).__name__} "
        f"{reprlib.repr(item)}{hint}"
    )


def _plain(elements: Iterable[Any]) -> list[Any]:
    """Return elements as Python's own integers or strings; name the first that cannot be one."""
    plain: list[Any] = []
    for element in elements:
        if isinstance(element, str):
            plain.append(str.__str__(element))  # str() of an enumeration is its name
        elif isinstance(element, int | np.integer) and not isinstance(element, bool):
            plain.append(int(element))
        else:
            kind = type(element).__name__
            raise BadItemError(
                f"an element of a set must be an integer or a string, not {kind} "
                f"{reprlib.repr(element)}"
            )
        if type(plain[-1]) is not type(plain[0]):
            raise BadItemError(
                f"the elements of a set must be all integers or all strings, not both: "
                f"{reprlib.repr(plain[0])} and {reprlib.repr(plain[-1])}"
            )
    return plain


def _encode_array(item: npt.NDArray[Any]) -> bytes:
    """Return the stored form of an array, integers without a Python object each."""
    if item.ndim != 1:
        raise BadItemError(f"a set must be an array of one dimension, not of {item.ndim}")
    if item.dtype.kind in "UTO":
        return _encode(item.tolist())
    if not item.size:
        return b""
    if item.dtype.kind not in "iu":
        raise BadItemError(
            f"an element of a set must be an integer or a string, not {item.dtype} "
            f"{reprlib.repr(item[0])}"
        )
    ordered = np.sort(item)  # np.unique takes ten times as long
    first = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    ordered = ordered[first]
    low, high = int(ordered[0]), int(ordered[-1])
    width = _width_of(low, high)
    _require_room(ordered.size, 1 + ordered.size * width)
    return bytes([width]) + ordered.astype(_INTEGERS[width]).tobytes()


# -- the stored form -----------------------------------------------------------------------------


def _encode(elements: Collection[Any]) -> bytes:
    types = set(map(type, elements))
    if types not in _PLAIN:
        elements = _plain(elements)
    ordered = sorted(set(elements))
    if not ordered:
        return b""
    return _encode_integers(ordered) if type(ordered[0]) is int else _encode_strings(ordered)


def _width_of(low: int, high: int) -> int:
    """Return the bytes of an integer in a set whose smallest and largest are given."""
    if low >= 0:
        if high < 1 << 8:
            return 1
        if high < 1 << 16:
            return 2
        if high < 1 << 32:
            return 4
    if low < _SMALLEST or high > _LARGEST:
        wrong = low if low < _SMALLEST else high
        raise BadItemError(
            f"an integer of a set must lie between -2^63 and 2^63 - 1, which "
            f"{reprlib.repr(wrong)} does not; use strings"
        )
    return 8


def _encode_integers(ordered: list[int]) -> bytes:
    width = _width_of(ordered[0], ordered[-1])
    _require_room(len(ordered), 1 + len(ordered) * width)
    letter = _UNSIGNED.get(width, "q")
    return struct.pack(f"<B{len(ordered)}{letter}", width, *ordered)


def _encode_strings(ordered: list[str]) -> bytes:
    try:
        data = "".join(ordered).encode()
    except UnicodeEncodeError:
        _refuse_surrogate(ordered)
    if len(data) > MAXIMUM_ITEM_BYTES:
        _require_room(len(ordered), len(data))
    if data.isascii():
        lengths = list(map(len, ordered))
    else:
        lengths = [len(element.encode()) for element in ordered]
    longest = max(lengths)
    width = 1 if longest < 1 << 8 else 2 if longest < 1 << 16 else 4
    count = len(ordered)
    _require_room(count, 5 + count * width + len(data))
    letter = _UNSIGNED[width]
    return struct.pack(f"<BI{count}{letter}", _STRINGS + width, count, *lengths) + data


def _require_room(count: int, size: int) -> None:
    if size > MAXIMUM_ITEM_BYTES:
        raise BadItemError(
            f"the set of {count:,} elements takes {size:,} bytes, more than the "
            f"{MAXIMUM_ITEM_BYTES:,} of an item; split it"
        )


def _refuse_surrogate(ordered: list[str]) -> NoReturn:
    # Halves of a pair that meet at the seam of two elements do not become a character.
    for element in ordered:
        try:
            element.encode()
        except UnicodeEncodeError as error:
            raise BadItemError(
                f"the element {ascii(element)[:60]} holds half a surrogate pair, "
                f"U+{ord(element[error.start]):04X}, which is no character"
            ) from None
    raise AssertionError("one of the elements cannot be encoded")


def _strings(data: bytes, lengths: tuple[int, ...]) -> list[str]:
    """Cut UTF-8 into strings of so many bytes each."""
    ends = list(accumulate(lengths, initial=0))
    if ends[-1] != len(data):
        raise ValueError(f"{len(data)} bytes of strings where {ends[-1]} are expected")
    if data.isascii():
        text = data.decode()
        return [text[start:end] for start, end in pairwise(ends)]
    return [data[start:end].decode() for start, end in pairwise(ends)]

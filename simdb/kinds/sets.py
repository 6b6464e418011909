"""Sets of strings or of integers: their stored form and their elements as 64-bit symbols.

The stored form is that of ``kinds.elements``: sorted elements without repeats. Many sets of
integers are brought to it together, as one array: what it costs to handle a set in Python is more
than what its elements cost, if they are few.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, cast

import numpy as np

from simdb import kernels
from simdb.errors import CorruptionError
from simdb.kinds.base import MAXIMUM_ITEM_BYTES, TOKENS, Format, Integers, Items, SymbolKind
from simdb.kinds.elements import (
    INTEGERS,
    PLAIN_COLLECTIONS,
    UNSIGNED,
    ElementForm,
    distinct,
    stored_elements,
)
from simdb.lsh.symbols import SymbolSets, polynomial_base, secret_words

_WIDEST = 8
_MOST_ELEMENTS = (MAXIMUM_ITEM_BYTES - 1) // _WIDEST  # which fit however wide they are
_FORM = ElementForm("set")


class Set(SymbolKind, frozen=True):
    """Sets of integers, or of strings, compared by Jaccard similarity (MMDS 3.1.1).

    An item is any collection of either: ``{1, 2}``, ``["milk", "bread"]``, an array of integers.
    Its order and its repeats do not count; ``get`` returns a ``frozenset``.
    """

    plural: ClassVar[str] = "sets"
    suffixes: ClassVar[Mapping[str, Format]] = TOKENS
    of_elements: ClassVar[bool] = True
    json_form: ClassVar[str] = "a list"
    probe_option: ClassVar[str] = "--set"
    probe_format: ClassVar[Format | None] = "lines"

    def make_items(self, secret: bytes) -> SetItems:
        """Return what encodes sets and hashes their elements."""
        return SetItems(secret)

    def plain_item(self, item: frozenset[Any]) -> list[Any]:
        """Return the elements in order."""
        return sorted(item)

    def shown_item(self, item: frozenset[Any]) -> str:
        """Return the elements in order, between blanks."""
        return " ".join(map(str, sorted(item)))


class SetItems(Items):
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
        if isinstance(item, PLAIN_COLLECTIONS):
            elements = _FORM.plain(item)
        elif isinstance(item, np.ndarray):
            array = _FORM.sorted_array(item)
            if isinstance(array, np.ndarray):
                return _FORM.stored_array(array[distinct(array)])
            elements = array
        else:
            elements = _FORM.plain(_FORM.require_collection(item))
        ordered = sorted(elements)  # sets come sorted more often than not, which makes this quick
        if len(set(ordered)) < len(ordered):
            ordered = sorted(set(ordered))
        return _FORM.stored(ordered)

    def encode_many(self, items: Sequence[object]) -> list[bytes]:
        """Return the stored forms of many sets; those of Python's integers as one array.

        Raises:
            BadItemError: of a set that ``encode`` refuses.
        """
        stored = stored_integer_sets(items)
        return list(map(self.encode, items)) if stored is None else stored

    def decode(self, data: bytes | memoryview) -> frozenset[int] | frozenset[str]:
        """Return the set of its stored form.

        Raises:
            CorruptionError: it is no stored form of a set.
        """
        try:
            elements = stored_elements(data)
        except (ValueError, struct.error) as error:
            raise CorruptionError(f"a stored set cannot be read: {error}") from error
        return cast("frozenset[int] | frozenset[str]", frozenset(elements))

    def features(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
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


def stored_integer_sets(items: Sequence[object]) -> list[bytes] | None:
    """Return the stored forms of sets, the same as ``SetItems.encode`` one by one.

    Returns:
        None unless all of them are lists, tuples or sets, all their elements Python's own integers
        of 64 bits, and none has so many that it could be refused: then it changes nothing.
    """
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


def _in_order(values: Integers, counts: Integers) -> tuple[Integers, Integers]:
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


def _stored(values: Integers, ends: Integers) -> list[bytes]:
    """Return the stored forms of sets of sorted elements, the first byte of which is the width."""
    starts = np.append(0, ends[:-1])
    widths = np.full(ends.size, _WIDEST)
    filled = ends > starts
    lows, highs = values[starts[filled]], values[ends[filled] - 1]
    for width in sorted(UNSIGNED, reverse=True):
        widths[np.flatnonzero(filled)[(lows >= 0) & (highs < 1 << 8 * width)]] = width
    heads, forms = {}, {}
    for width in np.unique(widths).tolist():
        heads[width] = bytes([width])
        forms[width] = values.astype(INTEGERS[width]).tobytes()
    return [
        heads[width] + forms[width][start * width : end * width] if start < end else b""
        for width, start, end in zip(widths.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]

"""Sets of strings or of integers: their stored form and their elements as 64-bit symbols.

The stored form is that of ``items.elements``: sorted elements without repeats.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import cast

import numpy as np

from simdb import kernels
from simdb.errors import CorruptionError
from simdb.items.elements import PLAIN_COLLECTIONS, ElementForm, distinct, stored_elements
from simdb.items.integer_sets import stored_integer_sets
from simdb.items.symbols import SymbolSets, polynomial_base, secret_words

_FORM = ElementForm("set")


class SetItems:
    """Encode sets and hash their elements under one collection's secret.

    Equal secrets give equal symbols on every machine.

    Attributes:
        width: bytes of every stored set, 0 since they differ.
    """

    width = 0

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

    symbols = features

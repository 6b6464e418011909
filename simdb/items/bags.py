"""Bags of strings or of integers: elements with counts, and their occurrences as 64-bit symbols.

A bag is compared as the set of its occurrences: n of an element are the symbols (element, 1) to
(element, n) (MMDS 3.1.3). The stored form is canonical and compact: sorted elements, then their
counts in the fewest bytes that hold all of them; ``kernels.elements`` has the layout.
"""

from __future__ import annotations

import reprlib
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.errors import BadItemError, CorruptionError
from simdb.items.elements import (
    PLAIN_COLLECTIONS,
    UNSIGNED,
    ElementForm,
    distinct,
    element_count,
    stored_elements,
)
from simdb.items.symbols import SymbolSets, polynomial_base, secret_words

LARGEST_BAG = 1_000_000  # occurrences

_FORM = ElementForm("bag")


class BagItems:
    """Encode bags and hash their occurrences under one collection's secret.

    Equal secrets give equal symbols on every machine; they are not those of sets.

    Attributes:
        width: bytes of every stored bag, 0 since they differ.
    """

    width = 0

    def __init__(self, secret: bytes) -> None:
        words = [int(word) for word in secret_words(secret, b"simdb.bag", 4)]
        self._keys = np.array([words[0], polynomial_base(words[1]), words[2]], np.uint64)
        self._secret = np.uint64(words[3])

    def encode(self, item: object) -> bytes:
        """Return the stored form of a bag: a collection with repeats, or elements with counts.

        A count is a whole number; an element that a mapping counts 0 times is not in the bag, as
        ``Counter`` has it. NumPy's integers and strings are taken as Python's.

        Raises:
            BadItemError: it is neither (texts and iterators are not), an element is neither an
                integer of 64 bits nor a string, there are both, a count is negative or has a
                fraction, or the bag has more than ``LARGEST_BAG`` occurrences or would be longer
                than ``MAXIMUM_ITEM_BYTES``.
        """
        if isinstance(item, np.ndarray):
            _require_few(item.size)
            ordered = _FORM.sorted_array(item)
            if isinstance(ordered, np.ndarray):
                places = np.flatnonzero(distinct(ordered))
                counts = np.diff(places, append=ordered.size)
                return _with_counts(_FORM.stored_array(ordered[places]), counts.tolist())
            return _encode(Counter(ordered))
        if isinstance(item, Mapping):
            return _encode(_counted(item))
        elements = item if isinstance(item, PLAIN_COLLECTIONS) else _FORM.require_collection(item)
        _require_few(len(elements))
        return _encode(Counter(_FORM.plain(elements)))

    def decode(self, data: bytes | memoryview) -> Counter[int] | Counter[str]:
        """Return the bag of its stored form, its elements in order.

        Raises:
            CorruptionError: it is no stored form of a bag.
        """
        try:
            elements, counts = _parts(data)
        except (ValueError, KeyError, IndexError, struct.error) as error:
            raise CorruptionError(f"a stored bag cannot be read: {error}") from error
        bag: Counter[Any] = Counter(dict(zip(elements, counts, strict=True)))
        return cast("Counter[int] | Counter[str]", bag)

    def features(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of stored bags, one an occurrence, without repeats.

        Raises:
            CorruptionError: one of them is no stored form of a bag.
        """
        ends = np.cumsum(np.fromiter(map(len, items), np.int64, len(items)), dtype=np.int64)
        data = np.frombuffer(b"".join(items), np.uint8)
        sets, set_ends, counts, offsets = kernels.elements.bag_parts(data, ends, LARGEST_BAG)
        _require_sound(offsets)
        sets.flags.writeable = False  # as what is read from a store: one form of the next kernel
        elements, found = kernels.elements.element_symbols(sets, set_ends, self._keys)
        _require_sound(found)
        return SymbolSets(
            *kernels.elements.occurrence_symbols(elements, counts, offsets, self._secret)
        )

    symbols = features


def _require_sound(offsets: npt.NDArray[np.int64]) -> None:
    if offsets[0] < 0:
        raise CorruptionError(f"a stored bag, {-1 - offsets[0]} of its batch, cannot be read")


# -- what is taken as a bag ----------------------------------------------------------------------


def _counted(item: Mapping[Any, Any]) -> Counter[Any]:
    """Return a mapping of elements to counts with plain elements and counts above 0."""
    bag: Counter[Any] = Counter()
    for element, count in zip(_FORM.plain(item.keys()), item.values(), strict=True):
        if not isinstance(count, int | np.integer) or isinstance(count, bool):
            raise BadItemError(
                f"the count of {reprlib.repr(element)} must be a whole number, not "
                f"{type(count).__name__} {reprlib.repr(count)}"
            )
        if count < 0:
            raise BadItemError(
                f"the count of {reprlib.repr(element)} must not be negative, but is {count}"
            )
        if count:
            bag[element] += int(count)  # elements of odd classes may become equal
    return bag


def _require_few(total: int) -> None:
    if total > LARGEST_BAG:
        raise BadItemError(
            f"the bag has {total:,} elements, each counted as often as it occurs, more than the "
            f"{LARGEST_BAG:,} of an item; split it, or scale its counts down"
        )


# -- the stored form -----------------------------------------------------------------------------


def _encode(bag: Counter[Any]) -> bytes:
    _require_few(bag.total())
    ordered = sorted(bag)
    return _with_counts(_FORM.stored(ordered), list(map(bag.__getitem__, ordered)))


def _with_counts(elements: bytes, counts: list[int]) -> bytes:
    """Return the stored form of a bag from that of its elements."""
    if not counts:
        return b""
    most = max(counts)
    if most == 1:
        return b"\x00" + elements
    width = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4
    _FORM.require_room(len(counts), 1 + len(elements) + width * len(counts))
    return bytes([width]) + elements + struct.pack(f"<{len(counts)}{UNSIGNED[width]}", *counts)


def _parts(data: bytes | memoryview) -> tuple[list[Any], list[int]]:
    """Return the elements and the counts of a stored bag."""
    if not len(data):
        return [], []
    width = data[0]
    if width == 0:
        elements = stored_elements(data[1:])
        if not 0 < len(elements) <= LARGEST_BAG:
            raise ValueError(f"{len(elements)} elements")
        return elements, [1] * len(elements)
    letter = UNSIGNED[width]
    count, size = element_count(data[1:])
    if size:
        count = (len(data) - 2) // (size + width)
    end = len(data) - count * width
    if end < 1:
        raise ValueError(f"{count} counts in {len(data)} bytes")
    counts = list(struct.unpack_from(f"<{count}{letter}", data, end))
    if not count or 0 in counts or sum(counts) > LARGEST_BAG:
        raise ValueError(f"{sum(counts)} occurrences of {count} elements")
    elements = stored_elements(data[1:end])
    if len(elements) != count:
        raise ValueError(f"{len(elements)} elements with {count} counts")
    return elements, counts

"""Bags of strings or of integers: elements with counts, and their occurrences as 64-bit symbols.

A bag is compared as the set of its occurrences: n of an element are the symbols (element, 1) to
(element, n) (MMDS 3.1.3). The stored form is canonical and compact: sorted elements, then their
counts in the fewest bytes that hold all of them; ``kernels.elements`` has the layout.

The overlap o of two such *expanded* sets of the sizes s and t is the intersection of the bags, each
element counted as often as in the bag that has fewer of it. Then

- with the *larger* count in the union (the footnote of 3.1.3), the similarity of the bags is the
  Jaccard similarity J = o / (s + t - o) of the expanded sets;
- with the *sum* of the counts, it is S = o / (s + t), which is at most 1/2, and
  J = S / (1 - S), S = J / (1 + J). Both grow with each other, so that an index, a plan or a bound
  for J serves S.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from simdb import kernels
from simdb.arguments import is_whole, short
from simdb.arrays import Float64s, Int64s
from simdb.errors import BadItemError, ConfigurationError, CorruptionError
from simdb.evidence import Label
from simdb.exact.thresholds import decimal
from simdb.kinds.base import TOKENS, Examples, Items, SymbolKind, joined, shown
from simdb.kinds.sets import (
    EXAMPLES,
    INTEGERS,
    UNSIGNED,
    ElementForm,
    distinct,
    element_keys,
    require_found,
    stored_elements,
    unsigned_width,
)
from simdb.lsh.curves import Curve, SumCurve
from simdb.lsh.family import SymbolSets, secret_words

LARGEST_BAG = 1_000_000  # occurrences
LARGEST_SUM = Fraction(1, 2)
_LONGEST_FRACTION = 64  # denominators at least double in two steps

_FORM = ElementForm("bag")


class Bag(SymbolKind, frozen=True):
    """Bags of integers, or of strings, compared by Jaccard similarity of bags (MMDS 3.1.3).

    An item is a collection in which elements may occur several times, ``["milk", "milk", "tea"]``,
    or a mapping of elements to counts, ``{"milk": 2, "tea": 1}``, or a list of such pairs; ``get``
    returns a ``Counter``.
    The intersection counts an element as often as the bag with fewer of it has it.

    Attributes:
        union: ``"sum"`` counts an element as often as both bags together have it, so no similarity
            exceeds 1/2; ``"maximum"`` as often as the bag with more of it, so equal bags have
            similarity 1 (the footnote of 3.1.3).
    """

    union: Literal["sum", "maximum"] = "sum"

    plural = "bags"
    suffixes = TOKENS
    of_elements = True
    of_counts = True
    json_form = "a list, or an object or pairs of counts"
    probe_option = "--set"
    probe_format = "lines"
    in_the_name = ("union",)

    @classmethod
    def examples(cls) -> tuple[Examples, ...]:
        items = [Counter([*basket.split(), basket.split()[0]]) for basket in EXAMPLES]
        near = [item + Counter(["bag"]) for item in items]
        invalid = (None, 3.5, "tea", {"a": -1}, {"a": 0.5}, [1, "a"])
        return (
            Examples(cls("sum"), "0.4", items, near, invalid),
            Examples(cls("maximum"), "0.8", items, near, invalid),
        )

    def make_items(self, secret: bytes) -> BagItems:
        return BagItems(secret)

    def inner_similarity(self, similarity: Fraction) -> Fraction:
        return jaccard_of_sum(similarity) if self.union == "sum" else similarity

    def outer_similarity(self, similarity: Fraction) -> Fraction:
        return sum_of_jaccard(similarity) if self.union == "sum" else similarity

    def outer_values(self, values: Float64s) -> Float64s:
        return sums_of_jaccards(values) if self.union == "sum" else values

    def outer_curve(self, curve: Curve) -> Curve:
        return SumCurve() if self.union == "sum" else curve

    def plain_item(self, item: Counter[Any]) -> list[Any]:
        return sorted(item.elements())

    def shown_item(self, item: Counter[Any]) -> str:
        return " ".join(
            f"{element} x{count}" if count > 1 else f"{element}"
            for element, count in sorted(item.items())
        )


def jaccard_of_sum(similarity: Fraction) -> Fraction:
    """Return the Jaccard similarity of the expanded sets, S / (1 - S), for a sum similarity S.

    Exact, and the inverse of ``sum_of_jaccard``; ConfigurationError unless S is from 0 to 1/2,
    beyond which no two bags are similar.

    >>> jaccard_of_sum(Fraction(1, 3))
    Fraction(1, 2)
    """
    if not 0 <= similarity <= LARGEST_SUM:
        raise ConfigurationError(
            "with union='sum' the similarity of bags lies between 0 and 1/2, so the bound cannot "
            f"be {decimal(similarity)}: equal bags have 1/2; with union='maximum' they have 1"
        )
    return similarity / (1 - similarity)


def sum_of_jaccard(similarity: Fraction) -> Fraction:
    """Return the sum similarity J / (1 + J) for a Jaccard similarity J of the expanded sets.

    >>> sum_of_jaccard(Fraction(1))
    Fraction(1, 2)
    """
    return similarity / (1 + similarity)


def sums_of_jaccards(values: Float64s) -> Float64s:
    """Return ``sum_of_jaccard`` of quotients of bags that were rounded, each rounded once again.

    J / (1 + J) of the rounded J may be off by its last bit, 5/12 be 0.41666666666666663. But a
    quotient o / u of bags has u of at most ``2 * LARGEST_BAG`` and differs from others by 1 / u^2
    or more: of its continued fraction the first convergent that rounds to the value is it.
    """
    sums = values / (1 + values)
    places = np.arange(values.size)
    before, present = np.zeros((2, values.size)), np.zeros((2, values.size))
    before[1], present[0] = 1, 1  # numerators and denominators of the last two convergents
    rest = values
    for _ in range(_LONGEST_FRACTION):
        whole = np.floor(rest)
        before, present = present, whole * present + before
        found = present[0] / present[1] == values[places]
        sums[places[found]] = (present[0] / (present[0] + present[1]))[found]
        left = ~found & (present[1] <= 2 * LARGEST_BAG)
        if not left.any():
            break
        places, before, present = places[left], before[:, left], present[:, left]
        rest = 1 / (rest[left] - whole[left])
    return sums


class BagItems(Items):
    """Encode bags and hash their occurrences under one collection's secret.

    Equal secrets give equal symbols on every machine; they are not those of sets. NumPy's integers
    and strings are taken as Python's; an element that a mapping counts 0 times is not in the bag,
    as ``Counter`` has it.
    """

    expands = True

    def __init__(self, secret: bytes) -> None:
        words = secret_words(secret, b"simdb.bag", 4)
        self._keys = element_keys(words)
        self._secret = words[3]

    def encode(self, item: object) -> bytes:
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
        elements = _FORM.require_collection(item)
        if _are_pairs(elements):  # as a map of a table is in a frame of pandas
            return _encode(_counted(_mapping(elements)))
        _require_few(len(elements))
        return _encode(Counter(_FORM.plain(elements)))

    def decode(self, data: bytes | memoryview) -> Counter[Any]:
        try:
            return Counter(dict(zip(*_parts(data), strict=True)))
        except (ValueError, KeyError, IndexError, struct.error) as error:
            raise CorruptionError(f"a stored bag cannot be read: {error}") from error

    def weights(self, items: Sequence[bytes | memoryview]) -> Int64s:
        """Return the occurrences of each bag, or its bytes where they are more."""
        lengths = super().weights(items)
        if not any(len(item) and item[0] for item in items):  # no count is above 1
            return lengths
        data, bounds = joined(items)
        _, _, counts, offsets = kernels.elements.bag_parts(data, bounds[1:], LARGEST_BAG)
        if offsets[0] < 0:  # one cannot be read, which features will say
            return lengths
        return np.maximum(lengths, np.diff(np.append(0, np.cumsum(counts))[offsets]))

    def features(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        data, bounds = joined(items)
        parts = kernels.elements.bag_parts(data, bounds[1:], LARGEST_BAG)
        sets, set_ends, counts, offsets = parts
        require_found(offsets, "bag")
        elements, found = kernels.elements.element_symbols(sets, set_ends, self._keys)
        require_found(found, "bag")
        return SymbolSets(
            *kernels.elements.occurrence_symbols(elements, counts, offsets, self._secret)
        )

    def labels(self, item: bytes | memoryview) -> list[Label]:
        return [
            Label(element)
            for element, count in zip(*_parts(item), strict=True)
            for _ in range(count)
        ]


# -- what is taken as a bag, and its stored form -------------------------------------------------


def _are_pairs(item: Collection[Any]) -> bool:
    """Whether something holds elements with their counts; no element is a list or a tuple."""
    return (
        isinstance(item, list | tuple)
        and bool(item)
        and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in item)
    )


def _mapping(pairs: Collection[Any]) -> dict[Any, Any]:
    counts: dict[Any, Any] = {}
    elements = _FORM.plain([element for element, _ in pairs])
    for element, (_, count) in zip(elements, pairs, strict=True):
        if element in counts:
            raise BadItemError(f"the element {short(element)} has two counts: add them up")
        counts[element] = count
    return counts


def _counted(item: Mapping[Any, Any]) -> Counter[Any]:
    """Return a mapping of elements to counts with plain elements and counts above 0."""
    bag: Counter[Any] = Counter()
    for element, count in zip(_FORM.plain(item.keys()), item.values(), strict=True):
        if not is_whole(count):
            raise BadItemError(
                f"the count of {short(element)} must be a whole number, not {shown(count)}"
            )
        if count < 0:
            raise BadItemError(
                f"the count of {short(element)} must not be negative, but is {short(count)}"
            )
        if count:
            bag[element] += int(count)  # elements of odd classes may become equal
    return bag


def _require_few(total: int) -> None:
    if total > LARGEST_BAG:
        raise BadItemError(
            f"the bag has {total:,} elements, repetitions included, more than the "
            f"{LARGEST_BAG:,} that an item may have; split it, or scale its counts down"
        )


def _encode(bag: Counter[Any]) -> bytes:
    _require_few(bag.total())
    ordered = sorted(bag)
    return _with_counts(_FORM.stored(ordered), list(map(bag.__getitem__, ordered)))


def _with_counts(elements: bytes, counts: list[int]) -> bytes:
    if not counts:
        return b""
    most = max(counts)
    if most == 1:
        return b"\x00" + elements
    width = unsigned_width(most)
    _FORM.require_room(len(counts), 1 + len(elements) + width * len(counts))
    return bytes([width]) + elements + struct.pack(f"<{len(counts)}{UNSIGNED[width]}", *counts)


def _parts(data: bytes | memoryview) -> tuple[list[Any], list[int]]:
    if not len(data):
        return [], []
    width = data[0]
    if width == 0:
        elements = stored_elements(data[1:])
        if not 0 < len(elements) <= LARGEST_BAG:
            raise ValueError(f"{len(elements)} elements")
        return elements, [1] * len(elements)
    letter, form = UNSIGNED[width], data[1]
    if form in INTEGERS:  # as many as fit, each with its count
        count = (len(data) - 2) // (form + width)
    else:
        (count,) = struct.unpack_from("<I", data, 2)
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

"""Where rows and stored items stand in the order of a policy of dedupe."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from simdb.arrays import Bools, Int64s, UInt32s
from simdb.errors import BadItemError
from simdb.ingest.rows import RowBatch
from simdb.kinds import Items
from simdb.opened.opened import Opened
from simdb.policies import Place, Policy
from simdb.results import Entry, Key
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Document, decode_user_key

_WHOLE = 2**53  # up to which a float is any whole number


class ItemNumbers:
    """A set of item numbers: a bitmap that grows."""

    def __init__(self) -> None:
        self._bits = np.zeros(0, np.uint8)

    def add(self, numbers: Sequence[int]) -> None:
        """Note numbers."""
        noted = np.array(numbers, np.int64)
        needed = int(noted.max(initial=-1) >> 3) + 1
        if needed > self._bits.size:
            self._bits = np.append(self._bits, np.zeros(needed + needed // 8, np.uint8))
        np.bitwise_or.at(self._bits, noted >> 3, (1 << (noted & 7)).astype(np.uint8))

    def with_more(self, numbers: Sequence[int]) -> ItemNumbers:
        """Return a set of these numbers and of others."""
        more = ItemNumbers()
        more._bits = self._bits.copy()
        more.add(numbers)
        return more

    def __contains__(self, number: int) -> bool:
        """Return whether a number was added."""
        byte = number >> 3
        return byte < self._bits.size and bool(self._bits[byte] & (1 << (number & 7)))

    def among(self, numbers: Int64s | UInt32s) -> Bools:
        """Return which numbers were added."""
        found = numbers >> 3 < self._bits.size
        there = numbers[found]
        found[found] = self._bits[there >> 3] & (1 << (there & 7)) != 0
        return found


class _Places:
    """Where rows stand, by their positions: as columns of numbers while all that tells is such."""

    def __init__(self) -> None:
        self._heads: list[array[int]] = []  # of each term; those it cannot place are behind others
        self._values: list[array[float]] = []  # of each term; nan where there is none
        self._others: list[Place] | None = None  # all, once one has another value

    def append(self, place: Place) -> None:
        """Add the place of the next row."""
        if self._others is None and not all(map(_is_number, place)):
            self._others = [self[row] for row in range(len(self))]
        if self._others is not None:
            self._others.append(place)
            return
        if not self._heads:
            self._heads = [array("i") for _ in place]
            self._values = [array("d") for _ in place]
        for part, heads, values in zip(place, self._heads, self._values, strict=True):
            heads.append(part[0])
            values.append(part[1] if len(part) > 1 else math.nan)

    def __len__(self) -> int:
        if self._others is not None:
            return len(self._others)
        return len(self._heads[0]) if self._heads else 0

    def __getitem__(self, row: int) -> Place:
        if self._others is not None:
            return self._others[row]
        return tuple(
            (heads[row],) if math.isnan(values[row]) else (heads[row], values[row])
            for heads, values in zip(self._heads, self._values, strict=True)
        )

    def sequence(self, order: Policy) -> Int64s:
        """Return the positions of all rows, the first of the order first."""
        if self._others is not None:
            return np.array(order.order(self._others), np.int64)
        keys = [
            np.asarray(column)
            for heads, values in zip(self._heads, self._values, strict=True)
            for column in (heads, values)
        ]
        return np.lexsort(keys[::-1]) if keys else np.zeros(0, np.int64)


def _is_number(part: Place) -> bool:
    """Whether a part of a place is told by a number that a float holds."""
    value = part[-1]
    return type(value) is float or (type(value) in (int, bool) and abs(value) <= _WHOLE)


class Standing:
    """Where rows and stored items stand in the order of a policy.

    Args:
        order: the policy.
        skip_bad: what a term cannot place comes last by it; else it is an error.
    """

    def __init__(self, order: Policy, *, skip_bad: bool) -> None:
        self.order = order
        self._skip_bad = skip_bad
        self._places = _Places()  # of the rows of the input
        self._lacking = set(order.fields or ())  # fields that no row has had yet
        self._placed = False
        self._stored: dict[int, Place] = {}  # of stored items that were asked for

    def note(self, batch: RowBatch, items: Items) -> None:
        """Place the next rows of the input, the bad ones last. BadItemError: one has no place."""
        placed = {row: self.order.last for row, _, _ in batch.bad}
        columns = zip(batch.rows, batch.user_keys, batch.items, batch.metadata, strict=True)
        for row, key, item, metadata in columns:
            try:
                placed[row] = self.place(key, items.decode(item), metadata)
            except BadItemError as error:
                raise BadItemError(f"row {row}: {error.problem}", row=row) from error.__cause__
        for row in sorted(placed):
            self._places.append(placed[row])

    def stand(self, number: int, position: int) -> None:
        """Let a stored item stand where the row stands that is this item."""
        self._stored[number] = self._places[position]

    def stay(self, number: int) -> None:
        """Let a stored item stand before all rows."""
        self._stored[number] = ()

    def place(self, key: Key, item: Any, metadata: Any, *, skip_bad: bool = False) -> Place:
        """Place an item by itself; last, if the policy fails for it and that is to be skipped."""
        row = Entry(key, item, layout.unpack(metadata) if len(metadata) else None)
        self._placed = True
        if self._lacking:
            self._lacking -= self.order.fields_of(row)
        return self.order.place(row, skip_bad=skip_bad or self._skip_bad)

    def lacking(self) -> tuple[str, ...]:
        """Return the fields of the policy that no row had of those placed; nothing of no rows."""
        return tuple(sorted(self._lacking)) if self._placed else ()

    def place_of(self, document: Document, items: Items, *, skip_bad: bool = False) -> Place:
        """Place a stored item, as ``place`` does."""
        item = items.decode(document.item)
        key = decode_user_key(document.key)
        return self.place(key, item, document.metadata, skip_bad=skip_bad)

    def sequence(self) -> Int64s:
        """Return the positions of all rows, the first of the order first."""
        return self._places.sequence(self.order)

    def before(self, opened: Opened, rows: Int64s, numbers: UInt32s) -> Bools:
        """Return which stored items come before which rows, given by their positions.

        Batches were stored before: an item for which the policy fails, or whose values cannot be
        compared with those of the row, ends nothing, and comes last.
        """
        wanted = np.unique(numbers)
        unknown = np.array([n for n in wanted.tolist() if n not in self._stored], np.uint32)
        for position, document in opened.reader.documents_of(unknown):
            place = self.place_of(document, opened.signer.items, skip_bad=True)
            self._stored[int(unknown[position])] = place
        stored, places = self._stored, self._places
        is_before = (
            number in stored and self.order.is_before(stored[number], places[row])
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)
        )
        return np.fromiter(is_before, np.bool_, rows.size)

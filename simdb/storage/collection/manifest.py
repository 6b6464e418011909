"""The state of a collection and of its indexes: the small record that every commit changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from simdb.errors import CorruptionError
from simdb.storage.tables import values
from simdb.storage.tables.blocks import Tail
from simdb.storage.tables.epochs import ExactState
from simdb.storage.tables.runs import RunDirectory

LARGEST_WIDTH = 2**30  # bytes of an item; far past any kind's


@dataclass(slots=True)
class IndexState:
    """What an index knows of itself; a rebuild makes a second one beside the first.

    Attributes:
        number: owner of its signatures and bucket runs.
        signature_width: bytes of a signature; 0 without a probable index.
        bands: runs of bucket keys.
        signature_tail: small blocks of signatures at the end.
        entries_per_item: bucket keys of an item.
        exact: the exact index, if there is one.
    """

    number: int
    signature_width: int
    entries_per_item: int
    bands: RunDirectory = field(default_factory=RunDirectory)
    signature_tail: Tail = field(default_factory=Tail)
    exact: ExactState | None = None

    @property
    def owners(self) -> list[int]:
        """Its own number and those of the epochs of its exact index."""
        return [self.number] if self.exact is None else [self.number, *self.exact.owners]

    def encode(self) -> list[Any]:
        """Return it as plain lists."""
        return [
            self.number,
            self.signature_width,
            self.entries_per_item,
            self.bands.encode(),
            self.signature_tail.blocks,
            None if self.exact is None else self.exact.encode(),
        ]

    @classmethod
    def decode(cls, stored: list[Any]) -> IndexState:
        """Return what ``encode`` stored."""
        number, width, entries, bands, tail, exact = stored
        return cls(
            number,
            width,
            entries,
            RunDirectory.decode(bands),
            Tail.decode(tail),
            None if exact is None else ExactState.decode(exact),
        )


@dataclass(slots=True)
class CollectionState:
    """What changes with every commit of a collection; one small record.

    Attributes:
        next_number: the item number that the next item gets.
        live: items stored.
        marked: deletion marks set.
        item_bytes: bytes of all live items in canonical form.
        changes: counts commits that changed this collection.
        index: the index in use.
        document_tail: small blocks of documents at the end.
        item_width: bytes of every item, where all have as many: they lie in blocks of their own,
            one after the other, and documents are without them; else 0.
        item_tail: small blocks of items at the end.
    """

    next_number: int
    live: int
    marked: int
    item_bytes: int
    changes: int
    index: IndexState
    document_tail: Tail = field(default_factory=Tail)
    item_width: int = 0
    item_tail: Tail = field(default_factory=Tail)

    def encode(self) -> bytes:
        """Return the payload of the state record."""
        return values.pack(
            [
                self.next_number,
                self.live,
                self.marked,
                self.item_bytes,
                self.changes,
                self.index.encode(),
                self.document_tail.blocks,
                self.item_width,
                self.item_tail.blocks,
            ]
        )

    @classmethod
    def decode(cls, payload: memoryview) -> CollectionState:
        """Return what ``encode`` stored."""
        stored = values.unpack(payload)
        try:
            stored[5:7] = IndexState.decode(stored[5]), Tail.decode(stored[6])
            stored[8] = Tail.decode(stored[8])
            return cls(*stored).within_bounds()
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise CorruptionError(f"the state of a collection cannot be read: {error}") from error

    def within_bounds(self) -> Self:
        """Return the state itself if its numbers can be those of one.

        Raises:
            ValueError: one cannot.
        """
        counts = self.next_number, self.live, self.marked, self.item_bytes, self.changes
        if min(counts) < 0 or not 0 <= self.item_width <= LARGEST_WIDTH:
            raise ValueError(f"counts {counts}, items of {self.item_width} bytes")
        return self

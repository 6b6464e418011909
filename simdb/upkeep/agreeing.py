"""Pairs of stored items compared field by field: on which level each field agrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.answers.choose import require_alike
from simdb.answers.method import ProgressCallback
from simdb.arrays import Int64s, UInt32s, UInt64s
from simdb.kinds.base import Agreement, FieldAgreement
from simdb.opened.opened import Opened
from simdb.results import Progress
from simdb.upkeep.calibrate import Sides, items_of

COMPARED_AT_ONCE = 65_536  # pairs; so many items are held, too


def agreement_of(sides: Sides) -> Agreement:
    """Return how items of the collections agree; ConfigurationError: they have no fields."""
    require_alike(sides.left.settings, sides.right.settings)
    return sides.right.settings.kind.agreement(sides.right.signer.family)


def candidates(
    sides: Sides, progress: ProgressCallback | None, *, since: int = 0
) -> Iterator[tuple[UInt32s, UInt32s]]:
    """Yield what the rules propose; of one collection, pairs of later items."""
    for pairs in sides.candidates(since=since):
        yield pairs
        if progress is not None:
            progress(Progress("comparing", sides.right.work.looked_at, None))


class Part(NamedTuple):
    """Some pairs of items by number, compared field by field."""

    left: UInt32s
    right: UInt32s
    fields: list[FieldAgreement]
    rules: UInt64s  # which propose each pair, a bit for each; empty if nobody asked

    @property
    def codes(self) -> npt.NDArray[np.int16]:
        """The level of each pair (rows) in each field."""
        return np.column_stack([one.codes.astype(np.int16) for one in self.fields])


class Compared:
    """Items of two collections, or of one, as their fields are compared.

    Args:
        held: most items are needed, again and again: those of a side are read once, unless there
            are many.
    """

    def __init__(self, sides: Sides, *, held: bool = False) -> None:
        self.agreement = agreement = agreement_of(sides)
        self._lefts = _Items(sides, sides.left, agreement, held=held)
        self._rights = self._lefts
        if not sides.is_one:
            self._rights = _Items(sides, sides.right, agreement, held=held)

    def parts(
        self, pairs: Iterator[tuple[UInt32s, UInt32s]], *, with_rules: bool = False
    ) -> Iterator[Part]:
        """Compare pairs of items by number, in parts of their order."""
        rules = np.empty(0, np.uint64)
        for left, right in pairs:
            for begin in range(0, left.size, COMPARED_AT_ONCE):
                own = slice(begin, begin + COMPARED_AT_ONCE)
                ones, rows = self._lefts.at(left[own])
                others, columns = self._rights.at(right[own])
                agreed = self.agreement.fields(ones, others, rows, columns)
                if with_rules:
                    keys = self._lefts.keys(ones), self._rights.keys(others)
                    rules = self.agreement.proposed(*keys, rows, columns)
                yield Part(left[own], right[own], agreed, rules)

    def drawn(self, generator: np.random.Generator, count: int) -> list[tuple[Any, Int64s]]:
        """Draw items of each side; return features, and the places of the drawn among them."""
        sides = [self._lefts] if self._lefts is self._rights else [self._lefts, self._rights]
        return [side.drawn(generator, count) for side in sides]


class _Items:
    """Items of one collection; the signer of the right one makes features of both."""

    def __init__(self, sides: Sides, side: Opened, agreement: Agreement, *, held: bool) -> None:
        self._signer, self._reader, self._agreement = sides.right.signer, side.reader, agreement
        self._held: tuple[UInt32s, Any] | None = None
        self._keys: UInt64s | None = None
        if held and side.reader.manifest.live <= COMPARED_AT_ONCE:
            numbers = side.reader.live_numbers()
            self._held = numbers, self._features(numbers)

    def at(self, numbers: UInt32s) -> tuple[Any, Int64s]:
        """Return features of items, and the place of each number among them."""
        if self._held is None:
            known, places = np.unique(numbers, return_inverse=True)
            return self._features(known), places.reshape(-1)
        known, features = self._held
        return features, np.searchsorted(known, numbers)

    def keys(self, features: Any) -> UInt64s:
        """Return the bucket keys of features that ``at`` has returned."""
        if self._held is None:
            return self._agreement.keys(features)
        if self._keys is None:
            self._keys = self._agreement.keys(features)
        return self._keys

    def drawn(self, generator: np.random.Generator, count: int) -> tuple[Any, Int64s]:
        """Draw items."""
        numbers = self._reader.live_numbers()
        drawn = generator.choice(numbers, min(numbers.size, count), replace=False)
        return self.at(np.sort(drawn))

    def _features(self, numbers: UInt32s) -> Any:
        return self._signer.features(items_of(self._reader, numbers))

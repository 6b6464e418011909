"""How many pairs of a score are true matches, measured on what a collection holds (MMDS 3.8.3).

The candidates of the probable index are scored and put into buckets by their score; of each bucket
only sums are kept, so that memory does not grow with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.answers.buckets import Buckets
from simdb.answers.choose import require_alike
from simdb.answers.compare import read_items
from simdb.answers.method import outer_pairs
from simdb.errors import ConfigurationError, KeyNotFoundError
from simdb.exact.thresholds import Bound
from simdb.kinds.bounds import bound_of, outer_bound
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Opened
from simdb.opened.signer import Signer
from simdb.results import PairBatch
from simdb.storage.collection.reader import CollectionReader
from simdb.upkeep.calibration import Calibration, Mean, Sums, calibrate_sums, require_edges

Floats: TypeAlias = npt.NDArray[np.float64]
# The difference of two items, as they were given; None where it is unknown.
Difference: TypeAlias = Callable[[Any, Any], float | None]

READ_AT_ONCE = 8_192  # pairs
STEPS = tuple(Fraction(step, 20) for step in range(1, 21))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be calibrated.

    Attributes:
        edges: of the buckets of scores, ascending; None for 0.05 apart from the bound on.
        certain: the score from which on pairs surely match.
        matched: the mean difference of true matches; None to measure it on those pairs.
        random: that of random pairs; None to measure it on a sample.
        sample: how many random pairs.
        seed: of the sample.
        confidence: of the intervals.
    """

    edges: Sequence[float] | None
    certain: float
    matched: float | None
    random: float | None
    sample: int
    seed: int
    confidence: float


class Sides(NamedTuple):
    """The collections of the left items and of the right ones.

    Both are the same object for pairs within one collection.
    """

    left: Opened
    right: Opened

    @property
    def settings(self) -> CollectionSettings:
        """Of the collection whose index proposes the pairs."""
        return self.right.settings

    @property
    def is_one(self) -> bool:
        """Whether the pairs are those of one collection."""
        return self.left is self.right

    def pairs(self, bound: Bound) -> Iterator[PairBatch]:
        """Yield the candidates of the probable index within a bound."""
        method = Buckets(bound)
        found = method.pairs(self.right) if self.is_one else method.join(self.left, self.right)
        return (batch for batch, _ in found)


class Comparer:
    """Computes the differences of pairs of stored items in what is not scored.

    Args:
        sides: of the pairs.
        field: the name of a field of records, or a function of two items.

    Raises:
        ConfigurationError: the field is scored, or names candidates, or there is no such field.
    """

    def __init__(self, sides: Sides, field: str | Difference) -> None:
        self._sides = sides
        self._between: Callable[[Sequence[bytes], Sequence[bytes]], Floats]
        if isinstance(field, str):
            self._between = sides.settings.kind.field_differences(field)
        else:
            self._between = _called(sides.right.signer, field)

    def differences(
        self, left: npt.NDArray[np.uint32], right: npt.NDArray[np.uint32]
    ) -> Iterator[tuple[slice, Floats]]:
        """Yield the differences of items ``left[i]`` and ``right[i]`` in parts; nan is unknown."""
        for begin in range(0, left.size, READ_AT_ONCE):
            part = slice(begin, begin + READ_AT_ONCE)
            yield (
                part,
                self._between(
                    _read(self._sides.left.reader, left[part]),
                    _read(self._sides.right.reader, right[part]),
                ),
            )

    def drawn(
        self, generator: np.random.Generator, count: int
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the numbers of pairs drawn at random, never an item with itself."""
        lefts, rights = (
            self._sides.left.reader.live_numbers(),
            self._sides.right.reader.live_numbers(),
        )
        if lefts.size < 1 + self._sides.is_one or not rights.size:
            return np.empty(0, np.uint32), np.empty(0, np.uint32)
        left = generator.integers(lefts.size, size=count)
        if self._sides.is_one:
            right = (left + generator.integers(1, lefts.size, size=count)) % lefts.size
        else:
            right = generator.integers(rights.size, size=count)
        return lefts[left], rights[right]


def calibrate(
    sides: Sides, field: str | Difference, asked: Bound | None, wanted: Wanted
) -> Calibration:
    """Estimate the fraction of true matches among the pairs of each score.

    Args:
        sides: whose pairs.
        field: what is not scored.
        asked: the least score; None is that of the collection.
        wanted: the rest.

    Raises:
        ConfigurationError: the collection measures distances or has no probable index; no pair is
            certain; or nothing is known of random pairs.
    """
    settings = sides.settings
    require_alike(sides.left.settings, settings)
    if settings.kind.is_distance or not settings.is_probable:
        raise ConfigurationError(
            f"collection {settings.name!r} has no probable index of similarities, which proposes "
            "the pairs to calibrate by"
        )
    bound = asked or bound_of(settings.kind, settings.threshold)
    edges = require_edges(_edges(settings, bound) if wanted.edges is None else wanted.edges)
    comparer = Comparer(sides, field)
    sums = [Sums()] * (edges.size - 1)
    surely = Sums()
    for inner in sides.pairs(bound):
        batch = outer_pairs(settings.kind, inner)
        for part, apart in comparer.differences(batch.left, batch.right):
            scores = batch.similarity[part]
            places = np.searchsorted(edges, scores, side="right") - 1
            places[scores == edges[-1]] = edges.size - 2
            for place in np.unique(places[(places >= 0) & (places < edges.size - 1)]).tolist():
                sums[place] = sums[place].plus(Sums.of(apart[places == place]))
            surely = surely.plus(Sums.of(apart[scores >= wanted.certain]))
    if wanted.matched is None and not surely.count:
        raise ConfigurationError(
            f"no pair with a known difference has a score of {wanted.certain:g}: give certain=, "
            "a lower score from which on pairs surely match, or matched=, their mean difference"
        )
    matched = surely.mean if wanted.matched is None else Mean(wanted.matched)
    random = _random_mean(comparer, wanted) if wanted.random is None else Mean(wanted.random)
    return calibrate_sums(edges, sums, matched=matched, random=random, confidence=wanted.confidence)


def _edges(settings: CollectionSettings, bound: Bound) -> list[float]:
    """Return the least score, and what is above it of 0.05, 0.1 and so on up to 1."""
    least = outer_bound(settings.kind, bound).fraction
    return list(map(float, (least, *(step for step in STEPS if step > least))))


def _random_mean(comparer: Comparer, wanted: Wanted) -> Mean:
    """Return the mean difference of pairs drawn at random, never an item with itself."""
    generator = np.random.default_rng(wanted.seed)
    left, right = comparer.drawn(generator, wanted.sample)
    sums = Sums()
    for _, apart in comparer.differences(left, right):
        sums = sums.plus(Sums.of(apart))
    if not sums.count:
        raise ConfigurationError(
            "no random pair has a known difference: give random=, their mean difference"
        )
    return sums.mean


def _read(collection: CollectionReader, numbers: npt.NDArray[np.uint32]) -> list[bytes]:
    """Return the items of numbers in any order."""
    distinct, places = np.unique(numbers, return_inverse=True)
    positions, items = read_items(collection, distinct)
    if positions.size < distinct.size:
        raise KeyNotFoundError("an item of a pair is not stored (any more)")
    return [bytes(items[place]) for place in places.tolist()]


def _called(
    signer: Signer, difference: Difference
) -> Callable[[Sequence[bytes], Sequence[bytes]], Floats]:
    """Return what calls a function with two items as they were given."""
    decode = signer.items.decode

    def between(left: Sequence[bytes], right: Sequence[bytes]) -> Floats:
        values = (
            difference(decode(one), decode(other)) for one, other in zip(left, right, strict=True)
        )
        return np.array([np.nan if value is None else value for value in values], np.float64)

    return between

"""Candidates that miss nothing, by the postings of prefixes (MMDS 3.9.4 to 3.9.6).

A posting has the size of its set, the position of the symbol in it, and a bitmap of the set: so
nearly all that cannot be similar is dropped where postings meet, before it is sent anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simdb import kernels
from simdb.arguments import short
from simdb.arrays import UInt64s
from simdb.errors import UsageError, WrongTypeError
from simdb.exact.joins import SCANNED_AT_ONCE
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Threshold
from simdb.late import cached_property
from simdb.ragged import slices_of
from simdb.recipe import Recipe, require_recipe
from simdb.steps.schemas import PAIRS, POSTINGS, SYMBOLS
from simdb.steps.signing import require_served, signer_of, threshold_of
from simdb.steps.streams import (
    bytes_in,
    numbers_of,
    record_batches,
    starts_of,
    whole_groups,
)

SLICE = 2**20  # bytes of items
ROOM = 65_536  # candidates


@dataclass(frozen=True, slots=False)
class Ordered:
    """A recipe with an order of symbols, rarest first: what exact steps take in its place.

    Attributes:
        frequent: of a sample, the symbols that are not rare, the least frequent first.
    """

    recipe: Recipe
    frequent: UInt64s

    @cached_property
    def order(self) -> SymbolOrder:
        """The order of all symbols."""
        return SymbolOrder(self.frequent)


def sample(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """``ITEMS``, some of all -> ``SYMBOLS``: the symbols of each, once an item."""
    require_served(recipe, exact=True)
    for batch in record_batches(batches):
        symbols = signer_of(recipe).symbols(bytes_in(batch, "item").to_pylist())
        arranged = SymbolOrder().arrange(symbols.values, symbols.offsets)
        yield SYMBOLS.batch(arranged.values.view(np.int64))


def order_of(recipe: Recipe, symbols: Any) -> Ordered:
    """Make an order of the symbols of a sample, an int64 array.

    Any order gives right answers; with rare symbols first few postings meet. WrongTypeError: they
    are no array of whole numbers.
    """
    given = np.asarray(symbols)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise WrongTypeError(f"symbols must be an array of whole numbers, not {short(symbols)}")
    found = given.astype(np.int64, copy=False).view(np.uint64)
    return Ordered(require_recipe(recipe), SymbolOrder.from_sample(found).frequent)


def post(ordered: Ordered, batches: Iterable[Any]) -> Iterator[Any]:
    """``ITEMS`` -> ``POSTINGS`` of the prefix of each."""
    recipe = _require_ordered(ordered).recipe
    require_served(recipe, exact=True)
    threshold, forms = threshold_of(recipe), signer_of(recipe).items
    for batch in record_batches(batches):
        whole, numbers = bytes_in(batch, "item").to_pylist(), numbers_of(batch, "number")
        for part in slices_of(forms.weights(whole), SLICE) if whole else ():
            symbols = signer_of(recipe).symbols(whole[part])
            sets = ordered.order.arrange(symbols.values, symbols.offsets)
            sizes = sets.sizes
            prefixes = sets.first(threshold.prefix_lengths(sizes))
            rows = np.repeat(np.arange(len(sets)), prefixes.sizes)
            position = np.arange(rows.size) - prefixes.offsets[:-1][rows] + 1
            _, bitmaps = kernels.order.identical_representatives(sets.values, sets.offsets)
            yield POSTINGS.batch(
                np.ascontiguousarray(prefixes.values).view(np.int64),
                numbers[part][rows],
                position.astype(np.int32),
                sizes[rows].astype(np.int32),
                bitmaps[rows].view(np.int64),
            )


def meet_posted(
    ordered: Ordered, batches: Iterable[Any], *, boundary: int | None = None
) -> Iterator[Any]:
    """``POSTINGS`` sorted by key, size and number -> ``PAIRS``, repeats possible.

    ``boundary`` is as for ``meet``.
    """
    threshold = threshold_of(_require_ordered(ordered).recipe)
    for piece in whole_groups(batches, "key"):
        for left, right in _met(threshold, piece):
            one, other = np.minimum(left, right), np.maximum(left, right)
            if boundary is not None:
                both = (one < boundary) & (other >= boundary)
                one, other = one[both], other[both]
            if one.size:
                yield PAIRS.batch(one, other)


def _require_ordered(given: object) -> Ordered:
    if not isinstance(given, Ordered):
        raise WrongTypeError(
            f"this step takes an Ordered, as order_of makes it, not {type(given).__name__}"
        )
    return given


def _met(threshold: Threshold, piece: Any) -> Iterator[tuple[Any, Any]]:
    postings = kernels.postings
    runs = np.diff(starts_of(numbers_of(piece, "key")))
    several = np.repeat(runs > 1, runs)
    if not several.any():
        return
    number, position, size, bitmap = (
        numbers_of(piece, name)[several] for name in ("number", "position", "size", "bitmap")
    )
    if (position < 1).any() or (position > size).any():  # which the kernel would read beyond
        raise UsageError("a posting has a 'position' that is not from 1 to its 'size'")
    starts = np.append(0, np.cumsum(runs[runs > 1]))
    # The kernel wants the sets of a piece numbered by rising size, and rising in each run.
    order = np.lexsort((number, size))
    begins = np.append(True, number[order][1:] != number[order][:-1])
    rank = np.empty(number.size, np.uint32)
    rank[order] = np.cumsum(begins) - 1
    falls = rank[1:] < rank[:-1]
    falls[starts[1:-1] - 1] = False
    if falls.any():
        raise UsageError("the rows of a task are not sorted by 'key', 'size' and 'number'")
    firsts = order[begins]
    unsigned = position.astype(np.uint32), (size - position).astype(np.uint32)
    right = postings.Postings(starts, rank, *unsigned)
    shorter = position <= threshold.posted_prefix_lengths(size)
    counts = np.add.reduceat(shorter.astype(np.int64), starts[:-1])
    columns = (column[shorter] for column in right[1:])
    left = postings.Postings(np.append(0, np.cumsum(counts)), *columns)
    largest = int(size.max())
    needed = threshold.needed_overlap_table(2 * largest)
    minimum = threshold.minimum_sizes(np.arange(largest + 1))
    own_number, own_size = number[firsts], size[firsts].astype(np.int64)
    own_bits = bitmap[firsts].view(np.uint64)
    state, stop = postings.bucket_state(left, right), starts.size - 1
    counters = np.zeros(4, np.int64)
    found = postings.Candidates(*(np.empty(ROOM, np.uint32) for _ in range(4)))
    while state[0] < stop:
        count = postings.bucket_candidates(
            left,
            right,
            needed=needed,
            minimum=minimum,
            same=True,
            bounded=True,
            stop=stop,
            most=SCANNED_AT_ONCE,
            state=state,
            found=found,
            counters=counters,
        )
        one, other = found.left[:count].astype(np.int64), found.right[:count].astype(np.int64)
        # Symbols that one set has and the other has not: as many at least as bits that differ.
        total = own_size[one] + own_size[other]
        apart = np.bitwise_count(own_bits[one] ^ own_bits[other]).astype(np.int64)
        passed = apart <= total - 2 * needed[total]
        yield own_number[one[passed]], own_number[other[passed]]

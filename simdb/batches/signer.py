"""From items to features, signatures and bucket keys, in batches and on several threads.

An *epoch* is an order of symbols with the number by which an exact index has the postings that are
written in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arrays import Bools, Int64s, UInt16s
from simdb.errors import WrongTypeError
from simdb.exact.order import ArrangedSets, SymbolOrder
from simdb.exact.thresholds import Bound, Threshold
from simdb.late import cached_property
from simdb.lsh.family import BucketKeys, Family, SymbolSets
from simdb.ragged import Ragged, slices_of
from simdb.recipe import Recipe

if TYPE_CHECKING:
    from simdb.threads import Pool, Task


SORTED_ANEW = 2  # of so many items one or fewer: to sort their keys is quicker than to pick them
BYTES_OF_PROBE_KEY = 32  # while it is made and looked up
LEAST_SHARED = 16  # items, from which on other threads sign them: to hand fewer over takes longer


class Epoch(Struct, frozen=True):
    """An order of symbols, with the number by which the postings in it are found."""

    number: int
    order: SymbolOrder

    def arrange(self, symbols: SymbolSets) -> ArrangedSets:
        """Write sets down in the order."""
        return self.order.arrange(symbols.values, symbols.offsets)

    def prefixes(self, symbols: SymbolSets, floor: Threshold | None) -> Prefixes:
        """Cut sets to what an index with this floor posts of them; None posts all symbols."""
        arranged = self.arrange(symbols)
        whole = Prefixes(arranged.values, arranged.offsets, self.number, arranged.sizes)
        return whole if floor is None else whole.first(floor.prefix_lengths(arranged.sizes))


class Prefixes(Ragged, frozen=True, eq=False):
    """The first symbols of sets, as places in the order of an epoch, rising within each set."""

    epoch: int
    set_sizes: Int64s  # symbols of each set

    def select(self, rows: Int64s) -> Prefixes:
        """Take those of some sets."""
        taken = Ragged.select(self, rows)
        return Prefixes(taken.values, taken.offsets, self.epoch, self.set_sizes[rows])

    @classmethod
    def _other_fields(cls, parts: Sequence[Prefixes]) -> dict[str, Any]:
        (epoch,) = {part.epoch for part in parts}
        return {"epoch": epoch, "set_sizes": np.concatenate([part.set_sizes for part in parts])}


class Signed(Struct, frozen=True, eq=False):
    """What the index stores of a batch of items.

    An item is comparable that has anything to be compared by; an empty set has not. Prefixes, what
    an exact index posts of them, are in an order that may be out of date; None without an order.
    ``rising`` are the places of the bucket keys by rising key, equal ones in their order, where
    they have been sorted.
    """

    signatures: UInt16s  # (items, words)
    buckets: BucketKeys
    comparable: Bools
    prefixes: Prefixes | None = None
    rising: Int64s | None = None

    def select(self, rows: Int64s) -> Signed:
        """Take what is stored of some of the items, given by ascending rows."""
        prefixes = None if self.prefixes is None else self.prefixes.select(rows)
        buckets = self.buckets.select(rows)
        rising = self.rising
        if SORTED_ANEW * rows.size < len(self.buckets):
            rising = None
        elif rising is not None and rows.size < len(self.buckets):
            taken = np.zeros(len(self.buckets), np.bool_)
            taken[rows] = True
            of_taken = np.repeat(taken, self.buckets.sizes)
            rising = (np.cumsum(of_taken) - 1)[rising[of_taken[rising]]]
        return Signed(self.signatures[rows], buckets, self.comparable[rows], prefixes, rising)

    @property
    def order(self) -> Int64s:
        """The places of the bucket keys by rising key, equal ones in their order."""
        return kernels.runs.order_of(self.buckets.values) if self.rising is None else self.rising

    @classmethod
    def joined(cls, parts: Sequence[Signed]) -> Signed:
        """Put what is stored of several parts of items together."""
        if len(parts) == 1:
            return parts[0]
        prefixes = [part.prefixes for part in parts if part.prefixes is not None]
        return Signed(
            np.concatenate([part.signatures for part in parts]),
            BucketKeys.concatenated([part.buckets for part in parts]),
            np.concatenate([part.comparable for part in parts]),
            Prefixes.concatenated(prefixes) if prefixes else None,
        )

    @classmethod
    def together(cls, parts: Sequence[Signed]) -> Signed:
        """Put what is stored of several parts of items together, and sort their bucket keys."""
        whole = cls.joined(parts)
        return replace(whole, rising=kernels.runs.order_of(whole.buckets.values))


class Agreement(Struct, frozen=True):
    """What the signatures of two items must have in common for these to be compared.

    Attributes:
        words: how many words must be equal.
        family: decides by both signatures; None where it takes all.
        shared: how many words are equal for each bucket that a probe shares with an item.
    """

    words: int
    family: Family | None
    shared: int

    def holds(self, left: UInt16s, right: UInt16s) -> Bools:
        """Tell which pairs of signatures the family takes."""
        if self.family is None:
            return np.ones(len(left), np.bool_)
        return self.family.are_candidates(left, right)


class Signer:
    """Signs items by one recipe, as of a collection. Safe to use from several threads."""

    def __init__(self, settings: Recipe) -> None:
        self.settings = settings
        self.kind = settings.kind
        self.items = settings.make_items()
        self.features = self.items.features
        self.features_of_rows = self.items.features_of_rows
        self.symbols = self.items.symbols
        self.measure = self.kind.make_measure()
        self.epoch: Epoch | None = None  # of prefixes, as it was last seen; set by the writer
        self._agreement: tuple[Bound | None, Agreement] = None, Agreement(0, None, 0)

    @cached_property
    def family(self) -> Family | None:
        """The locality-sensitive family of the probable index; None without one."""
        return self.settings.family()

    @property
    def band_words(self) -> int:
        """Words of a band of a signature; 0 where bucket keys come otherwise."""
        return 0 if self.family is None else self.family.band_words

    def hashed(self, items: Sequence[bytes | memoryview]) -> Any:
        """Make of items in canonical form what they are signed by: symbols where they have any."""
        if not self.kind.has_symbols:
            return self.features(items)
        symbols: Any = self.symbols(items)
        if not isinstance(symbols, SymbolSets):
            found = type(symbols).__name__
            problem = f"items of the kind {self.kind} must have SymbolSets as features, not {found}"
            raise WrongTypeError(problem)
        return symbols

    def most_indexed(self, most: int) -> int:
        """Return of how many items signatures and bucket keys weigh no more; at least of one.

        The weight is an eighth of the bytes, as ``Items.weights`` has it.
        """
        if self.family is None:
            return max(1, most)
        return max(1, 8 * most // (2 * self.family.words + 8 * self.settings.most_keys))

    def most_probed(self, most: int) -> int:
        """Return how many items can be looked up at once, as ``most_indexed`` has it."""
        indexed = self.most_indexed(most)
        if self.family is None or not self.family.looks_around:
            return indexed
        keys = self.family.keys_of_probe or self.settings.most_keys
        return min(indexed, max(1, 8 * most // (BYTES_OF_PROBE_KEY * keys)))

    def agreement(self, bound: Bound) -> Agreement:
        """The agreement that candidates must have, beside a bucket, to be compared."""
        known, agreement = self._agreement
        if known is not bound:  # many searches after each other ask for the same
            agreement = self._agreement_of(bound)
            self._agreement = bound, agreement
        return agreement

    def _agreement_of(self, bound: Bound) -> Agreement:
        family = self.family
        if family is None:
            return Agreement(0, None, 0)
        shared = 0 if family.looks_around else family.band_words
        decides = family if family.decides else None
        return Agreement(family.needed_matches(bound.fraction), decides, shared)

    def sign_hashed(self, features: Any, epoch: Epoch | None = None) -> Signed:
        """Make what the indexes store of items, of their features as ``hashed`` returned them."""
        if isinstance(features, SymbolSets):
            comparable = features.offsets[1:] > features.offsets[:-1]
        else:
            comparable = np.ones(len(features), np.bool_)
        prefixes = None if epoch is None else epoch.prefixes(features, self.settings.posted_floor)
        if self.family is None:
            signatures = np.empty((len(features), 0), np.uint16)
        else:
            signatures = self.family.sign(features)
        return Signed(signatures, self.bucket_keys(signatures), comparable, prefixes)

    def prefixes(self, epoch: Epoch, items: Sequence[bytes | memoryview]) -> Prefixes:
        """The symbols that the exact index posts of items, in the order of an epoch."""
        floor = self.settings.posted_floor
        parts = [epoch.prefixes(self.symbols(part), floor) for part in self._slices(items)]
        return Prefixes.concatenated(parts or [epoch.prefixes(self.symbols([]), floor)])

    def sign(self, items: Sequence[bytes | memoryview], pool: Pool | None = None) -> Signed:
        """Sign a batch of items, spread over the threads of a pool if one is given."""
        return self.start(items, pool).result()

    def sign_unsorted(self, items: Sequence[bytes | memoryview]) -> Signed:
        """Sign a batch of items for one who does not need their bucket keys in order."""
        parts = self._slices(items)
        return Signed.joined([self._sign_part(part, None) for part in parts] or [self.empty()])

    def start(self, items: Sequence[bytes | memoryview], pool: Pool | None) -> Signing:
        """Begin to sign a batch of items; without a pool, or of few, it is done on return."""
        parts, epoch = self._slices(items), self.epoch
        if not parts:
            return Signing(self.empty())
        if pool is None or len(items) < LEAST_SHARED:
            return Signing(Signed.together([self._sign_part(part, epoch) for part in parts]))
        running = [pool.submit(self._sign_part, part, epoch) for part in parts]
        # It begins after them, and waits for those that other threads have not finished.
        return Signing(None, pool.submit(_together, running))

    def _slices(self, items: Sequence[bytes | memoryview]) -> list[Sequence[bytes | memoryview]]:
        weights = self.items.weights(items)
        return [items[some] for some in slices_of(weights, self.kind.slice_bytes)]

    def _sign_part(self, items: Sequence[bytes | memoryview], epoch: Epoch | None) -> Signed:
        return self.sign_hashed(self.hashed(items), epoch)

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the bucket keys of stored signatures."""
        if self.family is None:
            return BucketKeys.none(signatures.shape[0])
        return self.family.bucket_keys(signatures)

    def empty(self) -> Signed:
        """Return the signatures of no item."""
        words = 0 if self.family is None else self.family.words
        return Signed(np.empty((0, words), np.uint16), BucketKeys.none(0), np.empty(0, np.bool_))


class Signing(Struct, frozen=True, eq=False):
    """A batch that is being signed."""

    done: Signed | None
    running: Task[Signed] | None = None

    def result(self) -> Signed:
        """Wait for the signatures."""
        if self.done is not None:
            return self.done
        assert self.running is not None
        return self.running.result()


def _together(running: Sequence[Task[Signed]]) -> Signed:
    """Wait for the parts of a batch, and put them together."""
    return Signed.together([task.result() for task in running])

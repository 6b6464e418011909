"""From items to features, signatures and bucket keys, in batches and on several threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.exact.thresholds import Bound
from simdb.lsh.family import BucketKeys, Family, SymbolSets
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.epochs import Epoch, Prefixes

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


class Signed(NamedTuple):
    """What the index stores of a batch of items.

    Attributes:
        signatures: uint16 (items, words).
        buckets: the bucket keys.
        comparable: bool (items,), whether an item has anything to be compared by; an empty set
            has not.
        prefixes: what an exact index posts of them, in an order that may be out of date; None
            without an order.
    """

    signatures: npt.NDArray[np.uint16]
    buckets: BucketKeys
    comparable: npt.NDArray[np.bool_]
    prefixes: Prefixes | None = None


class Signer:
    """Signs the items of one collection. Safe to use from several threads.

    Attributes:
        settings, kind: of the collection.
        items: the canonical form of its items.
        features, features_of_rows, symbols: of items in canonical form, as ``items`` makes them.
        measure: how two items are compared.
        epoch: the order that prefixes are written in, as it was last seen; set by the writer.
    """

    def __init__(self, settings: CollectionSettings) -> None:
        self.settings = settings
        self.kind = settings.kind
        self.items = self.kind.make_items(settings.secret)
        self.features = self.items.features
        self.features_of_rows = self.items.features_of_rows
        self.symbols = self.items.symbols
        self.measure = self.kind.make_measure()
        self.epoch: Epoch | None = None

    @cached_property
    def family(self) -> Family | None:
        """The locality-sensitive family of the probable index; None without one."""
        return self.settings.family()

    @property
    def band_words(self) -> int:
        """Words of a band of a signature; 0 where bucket keys come otherwise."""
        return 0 if self.family is None else self.family.band_words

    def hashed(self, items: Sequence[bytes | memoryview]) -> Any:
        """Return what items in canonical form are signed by: symbols where they have any."""
        return self.symbols(items) if self.kind.has_symbols else self.features(items)

    def needed_matches(self, bound: Bound) -> int:
        """Return how many equal words of signature a candidate must have to be compared."""
        return 0 if self.family is None else self.family.needed_matches(bound.fraction)

    def sign_hashed(self, features: Any, epoch: Epoch | None = None) -> Signed:
        """Return what the indexes store of items.

        Args:
            features: what ``hashed`` returned of them.
            epoch: the order of the exact index, if there is one.
        """
        comparable = _comparable(features)
        prefixes = None
        if epoch is not None:
            prefixes = epoch.prefixes(features, self.settings.posted_floor)
        if self.family is None:
            nothing = np.empty((len(features), 0), np.uint16)
            return Signed(nothing, BucketKeys.none(len(features)), comparable, prefixes)
        signatures = self.family.sign(features)
        return Signed(signatures, self.family.bucket_keys(signatures), comparable, prefixes)

    def prefixes(self, epoch: Epoch, items: Sequence[bytes | memoryview]) -> Prefixes:
        """Return what the exact index posts of items, in the order of an epoch."""
        floor = self.settings.posted_floor
        parts = [
            epoch.prefixes(self.symbols(part), floor)
            for part in _slices(items, self.items.weights(items), self.kind.slice_bytes)
        ]
        return Prefixes.concatenated(parts or [epoch.prefixes(self.symbols([]), floor)])

    def sign(self, items: Sequence[bytes | memoryview], pool: Executor | None = None) -> Signed:
        """Sign a batch of items, spread over the threads of a pool if one is given."""
        return self.start(items, pool).result()

    def start(self, items: Sequence[bytes | memoryview], pool: Executor | None) -> Signing:
        """Begin to sign a batch of items; without a pool it is done on return."""
        parts = list(_slices(items, self.items.weights(items), self.kind.slice_bytes))
        epoch = self.epoch
        if pool is None:
            return Signing([self._sign_part(part, epoch) for part in parts], [], self)
        return Signing([], [pool.submit(self._sign_part, part, epoch) for part in parts], self)

    def _sign_part(self, items: Sequence[bytes | memoryview], epoch: Epoch | None) -> Signed:
        return self.sign_hashed(self.hashed(items), epoch)

    def bucket_keys(self, signatures: npt.NDArray[np.uint16]) -> BucketKeys:
        """Return the bucket keys of stored signatures."""
        if self.family is None:
            return BucketKeys.none(signatures.shape[0])
        return self.family.bucket_keys(signatures)

    def empty(self) -> Signed:
        """Return the signatures of no item."""
        words = 0 if self.family is None else self.family.words
        return Signed(np.empty((0, words), np.uint16), BucketKeys.none(0), np.empty(0, np.bool_))


def _comparable(features: Any) -> npt.NDArray[np.bool_]:
    """Return which items of a batch are not empty sets."""
    if isinstance(features, SymbolSets):
        return features.offsets[1:] > features.offsets[:-1]
    return np.ones(len(features), np.bool_)


class Signing:
    """A batch that is being signed."""

    def __init__(self, done: list[Signed], running: list[Future[Signed]], signer: Signer) -> None:
        self._done = done
        self._running = running
        self._signer = signer

    def result(self) -> Signed:
        """Wait for the signatures."""
        parts = self._done + [future.result() for future in self._running]
        if not parts:
            return self._signer.empty()
        if len(parts) == 1:
            return parts[0]
        prefixes = [part.prefixes for part in parts if part.prefixes is not None]
        return Signed(
            np.concatenate([part.signatures for part in parts]),
            BucketKeys.concatenated([part.buckets for part in parts]),
            np.concatenate([part.comparable for part in parts]),
            Prefixes.concatenated(prefixes) if prefixes else None,
        )


def _slices(
    items: Sequence[bytes | memoryview], weights: npt.NDArray[np.int64], slice_bytes: int
) -> Iterator[Sequence[bytes | memoryview]]:
    """Cut a batch into slices of about so much weight."""
    if len(items) == 1:
        yield items
        return
    ends = np.cumsum(weights)
    begin = 0
    while begin < len(items):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + slice_bytes, side="right")))
        yield items[begin:end]
        begin = end

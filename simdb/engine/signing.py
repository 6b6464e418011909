"""From items to symbols, signatures and bucket keys, in batches and on several threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.engine.catalogue import CollectionSettings
from simdb.engine.exact_arranging import Epoch, Prefixes, joined_prefixes, prefixes_of
from simdb.exact.thresholds import Threshold
from simdb.items.kinds import items_of
from simdb.items.symbols import SymbolSets
from simdb.lsh.banding import Banding, minimum_matches
from simdb.lsh.planning import Plan
from simdb.lsh.sketching import Sketcher

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


SLICE_BYTES = 131_072  # of items signed in one go: their symbols then stay in the cache


class Signed(NamedTuple):
    """What the index stores of a batch of items.

    Attributes:
        signatures: uint16 (items, rows).
        bucket_keys: uint64 (items, bands); meaningless for items without symbols.
        has_symbols: bool (items,).
        prefixes: what an exact index posts of them, in an order that may be out of date; None
            without an order.
    """

    signatures: npt.NDArray[np.uint16]
    bucket_keys: npt.NDArray[np.uint64]
    has_symbols: npt.NDArray[np.bool_]
    prefixes: Prefixes | None = None


class Signer:
    """Signs the items of one collection. Safe to use from several threads.

    Attributes:
        settings: of the collection.
        items: the canonical form of its items.
        epoch: the order that prefixes are written in, as it was last seen; set by the writer.
    """

    def __init__(self, settings: CollectionSettings) -> None:
        self.items = items_of(settings.kind, settings.secret)
        self.settings = settings
        self.epoch: Epoch | None = None
        self._sketcher: Sketcher | None = None
        self._banding: Banding | None = None
        if settings.is_probable:
            rows = settings.plan.signature_rows
            self._sketcher = Sketcher(settings.sketch, rows, settings.secret)
            self._banding = Banding(settings.bands, settings.rows, settings.secret)

    @property
    def plan(self) -> Plan:
        """The banding with its S-curve."""
        return self.settings.plan

    def symbols(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of items in canonical form."""
        return self.items.symbols(items)

    def sign_symbols(self, symbols: SymbolSets, epoch: Epoch | None = None) -> Signed:
        """Return what the indexes store of items whose symbols are known.

        Args:
            symbols: of the items.
            epoch: the order of the exact index, if there is one.
        """
        has_symbols = symbols.offsets[1:] > symbols.offsets[:-1]
        prefixes = None
        if epoch is not None:
            prefixes = prefixes_of(epoch, symbols, self.settings.posted_floor)
        if self._sketcher is None or self._banding is None:
            return Signed(
                np.empty((len(symbols), 0), np.uint16),
                np.empty((len(symbols), 0), np.uint64),
                has_symbols,
                prefixes,
            )
        signatures = self._sketcher.sketch(symbols)
        bucket_keys = self._banding.bucket_keys(signatures)
        return Signed(signatures, bucket_keys, has_symbols, prefixes)

    def prefixes(self, epoch: Epoch, items: Sequence[bytes | memoryview]) -> Prefixes:
        """Return what the exact index posts of items, in the order of an epoch."""
        floor = self.settings.posted_floor
        parts = [prefixes_of(epoch, self.symbols(part), floor) for part in _slices(items)]
        return joined_prefixes(parts or [prefixes_of(epoch, self.symbols([]), floor)])

    def sign(self, items: Sequence[bytes | memoryview], pool: Executor | None = None) -> Signed:
        """Sign a batch of items, spread over the threads of a pool if one is given."""
        return self.start(items, pool).result()

    def start(self, items: Sequence[bytes | memoryview], pool: Executor | None) -> Signing:
        """Begin to sign a batch of items; without a pool it is done on return."""
        parts = list(_slices(items))
        epoch = self.epoch
        if pool is None:
            return Signing([self._sign_part(part, epoch) for part in parts], [], self)
        return Signing([], [pool.submit(self._sign_part, part, epoch) for part in parts], self)

    def _sign_part(self, items: Sequence[bytes | memoryview], epoch: Epoch | None) -> Signed:
        return self.sign_symbols(self.items.symbols(items), epoch)

    def bucket_keys(self, signatures: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint64]:
        """Return the bucket keys, uint64 (n, bands), of stored signatures."""
        if self._banding is None:
            return np.empty((signatures.shape[0], 0), np.uint64)
        return self._banding.bucket_keys(signatures)

    def empty(self) -> Signed:
        """Return the signatures of no item."""
        rows = self.settings.bands * self.settings.rows
        return Signed(
            np.empty((0, rows), np.uint16),
            np.empty((0, self.settings.bands), np.uint64),
            np.empty(0, np.bool_),
        )


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
            np.concatenate([part.bucket_keys for part in parts]),
            np.concatenate([part.has_symbols for part in parts]),
            joined_prefixes(prefixes) if prefixes else None,
        )


def _slices(
    items: Sequence[bytes | memoryview],
) -> Iterator[Sequence[bytes | memoryview]]:
    """Cut a batch into slices of about ``SLICE_BYTES``."""
    begin = 0
    size = 0
    for position, item in enumerate(items):
        if size and size + len(item) > SLICE_BYTES:
            yield items[begin:position]
            begin, size = position, 0
        size += len(item)
    if begin < len(items):
        yield items[begin:]


@lru_cache(maxsize=256)
def needed_matches(threshold: Threshold, rows: int) -> int:
    """Return how many equal signature rows a candidate must have to be compared in full."""
    return minimum_matches(threshold.fraction, rows)

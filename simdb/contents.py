"""What is in a collection: its settings, its items, its figures; and the snapshot they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import config, engine
from simdb.datatypes import CheckReport, Entry, Key, Progress
from simdb.errors import BadItemError, DatabaseClosedError, KeyNotFoundError
from simdb.storage.file.transactions import ReadTransaction
from simdb.storage.tables import values
from simdb.storage.tables.keys import decode_user_key, encode_user_key

if TYPE_CHECKING:
    from simdb.handle import Handle
    from simdb.lsh.planning import Plan
    from simdb.opened.catalogue import CollectionSettings
    from simdb.opened.signer import Signer
    from simdb.storage.collection.reader import CollectionReader
    from simdb.storage.tables.documents import Document


class _Known(NamedTuple):
    """The settings as they are stored and as they are used; replaced as one, for other threads."""

    stored: bytes
    settings: CollectionSettings
    signer: Signer


def _known(transaction: ReadTransaction, name: str) -> _Known:
    settings = engine.catalogue.require_settings(transaction, name)
    return _Known(settings.encode(), settings, engine.signing.Signer(settings))


class ContentsView:
    """What is in a collection, as of the last commit or of a snapshot.

    The base of ``CollectionView``, which also finds what is similar.
    """

    def __init__(self, handle: Handle, name: str, snapshot: ReadTransaction | None) -> None:
        self._handle = handle
        self._snapshot = snapshot
        self._name = name
        with self._reading() as transaction:
            self._known = _known(transaction, name)

    # -- what it is --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self._name

    @property
    def kind(self) -> config.Kind:
        """What its items are and how they are compared."""
        return self._present.settings.kind

    @property
    def plan(self) -> Plan:
        """The banding of its index, with the S-curve."""
        settings = self._present.settings
        return engine.kinds.outer_plan(settings.kind, settings.plan)

    @property
    def threshold(self) -> Fraction | None:
        """The similarity that its index is planned for; the floor if there is only an exact one."""
        settings = self._present.settings
        if engine.kinds.is_distance(settings.kind):
            return None
        return engine.kinds.outer_threshold(settings.kind, settings.threshold)

    @property
    def max_distance(self) -> Fraction | None:
        """The distance that its index is planned for; None without one, or of similarities."""
        settings = self._present.settings
        if not engine.kinds.is_distance(settings.kind) or not settings.is_probable:
            return None
        return settings.threshold

    @property
    def exact_floor(self) -> Fraction | None:
        """The least threshold that its exact index serves; None without one."""
        settings = self._present.settings
        if settings.exact_floor is None:
            return None
        return engine.kinds.outer_threshold(settings.kind, settings.exact_floor)

    @property
    def recall(self) -> Fraction:
        """The share of pairs at the threshold that its index was planned to find."""
        return self._present.settings.recall

    def __repr__(self) -> str:
        return f"<simdb collection {self._name!r} of {self._handle.path}>"

    def __len__(self) -> int:
        """Return how many items are stored."""
        with self._collection() as collection:
            return collection.state.live

    def __contains__(self, key: object) -> bool:
        """Return whether a key is stored; a key that cannot be stored is not."""
        try:
            encoded = encode_user_key(key)
        except (BadItemError, TypeError):
            return False
        with self._collection() as collection:
            return collection.find(encoded) is not None

    # -- reading items -----------------------------------------------------------------------

    def get(self, key: Key) -> Entry:
        """Return a stored item.

        Raises:
            KeyNotFoundError: the key is not stored.
        """
        encoded = encode_user_key(key)
        with self._collection() as collection:
            number = collection.find(encoded)
            document = None if number is None else collection.document(number)
            if document is None:
                raise KeyNotFoundError(f"key {key!r} is not stored in {self._name!r}")
            return self._record(document)

    def items(self) -> Iterator[Entry]:
        """Yield all stored items in order of insertion, as of the moment iteration begins.

        Items may be added and deleted meanwhile; the iteration does not see it.
        """
        with self._collection() as collection:
            for document in collection.live_documents():
                yield self._record(document)
                self._require_open()
                collection.transaction.require_open()

    def keys_of(self, numbers: Sequence[int] | npt.NDArray[np.uint32]) -> list[Key]:
        """Return the keys of item numbers, as ``PairBatch`` has them.

        Raises:
            KeyNotFoundError: one of them is not stored (any more).
        """
        with self._collection() as collection:
            return engine.answering.keys_of_live(collection, numbers)

    def _record(self, document: Document) -> Entry:
        metadata = values.unpack(document.metadata) if len(document.metadata) else None
        return Entry(
            decode_user_key(document.key),
            self._known.signer.items.decode(document.item),
            metadata,
        )

    def checkpoint(self) -> int:
        """Return where the collection stands: ``pairs(since=...)`` finds the pairs of later items.

        A number that may be kept, also over ``compact`` and ``rebuild``; it means nothing to
        another collection.
        """
        with self._collection() as collection:
            return collection.state.next_number

    # -- looking inside ----------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return counts, sizes and settings as plain values.

        Of records also what each rule makes candidates of, for which the signatures are read, and
        a warning for each bucket above ``Record.large_bucket``; of fingerprints, likewise, how many
        are in no bucket (of more than 16,384, by a sample), and a warning if those are many.
        """
        with self._opened() as (collection, settings, _):
            described = engine.describing.describe(settings, collection)
            if isinstance(settings.kind, config.Record | config.Fingerprint):
                described |= engine.describing_rules.describe_rules(settings, collection)
            return described

    def check(
        self, *, deep: bool = False, progress: Callable[[Progress], None] | None = None
    ) -> CheckReport:
        """Read everything of the collection and compare it with its checksums and with itself.

        Args:
            deep: also compute every signature anew from its item.
            progress: called now and then.
        """
        with self._opened() as (collection, settings, signer):
            return engine.checking.check_collection(
                settings, signer, collection, deep=deep, progress=progress
            )

    # -- transactions ------------------------------------------------------------------------

    def _require_open(self) -> None:
        """Raise if the database, or the snapshot, has been closed."""
        self._handle.require_open()
        if self._snapshot is not None and self._snapshot.closed:
            raise DatabaseClosedError("the snapshot has ended")

    @property
    def _present(self) -> _Known:
        with self._reading() as transaction:
            return self._refresh(transaction)

    @contextmanager
    def _reading(self) -> Iterator[ReadTransaction]:
        if self._snapshot is None:
            with self._handle.read() as transaction:
                yield transaction
            return
        self._require_open()
        yield self._snapshot

    @contextmanager
    def _collection(self) -> Iterator[CollectionReader]:
        with self._opened() as (collection, _, _):
            yield collection

    @contextmanager
    def _opened(self) -> Iterator[tuple[CollectionReader, CollectionSettings, Signer]]:
        from simdb.storage.collection.reader import CollectionReader  # not needed to import simdb

        with self._reading() as transaction:
            _, settings, signer = self._refresh(transaction)
            yield CollectionReader(transaction, settings.number), settings, signer

    def _refresh(self, transaction: ReadTransaction) -> _Known:
        """Read the settings if they have changed: another process may have rebuilt the index."""
        known = self._known
        if engine.catalogue.stored_settings(transaction, self._name) != known.stored:
            known = self._known = _known(transaction, self._name)
        return known

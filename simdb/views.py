"""The reading half of a collection: what is stored, what is similar, what is inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import repeat
from math import nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import config, engine
from simdb.datatypes import (
    AuditReport,
    CheckReport,
    Entry,
    Key,
    Match,
    Matches,
    Pair,
    PairBatch,
    Progress,
)
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    DatabaseClosedError,
    KeyNotFoundError,
    WrongTypeError,
)
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike
from simdb.results import Groups, Pairs
from simdb.storage import values
from simdb.storage.keys import decode_user_key, encode_user_key
from simdb.storage.transactions import ReadTransaction

if TYPE_CHECKING:
    from simdb.engine.catalogue import CollectionSettings
    from simdb.engine.serving import AskedGuarantee, Served
    from simdb.engine.signing import Signer
    from simdb.exact.measures import Measure
    from simdb.handle import Handle
    from simdb.lsh.planning import Plan
    from simdb.measures.calibration import Calibration
    from simdb.storage.tables import CollectionReader, Document

DELETED_AT_ONCE = 10_000
OnExisting = Literal["error", "skip", "replace"]
OnDuplicate = Literal["keep", "skip"]
OnBad = Literal["error", "skip"]


class _Known(NamedTuple):
    """The settings as they are stored and as they are used; replaced as one, for other threads."""

    stored: bytes
    settings: CollectionSettings
    signer: Signer


def _known(transaction: ReadTransaction, name: str) -> _Known:
    settings = engine.catalogue.require_settings(transaction, name)
    return _Known(settings.encode(), settings, engine.signing.Signer(settings))


class CollectionView:
    """The reading half of a collection: of the last commit, or of a snapshot.

    Made by ``Database`` and ``Snapshot``; not to be made directly.
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

    def keys_of(self, numbers: Sequence[int] | npt.NDArray[np.uint32]) -> list[Key]:
        """Return the keys of item numbers, as ``PairBatch`` has them.

        Raises:
            KeyNotFoundError: one of them is not stored (any more).
        """
        with self._collection() as collection:
            wanted = _item_numbers(numbers)
            for number in wanted[~collection.alive(wanted)].tolist():
                raise KeyNotFoundError(f"item number {number} was deleted")
            return keys_of_numbers(collection, wanted)

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

    # -- searching ---------------------------------------------------------------------------

    def search(
        self,
        item: object,
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        limit: int | None = None,
        min_recall: float | None = None,
        guarantee: AskedGuarantee = "auto",
        measure: str = "jaccard",
    ) -> Matches:
        """Find the stored items that are similar to an item.

        Exact if the exact index answers. Else probable: a match *at* the threshold is found with
        probability ``expected_recall``, a more similar one with a higher one. Every similarity is
        the true one.

        Args:
            item: what to look for; need not be stored.
            threshold: least similarity of a match; the collection's if not given.
            max_distance: largest distance of a match, where the collection measures distances.
            limit: at most so many matches, the best ones.
            min_recall: permits a threshold below the collection's, if at least this share of the
                matches at the threshold is expected to be found.
            guarantee: ``"auto"`` takes the exact index where it serves the threshold, else the
                probable one; ``"exact"`` and ``"probable"`` take no other.
            measure: ``"jaccard"``; with an exact index also ``"dice"``, ``"cosine"`` and
                ``"stored-in-probe"`` (the share of the stored item that the probe contains), and
                if it posts all symbols ``"probe-in-stored"``.

        Returns:
            Matches by falling similarity, equal ones in order of insertion.

        Raises:
            ThresholdTooLowError: no index serves the threshold; the message names the remedy.
        """
        return self.search_many(
            [item],
            threshold=threshold,
            max_distance=max_distance,
            limit=limit,
            min_recall=min_recall,
            guarantee=guarantee,
            measure=measure,
        )[0]

    def search_many(
        self,
        items: Iterable[object],
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        limit: int | None = None,
        min_recall: float | None = None,
        guarantee: AskedGuarantee = "auto",
        measure: str = "jaccard",
    ) -> list[Matches]:
        """Search for each of several items in one snapshot; see ``search``."""
        if limit is not None:
            _require_positive("limit", limit)
        with self._opened() as (collection, settings, signer):
            wanted = engine.serving.parse_measure(measure)
            bound = _bound_by(wanted, settings.kind, threshold, max_distance)
            served = engine.serving.serve(settings, bound, min_recall, guarantee, measure=wanted)
            encoded = [signer.items.encode(item) for item in items]
            return [_search_one(signer, collection, item, served, limit) for item in encoded]

    def pairs(
        self,
        threshold: ThresholdLike | None = None,
        *,
        max_distance: ThresholdLike | None = None,
        guarantee: AskedGuarantee = "auto",
        min_recall: float | None = None,
        measure: str = "jaccard",
        since: int | None = None,
        resume: str | None = None,
    ) -> Pairs:
        """Find all pairs of stored items that are similar to each other.

        Exact or probable as ``search`` is, streaming, in bounded memory. Each pair comes once,
        ``left`` being the item inserted first; their order does not depend on threads. The pairs
        are those of the moment iteration begins: items may be added and deleted meanwhile.

        With ``since``, only the pairs that came with later items, among themselves and with earlier
        ones (MMDS 3.9.4): those of one batch after another are all pairs. If at most one in 32
        items is new and an index serves the threshold, each new item is looked up in it, so
        that the cost is that of the new items.

        Args:
            threshold: least similarity of a pair; the collection's if not given.
            max_distance: largest distance of a pair, where the collection measures distances.
            guarantee: as for ``search``; ``"exact"`` needs no exact index where the symbols of all
                items fit into the memory setting. Kinds without symbols are compared all with all,
                which takes quadratic time.
            min_recall: as for ``search``.
            measure: ``"jaccard"``; with an exact index that serves it also ``"dice"`` and
                ``"cosine"``: then each item is looked up in the index.
            since: ``since`` of an ``AddReport``, or what ``checkpoint`` returned.
            resume: go on where an exact answer was left off: the ``token`` of its ``Pairs``, for
                the same arguments. Pairs that are done are not compared again; in memory, all items
                are loaded again, else the postings are read again. By Jaccard similarity only.

        Returns:
            An iterable of ``Pair``; its ``batches()`` yields columns instead, which is faster.
        """
        with self._reading() as transaction:
            settings = self._refresh(transaction).settings
        wanted = engine.serving.parse_measure(measure)
        if wanted != "jaccard":
            engine.exact_measuring.require_symmetric(wanted)
        bound = _bound_by(wanted, settings.kind, threshold, max_distance)
        served = _serve_join(settings, bound, min_recall, guarantee, wanted, resume=resume)
        first = 0 if since is None else _item_number(since)
        if served.measure != "jaccard":
            return Pairs(lambda: self._measured_pair_batches(served, first), "exact", 1.0)
        if resume is not None and (served.scans or not served.is_exact):
            raise ConfigurationError("only exact pairs of sets of symbols can be resumed")
        if served.is_exact and not served.scans:
            pairs = Pairs(
                lambda: self._exact_pair_batches(served.threshold, first, resume), "exact", 1.0
            )
            pairs.token = resume
            return pairs
        counters = engine.joining.JoinCounters()
        return Pairs(
            lambda: self._pair_batches(served, first, counters),
            served.guarantee,
            served.recall,
            lambda: counters.compared,
        )

    def _exact_pair_batches(
        self, threshold: Threshold, since: int, resume: str | None
    ) -> Iterator[tuple[PairBatch, Callable[[], list[Pair]], str]]:
        with self._opened() as (collection, _, signer):
            batches = engine.exact_joining.join(
                signer,
                collection,
                threshold,
                self._join_resources(),
                since=since,
                resume=resume,
            )
            for inner, token in batches:
                batch = engine.kinds.outer_pairs(signer.settings.kind, inner)
                yield batch, partial(_with_keys, collection, batch), token
                self._require_open()

    def _measured_pair_batches(
        self, served: Served, since: int
    ) -> Iterator[tuple[PairBatch, Callable[[], list[Pair]], None]]:
        with self._opened() as (collection, _, signer):
            side = engine.exact_crossing.Side(signer, collection)
            for batch in engine.exact_measuring.pairs(
                side, served.criterion, self._join_resources(), since=since
            ):
                yield batch, partial(_with_keys, collection, batch), None
                self._require_open()

    def _join_resources(self) -> engine.exact_joining.JoinResources:
        return engine.exact_joining.JoinResources(
            self._handle.memory, self._handle.pool(), self._require_open
        )

    def _pair_batches(
        self, served: Served, since: int, counters: engine.joining.JoinCounters
    ) -> Iterator[tuple[PairBatch, Callable[[], list[Pair]], None]]:
        with self._opened() as (collection, _, signer):
            if served.scans:
                batches = engine.scanning.pairs(signer, collection, served.bound, since=since)
            else:
                batches = engine.joining.join(
                    signer,
                    collection,
                    served.bound,
                    self._handle.memory,
                    counters,
                    since=since,
                )
            for inner in batches:
                batch = engine.kinds.outer_pairs(signer.settings.kind, inner)
                yield batch, partial(_with_keys, collection, batch), None
                self._require_open()

    def groups(
        self,
        threshold: ThresholdLike | None = None,
        *,
        max_distance: ThresholdLike | None = None,
        min_recall: float | None = None,
        guarantee: AskedGuarantee = "auto",
        progress: Callable[[Progress], None] | None = None,
    ) -> Groups:
        """Return the groups of items connected by similar pairs, each with a representative.

        Two items of a group need not be similar to each other, only connected by similar pairs.
        The representative is the item inserted first.

        Returns:
            An iterable of ``Group`` of two items or more, by the insertion of their first items.
        """
        with self._opened() as (collection, settings, signer):
            bound = engine.kinds.parse_bound(settings.kind, threshold, max_distance)
            served = engine.serving.serve(
                settings, bound, min_recall, guarantee, without_index=True
            )
            if served.scans:
                numbers = engine.scanning.group(signer, collection, served.bound)
            elif served.is_exact:
                numbers = engine.exact_joining.group(
                    signer, collection, served.threshold, self._join_resources()
                )
            else:
                numbers = engine.grouping.group(
                    signer,
                    collection,
                    served.bound,
                    self._handle.memory,
                    engine.joining.JoinCounters(),
                    progress=progress,
                )
            keys = [keys_of_numbers(collection, members) for members in numbers]
        return Groups(keys, served.guarantee, served.recall)

    def join(
        self,
        other: CollectionView,
        threshold: ThresholdLike | None = None,
        *,
        max_distance: ThresholdLike | None = None,
        guarantee: AskedGuarantee = "auto",
        min_recall: float | None = None,
        measure: str = "jaccard",
        resume: str | None = None,
    ) -> Pairs:
        """Find all pairs of an item of this collection and a similar one of another.

        Streaming, in bounded memory; each pair once, ``left`` of this collection, ``right`` of the
        other. Both must have the same kind of items.

        Texts, sets and bags are joined exactly: that needs no index where the symbols of both fit
        into the memory setting; else the other collection needs an exact index that serves the
        threshold. All else is looked up in the probable index of the other collection; ``"exact"``
        compares all with all.

        Args:
            other: a collection of this or of another database.
            threshold: least similarity of a pair; the other collection's if not given.
            max_distance: largest distance of a pair, where the collections measure distances.
            guarantee: ``"auto"``, ``"exact"`` or ``"probable"``.
            min_recall: as for ``search``.
            measure: as for ``search``, each item of this collection being a probe among the stored
                items of the other; all but ``"jaccard"`` need an exact index of the other.
            resume: go on where an exact answer was left off: the ``token`` of its ``Pairs``. By
                Jaccard similarity only.

        Raises:
            ConfigurationError: the kinds of items differ.
        """
        with other._reading() as transaction:
            settings = other._refresh(transaction).settings
        with self._reading() as transaction:
            engine.exact_crossing.require_same_kind(self._refresh(transaction).settings, settings)
        if guarantee == "auto" and engine.kinds.has_symbols(settings.kind):
            guarantee = "exact"
        wanted = engine.serving.parse_measure(measure)
        bound = _bound_by(wanted, settings.kind, threshold, max_distance)
        served = _serve_join(settings, bound, min_recall, guarantee, wanted, resume=resume)
        if resume is not None and (served.scans or not served.is_exact):
            raise ConfigurationError("only exact joins of sets of symbols can be resumed")
        counters = engine.joining.JoinCounters()
        pairs = Pairs(
            lambda: self._crossing(other, served, counters, resume),
            served.guarantee,
            served.recall,
            None if served.is_exact else lambda: counters.compared,
        )
        pairs.token = resume
        return pairs

    def _crossing(
        self,
        other: CollectionView,
        served: Served,
        counters: engine.joining.JoinCounters,
        resume: str | None,
    ) -> Iterator[tuple[PairBatch, Callable[[], list[Pair]], str | None]]:
        with self._opened() as (own, _, signer), other._opened() as (others, _, other_signer):
            batches: Iterator[tuple[PairBatch, str | None]]
            if served.scans:
                found = engine.scanning.cross(other_signer, own, others, served.bound)
                batches = ((batch, None) for batch in found)
            elif served.is_exact:
                left = engine.exact_crossing.Side(signer, own)
                right = engine.exact_crossing.Side(other_signer, others)
                resources = self._join_resources()
                if served.measure == "jaccard":
                    batches = engine.exact_crossing.cross(
                        left, right, served.threshold, resources, resume=resume
                    )
                else:
                    found = engine.exact_measuring.cross(left, right, served.criterion, resources)
                    batches = ((batch, None) for batch in found)
            else:
                found = engine.crossing.cross(own, others, other_signer, served.bound, counters)
                batches = ((batch, None) for batch in found)
            for inner, token in batches:
                batch = inner
                if served.measure == "jaccard":
                    batch = engine.kinds.outer_pairs(signer.settings.kind, inner)
                yield batch, partial(_with_keys_of_both, own, others, batch), token
                self._require_open()
                other._require_open()

    def calibrate(
        self,
        field: str | Callable[[Any, Any], float | None],
        *,
        other: CollectionView | None = None,
        threshold: ThresholdLike | None = None,
        edges: Sequence[float] | None = None,
        certain: float = 1.0,
        matched: float | None = None,
        random: float | None = None,
        sample: int = 10_000,
        seed: int = 0,
        confidence: float = 0.95,
    ) -> Calibration:
        """Estimate how many pairs of each score are true matches, without labels (MMDS 3.8.3).

        The pairs are those that the probable index proposes. What is not scored tells them apart:
        of true matches it differs by h0 on average, of random pairs by h1, so of the pairs that
        differ by h a fraction of (h1 - h) / (h1 - h0) is true. That holds as far as, of true
        matches and of false ones, it does not depend on the score.

        Args:
            field: the name of a field of weight 0 that no rule names: numbers and dates differ by
                so much or so many days, texts by 0 or 1. Or a function of two items, as they were
                given, that returns their difference, or None where it is unknown.
            other: the collection that this one is joined with; by default, pairs of this one.
            threshold: the least score; that of the collection by default. Lower ones are permitted:
                pairs that are missed cost sureness, not correctness.
            edges: of the buckets of scores; by default 0.05 apart.
            certain: the score from which on pairs surely match, by which h0 is measured.
            matched: h0, where it is known.
            random: h1, where it is known.
            sample: random pairs by which h1 is measured.
            seed: of their choice.
            confidence: of the intervals.

        Returns:
            The buckets; ``threshold_for(0.99)`` says from which score on 99 % of the pairs match.

        Raises:
            ConfigurationError: the field is scored or names candidates; no pair is certain; or true
                matches differ as much as random pairs.
        """
        wanted = engine.calibrating.Wanted(
            edges, certain, matched, random, sample, seed, confidence
        )
        _require_positive("sample", sample)
        with self._opened() as own, (self if other is None else other)._opened() as others:
            collection, settings, signer = own if other is None else others
            sides = engine.calibrating.Sides(
                own[0], own[1], collection, settings, signer, self._handle.memory
            )
            bound = engine.kinds.parse_bound(settings.kind, threshold)
            return engine.calibrating.calibrate(sides, field, bound, wanted)

    # -- looking inside ----------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return counts, sizes and settings as plain values.

        Of records also what each rule makes candidates of, for which the signatures are read, and
        a warning for each bucket above ``Record.large_bucket``.
        """
        with self._opened() as (collection, settings, _):
            described = engine.describing.describe(settings, collection)
            if isinstance(settings.kind, config.Record):
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

    def self_audit(
        self,
        *,
        sample: int = 200,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> AuditReport:
        """Measure recall and precision of the present settings on a sample.

        The true neighbours of ``sample`` items are found by comparing each with *every* stored
        item, and held against what a search finds. One pass over all items.

        Args:
            sample: how many items; those of ``seed``.
            threshold: what counts as similar; the collection's if not given.
            max_distance: the same, where the collection measures distances.
            seed: of the random choice.
            progress: called now and then.
        """
        _require_positive("sample", sample)
        with self._opened() as (collection, settings, signer):
            wanted = engine.kinds.parse_bound(settings.kind, threshold, max_distance)
            if wanted is None:
                wanted = engine.kinds.bound_of(settings.kind, settings.threshold)
            return engine.auditing.audit(
                signer, collection, wanted, sample=sample, seed=seed, progress=progress
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
        from simdb.storage.tables import CollectionReader  # not needed to import simdb

        with self._reading() as transaction:
            _, settings, signer = self._refresh(transaction)
            yield CollectionReader(transaction, settings.number), settings, signer

    def _refresh(self, transaction: ReadTransaction) -> _Known:
        """Read the settings if they have changed: another process may have rebuilt the index."""
        known = self._known
        if engine.catalogue.stored_settings(transaction, self._name) != known.stored:
            known = self._known = _known(transaction, self._name)
        return known


def _require_positive(name: str, value: object) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")


def _item_number(since: object) -> int:
    if not isinstance(since, int | np.integer) or isinstance(since, bool) or since < 0:
        raise ConfigurationError(
            f"since must be what checkpoint() or an AddReport says, not {since!r}"
        )
    return int(since)


def _item_numbers(numbers: Sequence[int] | npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    given = np.asarray(numbers)
    if given.size and given.dtype.kind not in "iu":
        raise WrongTypeError("item numbers must be whole numbers, as a PairBatch has them")
    for number in given[(given < 0) | (given >= 2**32)].tolist():
        raise KeyNotFoundError(f"{number} is no item number")
    return given.astype(np.uint32)


def keys_of_numbers(collection: CollectionReader, numbers: npt.NDArray[np.uint32]) -> list[Key]:
    """Return the keys of item numbers in any order.

    Raises:
        KeyNotFoundError: one of them is not stored.
    """
    distinct, places = np.unique(numbers, return_inverse=True)
    keys: list[Key | None] = [None] * distinct.size
    for position, document in collection.documents_of(distinct):
        keys[position] = decode_user_key(document.key)
    found: list[Key] = []
    for place in places.tolist():
        key = keys[place]
        if key is None:
            raise KeyNotFoundError(f"item number {int(distinct[place])} is not stored")
        found.append(key)
    return found


def _bound_by(
    measure: Measure,
    kind: config.Kind,
    threshold: ThresholdLike | None,
    max_distance: ThresholdLike | None,
) -> Bound | None:
    """Read what a caller asks for; only Jaccard's similarity may have the other union of bags."""
    if measure == "jaccard" or threshold is None or not engine.kinds.is_of_sums(kind):
        return engine.kinds.parse_bound(kind, threshold, max_distance)
    engine.kinds.parse_bound(kind, None, max_distance)
    return Threshold.parse(threshold)


def _serve_join(
    settings: CollectionSettings,
    bound: Bound | None,
    min_recall: float | None,
    guarantee: AskedGuarantee,
    measure: Measure,
    *,
    resume: str | None,
) -> Served:
    """Choose how pairs are found; by another measure than Jaccard's, in the exact index only.

    Raises:
        ConfigurationError: also of a token, if the measure is another one.
    """
    by_jaccard = measure == "jaccard"
    if resume is not None and not by_jaccard:
        raise ConfigurationError(
            f"only pairs by jaccard similarity can be resumed, not by {measure}"
        )
    return engine.serving.serve(
        settings, bound, min_recall, guarantee, measure=measure, without_index=by_jaccard
    )


def _search_one(
    signer: Signer,
    collection: CollectionReader,
    item: bytes,
    served: Served,
    limit: int | None,
) -> Matches:
    if served.scans:
        similar = engine.scanning.search(signer, collection, item, served.bound, limit)
    elif served.is_exact:
        similar = engine.exact_searching.search(signer, collection, item, served.criterion, limit)
    else:
        similar = engine.searching.search(signer, collection, item, served.bound, limit)
    keys = [decode_user_key(document.key) for document in similar.documents]
    values = similar.values
    if signer.is_distance:
        matches = [Match(key, distance=value) for key, value in zip(keys, values, strict=True)]
    else:
        if served.measure == "jaccard":
            values = [engine.kinds.outer_value(signer.settings.kind, value) for value in values]
        matches = list(map(Match, keys, values))
    return Matches(tuple(matches), served.guarantee, served.recall, similar.candidates)


def _with_keys(collection: CollectionReader, batch: PairBatch) -> list[Pair]:
    keys = keys_of_numbers(collection, np.concatenate([batch.left, batch.right]))
    return _pairs(keys[: len(batch)], keys[len(batch) :], batch)


def _pairs(left: list[Key], right: list[Key], batch: PairBatch) -> list[Pair]:
    if batch.is_of_distances:
        return [Pair(*pair) for pair in zip(left, right, repeat(nan), batch.distance.tolist())]
    return list(map(Pair, left, right, batch.similarity.tolist()))


def _with_keys_of_both(
    left: CollectionReader, right: CollectionReader, batch: PairBatch
) -> list[Pair]:
    left_keys = keys_of_numbers(left, batch.left)
    right_keys = keys_of_numbers(right, batch.right)
    return _pairs(left_keys, right_keys, batch)

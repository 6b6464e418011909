"""A collection: items of one kind, indexed for one bound, and all that can be asked of it."""

from __future__ import annotations

import os
import shutil
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from simdb import answers, arrow, ingest, kinds, late, upkeep
from simdb.arguments import (
    can_be_iterated,
    require_choice,
    require_function,
    require_truth,
    require_whole,
    several,
)
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    KeyExistsError,
    SimdbError,
    UsageError,
    WrongTypeError,
)
from simdb.evidence import PairExplanation
from simdb.exact.measures import SetSimilarity
from simdb.exact.thresholds import Bound, Threshold, ThresholdLike
from simdb.extras import require
from simdb.kinds import Kind, SketchScheme
from simdb.kinds.base import plan_request
from simdb.lsh.amplification import Construction
from simdb.lsh.planning import Plan
from simdb.metadata import json_text
from simdb.opened import catalogue, labels
from simdb.opened.catalogue import CollectionSettings, GroupMethod
from simdb.opened.opened import Handle, Known, Opened, Resources, require_kind
from simdb.opened.request import IndexRequest, changed_settings, require_compression
from simdb.opened.where import Accepts, Chosen, Where, read_where
from simdb.ragged import ByteStrings, distinct_of
from simdb.recipe import Recipe
from simdb.results import (
    AddReport,
    Answers,
    AuditReport,
    CheckReport,
    Entry,
    Explanation,
    GroupChange,
    Groups,
    KeptGroup,
    Key,
    Matches,
    Outcome,
    Outcomes,
    Pair,
    Pairs,
    Progress,
    Promise,
    Since,
    Stats,
    Tabular,
)
from simdb.storage.collection.reader import CollectionReader, stored_signatures
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Document, decode_user_key, encode_user_key
from simdb.work import Work

if TYPE_CHECKING:
    from simdb.answers.choose import Asked, AskedGuarantee
    from simdb.answers.costs import Verb
    from simdb.answers.method import AnsweredBatch, Method
    from simdb.ingest.add import AddPolicy, MergeFunction
    from simdb.ingest.add import OnExisting as Existing
    from simdb.ingest.given import GivenSignatures
    from simdb.ingest.rows import RowBatch
    from simdb.linkage.clusters import Method as Clusters
    from simdb.policies import Policy, PolicyLike
    from simdb.upkeep.calibrate import Calibration
    from simdb.upkeep.labelling import Labels
    from simdb.upkeep.survey import Survey
    from simdb.upkeep.uncertain import UncertainPair
    from simdb.upkeep.weigh import PairEvidence, Weights

DELETED_AT_ONCE = 10_000
SIGNATURES_AT_ONCE = 50_000
MOST_ITEMS = 2**32  # no item has this number, or a higher one
OnExisting = Literal["error", "skip", "replace", "same"]
OnDuplicate = Literal["keep", "skip", "merge"]
OnBad = Literal["error", "skip"]
DedupeMeasure = Literal["jaccard", "containment", "both"]
# What ``score`` takes: keys, answered pairs, or a table.
GivenPairs: TypeAlias = Iterable[tuple[Key, Key] | Pair] | arrow.Table
# What policies of adding the choices of ``dedupe`` are.
_OF_DEDUPE: dict[str, Existing] = {"error": "same", "keep": "leave", "replace": "update"}


def _listed(given: Any) -> list[Any]:
    """Return what was given, as a list: what is none is refused where its parts are read."""
    return list(given) if can_be_iterated(given) else [given]


class _Among(Struct, frozen=True):
    """Which items a question is about, and whether its answer carries their metadata."""

    accepts: Accepts | None
    metadata: bool

    @classmethod
    def read(cls, where: Where | None, *, metadata: bool) -> _Among:
        """Read what a caller asks; WrongTypeError, ConfigurationError: ``where`` is no filter."""
        return cls(None if where is None else read_where(where), metadata)

    def of(self, opened: Opened) -> Opened:
        """Return a collection as the question sees it."""
        if self.accepts is None and not self.metadata:
            return opened
        only = None if self.accepts is None else Chosen(self.accepts, opened.reader)
        return structs.replace(opened, only=only, with_metadata=self.metadata)


class _Opening(AbstractContextManager[Opened]):
    """The block in which a collection is read: a class, since every search enters one."""

    __slots__ = ("_reading", "_view", "_work")

    def __init__(self, view: CollectionView, work: Work) -> None:
        self._view = view
        self._work = work

    def __enter__(self) -> Opened:
        self._reading = self._view._reading()
        transaction = self._reading.__enter__()
        try:
            opened = self._view._opened_in(transaction, self._work)
        except BaseException as error:
            self._reading.__exit__(type(error), error, error.__traceback__)
            raise
        # Tasks may read on when Python's collector finds who began them to be garbage.
        opened.reader.use = self._reading
        return opened

    def __exit__(self, *raised: Any) -> None:
        self._reading.__exit__(*raised)


class CollectionView(Tabular):
    """The reading half of a collection: of the last commit, or of a snapshot.

    ``Database`` and ``Snapshot`` make it; do not make one yourself.
    """

    def __init__(self, handle: Handle, name: str, snapshot: ReadTransaction | None) -> None:
        self._handle = handle
        self._snapshot = snapshot
        self._name = name
        # Not a method of this view, which would then outlive its use until garbage is collected.
        self._require_open = partial(_require_unclosed, handle, snapshot)
        self._resources = Resources(handle.memory, handle.pool, self._require_open)
        with self._reading() as transaction:
            self._known = Known.of(catalogue.require_settings(transaction, name))

    # -- what it is --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self._name

    @property
    def kind(self) -> kinds.Kind:
        """What its items are and how they are compared."""
        return self._present.settings.kind

    @property
    def plan(self) -> Plan:
        """The banding of its index, with the S-curve."""
        settings = self._present.settings
        return settings.kind.outer_plan(settings.plan)

    @property
    def threshold(self) -> Fraction | None:
        """The similarity that its index is planned for; the floor if there is only an exact one."""
        settings = self._present.settings
        if settings.kind.is_distance:
            return None
        return settings.kind.outer_similarity(settings.threshold)

    @property
    def key_sources(self) -> tuple[str, ...]:
        """Where the keys of its rows come from, as ``note_key_source`` was told."""
        return self._present.settings.key_sources

    @property
    def max_distance(self) -> Fraction | None:
        """The distance that its index is planned for; None without one, or for similarities."""
        settings = self._present.settings
        if not settings.kind.is_distance or not settings.is_probable:
            return None
        return settings.threshold

    @property
    def exact_floor(self) -> Fraction | None:
        """The least threshold that its exact index serves; None without one."""
        settings = self._present.settings
        if settings.exact_floor is None:
            return None
        return settings.kind.outer_similarity(settings.exact_floor)

    @property
    def recall(self) -> Fraction:
        """The share of pairs at the threshold that its index was planned to find."""
        return self._present.settings.recall

    def recipe(self) -> Recipe:
        """Return the settings, secret and bound that the collection is made by.

        ``Database.collection(name, recipe=...)`` makes the same collection for other items, also in
        another store. ``simdb.steps`` signs and compares with it, without a store.
        """
        return self._present.settings.recipe

    def __repr__(self) -> str:
        return f"<simdb collection {self._name!r} of {self._handle.path}>"

    def __len__(self) -> int:
        """The number of stored items."""
        with self._opened() as opened:
            return opened.reader.manifest.live

    def __contains__(self, key: object) -> bool:
        """Whether a key is stored; a key that cannot be stored is not."""
        try:
            encoded = encode_user_key(key)
        except (BadItemError, TypeError):
            return False
        with self._opened() as opened:
            return opened.reader.find(encoded) is not None

    def key_types(self) -> set[type[Key]]:
        """Return the types of the stored keys: ``str``, ``int``, both or none."""
        tags: dict[type[Key], bytes] = {str: layout.TEXT_TAG, int: layout.INTEGER_TAG}
        with self._opened() as opened:
            return {one for one, tag in tags.items() if opened.reader.has_keys(tag)}

    # -- reading items -----------------------------------------------------------------------

    def get(self, key: Key) -> Entry:
        """Return a stored item.

        Raises:
            KeyNotFoundError: the key is not stored.
        """
        encoded = encode_user_key(key)
        with self._opened() as opened:
            number = opened.reader.find(encoded)
            document = None if number is None else opened.reader.document(number)
            if document is None:
                raise answers.method.not_stored(opened.reader, self._name, key)
            return self._record(document)

    def signatures(self, keys: Iterable[Key]) -> npt.NDArray[Any]:
        """Return the signatures of items as the rows of an array, in the order of their keys.

        If the items are signatures, these are returned, as uint32 or uint64. All other kinds have
        the signatures of the probable index under the present settings, as uint16: the low bits of
        each row of the sketches of sets, texts and bags, or the packed bits of bit vectors and
        angles. The rows that two signatures share estimate a similarity; they are not one.

        Raises:
            KeyNotFoundError: one of the keys is not stored.
            ConfigurationError: there is no probable index.
        """
        arrow.require_no_table("keys", keys, "keys", "id")
        wanted = list(several("keys", keys))
        with self._opened() as opened:
            numbers = [opened.reader.find(encode_user_key(key)) for key in wanted]
            if None in numbers:
                missing = wanted[numbers.index(None)]
                raise answers.method.not_stored(opened.reader, self._name, missing)
            distinct, places = distinct_of(np.array(numbers, np.uint32))
            if opened.settings.kind.estimates:
                documents = (document for _, document in opened.reader.documents_of(distinct))
                rows = opened.signer.features([bytes(document.item) for document in documents])
            else:
                _ = opened.settings.plan  # also tells that there is no index
                rows, _ = stored_signatures(opened.reader, distinct)
            return np.asarray(rows[places])

    def signed_reader(self) -> Any:
        """Return the signatures of all items as a ``pyarrow.RecordBatchReader``.

        It streams the columns ``key`` and ``signature`` in order of insertion, as of the moment the
        first batch is read. ``add_many(signature=)`` loads them, ``simdb.steps.entries`` makes
        their bucket keys. The metadata of the schema contain the fingerprint of the recipe.

        Raises:
            ConfigurationError: there is no probable index.
            UsageError: while it is read, some keys are texts and some are numbers.
            MissingExtraError: pyarrow is not installed.
        """
        settings = self._present.settings
        _ = settings.plan  # which tells that there is no index

        def columns(reader: CollectionReader, numbers: npt.NDArray[np.uint32]) -> dict[str, Any]:
            keys = answers.method.key_column(reader, numbers)
            rows, _ = stored_signatures(reader, numbers)
            every = np.arange(numbers.size)
            return {"key": arrow.taken(keys, every), "signature": arrow.bytes_column(rows)}

        def found() -> Iterator[dict[str, Any]]:
            with self._opened() as opened:
                live = opened.reader.live_numbers()
                for begin in range(0, live.size, SIGNATURES_AT_ONCE):
                    yield columns(opened.reader, live[begin : begin + SIGNATURES_AT_ONCE])
                    _require_open(opened)

        library = arrow.library()
        none = {
            "key": library.array([], library.string()),
            "signature": library.array([], library.binary()),
        }
        told = {"recipe": settings.recipe.fingerprint}
        return arrow.reader(found(), lambda: none, lambda: told)

    def items(self) -> Iterator[Entry]:
        """Yield all stored items in order of insertion, as of the moment iteration begins.

        The iteration does not see items that are added or deleted meanwhile.
        """
        with self._opened() as opened:
            for document in opened.reader.live_documents():
                yield self._record(document)
                _require_open(opened)

    def to_arrow(self) -> Any:
        """Return all items as a ``pyarrow.Table``: ``key``, ``item`` and ``metadata``.

        Rows are in order of insertion. Items have the form of JSON: texts, lists of elements or
        minutiae, bits as text, records as structs; vectors and signatures are lists of one size, of
        the numbers that are stored, weighted sets are maps. Metadata are JSON text, or null; NaN,
        infinities and bytes (as hexadecimal) in them, which earlier versions took, are text.

        Raises:
            MissingExtraError: pyarrow is not installed.
            UsageError: some keys are texts and some are numbers, or so are elements of sets.
        """
        return self._reader().read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Stream the items as Arrow columns, as they are read; see ``to_arrow``.

        They are those of the moment the stream is made, which is held until it ends or is dropped.
        """
        return self._reader().__arrow_c_stream__(requested_schema)

    def _reader(self) -> Any:
        maps = {"item"} if self.kind.of_weights else set()
        rows_again = self._plain_rows().__next__
        return arrow.reader_of(rows_again, "key", "item", "metadata", maps=maps)

    def _plain_rows(self) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the rows of one state again and again; it is held until this is dropped."""

        def rows(opened: Opened) -> Iterator[dict[str, Any]]:
            item_of = opened.settings.kind.column_item
            for document in opened.reader.live_documents():
                _require_open(opened)
                entry = self._record(document)
                metadata = None if entry.metadata is None else json_text(entry.metadata)
                yield {"key": entry.key, "item": item_of(entry.item), "metadata": metadata}

        with self._opened() as opened:
            while True:
                yield rows(opened)

    def keys_of(self, numbers: Sequence[int] | npt.NDArray[np.uint32]) -> list[Key]:
        """Return the keys of item numbers, as ``PairBatch`` has them.

        Raises:
            KeyNotFoundError: one of them is not stored (any more).
        """
        with self._opened() as opened:
            return answers.method.keys_of_live(opened.reader, numbers)

    def _record(self, document: Document) -> Entry:
        metadata = layout.unpack(document.metadata) if len(document.metadata) else None
        return Entry(
            decode_user_key(document.key),
            self._known.signer.items.decode(document.item),
            metadata,
        )

    def checkpoint(self) -> int:
        """Return where the collection stands: ``pairs(since=...)`` finds the pairs of later items.

        You may keep the number; it stays valid after ``compact`` and ``rebuild``, but only for this
        collection.
        """
        with self._opened() as opened:
            return opened.reader.manifest.next_number

    # -- looking inside ----------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return counts, sizes and settings as plain values.

        For records, also the candidates of each rule, for which the signatures are read, and a
        warning for each bucket above ``Record.large_bucket``. For fingerprints, also the number in
        no bucket (from a sample if there are more than 16,384), and a warning if these are many.
        ``kept_groups`` among the settings are the groups that the collection keeps.
        """
        with self._opened() as opened:
            return Stats(upkeep.stats.describe(opened))

    def check(
        self, *, deep: bool = False, progress: Callable[[Progress], None] | None = None
    ) -> CheckReport:
        """Read everything of the collection and compare it with its checksums and with itself.

        Args:
            deep: also compute every signature anew from its item.
            progress: called now and then.
        """
        require_function("progress", progress)
        with self._opened() as opened:
            return upkeep.check.Checker(opened, deep=deep, progress=progress).run()

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
        where: Where | None = None,
        metadata: bool = False,
    ) -> Matches:
        """Find the stored items that are similar to an item.

        The answer is exact if the exact index gives it. Otherwise it is probable: a match *at* the
        threshold is found with probability ``expected_recall``, a more similar one with a higher
        probability. Every reported similarity is the true one.

        Args:
            item: the item to search for; it need not be stored.
            threshold: least similarity of a match; the collection's if not given.
            max_distance: largest distance of a match, if the collection measures distances.
            limit: the greatest number of matches; the best are returned.
            min_recall: permits a threshold below the collection's, if at least this share of the
                matches at the threshold is expected to be found; of sets of few symbols up to a
                quarter less may be (``Matches.expected_recall``). Where the index finds less, the
                question is answered, or refused, as without ``min_recall``.
            guarantee: ``"auto"`` uses the exact index if it serves the threshold, else the probable
                one, and compares with all items if that is expected to cost less (see ``explain``).
                ``"probable"`` uses only the probable index. ``"exact"`` compares with all items if
                no exact index serves the threshold.
            measure: ``"jaccard"``, ``"dice"``, ``"cosine"``, ``"stored-in-probe"`` (the share of
                the stored item that the probe contains), ``"probe-in-stored"`` or ``"overlap"``
                (the larger of these two shares). All but the first compare every item unless an
                exact index serves them.
            where: search only items with these metadata: values by name, all of which an item must
                have (``{"source": "web"}``; a set stands for any of its values, None for a missing
                value; True is not 1, as in JSON), or a function of the metadata, which gets None
                for an item without any. The filter is applied before the answer is cut to
                ``limit``.
            metadata: whether each match carries the metadata of its item.

        Returns:
            Matches in order of decreasing similarity, equal ones in order of insertion.

        Raises:
            ThresholdTooLowError: no index serves the threshold; the message names the remedy.
        """
        asked = answers.choose.Asked(threshold, max_distance, guarantee, min_recall, measure)
        limit = require_whole("limit", limit, 1)
        among = _Among.read(where, metadata=metadata)
        with self._opened() as opened:
            items = [opened.signer.items.encode(item)]
            return _searched(opened, items, limit, asked, among)[0]

    def search_many(
        self,
        items: Iterable[object] | arrow.Table,
        *,
        item: str | Sequence[str] | None = None,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        limit: int | None = None,
        min_recall: float | None = None,
        guarantee: AskedGuarantee = "auto",
        measure: str = "jaccard",
        where: Where | None = None,
        metadata: bool = False,
    ) -> Answers:
        """Search for each of several items in one snapshot; see ``search``.

        Args:
            items: the items to search for, also as a column (a Series, an array of Arrow); in a
                table, the column named by ``item``.

        Raises:
            BadItemError: one of them can be no item; its position, from 0, is ``row``.
        """
        asked = answers.choose.Asked(threshold, max_distance, guarantee, min_recall, measure)
        given = arrow.items_of(_rows("items", items), item)
        limit = require_whole("limit", limit, 1)
        among = _Among.read(where, metadata=metadata)
        with self._opened() as opened:
            return Answers(
                _searched(opened, _encoded(opened, list(given)), limit, asked, among),
                is_distance=opened.settings.kind.is_distance,
                with_metadata=metadata,
                of_numbers=opened.has_number_keys,
            )

    def pairs(
        self,
        threshold: ThresholdLike | None = None,
        *,
        max_distance: ThresholdLike | None = None,
        guarantee: AskedGuarantee = "auto",
        min_recall: float | None = None,
        measure: str = "jaccard",
        since: int | None = None,
        where: Where | None = None,
        metadata: bool = False,
        resume: str | None = None,
        budget: int | None = None,
    ) -> Pairs:
        """Find all pairs of stored items that are similar to each other.

        Pairs are exact or probable as in ``search``, and stream in bounded memory. Each pair comes
        once, with the item inserted first as ``left``, in an order that does not depend on threads.
        The pairs are those of the moment iteration begins; items may be added and deleted
        meanwhile.

        With ``since``, only pairs of later items are returned, among themselves and with earlier
        ones (MMDS 3.9.4); those of all batches together are all pairs. If at most one in 32 items
        is new and an index serves the threshold, each new item is looked up in the index, so the
        cost depends on the new items only.

        Args:
            threshold, max_distance, min_recall: as for ``search``.
            guarantee: as for ``search``; ``"exact"`` needs no exact index if the symbols of all
                items fit into the memory setting. Where ``"auto"`` chose that, and they turn out
                not to fit, the probable index answers; ``Pairs.guarantee`` then says so. Vectors
                are compared all with all, which takes quadratic time; ``explain`` estimates what
                other kinds take.
            measure: ``"jaccard"``, ``"dice"``, ``"cosine"`` or ``"overlap"``. The last three give
                exact answers, as with ``guarantee="exact"``.
            since: ``since`` of an ``AddReport``, or a result of ``checkpoint``. ``Pair.sides`` then
                distinguishes pairs of two later items from pairs with an earlier one.
            where: only pairs of two items with these metadata, as for ``search``.
            metadata: whether pairs carry the metadata of both items.
            resume: continue an exact answer that was left off, with the ``token`` of its ``Pairs``
                and the same arguments. Finished pairs are not compared again, but all items are
                loaded again (in memory), or the postings are read again. Only for Jaccard
                similarity.
            budget: the most pairs to look at, None for any number: a pair counts as often as it
                meets in a bucket or in postings, or once if no index serves; of equal sets, in
                an exact answer, none is looked at. Beyond it the call ends with an error; no pair
                is dropped.

        Returns:
            An iterable of ``Pair``; its ``batches()`` yields columns instead, which is faster.

        Raises:
            OperationInterruptedError: while iterating: the budget is spent.
            ConfigurationError: without ``since``, a rule proposes more pairs than
                ``Record.rule_budget``; or the collection has not come so far as ``since``, as after
                a restore; or, while iterating, it was rebuilt meanwhile, and measures otherwise or
                finds less than was promised.
        """
        asked = answers.choose.Asked(threshold, max_distance, guarantee, min_recall, measure)
        first = None if since is None else answers.choose.read_since(since)
        with self._opened() as opened:
            # New items are few, or looked up: what all pairs would cost says nothing of them.
            method = _method(opened, "pairs", asked, resume, weighed=since is None)
            if first is not None:
                _require_reached(opened, first)
            if not first:
                _require_candidates(opened, method)
        since_both = None if first is None else Since(first, first, of_one=True)
        among = _Among.read(where, metadata=metadata)
        kind = opened.settings.kind
        return self._streamed(None, method, kind, budget, (among, among), since=since_both)

    def _streamed(
        self,
        other: CollectionView | None,
        method: Method,
        kind: Kind,
        budget: int | None,
        among: tuple[_Among, _Among],
        *,
        since: Since | None = None,
        apart: list[tuple[Key, Key]] | None = None,
    ) -> Pairs:
        """Return pairs that are found as they are asked for; without another one, of this one.

        With ``apart`` those of a join one to one, none of which is among these.
        """
        budget = require_whole("budget", budget, 1)
        work, promise = Work(budget), Promise(method.promise(kind), method.recall)
        return Pairs(
            partial(
                self._answered,
                other,
                method,
                kind,
                among=among,
                since=since,
                work=work,
                promise=promise,
                apart=apart,
            ),
            promise,
            work=work,
            token=method.resume,
            is_distance=kind.is_distance,
            since=since,
            with_metadata=among[0].metadata,
            have_number_keys=partial(self._have_number_keys, other),
        )

    def _answered(
        self,
        other: CollectionView | None,
        method: Method,
        kind: Kind,
        *,
        among: tuple[_Among, _Among],
        since: Since | None,
        work: Work,
        promise: Promise,
        apart: list[tuple[Key, Key]] | None,
    ) -> Iterator[AnsweredBatch]:
        with self._sides(other, work) as (whole, other_whole):
            _require_kind(kind, whole, other_whole)
            left = among[0].of(whole)
            right = left if other is None else among[1].of(other_whole)

            def found_by(method: Method) -> Iterator[AnsweredBatch]:
                promise.guarantee, promise.expected_recall = method.promise(kind), method.recall
                if not method.is_served_by(right.settings):
                    raise ConfigurationError(
                        f"collection {right.settings.name!r} was rebuilt after these pairs were "
                        "asked for, and its index does not serve them as promised: ask again"
                    )
                if apart is not None:
                    found = answers.entities.assigned(method, left, right, apart)
                else:
                    first = 0 if since is None else since.right
                    joins = other is not None
                    pairs = method.join(left, right) if joins else method.pairs(left, since=first)
                    found = answers.method.answered(method, left, right, pairs)
                return chain([*islice(found, 1)], found)  # the first tells whether there is room

            for batch, known, token in answers.method.by_what_has_room(method, found_by):
                yield (batch if since is None else since.among(batch)), known, token
                _require_open(left)
                _require_open(right)

    def groups(
        self,
        threshold: ThresholdLike | None = None,
        *,
        max_distance: ThresholdLike | None = None,
        min_recall: float | None = None,
        guarantee: AskedGuarantee = "auto",
        method: Clusters = "chain",
        apart: Iterable[tuple[Key, Key]] | None = None,
        earlier: Groups | bytes | None = None,
        where: Where | None = None,
        metadata: bool = False,
        budget: int | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Groups:
        """Return the groups of items that similar pairs connect, each with a representative.

        ``method`` decides which items belong together if more than two are connected:

        - ``"chain"``: all connected items. Two items of a group need not be similar.
        - ``"star"``: every item is within the bound of a centre, and belongs to the most similar
          one of several. Among connected items, those similar to most others become centres. The
          centre is the representative; in the other methods it is the item inserted first.
        - ``"average"``: groups grow as long as their items are within the bound on average (average
          linkage). Two items that are not a pair count as similarity 0, or as twice the largest
          distance.
        - ``"correlation"``: few similar items are separated and few others are together: a local
          minimum of ``Groups.objective``.

        All methods but ``"chain"``, and ``"chain"`` with ``apart``, even if that is empty, hold all
        pairs in memory. ``"average"`` and ``"correlation"`` take memory for the square of the items
        that are connected.

        Args:
            threshold, max_distance, min_recall, guarantee: as for ``pairs``.
            method: how groups are made from pairs.
            apart: pairs of keys that are never the same, whatever their similarity: no group has
                both. With ``"chain"`` the most similar pairs are joined first.
            earlier: the result of an earlier call with a method other than ``"chain"``, or with
                ``apart``; or its ``state()``, which can be kept in a file. Only pairs of later
                items are looked for, and only the groups affected by these, by deleted items or by
                another ``apart`` are made anew. The answer is the same as without ``earlier``.
            where: only items with these metadata, as for ``search``; other items do not connect
                them. Not together with ``earlier``.
            metadata: whether groups carry the metadata of their items.
            budget: as for ``pairs``; items that are already connected are not looked at again.
            progress: called now and then.

        Returns:
            An iterable of ``Group`` of two items or more, in order of their first items.

        Raises:
            OperationInterruptedError: the budget is spent.
            ConfigurationError: the pairs, or the items connected by them, do not fit into memory;
                ``earlier`` is from another collection or from before a rebuild with other settings,
                or made with other arguments; or, without it, a rule proposes more pairs than
                ``Record.rule_budget``.
            KeyNotFoundError: a key of ``apart`` is not stored.
        """
        budget = require_whole("budget", budget, 1)
        require_function("progress", progress)
        require_choice("method", method, *answers.entities.METHODS)
        if method == "average":
            require("statistics", "the method average needs", "scipy")
        kept_apart = [] if apart is None else _listed(apart)
        work = Work(budget)
        asked = answers.choose.Asked(threshold, max_distance, guarantee, min_recall)
        among = _Among.read(where, metadata=metadata)
        if where is not None and earlier is not None:
            raise ConfigurationError("groups that continue earlier ones cover all items")
        if method != "chain" or apart is not None or earlier is not None:
            with self._opened(work) as whole:
                opened = among.of(whole)
                answering = _method(opened, "pairs", asked)
                if earlier is None:
                    _require_candidates(opened, answering)

                def grouped_by(answering: Method) -> Groups:
                    made = answers.entities.grouped(
                        answering, opened, method, kept_apart, earlier=earlier, progress=progress
                    )
                    return answers.entities.groups(made, answering, opened)

                return answers.method.by_what_has_room(answering, grouped_by)
        with self._opened(work) as whole:
            opened = among.of(whole)
            answering = _method(opened, "groups" if where is None else "pairs", asked)
            _require_candidates(opened, answering)
            answering, found = answers.method.by_what_has_room(
                answering, lambda one: (one, answers.method.connected(one, opened, progress))
            )
            keys = [answers.method.keys_of_numbers(opened.reader, members) for members in found]
            told = answers.method.metadata_of_groups(opened, found)
            of_numbers = opened.has_number_keys
            promised = answering.promise(opened.settings.kind)
        how = promised, answering.recall, work.looked_at
        return Groups(keys, *how, metadata=told, of_numbers=of_numbers)

    def group_of(
        self,
        key: Key,
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
    ) -> KeptGroup:
        """Return the kept group that contains an item.

        The cost depends on the size of the group, not on the size of the collection. An item in no
        group is returned alone, without an id.

        Args:
            key: the key of the item.
            threshold, max_distance: one of the bounds at which groups are kept; the widest if not
                given.

        Raises:
            KeyNotFoundError: the key is not stored.
            ConfigurationError: no groups are kept, or none at that bound.
        """
        with self._opened() as opened:
            bound = opened.settings.kind.parse_bound(threshold, max_distance)
            return answers.kept.group_of(opened, key, bound)

    def group_id(
        self,
        key: Key,
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
    ) -> int | None:
        """Return the id of the kept group that contains an item; None if it is in no group.

        The cost does not depend on the size of the group. Arguments and errors as for ``group_of``.
        """
        with self._opened() as opened:
            bound = opened.settings.kind.parse_bound(threshold, max_distance)
            return answers.kept.group_id(opened, key, bound)

    def group(self, identity: int) -> KeptGroup:
        """Return a kept group by its id.

        An id that was merged into another is an alias; the other group is returned, with its id.

        Raises:
            GroupNotFoundError: no group has that id, or none any more.
            ConfigurationError: no groups are kept.
        """
        with self._opened() as opened:
            return answers.kept.group(opened, identity)

    def kept_groups(
        self,
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        after: int = 0,
    ) -> Iterator[KeptGroup]:
        """Yield all kept groups of two items or more, in order of their ids.

        Nothing is compared; ``groups`` makes groups anew. Errors as for ``group_of``.

        Args:
            threshold, max_distance: as for ``group_of``.
            after: yield only groups with a greater id; those before it are not read.
        """
        after = require_whole("after", after, 0, optional=False)
        with self._opened() as opened:
            bound = opened.settings.kind.parse_bound(threshold, max_distance)
            for group in answers.kept.all_groups(opened, bound, after):
                yield group
                _require_open(opened)

    def changes(self, since: int = 0) -> Iterator[GroupChange]:
        """Yield the changes of the kept groups, in order.

        Repeating all changes from 0 gives the present groups. The log is kept as long as the groups
        are, and grows with every change.

        Args:
            since: the ``number`` of the last change that you know.

        Raises:
            ConfigurationError: no groups are kept; or, while iterating, there was no change
                ``since`` yet, as after a restore, or it is of groups that were dropped: begin again
                from 0.
        """
        since = require_whole("since", since, 0, optional=False)
        with self._opened() as opened:
            for change in answers.kept.changes(opened, since):
                yield change
                _require_open(opened)

    def join(
        self,
        other: CollectionView | Iterable[Any] | arrow.Table,
        threshold: ThresholdLike | None = None,
        *,
        key: str | None = None,
        item: str | Sequence[str] | None = None,
        max_distance: ThresholdLike | None = None,
        guarantee: AskedGuarantee = "auto",
        min_recall: float | None = None,
        measure: str = "jaccard",
        one_to_one: bool = False,
        apart: Iterable[tuple[Key, Key]] = (),
        since: int | None = None,
        other_since: int | None = None,
        where: Where | None = None,
        other_where: Where | None = None,
        metadata: bool = False,
        resume: str | None = None,
        budget: int | None = None,
    ) -> Pairs:
        """Find all pairs of an item of this collection and a similar one of another, or of a table.

        Pairs stream in bounded memory. Each comes once, ``left`` from this collection and ``right``
        from the other. Both collections must have the same settings of their kind. Rows that are
        no collection become one with the settings of this one, in a file that is deleted when the
        pairs are let go of.

        By default texts, sets, bags and bits by Tanimoto similarity are joined exactly, by an exact
        index of the other collection that serves the threshold, or without one if the symbols of
        both collections are expected to take no more than half of the memory setting. If neither
        is so, or the symbols turn out not to fit, the probable index of the other collection
        answers, if it is planned for the threshold; ``Pairs.guarantee`` then says so. With
        ``guarantee="exact"``, or without such an index, the join is tried in all of the memory
        setting, and is an error if that is too little. Items of other kinds are joined exactly
        where that is quick, and else looked up in the probable index of the other collection;
        ``explain`` tells which.

        Args:
            other: a collection of this or of another database; or rows, as ``add_many`` takes
                them, of which none may be bad.
            key, item: the names of these columns, if the rows are a table, as for ``add_many``.
            threshold, max_distance, min_recall: as for ``search`` in the other collection; its
                bound if not given.
            guarantee: ``"auto"``, ``"exact"`` or ``"probable"``.
            measure: as for ``search``, with each item of this collection as a probe among the
                stored items of the other. Containment without a suitable exact index needs memory
                for the items that may be contained.
            one_to_one: each item is in one pair at most, for collections without duplicates of
                their own. Of all such choices one with the largest sum of similarities is made (a
                distance d of at most D counts 1 - d / 2D). All pairs are held in memory, and none
                is returned before all are found.
            apart: pairs of keys, left and right, that are never the same: none is chosen.
            since, other_since: only pairs with an item that was added later, to this or to the
                other collection; ``Pair.sides`` says to which. If only one is given, no item of the
                other collection counts as new.
            where, other_where: only pairs of items with these metadata, of this and of the other
                collection, as for ``search``. ``one_to_one`` then chooses among these pairs.
            metadata: as for ``pairs``.
            resume, budget: as for ``pairs``; a join with ``one_to_one`` cannot be resumed.

        Raises:
            ConfigurationError: the kinds of items differ; a rule proposes more pairs than
                ``Record.rule_budget`` of the other; a collection has not come so far as its
                ``since``, as after a restore; or, while iterating, the pairs for ``one_to_one`` do
                not fit into memory, or a collection was rebuilt meanwhile, as for ``pairs``.
            KeyNotFoundError: while iterating: a key of ``apart`` is not stored.
            KeyExistsError, BadItemError: a row cannot be compared; ``row`` says which, from 0.
            WrongTypeError: the other is neither a collection nor rows.
            OperationInterruptedError: while iterating: the budget is spent.
        """
        asked = answers.choose.Asked(threshold, max_distance, guarantee, min_recall, measure)
        given = [
            None if mark is None else answers.choose.read_since(mark)
            for mark in (since, other_since)
        ]
        one_to_one = require_truth("one_to_one", one_to_one)
        if one_to_one:
            require("statistics", "one to one needs", "scipy")
        kept_apart = _listed(apart)
        if kept_apart and not one_to_one:
            raise ConfigurationError("apart= needs one_to_one=True")
        if one_to_one and resume is not None:
            raise ConfigurationError("one-to-one pairs depend on all pairs: leave out resume=")
        among = (
            _Among.read(where, metadata=metadata),
            _Among.read(other_where, metadata=metadata),
        )
        if not isinstance(other, CollectionView):
            if any(one is not None for one in (other_since, other_where, resume)):
                raise UsageError(
                    "other_since=, other_where= and resume= need a collection, not rows"
                )
            with self._opened() as own:  # whose settings the rows will have: before they are read
                _method(own, "join", asked, left=own)
            other = self._collected(other, key, item)
        elif key is not None or item is not None:
            raise UsageError("key= and item= name columns of a table, but the other is stored")
        with self._sides(other) as (left, right):
            answers.choose.require_alike(left.settings, right.settings)
            for side, mark in zip((left, right), given, strict=True):
                if mark is not None:
                    _require_reached(side, mark)
            method = _method(right, "join", asked, resume, left=left)
            _require_candidates(right, method, left)
        marks = [MOST_ITEMS if mark is None else mark for mark in given]
        told = None
        if since is not None or other_since is not None:
            told = Since(marks[0], marks[1], of_one=False)
        kept = kept_apart if one_to_one else None
        kind = right.settings.kind
        return self._streamed(other, method, kind, budget, among, since=told, apart=kept)

    def _collected(
        self, rows: object, key: str | None, item: str | Sequence[str] | None
    ) -> Collection:
        """Return rows as a collection with the settings of this one, whose file goes with it."""
        if not arrow.is_table(rows) and (
            isinstance(rows, str | bytes) or not can_be_iterated(rows)
        ):
            told = f"other must be a collection, a table or rows, not {type(rows).__name__}"
            raise WrongTypeError(told)
        given = arrow.rows_of(rows, key, item, ())
        # A name that nobody else has: an interrupt of mkdtemp would leave one that nobody knows.
        temporary = Path(late.module("tempfile").gettempdir())  # mostly not needed
        folder = temporary / f"simdb-{os.urandom(16).hex()}"
        memory, threads = self._handle.memory, self._handle.threads
        try:
            folder.mkdir(0o700)
            handle = Handle(folder / "rows.simdb", sync="never", threads=threads, memory=memory)
            weakref.finalize(handle, _remove, folder, os.getpid())
            with handle.write() as transaction:
                # Under the same name: what would mend an index of it would mend it here.
                settings = CollectionSettings.made_by(self.recipe(), self._name)
                catalogue.create(transaction, settings)
            made = Collection(handle, self._name, None)
            made.add_many(given)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, KeyExistsError):  # none is stored that could be replaced
                told = f"key {error.key!r} comes twice"
                raise KeyExistsError(told, row=error.row, key=error.key) from error
            raise
        return made

    def score(self, pairs: GivenPairs, other: CollectionView | None = None) -> Pairs:
        """Compare given pairs of stored items, as candidates are compared.

        Args:
            pairs: keys, left and right; or a table with columns ``left`` and ``right``, such as
                the answer of ``pairs`` or of another program.
            other: the collection of the right keys, as for ``join``; by default this collection.

        Returns:
            All pairs in the given order, however similar: an iterable of ``Pair``, or columns of
            Arrow.

        Raises:
            KeyNotFoundError: while iterating: a key is not stored.
            WrongTypeError: something is not a pair of keys.
            ConfigurationError: the kinds of items differ, or a table lacks the columns; or, while
                iterating, a collection was rebuilt meanwhile, and measures otherwise.
        """
        handed = answers.scoring.read_pairs(pairs)
        with self._sides(other) as (left, right):
            answers.choose.require_alike(left.settings, right.settings)
        kind = right.settings.kind
        work = Work()
        return Pairs(
            partial(self._scored, other, kind, handed, work),
            Promise("estimate" if kind.estimates else "exact", 1.0),
            work=work,
            token=None,
            is_distance=kind.is_distance,
            have_number_keys=partial(self._have_number_keys, other),
        )

    def _have_number_keys(self, other: CollectionView | None) -> tuple[bool, bool]:
        return has_number_keys(self), has_number_keys(self if other is None else other)

    def _scored(
        self, other: CollectionView | None, kind: Kind, pairs: list[tuple[Key, Key]], work: Work
    ) -> Iterator[AnsweredBatch]:
        with self._sides(other, work) as (left, right):
            _require_kind(kind, left, right)
            for batch in answers.scoring.scored(left, right, pairs):
                yield batch
                _require_open(left)
                _require_open(right)

    def explain(
        self,
        verb: Literal["search", "pairs", "join", "groups"],
        item: object = None,
        *,
        other: CollectionView | None = None,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        min_recall: float | None = None,
        guarantee: AskedGuarantee = "auto",
        measure: str = "jaccard",
        run: bool = False,
    ) -> Explanation:
        """Say how a question would be answered, which methods are possible, and what each costs.

        The estimates come from counts of the store and from rates measured on some of its items.
        With ``"auto"`` they decide among the methods that keep the promise of the collection.

        Args:
            verb: the call that asks the question.
            item: the item to search for; needed only to run a search.
            other: the other collection of a ``"join"``.
            threshold, max_distance, min_recall, guarantee, measure: as for the call.
            run: also answer the question, and count the work.

        Raises:
            ConfigurationError, ThresholdTooLowError: as the call itself.
        """
        require_choice("verb", verb, "search", "pairs", "join", "groups")
        if (verb == "join") is (other is None):
            raise ConfigurationError("other= is needed by explain('join'), and by nothing else")
        if run and verb == "search" and item is None:
            raise ConfigurationError("to run a search, explain needs an item")
        asked = answers.choose.Asked(threshold, max_distance, guarantee, min_recall, measure)
        work = Work()
        with self._sides(other, work) as (left, right):
            answers.choose.require_alike(left.settings, right.settings)
            explained = answers.choose.explain(asked.question(verb, right.settings), left, right)
            if not run:
                return explained
            joined = left if verb == "join" else None
            method = _method(right, verb, asked, left=joined)
            if verb != "search":
                _require_candidates(right, method, joined)
            begun = time.process_time()

            def count_by(method: Method) -> tuple[str, int]:
                if verb == "search":
                    found = len(method.search(right, right.signer.items.encode(item), None))
                elif verb == "groups":
                    found = len(method.groups(right))
                else:
                    joins = verb == "join"
                    batches = method.join(left, right) if joins else method.pairs(right)
                    found = sum(batch.left.size for batch, _ in batches)
                return method.name, found

            name, found = answers.method.by_what_has_room(method, count_by)
            seconds = time.process_time() - begun
        counted = {name: count for name, count in structs.asdict(work).items() if name != "budget"}
        told = [structs.replace(one, chosen=one.method == name) for one in explained.alternatives]
        alternatives = tuple(sorted(told, key=lambda one: not one.chosen))
        return structs.replace(
            explained, alternatives=alternatives, answers=found, work=counted, seconds=seconds
        )

    def calibrate(
        self,
        field: str | Callable[[Any, Any], float | None],
        *,
        other: CollectionView | None = None,
        threshold: ThresholdLike | None = None,
        edges: Sequence[float] | None = None,
        certain: float = 1.0,
        matched: float | Literal["labelled"] | None = None,
        random: float | None = None,
        sample: int = 10_000,
        seed: int = 0,
        confidence: float = 0.95,
        progress: Callable[[Progress], None] | None = None,
    ) -> Calibration:
        """Estimate how many pairs of each score are true matches, without labels (MMDS 3.8.3).

        The pairs are those that the probable index proposes. A field that is not scored tells true
        matches from false ones. It differs by h0 on average in true matches and by h1 in random
        pairs, so if it differs by h in some pairs, a fraction (h1 - h) / (h1 - h0) of them is true.
        This assumes that the difference does not depend on the score, neither in true matches nor
        in false ones. ``Calibration.test`` tests this on pairs that surely match, and ``warnings``
        says where it fails.

        Args:
            field: the name of a field of weight 0 that no rule names. Numbers differ by their
                difference, dates by days, texts by 0 or 1. Or a function of two items, as they were
                given, that returns their difference, or None if it is unknown.
            other: the collection that this one is joined with; by default, pairs of this one.
            threshold: the least score; that of the collection by default. A lower one is permitted:
                missed pairs make the estimate less certain, not wrong.
            edges: the edges of the buckets of scores; by default 0.05 apart.
            certain: the score from which on pairs surely match. These pairs measure h0; below 1
                they also show whether the difference depends on the score.
            matched: h0, if it is known; or ``"labelled"`` to measure it on the pairs labelled as
                matches (``label``).
            random: h1, if it is known.
            sample: how many random pairs measure h1; unless these are few, no more are drawn than
                there are, in either order.
            seed: of their choice, and of the items that are resampled for the intervals.
            confidence: of the intervals, which allow for items that are in several pairs.
            progress: called now and then.

        Returns:
            The buckets; ``threshold_for(0.99)`` is the score from which on 99 % of the pairs match.

        Raises:
            ConfigurationError: the field is scored or names candidates; no pair is certain; or true
                matches differ as much as random pairs.
        """
        if not isinstance(field, str):
            require_function("field", field, optional=False)
        require_function("progress", progress)
        sample = require_whole("sample", sample, 1, optional=False)
        seed = require_whole("seed", seed, 0, optional=False)
        wanted = upkeep.calibrate.Wanted(edges, certain, matched, random, sample, seed, confidence)
        wanted = wanted.checked()
        with self._sides(other) as both:
            sides = upkeep.calibrate.Sides(*both)
            bound = sides.right.settings.kind.parse_bound(threshold)
            upkeep.stats.require_candidates(sides.right, None if sides.is_one else sides.left)
            return upkeep.calibrate.calibrate(sides, field, bound, wanted, progress)

    def learn(
        self,
        labels: Iterable[tuple[Key, Key, bool]] | Literal["stored"] | None = None,
        *,
        other: CollectionView | None = None,
        sample: int = 100_000,
        seed: int = 0,
        one_to_one: bool = False,
        earlier: Weights | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Weights:
        """Learn what each field of records says about matches, without labels or from them.

        Each field of a pair agrees on a level: equal, at least 0.9, 0.7, 0.5 or 0.3 of its weight,
        or less; by ``cosine`` each tenth is one; ``Field.levels`` sets other levels. Without labels
        each level gets the evidence of Fellegi and Sunter. Of its two shares, u among random pairs
        is measured, and m among matches is found by expectation maximisation over the candidates,
        where the candidates of one record compete. Fields are not independent, so a logistic
        regression then fits their joint evidence. Labels adjust this by a second regression. The
        collection does not change; ``rebuild(weights.kind, threshold=weights.threshold(0.9))``
        applies the points.

        Args:
            labels: (key, key, whether they match), the left key of this collection and the right
                one of the other; or ``"stored"`` for those that the store keeps (``label``).
            other: the collection that this one is joined with; by default, pairs of this one.
            sample: how many random pairs measure u, among 2,000 items of either side; unless these
                are few, no more are drawn than there are, in either order.
            seed: of their choice.
            one_to_one: the pairs will be joined one to one. The join then lets the likely pairs of
                a record compete, so learning does not. Pairs are chosen while weights are learnt,
                which are learnt again from these, and probabilities are those of a chosen pair,
                as the pairs that are not chosen tell.
            earlier: weights learnt before, without labels, from this collection alone under the
                same settings; only pairs of later items are looked at. The result is the same as
                without ``earlier``, which is ignored if it is from another collection or a later
                state, or if since then an item was deleted or replaced or the store restored,
                loaded or repaired.
            progress: called now and then.

        Raises:
            ConfigurationError: items have no fields, or are not indexed; no rule proposes a pair,
                or none leaves two fields; nothing looks like a match; there are no labels, all are
                the same, or two of one pair contradict each other; or no field is evidence of
                anything.
            KeyNotFoundError: a key of a label is not stored.
            WrongTypeError: something is no label, or ``earlier`` does not come from ``learn``.
        """
        sample = require_whole("sample", sample, 1, optional=False)
        seed = require_whole("seed", seed, 0, optional=False)
        require_function("progress", progress)
        if earlier is not None:
            _require_weights("earlier", earlier)
        with self._sides(other) as both:
            sides = upkeep.calibrate.Sides(*both)
            upkeep.stats.require_candidates(sides.right, None if sides.is_one else sides.left)
            drawn: dict[str, Any] = {"sample": sample, "seed": seed, "one_to_one": one_to_one}
            if labels is None:
                return upkeep.weigh.learn(sides, **drawn, earlier=earlier, progress=progress)
            return upkeep.weigh.learn_from(
                sides, labels, **drawn, earlier=earlier, progress=progress
            )

    @overload
    def explain_pair(
        self,
        left: Key,
        right: Key,
        weights: None = None,
        *,
        other: CollectionView | None = None,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
    ) -> PairExplanation: ...
    @overload
    def explain_pair(
        self, left: Key, right: Key, weights: Weights, *, other: CollectionView | None = None
    ) -> PairEvidence: ...
    def explain_pair(
        self,
        left: Key,
        right: Key,
        weights: Weights | None = None,
        *,
        other: CollectionView | None = None,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
    ) -> PairExplanation | PairEvidence:
        """Say why two stored items are similar, or not.

        The result shows what the items share and what differs (shingles with their places,
        elements, bits, minutiae, fields with their points), which band, rule or rare symbol of the
        indexes contains both, and how probable it was that the index finds the pair. It prints as a
        few lines.

        With ``weights`` the result shows instead the evidence of each field of two records, and
        prints as a waterfall. An equal value that is frequent is weaker evidence
        (``FieldEvidence.adjustment``).

        Args:
            left, right: keys, ``right`` of the other collection if there is one.
            weights: the weights of records under the present settings, from ``learn``.
            other: as for ``learn``; its index is then used.
            threshold, max_distance: the bound for similar items; the collection's if not given.

        Raises:
            KeyNotFoundError: a key is not stored.
            ConfigurationError: the kinds of items differ, or the weights are of other fields or
                levels.
            WrongTypeError: the weights do not come from ``learn``.
        """
        if weights is not None:
            _require_weights("weights", weights)
        with self._sides(other) as both:
            if weights is not None:
                return upkeep.weigh.explain_pair(
                    upkeep.calibrate.Sides(*both), weights, left, right
                )
            answers.choose.require_alike(both[0].settings, both[1].settings)
            bound = both[1].settings.kind.parse_bound(threshold, max_distance)
            probe = answers.evidence.Probe.stored(both[0], left)
            return answers.evidence.explain_pair(both[1], probe, right, bound)

    def explain_match(
        self,
        item: object,
        key: Key,
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
    ) -> PairExplanation:
        """Say why an item that need not be stored is similar to a stored one, or not.

        Args:
            item: an item, such as one given to ``search``.
            key: the key of the stored item, such as a match.
            threshold, max_distance: as for ``explain_pair``.

        Raises:
            KeyNotFoundError: the key is not stored.
            BadItemError: the item is not of the collection's kind.
        """
        with self._opened() as opened:
            bound = opened.settings.kind.parse_bound(threshold, max_distance)
            probe = answers.evidence.Probe(opened.signer.items.encode(item))
            return answers.evidence.explain_pair(opened, probe, key, bound)

    def match_probabilities(
        self,
        pairs: Any,
        weights: Weights,
        *,
        other: CollectionView | None = None,
    ) -> list[float]:
        """Return the probability that each pair matches, by the evidence of all fields.

        Args:
            pairs: as for ``score``, or ``Pair`` objects.
            weights, other: as for ``explain_pair``.

        Raises:
            KeyNotFoundError, ConfigurationError, WrongTypeError: as for ``explain_pair``.
        """
        _require_weights("weights", weights)
        given = answers.scoring.read_pairs(pairs)
        lefts, rights = zip(*given, strict=True) if given else ((), ())
        with self._sides(other) as both:
            sides = upkeep.calibrate.Sides(*both)
            bits = upkeep.weigh.evidence(
                sides, weights, *upkeep.weigh.numbers_of(sides, lefts, rights)
            )
        return [weights.probability(own) for own in (bits - weights.prior).tolist()]

    def labels(self, *, other: CollectionView | None = None) -> Labels:
        """Return the labels of pairs that the store keeps; see ``Collection.label``.

        Args:
            other: the collection of the right keys; by default, pairs of this one.
        """
        with self._sides(other) as both:
            return upkeep.labelling.stored(*both)

    def uncertain(
        self,
        weights: Weights | None = None,
        *,
        other: CollectionView | None = None,
        limit: int = 20,
        progress: Callable[[Progress], None] | None = None,
    ) -> list[UncertainPair]:
        """Return the pairs of records whose labels would help most.

        These are the candidates without a label, nearest to a probability of one half first. Each
        further pair whose fields agree in the same way counts as one bit more certain.

        Args:
            weights: weights under the present settings, from ``learn``; learnt without labels if
                not given.
            other: the collection that this one is joined with; by default, pairs of this one.
            limit: how many.
            progress: called now and then.

        Raises:
            ConfigurationError: as for ``learn``; or the weights are of other fields or levels.
        """
        limit = require_whole("limit", limit, 1, optional=False)
        require_function("progress", progress)
        if weights is None:
            weights = self.learn(other=other, progress=progress)
        _require_weights("weights", weights)
        with self._sides(other) as both:
            return upkeep.uncertain.uncertain(
                upkeep.calibrate.Sides(*both), weights, limit, progress
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

        One pass over all items compares each of ``sample`` items with *every* stored item to find
        its true neighbours. These are compared with the matches of a search.

        Args:
            sample: how many items, drawn with ``seed``.
            threshold, max_distance: the bound for similar items; the collection's if not given.
            seed: of the random choice.
            progress: called now and then.

        Raises:
            ConfigurationError: there is no probable index to measure.
            MissingExtraError: SciPy is not installed (the extra ``statistics``).
        """
        sample = require_whole("sample", sample, 1, optional=False)
        seed = require_whole("seed", seed, 0, optional=False)
        require_function("progress", progress)
        with self._opened() as opened:
            settings = opened.settings
            wanted = settings.kind.parse_bound(threshold, max_distance)
            if wanted is None:
                wanted = settings.bound
            return upkeep.audit.audit(opened, wanted, sample=sample, seed=seed, progress=progress)

    def survey(self, *, sample: int = 1_000, seed: int = 0) -> Survey:
        """Search for some items drawn at random, also for matches less similar than the bound.

        The cost is that of ``sample`` searches, whatever the size of the collection. Matches that
        the probable index finds below its threshold are scaled up by its curve, to account for the
        ones that it misses there; of fast sketches (of at most 512 rows) by the curve for sets of
        as many symbols, to a hundredth.

        Args:
            sample: how many items; fewer once they have 250,000 matches, as of many equal ones.
                Where no index serves and each is compared with all others, as many as make 20
                million comparisons, at least 50.
            seed: of the random choice.
        """
        sample = require_whole("sample", sample, 1, optional=False)
        seed = require_whole("seed", seed, 0, optional=False)
        with self._opened() as opened:
            return upkeep.survey.survey(opened, sample=sample, seed=seed)

    def shares_met(self, pairs: GivenPairs, *, tries: int = 10, seed: int = 0) -> list[float]:
        """Return the share of random indexes of which the buckets would propose each pair.

        The indexes have the settings of this collection, but ``tries`` times other random
        functions. On real pairs this measures the S-curve, independently of how the pairs were
        found. It is the curve of ``Plan.curve``: that a search at a bound drops pairs far below it,
        which agree in too few rows, does not count here. ``explain_pair`` counts it.

        Raises:
            KeyNotFoundError: a key is not stored.
            WrongTypeError: something is not a pair of keys.
            ConfigurationError: there is no probable index.
        """
        tries = require_whole("tries", tries, 1, optional=False)
        seed = require_whole("seed", seed, 0, optional=False)
        given = answers.scoring.read_pairs(pairs)
        with self._opened() as opened:
            _ = opened.settings.plan  # also tells that there is no index
            return upkeep.survey.shares_met(opened, given, tries=tries, seed=seed)

    # -- transactions ------------------------------------------------------------------------

    @property
    def _present(self) -> Known:
        with self._reading() as transaction:
            return self._refresh(transaction)

    def _reading(self) -> AbstractContextManager[ReadTransaction]:
        return self._handle.read() if self._snapshot is None else self._in_snapshot(self._snapshot)

    @contextmanager
    def _in_snapshot(self, snapshot: ReadTransaction) -> Iterator[ReadTransaction]:
        with self._handle.read_in(snapshot), snapshot.translated():
            yield snapshot

    def _opened(
        self, work: Work | None = None, within: ReadTransaction | None = None
    ) -> AbstractContextManager[Opened]:
        """Read the collection in a snapshot, or within a transaction if that is of its file.

        ``work`` is what an answer costs anew.
        """
        if within is not None and within.environment is self._handle.environment:
            self._require_open()
            return nullcontext(self._opened_in(within, work or Work()))
        return _Opening(self, work or Work())

    def _opened_in(self, transaction: ReadTransaction, work: Work) -> Opened:
        work.looked_at = 0
        known = self._refresh(transaction)
        reader = CollectionReader(transaction, known.settings.number)
        return Opened(known.settings, known.signer, reader, self._resources, work)

    @contextmanager
    def _sides(
        self,
        other: CollectionView | None,
        work: Work | None = None,
        within: ReadTransaction | None = None,
    ) -> Iterator[tuple[Opened, Opened]]:
        """Read the left and the right side of pairs: this and another one, or this as both."""
        if other is not None and not isinstance(other, CollectionView):
            raise WrongTypeError(f"other must be a collection, not {type(other).__name__}")
        with self._opened(work, within) as left:
            if other is None:
                yield left, left
                return
            with other._opened(work, within) as right:
                yield left, right

    def _refresh(self, transaction: ReadTransaction) -> Known:
        known = self._known = self._known.refreshed(transaction)
        return known


def has_number_keys(collection: CollectionView) -> bool:
    """Whether all keys of a collection are numbers; not if there is none."""
    with collection._opened() as opened:
        return opened.has_number_keys


def entries_of(collection: CollectionView, keys: Sequence[Key]) -> Iterator[Entry]:
    """Yield stored items by their keys, each once, in order of insertion; those that are there."""
    with collection._opened() as opened:
        numbers = opened.reader.find_many(ByteStrings.of(list(map(encode_user_key, keys))))
        wanted = np.unique(np.array([number for number in numbers if number >= 0], np.uint32))
        for _, document in opened.reader.documents_of(wanted):
            yield collection._record(document)


class Collection(CollectionView):
    """A collection of a database.

    Reading methods see the last commit, or a snapshot of it for as long as they iterate. Every
    writing method is durable when it returns.
    """

    # -- adding ------------------------------------------------------------------------------

    def add(
        self,
        key: Key,
        item: object,
        *,
        metadata: dict[str, Any] | None = None,
        on_existing: OnExisting = "error",
        on_duplicate: OnDuplicate = "keep",
        merge: MergeFunction | None = None,
        find_duplicates: bool = False,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
    ) -> Outcome:
        """Store an item under a key, in one durable transaction.

        Items that several threads add at the same time are stored in one transaction, which costs
        hardly more than one of them; each call answers as if it had come alone.

        Args:
            key: str or whole number; 1 and "1" are different keys.
            item: the item to store.
            metadata: a dictionary of what JSON can express; ``get`` returns it.
            on_existing: ``"error"``, ``"skip"`` or ``"replace"`` if the key is stored. ``"same"``
                skips the row if the stored item is equal, and is an error if not.
            on_duplicate: ``"skip"`` does not store an item that is similar to a stored one.
                ``"merge"`` replaces the stored item, under its key, by the result of ``merge``, in
                the same transaction.
            merge: a function of two ``Entry``, the stored one and the new one. It returns the
                ``Entry`` whose item and metadata are stored, or None to leave the stored one as it
                is. It is called while the store is being written, and must not use the store.
            find_duplicates: report which item the new one duplicates, and store it anyway.
            threshold, max_distance: the bound for similar items; the collection's if not given.

        Returns:
            What was done, with ``duplicate_of`` and ``similarity`` if a duplicate was found.

        Raises:
            KeyExistsError: the key is stored, and ``on_existing`` is ``"error"``.
            BadItemError, WrongTypeError: the key, the item or the metadata cannot be stored.
            ConfigurationError: duplicates are looked for, and no index finds them, or the
                collection was rebuilt meanwhile, and measures otherwise.
        """
        known, policy = self._adding(
            *(on_existing, on_duplicate, merge),
            skip_bad=False,
            looks=find_duplicates,
            threshold=threshold,
            max_distance=max_distance,
        )
        row = key, item, metadata
        outcomes: list[Outcome] = []
        try:
            if merge is not None:  # a function of this thread's
                self._load(known, policy, [row], outcomes=outcomes.extend)
                return outcomes[0]
            with self._handle.writing() as access:

                def load(
                    rows: Sequence[RowBatch], note: Callable[[Outcomes], None], since: float
                ) -> object:
                    how = structs.replace(policy, skip_bad=len(rows) > 1)
                    own = structs.replace(access, since=since)
                    return ingest.add.add_rows(own, known, how, rows, outcomes=note)

                # Equal bounds are alike only if they are of one measure.
                measured = None if policy.bound is None else known.stored
                alike = known.settings.number, measured, policy
                read = ingest.add.read_row(access, known, row)
                return self._handle.together.add(alike, read, load)
        except BadItemError as error:
            _raise_plain(error)

    def add_many(
        self,
        rows: Iterable[Any] | arrow.Table,
        *,
        key: str | None = None,
        item: str | Sequence[str] | None = None,
        metadata: str | Sequence[str] = (),
        on_existing: OnExisting = "error",
        on_duplicate: OnDuplicate = "keep",
        merge: MergeFunction | None = None,
        on_bad: OnBad = "error",
        at_once: bool = False,
        find_duplicates: bool = False,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        signature: str | None = None,
        recipe: Recipe | str | None = None,
        progress: Callable[[Progress], None] | None = None,
        outcomes: Callable[[Outcomes], None] | None = None,
    ) -> AddReport:
        """Store many items, in batches that are one durable transaction each.

        The database's setting bounds memory, whatever the number of rows. If the work ends early,
        all batches before are stored; with ``on_existing="skip"`` it can be run again.

        Args:
            rows: any iterable of (key, item) or (key, item, metadata), or of entries, as ``items``
                yields them. Or a table: a frame of pandas or polars, a table of pyarrow, a relation
                of DuckDB, a data set of Hugging Face, or any object with ``__arrow_c_stream__``.
            key, item, metadata: the names of these columns in a table. Several columns for ``item``
                make an object of each row, as for records. Without ``key`` the number of the row,
                from 0, is the key. A row with a null is a bad row.
            on_existing, on_duplicate, merge, find_duplicates, threshold, max_distance: as for
                ``add``; earlier rows count as stored items. With ``"merge"`` each row has its own
                transaction.
            on_bad: ``"error"`` ends the work at a row that cannot be stored, ``"skip"`` leaves the
                row out and reports it.
            at_once: all rows are stored in one transaction, or none; a key may come once, and all
                rows are held in memory, whatever the setting.
            signature, recipe: for a table with signatures that were made elsewhere, by
                ``simdb.steps.sign`` or ``signed_reader``: the column of signatures, and the recipe
                they were made by, or its fingerprint. Only the first row of each batch is signed
                again, to detect columns that do not belong together.
            progress: called after every batch.
            outcomes: called after every batch with one ``Outcome`` for each of its rows, as
                ``Outcomes``, which is also a table.

        Raises:
            KeyExistsError, BadItemError: a row cannot be stored; ``row`` says which, from 0.
            ConfigurationError: signatures are not those of the collection's recipe; ``at_once``
                with ``merge`` or signatures, or if rows that replace items and duplicates depend on
                each other through more than four steps; or as for ``add``.
            WrongTypeError: rows cannot be iterated, or a function cannot be called.
        """
        _require_functions(progress, outcomes)
        known, policy = self._adding(
            *(on_existing, on_duplicate, merge),
            skip_bad=_skips_bad(on_bad),
            looks=find_duplicates,
            threshold=threshold,
            max_distance=max_distance,
        )
        if (signature is None) != (recipe is None):
            raise UsageError("signature and recipe belong together: give both or none")
        at_once = require_truth("at_once", at_once)
        if at_once and (merge is not None or signature is not None):
            raise ConfigurationError(
                "at_once=True stores all rows in one transaction: leave out merge= and signature="
            )
        policy = structs.replace(policy, is_whole=at_once)
        given = None
        if signature is not None and recipe is not None:
            given = ingest.given.GivenSignatures(signature, recipe, self._present.settings)
            rows = given.beside(rows)
        found = arrow.rows_of(_rows("rows", rows), key, item, metadata)
        return self._load(known, policy, found, progress=progress, outcomes=outcomes, given=given)

    def dedupe(
        self,
        rows: Iterable[Any] | arrow.Table,
        *,
        key: str | None = None,
        item: str | Sequence[str] | None = None,
        metadata: str | Sequence[str] = (),
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        on_bad: OnBad = "error",
        on_existing: Literal["error", "keep", "replace"] = "error",
        measure: DedupeMeasure = "jaccard",
        containment: ThresholdLike | None = None,
        policy: PolicyLike | None = None,
        progress: Callable[[Progress], None] | None = None,
        outcomes: Callable[[Outcomes], None] | None = None,
        lost: Callable[[int, int, int, int], None] | None = None,
    ) -> AddReport:
        """Store the rows that are similar to nothing kept before them.

        A row is dropped if it is similar enough to a row *kept* before it: a stored item or an
        earlier row. A row whose key is stored with equal content is recognised as the same row and
        kept, so running the same input again keeps the same rows. The division into batches,
        threads and interruptions do not change which rows are kept; if rows give stored items new
        metadata, or are equal under a policy, they may change which of several similar items a
        dropped row names.

        With ``measure="containment"`` a row of texts, sets, bags or bits by Tanimoto similarity is
        dropped if at least the threshold's share of its symbols is in *one* kept row that is
        larger, or as large and earlier. This is decided exactly and does not depend on the order of
        rows. A larger row could remove a kept one, so all rows must be known first: the collection
        must have no items, the symbols of all rows must fit into the memory setting (24 bytes each
        in half of it), and ``outcomes`` is called when all rows are stored.

        A ``policy`` decides which of several similar rows is kept. Rows are taken in its order
        instead of that of the input, so the kept rows are the first maximal set, in that order, in
        which no two are similar. A stored item is removed if a kept row is similar and better
        (``Outcome.superseded``); rows that the item had removed do not come back. Rows wait in a
        file beside the store until all are read, and ``outcomes`` is called at the end.

        Args:
            rows, key, item, metadata, progress: as for ``add_many``.
            threshold, max_distance: the bound for similar items; the collection's if not given.
            on_bad: as for ``add_many``. A row for which a term of the policy fails comes last by
                that term under ``"skip"``, and the other terms still decide about it; one for which
                a function fails comes last.
            on_existing: what happens to a row whose key was stored before with another item.
                ``"error"`` makes it a bad row. ``"keep"`` drops it as a duplicate of that item,
                whatever their similarity, which is then None. ``"replace"`` removes the stored
                item, which no longer counts when duplicates are looked for, and stores the row,
                unless the row is similar to another item: then the key is gone. An equal item gets
                the metadata of its row. All rows are read first, then. A key that comes twice in
                the input with different contents is always bad.
            measure: ``"jaccard"``, which stands for the collection's own measure;
                ``"containment"``; or ``"both"``, which drops a row that is similar to, or contained
                in, a row kept before it. ``"both"`` follows the rules of containment.
            containment: for ``"both"``, the share that must be contained; the threshold if not
                given, which covers similarity.
            policy: ``"first"``, the order of the input; or terms separated by commas, the first of
                which that tells two rows apart decides: ``longest``, ``shortest``, ``NAME desc`` or
                ``NAME asc`` for a field of the metadata or of the item, or for ``key``;
                ``number(NAME)``, ``time(NAME)`` or ``length(NAME)`` in place of the name;
                ``NAME in A|B`` for preferred values. Texts are in the order of their characters.
                Rows without the field come last, and so do those with a blank text that is read as
                a number or a time. Or a function of an ``Entry``: the row with the greatest value
                is kept. With containment the policy's order replaces that of decreasing size.
            outcomes: as for ``add_many``: ``"added"``, ``"replaced"`` and ``"present"`` rows are
                kept, ``"duplicate"`` ones dropped.
            lost: called before each commit with four numbers, so far: of the rows, of those that
                are dropped although their items are taken out (``on_existing="replace"``), of
                those that stored items drop, and of stored items that better rows take out; and
                before the first part of a batch that takes several commits, with those of all of
                it, about. What it raises ends the call without that commit. Containment takes no
                item out.

        Raises:
            ConfigurationError: no index looks for duplicates, as of distances without a
                ``max_distance``; with containment, the kind has no such measure, or the items do
                not fit into memory; or a rule proposes more pairs of stored items than
                ``Record.rule_budget``, which is tested whenever the number of items has doubled; or
                the collection was rebuilt meanwhile, and measures otherwise: the batches before are
                stored (with containment, all rows are).
            UsageError: with containment, the collection has items; the policy cannot be read, or
                its values cannot be compared.
            BadItemError: the policy fails for a row, and bad rows are not skipped. Nothing is
                stored (with containment, all rows are). A stored item for which it fails, or
                whose values cannot be compared with those of a row, comes last.
        """
        _require_functions(progress, outcomes)
        require_function("lost", lost)
        require_choice("on_existing", on_existing, *_OF_DEDUPE)
        require_choice("measure", measure, *get_args(DedupeMeasure))
        if containment is not None and measure != "both":
            raise ConfigurationError("containment= needs measure='both'")
        of_records = self.kind.field_names is not None
        order: Policy | None = None
        if policy is not None:
            policies = late.module("simdb.policies")  # slow to load, and mostly not needed
            order = policies.Policy(policy, of_records=of_records)
        by_containment = measure != "jaccard"
        if order is not None and not order.is_order and not by_containment:
            order = None  # that of the input, in which they come
        known = self._present
        bound = None
        if not by_containment:
            bound = _duplicate_bound(known.settings, threshold, max_distance)
        how = ingest.add.AddPolicy(
            on_existing=_OF_DEDUPE[on_existing],
            looks=not by_containment,
            bound=bound,
            drop_duplicates=True,
            skip_bad=_skips_bad(on_bad),
            lost=lost,
        )
        found = arrow.rows_of(_rows("rows", rows), key, item, metadata)
        if self.kind.has_rules:
            outcomes = self._within_budget(outcomes)
        is_streamed = order is None and on_existing != "replace"
        telling: dict[str, Any] = {"progress": progress, "outcomes": outcomes}
        if not by_containment and is_streamed:
            return self._load(known, how, found, **telling)
        with self._handle.writing() as access:
            if not by_containment:
                return ingest.ordered.dedupe(access, known, how, order, found, **telling)
            share = _contained_bound(
                known.settings, threshold if containment is None else containment, max_distance
            )
            similar: Bound | None = None
            if containment is not None:
                similar = known.settings.kind.parse_bound(threshold, max_distance)
                similar = known.settings.bound if similar is None else similar
            assert similar is None or isinstance(similar, Threshold)
            rule = ingest.contained.Rule(share, similar, order)
            return ingest.contained.dedupe(access, known, how, rule, found, **telling)

    def _within_budget(
        self, outcomes: Callable[[Outcomes], None] | None
    ) -> Callable[[Outcomes], None]:
        """Look at what the rules propose whenever items have doubled; see ``rule_budget``."""
        due = 0

        def note(some: Outcomes) -> None:
            nonlocal due
            if outcomes is not None:
                outcomes(some)
            with self._opened() as opened:
                live = opened.reader.manifest.live
                if live >= due:
                    upkeep.stats.require_candidates(opened)
                    due = 2 * live

        return note

    def note_key_source(self, source: str, *, also: bool = False) -> None:
        """Note where the keys of the next rows come from, and refuse another source than before.

        A row that comes again is recognised by its key. With another key ``dedupe`` would take it
        for a copy of itself and remove it. The note is durable. In a collection without items it
        replaces earlier ones.

        Args:
            source: any text, such as "the field 'id'".
            also: permit this source in addition to those noted before.

        Raises:
            ConfigurationError: the keys of the rows stored before come from elsewhere.
        """
        if source in self._present.settings.key_sources:
            return
        with self._handle.write() as transaction:
            present = catalogue.present_settings(transaction, self._known.settings)
            catalogue.note_key_source(transaction, present, source, also=also)

    def label(
        self,
        pairs: Iterable[tuple[Key, Key, bool | None]],
        *,
        other: CollectionView | None = None,
    ) -> int:
        """Store labels of pairs, that is whether they match, in one durable transaction.

        ``learn(labels="stored")`` and ``calibrate(matched="labelled")`` use them. A later label
        replaces an earlier one. Labels belong to keys: they survive ``rebuild``, ``compact``,
        backup, dump and repair. They also survive the deletion of an item, but then do not count
        (``Labels.deleted``). They are removed with either collection.

        Args:
            pairs: (key, key, whether they match), the left key of this collection and the right one
                of the other; None in the place of an answer forgets it.
            other: the collection of the right keys; labels refer to it by its name, which they
                follow, and with which they go, if this store has it. Given this collection itself,
                they are kept apart from those of its own pairs, without ``other``.

        Returns:
            How many of the given labels are kept.

        Raises:
            KeyNotFoundError: a key is not stored; nothing is kept.
            WrongTypeError: something is not a label.
            ConfigurationError: a label names one item twice, or the settings of the collections
                differ.
        """
        given = upkeep.labelling.read(pairs)  # before, since what a caller hands over may write
        with self._handle.write() as transaction, self._sides(other, within=transaction) as both:
            kept, forgotten = upkeep.labelling.said(*both, given)
            if kept:
                answers.choose.require_alike(both[0].settings, both[1].settings)
            number = both[0].settings.number
            labels.put(transaction, number, kept)
            labels.forget(transaction, number, forgotten)
        return len(kept)

    def _adding(
        self,
        on_existing: OnExisting,
        on_duplicate: OnDuplicate,
        merge: MergeFunction | None,
        *,
        skip_bad: bool,
        looks: bool,
        threshold: ThresholdLike | None,
        max_distance: ThresholdLike | None,
    ) -> tuple[Known, AddPolicy]:
        """Say what is to be done with rows, and under which settings that was said."""
        require_choice("on_existing", on_existing, *get_args(OnExisting))
        require_choice("on_duplicate", on_duplicate, "keep", "skip", "merge")
        require_function("merge", merge)
        if merge is not None and on_duplicate != "merge":
            raise ConfigurationError("merge= needs on_duplicate='merge'")
        if merge is None and on_duplicate == "merge":
            raise ConfigurationError(
                "on_duplicate='merge' needs merge=, a function that takes two entries"
            )
        looks = require_truth("find_duplicates", looks) or on_duplicate != "keep"
        if not looks and (threshold is not None or max_distance is not None):
            self.kind.parse_bound(threshold, max_distance)  # of no use here, but one that can be
        known = self._present if looks else self._known
        return known, ingest.add.AddPolicy(
            on_existing=on_existing,
            looks=looks,
            bound=_duplicate_bound(known.settings, threshold, max_distance) if looks else None,
            drop_duplicates=on_duplicate != "keep",
            merge=merge,
            skip_bad=skip_bad,
        )

    def _load(
        self,
        known: Known,
        policy: AddPolicy,
        rows: Iterable[Any],
        *,
        progress: Callable[[Progress], None] | None = None,
        outcomes: Callable[[Outcomes], None] | None = None,
        given: GivenSignatures | None = None,
    ) -> AddReport:
        with self._handle.writing() as access:
            return ingest.add.load(
                access,
                known,
                policy,
                rows,
                progress=progress,
                outcomes=outcomes,
                given=given,
            )

    # -- changing ----------------------------------------------------------------------------

    def replace(self, key: Key, item: object, *, metadata: dict[str, Any] | None = None) -> None:
        """Store another item under a stored key, in one durable transaction.

        Raises:
            KeyNotFoundError: the key is not stored.
        """
        encode_user_key(key)  # says what is wrong with one that cannot be stored
        policy = ingest.add.AddPolicy("require")
        try:
            self._load(self._known, policy, [(key, item, metadata)])
        except BadItemError as error:
            _raise_plain(error)

    def delete(self, key: Key) -> None:
        """Delete an item, in one durable transaction.

        Raises:
            KeyNotFoundError: the key is not stored.
        """
        self.delete_many([key])

    def delete_many(
        self,
        keys: Iterable[Key],
        *,
        missing: Literal["error", "skip"] = "error",
        at_once: bool = False,
    ) -> int:
        """Delete many items, in batches that are one durable transaction each.

        Args:
            keys: any iterable, also one over this collection's own items or pairs.
            missing: ``"skip"`` ignores keys that are not stored.
            at_once: all are deleted in one transaction, or none.

        Returns:
            How many were deleted.

        Raises:
            KeyNotFoundError: a key is not stored; nothing of its batch is deleted.
        """
        require_choice("missing", missing, "error", "skip")
        at_once = require_truth("at_once", at_once)
        arrow.require_no_table("keys", keys, "keys", "id")
        deleted = 0
        for batch in _distinct_batches(keys, sys.maxsize if at_once else DELETED_AT_ONCE):
            with self._handle.writing() as access:
                absent = ingest.add.delete_keys(
                    access,
                    self._known.settings,
                    [encoded for encoded, _ in batch],
                    all_or_nothing=missing == "error",
                )
            if absent and missing == "error":
                before = f"; {deleted:,} items of earlier batches were deleted" if deleted else ""
                key = batch[absent[0]][1]
                with self._opened() as opened:
                    raise answers.method.not_stored(opened.reader, self._name, key, before)
            deleted += len(batch) - len(absent)
        return deleted

    # -- maintaining -------------------------------------------------------------------------

    def compact(self, *, progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
        """Merge all runs and drop everything that belongs to deleted items, in bounded steps.

        Others may read and write meanwhile. The file does not shrink; its free pages are reused.
        ``Database.backup(compact=True)`` writes a smaller copy.

        Returns:
            How many ``steps`` it took, how many ``items`` there are, ``runs`` of the probable index
            and ``postings_runs`` of the exact one, and items ``deleted_not_yet_dropped``.
        """
        require_function("progress", progress)
        with self._handle.writing() as access:
            return upkeep.rebuild.compact(access, self._present, progress)

    def rebuild(
        self,
        kind: Kind | None = None,
        *,
        threshold: ThresholdLike | None = None,
        max_distance: ThresholdLike | None = None,
        recall: ThresholdLike | None = None,
        bands: int | None = None,
        rows: int | None = None,
        sketch: SketchScheme | None = None,
        seed: int | None = None,
        exact_floor: ThresholdLike | None = None,
        containment: bool | None = None,
        row_budget: int | None = None,
        false_candidates: ThresholdLike = 1,
        cascade: Construction | None = None,
        drop_exact: bool = False,
        drop_probable: bool = False,
        compression: Literal["zstd"] | None = None,
        drop_compression: bool = False,
        groups: GroupMethod | None = None,
        groups_at: Iterable[ThresholdLike] | None = None,
        drop_groups: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Index all stored items anew under other settings, in bounded steps.

        Settings that are not given stay. Bands and rows are planned anew where a threshold, a
        distance or a recall is given, or the kind is measured otherwise: as for a new collection,
        but where the usual rows of signature are not enough, within those that there are. If given,
        they, or a ``row_budget``, replace a cascade. Others may read and write meanwhile, and see
        the old index until one transaction switches. With only ``compression`` or
        ``drop_compression`` the index stays as it is, and only the documents are stored anew. The
        index also stays if only the scores of records change, such as the weights of their fields.

        Args:
            kind: the same kind with other settings, which all stored items must fit.
            threshold, max_distance, recall, bands, rows, sketch: of the probable index. A threshold
                or a distance adds this index if there is none.
            row_budget, false_candidates, cascade: for planning that index, as for ``collection``.
            seed: of all hashes.
            exact_floor: of the exact index. A floor adds this index if there is none.
            containment: whether the exact index posts all symbols.
            drop_exact: remove the exact index.
            drop_probable: remove the probable index.
            compression: store items and metadata compressed, as for ``Database.collection``. If
                there is no dictionary, one is trained on some of the stored items.
            drop_compression: store them uncompressed.
            groups: keep groups with the items from now on, as for ``Database.collection``. They are
                made from all pairs in one commit, for which other writers wait. Groups that were
                kept before keep their ids. A rebuild of the index makes kept groups anew, in the
                commit that switches to it.
            groups_at: the bounds at which groups are kept; by default those of before. They are
                needed where the new settings measure distances and the old ones similarities, or
                the other way round.
            drop_groups: stop keeping groups, and remove their ids and changes. Groups that are
                kept later get others.
            progress: called now and then.
        """
        require_function("progress", progress)
        present = self._present.settings
        if compression is not None:
            require_compression(present.kind, compression)
        drop_exact = require_truth("drop_exact", drop_exact)
        drop_probable = require_truth("drop_probable", drop_probable)
        drop_groups = require_truth("drop_groups", drop_groups)
        drop_compression = require_truth("drop_compression", drop_compression)
        if compression is not None and drop_compression:
            raise ConfigurationError("drop_compression=True contradicts a compression")
        if drop_groups and (groups is not None or groups_at is not None):
            raise ConfigurationError("drop_groups=True contradicts groups and groups_at")
        packs = compression is not None or drop_compression
        regroups = drop_groups or groups is not None or groups_at is not None
        of_index = (
            *(kind, threshold, max_distance, recall, bands, rows, sketch, seed),
            *(exact_floor, containment, row_budget, cascade, drop_exact or None),
            drop_probable or None,
        )
        indexes = not (packs or regroups) or any(one is not None for one in of_index)
        indexes = indexes or false_candidates != 1
        sketch = present.sketch if sketch is None else sketch
        plan = plan_request(
            recall, false_candidates, bands=bands, rows=rows, row_budget=row_budget, cascade=cascade
        )
        asked = IndexRequest(threshold, max_distance, plan, sketch, seed, exact_floor, containment)
        settings = present
        if indexes:
            settings = changed_settings(
                present, kind, asked, drop_exact=drop_exact, drop_probable=drop_probable
            )
        wanted = settings.groups
        if not drop_groups and groups_at is None:
            answers.kept.require_same_measure(present, settings.kind)
        if drop_groups:
            wanted = None
        elif regroups:
            wanted = answers.kept.kept_groups_of(settings, groups, groups_at)
        elif wanted is not None:
            answers.kept.require_still_served(settings, wanted)
        settings = structs.replace(settings, groups=wanted)
        with self._handle.writing() as access, self._told_which_settings(present):
            if indexes:
                upkeep.rebuild.rebuild(access, present, settings, progress)
            elif regroups:
                upkeep.regroup.regroup(access, present, wanted, progress)
            if packs:
                upkeep.repack.repack(access, settings, compression, progress)

    @contextmanager
    def _told_which_settings(self, before: CollectionSettings) -> Iterator[None]:
        """Let an interruption (Ctrl-C) say whether the settings are still those of before."""
        try:
            yield
        except KeyboardInterrupt:
            now = None
            with suppress(SimdbError), self._reading() as transaction:
                now = catalogue.settings_of(transaction, self._name)
            if now is None:
                raise
            which = "old" if now == before else "new"
            told = f"interrupted; the collection has its {which} settings"
            raise KeyboardInterrupt(told) from None


def _remove(folder: Path, process: int) -> None:
    """Remove the folder of a file that is used no more, unless by the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _require_unclosed(handle: Handle, snapshot: ReadTransaction | None) -> None:
    """Raise if the database, or the snapshot, has been closed."""
    handle.require_open()
    if snapshot is not None:
        snapshot.require_open()


def _require_open(opened: Opened) -> None:
    opened.resources.require_open()
    opened.reader.transaction.require_open()


def _require_kind(asked: Kind, *sides: Opened) -> None:
    """Refuse to answer by another measure than that of the kind that was asked about."""
    for side in sides:
        when = "after these pairs were asked for"
        require_kind(side.settings, asked, when, "ask again")


def _require_reached(opened: Opened, since: int) -> None:
    """Refuse a checkpoint that the collection has not come to: it is of another state of it."""
    now = opened.reader.manifest.next_number
    if since > now:
        raise ConfigurationError(
            f"since={since} is beyond {now}, where {opened.settings.title} stands: the store is an "
            "earlier state, as after a restore, or another one; begin again without since"
        )


def _require_candidates(opened: Opened, method: Method, left: Opened | None = None) -> None:
    """Refuse what proposes more pairs than its settings permit, if buckets are what answers."""
    if method.name == answers.buckets.Buckets.name:
        upkeep.stats.require_candidates(opened, left)


def _method(
    opened: Opened,
    verb: Verb,
    asked: Asked,
    resume: str | None = None,
    *,
    left: Opened | None = None,
    weighed: bool = True,
) -> Method:
    """Choose the method that answers a call; ``weighed``, by what it is expected to cost."""
    question = asked.question(verb, opened.settings)
    # A join that goes on is exact, whether or not one that begins would be.
    weighed &= resume is None or verb != "join"
    method = answers.choose.choose(opened.settings, question, opened if weighed else None, left)
    if resume is None:
        return method
    answers.choose.require_resumable(method, question)
    return structs.replace(method, resume=resume)


def _searched(
    whole: Opened, items: Sequence[bytes], limit: int | None, asked: Asked, among: _Among
) -> list[Matches]:
    """Search for each of several items, as they are stored."""
    opened = among.of(whole)
    return _method(opened, "search", asked).search_many(opened, items, limit)


def _encoded(opened: Opened, items: list[object]) -> Sequence[bytes]:
    """Return items as they are stored; BadItemError says which of them cannot be."""
    forms = opened.signer.items
    try:
        return forms.encode_many(items)
    except BadItemError:
        for row, item in enumerate(items):
            try:
                forms.encode(item)
            except BadItemError as error:
                raise BadItemError(f"row {row}: {error}", row=row) from error.__cause__
        raise


def _duplicate_bound(
    settings: CollectionSettings,
    threshold: ThresholdLike | None,
    max_distance: ThresholdLike | None,
) -> Bound | None:
    """Return within what rows are duplicates, if that is given; errors as of ``choose``."""
    bound = settings.kind.parse_bound(threshold, max_distance)
    answers.choose.choose(settings, answers.choose.Question("add", bound))
    return bound


def _contained_bound(
    settings: CollectionSettings,
    threshold: ThresholdLike | None,
    max_distance: ThresholdLike | None,
) -> Threshold:
    """Return what share of a row must be in another one; errors as of ``choose``."""
    asked = answers.choose.Asked(
        threshold, max_distance, "exact", None, SetSimilarity.STORED_IN_PROBE
    )
    least = answers.choose.choose(settings, asked.question("search", settings)).bound
    assert isinstance(least, Threshold)
    return least


def _raise_plain(error: BadItemError) -> NoReturn:
    """Raise what was wrong with a single item as what it is: there are no rows to tell apart."""
    if isinstance(error.__cause__, UsageError | TypeError):
        raise error.__cause__ from error.__cause__.__cause__
    raise BadItemError(error.problem.removeprefix("row 0: ")) from error.__cause__


def _distinct_batches(keys: Iterable[Key], most: int) -> Iterator[list[tuple[bytes, Key]]]:
    batch: dict[bytes, Key] = {}
    for key in several("keys", keys):
        batch.setdefault(encode_user_key(key), key)
        if len(batch) >= most:
            yield list(batch.items())
            batch = {}
    if batch:
        yield list(batch.items())


def _rows(name: str, given: Any) -> Iterable[Any]:
    """Return a table, or an iterable; WrongTypeError: it is neither."""
    table: Iterable[Any] = given
    return table if arrow.is_table(given) else several(name, given)


def _require_weights(name: str, weights: object) -> None:
    """Raise WrongTypeError for what is no result of ``learn``."""
    if not isinstance(weights, upkeep.weigh.Weights):
        raise WrongTypeError(f"{name} must come from learn(), not {type(weights).__name__}")


def _require_functions(progress: object, outcomes: object) -> None:
    """Raise now what would otherwise be raised by a call, after rows are stored."""
    require_function("progress", progress)
    require_function("outcomes", outcomes)


def _skips_bad(on_bad: OnBad) -> bool:
    require_choice("on_bad", on_bad, "error", "skip")
    return on_bad == "skip"

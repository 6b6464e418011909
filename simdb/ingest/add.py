"""Adding, replacing and deleting items: every batch is one transaction over all tables.

``load`` reads rows, signs batches on several threads and has each stored by a ``BatchAdder``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from msgspec import Struct, structs

from simdb import answers, ingest
from simdb.arrays import Bools, Float64s, Int64s, UInt8s, keep_freed_memory
from simdb.batches.deciding import Decisions
from simdb.batches.signer import Prefixes, Signed, Signer, Signing
from simdb.errors import (
    BadItemError,
    CollectionNotFoundError,
    ConfigurationError,
    KeyExistsError,
    KeyNotFoundError,
    Remedy,
    UsageError,
    WrongTypeError,
)
from simdb.exact.thresholds import Bound
from simdb.ingest import postings
from simdb.ingest.given import GivenSignatures
from simdb.ingest.packing import Packer, Packing, started
from simdb.ingest.removed import RemovedKeys
from simdb.ingest.rows import (
    BATCH_ITEMS,
    RowBatch,
    encode_metadata,
    joined,
    read_batches,
    read_whole,
)
from simdb.ingest.standing import ItemNumbers, Standing
from simdb.kinds.base import Stored
from simdb.late import cached_property
from simdb.metadata import are_equal
from simdb.opened.catalogue import CollectionSettings, present_settings
from simdb.opened.epochs import current_epoch
from simdb.opened.opened import Known, Opened, Resources, WriteAccess, require_kind
from simdb.ragged import ByteStrings, distinct_of, picked
from simdb.results import Action, AddReport, Entry, Key, Outcome, Outcomes, Progress
from simdb.storage.collection.reader import CollectionReader, stored_settings
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.tables import layout
from simdb.storage.tables.layout import decoded_keys
from simdb.storage.tables.views import KeyFilter

if TYPE_CHECKING:
    from simdb.answers.method import ProgressCallback
    from simdb.threads import Pool

# A run is rewritten when 30 % of it is dead: each deletion pays for its part of that.
MERGED_A_DELETION = 4
SHARE_OF_MEMORY = 64  # a batch of items takes at most this part of the memory setting
SHARE_OF_FILTER = 4  # of the memory setting, for what tells which bucket keys are stored
SHARING = 8  # rows of a batch that may share its commit with what other threads add
BAD_ROWS_KEPT = 1_000
DUPLICATES_KEPT = 100_000

MergeFunction: TypeAlias = Callable[[Entry, Entry], Entry | None]
OutcomesCallback = Callable[[Outcomes], None]
LostCallback = Callable[[int, int, int, int], None]
OnExisting: TypeAlias = Literal["error", "skip", "replace", "require", "same", "leave", "update"]
ACTIONS: tuple[Action, ...] = get_args(Action)  # the first is what becomes of most
OF_CONTENT = ("same", "leave", "update")  # under these a row of a stored key may be that item


class AddPolicy(Struct, frozen=True):
    """What to do with rows that are stored already, or similar to something."""

    # What a stored key means: an "error", a row to "skip", an item to "replace" (under "require"
    # the key must be stored), or the row itself if the content is equal, and else an error
    # ("same"), a duplicate ("leave") or an item to replace ("update"); it stays an error where the
    # key came in the same input.
    on_existing: OnExisting = "error"
    looks: bool = False  # find what rows duplicate
    bound: Bound | None = None  # within what; None is the collection's own, as a batch is stored
    drop_duplicates: bool = False  # do not store rows that duplicate something
    skip_bad: bool = False  # leave a row out whose key is stored, where that is an error
    # Rows come in an order, and stored items that come after one that is kept go for it.
    standing: Standing | None = None
    leaving: ItemNumbers | None = None  # stored items that rows of the input update
    merge: MergeFunction | None = None  # makes one item of a row and what it duplicates
    is_whole: bool = False  # all rows are one batch, which is not cut
    # Told before a commit of all rows so far, of those that go although their items do, too, of
    # those that stored items remove, and of the stored items that better rows take out.
    lost: LostCallback | None = None


class _Told(NamedTuple):
    """Similarities or distances, as users know them."""

    similarities: list[float] | list[None]
    distances: list[float] | list[None]
    estimated: bool


_NAMED = np.array(ACTIONS, object)


@cache
def _wanted(actions: tuple[Action, ...]) -> Bools:
    """Tell of the code of each action whether it is one of some."""
    return np.array([action in actions for action in ACTIONS])


@dataclass(slots=True)
class Fates:
    """What becomes of the good rows of a batch."""

    batch: RowBatch
    stored: list[int]  # the item number that the key of each has in the store, -1 where it is new
    codes: UInt8s  # of each row the place of its action in ``ACTIONS``
    decisions: Decisions | None = None  # what each duplicates, if that was looked for
    targets: dict[int, Key] = field(default_factory=dict)  # of stored items that rows name
    superseded: dict[int, int] = field(default_factory=dict)  # stored items that go, and for whom
    renewed: list[int] = field(default_factory=list)  # rows that bring an item new metadata
    left: list[int] = field(default_factory=list)  # stored items whose new content is a duplicate

    @property
    def actions(self) -> list[Action]:
        """The action of each row."""
        named: list[Action] = _NAMED.take(self.codes).tolist()
        return named

    def action(self, row: int) -> Action:
        """The action of a row."""
        return ACTIONS[int(self.codes[row])]

    def counts(self) -> dict[str, int]:
        """How many rows have each action."""
        return dict(zip(ACTIONS, np.bincount(self.codes).tolist(), strict=False))

    def again(self) -> list[int]:
        """The rows that are items of the store, unchanged but for metadata."""
        return [*self.rows("present"), *self.renewed]

    def are(self, *actions: Action) -> Bools:
        """Which rows have one of some actions."""
        return _wanted(actions)[self.codes]

    def rows(self, *actions: Action) -> list[int]:
        """The rows that have one of some actions."""
        found: list[int] = self.are(*actions).nonzero()[0].tolist()
        return found


class BatchAdder:
    """Adds the batches of one input; signs them again where the settings have changed since."""

    def __init__(self, access: WriteAccess, known: Known, policy: AddPolicy) -> None:
        self._access = access
        self._known = known
        self._kind = known.settings.kind  # by whose measure the bound of the policy is
        self._policy = policy
        self._seen = ItemNumbers()  # that earlier rows of the input are stored under
        self._losses = np.zeros(4, np.int64)  # so far, as the policy is told of them
        self._first_new: int | None = None
        if known.settings.is_exact and known.signer.epoch is None:
            # Tell the signer the present order, so that prefixes are made ahead of the commit.
            with access.read() as snapshot:
                if stored_settings(snapshot, known.settings.name) == known.stored:
                    reader = CollectionReader(snapshot, known.settings.number)
                    known.signer.epoch = current_epoch(reader)

    @property
    def _settings(self) -> CollectionSettings:
        return self._known.settings

    @cached_property
    def _stored_keys(self) -> KeyFilter:
        return KeyFilter(self._access.memory // SHARE_OF_FILTER)

    @cached_property
    def _removed(self) -> RemovedKeys:
        return RemovedKeys(self._signer.items)

    @property
    def _signer(self) -> Signer:
        return self._known.signer

    @property
    def since(self) -> int:
        """Number of the first item that was new, or would have been."""
        if self._first_new is None:
            with self._access.read() as snapshot:
                return CollectionReader(snapshot, self._settings.number).manifest.next_number
        return self._first_new

    @property
    def known(self) -> Known:
        """The settings that the last batch was stored under."""
        return self._known

    def add(self, batch: RowBatch, signed: Signed, under: Known) -> list[Fates]:
        """Store what is to be stored of a batch, durably, all of it or nothing.

        It is signed again if that was not done ``under`` the present settings.
        Where rows take items out that decide about later rows, the batch may have to be cut: then
        it returns the fates of more than one part. KeyExistsError: a key is stored already; its
        ``row`` says which.
        """
        fates = self._add(batch, signed, under)
        if isinstance(fates, Fates):
            return [fates]
        if self._policy.is_whole:
            raise ConfigurationError(
                "rows that replace items decide about each other, which takes more than one "
                "transaction: add them in several calls"
            )
        whole: list[Fates] = []
        for part in (slice(fates), slice(fates, None)):  # a StopIteration would end a map unnoticed
            whole += self._signed_and_added(batch.cut(part))
        return whole

    def _signed_and_added(self, batch: RowBatch) -> list[Fates]:
        known = self._known
        return self.add(batch, known.signer.sign(batch.items), known)

    def _add(self, batch: RowBatch, signed: Signed, under: Known) -> Fates | int:
        """Store a batch; or return where it must be cut, and store nothing."""
        with self._access.write(shares=len(batch.rows) <= SHARING) as transaction:
            known, present = self._known, self._known.refreshed(transaction)
            if present.settings.number != known.settings.number and self._first_new is not None:
                raise CollectionNotFoundError(
                    f"collection {known.settings.name!r} was dropped and created again while rows "
                    "were added to it; add them again"
                )
            self._known = present
            if self._policy.looks:
                when = "while rows were compared with its items"
                then = "the rows that are not stored yet were not added; add them again"
                require_kind(present.settings, self._kind, when, then)
            if present is not under:
                signed = present.signer.sign(batch.items)
            writer = CollectionWriter(transaction, self._settings.number)
            if self._settings.compression is None:
                batch.packed = None
            elif batch.packed is None or batch.packed.collection != writer.number:  # made anew
                batch.packed = started(batch, writer.number, writer.codec()).result()
            if self._first_new is None:
                self._first_new = writer.manifest.next_number
            prefixes = postings.present_prefixes(writer, self._signer, batch.items, signed)
            if prefixes is not signed.prefixes:
                signed = structs.replace(signed, prefixes=prefixes)
            batch.keys = ByteStrings.of(batch.keys)
            fates = Fates(batch, writer.find_many(batch.keys), np.zeros(len(batch.rows), np.uint8))
            self._choose_actions(writer, fates)
            if self._policy.looks:
                cut = self._decide(writer, fates, signed)
                if cut or fates.decisions is None:
                    self._tell_of_parts(fates)
                    return cut
                if self._policy.drop_duplicates:
                    self._drop(fates, fates.decisions)
                    self._tell_lost(fates, fates.decisions)
                if self._policy.merge is not None and fates.decisions.is_duplicate.any():
                    self._merge(writer, fates, self._policy.merge)
                    return fates
            self._apply(writer, fates, signed)
        if self._notes_removed:
            absent = {-1, *fates.left}
            gone = [
                row
                for row in fates.rows("duplicate")
                if fates.stored[row] in absent or fates.stored[row] not in self._seen
            ]
            self._removed.add(batch.keys, batch.items, gone)
        return fates

    def _drop(self, fates: Fates, decisions: Decisions) -> None:
        """Let no duplicate be stored, nor what it should have updated."""
        if self._policy.leaving is not None:
            left = np.flatnonzero(decisions.is_duplicate & fates.are("replaced"))
            fates.left += [fates.stored[row] for row in left.tolist()]
        dropped = decisions.is_duplicate & fates.are("added", "replaced")
        fates.codes[dropped] = ACTIONS.index("duplicate")

    def _tell_of_parts(self, fates: Fates) -> None:
        """Tell what a batch takes out that will be cut, before the first of its parts is stored.

        It is decided about as if all items were gone that it supersedes.
        """
        decisions = fates.decisions
        if self._policy.lost is None or decisions is None:
            return
        rows = np.flatnonzero(decisions.is_duplicate).tolist()
        left = int((decisions.is_duplicate & fates.are("replaced")).sum())
        old = self._dropped_by_stored(fates, decisions, rows)
        taken = len(fates.batch.rows), left, old, len(fates.superseded)
        self._policy.lost(*(self._losses + taken).tolist())

    def _tell_lost(self, fates: Fates, decisions: Decisions) -> None:
        """Tell what a batch is about to take out of the store; it may be prevented."""
        if self._policy.lost is None:
            return
        self._note_again(fates)
        similar = np.flatnonzero(decisions.is_duplicate).tolist()
        old = self._dropped_by_stored(fates, decisions, similar)
        superseded = len(fates.superseded)
        self._losses += (len(fates.batch.rows), len(fates.left), old, superseded)
        self._policy.lost(*self._losses.tolist())

    def _dropped_by_stored(self, fates: Fates, decisions: Decisions, similar: list[int]) -> int:
        """Return how many rows stored items drop, by their key or as similar ones."""
        others = set(fates.rows("duplicate")).difference(similar)
        old = sum(fates.stored[row] not in self._seen for row in others)
        if similar:
            old += int((~self._are_within(fates, decisions, similar)).sum())
        return old

    @property
    def _notes_removed(self) -> bool:
        """Whether the key of a removed row may not come again with other content."""
        return self._policy.drop_duplicates and self._policy.on_existing in OF_CONTENT

    def _merge(self, writer: CollectionWriter, fates: Fates, merge: MergeFunction) -> None:
        """Store one item in place of a row, which is a batch of its own, and what it duplicates."""
        assert fates.decisions is not None
        if fates.action(0) != "duplicate":  # its key is stored already
            return
        number, items = int(fates.decisions.stored[0]), self._signer.items
        stored = writer.document(number)
        assert stored is not None
        entries = (
            Entry(key, items.decode(item), layout.unpack(noted) if len(noted) else None)
            for key, item, noted in (
                (fates.targets[number], stored.item, stored.metadata),
                (fates.batch.user_keys[0], fates.batch.items[0], fates.batch.metadata[0]),
            )
        )
        made = merge(*entries)
        if made is None:
            return
        if not isinstance(made, Entry):
            raise WrongTypeError(
                f"merge must return a simdb.Entry or None, not {type(made).__name__}"
            )
        row = fates.batch.rows[0]
        try:
            item, metadata = items.encode(made.item), encode_metadata(made.metadata)
        except (UsageError, TypeError, ValueError, OverflowError) as error:
            problem = f"row {row}: what merge made of it cannot be stored: {error}"
            raise BadItemError(problem, row=row) from error
        batch = RowBatch(
            fates.batch.rows,
            [fates.targets[number]],
            ByteStrings.of([bytes(stored.key)]),
            [item],
            [metadata],
        )
        if self._settings.compression is not None:
            batch.packed = started(batch, writer.number, writer.codec()).result()
        signed = self._signer.sign(batch.items)
        prefixes = postings.present_prefixes(writer, self._signer, batch.items, signed)
        whole = Fates(batch, [number], np.array([ACTIONS.index("replaced")], np.uint8))
        self._apply(writer, whole, structs.replace(signed, prefixes=prefixes))
        fates.codes[0] = ACTIONS.index("merged")

    # -- what becomes of each row ---------------------------------------------------------------

    def _choose_actions(self, writer: CollectionWriter, fates: Fates) -> None:
        policy, batch, stored = self._policy.on_existing, fates.batch, fates.stored
        if policy == "require" and -1 in stored:
            absent = batch.user_keys[stored.index(-1)]
            problem = f"key {absent!r} is not stored in {self._settings.name!r}"
            raise KeyNotFoundError(problem, key=absent)
        keys = ByteStrings.of(batch.keys)
        unlike = self._removed.of_other_content(keys, batch.items) if self._notes_removed else ()
        if max(stored, default=-1) < 0 and not unlike:
            return  # all are added
        actions: list[Action] = []
        same, noted = self._compared(writer, fates) if policy in OF_CONTENT else (set(), set())
        for row, number in enumerate(stored):
            if row in unlike:
                fates.stored[row] = -1  # it is refused for the row that was removed
                actions.append(self._refused(batch, row, -1))
            elif number < 0:
                actions.append("added")
            elif policy == "skip":
                actions.append("present")
            elif policy in ("replace", "require"):
                actions.append("replaced")
            else:
                action = self._by_content(fates, row, is_same=row in same, is_noted=row in noted)
                actions.append(action)
        fates.codes[:] = [ACTIONS.index(action) for action in actions]

    def _by_content(self, fates: Fates, row: int, *, is_same: bool, is_noted: bool) -> Action:
        """Decide about a row whose key is stored by whether item and metadata are, too."""
        policy, batch, number = self._policy, fates.batch, fates.stored[row]
        came_before = number in self._seen
        if is_same:
            if came_before:
                return "duplicate" if policy.drop_duplicates else "present"
            if policy.on_existing == "update" and not is_noted:
                fates.renewed.append(row)
                return "replaced"
            return "present"
        if policy.on_existing == "update" and not came_before:
            if policy.leaving is not None:  # where another process has stored it meanwhile
                policy.leaving.add([number])
            return "replaced"
        if policy.on_existing == "leave" and not came_before:
            return "duplicate"
        return self._refused(batch, row, number)

    def _refused(self, batch: RowBatch, row: int, number: int) -> Action:
        """Call a row bad, or raise why it is."""
        if not self._policy.skip_bad:
            raise self._existing(batch, row, number)
        return "bad"

    def _compared(self, writer: CollectionWriter, fates: Fates) -> tuple[set[int], set[int]]:
        """Return the rows whose items, and whose metadata, are stored under their keys."""
        batch, same, noted = fates.batch, set(), set()
        numbers = np.array(fates.stored, np.int64)
        known = np.flatnonzero(numbers >= 0)
        known = known[np.argsort(numbers[known])]
        rows = known.tolist()
        for place, document in writer.documents_of(numbers[known].astype(np.uint32)):
            row = rows[place]
            if self._signer.items.are_same(document.item, batch.items[row]):
                same.add(row)
            if _same_metadata(document.metadata, batch.metadata[row]):
                noted.add(row)
        return same, noted

    def _existing(self, batch: RowBatch, place: int, number: int) -> KeyExistsError:
        row, key = batch.rows[place], batch.user_keys[place]
        if self._policy.on_existing not in OF_CONTENT:
            remedies = [
                Remedy("on_existing", "skip", "leaves it"),
                Remedy("on_existing", "replace", "overwrites it"),
            ]
            came_before = self._first_new is not None and number >= self._first_new
            problem = f"key {key!r} " + (
                "came earlier in the input, and that row is stored"
                if came_before
                else "is stored already"
            )
            return KeyExistsError(
                problem, remedies=remedies, row=row, key=key, within_input=came_before
            )
        if number < 0 or number in self._seen:
            removed = ", in a row that was removed" if number < 0 else ""
            where = "came earlier in the input with other content"
            if self._policy.standing is not None:  # rows come in an order of its own
                where = "comes with other content in a row that the policy prefers"
            problem = f"key {key!r} {where}{removed}"
            return KeyExistsError(problem, row=row, key=key, within_input=True)
        remedies = [Remedy("on_existing", "replace", "updates it")]
        if self._policy.drop_duplicates:  # as dedupe does, which alone may keep
            remedies.append(Remedy("on_existing", "keep", "removes the row"))
        problem = f"key {key!r} is stored with other content"
        return KeyExistsError(problem, remedies=remedies, row=row, key=key)

    def _decide(self, writer: CollectionWriter, fates: Fates, signed: Signed) -> int:
        """Find what each row duplicates, or return where the batch must be cut for it, else 0."""
        new = fates.are("added", "replaced")
        new[fates.renewed] = False  # they are the items that are stored
        standing, positions = self._policy.standing, fates.batch.rows
        asked = answers.choose.Question("add", self._policy.bound)
        leaving, replaced = self._policy.leaving, fates.rows("replaced")
        with writer.transaction.before() as snapshot:
            before = CollectionReader(snapshot, self._settings.number)
            resources = Resources(self._access.memory)
            opened = Opened(self._settings, self._signer, before, resources)
            deduplicator = ingest.dedupe.Deduplicator(
                opened,
                answers.choose.choose(self._settings, asked),
                fates.batch.items,
                structs.replace(signed, comparable=signed.comparable & new),
                keep=not self._policy.drop_duplicates,
                replaced={}
                if leaving is not None
                else {fates.stored[row]: row for row in replaced},
                leaving=leaving,
                stored_keys=self._stored_keys,
                challenge=None
                if standing is None
                else ingest.dedupe.Challenge(
                    standing.before, np.array(positions, np.int64), self.since
                ),
            )
            fates.decisions = deduplicator.decide()
            if fates.decisions is None:
                return len(positions) // 2
            if standing is not None:
                fates.superseded = deduplicator.superseded()
            cut = _wrong_from(fates)
            if cut and self._policy.lost is not None:  # what its parts will take out is told
                fates.decisions = deduplicator.decide_without([*fates.superseded])
            elif not cut:
                fates.targets = _targets(before, fates.decisions, fates.superseded)
        return cut

    # -- storing --------------------------------------------------------------------------------

    def _apply(self, writer: CollectionWriter, fates: Fates, signed: Signed) -> None:
        kept = fates.rows("added", "replaced")
        # Before their keys are given to new items, since a key leads to one item.
        replaced = (fates.stored[row] for row in fates.rows("replaced"))
        gone = [*replaced, *fates.superseded, *fates.left]
        self._note_again(fates)
        if not kept and not gone:
            return
        keeper = None
        if self._settings.groups is not None:
            keeper = ingest.grouping.Keeper(writer, self._settings, self._signer, self._access)
            keeper.leave(gone)
            items = [fates.batch.items[row] for row in kept]
            coming = signed.select(np.array(kept, np.int64))
            keeper.arrive(items, coming, writer.manifest.next_number, self._stored_keys)
        if gone:
            writer.remove(gone)
        first = insert_rows(writer, fates.batch, signed, kept, self._access.pool_for(len(kept)))
        if keeper is not None:
            keeper.settle()
        if signed.prefixes is not None:
            self._measure(writer, first, signed.prefixes.select(np.array(kept, np.int64)))
        if self._policy.on_existing in OF_CONTENT:
            self._seen.add(range(first, first + len(kept)))
        writer.index_writer(writer.manifest.index).merge_after(len(kept) + len(gone))
        postings.advance(writer, self._signer, len(kept))
        writer.save()

    def _note_again(self, fates: Fates) -> None:
        """Note the items that rows of a batch are."""
        if self._policy.on_existing in OF_CONTENT:
            self._seen.add([fates.stored[row] for row in fates.again()])

    def _measure(self, writer: CollectionWriter, first: int, prefixes: Prefixes) -> None:
        """Note now and then how many postings an item of the batch scans in the store before it."""
        exact = writer.manifest.index.exact
        if exact is not None and postings.measured_rows(first, prefixes).size:
            with writer.transaction.before() as snapshot:
                before = CollectionReader(snapshot, self._settings.number)
                postings.measure(before, exact, first, prefixes)

    # -- telling --------------------------------------------------------------------------------

    def outcomes(self, fates: Fates) -> Outcomes:
        """Tell what became of the rows."""
        batch, decisions = fates.batch, fates.decisions
        similar = [] if decisions is None else np.flatnonzero(decisions.is_duplicate).tolist()
        others = sorted(set(fates.rows("duplicate", "bad")).difference(similar))
        outcomes = self._of_stored_keys(fates, others) if others else {}
        superseded: dict[int, list[Key]] = {}
        for number, row in fates.superseded.items():
            superseded.setdefault(row, []).append(fates.targets[number])
        for place, keys in superseded.items():
            outcomes[place] = Outcome(
                *(batch.rows[place], batch.user_keys[place], fates.action(place)),
                superseded=tuple(keys),
            )
        if decisions is not None and similar:
            outcomes.update(zip(similar, self._of_similar(fates, decisions, similar), strict=True))
        return Outcomes.of_columns(batch.rows, batch.user_keys, fates.actions, outcomes)

    def _of_stored_keys(self, fates: Fates, others: list[int]) -> dict[int, Outcome]:
        """Tell what became of rows whose keys are stored already, given by their places."""
        batch, outcomes = fates.batch, {}
        same = self._told(np.array([self._signer.kind.identical_value]))
        for place, key in zip(others, batch.keys_at(others), strict=True):
            number, action = fates.stored[place], fates.action(place)
            changes: dict[str, Any]
            if action == "bad":
                refused = self._existing(batch, place, number)
                changes = {"problem": refused.problem, "within_input": refused.within_input}
            elif number in self._seen:
                changes = {"duplicate_of": key, "within_input": True}
                changes |= {"similarity": same.similarities[0], "distance": same.distances[0]}
                changes["estimated"] = same.estimated
            else:  # of other content, which stays
                changes = {"duplicate_of": key, "within_input": False}
            outcomes[place] = Outcome(batch.rows[place], key, action, **changes)
        return outcomes

    def _of_similar(self, fates: Fates, decisions: Decisions, similar: list[int]) -> list[Outcome]:
        """Tell what became of rows that are similar to an item, given by their places."""
        batch = fates.batch
        within = self._are_within(fates, decisions, similar)
        numbers = decisions.stored[similar]
        named = list(map(fates.targets.get, numbers.tolist()))
        in_batch = np.flatnonzero(numbers < 0)
        earlier = batch.keys_at(decisions.row[similar][in_batch].tolist())
        for place, key in zip(in_batch.tolist(), earlier, strict=True):
            named[place] = key
        told = self._told(decisions.value[similar])
        rows = [batch.rows[place] for place in similar]
        own = [ACTIONS[code] for code in fates.codes[similar].tolist()]
        columns = (rows, batch.keys_at(similar), own, named, told.similarities, within.tolist())
        beside = (repeat(None), told.distances, repeat(told.estimated))
        return list(map(Outcome, *columns, *beside))

    def _are_within(self, fates: Fates, decisions: Decisions, similar: list[int]) -> Bools:
        """Return which rows, given by their places, are similar to a row of the input."""
        numbers = decisions.stored[similar]
        within = numbers < 0
        within[~within] = self._came_with_input(numbers[~within])
        of_content = self._policy.on_existing in OF_CONTENT
        first_rows = {fates.stored[place]: place for place in fates.again() if of_content}
        if first_rows:
            pairs = zip(numbers.tolist(), similar, strict=True)
            within &= [first_rows.get(number, 0) <= place for number, place in pairs]
        return within

    def _told(self, values: Float64s) -> _Told:
        """Return similarities or distances as users know them."""
        kind, nothing = self._signer.kind, [None] * values.size
        if kind.is_distance:
            return _Told(nothing, values.tolist(), estimated=False)
        return _Told(kind.outer_values(values).tolist(), nothing, kind.estimates)

    def _came_with_input(self, numbers: Int64s) -> Bools:
        if self._policy.on_existing in OF_CONTENT:
            return self._seen.among(numbers)  # also if an earlier run of the same input stored it
        first = self._first_new
        return numbers >= first if first is not None else np.zeros(numbers.size, np.bool_)


def _same_metadata(one: Stored, other: bytes) -> bool:
    """Whether packed metadata are equal; the order of their names means nothing."""
    if one == other or len(one) != len(other):
        return bool(one == other)
    return are_equal(layout.unpack(one), layout.unpack(other))


def _targets(
    stored: CollectionReader, decisions: Decisions, superseded: Iterable[int]
) -> dict[int, Key]:
    """Look up the keys of the stored items that rows duplicate, or take the place of."""
    named = np.append(decisions.stored[decisions.stored >= 0], [*superseded])
    numbers, _ = distinct_of(named.astype(np.uint32))
    positions, keys = stored.keys_of(numbers)
    return dict(zip(numbers[positions].tolist(), decoded_keys(keys), strict=True))


def _wrong_from(fates: Fates) -> int:
    """Return the first row about which an item decided that goes for a row before it; or 0."""
    assert fates.decisions is not None
    named = zip(fates.decisions.stored.tolist(), fates.stored, strict=True)
    wrong = (
        row
        for row, numbers in enumerate(named)
        if any(fates.superseded.get(number, row) < row for number in numbers)
    )
    return next(wrong, 0) if fates.superseded else 0


def insert_rows(
    writer: CollectionWriter,
    batch: RowBatch,
    signed: Signed,
    kept: list[int],
    pool: Pool | None = None,
) -> int:
    """Store the given rows of a batch in all tables; return the first new item number."""
    keys, items, metadata = map(ByteStrings.of, (batch.keys, batch.items, batch.metadata))
    packed = batch.packed
    if len(kept) < len(batch.rows):
        places = np.array(kept, np.int64)
        keys = writer.some_keys(keys, places)
        items, metadata = picked(items, places), picked(metadata, places)
        signed = signed.select(places)
        packed = None if packed is None else packed.select(places)
    first = writer.insert(keys, items, metadata, pool, packed)
    numbers = np.arange(first, first + len(kept), dtype=np.uint32)
    postings.insert(writer, writer.manifest.index, current_epoch(writer), numbers, signed)
    return first


def delete_keys(
    access: WriteAccess,
    settings: CollectionSettings,
    keys: Sequence[bytes],
    *,
    all_or_nothing: bool,
) -> list[int]:
    """Delete the items of distinct keys, or of none if one is absent; return places of absent."""
    with access.write(shares=len(keys) <= SHARING) as transaction:
        settings = present_settings(transaction, settings)
        writer = CollectionWriter(transaction, settings.number)
        numbers = [writer.find(key) for key in keys]
        absent = [place for place, number in enumerate(numbers) if number is None]
        present = [number for number in numbers if number is not None]
        if present and not (absent and all_or_nothing):
            keeper = None
            if settings.groups is not None:
                keeper = ingest.grouping.Keeper(writer, settings, Signer(settings), access)
                keeper.leave(present)
            writer.remove(present)
            if keeper is not None:
                keeper.settle()
            merged = MERGED_A_DELETION * len(present)
            writer.index_writer(writer.manifest.index).merge_after_deleting(merged)
            writer.save()
    return absent


# -- many rows ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """Counts the outcomes of one input."""

    counts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    bad_rows: list[tuple[int, str]] = field(default_factory=list)
    duplicates: list[Outcome] = field(default_factory=list)

    def note(self, outcomes: Collection[Outcome], *, rows: int, bad: int) -> None:
        """Count the rows of a batch, of some of which outcomes tell more, and the bad ones."""
        self.rows += rows + bad
        self.counts["bad"] += bad
        refused = (one for one in outcomes if one.action == "bad")
        room = BAD_ROWS_KEPT - len(self.bad_rows)
        self.bad_rows += [(one.row, one.problem or "") for one in islice(refused, room)]
        self.counts["superseded"] += sum(map(len, map(attrgetter("superseded"), outcomes)))
        duplicates = [
            one for one in outcomes if one.duplicate_of is not None and one.action != "merged"
        ]
        new = list(map(attrgetter("within_input"), duplicates)).count(True)
        self.counts["duplicates_new"] += new
        self.counts["duplicates_old"] += len(duplicates) - new
        self.duplicates += duplicates[: DUPLICATES_KEPT - len(self.duplicates)]

    def report(self, since: int) -> AddReport:
        """Return the counts; items from number ``since`` on were added."""
        names = (
            *("added", "replaced", "present", "duplicates_old", "duplicates_new", "bad"),
            *("superseded", "merged"),
        )
        counts: dict[str, Any] = {name: self.counts[name] for name in names}
        return AddReport(
            rows=self.rows,
            bad_rows=tuple(self.bad_rows),
            duplicates=tuple(self.duplicates),
            since=since,
            **counts,
        )


def load(
    access: WriteAccess,
    known: Known,
    policy: AddPolicy,
    rows: Iterable[Any],
    *,
    progress: ProgressCallback | None,
    outcomes: OutcomesCallback | None,
    given: GivenSignatures | None = None,
) -> AddReport:
    """Add rows batch by batch; each batch is one durable transaction.

    They are signed, unless their signatures are ``given`` with them.

    Memory is bounded by the setting, not by the number of rows, unless they are one batch as a
    whole. BadItemError, KeyExistsError: of a bad row, unless they are skipped. The batches before
    it are stored, of its own batch nothing is.
    """
    if policy.is_whole:
        whole = read_whole(rows, known.signer.items)
        return store(access, known, policy, whole, progress=progress, outcomes=outcomes)
    most_items, most_bytes = batch_limits(access, known)
    if policy.merge is not None:  # what a row is compared with changes with each that is merged
        most_items = 1
    items = known.signer.items
    batches = read_batches(rows, items, batch_items=most_items, batch_bytes=most_bytes)
    return store(access, known, policy, batches, progress=progress, outcomes=outcomes, given=given)


def read_row(access: WriteAccess, known: Known, row: Any) -> RowBatch:
    """Read a row that is added by itself, or with others; raise what is wrong with it."""
    _, most_bytes = batch_limits(access, known)
    (batch,) = read_batches([row], known.signer.items, batch_items=1, batch_bytes=most_bytes)
    if batch.bad:
        raise first_problem(batch)
    return batch


def add_rows(
    access: WriteAccess,
    known: Known,
    policy: AddPolicy,
    rows: Sequence[RowBatch],
    *,
    outcomes: OutcomesCallback,
) -> AddReport:
    """Add rows that were read one by one; see ``load``."""
    batches = joined(rows, *batch_limits(access, known))
    return store(access, known, policy, batches, progress=None, outcomes=outcomes)


def batch_limits(access: WriteAccess, known: Known) -> tuple[int, int]:
    """Return how many items a batch may have, and how many bytes."""
    most = max(1, access.memory // SHARE_OF_MEMORY)
    return min(BATCH_ITEMS, known.signer.most_indexed(most)), most


def store(
    access: WriteAccess,
    known: Known,
    policy: AddPolicy,
    batches: Iterator[RowBatch],
    *,
    progress: ProgressCallback | None,
    outcomes: OutcomesCallback | None,
    given: GivenSignatures | None = None,
) -> AddReport:
    """Add batches of rows, each in a transaction of its own; see ``load``."""
    adder, tally = BatchAdder(access, known, policy), Tally()
    packer = Packer(access, known.settings)

    def sign(batch: RowBatch, pool: Pool | None) -> tuple[Known, Signing]:
        if given is not None:
            return known, given.start(batch, known.signer)
        present = adder.known
        return present, present.signer.start(batch.items, pool)

    for batch, (under, signing), packing in _made_ahead(batches, sign, packer, access):
        if batch.bad and not policy.skip_bad:
            raise first_problem(batch)
        batch.packed = None if packing is None else packing.result()
        fates = adder.add(batch, signing.result(), under)
        told = [adder.outcomes(one) for one in fates]
        for one in fates:
            tally.counts.update(one.counts())
        whole = told[0] if len(told) == 1 else Outcomes(chain.from_iterable(told))
        done = _in_order(whole, batch)
        tally.note(done.apart.values(), rows=len(batch.rows), bad=len(batch.bad))
        if outcomes is not None:
            outcomes(done)
        if progress is not None:
            progress(Progress("adding", tally.rows, None))
    return tally.report(adder.since)


def _made_ahead(
    batches: Iterator[RowBatch],
    sign: Callable[[RowBatch, Pool | None], tuple[Known, Signing]],
    packer: Packer,
    access: WriteAccess,
) -> Iterator[tuple[RowBatch, tuple[Known, Signing], Packing | None]]:
    """Yield batches, signed under which settings, and compressed.

    Threads, if any, do that to the next one meanwhile. Where the caller's iterable
    raises, the batches before come first.
    """
    begun: deque[tuple[RowBatch, tuple[Known, Signing], Packing | None]] = deque()
    try:
        for batch in batches:
            batch.items = ByteStrings.of(batch.items)  # which else each of those who read them does
            if len(batch.items) > SHARING:
                keep_freed_memory()
            pool = access.pool_for(len(batch.items))
            begun.append((batch, sign(batch, pool), packer.start(batch, pool)))
            if pool is None or len(begun) > 1:
                yield begun.popleft()
    except Exception:
        yield from begun
        raise
    yield from begun


def first_problem(batch: RowBatch) -> Exception:
    """Return what to raise about the first bad row of a batch."""
    row, error = batch.bad[0][0], batch.error
    assert error is not None
    if isinstance(error, BadItemError | KeyExistsError) and error.row is not None:
        return error
    problem = BadItemError(f"row {row}: {error}", row=row).with_traceback(error.__traceback__)
    problem.__cause__ = error
    return problem


def _in_order(done: Outcomes, batch: RowBatch) -> Outcomes:
    """Return the outcomes of good and bad rows in the order of the input."""
    if not batch.bad:
        return done
    bad = [Outcome(row, key, "bad", problem=problem) for row, key, problem in batch.bad]
    return Outcomes(sorted([*done, *bad], key=lambda outcome: outcome.row))

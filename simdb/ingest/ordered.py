"""Rows that are all read before any is stored: in the order of a policy, or to update items.

The definition: rows are taken in the policy's order; each is kept unless it is similar enough to
one kept before it. So the kept ones are the first maximal set, in that order, in which no two are
similar. What was stored before takes part, but is not compared with itself: a stored item that a
better row is similar to goes when that row is kept, and is told with it. What such an item had
removed in its time does not come back. A stored item that is in the input again stands where the
row stands.

A stored item for which the input has other content decides about no row: at the end nothing would
be left that the row resembles. It goes even if its new content is a duplicate. Where such an item
is kept instead, it stands before all rows: it does not go for another, so that its key does not
become free for the row that a second run would store.

The rows wait in a file beside the store, which is gone afterwards. In memory are some 200 bytes of
each at the most. If a term takes texts, or numbers that are no floats, or the policy is a function,
places are objects, and it is some 400, and the text. Of a bad or removed row there is also what is
told of it, but for the key of a removed one.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
from msgspec import structs

from simdb.answers.method import ProgressCallback
from simdb.arrays import Int64s
from simdb.ingest.add import AddPolicy, OutcomesCallback, batch_limits, first_problem, store
from simdb.ingest.rows import BATCH_ITEMS, RowBatch, read_batches, weights_of
from simdb.ingest.standing import ItemNumbers, Standing
from simdb.kinds import Items
from simdb.opened.opened import Known, WriteAccess
from simdb.policies import Policy
from simdb.ragged import ByteStrings, offsets_of
from simdb.results import Action, AddReport, Key, Outcome, Outcomes
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.file.errors import translated
from simdb.storage.tables.layout import decode_user_key

_ACTIONS: tuple[Action, ...] = get_args(Action)


def dedupe(
    access: WriteAccess,
    known: Known,
    policy: AddPolicy,
    order: Policy | None,
    rows: Iterable[Any],
    *,
    progress: ProgressCallback | None,
    outcomes: OutcomesCallback | None,
) -> AddReport:
    """Store the rows that are similar to none before them, in the order of a policy if given.

    Outcomes are told in the order of the input: under a policy when all rows are stored.
    BadItemError: a row is bad, or cannot be placed, and is not to be skipped; then nothing is
    stored.
    """
    standing = None if order is None else Standing(order, skip_bad=policy.skip_bad)
    items = known.signer.items
    most_items, most_bytes = batch_limits(access, known)
    folder = access.environment.path.parent
    with ExitStack() as opened:
        with translated(folder):
            file = tempfile.TemporaryFile(dir=folder, prefix=".simdb-")  # noqa: SIM115 - _thrown_away
        opened.callback(_thrown_away, file)
        waiting = _Waiting(file, folder, items)
        arrivals = _Arrivals(access, known, policy, standing)
        for batch in read_batches(rows, items, batch_items=most_items, batch_bytes=most_bytes):
            if batch.bad and not policy.skip_bad:
                raise first_problem(batch)
            waiting.append(batch)
            if standing is None:
                arrivals.note(batch)
            else:
                standing.note(batch, items)
        sequence = None if standing is None else standing.sequence()
        batches = partial(waiting.batches, sequence, most_items, most_bytes)
        for batch in batches() if standing is not None and arrivals.are_stored else ():
            arrivals.note(batch)
        policy = structs.replace(policy, standing=standing, leaving=arrivals.leaving)
        told = _InOrder(len(waiting) if standing is not None else 0)
        noted = outcomes if standing is None else told.note
        report = store(access, known, policy, batches(), progress=progress, outcomes=noted)
        if standing is None:
            return report
        if outcomes is not None:
            for some in told.batches(waiting):
                outcomes(some)
    return structs.replace(report, lacking=standing.lacking())


class _Arrivals:
    """Which stored items are in the input again, and which of those it updates.

    The first row of a key says which content that is; another of later ones is bad.

    Attributes:
        leaving: the items that rows have other content for, which takes their place.
    """

    def __init__(
        self, access: WriteAccess, known: Known, policy: AddPolicy, standing: Standing | None
    ) -> None:
        self.leaving = ItemNumbers()
        self._met = ItemNumbers()
        self._access, self._known = access, known
        self._updates = policy.on_existing == "update"
        self._standing = standing

    @property
    def are_stored(self) -> bool:
        """Whether there is anything that rows could update."""
        with self._access.read() as snapshot:
            return bool(self._reader(snapshot).manifest.live)

    def _reader(self, snapshot: ReadTransaction) -> CollectionReader:
        return CollectionReader(snapshot, self._known.refreshed(snapshot).settings.number)

    def note(self, batch: RowBatch) -> None:
        """Look up the next rows, in the order in which they are stored."""
        with self._access.read() as snapshot:
            reader = self._reader(snapshot)
            if not reader.manifest.live:
                return
            numbers = np.array(reader.find_many(ByteStrings.of(batch.keys)), np.int64)
            known = np.flatnonzero((numbers >= 0) & ~self._met.among(np.maximum(numbers, 0)))
            rows = known[np.argsort(numbers[known])]
            self._met.add(numbers[rows].tolist())
            for place, document in reader.documents_of(numbers[rows].astype(np.uint32)):
                row = rows[place]
                if not self._known.signer.items.are_same(document.item, batch.items[row]):
                    if self._updates:
                        self.leaving.add([document.number])
                    elif self._standing is not None:
                        self._standing.stay(document.number)
                elif self._standing is not None:
                    self._standing.stand(document.number, batch.rows[row])


def _thrown_away(file: IO[bytes]) -> None:
    """Close a file of which nothing is needed, not even what did not fit on the disk."""
    with suppress(OSError):
        file.close()


class _Waiting:
    """Rows in a file, until their turn comes."""

    def __init__(self, file: Any, folder: Path, items: Items) -> None:
        self._file, self._folder, self._items = file, folder, items
        self._ends = array("q", [0])  # of the key, the item and the metadata of each row in turn
        self._numbers = array("q")  # of each row among the good ones; -1 of a bad one
        self._weights = array("q")  # of each good row
        self._bad: dict[int, tuple[int, Key | None, str]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def append(self, batch: RowBatch) -> None:
        """Add the rows of a batch."""
        self._bad.update((bad[0], bad) for bad in batch.bad)
        numbers = np.full(len(batch.rows) + len(batch.bad), -1)
        rows = np.array(batch.rows, np.int64) - len(self._numbers)
        numbers[rows] = len(self._weights) + np.arange(rows.size)
        self._numbers.frombytes(numbers.tobytes())
        weights = weights_of(self._items, batch.items, batch.metadata)
        self._weights.frombytes(weights.astype(np.int64).tobytes())
        parts = list(chain.from_iterable(zip(batch.keys, batch.items, batch.metadata, strict=True)))
        ends = self._ends[-1] + np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
        self._ends.frombytes(ends.tobytes())
        with translated(self._folder):
            self._file.write(b"".join(parts))
            self._file.flush()

    def batches(
        self, sequence: Int64s | None, most_items: int, most_bytes: int
    ) -> Iterator[RowBatch]:
        """Yield the rows in an order, or as they came, in batches in which no key comes twice."""
        count = len(self._numbers)
        order = np.arange(count) if sequence is None else sequence
        all_numbers, all_weights, ends_of_parts = map(
            np.asarray, (self._numbers, self._weights, self._ends)
        )
        begin = 0
        while begin < count:
            rows = order[begin : begin + most_items]
            numbers = all_numbers[rows]
            weights = np.where(numbers < 0, 0, all_weights[numbers] if all_weights.size else 0)
            fit = max(1, int((np.cumsum(weights) <= most_bytes).sum()))
            rows, numbers, weights = rows[:fit], numbers[:fit], weights[:fit]
            begin += fit
            is_bad = numbers < 0
            good = np.flatnonzero(~is_bad)
            keys, items, metadata = self._read(numbers[good], ends_of_parts)
            columns = (rows[good].tolist(), list(map(decode_user_key, keys)), keys, items, metadata)
            for first, end in pairwise([0, *good[_repeats(keys)].tolist(), fit]):
                bad = rows[first:end][is_bad[first:end]].tolist()
                batch = RowBatch(bad=[self._bad[row] for row in bad])
                own = slice(*np.searchsorted(good, [first, end]).tolist())
                weight = int(weights[first:end].sum())
                batch.extend(*(column[own] for column in columns), weight=weight)
                yield batch

    def keys(self, begin: int, end: int) -> list[Key | None]:
        """Return the keys of successive rows; None of bad ones."""
        numbers = np.array(self._numbers[begin:end], np.int64)
        found: list[Key | None] = [None] * numbers.size
        good = np.flatnonzero(numbers >= 0)
        with translated(self._folder):
            for row, number in zip(good.tolist(), numbers[good].tolist(), strict=True):
                start, stop = self._ends[3 * number : 3 * number + 2]
                self._file.seek(start)
                found[row] = decode_user_key(self._file.read(stop - start))
        return found

    def _read(self, numbers: Int64s, ends: Int64s) -> tuple[list[bytes], ...]:
        """Read the keys, the items and the metadata of good rows, given where all parts end."""
        pieces = []
        with translated(self._folder):
            for begin, end in _successive(ends[3 * numbers], ends[3 * numbers + 3]):
                self._file.seek(begin)
                pieces.append(self._file.read(end - begin))
        whole = b"".join(pieces)
        places = 3 * numbers[:, np.newaxis] + np.arange(3)
        bounds = offsets_of((ends[places + 1] - ends[places]).ravel()).tolist()
        parts = [whole[begin:end] for begin, end in pairwise(bounds)]
        return parts[::3], parts[1::3], parts[2::3]


def _successive(begins: Int64s, ends: Int64s) -> Iterator[tuple[int, int]]:
    """Yield where pieces begin and end, as one those that follow one another."""
    apart = np.flatnonzero(begins[1:] != ends[:-1])
    firsts = begins[np.append(0, apart + 1)] if begins.size else begins
    lasts = ends[np.append(apart, ends.size - 1)] if ends.size else ends
    return zip(firsts.tolist(), lasts.tolist(), strict=True)


def _repeats(keys: Sequence[bytes]) -> list[int]:
    """Return where rows are to be parted so that no key comes twice."""
    if len(set(keys)) == len(keys):
        return []
    places: list[int] = []
    seen: set[bytes] = set()
    for place, key in enumerate(keys):
        if key in seen:
            places.append(place)
            seen.clear()
        seen.add(key)
    return places


class _InOrder:
    """Outcomes, which come in the order of a policy, in that of the input."""

    def __init__(self, rows: int) -> None:
        self._actions = np.zeros(rows, np.int8)
        self._apart: dict[int, Outcome] = {}

    def note(self, outcomes: Outcomes) -> None:
        """Note some."""
        for outcome in outcomes:
            self._actions[outcome.row] = _ACTIONS.index(outcome.action)
        for outcome in outcomes.apart.values():
            is_waiting = outcome.action != "bad"  # and so is its key, which may be long
            kept = structs.replace(outcome, key=None) if is_waiting else outcome
            self._apart[outcome.row] = kept

    def batches(self, waiting: _Waiting) -> Iterator[Outcomes]:
        """Yield all of them, of rows whose keys are waiting."""
        for begin in range(0, self._actions.size, BATCH_ITEMS):
            told = self._actions[begin : begin + BATCH_ITEMS].tolist()
            keys: list[Any] = waiting.keys(begin, begin + len(told))
            actions = [_ACTIONS[action] for action in told]
            rows = range(begin, begin + len(keys))
            apart = {row - begin: self._apart.pop(row) for row in rows if row in self._apart}
            for place, outcome in apart.items():
                if outcome.action != "bad":
                    apart[place] = structs.replace(outcome, key=keys[place])
            yield Outcomes.of_columns(rows, keys, actions, apart)

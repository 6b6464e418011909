"""Rows that are all read before any is stored: in the order of a policy, or to update items.

The definition: rows are taken in the policy's order; each is kept unless it is similar enough to
one kept before it. So the kept ones are the first maximal set, in that order, in which no two are
similar. What was stored before takes part, but is not compared with itself: a stored item that a
better row is similar to goes when that row is kept, and is told with it. What such an item had
removed in its time does not come back. A stored item that is in the input again stands where the
row stands.

A stored item for which the input has other content decides about no row: at the end nothing would
be left that the row resembles. It goes even if its new content is a duplicate.

The rows wait in a file beside the store, which is gone afterwards; of each its place in the order
is in memory, about 150 bytes.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import IO, Any

import numpy as np
from msgspec import structs

from simdb.answers.method import ProgressCallback
from simdb.ingest.add import AddPolicy, OutcomesCallback, batch_limits, first_problem, store
from simdb.ingest.rows import BATCH_ITEMS, RowBatch, read_batches, weight_of
from simdb.ingest.standing import ItemNumbers, Standing
from simdb.kinds import Items
from simdb.opened.opened import Known, WriteAccess
from simdb.policies import Policy
from simdb.ragged import ByteStrings
from simdb.results import Action, AddReport, Key, Outcome, Outcomes
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.file.errors import translated
from simdb.storage.tables.layout import decode_user_key


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
        waiting = _Waiting(file, folder)
        for batch in read_batches(rows, items, batch_items=most_items, batch_bytes=most_bytes):
            if batch.bad and not policy.skip_bad:
                raise first_problem(batch)
            if standing is not None:
                standing.note(batch, items)
            waiting.append(batch)
        sequence = None if standing is None else standing.sequence()
        batches = partial(waiting.batches, items, sequence, most_items, most_bytes)
        leaving = _arrived(access, known, policy, standing, batches())
        policy = structs.replace(policy, standing=standing, leaving=leaving)
        told = _InOrder(len(waiting) if standing is not None else 0)
        noted = outcomes if standing is None else told.note
        report = store(access, known, policy, batches(), progress=progress, outcomes=noted)
    if standing is None:
        return report
    if outcomes is not None:
        for some in told.batches():
            outcomes(some)
    return replace(report, lacking=standing.lacking())


def _arrived(
    access: WriteAccess,
    known: Known,
    policy: AddPolicy,
    standing: Standing | None,
    batches: Iterator[RowBatch],
) -> ItemNumbers:
    """Look up which stored items are in the input again, and return those that it updates.

    The first row of a key says which content that is; another of later ones is bad.
    """
    met, leaving = ItemNumbers(), ItemNumbers()
    with access.read() as snapshot:
        reader = CollectionReader(snapshot, known.refreshed(snapshot).settings.number)
        for batch in batches if reader.manifest.live else ():
            numbers = np.array(reader.find_many(ByteStrings.of(batch.keys)), np.int64)
            known_rows = np.flatnonzero((numbers >= 0) & ~met.among(np.maximum(numbers, 0)))
            by_number = known_rows[np.argsort(numbers[known_rows])]
            met.add(numbers[by_number].tolist())
            for place, document in reader.documents_of(numbers[by_number].astype(np.uint32)):
                row = by_number[place]
                if document.item != batch.items[row]:
                    if policy.on_existing == "update":
                        leaving.add([document.number])
                elif standing is not None:
                    standing.stand(document.number, batch.rows[row])
    return leaving


def _thrown_away(file: IO[bytes]) -> None:
    """Close a file of which nothing is needed, not even what did not fit on the disk."""
    with suppress(OSError):
        file.close()


class _Waiting:
    """Rows in a file, until their turn comes."""

    def __init__(self, file: Any, folder: Path) -> None:
        self._file, self._folder = file, folder
        self._ends = array("q", [0])  # of the key, the item and the metadata of each row in turn
        self._numbers = array("q")  # of each row among the good ones; -1 of a bad one
        self._good = 0
        self._bad: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def append(self, batch: RowBatch) -> None:
        """Add the rows of a batch."""
        self._bad.update((bad[0], bad) for bad in batch.bad)
        self._numbers.extend(repeat(-1, len(batch.rows) + len(batch.bad)))
        columns = zip(batch.rows, batch.keys, batch.items, batch.metadata, strict=True)
        with translated(self._folder):
            for row, *parts in columns:
                self._numbers[row] = self._good
                self._good += 1
                for part in parts:
                    self._file.write(part)
                    self._ends.append(self._ends[-1] + len(part))
            self._file.flush()

    def batches(
        self, items: Items, sequence: Sequence[int] | None, most_items: int, most_bytes: int
    ) -> Iterator[RowBatch]:
        """Yield the rows in an order, or as they came, in batches in which no key comes twice."""
        batch = RowBatch()
        seen: set[bytes] = set()
        for row in range(len(self._numbers)) if sequence is None else sequence:
            number = self._numbers[row]
            if number < 0:
                batch.bad.append(self._bad[row])
                continue
            ends = self._ends[3 * number : 3 * number + 4]
            self._file.seek(ends[0])
            key, item, metadata = (self._file.read(end - begin) for begin, end in pairwise(ends))
            weight = weight_of(items, item, metadata)
            full = batch.is_full(most_items, most_bytes) or batch.weight + weight > most_bytes
            if key in seen or (batch.rows and full):
                yield batch
                batch, seen = RowBatch(), set()
            seen.add(key)
            batch.extend([row], [decode_user_key(key)], [key], [item], [metadata], weight=weight)
        if batch.rows or batch.bad:
            yield batch


class _InOrder:
    """Outcomes, which come in the order of a policy, in that of the input."""

    def __init__(self, rows: int) -> None:
        self._keys: list[Key | None] = [None] * rows
        self._actions: list[Action] = ["added"] * rows
        self._apart: dict[int, Outcome] = {}

    def note(self, outcomes: Outcomes) -> None:
        """Note some."""
        for outcome in outcomes:
            self._keys[outcome.row] = outcome.key
            self._actions[outcome.row] = outcome.action
        self._apart.update((outcome.row, outcome) for outcome in outcomes.apart.values())

    def batches(self) -> Iterator[Outcomes]:
        """Yield all of them."""
        for begin in range(0, len(self._keys), BATCH_ITEMS):
            keys: list[Any] = self._keys[begin : begin + BATCH_ITEMS]
            actions = self._actions[begin : begin + BATCH_ITEMS]
            rows = range(begin, begin + len(keys))
            apart = {row - begin: self._apart[row] for row in rows if row in self._apart}
            yield Outcomes.of_columns(rows, keys, actions, apart)

"""Rows in the order of a policy: all are read, and stored from the first to the last of the order.

The definition: rows are taken in the policy's order; each is kept unless it is similar enough to
one kept before it. So the kept ones are the first maximal set, in that order, in which no two are
similar. What was stored before takes part, but is not compared with itself: a stored item that a
better row is similar to goes when that row is kept, and is told with it. What such an item had
removed in its time does not come back.

The rows wait in a file beside the store, which is gone afterwards; of each its place in the order
is in memory, about 150 bytes.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from msgspec import structs

from simdb.answers.method import ProgressCallback
from simdb.ingest.add import AddPolicy, OutcomesCallback, batch_limits, first_problem, store
from simdb.ingest.rows import BATCH_ITEMS, RowBatch, read_batches
from simdb.ingest.standing import Standing
from simdb.opened.opened import Known, WriteAccess
from simdb.policies import Policy
from simdb.results import Action, AddReport, Key, Outcome, Outcomes
from simdb.storage.file.errors import translated
from simdb.storage.tables.layout import decode_user_key


def dedupe(
    access: WriteAccess,
    known: Known,
    policy: AddPolicy,
    order: Policy,
    rows: Iterable[Any],
    *,
    progress: ProgressCallback | None,
    outcomes: OutcomesCallback | None,
) -> AddReport:
    """Store the rows that are similar to none before them in the order of a policy.

    Outcomes are told in the order of the input, when all rows are stored. BadItemError: a row is
    bad, or cannot be placed, and is not to be skipped; then nothing is stored.
    """
    standing = Standing(order, skip_bad=policy.skip_bad)
    items = known.signer.items
    most_items, most_bytes = batch_limits(access, known)
    told = _InOrder()
    folder = access.environment.path.parent
    with ExitStack() as opened:
        with translated(folder):
            file = tempfile.TemporaryFile(dir=folder, prefix=".simdb-")  # noqa: SIM115 - _thrown_away
        opened.callback(_thrown_away, file)
        waiting = _Waiting(file, folder)
        bad = RowBatch()
        for batch in read_batches(rows, items, batch_items=most_items, batch_bytes=most_bytes):
            if batch.bad and not policy.skip_bad:
                raise first_problem(batch)
            standing.note(batch, items)
            waiting.append(batch)
            bad.bad += batch.bad
        batches = waiting.batches(standing.sequence(), bad, most_items, most_bytes)
        policy = structs.replace(policy, standing=standing)
        report = store(access, known, policy, batches, progress=progress, outcomes=told.note)
    if outcomes is not None:
        for some in told.batches():
            outcomes(some)
    return replace(report, lacking=standing.lacking())


def _thrown_away(file: IO[bytes]) -> None:
    """Close a file of which nothing is needed, not even what did not fit on the disk."""
    with suppress(OSError):
        file.close()


class _Waiting:
    """Rows in a file, until their turn comes."""

    def __init__(self, file: Any, folder: Path) -> None:
        self._file, self._folder = file, folder
        self._ends = array("q", [0])  # of the key, the item and the metadata of each row in turn
        self._numbers: dict[int, int] = {}

    def append(self, batch: RowBatch) -> None:
        """Add the good rows of a batch."""
        columns = zip(batch.rows, batch.keys, batch.items, batch.metadata, strict=True)
        with translated(self._folder):
            for row, *parts in columns:
                self._numbers[row] = len(self._numbers)
                for part in parts:
                    self._file.write(part)
                    self._ends.append(self._ends[-1] + len(part))
            self._file.flush()

    def batches(
        self, sequence: Sequence[int], bad: RowBatch, most_items: int, most_bytes: int
    ) -> Iterator[RowBatch]:
        """Yield the rows in an order, in batches in which no key comes twice; then the bad ones."""
        batch = RowBatch()
        seen: set[bytes] = set()
        for row in sequence:
            number = self._numbers.get(row)
            if number is None:
                continue
            ends = self._ends[3 * number : 3 * number + 4]
            self._file.seek(ends[0])
            key, item, metadata = (self._file.read(end - begin) for begin, end in pairwise(ends))
            full = batch.is_full(most_items, most_bytes) or batch.weight + len(item) > most_bytes
            if key in seen or (batch.rows and full):
                yield batch
                batch, seen = RowBatch(), set()
            seen.add(key)
            weight = len(item)
            batch.extend([row], [decode_user_key(key)], [key], [item], [metadata], weight=weight)
        if batch.rows:
            yield batch
        if bad.bad:
            yield bad


class _InOrder:
    """Outcomes, which come in the order of a policy, in that of the input."""

    def __init__(self) -> None:
        self._keys: dict[int, Key | None] = {}
        self._actions: dict[int, Action] = {}
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
            rows = range(begin, min(begin + BATCH_ITEMS, len(self._keys)))
            keys: list[Any] = [self._keys[row] for row in rows]
            actions = [self._actions[row] for row in rows]
            apart = {row - begin: self._apart[row] for row in rows if row in self._apart}
            yield Outcomes.of_columns(rows, keys, actions, apart)

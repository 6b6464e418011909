"""Adding many rows: batches are read, signed on several threads while others are stored."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simdb.datatypes import Action, AddReport, Outcome, Progress
from simdb.errors import BadItemError
from simdb.ingest.add import BatchAdder
from simdb.ingest.rows import BATCH_ITEMS, RowBatch, read_batches
from simdb.opened.signer import Signer, Signing

if TYPE_CHECKING:
    from concurrent.futures import Executor


SHARE_OF_MEMORY = 64  # a batch of items takes at most this part of the memory setting
BAD_ROWS_KEPT = 1_000
DUPLICATES_KEPT = 100_000

ProgressCallback = Callable[[Progress], None]
OutcomesCallback = Callable[[Sequence[Outcome]], None]


@dataclass(slots=True)
class Tally:
    """Counts the outcomes of one input."""

    counts: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    bad_rows: list[tuple[int, str]] = field(default_factory=list)
    duplicates: list[Outcome] = field(default_factory=list)

    def count(self, actions: Sequence[Action]) -> None:
        """Count rows of which nothing but the action is to be told."""
        self.rows += len(actions)
        for action, number in Counter(actions).items():
            self.counts[action] = self.counts.get(action, 0) + number

    def note(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of a batch."""
        counts = self.counts
        self.rows += len(outcomes)
        for outcome in outcomes:
            counts[outcome.action] = counts.get(outcome.action, 0) + 1
            if outcome.duplicate_of is not None:
                name = "duplicates_new" if outcome.within_input else "duplicates_old"
                counts[name] = counts.get(name, 0) + 1
                if len(self.duplicates) < DUPLICATES_KEPT:
                    self.duplicates.append(outcome)
            if outcome.action == "bad" and len(self.bad_rows) < BAD_ROWS_KEPT:
                self.bad_rows.append((outcome.row, outcome.problem or ""))

    def report(self, since: int) -> AddReport:
        """Return the counts; items from number ``since`` on were added."""
        counts = self.counts
        return AddReport(
            rows=self.rows,
            added=counts.get("added", 0),
            replaced=counts.get("replaced", 0),
            present=counts.get("present", 0),
            duplicates_old=counts.get("duplicates_old", 0),
            duplicates_new=counts.get("duplicates_new", 0),
            bad=counts.get("bad", 0),
            bad_rows=tuple(self.bad_rows),
            duplicates=tuple(self.duplicates),
            since=since,
        )


def load(
    rows: Iterable[Any],
    signer: Signer,
    adder: BatchAdder,
    *,
    pool: Executor | None,
    memory: int,
    skip_bad: bool,
    progress: ProgressCallback | None,
    outcomes: OutcomesCallback | None,
) -> AddReport:
    """Add rows batch by batch; each batch is one durable transaction.

    Memory is bounded by ``memory``, not by the number of rows.

    Raises:
        BadItemError, KeyExistsError: of a bad row, unless they are skipped. The batches before it
            are stored, of its own batch nothing is.
    """
    tally = Tally()
    batches = read_batches(
        rows, signer.items, batch_items=BATCH_ITEMS, batch_bytes=max(1, memory // SHARE_OF_MEMORY)
    )
    for batch, signing in _signed_ahead(batches, signer, pool):
        if batch.bad and not skip_bad:
            raise _first_problem(batch)
        result = adder.add(batch, signing.result())
        if result.plain and not batch.bad and outcomes is None:
            tally.count(result.actions)
        else:
            done = _in_order(result.outcomes(), batch)
            tally.note(done)
            if outcomes is not None:
                outcomes(done)
        if progress is not None:
            progress(Progress("adding", tally.rows, None))
    return tally.report(adder.since)


def _signed_ahead(
    batches: Iterator[RowBatch], signer: Signer, pool: Executor | None
) -> Iterator[tuple[RowBatch, Signing]]:
    """Yield batches with their signatures; with a pool the next one is being signed meanwhile.

    Where the caller's iterable raises, the batches before come first.
    """
    ahead = 0 if pool is None else 1
    started: deque[tuple[RowBatch, Signing]] = deque()
    try:
        for batch in batches:
            started.append((batch, signer.start(batch.items, pool)))
            if len(started) > ahead:
                yield started.popleft()
    except Exception:
        yield from started
        raise
    yield from started


def _first_problem(batch: RowBatch) -> Exception:
    row, _, error = batch.bad[0]
    if isinstance(error, BadItemError) and error.row is not None:
        return error
    problem = BadItemError(f"row {row}: {error}", row=row).with_traceback(error.__traceback__)
    problem.__cause__ = error
    return problem


def _in_order(done: list[Outcome], batch: RowBatch) -> list[Outcome]:
    """Return the outcomes of good and bad rows in the order of the input."""
    if not batch.bad:
        return done
    bad = [Outcome(row, key, "bad", problem=str(error)) for row, key, error in batch.bad]
    return sorted([*done, *bad], key=lambda outcome: outcome.row)

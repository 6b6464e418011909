"""Which rows are contained in others? All are stored, and those that a kept longer one contains go.

The definition: rows are taken by falling numbers of symbols, those of as many in the order of the
input; a row is removed if enough of its symbols are in one row kept before it, and is a duplicate
of the first such row. So it does not depend on the order of the input but where rows are of one
size; or they are taken in the order of a policy. It does depend on all rows: a later, longer one
would take out what was kept, and bring back what that one removed. So all are decided about at
once, in a collection without items.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from simdb.answers.exact.whole import contained_in_kept
from simdb.answers.method import ProgressCallback, keys_of_numbers
from simdb.arrays import Int64s, UInt32s
from simdb.batches.signer import Signer
from simdb.errors import DatabaseBusyError, UsageError
from simdb.exact.thresholds import Threshold
from simdb.ingest.add import AddPolicy, OutcomesCallback, Tally, delete_keys, load
from simdb.ingest.rows import BATCH_ITEMS
from simdb.ingest.standing import Standing
from simdb.opened.opened import Known, Opened, Resources, WriteAccess, require_kind
from simdb.policies import Policy
from simdb.recipe import secret_of
from simdb.results import AddReport, Key, Outcomes
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.tables.layout import encode_user_key


class Rule(NamedTuple):
    """What removes a row: a share of it in one kept before, or being so similar to one."""

    share: Threshold
    similar: Threshold | None = None
    order: Policy | None = None  # which rows come before; larger ones, if there is none


Container = tuple[Key, float]  # the key of a kept row, and what share of another one it has


def dedupe(
    access: WriteAccess,
    known: Known,
    policy: AddPolicy,
    rule: Rule,
    rows: Iterable[Any],
    *,
    progress: ProgressCallback | None,
    outcomes: OutcomesCallback | None,
) -> AddReport:
    """Store the rows that no kept longer one contains, or whatever else the rule says; exact.

    The fates of rows are told when all are stored, batch by batch. If the work ends early, rows are
    stored that would have been removed. UsageError: the collection has items. ConfigurationError:
    the symbols of all rows do not fit into memory. DatabaseBusyError: somebody else wrote to it.
    """
    with access.read() as snapshot:
        before = CollectionReader(snapshot, known.settings.number).manifest
        if before.live:
            raise UsageError(
                f"collection {known.settings.name!r} has items: containment needs an empty "
                "collection, since a longer row could remove a stored one; name a new collection"
            )
    told: list[Outcomes] = []
    loaded = load(access, known, policy, rows, progress=progress, outcomes=told.append)
    stored = before.next_number + loaded.added + loaded.replaced
    standing = None
    if rule.order is not None:
        standing = Standing(rule.order, skip_bad=policy.skip_bad)
    numbers, containers = _contained(access, known, rule, standing, stored)
    keys = [encode_user_key(key) for key in containers]
    for begin in range(0, len(keys), BATCH_ITEMS):
        some = keys[begin : begin + BATCH_ITEMS]
        delete_keys(access, known.settings, some, all_or_nothing=False)
    tally, first = Tally(), loaded.since
    for batch in told:
        first += _mark(batch, numbers - first, containers)
        tally.counts.update(outcome.action for outcome in batch.apart.values())
        tally.counts["added"] += len(batch) - len(batch.apart)
        tally.note(batch.apart.values(), rows=len(batch), bad=0)
        if outcomes is not None:
            outcomes(batch)
    lacking = () if standing is None else standing.lacking()
    return structs.replace(tally.report(loaded.since), lacking=lacking)


def _contained(
    access: WriteAccess, known: Known, rule: Rule, standing: Standing | None, stored: int
) -> tuple[Int64s, dict[Key, Container]]:
    """Find what is removed: item numbers, rising, and by the key of each what contains it."""
    with access.read() as snapshot:
        present = known.refreshed(snapshot)
        reader = CollectionReader(snapshot, present.settings.number)
        if reader.manifest.next_number != stored:
            raise DatabaseBusyError(
                f"somebody else wrote to collection {present.settings.name!r} meanwhile, so that "
                "it holds other items than these rows: all are stored and none is removed; drop "
                "the collection, and run again while nobody else writes to it"
            )
        when = "while rows were added"
        then = "all are stored and none is removed; drop the collection, and run again"
        require_kind(present.settings, known.settings.kind, when, then)
        # Under a secret that nobody knows: hashes that were made to collide remove nothing.
        signer = Signer(structs.replace(present.settings, secret=secret_of(None)))
        opened = Opened(present.settings, signer, reader, Resources(access.memory, access.pool))
        sequence = None if standing is None else partial(_sequence, standing, opened)
        batches = list(contained_in_kept(opened, rule.share, rule.similar, sequence))
        left = np.concatenate([np.empty(0, np.uint32), *(batch.left for batch in batches)])
        right = np.concatenate([np.empty(0, np.uint32), *(batch.right for batch in batches)])
        shares = np.concatenate([np.empty(0), *(batch.similarity for batch in batches)])
        keys, others = keys_of_numbers(reader, left), keys_of_numbers(reader, right)
        containers = zip(others, shares.tolist(), strict=True)
        return np.sort(left).astype(np.int64), dict(zip(keys, containers, strict=True))


def _sequence(standing: Standing, opened: Opened, numbers: UInt32s) -> Int64s:
    """Return the places of items among these, in the order of a policy."""
    places = [
        standing.place_of(document, opened.signer.items)
        for _, document in opened.reader.documents_of(np.sort(numbers))
    ]
    sequence = np.array(standing.order.order(places), np.int64)
    return np.argsort(numbers, kind="stable")[sequence]


def _mark(batch: Outcomes, removed: Int64s, containers: dict[Key, Container]) -> int:
    """Tell which rows of a batch are removed, by their places among those added; count these."""
    is_added = np.ones(len(batch), np.bool_)
    for place, outcome in batch.apart.items():
        is_added[place] = outcome.action == "added"
        if outcome.duplicate_of in containers:  # it came twice under one key
            of, share = containers[outcome.duplicate_of]
            batch.apart[place] = structs.replace(outcome, duplicate_of=of, similarity=share)
    added = np.flatnonzero(is_added)
    begin, end = np.searchsorted(removed, (0, added.size))
    for place in added[removed[begin:end]].tolist():
        outcome = batch[place]
        of, share = containers[outcome.key]
        batch.apart[place] = structs.replace(
            outcome, action="duplicate", duplicate_of=of, similarity=share, within_input=True
        )
    return added.size

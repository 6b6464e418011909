"""The reading half of a collection: what is stored, what is similar, what is inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from simdb import engine
from simdb.config.checks import require_whole
from simdb.contents import ContentsView
from simdb.datatypes import AuditReport, Effort, Matches, Progress
from simdb.errors import ConfigurationError
from simdb.exact.thresholds import ThresholdLike
from simdb.results import Groups, Pairs

if TYPE_CHECKING:
    from simdb.answers.answer import AnsweredBatch, Lent
    from simdb.answers.buckets.pairs import JoinCounters
    from simdb.answers.choose import AskedGuarantee, Served
    from simdb.measures.calibration import Calibration


class CollectionView(ContentsView):
    """The reading half of a collection: of the last commit, or of a snapshot.

    Made by ``Database`` and ``Snapshot``; not to be made directly.
    """

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
            bound = engine.serving.bound_by(wanted, settings.kind, threshold, max_distance)
            served = engine.serving.serve(settings, bound, min_recall, guarantee, measure=wanted)
            encoded = [signer.items.encode(item) for item in items]
            return [
                engine.answering.search(signer, collection, item, served, limit) for item in encoded
            ]

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
        budget: int | None = None,
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
            budget: the most pairs to look at, None for any number: pairs that meet in a bucket or
                in postings, or all with all where no index serves. Nothing is dropped for it.

        Returns:
            An iterable of ``Pair``; its ``batches()`` yields columns instead, which is faster.

        Raises:
            OperationInterruptedError: while iterating: the budget is spent.
        """
        with self._reading() as transaction:
            settings = self._refresh(transaction).settings
        wanted = engine.serving.parse_measure(measure)
        if wanted != "jaccard":
            engine.exact_measuring.require_symmetric(wanted)
        bound = engine.serving.bound_by(wanted, settings.kind, threshold, max_distance)
        served = engine.serving.serve_join(
            settings, bound, min_recall, guarantee, wanted, resume=resume, answers="pairs"
        )
        first = 0 if since is None else engine.serving.parse_since(since)
        return _streamed(partial(self._pair_batches, served, first, resume), served, budget, resume)

    def _pair_batches(
        self, served: Served, since: int, resume: str | None, counters: JoinCounters
    ) -> Iterator[AnsweredBatch]:
        counters.effort.pairs = 0
        with self._opened() as (collection, _, signer):
            for batch in engine.answering.pairs(
                signer,
                collection,
                served,
                self._lent(counters.effort),
                counters,
                since=since,
                resume=resume,
            ):
                yield batch
                self._require_open()
                collection.transaction.require_open()

    def _lent(self, effort: Effort | None = None) -> Lent:
        return engine.answering.Lent(
            self._handle.memory, self._handle.pool, self._require_open, effort or Effort()
        )

    def groups(
        self,
        threshold: ThresholdLike | None = None,
        *,
        max_distance: ThresholdLike | None = None,
        min_recall: float | None = None,
        guarantee: AskedGuarantee = "auto",
        budget: int | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Groups:
        """Return the groups of items connected by similar pairs, each with a representative.

        Two items of a group need not be similar to each other, only connected by similar pairs.
        The representative is the item inserted first.

        Args:
            threshold, max_distance, min_recall, guarantee: as for ``pairs``.
            budget: as for ``pairs``; items that are connected already are not looked at again.
            progress: called now and then.

        Returns:
            An iterable of ``Group`` of two items or more, by the insertion of their first items.

        Raises:
            OperationInterruptedError: the budget is spent.
        """
        require_whole("budget", budget, 1)
        effort = Effort(budget)
        with self._opened() as (collection, settings, signer):
            bound = engine.kinds.parse_bound(settings.kind, threshold, max_distance)
            served = engine.serving.serve(
                settings, bound, min_recall, guarantee, without_index=True
            )
            keys = engine.answering.groups(signer, collection, served, self._lent(effort), progress)
        return Groups(keys, served.guarantee, served.recall, effort.pairs)

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
        budget: int | None = None,
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
            budget: as for ``pairs``.

        Raises:
            ConfigurationError: the kinds of items differ.
            OperationInterruptedError: while iterating: the budget is spent.
        """
        with other._reading() as transaction:
            settings = other._refresh(transaction).settings
        with self._reading() as transaction:
            engine.exact_crossing.require_same_kind(self._refresh(transaction).settings, settings)
        if guarantee == "auto" and engine.kinds.has_symbols(settings.kind):
            guarantee = "exact"
        wanted = engine.serving.parse_measure(measure)
        bound = engine.serving.bound_by(wanted, settings.kind, threshold, max_distance)
        served = engine.serving.serve_join(
            settings, bound, min_recall, guarantee, wanted, resume=resume, answers="joins"
        )
        batches = partial(self._cross_batches, other, served, resume)
        return _streamed(batches, served, budget, resume)

    def _cross_batches(
        self, other: CollectionView, served: Served, resume: str | None, counters: JoinCounters
    ) -> Iterator[AnsweredBatch]:
        counters.effort.pairs = 0
        with self._opened() as (own, _, signer), other._opened() as (others, _, other_signer):
            for batch in engine.answering.cross(
                (signer, own),
                (other_signer, others),
                served,
                self._lent(counters.effort),
                counters,
                resume=resume,
            ):
                yield batch
                for view, reader in ((self, own), (other, others)):
                    view._require_open()
                    reader.transaction.require_open()

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


def _require_positive(name: str, value: object) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")


def _streamed(
    batches: Callable[[JoinCounters], Iterator[AnsweredBatch]],
    served: Served,
    budget: int | None,
    token: str | None,
) -> Pairs:
    require_whole("budget", budget, 1)
    counters = engine.joining.JoinCounters()
    counters.effort.budget = budget
    return Pairs(
        partial(batches, counters),
        served.guarantee,
        served.recall,
        effort=counters.effort,
        compared=None if served.is_exact else lambda: counters.compared,
        token=token,
    )

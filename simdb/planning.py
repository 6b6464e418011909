"""What settings lead to, before a collection is made: ``simdb.plan`` and its kin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from simdb import kernels
from simdb.arguments import several
from simdb.arrays import UInt16s
from simdb.arrow import one_by_one
from simdb.errors import BadItemError, ConfigurationError
from simdb.exact.thresholds import Threshold, ThresholdLike
from simdb.kinds import Items, Kind, require
from simdb.kinds.base import plan_request
from simdb.lsh import planning
from simdb.lsh.amplification import Construction
from simdb.lsh.family import Family
from simdb.lsh.planning import Plan, PlanRequest, require_items
from simdb.storage.tables.runs import POSTING_BYTES

SAMPLED_AT_ONCE = 100  # items


def plan(
    threshold: ThresholdLike = 0.8,
    *,
    recall: ThresholdLike = 0.99,
    bands: int | None = None,
    rows: int | None = None,
    row_budget: int | None = None,
    false_candidates: ThresholdLike = 1,
    cascade: Construction | None = None,
    items: int | None = None,
) -> Plan:
    """Choose bands and rows for a threshold, as ``Database.collection`` does.

    The plan has its S-curve as data (``curve``) and its ``expected_recall``.

    Args:
        threshold: the similarity to plan for.
        recall: the share of pairs at the threshold that the index should find, below 1.
        bands, rows: fixed values, if given; both are taken as they are, whatever they find.
        row_budget: the most base functions of a signature, 128 by default; a low threshold needs
            more. If it is given, a band may be a single row.
        false_candidates: the largest probability, as a mean over all similarities below the
            threshold, that a pair is a candidate. Each false candidate costs a comparison.
        cascade: a cascade of AND and OR in place of bands and rows (MMDS 3.6.3); the plan has its
            ``fixed_points`` and its ``sensitivity``.
        items: how many items there will be. Unrelated items meet by chance, the more often the more
            items there are (``Plan.chance_meetings``). The plan then takes enough rows that an item
            meets at most two others by chance, unless bands and rows are both given.

    Raises:
        ConfigurationError: a value is out of range, or no plan, or the cascade, reaches the recall,
            unless bands and rows are both given.

    >>> chosen = plan(0.8)
    >>> chosen.bands, chosen.rows
    (16, 6)
    """
    request = plan_request(
        recall,
        false_candidates,
        bands=bands,
        rows=rows,
        row_budget=row_budget,
        cascade=cascade,
        items=items,
    )
    return planning.plan(Threshold.parse(threshold).fraction, request)


@dataclass(frozen=True, slots=True)
class ExactPlan:
    """What an exact index takes for a sample of items.

    Attributes:
        floor: the least threshold that it would serve.
        items: items of the sample.
        item_bytes: their bytes in the store.
        symbols: distinct symbols, summed over the items.
        postings: symbols that would be posted: the prefixes (MMDS 3.9.4).
        largest_prefix: the most postings of an item.
    """

    floor: Fraction
    items: int
    item_bytes: int
    symbols: int
    postings: int
    largest_prefix: int

    @property
    def postings_per_item(self) -> float:
        """Postings of an item on average."""
        return self.postings / max(1, self.items)

    @property
    def bytes_per_item(self) -> float:
        """Bytes of the postings of an item on average."""
        return self.postings_per_item * POSTING_BYTES

    @property
    def weight(self) -> float:
        """Bytes of postings for one byte of items."""
        return self.postings * POSTING_BYTES / max(1, self.item_bytes)


def plan_exact(
    sample: Iterable[object],
    kind: Kind,
    *,
    exact_floor: ThresholdLike = 0.7,
    containment: bool = False,
) -> ExactPlan:
    """Measure the size of an exact index for items like those of a sample.

    Args:
        sample: items, which are read once.
        kind: the kind of the items.
        exact_floor: the least threshold that the index should serve.
        containment: as for ``Database.collection``.

    Raises:
        ConfigurationError: the floor is out of range, or the kind has no exact index.
        WrongTypeError: the sample is a table or a mapping.
        BadItemError: an item cannot be stored; ``row`` says which, from 0.

    >>> import simdb
    >>> plan_exact([range(10), range(20)], simdb.Set(), exact_floor=0.7).postings
    11
    """
    if not require(kind).has_symbols:
        raise ConfigurationError(f"{kind} has no exact index: exact answers compare all items")
    floor, items = _floor(kind, exact_floor), kind.make_items(b"")
    count = item_bytes = symbols = postings = largest = 0
    nothing = np.empty(0, np.uint64)
    remaining = iter(one_by_one("sample", sample, "items", "text"))
    while part := list(islice(remaining, SAMPLED_AT_ONCE)):
        encoded = list(_encoded(items, part, count))
        sets = items.symbols(encoded)
        _, sizes, _ = kernels.overlaps.probe_overlaps(nothing, sets.values, sets.offsets)
        posted = sizes if containment else floor.prefix_lengths(sizes)
        count += len(encoded)
        item_bytes += sum(map(len, encoded))
        symbols += int(sizes.sum())
        postings += int(posted.sum())
        largest = max(largest, int(posted.max()))
    least = kind.outer_bound(floor).fraction
    return ExactPlan(least, count, item_bytes, symbols, postings, largest)


@dataclass(frozen=True, slots=True)
class RulePlan:
    """What a rule for candidates proposes of a sample of records, or of two, and of all.

    Attributes:
        rule: the rule in words.
        records: records of the sample, or of both, that have a key.
        largest: those of them that share the key of most pairs.
        largest_pairs: the pairs of that key.
        pairs: proposed pairs of the sample, or between both samples.
        expected_pairs: proposed pairs of all records, if they are like the sample.
    """

    rule: str
    records: int
    largest: int
    largest_pairs: int
    pairs: int
    expected_pairs: float


def plan_rules(
    sample: Iterable[object],
    kind: Kind,
    *,
    items: int | None = None,
    other: Iterable[object] | None = None,
    other_items: int | None = None,
) -> list[RulePlan]:
    """Estimate from a random sample of records how many pairs each rule proposes.

    Args:
        sample: records, which are read once.
        kind: their settings.
        items: how many records there are; by default those of the sample.
        other: a sample of another table, read after the first: pairs are then those of a join of
            the two tables, and none of one table.
        other_items: how many records the other table has; by default those of its sample.

    Raises:
        ConfigurationError: the kind has no rules, ``other_items`` is given without ``other``, or a
            number of records is no whole number of at least 1.
        BadItemError: an item cannot be stored; ``row`` says which of its sample, from 0.

    >>> import simdb
    >>> kind = simdb.Record([simdb.Field("year", compare="numeric")], [simdb.Within("year", 1)])
    >>> (found,) = plan_rules([{"year": 1}, {"year": 2}, {"year": 9}], kind, items=300)
    >>> found.pairs, found.expected_pairs
    (1, 14950.0)
    >>> (found,) = plan_rules([{"year": 1}], kind, items=10, other=[{"year": 2}, {"year": 9}])
    >>> found.pairs, found.expected_pairs
    (1, 10.0)
    """
    if other is None and other_items is not None:
        raise ConfigurationError("other_items needs other, a sample of the other table")
    items = require_items("items", items)
    other_items = require_items("other_items", other_items)
    if not require(kind).has_rules:
        raise ConfigurationError(f"only records have rules for candidates, not {kind}")
    planned = kind.plan(kind.widest_bound, PlanRequest())
    family = kind.make_family(
        planned.threshold, bands=planned.bands, rows=planned.rows, sketch="fast", secret=b""
    )
    forms = kind.make_items(b"")
    signed = list(_signed(forms, family, sample))
    count = sum(map(len, signed))
    total = count if items is None else items
    if other is None:
        counts = kind.rule_counts(family, lambda: iter(signed))
        times = total * (total - 1) / max(1, count * (count - 1))
    else:
        others = list(_signed(forms, family, other))
        counts = kind.rule_counts(family, lambda: iter(others), lambda: iter(signed))
        other_count = sum(map(len, others))
        other_total = other_count if other_items is None else other_items
        times = total * other_total / max(1, count * other_count)
    return [
        RulePlan(
            rule,
            counted["records"],
            counted["largest"],
            counted["largest_pairs"],
            counted["pairs"],
            expected_pairs=times * counted["pairs"],
        )
        for rule, counted in counts
    ]


def _signed(forms: Items, family: Family, sample: Iterable[object]) -> Iterator[UInt16s]:
    remaining, count = iter(several("a sample", sample, "items")), 0
    while part := list(islice(remaining, SAMPLED_AT_ONCE)):
        yield family.sign(forms.features(list(_encoded(forms, part, count))))
        count += len(part)


def _floor(kind: Kind, exact_floor: ThresholdLike) -> Threshold:
    return kind.inner_threshold(Threshold.parse(exact_floor, name="exact_floor"))


def _encoded(items: Items, part: Sequence[object], first: int) -> Iterator[bytes]:
    for row, item in enumerate(part, first):
        try:
            yield items.encode(item)
        except BadItemError as error:
            raise BadItemError(f"row {row}: {error}", row=row) from error


def posted_symbols(kind: Kind, exact_floor: ThresholdLike, sizes: Sequence[int]) -> list[int]:
    """Count the symbols that an exact index posts of items of so many symbols."""
    floor = _floor(kind, exact_floor)
    return [floor.prefix_length(size) for size in sizes]


def expected_weight(
    kind: Kind, exact_floor: ThresholdLike, *, containment: bool = False
) -> float | None:
    """Return bytes of an exact index for one byte of English text; None if that says nothing.

    A rule of thumb for before there are items; ``plan_exact`` counts.
    """
    if kind.symbols_a_byte is None:
        return None
    sample = 1_000
    posted = sample if containment else _floor(kind, exact_floor).prefix_length(sample)
    return posted / sample * POSTING_BYTES * kind.symbols_a_byte

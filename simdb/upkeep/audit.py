"""The self-audit: how much of the truth does the index find, measured on a sample?

Every stored item is read once and compared exactly with each sampled one. That is the truth, which
the candidates of searches are held against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from simdb.answers.buckets import as_probes, propose
from simdb.answers.compare import live_features
from simdb.answers.exact.memory import live_sets
from simdb.arrays import Float64s, Int64s, UInt16s, UInt32s
from simdb.exact import joins
from simdb.exact.order import SymbolOrder
from simdb.exact.thresholds import Bound, Threshold
from simdb.extras import of_extra, require
from simdb.opened.opened import Opened
from simdb.results import AuditBin, AuditReport, Progress, RuleAudit
from simdb.storage.collection.reader import stored_signatures

BIN_WIDTH = Fraction(1, 20)

Pair: TypeAlias = tuple[int, int]  # place in the sample, item number


def audit(
    opened: Opened,
    bound: Bound,
    *,
    sample: int,
    seed: int,
    progress: Callable[[Progress], None] | None,
) -> AuditReport:
    """Measure recall and precision of an index on a random sample of its items."""
    require("statistics", "an audit needs", "scipy")
    kind, signer, collection = opened.settings.kind, opened.signer, opened.reader
    expected_recall = opened.settings.expected_recall(bound)  # also tells that there is no index
    live = collection.live_numbers()
    generator = np.random.default_rng(seed)
    sampled = np.sort(generator.choice(live, min(sample, live.size), replace=False))
    items = [bytes(document.item) for _, document in collection.documents_of(sampled)]
    true: dict[Pair, float] = {}
    done = 0
    for compared, pairs in (_joined if kind.has_symbols else _scanned)(opened, bound, items):
        true |= pairs
        done += compared
        if progress is not None:
            progress(Progress("comparing with all items", done, collection.manifest.live))
    signed = signer.sign(items)
    probing = as_probes(signer, signed, items)
    candidates = propose(collection, probing, signer.agreement(bound))
    proposed = set(zip(candidates.probes.tolist(), candidates.numbers.tolist(), strict=True))
    own = list(enumerate(sampled.tolist()))
    proposed.difference_update(own)
    for pair in own:
        true.pop(pair, None)
    found = true.keys() & proposed
    total, shown = len(true), kind.outer_bound(bound)
    values = [
        kind.outer_values(np.array(some, np.float64)).tolist()
        for some in ([*true.values()], [true[pair] for pair in found])
    ]
    by_probe = [Counter(probe for probe, _ in pairs) for pairs in (true, found)]
    return AuditReport(
        sampled=len(items),
        compared=collection.manifest.live,
        threshold=float(shown.fraction),
        true_pairs=total,
        found_pairs=len(found),
        recall=len(found) / total if total else None,
        recall_interval=recall_interval(*by_probe) if total else None,
        expected_recall=expected_recall,
        candidates=len(proposed),
        precision=len(found) / len(proposed) if proposed else None,
        bins=() if kind.is_distance else tuple(_bins(shown, *values)),
        rules=tuple(_by_rules(opened, signed.signatures, sorted(proposed), found)),
    )


def _by_rules(
    opened: Opened, signatures: UInt16s, proposed: list[Pair], found: set[Pair]
) -> Iterator[RuleAudit]:
    """Count what each rule proposes, and what no other one would have found."""
    family = opened.signer.family
    if family is None or not proposed:
        return
    probes, numbers = np.array(proposed, np.int64).T
    distinct, places = np.unique(numbers.astype(np.uint32), return_inverse=True)
    stored, _ = stored_signatures(opened.reader, distinct)
    rules = opened.settings.kind.proposing_rules(family, signatures[probes], stored[places])
    is_true = np.array([pair in found for pair in proposed], np.bool_)
    by_how_many = np.sum([*rules.values()], axis=0)
    for rule, by_rule in rules.items():
        own = by_rule & is_true
        alone = own & (by_how_many == 1)
        yield RuleAudit(rule, *(int(np.count_nonzero(each)) for each in (by_rule, own, alone)))


def recall_interval(true: Counter[int], found: Counter[int]) -> tuple[float, float]:
    """Return the 95 % interval of the share of true pairs that are found.

    Pairs of one item are found or missed together: their items, not they, were drawn at random. So
    the interval is the exact one of as many independent pairs as would make the share as uncertain
    as the items make it (E. L. Korn and B. I. Graubard, Survey Methodology 1998; the variance is
    that of a ratio of sums: Cochran, Sampling Techniques, 6.3), or, where all or none are found and
    nothing varies, of as many as there would be if those of an item were one. Pairs are counted by
    the item.
    """
    with of_extra("statistics", "intervals need"):
        from scipy.special import stdtrit

    total = true.total()
    share = found.total() / total
    # In whole numbers, for a rounded error that should be 0 is none.
    errors = [found[item] * total - found.total() * pairs for item, pairs in true.items()]
    variance = sum(error**2 for error in errors) / total**4
    if variance:
        variance *= len(errors) / (len(errors) - 1)
        independent = share * (1 - share) / variance
    else:
        independent = total**2 / sum(pairs**2 for pairs in true.values())
    # The number is an estimate itself, the rougher the fewer items it rests on.
    points = [float(stdtrit(max(1, freedom - 1), 0.975)) for freedom in (total, len(errors))]
    return exact_interval(share, min(independent, total) * (points[0] / points[1]) ** 2)


def exact_interval(share: float, trials: float) -> tuple[float, float]:
    """Return the 95 % interval of a proportion that is never too narrow.

    Its ends are quantiles of beta distributions (C. J. Clopper and E. S. Pearson, Biometrika 1934),
    which need no whole numbers of trials.
    """
    with of_extra("statistics", "intervals need"):
        from scipy.special import betaincinv

    met, missed = share * trials, (1 - share) * trials
    low = float(betaincinv(met, missed + 1, 0.025)) if met else 0.0
    high = float(betaincinv(met + 1, missed, 0.975)) if missed else 1.0
    return low, high


def _joined(
    opened: Opened, bound: Bound, items: list[bytes]
) -> Iterator[tuple[int, dict[Pair, float]]]:
    """Join the items of a sample with some stored ones at a time; yield how many, and the pairs."""
    assert isinstance(bound, Threshold)
    symbols = opened.signer.symbols(items)
    order = SymbolOrder.from_sample(symbols.values)
    probes = order.arrange(symbols.values, symbols.offsets)
    for batch in live_sets(opened, order):
        pairs: dict[Pair, float] = {}
        for found in joins.join(probes, batch.sets, bound):
            pairs |= _as_pairs(found.left, batch.numbers[found.right], found.similarities)
        yield batch.numbers.size, pairs


def _scanned(
    opened: Opened, bound: Bound, items: list[bytes]
) -> Iterator[tuple[int, dict[Pair, float]]]:
    """As ``_joined``, of a kind without symbols."""
    signer = opened.signer
    finders = [signer.measure.finder(signer.features([item]), bound) for item in items]
    for numbers, features in live_features(opened):
        pairs: dict[Pair, float] = {}
        for probe, within in enumerate(finders):
            rows, compared = within(features)
            pairs |= _as_pairs(np.full(rows.size, probe), numbers[rows], compared.values())
        yield numbers.size, pairs


def _as_pairs(probes: Int64s, numbers: UInt32s, values: Float64s) -> dict[Pair, float]:
    pairs = zip(probes.tolist(), numbers.tolist(), strict=True)
    return dict(zip(pairs, values.tolist(), strict=True))


def _bins(bound: Bound, true: list[float], found: list[float]) -> list[AuditBin]:
    """Count true and found pairs by ranges of similarity from the threshold to 1."""
    least = [bound.fraction]
    while least[-1] + BIN_WIDTH < 1:
        least.append(least[-1] + BIN_WIDTH)
    edges = list(map(float, least))
    counts = [np.histogram(values, [*edges, 1.0])[0].tolist() for values in (true, found)]
    return list(map(AuditBin, edges, [*edges[1:], 1.0], *counts))

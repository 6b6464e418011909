"""Why two items are similar, or not, and what of the indexes has both; see ``simdb.evidence``."""

from __future__ import annotations

from math import isnan
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from simdb import kernels
from simdb.answers.buckets import as_probes
from simdb.answers.method import number_of
from simdb.arrays import Bools
from simdb.batches.signer import Agreement, Signed
from simdb.errors import CorruptionError
from simdb.evidence import RARE, Evidence, Facets, PairExplanation
from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.thresholds import Bound, Threshold
from simdb.opened.epochs import current_epoch
from simdb.opened.opened import Opened
from simdb.results import Key
from simdb.storage.tables.layout import Document

# The law of fast sketches takes longer than 0.2 seconds with more rows. That of independent rows is
# the same within 0.004 for more symbols a row, and within 0.001 from such a probability on.
MOST_ROWS_BY_SIZE = 512
SYMBOLS_A_ROW = 8
NEARLY_SURE = 0.999


class Probe(NamedTuple):
    """An item in stored form, and its key where it is stored."""

    item: bytes
    key: Key | None = None

    @classmethod
    def stored(cls, opened: Opened, key: Key) -> Probe:
        """Read a stored item; KeyNotFoundError if there is none."""
        document = _document(opened, key)
        return cls(bytes(document.item), key)


def explain_pair(opened: Opened, probe: Probe, key: Key, bound: Bound | None) -> PairExplanation:
    """Compare an item with a stored one, and say what of the indexes has both.

    KeyNotFoundError: that is not stored.
    """
    settings, signer, kind = opened.settings, opened.signer, opened.settings.kind
    other = bytes(_document(opened, key).item)
    features = signer.features([probe.item, other])
    compared = signer.measure.compare_pairs(features, np.zeros(1, np.int64), np.ones(1, np.int64))
    within = settings.bound if bound is None else bound
    inner = float(compared.values()[0])
    value = float(kind.outer_values(compared.values())[0])
    evidence = kind.evidence(signer.items, probe.item, other)
    facets = evidence.facets
    met, met_by, probability = _met(opened, probe.item, other, within, inner)
    return PairExplanation(
        left=probe.key,
        right=key,
        items=(signer.items.decode(probe.item), signer.items.decode(other)),
        similarity=None if kind.is_distance else value,
        distance=value if kind.is_distance else None,
        bound=float(kind.outer_bound(within).fraction),
        similar=bool(within.meets_many(compared.numerators, compared.denominators)[0]),
        unit=evidence.unit,
        parts=facets if isinstance(facets, Facets) else Facets(facets),
        met_by=(*met_by, *_rare(opened, evidence, probe.item, other, within)),
        met=met,
        probability=probability,
        shown=kind.shown_item,
    )


def _document(opened: Opened, key: Key) -> Document:
    document = opened.reader.document(number_of(opened, key))
    if document is None:
        raise CorruptionError(f"the item of key {key!r} is missing; run 'simdb check'")
    return document


def _met(
    opened: Opened, one: bytes, other: bytes, bound: Bound, value: float
) -> tuple[bool | None, list[str], float | None]:
    """Say whether the probable index makes two items candidates, by what, and how probable that is.

    None of all where there is no such index.
    """
    settings, signer, family = opened.settings, opened.signer, opened.signer.family
    if family is None:
        return None, [], None
    probe, stored = signer.sign([one]), signer.sign([other])
    needed = signer.agreement(bound)
    met, shared = meets(as_probes(signer, probe, [one]), stored, needed)
    names = dict.fromkeys(
        name
        for name, is_shared in zip(
            family.key_names(stored.signatures), shared.tolist(), strict=True
        )
        if is_shared
    )
    plan = settings.plan
    probability = plan.candidate_probability(value, needed.words)
    is_banded = family.is_fast and plan.cascade is None
    by_size = is_banded and plan.signature_rows <= MOST_ROWS_BY_SIZE
    if by_size and probability < NEARLY_SURE:
        union = np.unique(signer.symbols([one, other]).values).size
        if 0 < union <= SYMBOLS_A_ROW * plan.signature_rows:
            probability = plan.candidate_probability(value, needed.words, union)
    return met, list(names), None if isnan(probability) else probability


def meets(probe: Signed, stored: Signed, needed: Agreement) -> tuple[bool, Bools]:
    """Tell whether a single stored item is a candidate of a probe, and by which of its keys."""
    keys = stored.buckets
    looked_into = set(probe.buckets.values.tolist())  # few, for which numpy takes longer
    shared = np.fromiter((key in looked_into for key in keys.values.tolist()), np.bool_)
    met = bool(shared.any())
    if keys.groups is not None:
        met = np.unique(keys.groups[shared]).size == keys.group_count
    if met and needed.words:
        equal = kernels.sketches.matching_rows(probe.signatures, stored.signatures)
        met = bool(equal[0] >= needed.words)
    return met and bool(needed.holds(probe.signatures, stored.signatures)[0]), shared


def _rare(opened: Opened, evidence: Evidence, one: bytes, other: bytes, bound: Bound) -> list[str]:
    """Name the symbols by which the exact index makes two items candidates."""
    epoch, signer = current_epoch(opened.reader), opened.signer
    if epoch is None or not isinstance(bound, Threshold):
        return []
    criterion = Criterion(SetSimilarity.JACCARD, bound)
    sets = signer.symbols([one, other])
    arranged = epoch.arrange(sets)
    looked_up = arranged[0][: criterion.probe_prefix(arranged[0].size)]
    posted = epoch.prefixes(sets, opened.settings.posted_floor)[1]
    # One symbol is a set too: so each is told by its place in the order.
    alone = epoch.arrange(
        replace(sets, offsets=np.arange(sets.values.size + 1, dtype=np.int64))
    ).values
    symbols = dict(zip(alone.tolist(), sets.values.tolist(), strict=True))
    met = np.intersect1d(looked_up, posted).tolist()
    unit = evidence.unit.removesuffix("s")
    names = [evidence.name(symbols[place]) for place in met]
    told = [f"{RARE}{unit} {name!r}" for name in names if name is not None]
    return told or [f"{RARE}symbols"] if met else []  # a kind need not name its symbols

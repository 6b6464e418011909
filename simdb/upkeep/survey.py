"""A survey: what is similar to some items drawn at random, also beyond the bound of the collection.

The probable index finds a pair with a probability that its curve states, also where it is not
planned for it. So each pair found stands for as many as its reciprocal says (Horvitz and Thompson,
JASA 1952), and what lies below the threshold is counted without comparing all with all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan

import numpy as np
from msgspec.structs import replace

from simdb.answers.buckets import Buckets, as_probes
from simdb.answers.choose import Question, choose
from simdb.answers.evidence import MOST_ROWS_BY_SIZE, meets
from simdb.answers.method import WITHOUT_DOCUMENT, Method, keys_of_numbers, number_of
from simdb.arrays import Bools, Float64s, UInt32s
from simdb.batches.signer import Signer
from simdb.errors import CorruptionError, ThresholdTooLowError
from simdb.exact.thresholds import Bound, MaximumDistance, Threshold, admits
from simdb.lsh.planning import Plan
from simdb.opened.opened import Opened
from simdb.results import Key, Matches, listed

BELOW = Fraction(3, 10)  # how far below a threshold near misses are looked for
BEYOND = Fraction(3, 2)  # the same of a largest distance, times which
LEAST_PROBABILITY = 0.02  # of being found, below which a pair would stand for too many
FEW_PROBES, COMPARED = 50, 20_000_000  # searches, or pairs, where all items are compared
MOST_MATCHES = 250_000  # beyond which no more items are searched for: of equal ones each has all
FIRST_PROBES = 8
_STEPS = 32
_MANY = 16  # symbols a row: with more, fast sketches find as independent rows do
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found.

    Attributes:
        items: live ones in the collection.
        sampled: those that were drawn.
        lowest: the similarity, or the distance, down to which similar items were looked for.
        bound: what the collection counts as similar.
        is_distance: whether values are distances.
        left, right: keys of pairs of a sampled item and another one.
        values: of the pairs, as callers know them.
        weights: how many pairs each stands for.
        earlier: whether the other item was inserted before the sampled one.
        probes: the place of the sampled item of each pair.
    """

    items: int
    sampled: int
    lowest: float
    bound: float
    is_distance: bool
    left: list[Key]
    right: list[Key]
    values: Float64s
    weights: Float64s
    earlier: Bools
    probes: UInt32s

    def removed(self, bounds: Sequence[float]) -> list[float]:
        """Estimate how many rows have a similar one before them, by each of some bounds.

        Where the index finds few of several similar ones, somewhat too many.
        """
        counts = []
        for bound in bounds:
            within = self.values <= bound if self.is_distance else self.values >= bound
            chosen = np.flatnonzero(within & self.earlier)
            # A row is missed if each of those that are like it is: each by itself, about.
            missed = np.ones(self.sampled)
            np.multiply.at(missed, self.probes[chosen], 1 - 1 / self.weights[chosen])
            share = float((1 / (1 - missed[missed < 1])).sum()) / max(1, self.sampled)
            counts.append(min(share, 1.0) * self.items)
        return counts

    def histogram(self, edges: Sequence[float]) -> list[float]:
        """Estimate how many pairs there are between each two edges."""
        counts, _ = np.histogram(self.values, edges, weights=self.weights)
        scale = self.items / max(1, self.sampled) / 2
        return [float(count) for count in counts * scale]


def survey(opened: Opened, *, sample: int, seed: int) -> Survey:
    """Search for some items drawn at random, down to a bound beyond that of the collection."""
    settings, reader = opened.settings, opened.reader
    kind = settings.kind
    live = reader.live_numbers()
    method = _method(opened, _beyond(opened))
    most = sample
    if not isinstance(method, Buckets):
        most = min(sample, max(FEW_PROBES, COMPARED // max(1, live.size)))
    drawn, answers = _answered(opened, method, live, min(most, live.size), seed)
    own = listed_keys(opened, drawn)
    rows = [
        (place, own[place], match)
        for place, answer in enumerate(answers)
        for match in answer
        if match.key != own[place]
    ]
    values = np.array([match.value for _, _, match in rows], np.float64)
    numbers = np.array([number_of(opened, match.key) for _, _, match in rows], np.uint32)
    probes = np.array([place for place, _, _ in rows], np.uint32)
    probable = isinstance(method, Buckets)
    return Survey(
        items=live.size,
        sampled=len(answers),
        lowest=float(kind.outer_bound(method.bound).fraction),
        bound=float(kind.outer_bound(settings.bound).fraction),
        is_distance=kind.is_distance,
        left=[key for _, key, _ in rows],
        right=[match.key for _, _, match in rows],
        values=values,
        weights=(
            _weights(opened, values, drawn[probes], numbers, method.bound)
            if probable and rows
            else np.ones(values.size)
        ),
        earlier=numbers < drawn[probes] if rows else np.empty(0, np.bool_),
        probes=probes,
    )


def _answered(
    opened: Opened, method: Method, live: UInt32s, most: int, seed: int
) -> tuple[UInt32s, list[Matches]]:
    """Search for items drawn at random, for fewer where these have very many matches.

    Returns their numbers, ascending, and their answers. How many there are to be is tried out, and
    then as many others are drawn: what made it stop would count too often.
    """
    drawn = np.random.default_rng(seed).choice(live, most, replace=False)
    answers: list[Matches] = []
    held = 0
    while len(answers) < most and held < MOST_MATCHES:
        some = drawn[len(answers) : 2 * len(answers) + FIRST_PROBES]
        rising = np.argsort(some)
        found = _searched(opened, method, some[rising])
        answers += [found[place] for place in np.argsort(rising).tolist()]
        held += sum(map(len, found))
    if (tried := len(answers)) < most:
        answers.clear()
        others = np.random.default_rng([seed, tried]).choice(live, tried, replace=False)
        drawn = np.sort(others)
        return drawn, _searched(opened, method, drawn)
    return np.sort(drawn), [answers[place] for place in np.argsort(drawn).tolist()]


def _searched(opened: Opened, method: Method, numbers: UInt32s) -> list[Matches]:
    """Search for stored items, given by ascending numbers."""
    items = [bytes(document.item) for _, document in opened.reader.documents_of(numbers)]
    return method.search_many(opened, items, None)


def listed_keys(opened: Opened, numbers: UInt32s) -> list[Key]:
    """Return the keys of item numbers."""
    return listed(keys_of_numbers(opened.reader, numbers)) if numbers.size else []


def _beyond(opened: Opened) -> Bound:
    """Return a bound as far beyond that of the collection as its index still finds something."""
    settings = opened.settings
    bound = settings.bound
    if isinstance(bound, MaximumDistance):
        return MaximumDistance(min(bound.fraction * BEYOND, settings.kind.largest_distance))
    floor = max(bound.fraction - BELOW, Fraction(1, 20))
    if settings.is_probable:
        while floor < bound.fraction and _probability(opened, float(floor)) < LEAST_PROBABILITY:
            floor += Fraction(1, 20)
    return Threshold(min(floor, bound.fraction))


def _probability(opened: Opened, inner: float) -> float:
    """Return how probably a pair at an inner value is found; 1 where nothing is stated."""
    found = opened.settings.plan.expected_recall(inner)
    return 1.0 if isnan(found) else found


def _method(opened: Opened, bound: Bound) -> Method:
    """Return the index if it is known how many it misses beyond its bound, else what misses none.

    Not so one of whose recall nothing is known there, as of rules, or beyond the bound of one that
    is complete within it; nor one of which only a lower bound is known.
    """
    settings = opened.settings
    if settings.is_probable:
        is_known = not isnan(settings.plan.expected_recall(float(bound.fraction)))
        if is_known and (settings.plan.family.is_exact or admits(settings.bound, bound)):
            return Buckets(bound, settings.expected_recall(bound))
    try:
        return choose(settings, Question("search", bound, "exact"))
    except ThresholdTooLowError:
        return choose(settings, Question("search", settings.bound))


def _weights(
    opened: Opened, values: Float64s, lefts: UInt32s, rights: UInt32s, bound: Bound
) -> Float64s:
    """Return how many pairs each stands for: one over the probability that a search finds it."""
    settings, kind = opened.settings, opened.settings.kind
    needed = opened.signer.agreement(bound).words
    different, places = np.unique(values, return_inverse=True)
    inner = [
        float(value if kind.is_distance else kind.inner_similarity(Fraction(value)))
        for value in different.tolist()
    ]
    stated = [settings.plan.candidate_probability(value, needed) for value in inner]
    found = np.nan_to_num(np.array(stated), nan=1.0)[places]
    family = opened.signer.family
    if family is not None and family.is_fast and settings.plan.signature_rows <= MOST_ROWS_BY_SIZE:
        single = np.array([settings.plan.family.probability(value) for value in inner])[places]
        found *= _by_size(settings.plan, needed, single, _unions(opened, single, lefts, rights))
    weights: Float64s = 1 / np.maximum(found, LEAST_PROBABILITY)
    return weights


def _unions(opened: Opened, single: Float64s, lefts: UInt32s, rights: UInt32s) -> Float64s:
    """Return how many symbols the items of each pair have together: (s + t) / (1 + J)."""
    numbers = np.unique(np.concatenate([lefts, rights]))
    documents = [document for _, document in opened.reader.documents_of(numbers)]
    if len(documents) < numbers.size:
        raise CorruptionError(WITHOUT_DOCUMENT)
    symbols = (opened.signer.symbols([bytes(document.item)]).values for document in documents)
    sizes = np.array([np.unique(some).size for some in symbols])
    both = sizes[np.searchsorted(numbers, lefts)] + sizes[np.searchsorted(numbers, rights)]
    unions: Float64s = both / (1 + single)
    return unions


def _by_size(plan: Plan, needed: int, single: Float64s, unions: Float64s) -> Float64s:
    """Return how much more often than independent rows fast sketches of such unions are found.

    The ratio changes little with the union and smoothly with the similarity: so it is computed for
    powers of two, and for each 32nd of similarity.
    """
    ratios = np.ones(single.size)
    powers = np.exp2(np.rint(np.log2(np.maximum(unions, _STEPS)))).astype(np.int64)
    for union in np.unique(powers[powers <= _MANY * plan.signature_rows]).tolist():
        some = powers == union
        first = int(_STEPS * single[some].min())
        nodes = [step / _STEPS for step in range(max(1, first), _STEPS + 1)]
        by_size, independent = (
            np.array([plan.candidate_by(node, needed, size) for node in nodes])
            for size in (union, None)
        )
        ratios[some] = np.interp(single[some], nodes, by_size / np.maximum(independent, _TINY))
    return ratios


def shares_met(
    opened: Opened, pairs: Sequence[tuple[Key, Key]], *, tries: int, seed: int
) -> list[float]:
    """Return under which share of other random functions the buckets would propose each pair.

    The settings stay and the secret is another one, ``tries`` times: so what is measured does not
    depend on how the pairs were found.
    """
    numbers = {key: number_of(opened, key) for pair in pairs for key in pair}
    places = {key: place for place, key in enumerate(numbers)}
    documents = (opened.reader.document(number) for number in numbers.values())
    items = [bytes(document.item) for document in documents if document is not None]
    met = np.zeros(len(pairs))
    for number in range(tries if items else 0):
        name = f"{seed} {number}".encode()
        digest = hashlib.blake2b(opened.settings.secret + name, digest_size=32)
        signer = Signer(replace(opened.settings, secret=digest.digest()))
        signed = signer.sign(items)
        probing = as_probes(signer, signed, items)
        needed = replace(signer.agreement(opened.settings.bound), words=0)  # buckets alone
        for place, (left, right) in enumerate(pairs):
            one, other = (np.array([places[key]]) for key in (left, right))
            found, _ = meets(probing.select(one), signed.select(other), needed)
            met[place] += found
    return [float(share) for share in met / max(1, tries)]

"""How likely pairs match that are chosen one to one, told by those that are not chosen.

Where no table has duplicates, a record matches one other at most. So its pair that is next to its
best one does not match if the best does, and shows how alike a record gets to others by chance: by
all that the fields have in common, which adding up their evidence does not know. Of the records
that match none, the best pairs are like that, and they are at most as many as leave enough of the
low ones (the share of true null hypotheses; Storey 2002, A direct approach to false discovery
rates). What is above them are matches.

What matches so is known better than when the weights were learnt, so they are learnt again from it:
from the chosen pairs, as probable as each is now, and from all others, which do not match; and by
these weights pairs are chosen again (Käll et al. 2007, Semi-supervised learning for peptide
identification from shotgun proteomics datasets).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simdb.arrays import Bools, Float64s, Int64s, UInt32s
from simdb.errors import ConfigurationError
from simdb.extras import of_extra
from simdb.linkage.assignment import Choice
from simdb.linkage.weights import (
    Evidence,
    Known,
    Patterns,
    Rivals,
    learn_labelled,
    of_patterns,
)

ROUNDS = 10  # of choosing pairs, and of learning from them
PROBABLE = 0.5
CHANGED = 0.01  # the share of the probable pairs up to which another round changes nothing
LEAST_CHOSEN = 50  # pairs, from which on they say something
LEAST_RIVALLED = 0.5  # the share of the chosen that have another pair
LEAST_BELOW = 0.1  # the share of next best pairs that must be below where records are counted
STEPS = 91  # places at which they are counted
MOST_STEPS = 2 * 10**9  # of the solver of a best choice: about two seconds
LEAST_SLOPE = 0.01
LEAST_WEIGHT = 2.0**-32  # of a pair that may be chosen
RIDGE = 1.0  # by the square of what the scale is away from the evidence as it was


class Scale(NamedTuple):
    """What the evidence of a pair that was chosen amounts to: ``slope * bits + shift``."""

    slope: float
    shift: float

    def probabilities(self, bits: Float64s) -> Float64s:
        """Return how likely chosen pairs match."""
        against = -math.log(2) * (self.slope * bits + self.shift)
        return np.asarray(1.0 / (1.0 + np.exp(np.clip(against, -700, 700))), np.float64)


def learn_by_choice(evidence: Evidence, patterns: Patterns, pairs: Rivals) -> Evidence:
    """Learn the evidence again from the pairs that are chosen by it, until the choice stays.

    Args:
        evidence: to begin with, that of pairs by themselves.
        patterns: of all candidates.
        pairs: the candidates, all of them, each once.

    Returns:
        The bits, the prior and how many match, learnt anew; m and u as they were. The evidence as
        it was if hardly any pair has rivals, or there are few pairs.
    """
    sizes = [own.size for own in evidence.bits]
    nothing = np.zeros(patterns.counts.size)
    candidates = _Candidates(pairs.left, pairs.right, pairs.items)
    probable: Bools | None = None
    for _ in range(ROUNDS):
        bits = of_patterns(patterns.codes, evidence.bits, evidence.prior)[pairs.pattern]
        chosen = candidates.chosen(bits)
        read = candidates.scale(bits, chosen)
        if read is None:
            break
        matching = np.zeros(bits.size)
        matching[chosen] = read.probabilities(bits[chosen])
        before, probable = probable, matching >= PROBABLE
        if before is not None and (before != probable).sum() <= CHANGED * probable.sum():
            break
        labels = np.bincount(pairs.pattern, matching, nothing.size) / patterns.counts
        known = Known(evidence.bits, evidence.prior, nothing)
        found = learn_labelled(patterns.codes, labels, sizes, known, patterns.counts)
        evidence = replace(
            evidence, bits=found.bits, prior=found.prior, matches=float(matching.sum())
        )
    return evidence


def scale(left: UInt32s, right: UInt32s, bits: Float64s, items: tuple[int, int]) -> Scale | None:
    """Return how the evidence of candidates is to be read if pairs are chosen one to one.

    Args:
        left, right: the items of each candidate by number; each pair once.
        bits: its evidence, with that before any field.
        items: how many each side has.

    Returns:
        None if hardly any pair has rivals, or there are few pairs: nothing tells then.
    """
    candidates = _Candidates(left, right, items)
    return candidates.scale(bits, candidates.chosen(bits))


class _Candidates:
    """Candidates that are chosen from one to one, by any evidence."""

    def __init__(self, left: UInt32s, right: UInt32s, items: tuple[int, int]) -> None:
        self._sides = left, right
        smaller = 0 if items[0] <= items[1] else 1
        self._own = np.unique(self._sides[smaller], return_inverse=True)[1]
        self._count = items[smaller]
        try:
            self._choice: Choice | None = Choice(left, right, most_steps=MOST_STEPS)
        except ConfigurationError:
            self._choice = None

    def chosen(self, bits: Float64s) -> Int64s:
        """Return the places of a best choice; of one with the best first where that takes less."""
        if self._choice is None:
            return greedily_chosen(*self._sides, bits)
        low, high = float(bits.min(initial=np.inf)), float(bits.max(initial=-np.inf))
        weights = np.maximum((bits - low) / max(high - low, 1e-9), LEAST_WEIGHT)
        return self._choice.heaviest(weights)

    def scale(self, bits: Float64s, chosen: Int64s) -> Scale | None:
        """Return the ``scale`` by the pairs that were chosen, given by their places."""
        best, rival = np.full((2, self._count), -np.inf)
        best[self._own[chosen]] = bits[chosen]
        others = np.ones(bits.size, np.bool_)
        others[chosen] = False
        np.maximum.at(rival, self._own[others], bits[others])
        is_rivalled = rival[self._own[chosen]] > -np.inf
        if chosen.size < LEAST_CHOSEN or is_rivalled.mean() < LEAST_RIVALLED:
            return None
        values, shares, counts = _matching(best, rival)
        return _fitted(values, shares, counts)


def greedily_chosen(left: UInt32s, right: UInt32s, bits: Float64s) -> Int64s:
    """Choose pairs one to one, the best first; of equal ones the earlier one. Return their places.

    Hardly another choice than a matching of maximum weight, and in a bounded time.
    """
    remaining = np.argsort(-bits, kind="stable")
    row, column = left[remaining], right[remaining]
    chosen = [np.empty(0, np.int64)]
    while remaining.size:
        places = np.arange(remaining.size)
        firsts = []
        for side in (row, column):
            first = np.empty(int(side.max()) + 1, np.int64)
            first[side[::-1]] = places[::-1]
            firsts.append(first[side])
        is_best = (firsts[0] == places) & (firsts[1] == places)
        chosen.append(remaining[is_best])
        is_free = ~(np.isin(row, row[is_best]) | np.isin(column, column[is_best]))
        remaining, row, column = remaining[is_free], row[is_free], column[is_free]
    return np.sort(np.concatenate(chosen))


def _matching(best: Float64s, rival: Float64s) -> tuple[Float64s, Float64s, Float64s]:
    """Return the evidence of chosen pairs, what share of each matches, and how many have it.

    Args:
        best: of each record, that of the pair that was chosen for it; -inf without one.
        rival: that of the best of its other pairs; -inf without one.
    """
    with of_extra("statistics", "learning from what was chosen needs"):
        from scipy.optimize import isotonic_regression

    rival = np.sort(rival)
    places = np.linspace(LEAST_BELOW, 1, STEPS) * (rival.size - 1)
    at = rival[places.astype(np.int64)]
    below = np.searchsorted(rival, at) / rival.size
    counted = below >= LEAST_BELOW
    low = np.searchsorted(np.sort(best), at[counted])
    unmatched = min([best.size, *(low / below[counted]).tolist()])
    values, counts = np.unique(best[best > -np.inf], return_counts=True)
    place = np.searchsorted(values, rival, side="right") - 1
    by_chance = np.bincount(place[place >= 0], minlength=values.size) * (unmatched / rival.size)
    shares = isotonic_regression(1.0 - by_chance / counts, weights=counts).x
    return values, np.clip(shares, 0.0, 1.0), counts.astype(np.float64)


def _fitted(values: Float64s, shares: Float64s, counts: Float64s) -> Scale:
    """Fit how likely pairs match to their evidence, by logistic regression with a ridge."""
    with of_extra("statistics", "learning from what was chosen needs"):
        from scipy.optimize import minimize

    middle = float(np.average(values, weights=counts))
    natural = (values - middle) * math.log(2)
    start = np.array([middle * math.log(2), 1.0])

    def loss(given: Float64s) -> tuple[float, Float64s]:
        evidence = given[0] + given[1] * natural
        wrong = counts * (1.0 / (1.0 + np.exp(np.clip(-evidence, -700, 700))) - shares)
        away = RIDGE * (given - start)
        missed = counts * (np.logaddexp(0.0, evidence) - shares * evidence)
        slope = np.array([wrong.sum(), wrong @ natural]) + away
        return float(missed.sum() + away @ (given - start) / 2), slope

    at, slope = minimize(loss, start, jac=True, method="L-BFGS-B").x.tolist()
    slope = max(slope, LEAST_SLOPE)
    return Scale(slope, at / math.log(2) - slope * middle)

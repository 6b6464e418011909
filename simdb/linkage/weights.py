"""Weights of evidence for a match: Fellegi and Sunter's, without labels, and from labels.

Of two records each field agrees on some level, or lacks a value. With m the share of matches that
are on a level and u that of other pairs, the level is evidence of log2(m / u) bits, and evidence of
fields is added up (Fellegi and Sunter 1969, A theory for record linkage). What is known of pairs is
how often each *pattern*, the levels of all fields, is there, so that memory does not grow with the
number of pairs.

u is measured on random pairs. m comes from expectation maximisation among the candidates of one
rule at a time, without the fields that the rule itself looks at: among its candidates these agree,
match or not. A field has the mean of its m over the rules that do not look at it. A rule must leave
two fields: what one says alone could be of any share of matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simdb.arrays import Bools, Float64s, Int64s
from simdb.errors import ConfigurationError

MISSING = -1
ROUNDS = 1_000
SETTLED = 1e-6  # no share changes by more in the last round
PASSES = 4  # of all rules: random pairs hold some matches, which are taken out of u
LEAST_LEFT = 2  # fields that a rule must leave
_PSEUDO = 1.0  # matches that are on each level as often as other pairs: they say nothing
_RIDGE = 1.0  # of the logistic regression, by the square of a coefficient

Levels = Sequence[Float64s]  # of each field, a share for each level


class Patterns(NamedTuple):
    """How often pairs agree in which way.

    Attributes:
        codes: (n, fields), the level of each field, from 0; MISSING where a value is.
        counts: (n,), of pairs.
        rules: (n, rules), which propose them.
    """

    codes: Int64s
    counts: Float64s
    rules: Bools

    def of_rule(self, rule: int) -> Patterns:
        """Return the pairs that one rule proposes."""
        own = self.rules[:, rule]
        return Patterns(self.codes[own], self.counts[own], self.rules[own])


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was learnt of pairs.

    Attributes:
        m, u: of each field, the share of matches, and of other pairs, on each level.
        prior: the share of all pairs that match.
        matches: candidates that are expected to match.
        unsettled: rules for which the last round still changed something.
        by_own_rules: fields that all rules look at which leave two others: their m comes from
            candidates that agree in them, and is too high.
    """

    m: Levels
    u: Levels
    prior: float
    matches: float
    unsettled: tuple[int, ...]
    by_own_rules: tuple[int, ...]


def learn_unlabelled(
    patterns: Patterns, random: Levels, least: Levels, looks_at: Bools, pairs: int
) -> Evidence:
    """Estimate m, u and the share of matches by expectation maximisation.

    Args:
        patterns: of all candidates.
        random: of each field, the share of random pairs on each level.
        least: of each field, what u is at least on each level: what the sample could see, or what
            is known of pairs that surely do not match.
        looks_at: (rules, fields), which fields a rule looks at.
        pairs: candidates or not.

    Raises:
        ConfigurationError: there are no candidates, no rule leaves two fields to learn from, or
            nothing among the candidates looks like a match.
    """
    if not patterns.counts.sum():
        raise ConfigurationError("no rule proposes a pair: there is nothing to learn from")
    rules = np.flatnonzero((~looks_at).sum(axis=1) >= LEAST_LEFT).tolist()
    if not rules:
        raise ConfigurationError(
            "every rule looks at all fields that are scored but one, or at all: a rule is needed "
            "that leaves two, from which can be learnt who matches"
        )
    everywhere: Bools = np.asarray(looks_at[rules].all(axis=0), np.bool_)
    u = [_above(share, own) for share, own in zip(random, least, strict=True)]
    m = [_agreeing(share.size) for share in u]
    unsettled: list[int] = []
    prior = matches = 0.0
    for _ in range(PASSES):
        found, unsettled = [], []
        for rule in rules:
            own = patterns.of_rule(rule)
            if own.counts.sum():
                mixture = _maximised(own, m, u, ~looks_at[rule])
                found.append((mixture, ~looks_at[rule]))
                if not mixture.settled:
                    unsettled.append(rule)
        for field, by_all in enumerate(everywhere.tolist()):
            parts = [mixture for mixture, free in found if by_all or free[field]]
            weights = [max(mixture.matches, 1e-9) for mixture in parts]
            if parts:
                m[field] = np.average([one.m[field] for one in parts], axis=0, weights=weights)
        likelihoods = _likelihoods(patterns, m, u, np.ones(everywhere.size, np.bool_))
        prior = _prior(patterns, likelihoods, pairs)
        matches = float((patterns.counts * _posterior(likelihoods, prior)).sum())
        u = [
            _above((share - prior * own) / (1.0 - prior), lowest)
            for share, own, lowest in zip(random, m, least, strict=True)
        ]
    if matches < 1.0:
        raise ConfigurationError(
            "nothing among the candidates looks like a match: give labels, or other rules"
        )
    return Evidence(m, u, prior, matches, tuple(unsettled), tuple(np.flatnonzero(everywhere)))


class _Mixture(NamedTuple):
    """Matches and others among the candidates of a rule."""

    m: list[Float64s]
    matches: float
    settled: bool


def _maximised(patterns: Patterns, start: Levels, u: Levels, free: Bools) -> _Mixture:
    """Find the m of free fields, and the share of matches, by which patterns are most likely."""
    m = [np.array(share) for share in start]
    total = patterns.counts.sum()
    share = 0.5
    posterior = np.zeros(patterns.counts.size)
    settled = False
    for _ in range(ROUNDS):
        posterior = _posterior(_likelihoods(patterns, m, u, free), share)
        weights = patterns.counts * posterior
        changed = abs(float(weights.sum() / total) - share)
        share = float(np.clip(weights.sum() / total, 1e-12, 1.0 - 1e-12))
        for field in np.flatnonzero(free).tolist():
            now = _shares(patterns, field, weights, u[field])
            changed = max(changed, float(np.abs(now - m[field]).max()))
            m[field] = now
        settled = changed < SETTLED
        if settled:
            break
    weights = patterns.counts * posterior
    for field in np.flatnonzero(~free).tolist():
        m[field] = _shares(patterns, field, weights, u[field])
    return _Mixture(m, float(weights.sum()), settled)


def _likelihoods(patterns: Patterns, m: Levels, u: Levels, used: Bools) -> Float64s:
    """Return the logarithm of how much more likely each pattern is of matches."""
    total = np.zeros(patterns.counts.size)
    for field in np.flatnonzero(used).tolist():
        bits = np.append(np.log(m[field] / u[field]), 0.0)  # MISSING is the last
        total += bits[patterns.codes[:, field]]
    return total


def _posterior(likelihoods: Float64s, share: float) -> Float64s:
    """Return how probably each pattern is of a match, where a share of all is."""
    against = np.log((1.0 - share) / share) - likelihoods
    posterior: Float64s = 1.0 / (1.0 + np.exp(np.clip(against, -700, 700)))
    return posterior


def _prior(patterns: Patterns, likelihoods: Float64s, pairs: int) -> float:
    """Find the share of matches among all pairs, of which only candidates match."""
    most = float(patterns.counts.sum()) / pairs
    share = most / 2
    for _ in range(ROUNDS):
        now = float((patterns.counts * _posterior(likelihoods, share)).sum()) / pairs
        now = min(max(now, 1e-15), 1.0 - 1e-9)
        if abs(now - share) <= SETTLED * share:
            break
        share = now
    return share


def _shares(patterns: Patterns, field: int, weights: Float64s, others: Float64s) -> Float64s:
    """Return the share of weighted pairs on each level of a field, of those with values.

    A few more are as ``others`` are, so that what hardly any pair shows is hardly any evidence.
    """
    there = patterns.codes[:, field] != MISSING
    sums = _PSEUDO * others
    sums = sums + np.bincount(patterns.codes[there, field], weights[there], others.size)
    shares: Float64s = sums / sums.sum()
    return shares


def _agreeing(levels: int) -> Float64s:
    """Return what m is taken for at first: most matches agree in full."""
    shares = np.full(levels, 0.1 / max(1, levels - 1))
    shares[-1] = 0.9
    return shares


def _above(shares: Float64s, least: Float64s) -> Float64s:
    """Return shares of which none is below the least that it can be."""
    kept: Float64s = np.maximum(shares, least)
    return np.asarray(kept / kept.sum(), np.float64)


def rising_bits(m: Float64s, u: Float64s) -> Float64s:
    """Return the evidence of levels in bits, such that no higher level says less than a lower one.

    Levels that say less are taken as one with those below: isotonic regression of m / u by u.
    """
    from scipy.optimize import isotonic_regression

    return np.log2(np.asarray(isotonic_regression(m / u, weights=u).x, np.float64))


class Regression(NamedTuple):
    """What labelled pairs say.

    Attributes:
        bits: of each field, the evidence of each level.
        prior: the evidence before any field is looked at, in bits.
        settled: the search for them came to its end.
    """

    bits: Levels
    prior: float
    settled: bool


def require_both(labels: Sequence[bool]) -> None:
    """Raise ConfigurationError if labels are all the same, or there are none."""
    if all(labels) or not any(labels):
        raise ConfigurationError("labels must be of some pairs that match and some that do not")


class Known(NamedTuple):
    """What is known before labels are looked at, in bits.

    Attributes:
        bits: of each field, the evidence of each level.
        prior: the evidence before any field.
        besides: (n,), of each labelled pair, what else is evidence, whatever the labels say.
    """

    bits: Levels
    prior: float
    besides: Float64s


def learn_labelled(
    codes: Int64s, labels: Bools, levels: Sequence[int], known: Known | None = None
) -> Regression:
    """Fit the evidence of each level to labelled pairs, by logistic regression with a ridge.

    The ridge holds what few pairs say to what is known without them, or to none; a field without a
    value says nothing, and no higher level says less than a lower one (isotonic regression).

    Args:
        codes: (n, fields), as those of ``Patterns``.
        labels: (n,), whether the pairs match.
        levels: of each field, how many.
        known: before the labels, to which the prior is held as well; None for nothing.

    Raises:
        ConfigurationError: the labels are all the same.
    """
    require_both(labels.tolist())
    from scipy.optimize import isotonic_regression, minimize

    ends = np.cumsum([0, *levels]).tolist()
    columns = [
        codes[:, field, np.newaxis] == np.arange(count) for field, count in enumerate(levels)
    ]
    there = np.concatenate(columns, axis=1).astype(np.float64)
    signs = np.where(labels, 1.0, -1.0)
    ridge = np.full(ends[-1] + 1, _RIDGE)
    if known is None:
        start, besides = np.zeros(ends[-1] + 1), np.zeros(labels.size)
        ridge[-1] = 0.0
    else:
        start = np.log(2.0) * np.array([*np.concatenate(known.bits), known.prior])
        besides = np.log(2.0) * known.besides

    def loss(given: Float64s) -> tuple[float, Float64s]:
        margins = signs * (there @ given[:-1] + given[-1] + besides)
        wrong = -signs / (1.0 + np.exp(np.clip(margins, -700, 700)))
        away = given - start
        slope = np.append(there.T @ wrong, wrong.sum()) + ridge * away
        penalty = float((ridge * np.square(away)).sum()) / 2
        return float(np.logaddexp(0.0, -margins).sum()) + penalty, slope

    found = minimize(loss, start, jac=True, method="L-BFGS-B")
    bits = np.asarray(found.x, np.float64) / np.log(2.0)
    pairs = there.sum(axis=0) + _RIDGE  # on each level
    parts = [
        isotonic_regression(bits[begin:end], weights=pairs[begin:end]).x
        for begin, end in pairwise(ends)
    ]
    return Regression(parts, float(bits[-1]), bool(found.success))

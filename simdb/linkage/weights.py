"""Weights of evidence for a match: Fellegi and Sunter's, without labels, and from labels.

Of two records each field agrees on some level, or lacks a value. With m the share of matches that
are on a level and u that of other pairs, the level is evidence of log2(m / u) bits, and evidence of
fields is added up (Fellegi and Sunter 1969, A theory for record linkage). What is known of pairs is
how often each *pattern*, the levels of all fields, is there.

u is measured on random pairs, and is at least what candidates that do not match show. m comes from
expectation maximisation among the candidates, to which three things are known besides: how many
pairs there are in all; that a record matches few others, so that of the candidates that it is in
the likely ones take from each other (*rivals*); and that fields are not independent, so that in the
end their bits are fitted together to how probably each pattern is of a match, by a logistic
regression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.arrays import Bools, Float64s, Int64s, UInt32s
from simdb.errors import ConfigurationError, NothingAlikeError
from simdb.extras import of_extra

MISSING = -1
ROUNDS = 1_000
SETTLED = 1e-6  # no share changes by more in the last round
PASSES = 6  # random pairs hold some matches, which are taken out of u; rivals are reckoned anew
LEAST_LEFT = 2  # fields that a rule must leave: one alone could be of any share of matches
LEAST_TAUGHT = 10  # pairs with values of a field, else those of its own rules teach it too
FURTHER = 1e-3  # how much less likely it is that a record matches one more, by the same odds
LEAST_FREE = 0.05  # of pairs of records, the share of which neither matches another: at least
MESSAGES = 10  # rounds in which records say how free they are: half way to the last of them each
_PSEUDO = 1.0  # matches that are on each level as often as other pairs: they say nothing
_RIDGE = 1.0  # of the logistic regression, by the square of a coefficient
_UNLIKELY = -20.0  # the logarithm of odds below which a pattern takes no part in a pass
_SURE = 25.0  # that of the largest odds: more are told apart by nothing

Levels = Sequence[Float64s]  # of each field, a share for each level
Codes: TypeAlias = npt.NDArray[np.signedinteger[Any]]


class Patterns(NamedTuple):
    """How often pairs agree in which way.

    Attributes:
        codes: (n, fields), the level of each field, from 0; MISSING where a value is.
        counts: (n,), of pairs.
        teaches: (n, fields), whether m may be learnt from it: a rule proposes it that does not look
            at the field, so that it need not be equal.
    """

    codes: Int64s
    counts: Float64s
    teaches: Bools


class Beside(NamedTuple):
    """What rivals make of the patterns.

    Attributes:
        shares: of each pattern, what is left of how probably it is of a match; at most all of it.
        free: the share of the pairs of records of which neither matches any other.
    """

    shares: Float64s
    free: float


class Rivals(NamedTuple):
    """The pairs of which patterns are counted, so that those of one record are known.

    Attributes:
        left, right: (pairs,), records by number.
        pattern: (pairs,), which each has.
        is_one: the numbers of both sides are of one table.
        items: how many records each side has; of one table, its own twice.
        one_of: the pairs are one of so many, drawn at random.
    """

    left: UInt32s
    right: UInt32s
    pattern: Int64s
    is_one: bool
    items: tuple[int, int]
    one_of: int = 1

    def beside(self, odds: Float64s, free: float = 1.0) -> Beside:
        """Return what is left of how probably each pattern is of a match, by its odds.

        A pair of odds o matches with a probability of o / (1 + o) if nothing else is known. Those
        odds are what they are because of other pairs: where few records are free, a pair of which
        both are matches by more, o / ``free``. That k pairs of a record match is as likely as the
        product of their odds, times ``FURTHER`` for each but one: so duplicates of one record that
        are surely some all match, and of many that may be some hardly more than one. (Of one table,
        its square root: duplicates of a record are those of each other, and each pair is then one
        further at both of its ends.) How free a
        record is for a pair follows from its other pairs, and theirs from how free the records at
        their other ends are (belief propagation: exact where pairs make no circle, and an
        approximation elsewhere; Bayati, Shah and Sharma 2008, Max-product for maximum weight
        matching). No pattern gains by rivals: without the bound, evidence that is counted twice
        would feed on itself.

        Args:
            odds: (patterns,), of a pair by itself.
            free: the share of pairs of which both records are free, as it was told last.
        """
        alone = odds / (1.0 + odds)
        own = odds[self.pattern] / max(free, LEAST_FREE)
        further = math.sqrt(FURTHER) if self.is_one else FURTHER
        lefts, rights = np.ones(own.size), np.ones(own.size)
        for _ in range(MESSAGES):
            of_left, of_right = self._told(own, lefts, rights, further)
        own *= lefts
        own *= rights
        left = np.bincount(self.pattern, own / (1.0 + own), odds.size)
        whole = np.bincount(self.pattern, minlength=odds.size) * alone
        matched = [
            float((1.0 - _unmatched(self.one_of * sums, further)).sum()) / max(1, items)
            for sums, items in zip((of_left, of_right), self.items, strict=True)
        ]
        neither = math.prod(1.0 - min(1.0, share) for share in matched)
        return Beside(np.minimum(left / np.maximum(whole, 1e-300), 1.0), neither)

    def _told(
        self, odds: Float64s, lefts: Float64s, rights: Float64s, further: float
    ) -> tuple[Float64s, Float64s]:
        """Let all records say how free they are for each pair, once; return what they heard.

        Args:
            odds: of each pair.
            lefts, rights: how free its records are for it, which go half way to what they say now.
            further: how much less likely each further match of a record is.
        """
        from_right, from_left = (_evidence(odds, free, further) for free in (rights, lefts))
        of_left, of_right = self._sums(from_right, from_left)
        np.subtract(of_left[self.left], from_right, out=from_right)
        np.subtract(of_right[self.right], from_left, out=from_left)
        for freedom, others in ((lefts, from_right), (rights, from_left)):
            np.multiply(freedom, _freedom(others, self.one_of, further), out=freedom)
            np.sqrt(freedom, out=freedom)
        return of_left, of_right

    def _sums(self, from_right: Float64s, from_left: Float64s) -> tuple[Float64s, Float64s]:
        """Return what all pairs of each record say to it, of the left and of the right."""
        size = 1 + int(max(self.left.max(initial=0), self.right.max(initial=0)))
        of_left = np.asarray(np.bincount(self.left, from_right, size), np.float64)
        of_right = np.asarray(np.bincount(self.right, from_left, size), np.float64)
        if not self.is_one:
            return of_left, of_right
        sums = of_left + of_right
        return sums, sums


def _evidence(odds: Float64s, freedom: Float64s, further: float) -> Float64s:
    """Return log(1 + further r) of pairs whose odds are r = odds * freedom."""
    product = odds * freedom
    product *= further
    return np.log1p(product, out=product)


def _freedom(others: Float64s, one_of: int, further: float) -> Float64s:
    """Return how much of its odds a pair keeps beside the other pairs of a record.

    Over all choices of the others, of odds r: L / (1 + (L - 1) / further), where L is the product
    of 1 + further r.

    Args:
        others: the logarithm of L, which is written over: candidates may be many.
        one_of: the others are one of so many.
        further: how much less likely each further match is.
    """
    np.maximum(others, 0.0, out=others)
    others *= -one_of
    np.exp(others, out=others)
    others *= further - 1.0
    others += 1.0
    return np.divide(further, others, out=others)


def _unmatched(pairs: Float64s, further: float) -> Float64s:
    """Return how probably each record has no match, by the logarithm of L over all its pairs."""
    return np.asarray(further / (further + np.expm1(np.minimum(pairs, 700.0))))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was learnt of pairs.

    Attributes:
        m, u: of each field, the share of matches, and of other pairs, on each level.
        bits: of each field, the evidence of each level, which rises.
        prior: the evidence before any field, in bits.
        matches: candidates that are expected to match.
        settled: the last round changed nothing any more.
        by_own_rules: fields that all rules look at that propose pairs with values of them: their m
            comes from candidates that agree in them, and is too high.
    """

    m: Levels
    u: Levels
    bits: Levels
    prior: float
    matches: float
    settled: bool
    by_own_rules: tuple[int, ...]


def learn_unlabelled(
    patterns: Patterns,
    random: Levels,
    least: Levels,
    looks_at: Bools,
    *,
    pairs: int,
    present: Sequence[float] | None = None,
    rivals: Rivals | None = None,
    one_to_one: bool = False,
) -> Evidence:
    """Estimate m, u and the share of matches by expectation maximisation.

    Args:
        patterns: of all candidates.
        random: of each field, the share of random pairs on each level.
        least: of each field, what u is at least on each level: what the sample could see, or what
            is known of pairs that surely do not match.
        looks_at: (rules, fields), which fields a rule looks at.
        pairs: candidates or not.
        present: of each field, the share of all pairs of which both have a value; None for all.
        rivals: the candidates; None where records may match any number of others.
        one_to_one: rivals are told apart later, by choosing one to one: the bits are those of a
            pair by itself.

    Raises:
        NothingAlikeError: there are no candidates, no rule leaves two fields to learn from, or
            nothing among the candidates looks like a match.
    """
    if not patterns.counts.sum():
        raise NothingAlikeError("no rule proposes a pair: there is nothing to learn from")
    if not ((~looks_at).sum(axis=1) >= LEAST_LEFT).any():
        raise NothingAlikeError(
            "weights are learnt from fields that a rule does not look at, two at least, and no "
            "rule leaves two: give a threshold, or more fields"
        )
    teaching = patterns.teaches & (patterns.codes != MISSING)
    by_own = looks_at.any(axis=0) & (patterns.counts @ teaching < LEAST_TAUGHT)
    patterns = patterns._replace(teaches=patterns.teaches | by_own)
    by_own |= looks_at.all(axis=0)
    u = [_above(share, own) for share, own in zip(random, least, strict=True)]
    m = [_agreeing(share.size) for share in u]
    with_values = [pairs * share for share in present or [1.0] * len(random)]
    prior = 1.0 / math.sqrt(pairs + 1.0)  # about as many matches as records
    odds = probable = np.ones(patterns.counts.size)
    beside = Beside(odds, 1.0)
    settled = False
    for _ in range(PASSES):
        m, prior, settled = _maximised(
            patterns, m, u, prior=prior, shares=beside.shares, pairs=pairs
        )
        logarithms = _likelihoods(patterns, m, u) + math.log(prior / (1.0 - prior))
        odds = np.exp(np.clip(logarithms, -700.0, _SURE))
        if rivals is not None:
            beside = rivals.beside(odds, beside.free)
        probable = beside.shares * odds / (1.0 + odds)
        matching = patterns.counts * probable
        u = [
            _above(
                _above(
                    _without(
                        share, own, _on_levels(patterns, field, matching, share.size).sum() / known
                    ),
                    lowest,
                ),
                _on_levels(patterns, field, patterns.counts - matching, share.size) / known,
            )
            for field, (share, own, lowest, known) in enumerate(
                zip(random, m, least, with_values, strict=True)
            )
        ]
    matches = float((patterns.counts * probable).sum())
    if matches < 1.0:
        raise NothingAlikeError(
            "none of the candidates looks like a match: give labels, or other rules"
        )
    risen = [rising_bits(own, other) for own, other in zip(m, u, strict=True)]
    start = Known(risen, math.log2(prior / (1.0 - prior)), np.zeros(odds.size))
    if one_to_one:
        probable = odds / (1.0 + odds)
    sizes = [own.size for own in m]
    fitted = learn_labelled(patterns.codes, probable, sizes, start, patterns.counts)
    by_own_rules = tuple(np.flatnonzero(by_own).tolist())
    return Evidence(m, u, fitted.bits, fitted.prior, matches, settled, by_own_rules)


def _without(shares: Float64s, of_matches: Float64s, matches: float) -> Float64s:
    """Return the shares on levels of pairs that do not match, of those of all and of matches.

    Args:
        shares, of_matches: on each level.
        matches: the share of the pairs that match.
    """
    matches = min(matches, 0.5)
    return (shares - matches * of_matches) / (1.0 - matches)


class _Maximum(NamedTuple):
    """What makes patterns most likely."""

    m: list[Float64s]
    prior: float
    settled: bool


def _maximised(
    patterns: Patterns, start: Levels, u: Levels, *, prior: float, shares: Float64s, pairs: int
) -> _Maximum:
    """Find the m and the share of matches among all pairs by which patterns are most likely.

    Args:
        patterns: of candidates; no other pair matches.
        start: the m to begin with.
        u: of pairs that do not match.
        prior: the share to begin with.
        shares: what rivals leave of the probability of each pattern.
        pairs: candidates or not.
    """
    likely = _likelihoods(patterns, start, u) + math.log(prior / (1.0 - prior)) > _UNLIKELY
    codes, counts, teaches = patterns
    patterns = Patterns(codes[likely], counts[likely], teaches[likely])
    counts = patterns.counts * shares[likely]
    total = max(1.0, float(counts.sum()))
    m = [np.array(share) for share in start]
    settled = False
    for _ in range(ROUNDS):
        weights = counts * _posterior(_likelihoods(patterns, m, u), prior)
        now = min(max(float(weights.sum()) / pairs, 1e-15), 0.5)
        changed = abs(now - prior) * pairs / total
        prior = now
        for field, others in enumerate(u):
            own = weights * patterns.teaches[:, field]
            share = _on_levels(patterns, field, own, others.size) + _PSEUDO * others
            share /= share.sum()
            changed = max(changed, float(np.abs(share - m[field]).max()))
            m[field] = share
        settled = changed < SETTLED
        if settled:
            break
    return _Maximum(m, prior, settled)


def _likelihoods(patterns: Patterns, m: Levels, u: Levels) -> Float64s:
    """Return the logarithm of how much more likely each pattern is of matches."""
    logarithms = [np.log(own / others) for own, others in zip(m, u, strict=True)]
    return of_patterns(patterns.codes, logarithms)


def of_patterns(codes: Codes, bits: Levels, prior: float = 0.0) -> Float64s:
    """Return the evidence of all fields together, and that before any.

    Args:
        codes: (n, fields), as those of ``Patterns``.
        bits: of each field, the evidence of each level.
        prior: the evidence before any field.
    """
    total = np.full(len(codes), prior)
    for field, own in enumerate(bits):
        total += np.append(own, 0.0)[codes[:, field]]  # MISSING is the last
    return total


def _posterior(likelihoods: Float64s, share: float) -> Float64s:
    """Return how probably each pattern is of a match, where a share of all is."""
    against = math.log((1.0 - share) / share) - likelihoods
    posterior: Float64s = 1.0 / (1.0 + np.exp(np.clip(against, -700, 700)))
    return posterior


def _on_levels(patterns: Patterns, field: int, weights: Float64s, levels: int) -> Float64s:
    """Return the weight of pairs on each level of a field, of those with values."""
    codes = patterns.codes[:, field] + 1
    return np.asarray(np.bincount(codes, weights, levels + 1)[1:], np.float64)


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
    with of_extra("statistics", "learning weights needs"):
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
        raise ConfigurationError("labels must include pairs that match and pairs that do not")


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
    codes: Int64s,
    labels: Bools | Float64s,
    levels: Sequence[int],
    known: Known | None = None,
    counts: Float64s | None = None,
) -> Regression:
    """Fit the evidence of each level to labelled pairs, by logistic regression with a ridge.

    The ridge holds what few pairs say to what is known without them, or to none; a field without a
    value says nothing, and no higher level says less than a lower one (isotonic regression).

    Args:
        codes: (n, fields), as those of ``Patterns``.
        labels: (n,), whether the pairs match, or how probably.
        levels: of each field, how many.
        known: before the labels, to which the prior is held as well; None for nothing.
        counts: (n,), how many pairs each label is of; None for one.
    """
    with of_extra("statistics", "learning weights needs"):
        from scipy.optimize import isotonic_regression, minimize
        from scipy.sparse import csr_array

    ends = np.cumsum([0, *levels])
    rows, fields = np.nonzero(codes != MISSING)
    places = ends[fields] + codes[rows, fields]
    size = int(ends[-1])
    there = csr_array((np.ones(rows.size), (rows, places)), shape=(len(codes), size))
    wanted = np.asarray(labels, np.float64)
    counts = np.ones(wanted.size) if counts is None else counts
    ridge = np.full(size + 1, _RIDGE)
    if known is None:
        start, besides = np.zeros(size + 1), np.zeros(wanted.size)
        ridge[-1] = 0.0
    else:
        start = np.log(2.0) * np.array([*np.concatenate(known.bits), known.prior])
        besides = np.log(2.0) * known.besides
    turned = there.T.tocsr()

    def loss(given: Float64s) -> tuple[float, Float64s]:
        evidence = there @ given[:-1] + given[-1] + besides
        wrong = counts * (1.0 / (1.0 + np.exp(np.clip(-evidence, -700, 700))) - wanted)
        away = given - start
        slope = np.append(turned @ wrong, wrong.sum()) + ridge * away
        penalty = float((ridge * np.square(away)).sum()) / 2
        missed = counts * (np.logaddexp(0.0, evidence) - wanted * evidence)
        return float(missed.sum()) + penalty, slope

    found = minimize(loss, start, jac=True, method="L-BFGS-B")
    bits = np.asarray(found.x, np.float64) / np.log(2.0)
    pairs = np.asarray(turned @ counts) + _RIDGE  # on each level
    parts = [
        isotonic_regression(bits[begin:end], weights=pairs[begin:end]).x
        for begin, end in pairwise(ends.tolist())
    ]
    return Regression(parts, float(bits[-1]), bool(found.success))

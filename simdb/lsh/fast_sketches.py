"""In how many rows two sketches agree: the law of independent rows, and that of fast sketches.

Of a fast sketch (``kernels.sketches.fast_sketches``) each round throws the u symbols that two sets
have together into the rows, and a row keeps the least that it gets first. What the rows keep of one
round are different symbols, so that they agree as often as balls drawn from an urn without
putting them back are of one colour. The similarity estimated by them scatters less than by
independent rows (Dahlgaard, Knudsen and Thorup, FOCS 2017), by Hoeffding's comparison (1963), and
a pair at the threshold is missed less often. For u far beyond the number of rows, hardly any ball
is drawn twice, and the law is that of independent rows.

Which rows agree is by chance alone once their number is known, so that with
``amplification.candidate_shares`` the law says how often bands, or a cascade, agree. All terms of
that sum are positive.
"""

from __future__ import annotations

from functools import lru_cache
from math import floor, isqrt

import numpy as np

from simdb.arrays import Complex128s, Float64s

_NEGLIGIBLE = 1e-20
_WHOLE = 1e-9  # so near to a whole number it is one


def agreements(similarity: float, functions: int, union: int | None = None) -> Float64s:
    """Return how likely each number of rows is in which two sets agree: float64 (functions + 1,).

    ``union`` is how many different symbols the sets have together, for fast sketches; without it
    the rows are independent. It takes 20 milliseconds for 96 rows, a second for 1,024 and a minute
    for 4,096. Where no sets with such a union are that similar, it is what lies in a line between
    the next that are. Errors are of 1e-13.
    """
    if union is None:
        roots = _roots(functions)
        return _law((1 - similarity + similarity * roots) ** functions, similarity, functions)
    common = similarity * union
    fewer = floor(common + _WHOLE)
    beyond = common - fewer
    law = _of_fast_sketches(fewer, union, functions)
    if beyond < _WHOLE:
        return law
    return (1 - beyond) * law + beyond * _of_fast_sketches(fewer + 1, union, functions)


@lru_cache(maxsize=256)
def _of_fast_sketches(common: int, union: int, functions: int) -> Float64s:
    """Return the law for fast sketches of sets that have so many symbols in common."""
    roots, similarity = _roots(functions), common / union
    left = _after_all_rounds(common, union, functions, roots)
    alone = 1 - similarity + similarity * roots  # what a row that is left empty contributes
    generating = (left * alone ** np.arange(functions + 1)[:, np.newaxis]).sum(axis=0)
    law = _law(generating, similarity, functions)
    law.flags.writeable = False  # it is kept
    return law


def _points(functions: int) -> int:
    # Farther from the mean than four roots of the number of rows are 2 e^-32 (Hoeffding, 1963).
    return min(functions + 1, 8 * (isqrt(functions) + 1))


def _roots(functions: int) -> Complex128s:
    """Return the roots of unity at which a generating function is known by its values."""
    points = _points(functions)
    roots: Complex128s = np.exp(-2j * np.pi / points * np.arange(points // 2 + 1))
    return roots


def _law(generating: Complex128s, similarity: float, functions: int) -> Float64s:
    """Return the coefficients of a generating function: that of w^k is the probability of k."""
    points = _points(functions)
    first = min(max(0, round(similarity * functions) - points // 2), functions + 1 - points)
    numbers = np.arange(first, first + points)
    law = np.zeros(functions + 1)
    law[numbers] = np.maximum(0.0, np.fft.irfft(generating, points))[numbers % points]
    return law


def _after_all_rounds(common: int, union: int, functions: int, roots: Complex128s) -> Complex128s:
    """Return the generating function of the rows that agree, by how many are left empty.

    Its values at some roots: complex128 (functions + 1, roots). After a round in which h of x rows
    get a symbol first, x - h are left.
    """
    most = min(union, functions)
    one_round = _one_round(union, functions)
    drawn = _drawn(common, union, most) @ roots ** np.arange(most + 1)[:, np.newaxis]
    left = np.zeros((functions + 1, roots.size), np.complex128)
    left[functions] = 1
    for _ in range(functions):
        likely = 1 + np.flatnonzero(left[1:, 0].real > _NEGLIGIBLE)  # at the root 1: probabilities
        if not likely.size:
            break
        lowest, end = int(likely[0]), int(likely[-1]) + 1
        before, left = left, np.zeros_like(left)
        left[0] = before[0]
        for filled in range(min(most, end - 1) + 1):
            some = slice(max(lowest, filled), end)
            to = slice(some.start - filled, end - filled)
            chances = one_round.diagonal(-filled)[to, np.newaxis]
            if chances.max() > _NEGLIGIBLE:
                left[to] += chances * before[some] * drawn[filled]
    return left


@lru_cache(maxsize=2)  # of 4,096 functions one takes 128 MiB
def _one_round(union: int, functions: int) -> Float64s:
    """Return how likely a round leaves so many of x rows empty: float64 (functions + 1,) * 2."""
    one_symbol = np.diag(1 - np.arange(functions + 1) / functions)
    one_symbol += np.diag(np.arange(1, functions + 1) / functions, -1)
    one_round = np.linalg.matrix_power(one_symbol, union)
    one_round.flags.writeable = False  # it is kept
    return one_round


def _drawn(common: int, union: int, most: int) -> Float64s:
    """Return how likely h symbols drawn from a union have so many common ones, by h.

    float64 (most + 1, most + 1); the hypergeometric law, drawn symbol by symbol.
    """
    law = np.zeros((most + 1, most + 1))
    law[0, 0] = 1
    for drawn in range(most):
        before = law[drawn, : drawn + 1]
        next_common = np.clip((common - np.arange(drawn + 1)) / (union - drawn), 0, 1)
        law[drawn + 1, : drawn + 1] = before * (1 - next_common)
        law[drawn + 1, 1 : drawn + 2] += before * next_common
    return law

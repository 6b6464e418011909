"""Sketches: equal to the slow versions, keyed, and unbiased estimates of Jaccard similarity."""

from __future__ import annotations

import os
from fractions import Fraction
from math import sqrt

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.errors import ConfigurationError
from simdb.lsh.family import MAXIMUM_FUNCTIONS, MinHash, SymbolSets
from tests.support import oracle

SECRET = bytes(range(32))
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
SLOW = {"fast": oracle.fast_sketch, "classical": oracle.classical_sketch}
schemes = pytest.mark.parametrize("scheme", ["fast", "classical"])
compiled = pytest.mark.skipif(INTERPRETED, reason="needs compiled kernels")

pytestmark = pytest.mark.usefixtures("wrap_around")


def sets_of(*lists: list[int]) -> SymbolSets:
    values = np.array([symbol for members in lists for symbol in members], np.uint64)
    return SymbolSets(values, np.cumsum([0, *map(len, lists)]))


@schemes
@given(
    lists=st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=12), max_size=4),
    rows=st.integers(1, 20),
)
def test_sketches_are_those_of_the_slow_version(scheme, lists, rows):
    sketches = MinHash(scheme, 1, rows, SECRET).sign(sets_of(*lists))
    assert sketches.dtype == np.uint16
    assert sketches.shape == (len(lists), rows)
    assert sketches.tolist() == [SLOW[scheme](members, rows, SECRET) for members in lists]


@schemes
@pytest.mark.parametrize("size", [1, 2, 60, 500])
def test_sketches_of_every_size_are_those_of_the_slow_version(scheme, size):
    """Few members need the rounds of one bin each, many fill all bins in the first round."""
    members = np.random.default_rng(size).integers(0, 2**64, size, dtype=np.uint64).tolist()
    sketch = MinHash(scheme, 1, 32, SECRET).sign(sets_of(members))[0].tolist()
    assert sketch == SLOW[scheme](members, 32, SECRET)


@schemes
def test_order_and_repeats_do_not_matter(scheme):
    members = list(range(1, 40))
    sketches = MinHash(scheme, 1, 64, SECRET).sign(sets_of(members, members[::-1] + members))
    assert sketches[0].tolist() == sketches[1].tolist()


@schemes
def test_an_empty_set_gives_zeros_and_does_not_disturb_its_neighbours(scheme):
    sketches = MinHash(scheme, 1, 16, SECRET).sign(sets_of([], [5], [], [5]))
    assert not sketches[0].any()
    assert not sketches[2].any()
    assert sketches[1].tolist() == sketches[3].tolist()


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("fast", [24278, 18665, 9312, 8479, 6654, 2105]),
        ("classical", [14899, 10130, 48325, 18813, 62853, 3955]),
    ],
)
def test_sketches_never_change(scheme, expected):
    """Stored signatures depend on them: a change here is a change of the file format."""
    assert MinHash(scheme, 1, 6, SECRET).sign(sets_of([1, 2, 3]))[0].tolist() == expected


def test_impossible_sketches_are_refused():
    with pytest.raises(ConfigurationError, match="'fast' or 'classical', not 'quick'"):
        MinHash("quick", 1, 10, SECRET)  # type: ignore[arg-type]
    for rows in (0, MAXIMUM_FUNCTIONS + 1):
        with pytest.raises(ConfigurationError, match=f"at most 4,096, not 1 and {rows}"):
            MinHash("fast", 1, rows, SECRET)


# ------------------------------------------------------------------------------------- statistics


def random_pairs(
    generator: np.random.Generator, size: int, similarity: float, pairs: int
) -> tuple[SymbolSets, Fraction]:
    """Return pairs of sets of ``size`` random symbols, items 2 i and 2 i + 1, and their Jaccard."""
    shared = round(2 * size * similarity / (1 + similarity))
    union = 2 * size - shared
    pool = generator.integers(0, 2**64, (pairs, union), dtype=np.uint64)
    values = np.stack((pool[:, :size], pool[:, union - size :]), axis=1).ravel()
    return SymbolSets(values, np.arange(2 * pairs + 1) * size), Fraction(shared, union)


def equal_rows(scheme: str, sets: SymbolSets, rows: int, secret: bytes) -> npt.NDArray[np.bool_]:
    sketches = MinHash(scheme, 1, rows, secret).sign(sets)  # type: ignore[arg-type]
    equal: npt.NDArray[np.bool_] = sketches[0::2] == sketches[1::2]
    return equal


@compiled
@schemes
@pytest.mark.parametrize("similarity", [0.5, 0.8])
@pytest.mark.parametrize("size", [1, 5, 20, 100, 400, 2500])
def test_the_share_of_equal_rows_is_an_unbiased_estimate(scheme, similarity, size):
    """Within 4.5 standard errors of the binomial mean, over 20 secrets; and never more scattered.

    Each of the 20 secrets sketches pairs of its own. The mean squared error of an estimate from
    128 independent rows is J (1 - J) / 128; fast sketches lie below it, and 15 % above it is 4
    standard deviations of what is measured here.
    """
    rows, secrets = 128, 20
    pairs = 10 if size == 2500 else 60
    generator = np.random.default_rng([size, round(10 * similarity), scheme == "fast"])
    estimates = []
    for number in range(secrets):
        sets, jaccard = random_pairs(generator, size, similarity, pairs)
        estimates.append(equal_rows(scheme, sets, rows, bytes([number])).mean(axis=1))
    errors = np.concatenate(estimates) - float(jaccard)
    variance = float(jaccard * (1 - jaccard)) / rows
    accidental = float(1 - jaccard) / 2**16
    assert abs(errors.mean() - accidental) <= 4.5 * sqrt(variance / errors.size)
    scatter = 4 * sqrt(2 / errors.size)
    assert (errors**2).mean() <= variance * (1 + scatter) + accidental


@compiled
@schemes
def test_rows_are_uniform(scheme):
    """Chi squared of 256 classes of the low and of the high byte, 255 degrees of freedom.

    400 is exceeded by chance once in 10^8 times.
    """
    values = np.random.default_rng(5).integers(0, 2**64, 300_000, dtype=np.uint64)
    sets = SymbolSets(values, np.arange(0, 300_001, 100))
    sketches = MinHash(scheme, 1, 32, SECRET).sign(sets)
    for byte in (sketches & 0xFF, sketches >> 8):
        counts = np.bincount(byte.ravel(), minlength=256)
        expected = sketches.size / 256
        assert ((counts - expected) ** 2 / expected).sum() < 400


@schemes
def test_other_secrets_give_unrelated_rows(scheme):
    """Of 2,560 rows about 0.04 agree by chance; three would happen once in 100,000 runs."""
    sets = sets_of(*(list(range(n, n + 50)) for n in range(20)))
    one, other = (MinHash(scheme, 1, 128, secret).sign(sets) for secret in (b"one", b"other"))
    assert (one == other).sum() < 3


def test_the_schemes_give_unrelated_rows():
    sets = sets_of(list(range(50)))
    fast, classical = (MinHash(s, 1, 128, SECRET).sign(sets) for s in ("fast", "classical"))
    assert (fast == classical).sum() < 3

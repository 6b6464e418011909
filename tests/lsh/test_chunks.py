"""Chunks of bit vectors: their radii, their plan, and that no near vector is missed."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.lsh.chunks import MOST_PROBES, USUAL_BITS, Chunks, plan_chunks, probed, radii
from simdb.lsh.planning import PlanRequest


def test_vectors_farther_apart_in_every_chunk_are_too_far_apart():
    """The pigeonhole principle, tried with every way to spread differing bits over chunks."""
    for most, chunks in product(range(7), range(1, 5)):
        if chunks > most + 1:
            continue
        own = radii(most, chunks)
        assert sum(radius + 1 for radius in own) == most + 1
        for apart in product(range(most + 2), repeat=chunks):
            if sum(apart) <= most:
                assert any(bits <= radius for bits, radius in zip(apart, own, strict=True))


def test_the_buckets_of_a_search_are_those_of_each_chunk_within_its_radius():
    for most, bits in product(range(12), (1, 3, 24)):
        for chunks in range(1, most + 2):
            within = (comb(bits, flips) for own in radii(most, chunks) for flips in range(own + 1))
            assert probed(most, chunks, bits) == sum(within)


@pytest.mark.parametrize("length", [1, 9, 64, 70, 200])
@pytest.mark.parametrize("most", [0, 1, 4, 7])
def test_a_probe_looks_into_a_bucket_of_every_near_vector(length, most):
    generator = np.random.default_rng(length + most)
    width = -(-length // 64)
    for chunks in range(1, min(most + 1, length) + 1):
        bits = min(6, length // chunks)
        family = Chunks(length, most, chunks, bits, b"secret" * 6)
        assert np.unique(family.positions).size == chunks * bits
        assert family.positions.max() < length
        rows = generator.integers(0, 2, (40, 64 * width), dtype=np.uint8)
        rows[:, length:] = 0
        near = rows.copy()
        for row in near:
            flipped = generator.choice(length, min(most, length), replace=False)
            row[flipped] ^= 1
        words = [np.packbits(some, axis=1).view("<u8").astype(np.uint64) for some in (rows, near)]
        signatures = [family.sign(some) for some in words]
        stored, probes = (
            family.bucket_keys(signatures[1]),
            family.probe_keys(words[0], signatures[0]),
        )
        assert probes.sizes.tolist() == [probed(most, chunks, bits)] * 40
        for row in range(40):
            own = probes.values[probes.offsets[row] : probes.offsets[row + 1]]
            others = stored.values[stored.offsets[row] : stored.offsets[row + 1]]
            assert np.isin(others, own).any()
            assert np.unique(own).size == own.size


@pytest.mark.parametrize(
    ("length", "most", "bands", "rows"), [(64, 4, 2, 31), (64, 8, 3, 21), (64, 0, 1, 31)]
)
def test_the_plan_weighs_buckets_against_candidates_and_bytes(length, most, bands, rows):
    plan = plan_chunks(length, Fraction(most), PlanRequest())
    assert (plan.bands, plan.rows) == (bands, rows)
    assert probed(most, bands, rows) <= MOST_PROBES
    assert plan.expected_recall(most) == 1
    assert np.isnan(plan.expected_recall(most + 1))


def test_given_bands_and_rows_stay_if_they_can_be():
    assert plan_chunks(64, Fraction(4), PlanRequest(bands=5)).rows == 12
    assert plan_chunks(64, Fraction(4), PlanRequest(rows=16)).bands == 4
    assert plan_chunks(1024, Fraction(4), PlanRequest()).rows == USUAL_BITS


@pytest.mark.parametrize(
    ("length", "most", "bands", "rows"),
    [
        (64, 20, None, None),
        (8, 8, None, None),
        (64, 4, 6, None),
        (64, 4, 3, 22),
        (64, 4, 2, 33),
        (64, 20, 2, 20),
    ],
)
def test_what_would_look_at_most_vectors_or_cannot_be_is_refused(length, most, bands, rows):
    with pytest.raises(ConfigurationError, match="recall 1"):
        plan_chunks(length, Fraction(most), PlanRequest(bands=bands, rows=rows))


def test_chunks_have_no_budget_of_rows():
    with pytest.raises(ConfigurationError, match="leave these out"):
        plan_chunks(64, Fraction(4), PlanRequest(row_budget=256))

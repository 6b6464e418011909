"""Near pairs of vectors by matrix products, beside fractions and every pair compared."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simdb import kernels
from simdb.exact import products
from simdb.exact.products import may_be_near
from simdb.exact.thresholds import MaximumDistance
from simdb.kinds import Vector
from simdb.kinds.vectors import ProductMeasure
from simdb.ragged import read_only
from simdb.work import Work

Vectors = npt.NDArray[np.float32]
FINITE = st.floats(-(2.0**100), 2.0**100, width=32)
FEW = st.sampled_from([0.0, 1.0, -1.0, 0.125, 3.0, 2.0**-20, 1e6])


def zipped(left: Any, right: Any) -> list[tuple[int, int]]:
    return list(zip(left.tolist(), right.tolist(), strict=True))


def proposed(ones: Vectors, others: Vectors | None, limit: float, **asked: Any) -> Any:
    parts = list(may_be_near(ones, others, limit, directions=asked.get("directions", False)))
    assert max((part.left.size for part in parts), default=0) <= products.PAIRS_AT_ONCE
    pairs = [pair for part in parts for pair in zipped(part.left, part.right)]
    return pairs, sum(part.looked_at for part in parts)


def square(one: Vectors, other: Vectors) -> Fraction:
    differences = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(one, other, strict=True)]
    return sum((apart * apart for apart in differences), Fraction(0))


@given(st.data(), st.integers(1, 5), st.sampled_from([1, 2, 7, 1_000]))
def test_no_near_pair_is_missed(data, dimension, rows):
    """Distances are those of fractions; limits lie right on them, and just beside."""
    elements = data.draw(st.sampled_from([FINITE, FEW]))
    ones, others = (
        data.draw(arrays(np.float32, (data.draw(st.integers(1, 7)), dimension), elements=elements))
        for _ in range(2)
    )
    near = square(ones[0], others[0])
    limit = float(near) ** 0.5 if near < 2**1000 else 1.0
    limit *= data.draw(st.sampled_from([1.0, 1 - 2**-52, 1 + 2**-52, 2.0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "PAIRS_AT_ONCE", data.draw(st.sampled_from([1, 3, 1_000])))
        patch.setattr(products, "ROWS_AT_ONCE", rows)
        patch.setattr(products, "NUMBERS_AT_ONCE", rows * 3)
        found, looked_at = proposed(ones, others, limit)
        own, own_looked_at = proposed(ones, None, limit)
    assert len(found) == len(set(found))
    assert looked_at == len(ones) * len(others)
    assert own_looked_at == len(ones) * (len(ones) - 1) // 2
    bound = Fraction(limit) ** 2
    assert set(found) >= {
        (left, right)
        for left, one in enumerate(ones)
        for right, other in enumerate(others)
        if square(one, other) <= bound
    }
    assert len(own) == len(set(own))
    assert set(own) >= {
        (left, right)
        for right, other in enumerate(ones)
        for left, one in enumerate(ones[:right])
        if square(one, other) <= bound
    }


@pytest.mark.parametrize("dimension", [3, 40])
def test_the_error_is_allowed_for_that_of_the_longest_vectors(dimension):
    """Pairs far from the centre whose distance is the limit, beside vectors next to the centre."""
    generator = np.random.default_rng(dimension)
    far = generator.normal(size=(40, dimension)) * 1e6
    ones = np.concatenate([far, -far, np.zeros((1, dimension))]).astype(np.float32)
    others = np.concatenate([ones[:80] + np.float32(1), ones[80:]]).astype(np.float32)
    for row in range(40):
        limit = float(square(ones[row], others[row])) ** 0.5
        found, _ = proposed(ones, others, limit * (1 + 2**-52))
        assert (row, row) in found


@pytest.mark.parametrize("measure", ["cosine", "euclidean"])
@pytest.mark.parametrize("dimension", [1, 8, 300])
@pytest.mark.parametrize("offset", [0, 1_000])
def test_pairs_and_distances_are_those_of_the_definition(measure, dimension, offset):
    """Every pair is compared by the kernel; the bounds lie right on distances that there are."""
    generator = np.random.default_rng(dimension)
    ones = (generator.standard_normal((70, dimension)) + offset).astype(np.float32)
    ones[40:50] = ones[:10]
    ones[50:60] = ones[:10] + np.float32(1e-3)
    others = np.concatenate([ones[30:60], -ones[:5]])
    asked = Vector(dimension, measure=measure).make_measure()
    assert isinstance(asked, ProductMeasure)
    number = kernels.vectors.ANGLE if measure == "cosine" else kernels.vectors.EUCLIDEAN
    left, right = (rows.ravel() for rows in np.indices((70, 35)))
    apart = kernels.vectors.compare_rows(read_only(ones), read_only(others), left, right, number)
    for limit in [0.0, *np.quantile(apart, [0.01, 0.1, 0.5, 1]).tolist()]:
        bound = MaximumDistance(Fraction(limit))
        met = apart <= limit
        expected = dict(zip(zipped(left[met], right[met]), apart[met].tolist(), strict=True))
        work = Work()
        found: dict[tuple[int, int], float] = {}
        for part in asked.near_pairs(ones, others, bound, work):
            pairs = zipped(part.left, part.right)
            found |= dict(zip(pairs, part.distances.tolist(), strict=True))
        assert found == expected
        assert work.looked_at == 70 * 35


def test_few_that_are_not_near_are_proposed():
    """Far from the origin too: only what the centre does not take away costs digits."""
    generator = np.random.default_rng(1)
    ones = (generator.random((600, 20)) + 1_000).astype(np.float32)
    near = (np.linalg.norm(ones[:, None].astype(float) - ones, axis=2) <= 1)[
        np.triu_indices(600, 1)
    ]
    found, looked_at = proposed(ones, None, 1.0)
    assert near.sum() <= len(found) <= near.sum() + 2
    assert looked_at == 600 * 599 // 2
    assert proposed(ones[:0], None, 1.0) == ([], 0)
    assert proposed(ones, ones[:0], 1.0) == ([], 0)


@pytest.mark.parametrize(
    ("size", "apart", "forms"),
    [(1.0, 1.0, [np.float32]), (1e20, 1e20, [np.float64]), (1e3, 1e-3, [np.float32, np.float64])],
)
def test_products_are_of_float32_where_that_tells_enough(monkeypatch, size, apart, forms):
    """Two clusters far from each other: what lies within them is apart by less than its error."""
    asked: list[Any] = []
    as_left = products._Side.as_left

    def noted(self: Any, form: Any) -> Any:
        asked.append(form)
        return as_left(self, form)

    monkeypatch.setattr(products._Side, "as_left", noted)
    generator = np.random.default_rng(7)
    ones = np.repeat(generator.choice([-1.0, 1.0], (120, 1)) * size, 30, axis=1)
    ones = (ones + apart * generator.standard_normal(ones.shape)).astype(np.float32)
    left, right = np.triu_indices(len(ones), 1)
    squares = ((ones[left].astype(float) - ones[right]) ** 2).sum(axis=1)
    limit = float(np.quantile(squares, 0.02)) ** 0.5
    found, _ = proposed(ones, None, limit)
    assert asked == forms
    near = squares <= limit * limit
    assert set(found) >= set(zipped(left[near], right[near]))
    assert len(found) <= 2 * near.sum()

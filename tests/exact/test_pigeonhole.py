"""All pairs of bit vectors within a Hamming distance, beside a double loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb import kernels
from simdb.errors import OperationInterruptedError
from simdb.exact import pigeonhole
from simdb.exact.pigeonhole import near_pairs, share_looked_at
from simdb.work import Work

Found = list[tuple[int, int, int]]
LENGTHS = [1, 7, 64, 65, 150]

pytestmark = pytest.mark.usefixtures("wrap_around")


def vectors(numbers: list[int], length: int) -> npt.NDArray[np.uint64]:
    """Bits as they are stored, filled up with zeros to whole words."""
    width = -(-length // 64)
    texts = [f"{number:0{length}b}".ljust(64 * width, "0") for number in numbers]
    bits = np.array([[*map(int, text)] for text in texts], np.uint8).reshape(-1, 64 * width)
    return np.packbits(bits, axis=1).view("<u8").astype(np.uint64)


def found_by(ones: Any, others: Any, most: int, work: Work | None = None) -> Found:
    parts = list(near_pairs(ones, others, most, work or Work()))
    return [pair for part in parts for pair in zip(*(c.tolist() for c in part), strict=True)]


def by_a_double_loop(ones: list[int], others: list[int], most: int) -> Found:
    return [
        (left, right, (one ^ other).bit_count())
        for left, one in enumerate(ones)
        for right, other in enumerate(others)
        if (one ^ other).bit_count() <= most
    ]


@st.composite
def drawn(draw: st.DrawFn) -> tuple[int, list[int], list[int], int]:
    """Vectors near a few of them, so that many pairs are near, and equal in many chunks."""
    length = draw(st.sampled_from(LENGTHS))
    centres = draw(st.lists(st.integers(0, 2**length - 1), min_size=1, max_size=3))
    near = st.builds(
        lambda centre, flips: centre ^ sum({1 << flip for flip in flips}),
        st.sampled_from(centres),
        st.lists(st.integers(0, length - 1), max_size=6),
    )
    sides = [draw(st.lists(near | st.integers(0, 2**length - 1), max_size=30)) for _ in range(2)]
    return length, sides[0], sides[1], draw(st.integers(0, min(length, 12)))


@given(drawn(), st.sampled_from([1, 3, 1000]))
def test_each_near_pair_comes_out_once_in_any_portions(case, room):
    length, left, right, most = case
    ones, others = vectors(left, length), vectors(right, length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pigeonhole, "ROOM", room)
        assert sorted(found_by(ones, others, most)) == by_a_double_loop(left, right, most)
        own = [(min(a, b), max(a, b), apart) for a, b, apart in found_by(ones, None, most)]
        expected = [pair for pair in by_a_double_loop(left, left, most) if pair[0] < pair[1]]
        assert sorted(own) == expected


@pytest.mark.parametrize("length", LENGTHS)
def test_all_pairs_are_within_the_length(length):
    numbers = [number % 2**length for number in (0, 1, 3, 2**length - 1, 1)]
    assert len(found_by(vectors(numbers, length), None, length)) == 10


def test_of_many_vectors_few_pairs_are_looked_at_and_none_is_missed():
    generator = np.random.default_rng(1)
    ones = generator.integers(0, 2**64, (3_000, 1), dtype=np.uint64)
    flips = generator.integers(0, 64, (3, 500)).astype(np.uint64)
    changes = np.bitwise_or.reduce(np.uint64(1) << flips, axis=0)
    ones[500:1000, 0] = ones[:500, 0] ^ changes  # planted, one to three bits apart
    ones[1000:1100] = ones[:100]
    work = Work()
    found = {(min(a, b), max(a, b)) for a, b, _ in found_by(ones, None, 3, work)}
    apart = np.bitwise_count(ones ^ ones.T)
    assert found == {(a, b) for a, b in np.argwhere(apart <= 3).tolist() if a < b}
    assert work.looked_at < 3_000**2 / 2 / 1_000
    assert share_looked_at(64, 3) < 1 / 1_000


def test_vectors_without_variety_are_compared_no_more_than_all_with_all():
    """Half of the bits are the same in all, so that chunks of them would propose every pair."""
    generator = np.random.default_rng(2)
    ones = generator.integers(0, 2**6, (500, 1), dtype=np.uint64)
    for most in (0, 2, 6, 12):
        work = Work()
        found = found_by(ones, None, most, work)
        assert (
            len(found) == (np.bitwise_count(ones ^ ones.T) <= most)[np.triu_indices(500, 1)].sum()
        )
        assert work.looked_at <= 500 * 499 // 2


def test_a_budget_ends_before_more_pairs_are_looked_at():
    ones = np.zeros((100, 1), np.uint64)
    work = Work(budget=4_949)
    with pytest.raises(OperationInterruptedError, match="4,950"):
        found_by(ones, None, 1, work)
    assert work.looked_at == 0
    assert found_by(np.empty((0, 1), np.uint64), None, 1) == []
    assert found_by(ones, np.empty((0, 1), np.uint64), 1) == []


@pytest.mark.parametrize("most", [3, 60])
def test_a_call_looks_at_few_pairs_however_few_are_near(monkeypatch, most):
    generator = np.random.default_rng(3)
    ones = generator.integers(0, 2**6, (200, 1), dtype=np.uint64) << np.uint64(most > 3)
    passed: list[int] = []
    step = kernels.bits.near_pairs

    def counted(*arguments: Any) -> int:
        starts, stops, state = arguments[2], arguments[3], arguments[-4]
        sizes = np.maximum(stops - starts, 0)
        before = sizes[: state[0]].sum()
        count = step(*arguments)
        passed.append(int(sizes[: state[0]].sum() - before))
        return count

    monkeypatch.setattr(kernels.bits, "near_pairs", counted)
    whole = found_by(ones, None, most)
    assert max(passed) > 1_000
    seen = sum(passed)
    passed.clear()
    monkeypatch.setattr(pigeonhole, "WORDS_AT_ONCE", 10)
    assert found_by(ones, None, most) == whole
    assert max(passed) < 10 + 2 * len(ones)  # of the row that was begun before, and of the last
    assert sum(passed) == seen


@pytest.mark.parametrize(
    ("length", "most", "share"), [(64, 0, 2**-15), (64, 4, 5 / 2**12), (64, 8, 9 / 2**7), (8, 7, 1)]
)
def test_the_share_looked_at_is_that_of_random_bits(length, most, share):
    assert share_looked_at(length, most) == share

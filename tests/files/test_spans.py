"""Spans hold the numbers that came, whatever they are cut into."""

from __future__ import annotations

import random

import numpy as np
import pytest

from simdb.files.spans import Spans


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_the_numbers_that_came(seed):
    generator = random.Random(seed)
    count = generator.choice([0, 1, 5, 200])
    numbers = sorted(generator.sample(range(1, 2 * count + 3), count))
    spans = Spans()
    begin = 0
    while begin < count:
        end = begin + generator.choice([0, 1, 7, 50])
        spans.extend(np.array(numbers[begin:end], np.int64))
        begin = end
    assert len(spans) == count
    assert [spans[place] for place in range(count)] == numbers
    if numbers:
        assert spans[-1] == numbers[-1]
    with pytest.raises(IndexError):
        spans[count]
    for _ in range(20):
        begin = generator.randrange(2 * count + 5)
        end = begin + generator.randrange(count + 3)
        assert spans.between(begin, end).tolist() == [n for n in numbers if begin <= n < end]


def test_numbers_that_begin_again_are_found_by_their_places():
    numbers = [*range(3, 9), *range(1, 5), 5, 6, 9, *range(2)]
    spans = Spans(numbers)
    assert [spans[place] for place in range(len(spans))] == numbers


def test_a_span_is_few_bytes_however_long_it_is():
    spans = Spans()
    for begin in range(0, 1_000_000, 10_000):
        spans.extend(np.arange(begin, begin + 10_000))
    assert len(spans._firsts) == len(spans._begins) == 1
    assert spans.between(499_999, 500_002).tolist() == [499_999, 500_000, 500_001]

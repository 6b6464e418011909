"""Brute force in fractions, and sets that are hard for bounds: nothing here imports simdb."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tests.support.similarities import jaccard

THRESHOLDS = [Fraction(hundredths, 100) for hundredths in range(50, 101)]
THRESHOLDS += [Fraction(str(0.1 * 7)), Fraction(1, 3), Fraction(2, 3), Fraction(7, 9)]
THRESHOLDS += [Fraction(5, 11), Fraction(999, 1000), Fraction(1, 20)]


Place: TypeAlias = tuple[tuple[int, ...], int]


def meets(fraction: Fraction, overlap: int, union: int) -> bool:
    """Tell whether overlap / union is at least a threshold, which nothing without overlap is."""
    return overlap > 0 and Fraction(overlap, union) >= fraction


def similar_pairs(sets: list[set[int]], threshold: Fraction) -> dict[tuple[int, int], Fraction]:
    """Compare every two sets."""
    return {
        (one, other): jaccard(sets[one], sets[other])
        for other in range(len(sets))
        for one in range(other)
        if _are_similar(sets[one], sets[other], threshold)
    }


def similar_across(
    left: list[set[int]], right: list[set[int]], threshold: Fraction
) -> dict[tuple[int, int], Fraction]:
    """Compare every set on the left with every set on the right."""
    return {
        (one, other): jaccard(left[one], right[other])
        for one in range(len(left))
        for other in range(len(right))
        if _are_similar(left[one], right[other], threshold)
    }


def _are_similar(one: set[int], other: set[int], threshold: Fraction) -> bool:
    """Tell what their similarity as a fraction would, in whole numbers, which is quicker."""
    common = len(one & other)
    union = len(one) + len(other) - common
    return common * threshold.denominator >= threshold.numerator * max(union, 1)


def columns(sets: list[set[int]]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Write sets one behind the other, with offsets."""
    values = np.array([symbol for one in sets for symbol in one], np.uint64)
    return values, np.cumsum([0] + [len(one) for one in sets], dtype=np.int64)


def largest_position(threshold: Any, size: int, position: int) -> int:
    """Compute the last position of a stored symbol worth looking at (MMDS 3.9.5).

    Returns:
        the largest j with (size - position + 1) / (size + j - 1) >= J; below 1 if none.
    """
    return int((size - position + 1) / threshold.fraction) - size + 1


def may_meet(threshold: Any, position: int, suffix: int, *other: int) -> bool:
    """Tell whether sets whose *first* common symbol lies there can be similar (MMDS 3.9.6).

    Both cases of the book are one: the overlap is at most min(suffix, other suffix) + 1, and the
    sizes are position + suffix. It implies the length, prefix and position bounds.
    """
    total = position + suffix + sum(other)
    return min(suffix, other[1]) + 1 >= needed_overlap(total, threshold.fraction)


def similarity(measure: str, overlap: int, probe_size: int, stored_size: int) -> Fraction:
    """Compute a similarity from sizes and overlap; for cosine, its square, which is rational."""
    if overlap == 0:
        return Fraction(0)
    return {
        "jaccard": lambda: Fraction(overlap, probe_size + stored_size - overlap),
        "dice": lambda: Fraction(2 * overlap, probe_size + stored_size),
        "cosine": lambda: Fraction(overlap**2, probe_size * stored_size),
        "stored-in-probe": lambda: Fraction(overlap, stored_size),
        "probe-in-stored": lambda: Fraction(overlap, probe_size),
        "overlap": lambda: Fraction(overlap, min(probe_size, stored_size)),
    }[measure]()


def join_work(sets: list[list[int]], threshold: Fraction) -> dict[str, int]:
    """Count what a join of sets with themselves has to do, by the bounds of 3.9.3 to 3.9.6.

    Args:
        sets: the rising keys of each.
        threshold: of similarity.
    """
    distinct = sorted(filter(None, dict.fromkeys(map(tuple, sets))), key=len)
    posted, probed, bitmaps = [], [], []
    for keys in distinct:
        size = len(keys)
        posted.append(size - needed_overlap(2 * size, threshold) + 1)
        probed.append(size - math.ceil(threshold * size) + 1)
        parities = [sum(key % 64 == bit for key in keys) % 2 for bit in range(64)]
        bitmaps.append(parities)
    on_left, on_right = (
        Counter(key for keys, most in zip(distinct, prefixes, strict=True) for key in keys[:most])
        for prefixes in (posted, probed)
    )
    shared = [key for key in on_left if on_right[key] > 1]
    work = Counter(postings=sum(on_left[key] + on_right[key] for key in shared))
    for one, other in itertools.combinations(range(len(distinct)), 2):
        left, right = distinct[one], distinct[other]
        needed = needed_overlap(len(left) + len(right), threshold)
        if len(left) < threshold * len(right):
            continue
        common = sorted(set(left) & set(right))
        met = [
            key
            for key in common
            if left.index(key) < posted[one] and right.index(key) < probed[other]
        ]
        work["looked_at"] += len(met)
        if not met or met[0] != common[0]:
            continue
        rests = len(left) - left.index(met[0]), len(right) - right.index(met[0])
        apart = sum(a != b for a, b in zip(bitmaps[one], bitmaps[other], strict=True))
        if min(rests) < needed or apart > len(left) + len(right) - 2 * needed:
            continue
        work["candidates"] += 1
        work["compared"] += _stays_reachable((left, posted[one]), (right, probed[other]), needed)
        work["found"] += len(common) >= needed
    names = ("postings", "looked_at", "candidates", "compared", "found")
    return {name: work[name] for name in names}


def needed_overlap(total: int, threshold: Fraction) -> int:
    """Compute how many symbols two sets of that total size must share."""
    return max(1, math.ceil(threshold * total / (1 + threshold)))


def _stays_reachable(left: Place, right: Place, needed: int) -> bool:
    """Merge two prefixes; tell if the overlap could be reached at every step and at the end."""
    (one, most), (other, other_most) = left, right
    here = there = overlap = 0
    while here < most and there < other_most:
        a, b = one[here], other[there]
        here, there, overlap = here + (a <= b), there + (b <= a), overlap + (a == b)
        behind = len(one) - here if a < b else len(other) - there
        if a != b and overlap and overlap + behind < needed:
            return False
    return overlap + max(len(one) - most, len(other) - other_most) >= needed


def _on_the_threshold(generator: random.Random, threshold: Fraction) -> list[set[int]]:
    """Make two sets whose similarity is the threshold itself, or just below it."""
    overlap, union = threshold.numerator, threshold.denominator
    times = generator.randint(1, max(1, 24 // union))
    overlap, union = overlap * times, union * times
    if union > 120:
        union = generator.randint(5, 40)
        overlap = -(-threshold.numerator * union // threshold.denominator)
    symbols = generator.sample(range(2 * union), union)
    cut = generator.randint(overlap, union)
    lower = generator.randint(0, 1) if overlap > 1 else 0
    return [set(symbols[:cut]), set(symbols[lower:overlap]) | set(symbols[cut:])]


def adversarial_sets(generator: random.Random, threshold: Fraction) -> list[set[int]]:
    """Make sets of one of several hard kinds, some pairs exactly on the threshold."""
    kind = generator.randrange(6)
    size = generator.randint(1, 24)
    if kind == 0:  # random subsets of a small universe
        sets = [
            set(generator.sample(range(size), generator.randint(0, size)))
            for _ in range(generator.randint(0, 10))
        ]
    elif kind == 1:  # nested suffixes and prefixes of one string
        sets = [set(range(generator.randint(0, size // 2), size)) for _ in range(6)]
        sets += [set(range(generator.randint(1, size))) for _ in range(4)]
    elif kind == 2:  # all equal but a few
        sets = [set(range(size)) for _ in range(6)] + [set(range(1, size)), {size}, set()]
    elif kind == 3:  # length 1, and one symbol in every set
        sets = [{generator.randrange(4)} for _ in range(5)]
        sets += [{0, *generator.sample(range(1, 30), generator.randint(0, 8))} for _ in range(5)]
    elif kind == 4:  # one set and what is left when some of it is exchanged
        base = generator.sample(range(60), size)
        sets = [set(base)]
        for _ in range(8):
            changed = generator.randint(0, max(1, size // 3))
            sets.append(set(base[changed:]) | set(generator.sample(range(60, 90), changed)))
    else:
        sets = [set(generator.sample(range(12), generator.randint(1, 12))) for _ in range(4)]
    for _ in range(generator.randint(1, 3)):
        sets += _on_the_threshold(generator, threshold)
    generator.shuffle(sets)
    return sets

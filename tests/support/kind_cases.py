"""Items of every kind, near copies of them, and how the command line describes them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from tests.support import oracle
from tests.support.similarities import (
    bag_jaccard_of_maxima,
    bag_jaccard_of_sums,
    jaccard,
    weighted_jaccard,
)

GENERATOR = np.random.default_rng(3)


def bits_of(count: int) -> list[str]:
    far = GENERATOR.integers(0, 2, (count, 40))
    near = far.copy()
    near[:, 7] ^= 1
    return ["".join(map(str, row)) for row in [*far.tolist(), *near.tolist()]]


def hamming(one: str, other: str) -> float:
    return sum(left != right for left, right in zip(one, other, strict=True))


def tanimoto(one: str, other: str) -> float:
    both = sum(left + right == "11" for left, right in zip(one, other, strict=True))
    return both / sum(left + right != "00" for left, right in zip(one, other, strict=True))


def vectors_of(count: int) -> list[list[float]]:
    far = GENERATOR.normal(size=(count, 6)).astype(np.float32)
    near = far + np.float32(0.01)
    return [*far.tolist(), *near.tolist()]


WORDS = [f"word{number}" for number in range(60)]

BAGS = [GENERATOR.choice(WORDS, 9).tolist() for _ in range(5)]

BAGS += [[*bag, bag[0]] for bag in BAGS]

SETS = [sorted(set(bag)) for bag in BAGS]

WEIGHTED = [
    {word: 0.5 + number / 7 for number, word in enumerate(dict.fromkeys(bag))} for bag in BAGS[:5]
]

WEIGHTED += [{word: weight * 1.05 for word, weight in one.items()} for one in WEIGHTED]

NAMES = [f"{word}, {word[::-1]}" for word in ("smith", "anderson", "lee", "petersen", "ng")]

NAMES += [name.replace(",", ";") for name in NAMES]

TEXTS = [" ".join(bag) for bag in BAGS]

PEOPLE: list[dict[str, Any]] = [
    {"name": f"{word}son", "town": f"town {number}", "age": 20 + number}
    for number, word in enumerate(["smith", "ander", "john", "peter", "niel"])
]

PEOPLE += [{**record, "name": record["name"] + "n"} for record in PEOPLE]

PRINTS = [
    np.column_stack((GENERATOR.uniform(20, 120, (12, 2)), GENERATOR.uniform(0, 360, 12)))
    .round(1)
    .tolist()
    for _ in range(5)
]

PRINTS += [[[x + 1, y + 1, angle] for x, y, angle in print_] for print_ in PRINTS]

BITS = bits_of(5)

VECTORS = vectors_of(5)

RECORD = {
    "fields": [{"name": "name", "tolerance": 5}, "town", {"name": "age", "compare": "numeric"}],
    "candidates": ["town"],
}

PRINT = {"width": 160, "height": 160, "functions": 2048, "groups": 1}


@dataclass(frozen=True)
class Case:
    kind: tuple[object, ...]
    bound: tuple[object, ...]
    items: list[Any]
    is_similar: Callable[[Any, Any], bool]
    field: str
    measured: str = "similarity"

    @property
    def new(self) -> tuple[object, ...]:
        return (*self.kind, *self.bound)

    def row(self, key: object, item: Any) -> dict[str, Any]:
        return {"id": key, **(item if self.field == "record" else {self.field: item}), "more": "x"}

    @property
    def pairs(self) -> set[tuple[int, int]]:
        numbered = list(enumerate(self.items, 1))
        return {
            (left, right)
            for (left, one), (right, other) in combinations(numbered, 2)
            if self.is_similar(one, other)
        }


def shifted(one: Any, other: Any) -> bool:
    """Whether two are an item and its near copy, which are made so that this is clear."""
    left, right = sorted((PRINTS.index(one), PRINTS.index(other)))
    return right - left == 5


CASES = {
    "text": Case(
        ("--shingles", "word:1"),
        ("--threshold", 0.8),
        TEXTS,
        lambda one, other: len({*one.split()} & {*other.split()}) >= 7,
        "text",
    ),
    "set": Case(
        ("--kind", "set"),
        ("--threshold", 0.8),
        SETS,
        lambda one, other: jaccard(one, other) >= Fraction(4, 5),
        "set",
    ),
    "bag-sum": Case(
        ("--kind", "bag"),
        ("--threshold", 0.4),
        BAGS,
        lambda one, other: bag_jaccard_of_sums(one, other) >= Fraction(2, 5),
        "bag",
    ),
    "bag-maximum": Case(
        ("--kind", "bag:maximum"),
        ("--threshold", 0.8),
        BAGS,
        lambda one, other: bag_jaccard_of_maxima(one, other) >= Fraction(4, 5),
        "bag",
    ),
    "weighted": Case(
        ("--kind", "weighted"),
        ("--threshold", 0.8),
        WEIGHTED,
        lambda one, other: weighted_jaccard(one, other) >= Fraction(4, 5),
        "weighted",
    ),
    "hamming": Case(
        ("--kind", "bits:40"),
        ("--max-distance", 2),
        BITS,
        lambda one, other: hamming(one, other) <= 2,
        "bits",
        "distance",
    ),
    "tanimoto": Case(
        ("--kind", "bits:40:tanimoto"),
        ("--threshold", 0.9),
        BITS,
        lambda one, other: tanimoto(one, other) >= 0.9,
        "bits",
    ),
    "euclidean": Case(
        ("--kind", "vector:6:euclidean"),
        ("--max-distance", 0.1),
        VECTORS,
        lambda one, other: math.dist(one, other) <= 0.1,
        "vector",
        "distance",
    ),
    "string": Case(
        ("--kind", "string"),
        ("--max-distance", 2),
        NAMES,
        lambda one, other: oracle.edits(one, other, transposes=False) <= 2,
        "string",
        "distance",
    ),
    "fingerprint": Case(
        ("--kind", "fingerprint", "--settings", json.dumps(PRINT)),
        ("--threshold", 0.8),
        PRINTS,
        shifted,
        "fingerprint",
    ),
    "record": Case(
        ("--kind", "record", "--settings", json.dumps(RECORD)),
        ("--threshold", 0.95),
        PEOPLE,
        lambda one, other: one["town"] == other["town"],
        "record",
    ),
}

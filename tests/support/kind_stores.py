"""A case for each kind of item: its settings, made items, and what is similar by brute force."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

import simdb
from tests.support import oracle
from tests.support.similarities import (
    bag_jaccard_of_maxima,
    bag_jaccard_of_sums,
    jaccard,
    weighted_jaccard,
)


def hamming(one: Any, other: Any) -> float:
    return float(np.count_nonzero(np.asarray(one) != np.asarray(other)))


def tanimoto(one: Any, other: Any) -> Fraction:
    return jaccard(np.flatnonzero(one).tolist(), np.flatnonzero(other).tolist())


def angle(one: Any, other: Any) -> float:
    left, right = np.asarray(one, np.float64), np.asarray(other, np.float64)
    cosine = left @ right / np.sqrt((left @ left) * (right @ right))
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def euclidean(one: Any, other: Any) -> float:
    return float(np.sqrt(np.square(np.asarray(one, float) - np.asarray(other, float)).sum()))


def bit_vectors(generator: np.random.Generator) -> list[Any]:
    far = generator.integers(0, 2, (60, 96)).astype(np.uint8)
    near = far[:20].copy()
    for row in near:
        row[generator.choice(96, generator.integers(0, 9), replace=False)] ^= 1
    return [*far, *near]


def float_vectors(generator: np.random.Generator) -> list[Any]:
    far = generator.normal(size=(60, 12)).astype(np.float32)
    near = far[:20] + generator.normal(scale=0.03, size=(20, 12)).astype(np.float32)
    return [*far, *near]


def some_words(generator: np.random.Generator) -> list[Any]:
    far = ["".join(generator.choice(list("abcdeé"), length)) for length in range(2, 62)]
    near = [word[:3] + word[4:] + "ab"[: int(generator.integers(0, 3))] for word in far[:20]]
    return far + near


def some_bags(generator: np.random.Generator) -> list[Any]:
    far = [generator.integers(0, 40, 12).tolist() for _ in range(60)]
    near = [[*bag[: int(generator.integers(10, 13))], 99] for bag in far[:20]]
    return far + near


def some_weighted_sets(generator: np.random.Generator) -> list[Any]:
    far = [
        {int(element): round(generator.exponential() + 0.1, 3) for element in chosen}
        for chosen in generator.integers(0, 60, (60, 12)).tolist()
    ]
    near = [
        {element: weight * float(generator.uniform(0.8, 1.1)) for element, weight in one.items()}
        for one in far[:20]
    ]
    return far + near


PRINTS = simdb.Fingerprint(
    160, 160, square=20, alignment="shift", reach=60, sectors=4, functions=512, groups=1
)
SQUARES = simdb.Fingerprint(
    160, 160, square=10, items="squares", measure="squares", functions=2048, groups=2
)
NAMES = simdb.String(normalised=True)
PEOPLE = simdb.Record(
    fields=[
        simdb.Field("name", weight=200),
        simdb.Field("town", weight=100, equivalents=[("ny", "york")]),
    ],
    candidates=["town", simdb.Equal("name", "first:3")],
)


class Measured:
    """The measure of a kind, whose own tests hold it against a slow one."""

    def __init__(self, kind: Any) -> None:
        self.items, self.measure = kind.make_items(b"secret"), kind.make_measure()

    def among(self, items: list[Any]) -> list[Fraction]:
        """The similarities of all ``combinations_with_replacement`` of two of them."""
        features = self.items.features([self.items.encode(item) for item in items])
        compared = self.measure.compare_pairs(features, *np.triu_indices(len(items)))
        parts = compared.numerators.tolist(), compared.denominators.tolist()
        return [Fraction(above, max(1, below)) for above, below in zip(*parts, strict=True)]

    def __call__(self, one: Any, other: Any) -> Fraction:
        return self.among([one, other])[1]


def some_prints(generator: np.random.Generator) -> list[Any]:
    far = [
        np.column_stack((generator.uniform(20, 140, (30, 2)), generator.uniform(0, 360, 30)))
        for _ in range(40)
    ]
    shifts = generator.uniform(-9, 9, (14, 2))
    near = [np.add(print_, (*shift, 0)) for print_, shift in zip(far, shifts, strict=False)]
    return [[tuple(minutia) for minutia in print_.tolist()] for print_ in far + near]


def some_squares(generator: np.random.Generator) -> list[Any]:
    far = [set(np.flatnonzero(generator.random(256) < 0.3).tolist()) for _ in range(40)]
    near = [set(sorted(print_)[int(generator.integers(0, 4)) :]) for print_ in far[:14]]
    return far + near


def some_people(generator: np.random.Generator) -> list[Any]:
    names = ["".join(generator.choice(list("abcdefgh"), 9).tolist()) for _ in range(40)]
    towns = [f"town{number % 13}" for number in range(40)]
    far = [{"name": name, "town": town} for name, town in zip(names, towns, strict=True)]
    near = [{**record, "name": record["name"][:-1] + "x"} for record in far[:14]]
    return [*far, *near]


@dataclass(frozen=True, eq=False)
class Case:
    kind: Any
    settings: dict[str, Any]
    bound: dict[str, Any]
    value: Callable[[Any, Any], Any]
    items: Callable[[np.random.Generator], list[Any]]
    states_recall: bool = True

    @property
    def is_distance(self) -> bool:
        return "max_distance" in self.bound

    def similar_pairs(self, items: list[Any]) -> set[tuple[int, int]]:
        """The places of every two that are similar, the lower one first; of one with itself too."""
        if isinstance(self.value, Measured):
            values: list[Any] = self.value.among(items)
        else:
            values = [self.value(*two) for two in combinations_with_replacement(items, 2)]
        places = combinations_with_replacement(range(len(items)), 2)
        return {two for two, value in zip(places, values, strict=True) if self.meets(value)}

    def meets(self, value: Any) -> bool:
        if self.is_distance:
            return bool(value <= self.bound["max_distance"] + 1e-6)
        return bool(value >= Fraction(str(self.bound["threshold"])))


CASES = {
    "set": Case(simdb.Set(), {"threshold": 0.7}, {"threshold": 0.7}, jaccard, some_bags),
    "bag-sum": Case(
        simdb.Bag("sum"), {"threshold": 0.4}, {"threshold": 0.4}, bag_jaccard_of_sums, some_bags
    ),
    "bag-maximum": Case(
        simdb.Bag("maximum"),
        {"threshold": 0.7},
        {"threshold": 0.7},
        bag_jaccard_of_maxima,
        some_bags,
    ),
    "weighted": Case(
        simdb.WeightedSet(),
        {"threshold": 0.7},
        {"threshold": 0.7},
        weighted_jaccard,
        some_weighted_sets,
    ),
    "hamming": Case(simdb.Bits(96), {"max_distance": 8}, {"max_distance": 8}, hamming, bit_vectors),
    "tanimoto": Case(
        simdb.Bits(96, "tanimoto"), {"threshold": 0.8}, {"threshold": 0.8}, tanimoto, bit_vectors
    ),
    "cosine": Case(
        simdb.Vector(12), {"max_distance": 5}, {"max_distance": 5}, angle, float_vectors
    ),
    "euclidean": Case(
        simdb.Vector(12, "euclidean"),
        {"max_distance": 0.2},
        {"max_distance": 0.2},
        euclidean,
        float_vectors,
    ),
    "strings": Case(
        simdb.String("alignment"),
        {"max_distance": 2},
        {"max_distance": 2},
        partial(oracle.edits, transposes=True),
        some_words,
    ),
    "similar strings": Case(
        NAMES, {"threshold": 0.8}, {"threshold": 0.8}, Measured(NAMES), some_words
    ),
    "prints": Case(
        PRINTS, {"threshold": 0.4}, {"threshold": 0.4}, Measured(PRINTS), some_prints, False
    ),
    "squares": Case(
        SQUARES, {"threshold": 0.8}, {"threshold": 0.8}, Measured(SQUARES), some_squares, False
    ),
    "records": Case(
        PEOPLE, {"threshold": 0.9}, {"threshold": 0.9}, Measured(PEOPLE), some_people, False
    ),
}

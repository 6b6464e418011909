"""The one table of cases of kinds: the examples that they give, and what a store needs besides.

``ALL`` has a case for each of a kind's examples, named as the command line would name the kind;
``CASES`` those that tests of whole stores take, which have many items, and a slow measure.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from simdb import kinds
from simdb.exact.thresholds import Bound
from tests.kinds.test_a_kind_of_your_own import Interval
from tests.support import oracle
from tests.support.similarities import (
    bag_jaccard_of_maxima,
    bag_jaccard_of_sums,
    jaccard,
    weighted_jaccard,
)

Slow = Callable[[Any, Any], Any]
Drawn = Callable[[np.random.Generator], list[Any]]


# -- the obvious measures ------------------------------------------------------------------------


def words_in_common(one: str, other: str) -> Fraction:
    return jaccard(one.split(), other.split())


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


class Measured:
    """The measure of a kind, whose own tests hold it against a slow one."""

    def __init__(self, kind: kinds.Kind) -> None:
        self.items, self.measure = kind.make_items(b"secret"), kind.make_measure()

    def among(self, items: list[Any]) -> list[Fraction]:
        """The similarities of all ``combinations_with_replacement`` of two of them."""
        features = self.items.features([self.items.encode(item) for item in items])
        compared = self.measure.compare_pairs(features, *np.triu_indices(len(items)))
        parts = compared.numerators.tolist(), compared.denominators.tolist()
        return [Fraction(above, max(1, below)) for above, below in zip(*parts, strict=True)]

    def __call__(self, one: Any, other: Any) -> Fraction:
        return self.among([one, other])[1]


# -- many items, some of which are near each other -----------------------------------------------


def bit_vectors(generator: np.random.Generator) -> list[Any]:
    far = generator.integers(0, 2, (60, 40)).astype(np.uint8)
    near = far[:20].copy()
    for row in near:
        row[generator.choice(40, generator.integers(0, 4), replace=False)] ^= 1
    return [*far, *near]


def float_vectors(generator: np.random.Generator) -> list[Any]:
    far = generator.normal(size=(60, 6)).astype(np.float32)
    near = far[:20] + generator.normal(scale=0.03, size=(20, 6)).astype(np.float32)
    return [*far, *near]


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


def some_texts(generator: np.random.Generator) -> list[Any]:
    return [" ".join(f"w{element}" for element in bag) for bag in some_bags(generator)]


def some_words(generator: np.random.Generator) -> list[Any]:
    far = [
        "".join(generator.choice(list("abcdeé"), length))
        for length in [*range(2, 22), *range(10, 30), *range(10, 30)]
    ]
    near = [word[:3] + word[4:] + "ab"[: int(generator.integers(0, 3))] for word in far[:20]]
    return far + near


def some_prints(generator: np.random.Generator) -> list[Any]:
    far = [
        np.column_stack((generator.uniform(20, 140, (20, 2)), generator.uniform(0, 360, 20)))
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


# -- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """A kind under some of its settings, with its examples.

    Attributes:
        examples: what the kind gives.
        value: how two items compare, the obvious way; by default as the kind itself says.
        many: makes more items than the examples are, for those that are in ``MANY``.
    """

    examples: kinds.Examples
    value: Slow
    many: Drawn

    @property
    def kind(self) -> kinds.Kind:
        return self.examples.kind

    @property
    def items(self) -> list[Any]:
        """The examples: an item and the one near to it stand half of all apart."""
        return [*self.examples.items, *self.examples.near]

    @property
    def is_distance(self) -> bool:
        return self.kind.is_distance

    @property
    def states_recall(self) -> bool:
        return self.kind.name not in {"fingerprint", "record"}

    @property
    def bound(self) -> dict[str, Any]:
        name = "max_distance" if self.is_distance else "threshold"
        return {name: float(self.examples.bound)}

    @property
    def parsed_bound(self) -> Bound:
        bound = self.kind.parse_bound(**{"threshold": None, **self.bound})
        assert bound is not None
        return bound

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
            return bool(value <= float(self.examples.bound) + 1e-6)
        return bool(value >= Fraction(self.examples.bound))

    # -- on the command line ---------------------------------------------------------------------

    @property
    def kind_options(self) -> tuple[object, ...]:
        settings = self.kind.describe()
        return ("--kind", settings.pop("kind"), "--settings", json.dumps(settings))

    @property
    def bound_options(self) -> tuple[object, ...]:
        return ("--max-distance" if self.is_distance else "--threshold", self.examples.bound)

    @property
    def new(self) -> tuple[object, ...]:
        return (*self.kind_options, *self.bound_options)

    @property
    def measured(self) -> str:
        return "distance" if self.is_distance else "similarity"

    @cached_property
    def plain(self) -> list[Any]:
        """The examples as JSON has them."""
        items = self.kind.make_items(b"secret")
        return [self.kind.plain_item(items.decode(items.encode(item))) for item in self.items]

    def row(self, key: object, plain: Any) -> dict[str, Any]:
        """A line of a file, which holds an example and something more."""
        fields = {self.kind.name: plain} if self.kind.field_names is None else plain
        return {"id": key, **fields, "more": "x"}

    @property
    def pairs(self) -> set[tuple[int, int]]:
        """The similar pairs of the examples, by keys that count from 1."""
        half = len(self.examples.items)
        return {(place, place + half) for place in range(1, half + 1)}


MANY: dict[str, tuple[Slow | None, Drawn]] = {
    "text": (words_in_common, some_texts),
    "set": (jaccard, some_bags),
    "bag:sum": (bag_jaccard_of_sums, some_bags),
    "bag:maximum": (bag_jaccard_of_maxima, some_bags),
    "weighted": (weighted_jaccard, some_weighted_sets),
    "bits:40:hamming": (hamming, bit_vectors),
    "bits:40:tanimoto": (tanimoto, bit_vectors),
    "vector:6:cosine": (angle, float_vectors),
    "vector:6:euclidean": (euclidean, float_vectors),
    "string:alignment": (partial(oracle.edits, transposes=True), some_words),
    "string:levenshtein": (None, some_words),
    "fingerprint:160:160": (None, some_prints),
    "fingerprint:160:160, 2": (None, some_squares),
    "record": (None, some_people),
}


def cases_of(*some: type[kinds.Kind]) -> dict[str, Case]:
    """The cases of kinds, named as on the command line, numbered where that says too little."""
    cases: dict[str, Case] = {}
    for examples in (one for kind in some for one in kind.examples()):
        kind = examples.kind
        name = ":".join([kind.name, *(str(getattr(kind, one)) for one in kind.in_the_name)])
        number = sum(other.partition(",")[0] == name for other in cases)
        name += f", {number + 1}" if number else ""
        value, many = MANY.get(name, (None, lambda _, few=examples: [*few.items, *few.near]))
        cases[name] = Case(examples, value or Measured(kind), many)
    return cases


def first_of_each(cases: Mapping[str, Case]) -> list[Any]:
    """Cases as parameters, of which all but the first of each kind are marked as slow."""
    first = {case.kind.name: name for name, case in reversed([*cases.items()])}
    return [
        pytest.param(case, id=name, marks=[] if name in first.values() else [pytest.mark.slow])
        for name, case in cases.items()
    ]


ALL = cases_of(*kinds.OWN, Interval)
CASES = {name: ALL[name] for name in MANY}

"""What campaigns store: collections of every kind, random items, and what should be found.

A new kind of item needs one entry in ``SUBJECTS``. Values are what JSON can hold, so that models
travel between processes; ``item`` makes what simdb is given of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import simdb

Model = dict[str, dict[str, Any]]  # value by key, by collection
Change = tuple[str, str, list[Any]]  # collection, verb, rows or keys


def jaccard(left: Any, right: Any) -> Fraction:
    """Return the Jaccard similarity of two collections, 0 where nothing is in either."""
    one, other = set(left), set(right)
    return Fraction(len(one & other), len(one | other)) if one | other else Fraction(0)


@dataclass(frozen=True)
class Subject:
    """A collection that campaigns work on.

    Attributes:
        name: of the collection.
        kind: of its items.
        options: of ``Database.collection``.
        value: draws a value; now and then one like another.
        item: what simdb stores for a value.
        back: the value of what simdb returns.
        similarity: the true one of two values, or their distance.
        threshold: searched at, or the largest distance; every match must be found.
        is_distance: whether the collection measures distances.
        guarantee: that is sure to find them: that of an exact answer, or of rules of candidates.
    """

    name: str
    kind: Any
    options: dict[str, Any]
    value: Callable[[random.Random], Any]
    item: Callable[[Any], Any] = lambda value: value
    back: Callable[[Any], Any] = lambda item: item
    similarity: Callable[[Any, Any], Fraction] = jaccard
    threshold: Fraction = Fraction(1, 2)
    is_distance: bool = False
    guarantee: Any = "exact"

    def is_met(self, value: Fraction) -> bool:
        """Whether two items are similar enough."""
        return value <= self.threshold if self.is_distance else value >= self.threshold

    def bound(self, value: Fraction | int | None = None) -> dict[str, Any]:
        """Return a bound as simdb takes it; the subject's own by default."""
        name = "max_distance" if self.is_distance else "threshold"
        return {name: self.threshold if value is None else value}

    def matches(
        self, collection: simdb.Collection, value: Any, bound: Fraction | int | None = None
    ) -> dict[str, float]:
        """Return what a collection finds like a value, and how similar or distant it is."""
        found = collection.search(self.item(value), guarantee=self.guarantee, **self.bound(bound))
        return {str(match.key): match.value for match in found}

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether two values are as alike as can be."""
        return self.similarity(one, other) == (0 if self.is_distance else 1)


# -- values, and how similar they are ------------------------------------------------------------


def _words(generator: random.Random) -> str:
    count = generator.choice([1, 4, 12, 12, 60])
    letters = generator.choice([40, 2_000])
    return " ".join(f"w{generator.randrange(letters)}" for _ in range(count))


def _members(generator: random.Random) -> list[int]:
    universe = generator.choice([30, 5_000])
    return sorted(generator.sample(range(universe), generator.choice([1, 3, 8, 20])))


def _bag(generator: random.Random) -> list[int]:
    return sorted(generator.choices(range(generator.choice([12, 900])), k=generator.choice([2, 9])))


def _bag_similarity(left: Any, right: Any) -> Fraction:
    one, other = Counter(left), Counter(right)
    return Fraction((one & other).total(), (one | other).total())


def _near(
    generator: random.Random, count: int, most: int, changes: tuple[int, ...] = (0, 1, 3)
) -> list[int]:
    """Return one of a few rows of numbers, at few places changed, or at all."""
    drawn = random.Random(generator.randrange(6))
    row = [drawn.randrange(most) for _ in range(count)]
    for place in generator.sample(range(count), generator.choice([*changes, count])):
        row[place] = generator.randrange(most)
    return row


def _weights(generator: random.Random) -> dict[str, float]:
    """Return weights that are sums of a few powers of two, so that sums of them are exact."""
    chosen = generator.sample(range(generator.choice([12, 900])), generator.choice([0, 2, 9]))
    return {f"e{element}": generator.randrange(1, 20) / 4 for element in chosen}


def _weighted_similarity(left: Any, right: Any) -> Fraction:
    least, most = Fraction(0), Fraction(0)
    for element in left.keys() | right.keys():
        weights = left.get(element, 0), right.get(element, 0)
        least += Fraction(min(weights))
        most += Fraction(max(weights))
    return least / most if most else Fraction(0)


def _bits(generator: random.Random) -> list[int]:
    return _near(generator, 72, 2)


def _hamming(left: Any, right: Any) -> Fraction:
    return Fraction(sum(one != other for one, other in zip(left, right, strict=True)))


def _vector(generator: random.Random) -> list[int]:
    return [1 + number for number in _near(generator, 6, 7)]


def _manhattan(left: Any, right: Any) -> Fraction:
    return Fraction(sum(abs(one - other) for one, other in zip(left, right, strict=True)))


def _string(generator: random.Random) -> str:
    """Return one of a few words, edited at few places."""
    characters = [*generator.choice(["", "a", "smith, john", "garcía lorca", "petersen, knud"])]
    for _ in range(generator.choice([0, 1, 2, 5])):
        place = generator.randrange(len(characters) + 1)
        characters[place : place + generator.randrange(3)] = generator.choice(["", "é", "n", "ab"])
    return "".join(characters)


def _edits(left: Any, right: Any) -> Fraction:
    """Return the distance of the optimal string alignment, by its recurrence."""
    before: list[int] = []
    last = [*range(len(right) + 1)]
    for row, one in enumerate(left, 1):
        edits = [row]
        for column, other in enumerate(right, 1):
            least = min(last[column] + 1, edits[-1] + 1, last[column - 1] + (one != other))
            swapped = row > 1 and column > 1 and left[row - 2] == other and right[column - 2] == one
            edits.append(min(least, before[column - 2] + 1) if swapped else least)
        before, last = last, edits
    return Fraction(last[-1])


def _signature(generator: random.Random) -> list[int]:
    """Return a row that equals one of a few, or has a quarter in common with it, or nothing."""
    return _near(generator, 16, 2**32, (0, 0, 12))


def _equal_rows(left: Any, right: Any) -> Fraction:
    return Fraction(sum(map(int.__eq__, left, right)), len(left))


def _family(generator: random.Random) -> list[int]:
    """Return one of a few sets that have nothing in common, or a part too small to be like it."""
    first = 100 * generator.randrange(12)
    return [*range(first, first + generator.choice([3, 9, 9, 9]))]


def _record(generator: random.Random) -> dict[str, str]:
    number = generator.randrange(40)
    town = generator.choice(["york", "leeds", f"town{number}"])
    return {"name": f"name {number}", "town": town}


def _record_similarity(left: Any, right: Any) -> Fraction:
    """Points of equal fields: "exact" gives all or none, and candidates have the same name."""
    if left["name"] != right["name"]:
        return Fraction(0)
    return Fraction(2 + (left["town"] == right["town"]), 3)


def _squares(generator: random.Random) -> list[int]:
    return sorted(generator.sample(range(64), generator.choice([8, 20])))


def _minutiae(generator: random.Random) -> list[list[int]]:
    """Return minutiae, those of a few prints at places that are shared."""
    shared = random.Random(generator.randrange(6))
    places = shared.sample(range(80 * 80), 12)
    for number in generator.sample(range(12), generator.choice([0, 1, 4, 12])):
        places[number] = generator.randrange(80 * 80)
    return sorted([place % 80, place // 80, place % 360] for place in set(places))


def _squares_shared(left: Any, right: Any) -> Fraction:
    """Jaccard similarity of the squares of 10 by 10 that minutiae lie in."""
    return jaccard(*({(x // 10, y // 10) for x, y, _ in minutiae} for minutiae in (left, right)))


def _shifted(generator: random.Random) -> list[list[int]]:
    """Return one of a few prints, somewhere on the plate."""
    shared = random.Random(generator.randrange(12))
    places = [(place % 60, place // 60) for place in shared.sample(range(60 * 60), 12)]
    right, down = generator.randrange(40), generator.randrange(40)
    return sorted([x + right, y + down, 29 * x % 360] for x, y in places)


def _is_shifted(left: Any, right: Any) -> Fraction:
    """Whether two prints are one: others have far less in common than is asked for."""

    def at_the_corner(minutiae: Any) -> list[tuple[int, int, int]]:
        x_least, y_least = (min(minutia[axis] for minutia in minutiae) for axis in (0, 1))
        return [(x - x_least, y - y_least, direction) for x, y, direction in minutiae]

    return Fraction(at_the_corner(left) == at_the_corner(right))


@simdb.kinds.tokeniser("campaigns.words")
def _tokens(text: str) -> list[str]:
    return text.split()


# -- the table -----------------------------------------------------------------------------------

PEOPLE = simdb.Record(
    fields=[
        simdb.Field("name", weight=200, compare="exact"),
        simdb.Field("town", weight=100, compare="exact"),
    ],
    candidates=["name"],
)
SQUARES = simdb.Fingerprint(80, 80, square=10, items="squares", measure="squares", functions=64)
MINUTIAE = simdb.Fingerprint(80, 80, square=10, border=0, measure="squares", functions=64)
SHAPES = simdb.Fingerprint(100, 100, alignment="triangles", tolerance=1, groups=1, functions=64)

# Answers are exact ones, so that bands and rows matter little; to plan them would take longest.
PLANNED = {"bands": 6, "rows": 2}
CASCADE = simdb.And(2, simdb.Or(4, simdb.And(2)))

SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(
            "texts",
            simdb.Text(simdb.WordShingles(1)),
            {"threshold": 0.5, "exact_floor": 0.5, "seed": 1, "compression": "zstd", **PLANNED},
            _words,
            similarity=lambda a, b: jaccard(a.split(), b.split()),
        ),
        Subject(
            "sets",
            simdb.Set(),
            {"threshold": None, "exact_floor": 0.4, "seed": 2},
            _members,
            item=set,
            back=sorted,
        ),
        Subject(
            "bags",
            simdb.Bag("maximum"),
            {"threshold": 0.6, "exact_floor": 0.5, "seed": 3, **PLANNED},
            _bag,
            back=lambda bag: sorted(Counter(bag).elements()),
            similarity=_bag_similarity,
        ),
        Subject(
            "bits",
            simdb.Bits(72),
            {"max_distance": 4, "seed": 4, **PLANNED},
            _bits,
            back=lambda row: [int(bit) for bit in row],
            similarity=_hamming,
            threshold=Fraction(4),
            is_distance=True,
        ),
        Subject(
            "chunks of bits",
            simdb.Bits(72),
            {"max_distance": 4, "recall": 1, "seed": 15},
            _bits,
            back=lambda row: [int(bit) for bit in row],
            similarity=_hamming,
            threshold=Fraction(4),
            is_distance=True,
            guarantee="probable",
        ),
        Subject(
            "vectors",
            simdb.Vector(6, "manhattan"),
            {"max_distance": 3, "seed": 5, **PLANNED},
            _vector,
            back=lambda row: [int(number) for number in row],
            similarity=_manhattan,
            threshold=Fraction(3),
            is_distance=True,
        ),
        Subject(
            "records",
            PEOPLE,
            {"threshold": 0.6, "seed": 6},
            _record,
            back=dict,
            similarity=_record_similarity,
            threshold=Fraction(3, 5),
            guarantee="probable",
        ),
        Subject(
            "squares",
            SQUARES,
            {"threshold": 0.5, "seed": 7},
            _squares,
            item=set,
            back=sorted,
        ),
        Subject(
            "minutiae",
            MINUTIAE,
            {"threshold": 0.5, "seed": 8},
            _minutiae,
            back=lambda minutiae: sorted([int(number) for number in row] for row in minutiae),
            similarity=_squares_shared,
        ),
        Subject(
            "triangles",
            SHAPES,
            {"threshold": 0.9, "seed": 9},
            _shifted,
            back=lambda minutiae: sorted([int(number) for number in row] for row in minutiae),
            similarity=_is_shifted,
            threshold=Fraction(9, 10),
            guarantee="probable",
        ),
        Subject(
            "weighted sets",
            simdb.WeightedSet(),
            {"threshold": 0.5, "seed": 10, **PLANNED},
            _weights,
            similarity=_weighted_similarity,
        ),
        Subject(
            "strings",
            simdb.String("alignment"),
            {"max_distance": 2, "seed": 11},
            _string,
            similarity=_edits,
            threshold=Fraction(2),
            is_distance=True,
        ),
        Subject(
            "signatures",
            simdb.Signature(16),
            {"threshold": 0.5, "seed": 12, **PLANNED},
            _signature,
            back=lambda row: [int(number) for number in row],
            similarity=_equal_rows,
            guarantee="probable",
        ),
        Subject(
            "tokens",
            simdb.Text(simdb.Tokens("campaigns.words")),
            {"threshold": 0.5, "exact_floor": 0.5, "seed": 13, **PLANNED},
            _words,
            similarity=lambda a, b: jaccard(a.split(), b.split()),
        ),
        Subject(
            "cascades",
            simdb.Set(),
            {"threshold": 0.5, "recall": 0.01, "cascade": CASCADE, "seed": 14},
            _family,
            item=set,
            back=sorted,
            guarantee="probable",
        ),
    )
}

# Both indexes and compressed documents, the exact one alone, and items in blocks of their own.
STEPPED = ("texts", "sets", "vectors")
A_STORE = 6


def some(seed: int) -> list[str]:
    """Return the subjects of a store, so that all are met in a few: by turns, beside a few."""
    others = [name for name in SUBJECTS if name not in STEPPED]
    first = seed * (A_STORE - len(STEPPED))
    chosen = [others[(first + place) % len(others)] for place in range(A_STORE - len(STEPPED))]
    return [*STEPPED, *chosen]


def make(database: simdb.Database, names: Collection[str] = SUBJECTS) -> Model:
    """Make the collections of subjects and return the empty model."""
    for name in names:
        database.collection(name, SUBJECTS[name].kind, **SUBJECTS[name].options)
    return {name: {} for name in names}


def draw(generator: random.Random, model: Model) -> Change:
    """Return a random change that can be made in a model."""
    name = generator.choice(sorted(model))
    subject, known = SUBJECTS[name], model[name]
    present = sorted(known)
    choice = generator.random()
    new = f"k{generator.getrandbits(48):x}"
    if choice < 0.4 or len(present) < 4:
        return name, "add", [[new, subject.value(generator)]]
    if choice < 0.7:
        count = generator.choice([2, 10, 40])
        return name, "add_many", [[f"{new}-{i}", subject.value(generator)] for i in range(count)]
    if choice < 0.8:
        return name, "replace", [[generator.choice(present), subject.value(generator)]]
    if choice < 0.97:
        most = generator.choice([1, 5, 30])
        return name, "delete_many", generator.sample(present, min(len(present), most))
    return name, "compact", []


def apply(model: Model, change: Change) -> None:
    """Make a change in a model."""
    name, verb, rows = change
    if verb == "delete_many":
        for key in rows:
            del model[name][key]
    elif verb not in {"compact", "rebuild"}:
        model[name].update((key, value) for key, value in rows)


def copy_of(model: Model) -> Model:
    """Return a copy that changes leave alone."""
    return {name: dict(known) for name, known in model.items()}


def carry_out(database: simdb.Database, change: Change) -> None:
    """Make a change in a store."""
    name, verb, rows = change
    collection, subject = database[name], SUBJECTS[name]
    if verb in {"add_many", "add"}:
        collection.add_many([(key, subject.item(value)) for key, value in rows])
    elif verb == "replace":
        collection.replace(rows[0][0], subject.item(rows[0][1]))
    elif verb == "delete_many":
        collection.delete_many(rows)
    else:
        getattr(collection, verb)()


def contents(database: simdb.Database) -> Model:
    """Return what a store holds."""
    return {
        name: {str(record.key): subject.back(record.item) for record in database[name].items()}
        for name, subject in SUBJECTS.items()
        if name in database
    }


def differences(
    database: simdb.Database,
    model: Model,
    generator: random.Random,
    *,
    probes: int = 3,
    changed: str | None = None,
    found: Model | None = None,
) -> Iterator[str]:
    """Yield how a store differs from a model: contents, its own check, and answers.

    With ``changed``, the index of that collection alone is computed anew and asked; contents are
    always compared, and checksums of the others read. ``found`` is what it holds, if it is known.
    """
    found = found or contents(database)
    for name, known in model.items():
        if found.get(name) != known:
            yield f"{name} holds {len(found.get(name, {}))} items, not the {len(known)} expected"
            return
    asked = model if changed is None else [changed]
    checks = [database.check(deep=changed is None)]
    if changed is not None:
        checks.append(database[changed].check(deep=True))
    for problem in [problem for check in checks for problem in check.problems][:3]:
        yield f"check: {problem.table} {problem.record}: {problem.problem}"
    for name in asked:
        yield from _wrong_answers(database[name], SUBJECTS[name], model[name], generator, probes)


def _wrong_answers(
    collection: simdb.Collection,
    subject: Subject,
    known: dict[str, Any],
    generator: random.Random,
    probes: int,
) -> Iterator[str]:
    if len(collection) != len(known):
        yield f"{subject.name} counts {len(collection)} items, not {len(known)}"
    for key in generator.sample(sorted(known), min(len(known), probes)):
        value = known[key]
        found = subject.matches(collection, value)
        similar = {other: subject.similarity(value, known[other]) for other in known}
        expected = {
            other: float(share) for other, share in similar.items() if subject.is_met(share)
        }
        if found != expected:
            yield f"{subject.name} finds {len(found)} like {key}, not {len(expected)}"

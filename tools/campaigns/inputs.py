"""Bounds and items that were chosen to be hard: long decimals, extremes, expansion, collisions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import simdb
from tools.benchmarks.children import memory_watched
from tools.campaigns import children, sabotage
from tools.campaigns.registry import Run, campaign

MOST_MEMORY = 160 * 2**20  # anonymous bytes beyond those before, under a setting of MEMORY
MEMORY = 16 * 2**20

_FLOOR = Fraction(1, 1_000)

# -- bounds --------------------------------------------------------------------------------------


def _written(value: Fraction, generator: random.Random) -> Any:
    """Return a bound in one of the ways in which one writes it, and just beside it."""
    digits = generator.choice([1, 3, 12, 17, 18, 19, 25, 60])
    near = value + generator.choice([-1, 0, 0, 1]) * Fraction(1, 10**digits)
    return generator.choice(
        [near, float(near), f"{Decimal(near.numerator) / Decimal(near.denominator):f}"]
    )


def _bits(generator: random.Random) -> tuple[Any, list[Any], Callable[[Any, Any], Fraction]]:
    length = generator.choice([1, 63, 64, 65, 1_000, 16_384])
    base = generator.getrandbits(length)
    items = [base]
    for _ in range(11):
        flips = generator.randint(0, min(6, length))
        changed = base
        for place in generator.sample(range(length), flips):
            changed ^= 1 << place
        items.append(changed)

    def hamming(one: int, other: int) -> Fraction:
        return Fraction((one ^ other).bit_count())

    return simdb.Bits(length), items, hamming


def _sets(generator: random.Random) -> tuple[Any, list[Any], Callable[[Any, Any], Fraction]]:
    universe = generator.choice([4, 40, 100_000])
    size = generator.choice([1, 3, min(30, universe)])
    items = [set(generator.sample(range(universe), min(size, universe))) for _ in range(12)]

    def jaccard(one: set[int], other: set[int]) -> Fraction:
        return Fraction(len(one & other), len(one | other))

    return simdb.Set(), items, jaccard


def _meant(bound: Any) -> Fraction:
    """Return the rational that a caller has written: a float is the decimal that it shows."""
    return Fraction(str(bound)) if isinstance(bound, float) else Fraction(bound)


@campaign("bounds", "bounds of long decimals, beside every distance", short=20, long=20_000)
def bounds(run: Run) -> None:
    """Ask with hard bounds, in a child for each setting, and compare with rationals."""
    for number in range(run.count):
        if run.is_over:
            return
        seed = run.seed + number
        ending = children.answer(partial(_ask, run.work, seed, run.sabotage))
        for found in ending.answers[0] if ending.answers else [f"the child ended: {ending.how}"]:
            run.fail(f"seed {seed}: {found}")
        run.trial()
        for file in run.work.iterdir():
            file.unlink()


def _ask(folder: Path, seed: int, fault: str | None) -> list[str]:
    """Return what is wrong in the answers of one store to several bounds."""
    sabotage.plant(fault)
    generator = random.Random(seed)
    kind, items, value_of = generator.choice([_bits, _sets])(generator)
    is_distance = isinstance(kind, simdb.Bits)
    wrong = []
    with simdb.open(folder / "s.simdb", threads=1) as database:
        options: dict[str, Any] = {"threshold": None, "exact_floor": _FLOOR}
        if is_distance:
            options = {"max_distance": 1, "bands": 2, "rows": 1}
        collection = database.collection("c", kind, seed=seed, **options)
        collection.add_many(enumerate(items))
        for _ in range(8):
            value = value_of(items[0], generator.choice(items))
            bound = _written(value, generator)
            meant = _meant(bound)
            if not (0 <= meant <= kind.length if is_distance else _FLOOR <= meant <= 1):
                continue
            asked = {"max_distance" if is_distance else "threshold": bound}
            expected = {
                key
                for key, item in enumerate(items)
                if (
                    value_of(items[0], item) <= meant
                    if is_distance
                    else value_of(items[0], item) >= meant
                )
            }
            found = {match.key for match in collection.search(items[0], guarantee="exact", **asked)}
            probable = (
                {match.key for match in collection.search(items[0], min_recall=0, **asked)}
                if is_distance
                else set()
            )
            if found != expected or not probable <= expected:
                wrong.append(f"{kind}, {bound!r}: {sorted(found)}, not {sorted(expected)}")
    return wrong


# -- hostile items -------------------------------------------------------------------------------


def _large_bags(count: int) -> tuple[Any, Sequence[Any]]:
    return simdb.Bag("maximum"), [{f"a{number}": 1_000_000} for number in range(count)]


def _long_texts(count: int) -> tuple[Any, Sequence[Any]]:
    return simdb.Text(simdb.CharacterShingles(5)), [
        f"{number} " + "".join(chr(97 + (number + place) % 26) for place in range(200_000))
        for number in range(count)
    ]


def _large_sets(count: int) -> tuple[Any, Sequence[Any]]:
    return simdb.Set(), [range(number, number + 100_000) for number in range(count)]


def _equal_items(count: int) -> tuple[Any, Sequence[Any]]:
    return simdb.Text(simdb.WordShingles(1)), ["the same words"] * (300 * count)


HOSTILE = {
    "bags of large counts": _large_bags,
    "long texts": _long_texts,
    "large sets": _large_sets,
    "equal items": _equal_items,
}


@campaign(
    "hostile",
    "items that become far more than they were: memory stays within its setting",
    short=2,
    long=60,
    small_parts=False,
)
def hostile(run: Run) -> None:
    """Store, deduplicate and search so many of each in a child, and look at its memory."""
    for name, make in HOSTILE.items():
        ending = children.answer(partial(_expanded, run, make), 3_600)
        for file in run.work.iterdir():
            file.unlink()
        run.trial()
        if not ending.answers:
            run.fail(f"{name}: the child ended: {ending.how}")
            continue
        taken, sound = ending.answers[0]
        run.outcomes[f"{name}: MiB"] = taken // 2**20
        if taken > MOST_MEMORY or not sound:
            run.fail(f"{name}: {taken:,} bytes of memory, sound: {sound}")
            return


def _expanded(run: Run, make: Callable[[int], tuple[Any, Sequence[Any]]]) -> tuple[int, bool]:
    """Return how much memory was taken, and whether the store is sound and finds its items."""
    sabotage.plant(run.sabotage)
    kind, items = make(run.count)
    with (
        memory_watched() as watched,
        simdb.open(run.work / "s.simdb", threads=1, memory=MEMORY) as database,
    ):
        collection = database.collection("c", kind, threshold=0.8, exact_floor=0.5, seed=run.seed)
        collection.add_many(enumerate(items), find_duplicates=True)
        found = {match.key for match in collection.search(items[0], threshold=1, limit=10)}
        pairs = sum(1 for _, pair in zip(range(1_000), collection.pairs(0.8), strict=False))
        sound = database.check().sound and 0 in found and pairs >= 0
    return watched["peak"] - watched["before"], sound

"""The steps, on pyarrow alone, give the answers of a collection of the same recipe.

However rows are dealt to parts and cut into batches: both are varied, since a fault may show only
where a batch has several groups, or a group several batches.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simdb
from simdb.errors import BadItemError, ConfigurationError, UsageError
from simdb.steps import signing
from simdb.steps.reference import Reference
from tests.support.kind_cases import CASES

CUTS = [(1, 100), (3, 7), (24, 10_000)]
UNSERVED = "string"
SLOW = ("fingerprint:160:160",)  # of which there is another
SERVED = {
    name: case for name, case in CASES.items() if not name.startswith(UNSERVED) and name not in SLOW
}
every_kind = pytest.mark.parametrize(
    ("name", "exact"),
    [
        (name, exact)
        for name, case in SERVED.items()
        for exact in (False, True)
        if case.kind.has_symbols or not exact
    ],
)
SETS = simdb.Set()


def table_of(kind, items, first=0):
    """Items as they come back from a store."""
    forms = kind.make_items(bytes(32))
    plain = [kind.plain_item(forms.decode(forms.encode(item))) for item in items]
    column = pa.array(plain) if kind.name != "weighted" else weighted_column(plain)
    return pa.table({"number": np.arange(first, first + len(items)), "item": column})


def weighted_column(plain):
    pairs = [[(element, weight) for element, weight in item] for item in plain]
    return pa.array(pairs, pa.map_(pa.int64(), pa.float64()))


def pairs_of(answer):
    return sorted((min(p.left, p.right), max(p.left, p.right), p.value) for p in answer)


def dropped_by(collection, items):
    """What ``dedupe`` of a collection drops."""
    told: list[simdb.Outcome] = []
    collection.dedupe(enumerate(items), outcomes=told.extend)
    return sorted(
        (one.row, one.duplicate_of, one.distance if one.similarity is None else one.similarity)
        for one in told
        if one.action == "duplicate"
    )


@every_kind
def test_answers_are_those_of_a_collection(tmp_path, name, exact):
    case = SERVED[name]
    random = np.random.default_rng(3)
    items = case.many(random)
    items = [*items[:25], *items[-14:]]  # which are near some of those
    items += [items[place] for place in random.integers(0, len(items), 12)]
    options = {**case.bound, **({"recall": 0.99} if name == "bits:40:hamming" else {})}
    guarantee: Any = "exact" if exact else "probable"
    table = table_of(case.kind, items)
    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as db:
        collection = db.collection("c", case.kind, **options)
        collection.add_many(enumerate(items))
        recipe = collection.recipe()
        floor = {"threshold": None, "exact_floor": options.get("threshold")} if exact else {}
        other = db.collection("d", case.kind, **{**options, **floor}, seed=2)
        if not exact:
            db.drop_collection("d")
            other = db.collection("d", recipe=recipe)
        dropped = dropped_by(other, items)
        pairs = pairs_of(collection.pairs(guarantee=guarantee))
        groups = sorted(sorted(group.keys) for group in collection.groups(guarantee=guarantee))
    assert len(pairs) > len(dropped) > 10
    # All cuts of one kind, and of each other one of them.
    ways = [*zip((True, False, True), CUTS, strict=True)]
    place = list(SERVED).index(name)
    for collapse, (parts, batch) in ways if (name, exact) == ("set", False) else [ways[place % 3]]:
        plan = Reference(recipe, exact, collapse, parts, batch, most=20)
        assert plan.pairs(table) == pairs
        assert plan.dedupe(table) == dropped
        assert plan.groups(table) == groups


def similarity(one, other):
    return Fraction(len(one & other), len(one | other)) if one | other else Fraction(0)


@settings(max_examples=12)
@given(
    st.lists(st.frozensets(st.integers(0, 12), max_size=8), max_size=25),
    st.sampled_from(CUTS),
    st.sampled_from(["1/2", "0.7", 1]),
    st.booleans(),
)
def test_exact_answers_are_those_of_comparing_all(sets, cut, threshold, collapse):
    recipe = simdb.Recipe.of(SETS, threshold=threshold, seed=1)
    least = Fraction(threshold)
    similar = {
        (left, right): float(similarity(sets[left], sets[right]))
        for left, right in combinations(range(len(sets)), 2)
        if similarity(sets[left], sets[right]) >= least
    }
    item = pa.array([sorted(one) for one in sets], pa.list_(pa.int64()))
    table = pa.table({"number": np.arange(len(sets)), "item": item})
    plan = Reference(recipe, True, collapse, cut[0], cut[1], most=3)
    assert plan.pairs(table) == [(*pair, value) for pair, value in sorted(similar.items())]
    dropped: dict[int, int] = {}
    for left, right in sorted(similar, key=lambda pair: (pair[1], pair[0])):
        if left not in dropped and right not in dropped:
            dropped[right] = left
    expected = [(row, of, similar[of, row]) for row, of in sorted(dropped.items())]
    assert plan.dedupe(table) == expected
    group = list(range(len(sets)))
    for left, right in sorted(similar):
        old, new = max(group[left], group[right]), min(group[left], group[right])
        group = [new if one == old else one for one in group]
    groups = [[n for n, one in enumerate(group) if one == first] for first in sorted(set(group))]
    assert plan.groups(table) == [one for one in groups if len(one) > 1]


@pytest.mark.parametrize("exact", [False, True])
def test_a_join_of_two_sides_is_that_of_two_collections(tmp_path, exact):
    case = CASES["text"]
    items = case.many(np.random.default_rng(5))
    left, right = [*items[::2], *items[:9]], [*items[1::2], *items[:9], *items[:5]]
    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as db:
        ones, others = (db.collection(name, case.kind, **case.bound) for name in "ab")
        ones.add_many(enumerate(left))
        others.add_many(enumerate(right, len(left)))
        joined = ones.join(others, guarantee="exact" if exact else "probable")
        expected = sorted((pair.left, pair.right, pair.value) for pair in joined)
        recipe = others.recipe()
    table = table_of(case.kind, [*left, *right])
    for collapse, cut in ((True, CUTS[1]), (False, CUTS[2])):
        plan = Reference(recipe, exact, collapse, cut[0], cut[1], most=20)
        assert plan.pairs(table, boundary=len(left)) == expected
    assert len(expected) > 20


def test_a_bad_item_is_told_and_nothing_of_it_goes_on():
    recipe = simdb.Recipe.of(SETS, seed=1)
    item = pa.array([[1, 2], None, [1, 2]], pa.list_(pa.int64()))
    table = pa.table({"number": [0, 1, 2], "item": item})
    with pytest.raises(BadItemError, match="item 1: the item is null"):
        Reference(recipe).pairs(table)
    (batch,) = signing.sign(recipe, table.to_batches())
    assert batch["problem"].to_pylist() == [None, "the item is null", None]
    assert [one is None for one in batch["signature"].to_pylist()] == [False, True, False]
    (whole,) = signing.encode(recipe, table.to_batches())
    assert whole["number"].to_pylist() == [0, 2]


@pytest.mark.parametrize(
    ("recipe", "exact", "says"),
    [
        (simdb.Recipe.of(simdb.String(), max_distance=2), False, "around"),
        (simdb.Recipe.of(simdb.Bits(64), max_distance=8), False, "recall=0.99"),
        (simdb.Recipe.of(simdb.Vector(3)), False, "no probable index"),
        (simdb.Recipe.of(simdb.Vector(3)), True, "sets of symbols"),
        (simdb.Recipe.of(SETS, threshold=None, exact_floor=0.5), False, "no probable index"),
    ],
)
def test_what_is_not_served_says_so(recipe, exact, says):
    table = pa.table({"number": [0], "item": [[1]]})
    with pytest.raises(ConfigurationError, match=says):
        Reference(recipe, exact).pairs(table)


def test_steps_by_buckets_say_that_a_recipe_has_none():
    recipe = simdb.Recipe.of(SETS, threshold=None, exact_floor=0.5, seed=1)
    shared = simdb.steps.SHARED.batch(
        np.ones(2, np.int64), np.arange(2), pa.array([b"1", b"2"], pa.binary())
    )
    elements = pa.table({"number": [0], "element": [1]}).to_batches()
    for step, batches in (
        (simdb.steps.meet, [shared]),
        (simdb.steps.connect, [shared]),
        (simdb.steps.partial_minima, elements),
    ):
        with pytest.raises(ConfigurationError, match="the recipe has no probable index"):
            list(step(recipe, batches))


def test_rows_that_are_not_sorted_are_noticed():
    recipe = simdb.Recipe.of(SETS, seed=1)
    batch = simdb.steps.ENTRIES.batch(np.array([2, 1]), np.array([0, 1]))
    for step in (simdb.steps.shared, simdb.steps.meet):
        with pytest.raises(UsageError, match="sorted by 'bucket'"):
            list(step(recipe, [batch]))
        with pytest.raises(UsageError, match="sorted by 'bucket'"):
            list(step(recipe, [batch.slice(0, 1), batch.slice(1)]))


def test_a_bucket_of_too_many_is_named():
    recipe = simdb.Recipe.of(SETS, seed=1)
    signature = pa.array([bytes(192)] * 5, pa.binary())
    batch = simdb.steps.SHARED.batch(np.full(5, -1), np.arange(5), signature)
    with pytest.raises(ConfigurationError, match=r"bucket ffffffffffffffff has 5 .* 10 pairs"):
        list(simdb.steps.meet(recipe, [batch], most=9))
    short = simdb.steps.SHARED.batch(np.full(2, -1), np.arange(2), signature[:2].cast("binary"))
    wrong = short.set_column(2, "signature", pa.array([b"1", b"2"]))
    with pytest.raises(UsageError, match=r"of 1 bytes .* not the 192 of the recipe"):
        list(simdb.steps.meet(recipe, [wrong]))

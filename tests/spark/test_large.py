"""Components that go through a store on the task's disk are decided as those in memory."""

# mypy: allow-untyped-calls

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import simdb
from simdb import steps
from simdb.database import open_throwaway
from simdb.errors import UsageError
from simdb.spark import large
from simdb.steps import deciding
from simdb.steps.reference import Reference
from tests.steps.test_reference import SERVED, dropped_by, table_of


@pytest.mark.parametrize(
    ("name", "exact"), [("text", False), ("text", True), ("vector:6:euclidean", False)]
)
def test_components_that_are_cut_are_decided_by_a_store_as_in_memory(
    name, exact, monkeypatch, tmp_path
):
    case = SERVED[name]
    items = case.many(np.random.default_rng(3))
    items = [*items[:10], *items[60:70]]  # which are near those
    items += 4 * items[::7]  # components of several batches
    recipe = simdb.Recipe.of(case.kind, **case.bound, seed=1)
    plan = Reference(recipe, exact, collapse=False, parts=1, batch=8)
    table = table_of(case.kind, items)
    expected = plan.dedupe(table), plan.groups(table)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},elsewhere")
    places = []

    def opened(path, **options):
        places.append(path.parent.parent)
        return open_throwaway(path, **options)

    monkeypatch.setattr(large, "open_throwaway", opened)
    for step in ("dedupe", "groups"):
        monkeypatch.setattr(deciding, step, partial(getattr(large, step), largest=0))
    assert (plan.dedupe(table), plan.groups(table)) == expected
    assert {*places} == {tmp_path}
    assert not list(tmp_path.iterdir())


def test_a_component_of_a_recipe_with_containment_is_decided_as_its_collection_does(tmp_path):
    case = SERVED["set"]
    many = case.many(np.random.default_rng(3))
    items = [*many[:10], *many[60:70], *many[:2]]  # near copies, and copies
    recipe = simdb.Recipe.of(case.kind, **case.bound, exact_floor=0.2, containment=True, seed=1)
    with simdb.open(tmp_path / "s.simdb", threads=1, sync="batch") as db:
        dropped = dropped_by(db.collection("kept", recipe=recipe), items)
        whole = db.collection("whole", recipe=recipe)
        whole.add_many(enumerate(items))
        groups = [group.keys for group in whole.groups(guarantee="probable")]
    (encoded,) = steps.encode(recipe, table_of(case.kind, items).to_batches())
    ones, none = np.zeros(len(items), np.int64), np.full(len(items), -1)
    rows = steps.GATHERED.batch(ones, np.arange(len(items)), none, encoded["item"])
    (removed,) = large.dedupe(recipe, [rows], largest=0)
    (grouped,) = large.groups(recipe, [rows], largest=0)
    assert sorted(zip(*removed.to_pydict().values(), strict=True)) == dropped != []
    pairs = sorted((key, keys[0]) for keys in groups for key in keys)
    assert sorted(zip(*grouped.to_pydict().values(), strict=True)) == pairs != []


def test_a_component_that_is_not_sorted_is_refused():
    recipe = simdb.Recipe.of(simdb.Set(), seed=1)
    none, items = np.full(2, -1), pa.array([b"", b""])
    batch = steps.GATHERED.batch(np.zeros(2, np.int64), np.array([1, 0]), none, items)
    with pytest.raises(UsageError, match="not sorted by 'number'"):
        list(large.dedupe(recipe, [batch], largest=0))

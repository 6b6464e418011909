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
from tests.steps.test_reference import SERVED, table_of


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


def test_a_component_that_is_not_sorted_is_refused():
    recipe = simdb.Recipe.of(simdb.Set(), seed=1)
    none, items = np.full(2, -1), pa.array([b"", b""])
    batch = steps.GATHERED.batch(np.zeros(2, np.int64), np.array([1, 0]), none, items)
    with pytest.raises(UsageError, match="not sorted by 'number'"):
        list(large.dedupe(recipe, [batch], largest=0))

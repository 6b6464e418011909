"""On real data Spark gives the answers of a collection: pairs, dedupe, groups, and their values."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import simdb
import simdb.spark
from tests.steps.test_reference import dropped_by
from tests.support.spark import listed, pairs_of
from tools.benchmarks.set_data import DATA_SETS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.data,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
FILES = {one.name: one for one in DATA_SETS}
TEXTS = simdb.Text(simdb.CharacterShingles(9))


CASES = {  # files, whether exactly, partitions, adaptive execution
    "news": (("reuters21578", "newsgroups20"), False, 7, True),
    "retail": (("retail",), True, 3, False),
    "kosarak": (("kosarak",), True, 7, True),
    "mushroom": (("mushroom",), True, 3, False),
}


@pytest.mark.slow  # test_spark.py has the short form of it, of fewer rows
@pytest.mark.parametrize("name", CASES)
def test_answers_on_real_data_are_those_of_a_collection(name, spark, data_directory, tmp_path):
    names, exact, parts, adaptive = CASES[name]
    rows = [row for file in names for row in FILES[file].rows(data_directory)]
    kind = simdb.Set() if exact else TEXTS
    bound = {"threshold": None, "exact_floor": 0.8} if exact else {"threshold": 0.8}
    guarantee: Any = "exact" if exact else "probable"
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        whole = db.collection("whole", kind, **bound, seed=1)
        whole.add_many(enumerate(rows))
        pairs = pairs_of(whole.pairs(guarantee=guarantee), list(range(len(rows))))
        groups = sorted(
            (key, group.keys[0])
            for group in whole.groups(guarantee=guarantee)
            for key in group.keys
        )
        dropped = dropped_by(db.collection("kept", kind, **bound, seed=1), rows)
    assert len(pairs) >= len(dropped) > 0
    path = tmp_path / "rows.parquet"
    order = np.random.default_rng(1).permutation(len(rows))
    items = pa.array([rows[place] for place in order])
    pa.parquet.write_table(pa.table({"number": order, "item": items}), path)
    frame = spark.read.parquet(str(path)).repartition(parts)
    asked: Any = {"key": "number", "item": "item", "threshold": 0.8, "seed": 1}
    asked |= {"guarantee": guarantee, "work": str(tmp_path / "work")}
    spark.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
    assert listed(simdb.spark.dedupe(frame, kind, **asked, order="number")) == dropped
    assert listed(simdb.spark.pairs(frame, kind, **asked)) == pairs
    assert listed(simdb.spark.groups(frame, kind, **asked)) == groups
    spark.conf.unset("spark.sql.adaptive.enabled")

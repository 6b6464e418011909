"""The plans of other engines, as the page of steps has them: their pairs are a collection's."""

# mypy: allow-untyped-calls

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import simdb
from tests.docs.test_docs import NOT_RUN, PYTHON_BLOCK, ROOT
from tests.support.processes import started
from tests.support.spark import pairs_of
from tools.make_corpus import documents

COUNT, COPIES = 3_000, 40
PATIENCE = 1_200  # seconds, on a busy machine
KIND = simdb.Text()


@pytest.fixture
def expected(tmp_path: Path) -> list[Any]:
    """Write texts, and return what a collection finds in them."""
    _, texts = zip(*documents(COUNT - COPIES, seed=5), strict=True)
    texts += texts[:COPIES]
    table = pa.table({"number": range(COUNT), "item": texts})
    pa.parquet.write_table(table, tmp_path / "texts.parquet", row_group_size=500)
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", KIND, threshold=0.8, seed=1)
        collection.add_many(enumerate(texts))
        found = pairs_of(collection.pairs(guarantee="probable"), list(range(COUNT)))
    assert found
    return found


def program(engine: str, pattern: Any) -> str:
    """The block of the page that imports an engine."""
    page = (ROOT / "docs" / "steps.md").read_text()
    blocks = [found if isinstance(found, str) else found[0] for found in pattern.findall(page)]
    (block,) = [one for one in blocks if f"import {engine}" in one]
    return block


@pytest.mark.slow
def test_ray_data_finds_the_pairs_of_a_collection(expected, tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray Data: uv pip install 'ray[data]'")
    path = str(tmp_path / "texts.parquet")
    block = program("ray", NOT_RUN).replace('"texts.parquet"', repr(path))
    start = "import ray\nray.init(num_cpus=2, include_dashboard=False)\n"
    with started(sys.executable, "-W", "ignore", "-c", start + block) as process:
        try:
            said, problems = process.communicate(timeout=PATIENCE)
        finally:
            process.terminate()
    assert process.returncode == 0, problems
    assert said.splitlines()[-1] == repr(expected)


@pytest.mark.slow
def test_duckdb_finds_the_pairs_of_a_collection_in_little_memory(expected, tmp_path):
    names: dict[str, Any] = {"__name__": "duckdb"}
    exec(program("duckdb", PYTHON_BLOCK), names)
    with names["duckdb"].connect(str(tmp_path / "large.duckdb")) as db:
        db.execute("set memory_limit = '128MB'")
        items = f"read_parquet('{tmp_path / 'texts.parquet'}')"
        recipe = simdb.Recipe.of(KIND, threshold=0.8, seed=1)
        assert names["similar_pairs"](db, recipe, items) == expected

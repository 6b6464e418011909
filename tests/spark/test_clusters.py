"""The long forms: executors of their own, one of them killed, and Spark Connect."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys

import pytest

from tests.support.processes import started

PATIENCE = 1_200  # seconds, on a busy machine


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "needs", "killed"),
    [("local-cluster[2,1,1024]", "pyspark", 1), ("connect", "grpc", 0)],
)
def test_answers_are_the_stores_on_executors_of_their_own(master, needs, killed, tmp_path):
    if importlib.util.find_spec(needs) is None or shutil.which("java") is None:
        pytest.skip("needs Java 17 or later, and: uv pip install 'pyspark[connect]'")
    program = [sys.executable, "-W", "ignore", "-m", "tests.spark.cluster", str(tmp_path), master]
    with started(*program) as process:
        try:
            said, problems = process.communicate(timeout=PATIENCE)
        finally:
            process.terminate()
    assert process.returncode == 0, problems
    told = json.loads(said.splitlines()[-1])
    assert told == {"dedupe": [12, True], "pairs": [12, True], "killed": killed}

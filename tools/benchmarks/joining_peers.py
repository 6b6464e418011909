"""The peers of exact joins, each on the same sets as simdb.

They are given Python sets or texts of numbers, made outside the clock. Their answers are written
to files, to be compared pair by pair.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tools.benchmarks import stringsimjoin
from tools.benchmarks.set_data import load_symbols, pack_pairs
from tools.benchmarks.timing import repeated


def set_similarity_search(sets: str, threshold: str, pairs: str) -> dict[str, Any]:
    """SetSimilaritySearch's ``all_pairs``; once, and up to three times if that is short."""
    library = importlib.import_module("SetSimilaritySearch")
    values, offsets = load_symbols(sets)
    members, ends = values.tolist(), offsets.tolist()
    given = [set(members[start:end]) for start, end in itertools.pairwise(ends)]
    found: list[tuple[int, int, float]] = []

    def join() -> None:
        found[:] = library.all_pairs(
            given, similarity_func_name="jaccard", similarity_threshold=float(threshold)
        )

    timed = repeated(join, least=1)
    columns = np.array([pair[:2] for pair in found], np.int64).reshape(-1, 2)
    np.save(pairs, pack_pairs(columns[:, 0], columns[:, 1], len(given)))
    return {**timed, "pairs": len(found)}


def string_sim_join(python: Path | None, sets: Path, threshold: str, pairs: Path) -> dict[str, Any]:
    """py_stringsimjoin's ``jaccard_join``, run by another Python on one core.

    Returns:
        ``{"absent": ...}`` if no Python was named, or the one named has not got it.
    """
    if python is None:
        return {"absent": "py_stringsimjoin (--stringsimjoin PYTHON)"}
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # which the child inherits
    try:
        completed = subprocess.run(
            [str(python), stringsimjoin.__file__, str(sets), threshold, str(pairs)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.sched_setaffinity(0, cores)
    if completed.returncode:
        return {"absent": f"py_stringsimjoin: {python} failed"}
    answer: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    left, right = np.load(pairs)
    np.save(pairs, pack_pairs(left, right, load_symbols(sets)[1].size - 1))
    return answer

"""Exact joins of real data: the reference counts, every pair true, and an independent answer."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from tests.support.similarities import jaccard
from tools.benchmarks.set_data import DATA_SETS, DataSet

pytestmark = pytest.mark.data

LICENSES = DataSet("licenses", "text/licenses.jsonl.gz", "texts", ("0.9", "0.8"))
# Pairs from J = 0.8 and 0.9, and of identical sets, counted with the data and without simdb: sets
# of lower-cased word 3-shingles, and of the others those of 5 or more.
COUNTS = {
    "reuters21578": (591, 489, 404),
    "newsgroups20": (170, 75, 3),
    "licenses": (974, 381, 29),
    "retail": (423, 84, 84),
    "mushroom": (262_814, 45_016, 0),
    "kosarak": (481, 80, 70),
}
# Items that the peer joins in about a second, neighbours since copies often are, and the threshold.
SAMPLES = {
    "reuters21578": (range(4_000), 0.8),
    "newsgroups20": (range(1_800, 3_300), 0.8),
    "licenses": (range(500), 0.9),
    "retail": (range(4_000), 0.6),
    "mushroom": (range(250), 0.8),
    "kosarak": (range(6_000), 0.8),
}
LONG = ("reuters21578", "newsgroups20", "licenses", "retail")
MOST_CHECKED = 100


@dataclass(frozen=True)
class Stored:
    """A data set and the collection that holds it under the positions of its items."""

    data_set: DataSet
    rows: list[Any]
    collection: simdb.Collection
    known: dict[float, np.ndarray] = field(default_factory=dict)

    def pairs(self, threshold: float) -> np.ndarray:
        """The pairs of positions that an exact join finds, smaller position first, in order."""
        if threshold not in self.known:
            self.known[threshold] = self._found(threshold)
        return self.known[threshold]

    def _found(self, threshold: float) -> np.ndarray:
        answer = self.collection.pairs(threshold, guarantee="exact")
        sides = [np.empty((0, 2), np.int64)]
        for batch in answer.batches():
            keys: list[Any] = [*map(self.collection.keys_of, (batch.left, batch.right))]
            sides.append(np.array(keys, np.int64).T)
        found = np.sort(np.concatenate(sides), axis=1)
        return found[np.lexsort((found[:, 1], found[:, 0]))]


@pytest.fixture(
    scope="module",
    params=[
        # Texts, of which to read takes longest.
        pytest.param(one, marks=[pytest.mark.slow] if one.name in LONG else [])
        for one in (*DATA_SETS, LICENSES)
    ],
    ids=lambda data_set: data_set.name,
)
def stored(
    request: pytest.FixtureRequest, data_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stored]:
    data_set: DataSet = request.param
    rows = data_set.rows(data_directory)
    floor = min(0.8, SAMPLES[data_set.name][1])
    kind: simdb.Text | simdb.Set = simdb.Set()
    if data_set.kind == "texts":
        kind = simdb.Text(simdb.WordShingles(3), lowercase=True)
    path = tmp_path_factory.mktemp("data") / f"{data_set.name}.simdb"
    with simdb.open(path) as database:
        collection = database.collection("c", kind, threshold=None, exact_floor=floor, seed=1)
        assert collection.add_many(enumerate(rows)).added == len(rows)
        yield Stored(data_set, rows, collection)


def test_an_exact_join_of_a_store_has_the_reference_counts_and_true_pairs_only(stored):
    for threshold, expected in zip((0.8, 0.9, 1.0), COUNTS[stored.data_set.name], strict=True):
        found = stored.pairs(threshold)
        assert len(found) == expected
        assert (found[1:] != found[:-1]).any(axis=1).all()  # none comes twice
        exact = Fraction(str(threshold))
        for left, right in found[:: max(1, math.ceil(expected / MOST_CHECKED))].tolist():
            one, other = (stored.data_set.elements(stored.rows[place]) for place in (left, right))
            assert jaccard(one, other) >= exact


def test_an_exact_join_of_a_store_finds_what_set_similarity_search_finds(stored):
    """The peer joins a part; of the store's pairs, those within this part are held against it."""
    places, threshold = SAMPLES[stored.data_set.name]
    sample = [stored.data_set.elements(stored.rows[place]) for place in places]
    peer = importlib.import_module("SetSimilaritySearch")
    answer = peer.all_pairs(sample, similarity_func_name="jaccard", similarity_threshold=threshold)
    positions = np.sort(np.array([pair[:2] for pair in answer], np.int64), axis=1) + places.start
    expected = sorted(positions.tolist())
    assert len(expected) >= 20
    found = stored.pairs(threshold)
    inside = (found >= places.start) & (found < places.stop)
    assert found[inside.all(axis=1)].tolist() == expected

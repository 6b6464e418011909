"""A store with both indexes against a dict: any mix of changes, and every way to ask."""

from __future__ import annotations

import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import simdb
from simdb.ingest import postings as exact_indexing
from tests.support.exact_stores import join_by
from tests.support.similarities import jaccard

FLOOR = Fraction(1, 2)
KEYS = st.integers(0, 24)
# Few elements, so that many pairs are similar and some lie on the threshold.
SETS = st.sets(st.integers(0, 9), max_size=8) | st.sampled_from(
    [frozenset(range(begin, end)) for begin in (0, 1) for end in (4, 5, 8, 10)]
)
THRESHOLDS = st.sampled_from([FLOOR, Fraction(3, 5), Fraction(2, 3), Fraction(4, 5), Fraction(1)])
LIMITS = {
    (exact_indexing, "FIRST_TABLE"): 6,
    (exact_indexing, "LEAST_REPOSTED"): 2,
    (exact_indexing, "REPOSTED_PER_ITEM"): 1,
    (exact_indexing, "MEASURED_EVERY"): 2,
    (exact_indexing, "BASELINE_AFTER"): 2,
    (exact_indexing, "WORTH_IT"): 2,
    (exact_indexing, "GROWN_BY"): 4,
}


class ExactStore(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.present: dict[int, frozenset[int]] = {}
        self.before = {name: getattr(*name) for name in LIMITS}
        for (module, name), value in LIMITS.items():
            setattr(module, name, value)
        self.folder = Path(tempfile.mkdtemp())
        self.open()

    @initialize(probable=st.booleans())
    def create(self, probable: bool) -> None:
        threshold = 0.7 if probable else None
        self.db.collection("c", simdb.Set(), threshold=threshold, exact_floor=FLOOR)

    def open(self) -> None:
        self.db = simdb.open(self.folder / "s", sync="batch")

    def teardown(self) -> None:
        if "c" in self.db:
            report = self.db.check(deep=True)
            assert report.sound, report.problems
        self.db.close()
        for (module, name), value in self.before.items():
            setattr(module, name, value)
        shutil.rmtree(self.folder)

    @property
    def collection(self) -> simdb.Collection:
        return self.db["c"]

    @rule(rows=st.dictionaries(KEYS, SETS, max_size=6))
    def add(self, rows: dict[int, Any]) -> None:
        self.collection.add_many(rows.items(), on_existing="replace")
        self.present |= {key: frozenset(one) for key, one in rows.items()}

    @rule(rows=st.dictionaries(KEYS, SETS, max_size=6))
    def add_what_is_new(self, rows: dict[int, Any]) -> None:
        threshold = self.collection.threshold
        assert threshold is not None
        self.collection.add_many(rows.items(), on_existing="skip", on_duplicate="skip")
        for key, one in rows.items():
            if key not in self.present and not any(
                jaccard({*one}, {*other}) >= threshold for other in self.present.values()
            ):
                self.present[key] = frozenset(one)

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(sorted(self.present)), max_size=5))
        self.collection.delete_many(gone)
        for key in gone:
            del self.present[key]

    @rule()
    def compact(self) -> None:
        self.collection.compact()
        assert self.collection.stats()["deleted_not_yet_dropped"] == 0

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.open()

    @rule(seed=st.integers(0, 3))
    def rebuild(self, seed: int) -> None:
        self.collection.rebuild(seed=seed)

    @rule(probe=SETS, threshold=THRESHOLDS)
    def search(self, probe: Any, threshold: Fraction) -> None:
        found = self.collection.search(probe, threshold=threshold, guarantee="exact")
        similar = {key: jaccard({*probe}, {*one}) for key, one in self.present.items()}
        assert {match.key: match.similarity for match in found} == {
            key: float(value) for key, value in similar.items() if value >= threshold
        }

    @rule(threshold=THRESHOLDS, sweeps=st.booleans())
    def join(self, threshold: Fraction, sweeps: bool) -> None:
        with pytest.MonkeyPatch.context() as patch:
            join_by(patch, "sweep" if sweeps else "memory", room=12)
            pairs = list(self.collection.pairs(threshold, guarantee="exact"))
        expected = {
            frozenset((one, other)): float(jaccard({*self.present[one]}, {*self.present[other]}))
            for one in self.present
            for other in self.present
            if one < other and jaccard({*self.present[one]}, {*self.present[other]}) >= threshold
        }
        assert len(pairs) == len(expected)
        assert {frozenset((p.left, p.right)): p.similarity for p in pairs} == expected

    @rule()
    def check(self) -> None:
        report = self.db.check(deep=True)
        assert report.sound, report.problems

    @invariant()
    def length(self) -> None:
        if "c" in self.db:
            assert len(self.collection) == len(self.present)


ExactStore.TestCase.settings = settings(max_examples=10, stateful_step_count=30, deadline=None)
test_a_store_answers_exactly_whatever_was_done_to_it = ExactStore.TestCase

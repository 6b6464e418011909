"""Everything that can be done to a collection, in any order, against a dict and brute force."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import simdb
from simdb.ingest import add as loading
from simdb.ingest.rows import BATCH_ITEMS
from simdb.storage.file import log
from simdb.upkeep import rebuild as maintaining
from tests.support import oracle
from tests.support.strategies import (
    connected,
    found_groups,
    found_pairs,
    similar_pairs,
    similar_to,
    small_keys,
    small_texts,
)

WORDS = simdb.Text(simdb.WordShingles(1))
HALF = Fraction(1, 2)
# The first test below shows that this plan misses no pair of the texts that are drawn.
PLAN: dict[str, Any] = {"threshold": HALF, "bands": 60, "rows": 2}
SCHEMES = [("fast", 1), ("fast", 2), ("classical", 1)]

rows_of = strategies.lists(strategies.tuples(small_keys, small_texts), max_size=8)


@pytest.mark.parametrize(("sketch", "seed"), SCHEMES)
def test_the_plan_misses_no_pair_of_the_texts_that_are_drawn(tmp_path, sketch, seed):
    subsets = [set_ for size in range(7) for set_ in combinations("abcdef", size)]
    stored = [(number, " ".join(letters)) for number, letters in enumerate(subsets)]
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, sketch=sketch, seed=seed, **PLAN)
        collection.add_many(stored)
        assert found_pairs(collection) == similar_pairs(stored, WORDS, HALF)


class CollectionMachine(RuleBasedStateMachine):
    """A store and what it should hold: texts by key, in the order of insertion."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.simdb"
        self.model: dict[Any, str] = {}
        self.batch_items = BATCH_ITEMS
        self.rebuilt_at_once = maintaining.REBUILT_AT_ONCE
        self.log_limits = log.MOST_SEGMENTS, log.LARGEST_COMMIT
        self.open()
        self.collection = self.db.collection("c", WORDS, sketch="fast", seed=1, **PLAN)

    def open(self) -> Any:
        self.db = simdb.open(self.path, sync="batch", threads=1)

    @initialize(
        batch=strategies.sampled_from([1, 3, 10_000]),
        segments=strategies.sampled_from([1, 48]),
        logged=strategies.sampled_from([0, 3_000, 2**16]),
    )
    def choose_batches(self, batch: Any, segments: int, logged: int) -> Any:
        loading.BATCH_ITEMS = batch  # type: ignore[attr-defined]
        maintaining.REBUILT_AT_ONCE = batch
        log.MOST_SEGMENTS, log.LARGEST_COMMIT = segments, logged

    def teardown(self) -> Any:
        loading.BATCH_ITEMS = self.batch_items  # type: ignore[attr-defined]
        maintaining.REBUILT_AT_ONCE = self.rebuilt_at_once
        log.MOST_SEGMENTS, log.LARGEST_COMMIT = self.log_limits
        try:
            assert self.db.check(deep=True).sound
        finally:
            self.db.close()
            self.folder.cleanup()

    def first_similar(self, text: Any, but: Any = None) -> Any:
        for key, stored in self.model.items():
            similarity = oracle.text_similarity(text, stored, WORDS)
            if key != but and similarity >= HALF:
                return key, float(similarity)
        return None, None

    def put(self, key: Any, text: Any) -> Any:
        self.model.pop(key, None)
        self.model[key] = text

    # -- changing ----------------------------------------------------------------------------

    @rule(
        key=small_keys,
        text=small_texts,
        on_existing=strategies.sampled_from(["error", "skip", "replace"]),
        on_duplicate=strategies.sampled_from(["keep", "skip"]),
    )
    def add(self, key: Any, text: Any, on_existing: Any, on_duplicate: Any) -> Any:
        options = {"on_existing": on_existing, "on_duplicate": on_duplicate}
        if key in self.model and on_existing == "error":
            with pytest.raises(simdb.KeyExistsError):
                self.collection.add(key, text, **options)
            return
        outcome = self.collection.add(key, text, find_duplicates=True, **options)
        if key in self.model and on_existing == "skip":
            assert outcome.action == "present"
            return
        first = self.first_similar(text, but=key)
        assert (outcome.duplicate_of, outcome.similarity) == first
        if on_duplicate == "skip" and first[0] is not None:
            assert outcome.action == "duplicate"
            return
        assert outcome.action == ("replaced" if key in self.model else "added")
        self.put(key, text)

    @rule(rows=rows_of, on_existing=strategies.sampled_from(["skip", "replace"]))
    def add_many(self, rows: Any, on_existing: Any) -> Any:
        report = self.collection.add_many(rows, on_existing=on_existing)
        assert report.rows == len(rows)
        assert report.added == len({key for key, _ in rows} - set(self.model))
        for key, text in rows:
            if on_existing == "replace" or key not in self.model:
                self.put(key, text)

    @rule(rows=rows_of)
    def dedupe(self, rows: Any) -> Any:
        outcomes: list[simdb.Outcome] = []
        self.collection.dedupe(rows, on_bad="skip", outcomes=outcomes.extend)
        expected: list[Any] = []
        seen = set()
        removed: dict[Any, Any] = {}
        for key, text in rows:
            earlier = self.model.get(key, removed.get(key, text))
            if earlier != text:
                expected.append(("bad", None, None))
            elif key in seen:
                expected.append(("duplicate", key, 1.0))
            elif key in self.model:
                expected.append(("present", None, None))
                seen.add(key)
            elif (first := self.first_similar(text))[0] is not None:
                expected.append(("duplicate", *first))
                removed[key] = text
            else:
                expected.append(("added", None, None))
                self.put(key, text)
                seen.add(key)
        assert [(o.action, o.duplicate_of, o.similarity) for o in outcomes] == expected

    @rule(key=small_keys, text=small_texts)
    def replace(self, key: Any, text: Any) -> Any:
        if key in self.model:
            self.collection.replace(key, text, metadata={"text": text})
            self.put(key, text)
            assert self.collection.get(key).metadata == {"text": text}
        else:
            with pytest.raises(simdb.KeyNotFoundError):
                self.collection.replace(key, text)

    @rule(key=small_keys)
    def delete(self, key: Any) -> Any:
        if key in self.model:
            self.collection.delete(key)
            del self.model[key]
        else:
            with pytest.raises(simdb.KeyNotFoundError):
                self.collection.delete(key)

    @rule(keys=strategies.lists(small_keys, max_size=5))
    def delete_many(self, keys: Any) -> Any:
        present = set(keys) & set(self.model)
        assert self.collection.delete_many(keys, missing="skip") == len(present)
        for key in present:
            del self.model[key]

    # -- maintaining -------------------------------------------------------------------------

    @rule()
    def reopen(self) -> Any:
        self.db.close()
        self.open()
        self.collection = self.db["c"]

    @rule()
    def compact(self) -> Any:
        self.collection.compact()

    @rule(scheme=strategies.sampled_from(SCHEMES))
    def rebuild(self, scheme: Any) -> Any:
        sketch, seed = scheme
        self.collection.rebuild(sketch=sketch, seed=seed, bands=PLAN["bands"], rows=PLAN["rows"])

    # -- reading -----------------------------------------------------------------------------

    @rule(
        text=small_texts,
        threshold=strategies.sampled_from([HALF, Fraction(2, 3), Fraction(4, 5), Fraction(1)]),
        limit=strategies.sampled_from([None, 1, 3]),
    )
    def search(self, text: Any, threshold: Any, limit: Any) -> Any:
        matches = self.collection.search(text, threshold=threshold, limit=limit)
        expected = similar_to(text, self.model.items(), WORDS, threshold)[:limit]
        assert [(match.key, match.similarity) for match in matches] == expected

    @precondition(lambda self: self.model)
    @rule(threshold=strategies.sampled_from([HALF, Fraction(2, 3), Fraction(1)]))
    def pairs_and_groups(self, threshold: Any) -> Any:
        expected = similar_pairs(list(self.model.items()), WORDS, threshold)
        assert found_pairs(self.collection, threshold=threshold) == expected
        groups = connected(list(self.model), expected)
        assert found_groups(self.collection, threshold=threshold) == groups

    @rule(key=small_keys)
    def get(self, key: Any) -> Any:
        assert (key in self.collection) == (key in self.model)
        if key in self.model:
            assert self.collection.get(key).item == self.model[key]
        else:
            with pytest.raises(simdb.KeyNotFoundError):
                self.collection.get(key)

    @invariant()
    def holds_what_it_should(self) -> Any:
        assert len(self.collection) == len(self.model)
        stored = [(record.key, record.item) for record in self.collection.items()]
        assert stored == list(self.model.items())
        report = self.collection.check()
        assert report.sound, report.problems


TestCollection = CollectionMachine.TestCase
TestCollection.settings = settings(
    max_examples=max(1, settings().max_examples * 2 // 5), stateful_step_count=30, deadline=None
)

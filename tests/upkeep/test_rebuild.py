"""Rebuilding: the stored items under other settings, while others read and write."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import simdb
from simdb.kinds import vectors
from simdb.lsh import projections
from simdb.lsh.projections import derived_gaussians
from simdb.storage.collection.writer import CollectionWriter
from simdb.upkeep import rebuild as maintaining
from tests.support.strategies import SURE, cluster_corpus, found_pairs, odd_corpus, similar_pairs

WORDS = simdb.Text(simdb.WordShingles(1))


def test_a_rebuilt_collection_answers_as_one_made_so(tmp_path):
    stored = list(enumerate(odd_corpus(3, originals=15)))
    kinds = [
        simdb.Text(simdb.CharacterShingles(3), lowercase=True),
        simdb.Text(simdb.WordShingles(2), white_space="keep"),
        simdb.Text(simdb.CharacterShingles(5), unicode="NFKD"),
    ]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(stored)
        for kind in kinds:
            for threshold in ("0.5", "0.8"):
                collection.rebuild(kind, threshold=threshold, bands=40, rows=2)
                assert (collection.kind, collection.threshold) == (kind, Fraction(threshold))
                expected = similar_pairs(stored, kind, Fraction(threshold))
                assert found_pairs(collection) == expected
                assert collection.check(deep=True).sound
        assert [(record.key, record.item) for record in collection.items()] == stored
    with simdb.open(tmp_path / "s.simdb") as db:
        assert db["c"].kind == kinds[-1]
        assert found_pairs(db["c"]) == expected
        db.collection("c", kinds[-1], threshold=0.8, bands=40, rows=2)
        with pytest.raises(simdb.ConfigurationError, match="rebuild"):
            db.collection("c", WORDS, **SURE)


def test_what_is_not_given_stays_and_the_banding_is_planned_anew(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.8, recall=0.9, sketch="classical")
        before = collection.plan
        collection.rebuild(threshold=0.6)
        assert collection.threshold == Fraction(3, 5)
        assert collection.recall == Fraction(9, 10)
        assert collection.kind == WORDS
        assert collection.stats()["settings"]["sketch"] == "classical"
        assert (collection.plan.bands, collection.plan.rows) != (before.bands, before.rows)
        assert collection.plan.expected_recall(0.6) >= 0.9
        collection.rebuild(recall=0.99, sketch="fast")
        assert collection.stats()["settings"]["sketch"] == "fast"
        assert collection.threshold == Fraction(3, 5)


def test_the_banding_stays_where_nothing_that_it_was_planned_by_is_given(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        for collection in (
            db.collection("planned", simdb.Set(), threshold=0.2, row_budget=256, seed=1),
            db.collection("given", simdb.Set(), threshold=0.2, bands=90, rows=1, seed=1),
        ):
            before = collection.plan
            collection.rebuild(exact_floor=0.1)
            collection.rebuild(seed=5)
            collection.rebuild(sketch="classical")
            assert collection.plan == before
            assert collection.exact_floor == Fraction(1, 10)
        bits = db.collection("b", simdb.Bits(64), max_distance=3, bands=3, rows=20)
        bits.rebuild(seed=5)
        assert (bits.plan.bands, bits.plan.rows, bits.recall) == (3, 20, Fraction(99, 100))


def test_a_rebuild_may_take_as_many_rows_of_signature_as_there_are(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.2, row_budget=256, seed=1)
        collection.rebuild(recall=0.985)  # beyond the usual ones
        assert 128 < collection.plan.signature_rows <= 256
        assert collection.plan.expected_recall(0.2) >= 0.985
        collection.rebuild(threshold=0.5)
        assert db.collection("c", simdb.Set(), threshold=0.5, recall=0.985).plan.rows > 1
        with pytest.raises(simdb.ConfigurationError, match="128 rows"):
            collection.rebuild(threshold=0.01)
        single = db.collection("s", simdb.Set(), threshold=0.05, row_budget=3_688, seed=1)
        assert (single.plan.bands, single.plan.rows) == (90, 1)
        single.rebuild(recall=0.9)
        assert (single.plan.bands, single.plan.rows) == (45, 1)


@pytest.mark.parametrize("measure", ["cosine", "euclidean"])
def test_the_directions_of_an_index_of_vectors_are_drawn_once(tmp_path, monkeypatch, measure):
    drawn = []

    def counted(secret: bytes, shape: tuple[int, int]) -> Any:
        drawn.append(shape)
        return derived_gaussians(secret, shape)

    monkeypatch.setattr(projections, "derived_gaussians", counted)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        kind = simdb.Vector(50, measure)
        collection = db.collection("c", kind, max_distance=5)
        collection.add("a", [1.0] * 50)
        assert len(drawn) == 1
        collection.rebuild(max_distance=10)
        assert [match.key for match in collection.search([1.0] * 50)] == ["a"]
        assert len(list(collection.pairs())) == 0
        assert len(drawn) == 2
    monkeypatch.setattr(vectors, "_MOST_KEPT", 0)
    with simdb.open(tmp_path / "t.simdb", threads=1) as db:
        db.collection("c", kind, max_distance=5).add("a", [1.0] * 50)
    assert len(drawn) == 4  # which are not kept


def test_a_rebuild_lets_lower_thresholds_be_searched(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.8, seed=1)
        collection.add("a", "one two three four")
        with pytest.raises(simdb.ThresholdTooLowError, match=r"rebuild\(threshold=0.5\)"):
            collection.search("one two three", threshold=0.5)
        collection.rebuild(threshold=0.5)
        assert [match.similarity for match in collection.search("one two three")] == [0.75]


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_items_added_replaced_and_deleted_meanwhile_are_in_the_new_index(
    tmp_path, monkeypatch, at_once
):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", at_once)
    rows = [text for _, text in cluster_corpus(2, 10, 12)]
    assert len(rows) > 30
    stored: dict[Any, str] = dict(enumerate(rows[:30]))
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(stored.items())
        changes = iter([5, 20, 29])

        def change(_: Any) -> Any:
            key = next(changes, None)
            if key is None:
                return
            collection.delete(key)
            collection.replace(key - 1, rows[key])
            collection.add(f"new {key}", rows[key])
            del stored[key], stored[key - 1]
            stored[key - 1] = rows[key]
            stored[f"new {key}"] = rows[key]
            # The old index serves until the new one is whole.
            expected = similar_pairs(list(stored.items()), WORDS, Fraction(1, 2))
            assert found_pairs(collection) == expected

        collection.rebuild(seed=9, progress=change)
        expected = similar_pairs(list(stored.items()), WORDS, Fraction(1, 2))
        assert found_pairs(collection) == expected
        assert collection.check(deep=True).sound


@pytest.mark.parametrize("settings", [{}, {"exact_floor": 0.5}, {"compression": "zstd"}])
def test_a_rebuild_ends_while_others_add_all_the_time(tmp_path, monkeypatch, settings):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", 50)
    plain, rows = maintaining._signed_next, iter(odd_corpus(5, originals=200))
    keys = iter(range(1_000))

    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE, **settings)
        collection.add_many((next(keys), next(rows)) for _ in range(70))

        def signed_beside_others(*given: Any) -> Any:
            found = plain(*given)
            if not any(
                isinstance(one, CollectionWriter) for one in given
            ):  # after the snapshot, before the lock
                collection.add_many((next(keys), next(rows)) for _ in range(3))
            return found

        monkeypatch.setattr(maintaining, "_signed_next", signed_beside_others)
        collection.rebuild(seed=9)
        stored = [(entry.key, entry.item) for entry in collection.items()]
        assert len(stored) < 100
        assert found_pairs(collection) == similar_pairs(stored, WORDS, Fraction(1, 2))
        assert collection.check(deep=True).problems == ()


def test_a_rebuild_that_is_cut_off_changes_nothing_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", 10)

    def stop(_: Any) -> Any:
        raise ZeroDivisionError

    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(
            (number, text) for number, (_, text) in enumerate(cluster_corpus(2, 6, 10))
        )
        before, pairs = collection.stats()["settings"], found_pairs(collection)
        with pytest.raises(ZeroDivisionError):
            collection.rebuild(threshold=0.9, progress=stop)
        assert collection.stats()["settings"] == before
        assert found_pairs(collection) == pairs
        assert collection.check(deep=True).sound
        collection.compact()
        assert collection.check(deep=True).sound
        collection.rebuild(threshold=0.9)
        assert found_pairs(collection) == {k: s for k, s in pairs.items() if s >= 0.9}


@pytest.mark.parametrize("groups", [None, "chain"])
def test_the_progress_of_a_rebuild_ends_with_all_items(tmp_path, monkeypatch, groups):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", 4)
    told: list[simdb.Progress] = []
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", WORDS, **SURE, groups=groups)
        collection.add_many((n, f"item {n}") for n in range(10))
        collection.rebuild(seed=9, progress=told.append)
    signed = [step.done for step in told if step.task == "signing"]
    assert signed[:2] == [4, 8]
    assert signed[-1] == 10


def test_a_rebuild_of_a_dropped_collection_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", 5)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, f"word{number}") for number in range(12))
        with pytest.raises(simdb.SimdbError) as caught:
            collection.rebuild(threshold=0.9, progress=lambda _: db.drop_collection("c"))
        assert not isinstance(caught.value, simdb.CorruptionError)
        assert db.check().sound


def test_where_keys_come_from_may_be_noted_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", 2)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Set(), seed=1)
        collection.add_many((number, {number, 1}) for number in range(6))
        collection.rebuild(
            threshold=0.6, progress=lambda _: collection.note_key_source("the field 'id'")
        )
        settings = collection.stats()["settings"]
        assert settings["key_sources"] == ["the field 'id'"]
        assert collection.threshold == Fraction(3, 5)


def test_settings_that_cannot_be_are_refused_before_anything_is_done(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add("a", "b")
        for wrong in (
            {"threshold": 0},
            {"recall": 1.5},
            {"bands": 10_000, "rows": 10_000},
            {"sketch": "slow"},
            {"seed": "x"},
        ):
            with pytest.raises(simdb.ConfigurationError):
                collection.rebuild(**wrong)
        assert collection.check().sound
        assert [match.key for match in collection.search("b")] == ["a"]


def test_nothing_is_kept_in_memory_of_what_is_gone(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        caches = database._handle.environment.caches
        other = database.create_collection("other", simdb.Set(), threshold=0.5, seed=1)
        other.add_many((number, range(number, number + 9)) for number in range(50))
        assert other.search(range(9)).matches
        others = set(caches.owned)
        assert {name for name, *_ in others} >= {"view", "state"}
        for end in ("drop", "rebuild"):
            made = database.create_collection(end, simdb.Set(), threshold=0.5, seed=1)
            made.add_many((number, range(number, number + 9)) for number in range(50))
            for _ in range(2):
                assert made.search(range(9)).matches
                assert made.pairs().count()
            kept = set(caches.owned) - others
            assert {name for name, *_ in kept} >= {"view", "state", "blocks"}
            assert others <= caches.keys()
            if end == "drop":
                database.drop_collection("drop")
                assert not kept & caches.keys()
            else:
                made.rebuild(threshold=0.6)
                assert not {name for name in kept if name[0] == "view"} & caches.keys()
            assert others <= caches.keys()


@pytest.mark.parametrize("how", ["add_many", "dedupe"])
@pytest.mark.parametrize(("old", "new"), [("0.4", "0.6"), ("0.6", "0.4")])
def test_duplicates_are_found_within_the_bound_that_a_rebuild_gave_meanwhile(
    tmp_path, how, old, new
):
    """Nobody gave another; one that was given holds, or is refused."""
    told: list[simdb.Outcome] = []

    def rows(end: int) -> Iterator[tuple[str, list[int]]]:
        yield f"x{end}", [1, 2, 3, 4]
        collection.rebuild(threshold=new)

    def stored(end: int, **given: Any) -> None:
        if how == "dedupe":
            collection.dedupe(rows(end), outcomes=told.extend, **given)
        else:
            collection.add_many(rows(end), find_duplicates=True, outcomes=told.extend, **given)

    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.create_collection("c", simdb.Set(), threshold=old)
        collection.add("half of it", [1, 2])
        stored(1)
        assert told[0].duplicate_of == (None if new == "0.6" else "half of it")
        collection.delete_many(["x1"], missing="skip")
        collection.rebuild(threshold=old)
        told.clear()
        if new == "0.6":
            with pytest.raises(simdb.ThresholdTooLowError, match=r"threshold 0\.5 is below 0\.6"):
                stored(2, threshold="0.5")
        else:
            stored(2, threshold="0.6")
            assert told[0].duplicate_of is None


@pytest.mark.parametrize("planned", [{}, {"max_distance": 50}])
def test_a_rebuild_names_the_item_that_does_not_fit_the_new_settings(tmp_path, planned):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Vector(2, "euclidean"), threshold=None)
        collection.add_many([("one", [1, 0]), ("none", [0, 0])])
        told = "do not fit .*measure is 'euclidean', not 'cosine'.; key 'none': .* no angle"
        with pytest.raises(simdb.ConfigurationError, match=told):
            collection.rebuild(simdb.Vector(2), **planned)
        assert collection.kind == simdb.Vector(2, "euclidean")
        assert db.check(deep=True).sound
        collection.delete("none")
        collection.rebuild(simdb.Vector(2), **planned)
        assert [match.key for match in collection.search([2, 0], max_distance=1)] == ["one"]


def test_a_rebuild_says_that_a_stored_item_is_damaged_where_it_is(tmp_path, monkeypatch):
    def damaged(*_: Any) -> None:
        raise simdb.CorruptionError("a stored vector cannot be read")

    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Vector(2, "euclidean"), threshold=None)
        collection.add("one", [1, 0])
        monkeypatch.setattr(vectors.VectorItems, "features", damaged)
        with pytest.raises(simdb.CorruptionError, match="cannot be read"):
            collection.rebuild(simdb.Vector(2))

"""Exact search of a store against brute force in fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec.structs import replace

import simdb
from simdb.answers.exact.method import Exact
from simdb.errors import ConfigurationError, ThresholdTooLowError
from simdb.exact.measures import SetSimilarity
from simdb.exact.thresholds import Threshold
from simdb.work import Work
from tests.support import oracle
from tests.support.exact_oracle import similarity
from tests.support.exact_stores import (
    FLOOR,
    SERVED,
    corpus,
    exact_store,
    matches_of,
    small_epochs,
)


@pytest.mark.parametrize("seed", range(6))
def test_search_finds_what_brute_force_finds(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_epochs(monkeypatch)
    threshold = SERVED[seed * 7 % len(SERVED)]
    sets: list[set[int] | None] = [*corpus(seed, threshold)]
    generator = random.Random(seed)
    with exact_store(tmp_path / "s") as collection:
        half = len(sets) // 2
        collection.add_many(list(enumerate(sets[:half])))
        for key in range(half, len(sets)):
            collection.add(key, sets[key])
        for key in generator.sample(range(len(sets)), 6):
            collection.delete(key)
            sets[key] = None
        changed = generator.randrange(len(sets))
        collection.add(changed, {1, 2, 3}, on_existing="replace")
        sets[changed] = {1, 2, 3}
        for _ in range(2):
            for probe in [*sets[::3], {1, 2, 3, 4}]:
                if probe is None:
                    continue
                expected = matches_of(sets, probe, threshold)
                found = collection.search(probe, threshold=threshold)
                assert {match.key: match.similarity for match in found} == {
                    key: float(value) for key, value in expected.items()
                }
                assert (found.guarantee, found.expected_recall) == ("exact", 1.0)
                ranks = [-match.value for match in found]
                assert ranks == sorted(ranks)
            collection.compact()


def test_the_best_are_exact_down_to_the_floor(tmp_path: Path) -> None:
    sets = corpus(9, Fraction(1, 2))
    with exact_store(tmp_path / "s") as collection:
        collection.add_many(list(enumerate(sets)))
        for probe in sets[::5]:
            expected = matches_of([*sets], probe, FLOOR)
            best = sorted(expected, key=lambda key: (-expected[key], key))[:3]
            found = collection.search(probe, limit=3)
            assert [match.key for match in found] == best


def test_a_threshold_below_the_floor_is_refused_and_the_remedy_named(tmp_path: Path) -> None:
    with exact_store(tmp_path / "s", floor=0.7) as collection:
        assert (collection.threshold, collection.exact_floor) == (Fraction(7, 10),) * 2
        with pytest.raises(ThresholdTooLowError, match=r"rebuild\(exact_floor=0\.69\)"):
            collection.search({1}, threshold=0.69)
        collection.add(1, {1, 2})
        assert len(collection.search({1}, threshold=0.5, guarantee="exact")) == 1  # all compared
        with pytest.raises(ConfigurationError, match="no probable index"):
            collection.search({1}, guarantee="probable")
        with pytest.raises(ConfigurationError, match="no probable index"):
            _ = collection.plan


def test_auto_takes_exact_where_it_serves_and_probable_where_only_that_does(
    tmp_path: Path,
) -> None:
    with simdb.open(tmp_path / "s") as db:
        both = db.collection("both", simdb.Set(), threshold=0.5, exact_floor=0.7)
        both.add("a", {1, 2, 3})
        assert both.search({1, 2, 3}, threshold=0.7).guarantee == "exact"
        assert both.search({1, 2, 3}).guarantee == "probable"
        assert both.search({1, 2, 3}, threshold=0.2, min_recall=0.01).guarantee == "probable"
        assert both.search({1, 2, 3}, threshold=0.7, guarantee="probable").guarantee == "probable"
        assert both.search({1, 2, 3}, threshold=0.6, guarantee="exact").guarantee == "exact"


@pytest.mark.parametrize("measure", list(SetSimilarity))
@pytest.mark.parametrize("containment", [False, True])
def test_other_measures_are_exact_with_an_index_that_serves_or_without(
    measure: SetSimilarity, containment: bool, tmp_path: Path
) -> None:
    threshold = Fraction(4, 5)
    sets = corpus(5, Fraction(1, 2), 60)
    with exact_store(tmp_path / "s", floor=0.6, containment=containment) as collection:
        collection.add_many(list(enumerate(sets)))
        of_all = (SetSimilarity.PROBE_IN_STORED, SetSimilarity.OVERLAP)  # symbols
        serves = containment or measure not in of_all
        told = collection.explain("search", threshold=threshold, measure=measure)
        assert told.chosen.method == ("exact" if serves else "scan")
        least = threshold**2 if measure is SetSimilarity.COSINE else threshold
        for probe in sets[::4]:
            expected = {
                key
                for key, one in enumerate(sets)
                if one & probe
                and similarity(measure, len(one & probe), len(probe), len(one)) >= least
            }
            found = collection.search(probe, threshold=threshold, measure=measure)
            assert {match.key for match in found} == expected


def test_an_index_of_all_symbols_serves_every_threshold(tmp_path: Path) -> None:
    sets = corpus(6, Fraction(1, 2))
    with exact_store(tmp_path / "s", floor=0.6, containment=True) as collection:
        collection.add_many(list(enumerate(sets)))
        for low in (Fraction(1, 20), Fraction(1, 10**12)):
            for probe in sets[::6]:
                expected = matches_of([*sets], probe, low)
                found = collection.search(probe, threshold=low, guarantee="exact")
                assert {match.key for match in found} == set(expected)


def test_an_unknown_measure_is_refused(tmp_path: Path) -> None:
    with (
        exact_store(tmp_path / "s") as collection,
        pytest.raises(ConfigurationError, match="'jaccard', 'dice'"),
    ):
        collection.search({1}, measure="hamming")


def test_texts_are_searched_exactly_by_their_shingles(tmp_path: Path) -> None:
    generator = random.Random(3)
    words = [f"word{number}" for number in range(12)]
    texts = [" ".join(generator.choices(words, k=generator.randint(0, 9))) for _ in range(80)]
    for name, kind in (
        ("words", simdb.Text(simdb.WordShingles(2))),
        ("characters", simdb.Text(simdb.CharacterShingles(4))),
    ):
        with simdb.open(tmp_path / name) as db:
            collection = db.collection("t", kind, exact_floor=0.5)
            collection.add_many(list(enumerate(texts)))
            for text in texts[::5]:
                expected = {
                    key: float(oracle.text_similarity(text, other, kind))
                    for key, other in enumerate(texts)
                    if oracle.shingle_set(text, kind)
                    and oracle.text_similarity(text, other, kind) >= Fraction(1, 2)
                }
                found = collection.search(text, threshold=0.5)
                assert {match.key: match.similarity for match in found} == expected
            assert db.check(deep=True).sound


def test_a_search_compares_the_items_that_the_bounds_leave_and_no_other(tmp_path: Path) -> None:
    sets = corpus(11, Fraction(3, 5), 400)
    with exact_store(tmp_path / "s", floor=0.6) as collection:
        collection.add_many(list(enumerate(sets)))
        with collection._opened() as opened:
            met = candidates = verified = 0
            for probe in sets[:100]:
                anew = replace(opened, work=Work())
                item = opened.signer.items.encode(probe)
                found = Exact(Threshold.parse(0.6)).search(anew, item, None)
                work = anew.work
                assert len(found) <= work.compared <= work.candidates <= work.looked_at
                met += sum(bool(probe & stored) for stored in sets)
                candidates += work.candidates
                verified += work.compared
    assert verified == candidates < met / 4


def test_a_snapshot_answers_of_its_own_state(tmp_path: Path) -> None:
    with exact_store(tmp_path / "s") as collection:
        collection.add(1, {1, 2})
        with simdb.open(tmp_path / "s", sync="batch") as db, db.snapshot() as state:
            collection.delete(1)
            collection.add(2, {1, 2})
            collection.compact()
            assert [match.key for match in state["sets"].search({1, 2})] == [1]
        assert [match.key for match in collection.search({1, 2})] == [2]


def test_searching_for_an_empty_set_finds_nothing(tmp_path: Path) -> None:
    with exact_store(tmp_path / "s") as collection:
        collection.add_many([(1, set()), (2, {5})])
        assert not collection.search(set())
        assert [match.key for match in collection.search({5})] == [2]


def test_a_memory_setting_beyond_all_memory_takes_no_more_than_there_is(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1, memory=2**45) as db:
        collection = db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5)
        collection.add_many((n, {n // 2, n // 2 + 1, 1_000}) for n in range(300))
        assert collection.pairs().count() > 150
        assert len(collection.groups()) == 1

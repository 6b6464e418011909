"""Search against brute force: true similarities, no false positive, recall as the S-curve says."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest

import simdb
from tests.support.grids import some_of
from tests.support.strategies import (
    KINDS,
    SURE,
    cluster_corpus,
    connected,
    found_groups,
    found_pairs,
    near_copy,
    odd_corpus,
    odd_text,
    pair_of_similarity,
    set_text,
    similar_pairs,
    similar_to,
)

WORDS = simdb.Text(simdb.WordShingles(1))


def answer(matches: Any) -> Any:
    return [(match.key, match.similarity) for match in matches]


@pytest.mark.parametrize("kind", some_of(KINDS, 13), ids=lambda kind: str(KINDS.index(kind)))
def test_search_pairs_and_groups_equal_brute_force_under_every_setting(tmp_path, kind):
    number = KINDS.index(kind)
    stored = list(enumerate(odd_corpus(number)))
    threshold = Fraction(1, 2)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", kind, **SURE)
        collection.add_many(stored)
        for _, text in stored:
            matches = collection.search(text)
            assert answer(matches) == similar_to(text, stored, kind, threshold)
        generator = random.Random(number)
        foreign = [near_copy(generator, text, 2) for _, text in stored]
        for text, matches in zip(foreign, collection.search_many(foreign), strict=True):
            assert answer(matches) == similar_to(text, stored, kind, threshold)
        expected = similar_pairs(stored, kind, threshold)
        assert found_pairs(collection) == expected
        assert found_groups(collection) == connected([key for key, _ in stored], expected)


@pytest.mark.parametrize("sketch", ["fast", "classical"])
@pytest.mark.parametrize(
    "threshold", [Fraction(1, 2), Fraction(7, 10), Fraction(9, 10), Fraction(1)]
)
def test_pairs_exactly_on_the_threshold_are_found_and_pairs_just_below_are_not(
    tmp_path, sketch, threshold
):
    generator = random.Random(5)
    stored = []
    for number in range(40):
        union = 20 * generator.randint(1, 3)
        similarity = threshold - Fraction(number % 2, union)
        texts = pair_of_similarity(generator, similarity, union, 1_000 * number)
        stored += [(f"{number} left", texts[0]), (f"{number} right", texts[1])]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection(
            "c", WORDS, threshold=threshold, bands=40, rows=2, sketch=sketch, seed=3
        )
        collection.add_many(stored)
        expected = {
            (f"{number} left", f"{number} right"): float(threshold) for number in range(0, 40, 2)
        }
        assert found_pairs(collection) == expected
        assert found_pairs(collection, threshold=str(threshold)) == expected
        for number in range(40):
            keys = [match.key for match in collection.search(stored[2 * number][1])]
            other = [f"{number} right"] * (number % 2 == 0)
            assert sorted(keys) == sorted([f"{number} left", *other])


def test_a_threshold_given_as_float_is_the_decimal_number_that_it_prints_as(tmp_path):
    left, right = pair_of_similarity(random.Random(1), Fraction(7, 10), 10, 0)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add("left", left)
        for threshold in (0.7, "0.7", "7/10", Fraction(7, 10), np.float64(0.7)):
            assert len(collection.search(right, threshold=threshold)) == 1
        assert not collection.search(right, threshold=0.7000000000000001)


def test_limit_is_the_best_matches_at_the_threshold_and_equal_ones_in_order_of_insertion(tmp_path):
    generator = random.Random(8)
    original = odd_text(generator, 30)
    texts = [near_copy(generator, original, generator.randrange(20)) for _ in range(40)]
    texts += [original] * 5
    generator.shuffle(texts)
    kind = KINDS[0]
    stored = list(enumerate(texts))
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", kind, **SURE)
        collection.add_many(stored)
        expected = similar_to(original, stored, kind, Fraction(1, 2))
        assert 8 < len(expected) < 45
        for limit in (1, 4, 5, 6, len(expected), 1_000):
            assert answer(collection.search(original, limit=limit)) == expected[:limit]
        few = similar_to(original, stored, kind, Fraction(8, 10))
        assert answer(collection.search(original, limit=40, threshold=0.8)) == few
        two: Any = np.int64(2)
        assert answer(collection.search(original, limit=two)) == expected[:2]


def test_an_item_without_shingles_is_similar_to_nothing_not_even_itself(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many([(1, ""), (2, ""), (3, " .,"), (4, "word")])
        assert [list(matches) for matches in collection.search_many(["", "..."])] == [[], []]
        assert not list(collection.pairs())
        assert len(collection.groups()) == 0
        assert not collection.search("word")[1:]
        assert len(collection) == 4


def test_search_in_an_empty_collection_finds_nothing(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS)
        assert list(collection.search("anything")) == []
        assert collection.search_many([]) == []


def test_answers_state_their_guarantee_and_the_recall_of_the_plan_at_the_threshold(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.8, recall=0.95)
        collection.add("a", "some words")
        for asked in ("auto", "probable"):
            matches = collection.search("some words", guarantee=asked)
            assert matches.guarantee == "probable"
            assert 0.95 <= matches.expected_recall < 1
            assert matches.expected_recall == collection.plan.expected_recall(Fraction(4, 5))
            pairs = collection.pairs(guarantee=asked)
            assert (pairs.guarantee, pairs.expected_recall) == ("probable", matches.expected_recall)
        groups = collection.groups(0.9)
        assert groups.guarantee == "probable"
        assert groups.expected_recall == collection.plan.expected_recall(Fraction(9, 10))
        assert collection.search("x", threshold=1).expected_recall == 1.0
        assert collection.recall == Fraction(95, 100)
        assert collection.threshold == Fraction(4, 5)


def test_below_its_threshold_a_collection_refuses_and_names_rebuild_unless_permitted(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.8)
        collection.add("a", "one two three four")
        lower = Fraction(1, 2)
        expected = collection.plan.expected_recall(lower)
        for ask in (
            lambda **options: collection.search("one two", threshold=0.5, **options),
            lambda **options: collection.search_many(["one two"], threshold=0.5, **options),
            lambda **options: collection.pairs(0.5, **options),
            lambda **options: collection.groups(0.5, **options),
        ):
            with pytest.raises(simdb.ThresholdTooLowError, match=r"rebuild\(threshold=0.5\)"):
                ask()
            with pytest.raises(simdb.ThresholdTooLowError, match="rebuild"):
                ask(min_recall=expected + 0.01)
            answered = ask(min_recall=expected - 0.01)
            if isinstance(answered, simdb.Answers):
                answered = answered[0]
            assert answered.expected_recall == expected
        with pytest.raises(simdb.ThresholdTooLowError, match="rebuild"):
            collection.add("b", "one", find_duplicates=True, threshold=0.7)
        with pytest.raises(simdb.ThresholdTooLowError, match="rebuild"):
            collection.dedupe([], threshold=0.7)
        # What the message proposes works.
        permitted = int(expected * 100) / 100
        collection.search("one", threshold=0.5, min_recall=permitted)


def test_a_recall_that_is_permitted_refuses_nothing_that_is_answered_without_it(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        vectors = db.collection("v", simdb.Vector(2), max_distance=5)
        vectors.add("a", [1, 0])
        weighted = db.collection("w", simdb.WeightedSet())
        weighted.add("a", {"x": 1.0})
        ridges = db.collection("f", simdb.Fingerprint(160, 160), threshold=0.8)
        ridges.add("a", [(1, 2, 3), (30, 40, 50), (60, 20, 9)])
        cases: list[tuple[simdb.Collection, dict[str, Any], float]] = [
            (vectors, {"max_distance": 60}, 0.001),
            (weighted, {"threshold": 0.2}, 0.5),
            (ridges, {"threshold": 0.3}, 0),
        ]
        for collection, bound, lacking in cases:
            item = collection.get("a").item
            for recall in (None, lacking):
                one = collection.search(item, min_recall=recall, **bound)
                (same,) = collection.search_many([item], min_recall=recall, **bound)
                assert [match.key for match in one] == [match.key for match in same] == ["a"]
                for found in (one, same):
                    assert (found.guarantee, found.expected_recall) == ("exact", 1)
        # What the index finds is enough where so little is asked for.
        assert vectors.search([1, 0], max_distance=60, min_recall=0).guarantee == "probable"
        assert weighted.search({"x": 1}, threshold=0.2, min_recall=1e-9).guarantee == "probable"
        with pytest.raises(simdb.ThresholdTooLowError, match=r"less than the 0\.5 asked for"):
            vectors.pairs(max_distance=60, min_recall=0.5)


@pytest.mark.parametrize("threshold", [Fraction(1, 5), Fraction(1, 2), Fraction(4, 5)])
@pytest.mark.parametrize(
    "kind", [WORDS, simdb.Set(), simdb.Bag(union="maximum")], ids=lambda kind: kind.name
)
def test_an_exact_search_without_an_exact_index_compares_with_all_items(tmp_path, kind, threshold):
    texts = [text for _, text in cluster_corpus(5, 6, 8)] + ["", " "]
    stored = [text if kind is WORDS else text.split() for text in texts]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", kind, threshold=0.9)
        collection.add_many(enumerate(stored))
        exact = db.collection("e", kind, threshold=None, exact_floor=0.1)
        exact.add_many(enumerate(stored))
        for item in (*stored[:12], *stored[-2:]):
            found = collection.search(item, threshold=threshold, guarantee="exact")
            assert (found.guarantee, found.expected_recall) == ("exact", 1.0)
            assert list(found) == list(exact.search(item, threshold=threshold))
            assert list(found)[:3] == list(
                collection.search(item, threshold=threshold, guarantee="exact", limit=3)
            )


def test_a_guarantee_or_measure_that_nothing_gives_is_refused(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS)
        with pytest.raises(simdb.ConfigurationError, match="no probable index for dice"):
            collection.search("x", guarantee="probable", measure="dice")
        with pytest.raises(simdb.ConfigurationError, match="guarantee"):
            collection.search("x", guarantee="certain")  # type: ignore[arg-type]


@pytest.mark.parametrize("sketch", ["fast", "classical"])
def test_recall_by_similarity_is_what_the_s_curve_says(tmp_path, sketch):
    """Found pairs of each similarity lie within 4.5 standard deviations of the binomial.

    Sets of 40 words; 250 pairs at each of six similarities, on both sides of the threshold.
    """
    generator = random.Random(11)
    tried = 250
    similarities = [Fraction(number, 40) for number in (20, 24, 28, 30, 32, 36)]
    stored = []
    for bin_number, similarity in enumerate(similarities):
        for number in range(tried):
            first = 100 * (bin_number * tried + number)
            pair = pair_of_similarity(generator, similarity, 40, first)
            stored += [((bin_number, number, side), text) for side, text in enumerate(pair)]
    numbered = [(number, text) for number, (_, text) in enumerate(stored)]
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, threshold=0.8, sketch=sketch, seed=2)
        collection.add_many(numbered)
        found = [0] * len(similarities)
        for found_pair in collection.pairs(0.5, min_recall=0):
            left, right = (stored[int(key)][0] for key in (found_pair.left, found_pair.right))
            assert left[:2] == right[:2]
            assert found_pair.similarity == float(similarities[left[0]])
            found[left[0]] += 1
        searched = [0] * len(similarities)
        probes = [number for number, (name, _) in enumerate(stored) if name[2] == 0]
        texts = [stored[number][1] for number in probes]
        answers = collection.search_many(texts, threshold=0.5, min_recall=0)
        for number, matches in zip(probes, answers, strict=True):
            searched[stored[number][0][0]] += number + 1 in [match.key for match in matches]
        assert searched == found
        for count, similarity in zip(found, similarities, strict=True):
            chance = 1 - (1 - float(similarity) ** 6) ** 16
            deviation = sqrt(tried * chance * (1 - chance))
            assert abs(count - tried * chance) <= 4.5 * deviation + 1, similarity


def test_every_similarity_of_a_low_recall_plan_is_true(tmp_path):
    """No false positive and no wrong number, also where buckets are full of unlike items."""
    stored = [(number, text) for number, (_, text) in enumerate(cluster_corpus(3, 6, 12))]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, threshold=0.7, bands=3, rows=1, seed=4)
        collection.add_many(stored)
        expected = similar_pairs(stored, WORDS, Fraction(7, 10))
        found = found_pairs(collection)
        assert found.items() <= expected.items()
        assert len(found) > len(expected) / 2
        for _, text in stored:
            truth = similar_to(text, stored, WORDS, Fraction(7, 10))
            matches = answer(collection.search(text))
            assert set(matches) <= set(truth)
            assert matches == [match for match in truth if match in matches]


def test_search_counts_the_items_that_it_compared(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many([(1, "a b c d"), (2, "a b c e"), (3, "x y z"), (4, "a b c d")])
        matches = collection.search("a b c d")
        assert [match.key for match in matches] == [1, 4, 2]
        assert 3 <= matches.candidates <= 4
        assert isinstance(matches[0], simdb.Match)
        assert [match.key for match in matches[1:]] == [4, 2]


def test_searches_within_bounds_that_differ_do_not_depend_on_each_other(tmp_path):
    """What candidates must agree in depends on the bound, and is kept for the next search."""
    items = [("a", range(20)), ("b", range(1, 21)), ("c", range(3, 23))]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", simdb.Set(), threshold=0.5, seed=1)
        collection.add_many(items)
        for threshold, found in ((1.0, 1), (0.5, 3), (0.85, 2), (1.0, 1), (0.5, 3)):
            asked: Any = {"threshold": threshold, "guarantee": "probable"}
            assert len(collection.search(range(20), **asked)) == found
            assert [*map(len, collection.search_many([range(20)] * 3, **asked))] == [found] * 3


def test_a_least_recall_may_be_any_number_between_0_and_1(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(), threshold=0.8)
        asked: Any = collection.search
        for given in (collection.recall, Fraction(1, 2), Decimal("0.5"), np.float32(0.5), 0, 1):
            assert len(asked("x", min_recall=given)) == 0
        for wrong in (2, -1, math.nan, "0.5", Decimal("nan"), Decimal("snan"), 10**400):
            with pytest.raises(
                simdb.ConfigurationError, match="min_recall must be between 0 and 1"
            ):
                asked("x", min_recall=wrong)


@pytest.mark.parametrize("guarantee", ["probable", "exact"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_of_many_candidates_a_search_finds_those_that_are_there(tmp_path, guarantee, compression):
    """More than are read one by one; some are deleted, some are not similar enough."""
    common = set_text(range(9))
    stored = [(number, f"{common} {set_text(range(9, 9 + number % 15))}") for number in range(120)]
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE, exact_floor="1/2", compression=compression)
        collection.add_many((key, text, {"number": key}) for key, text in stored)
        collection.delete_many(range(0, 120, 7))
        left = [(key, text) for key, text in stored if key % 7]
        probe = stored[2][1]
        expected = similar_to(probe, left, WORDS, Fraction(1, 2))
        assert len(expected) > 16
        asked = {"guarantee": guarantee, "metadata": True}
        found = collection.search(probe, **asked)
        assert answer(found) == expected
        assert [match.metadata for match in found] == [{"number": key} for key, _ in expected]
        assert answer(collection.search(probe, limit=3, **asked)) == expected[:3]


def test_an_argument_is_not_taken_for_an_equal_one_of_another_type(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add(1, "to be or not to be")
        for _ in range(2):  # what was read is known from then on
            assert len(collection.search("to be or not to be", threshold=1)) == 1
            wrong: Any
            for wrong in (True, [1], "one"):
                with pytest.raises(simdb.SimdbError, match="threshold"):
                    collection.search("to be or not to be", threshold=wrong)

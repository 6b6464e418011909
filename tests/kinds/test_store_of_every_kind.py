"""Every kind of item through the same store: added, searched, joined, grouped, deleted, rebuilt."""

# mypy: allow-untyped-calls

from __future__ import annotations

import shutil
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import isnan

import numpy as np
import pytest

import simdb
from simdb.errors import ConfigurationError, ThresholdTooLowError
from tests.support.kind_cases import CASES, tanimoto


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request):
    return request.param


only_distances = pytest.mark.parametrize(
    "case",
    [case for case in CASES.values() if case.is_distance],
    ids=[name for name, case in CASES.items() if case.is_distance],
)


@cache
def items_of(case):
    return case.many(np.random.default_rng(7))


@cache
def similar_pairs(case):
    return case.similar_pairs(items_of(case))


def are_similar(case, left, right):
    """Whether two of the items are, by their places; the lower one comes first."""
    return (left, right) in similar_pairs(case)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The file of a store of the items of a case, which is made once."""

    @cache
    def build(case):
        path = tmp_path_factory.mktemp("built") / "kinds.simdb"
        with simdb.open(path) as database:
            made = database.collection("c", case.kind, seed=1, recall=0.999, **case.bound)
            made.add_many(enumerate(items_of(case)))
        return path

    return build


@pytest.fixture
def items(case):
    return items_of(case)


@pytest.fixture
def collection(case, built, tmp_path):
    with simdb.open(shutil.copy(built(case), tmp_path)) as database:
        yield database["c"]


def true_pairs(case, places=None):
    """The similar pairs of keys, of which ``places`` tells the items if they are not these."""
    places = places or {place: place for place in range(len(items_of(case)))}
    return {
        (left, right)
        for left, right in combinations(sorted(places), 2)
        if are_similar(case, *sorted((places[left], places[right])))
    }


def found_pairs(pairs):
    return {(pair.left, pair.right) for pair in pairs}


def test_exact_pairs_are_those_of_brute_force(case, items, collection):
    expected = true_pairs(case)
    assert len(expected) >= 10
    pairs = list(collection.pairs(guarantee="exact"))
    assert found_pairs(pairs) == expected
    assert len(pairs) == len(expected)
    for pair in pairs:
        value = float(case.value(items[pair.left], items[pair.right]))
        shown, other = pair.similarity, pair.distance
        if case.is_distance:
            shown, other = other, shown
        assert shown == pytest.approx(value, abs=2e-3)  # angles of rounded vectors
        assert other is None
    handed = collection.score(reversed([(pair.left, pair.right) for pair in pairs]))
    assert list(collection.score(pairs)) == pairs
    assert list(handed) == list(pairs)[::-1]


def test_probable_pairs_are_true_and_as_many_as_promised(case, items, collection):
    expected = true_pairs(case)
    pairs = collection.pairs(guarantee="probable")
    found = found_pairs(pairs)
    misses_nothing = case.kind.misses_nothing(Fraction(99, 100))
    assert pairs.guarantee == ("exact" if misses_nothing else "probable")
    assert pairs.expected_recall >= 0.999 or (
        isnan(pairs.expected_recall) and not case.states_recall
    )
    assert found <= expected
    assert len(found) >= len(expected) - 1


@pytest.mark.parametrize("guarantee", ["auto", "exact"])
def test_searches_find_what_brute_force_finds(case, items, collection, guarantee):
    if guarantee == "exact" and case.kind.has_symbols:
        collection.rebuild(exact_floor=case.bound["threshold"])
    missed = 0
    for place, item in [*enumerate(items)][::2]:
        expected = {
            other for other in range(len(items)) if are_similar(case, *sorted((place, other)))
        }
        matches = collection.search(item, guarantee=guarantee)
        assert {match.key for match in matches} <= expected
        missed += len(expected) - len(matches)
        assert matches[0].key == place or case.value(item, items[matches[0].key]) == case.value(
            item, item
        )
        values = [match.distance if case.is_distance else -match.similarity for match in matches]
        assert values == sorted(values)
    assert missed == 0 if guarantee == "exact" else missed <= 2


def test_bits_by_tanimoto_similarity_are_scanned_without_an_exact_index(tmp_path):
    case = CASES["bits:40:tanimoto"]
    items = case.many(np.random.default_rng(3))
    with simdb.open(tmp_path / "scan.simdb") as database:
        made = database.collection("c", case.kind, threshold=0.9)
        made.add_many(enumerate(items))
        for item in items[:25]:
            matches = made.search(item, threshold=0.6, guarantee="exact")
            expected = {n for n, other in enumerate(items) if tanimoto(item, other) >= 0.6}
            assert {match.key for match in matches} == expected
            assert len(expected) <= matches.candidates <= len(items)


def test_the_best_few_are_the_best_of_all(case, items, collection):
    matches = collection.search(items[0])
    assert collection.search(items[0], limit=1)[0] == matches[0]


def test_groups_are_the_connected_components(case, items, collection):
    forest = {place: {place} for place in range(len(items))}
    for left, right in sorted(true_pairs(case)):
        joined = forest[left] | forest[right]
        for place in joined:
            forest[place] = joined
    expected = {tuple(sorted(group)) for group in forest.values() if len(group) > 1}
    assert {group.keys for group in collection.groups(guarantee="exact")} == expected
    probable = {key for group in collection.groups(guarantee="probable") for key in group.keys}
    assert probable <= {key for group in expected for key in group}


def test_deleted_items_are_gone_and_replaced_ones_changed(case, items, collection):
    collection.delete_many(range(0, 20, 2))
    collection.replace(1, items[50])
    now = {place: place for place in range(len(items)) if place >= 20 or place % 2}
    now[1] = 50
    expected = {frozenset(pair) for pair in true_pairs(case, now)}
    for _ in range(2):
        assert {
            frozenset((pair.left, pair.right)) for pair in collection.pairs(guarantee="exact")
        } == expected
        assert collection.check(deep=True).sound
        collection.compact()
    assert collection.stats()["deleted_not_yet_dropped"] == 0


def test_dropping_duplicates_follows_its_definition(case, items, tmp_path):
    kept: list[int] = []
    for place in range(len(items)):
        if not any(are_similar(case, earlier, place) for earlier in kept):
            kept.append(place)
    with simdb.open(tmp_path / "dedupe.simdb") as database:
        made = database.collection("c", case.kind, seed=1, recall=0.9999, **case.bound)
        report = made.dedupe(enumerate(items))
        assert [entry.key for entry in made.items()] == kept
        assert report.duplicates_new == len(items) - len(kept)
        again = made.dedupe(enumerate(items))
        assert (again.added, again.present) == (0, len(kept))


def test_batches_change_nothing_where_an_item_is_not_similar_to_itself(tmp_path):
    rows = [(number, {"name": "abcdefghi"}) for number in range(3)]  # without a town: 200 of 300
    people = CASES["record"].kind
    outcomes = []
    for size in (1, 3):
        with simdb.open(tmp_path / f"{size}.simdb") as database:
            made = database.collection("c", people, threshold=0.9)
            for begin in range(0, 3, size):
                made.dedupe(rows[begin : begin + size])
            outcomes.append(len(made))
    assert outcomes == [3, 3]


def test_new_rows_name_what_they_duplicate(case, items, collection):
    outcome = collection.add("new", items[3], find_duplicates=True)
    assert outcome.duplicate_of == 3
    value = outcome.distance if case.is_distance else outcome.similarity
    assert value == pytest.approx(float(case.value(items[3], items[3])))
    assert outcome.within_input is False


def test_items_come_back_as_they_were(case, items, collection):
    for place, entry in enumerate(collection.items()):
        assert entry.key == place
        stored = collection.get(place).item
        assert case.value(stored, items[place]) == case.value(items[place], items[place])


def test_a_store_that_is_opened_again_has_everything(case, items, tmp_path):
    path = tmp_path / "again.simdb"
    for run in range(2):
        with simdb.open(path) as database:
            made = database.collection("c", case.kind, seed=1, **case.bound)
            if not run:
                made.add_many(enumerate(items))
            assert found_pairs(made.pairs(guarantee="exact")) == true_pairs(case)
            assert database.check(deep=True).sound
            assert made.kind == case.kind


def test_rebuilding_changes_the_secret_and_nothing_else(case, items, collection):
    before = found_pairs(collection.pairs(guarantee="exact"))
    collection.rebuild(seed=2)
    assert collection.check(deep=True).sound
    assert found_pairs(collection.pairs(guarantee="exact")) == before
    assert len(before - found_pairs(collection.pairs(guarantee="probable"))) <= 1


def test_two_collections_are_joined(case, items, collection, tmp_path):
    with simdb.open(tmp_path / "other.simdb") as database:
        other = database.collection("o", case.kind, **case.bound)
        other.add_many((f"k{place}", item) for place, item in enumerate(items[40:]))
        expected = {
            (left, f"k{right}")
            for left in range(len(items))
            for right in range(len(items) - 40)
            if are_similar(case, *sorted((left, 40 + right)))
        }
        assert found_pairs(collection.join(other, guarantee="exact")) == expected
        probable = found_pairs(collection.join(other, guarantee="probable"))
        assert probable <= expected
        assert len(expected - probable) <= 2
        assert found_pairs(collection.join(other.items(), guarantee="exact")) == expected


def test_new_pairs_are_those_with_a_new_item(case, items, collection):
    mark = collection.checkpoint()
    collection.add_many((1000 + place, item) for place, item in enumerate(items[:10]))
    places = {place: place for place in range(len(items))} | {1000 + n: n for n in range(10)}
    expected = {pair for pair in true_pairs(case, places) if pair[1] >= 1000}
    assert found_pairs(collection.pairs(since=mark, guarantee="exact")) == expected


def test_the_audit_measures_recall(case, items, collection):
    report = collection.self_audit(sample=len(items))
    assert report.true_pairs == 2 * len(true_pairs(case))
    assert report.recall is not None
    assert report.recall >= 0.95
    if not case.is_distance:
        assert report.threshold == pytest.approx(case.bound["threshold"])
        assert report.bins[0].lowest == pytest.approx(case.bound["threshold"])


def test_similarity_and_distance_are_not_taken_for_each_other(case, collection, items):
    wrong = {"threshold": 0.5} if case.is_distance else {"max_distance": 3}
    with pytest.raises(ConfigurationError, match="is compared by"):
        collection.search(items[0], **wrong)


def test_pairs_beyond_the_plan_name_the_remedy(case, collection):
    largest = min(60, case.kind.largest_distance / 2)
    beyond = {"max_distance": largest} if case.is_distance else {"threshold": 0.2}
    with pytest.raises(ThresholdTooLowError) as raised:
        collection.pairs(guarantee="probable", **beyond)
    assert raised.value.remedies
    planned = [one.further for one in raised.value.remedies if one.effect == "plans for it"]
    if planned != [()]:  # the bound alone finds no plan
        with pytest.raises(simdb.ConfigurationError):
            collection.rebuild(**beyond)
    for further in planned:
        collection.rebuild(**beyond, **dict(further))
        collection.pairs(guarantee="probable", **beyond)


@only_distances
def test_a_search_beyond_the_plan_compares_with_all(case, collection, items):
    largest = min(90, case.kind.largest_distance)
    matches = collection.search(items[0], max_distance=largest, limit=5)
    assert matches.guarantee == "exact"
    assert matches.candidates == len(items)
    values = sorted(case.value(items[0], item) for item in items)[:5]
    assert [match.distance for match in matches] == pytest.approx(values, abs=2e-3)


@only_distances
def test_without_an_index_answers_come_from_all_items(tmp_path, case, items):
    with simdb.open(tmp_path / "scan.simdb") as database:
        made = database.collection("c", case.kind)
        made.add_many(enumerate(items))
        assert made.max_distance is None
        assert [match.key for match in made.search(items[5], limit=1)] == [5]
        assert len(made.search(items[5])) == len(items)
        assert found_pairs(made.pairs(**case.bound)) == true_pairs(case)
        with pytest.raises(ConfigurationError, match="no index"):
            made.dedupe([("x", items[0])])
        made.rebuild(**case.bound)
        assert made.search(items[5], guarantee="probable", limit=1)[0].key == 5


def test_bad_items_are_named_and_nothing_is_lost(case, collection, items):
    before = len(collection)
    for wrong in case.examples.invalid:
        with pytest.raises(simdb.UsageError):
            collection.add("bad", wrong)
    report = collection.add_many([("good", items[0]), ("bad", None)], on_bad="skip")
    assert (report.added, report.bad) == (1, 1)
    assert report.bad_rows[0][0] == 1
    assert len(collection) == before + 1
    assert collection.check(deep=True).sound

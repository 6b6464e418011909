"""Records in a store: linked, deduplicated, changed, rebuilt, of few and many; real tables too."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import isnan
from typing import Any

import pytest

import simdb
from simdb.answers import buckets, scan
from simdb.errors import BadItemError, ConfigurationError
from simdb.kinds.records import RecordFamily
from simdb.kinds.records.items import RecordItems
from simdb.kinds.records.points import RecordMeasure
from tests.support.record_stores import KIND, Scored, candidate_pairs, opened, scored, some_people
from tools.benchmarks.record_calibration import PEOPLE, RESTAURANTS
from tools.benchmarks.record_data import load


def in_memory(kind: simdb.Record, threshold: Any, left: Any, right: Any = None) -> Scored:
    """The same by the functions below the store, under another secret."""
    items, family, measure = RecordItems(kind), RecordFamily(kind, bytes(32)), RecordMeasure(kind)
    sides = [
        items.features([items.encode(row) for row in rows])
        for rows in (left, right)
        if rows is not None
    ]
    keys = [family.keys(family.sign(features)) for features in sides]
    least, found = Fraction(str(threshold)), {}
    for one, other in candidate_pairs(keys[0], None if right is None else keys[1]):
        compared = measure.compare_between(sides[0], sides[-1], one, other)
        columns = (one, other, compared.numerators, compared.denominators)
        for place, partner, numerator, denominator in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if denominator and Fraction(numerator, denominator) >= least:
                found[place, partner] = numerator / denominator
    return found


def agrees_in_a_rule(one: dict[str, Any], other: dict[str, Any]) -> bool:
    names = [row.get("name") or "" for row in (one, other)]
    towns = [row.get("town") for row in (one, other)]
    return (names[0][:3] == names[1][:3] != "") or (towns[0] == towns[1] is not None)


# -- links and duplicates ------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", ["0.2", "0.6", "1"])
def test_what_the_store_finds_is_what_the_functions_find(tmp_path, threshold):
    left, right = some_people(1), some_people(2) + some_people(1)[:20]
    with opened(tmp_path / "s", left, right, threshold=threshold) as (one, other):
        assert scored(one.pairs()) == in_memory(KIND, threshold, left)
        linked = scored(one.join(other))
        assert linked == in_memory(KIND, threshold, left, right)
        assert len(linked) >= 20


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "kind", "threshold"), [("fodors_zagat", RESTAURANTS, "0.6"), ("febrl1", PEOPLE, "0.4")]
)
def test_real_tables_are_deduplicated_and_linked(tmp_path, data_directory, name, kind, threshold):
    task = load(name, data_directory)
    names = [field.name for field in kind.fields]
    rows = [{field: row[field] for field in names} for row in task.left]
    half = len(rows) // 2
    tables = (rows, rows[:half], rows[half:])
    with opened(tmp_path / "s", *tables, kind=kind, threshold=threshold) as (whole, one, other):
        found = scored(whole.pairs())
        assert found == in_memory(kind, threshold, rows)
        assert len(task.truth & found.keys()) / len(task.truth) >= 0.94
        assert len(task.truth & found.keys()) / len(found) >= 0.89
        assert scored(one.join(other)) == in_memory(kind, threshold, *tables[1:])


def test_dedupe_keeps_the_first_of_those_that_are_alike(tmp_path):
    rows = [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in some_people(3, 90))]
    alike = in_memory(KIND, "0.9", rows)
    kept: list[int] = []
    for place in range(len(rows)):
        if not any((earlier, place) in alike for earlier in kept):
            kept.append(place)
    assert len(kept) < len(rows) - 2
    with opened(tmp_path / "s", [], threshold="0.9") as (people,):
        report = people.dedupe(enumerate(rows))
        assert [entry.key for entry in people.items()] == kept
        assert report.duplicates_new == len(rows) - len(kept)


def test_exact_answers_add_only_what_agrees_in_no_rule(tmp_path):
    left, right = some_people(4), some_people(5)
    with opened(tmp_path / "s", left, right, threshold="0.3") as (one, other):
        for rows, exact, probable in (
            ((left, left), one.pairs(guarantee="exact"), one.pairs()),
            ((left, right), one.join(other, guarantee="exact"), one.join(other)),
        ):
            everything, candidates = scored(exact), scored(probable)
            missed = everything.keys() - candidates.keys()
            assert missed
            assert candidates.items() <= everything.items()
            assert not any(agrees_in_a_rule(rows[0][i], rows[1][j]) for i, j in missed)
            assert all(agrees_in_a_rule(rows[0][i], rows[1][j]) for i, j in candidates)


def test_recall_is_stated_where_nothing_can_be_missed_and_nowhere_else(tmp_path):
    kind = simdb.Record(fields=[simdb.Field("name", tolerance=2), simdb.Field("town", tolerance=2)])
    limit = kind.certain_above()
    assert limit == Fraction(3, 4)  # one letter of each name and town
    with opened(tmp_path / "s", [], kind=kind, threshold="0.5") as (people,):
        assert people.pairs(Fraction(76, 100)).expected_recall == 1
        for threshold in (limit, "0.6"):
            assert isnan(people.pairs(threshold).expected_recall)
        exact = people.pairs(guarantee="exact")
        assert (exact.guarantee, exact.expected_recall) == ("exact", 1)


# -- what is kept --------------------------------------------------------------------------------


def test_a_store_keeps_its_records_over_changes_and_reopening(tmp_path):
    rows = some_people(6)
    with opened(tmp_path / "s", rows) as (people,):
        people.delete_many(range(0, 30, 3))
        people.replace(1, rows[40])
    now = dict(enumerate(rows)) | {1: rows[40]}
    for gone in range(0, 30, 3):
        del now[gone]
    keys = [key for key in now if key != 1] + [1]  # what was replaced is the latest
    expected = {
        frozenset((keys[left], keys[right])): value
        for (left, right), value in in_memory(KIND, "0.6", [now[key] for key in keys]).items()
    }
    for _ in range(2):
        with simdb.open(tmp_path / "s") as database:
            people = database["c0"]
            assert people.kind == KIND
            assert {frozenset(k): v for k, v in scored(people.pairs()).items()} == expected
            assert database.check(deep=True).sound
            people.compact()


def test_missing_fields_come_back_as_they_were_and_score_as_settings_say(tmp_path):
    rows = [{"name": "ann"}, {"name": "ann", "town": None}, {"town": "york"}, {}]
    ignoring = KIND.changed(fields=[f.changed(missing="ignore") for f in KIND.fields[:2]])
    for kind, expected in ((KIND, {(0, 1): 200 / 300}), (ignoring, {(0, 1): 1.0})):
        path = tmp_path / str(len(kind.fields))
        with opened(path, rows, kind=kind, threshold="0.1") as (people,):
            assert [entry.item for entry in people.items()] == rows
            assert scored(people.pairs()) == expected
            assert scored(people.pairs(guarantee="exact")) == expected
            assert people.check(deep=True).sound


def test_rebuilding_with_other_weights_and_rules_is_as_adding_anew(tmp_path):
    rows = some_people(7)
    other = simdb.Record(
        fields=[KIND.fields[0].changed(weight=10), *KIND.fields[1:]],
        candidates=[("name", "town")],
    )
    with opened(tmp_path / "s", rows) as (people,):
        before = scored(people.pairs())
        people.rebuild(other)
        assert people.kind == other
        assert scored(people.pairs()) == in_memory(other, "0.6", rows) != before
        assert people.check(deep=True).sound
        people.rebuild(KIND)
        assert scored(people.pairs()) == before


def test_rebuilding_with_other_weights_alone_leaves_the_index_as_it_is(tmp_path):
    def index() -> int:
        with people._opened() as opened:
            return int(opened.reader.manifest.index.number)

    rows = some_people(7)
    name = KIND.fields[0].changed(weight=90, levels=[(1, 90), ("0.8", 30)], missing=20)
    weighed = KIND.changed(fields=[name, *KIND.fields[1:]])
    read_otherwise = weighed.changed(fields=[name.changed(prepare="letters"), *KIND.fields[1:]])
    with opened(tmp_path / "s", rows) as (people,):
        first = index()
        people.rebuild(weighed, threshold="0.5")
        assert index() == first
        assert scored(people.pairs()) == in_memory(weighed, "0.5", rows)
        assert people.check(deep=True).sound
        for again in (weighed, read_otherwise):
            people.rebuild(again)
            assert index() > first
            first = index()


@pytest.mark.parametrize(
    "fields", [KIND.fields[:2], KIND.fields[::-1], [simdb.Field("nom"), *KIND.fields[1:]]]
)
def test_rebuilding_with_other_fields_is_refused(tmp_path, fields):
    with opened(tmp_path / "s", some_people(8, 6)) as (people,):
        with pytest.raises(ConfigurationError, match="add them to another collection"):
            people.rebuild(simdb.Record(fields=fields))
        assert people.kind == KIND


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ({"name": "a", "phone": "1"}, "row 2: .*'phone'"),
        ({"name": 1.5}, "row 2: .*'name'"),
        ({"born": "2001-02-30"}, "row 2: .*'born'.*not a valid date"),
        (["ann"], "row 2: .*mapping"),
    ],
)
def test_bad_rows_are_named_by_their_number(tmp_path, bad, problem):
    rows = [("a", {"name": "ann"}), ("b", {}), ("c", bad), ("d", {"name": "ann"})]
    with opened(tmp_path / "s", []) as (people,):
        with pytest.raises((BadItemError, TypeError), match=problem):
            people.add_many(rows)
        assert len(people) == 0
        report = people.add_many(rows, on_bad="skip")
        assert [row for row, _ in report.bad_rows] == [2]
        assert [entry.key for entry in people.items()] == ["a", "b", "d"]


# -- rules that cost much ------------------------------------------------------------------------


def crowd(count: int) -> list[dict[str, Any]]:
    """People of one town, whose names are in pairs."""
    return [
        {"name": f"{number // 2:03}{number // 2:05x}", "town": "york"} for number in range(count)
    ]


def test_statistics_show_what_rules_cost_and_warn_of_large_buckets(tmp_path):
    kind = KIND.changed(large_bucket=99)
    with opened(tmp_path / "s", crowd(120), kind=kind) as (people,):
        people.delete_many(range(20))
        by_name, by_town = people.stats()["rules"]
        assert by_name == {
            **{"rule": "name first:3", "records": 100, "buckets": 50, "largest": 2},
            **{"largest_pairs": 1, "pairs": 50},
        }
        assert by_town == {
            **{"rule": "town", "records": 100, "buckets": 1, "largest": 100},
            **{"largest_pairs": 4_950, "pairs": 4_950},
        }
        (warning,) = people.stats()["warnings"]
        assert "100 records are equal in town" in warning
        assert "4,950 pairs" in warning
        people.delete(50)
        assert people.stats()["warnings"] == []


def compared_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets how many pairs each call compares."""
    pieces: list[int] = []
    compare = RecordMeasure.compare_between

    def spied(self: Any, ones: Any, others: Any, left: Any, right: Any) -> Any:
        pieces.append(len(left))
        return compare(self, ones, others, left, right)

    monkeypatch.setattr(RecordMeasure, "compare_between", spied)
    return pieces


@pytest.mark.parametrize("linked", [False, True])
def test_a_giant_bucket_is_compared_in_pieces(tmp_path, monkeypatch, linked):
    pieces = compared_at_once(monkeypatch)
    monkeypatch.setattr(buckets, "PAIRS_COMPARED", 512)
    monkeypatch.setattr(buckets, "SHARE_OF_MET", 2**21)
    rows = crowd(100)
    with opened(tmp_path / "s", rows, rows[::-1], threshold="1") as (one, other):
        if linked:
            found = scored(one.join(other))
            expected = {(i, 99 - j) for i, j in product(range(100), repeat=2) if i // 2 == j // 2}
            assert sum(pieces) == 10_000
        else:
            found = scored(one.pairs())
            expected = {(i, i + 1) for i in range(0, 100, 2)}
            assert sum(pieces) == 4_950
        assert found == dict.fromkeys(expected, 1.0)
        assert max(pieces) <= 512
        assert len(pieces) < 60  # a piece for each record would be 100


@pytest.mark.parametrize("linked", [False, True])
def test_all_records_are_compared_with_all_many_pairs_at_once(tmp_path, monkeypatch, linked):
    pieces = compared_at_once(monkeypatch)
    monkeypatch.setattr(scan, "PAIRS_COMPARED", 512)
    rows = crowd(100)
    with opened(tmp_path / "s", rows, rows, threshold="1") as (one, other):
        pairs = one.join(other, guarantee="exact") if linked else one.pairs(guarantee="exact")
        found = [(pair.left, pair.right) for pair in pairs]
    every = product(range(100), repeat=2) if linked else combinations(range(100), 2)
    assert found == [(i, j) for i, j in every if i // 2 == j // 2]  # in this order
    assert sum(pieces) == (10_000 if linked else 4_950)
    assert max(pieces) <= 512
    assert len(pieces) <= 20  # five records with all of the others; for each record it was 100


@pytest.mark.parametrize("calls", [1, 2])
def test_equal_records_that_lack_a_field_are_as_similar_in_one_call_as_in_two(tmp_path, calls):
    kind = simdb.Record([simdb.Field("a"), simdb.Field("b")])
    rows = [(1, {"a": "x", "b": None}), (2, {"a": "x", "b": None})]
    outcomes: list[simdb.Outcome] = []
    with simdb.open(tmp_path / "s.simdb") as database:
        people = database.collection("people", kind, threshold=0.5)
        for part in [rows] if calls == 1 else [rows[:1], rows[1:]]:
            people.dedupe(part, outcomes=outcomes.extend)
        assert [outcome.action for outcome in outcomes] == ["added", "duplicate"]
        assert outcomes[1].similarity == people.search(rows[0][1])[0].similarity == 0.5

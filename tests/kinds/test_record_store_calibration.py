"""Scores of stored records are calibrated (MMDS 3.8.3): links, pairs, refusals, real people."""

from __future__ import annotations

import json
from datetime import date, timedelta
from itertools import combinations, islice
from math import nan
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.errors import ConfigurationError
from simdb.upkeep import calibrate
from tests.support.calibrating import mean_difference
from tests.support.commands import done, failed
from tests.support.grids import some_of
from tests.support.record_stores import KIND, opened, scored, some_people
from tools.benchmarks.record_calibration import PEOPLE, RESTAURANTS, calibrated
from tools.benchmarks.record_data import load

BOUGHT = date(2001, 1, 1)
CUSTOMERS = simdb.Record(
    fields=[
        simdb.Field("name"),
        simdb.Field("address"),
        simdb.Field("phone"),
        simdb.Field("day", weight=0, compare="date"),
    ],
    candidates=["name"],
)


def customers() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two companies: of three scores four pairs each, registered so many days after the sale."""
    changes = [
        ({}, [8, 12, 9, 11]),  # 300 points
        ({"address": "x" * 30, "phone": "4155550123" + "9" * 4}, [9, 11, 8, 12]),  # 184
        ({"address": "x" * 30, "phone": "4155550123" + "9" * 9}, [40, 50, 20, 60]),  # 119
    ]
    sold: list[dict[str, Any]] = []
    registered: list[dict[str, Any]] = []
    for change, delays in changes:
        for delay in delays:
            own = {"name": f"customer {len(sold)}", "address": "1 main st", "phone": "4155550123"}
            sold.append({**own, "day": BOUGHT})
            registered.append({**own, **change, "day": BOUGHT + timedelta(delay)})
    return sold, registered


EDGES = [1 / 3, 0.5, 0.8, 1]


def test_section_3_8_3_scores_of_a_link_are_calibrated_by_the_days_between(tmp_path):
    with opened(tmp_path / "s", *customers(), kind=CUSTOMERS, threshold="0.3") as (
        sold,
        registered,
    ):
        result = sold.calibrate("day", other=registered, edges=EDGES, random=45)
        assert result.matched.value == 10
        assert [bucket.difference for bucket in result.buckets] == [42.5, 10, 10]
        assert [bucket.fraction for bucket in result.buckets] == [pytest.approx(2.5 / 35), 1, 1]
        assert result.threshold_for(0.99) == 0.5
        given = sold.calibrate("day", other=registered, edges=EDGES, random=45, matched=11)
        assert given.matched.value == 11
        assert given.buckets[0].fraction == pytest.approx(2.5 / 34)


def test_a_function_of_two_items_calibrates_as_the_field_does(tmp_path):
    def days(one: Any, other: Any) -> float | None:
        return abs((one["day"] - other["day"]).days) if "day" in other else None

    sold, registered = customers()
    del registered[0]["day"]
    with opened(tmp_path / "s", sold, registered, kind=CUSTOMERS, threshold="0.3") as (one, other):
        by_field = one.calibrate("day", other=other, edges=EDGES)
        assert by_field == one.calibrate(days, other=other, edges=EDGES)
        assert [bucket.pairs for bucket in by_field.buckets] == [4, 4, 3]


def test_a_function_that_finds_nothing_more_is_told_as_that(tmp_path):
    values = iter([1.0] * 3)
    with opened(tmp_path / "s", *customers(), kind=CUSTOMERS, threshold="0.3") as (one, other):
        with pytest.raises(RuntimeError, match="StopIteration") as raised:
            one.calibrate(lambda *_: next(values), other=other, edges=EDGES)
        assert isinstance(raised.value.__cause__, StopIteration)


@pytest.mark.parametrize(
    ("sizes", "is_one", "pairs"),
    [((20, 20), True, 380), ((7, 30), False, 210), ((1, 1), True, 0), ((0, 3), False, 0)],
)
def test_random_pairs_are_drawn_in_parts_and_no_more_than_there_are(
    monkeypatch, sizes, is_one, pairs
):
    monkeypatch.setattr(calibrate, "DRAWN_AT_ONCE", 64)
    for wanted in (5, 100, 2**70):
        generator = np.random.default_rng(1)
        found = calibrate.random_pairs(generator, sizes, wanted, is_one=is_one)
        parts = [*islice(found, 10)]
        drawn = [pair for left, right in parts for pair in zip(left, right, strict=True)]
        assert len(drawn) == min(wanted, pairs)
        assert all(left.size <= 64 for left, _ in parts)
        assert all(0 <= one < sizes[0] and 0 <= other < sizes[1] for one, other in drawn)
        assert not (is_one and any(one == other for one, other in drawn))


def test_a_sample_may_be_larger_than_any_number_of_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(calibrate, "DRAWN_AT_ONCE", 64)
    with opened(tmp_path / "s", *customers(), kind=CUSTOMERS, threshold="0.3") as (one, other):
        all_there_are = one.calibrate("day", other=other, edges=EDGES, sample=12 * 12)
        assert one.calibrate("day", other=other, edges=EDGES, sample=2**70) == all_there_are


def test_pairs_of_one_collection_are_calibrated_by_equality_of_a_text(tmp_path):
    kind = CUSTOMERS.changed(fields=[*CUSTOMERS.fields[:3], simdb.Field("day", weight=0)])
    rows = [
        {"name": f"n{number // 2}", "address": "here", "phone": "1", "day": day}
        for number, day in enumerate(["A ", "a", "a", "b", "a", None])
    ]
    with opened(tmp_path / "s", rows, kind=kind, threshold="0.3") as (people,):
        result = people.calibrate("day", sample=20_000)
        last = result.buckets[-1]
        assert (last.pairs, last.difference, result.matched.value) == (2, 0.5, 0.5)
        # Of the ten pairs of different records with a day, the four with "b" differ.
        assert result.random.value == pytest.approx(0.4, abs=5 * 0.49 / np.sqrt(20_000 * 2 / 3))


@pytest.mark.parametrize(
    "changed", [{"levels": [(1, 100), (0.5, 40)]}, {"frequent": {"n1": 40}}, {"missing": 30}]
)
def test_what_is_said_of_other_fields_calibrates_nothing(tmp_path, changed):
    rows = [
        {"name": f"n{number // 2}", "address": "here", "phone": "1", "day": f"200{number}-01-01"}
        for number in range(8)
    ]
    first, *others = CUSTOMERS.fields
    kind = CUSTOMERS.changed(fields=[first.changed(weight=100, **changed), *others])
    with opened(tmp_path / "s", rows, kind=kind, threshold="0.3") as (people,):
        plain = people.calibrate("day", matched=0, sample=1_000).random
    plainly = CUSTOMERS.changed(fields=[first.changed(weight=100), *others])
    with opened(tmp_path / "t", rows, kind=plainly, threshold="0.3") as (people,):
        assert people.calibrate("day", matched=0, sample=1_000).random == plain


def test_random_pairs_differ_as_much_as_all_pairs_do(tmp_path):
    left, right = some_people(9), some_people(10)
    days = [
        [float(row["born"].toordinal()) if "born" in row else nan for row in rows]
        for rows in (left, right)
    ]
    with opened(tmp_path / "s", left, right, threshold="0.3") as (one, other):
        linked = one.calibrate("born", other=other, matched=0, sample=10_000).random
        assert linked.value == pytest.approx(mean_difference(*days), abs=5 * linked.variance**0.5)
        within = one.calibrate("born", matched=0, sample=10_000).random
        apart = [abs(one - other) for one, other in combinations(days[0], 2)]
        assert within.value == pytest.approx(np.nanmean(apart), abs=5 * within.variance**0.5)
        assert within == one.calibrate("born", matched=0, sample=10_000).random
        assert within != one.calibrate("born", matched=0, sample=10_000, seed=1).random


def test_lower_scores_than_the_threshold_may_be_calibrated(tmp_path):
    with opened(tmp_path / "s", some_people(11), threshold="0.9") as (people,):
        assert people.calibrate("born", matched=0).buckets[0].low == 0.9
        result = people.calibrate("born", matched=0, threshold="0.32")
        assert [bucket.low for bucket in result.buckets[:3]] == [0.32, 0.35, 0.4]
        assert sum(bucket.pairs for bucket in result.buckets) > 20


@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        ("town", {}, "'town' is scored"),
        ("phone", {}, "no field 'phone'; there are name, town, born"),
        ("born", {"certain": 1.5}, "no pair .* has a score of 1.5: give certain="),
        ("born", {"edges": [0.5]}, "edges must be at least two numbers in ascending order"),
        ("born", {"sample": 0}, "sample must be"),
        ("born", {"confidence": 2}, "confidence"),
    ],
)
def test_what_cannot_be_calibrated_says_why(tmp_path, field, options, message):
    with (
        opened(tmp_path / "s", some_people(12)) as (people,),
        pytest.raises(ConfigurationError, match=message),
    ):
        people.calibrate(field, **options)


def test_a_field_that_a_rule_names_calibrates_nothing(tmp_path):
    kind = KIND.changed(candidates=["name", ("town", "born")])
    with (
        opened(tmp_path / "s", some_people(13), kind=kind) as (people,),
        pytest.raises(ConfigurationError, match="a rule for candidates names the field 'born'"),
    ):
        people.calibrate("born")


def test_an_empty_partner_is_a_partner(tmp_path):
    with (
        opened(tmp_path / "s", some_people(14), []) as (people, nobody),
        pytest.raises(ConfigurationError, match="no random pair has a known difference"),
    ):
        people.calibrate("born", other=nobody, matched=0)


def test_other_kinds_are_calibrated_by_a_function_and_distances_not_at_all(tmp_path):
    with simdb.open(tmp_path / "s") as database:
        sets = database.collection("sets", simdb.Set(), threshold=0.5, seed=1)
        sets.add_many([("a", {1, 2, 3}), ("b", {1, 2, 3}), ("c", {7, 8})])
        result = sets.calibrate(lambda one, other: len(one ^ other), sample=2_000)
        assert (result.buckets[-1].pairs, result.matched.value) == (1, 0)
        assert result.random.value == pytest.approx(10 / 3, abs=0.3)
        with pytest.raises(ConfigurationError, match="only records have fields"):
            sets.calibrate("day")
        vectors = database.collection("vectors", simdb.Vector(3), max_distance=5)
        with pytest.raises(ConfigurationError, match="no probable index of similarities"):
            vectors.calibrate(lambda one, other: 0)


def year_by_score(shift: int) -> list[dict[str, Any]]:
    """Pairs of the scores 1 and 0.94, which differ by 0 to 2 years, and ``shift`` at the lower."""
    rows: list[dict[str, Any]] = []
    for number in range(60):
        person = {"name": f"name{number:02}", "town": f"town{number:02}", "year": 0}
        years = number // 2 % 3
        rows += [person, {**person, "year": years}]
        if number % 2:
            rows[-1] |= {"town": f"towm{number:02}", "year": years + shift}
    return rows


def test_a_field_that_hangs_on_the_score_among_sure_matches_is_told_by_the_command_too(tmp_path):
    kind = simdb.Record(
        fields=[
            simdb.Field("name"),
            simdb.Field("town", compare="levenshtein", tolerance=3),
            simdb.Field("year", weight=0, compare="numeric"),
        ],
        candidates=["name"],
    )
    for shift in (0, 5):
        store = tmp_path / f"{shift}.simdb"
        with opened(store, year_by_score(shift), kind=kind, threshold="0.5") as (people,):
            result = people.calibrate("year", certain=0.9, random=45, seed=3)
        assert result.test is not None
        assert (result.test.bins, result.test.pairs) == (2, 60)
        hangs = [text for text in result.warnings if "surely match differ" in text]
        assert len(hangs) == (shift > 0)
        told = done("calibrate", store, "c0", "year", "--certain", "0.9", "--random", "45",
                    "--seed", "3")  # fmt: skip
        assert told.stderr == "".join(f"warning: {text}\n" for text in result.warnings)
        assert f"F = {result.test.statistic:.3g}" in told.stdout
    alone = json.loads(done("calibrate", store, "c0", "year", "--random", "45", "--json").stdout)
    assert alone["test"] is None
    assert [bucket["pairs"] for bucket in alone["buckets"][-2:]] == [30, 30]
    assert alone["threshold"] == 0.95
    message = failed("calibrate", store, "c0", "year", "--edges", "0.5;1")
    assert "numbers separated by commas, not '0.5;1'" in message


@pytest.mark.data
def test_estimates_of_real_people_hold_what_is_true(tmp_path, data_directory):
    task = load("febrl1", data_directory)
    kind = PEOPLE.changed(
        fields=[
            field.changed(weight=0, missing=0) if field.name == "state" else field
            for field in PEOPLE.fields
        ],
    )
    rows = [{field.name: row[field.name] for field in kind.fields} for row in task.left]
    with opened(tmp_path / "s", rows, kind=kind, threshold="0.1") as (people,):
        result = people.calibrate("state", certain=0.9)
        found = scored(people.pairs())
        held = 0
        for bucket in result.buckets:
            true = [
                pair in task.truth
                for pair, value in found.items()
                if bucket.low <= value < bucket.high + (bucket.high == 1)
            ]
            share = sum(true) / len(true) if true else 0.5
            held += bucket.fraction_low <= share <= bucket.fraction_high
        assert held >= len(result.buckets) - 2  # 95 % intervals
        threshold = result.threshold_for(0.99)
        assert threshold is not None
        kept = {pair for pair, value in found.items() if value >= threshold}
        assert len(kept & task.truth) / len(kept) >= 0.96
        assert len(kept & task.truth) / len(task.truth) >= 0.99


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "field", "holds"),
    some_of(
        [
            ("fodors_zagat", "city", False),  # which streets and names tell
            ("dblp_acm", "year", False),  # of papers at one conference
            ("febrl1", "state", True),
            ("febrl4", "state", True),
        ],
        2,
    ),
)
def test_of_real_tables_intervals_hold_what_is_true_or_there_are_warnings(
    tmp_path, data_directory, name, field, holds
):
    table, warnings = calibrated(load(name, data_directory), field, tmp_path)
    held = [row["interval"][0] <= row["true"] <= row["interval"][1] for row in table]
    assert all(held) == holds
    assert holds or warnings


@pytest.mark.data
def test_false_matches_that_resemble_each_other_at_every_score_are_told(tmp_path, data_directory):
    task = load("fodors_zagat", data_directory)
    kind = RESTAURANTS.changed(fields=[*RESTAURANTS.fields, simdb.Field("cuisine", weight=0)])
    rows = [{field.name: row[field.name] for field in kind.fields} for row in task.left]
    with opened(tmp_path / "s", rows, kind=kind, threshold="0.1") as (restaurants,):
        result = restaurants.calibrate("cuisine", certain=0.95)
        (warning,) = result.warnings
        assert "from 0.1 on, 29% seem to match already" in warning
        # Many pairs share a restaurant: by items the interval holds the truth, which is none.
        assert result.buckets[0].fraction_low == 0
        # What it recommends: the pairs of the lowest scores for random ones.
        lowest = result.buckets[0]
        again = restaurants.calibrate("cuisine", certain=0.95, random=lowest.difference)
        assert again.buckets[0].fraction == 0
        assert again.buckets[-1].fraction == 1

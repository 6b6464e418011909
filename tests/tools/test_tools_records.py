"""The benchmark of records: thresholds are chosen on one half of the entities, not on the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tools.benchmarks import records
from tools.benchmarks.record_data import Task
from tools.benchmarks.record_split import interval, judged, labels_of, scored, split_of
from tools.benchmarks.record_stores import positions
from tools.benchmarks.registry import Bench

PEOPLE = 200


@pytest.fixture
def task() -> Task:
    rows = [{"name": str(place)} for place in range(PEOPLE)]
    truth = {(place, place) for place in range(PEOPLE)}
    return Task("made", ("name",), rows, list(rows), truth)


def test_no_threshold_is_chosen_with_the_answers_that_are_reported(task):
    split = split_of(task)
    assert 0.3 < split.is_chosen_on.mean() < 0.7
    right = [(place, place) for place in range(PEOPLE)]
    wrong = [(place, (place + 1) % PEOPLE) for place in range(PEOPLE)]
    is_chosen_on = split.is_chosen_on[split.entity[:PEOPLE]]
    told: list[dict[str, Any]] = []
    for reported_matches, reported_others in ((0.9, 0.1), (0.9, 0.75), (0.1, 0.75)):
        scores = [
            *np.where(is_chosen_on, np.linspace(0.6, 0.9, PEOPLE), reported_matches).tolist(),
            *np.where(is_chosen_on, 0.5, reported_others).tolist(),
        ]
        told += judged(split, scored(right + wrong, scores), is_clean=False)
    assert len({one["way"] for one in told}) == 1
    assert [round(one["f1"], 3) for one in told] == [1, 0.667, 0]


def test_all_of_an_entity_is_in_one_half_and_pairs_are_judged_one_to_one(task):
    one_table = Task("made", ("name",), task.left, None, {(0, 1), (1, 2), (0, 2)})
    split = split_of(one_table)
    assert np.unique(split.entity[:3]).size == 1
    assert split.matches.sum() == split.matches[split.entity[0]] == 3
    right, wrong = [(place, place) for place in range(10)], [(0, 3), (5, 7), (8, 2), (9, 9)]
    found = scored(right + wrong[:3], [0.9] * 10 + [0.8] * 3, own=right + wrong[:3])
    task.left, task.right, task.truth = task.left[:10], task.left[:10], set(right)
    by_way = {told["way"]: told["f1"] for told in judged(split_of(task), found, is_clean=True)}
    (own,) = (f1 for way, f1 in by_way.items() if way == "as the program says")
    (alone,) = (f1 for way, f1 in by_way.items() if way == "as the program says, one to one")
    assert own < alone == 1


def test_an_interval_is_that_of_drawing_entities_and_always_the_same():
    found = np.ones(400, np.int64)
    common = (np.arange(400) % 5 != 0).astype(np.int64)
    counted = np.stack([found, common, found])
    low, f1, high = interval(counted)
    assert f1 == 0.8
    assert (low, f1, high) == interval(counted)
    # Of a share of 0.8 among 400: a standard deviation of 0.02.
    assert low == pytest.approx(0.8 - 1.96 * 0.02, abs=0.005)
    assert high == pytest.approx(0.8 + 1.96 * 0.02, abs=0.005)


def test_what_is_absent_is_said_and_all_others_are_reported(task, tmp_path, capsys):
    pairs = [[place, place] for place in range(PEOPLE)]
    timed = {"seconds": 1.0, "processor": 1.0, "memory": 10**6}
    mine = {"pairs": pairs, "scores": [0.9] * PEOPLE, "kept": pairs, **timed}
    bench = Bench(tmp_path, tmp_path, 1, announce=lambda _: None)
    answers: dict[str, dict[str, Any]] = {
        "simdb, nothing given": {**mine},
        "simdb, nothing given, one to one": {**mine},
        "simdb, labels of the other half": {**mine},
        "simdb, labels of the other half, one to one": {**mine},
        "recordlinkage, as documented": {"absent": "it"},
        "splink, as documented": {
            **mine, "pairs": pairs[1:], "scores": [1.0] * (PEOPLE - 1), "kept": pairs[1:],
        },
    }  # fmt: skip
    records.report(bench, task, answers)
    assert "recordlinkage, as documented: it" in capsys.readouterr().out
    # Of what simdb is asked for, each in two ways; of splink four. Compared: F1 and seconds.
    assert len(bench.figures) == 4 * 2 + 4 + 2 * 2
    assert all(figure.value is not None and figure.value > 0.98 for figure in bench.figures)
    assert "200 pairs proposed, 1.0000 of the matches among them" in bench.figures[0].note
    assert [figure.reached for figure in bench.figures[-4:]] == [True, False, True, False]


def test_labels_are_of_the_half_that_is_not_reported(task):
    split = split_of(task)
    pairs = [(place, (place + 1) % PEOPLE) for place in range(PEOPLE)]
    labels = labels_of(split, [*pairs, *sorted(task.truth)])
    assert {left for left, *_ in labels} == set(np.flatnonzero(split.is_chosen_on[split.entity]))
    assert all(match == (left == right) for left, right, match in labels)


def test_nothing_is_set_by_hand_for_a_table(task, tmp_path):
    """The settings are those of the rows, with one field as with many."""
    rows = [
        {"name": f"{place * 7919:x}", "town": f"{place * 104729:x}", "phone": f"{place * 15485863}"}
        for place in range(PEOPLE)
    ]
    made = Task("made", ("name", "town", "phone"), rows, [dict(row) for row in rows], task.truth)
    found, weights, rules = records.linked(made, tmp_path)
    certain = weights.threshold()
    kept = {positions(pair) for pair in found if pair.value >= certain}
    assert kept == task.truth
    assert rules

"""The benchmark of records: thresholds are chosen on one half of the entities, not on the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tools.benchmarks import records
from tools.benchmarks.record_data import Task
from tools.benchmarks.record_split import interval, judged, scored, split_of
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


def test_what_is_absent_is_said_and_all_others_are_reported(task, tmp_path, monkeypatch, capsys):
    pairs = [[place, place] for place in range(PEOPLE)]
    timed = {"seconds": 1.0, "processor": 1.0, "memory": 10**6}

    def answered(_, *, is_learnt, **__):
        own = {"kept": pairs} if is_learnt else {}
        return {"pairs": pairs, "scores": [0.9] * PEOPLE, **timed, **own}

    monkeypatch.setattr(records, "load", lambda *_: task)
    monkeypatch.setattr(records, "in_child", answered)
    bench = Bench(tmp_path, tmp_path, 1, announce=lambda _: None)
    peers: dict[str, dict[str, Any]] = {
        "recordlinkage": {"absent": "it"},
        "splink": {"pairs": pairs[1:], "scores": [1.0] * (PEOPLE - 1), "kept": pairs, **timed},
    }
    records.split(bench, None, "made", peers)
    shown = capsys.readouterr().out
    assert "recordlinkage, set by hand: absent" in shown
    assert "splink, as documented: absent" in shown
    # By hand and of splink: chosen on the other half, alone or one to one; of the learnt, its own.
    assert len(bench.figures) == 2 + 4 + 2
    assert all(figure.value is not None and figure.value > 0.98 for figure in bench.figures)
    assert "200 pairs scored, 1.0000 of the matches among them" in bench.figures[0].note

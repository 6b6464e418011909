"""What ``simdb plan --exact`` says of each kind that has an exact index."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.commands import failed, run


def exact_plan(*options: str) -> dict[str, Any]:
    result = run("plan", "--exact", *options, "--json")
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_bags_by_the_sum_post_as_much_as_by_the_maximum_at_the_same_floor():
    """A sum similarity of 2/5 is a Jaccard similarity of 2/3 (MMDS 3.1.3)."""
    sums = exact_plan("--kind", "bag:sum", "--threshold", "2/5")
    maxima = exact_plan("--kind", "bag:maximum", "--threshold", "2/3")
    assert sums["prefixes"] == maxima["prefixes"]
    assert sums["prefixes"][2] == {"symbols": 10, "posted": 10 - 7 + 1}  # 7 are 2/3 of 10
    assert (sums["floor"], maxima["floor"]) == ("0.4", "2/3")


@pytest.mark.parametrize(
    ("kind", "floor"),
    [("bag", "4/9"), ("bag:maximum", "0.8"), ("set", "0.8"), ("bits:64:tanimoto", "0.8")],
)
def test_without_a_threshold_the_floor_is_that_of_a_new_collection(kind, floor):
    plan = exact_plan("--kind", kind)
    assert plan["floor"] == floor
    assert plan["prefixes"] == exact_plan("--kind", "set", "--threshold", "0.8")["prefixes"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--recall", "0.9"), "--recall is for a probable index, not for an exact one: leave it"),
        (("--bands", "3", "--rows", "2"), "--bands, --rows are for a probable index"),
        (("--row-budget", "9"), "--row-budget is for"),
    ],
    ids=lambda given: given[0],
)
def test_options_of_another_index_are_named_and_the_threshold_is_not(options, told):
    said = failed("plan", "--exact", "--threshold", "0.7", *options)
    assert told in said
    assert "threshold" not in said


def test_options_that_say_nothing_of_rules_are_named(tmp_path):
    settings = '{"kind": "record", "fields": [{"name": "a"}], "candidates": ["a"]}'
    said = failed("plan", "rows.jsonl", "--settings", settings, "--threshold", "0.7")
    assert "--threshold is for a probable index, not for rules of records: leave it out" in said


def test_a_floor_that_no_bags_reach_is_refused():
    result = run("plan", "--exact", "--kind", "bag", "--threshold", "0.6")
    assert result.exit_code == 2
    assert "lies between 0 and 1/2, so the bound cannot be 0.6" in result.stderr


def test_all_items_are_measured_if_the_sample_is_larger_than_any_number_of_them(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "one two three"}\n{"text": "four five six"}\n')
    assert exact_plan(str(tmp_path / "in.jsonl"), "--sample", str(2**63))["items"] == 2

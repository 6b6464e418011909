"""What calls return prints short at a prompt, counts, and becomes a frame."""

from __future__ import annotations

import pytest

import simdb

MANY = 30


@pytest.fixture
def texts(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        yield db.collection("t", simdb.Text(simdb.WordShingles(1)), threshold=0.5, seed=1)


@pytest.fixture
def report(texts):
    rows = [(number, f"one two three four five {number // 2}") for number in range(MANY)]
    return texts.add_many(rows, find_duplicates=True)


def test_a_report_prints_its_counts_and_is_a_table_of_the_duplicates(report):
    assert repr(report) == "AddReport(rows=30, added=30, duplicates_new=29)"
    assert report.to_arrow()["duplicate_of"].to_pylist() == [0] * (MANY - 1)
    assert simdb.AddReport().to_arrow().num_rows == 0
    assert repr(simdb.Outcomes(report.duplicates)) == "<simdb outcomes, 29: 29 added>"
    assert repr(simdb.Outcomes()) == "<simdb outcomes, 0>"


def test_pairs_are_counted_without_being_kept_and_have_no_length(texts, report):
    pairs = texts.pairs(guarantee="exact")
    token = pairs.token
    assert pairs.count() == len(list(pairs)) == MANY * (MANY - 1) // 2
    assert texts.pairs(guarantee="exact").token == token
    assert "counted by count()" in repr(pairs)
    with pytest.raises(TypeError, match=r"count\(\) counts them"):
        len(pairs)


def test_batches_of_pairs_are_equal_to_themselves_alone(texts, report):
    one, other = (next(texts.pairs(guarantee="exact").batches()) for _ in range(2))
    assert one == one  # noqa: PLR0124 - NumPy's columns were asked whether they are equal
    assert one != other
    assert one in {one}


def test_a_snapshot_prints_as_what_it_is_of(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db, db.snapshot() as state:
        assert repr(state) == f"<simdb snapshot of {tmp_path / 's.simdb'}>"


def test_groups_are_a_sequence_of_which_each_prints_some_keys(texts, report):
    groups = texts.groups()
    assert len(groups) == 1
    assert repr(groups[0]) == "Group(representative=0, keys=(0, 1, 2, 3, 4, ... 30 in all))"
    assert groups[-1:] == [*groups]
    with pytest.raises(IndexError):
        groups[1]


def test_a_plan_prints_its_settings_and_is_a_table_of_its_curve(texts):
    assert repr(simdb.plan(0.8)) == "Plan(threshold=0.8, bands=16, rows=6)"
    assert repr(simdb.plan("2/3")).startswith("Plan(threshold=2/3, ")
    curve = simdb.plan(0.8).to_arrow()
    assert curve.column_names == ["collision", "candidate"]
    assert curve.num_rows == 101
    assert curve["candidate"][100].as_py() == 1


def test_explanations_print_what_they_say(texts, report):
    assert repr(texts.explain("pairs")).startswith("pairs among 30 items\n* ")
    assert repr(texts.explain_pair(0, 1)).startswith("similarity 1.000000, similar")
    assert "bins" not in repr(texts.self_audit())

"""The command that says how a question would be answered."""

from __future__ import annotations

import json

import pytest

import simdb
from tests.support.commands import done, failed


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as database:
        kind = simdb.Bits(64)
        hashes = database.collection("hashes", kind, max_distance=4, recall=0.99, seed=1)
        hashes.add_many((number, number**5) for number in range(50))
    return path


def test_the_methods_are_listed_the_chosen_one_first(store):
    printed = done("explain", store, "hashes", "pairs", "--run").stdout
    assert printed.startswith("pairs among 50 items\n")
    assert printed.index("pigeonhole") < printed.index("buckets")
    assert "of processor time" in printed


def test_programs_get_one_object(store):
    printed = done(
        "explain", store, "hashes", "search", "--key", 7, "--integer-keys", "--run", "--json"
    ).stdout
    told = json.loads(printed)
    assert [one["method"] for one in told["alternatives"]] == ["buckets", "scan"]
    assert told["alternatives"][0]["chosen"]
    assert told["answers"] >= 1
    assert told["work"]["looked_at"] >= 1
    beyond = done("explain", store, "hashes", "search", "--max-distance", 9, "--json").stdout
    assert "probable" in json.loads(beyond)["refused"]
    shown = done("explain", store, "hashes", "search", "--max-distance", 9).stdout
    assert "probable is refused" in shown


def test_a_search_is_run_for_a_stored_item(store):
    assert "--key" in failed("explain", store, "hashes", "search", "--run")
    assert "--key" in failed("explain", store, "hashes", "pairs", "--key", 7, "--integer-keys")


def test_a_join_is_with_another_collection_and_nothing_else_is(store):
    with simdb.open(store) as database:
        others = database.collection("others", simdb.Bits(64), max_distance=4, seed=1)
        others.add_many((number, number**5 ^ 1) for number in range(0, 50, 5))
    joined = done("explain", store, "hashes", "join", "--right", "others", "--run", "--json").stdout
    pairs = done("join", store, "hashes", "others", "--exact").stdout.splitlines()
    assert json.loads(joined)["answers"] == len(pairs) >= 10
    assert "--right" in failed("explain", store, "hashes", "join")
    assert "--right" in failed("explain", store, "hashes", "pairs", "--right", "others")


def test_what_is_not_known_is_null(tmp_path):
    with simdb.open(tmp_path / "r.simdb") as database:
        kind = simdb.Fingerprint(100, 100)
        database.collection("prints", kind, threshold=0.5)
    told = json.loads(done("explain", tmp_path / "r.simdb", "prints", "pairs", "--json").stdout)
    assert told["alternatives"][0]["expected_recall"] is None

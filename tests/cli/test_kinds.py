"""Every kind of item on the command line: from files into a store, and what is asked of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import simdb
from tests.support.cli_stores import copied, require_sound
from tests.support.commands import done, lines_of, run, write_rows
from tests.support.kind_cases import ALL, Case, first_of_each

# Of estimates nothing is exact.
EXACT = {name: case for name, case in ALL.items() if not case.kind.estimates}


@pytest.fixture(params=first_of_each(EXACT))
def case(request):
    return request.param


@cache
def maker(case: Case) -> Callable[[Path], None]:
    """What makes a store of the examples of a case, and the file that they come from."""

    def make(folder: Path) -> None:
        path, rows = folder / "kinds.simdb", folder / "in.jsonl"
        write_rows(rows, [case.row(key, item) for key, item in enumerate(case.plain, 1)])
        done("create", path, "c", *case.new, "--seed", 1, "--recall", 0.999)
        report = json.loads(done("add", path, "c", rows, "--id-field", "id", "--json").stdout)
        assert (report["added"], report["since"]) == (len(case.items), 0)

    return make


@pytest.fixture
def store(case: Case, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    copied(maker(case), tmp_path_factory, tmp_path)
    yield tmp_path / "kinds.simdb"
    require_sound(tmp_path / "kinds.simdb")


def test_pairs_and_groups_are_the_true_ones(case, store):
    pairs = lines_of("pairs", store, "c", "--exact")
    assert {(pair["left"], pair["right"]) for pair in pairs} == case.pairs
    assert len(case.pairs) >= 5
    assert {tuple(pair) for pair in pairs} == {("left", "right", case.measured)}
    shown = done("pairs", store, "c", "--exact", *case.bound_options)
    assert shown.stdout.count("\n") == len(case.pairs)
    assert f"{pairs[0][case.measured]:.6f}\t" in shown.stdout
    assert "none is missing" in shown.stderr
    groups = lines_of("groups", store, "c", *case.bound_options)
    assert groups[0]["keys"] == [1, 6]


def test_a_search_takes_every_form_of_probe(case, store, tmp_path):
    item = case.plain[0]
    by_key = lines_of("search", store, "c", "--key", 1, "--integer-keys", *case.bound_options)
    assert [match["key"] for match in by_key] == [6]
    assert set(by_key[0]) == {"key", case.measured, "metadata"}
    found = lines_of("search", store, "c", "--item", json.dumps(item))
    assert [match["key"] for match in found] == [1, 6]
    assert found[1] == by_key[0]
    write_rows(tmp_path / "probe.jsonl", [case.row(1, item)])
    probe = tmp_path / "probe.jsonl"
    if case.kind.probe_format == "text":
        (tmp_path / "probe.txt").write_text(item)
        assert lines_of("search", store, "c", "--input", tmp_path / "probe.txt") == found
    if case.kind.of_elements:
        assert lines_of("search", store, "c", "--set", " ".join(item)) == found
    assert lines_of("search", store, "c", "--input", probe) == found
    write_rows(probe, [case.row("one", item), case.row("two", item)])
    several = lines_of("search", store, "c", "--input", probe, "--id-field", "id")
    assert several == [{"probe": name, **match} for name in ("one", "two") for match in found]
    assert "4 matches; " in done("search", store, "c", "--input", probe).stderr
    shown = done("search", store, "c", "--item", json.dumps(item))
    assert case.measured in shown.stdout
    assert "2 matches; " in shown.stderr


def test_what_is_exported_is_added_again(case, store, tmp_path):
    out = tmp_path / "out.jsonl"
    done("export", store, "c", "-o", out)
    done("create", store, "again", *case.new)
    done("add", store, "again", out, "--id-field", "id")
    assert done("export", store, "again").stdout == out.read_text()
    with simdb.open(store, read_only=True) as db:
        for one, other in zip(db["c"].items(), db["again"].items(), strict=True):
            assert (
                (one.key, one.metadata) == (other.key, other.metadata) == (other.key, {"more": "x"})
            )
            assert np.array_equal(one.item, other.item)
    got = lines_of("get", store, "again", 1, "--integer-keys")[0]
    write_rows(tmp_path / "got.jsonl", [case.row(99, got["item"])])
    done("add", store, "again", tmp_path / "got.jsonl", "--id-field", "id")
    assert lines_of("search", store, "again", "--key", 99, "--integer-keys")[0]["key"] == 1
    assert done("get", store, "again", 1, "--integer-keys").stdout.startswith("key: 1\nmore: x\n\n")


def test_duplicates_are_found_and_removed(case, store, tmp_path):
    out, removed = tmp_path / "kept.jsonl", tmp_path / "removed.jsonl"
    lines = (tmp_path / "in.jsonl").read_text().splitlines(keepends=True)
    arguments = ("dedupe", tmp_path / "in.jsonl", *case.new, "--recall", "0.999")
    done(*arguments, "-o", out, "--removed", removed, "--id-field", "id")
    assert out.read_text() == "".join(lines[:5])
    rows = [json.loads(line) for line in removed.read_text().splitlines()]
    assert [row["duplicate_of"] for row in rows] == [1, 2, 3, 4, 5]
    assert case.measured in rows[0]
    duplicates = tmp_path / "duplicates.jsonl"
    (tmp_path / "new.jsonl").write_text(lines[2].replace('"id": 3', '"id": 30'))
    done(
        "add", store, "c", tmp_path / "new.jsonl", "--id-field", "id", "--duplicates", duplicates,
        *case.bound_options,
    )  # fmt: skip
    (row,) = [json.loads(line) for line in duplicates.read_text().splitlines()]
    assert (row["duplicate_of"], row["stored"], case.measured in row) == (3, True, True)
    with_store = ("dedupe", tmp_path / "in.jsonl", "--store", store, "--collection", "c")
    done(*with_store, "-o", tmp_path / "none.jsonl", "--id-field", "id", *case.kind_options)
    assert (tmp_path / "none.jsonl").read_text() == "".join(lines)  # each is itself


def test_two_collections_are_joined(case, store):
    joined = lines_of("join", store, "c", "c", "--exact", *case.bound_options)
    both = case.pairs | {(right, left) for left, right in case.pairs}
    both |= {(key, key) for key in range(1, len(case.items) + 1)}
    assert {(pair["left"], pair["right"]) for pair in joined} == both
    assert done("join", store, "c", "c").stdout.count("\n") <= len(both)


def test_a_collection_is_rebuilt_audited_and_described(case, store):
    done("rebuild", store, "c", *case.bound_options, "--seed", 2)
    report = json.loads(done("audit", store, "c", *case.bound_options, "--json").stdout)
    assert report["true_pairs"] == 2 * len(case.pairs)
    bound = "max_distance" if case.measured == "distance" else "threshold"
    assert report[bound] == pytest.approx(case.bound[bound])
    assert bound.replace("_", " ") in done("audit", store, "c").stdout
    for command in (("stats",), ("stats", "--json"), ("pairs", "c", "--guarantee", "probable")):
        done(command[0], store, *command[1:])


def test_the_wrong_bound_is_refused_by_name(case, store, tmp_path):
    wrong = ("--threshold", 0.5) if case.measured == "distance" else ("--max-distance", 3)
    right = str(case.bound_options[0])
    item = json.dumps(case.plain[0])
    for command in (
        ("search", store, "c", "--item", item),
        ("pairs", store, "c"),
        ("groups", store, "c"),
        ("join", store, "c", "c"),
        ("audit", store, "c"),
        ("rebuild", store, "c"),
        ("add", store, "c", tmp_path / "in.jsonl", "--other-keys"),
        ("create", tmp_path / "new.simdb", "c", *case.kind_options),
        ("plan", *case.kind_options),
        ("dedupe", tmp_path / "in.jsonl", "-o", tmp_path / "out", *case.kind_options),
    ):
        refused = run(*command, *wrong)
        assert (refused.exit_code, refused.stdout) == (2, ""), command
        assert f"are compared by {case.measured}: give {right}, not" in refused.stderr, command
    both = run("pairs", store, "c", "--threshold", 0.5, "--max-distance", 1)
    assert "--threshold and --max-distance contradict" in both.stderr
    assert not (tmp_path / "new.simdb").exists()


def test_a_cascade_is_planned_created_and_rebuilt_on_the_command_line(tmp_path):
    store, cascade = tmp_path / "a.simdb", "And(2, Or(20, And(4)))"
    told = done("plan", "--cascade", cascade).stdout
    assert f"cascade {cascade}, 20 bucket keys an item" in told
    assert "(0.2, 0.6, 0.9999, 0.1638)-sensitive" in told
    assert "fixed point: 0.4921" in told
    plan = json.loads(done("plan", "--cascade", cascade, "--json").stdout)
    assert (plan["cascade"], plan["keys"], plan["bands"], plan["rows"]) == (cascade, 20, 40, 4)
    assert plan["fixed_points"] == [pytest.approx(0.4921, abs=1e-4)]
    assert plan["sensitivity"]["near"] == pytest.approx(0.2)
    made = done("create", store, "c", "--kind", "set", "--cascade", cascade).stderr
    assert f"threshold 0.8, cascade {cascade}, 20 bucket keys" in made
    assert "16 bands of 6 rows" in done("rebuild", store, "c", "--cascade", "or(16, and(6))").stderr
    refused = run("create", store, "d", "--cascade", "And(4, 4)")
    assert refused.exit_code == 2
    assert "a cascade is written as And(4, Or(4, And(2))), not 'And(4, 4)'" in refused.stderr
    refused = run("plan", "--cascade", "And(4, Or(4))", "--rows", 3)
    assert "leave out bands, rows" in refused.stderr


def test_a_plan_tells_about_how_many_bucket_keys_an_item_has_where_that_varies():
    for kind, bound, keys in (
        ("fingerprint:300:300", ("--threshold", 0.5), 16),
        ("fingerprint:300:300", ("--threshold", 0.5, "--settings", '{"alignment": "turn"}'), 256),
        ("string", ("--max-distance", 2), 3),
        ("set", ("--threshold", 0.5, "--bands", 7, "--rows", 3), 7),
    ):
        assert json.loads(done("plan", "--kind", kind, *bound, "--json").stdout)["keys"] == keys


def test_a_plan_is_shown_for_every_kind(case):
    plan = json.loads(done("plan", *case.new, "--json").stdout)
    assert plan["bands"] >= 1
    if not case.states_recall:
        assert plan["expected_recall"] is None or plan["expected_recall"] <= 1
    elif case.kind.name == "string" or (case.kind.name == "bits" and case.kind.is_distance):
        assert plan["expected_recall"] == 1
    else:
        assert 0.99 <= plan["expected_recall"] < 1
        assert set(plan["curve"][0]) == {case.measured, "probability"}
        most = [point["probability"] for point in plan["curve"]]
        assert most == sorted(most, reverse=case.measured == "distance")
    assert done("plan", *case.new).stdout


def test_without_a_distance_all_are_compared_with_all(tmp_path):
    path = tmp_path / "s.simdb"
    created = done("create", path, "c", "--kind", "vector:2:euclidean")
    assert "compares all items" in created.stderr
    (tmp_path / "in.jsonl").write_text("[0, 0]\n[0, 1]\n")
    done("add", path, "c", tmp_path / "in.jsonl")
    pairs = lines_of("pairs", path, "c", "--max-distance", "1")
    assert pairs == [{"left": 1, "right": 2, "distance": 1.0}]
    refused = run("dedupe", tmp_path / "in.jsonl", "-o", "-", "--kind", "vector:2")
    assert "need --max-distance" in refused.stderr
    assert run("create", path, "d", "--kind", "vector:2", "--exact-floor", "0.5").exit_code == 2


@pytest.mark.parametrize("item", ["", "[1", "1, 2", "NaN", "null", '"\\ud800"', "[" * 100_000])
def test_items_that_are_no_json_are_refused(item, tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "c", *ALL["vector:6:euclidean"].new)
    refused = run("search", path, "c", "--item", item)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("simdb: --item: ")
    assert refused.stderr.count("\n") == 1


def test_probes_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "v", *ALL["vector:6:euclidean"].new)
    done("create", path, "b", "--kind", "bag")
    for name, option, hint in (("v", "--text", "--item"), ("v", "--set", "--item"),
                               ("b", "--text", "--set")):  # fmt: skip
        refused = run("search", path, name, option, "1 2")
        assert refused.exit_code == 2
        assert f"search with {hint}" in refused.stderr
    assert run("search", path, "v", "--item", "[1]", "--elements", "auto").exit_code == 2
    assert run("search", path, "v", "--item", "[1]", "--key", "x").exit_code == 2

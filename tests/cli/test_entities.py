"""One to one and groups that do not chain, on the command line."""

from __future__ import annotations

import gzip
import json

import pytest

import simdb
from tests.support.cli_stores import near_copy, text_of
from tests.support.commands import done, failed, lines_of, run, write_rows


@pytest.fixture
def store(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        for name in ("left", "right"):
            sets = db.collection(name, simdb.Set(), threshold=None, exact_floor=0.5)
            sets.add_many((key, set(range(key, key + 8))) for key in range(1, 6))
    return tmp_path / "s.simdb"


def test_join_and_groups_take_what_is_apart_from_a_file(store, tmp_path):
    (tmp_path / "apart.tsv").write_text("2\t3\n\n")
    (tmp_path / "apart.jsonl").write_text('{"left": 2, "right": 2, "similarity": 1}\n')
    apart = tmp_path / "apart.tsv"
    found = run("groups", store, "left", "--threshold", "0.7", "--method", "star",
                "--apart", apart, "--integer-keys")  # fmt: skip
    assert found.stdout.splitlines() == ["2\t1\t2", "3\t4\t3\t5"]
    assert "2 and 3 are kept apart, but similarity 0.777778" in found.stderr
    told = run("groups", store, "left", "--threshold", "0.7", "--method", "correlation", "--json",
               "-o", tmp_path / "g.jsonl")  # fmt: skip
    assert json.loads(told.stdout)["method"] == "correlation"
    assert json.loads(told.stdout)["objective"] > 0
    joined = run("join", store, "left", "right", "--threshold", "0.7", "--one-to-one")
    assert joined.stdout.splitlines() == [f"1.000000\t{key}\t{key}" for key in range(1, 6)]
    other = run("join", store, "left", "right", "--threshold", "0.7", "--one-to-one",
                "--apart", tmp_path / "apart.jsonl")  # fmt: skip
    assert "1.000000\t2\t2" not in other.stdout
    assert len(other.stdout.splitlines()) == 5


def test_pairs_from_elsewhere_are_scored_in_their_order(store, tmp_path):
    (tmp_path / "pairs.tsv").write_text("2\t3\n1\t5\n")
    scored = ["score", store, "left", tmp_path / "pairs.tsv", "--integer-keys"]
    assert done(*scored).stdout.splitlines() == ["0.777778\t2\t3", "0.333333\t1\t5"]
    assert done(*scored, "--right", "right").stdout == done(*scored).stdout
    assert json.loads(done(*scored, "--json").stdout.splitlines()[1])["right"] == 5
    (tmp_path / "pairs.tsv").write_text("2\t30\n")
    assert "30 is not stored" in failed(*scored)


def test_files_of_pairs_are_read_as_any_text(tmp_path):
    odd = "a\u2028b\x85c\x1cd\x0b"
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        db.collection("c", simdb.Set(), threshold=None, exact_floor=0.5).add_many(
            [(odd, {1, 2}), ("x", {1, 2})]
        )
    scored = ["score", tmp_path / "s.simdb", "c"]
    as_json = json.dumps({"left": odd, "right": "x"}, ensure_ascii=False)
    for name, text in (("a.tsv", f"{odd}\tx\r\n\r\n"), ("a.jsonl", as_json)):
        pairs = tmp_path / name
        pairs.write_bytes(b"\xef\xbb\xbf" + text.encode())
        (found,) = lines_of(*scored, pairs)
        assert (found["left"], found["right"]) == (odd, "x")
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(pairs.read_bytes()))
        assert lines_of(*scored, packed) == [found]
    pairs.write_bytes(b'{"left": "x", "right": "x"}\n{"left": "\xff", "right": "x"}\n')
    assert "a.jsonl, line 2: not UTF-8" in failed(*scored, pairs)


def test_a_state_needs_a_method_that_holds_pairs(store, tmp_path):
    state, chained = tmp_path / "state", ["groups", store, "left", "--threshold", "0.7"]
    assert "--state needs --apart or another --method" in failed(*chained, "--state", state)
    assert not state.exists()
    (tmp_path / "apart").write_text("")
    apart = ["--apart", tmp_path / "apart", "--integer-keys"]
    assert done(*chained, *apart, "--state", state).stdout == done(*chained).stdout
    (tmp_path / "apart").write_text("1\t5\n")
    first = done(*chained, *apart, "--state", state).stdout
    assert done(*chained, *apart, "--state", state).stdout == first
    state.write_bytes(state.read_bytes()[:-30])
    damaged = failed(*chained, *apart, "--state", state)
    assert damaged.endswith("is not the state of groups that this version keeps")


def test_a_run_goes_on_from_the_state_that_the_one_before_kept(store, tmp_path):
    command = ["groups", store, "left", "--threshold", "0.7", "--method", "star",
               "--state", tmp_path / "state"]  # fmt: skip
    first = done(*command).stdout
    assert done(*command).stdout == first
    with simdb.open(store) as db:
        db["left"].add(9, set(range(5, 14)))
    anew = done(*command[:-2]).stdout
    assert anew != first
    assert done(*command).stdout == anew
    message = failed("groups", store, "left", "--threshold", "0.8", *command[5:])
    assert "not from this collection, bound and method" in message
    assert "keep no pairs" in failed("groups", store, "right", "--state", tmp_path / "other")


@pytest.mark.parametrize(
    "command",
    [
        ("groups", "left", "--apart", "IN"),
        ("groups", "left", "--method", "star", "--state", "IN"),
        ("join", "left", "right", "--one-to-one", "--apart", "IN"),
        ("score", "left", "IN"),
        ("search", "left", "--input", "IN", "--format", "lines"),
        ("learn", "left", "--labels", "IN"),
    ],
)
def test_no_answer_takes_the_place_of_what_is_read(store, tmp_path, command):
    name, *others = ("in.x" if word == "IN" else word for word in command)
    given = tmp_path / "in.x"
    given.write_text("1\t2\n")
    words = [given if word == "in.x" else word for word in others]
    (tmp_path / "link").hardlink_to(given)
    for output in (given, tmp_path / "link"):
        assert "is an input" in failed(name, store, *words, "-o", output)
    assert given.read_text() == "1\t2\n"


def test_groups_and_their_state_appear_together(store, tmp_path):
    stars = ["groups", store, "left", "--threshold", "0.7", "--method", "star"]
    given, state = tmp_path / "apart.tsv", tmp_path / "state"
    given.write_text("1\t2\n")
    apart = ["--apart", given, "--integer-keys"]
    assert "is an input" in failed(*stars, *apart, "--state", given)
    assert given.read_text() == "1\t2\n"
    done(*stars, "--state", state, "-o", tmp_path / "groups.jsonl")
    before = state.read_bytes()
    with simdb.open(store) as db:
        db["left"].add(9, set(range(5, 14)))
    failed(*stars, "--state", state, "-o", tmp_path / "none" / "groups.jsonl")
    assert state.read_bytes() == before
    assert "two outputs" in failed(*stars, "--state", tmp_path / "new", "-o", tmp_path / "new")
    done(*stars, "--state", state, "-o", tmp_path / "groups.parquet")
    assert state.read_bytes() != before


def test_a_new_state_is_a_file_whatever_the_signs_in_its_name(store, tmp_path):
    stars, output = ["groups", store, "left", "--method", "star"], tmp_path / "groups1"
    for _ in range(2):  # the output is there the second time, and the state is not
        done(*stars, "--threshold", "0.7", "--state", tmp_path / "groups[1]", "-o", output)
        (tmp_path / "groups[1]").unlink()


def test_a_line_that_is_no_pair_is_named(store, tmp_path):
    for name, line in (("a.tsv", "2\t3\n4\n"), ("a.jsonl", '{"left": 2, "right": 3}\n[4]\n')):
        (tmp_path / name).write_text(line)
        message = failed("groups", store, "left", "--apart", tmp_path / name, "--integer-keys")
        assert f"{name}, line 2: expected" in message


def test_groups_that_are_kept_are_printed_by_key_by_id_and_all(tmp_path):
    store = tmp_path / "s.simdb"
    rows = write_rows(
        tmp_path / "rows.jsonl",
        [{"id": n, "text": text} for n, text in enumerate([text_of(1), near_copy(1), text_of(2)])],
    )
    asked = (store, "c")
    at = ("--groups-at", "0.8", "--groups-at", "0.9")
    assert "--groups chain keeps" in failed("create", *asked, *at)
    refused = failed("create", *asked, "--groups", "star", "--groups-at", "0.5")
    assert "; --threshold 0.5 plans for it" in refused
    assert "groups: star at 0.8, 0.9" in done("create", *asked, "--groups", "star", *at).stderr
    done("add", *asked, rows, "--id-field", "id")
    (both,) = lines_of("group", *asked)
    assert both["keys"] == [0, 1]
    for one in (["1", "--integer-keys"], ["--id", both["id"]], ["--threshold", "0.8"]):
        assert lines_of("group", *asked, *one) == [both]
    assert lines_of("group", *asked, "2", "--integer-keys") == [{"id": None, "keys": [2]}]
    assert "not both" in failed("group", *asked, "1", "--id", "1")
    assert "of one threshold's groups" in failed("group", *asked, "--id", "1", "--threshold", "0.9")
    assert "'x' is not a whole number" in failed("group", *asked, "x", "--integer-keys")
    assert "never a group 9" in failed("group", *asked, "--id", "9")
    created, *others = lines_of("changes", *asked)
    assert created["action"] == "created"
    assert lines_of("changes", *asked, "--since", "1") == others
    assert "groups: chain at 0.8, 0.9" in done("rebuild", *asked, "--groups", "chain").stderr
    assert "groups are no longer kept" in done("rebuild", *asked, "--drop-groups").stderr
    assert "--groups chain lets it keep them" in failed("changes", *asked)
    assert "contradicts" in failed("rebuild", *asked, "--drop-groups", "--groups", "chain")


def test_a_key_that_is_stored_as_a_number_names_the_option_that_reads_it(tmp_path):
    store = tmp_path / "s.simdb"
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "text": "some text"}\n')
    done("create", store, "texts")
    done("add", store, "texts", tmp_path / "rows.jsonl", "--id-field", "id")
    for asked in (("get", store, "texts", "1"), ("show", store, "texts", "1", "1")):
        assert failed(*asked).endswith("but the number 1 is: --integer-keys reads keys as numbers")

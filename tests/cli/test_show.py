"""Differences, side by side in the terminal; reasons of matches, pairs and removed rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb import differences
from simdb.cli.differences import side_by_side
from simdb.differences import MOST_WORDS, aligned, marked, rows, shortened
from tests.support.commands import done, failed, lines_of, run, write_rows

TEXT = "the quick brown fox jumps over the lazy dog near the river bank"
ROWS = [
    {"id": "a", "text": TEXT},
    {"id": "b", "text": TEXT.replace("lazy", "sleepy") + " \x1b[31m"},
    {"id": "c", "text": "something else entirely that nobody has written before"},
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        texts = db.collection("t", simdb.Text(simdb.WordShingles(1)), threshold="0.6", seed=1)
        texts.add_many([(row["id"], row["text"]) for row in ROWS])
        people = db.collection(
            "people", simdb.Record([simdb.Field("name"), simdb.Field("town")]), threshold="0.4"
        )
        people.add_many([("1", {"name": "Ann", "town": "York"}), ("2", {"name": "Ann"})])
    return tmp_path / "s.simdb"


def test_lines_that_differ_are_marked_and_far_equal_ones_left_out():
    left = "\n".join("abcdefghijklm")
    right = "\n".join("abcdefgXijklmn")

    assert list(aligned(left, right)) == [
        ("...", " ", "..."),
        ("f", " ", "f"),
        ("g", " ", "g"),
        ("h", "|", "X"),
        ("i", " ", "i"),
        ("j", " ", "j"),
        ("...", " ", "..."),
        ("l", " ", "l"),
        ("m", " ", "m"),
        ("", ">", "n"),
    ]
    assert list(aligned("a\nb", "a")) == [("a", " ", "a"), ("b", "<", "")]
    assert list(aligned("same", "same")) == []
    empty = "\n" * (MOST_WORDS + 1)  # too many equal lines to look for the best places
    shown = list(aligned(f"{empty}a{empty}x", f"{empty}b{empty}x"))
    assert ("a", "|", "b") in shown
    assert len(shown) == 7


def test_changed_lines_with_equal_ones_between_stand_beside_each_other():
    texts = ("\n\n".join(f"paragraph {n} of the {one} edition" for n in range(500)) for one in "ab")
    marks = [mark for _, mark, _ in aligned(*texts)]
    assert marks == [*["|", " "] * 499, "|"]


def test_lines_of_one_character_are_not_their_code_points():
    assert [mark for _, mark, _ in aligned("a\n\nb", "a\n\0\nb")] == [" ", "|", " "]
    assert list(aligned("", "\0")) == [("", "|", "\0")]


def test_long_texts_are_aligned_where_few_lines_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "MOST_COMPARED", 0)
    left = [f"line {number}" for number in range(60)]
    right = [line for number, line in enumerate(left) if number not in (20, 40)]
    marks = [mark for _, mark, _ in aligned("\n".join(left), "\n".join(right))]
    assert "".join(marks).strip() == "<     <"
    for lines in (left, right):
        lines[10:50] = [""] * len(lines[10:50])
    marks = [mark for _, mark, _ in aligned("\n".join([*left, "x"]), "\n".join([*right, "y"]))]
    assert marks.count("<") == 2
    assert marks.count("|") == 1


def test_a_comparison_is_cut_after_so_many_lines():
    table = side_by_side("l", "a\n" * 50, "r", "b\n" * 50, width=60, longest=5)

    assert table.row_count == 6


def test_words_that_differ_are_marked_and_the_pieces_are_the_texts() -> None:
    left, right = "one two  three four", "one 2 three\nfour five"
    ones, others = marked(left, right)
    assert ones == [("one ", False), ("two  ", True), ("three four", False)]
    assert others == [("one ", False), ("2 ", True), ("three\nfour ", False), ("five", True)]
    assert marked("", "") == ([], [])
    long = " ".join(map(str, range(2 * MOST_WORDS)))
    for pieces, text in zip(
        marked(f"a {long} b", f"a x {long[::-1]} b"), ("0 ", "x "), strict=True
    ):
        assert [changed for _, changed in pieces] == [False, True, False]
        assert pieces[1][0].startswith(text)
    assert next(rows("a b", "a c")).left == [("a ", False), ("b", True)]
    shown = shortened([("x" * 500, False), ("y" * 1_000, True), ("z" * 300, False)])
    assert sum(len(text) for text, _ in shown) < 1_000
    assert "400 more" in shown[1][0]


def test_show_marks_what_differs_and_says_why(store: Path) -> None:
    shown = done("show", store, "t", "a", "b").stdout
    for part in ("similarity 0.769231", "shingles: 10 common", "[-lazy-]", "{+sleepy+}", "band"):
        assert part in shown, shown
    assert "\x1b" not in shown
    assert "probability" in shown
    told = json.loads(done("show", store, "t", "a", "b", "--json").stdout)
    assert (told["left"], told["met"], told["common"]) == ("a", True, 10)
    assert {"what": "lazy", "left": [[35, 39]], "right": None} in told["differing"]
    assert "(equal)" in done("show", store, "t", "a", "a").stdout
    of_fields = done("show", store, "people", "1", "2", "--right", "people").stdout
    for part in ("fields", "York", "rule name", "..."):
        assert (part in of_fields) == (part != "..."), of_fields
    assert "1 more" in done("show", store, "people", "1", "2", "--lines", 1).stdout
    assert run("show", store, "t", "a", "nothing").exit_code == 2


def test_a_search_shows_and_explains_its_matches(store: Path) -> None:
    asked = ("search", store, "t", "--text", TEXT)
    (first, second) = lines_of(*asked, "--explain")
    assert (first["key"], first["evidence"]["differing"]) == ("a", [])
    assert second["evidence"]["only_left"] == 1
    shown = done(*asked, "--explain", "--show").stdout
    for part in ("given\ta", "sleepy", "    shingles: 10 common"):
        assert part in shown, shown
    assert done(*asked, "--exists").stdout == ""
    assert run("search", store, "t", "--key", "c", "--exists").exit_code == 1
    assert run("search", store, "t", "--key", "a", "--exists").exit_code == 0
    assert run("search", store, "t", "--key", "nothing", "--exists").exit_code == 2
    assert "prints no matches" in failed(*asked, "--exists", "--json")
    assert "for people" in failed(*asked, "--show", "--json")
    assert "writes lines" in failed(*asked, "--explain", "-o", store.parent / "x.parquet")
    assert "search with --item as JSON" in failed("search", store, "people", "--text", "Ann")


def test_pairs_and_joins_are_explained(store: Path) -> None:
    (pair,) = lines_of("pairs", store, "t", "--explain")
    assert pair["evidence"]["met_by"]
    assert "    shingles: 10 common" in done("pairs", store, "t", "--explain").stdout
    joined = lines_of("join", store, "t", "t", "--explain")
    assert joined[0]["evidence"]["similar"]


def test_reasons_name_the_bound_that_was_asked_for_and_both_keys(store: Path) -> None:
    for told in (
        done("pairs", store, "t", "--explain", "--threshold", 0.7),
        done("search", store, "t", "--key", "a", "--explain", "--threshold", 0.7),
        done("join", store, "t", "t", "--explain", "--threshold", 0.7),
    ):
        assert "0.769231\ta\tb" in told.stdout
        assert "similar: the bound is 0.7" in told.stdout
    told = done("pairs", store, "t", "--explain", "--threshold", 0.8, "--measure", "dice")
    assert "names the Jaccard similarity" in told.stderr
    assert "similar: the bound is 0.6" in told.stdout
    assert "needs --json or --output" in failed("groups", store, "t", "--metadata")


def test_removed_rows_carry_what_they_were_removed_for(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", ROWS)
    wanted: Any = (
        "dedupe",
        source,
        "--shingles",
        "word:1",
        "--threshold",
        0.6,
        "--id-field",
        "id",
        "-o",
        tmp_path / "kept.jsonl",
    )
    done(*wanted, "--removed", tmp_path / "removed.jsonl", "--with-kept", "--explain")
    (removed,) = map(json.loads, (tmp_path / "removed.jsonl").read_text().splitlines())
    assert removed["kept"] == TEXT
    assert removed["evidence"]["common"] == 10
    assert removed["row"] == ROWS[1]
    assert "give --removed FILE" in failed(*wanted, "--explain")


def test_a_key_that_is_not_stored_may_be_a_removed_row_s_and_show_says_where_those_are(store):
    assert "--removed FILE --with-kept" in failed("show", store, "t", "a", "removed")

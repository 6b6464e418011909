"""The exact index on the command line: made, asked, joined with, planned, taken away."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import simdb
from tests.support import oracle
from tests.support.cli_stores import likeness, text_of
from tests.support.commands import done, failed, lines_of, run, write_rows
from tests.support.similarities import jaccard

GENERATOR = random.Random(9)
BASES = [GENERATOR.sample(range(5_000), 16) for _ in range(8)]


def similar(base: list[int], changed: int) -> list[int]:
    kept = GENERATOR.sample(base, len(base) - changed)
    return kept + [GENERATOR.randrange(5_000) for _ in range(changed)]


LEFT = [similar(base, changed) for base in BASES for changed in (0, 2, 4, 6)]
RIGHT = [similar(base, changed) for base in BASES for changed in (1, 3, 5)]


def write_sets(path: Path, sets: list[list[int]]) -> Path:
    path.write_text("".join(" ".join(map(str, item)) + "\n" for item in sets))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.simdb"
    for name, sets in (("left", LEFT), ("right", RIGHT)):
        done("create", path, name, "--kind", "set", "--threshold", 0.8, "--exact-floor", 0.5)
        done("add", path, name, write_sets(tmp_path / f"{name}.txt", sets))
    return path


def told(*arguments: object) -> set[tuple[Any, Any, float]]:
    rows = lines_of(*arguments)
    found = {(row["left"], row["right"], row["similarity"]) for row in rows}
    assert len(found) == len(rows)
    return found


def pairs_at(threshold: str) -> set[tuple[int, int, float]]:
    found = oracle.similar_pairs(list(map(set, LEFT)), Fraction(threshold))
    return {(left + 1, right + 1, float(score)) for left, right, score in found}


@pytest.mark.parametrize("threshold", ["0.5", "0.6", "7/9", "1"])
def test_exact_pairs_groups_and_searches_miss_nothing(store, threshold):
    assert told("pairs", store, "left", "--exact", "--threshold", threshold) == pairs_at(threshold)
    for key in (1, 6):
        probe = " ".join(map(str, LEFT[key]))
        matches = lines_of("search", store, "left", "--set", probe, "--exact",
                           "--threshold", threshold)  # fmt: skip
        expected = {
            number: float(score)
            for number, other in enumerate(LEFT, 1)
            if (score := jaccard(LEFT[key], other)) >= Fraction(threshold)
        }
        assert {match["key"]: match["similarity"] for match in matches} == expected
    grouped = {key for group in lines_of("groups", store, "left", "--exact", "--threshold",
                                         threshold) for key in group["keys"]}  # fmt: skip
    assert grouped == {key for pair in pairs_at(threshold) for key in pair[:2]}


def test_an_exact_answer_says_that_none_is_missing(store):
    assert "none is missing" in done("pairs", store, "left", "--threshold", 0.6).stderr
    assert "none is missing" in done("search", store, "left", "--set", "1 2", "--exact").stderr
    probable = done("pairs", store, "left", "--guarantee", "probable").stderr
    assert "expected recall" in probable


@pytest.mark.parametrize("threshold", ["0.5", "0.7", "1"])
def test_a_join_is_every_pair_of_both_collections(store, tmp_path, threshold):
    expected = {
        (one, two, float(score))
        for one, left in enumerate(LEFT, 1)
        for two, right in enumerate(RIGHT, 1)
        if (score := jaccard(left, right)) >= Fraction(threshold)
    }
    assert told("join", store, "left", "right", "--threshold", threshold) == expected
    done("backup", store, tmp_path / "other.simdb")
    elsewhere = ("--right-store", tmp_path / "other.simdb")
    assert told("join", store, "left", "right", *elsewhere, "--threshold", threshold) == expected
    shown = done("join", store, "left", "right", "--threshold", threshold)
    assert len(shown.stdout.splitlines()) == len(expected)
    assert "none is missing" in shown.stderr


def test_a_join_of_texts_and_sets_is_refused(store):
    done("create", store, "texts")
    assert run("join", store, "left", "texts").exit_code == 2
    assert run("join", store, "left", "absent").exit_code == 2
    assert run("join", store, "left", "right", "--right-store", "absent.simdb").exit_code == 3


def test_other_measures_are_asked_for_by_name(store):
    probe = LEFT[0][:12]
    found = lines_of("search", store, "left", "--set", " ".join(map(str, probe)),
                     "--measure", "dice", "--threshold", 0.8)  # fmt: skip
    expected = {
        number: 2 * len(set(probe) & set(item)) / (len(set(probe)) + len(set(item)))
        for number, item in enumerate(LEFT, 1)
    }
    assert {row["key"]: row["similarity"] for row in found} == pytest.approx(
        {key: score for key, score in expected.items() if score >= 0.8}
    )
    inside = " ".join(map(str, LEFT[0][:3]))
    for _ in range(2):  # without an index that serves it, and with one
        found = lines_of("search", store, "left", "--set", inside, "--measure", "probe-in-stored",
                         "--threshold", 1)  # fmt: skip
        assert {row["key"] for row in found} == {
            number for number, item in enumerate(LEFT, 1) if set(LEFT[0][:3]) <= set(item)
        }
        done("rebuild", store, "left", "--containment")
    assert run("search", store, "left", "--set", "1", "--measure", "nearness").exit_code == 2


def test_exact_indexes_are_added_and_taken_away(tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "c", "--kind", "set", "--threshold", 0.9)
    done("add", path, "c", write_sets(tmp_path / "in.txt", LEFT))
    by_dice = ("search", path, "c", "--set", "1 2", "--measure", "dice", "--threshold", 0.75)
    assert "none is missing" in done(*by_dice).stderr
    refused = run(*by_dice, "--guarantee", "probable")
    assert refused.exit_code == 2
    assert "no probable index for dice" in refused.stderr
    assert "exact from 0.6 on" in done("rebuild", path, "c", "--exact-floor", 0.6).stderr
    assert told("pairs", path, "c", "--threshold", 0.6) == pairs_at("0.6")
    only = done("rebuild", path, "c", "--drop-probable").stderr
    assert "bands" not in only
    assert told("pairs", path, "c", "--threshold", 0.6) == pairs_at("0.6")
    assert "exact" not in done("rebuild", path, "c", "--threshold", 0.8, "--drop-exact").stderr
    assert run("rebuild", path, "c", "--drop-exact", "--exact-floor", 0.5).exit_code == 2
    assert run("check", path, "--deep").exit_code == 0


def test_a_collection_may_be_exact_only(tmp_path):
    path = tmp_path / "s.simdb"
    made = done("create", path, "c", "--kind", "set", "--exact-floor", "2/3", "--exact-only")
    assert made.stderr.endswith("s.simdb: exact from 2/3 on\n")
    with simdb.open(path, read_only=True) as db:
        assert db["c"].exact_floor == Fraction(2, 3)
    assert run("create", path, "d", "--exact-only").exit_code == 2
    assert run("create", path, "d", "--containment").exit_code == 2
    assert run("create", path, "d", "--exact-floor", 0).exit_code == 2
    assert run("create", path, "d", "--exact-floor", 1.5).exit_code == 2
    assert run("pairs", path, "c", "--guarantee", "probable", "--exact").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (["--exact-floor", 0.7], True),
        (["--exact-floor", 0.99], False),
        (["--exact-floor", 0.7, "--shingles", "word:3"], True),
        (["--exact-floor", 0.8, "--shingles", "word:3"], False),
        (["--exact-floor", 0.8, "--shingles", "word:3", "--containment"], True),
        (["--exact-floor", 0.5, "--shingles", "stop-word:2"], False),
        (["--exact-floor", 0.5, "--kind", "set"], False),
        ([], False),
    ],
)
def test_create_warns_where_the_index_would_outweigh_the_texts(tmp_path, arguments, warned):
    made = done("create", tmp_path / "s.simdb", "c", *arguments)
    assert ("warning: the exact index is likely to take" in made.stderr) == warned


def shingles_of(text: str, size: int) -> set[str]:
    return {text[start : start + size] for start in range(len(text) - size + 1)}


def test_the_plan_counts_what_would_be_posted(tmp_path):
    texts = [text_of(seed) for seed in range(5)]
    rows = write_rows(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    plan = json.loads(
        done("plan", "--exact", "--threshold", 0.7, rows, "--sample", 4, "--json").stdout
    )
    sizes = [len(shingles_of(text, 9)) for text in texts[:4]]
    posted = [size - -(-7 * size // 10) + 1 for size in sizes]
    assert (plan["items"], plan["symbols"]) == (4, sum(sizes))
    assert (plan["postings"], plan["largest_prefix"]) == (sum(posted), max(posted))
    assert plan["item_bytes"] == sum(map(len, texts[:4]))
    assert plan["postings_per_item"] == sum(posted) / 4
    assert plan["bytes_per_item"] == 20 * sum(posted) / 4
    assert plan["weight"] == 20 * sum(posted) / plan["item_bytes"]
    assert plan["floor"] == "0.7"
    shown = done("plan", "--exact", "--threshold", 0.7, rows).stdout
    assert "5 items of " in shown


def test_the_plan_is_what_the_index_then_takes(tmp_path):
    path = tmp_path / "s.simdb"
    lines = write_sets(tmp_path / "in.txt", LEFT)
    plan = json.loads(
        done("plan", "--exact", "--kind", "set", "--threshold", 0.6, lines, "--json").stdout
    )
    done("create", path, "c", "--kind", "set", "--exact-floor", 0.6, "--exact-only")
    done("add", path, "c", lines)
    stats = json.loads(done("stats", path, "c", "--json").stdout)
    assert stats["exact_index"]["postings"] == plan["postings"]
    assert stats["item_bytes"] == plan["item_bytes"]


def test_the_plan_without_inputs_shows_prefixes(tmp_path):
    plan = json.loads(done("plan", "--exact", "--threshold", "0.9", "--json").stdout)
    posted = {row["symbols"]: row["posted"] for row in plan["prefixes"]}
    assert (posted[1], posted[10], posted[1000]) == (1, 2, 101)
    assert "items" not in plan
    assert "101" in done("plan", "--exact", "--threshold", "0.9").stdout
    assert run("plan", tmp_path).exit_code == 2
    assert run("plan", "--exact", tmp_path / "absent").exit_code == 2
    assert run("plan", "--exact", "--threshold", 0).exit_code == 2
    plot = ["--plot", tmp_path / "curve.svg"]
    assert "leave out --exact" in failed("plan", "--exact", *plot)
    for unused in (["--bands", 3], ["--recall", 0.5]):
        told = f"{unused[0]} is for a probable index, not for an exact one"
        assert told in failed("plan", "--exact", *unused)
    records = tmp_path / "records.json"
    records.write_text(json.dumps(simdb.Record([simdb.Field("name")]).describe()))
    for unused in (["--max-distance", 3], plot):
        told = failed("plan", records, "--kind", "record", "--settings", records, *unused)
        assert f"{unused[0]} is for a probable index, not for rules of records" in told
    (tmp_path / "bad.jsonl").write_text('{"set": [1]}\n\n{"set": [1, "x"]}\n')
    refused = run("plan", "--exact", "--kind", "set", tmp_path / "bad.jsonl")
    assert refused.exit_code == 2
    assert "bad.jsonl, line 3: the elements of a set" in refused.stderr


def test_texts_have_an_exact_index_too(tmp_path):
    path = tmp_path / "s.simdb"
    texts = [text_of(seed) for seed in range(3)]
    texts += [" ".join(text.split()[:-20]) for text in texts]
    rows = write_rows(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    done("create", path, "c", "--exact-floor", 0.6)
    done("add", path, "c", rows)
    expected = {
        (one + 1, two + 1, likeness(texts[one], texts[two]))
        for one in range(6)
        for two in range(one + 1, 6)
        if likeness(texts[one], texts[two]) >= 0.6
    }
    assert len(expected) == 3
    assert told("pairs", path, "c", "--exact", "--threshold", 0.6) == expected

"""Collections of sets on the command line: what goes in, what comes out, what is refused."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.errors import ConfigurationError, UsageError
from simdb.files import open_rows
from simdb.files.rows import ReadingOptions, Row
from tests.support import oracle
from tests.support.cli_stores import copied, require_sound
from tests.support.commands import done, failed, lines_of, run
from tests.support.similarities import jaccard

SETS = ReadingOptions(text_fields=("set",), kind=simdb.Set())
GENERATOR = random.Random(5)


def similar(base: list[int], changed: int) -> list[int]:
    kept = GENERATOR.sample(base, len(base) - changed)
    return kept + [GENERATOR.randrange(10**6) for _ in range(changed)]


BASES = [GENERATOR.sample(range(10**6), 20) for _ in range(6)]
BASKETS = [similar(base, changed) for base in BASES for changed in (0, 1, 2, 5)]
KEYED = dict(enumerate(BASKETS, 1))


def as_lines(baskets: list[list[int]]) -> str:
    return "".join(" ".join(map(str, basket)) + "\n" for basket in baskets)


def pairs_at(threshold: str) -> set[tuple[int, int, float]]:
    found = oracle.similar_pairs(list(map(set, BASKETS)), Fraction(threshold))
    return {(left + 1, right + 1, float(score)) for left, right, score in found}


def told(*arguments: object) -> set[tuple[Any, Any, float]]:
    return {(row["left"], row["right"], row["similarity"]) for row in lines_of(*arguments)}


def _make_shop(folder: Path) -> None:
    path = folder / "shop.simdb"
    (folder / "in.txt.gz").write_bytes(gzip.compress(as_lines(BASKETS).encode()))
    done("create", path, "baskets", "--kind", "set", "--threshold", 0.6, "--seed", 1)
    done("add", path, "baskets", folder / "in.txt.gz")


@pytest.fixture
def store(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    copied(_make_shop, tmp_path_factory, tmp_path)
    yield tmp_path / "shop.simdb"
    require_sound(tmp_path / "shop.simdb")


def test_lines_of_integers_are_sets_whose_pairs_are_true(store):
    assert told("pairs", store, "baskets") == pairs_at("0.6")
    assert len(pairs_at("0.6")) > 10
    with simdb.open(store, read_only=True) as db:
        items = {record.key: record.item for record in db["baskets"].items()}
    assert items == {key: frozenset(basket) for key, basket in KEYED.items()}


def test_groups_get_and_search_know_sets(store, tmp_path):
    probe = " ".join(map(str, BASKETS[0]))
    (tmp_path / "probe").write_text(probe + "\n")
    found = lines_of("search", store, "baskets", "--set", probe)
    expected = sorted(
        ((key, jaccard(BASKETS[0], basket)) for key, basket in KEYED.items()),
        key=lambda match: -match[1],
    )
    assert [(match["key"], match["similarity"]) for match in found] == [
        (key, float(score)) for key, score in expected if score >= Fraction(3, 5)
    ]
    assert lines_of("search", store, "baskets", "--file", tmp_path / "probe") == found
    comma = probe.replace(" ", ", ")
    assert lines_of("search", store, "baskets", "--set", comma, "--separator", ",") == found
    by_key = lines_of("search", store, "baskets", "--key", 1, "--integer-keys")
    assert by_key == found[1:]
    record = lines_of("get", store, "baskets", "1", "--integer-keys")[0]
    assert record["item"] == sorted(BASKETS[0])
    shown = done("get", store, "baskets", "1", "--integer-keys").stdout
    assert " ".join(map(str, sorted(BASKETS[0]))) in shown
    assert str(sorted(BASKETS[0])[0]) in done("search", store, "baskets", "--set", probe).stdout
    assert lines_of("groups", store, "baskets")[0]["representative"] == 1


def test_what_was_exported_can_be_added_again(store, tmp_path):
    done("export", store, "baskets", "-o", tmp_path / "out.jsonl")
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first == {"id": 1, "set": sorted(BASKETS[0])}
    done("create", store, "again", "--kind", "set", "--threshold", 0.6)
    done("add", store, "again", tmp_path / "out.jsonl", "--id-field", "id")
    exported = done("export", store, "again").stdout
    assert exported == (tmp_path / "out.jsonl").read_text()
    other = done("export", store, "again", "--set-field", "items", "--id-field", "set").stdout
    assert json.loads(other.splitlines()[0]) == {"set": 1, "items": sorted(BASKETS[0])}
    assert run("export", store, "again", "--id-field", "set").exit_code == 2


def test_csv_and_baskets_and_json_lines_hold_the_same_sets(tmp_path):
    path = tmp_path / "s.simdb"
    (tmp_path / "a.csv").write_text("id,set,shop\nx,milk bread,3\ny,,3\n")
    (tmp_path / "b.basket").write_text('x,milk, bread \n\n"y",\n"z","whole milk","a,b"\n')
    (tmp_path / "c.jsonl").write_text('{"id": "x", "set": ["bread", "milk"], "shop": "3"}\n')
    for name, suffix in (("csv", "a.csv"), ("baskets", "b.basket"), ("json", "c.jsonl")):
        done("create", path, name, "--kind", "set")
        place = 1 if name == "baskets" else "id"
        done("add", path, name, tmp_path / suffix, "--id-field", place)
        got = lines_of("get", path, name, "x")[0]
        assert got["item"] == ["bread", "milk"]
        assert (got["metadata"] or {"shop": "3"}) == {"shop": "3"}
    assert lines_of("get", path, "csv", "y")[0]["item"] == []
    assert lines_of("get", path, "baskets", "y", "z")[1]["item"] == ["a,b", "whole milk"]


def rows_of(content: str, name: str, tmp_path: Path, **options: Any) -> list[Row]:
    (tmp_path / name).write_text(content)
    chosen: dict[str, Any] = {"text_fields": ("set",), "kind": simdb.Set(), **options}
    with open_rows(str(tmp_path / name), ReadingOptions(**chosen)) as reader:
        return list(reader)


def test_elements_are_what_the_first_set_has_or_what_is_asked_for(tmp_path):
    content = "\n1 2\n  \n3 x\n4\n"
    problem = rows_of(content, "a.txt", tmp_path)
    assert [(row.line, row.item) for row in problem] == [(2, [1, 2]), (4, None), (5, [4])]
    assert problem[1].problem is not None
    assert problem[1].problem.startswith("the element 'x' is not a whole number, as those before")
    strings = rows_of(content, "a.txt", tmp_path, elements="strings")
    assert [row.item for row in strings] == [["1", "2"], ["3", "x"], ["4"]]
    asked = rows_of("x\n7", "a.txt", tmp_path, elements="integers")
    assert asked[0].problem == "the element 'x' is not a whole number"
    assert asked[1].item == [7]
    mixed = rows_of("1 x\n2", "a.txt", tmp_path)
    assert [row.item for row in mixed] == [["1", "x"], ["2"]]


@pytest.mark.parametrize("token", ["007", "+7", "7.0", "1_000", "٣", "9223372036854775808", "--1"])
def test_what_only_looks_like_an_integer_is_a_string(tmp_path, token):
    assert rows_of(f"1 {token}\n", "a.txt", tmp_path)[0].item == ["1", token]


def test_integers_keep_their_sign_and_reach(tmp_path):
    row = rows_of("-9223372036854775808 -7 0 9223372036854775807", "a.dat", tmp_path)[0]
    assert row.item == [-(2**63), -7, 0, 2**63 - 1]


def test_the_key_may_be_a_token_of_the_line(tmp_path):
    rows = rows_of("k 1 2\nl\n\nm 3", "a.txt", tmp_path, id_field="1")
    assert [(row.key, row.item, row.line) for row in rows] == [
        ("k", [1, 2], 1),
        ("l", [], 2),
        ("m", [3], 4),
    ]
    short = rows_of("1 2 3\n1", "a.txt", tmp_path, id_field="2", integer_keys=True)
    assert (short[0].key, short[0].item) == (2, [1, 3])
    assert short[1].problem == "1 tokens, but the key is token number 2"
    with pytest.raises(ConfigurationError, match="place"):
        rows_of("1 2", "a.txt", tmp_path, id_field="id")


def test_marks_long_lines_and_wrong_bytes_are_told_by_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf1 2\r\n\xff\n3\n")
    with open_rows(str(tmp_path / "a.txt"), SETS) as reader:
        rows = list(reader)
        assert reader.preamble == b"\xef\xbb\xbf"
        assert reader.fields(rows[0].raw) == {"set": [1, 2]}
    assert [(row.line, row.item) for row in rows] == [(1, [1, 2]), (2, None), (3, [3])]
    assert "not UTF-8" in (rows[1].problem or "")
    (tmp_path / "b.basket").write_text('a,b\n"open')
    with open_rows(str(tmp_path / "b.basket"), SETS) as reader:
        assert [row.problem for row in reader] == [None, "the file ends inside a quoted field"]


def test_sets_and_texts_are_not_read_as_each_other(tmp_path):
    (tmp_path / "a.md").write_text("x")
    with pytest.raises(
        ConfigurationError, match="choose one of jsonl, json, parquet, arrow, csv"
    ) as told:
        open_rows(str(tmp_path / "a.md"), SETS)
    assert [remedy.argument for remedy in told.value.remedies] == ["format"]
    (tmp_path / "a.jsonl").write_bytes(b"PAR1...")
    with pytest.raises(UsageError, match="the content is Parquet; format='parquet' reads it"):
        open_rows(str(tmp_path / "a.jsonl"), SETS)
    with pytest.raises(ConfigurationError, match="none is a set"):
        open_rows(str(tmp_path), SETS)
    for wrong in (
        {"format": "baskets"},
        {"kind": simdb.Set(), "format": "text"},
        {"separator": ""},
    ):
        with pytest.raises(ConfigurationError):
            ReadingOptions(**wrong)
    with pytest.raises(ConfigurationError, match="elements"):
        ReadingOptions(elements="floats")  # type: ignore[arg-type]
    problems = rows_of('{"set": "1 2"}\n{"other": []}\n{"set": 5}\n', "a.jsonl", tmp_path)
    assert [row.problem for row in problems] == [
        "the field 'set' is text, not a list",
        "the field 'set' is missing; the row has 'other'",
        "the field 'set' is a number, not a list",
    ]
    content = '{"set": [{"role": "a", "content": "b"}]}'
    (row,) = rows_of(content, "b.jsonl", tmp_path, kind=simdb.Text())
    assert row.problem == (
        "the field 'set' is a list, not text; name one of its own: set.role, set.content"
    )


def test_several_fields_are_united(tmp_path):
    content = "id,a,b\n1,x y,z\n"
    assert rows_of(content, "a.csv", tmp_path, text_fields=("a", "b"))[0].item == ["x", "y", "z"]


def test_a_collection_of_strings_takes_numbers_as_strings(tmp_path):
    path = tmp_path / "s.simdb"
    (tmp_path / "a.txt").write_text("1 2 x\n")
    (tmp_path / "b.txt").write_text("1 2\n")
    done("create", path, "c", "--kind", "set")
    done("add", path, "c", tmp_path / "a.txt", "--id-field", 3)
    assert lines_of("get", path, "c", "x")[0]["item"] == [1, 2]
    done("create", path, "d", "--kind", "set", "--threshold", "0.6")
    done("add", path, "d", tmp_path / "a.txt")
    done("add", path, "d", tmp_path / "b.txt", "--id-field", 1, "--other-keys")
    assert lines_of("get", path, "d", "1")[0]["item"] == ["2"]
    assert [row["key"] for row in lines_of("search", path, "d", "--set", "1 2")] == [1]
    integers = ("search", path, "d", "--set", "1 2", "--elements", "integers")
    assert lines_of(*integers) == []


def test_bad_elements_are_told_by_line_and_the_rest_is_kept(tmp_path):
    path = tmp_path / "s.simdb"
    (tmp_path / "in.jsonl").write_text(
        '{"set": [1, 2]}\n\n{"set": [1, "x"]}\n{"set": [1.5]}\n{"set": [true]}\n{"set": "a"}\n'
        '{"set": [9223372036854775808]}\n{"set": []}\n'
    )
    done("create", path, "c", "--kind", "set")
    stopped = run("add", path, "c", tmp_path / "in.jsonl")
    assert stopped.exit_code == 2
    assert "in.jsonl, line 6: the field 'set' is text" in stopped.stderr
    report = json.loads(
        done("add", path, "c", tmp_path / "in.jsonl", "--on-bad", "skip", "--json").stdout
    )
    assert (report["added"], report["bad"]) == (2, 5)
    told_lines = sorted(int(row["place"].rpartition(" ")[2]) for row in report["bad_rows"])
    assert told_lines == [3, 4, 5, 6, 7]
    assert any("not both: 1 and 'x'" in row["problem"] for row in report["bad_rows"])


def slow_dedupe(threshold: Fraction) -> tuple[list[int], dict[int, int]]:
    kept: list[int] = []
    removed = {}
    for key, basket in KEYED.items():
        like = [k for k in kept if jaccard(KEYED[k], basket) >= threshold]
        if like:
            removed[key] = like[0]
        else:
            kept.append(key)
    return kept, removed


def test_dedupe_keeps_the_bytes_of_lines(tmp_path):
    lines = as_lines(BASKETS).splitlines(keepends=True)
    (tmp_path / "in.txt").write_text("".join(lines))
    kept, removed = slow_dedupe(Fraction(4, 5))
    assert len(removed) > 3
    done(
        "dedupe", tmp_path / "in.txt", "--kind", "set", "-o", tmp_path / "out.txt",
        "--removed", tmp_path / "removed.jsonl",
    )  # fmt: skip
    assert (tmp_path / "out.txt").read_text() == "".join(lines[key - 1] for key in kept)
    rows = [json.loads(line) for line in (tmp_path / "removed.jsonl").read_text().splitlines()]
    assert {row["line"]: row["duplicate_of"] for row in rows} == removed
    assert all(row["row"] == {"set": KEYED[row["line"]]} for row in rows)


def test_dedupe_takes_the_kind_of_the_stored_collection(store, tmp_path):
    fresh = " ".join(map(str, range(50)))
    (tmp_path / "more.txt").write_text(f"1001 {fresh}\n1002 {as_lines(BASKETS[:1])}")
    named = ("--store", store, "--collection", "baskets")
    arguments = ("dedupe", tmp_path / "more.txt", *named, "--other-keys")  # the others are lines
    told = failed(*arguments, "--id-field", 1, "-o", tmp_path / "out.txt")
    assert "whole numbers, such as 1, and those of this input are texts, such as '1001'" in told
    done(*arguments, "--id-field", 1, "--integer-keys", "-o", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == f"1001 {fresh}\n"
    refused = run(*arguments, "--kind", "text", "-o", tmp_path / "other.txt")
    assert refused.exit_code == 2
    assert "holds sets" in refused.stderr
    assert run(*arguments, "--shingles", "word:2", "-o", tmp_path / "other.txt").exit_code == 2
    assert not (tmp_path / "other.txt").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "NEW", "c", "--kind", "set", "--shingles", "word:3"],
        ["create", "NEW", "c", "--kind", "set", "--lowercase"],
        ["create", "NEW", "c", "--kind", "bags"],
        ["search", "STORE", "baskets", "--text", "1 2"],
        ["search", "STORE", "texts", "--set", "1 2"],
        ["search", "STORE", "baskets", "--set", "1 x"],
        ["search", "STORE", "texts", "--text", "x", "--elements", "strings"],
        ["search", "STORE", "texts", "--text", "x", "--separator", ","],
        ["search", "STORE", "baskets", "--set", "1", "--elements", "floats"],
        ["search", "STORE", "baskets", "--file", "absent"],
        ["search", "STORE", "baskets", "--file", "FOLDER"],
        ["search", "STORE", "baskets", "--set", "1", "--id-field", "1"],
        ["search", "STORE", "baskets", "--key", "1", "--format", "lines"],
        ["add", "STORE", "baskets", "FOLDER"],
        ["add", "STORE", "baskets", "TWO", "--format", "text"],
        ["add", "STORE", "texts", "TWO", "--format", "baskets"],
        ["add", "STORE", "baskets", "TWO", "--id-field", "id"],
        ["add", "STORE", "texts", "TWO", "--elements", "auto"],
        ["rebuild", "STORE", "baskets", "--shingles", "word:2"],
        ["dedupe", "TWO", "-o", "out", "--kind", "pictures"],
        ["dedupe", "TWO", "-o", "out", "--kind", "text", "--separator", ","],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(store, tmp_path, arguments):
    done("create", store, "texts")
    (tmp_path / "two.txt").write_text("1 2\n3 4\n")
    names = {"STORE": store, "NEW": tmp_path / "new.simdb", "FOLDER": tmp_path}
    names["TWO"] = tmp_path / "two.txt"
    result = run(*(names.get(argument, argument) for argument in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("simdb: ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "new.simdb").exists()


@pytest.mark.data
def test_a_real_file_of_baskets_is_added_whole(data_directory, tmp_path):
    path = tmp_path / "s.simdb"
    done("create", path, "c", "--kind", "set")
    report = json.loads(
        done("add", path, "c", data_directory / "sets" / "foodmart.txt.gz", "--json").stdout
    )
    assert (report["rows"], report["added"], report["bad"]) == (4141, 4141, 0)
    assert lines_of("get", path, "c", "1", "--integer-keys")[0]["item"] == [214, 260, 763]

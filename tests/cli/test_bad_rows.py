"""Every row of an input is in exactly one of kept, updated, removed and bad."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simdb
from tests.support.commands import done, failed, run, write_rows
from tests.support.processes import ended

ROWS = (
    b'{"id": "a", "text": "one two three four"}\n'
    b'{"id": "b", "text": 7}\n'
    b"not JSON \xff\n"
    b'{"id": "c", "text": "one two three four"}\n'
    b'{"id": "a", "text": "five six seven"}\n'
    b'{"id": "d", "text": "eight nine ten"}'
)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_bytes(ROWS)
    return path


def test_dedupe_writes_every_row_to_one_file(source, tmp_path):
    kept, removed, bad = (tmp_path / f"{name}.jsonl" for name in ("kept", "removed", "bad"))
    result = run(
        *("dedupe", source, "-o", kept, "--removed", removed, "--bad", bad, "--id-field", "id"),
        *("--shingles", "word:1", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    counts = json.loads(result.stdout)
    found = {name: counts[name] for name in ("rows", "kept", "updated", "removed_new", "bad")}
    assert found == {"rows": 6, "kept": 2, "updated": 0, "removed_new": 1, "bad": 3}
    assert [row["id"] for row in lines(kept)] == ["a", "d"]
    assert [row["line"] for row in lines(removed)] == [4]
    told = lines(bad)
    assert [(row["line"], row["id"]) for row in told] == [(2, "b"), (3, None), (5, "a")]
    assert "the field 'text' is a number" in told[0]["problem"]
    assert told[1]["row"] == "not JSON \\xff"
    assert "came earlier in the input with other content" in told[2]["problem"]
    assert json.loads(told[2]["row"]) == {"id": "a", "text": "five six seven"}


def test_add_writes_bad_rows_with_the_input_of_each(source, tmp_path):
    store, bad = tmp_path / "s.simdb", tmp_path / "bad.jsonl.gz"
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "a", "text": "stored already"}\n')
    assert run("create", store, "c", "--shingles", "word:1").exit_code == 0
    result = run("add", store, "c", source, other, "--id-field", "id", "--bad", bad, "-q")
    assert result.exit_code == 0, result.stderr
    told = [json.loads(line) for line in gzip.decompress(bad.read_bytes()).splitlines()]
    places = [(Path(row["input"]).name, row["line"]) for row in told]
    assert places == [("in.jsonl", 2), ("in.jsonl", 3), ("in.jsonl", 5), ("other.jsonl", 1)]


def test_a_file_of_bad_rows_is_an_output_like_others(source, tmp_path):
    kept = tmp_path / "kept.jsonl"
    assert "is an input" in failed("dedupe", source, "-o", kept, "--bad", source)
    assert "two outputs" in failed("dedupe", source, "-o", kept, "--bad", kept)
    for option in ("--bad", "--removed"):
        told = failed("dedupe", source, "-o", kept, option, tmp_path / "b.csv", "--kind", "record")
        assert "means csv" in told
        assert "rule" not in told  # nothing was read to propose one
    assert "--json" in failed("dedupe", source, "-o", kept, "--bad", "-", "--json")
    assert not kept.exists()
    assert source.read_bytes() == ROWS


def test_ways_of_reading_that_do_nothing_are_refused(source, tmp_path):
    kept = tmp_path / "kept.jsonl"
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("one two")
    for options, told in (
        ((source, "--delimiter", ";"), "--delimiter does nothing for"),
        ((source, "--key-prefix", "x"), "--key-prefix needs --make-keys"),
        ((source, "--make-keys", "place", "--id-field", "id"), "either made or taken from a field"),
        ((texts, "--make-keys", "content"), "--make-keys does nothing for"),
        (
            (source, "--encoding", "utf-16"),
            "extends ASCII with one byte for each character, such as latin-1",
        ),
    ):
        assert told in failed("dedupe", *options, "-o", kept), options
    assert not kept.exists()


def test_tables_with_tabs_go_through_dedupe_as_they_are(tmp_path):
    source, kept = tmp_path / "in.tsv", tmp_path / "kept.tsv"
    table = "id\ttext\n1\tNäive, one\n2\tNäive, one\n3\tother\n".encode("cp1252")
    source.write_bytes(table)
    options = ["--id-field", "id", "--encoding", "cp1252", "--shingles", "word:1"]
    result = run("dedupe", source, "-o", kept, *options)
    assert result.exit_code == 0, result.stderr
    lines_of_table = table.splitlines(keepends=True)
    assert kept.read_bytes() == b"".join(lines_of_table[:2] + lines_of_table[3:])
    told = failed("dedupe", source, "-o", tmp_path / "kept.csv", *options)
    assert "means csv, but tsv would be written" in told
    commas = tmp_path / "in.csv"
    commas.write_bytes(table.replace(b"\t", b";"))
    assert (
        run("dedupe", commas, "-o", tmp_path / "k.csv", *options, "--delimiter", ";").exit_code == 0
    )


def test_empty_metadata_come_back_where_they_are_a_field(tmp_path):
    stored: list[dict[str, Any] | None] = [None, {}, {"text": "as the item's field"}]
    with simdb.open(tmp_path / "a.simdb") as database:
        collection = database.collection("c", simdb.Text(), threshold=0.8)
        collection.add_many((key, f"text {key}", one) for key, one in enumerate(stored))
    out, options = tmp_path / "out.jsonl", ["--metadata-field", "more"]
    assert run("export", tmp_path / "a.simdb", "c", "-o", out, *options).exit_code == 0
    assert run("create", tmp_path / "b.simdb", "c").exit_code == 0
    options += ["--id-field", "id"]
    assert run("add", tmp_path / "b.simdb", "c", out, *options).exit_code == 0
    with simdb.open(tmp_path / "b.simdb") as database:
        assert [entry.metadata for entry in database["c"].items()] == stored
    table = tmp_path / "t.csv"
    table.write_text("id,text,more\n7,x,y\n")
    assert "--metadata-field does nothing" in failed(
        "add", tmp_path / "b.simdb", "c", table, *options
    )


def test_rows_without_keys_get_some(tmp_path):
    store, source = tmp_path / "s.simdb", tmp_path / "in.jsonl"
    source.write_text('{"meta": {"text": "one two"}}\n{"meta": {"text": "three"}}\n')
    assert run("create", store, "c", "--shingles", "word:1").exit_code == 0
    options = ["--text-field", "meta.text", "--make-keys", "content", "--key-prefix", "web:"]
    assert run("add", store, "c", source, *options).exit_code == 0
    with simdb.open(store, read_only=True) as database:
        keys = [str(entry.key) for entry in database["c"].items()]
        assert [entry.metadata for entry in database["c"].items()] == [None, None]
    assert len(set(keys)) == 2
    assert all(key.startswith("web:") for key in keys)
    (tmp_path / "again.jsonl").write_text('{"meta": {"text": "three"}}\n')
    options += ["--on-existing", "skip", "--json"]
    report = json.loads(run("add", store, "c", tmp_path / "again.jsonl", *options).stdout)
    assert (report["added"], report["present"]) == (0, 1)


def test_other_content_under_a_stored_key_is_what_on_existing_says(tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text('{"id": "a", "text": "one two three"}\n{"id": "b", "text": "four five six"}\n')
    second.write_text('{"id": "a", "text": "seven eight nine"}\n{"id": "c", "text": "ten"}\n')

    def deduped(*more: object) -> tuple[dict[str, Any], list[str], list[Any]]:
        store = tmp_path / f"{len(list(tmp_path.iterdir()))}.simdb"
        kept, removed = tmp_path / "kept.jsonl", tmp_path / "removed.jsonl"
        options = ["-o", kept, "--removed", removed, "--id-field", "id", "--store", store]
        assert run("dedupe", first, *options).exit_code == 0
        result = run("dedupe", second, *options, *more, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout), [row["id"] for row in lines(kept)], lines(removed)

    counts, kept, removed = deduped("--on-existing", "replace")
    assert (counts["kept"], counts["updated"], kept, removed) == (1, 1, ["a", "c"], [])

    counts, kept, removed = deduped("--on-existing", "keep")
    assert (counts["kept"], counts["updated"], counts["removed_old"], kept) == (1, 0, 1, ["c"])
    assert [(row["id"], row["duplicate_of"], row["similarity"]) for row in removed] == [
        ("a", "a", None)
    ]

    store = tmp_path / "refused.simdb"
    options = ["-o", tmp_path / "kept.jsonl", "--id-field", "id", "--store", store]
    assert run("dedupe", first, *options).exit_code == 0
    told = failed("dedupe", second, *options)
    assert "line 1: key 'a' is stored with other content" in told
    assert "--on-existing replace updates it, or --on-existing keep removes the row" in told


def test_a_stored_row_is_that_row_also_after_a_bad_row_of_its_key(tmp_path):
    stored, other = ({"id": "a", "text": text} for text in ("one two three", "four five six"))
    source, kept = tmp_path / "in.jsonl", tmp_path / "kept.jsonl"
    for rows, bad in (([stored], 0), ([other, stored], 1)):
        write_rows(source, rows)
        given = ["-o", kept, "--id-field", "id", "--store", tmp_path / "s.simdb"]
        told = json.loads(done("dedupe", source, *given, "--on-bad", "skip", "--json").stdout)
        assert (told["bad"], lines(kept)) == (bad, [stored])


def test_bad_rows_are_told_in_the_order_of_the_input_on_every_run(tmp_path):
    texts = [f"{word} is another word than any before it" for word in "abcdefgh"]
    rows = [json.dumps({"id": f"k{n % 5}", "text": text}) for n, text in enumerate(texts)]
    rows[1:1], rows[4:4], rows[8:8] = ["no JSON"] * 2, ['{"id": "x", "text": 7}'], ["no JSON"]
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join([*rows, "no JSON", ""]))
    options = ("--bad", tmp_path / "bad.jsonl", "--id-field", "id")
    for store in ((), ("--store", tmp_path / "s.simdb"), ("--store", tmp_path / "s.simdb")):
        for policy in ((), ("--policy", "key asc")):
            ran = done("dedupe", source, "-o", tmp_path / "k", *options, *store, *policy)
            told = lines(tmp_path / "bad.jsonl")
            assert [row["line"] for row in told] == [2, 3, 5, 9, 10, 11, 12, 13]
            assert [row["row"] for row in told] == [
                [*rows, "no JSON"][row["line"] - 1] for row in told
            ]
            places = [line for line in ran.stderr.splitlines() if line.startswith(str(source))]
            assert [line.partition(", line ")[2].partition(":")[0] for line in places] == [
                str(row["line"]) for row in told
            ]


def test_a_key_whose_row_was_removed_and_comes_with_other_content_is_a_bad_row(tmp_path):
    texts = ["the quick brown fox jumps over the lazy dog", "copper prices rose again in London"]
    rows = [("a", texts[0]), ("b", texts[0] + "s"), ("b", texts[1]), ("b", texts[0] + "s")]
    source = write_rows(tmp_path / "in.jsonl", [{"id": key, "text": text} for key, text in rows])
    outputs = [tmp_path / name for name in ("kept.jsonl", "removed.jsonl", "bad.jsonl")]
    options = ("-o", outputs[0], "--removed", outputs[1], "--bad", outputs[2], "--id-field", "id")
    stored = ("--store", tmp_path / "s.simdb")
    for store in ((), stored, stored):
        done("dedupe", source, *options, *store)
        kept, removed, bad = map(lines, outputs)
        assert [row["id"] for row in kept] == ["a"]
        assert [row["line"] for row in removed] == [2, 4]
        assert [row["line"] for row in bad] == [3]
        assert "with other content, in a row that was removed" in bad[0]["problem"]


def test_without_a_good_row_no_output_is_written(tmp_path):
    source, kept = tmp_path / "in.jsonl", tmp_path / "kept.jsonl"
    source.write_text('{"id": "a", "text": "one two"}\n{"id": "b", "text": "three four"}\n')
    kept.write_text("earlier")
    asked = ["dedupe", source, "-o", kept, "--on-bad", "skip", "--id-field", "id"]
    assert "every row is bad: no output is written" in failed(*asked, "--text-field", "txet")
    assert kept.read_text() == "earlier"
    wanted = [*asked[:4], "--bad", tmp_path / "bad.jsonl", "--id-field", "id"]
    done(*wanted, "--text-field", "txet")  # for whoever looks at them
    assert kept.read_bytes() == b""
    assert len((tmp_path / "bad.jsonl").read_text().splitlines()) == 2
    done(*asked)
    assert kept.read_bytes() == source.read_bytes()
    source.write_text("")
    done(*asked)
    assert kept.read_bytes() == b""


def test_a_header_that_names_a_field_twice_says_which(tmp_path):
    (tmp_path / "in.csv").write_text("id,text,text\n1,a,b\n")
    told = failed("dedupe", tmp_path / "in.csv", "-o", tmp_path / "kept.csv")
    assert "line 1: the header names the field 'text' twice" in told


def test_a_table_without_the_field_of_the_item_names_the_option_for_it(tmp_path):
    (tmp_path / "in.csv").write_text("id,name\n1,anna\n")
    pq.write_table(pa.table({"id": [1], "name": ["anna"]}), tmp_path / "in.parquet")
    for name in ("in.csv", "in.parquet"):
        command = ("dedupe", tmp_path / name, "-o", tmp_path / "kept")
        told = failed(*command, "--kind", "string", "--max-distance", "1")
        assert "'id', 'name'; --item-field names that of the item" in told
        assert failed(*command).endswith("; --text-field names that of the item")
        assert failed(*command, "--text-field", "other").endswith("'id', 'name'")


def test_standard_input_that_is_compressed_is_told_as_such(tmp_path):
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(ROWS))
    command = [sys.executable, "-m", "simdb", "dedupe", "-", "-o", tmp_path / "kept.jsonl"]
    with packed.open("rb") as stream:
        told = ended(*command, stdin=stream, code=2).stderr
    assert "the content is compressed by gzip, which is not read from standard input" in told

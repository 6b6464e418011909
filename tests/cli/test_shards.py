"""Folders as inputs: of rows, their shards, or of texts; and options that would do nothing."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simdb.cli import dedupe
from tests.support.cli_stores import near_copy, text_of
from tests.support.commands import done, failed, lines_of, run, write_rows

SHARDS = {
    "b/2.jsonl": [{"id": "d", "body": near_copy(2)}, {"id": "e", "body": text_of(4)}],
    "1.jsonl": [{"id": "a", "body": text_of(1)}, {"id": "b", "body": text_of(2)}],
    "a.ndjson": [{"id": "c", "body": near_copy(1)}],
}
FIELDS = ("--id-field", "id", "--text-field", "body")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in SHARDS.items():
        path = tmp_path / "shards" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_rows(path, rows)
    return tmp_path / "shards"


def test_a_folder_of_shards_is_all_of_their_rows_in_order(folder, tmp_path):
    last = folder / "1.jsonl"
    last.write_bytes(last.read_bytes().removesuffix(b"\n"))  # its row must not run into the next
    kept, removed = tmp_path / "kept.jsonl", tmp_path / "removed.jsonl"
    done("dedupe", folder, "-o", kept, "--removed", removed, *FIELDS)

    assert [json.loads(line)["id"] for line in kept.read_text().splitlines()] == ["a", "b", "e"]
    told = [json.loads(line) for line in removed.read_text().splitlines()]
    assert [(row["input"], row["line"], row["id"], row["duplicate_of"]) for row in told] == [
        (str(folder / "a.ndjson"), 1, "c", "a"),
        (str(folder / "b" / "2.jsonl"), 1, "d", "b"),
    ]

    done("create", tmp_path / "s.simdb", "c", "--threshold", 0.8)
    done("add", tmp_path / "s.simdb", "c", folder, *FIELDS)
    assert [row["id"] for row in exported(tmp_path)] == ["a", "b", "c", "d", "e"]


def exported(tmp_path: Path) -> list[dict[str, str]]:
    done("export", tmp_path / "s.simdb", "c", "-o", tmp_path / "out.jsonl")
    return [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]


def test_a_folder_or_a_pattern_is_searched_for_row_by_row(folder, tmp_path):
    store = tmp_path / "s.simdb"
    done("create", store, "c", "--threshold", 0.8)
    done("add", store, "c", folder / "1.jsonl", *FIELDS)

    def found(given: object, *options: object) -> list[tuple[str, str]]:
        told = lines_of("search", store, "c", "--input", given, *options)
        return [(row["probe"], row["key"]) for row in told]

    assert found(folder, *FIELDS) == [("a", "a"), ("b", "b"), ("c", "a"), ("d", "b")]
    assert found(folder / "*.*json*", *FIELDS) == [("a", "a"), ("b", "b"), ("c", "a")]
    places = [f"{folder}/1.jsonl:1", f"{folder}/1.jsonl:2", f"{folder}/a.ndjson:1"]
    assert found(folder / "*.*json*", *FIELDS[2:]) == list(zip(places, "aba", strict=True))
    (folder / "a.ndjson").write_text("no JSON\n")
    refused = failed("search", store, "c", "--input", folder, *FIELDS)
    assert "a.ndjson, line 1: not JSON" in refused
    (tmp_path / "none").mkdir()
    refused = failed("search", store, "c", "--input", tmp_path / "none", "--format", "jsonl")
    assert "none: no file in this folder" in refused


def test_a_key_that_comes_twice_in_shards_names_both_files(folder, tmp_path):
    write_rows(folder / "z.jsonl", [{"id": "a", "body": "another"}])
    told = run("dedupe", folder, "-o", tmp_path / "kept", *FIELDS).stderr
    assert f"{folder / 'z.jsonl'}, line 1: " in told
    assert f"{folder / '1.jsonl'}, line 1" in told


def test_shards_of_csv_have_one_header_and_share_it(tmp_path):
    for name, rows in (("1.csv", "a,one text\n"), ("2.csv", "b,another one\n")):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("id,text\n" + rows)
    done("dedupe", tmp_path / "in", "-o", tmp_path / "kept.csv", "--id-field", "id")
    assert (tmp_path / "kept.csv").read_text() == "id,text\na,one text\nb,another one\n"
    for other in ("id,more,text\nc,x,a third\n", "id,text,,\nc,a third,,\n"):
        (tmp_path / "in" / "3.csv").write_text(other)
        refused = failed("dedupe", tmp_path / "in", "-o", tmp_path / "no.csv", "--id-field", "id")
        assert "3.csv: its header differs from that of" in refused
        assert not (tmp_path / "no.csv").exists()


@pytest.mark.parametrize("first", ["", "id,text\n", "\n"])
def test_a_shard_of_csv_without_rows_has_a_header_like_any_other(tmp_path, first):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text(first)
    (tmp_path / "in" / "2.csv").write_text("id,text\na,one text\n")
    done("dedupe", tmp_path / "in", "-o", tmp_path / "kept.csv", "--id-field", "id")
    assert (tmp_path / "kept.csv").read_text() == "id,text\na,one text\n"
    (tmp_path / "in" / "3.csv").write_text("id,more,text\n")
    refused = failed("dedupe", tmp_path / "in", "-o", tmp_path / "no.csv", "--id-field", "id")
    assert "3.csv: its header differs from that of" in refused


def test_shards_of_csv_with_other_delimiters_do_not_share_a_file(tmp_path):
    for name, rows in (("1.csv", "id,text\na,one text\n"), ("2.csv", "id;text\nb;another one\n")):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text(rows)
    refused = failed("dedupe", tmp_path / "in", "-o", tmp_path / "no.csv", "--id-field", "id")
    assert f"2.csv: ';' separates its fields, and ',' those of {tmp_path}/in/1.csv" in refused
    assert not (tmp_path / "no.csv").exists()
    done("dedupe", tmp_path / "in", "-o", f"{tmp_path / 'out'}/", "--id-field", "id")
    for name in ("1.csv", "2.csv"):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "in" / name).read_text()


def test_shards_come_out_as_shards(folder, tmp_path):
    packed = folder / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"id": "f", "body": "one that is like no other"}', mtime=0))
    out, removed = tmp_path / "new" / "kept", tmp_path / "removed.jsonl"
    done("dedupe", folder, "-o", f"{out}/", "--removed", removed, *FIELDS)

    found = {
        str(path.relative_to(out)): [json.loads(line)["id"] for line in lines_in(path)]
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }
    assert found == {"1.jsonl": ["a", "b"], "a.ndjson": [], "b/2.jsonl": ["e"], "c.jsonl.gz": ["f"]}
    assert [json.loads(line)["id"] for line in removed.read_text().splitlines()] == ["c", "d"]
    assert (out / "1.jsonl").read_bytes() == (folder / "1.jsonl").read_bytes()

    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    done("dedupe", folder, "-o", out, *FIELDS)  # a folder that there is
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def lines_in(path: Path) -> list[bytes]:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()


def test_every_shard_of_csv_has_its_header(tmp_path):
    (tmp_path / "in").mkdir()
    for name, row in (("1.csv", "a,one text"), ("2.csv", "b,one text")):
        (tmp_path / "in" / name).write_text(f"id,text\n{row}\n")
    done("dedupe", tmp_path / "in", "-o", f"{tmp_path / 'out'}/", "--id-field", "id")
    assert (tmp_path / "out" / "1.csv").read_text() == "id,text\na,one text\n"
    assert (tmp_path / "out" / "2.csv").read_text() == "id,text\n"


def test_an_output_folder_within_an_input_folder_is_refused_before_anything_is_made(folder):
    names = sorted(folder.rglob("*"))
    for output in (f"{folder}/kept/", f"{folder}/../{folder.name}/a/b/"):
        told = failed("dedupe", folder, "-o", output, *FIELDS, "--store", folder.parent / "new")
        assert f"the output {output} is within the input {folder}" in told
    assert sorted(folder.rglob("*")) == names
    assert not (folder.parent / "new").exists()
    done("dedupe", folder, "-o", f"{folder}/.kept/", *FIELDS)  # which is not read


def test_no_output_is_where_the_next_run_would_read_it(folder, tmp_path):
    names = sorted(folder.rglob("*"))
    for source, *outputs in (
        (folder, "-o", folder / "kept.jsonl"),
        (folder, "-o", tmp_path / "kept.jsonl", "--removed", folder / "b" / "removed.jsonl"),
        (folder, "-o", tmp_path / "kept.jsonl", "--bad", folder / "bad.jsonl"),
        (folder / "*.jsonl", "-o", folder / "kept.jsonl"),
    ):
        told = failed("dedupe", source, *outputs, *FIELDS)
        assert f"is within the input {source}, where it would be read the next time" in told
        assert sorted(folder.rglob("*")) == names
        assert not (tmp_path / "kept.jsonl").exists()
    not_read = ["--pattern", "[0-9].jsonl", "-o", folder / "kept.jsonl"]
    done("dedupe", folder, *not_read, "--removed", folder / ".removed.jsonl", *FIELDS)
    done("dedupe", folder / "*.jsonl", "-o", folder / "b" / "kept.jsonl", *FIELDS)


@pytest.mark.parametrize(
    "command",
    [
        ("add", "STORE", "c", "IN", "--bad", "OUT"),
        ("add", "STORE", "c", "IN", "--duplicates", "OUT"),
        ("search", "STORE", "c", "--input", "IN", "-o", "OUT"),
        ("link", "IN", "rows.jsonl", "--threshold", "0.5", "-o", "OUT"),
        ("link", "rows.jsonl", "IN", "--threshold", "0.5", "-o", "rest", "--save-settings", "OUT"),
        ("tune", "IN", "--report", "OUT"),
    ],
)
def test_no_command_writes_where_its_next_run_would_read(folder, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", SHARDS["1.jsonl"])
    done("create", "STORE", "c")
    output = "shards/new.html" if command[0] == "tune" else "shards/new.jsonl"
    told = failed(*({"IN": folder, "OUT": output}.get(word, word) for word in command))
    assert f"the output {output} is within the input {folder}, where it would be read" in told
    assert not (tmp_path / output).exists()


def test_a_folder_in_which_there_is_nothing_to_read_is_told_as_such(folder, tmp_path):
    (tmp_path / "none").mkdir()
    output = ["-o", tmp_path / "kept.jsonl", *FIELDS]
    assert "none: no file in this folder" in failed("dedupe", tmp_path / "none", *output)
    told = failed("dedupe", folder, *output, "--pattern", "*.csv")
    assert "shards: no file in this folder that matches *.csv" in told
    # A pattern passes over it, unless there is nothing else.
    assert "none: no file in this folder" in failed("dedupe", tmp_path / "n*", *output)
    given = folder, tmp_path / "[ns]*"
    one, other = (json.loads(done("dedupe", some, *output, "--json").stdout) for some in given)
    assert one["kept"] == other["kept"] > 0


def test_shards_appear_all_or_not_at_all(folder, tmp_path, monkeypatch):
    (folder / "z.jsonl").write_text("no JSON\n")
    out = tmp_path / "new" / "kept"
    assert "z.jsonl, line 1: not JSON" in failed("dedupe", folder, "-o", f"{out}/", *FIELDS)
    assert not (tmp_path / "new").exists()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "is an input" in failed("dedupe", folder, "-o", folder, *FIELDS, "--on-bad", "skip")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    told = failed("dedupe", "-", "-o", tmp_path, *FIELDS, stdin="{}")
    assert "is a folder, and - has no file name to use in it" in told
    monkeypatch.setattr(dedupe, "_MOST_SHARDS", 2)
    assert "a folder takes at most 2" in failed("dedupe", folder, "-o", f"{out}/", *FIELDS)


def test_shards_of_an_earlier_run_do_not_stay_beside_new_ones(folder, tmp_path):
    out = tmp_path / "out"
    written = ["-o", f"{out}/", "--removed", out / "removed.jsonl", *FIELDS]
    out.mkdir()
    (out / "README.md").write_text("about these")  # which is no shard
    for _ in range(2):
        done("dedupe", folder, *written)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (folder / "b" / "2.jsonl").unlink()
    refused = failed("dedupe", folder, *written)
    assert f"{out / 'b' / '2.jsonl'} is in the output folder, would stay there" in refused
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    done("dedupe", folder / "1.jsonl", "-o", out, *FIELDS)  # a file that is named itself
    (out / "b" / "2.jsonl").unlink()
    done("dedupe", folder, *written)
    assert "removed.jsonl is in the output folder" in failed("dedupe", folder, "-o", out, *FIELDS)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_file_alone_goes_into_a_folder_under_its_name(folder, tmp_path, is_there):
    out = tmp_path / "kept"
    if is_there:
        out.mkdir()
    for _ in range(2):
        done("dedupe", folder / "1.jsonl", "-o", out if is_there else f"{out}/", *FIELDS)
        assert [path.name for path in out.iterdir()] == ["1.jsonl"]
        is_there = True


def test_a_table_that_is_replaced_while_it_is_read_is_told(tmp_path, monkeypatch):
    source, kept = tmp_path / "in.parquet", tmp_path / "kept.parquet"
    pq.write_table(pa.table({"text": [text_of(seed) for seed in range(5)]}), source)
    pq.write_table(pa.table({"text": [text_of(seed) for seed in range(9)]}), tmp_path / "other")
    settle = dedupe._Splitting.settle

    def replaced(*given: Any) -> None:
        settle(*given)
        (tmp_path / "other").replace(source)

    monkeypatch.setattr(dedupe._Splitting, "settle", replaced)
    assert "in.parquet changed while it was read" in failed("dedupe", source, "-o", kept)
    assert not kept.exists()


def test_a_folder_of_several_formats_is_refused_until_it_is_said_which(folder, tmp_path):
    (folder / "README.md").write_text("about these")
    refused = failed("dedupe", folder, "-o", tmp_path / "kept", *FIELDS)
    assert "several formats (jsonl, text)" in refused
    done("dedupe", folder, "-o", tmp_path / "kept", *FIELDS, "--pattern", "*.*json*")
    assert (tmp_path / "kept").read_text().count("\n") == 3


def test_a_pattern_without_a_folder_is_refused(folder, tmp_path):
    files, folders = folder / "*json*", folder / "*"
    given = ["-o", tmp_path / "kept", *FIELDS, "--pattern", "2*"]
    assert "--pattern is only for folders" in failed("dedupe", files, *given)
    done("dedupe", folders, *given)  # of which one is a folder


def test_a_folder_of_texts_is_a_text_a_file_and_no_field_names_anything_there(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a text")
    done("create", tmp_path / "s.simdb", "c")
    done("add", tmp_path / "s.simdb", "c", tmp_path / "in")
    assert lines_of("get", tmp_path / "s.simdb", "c", "a.txt")[0]["item"] == "a text"
    for option in ("--id-field", "--text-field"):
        for name in ("in", "in/a.txt"):
            refused = failed("add", tmp_path / "s.simdb", "c", tmp_path / name, option, "id")
            assert f"{option} does nothing for " in refused


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--pattern", "*.txt"], "--pattern is only for folders"),
        (["--kind", "set", "--separator", ","], "--separator does nothing for "),
        (["--rating-field", "stars"], "--rating-field needs --ratings"),
    ],
)
def test_an_option_that_does_nothing_is_refused(folder, tmp_path, options, told):
    refused = failed("dedupe", folder / "1.jsonl", "-o", tmp_path / "kept", *options)
    assert told in refused
    assert not (tmp_path / "kept").exists()


def test_a_separator_means_nothing_in_arrays(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))
    done("create", tmp_path / "s.simdb", "c", "--kind", "vector:3", "--max-distance", "1")
    refused = failed("add", tmp_path / "s.simdb", "c", tmp_path / "rows.npy", "--separator", ",")
    assert "--separator does nothing for " in refused
    assert refused.rstrip().endswith("rows.npy: arrays")


def test_a_link_out_of_a_folder_of_shards_is_refused(folder, tmp_path):
    write_rows(tmp_path / "secret.jsonl", [{"id": "s", "body": "not yours"}])
    (folder / "c.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert "c.jsonl is a link to a file outside" in failed(
        "dedupe", folder, "-o", tmp_path / "kept", *FIELDS
    )

"""Adding rows by commands: inputs, duplicates, bad rows and keys that are stored."""

import gzip
import json

from tests.support import cli_stores
from tests.support.cli_stores import ROWS, likeness, near_copy, text_of
from tests.support.commands import done, lines_of, run, write_rows

rows_file, store = cli_stores.rows_file, cli_stores.store


def test_add_reads_several_inputs_of_several_kinds(tmp_path, rows_file):
    path = tmp_path / "s.simdb"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x.txt").write_text(text_of(10))
    (folder / "y.md").write_text(text_of(11))
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(f"id,text\nk,{text_of(12)}\n".encode()))
    done("create", path, "c")

    result = done(
        "add", path, "c", rows_file, folder, tmp_path / "in.csv.gz", "-", "--id-field", "id",
        "--json", stdin=json.dumps({"id": "std", "text": text_of(13)}).encode(),
    )  # fmt: skip

    report = json.loads(result.stdout)
    assert (report["rows"], report["added"], report["bad"]) == (9, 9, 0)
    assert lines_of("get", path, "c", "x.txt", "k", "std")[0]["item"] == text_of(10)


def test_add_tells_duplicates_new_and_old(store, tmp_path):
    more = write_rows(
        tmp_path / "more.jsonl",
        [
            {"id": "f", "text": near_copy(3)},
            {"id": "g", "text": text_of(4)},
            {"id": "h", "text": near_copy(4)},
        ],
    )

    result = done(
        "add", store, "news", more, "--id-field", "id", "--duplicates", tmp_path / "dups",
        "--on-duplicate", "skip", "--json",
    )  # fmt: skip

    report = json.loads(result.stdout)
    assert (report["added"], report["duplicates_old"], report["duplicates_new"]) == (1, 1, 1)
    first, second = map(json.loads, (tmp_path / "dups").read_text().splitlines())
    assert first == {
        "input": str(more),
        "line": 1,
        "id": "f",
        "duplicate_of": "d",
        "similarity": likeness(text_of(3), near_copy(3)),
        "within_input": False,
        "stored": False,
    }
    assert (second["line"], second["duplicate_of"], second["within_input"]) == (3, "g", True)


def test_a_bad_row_is_told_by_its_line_and_ends_the_work_or_not(tmp_path):
    path = tmp_path / "s.simdb"
    (tmp_path / "in.jsonl").write_bytes(
        json.dumps({"id": 1, "text": text_of(1)}).encode()
        + b'\n\nnot json\n{"id": 2}\n{"id": 3, "text": "\xff"}\n'
        + json.dumps({"id": 4, "text": text_of(4)}).encode()
    )
    done("create", path, "c")

    stopped = run("add", path, "c", tmp_path / "in.jsonl", "--id-field", "id")
    skipping = done(
        "add", path, "c", tmp_path / "in.jsonl", "--id-field", "id", "--on-bad", "skip",
        "--on-existing", "skip", "--json",
    )  # fmt: skip

    assert stopped.exit_code == 2
    assert stopped.stderr.startswith(f"simdb: {tmp_path}/in.jsonl, line 3: not JSON")
    report = json.loads(skipping.stdout)
    assert report["bad"] == 3
    assert [row["place"].rpartition(" ")[2] for row in report["bad_rows"]] == ["3", "4", "5"]
    assert "in.jsonl, line 4: the field 'text' is missing" in skipping.stderr
    assert lines_of("get", path, "c", "4", "--integer-keys")


def test_a_key_that_is_stored_is_told_by_its_line(store, tmp_path, rows_file):
    more = write_rows(tmp_path / "more.jsonl", [{"id": "new", "text": text_of(9)}, ROWS[0]])

    result = run("add", store, "news", more, "--id-field", "id")

    assert result.exit_code == 2
    assert "more.jsonl, line 2" in result.stderr
    assert "'a'" in result.stderr
    done("add", store, "news", more, "--id-field", "id", "--on-existing", "skip")
    done("add", store, "news", more, "--id-field", "id", "--on-existing", "replace")


def test_line_numbers_as_keys_clash_with_a_hint(tmp_path, rows_file):
    path = tmp_path / "s.simdb"
    done("create", path, "c")
    done("add", path, "c", rows_file)

    result = run("add", path, "c", rows_file)

    assert result.exit_code == 2
    assert "--id-field" in result.stderr

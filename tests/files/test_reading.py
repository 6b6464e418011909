"""Where rows come from: folders, text files, compressed files, standard input."""

import gzip
import io
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import simdb
from simdb.errors import ConfigurationError, UsageError
from simdb.files import open_rows
from simdb.files.inputs import inputs_of
from simdb.files.rows import ReadingOptions
from simdb.zstandard import library as zstandard
from tests.support.commands import write_rows

CHECKED = {zstandard().CompressionParameter.checksum_flag: 1}

# Text files and folders


def test_a_folder_is_read_sorted_with_relative_paths_and_without_hidden_names(tmp_path):
    for name in ["b.txt", "a/z.txt", "a/y.md", "a.txt", ".git/x", "a/.hidden", "A.txt"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "circle").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")
    os.mkfifo(tmp_path / "pipe")

    with open_rows(str(tmp_path)) as reader:
        rows = list(reader)

    assert [row.key for row in rows] == [
        "A.txt", "a/y.md", "a/z.txt", "a.txt", "b.txt", "link.txt"
    ]  # fmt: skip
    assert [row.item for row in rows] == ["A.txt", "a/y.md", "a/z.txt", "a.txt", "b.txt", "b.txt"]
    assert rows[1].raw == b"a/y.md\n"
    assert rows[1].line == 2
    assert reader.fields(rows[1].raw) == {"path": "a/y.md"}


def test_files_of_a_folder_that_cannot_be_texts_are_problems(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfgood\r\n")
    (tmp_path / "b.bin").write_bytes(b"\xff")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"packed")[:-4])
    (tmp_path / "d\n.txt").write_text("x")
    Path(os.fsdecode(bytes(tmp_path) + b"/e\xff.txt")).write_text("x")
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"packed"))

    with open_rows(str(tmp_path)) as reader:
        rows = list(reader)

    assert [row.item for row in rows] == ["good\r\n", None, None, None, None, "packed"]
    assert ["UTF-8" in (row.problem or "") for row in rows] == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    assert "damaged" in (rows[2].problem or "")
    assert "line break" in (rows[3].problem or "")
    told = "the path is not UTF-8: byte 0xff at position 1"
    assert rows[4].problem == f"'e\\udcff.txt': {told}"
    with open_rows(os.fsdecode(bytes(tmp_path) + b"/e\xff.txt")) as reader:
        (alone,) = reader
    assert (alone.problem or "").startswith("the path is not UTF-8")  # which names it already


def test_a_pattern_chooses_the_files_of_a_folder(tmp_path):
    for name in ["a.py", "b.txt", "c.py"]:
        (tmp_path / name).write_text(name)

    with open_rows(str(tmp_path), ReadingOptions(pattern="*.py")) as reader:
        assert [row.key for row in reader] == ["a.py", "c.py"]


@pytest.mark.parametrize(
    ("pattern", "inputs"),
    [
        ("c/**/*", ["c/a/x.txt", "c/b/deep/y.txt", "c/b/x.txt"]),
        ("c/*", ["c/a", "c/b"]),
        ("c/**/[bdx]*", ["c/a/x.txt", "c/b"]),  # which has y.txt besides
        ("c/**/[ab]", ["c/a", "c/b"]),
        ("**/deep*", ["c/b/deep"]),
        ("rows/**/*", ["rows/n=1/part.csv", "rows/n=2/part.csv"]),
        ("rows/*", ["rows/n=1/part.csv", "rows/n=2/part.csv"]),
    ],
)
def test_no_file_is_read_twice_where_its_folder_matches_a_pattern_too(
    tmp_path, monkeypatch, pattern, inputs
):
    monkeypatch.chdir(tmp_path)
    names = ("c/a/x.txt", "c/b/x.txt", "c/b/deep/y.txt", "c/b/.hidden")
    for name in (*names, "rows/n=1/part.csv", "rows/n=2/part.csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    assert list(inputs_of(pattern, ReadingOptions())) == inputs


def test_one_text_file_is_one_row_named_as_it_was_given(tmp_path):
    (tmp_path / "notes.md").write_text("hello")

    with open_rows(str(tmp_path / "notes.md")) as reader:
        (row,) = reader

    assert (row.key, row.item) == (str(tmp_path / "notes.md"), "hello")


def test_a_link_out_of_a_folder_is_a_bad_row_and_not_followed(tmp_path):
    folder = tmp_path / "given"
    (folder / "a").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("not yours")
    (folder / "a" / "in.txt").write_text("inside")
    (folder / "a" / "away.txt").symlink_to("../../secret.txt")
    (folder / "b.txt").symlink_to("a/in.txt")
    (folder / "c.txt").symlink_to(tmp_path / "secret.txt")

    with open_rows(str(folder)) as reader:
        rows = list(reader)

    assert [row.item for row in rows] == [None, "inside", "inside", None]
    problems = [row.problem for row in rows if row.problem]
    assert len(problems) == 2
    assert all("a link to a file outside the folder" in problem for problem in problems)


# Opening


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".GZ"])
def test_compressed_files_are_read_as_what_they_hold(tmp_path, suffix):
    content = b'{"text": "one"}\n{"text": "two"}\n'
    packed = {"": content, ".gz": gzip.compress(content), ".zst": zstandard().compress(content)}
    path = tmp_path / f"in.jsonl{suffix}"
    path.write_bytes(packed[suffix.lower()])

    with open_rows(str(path)) as reader:
        rows = list(reader)

    assert b"".join(row.raw for row in rows) == content
    assert reader.bytes_total == path.stat().st_size


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_an_empty_file_is_no_compressed_one(tmp_path, suffix):
    path = tmp_path / f"in.jsonl{suffix}"
    path.touch()
    with pytest.raises(UsageError, match="damaged or cut short"), open_rows(str(path)) as reader:
        list(reader)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard().compress])
def test_compressed_files_of_several_members_are_read_whole(tmp_path, pack):
    path = tmp_path / f"in.jsonl{'.gz' if pack is gzip.compress else '.zst'}"
    path.write_bytes(pack(b'{"text": "one"}\n{"te') + pack(b"") + pack(b'xt": "two"}\n'))

    with open_rows(str(path)) as reader:
        assert [row.item for row in reader] == ["one", "two"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("harm", ["cut", "changed", "foreign"])
def test_a_damaged_compressed_file_is_an_error_and_not_a_shorter_input(tmp_path, suffix, harm):
    content = b"".join(b'{"text": "%d"}\n' % (n * n) for n in range(20_000))
    packed = bytearray(
        gzip.compress(content)
        if suffix == ".gz"
        else zstandard().compress(content, options=CHECKED)
    )
    if harm == "cut":
        del packed[-3:]
    elif harm == "changed":
        packed[-2] ^= 0x40
    else:
        packed = bytearray(content)
    path = tmp_path / f"in.jsonl{suffix}"
    path.write_bytes(packed)

    with pytest.raises(UsageError, match=r"in\.jsonl.*damaged"), open_rows(str(path)) as reader:
        list(reader)


def test_standard_input_is_json_lines_unless_told_otherwise(monkeypatch):
    class Standard:
        buffer = io.BytesIO(b"id,text\n1,x\n")

    monkeypatch.setattr(sys, "stdin", Standard)
    with open_rows("-", ReadingOptions(format="csv")) as reader:
        assert [row.item for row in reader] == ["x"]
    Standard.buffer = io.BytesIO(b'{"text": "y"}')
    with open_rows("-") as reader:
        assert [row.item for row in reader] == ["y"]
    Standard.buffer = io.BytesIO(b"all of\nit")
    with open_rows("-", ReadingOptions(format="text")) as reader:
        assert [(row.key, row.item) for row in reader] == [("-", "all of\nit")]
    assert not Standard.buffer.closed


def test_a_name_that_tells_no_format_needs_one(tmp_path):
    (tmp_path / "in.data").write_bytes(b'{"text": "x"}')

    with pytest.raises(ConfigurationError, match="is not clear from its name"):
        open_rows(str(tmp_path / "in.data"))
    with open_rows(str(tmp_path / "in.data"), ReadingOptions(format="jsonl")) as reader:
        assert [row.item for row in reader] == ["x"]


@pytest.mark.parametrize("name", ["no.jsonl", "no.csv", "no.txt"])
def test_an_absent_input_is_told_before_a_row_is_asked_for(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        open_rows(str(tmp_path / name))


def test_a_folder_is_not_read_as_json_lines(tmp_path):
    with pytest.raises(ConfigurationError, match="folder"):
        open_rows(str(tmp_path), ReadingOptions(format="jsonl"))


def test_options_that_contradict_themselves_are_refused():
    with pytest.raises(ConfigurationError, match="both"):
        ReadingOptions(id_field="text")
    with pytest.raises(ConfigurationError, match="at least one"):
        ReadingOptions(text_fields=())
    with pytest.raises(ConfigurationError, match="format"):
        ReadingOptions(format="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_fields_of_records_are_those_of_nested_objects_and_nothing_is_lost(tmp_path, form):
    kind = simdb.Record([simdb.Field(name) for name in ("who.sur", "calls.to", "ssn")])
    rows: list[dict[str, Any]] = [
        {"id": 1, "ssn": "77", "who": {"given": "Ann", "sur": "Lee"}, "calls": [{"to": "a"}]},
        {"id": 2, "ssn": "78", "who": {"given": "Bo", "sur": None}, "calls": [{"to": "b", "n": 1}]},
        {"id": 3, "ssn": None, "who": {"given": "Cy", "sur": "Ng"}, "calls": []},
    ]
    more = {"id": 4, "ssn": "79", "who": {"given": "Di"}, "calls": [{"to": "a"}, {"n": 2}]}
    path = tmp_path / f"in.{form}"
    if form == "jsonl":
        rows.append(more)
        rows.append({"id": 5, "who.sur": "Li", "who": {"sur": "not this"}, "calls": [{"to": "c"}]})
        write_rows(path, rows)
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    with open_rows(str(path), ReadingOptions(("who.sur", "calls.to", "ssn"), "id", kind=kind)) as r:
        read = [(row.key, row.item, row.metadata or {}) for row in r]
    assert read[:3] == [
        (1, {"who.sur": "Lee", "calls.to": "a", "ssn": "77"}, read[0][2]),
        (2, {"who.sur": None, "calls.to": "b", "ssn": "78"}, read[1][2]),
        (3, {"who.sur": "Ng", "ssn": None}, read[2][2]),
    ]
    assert [metadata["who"]["given"] for _, _, metadata in read[:3]] == ["Ann", "Bo", "Cy"]
    assert all("sur" not in metadata["who"] for _, _, metadata in read[:3])
    if form == "jsonl":
        assert read[3:] == [
            (4, {"ssn": "79"}, {"who": more["who"], "calls": more["calls"]}),
            (5, {"who.sur": "Li", "calls.to": "c"}, {"who": {"sur": "not this"}, "calls": [{}]}),
        ]

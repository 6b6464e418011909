"""Commands on Parquet and Arrow files: the kept rows with their schema, shards, removed rows."""

from __future__ import annotations

import base64
import errno
import json
import sqlite3
import struct
import uuid
from contextlib import closing
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from typer.testing import CliRunner

import simdb
from simdb.cli.app import app
from simdb.files import tables
from tests.support.commands import done, run

A, B = "the quick brown fox jumps over the lazy dog", "another text about the price of copper"
TABLE = pa.table(
    {"id": ["a", "b", "c", "d"], "text": [A, A + "!", B, B + "!"], "n": [1, 2, None, 4]}
).replace_schema_metadata({"made": "by hand"})
FIELDS = ("--id-field", "id", "--text-field", "text")


def dedupe(*arguments: object) -> str:
    ran = CliRunner().invoke(app, ["dedupe", *map(str, arguments), *FIELDS])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_kept_rows_have_the_schema_of_the_input(tmp_path):
    pq.write_table(TABLE, tmp_path / "in.parquet", row_group_size=2)
    dedupe(tmp_path / "in.parquet", "-o", tmp_path / "kept.parquet", "--removed", tmp_path / "r")
    kept = pq.read_table(tmp_path / "kept.parquet")
    assert kept.equals(TABLE.take([0, 2]), check_metadata=True)
    removed = list(map(json.loads, (tmp_path / "r").read_text().splitlines()))
    assert [(row["id"], row["duplicate_of"]) for row in removed] == [("b", "a"), ("d", "c")]
    assert removed[0]["row"] == {"id": "b", "text": A + "!", "n": 2}


def test_next_month_is_compared_with_this_month(tmp_path):
    for month, rows in (("1", [0, 2]), ("2", [1, 3])):
        pq.write_table(TABLE.take(rows), tmp_path / f"{month}.parquet")
        store, output = tmp_path / "s.simdb", tmp_path / f"kept{month}.parquet"
        dedupe(tmp_path / f"{month}.parquet", "-o", output, "--store", store)
    assert pq.read_table(tmp_path / "kept1.parquet").num_rows == 2
    empty = pq.read_table(tmp_path / "kept2.parquet")
    assert empty.num_rows == 0
    assert empty.schema.equals(TABLE.schema, check_metadata=True)


def test_shards_go_to_one_file_or_to_shards(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        pq.write_table(TABLE.slice(2 * number, 2), tmp_path / "in" / f"{number}.parquet")
    dedupe(tmp_path / "in", "-o", tmp_path / "kept.parquet")
    assert pq.read_table(tmp_path / "kept.parquet")["id"].to_pylist() == ["a", "c"]
    dedupe(tmp_path / "in", "-o", f"{tmp_path}/out/")
    for number, key in enumerate("ac"):
        assert pq.read_table(tmp_path / "out" / f"{number}.parquet")["id"].to_pylist() == [key]


def test_a_data_set_of_hugging_face_becomes_parquet(tmp_path):
    import datasets

    datasets.Dataset(TABLE).save_to_disk(str(tmp_path / "set"), num_shards=2)
    dedupe(tmp_path / "set", "-o", tmp_path / "kept.parquet")
    assert pq.read_table(tmp_path / "kept.parquet")["id"].to_pylist() == ["a", "c"]


@pytest.mark.parametrize("output", ["-", "kept.jsonl"])
def test_rows_may_become_lines_of_json(tmp_path, output):
    pq.write_table(TABLE, tmp_path / "in.parquet")
    target = "-" if output == "-" else tmp_path / output
    printed = dedupe(tmp_path / "in.parquet", "-o", target)
    lines = printed if output == "-" else (tmp_path / output).read_text()
    assert [json.loads(line)["id"] for line in lines.splitlines()] == ["a", "c"]


def test_an_output_of_another_form_is_refused(tmp_path):
    pq.write_table(TABLE, tmp_path / "in.parquet")
    arguments = ["dedupe", str(tmp_path / "in.parquet"), "-o", str(tmp_path / "k.csv"), *FIELDS]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 2
    assert "means csv" in ran.stderr
    assert not (tmp_path / "k.csv").exists()


def test_shards_of_other_columns_leave_no_output(tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(TABLE, tmp_path / "in" / "0.parquet")
    pq.write_table(TABLE.select(["id", "text"]), tmp_path / "in" / "1.parquet")
    output = tmp_path / "kept.parquet"
    arguments = ["dedupe", str(tmp_path / "in"), "-o", str(output), "--on-bad", "skip", *FIELDS]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 2
    assert "its columns differ from those of" in ran.stderr
    assert not output.exists()


@pytest.mark.parametrize("target", ["kept.parquet", "kept.arrow"])
def test_shards_may_differ_in_folders_and_in_columns_that_are_not_kept(tmp_path, target):
    other = pa.table({"id": ["e"], "text": ["a third text of some words that no other has"]})
    (tmp_path / "in" / "lang=en").mkdir(parents=True)
    pq.write_table(TABLE.select(["id", "text"]), tmp_path / "in" / "0.parquet")
    pq.write_table(other, tmp_path / "in" / "lang=en" / "1.parquet")
    output = tmp_path / target

    def kept() -> dict[str, list[object]]:
        is_parquet = target.endswith("parquet")
        table = pq.read_table(output) if is_parquet else pa.ipc.open_file(output).read_all()
        return dict(table.drop(["text"]).to_pydict())

    dedupe(tmp_path / "in", "-o", output)
    assert kept() == {"id": ["a", "c", "e"], "lang": [None, None, "en"]}
    pq.write_table(TABLE, tmp_path / "in" / "0.parquet")
    dedupe(tmp_path / "in", "-o", output, "--columns", "text")
    assert kept() == {"id": ["a", "c", "e"]}


@pytest.mark.parametrize("policy", [[], ["--policy", "longest"]])
def test_a_column_named_like_a_part_of_another_stays_where_it_is(tmp_path, policy):
    parts = pa.array([{"lang": "de"}] * len(TABLE))
    table = TABLE.append_column("meta.lang", pa.array(["en"] * len(TABLE)))
    table = table.append_column("more", table["id"]).append_column("meta", parts)
    pq.write_table(table, tmp_path / "in.parquet")
    dedupe(tmp_path / "in.parquet", "-o", tmp_path / "k.parquet", *policy)
    assert pq.read_table(tmp_path / "k.parquet").schema.equals(table.schema)
    lines = dedupe(tmp_path / "in.parquet", "-o", "-", *policy).splitlines()
    assert [*json.loads(lines[0])] == table.column_names


def test_a_file_that_was_cut_is_told_and_nothing_is_written(tmp_path):
    pq.write_table(TABLE, tmp_path / "in.parquet")
    whole = (tmp_path / "in.parquet").read_bytes()
    (tmp_path / "in.parquet").write_bytes(whole[:-30])
    arguments = ["dedupe", str(tmp_path / "in.parquet"), "-o", str(tmp_path / "k.parquet")]
    ran = CliRunner().invoke(app, [*arguments, *FIELDS])
    assert ran.exit_code == 2
    assert "no Parquet or Arrow file" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet"]


@pytest.mark.parametrize("target", ["kept.arrow", "kept.parquet"])
def test_views_and_categories_of_polars_are_copied(tmp_path, target):
    rows = pl.DataFrame(
        {
            "id": ["a", "b", "c"],
            "text": [A, A + "!", B],
            "lang": pl.Series(["en", "de", "en"], dtype=pl.Categorical),
            "tags": [["x"], None, ["y", "z"]],
            "raw": [b"1", b"2", None],
        }
    )
    rows.write_ipc(tmp_path / "in.arrow")
    dedupe(tmp_path / "in.arrow", "-o", tmp_path / target)
    read = pl.read_ipc if target == "kept.arrow" else pl.read_parquet
    assert read(tmp_path / target).to_dicts() == [rows.to_dicts()[0], rows.to_dicts()[2]]


@pytest.mark.parametrize("source", ["in.parquet", "in.arrow"])
@pytest.mark.parametrize("target", ["kept.arrow", "kept.feather", "kept.parquet"])
def test_dictionaries_that_take_turns_become_one(tmp_path, source, target):
    kinds = [["news", "blog"], ["blog", "wiki"], ["list", "news"]]
    parts = []
    for number, values in enumerate(kinds):
        kind = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), values)
        rows = {"id": [f"{number}a", f"{number}b"], "text": [f"{one} {number}" for one in values]}
        columns = {**rows, "kind": kind}
        if source == "in.arrow":  # which Arrow does not read of Parquet
            columns["lists"] = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), kind)
        parts.append(pa.table(columns))
    makes_file = pq.ParquetWriter if source == "in.parquet" else pa.ipc.new_stream
    with makes_file(tmp_path / source, parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    dedupe(tmp_path / source, "-o", tmp_path / target, "--threshold", "1")
    if target == "kept.parquet":
        found = pq.read_table(tmp_path / target)
    elif (source, target) == ("in.arrow", "kept.arrow"):
        found = pa.ipc.open_stream(tmp_path / target).read_all()
    else:
        found = pa.ipc.open_file(tmp_path / target).read_all()
        assert pl.read_ipc(tmp_path / target)["kind"].to_list() == list(chain(*kinds))
    assert found.to_pylist() == pa.concat_tables(parts).to_pylist()
    assert found.schema == parts[0].schema


@pytest.mark.parametrize("options", [[], ["--policy", "first"]], ids=["at once", "in the end"])
@pytest.mark.parametrize("source", ["two files", "two row groups", "stream"])
@pytest.mark.parametrize("values", [64, 65])
def test_dictionaries_that_outgrow_their_numbers_get_wider_ones(tmp_path, options, source, values):
    """As categories of pandas, whose numbers have 8 bits, and those of another month."""
    narrow = pa.dictionary(pa.int8(), pa.string())
    parts = []
    for part in range(2):
        keys = [f"{part} {number}" for number in range(values)]
        words = [f"x{part} y{number} z{number * 7}" for number in range(values)]
        kind = pa.array(keys).dictionary_encode().cast(narrow)
        parts.append(pa.table({"id": keys, "text": words, "kind": kind}))
    inputs = [tmp_path / "in.parquet"]
    if source == "two files":
        inputs = [tmp_path / f"{number}.parquet" for number in range(2)]
        for path, part in zip(inputs, parts, strict=True):
            pq.write_table(part, path)
    else:
        makes_file = pa.ipc.new_stream if source == "stream" else pq.ParquetWriter
        with makes_file(inputs[0], parts[0].schema) as writer:
            for part in parts:
                writer.write_table(part)
    dedupe(*inputs, "-o", tmp_path / "kept.parquet", "--threshold", "1", *options)
    found = pq.read_table(tmp_path / "kept.parquet")
    assert found.to_pylist() == pa.concat_tables(parts).to_pylist()
    wide = pa.dictionary(pa.int32(), pa.string())
    assert found.schema.field("kind").type == (narrow if values == 64 else wide)


BROKEN = pa.array([b"fine", b"caf\xe9", b"caf\xe8", b""])


@pytest.mark.parametrize("source", ["in.parquet", "in.arrow", "sqlite:in.db:t"])
@pytest.mark.parametrize("options", [[], ["--policy", "key desc"], ["--store", "s.simdb"]])
def test_text_that_is_not_utf8_makes_a_bad_row(tmp_path, monkeypatch, source, options):
    """It became a question mark: two values became one."""
    monkeypatch.chdir(tmp_path)
    table = TABLE.append_column("more", BROKEN.view(pa.string()))
    pq.write_table(table, "in.parquet")
    with pa.ipc.new_file("in.arrow", table.schema) as writer:
        writer.write_table(table)
    with closing(sqlite3.connect("in.db")) as database:
        database.execute("CREATE TABLE t (id, text, more)")
        for key, text, more in zip("abcd", TABLE["text"].to_pylist(), BROKEN, strict=True):
            values = key, text, more.as_py()
            database.execute("INSERT INTO t VALUES (?, ?, CAST(? AS TEXT))", values)
        database.commit()
    told = ["--on-bad", "skip", "--bad", "bad.jsonl", "--threshold", "1"]
    dedupe(source, "-o", "kept.jsonl", *told, *options)
    kept = [json.loads(line) for line in Path("kept.jsonl").read_text().splitlines()]
    assert sorted((row["id"], row["more"]) for row in kept) == [("a", "fine"), ("d", "")]
    bad = [json.loads(line) for line in Path("bad.jsonl").read_text().splitlines()]
    assert [(row["id"], row["problem"]) for row in bad] == [
        ("b", "'more' is not UTF-8"),
        ("c", "'more' is not UTF-8"),
    ]
    assert [json.loads(row["row"])["more"] for row in bad] == ["caf\udce9", "caf\udce8"]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("options", [[], ["--policy", "key desc"], ["--measure", "containment"]])
@pytest.mark.parametrize("broken", ["text", "more"])
def test_a_row_is_bad_whether_or_not_bad_rows_are_written(tmp_path, form, options, broken):
    """Without --bad text that is not UTF-8 was copied, and told as half a surrogate pair."""
    source, kept = tmp_path / f"in.{form}", tmp_path / "kept.parquet"
    texts = {"text": TABLE["text"], "more": TABLE["id"], broken: BROKEN.view(pa.string())}
    table = TABLE.select(["id"]).append_column("text", texts["text"])
    table = table.append_column("more", texts["more"])
    if form == "parquet":
        pq.write_table(table, source)
    else:
        with pa.ipc.new_file(source, table.schema) as writer:
            writer.write_table(table)
    for told in ([], ["--bad", tmp_path / "bad.jsonl"]):
        ran = run("dedupe", source, "-o", kept, "--on-bad", "skip", *told, *options, *FIELDS)
        assert ran.stderr.count(f"row 2: {broken!r} is not UTF-8") == 1, ran.stderr
        assert ran.stderr.count(f"row 3: {broken!r} is not UTF-8") == 1
        assert "2 bad;" in ran.stderr
        pq.read_table(kept).validate(full=True)
    if broken == "more":  # which is not written then
        ran = done("dedupe", source, "-o", kept, "--columns", "text", *FIELDS)
        assert "0 bad;" in ran.stderr


_RAW = BROKEN.cast(pa.binary())
_TEXT = _RAW.view(pa.string())
NESTED = {
    "view": (_RAW.cast(pa.binary_view()).view(pa.string_view()), "caf\udce9"),
    "struct": (
        pa.StructArray.from_arrays([_TEXT, _RAW], ["q", "b"]),
        {"q": "caf\udce9", "b": "Y2Fm6Q=="},
    ),
    "list": (pa.ListArray.from_arrays([0, 1, 2, 3, 4], _TEXT), ["caf\udce9"]),
    "fixed list": (pa.FixedSizeListArray.from_arrays(_TEXT, 1), ["caf\udce9"]),
    "map": (pa.MapArray.from_arrays([0, 1, 2, 3, 4], _TEXT, _TEXT), [["caf\udce9"] * 2]),
    "list of structs": (
        pa.LargeListArray.from_arrays([0, 1, 2, 3, 4], pa.StructArray.from_arrays([_TEXT], ["q"])),
        [{"q": "caf\udce9"}],
    ),
}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("nesting", NESTED)
def test_text_within_values_that_is_not_utf8_makes_a_bad_row_too(tmp_path, form, nesting):
    """It refused a whole file of Arrow; of Parquet, the good fields beside it were not told."""
    column, shown = NESTED[nesting]
    table, source = TABLE.append_column("more", column), tmp_path / f"in.{form}"
    if form == "parquet":
        pq.write_table(table, source)
    else:
        with pa.ipc.new_file(source, table.schema) as writer:
            writer.write_table(table)
    told = ["--on-bad", "skip", "--bad", tmp_path / "bad.jsonl", "--threshold", "1"]
    kept = tmp_path / f"kept.{form}"
    dedupe(source, "-o", kept, *told)
    made = pq.read_table(kept) if form == "parquet" else pa.ipc.open_file(kept).read_all()
    made.validate(full=True)
    assert made.to_pylist() == [*table.slice(0, 1).to_pylist(), *table.slice(3).to_pylist()]
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [row["problem"] for row in bad] == ["'more' is not UTF-8"] * 2
    assert json.loads(bad[0]["row"])["more"] == shown


@pytest.mark.parametrize("form", ["parquet", "sqlite"])
def test_the_reason_of_a_row_that_is_not_added_is_the_same_with_and_without_bad(tmp_path, form):
    source: object = tmp_path / "in.parquet"
    pq.write_table(TABLE.set_column(1, "text", BROKEN.view(pa.string())), source)
    if form == "sqlite":
        source = f"sqlite:{tmp_path / 'in.db'}:t"
        with closing(sqlite3.connect(tmp_path / "in.db")) as database:
            database.execute("CREATE TABLE t (id, text)")
            rows = zip("abcd", BROKEN.to_pylist(), strict=True)
            database.executemany("INSERT INTO t VALUES (?, CAST(? AS TEXT))", rows)
            database.commit()
    for number, told in enumerate(([], ["--bad", tmp_path / "bad.jsonl"])):
        store = tmp_path / f"{number}.simdb"
        done("create", store, "c")
        ran = done("add", store, "c", source, "--on-bad", "skip", *told, *FIELDS)
        assert ran.stderr.count("is not UTF-8") == 2
        assert "row 2: 'text' is not UTF-8" in ran.stderr


def test_keys_of_content_differ_where_a_table_is_added(tmp_path):
    """All rows of a table had the key of no bytes."""
    pq.write_table(TABLE, tmp_path / "in.parquet")
    made = ("--make-keys", "content", "--text-field", "text")
    done("create", tmp_path / "s.simdb", "c")
    done("add", tmp_path / "s.simdb", "c", tmp_path / "in.parquet", *made)
    with simdb.open(tmp_path / "s.simdb") as database:
        added = [record.key for record in database["c"].items()]
    done(
        "dedupe",
        tmp_path / "in.parquet",
        "-o",
        tmp_path / "kept.jsonl",
        *made,
        "--store",
        tmp_path / "other.simdb",
        "--threshold",
        "1",
    )
    with simdb.open(tmp_path / "other.simdb") as database:
        kept = [record.key for record in database["documents"].items()]
    assert added == kept
    assert len({*added}) == 4


@pytest.mark.parametrize("offset", [0x7F000000, -5])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["key", "item", "other"])
@pytest.mark.parametrize("target", ["kept.arrow", "kept.jsonl"])
def test_a_damaged_arrow_file_is_told_before_its_values_are_read(tmp_path, target, place, offset):
    columns = {"id": ["a", "b", "c"], "text": [A, A + "!", B], "n": ["x", "yy", "z"]}
    table = pa.table(columns)
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    content = bytearray((tmp_path / "in.arrow").read_bytes())
    offsets = table.column(place).chunk(0).buffers()[1].to_pybytes()[:16]
    assert content.count(offsets) == 1
    at = content.find(offsets) + 8
    content[at : at + 4] = struct.pack("<i", offset)
    (tmp_path / "in.arrow").write_bytes(content)
    ran = run("dedupe", tmp_path / "in.arrow", "-o", tmp_path / target, *FIELDS)
    assert ran.exit_code == 2
    assert "no Parquet or Arrow file that can be read: " in ran.stderr
    assert not (tmp_path / target).exists()


class Keys(encryption.KmsClient):  # type: ignore[misc]
    """Keys that are kept as they are."""

    def __init__(self, _settings: object) -> None:
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key_bytes: bytes, _name: str) -> bytes:
        return base64.b64encode(key_bytes)


@pytest.mark.parametrize("open_footer", [True, False])
def test_an_encrypted_column_is_told_and_the_others_can_be_read(tmp_path, open_footer):
    properties = encryption.CryptoFactory(Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["n"]}, plaintext_footer=open_footer
        ),
    )
    path, target = tmp_path / "in.parquet", tmp_path / "kept.parquet"
    with pq.ParquetWriter(path, TABLE.schema, encryption_properties=properties) as writer:
        writer.write_table(TABLE)
    for options in (["--policy", "key asc"], []):
        ran = run("dedupe", path, "-o", target, *FIELDS, *options)
        assert ran.exit_code == 2
        assert ("Cannot decrypt" if open_footer else "it is encrypted") in ran.stderr
    if open_footer:
        dedupe(path, "-o", target, "--columns", "text")
        assert pq.read_table(target).column_names == ["id", "text"]


@pytest.mark.parametrize("place", ["key", "item", "metadata", "nested"])
def test_uuids_are_texts_wherever_they_stand(tmp_path, place):
    uuids = [uuid.UUID(int=number) for number in range(4)]
    column = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([one.bytes for one in uuids], pa.binary(16))
    )
    told: list[object] = [str(one) for one in uuids]
    if place == "nested":
        column = pa.StructArray.from_arrays([column], ["u"])
        told = [{"u": one} for one in told]
    path = tmp_path / "in.parquet"
    pq.write_table(TABLE.append_column("u", column), path)
    named = ["--text-field", "u" if place == "item" else "text"]
    named += ["--id-field", "u" if place == "key" else "id"]
    done("dedupe", path, "-o", tmp_path / "k.parquet", *named, "--threshold", "1")
    assert pq.read_table(tmp_path / "k.parquet").equals(pq.read_table(path))
    store = tmp_path / "s.simdb"
    done("dedupe", path, "-o", tmp_path / "k.jsonl", *named, "--threshold", "1", "--store", store)
    with simdb.open(store) as database:
        entries = list(database["documents"].items())
    if place == "key":
        assert [entry.key for entry in entries] == told
    elif place == "item":
        assert [entry.item for entry in entries] == told
    else:
        assert [(entry.metadata or {})["u"] for entry in entries] == told
        with simdb.open(tmp_path / "api.simdb") as database:
            collection = database.collection("c", simdb.Text())
            table = pq.read_table(path)
            collection.add_many(table, key="id", item="text", metadata=["u"])
            assert (next(collection.items()).metadata or {})["u"] == told[0]


def test_what_is_told_beside_the_schema_of_arrow_is_kept(tmp_path):
    """GeoParquet's ``geo``, which polars and others write there."""
    source = tmp_path / "in.parquet"
    pl.from_arrow(TABLE).write_parquet(source, metadata={"geo": "{}"})  # type: ignore[union-attr]
    assert pq.read_schema(source).metadata is None
    dedupe(source, "-o", tmp_path / "kept.parquet")
    assert pq.read_metadata(tmp_path / "kept.parquet").metadata[b"geo"] == b"{}"
    dedupe(source, "-o", tmp_path / "kept.arrow")
    assert pa.ipc.open_file(tmp_path / "kept.arrow").schema.metadata == {b"geo": b"{}"}


def test_a_table_that_differs_by_what_may_be_null_is_told_so(tmp_path):
    for name, may_be in (("one", False), ("two", True)):
        fields = [pa.field("id", pa.string(), nullable=may_be), ("text", pa.string())]
        table = pa.table({"id": [name], "text": [A]}, schema=pa.schema(fields))
        pq.write_table(table, tmp_path / f"{name}.parquet")
    inputs = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    ran = run("dedupe", *inputs, "-o", tmp_path / "k.parquet", *FIELDS)
    assert "its columns differ, 'id' by whether it may be null, from" in ran.stderr


def test_matches_in_a_table_tell_what_is_promised_of_them(tmp_path):
    store, found = tmp_path / "s.simdb", tmp_path / "found.parquet"
    done("create", store, "c")
    pq.write_table(TABLE, tmp_path / "in.parquet")
    done("add", store, "c", tmp_path / "in.parquet", *FIELDS)
    for text in (A, "nothing is like this"):
        done("search", store, "c", "--text", text, "-o", found)
        promise = json.loads(pq.read_schema(found).metadata[b"simdb"])
        assert promise["guarantee"] == "probable"
        assert 0.99 <= promise["expected_recall"] <= 1


RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([3, 4], pa.int32()), pa.array(["x", "y"]))


def test_columns_of_runs_are_copied(tmp_path):
    table = TABLE.append_column("more", RUNS)
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    dedupe(tmp_path / "in.arrow", "-o", tmp_path / "kept.arrow")
    with pa.ipc.open_file(tmp_path / "kept.arrow") as file:
        found = [(row["id"], row["more"]) for row in file.read_all().to_pylist()]
    assert found == [("a", "x"), ("c", "x")]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (RUNS, "Parquet has no place for the column 'more' of run_end_encoded"),
        (pa.array([2**62, 0, 0, 0], pa.timestamp("s")), "rows cannot be written: "),
        (
            pa.array([100, 200, 300, 400], pa.decimal128(9, -2)),
            "Parquet has no place for the column",
        ),
    ],
    ids=["type", "time", "scale"],
)
def test_what_parquet_cannot_hold_is_told(tmp_path, column, told):
    table = TABLE.append_column("more", column)
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    command = ["dedupe", tmp_path / "in.arrow", "-o", tmp_path / "kept.parquet", *FIELDS]
    refused = run(*command)
    assert refused.exit_code == 2
    assert told in refused.stderr
    assert not (tmp_path / "kept.parquet").exists()
    done(*command, "--columns", "n")


@pytest.mark.parametrize("target", ["kept.parquet", "out/"])
@pytest.mark.parametrize("options", [("--on-bad", "skip"), ("--on-bad", "skip", "--columns", "n")])
def test_rows_that_are_written_at_once_are_those_that_are_read_again(
    tmp_path, monkeypatch, target, options
):
    monkeypatch.setattr(tables, "BATCH_ROWS", 7)
    texts: list[str | None] = [f"text of the row {number // 2 * 37}" for number in range(90)]
    texts[3:5], texts[40] = [None, None], None
    columns = {"id": range(90), "text": texts, "n": [str(number) for number in range(90)]}
    for day, places in enumerate((range(0), range(30), range(30, 30), range(30, 90))):
        folder = tmp_path / "in" / f"day={day}"
        folder.mkdir(parents=True)
        rows = pa.table(columns).take(pa.array(places, pa.int64()))
        pq.write_table(rows, folder / "rows.parquet", row_group_size=20)
    found = []
    for name, most in (("at once", 1), ("at the end", 2**40)):
        monkeypatch.setattr("simdb.cli.dedupe._BATCHES_WAITING", most)
        (tmp_path / name).mkdir()
        dedupe(tmp_path / "in", "-o", f"{tmp_path / name}/{target}", *options)
        files = sorted((tmp_path / name).rglob("*.parquet"))
        found.append([pq.read_table(file, partitioning=None) for file in files])
    assert [len(out) for out in found] == [1 if target == "kept.parquet" else 4] * 2
    assert 0 < sum(table.num_rows for table in found[0]) < 87
    assert all(map(pa.Table.equals, *found))


def full(*_given: object, **_named: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_as_one_and_the_output_is_as_it_was(tmp_path, monkeypatch):
    pq.write_table(TABLE, tmp_path / "in.parquet")
    output = tmp_path / "kept.parquet"
    output.write_text("before")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    arguments = ["dedupe", str(tmp_path / "in.parquet"), "-o", str(output), *FIELDS]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 3
    assert "the output could not be written: No space left on device" in ran.stderr
    assert output.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "kept.parquet"]


def test_a_damaged_page_is_told_by_its_file_and_nothing_is_written(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("1.parquet", "2.parquet"):
        pq.write_table(TABLE, tmp_path / "in" / name, compression="zstd")
    damaged = bytearray((tmp_path / "in" / "2.parquet").read_bytes())
    damaged[4:200] = bytes(196)  # the magic number and the end stay
    (tmp_path / "in" / "2.parquet").write_bytes(damaged)
    for options in ((), ("--on-bad", "skip")):
        arguments = ["dedupe", str(tmp_path / "in"), "-o", str(tmp_path / "k.parquet"), *options]
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 2
        assert "2.parquet: no Parquet or Arrow file that can be read" in ran.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_a_file_of_many_groups_is_copied_by_the_size_of_its_groups(tmp_path):
    rows = [
        {"id": str(number), "text": f"{number} {number + 1} is not like it"} for number in range(50)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet", row_group_size=7)
    dedupe(tmp_path / "in.parquet", "-o", tmp_path / "kept.parquet", "--threshold", "1")
    kept = pq.ParquetFile(tmp_path / "kept.parquet")
    sizes = [kept.metadata.row_group(place).num_rows for place in range(kept.num_row_groups)]
    assert sizes == [7] * 7 + [1]
    assert kept.read().to_pylist() == rows


@pytest.mark.parametrize("column", ["id", "text", "tags"])
def test_text_that_is_not_utf8_makes_a_bad_row_of_its_row(tmp_path, column):
    broken = pa.array([b"a", b"\xff", b"c", b"d"]).view(pa.string())
    if column == "tags":
        broken = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), broken)
    table = TABLE.drop_columns([column]) if column in TABLE.schema.names else TABLE
    pq.write_table(table.append_column(column, broken), tmp_path / "in.parquet")
    store = tmp_path / "s.simdb"
    told = dedupe(
        *(tmp_path / "in.parquet", "-o", tmp_path / "k.parquet", "--store", store),
        *("--bad", tmp_path / "bad.jsonl", "--json"),
    )
    assert json.loads(told)["bad"] == 1
    (bad,) = map(json.loads, (tmp_path / "bad.jsonl").read_text().splitlines())
    assert bad["line"] == 2


@pytest.mark.parametrize("options", [[], ["--store", "s.simdb"], ["--policy", "longest"]])
def test_times_and_durations_that_python_cannot_hold_are_text(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    late = pa.array([253402300799, 0, 1, 2]).cast(pa.timestamp("s", "Asia/Tokyo"))
    took = pa.array([1, 2, None, 4], pa.duration("ms"))
    pq.write_table(TABLE.append_column("late", late).append_column("took", took), "in.parquet")
    dedupe("in.parquet", "-o", "k.jsonl", *options)
    first = json.loads((tmp_path / "k.jsonl").read_text().splitlines()[0])
    later = first["id"] == "b"  # by the policy
    assert first["late"] == ("1970-01-01T09:00:00+09:00" if later else "10000-01-01T08:59:59+09:00")
    assert first["took"] == ("PT0.002S" if later else "PT0.001S")


def test_only_the_columns_that_are_named_are_kept(tmp_path):
    table = TABLE.append_column("m", pa.array([5, 6, 7, 8]))
    pq.write_table(table, tmp_path / "in.parquet")
    store = tmp_path / "s.simdb"
    dedupe(
        tmp_path / "in.parquet", "-o", tmp_path / "k.parquet", "--columns", "m", "--store", store
    )
    kept = pq.read_table(tmp_path / "k.parquet")
    assert kept.equals(table.select(["id", "text", "m"]).take([0, 2]))
    exported = CliRunner().invoke(app, ["export", str(store), "documents"]).stdout.splitlines()
    assert json.loads(exported[0]) == {"id": "a", "text": A, "m": 5}
    lines = dedupe(tmp_path / "in.parquet", "-o", "-", "--columns", "n", "--columns", "m")
    assert json.loads(lines.splitlines()[1]) == {"id": "c", "text": B, "n": None, "m": 7}
    for source, column, told in (
        ("in.parquet", "x", "there is no column 'x'; there are 'id', 'text', 'n', 'm'"),
        ("in.jsonl", "x", "--columns does nothing for"),
    ):
        (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "b"}\n')
        arguments = [tmp_path / source, "-o", tmp_path / "o.jsonl", "--columns", column]
        ran = CliRunner().invoke(app, ["dedupe", *map(str, arguments), *FIELDS])
        assert ran.exit_code == 2
        assert told in ran.stderr


def test_a_policy_on_a_column_that_is_left_out_is_refused(tmp_path):
    table = pa.table({"id": ["a", "b"], "text": [A, A], "n": [1, 2], "m": [{"x": 1}, {"x": 2}]})
    pq.write_table(table, tmp_path / "in.parquet")
    output = tmp_path / "k.jsonl"
    asked = ["dedupe", tmp_path / "in.parquet", "-o", output, *FIELDS, "--columns", "m"]
    for store in ([], ["--store", tmp_path / "s.simdb"]):
        refused = run(*asked, *store, "--policy", "m.x desc, n desc")
        assert (refused.exit_code, output.exists()) == (2, False)
        assert "--columns leaves out 'n', which --policy looks at" in refused.stderr
    for policy in ("m.x desc", "id desc", "key desc"):
        assert run(*asked, "--policy", policy).exit_code == 0
        assert json.loads(output.read_text()) == {"id": "b", "text": A, "m": {"x": 2}}


@pytest.mark.parametrize(
    "codecs", ["none", "snappy", "gzip", "zstd", "lz4", {"id": "none", "text": "gzip", "n": "zstd"}]
)
def test_kept_rows_are_compressed_as_the_input_is(tmp_path, codecs):
    pq.write_table(TABLE, tmp_path / "in.parquet", compression=codecs)
    dedupe(tmp_path / "in.parquet", "-o", tmp_path / "k.parquet")
    found = []
    for name in ("in", "k"):
        group = pq.read_metadata(tmp_path / f"{name}.parquet").row_group(0)
        found.append([group.column(number).compression for number in range(3)])
    assert found[0] == found[1]
    dedupe(tmp_path / "in.parquet", "-o", tmp_path / "one.parquet", "--columns", "n")
    assert pq.read_table(tmp_path / "one.parquet").num_rows == 2


@pytest.mark.parametrize("column", ["struct", "list", "map"])
@pytest.mark.parametrize("target", ["kept.parquet", "kept.arrow"])
def test_nothing_but_nulls_within_a_column_is_copied_beside_views(
    tmp_path, monkeypatch, column, target
):
    """pyarrow would spoil slices of it where it casts whole tables."""
    values = {"struct": {"x": None}, "list": [None], "map": [("a", None)]}
    kind = pa.map_(pa.string(), pa.null()) if column == "map" else None
    monkeypatch.setattr(tables, "BATCH_ROWS", 1_000)
    more = pa.array([values[column]] * 3_000, kind)
    texts = pa.array([f"text number {n} of {n * n} words" for n in range(3_000)])
    table = pa.table({"id": range(3_000), "text": texts.cast(pa.string_view()), "more": more})
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    dedupe(tmp_path / "in.arrow", "-o", tmp_path / target)
    if target == "kept.arrow":
        with pa.ipc.open_file(tmp_path / target) as file:
            kept = file.read_all()
    else:
        kept = pq.read_table(tmp_path / target)
    assert kept.num_rows > 2_000
    assert kept["more"].to_pylist() == [table["more"][0].as_py()] * kept.num_rows


@pytest.mark.parametrize("policy", [(), ("--policy", "longest")])
@pytest.mark.parametrize("rows", [0, 1])
def test_an_output_is_written_as_its_first_input_is_also_if_that_has_no_good_row(
    tmp_path, policy, rows
):
    first = TABLE.slice(0, rows).set_column(0, "id", pa.array([None] * rows, pa.string()))
    first = first.replace_schema_metadata({"owner": "first"})
    pq.write_table(first, tmp_path / "0.parquet", compression="gzip", row_group_size=1)
    second = TABLE.replace_schema_metadata({"owner": "second"})
    pq.write_table(second, tmp_path / "1.parquet", compression="snappy")
    inputs = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    dedupe(*inputs, "-o", tmp_path / "k.parquet", "--on-bad", "skip", *policy)
    found = pq.read_metadata(tmp_path / "k.parquet")
    assert (found.metadata[b"owner"], found.num_rows) == (b"first", 2)
    assert found.row_group(0).column(1).compression == "GZIP"
    assert found.num_row_groups == (2 if rows else 1)


def test_unions_beside_dictionaries_are_copied(tmp_path):
    kinds = pa.array([0, 1, 0, 1], pa.int8())
    union = pa.UnionArray.from_sparse(kinds, [pa.array([1, 2, 3, 4]), pa.array(list("abcd"))])
    table = TABLE.append_column("u", union)
    table = table.append_column("d", pa.array(["x", "y", "x", "y"]).dictionary_encode())
    for name in ("a", "b"):
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
    dedupe(tmp_path / "a.arrow", tmp_path / "b.arrow", "-o", tmp_path / "k.arrow")
    with pa.ipc.open_file(tmp_path / "k.arrow") as file:
        assert file.read_all()["u"].to_pylist() == [1, 3]


def test_names_of_columns_that_are_not_utf8_are_told(tmp_path):
    with pa.ipc.new_file(tmp_path / "in.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE)
    data = (tmp_path / "in.arrow").read_bytes()
    (tmp_path / "in.arrow").write_bytes(data.replace(b"text", b"tex\xff"))
    refused = run("dedupe", tmp_path / "in.arrow", "-o", tmp_path / "k.arrow", *FIELDS)
    assert (refused.exit_code, "in.arrow: no Parquet or Arrow file" in refused.stderr) == (2, True)


def test_a_policy_needs_only_its_own_fields(tmp_path):
    """Without a store others may be what metadata cannot be."""
    huge = "x" * 2**21
    rows = [{"id": n, "text": A + "!" * n, "wei": 10**30, "n": {"m": n}, "more": huge}
            for n in range(3)]  # fmt: skip
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for policy, best in (("n.m desc", 2), ("shortest", 0)):
        asked = ("--policy", policy, "--json")
        told = dedupe(tmp_path / "in.jsonl", "-o", tmp_path / "k.jsonl", *asked)
        assert json.loads(told)["lacking"] == []
        assert json.loads((tmp_path / "k.jsonl").read_text())["id"] == best

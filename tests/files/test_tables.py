"""Parquet and Arrow files: what their rows are, and what is wrong where they cannot be read."""

from __future__ import annotations

import datetime
import errno
import json
import sqlite3
import threading
from contextlib import closing
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import simdb
from simdb import arrow
from simdb.errors import BadItemError, ConfigurationError
from simdb.files import open_rows, tables
from simdb.files.inputs import inputs_of
from simdb.files.rows import ReadingOptions
from simdb.files.spans import Spans
from simdb.files.tables import (
    RowLines,
    TableFile,
    TableReader,
    copy_rows,
    part_of,
    write_table,
)

TABLE = pa.table(
    {
        "id": ["a", "b", None, "d"],
        "text": ["one", None, "three", "four"],
        "day": [datetime.date(2026, 1, 2)] * 4,
    }
)
OPTIONS = ReadingOptions(text_fields=("text",), id_field="id")
OPTIONS_OF_TEXT = ReadingOptions(text_fields=("text",))


def arrow_file(path: Path) -> None:
    with pa.ipc.new_file(path, TABLE.schema) as target:
        target.write_table(TABLE, max_chunksize=2)


def arrow_stream(path: Path) -> None:
    with pa.ipc.new_stream(path, TABLE.schema) as target:
        target.write_table(TABLE)


WRITERS = {
    "parquet": lambda path: pq.write_table(TABLE, path, row_group_size=3),
    "file": arrow_file,
    "stream": arrow_stream,
}


@pytest.fixture(params=WRITERS)
def table_file(request, tmp_path):
    ending = "parquet" if request.param == "parquet" else "arrow"
    path = tmp_path / f"in.{ending}"
    WRITERS[request.param](path)
    return path


def test_rows_are_those_of_their_json(table_file):
    with open_rows(str(table_file), OPTIONS) as reader:
        rows = list(reader)
    assert [(row.key, row.item, row.problem) for row in rows] == [
        ("a", "one", None),
        ("b", None, "the field 'text' is null, not text"),
        (None, None, "the field 'id' is null, but a key must be text or a whole number"),
        ("d", "four", None),
    ]
    assert rows[0].metadata == {"day": "2026-01-02"}
    assert reader.place(2) == f"{table_file}, row 2"
    assert reader.fields(rows[3].raw) == {"id": "d", "text": "four", "day": "2026-01-02"}


@pytest.mark.parametrize("keep", [0, 4, 11, 30])
def test_a_file_that_was_cut_is_told(table_file, keep):
    table_file.write_bytes(table_file.read_bytes()[:keep])
    with pytest.raises(BadItemError, match="no Parquet or Arrow file"):
        list(open_rows(str(table_file), OPTIONS))


def test_a_missing_file_and_a_compressed_one_are_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_rows(str(tmp_path / "none.parquet"), OPTIONS)
    packed = tmp_path / "in.parquet.gz"
    packed.write_bytes(b"")
    with pytest.raises(
        simdb.ConfigurationError, match="cannot be read from standard input or compressed"
    ):
        open_rows(str(packed), OPTIONS)


def test_a_column_that_is_missing_is_told_with_those_there_are(table_file):
    options = ReadingOptions(text_fields=("body",), id_field="id")
    with pytest.raises(BadItemError, match="no column 'body'; there are 'id', 'text', 'day'"):
        list(open_rows(str(table_file), options))


@pytest.mark.parametrize(
    ("kind", "column", "items"),
    [
        (simdb.Set(), pa.array([[3, 1], [2]]), [[3, 1], [2]]),
        (simdb.Vector(2), pa.array([[0.5, 1.0]], pa.list_(pa.float32(), 2)), [[0.5, 1.0]]),
        (simdb.Bits(8), pa.array([b"\x05"]), [b"\x05"]),
        (simdb.Bits(4), pa.array(["0101"]), ["0101"]),
    ],
)
def test_items_of_every_kind_are_read(kind, column, items, tmp_path):
    pq.write_table(pa.table({"x": column}), tmp_path / "in.parquet")
    options = ReadingOptions(text_fields=("x",), kind=kind)
    assert [row.item for row in open_rows(str(tmp_path / "in.parquet"), options)] == items


@pytest.mark.parametrize("kind", [simdb.Text(), simdb.String(), simdb.Set(), simdb.WeightedSet()])
def test_bytes_where_others_belong_are_the_row_s_problem(kind, tmp_path):
    columns = {"id": pa.array([b"a", b"b"]), "x": pa.array([b"a", b"b"]), "number": [1, 2]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    for key, told in (("number", f"'x' is bytes, not {kind.json_form}"), ("id", "'id' is bytes")):
        options = ReadingOptions(text_fields=("x",), id_field=key, kind=kind)
        rows = list(open_rows(str(tmp_path / "in.parquet"), options))
        assert [told in (row.problem or "") for row in rows] == [True, True]


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_copied_with_their_schema_and_row_groups(tmp_path, threads):
    source = tmp_path / "in.parquet"
    schema = TABLE.schema.with_metadata({"made": "by hand"})
    packed = {"id": "gzip", "text": "snappy", "day": "zstd"}
    pq.write_table(TABLE.cast(schema), source, row_group_size=2, compression=packed)
    with (tmp_path / "out.parquet").open("wb") as target:
        copy_rows({str(source): Spans([1, 2, 4])}, target, as_parquet=True, threads=threads)
    out = pq.ParquetFile(tmp_path / "out.parquet")
    assert out.schema_arrow.equals(schema, check_metadata=True)
    groups = [out.metadata.row_group(number) for number in range(out.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [2, 1]
    assert [groups[0].column(place).compression for place in range(3)] == ["GZIP", "SNAPPY", "ZSTD"]
    assert out.read()["id"].to_pylist() == ["a", "b", "d"]


class _Full(BytesIO):
    """A disk that is full from the second row group on."""

    def write(self, data):
        if self.tell() > 1_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_goes_wrong_in_writing_is_raised_whoever_writes(tmp_path, threads):
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": [f"text {n}" for n in range(4_000)]}), source, 1_000)
    before = threading.active_count()
    with pytest.raises(OSError, match="No space left"):
        copy_rows({str(source): Spans(range(1, 4_001))}, _Full(), as_parquet=True, threads=threads)
    assert threading.active_count() == before


def test_row_groups_end_by_their_bytes_too(tmp_path):
    source = tmp_path / "in.parquet"
    rows = pa.table({"text": [f"{number}" * 1_000 for number in range(10)] * 3_000})
    pq.write_table(rows, source, row_group_size=30_000)
    with (tmp_path / "out.parquet").open("wb") as target:
        kept = range(1, rows.num_rows + 1)
        copy_rows({str(source): Spans(kept)}, target, as_parquet=True, most_bytes=2**20)
    out = pq.ParquetFile(tmp_path / "out.parquet")
    groups = [out.metadata.row_group(number) for number in range(out.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [10_000] * 3
    assert out.read().equals(rows)


@pytest.mark.parametrize("may_stream", [True, False])
def test_kept_rows_of_a_stream_are_a_stream(tmp_path, may_stream):
    arrow_stream(tmp_path / "in.arrow")
    with (tmp_path / "out.arrow").open("wb") as target:
        kept = {str(tmp_path / "in.arrow"): Spans([2, 4])}
        copy_rows(kept, target, as_parquet=False, may_stream=may_stream)
    opened = pa.ipc.open_stream if may_stream else pa.ipc.open_file
    with opened(tmp_path / "out.arrow") as out:
        assert out.read_all()["text"].to_pylist() == [None, "four"]


def test_rows_of_several_files_are_copied_in_order(tmp_path):
    for name in ("1.arrow", "2.arrow"):
        arrow_file(tmp_path / name)
    with (tmp_path / "out.arrow").open("wb") as target:
        kept = {str(tmp_path / "1.arrow"): Spans([2, 4]), str(tmp_path / "2.arrow"): Spans([1])}
        copy_rows(kept, target, as_parquet=False)
    with pa.ipc.open_file(tmp_path / "out.arrow") as out:
        assert out.read_all()["text"].to_pylist() == [None, "four", "one"]


def test_files_of_other_columns_are_refused(tmp_path):
    arrow_file(tmp_path / "1.arrow")
    pq.write_table(TABLE.select(["id"]), tmp_path / "2.parquet")
    kept = {str(tmp_path / "1.arrow"): Spans([1]), str(tmp_path / "2.parquet"): Spans([1])}
    with (
        (tmp_path / "out.arrow").open("wb") as target,
        pytest.raises(BadItemError, match=r"2\.parquet: its columns differ from those of"),
    ):
        copy_rows(kept, target, as_parquet=False)


def save_data_set(folder: Path, *shards: str) -> None:
    """Save shards of three rows each, as ``datasets`` does."""
    for name in shards:
        arrow_stream(folder / name)
    listed = {"_data_files": [{"filename": name} for name in shards], "_split": None}
    (folder / "state.json").write_text(json.dumps(listed))
    (folder / "dataset_info.json").write_text("{}")


@pytest.mark.parametrize("split", [".", "train"])
def test_only_the_files_that_a_data_set_lists_are_its_shards(tmp_path, split):
    folder = tmp_path / "set" / split
    folder.mkdir(parents=True)
    shards = [f"data-{number:05}-of-00002.arrow" for number in (1, 0)]
    save_data_set(folder, *shards)
    for name in ("cache-147d708ed57dcab1.arrow", "data-00000-of-00004.arrow"):
        arrow_stream(folder / name)  # of what was mapped, and of an earlier save

    def places(**changed: object) -> list[str]:
        options = msgspec.structs.replace(OPTIONS, **changed)
        return [Path(name).name for name in inputs_of(str(tmp_path / "set"), options).values()]

    assert places() == shards  # in the order of the list
    assert places(pattern="*-00000-*") == ["data-00000-of-00002.arrow"]
    (folder / shards[0]).unlink()
    for told, written in (
        (r"state\.json lists data-00001-of-00002\.arrow, which is no file in its folder", None),
        (
            r"state\.json lists \.\./x\.arrow, which is no",
            '{"_data_files": [{"filename": "../x.arrow"}]}',
        ),
        (r"state\.json lists no files$", '{"_data_files": []}'),
        (r"state\.json lists no files of a data set", '{"_data_files": [1]}'),
        (r"state\.json lists no files of a data set", "not JSON"),
    ):
        if written is not None:
            (folder / "state.json").write_text(written)
        with pytest.raises(ConfigurationError, match=told):
            places()


def test_a_list_of_another_kind_makes_no_data_set(tmp_path):
    (tmp_path / "state.json").write_text("[]")
    (tmp_path / "a.txt").write_text("a text")
    assert list(inputs_of(str(tmp_path), OPTIONS)) == [str(tmp_path)]


@pytest.mark.heavy
def test_a_folder_of_a_data_set_is_its_shards(tmp_path):
    rows = {"id": [f"k{i}" for i in range(10)], "text": [f"text {i}" for i in range(10)]}
    import datasets

    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "set"), num_shards=2)
    sources = inputs_of(str(tmp_path / "set"), OPTIONS)
    assert len(sources) == 2
    found = [row.key for source in sources for row in open_rows(source, OPTIONS)]
    assert found == rows["id"]


def test_folders_of_several_splits_and_of_spark_are_their_shards(tmp_path):
    for split in ("train", "test"):  # as a DatasetDict is saved
        (tmp_path / "splits" / split).mkdir(parents=True)
        save_data_set(tmp_path / "splits" / split, "data-00000-of-00001.arrow")
    (tmp_path / "splits" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    places = list(inputs_of(str(tmp_path / "splits"), OPTIONS).values())
    assert [place.partition("/")[0] for place in places] == ["test", "train"]
    (tmp_path / "spark").mkdir()
    for name in ("_SUCCESS", "_metadata", "._SUCCESS.crc"):
        (tmp_path / "spark" / name).write_bytes(b"")
    pq.write_table(TABLE, tmp_path / "spark" / "part-00000.snappy.parquet")
    assert list(inputs_of(str(tmp_path / "spark"), OPTIONS).values()) == [
        "part-00000.snappy.parquet"
    ]


@pytest.mark.parametrize("of_groups", [[12], [4, 4, 4], [6, 0, 6]])
def test_of_large_rows_few_are_read_at_once(tmp_path, monkeypatch, of_groups):
    monkeypatch.setattr("simdb.files.tables._BATCH_BYTES", 100_000)
    texts = pa.table({"text": [f"{number} " * 10_000 for number in range(10, 22)]})
    with pq.ParquetWriter(tmp_path / "in.parquet", texts.schema) as target:
        begin = 0
        for rows in of_groups:
            target.write_table(texts.slice(begin, rows))
            begin += rows
    with TableFile(str(tmp_path / "in.parquet")) as file:
        batches = list(file.batches())
    assert {batch.num_rows for batch in batches} == {3}
    assert pa.Table.from_batches(batches).equals(texts)


@pytest.mark.parametrize("form", ["parquet", "of categories", "arrow"])
@pytest.mark.parametrize("make", [str, str.encode])
def test_of_long_values_that_repeat_few_are_read_at_once(tmp_path, monkeypatch, form, make):
    """They are once in the file, in a dictionary, and as often as rows have them in memory."""
    monkeypatch.setattr("simdb.files.tables._BATCH_BYTES", 100_000)
    values = [make(f"{number % 2} " * 10_000) for number in range(50)]
    column = pa.array(values) if form == "parquet" else pa.array(values).dictionary_encode()
    rows = pa.table({"id": range(50), "text": column})
    source = tmp_path / "in"
    if form == "arrow":
        with pa.ipc.new_file(str(source), rows.schema) as target:
            target.write_table(rows)
    else:
        pq.write_table(rows, source)
    with TableFile(str(source)) as file:
        batches = list(file.batches())
    assert max(batch.num_rows for batch in batches) == 4
    assert pa.Table.from_batches(batches).equals(rows)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.string_view()])
def test_tables_are_cut_by_the_texts_of_their_dictionaries(kind):
    lengths = [0, 3, 50, 1_000, 7_000]
    values = pa.array([b"x" * length for length in lengths] + [None]).cast(kind)
    numbers = np.random.default_rng(1).integers(0, 6, 500)
    column = pa.DictionaryArray.from_arrays(pa.array([*numbers.tolist(), None]), values)
    rows = pa.record_batch({"n": range(501), "text": column})
    assert [part.num_rows for part in arrow.pieces(rows, 200, 10**9)] == [200, 200, 101]
    parts = list(arrow.pieces(rows, 200, 10_000))
    assert pa.Table.from_batches(parts).column("n").to_pylist() == list(range(501))
    sizes = [sum(len(text or "") for text in part["text"].to_pylist()) for part in parts]
    assert all(map(int.__le__, sizes, [10_000] * len(sizes)))
    assert len(parts) < 4 * sum(sizes) / 10_000


def test_of_long_lists_few_are_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("simdb.files.tables._BATCH_BYTES", 100_000)
    numbers = np.random.default_rng(1).random((12, 2_000))
    pq.write_table(pa.table({"numbers": list(numbers)}), tmp_path / "in.parquet")
    with TableFile(str(tmp_path / "in.parquet")) as file:
        assert [batch.num_rows for batch in file.batches()] == [5, 5, 2]


def test_row_groups_of_small_rows_are_read_together(tmp_path):
    pq.write_table(TABLE, tmp_path / "in.parquet", row_group_size=1)
    with TableFile(str(tmp_path / "in.parquet")) as file:
        assert [batch.num_rows for batch in file.batches()] == [4]


@pytest.mark.parametrize("form", ["struct", "list", "map"])
def test_dictionaries_within_columns_are_read_and_copied_from_all_row_groups(tmp_path, form):
    tags = pa.array([f"t{number % 7}" for number in range(60)]).dictionary_encode()
    ends = pa.array(range(61), pa.int32())
    column = {
        "struct": lambda: pa.StructArray.from_arrays([tags], names=["tag"]),
        "list": lambda: pa.ListArray.from_arrays(ends, tags),
        "map": lambda: pa.MapArray.from_arrays(ends, pa.array(["tag"] * 60), tags),
    }[form]()
    rows = pa.table({"text": [f"text {number}" for number in range(60)], "tags": column})
    source, copy = tmp_path / "in.parquet", BytesIO()
    pq.write_table(rows, source, row_group_size=20)
    with TableFile(str(source)) as file:
        assert pa.Table.from_batches(file.batches()).to_pylist() == rows.to_pylist()
        assert [batch.num_rows for batch in file.batches(["text"])] == [60]
    kept = Spans()
    kept.extend(np.arange(1, 61, 2))
    copy_rows({str(source): kept}, copy, as_parquet=True)
    assert pq.read_table(copy).to_pylist() == rows.to_pylist()[::2]


def test_of_large_rows_of_a_database_few_are_held_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "PART_BYTES", 100_000)
    with closing(sqlite3.connect(tmp_path / "in.sqlite")) as database:
        database.execute("CREATE TABLE t (text TEXT)")
        texts = [f"{number} " * 10_000 for number in range(10, 22)]
        database.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])
        database.commit()
    held = []
    rows = TableReader.rows_of

    def noted(self, part, line):
        held.append(len(part.columns["text"]))
        return rows(self, part, line)

    monkeypatch.setattr(TableReader, "rows_of", noted)
    found = open_rows(f"sqlite:{tmp_path / 'in.sqlite'}:t", OPTIONS_OF_TEXT)
    assert [row.item for row in found] == texts
    assert held == [4, 4, 4]


def test_row_groups_of_a_table_that_is_made_end_by_their_bytes_too(monkeypatch):
    monkeypatch.setattr("simdb.files.tables._MADE_BYTES", 100_000)
    texts = pa.table({"text": [f"{number} " * 10_000 for number in range(10, 22)]})
    target = BytesIO()
    found = pa.RecordBatchReader.from_batches(texts.schema, texts.to_batches(max_chunksize=1))
    assert write_table(found, target, as_parquet=True) == 12
    assert pq.ParquetFile(target).metadata.num_row_groups == 3


def test_lines_of_rows_are_made_as_they_are_asked_for(monkeypatch):
    made = []
    monkeypatch.setattr(tables, "_LINES_AT_ONCE", 10)

    def noted(batch):
        made.append(batch)
        return part_of(batch)

    monkeypatch.setattr(tables, "part_of", noted)
    batch = pa.record_batch({"n": range(100), "text": [f"text {n}" for n in range(100)]})
    lines, known = RowLines(batch), list(RowLines(batch))
    made.clear()
    assert [lines[place] for place in range(0, 100, 2)] == known[::2]
    assert len(made) == 10
    for place in (-1, 99, 3, 0):
        assert lines[place] == known[place]
    with pytest.raises(IndexError):
        lines[100]
    assert list(lines[5:7]) == known[5:7]


def test_whole_numbers_are_bits_in_tables_and_lines(tmp_path):
    numbers = [2**64 - 1, 5]
    pq.write_table(pa.table({"bits": pa.array(numbers, pa.uint64())}), tmp_path / "in.parquet")
    (tmp_path / "in.jsonl").write_text("".join(f'{{"bits": {one}}}\n' for one in numbers))
    options = ReadingOptions(text_fields=("bits",), kind=simdb.Bits(64))
    for name in ("in.parquet", "in.jsonl"):
        with open_rows(str(tmp_path / name), options) as reader:
            rows = [*reader]
            assert [row.problem or row.item for row in rows] == numbers
            assert [reader.item_in(row.raw) for row in rows] == numbers
    (tmp_path / "in.jsonl").write_text('{"bits": true}\n{"bits": 5.0}\n{"bits": null}\n')
    with open_rows(str(tmp_path / "in.jsonl"), options) as reader:
        for row in reader:
            assert "0x…, a list or a whole number" in str(row.problem)
    (tmp_path / "in.jsonl").write_text('{"bits": 5, "more": "01"}\n')
    several = ReadingOptions(text_fields=("bits", "more"), kind=simdb.Bits(64))
    with open_rows(str(tmp_path / "in.jsonl"), several) as reader:
        (row,) = reader
        assert row.problem == "bits written as a whole number must be in one field"


def test_a_component_that_is_nan_or_null_is_told_as_that(tmp_path):
    vectors = pa.array([[1.0, float("nan")], [None, 1.0], [1.0, 2.0]], pa.list_(pa.float64()))
    pq.write_table(pa.table({"vector": vectors}), tmp_path / "in.parquet")
    options = ReadingOptions(text_fields=("vector",), kind=simdb.Vector(2))
    with open_rows(str(tmp_path / "in.parquet"), options) as reader:
        assert [row.problem for row in reader] == [
            "the field 'vector' has null or NaN at position 1",
            "the field 'vector' has null or NaN at position 0",
            None,
        ]

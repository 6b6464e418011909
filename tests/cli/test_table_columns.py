"""Tables read in columns: what they give is what the same rows give that are read one by one."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simdb.files import jsonl
from simdb.files.jsonl import JsonLinesReader
from simdb.files.tables import TableReader
from simdb.ingest import rows as rows_of
from tests.support.cli_stores import near_copy, text_of
from tests.support.commands import run, write_rows
from tests.support.grids import some_of

ROWS = 60
TEXTS: list[str | None] = [text_of(seed) for seed in range(ROWS)]
TEXTS[7::10] = [near_copy(seed) for seed in range(1, 7)]  # of rows before them, in other shards too
TABLE = pa.table(
    {
        "id": [f"key {row}" for row in range(ROWS)],
        "text": TEXTS,
        "n": [None if row % 5 == 0 else row / 4 for row in range(ROWS)],
        "tags": [["x", str(row)] for row in range(ROWS)],
    }
)
WITH_NULLS = TABLE.set_column(
    1, "text", pa.array([None if row in (3, 24) else text for row, text in enumerate(TEXTS)])
)
TWICE = TABLE.set_column(0, "id", pa.array([f"key {row % 50}" for row in range(ROWS)]))
LATER = TABLE.set_column(0, "id", pa.array(["key 1", *TABLE["id"].to_pylist()[1:-1], "key 9"]))
LATER = LATER.set_column(1, "text", pa.array([TEXTS[1], *TEXTS[1:]]))
NUMBERS = TABLE.set_column(0, "id", pa.array(range(ROWS), pa.uint16()))
LARGE = TABLE.set_column(1, "text", TABLE["text"].cast(pa.large_string()))
COLUMNS = TableReader.in_columns


def shards(folder: Path, table: pa.Table) -> Path:
    """Write a table as three shards of several groups each."""
    folder.mkdir()
    for number, (begin, end) in enumerate([(0, 25), (25, 26), (26, ROWS)]):
        part = table.slice(begin, end - begin)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=10)
    return folder


def everything(folder: Path, arguments: list[object]) -> tuple[object, ...]:
    """What a command tells and leaves in a folder of its own."""
    folder.mkdir()
    ran = run(*(str(word).replace("=", f"{folder}/") for word in arguments))
    told = json.loads(ran.stdout) if ran.exit_code == 0 else {}
    told.pop("seconds", None)
    written = {
        path.name: pq.read_table(path) if path.suffix == ".parquet" else path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.suffix in ("", ".parquet")
    }
    message = ran.stderr.replace(str(folder), "")
    return ran.exit_code, message, told, written


DEDUPE = ["dedupe", "in", "-o", "=kept.parquet", "--json", "--text-field", "text"]
WAYS: dict[str, tuple[Any, list[Any]]] = {
    "keys of a field": (TABLE, [*DEDUPE, "--id-field", "id"]),
    "numbers as keys": (NUMBERS, [*DEDUPE, "--id-field", "id"]),
    "places as keys": (TABLE, [*DEDUPE, "--make-keys", "place", "--key-prefix", "p/"]),
    "contents as keys": (TABLE, [*DEDUPE, "--make-keys", "content"]),
    "what is removed": (TABLE, [*DEDUPE, "--id-field", "id", "--removed", "=removed"]),
    "lines of JSON": (TABLE, ["dedupe", "in", "-o", "=kept", "--json", "--id-field", "id"]),
    "nulls": (WITH_NULLS, [*DEDUPE, "--id-field", "id", "--bad", "=bad"]),
    "nulls that end it": (WITH_NULLS, [*DEDUPE, "--id-field", "id"]),
    "a key twice": (TWICE, [*DEDUPE, "--id-field", "id", "--bad", "=bad"]),
    "a key twice that ends it": (TWICE, [*DEDUPE, "--id-field", "id"]),
    "a key twice, and later one that ends it": (LATER, [*DEDUPE, "--id-field", "id"]),
    "large texts": (LARGE, [*DEDUPE, "--id-field", "id"]),
}


@pytest.mark.parametrize(
    ("way", "most"), [(way, 7) for way in WAYS] + some_of([(way, 10_000) for way in WAYS], step=4)
)
def test_rows_in_columns_are_what_rows_one_by_one_are(tmp_path, monkeypatch, way, most):
    table, arguments = WAYS[way]
    monkeypatch.setattr("simdb.ingest.add.BATCH_ITEMS", most)
    source = shards(tmp_path / "in", table)
    arguments = [source if word == "in" else word for word in arguments]
    taken = []

    def noted(*given):
        taken.append(COLUMNS(*given))
        return taken[-1]

    monkeypatch.setattr(TableReader, "in_columns", noted)
    columns = everything(tmp_path / "columns", arguments)
    ended_early = columns[0] != 0 and table is WITH_NULLS
    assert any(taken) == ("content" not in arguments and not ended_early)
    monkeypatch.setattr(TableReader, "in_columns", lambda *_given: None)
    assert columns == everything(tmp_path / "rows", arguments)


LINES = ["keys of a field", "contents as keys", "what is removed", "nulls", "a key twice"]


@pytest.mark.parametrize("way", LINES)
def test_lines_in_columns_are_what_lines_one_by_one_are(tmp_path, monkeypatch, way):
    monkeypatch.setattr("simdb.ingest.add.BATCH_ITEMS", 7)
    monkeypatch.setattr(jsonl, "_LEAST_AT_ONCE", 3_000)
    table, arguments = WAYS[way]
    source = shards(tmp_path / "in", table)
    for path in source.iterdir():
        write_rows(path.with_suffix(".jsonl"), pq.read_table(path).to_pylist())
        path.unlink()
    given = [{"in": source, "=kept.parquet": "=kept"}.get(str(word), word) for word in arguments]
    columns = everything(tmp_path / "columns", given)
    assert columns[0] == 0
    monkeypatch.setattr(JsonLinesReader, "_in_columns", lambda *_given: None)
    assert columns == everything(tmp_path / "rows", given)


def test_metadata_of_columns_are_those_of_rows(tmp_path, monkeypatch):
    source = shards(tmp_path / "in", TABLE)
    found = []
    for name in ("columns", "rows"):
        store = tmp_path / f"{name}.simdb"
        assert run("create", store, "c").exit_code == 0
        ran = run("add", store, "c", source, "--id-field", "id", "--find-duplicates", "--json")
        found.append((json.loads(ran.stdout), run("export", store, "c").stdout))
        monkeypatch.setattr(TableReader, "in_columns", lambda *_given: None)
    assert found[0] == found[1]
    assert found[0][0]["duplicates_new"] == 6


def test_small_shards_are_stored_together(tmp_path, monkeypatch):
    source = shards(tmp_path / "in", TABLE)
    batches = []
    whole = rows_of.RowBatch.cut

    def cut(batch, some):
        batches.append(some)
        return whole(batch, some)

    monkeypatch.setattr(rows_of.RowBatch, "cut", cut)
    ran = run("dedupe", source, "-o", tmp_path / "k.parquet", "--id-field", "id")
    assert ran.exit_code == 0
    assert len(batches) == 1

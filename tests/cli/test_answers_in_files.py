"""Answers and items in files: tables of Parquet and Arrow, lines of JSON; whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import simdb
from simdb.cli.output import ProgressBar
from tests.support.cli_stores import copied
from tests.support.commands import done, failed, write_rows

TEXTS = {
    "a": "the quick brown fox jumps over the lazy dog",
    "b": "the quick brown fox jumps over the lazy dog!",
    "c": "another text about the price of copper",
}
PROBES = "probes.jsonl"
PROMISE = {"guarantee": "exact", "expected_recall": 1.0}


def _make(folder: Path) -> None:
    path = folder / "s.simdb"
    rows = [{"id": key, "text": text, "n": len(key), "tags": ["x"]} for key, text in TEXTS.items()]
    rows[1]["n"] = 0.5
    del rows[2]["tags"]
    write_rows(folder / "in.jsonl", rows)
    for name in ("news", "others"):
        done("create", path, name, "--exact-floor", 0.5)
        done("add", path, name, folder / "in.jsonl", "--id-field", "id")
    write_rows(folder / PROBES, [{"text": "no"}, {"text": "nothing like it"}])


@pytest.fixture
def store(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied(_make, tmp_path_factory, tmp_path)
    return tmp_path / "s.simdb"


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.ipc.open_file(path) as file:
        return file.read_all()


def test_the_key_and_the_item_go_to_two_fields(store):
    assert "cannot both go to one field" in failed("export", store, "news", "--id-field", "text")
    assert '"record": "a"' in done("export", store, "news", "--id-field", "record").stdout
    for field, of in (("id", "key"), ("text", "item")):
        told = failed("export", store, "news", "--metadata-field", field)
        assert f"the {of} goes to the field '{field}': name another with --metadata-field" in told


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_pairs_are_a_table_with_its_promise(store, tmp_path, ending):
    output = tmp_path / f"pairs.{ending}"
    told = done("pairs", store, "news", "--exact", "-o", output, "--json").stdout
    assert json.loads(told) == {**PROMISE, "output": str(output), "rows": 1}
    found = read(output)
    assert found.to_pylist() == [{"left": "a", "right": "b", "similarity": pytest.approx(35 / 36)}]
    assert json.loads(found.schema.metadata[b"simdb"]) == PROMISE


@pytest.mark.parametrize(
    ("command", "columns", "count"),
    [
        (("pairs", "news"), ["left", "right", "similarity"], 1),
        (("join", "news", "others"), ["left", "right", "similarity"], 5),
        (("groups", "news"), ["representative", "key"], 2),
        (("search", "news", "--key", "a"), ["key", "similarity", "metadata"], 1),
        (("search", "news", "--text", "no"), ["key", "similarity", "metadata"], 0),
        (("search", "news", "--input", PROBES), ["probe", "key", "similarity", "metadata"], 0),
    ],
)
def test_every_answer_may_go_to_a_file(store, tmp_path, command, columns, count):
    name, *given = command
    others = [tmp_path / one if one == PROBES else one for one in given]
    done(name, store, *others, "-o", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert (found.schema.names, found.num_rows) == (columns, count)
    assert json.loads(found.schema.metadata[b"simdb"]).keys() >= PROMISE.keys()
    done(name, store, *others, "-o", tmp_path / "out.jsonl")
    printed = done(name, store, *others, "--json").stdout
    assert (tmp_path / "out.jsonl").read_text() == printed
    assert done(name, store, *others, "-o", "-").stdout == printed


def test_a_search_for_several_rows_names_the_probes(store, tmp_path):
    probes = ("--input", tmp_path / "in.jsonl", "--id-field", "id")
    done("search", store, "news", *probes, "-o", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert list(zip(*found.select(["probe", "key"]).to_pydict().values(), strict=True)) == [
        ("a", "a"), ("a", "b"), ("b", "b"), ("b", "a"), ("c", "c"),
    ]  # fmt: skip


def test_exported_tables_have_a_column_a_field_and_can_be_added(store, tmp_path):
    done("export", store, "news", "-o", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.names == ["id", "text", "n", "tags"]
    assert found["n"].to_pylist() == [1.0, 0.5, 1.0]
    assert found["tags"].to_pylist() == [["x"], ["x"], None]
    done("create", store, "again")
    done("add", store, "again", tmp_path / "out.parquet", "--id-field", "id")
    assert json.loads(done("get", store, "again", "c", "--json").stdout)["item"] == TEXTS["c"]


def test_an_exported_table_without_rows_has_texts(tmp_path):
    done("create", tmp_path / "s.simdb", "none")
    done("export", tmp_path / "s.simdb", "none", "-o", tmp_path / "out.parquet")
    assert pq.read_schema(tmp_path / "out.parquet").types == [pa.string(), pa.string()]


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        (("--kind", "set"), [{"id": 1, "set": [1, 2]}, {"id": 2, "set": []}]),
        (("--kind", "bag"), [{"id": 1, "bag": ["a", "a"]}, {"id": 2, "bag": []}]),
        (("--kind", "vector:2"), [{"id": 1, "vector": [0.5, 1.0]}]),
        (("--kind", "bits:4"), [{"id": 1, "bits": "0101"}]),
    ],
)
def test_items_of_every_kind_go_to_a_table_and_back(tmp_path, settings, rows):
    store = tmp_path / "s.simdb"
    write_rows(tmp_path / "in.jsonl", rows)
    for name in ("one", "two"):
        done("create", store, name, *settings)
    done("add", store, "one", tmp_path / "in.jsonl", "--id-field", "id")
    done("export", store, "one", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == rows
    done("add", store, "two", tmp_path / "out.parquet", "--id-field", "id")
    assert done("export", store, "two").stdout == done("export", store, "one").stdout


@pytest.mark.parametrize(
    "sets", [[{"milk": 1, "rum": 0.5}, {"tea": 2}, {}], [[[3, 0.5]], {}], [{}]]
)
def test_weighted_sets_are_maps_in_tables(tmp_path, sets):
    store, output = tmp_path / "s.simdb", tmp_path / "out.parquet"
    write_rows(tmp_path / "in.jsonl", [{"id": n, "weighted": one} for n, one in enumerate(sets)])
    for name in ("one", "two"):
        done("create", store, name, "--kind", "weighted")
    done("add", store, "one", tmp_path / "in.jsonl", "--id-field", "id")
    done("export", store, "one", "-o", output)
    assert pa.types.is_map(pq.read_schema(output).field("weighted").type)
    done("add", store, "two", output, "--id-field", "id")
    assert done("export", store, "two").stdout == done("export", store, "one").stdout
    with simdb.open(store) as db, simdb.open(tmp_path / "t.simdb") as other:
        again = other.collection("three", simdb.WeightedSet())
        again.add_many(db["one"].to_arrow(), key="key", item="item")
        assert [entry.item for entry in again.items()] == [
            entry.item for entry in db["one"].items()
        ]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("metadata", [[{}, {"x": 1}, None], [{}, {}], [{"x": 1}, {"x": "text"}]])
def test_metadata_in_one_field_of_a_table_come_back_as_they_were(tmp_path, metadata, ending):
    store, output = tmp_path / "s.simdb", tmp_path / f"out.{ending}"
    for name in ("one", "two"):
        done("create", store, name, "--kind", "set")
    with simdb.open(store) as db:
        db["one"].add_many((n, {n}, told) for n, told in enumerate(metadata))
    field = ["--metadata-field", "more"]
    done("export", store, "one", "-o", output, *field)
    done("add", store, "two", output, "--id-field", "id", *field)
    with simdb.open(store) as db:
        assert [entry.metadata for entry in db["two"].items()] == metadata


def test_what_no_column_holds_is_told_and_the_file_is_as_it_was(store, tmp_path):
    write_rows(tmp_path / "more.jsonl", [{"id": 7, "text": TEXTS["a"], "n": "a text"}])
    done("add", store, "news", tmp_path / "more.jsonl", "--id-field", "id")
    output = tmp_path / "out.parquet"
    output.write_text("before")
    assert "one Arrow column cannot hold" in failed("pairs", store, "news", "-o", output)
    assert "types that no one Arrow column" in failed("export", store, "news", "-o", output)
    assert output.read_text() == "before"
    assert sorted(path.name for path in tmp_path.glob("*out*")) == ["out.parquet"]


def test_metadata_that_no_column_holds_are_told_to_fit_in_one_field(store, tmp_path):
    write_rows(tmp_path / "more.jsonl", [{"id": "z", "text": TEXTS["a"], "n": "a text"}])
    done("add", store, "news", tmp_path / "more.jsonl", "--id-field", "id")
    command = ("export", store, "news", "-o", tmp_path / "out.parquet")
    assert "--metadata-field ... writes all metadata as JSON" in failed(*command)
    done(*command, "--metadata-field", "more")


@pytest.mark.parametrize("command", [("pairs", "news"), ("export", "news"), ("groups", "news")])
def test_a_name_that_promises_another_form_is_refused(store, tmp_path, command):
    name, collection = command
    refused = failed(name, store, collection, "-o", tmp_path / "out.csv")
    assert "means csv" in refused
    assert "belongs to a store" in failed(name, store, collection, "-o", store)
    both = failed(name, store, collection, "-o", "-", "--json")
    assert "cannot both go to standard output" in both


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_an_export_asks_for_the_kind_once_and_not_for_each_item(store, tmp_path, monkeypatch, name):
    """That looks at the store, and took half of the time of an export."""
    asked: list[object] = []
    kind: Any = simdb.CollectionView.kind

    def noted(source: object) -> object:
        asked.append(source)
        return kind.fget(source)

    with simdb.open(store) as db:
        db["news"].add_many([(f"more {number}", f"text {number}") for number in range(50)])
    monkeypatch.setattr(simdb.CollectionView, "kind", property(noted))
    done("export", store, "news", "-o", tmp_path / name)

    assert len(asked) < 20


def test_an_export_tells_apart_that_it_looks_at_types_and_that_it_writes(tmp_path, monkeypatch):
    told: list[tuple[str, int]] = []

    def recorded(self: ProgressBar, task: str, done: int, total: int | None = None) -> None:
        told.append((task, done))

    with simdb.open(tmp_path / "s.simdb") as db:
        db.create_collection("c", simdb.Set()).add_many((n, [n]) for n in range(1000))
    monkeypatch.setattr(ProgressBar, "advance", recorded)
    done("export", tmp_path / "s.simdb", "c", "-o", tmp_path / "out.parquet")
    assert told == [("looking at types", 1000), ("exporting", 1000)]
    told.clear()
    done("export", tmp_path / "s.simdb", "c", "-o", tmp_path / "out.jsonl")
    assert told == [("exporting", 1000)]

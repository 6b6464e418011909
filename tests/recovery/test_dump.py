"""A store as Parquet files and back: the same items, the same answers, nothing by half."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import simdb
from simdb.cli.app import app
from tests.support.kind_cases import CASES


def answers_of(collection: simdb.Collection) -> list[object]:
    entries = [(entry.key, str(entry.item), entry.metadata) for entry in collection.items()]
    pairs = sorted((pair.left, pair.right, pair.value) for pair in collection.pairs())
    return [entries, pairs, collection.plan, collection.kind]


@pytest.mark.parametrize("name", CASES)
def test_a_store_of_every_kind_comes_back_with_the_same_answers(name, tmp_path):
    case = CASES[name]
    with simdb.open(tmp_path / "old.simdb") as old:
        collection = old.collection("items", case.kind, **case.bound)
        collection.add_many(
            (number, item, {"n": number} if number % 2 else None)
            for number, item in enumerate(case.many(np.random.default_rng(5)))
        )
        collection.delete(3)
        expected = answers_of(collection)
        old.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    with simdb.open(tmp_path / "new.simdb", read_only=True) as new:
        assert answers_of(new["items"]) == expected
        assert new.check(deep=True).sound


def filled(path: Path, keys: tuple[str | int, ...] = ("a", "b")) -> Path:
    with simdb.open(path) as database:
        texts = database.collection("texts", simdb.Text(), threshold=0.8)
        texts.add_many([(key, f"a text about {key}", {"of": key}) for key in keys])
    return path


def test_texts_are_a_column_that_others_can_read(tmp_path):
    with simdb.open(filled(tmp_path / "s.simdb"), read_only=True) as database:
        database.dump(tmp_path / "dump")
    table = pq.read_table(tmp_path / "dump" / "0.parquet")
    assert table.to_pylist() == [
        {"key": "a", "item": "a text about a", "metadata": '{"of": "a"}'},
        {"key": "b", "item": "a text about b", "metadata": '{"of": "b"}'},
    ]
    described = json.loads((tmp_path / "dump" / "simdb.json").read_text())
    assert [one["name"] for one in described["collections"]] == ["texts"]


def test_a_dump_is_for_its_owner_since_it_has_the_secrets(tmp_path):
    with simdb.open(filled(tmp_path / "s.simdb")) as database:
        database.dump(tmp_path / "dump")
    assert stat.S_IMODE((tmp_path / "dump").stat().st_mode) == 0o700


def test_keys_of_both_types_come_back(tmp_path):
    with simdb.open(filled(tmp_path / "s.simdb", keys=("1", 1, 2))) as database:
        database.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    with simdb.open(tmp_path / "new.simdb") as new:
        assert [entry.key for entry in new["texts"].items()] == ["1", 1, 2]


def test_an_empty_store_comes_back(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        database.collection("none", simdb.Set(), threshold=0.5)
        database.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    with simdb.open(tmp_path / "new.simdb") as new:
        assert new.collection_names() == ["none"]
        assert len(new["none"]) == 0


def test_nothing_is_replaced(tmp_path):
    store = filled(tmp_path / "s.simdb")
    (tmp_path / "dump").mkdir()
    with simdb.open(store) as database:
        with pytest.raises(simdb.StorageError, match="exists"):
            database.dump(tmp_path / "dump")
        database.dump(tmp_path / "dump2")
    with pytest.raises(simdb.StorageError, match="exists"):
        simdb.load(tmp_path / "dump2", store)


@pytest.mark.parametrize("damage", ["cut", "absent", "changed", "newer", "no json", "fewer"])
def test_a_damaged_folder_makes_no_store(tmp_path, damage):
    with simdb.open(filled(tmp_path / "s.simdb")) as database:
        database.dump(tmp_path / "dump")
    items, catalogue = tmp_path / "dump" / "0.parquet", tmp_path / "dump" / "simdb.json"
    described = json.loads(catalogue.read_text())
    if damage == "cut":
        items.write_bytes(items.read_bytes()[:-20])
    elif damage == "absent":
        items.unlink()
    elif damage == "changed":
        described["collections"][0]["settings"]["bands"] = "many"
    elif damage == "newer":
        described["format"] = 99
    elif damage == "fewer":
        described["collections"][0]["count"] = 3
    catalogue.write_text("{" if damage == "no json" else json.dumps(described))
    with pytest.raises(simdb.StorageError):
        simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    assert sorted(path.name for path in tmp_path.iterdir() if "new" in path.name) == []
    assert not list(tmp_path.glob(".*"))


def test_a_dump_that_fails_leaves_nothing(tmp_path, monkeypatch):
    store = filled(tmp_path / "s.simdb")
    monkeypatch.setattr("simdb.recovery.dump.json.dumps", lambda *_, **__: 1 / 0)
    with simdb.open(store) as database, pytest.raises(ZeroDivisionError):
        database.dump(tmp_path / "dump")
    assert {path.name for path in tmp_path.iterdir()} <= {
        "s.simdb",
        "s.simdb-lock",
        "s.simdb-turn",
    }


def test_the_commands_do_the_same(tmp_path):
    store, folder = filled(tmp_path / "s.simdb"), str(tmp_path / "dump")
    dumped = CliRunner().invoke(app, ["dump", str(store), folder, "--json"])
    assert json.loads(dumped.stdout) == {"store": str(store), "folder": folder, "collections": 1}
    new = str(tmp_path / "new.simdb")
    loaded = CliRunner().invoke(app, ["load", folder, new])
    assert loaded.exit_code == 0
    assert f"loaded into {new}" in loaded.stderr
    assert CliRunner().invoke(app, ["load", folder, new]).exit_code == 3
    assert CliRunner().invoke(app, ["load", str(tmp_path / "none"), "x.simdb"]).exit_code == 3


def test_what_a_killed_dump_has_left_goes_with_the_next(tmp_path):
    store = filled(tmp_path / "s.simdb")
    left, held = tmp_path / ".dump.0a.part", tmp_path / ".dump.0b.part"
    for folder in (left, held):
        folder.mkdir()
        (folder / "simdb.json").touch()
        os.utime(folder, (0, 0))
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as by a dump that goes on
    with simdb.open(store) as database:
        database.dump(tmp_path / "dump")
    os.close(descriptor)
    assert held.exists()
    assert not left.exists()

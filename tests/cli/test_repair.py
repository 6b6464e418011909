"""simdb repair: what is left of a damaged store; the exit code says whether that is all."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json

import pytest

import simdb
from simdb.storage.file import log
from tests.support.commands import run

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "LARGEST_COMMIT", 0)  # damage falls into the tables
    with simdb.open(tmp_path / "a.simdb", threads=1) as database:
        texts = database.collection("c", WORDS, threshold=0.5, seed=1)
        texts.add_many([(1, "a text that is rare"), ("two", "another one")])
    return tmp_path / "a.simdb"


def repair(*arguments):
    return run("repair", *map(str, arguments))


def test_a_sound_store_is_repaired_and_called_complete(store, tmp_path):
    done = repair(store, tmp_path / "b.simdb")
    assert done.exit_code == 0
    assert "c: 2 items" in done.output
    assert "complete" in done.output
    with simdb.open(tmp_path / "b.simdb") as database:
        assert database["c"].get("two").item == "another one"


def test_what_is_lost_is_told_and_the_exit_code_is_1(store, tmp_path):
    data = store.read_bytes()
    assert data.count(b"is rare") == 1
    store.write_bytes(data.replace(b"is rare", b"is Rare"))
    done = repair(store, tmp_path / "b.simdb")
    assert done.exit_code == 1
    assert "c: 1 item, 1 lost" in done.output
    assert "lost: 1" in done.output
    assert "incomplete" in done.output
    told = json.loads(repair(store, tmp_path / "c.simdb", "--json").stdout)
    assert told["complete"] is False
    assert told["collections"][0]["lost_keys"] == [1]


def test_a_file_that_is_no_store_or_a_target_that_exists_is_refused(store, tmp_path):
    (tmp_path / "text").write_bytes(b"plain text")
    assert repair(tmp_path / "text", tmp_path / "b.simdb").exit_code == 3
    assert repair(store, store).exit_code == 3
    refused = repair(tmp_path, tmp_path / "b.simdb")
    assert refused.exit_code == 3
    assert f"{tmp_path} is not a regular file" in refused.output

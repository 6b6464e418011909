"""A store as Parquet files and back: the same items, the same answers, nothing by half."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import simdb
from simdb import arrow
from simdb.batches.signer import Signer, Signing
from simdb.cli.app import app
from simdb.ingest import rows
from simdb.recovery import dump
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


@pytest.mark.parametrize("name", CASES)
def test_signatures_come_by_choice_and_are_not_made_again(name, tmp_path, monkeypatch):
    case = CASES[name]
    with simdb.open(tmp_path / "old.simdb") as old:
        collection = old.collection("items", case.kind, **case.bound)
        collection.add_many(enumerate(case.many(np.random.default_rng(5))))
        collection.delete(3)
        count = len(collection)
        signs = collection.recipe().is_probable and not case.kind.estimates
        expected = answers_of(collection)
        old.dump(tmp_path / "dump", signatures=True)
    assert ("signature" in pq.read_schema(tmp_path / "dump" / "0.parquet").names) is signs
    simdb.load(tmp_path / "dump", tmp_path / "anew.simdb", signatures=False)
    signed: list[int] = []
    start = Signer.start

    def counted(self: Signer, items: Sequence[bytes], pool: Any) -> Signing:
        signed.append(len(items))
        return start(self, items, pool)

    monkeypatch.setattr(Signer, "start", counted)
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    assert sum(signed) == (1 if signs else count)  # the first of each batch
    for file in ("anew.simdb", "new.simdb"):
        with simdb.open(tmp_path / file, read_only=True) as new:
            assert answers_of(new["items"]) == expected
            assert new.check(deep=True).sound


def test_no_batch_is_of_several_row_groups_which_count_equal_values_once(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        database.collection("c", simdb.Text()).add_many((n, "long " * 400_000) for n in range(8))
        database.dump(tmp_path / "out")
    (file,) = (tmp_path / "out").rglob("*.parquet")
    table = pq.ParquetFile(file)
    groups = [table.metadata.row_group(n).num_rows for n in range(table.num_row_groups)]
    batches = [batch.num_rows for batch in dump._batches(table)]
    assert {*accumulate(groups)} <= {*accumulate(batches)}
    assert len(groups) > 1
    assert max(batches) == 2


def test_signatures_of_other_items_are_refused_and_the_items_come_without(tmp_path):
    with simdb.open(tmp_path / "old.simdb") as old:
        texts = old.collection("texts", simdb.Text(), threshold=0.5)
        texts.add_many((number, f"a text with the number {number}") for number in range(20))
        old.dump(tmp_path / "dump", signatures=True)
    file = tmp_path / "dump" / "0.parquet"
    rows = pq.read_table(file)
    turned = rows["signature"].take(list(range(19, -1, -1)))
    pq.write_table(rows.set_column(3, "signature", turned), file)
    without_digests(tmp_path / "dump")
    run = CliRunner().invoke(app, ["load", str(tmp_path / "dump"), str(tmp_path / "new.simdb")])
    assert run.exit_code == 3
    assert "row 0 has another signature" in run.output.replace("\n", " ")
    assert "load it without its signatures" in run.output.replace("\n", " ")
    assert not (tmp_path / "new.simdb").exists()
    anew = ["load", "--sign", str(tmp_path / "dump"), str(tmp_path / "new.simdb")]
    assert CliRunner().invoke(app, anew).exit_code == 0
    with simdb.open(tmp_path / "new.simdb") as new:
        assert len(new["texts"]) == 20
        assert new.check(deep=True).sound


def with_signatures(folder: Path, made: Callable[[list[bytes]], list[bytes | None] | None]) -> None:
    """Give the items of a folder other signatures, or none."""
    without_digests(folder)
    rows = pq.read_table(folder / "0.parquet")
    changed = made(rows["signature"].to_pylist())
    rows = rows.drop_columns(["signature"])
    if changed is not None:
        rows = rows.append_column("signature", pa.array(changed, pa.binary()))
    pq.write_table(rows, folder / "0.parquet")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda signed: None, "signature"),
        (lambda signed: [*signed[:3], signed[3][:-2], *signed[4:]], "does not hold signatures"),
        (lambda signed: [*signed[:3], None, *signed[4:]], "row 3 has no signature"),
    ],
    ids=["no column", "short", "null"],
)
def test_wrong_signatures_are_told_with_their_file(tmp_path, made, told):
    with simdb.open(tmp_path / "old.simdb") as old:
        old.collection("sets", simdb.Set(), threshold=0.5).add_many(
            (n, [n, n + 1]) for n in range(9)
        )
        old.dump(tmp_path / "dump", signatures=True)
    with_signatures(tmp_path / "dump", made)
    with pytest.raises(simdb.StorageError, match=rf"0\.parquet.*{told}"):
        simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb", signatures=False)
    catalogue = tmp_path / "dump" / "simdb.json"
    document = json.loads(catalogue.read_text())
    document["collections"][0]["signed_by"] = 5
    catalogue.write_text(json.dumps(document))
    with pytest.raises(simdb.StorageError, match="5 is not the fingerprint of a recipe"):
        simdb.load(tmp_path / "dump", tmp_path / "other.simdb")


def test_dates_of_records_come_back_as_dates_and_texts_as_texts(tmp_path):
    rows = [
        (1, {"born": datetime.date(2000, 1, 14), "name": "an"}),
        (2, {"born": "2000-01-14", "name": "an"}),
        (3, {"born": 20000114, "name": None}),
    ]
    fields = [simdb.Field("born", compare="date"), simdb.Field("name")]
    kind = simdb.Record(fields, [simdb.Equal("name")])
    with simdb.open(tmp_path / "s.simdb") as database:
        people = database.collection("people", kind, threshold=0.5)
        people.add_many(rows)
        before = [entry.item for entry in people.items()]
        database.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    with simdb.open(tmp_path / "new.simdb") as database:
        assert [entry.item for entry in database["people"].items()] == before
        assert type(database["people"].get(1).item["born"]) is datetime.date
        assert database["people"].add_many(rows, on_existing="same").present == 3


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


def test_metadata_that_only_earlier_versions_took_come_as_text(tmp_path, monkeypatch):
    noted = {"x": [float("nan"), {"y": b"\xff"}], "z": -1e999}
    with simdb.open(tmp_path / "s.simdb") as database:
        sets = database.collection("c", simdb.Set(), threshold=0.5)
        with monkeypatch.context() as earlier:
            earlier.setattr(rows, "encode_metadata", partial(rows.encode_metadata, as_json=False))
            sets.add_many([(1, {1}, noted), (2, {2}, {"n": 1})])
        assert "b'\\xff'" in str(sets.get(1))
        told = sets.to_arrow()["metadata"].to_pylist()
        database.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    with simdb.open(tmp_path / "new.simdb") as database:
        found = [entry.metadata for entry in database["c"].items()]
    assert found == [{"x": ["nan", {"y": "ff"}], "z": "-inf"}, {"n": 1}]
    assert list(map(json.loads, told)) == found


@pytest.mark.parametrize("large", ["item", "metadata"])
def test_large_rows_are_few_in_a_row_group_and_few_are_read_at_once(tmp_path, monkeypatch, large):
    """Of 12 rows of 30 kB, dumped together or in parts."""
    read: list[int] = []
    batches_of = dump._batches

    def noted(source: Any) -> Iterator[Any]:
        for batch in batches_of(source):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(dump, "_batches", noted)
    texts = [f"{number} " * 10_000 for number in range(10, 22)]
    rows: list[Any] = list(enumerate(texts))
    if large == "metadata":
        rows = [(number, "short", {"of": text}) for number, text in rows]
    with simdb.open(tmp_path / "s.simdb") as database:
        database.collection("texts", simdb.Text(), threshold=0.8).add_many(rows)
        database.dump(tmp_path / "whole")
        monkeypatch.setattr(arrow, "PART_BYTES", 100_000)
        database.dump(tmp_path / "parts")
        expected = list(database["texts"].items())
    for folder, groups in (("whole", [12]), ("parts", [4, 4, 4])):
        read.clear()
        with pq.ParquetFile(tmp_path / folder / "0.parquet") as file:
            every = map(file.metadata.row_group, range(file.num_row_groups))
            assert [group.num_rows for group in every] == groups
        simdb.load(tmp_path / folder, tmp_path / f"{folder}.simdb")
        assert sum(read) == 12
        assert max(read) <= 4
        with simdb.open(tmp_path / f"{folder}.simdb") as new:
            assert list(new["texts"].items()) == expected


def test_a_dump_is_for_its_owner_since_it_has_the_secrets(tmp_path):
    with simdb.open(filled(tmp_path / "s.simdb")) as database:
        database.dump(tmp_path / "dump")
    assert stat.S_IMODE((tmp_path / "dump").stat().st_mode) == 0o700
    simdb.load(tmp_path / "dump", tmp_path / "private.simdb")
    assert stat.S_IMODE((tmp_path / "private.simdb").stat().st_mode) == 0o600
    (tmp_path / "dump").chmod(0o755)
    simdb.load(tmp_path / "dump", tmp_path / "public.simdb")
    assert stat.S_IMODE((tmp_path / "public.simdb").stat().st_mode) == 0o644


def test_keys_of_both_types_come_back(tmp_path):
    with simdb.open(filled(tmp_path / "s.simdb", keys=("1", 1, 2))) as database:
        database.dump(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    with simdb.open(tmp_path / "new.simdb") as new:
        assert [entry.key for entry in new["texts"].items()] == ["1", 1, 2]


def test_a_folder_with_the_name_of_a_tilde_is_that_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "~").mkdir()
    with simdb.open("old.simdb", threads=1) as old:
        collection = old.collection("items", simdb.Set(), threshold=0.5)
        collection.add("a", [1, 2])
        old.dump("~/dump")
        with pytest.raises(simdb.StorageError, match="~/dump already exists"):
            old.dump("~/dump")
    simdb.load("~/dump", "~/new.simdb")
    with simdb.open(tmp_path / "~" / "new.simdb", read_only=True) as new:
        assert "a" in new["items"]
    assert not (tmp_path / "home").exists()


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


DEEP = "[" * 100_000
CHANGES: dict[str, Any] = {
    "a name that is a number": {"name": 5},
    "a name of half a character": {"name": "\ud800"},
    "a name that is too long": {"name": "x" * 1_000},
    "the name of the other": {"name": "words"},
    "a count in words": {"count": "two"},
    "keys in another form": {"keys": "yaml"},
    "a threshold of a gigabyte": {"settings": {"threshold": "1e999999999"}},
    "a threshold above 1": {"settings": {"threshold": "2"}},
    "no threshold": {"settings": {"threshold": "0"}},
    "a threshold that is a number": {"settings": {"threshold": 5}},
    "a recall above 1": {"settings": {"recall": "5"}},
    "a floor above 1": {"settings": {"exact_floor": "7"}},
    "a floor of distances": {"settings": {"exact_floor": "1/2", "kind": {"kind": "string"}}},
    "a number that no integer holds": {
        "settings": {"kind": {"kind": "text", "shingles": {"of": "character", "size": 10**30}}}
    },
    "compressed bits": {
        "settings": {"kind": {"kind": "bits", "length": 64}, "compression": "zstd"}
    },
    "another sketch": {"settings": {"sketch": "quick"}},
    "a version of Unicode in words": {"settings": {"unicode_version": "new"}},
    "no version of Unicode": {"settings": {"unicode_version": None}},
}


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of a collection of texts, and one of weighted sets, which are written as JSON."""
    folder = tmp_path_factory.mktemp("dumped")
    with simdb.open(filled(folder / "s.simdb")) as database:
        database.collection("words", simdb.WeightedSet()).add("a", {"x": 1})
        database.dump(folder / "dump")
    return folder / "dump"


def copied(dumped: Path, target: Path) -> tuple[Path, dict[str, Any]]:
    shutil.copytree(dumped, target)
    return target / "simdb.json", json.loads((target / "simdb.json").read_text())


@pytest.mark.parametrize("change", CHANGES.values(), ids=[*CHANGES])
def test_a_folder_that_no_dump_writes_is_refused(tmp_path, dumped, change):
    catalogue, described = copied(dumped, tmp_path / "dump")
    texts = described["collections"][0]
    for name, value in change.items():
        texts[name] = {**texts[name], **value} if name == "settings" else value
    catalogue.write_text(json.dumps(described))
    with pytest.raises(simdb.StorageError):
        simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    without_digests(tmp_path / "dump")
    with pytest.raises(simdb.StorageError, match="dump"):
        simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]


def test_rows_that_a_collection_does_not_take_are_told_with_their_file(tmp_path, dumped):
    copied(dumped, tmp_path / "dump")
    without_digests(tmp_path / "dump")
    file = tmp_path / "dump" / "0.parquet"
    rows = pq.read_table(file)
    for wrong, told in (
        (pa.concat_tables([rows, rows.slice(0, 1)]), "two rows have the key 'a'"),
        (rows.set_column(0, "key", pa.array(["", "b"])), "row 0: key ''"),
        (rows.set_column(2, "metadata", pa.array([None, "5"])), "row 1: metadata"),
    ):
        pq.write_table(wrong, file)
        with pytest.raises(simdb.StorageError, match=r"0\.parquet: ") as caught:
            simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
        assert told in str(caught.value)
        assert "on_existing" not in str(caught.value)


def test_the_progress_of_a_load_says_of_how_many_items(tmp_path, dumped):
    told: list[simdb.Progress] = []
    simdb.load(dumped, tmp_path / "new.simdb", progress=told.append)
    assert told == [simdb.Progress("adding", 2, 2), simdb.Progress("adding", 1, 1)]


@pytest.mark.parametrize("item", [DEEP, "5", '"x"', None])
def test_items_that_no_dump_writes_are_refused(tmp_path, dumped, item):
    copied(dumped, tmp_path / "dump")
    file = tmp_path / "dump" / "1.parquet"
    schema = pq.read_schema(file)
    pq.write_table(
        pa.table([['"a"' if item == DEEP else "a"], [item], [None]], schema=schema), file
    )
    with pytest.raises(simdb.StorageError, match=r"1\.parquet is damaged"):
        simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
    without_digests(tmp_path / "dump")
    with pytest.raises(simdb.StorageError, match=r"1\.parquet cannot be read"):
        simdb.load(tmp_path / "dump", tmp_path / "new.simdb")


def without_digests(folder: Path) -> None:
    """Make of a dump one as another program may write it."""
    file = folder / "simdb.json"
    document = json.loads(file.read_text())
    del document["digest"]
    for one in document["collections"]:
        del one["digests"]
    file.write_text(json.dumps(document))


def test_a_dump_in_which_any_bit_has_changed_is_refused(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(), threshold=0.5, groups="chain", seed=1)
        collection.add_many((f"k{n}", f"text number {n // 2} costs {1000 + n}") for n in range(40))
        db.dump(tmp_path / "dump")
    for file in sorted((tmp_path / "dump").iterdir()):
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 40)):
            changed = bytearray(whole)
            changed[place] ^= 1
            file.write_bytes(changed)
            with pytest.raises(simdb.StorageError):
                simdb.load(tmp_path / "dump", tmp_path / "new.simdb")
        file.write_bytes(whole)
    without_digests(tmp_path / "dump")
    simdb.load(tmp_path / "dump", tmp_path / "new.simdb")


def test_a_catalogue_nested_too_deep_is_refused(tmp_path):
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "simdb.json").write_text(DEEP)
    with pytest.raises(simdb.StorageError, match="is not a dump of a store"):
        simdb.load(tmp_path / "dump", tmp_path / "new.simdb")


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


def test_the_deadline_of_a_signal_handler_is_no_fault_of_a_dump(tmp_path, monkeypatch, dumped):
    def over(*_: object, **__: object) -> None:
        raise TimeoutError("my deadline")

    monkeypatch.setattr(dump, "sync_folder", over)
    with (
        simdb.open(filled(tmp_path / "s.simdb")) as database,
        pytest.raises(TimeoutError, match="my deadline"),
    ):
        database.dump(tmp_path / "dump")
    for reading in ((dump, "_collections"), (dump, "_batches")):
        with monkeypatch.context() as patched:
            patched.setattr(*reading, over)
            with pytest.raises(TimeoutError, match="my deadline"):
                simdb.load(dumped, tmp_path / "new.simdb")


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


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump without digests of a collection that keeps one group."""
    folder = tmp_path_factory.mktemp("grouped")
    with simdb.open(folder / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Set(), threshold=0.5, groups="chain", seed=1)
        collection.add_many([(1, [1, 2, 3]), (2, [1, 2, 3])])
        db.dump(folder / "dump")
    without_digests(folder / "dump")
    return folder / "dump"


def with_groups(grouped: Path, target: Path, **change: Any) -> Path:
    """Copy a dump, of whose groups some parts are others."""
    shutil.copytree(grouped, target)
    file = target / "0.groups.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return target


def test_groups_that_something_else_has_written_come_in(tmp_path, grouped):
    aliases = [[4, 3], [5, 1]]
    folder = with_groups(grouped, tmp_path / "dump", state=[6, 2], aliases=aliases)
    simdb.load(folder, tmp_path / "new.simdb")
    with simdb.open(tmp_path / "new.simdb", threads=1) as db:
        assert db["c"].group(5).keys == (1, 2)
        assert db.check(deep=True).sound


NO_GROUPS: dict[str, dict[str, Any]] = {
    "a change at a bound in words": {"changes": [[0, "half", 1, 0, [1, 2]]]},
    "a change at a bound by 0": {"changes": [[0, "1/0", 1, 0, [1, 2]]]},
    "a change at a bound of a gigabyte": {"changes": [[0, "1e999999999", 1, 0, [1, 2]]]},
    "a change at no bound": {"changes": [[0, None, 1, 0, [1, 2]]]},
    "a change at a list": {"changes": [[0, [], 1, 0, [1, 2]]]},
    "a change of the group -1": {"changes": [[0, "1/2", -1, 0, [1, 2]]]},
    "a change of no group": {"changes": [[0, "1/2", 0, 0, [1, 2]]]},
    "a change that is none": {"changes": [[-1, "1/2", 1, 0, [1, 2]]]},
    "a change of a group and a half": {"changes": [[0, "1/2", 1.5, 0, [1, 2]]]},
    "too few changes": {"changes": []},
    "aliases in a circle": {"state": [10, 2], "aliases": [[5, 6], [6, 5]]},
    "an alias of itself": {"state": [10, 2], "aliases": [[5, 5]]},
    "an alias that is none": {"aliases": [[-3, 1]]},
    "an alias of a group that has not been": {"aliases": [[6, 5]]},
    "a list for groups": {"groups": []},
    "groups at a bound that is none": {"groups": {"half": [[1, [1, 3]]]}},
    "a state beyond all integers": {"state": [1e308, 2]},
    "a state beyond 64 bits": {"state": [2**64, 2]},
    "no state": {"state": None},
}


@pytest.mark.parametrize("change", NO_GROUPS.values(), ids=[*NO_GROUPS])
def test_groups_that_no_dump_writes_are_refused(tmp_path, grouped, change):
    folder = with_groups(grouped, tmp_path / "dump", **change)
    with pytest.raises(simdb.StorageError, match=r"groups beside .*0\.parquet cannot be read"):
        simdb.load(folder, tmp_path / "new.simdb")
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]

"""Repair: a new store of all that can be read."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
import stat
from fractions import Fraction
from functools import partial

import lmdb
import pytest
from msgspec.structs import replace

import simdb
from simdb.errors import NotADatabaseError, StorageError
from simdb.ingest import rows
from simdb.opened.catalogue import KeptGroups, write_settings
from simdb.storage.file import environment as environments
from simdb.storage.tables.layout import Table, collection_key, owner_prefix
from tests.support.commands import run
from tests.support.damage import WORDS, damage_behind, filled, repaired
from tests.support.environments import MIB


def test_a_sound_store_is_repaired_to_its_equal(path):
    filled(path)
    with simdb.open(path, threads=1) as database:
        database["c"].replace("k5", "another text", metadata={"a": [1]})
        database["c"].delete_many(["k6", "k7"])
        database.collection("s", simdb.Set(), threshold=None, exact_floor=0.5).add(1, {1, 2})
        expected = {record.key: record.item for record in database["c"].items()}
        secret = database["c"]._present.settings.secret
    before = path.read_bytes()
    report, found = repaired(path)
    assert path.read_bytes() == before
    assert found == {"c": expected, "s": {1: frozenset({1, 2})}}
    assert report.complete
    assert report.problems == ()
    assert [(part.name, part.items, part.lost) for part in report.collections] == [
        ("c", 198, 0),
        ("s", 1, 0),
    ]
    with simdb.open(path.with_name("new.simdb")) as database:
        assert database["c"].get("k5").metadata == {"a": [1]}
        assert database["c"]._present.settings.secret == secret


def test_a_damaged_document_is_lost_by_its_key_and_the_others_are_not(path):
    filled(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"text number 77 of many")] ^= 1
    path.write_bytes(data)
    report, found = repaired(path)
    assert not report.complete
    assert report.collections[0].lost_keys == ("k77",)
    assert report.collections[0].lost == 1
    assert set(found["c"]) == {f"k{number}" for number in range(200)} - {"k77"}


def test_metadata_that_is_none_under_a_sound_checksum_loses_its_item_and_no_other(
    path, monkeypatch
):
    with simdb.open(path, threads=1) as database:
        collection = database.collection("s", simdb.Set(), threshold=None, exact_floor=0.5)
        collection.add(1, {1, 2}, metadata={"a": 1})
        with monkeypatch.context() as patched:
            patched.setattr(rows, "encode_metadata", lambda *_, **__: b"\xc1")
            collection.add(2, {3}, metadata={"a": 1})
    report, found = repaired(path)
    assert found == {"s": {1: frozenset({1, 2})}}
    assert [(part.lost, part.lost_keys) for part in report.collections] == [(1, (2,))]


def test_metadata_that_only_earlier_versions_took_are_repaired_as_they_are(path, monkeypatch):
    noted = {"x": [-1e999, {"y": b"\xff"}], "z": 1}
    with simdb.open(path, threads=1) as database:
        collection = database.collection("s", simdb.Set(), threshold=None, exact_floor=0.5)
        with monkeypatch.context() as earlier:
            earlier.setattr(rows, "encode_metadata", partial(rows.encode_metadata, as_json=False))
            collection.add_many([(1, {1, 2}, noted), (2, {3}), (3, {4}, {"n": 1})])
    report, _ = repaired(path)
    assert report.complete
    with simdb.open(path.with_name("new.simdb")) as database:
        assert [one.metadata for one in database["s"].items()] == [noted, None, {"n": 1}]


@pytest.mark.parametrize("table", [Table.SIGNATURES, Table.BANDS, Table.POSTINGS])
def test_a_damaged_index_is_made_anew_from_the_items(path, table):
    filled(path)
    damage_behind(path, table)
    with simdb.open(path, threads=1) as database:
        assert not database.check().sound
    report, found = repaired(path)
    assert report.complete
    assert len(found["c"]) == 200


def test_without_its_meta_pages_a_store_gives_its_items_and_says_that_it_is_unsure(path):
    filled(path)
    with simdb.open(path, threads=1) as database:
        expected = {record.key: record.item for record in database["c"].items()}
    with path.open("r+b") as file:
        file.write(bytes(8_192))
    report, found = repaired(path)
    assert found["c"].items() >= expected.items()
    assert report.collections[0].uncertain == 200
    assert not report.complete


def test_settings_that_are_lost_are_reported(path):
    filled(path)
    with lmdb.open(str(path), subdir=False, max_dbs=16, map_size=MIB * 64, lib_version=0) as raw:
        handle = raw.open_db(b"meta")
        with raw.begin(write=True) as transaction:
            key = collection_key("c")
            value = bytearray(transaction.get(key, db=handle) or b"")
            value[-1] ^= 1
            transaction.put(key, bytes(value), db=handle)
    report, found = repaired(path)
    assert found == {} or len(found["c"]) == 200  # from an older copy of the settings
    assert report.problems
    assert report.lost_collections or found


def test_repair_refuses_what_exists_what_is_absent_and_what_is_no_store(path, tmp_path):
    filled(path)
    with pytest.raises(StorageError, match="exists"):
        simdb.repair(path, path)
    with pytest.raises(simdb.DatabaseNotFoundError):
        simdb.repair(tmp_path / "absent", tmp_path / "new")
    (tmp_path / "text").write_text("no store")
    with pytest.raises(NotADatabaseError):
        simdb.repair(tmp_path / "text", tmp_path / "new")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.simdb", "text"]


@pytest.mark.parametrize("content", [b"\0", b'{"id": "a", "text": "a row"}\n', None])
def test_repair_of_a_large_file_that_is_no_store_makes_none(path, content):
    made = random.Random(0).randbytes(200_000) if content is None else content * 200_000
    path.write_bytes(made)
    with pytest.raises(NotADatabaseError, match="nothing of a store can be read"):
        simdb.repair(path, path.with_name("new.simdb"))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    ran = run("repair", path, path.with_name("new.simdb"))
    assert ran.exit_code == 3


def test_a_store_without_collections_is_repaired_unless_it_is_damaged(path):
    simdb.open(path).close()
    report, found = repaired(path)
    assert report.complete
    assert found == {}
    path.with_name("new.simdb").unlink()
    with path.open("r+b") as file:
        file.write(bytes(8_192))
    with pytest.raises(NotADatabaseError):
        simdb.repair(path, path.with_name("new.simdb"))


def test_a_store_that_may_only_be_read_is_repaired_by_whoever_may_read_it(path):
    filled(path)
    path.chmod(0o440)
    new = path.with_name("new.simdb")
    assert simdb.repair(path, new, threads=1).complete
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_repair_waits_for_no_writer(path):
    filled(path)
    environment = environments.acquire(path, read_only=False, sync="batch", map_size=None)
    with environment.write(1), pytest.raises(simdb.DatabaseBusyError):
        simdb.repair(path, path.with_name("new.simdb"))
    environments.release(environment)


def test_the_name_of_a_repaired_store_is_synced_after_it_is_given(path, synced):
    filled(path)
    synced.clear()
    repaired(path)
    assert synced[-2:] == ["linked", str(path.parent)]


def test_groups_keep_their_ids_where_all_of_them_can_be_read(path):
    new = path.with_name("new.simdb")
    with simdb.open(path, threads=1) as database:
        made = database.collection("c", WORDS, threshold=0.5, exact_floor=0.5, groups="chain")
        made.add_many(
            [(1, "a b c red"), (2, "a b c"), (3, "a b c lost"), (4, "d e f"), ("é", "d e f")]
        )
        made.add("both", "a b c d e f")
        made.delete("both")
        made.add_many((number, f"more{number} words{number}") for number in range(5, 99))
        groups, changes = list(made.kept_groups()), list(made.changes())
        (alias,) = [one.other or 0 for one in changes if one.action == "merged"]
    report, _ = repaired(path)
    assert report.collections[0].groups == "kept"
    with simdb.open(new, threads=1) as database:
        assert list(database["c"].kept_groups()) == groups
        assert list(database["c"].changes()) == changes
        assert database["c"].group(alias).id == 1
    new.unlink()
    damaged = path.read_bytes().replace(b"a b c lost", b"a b c lust")
    path.write_bytes(damaged)
    report, _ = repaired(path)  # what is lost has left
    assert (report.collections[0].groups, report.collections[0].lost) == ("kept", 1)
    with simdb.open(new, threads=1) as database:
        assert database["c"].group_of(2) == simdb.KeptGroup(1, (1, 2), Fraction(1, 2))
        (last,) = database["c"].changes(len(changes))
        assert (last.action, last.group, last.keys) == ("left", 1, (3,))
    new.unlink()
    damage_behind(path, Table.META, owner_prefix(1) + b"a")
    report, _ = repaired(path)
    assert report.collections[0].groups == "new"
    with simdb.open(new, threads=1) as database:
        assert [len(one.keys) for one in database["c"].kept_groups()] == [2, 2]


def test_groups_at_bounds_that_no_index_serves_are_not_made(path):
    """As versions left them whose rebuild was cut off before it made the groups."""
    with simdb.open(path, threads=1) as database:
        made = database.collection("c", WORDS, threshold=0.5, groups="chain")
        made.add_many([(1, "a b c red"), (2, "a b c")])
        settings = made._present.settings
        with database._handle.write() as transaction:
            kept = KeptGroups("chain", (Fraction(1, 4),))
            write_settings(transaction, replace(settings, groups=kept))
    report, _ = repaired(path)
    assert (report.collections[0].groups, report.complete) == ("none", True)
    with simdb.open(path.with_name("new.simdb"), threads=1) as database:
        with pytest.raises(simdb.ConfigurationError, match="keeps no groups"):
            next(database["c"].kept_groups())
        database["c"].rebuild(groups="chain")
        assert [one.keys for one in database["c"].kept_groups()] == [(1, 2)]

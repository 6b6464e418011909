"""Arguments beyond what a machine has, and what a fork, or a repair, must not carry over."""

# mypy: allow-untyped-calls

from __future__ import annotations

import errno
import math
import os

import pytest

import simdb
from simdb.errors import ConfigurationError, DatabaseClosedError, StorageError, WrongTypeError
from simdb.ingest import rows as reading_rows
from simdb.storage.file.errors import translated
from simdb.storage.tables import layout
from tests.support.processes import answer_of


@pytest.mark.parametrize(
    "options",
    [
        *({"busy_timeout": math.inf}, {"busy_timeout": 1e300}, {"busy_timeout": math.nan}),
        *({"map_size": 2**80}, {"mode": 2**70}, {"mode": 0o1000}),
    ],
)
def test_no_option_is_taken_that_the_system_cannot_have(tmp_path, options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        simdb.open(tmp_path / "s.simdb", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [2**53 + 1, 2**63, 2**64])
def test_no_shingle_is_longer_than_any_text(size):
    with pytest.raises(ConfigurationError, match="from 1 to 9,007,199,254,740,992"):
        simdb.WordShingles(size)


def test_no_pair_is_later_than_any_item(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        texts = database.collection("c", simdb.Text())
        texts.add(0, "text 0")
        assert list(texts.pairs(since=1)) == []
        assert list(texts.join(texts, since=1, other_since=1)) == []
        for since in (2, 2**32 - 1, 2**32):
            with pytest.raises(ConfigurationError, match="since"):
                texts.pairs(since=since)
            with pytest.raises(ConfigurationError, match="since"):
                texts.join(texts, since=since)
            with pytest.raises(ConfigurationError, match="since"):
                texts.join(texts, since=1, other_since=since)


def test_a_snapshot_does_not_outlive_a_fork(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        texts = database.collection("c", simdb.Text())
        texts.add_many((number, f"text {number}") for number in range(50))
        items = iter(texts.items())
        next(items)
        with database.snapshot() as state:
            view = state["c"]

            def refused():
                told = []
                for work in (
                    lambda: state["c"],
                    lambda: len(view),
                    lambda: state["c"].get(1),
                    lambda: state["c"].search("text 1"),
                    lambda: list(items),
                ):
                    try:
                        work()
                    except DatabaseClosedError as error:
                        told.append("fork" in str(error))
                return told

            assert answer_of(refused) == str([True] * 5)
            assert len(view) == 50
        assert len(list(items)) == 49


def test_what_is_repaired_is_as_private_as_it_was(tmp_path):
    path, new = tmp_path / "s.simdb", tmp_path / "new.simdb"
    with simdb.open(path, mode=0o600) as database:
        database.collection("c", simdb.Text()).add(1, "a secret")
    simdb.repair(path, new)
    assert new.stat().st_mode & 0o777 == 0o600


def test_repair_names_what_it_cannot_write_and_what_is_no_path(tmp_path):
    path = tmp_path / "s.simdb"
    simdb.open(path).close()
    with pytest.raises(StorageError, match=r"no folder .*absent"):
        simdb.repair(path, tmp_path / "absent" / "new.simdb")
    with pytest.raises(WrongTypeError):
        simdb.repair(5, tmp_path / "new.simdb")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        simdb.repair(path, "a\0b")
    if os.geteuid():  # who is root may write anywhere
        folder = tmp_path / "closed"
        folder.mkdir(mode=0o500)
        with pytest.raises(StorageError, match=r"new\.simdb"):
            simdb.repair(path, folder / "new.simdb")


@pytest.mark.parametrize("bad", [{"a": "b" * 2**20}, "deep"])
def test_metadata_that_nobody_could_have_stored_is_found_by_a_deep_check(
    tmp_path, monkeypatch, bad
):
    nested: object = 1
    for _ in range(layout.DEEPEST_NESTING + 5):
        nested = [nested]
    metadata = {"a": nested} if bad == "deep" else bad
    with simdb.open(tmp_path / "s.simdb") as database:
        texts = database.collection("c", simdb.Text())
        with monkeypatch.context() as patched:
            patched.setattr(layout, "nesting", lambda _: 0)
            patched.setattr(reading_rows, "LARGEST_METADATA", 2**24)
            texts.add(1, "a text", metadata=metadata)
        assert database.check().sound
        problems = database.check(deep=True).problems
    assert [problem.table for problem in problems if problem.table == "documents"]


def test_a_file_that_was_deleted_while_open_can_still_be_saved(tmp_path):
    path, copy = tmp_path / "s.simdb", tmp_path / "copy.simdb"
    with simdb.open(path, mode=0o600) as database:
        database.collection("c", simdb.Text()).add(1, "a text")
        path.unlink()
        assert database.stats()["store"]["file_bytes"] > 0
        database.backup(copy)
        assert copy.stat().st_mode & 0o777 == 0o600
        with pytest.raises(StorageError, match="removed or replaced while it was open"):
            simdb.open(path)
        assert not path.exists()
        simdb.open(tmp_path / "another.simdb").close()
        os.rename(tmp_path / "another.simdb", path)  # noqa: PTH104 - what other programs do
        with pytest.raises(StorageError, match="removed or replaced while it was open"):
            simdb.open(path)
    with simdb.open(copy) as saved:
        assert saved["c"].get(1).item == "a text"
    with simdb.open(path) as other:
        assert list(other) == []


def test_a_read_only_file_system_is_named_with_what_helps(tmp_path):
    def raised(path):
        with pytest.raises(StorageError) as failure, translated(path):
            raise OSError(errno.EROFS, "Read-only file system")
        return str(failure.value)

    path = tmp_path / "s.simdb"
    assert raised(path) == f"{path}: the file system is read-only"
    path.touch()
    assert raised(path).endswith("read-only; simdb.open(read_only=True) opens a store there")


def test_a_name_that_the_system_refuses_is_refused_by_a_documented_error(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        for name in ("x" * 300, "/".join(["y" * 200] * 30)):
            path = tmp_path / name
            for work in (simdb.open, database.backup, lambda path: simdb.repair(path, path)):
                with pytest.raises(StorageError, match="too long"):
                    work(path)


def test_the_longest_name_that_the_lock_files_leave_can_be_used(tmp_path):
    longest = tmp_path / ("x" * (255 - len("-lock")))
    with simdb.open(longest) as database:
        database.backup(tmp_path / ("y" * 250))
    simdb.repair(longest, tmp_path / ("z" * 250))
    assert {path.name[0] for path in tmp_path.iterdir()} == {"x", "y", "z"}


def test_a_second_opening_names_the_map_size_that_it_cannot_have(tmp_path):
    path = tmp_path / "s.simdb"
    with simdb.open(path, map_size=2**22):
        simdb.open(path).close()
        simdb.open(path, map_size=2**22).close()
        with pytest.raises(ConfigurationError, match="map_size=4194304"):
            simdb.open(path, map_size=2**23)
    with simdb.open(path, map_size=2**23):
        pass


@pytest.mark.parametrize("shingles", [simdb.CharacterShingles, simdb.WordShingles])
def test_a_shingle_longer_than_its_text_is_the_text(tmp_path, shingles):
    with simdb.open(tmp_path / "s.simdb") as database:
        texts = database.collection("c", simdb.Text(shingles(2**53)), threshold=0.8)
        texts.add_many([(1, "one text"), (2, "another text"), (3, "one text")])
        assert {match.key for match in texts.search("one text")} == {1, 3}


def test_a_database_that_nobody_has_closed_is_closed_when_nobody_has_it(tmp_path):
    path = tmp_path / "s.simdb"
    simdb.open(path)
    with simdb.open(path, sync="batch") as database:
        texts = database.collection("c", simdb.Text())
        texts.add(1, "a text")
        assert texts.get(1).item == "a text"
    left = simdb.open(path)["c"]  # a collection keeps its database open
    assert left.get(1).item == "a text"
    with pytest.raises(ConfigurationError, match="open in this process already"):
        simdb.open(path, sync="batch")
    del left
    path.unlink()
    simdb.open(path).close()


@pytest.mark.parametrize("ask", ["items", "pairs"])
def test_an_iterator_does_not_outlive_a_fork(tmp_path, ask):
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        texts = database.collection("c", simdb.Text())
        texts.add_many((number, "the same text") for number in range(30))
        found = iter(texts.items() if ask == "items" else texts.pairs().batches())
        next(found)
        assert answer_of(lambda: next(found)).startswith("DatabaseClosedError")


def test_who_makes_a_store_of_another_keeps_to_a_memory_setting(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        database.collection("c", simdb.Set(), threshold=0.5).add(1, [1, 2])
        database.dump(tmp_path / "dumped")
    for make in (
        lambda **lent: simdb.load(tmp_path / "dumped", tmp_path / "loaded.simdb", **lent),
        lambda **lent: simdb.repair(tmp_path / "s.simdb", tmp_path / "repaired.simdb", **lent),
    ):
        with pytest.raises(simdb.ConfigurationError, match="memory must be a whole number"):
            make(memory=1)
        make(memory=2**24)
    assert len(list(tmp_path.glob("*.simdb"))) == 3

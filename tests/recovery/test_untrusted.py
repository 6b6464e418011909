"""Opening a file from elsewhere: nothing beside it is believed either."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lmdb
import pytest

import simdb
from simdb.batches.signer import Signer
from simdb.errors import (
    CorruptionError,
    FormatVersionError,
    MissingExtraError,
    NotADatabaseError,
    StorageError,
)
from simdb.recovery import untrusted as distrusting
from simdb.storage.collection.manifest import Manifest
from simdb.storage.file import creation
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from tests.support.processes import ended


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.simdb"
    with simdb.open(path) as database:
        database.collection("c", simdb.Text()).add(1, "a rare text")
    return path


def damage(path: Path) -> None:
    content = path.read_bytes()
    assert b"a rare text" in content
    path.write_bytes(content.replace(b"a rare text", b"a fake text"))


def test_what_lies_in_the_present_folder_is_not_run(store: Path) -> None:
    damage(store)
    for name in ("numpy.py", "simdb.py", "sitecustomize.py"):
        (store.parent / name).write_text("open('was-run', 'w').close()\nraise SystemExit(0)\n")
    script = Path(sys.executable).with_name("simdb")
    told = ended(script, "--untrusted", "stats", store.name, code=3, cwd=store.parent)
    assert "is damaged" in told.stderr
    assert not (store.parent / "was-run").exists()


def test_a_child_that_ends_well_but_says_nothing_proves_nothing(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distrusting, "_PROGRAM", "raise SystemExit(0)")
    with pytest.raises(CorruptionError, match="without a message"):
        simdb.open(store, untrusted=True)


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)


def make_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def make_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def make_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("make", [make_sparse, make_folder, make_link, make_pipe])
@pytest.mark.parametrize("end", ["-lock", "-turn"])
def test_lock_files_that_no_store_has_are_refused(
    store: Path, end: str, make: Callable[[Path], None]
) -> None:
    beside = Path(f"{store}{end}")
    beside.unlink()
    make(beside)
    with pytest.raises(StorageError, match=f"{end} is no lock file of a store"):
        simdb.open(store, untrusted=True)


@pytest.mark.usefixtures("forked_reader")
def test_lock_files_as_stores_have_them_are_taken(store: Path) -> None:
    assert Path(f"{store}-lock").exists()
    assert Path(f"{store}-turn").exists()
    simdb.open(store, untrusted=True).close()


@pytest.mark.usefixtures("forked_reader")
def test_signatures_that_are_not_those_of_the_items_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record of such a store matches its checksum: only signing the items anew tells."""
    start = Signer.start

    def signed_as_another(self: Signer, items: list[bytes], pool: Any) -> Any:
        return start(self, [b"an item of another text"] * len(items), pool)

    path = tmp_path / "s.simdb"
    with simdb.open(path) as database:
        with monkeypatch.context() as patched:
            patched.setattr(Signer, "start", signed_as_another)
            database.collection("c", simdb.Text()).add(1, "a rare text")
        assert database.check().sound
    with pytest.raises(CorruptionError, match="not the signature of the item"):
        simdb.open(path, untrusted=True)


@pytest.mark.usefixtures("forked_reader")
def test_items_in_another_form_than_the_one_they_are_stored_in_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item in two forms would be two items that are equal and never found so."""
    path = tmp_path / "s.simdb"
    with simdb.open(path) as database:
        collection = database.collection("c", simdb.Set())
        items = type(collection._known.signer.items)
        collection.add(1, [1, 2, 3])
        with monkeypatch.context() as patched:
            patched.setattr(items, "encode_many", lambda self, items: [bytes([1, 3, 2, 1, 3])])
            collection.add_many([(2, [1, 2, 3])])
        assert database.check().sound
    with pytest.raises(CorruptionError, match="not an item of the collection's kind"):
        simdb.open(path, untrusted=True)


def test_a_file_of_another_format_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_reader: None
) -> None:
    later, foreign = tmp_path / "later.simdb", tmp_path / "foreign.simdb"
    with monkeypatch.context() as patched:
        patched.setattr(creation, "FORMAT_VERSION", 4)
        creation.create(later)
    environment = lmdb.open(str(foreign), subdir=False, max_dbs=5)
    with environment, environment.begin(write=True) as transaction:
        transaction.put(b"a", b"b")
    Path(f"{foreign}-lock").unlink()
    for path, error in ((later, FormatVersionError), (foreign, NotADatabaseError)):
        for is_untrusted in (False, True):
            with pytest.raises(error) as told:
                simdb.open(path, untrusted=is_untrusted)
            assert str(path) in str(told.value)


def put_run(part: str, value: object) -> Callable[[Manifest], None]:
    """Return a change of the first run of the probable index."""
    return lambda state: setattr(state.index.bands.runs[0], part, value)


def run_out(state: Manifest) -> None:
    state.index.bands.next_number = state.index.bands.runs[-1].number


# What is changed in the state of a sound store, and what is told of it.
FORGED: dict[str, tuple[Callable[[Manifest], object], str]] = {
    "tombstones": (lambda state: setattr(state, "tombstones", 1), "2 for 1 deleted items"),
    "next run": (run_out, "the next run would have the number"),
    "merge": (put_run("merge", 99), "is of a merge that is not there"),
    "output": (put_run("is_output", True), "a merge that is not there"),
    "entries": (put_run("entries", 1), "entries, 1 expected"),
    "offset": (put_run("offset", 2**31), "begins past its first chunk"),
    "items": (put_run("last_item", 2**31), "is of items 0 to 2147483648"),
    "chunks": (put_run("end_chunk", 2**40), "an index chunk is missing"),
    "next item": (lambda state: setattr(state, "next_number", 2**33), "manifest cannot be read"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_state_that_simdb_would_not_have_written_is_refused(
    tmp_path: Path, name: str, forked_reader: None
) -> None:
    """Also where every record has the checksum of what it holds."""
    path = tmp_path / "s.simdb"
    change, problem = FORGED[name]
    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5, seed=1)
        collection.add_many((key, [key, key + 1, key + 2]) for key in range(300))
        collection.delete_many([7, 8])
        key = layout.manifest_key(1)
        with collection._handle.write() as transaction:
            record = transaction.get(Table.META, key)
            assert record is not None
            state = Manifest.decode(layout.unseal(Table.META, key, record))
            change(state)
            transaction.put(Table.META, key, layout.seal(Table.META, key, state.encode()))
    with pytest.raises(CorruptionError, match=problem):
        simdb.open(path, untrusted=True)


def test_a_record_of_another_form_is_a_problem_and_no_fault(
    store: Path, forked_reader: None
) -> None:
    with simdb.open(store, threads=1) as database:
        grouped = database.collection("g", simdb.Set(), threshold=0.5, groups="chain")
        grouped.add_many([(1, {1, 2, 3}), (2, {1, 2, 3})])
        edges = layout.owner_prefix(2) + b"e"
        with grouped._handle.write() as transaction:
            for key in [bytes(key) for key, _ in transaction.scan(Table.META, edges)]:
                transaction.put(Table.META, key, layout.seal(Table.META, key, b""))
        told = database.check().problems
    assert any("a record has another form" in one.problem for one in told), told
    with pytest.raises(CorruptionError, match="a record has another form"):
        simdb.open(store, untrusted=True)


def test_a_library_that_verifying_needs_is_told_as_everywhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_reader: None
) -> None:
    monkeypatch.setitem(sys.modules, "jellyfish", SimpleNamespace(soundex=str.upper))
    path = tmp_path / "s.simdb"
    sounding = simdb.Field("name", prepare=["soundex"])
    with simdb.open(path, threads=1) as database:
        database.collection("c", simdb.Record([sounding])).add(1, {"name": "Ann"})
    simdb.open(path, untrusted=True).close()
    monkeypatch.setitem(sys.modules, "jellyfish", None)
    with pytest.raises(MissingExtraError, match=r"^'soundex' needs the phonetics extra"):
        simdb.open(path, untrusted=True)


def test_a_store_that_cannot_be_read_here_is_not_called_damaged(
    store: Path, monkeypatch: pytest.MonkeyPatch, forked_reader: None
) -> None:
    monkeypatch.setattr(creation, "address_space", lambda: (2**30, 2**26))
    told = f"^{re.escape(str(store))} cannot be verified: the limit on address space leaves 64 MiB"
    with pytest.raises(StorageError, match=told) as raised:
        simdb.open(store, untrusted=True)
    assert type(raised.value) is StorageError


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (MemoryError(), "cannot be verified: out of memory"),
        (ImportError("a.so: failed to map segment"), "cannot be verified: out of memory"),
        (CorruptionError("a block is wrong"), "is damaged: .*a block is wrong; not opened"),
        (ImportError("no such name"), "is damaged: ImportError: no such name; not opened"),
        (RuntimeError("nobody knows"), "is damaged: RuntimeError: nobody knows; not opened"),
    ],
    ids=repr,
)
def test_what_nobody_foresaw_is_damage_and_want_of_memory_is_none(
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    forked_reader: None,
    raised: Exception,
    told: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(simdb.Database, "check", fail)
    with pytest.raises(StorageError, match=told) as error:
        simdb.open(store, untrusted=True)
    assert isinstance(error.value, CorruptionError) == ("damaged" in told)

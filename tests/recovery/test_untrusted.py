"""Opening a file from elsewhere: nothing beside it is believed either."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

import simdb
from simdb.batches.signer import Signer
from simdb.errors import (
    CorruptionError,
    FormatVersionError,
    NotADatabaseError,
    StorageError,
)
from simdb.recovery import untrusted as distrusting
from simdb.storage.file import creation
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

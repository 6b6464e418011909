"""What simdb does when the system or the disk fails it: typed errors, data intact."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import stat
import sys
from typing import Any

import lmdb
import numpy as np
import pytest

import simdb
from simdb.errors import (
    CorruptionError,
    DatabaseFailedError,
    DatabaseFullError,
    StorageError,
    WrongTypeError,
)
from simdb.storage.file import creation, preflight
from simdb.storage.file import environment as environments
from simdb.storage.file import errors as file_errors
from simdb.storage.tables.layout import Table
from tests.support.damage import WORDS, filled
from tests.support.environments import MIB
from tests.support.grids import some_of
from tests.support.processes import Child, answer_of, ended, interpreted

# -- failed writes ---------------------------------------------------------------------------------


class Failing:
    """Stands in for LMDB's transaction, of which one method fails."""

    def __init__(self, transaction: Any, method: str, error: lmdb.Error) -> None:
        self._transaction, self._method, self._error = transaction, method, error

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._transaction, name)

        def fail(*_: Any, **__: Any) -> None:
            self._transaction.abort()
            raise self._error

        return fail


def error_of(code):
    error = lmdb.PanicError("fault") if code == "panic" else lmdb.Error("fault")
    setattr(error, "code", -30_795 if code == "panic" else code)  # noqa: B010 - final to mypy
    return error


def write_with(database, code, method="commit"):
    """Write a key while a method of LMDB's transaction fails."""
    environment = database._handle.environment
    with environment.write(1) as transaction:
        transaction._transaction = Failing(transaction._transaction, method, error_of(code))
        transaction.put(Table.MARKS, b"fault", b"x")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENXIO, "panic"])
@pytest.mark.parametrize("method", ["commit", "put"])
def test_after_a_failed_write_nothing_is_written_until_the_store_is_opened_again(
    path, code, method, monkeypatch
):
    monkeypatch.setattr(file_errors, "CUT_SHORT", 0)  # however full this machine's disk is
    filled(path)
    with simdb.open(path, threads=1) as database:
        texts = database["c"]
        with pytest.raises(DatabaseFailedError, match="opened again"):
            write_with(database, code, method)
        for change in (
            lambda: texts.add("new", "a new text"),
            lambda: texts.delete("k1"),
            texts.compact,
            lambda: database.collection("other", WORDS),
        ):
            with pytest.raises(DatabaseFailedError, match="opened again"):
                change()
        assert len(texts) == 200
        assert texts.search("text number 7 of many", limit=1)[0].key == "k7"
        assert database.check(deep=True).sound
        with simdb.open(path, threads=1) as again, pytest.raises(DatabaseFailedError):
            again["c"].add("new", "a new text")  # shares the open file
    with simdb.open(path, threads=1) as database:
        database["c"].add("new", "a new text")
        assert database.check(deep=True).sound


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_or_a_read_only_one_stops_one_write_and_not_the_next(path, code):
    filled(path)
    with simdb.open(path, threads=1) as database:
        full = DatabaseFullError if code != errno.EROFS else StorageError
        with pytest.raises(full) as caught:
            write_with(database, code)
        assert not isinstance(caught.value, DatabaseFailedError)
        database["c"].add("new", "a new text")
        assert len(database["c"]) == 201


def test_an_input_output_error_on_a_full_disk_is_a_write_cut_short(path, monkeypatch):
    filled(path)
    monkeypatch.setattr(preflight, "is_full", lambda *_: True)
    with simdb.open(path, threads=1) as database:
        with pytest.raises(DatabaseFullError):
            write_with(database, errno.EIO)
        database["c"].add("new", "a new text")


def test_the_room_of_a_disk_and_the_limit_on_a_file_are_told(path):
    filled(path)

    def limited():
        import resource

        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + MIB, size + MIB))
        return preflight.is_full(path, MIB // 2), preflight.is_full(path, 2 * MIB)

    assert answer_of(limited) == "(False, True)"
    assert preflight.is_full(path, 2**62)


# -- full maps -------------------------------------------------------------------------------------


def test_a_map_filled_by_insertions_can_be_emptied_and_filled_again(path):
    text = "some words of a text that fills the file quickly " * 200
    with simdb.open(path, map_size=2 * MIB, threads=1) as database:
        texts = database.collection("c", WORDS)
        for _ in range(2):
            count = 0
            with pytest.raises(DatabaseFullError, match="delet"):  # noqa: PT012 - until it is full
                for count in range(10_000):
                    texts.add(count, f"{count} {text}")
            assert len(texts) == count
            assert count > 40
            for number in range(count):
                texts.delete(number)
            texts.compact()
            assert len(texts) == 0
        assert database.check(deep=True).sound


def test_a_map_filled_with_vectors_can_be_emptied_in_any_order(path):
    """Blocks of vectors are large, and thinned out at random all are to be rewritten at once."""
    generator = np.random.default_rng(1)
    with simdb.open(path, sync="batch", map_size=6 * MIB, threads=1) as database:
        stored = database.collection(
            "v", simdb.Vector(128, "euclidean"), max_distance=1, seed=1, bands=6, rows=2
        )
        step = 1_000
        while step:
            rows = generator.normal(size=(step, 128)).astype(np.float32)
            try:
                stored.add_many(enumerate(rows, len(stored)))
            except DatabaseFullError:
                step //= 20
        keys = generator.permutation(len(stored)).tolist()
        assert len(keys) > 4_000
        for begin in range(0, len(keys), 250):
            stored.delete_many(keys[begin : begin + 250])
        assert database.check().sound
        stored.add_many(enumerate(generator.normal(size=(1_000, 128)).astype(np.float32)))
        assert database.check().sound


def test_a_map_is_larger_than_insertions_may_fill_by_a_twentieth_at_most():
    for size in (MIB, 3 * MIB, 64 * MIB, 2**30, 2**40):
        whole = creation.with_reserve(size)
        assert abs(creation.without_reserve(whole) - size) <= 1
        assert whole - size <= max(size // 20, 4 * MIB)


# -- files that change under an open store ---------------------------------------------------------


@pytest.mark.parametrize("size", [0, 4_096, 60_000])
def test_a_store_cut_short_while_it_is_open_is_refused_and_the_process_lives(path, size):
    filled(path)

    def work():
        database = simdb.open(path, threads=1)
        texts = database["c"]
        os.truncate(path, size)
        told = []
        for use in (
            lambda: len(texts),
            lambda: texts.add("new", "a new text"),
            database.check,
            database.stats,
            lambda: database.backup(path.with_name("copy.simdb")),
        ):
            try:
                use()
            except CorruptionError as error:
                told.append("cut short" in str(error))
        database.close()
        return told

    assert answer_of(work) == str([True] * 5)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_whose_lock_file_was_removed_is_not_written_to(path, replaced):
    filled(path)
    with simdb.open(path, threads=1) as database:
        lock = path.with_name("store.simdb-lock")
        lock.unlink()
        if replaced:
            lock.write_bytes(bytes(8_192))
        with pytest.raises(StorageError, match="close the store in every process"):
            database["c"].add("new", "a new text")
        assert len(database["c"]) == 200
    lock.unlink(missing_ok=True)
    with simdb.open(path, threads=1) as database:
        database["c"].add("new", "a new text")


def test_a_lock_file_has_its_room_on_the_disk_before_it_is_mapped(path):
    environments.release(environments.acquire(path, read_only=False, sync="batch", map_size=None))
    status = path.with_name("store.simdb-lock").stat()
    assert status.st_blocks * 512 >= status.st_size >= 64 * (preflight.MOST_READERS - 1)


def test_no_room_for_a_lock_file_is_a_full_disk_and_leaves_none(path, monkeypatch):
    filled(path)

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(DatabaseFullError):
        simdb.open(path)
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_that_was_killed_does_not_make_the_file_grow_for_ever(path, monkeypatch):
    monkeypatch.setattr(environments, "READERS_CHECKED_EVERY", 8)
    environment = environments.acquire(path, read_only=False, sync="batch", map_size=None)

    def put(value):
        with environment.write(10) as transaction:
            transaction.put(Table.KEYS, b"key", value * 100_000)

    def hold(child):
        transaction = environments.acquire(path, read_only=True, sync="batch", map_size=None).read()
        child.say("reading")
        child.hear()
        transaction.close()

    put(b"x")
    child = Child(hold)
    child.hear()
    put(b"y")  # opens the file again, which the fork has closed: opening clears slots as well
    opened = environment.generation
    child.signal(9)
    child.end()
    for number in range(40):
        put(b"%d" % (number % 10))
    assert environment.generation == opened
    assert environment.statistics()["snapshots"] == 0
    assert path.stat().st_size < 4 * MIB
    environments.release(environment)


# -- who may read and write ------------------------------------------------------------------------


def modes(path):
    return {
        file.name.removeprefix("store.simdb"): stat.S_IMODE(file.stat().st_mode)
        for file in path.parent.glob("store.simdb*")
    }


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660])
def test_the_files_of_a_store_have_the_mode_that_it_was_made_with(path, mode):
    expected = dict.fromkeys(("", "-lock", "-turn"), mode)
    with simdb.open(path, mode=mode) as database:
        assert modes(path) == expected
        database.backup(path.with_name("copy"))
        assert stat.S_IMODE(path.with_name("copy").stat().st_mode) & 0o077 == mode & 0o040
    for end in ("-lock", "-turn"):
        path.with_name(f"store.simdb{end}").unlink()
    with simdb.open(path):  # the file says who may
        assert modes(path) == expected


def test_without_a_mode_the_umask_decides(path):
    before = os.umask(0o077)
    try:
        simdb.open(path).close()
    finally:
        os.umask(before)
    assert modes(path) == dict.fromkeys(("", "-lock", "-turn"), 0o600)


# -- repair ----------------------------------------------------------------------------------------


def test_wrong_types_of_new_settings_are_refused(path):
    with pytest.raises((WrongTypeError, simdb.ConfigurationError)):
        simdb.open(path, mode="rw")  # type: ignore[arg-type]


# -- few descriptors -------------------------------------------------------------------------------


def _store_and_search(store, new):
    with simdb.open(new, threads=1) as database:
        texts = database.collection("c", WORDS)
        texts.add(1, "some words")
        texts.search("some words")


def _back_up(store, new):
    with simdb.open(store, threads=1) as database:
        database.backup(new)


def _rebuild(store, new):
    with simdb.open(store, threads=1) as database:
        database["c"].rebuild(recall=0.9)


@pytest.mark.parametrize(
    "work",
    [
        _store_and_search,
        _back_up,
        _rebuild,
        lambda store, new: simdb.repair(store, new, threads=1),
        simdb.restore,
    ],
    ids=["store", "backup", "rebuild", "repair", "restore"],
)
def test_too_few_descriptors_are_an_error_that_says_so(path, work, long_form):
    filled(path)
    work(path, path.with_name("first.simdb"))  # what is imported and compiled on use

    def told(more):
        def limited():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
            taken = []
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            for descriptor in taken[:more]:
                os.close(descriptor)
            work(path, path.with_name(f"new{more}.simdb"))
            return "done"

        return answer_of(limited)

    step = 1 if long_form else 3
    answers: list[str] = []
    while answers.count("done") < (2 if long_form else 1):
        answers.append(told(step * len(answers)))
        assert len(answers) < 16
    refused = answers[: answers.index("done")]
    assert set(answers[len(refused) :]) == {"done"}
    assert step * len(refused) >= 3
    for answer in refused:
        assert answer.startswith("StorageError")
        assert "ulimit -n" in answer


FEW_FROM_THE_BEGINNING = """
import resource, sys
import simdb
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
try:
    with simdb.open(sys.argv[2], threads=1) as database:
        collection = database.collection("c", simdb.Set(), seed=1)
        collection.add(1, {1, 2, 3})
        collection.rebuild(threshold=0.6)
        print("done")
except simdb.StorageError as error:
    print("ulimit -n" in str(error))
"""


@pytest.mark.parametrize("descriptors", some_of([8, 6, 16, 9], 4))
def test_too_few_descriptors_to_load_what_is_compiled_are_an_error_that_says_so(path, descriptors):
    completed = interpreted(FEW_FROM_THE_BEGINNING, descriptors, path)
    assert completed.stdout.strip() == ("done" if descriptors == 16 else "True")


FILLED = """
import os, simdb, sys, tempfile
folder, source = sys.argv[1:]
descriptor = os.open(f"{folder}/filler", os.O_CREAT | os.O_WRONLY)
try:
    while os.write(descriptor, bytes(4096)):
        pass
except OSError:
    pass
tempfile.tempdir = folder
policy = {"policy": "longest"}
calls = [
    lambda: simdb.open(f"{folder}/new"),
    lambda: simdb.load(f"{source}.dump", f"{folder}/loaded"),
    lambda: simdb.repair(source, f"{folder}/repaired"),
    lambda: simdb.restore(source, f"{folder}/restored"),
    lambda: simdb.dedupe([{"t": "a"}, {"t": "b"}], item="t"),
]
for call in calls:
    try:
        call()
    except simdb.DatabaseFullError as error:
        print(folder in str(error), source in str(error))
print(sorted(os.listdir(folder)))
"""


def test_a_new_store_on_a_full_disk_is_an_error_and_not_the_end_of_the_process(tmp_path):
    unshare = shutil.which("unshare")
    if unshare is None or ended(unshare, "-m", "true", code=None).returncode:
        pytest.skip("needs the right to mount")
    (tmp_path / "small").mkdir()
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        db.collection("t", simdb.Text()).add(1, "hello world")
        db.dump(tmp_path / "s.simdb.dump")
    mounted = 'mount -t tmpfs -o size=3m none "$2" && exec "$0" -c "$1" "$2" "$3"'
    told = ended(
        *(unshare, "-m", "sh", "-c", mounted, sys.executable, FILLED),
        *(str(tmp_path / "small"), str(tmp_path / "s.simdb")),
    )
    lines = told.stdout.splitlines()
    assert lines == [*["True False"] * 5, "['filler']"], told

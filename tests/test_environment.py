"""Opening, sharing, forking, filling and closing one file."""

# mypy: allow-untyped-calls
# ruff: noqa: PT012 - what is refused is a transaction, begun and ended

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import lmdb
import pytest

import simdb
from simdb.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseFullError,
    DatabaseNotFoundError,
    FormatVersionError,
    NotADatabaseError,
    ReadOnlyError,
    StorageError,
)
from simdb.storage import environment as environments
from simdb.storage import registry, values
from simdb.storage.keys import HEADER_KEY, Table
from tests.forked import Child, answer_of

MIB = 2**20


def acquire(path, *, read_only=False, sync="batch", map_size=None, busy_timeout=10):
    return registry.acquire(
        path, read_only=read_only, sync=sync, map_size=map_size, busy_timeout=busy_timeout
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.simdb"


@pytest.fixture
def environment(path):
    environment = acquire(path)
    yield environment
    registry.release(environment)


def put(environment, key, value=b"value", timeout=10):
    with environment.write(timeout) as transaction:
        transaction.put(Table.KEYS, key, value)


def get(environment, key):
    with environment.read() as transaction:
        value = transaction.get(Table.KEYS, key)
        return None if value is None else bytes(value)


# -- creating --------------------------------------------------------------------------------------


def test_a_new_store_has_its_files_and_no_others(path, environment):
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["store.simdb", "store.simdb-lock", "store.simdb-turn"]
    put(environment, b"a")
    assert sorted(file.name for file in path.parent.iterdir()) == names


def test_a_creation_that_is_killed_leaves_no_store(path):
    # Killed after every call into the system that matters, from the first to the last.
    stages = 0
    for stage in range(100):

        def work(child, stage=stage):
            die_after(stage)
            registry.release(acquire(path))
            child.say("done")

        child = Child(work)
        done = child.hear() == "done"
        child.end()
        if path.exists():
            with simdb.open(path) as database:
                assert database.collection_names() == []
            path.unlink()
        if done:
            break
        stages += 1
    assert 3 <= stages < 99


def die_after(stage):
    """Kill this process at the n-th call of one of the functions that creation consists of."""
    left = [stage]

    def dying(function):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for module, name in ((lmdb, "open"), (values, "pack"), (os, "link"), (os, "fsync")):
        setattr(module, name, dying(getattr(module, name)))


def test_a_creation_that_fails_leaves_nothing(path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(DatabaseFullError):
        acquire(path)
    assert list(path.parent.iterdir()) == []


def test_many_processes_that_create_one_store_share_it(path):
    def work(child):
        child.hear()
        environment = acquire(path)
        put(environment, str(os.getpid()).encode())
        child.say(environment.uuid)
        registry.release(environment)

    children = [Child(work) for _ in range(6)]
    for child in children:
        child.say("go")
    assert len({child.hear() for child in children}) == 1
    assert [child.end() for child in children] == [0] * 6
    environment = acquire(path)
    assert all(get(environment, str(child.pid).encode()) for child in children)
    registry.release(environment)


# -- sharing ---------------------------------------------------------------------------------------


def test_two_openings_of_one_file_share_one_environment(path, environment, tmp_path):
    (tmp_path / "symbolic").symlink_to(path)
    os.link(path, tmp_path / "hard")
    for other in (path, tmp_path / "symbolic", tmp_path / "hard"):
        again = acquire(other)
        assert again is environment
        registry.release(again)
    put(environment, b"still open")


def test_a_second_opening_with_other_promises_is_refused(path, environment):
    with pytest.raises(ConfigurationError, match="sync"):
        acquire(path, sync="full")
    assert acquire(path, read_only=True) is environment
    registry.release(environment)


def test_a_writable_opening_beside_a_read_only_one_is_refused(path):
    registry.release(acquire(path))
    reader = acquire(path, read_only=True)
    with pytest.raises(ConfigurationError, match="read_only"):
        acquire(path)
    registry.release(reader)
    registry.release(acquire(path))


def test_a_read_only_environment_does_not_write(path):
    registry.release(acquire(path))
    before = path.read_bytes()
    reader = acquire(path, read_only=True)
    with pytest.raises(ReadOnlyError):
        reader.write(1)
    assert get(reader, b"a") is None
    registry.release(reader)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_read_without_a_lock_file(path, monkeypatch):
    registry.release(acquire(path))
    for beside in path.parent.glob("*-*"):
        beside.unlink()
    monkeypatch.setattr(os, "access", lambda *_: False)
    reader = acquire(path, read_only=True)
    assert get(reader, b"a") is None
    registry.release(reader)
    assert list(path.parent.iterdir()) == [path]


def test_a_read_only_file_system_is_read_and_refuses_writers(path, tmp_path):
    registry.release(acquire(path))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    program = f"""
import simdb
simdb.open({str(mounted / path.name)!r}, read_only=True).close()
try:
    simdb.open({str(mounted / path.name)!r})
except simdb.StorageError as error:
    print("refused:", error)
"""
    mount = f"mount --bind {path.parent} {mounted} && mount -o remount,bind,ro {mounted}"
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount")
    for _ in range(2):
        done = subprocess.run(
            [unshare, "-m", "sh", "-c", f'{mount} && exec "$0" -c "$1"', sys.executable, program],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith("refused:")
        for beside in path.parent.glob("store.simdb-*"):
            beside.unlink()


# -- closing ---------------------------------------------------------------------------------------


def test_what_is_closed_says_so(path):
    environment = acquire(path)
    transaction = environment.read()
    registry.release(environment)
    for use in (
        environment.read,
        lambda: environment.write(1),
        lambda: transaction.get(Table.KEYS, b"a"),
        lambda: transaction.floor(Table.KEYS, b"a"),
        lambda: list(transaction.scan(Table.KEYS, b"a")),
    ):
        with pytest.raises(DatabaseClosedError):
            use()
    transaction.close()
    transaction.close()
    with pytest.raises(DatabaseClosedError):
        transaction.get(Table.KEYS, b"a")


def test_the_map_outlives_the_closing_until_the_last_snapshot_has_ended(path):
    environment = acquire(path)
    put(environment, b"a", b"x" * 100_000)
    transaction = environment.read()
    view = transaction.get(Table.KEYS, b"a")
    assert view is not None
    registry.release(environment)
    assert bytes(view) == b"x" * 100_000  # would end the process if it were unmapped
    assert not environment.is_finished
    transaction.close()
    assert environment.is_finished


def test_a_store_closed_while_it_is_iterated_can_be_opened_again(path):
    environment = acquire(path)
    transaction = environment.read()
    registry.release(environment)
    again = acquire(path)
    put(again, b"b")
    assert get(again, b"b")
    transaction.close()
    assert get(again, b"b")
    registry.release(again)
    assert again.is_finished
    third = acquire(path)
    assert get(third, b"b")
    registry.release(third)


def test_iterators_of_a_closed_database_end_with_an_error(path):
    def work():
        texts = [f"the text number {number} of many of them" for number in range(3_000)]
        rows = [*enumerate(texts), *((str(number), text) for number, text in enumerate(texts))]
        ends: list[object] = []
        for kind in ("items", "pairs"):
            database = simdb.open(path.with_name(f"{kind}.simdb"))
            collection = database.collection("texts", simdb.Text())
            collection.add_many(rows)
            iterator = iter(collection.items() if kind == "items" else collection.pairs())
            next(iterator)
            database.close()
            try:
                ends.append(sum(1 for _ in iterator))
            except DatabaseClosedError:
                ends.append("closed")
        return ends

    assert answer_of(work) == "['closed', 'closed']"


def test_closing_while_threads_read_and_write_harms_nobody(path):
    def work():
        for _ in range(15):
            environment = acquire(path)
            put(environment, b"a", b"x" * 200_000)
            started = threading.Barrier(5)
            problems: list[str] = []

            def use(environment=environment, started=started, problems=problems):
                started.wait()
                try:
                    while True:
                        with environment.read() as transaction:
                            view = transaction.get(Table.KEYS, b"a")
                            assert view is not None
                            assert view[0] == view[-1]
                        put(environment, b"a", os.urandom(1) * 200_000)
                except DatabaseClosedError:
                    pass
                except BaseException as error:  # noqa: BLE001 - reported
                    problems.append(repr(error))

            threads = [threading.Thread(target=use) for _ in range(4)]
            for thread in threads:
                thread.start()
            started.wait()
            time.sleep(0.01)
            registry.release(environment)
            for thread in threads:
                thread.join(20)
            if problems or not environment.is_finished:
                return problems
        return "sound"

    assert answer_of(work) == "sound"


def test_a_forgotten_snapshot_is_given_back(environment):
    transaction = environment.read()
    assert environment.statistics()["snapshots"] == 1
    del transaction
    gc.collect()
    put(environment, b"a")
    assert environment._live_count == 0


# -- several processes -----------------------------------------------------------------------------


def hold_writer(path):
    """Return a child that writes until it is told anything."""

    def work(child):
        environment = acquire(path)
        with environment.write(10) as transaction:
            transaction.put(Table.KEYS, b"held", b"x")
            child.say("writing")
            child.hear()

    child = Child(work)
    assert child.hear() == "writing"
    return child


def test_a_busy_store_is_waited_for_as_long_as_busy_timeout_says(path, environment):
    child = hold_writer(path)
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(DatabaseBusyError, match="busy_timeout"):
            put(environment, b"a", timeout=0.2)
        assert time.monotonic() - began < 2
    child.say("end")
    put(environment, b"a", timeout=10)
    assert get(environment, b"held") == b"x"
    assert child.end() == 0


def test_readers_do_not_wait_for_a_writer(path, environment):
    def work(child):
        child.hear()
        with environment.write(10) as transaction:
            transaction.put(Table.KEYS, b"held", b"x")
            child.say("writing")
            child.hear()

    child = Child(work)
    put(environment, b"a")
    child.say("begin")
    assert child.hear() == "writing"
    assert (get(environment, b"a"), get(environment, b"held")) == (b"value", None)
    child.say("end")
    assert child.end() == 0


def test_opening_waits_for_another_writer_no_longer_than_its_timeout(path):
    child = hold_writer(path)
    with pytest.raises(DatabaseBusyError):
        acquire(path, busy_timeout=0.1)
    registry.release(acquire(path, read_only=True))  # for which nobody waits
    child.say("end")
    registry.release(acquire(path, busy_timeout=10))
    assert child.end() == 0


def test_a_killed_writer_leaves_the_last_commit(path, environment):
    put(environment, b"a", b"before")
    child = hold_writer(path)
    child.signal(signal.SIGKILL)
    child.end()
    put(environment, b"b", timeout=5)
    assert (get(environment, b"a"), get(environment, b"held")) == (b"before", None)


def test_an_interrupt_ends_the_wait_for_another_writer_and_nothing_else(path, environment):
    def work(child):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        other = acquire(path)
        child.say("open")
        child.hear()
        child.say("waiting")
        try:
            put(other, b"never", timeout=None)
        except KeyboardInterrupt:
            child.say("interrupted")
        child.hear()
        put(other, b"later")
        child.say("written")

    child = Child(work)
    child.hear()
    with environment.write(1):
        child.say("held")
        child.hear()
        time.sleep(0.2)
        child.signal(signal.SIGINT)
        answer = child.hear(5)
        child.say("go on")
    assert answer == "interrupted"
    assert child.hear() == "written"
    assert child.end() == 0
    assert get(environment, b"never") is None
    assert get(environment, b"later")


def test_a_bulk_writer_lets_another_process_write(path, environment):
    def work(child):
        put(acquire(path), b"other", timeout=20)
        child.say("done")

    child = Child(work)
    commits = 0
    while commits < 2_000 and not child.ended():
        put(environment, b"bulk", b"x" * 1_000, timeout=20)
        commits += 1
    assert child.hear() == "done"
    assert child.end() == 0
    assert commits < 1_500


def test_readers_keep_their_snapshot_while_another_process_writes(path, environment):
    put(environment, b"a", b"old")

    def work(child):
        child.hear()
        for number in range(50):
            put(environment, b"a", b"%d" % number * 3_000)

    child = Child(work)
    with environment.read() as transaction:
        child.say("begin")
        assert child.end() == 0
        value = transaction.get(Table.KEYS, b"a")
        assert value is not None
        assert bytes(value) == b"old"
    assert get(environment, b"a") == b"49" * 3_000


def test_threads_read_whole_commits_while_one_writes(environment):
    stop = threading.Event()
    problems = []

    def work():
        while not stop.is_set():
            with environment.read() as transaction:
                seen = {
                    bytes(value)
                    for key in (b"a", b"b", b"c")
                    if (value := transaction.get(Table.KEYS, key)) is not None
                }
            if len(seen) > 1:
                problems.append(seen)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(300):
        with environment.write(10) as transaction:
            for key in (b"a", b"b", b"c"):
                transaction.put(Table.KEYS, key, b"%d" % number * 2_000)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert not problems


def test_more_snapshots_than_there_are_slots_are_refused_and_then_served(path, monkeypatch):
    monkeypatch.setattr(environments, "MOST_READERS", 5)
    environment = acquire(path)
    held = []
    with pytest.raises(DatabaseBusyError, match="reader slots"):
        for _ in range(200):  # the system rounds the table of slots up to a page
            held.append(environment.read())  # noqa: PERF401 - those before the error are needed
    for transaction in held:
        transaction.close()
    assert get(environment, b"a") is None
    registry.release(environment)


def test_the_slots_of_killed_readers_are_cleared(path, environment):
    def work(child):
        other = acquire(path)
        child.transaction = other.read()
        child.say("reading")
        child.hear()

    child = Child(work)
    child.hear()
    assert environment.statistics()["snapshots"] == 1
    child.signal(signal.SIGKILL)
    child.end()
    registry.release(acquire(path))
    with acquire(path).read():
        pass
    registry.release(environment)
    environment._environment.reader_check()
    assert environment.statistics()["snapshots"] == 0


# -- forks -----------------------------------------------------------------------------------------


def test_a_child_forked_after_open_reads_and_writes_and_the_parent_goes_on(environment):
    put(environment, b"parent", b"1")

    def work(child):
        child.say(get(environment, b"parent"))
        put(environment, b"child")
        child.say("written")
        child.hear()
        child.say(get(environment, b"parent"))

    child = Child(work)
    assert child.hear() == "b'1'"
    assert child.hear() == "written"
    assert get(environment, b"child")
    put(environment, b"parent", b"2")
    child.say("go on")
    assert child.hear() == "b'2'"
    assert child.end() == 0
    put(environment, b"parent", b"3")


def test_a_child_of_a_child_reads_and_writes_too(environment):
    def work():
        return answer_of(lambda: put(environment, b"grandchild"))

    assert answer_of(work) == "None"
    assert get(environment, b"grandchild")


@pytest.mark.parametrize("end", ["exit", "close", "release", "collect"])
def test_a_child_forked_while_a_snapshot_is_open_is_refused_and_the_snapshot_stays(
    environment, end
):
    put(environment, b"a", b"old" * 5_000)
    held = [environment.read()]

    def work(child):
        for use in (environment.read, lambda: environment.write(1)):
            try:
                use()
            except DatabaseClosedError as error:
                child.say("forked" if "was forked" in str(error) else error)
        if end == "close":
            held[0].close()
        if end == "release":
            registry.release(environment)
        if end == "collect":
            held.clear()
            gc.collect()

    child = Child(work)
    assert child.hear_all() == ["forked", "forked"]
    assert child.end() == 0
    assert environment.statistics()["snapshots"] == 1
    for number in range(30):
        put(environment, b"a", b"%d" % number * 9_000)
    value = held[0].get(Table.KEYS, b"a")
    assert value is not None
    assert bytes(value) == b"old" * 5_000
    held[0].close()
    assert get(environment, b"a") == b"29" * 9_000


def test_a_child_forked_inside_a_write_transaction_cannot_commit_it(environment):
    with environment.write(1) as transaction:
        transaction.put(Table.KEYS, b"a", b"parent")

        def work():
            with transaction:
                pass

        assert answer_of(work).startswith("DatabaseClosedError: a transaction cannot be committed")
    assert get(environment, b"a") == b"parent"
    put(environment, b"b", timeout=1)


def test_a_child_does_not_keep_the_writers_lock_of_a_parent_that_died(path):
    # The child is forked while its parent writes; the parent is killed, the child lives on.
    def sleeper(own):
        own.say("forked")
        time.sleep(60)

    def work(child):
        environment = acquire(path)
        with environment.write(1):
            grandchild = Child(sleeper)
            assert grandchild.hear() == "forked"
            child.say(grandchild.pid)
            child.hear()

    child = Child(work)
    grandchild = int(child.hear())
    child.signal(signal.SIGKILL)
    child.end()
    try:
        environment = acquire(path, busy_timeout=1)
        put(environment, b"a", timeout=1)
        registry.release(environment)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_forks_beside_busy_threads_do_no_harm(environment):
    stop = threading.Event()
    problems: list[str] = []

    def work():
        try:
            while not stop.is_set():
                put(environment, b"a", os.urandom(500))
                get(environment, b"a")
        except BaseException as error:  # noqa: BLE001 - reported
            problems.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    answers = set()
    for _ in range(20):
        answers.add(answer_of(lambda: len(get(environment, b"a") or b"x" * 500)).split(":")[0])
    stop.set()
    for thread in threads:
        thread.join(20)
    assert not problems
    assert answers <= {"500", "DatabaseClosedError"}


# -- files that change under an open store ---------------------------------------------------------


def test_a_store_whose_file_was_removed_is_not_written_to(path, environment):
    put(environment, b"a")
    path.unlink()
    with pytest.raises(StorageError, match="removed"):
        put(environment, b"b")
    assert get(environment, b"a")


def test_a_store_whose_file_was_replaced_is_not_written_to(path, environment, tmp_path):
    put(environment, b"a")
    registry.release(acquire(tmp_path / "other.simdb"))
    (tmp_path / "other.simdb").rename(path)
    with pytest.raises(StorageError, match="replaced"):
        put(environment, b"b")
    assert get(environment, b"a")
    with pytest.raises(StorageError, match="open"):
        acquire(path)  # not beside the old one


def test_the_file_that_replaced_a_store_is_opened_once_that_is_closed(path, tmp_path):
    old = acquire(path)
    put(old, b"a")
    registry.release(acquire(tmp_path / "other.simdb"))
    (tmp_path / "other.simdb").rename(path)
    registry.release(old)
    again = acquire(path)
    assert get(again, b"a") is None
    registry.release(again)


def test_a_file_replaced_between_fork_and_next_use_is_not_taken_for_the_old_one(
    path, environment, tmp_path
):
    registry.release(acquire(tmp_path / "other.simdb"))
    assert answer_of(lambda: 1) == "1"  # the fork closes the file
    (tmp_path / "other.simdb").rename(path)
    with pytest.raises(StorageError, match="replaced"):
        environment.read()


# -- the header ------------------------------------------------------------------------------------


def change_header(path, **changed):
    """Change the header behind simdb's back; return what it was."""
    with (
        lmdb.open(str(path), subdir=False, max_dbs=16, map_size=MIB, lib_version=0) as raw,
        raw.begin(write=True) as transaction,
    ):
        meta = raw.open_db(b"meta", transaction)
        sealed = transaction.get(HEADER_KEY, db=meta) or b""
        header = values.unpack(values.unseal(Table.META, HEADER_KEY, memoryview(sealed)))
        sealed = values.seal(Table.META, HEADER_KEY, values.pack(header | changed))
        transaction.put(HEADER_KEY, sealed, db=meta)
    return header


def test_the_header_tells_what_wrote_the_file(path):
    registry.release(acquire(path))
    header = change_header(path)
    assert header["magic"] == "simdb"
    assert header["format"] == environments.FORMAT_VERSION
    assert header["lmdb"][:2] == [0, 9]
    assert header["created_by"].startswith("simdb-store ")
    assert len(header["uuid"]) == 16


def test_a_newer_format_is_refused_with_both_numbers_and_left_as_it_is(path):
    registry.release(acquire(path))
    change_header(path, format=7, created_by="simdb-store 9.9")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(FormatVersionError, match=r"format 7.*reads and writes \d.*9\.9"):
            acquire(path, read_only=read_only)
    assert path.read_bytes() == before


def test_another_magic_is_refused(path):
    registry.release(acquire(path))
    change_header(path, magic="other")
    with pytest.raises(NotADatabaseError):
        acquire(path)


def test_the_environment_variable_of_lmdb_does_not_change_the_format(path, monkeypatch):
    monkeypatch.setenv("LMDB_DEFAULT_LIB_VERSION", "1")
    registry.release(acquire(path))
    assert path.read_bytes()[16:24] == bytes.fromhex("dec0efbe01000000")


# -- full maps and little address space ------------------------------------------------------------


def fill(environment):
    """Write until the map is full; return how many records were committed."""
    count = 0
    with pytest.raises(DatabaseFullError, match="map_size"):
        for count in range(10_000):
            put(environment, b"%06d" % count, b"x" * 40_000)
    return count


def test_a_full_map_refuses_writes_keeps_all_commits_and_takes_more_with_a_larger_one(path):
    environment = acquire(path, map_size=2 * MIB)
    count = fill(environment)
    assert count > 20
    with pytest.raises(DatabaseFullError):
        put(environment, b"more", b"x" * 400_000)
    assert all(get(environment, b"%06d" % number) for number in range(count))
    assert get(environment, b"more") is None
    registry.release(environment)
    larger = acquire(path, map_size=4 * MIB)
    put(larger, b"more", b"x" * 400_000)
    assert get(larger, b"more")
    registry.release(larger)


def test_a_full_collection_takes_more_after_deleting_and_compacting_or_with_a_larger_map(path):
    text = "some words of a text that fills the file quickly "
    with simdb.open(path, map_size=4 * MIB) as database:
        texts = database.collection("texts", simdb.Text())
        count = 0
        with pytest.raises(DatabaseFullError):
            for count in range(10_000):
                texts.add(count, f"{count} {text * 400}")
        assert len(texts) == count
        assert database.check(deep=True).sound
        assert texts.search(f"{count // 2} {text * 400}")[0].similarity > 0.99
        database.backup(path.with_name("copy.simdb"), compact=True)
    with simdb.open(path, map_size=8 * MIB) as database:
        texts = database["texts"]
        texts.delete_many(range(count))
        texts.compact()
        assert database.check(deep=True).sound
        texts.add("new", text)
        assert [match.key for match in texts.search(text)] == ["new"]


def test_a_limit_on_file_size_leaves_the_last_commit(path):
    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MIB, 3 * MIB))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        environment = acquire(path)
        for count in range(10_000):
            try:
                put(environment, b"%06d" % count, b"x" * 40_000)
            except StorageError:  # a short write is what LMDB calls an input/output error
                break
        stored = sum(get(environment, b"%06d" % number) is not None for number in range(count))
        put(environment, b"small", timeout=1)
        return (stored == count, count > 20, get(environment, b"%06d" % count))

    assert answer_of(work) == "(True, True, None)"
    environment = acquire(path)
    assert get(environment, b"small")
    registry.release(environment)


def limited_address_space(megabytes):
    """Allow this process so much address space beside what it has."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file on a disk
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + megabytes * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def test_little_address_space_makes_the_map_smaller(path):
    def work():
        limited_address_space(700)
        environment = acquire(path)
        put(environment, b"a")
        return (environment.statistics()["map_bytes"] // MIB, get(environment, b"a"))

    assert answer_of(work) == "(512, b'value')"


def test_too_little_address_space_is_a_clear_error(path):
    registry.release(acquire(path))

    def work():
        limited_address_space(100)
        acquire(path)

    assert answer_of(work).startswith("StorageError")


@pytest.mark.parametrize(("more", "grows"), [(900, True), (120, False)])
def test_a_map_that_fills_up_grows_while_the_system_gives_space(path, monkeypatch, more, grows):
    monkeypatch.setattr(environments, "SMALLEST_MAP", 32 * MIB)
    monkeypatch.setattr(environments, "LARGEST_MAP", 64 * MIB)

    def work():
        environment = acquire(path)
        limited_address_space(more - 64)
        outcome = "grown"
        try:
            for number in range(30):
                put(environment, b"%d" % number, b"x" * (5 * MIB - 5_000))
        except DatabaseFullError:
            outcome = "full"
        stored = [get(environment, b"%d" % number) is not None for number in range(30)]
        put(environment, b"0", b"small")
        return (outcome, stored[: stored.count(True)].count(True) >= 12, get(environment, b"0"))

    assert answer_of(work) == f"({'grown' if grows else 'full'!r}, True, b'small')"


def test_a_map_is_not_moved_under_a_snapshot(path, monkeypatch):
    monkeypatch.setattr(environments, "SMALLEST_MAP", 4 * MIB)
    monkeypatch.setattr(environments, "LARGEST_MAP", 4 * MIB)
    environment = acquire(path)
    put(environment, b"a", b"a" * 100_000)
    with environment.read() as transaction:
        view = transaction.get(Table.KEYS, b"a")
        assert view is not None
        began = time.monotonic()
        with pytest.raises(DatabaseFullError):
            for number in range(100):
                put(environment, b"b%d" % number, b"x" * 100_000)
        assert time.monotonic() - began < 5
        assert bytes(view) == b"a" * 100_000
    for number in range(100):
        put(environment, b"c%d" % number, b"x" * 100_000)
    assert environment.statistics()["map_bytes"] >= 8 * MIB
    registry.release(environment)


def test_a_process_adopts_a_file_that_another_has_grown_past_its_map(path, monkeypatch):
    monkeypatch.setattr(environments, "LARGEST_MAP", 2 * MIB)
    environment = acquire(path)
    put(environment, b"a")

    def work():
        monkeypatch.setattr(environments, "LARGEST_MAP", 64 * MIB)
        other = acquire(path)
        for number in range(100):
            put(other, b"%d" % number, b"x" * 100_000)

    answer_of(work)
    assert len(get(environment, b"99") or b"") == 100_000
    put(environment, b"b")
    registry.release(environment)


# -- copies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compact", [False, True])
def test_a_copy_made_while_others_write_is_one_commit(path, environment, tmp_path, compact):
    stop = threading.Event()

    def work():
        number = 0
        while not stop.is_set():
            number += 1
            with environment.write(10) as transaction:
                for key in (b"a", b"b"):
                    transaction.put(Table.KEYS, key, b"%d" % number * 3_000)

    put(environment, b"a", b"x")
    put(environment, b"b", b"x")
    thread = threading.Thread(target=work)
    thread.start()
    for number in range(5):
        environment.copy(tmp_path / f"copy{number}", compact=compact)
    stop.set()
    thread.join(10)
    for number in range(5):
        copied = acquire(tmp_path / f"copy{number}")
        assert get(copied, b"a") == get(copied, b"b")
        assert copied.uuid == environment.uuid
        registry.release(copied)


def test_a_copy_does_not_overwrite(path, environment, tmp_path):
    (tmp_path / "taken").write_text("precious")
    with pytest.raises(StorageError):
        environment.copy(tmp_path / "taken", compact=False)
    assert (tmp_path / "taken").read_text() == "precious"
    with pytest.raises(DatabaseNotFoundError):
        environment.copy(tmp_path / "no folder" / "copy", compact=False)
    assert not list(tmp_path.glob(".*"))

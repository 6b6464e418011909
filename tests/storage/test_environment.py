"""Creating, sharing and closing one file."""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import lmdb
import pytest

import simdb
from simdb.errors import ConfigurationError, DatabaseClosedError, DatabaseFullError, ReadOnlyError
from simdb.storage.file import environment as environments
from simdb.storage.file import preflight
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.file.locks import User
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from tests.support.environments import acquire, get, put
from tests.support.processes import Child, answer_of, ended
from tests.support.threads import Call

# -- creating --------------------------------------------------------------------------------------


def test_a_new_store_has_its_files_and_no_others(path, environment):
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["store.simdb", "store.simdb-lock", "store.simdb-turn"]
    put(environment, b"a")
    assert sorted(file.name for file in path.parent.iterdir()) == names


@pytest.mark.parametrize("sync", ["full", "batch"])
def test_only_a_batch_leaves_the_meta_page_to_the_system(path, sync):
    environment = acquire(path, sync=sync)
    flags = environment._environment.flags()
    environments.release(environment)
    assert (flags["sync"], flags["metasync"]) == (True, sync == "full")


def test_a_creation_that_is_killed_leaves_no_store(path):
    # Killed after every call into the system that matters, from the first to the last.
    stages = 0
    for stage in range(100):

        def work(child, stage=stage):
            die_after(stage)
            environments.release(acquire(path))
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

    for module, name in ((lmdb, "open"), (layout, "pack"), (os, "link"), (os, "fsync")):
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
        environments.release(environment)

    children = [Child(work) for _ in range(6)]
    for child in children:
        child.say("go")
    assert len({child.hear() for child in children}) == 1
    assert [child.end() for child in children] == [0] * 6
    environment = acquire(path)
    assert all(get(environment, str(child.pid).encode()) for child in children)
    environments.release(environment)


# -- sharing ---------------------------------------------------------------------------------------


def test_two_openings_of_one_file_share_one_environment(path, environment, tmp_path):
    (tmp_path / "symbolic").symlink_to(path)
    os.link(path, tmp_path / "hard")
    for other in (path, tmp_path / "symbolic", tmp_path / "hard"):
        again = acquire(other)
        assert again is environment
        environments.release(again)
    put(environment, b"still open")


def test_a_second_opening_with_other_promises_is_refused(path, environment):
    with pytest.raises(ConfigurationError, match="sync"):
        acquire(path, sync="full")
    assert acquire(path, read_only=True) is environment
    environments.release(environment)


def test_a_writable_opening_beside_a_read_only_one_is_refused(path):
    environments.release(acquire(path))
    reader = acquire(path, read_only=True)
    with pytest.raises(ConfigurationError, match="read_only"):
        acquire(path)
    environments.release(reader)
    environments.release(acquire(path))


def test_a_read_only_environment_does_not_write(path):
    environments.release(acquire(path))
    before = path.read_bytes()
    reader = acquire(path, read_only=True)
    with pytest.raises(ReadOnlyError):
        reader.write(1)
    assert get(reader, b"a") is None
    environments.release(reader)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_read_without_a_lock_file(path, monkeypatch):
    environments.release(acquire(path))
    for beside in path.parent.glob("*-*"):
        beside.unlink()
    monkeypatch.setattr(os, "access", lambda *_: False)
    reader = acquire(path, read_only=True)
    assert get(reader, b"a") is None
    environments.release(reader)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("refused", ["", "-lock", "-turn"])
def test_who_may_not_use_a_file_of_the_store_is_told_which(refused):
    if os.geteuid():
        pytest.skip("needs another user")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.simdb"
        path.parent.chmod(0o777)
        environments.release(acquire(path))
        for end in ("", "-lock", "-turn"):
            path.with_name(path.name + end).chmod(0o600 if end == refused else 0o666)

        def opened():
            os.setresuid(65_534, 65_534, 65_534)
            acquire(path)

        answer = answer_of(opened)
        assert answer.startswith(f"StorageError: {path}{refused}: Permission denied"), answer


def test_a_file_that_nobody_may_write_is_read_by_its_owner_again_and_again():
    if os.geteuid():
        pytest.skip("becomes another user")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.simdb"
        path.parent.chmod(0o777)
        environments.release(acquire(path))
        for beside in path.parent.glob("*-*"):
            beside.unlink()
        path.chmod(0o444)
        os.chown(path, 65_534, 65_534)

        def opened():
            os.setresuid(65_534, 65_534, 65_534)
            for _ in range(2):
                environments.release(acquire(path, read_only=True))
            return oct(path.with_name("store.simdb-lock").stat().st_mode & 0o777)

        assert answer_of(opened) == "0o644"


def test_a_read_only_file_system_is_read_and_refuses_writers(path, tmp_path):
    environments.release(acquire(path))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    program = f"""
import pathlib, simdb
for _ in range(2):
    simdb.open({str(mounted / path.name)!r}, read_only=True).close()
    try:
        simdb.open({str(mounted / path.name)!r})
    except simdb.StorageError as error:
        print("refused:", error)
    for beside in pathlib.Path({str(path.parent)!r}).glob("store.simdb-*"):
        beside.unlink()
"""
    mount = f"mount --bind {path.parent} {mounted} && mount -o remount,bind,ro {mounted}"
    unshare = shutil.which("unshare")
    if unshare is None or ended(unshare, "-m", "true", code=None).returncode:
        pytest.skip("needs the right to mount")
    run_there = f'{mount} && exec "$0" -c "$1"'
    done = ended(unshare, "-m", "sh", "-c", run_there, sys.executable, program)
    assert [line.partition(" ")[0] for line in done.stdout.splitlines()] == ["refused:"] * 2


# -- closing ---------------------------------------------------------------------------------------


def test_what_is_closed_says_so(path):
    environment = acquire(path)
    transaction = environment.read()
    environments.release(environment)
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
    environments.release(environment)
    assert bytes(view) == b"x" * 100_000  # would end the process if it were unmapped
    assert not environment.is_finished
    transaction.close()
    assert environment.is_finished


def test_what_is_read_in_a_snapshot_stays_until_the_last_use_of_it_ends(path):
    environment = acquire(path)
    put(environment, b"a", b"x" * 100_000)
    transaction = environment.read()
    uses = User(), User()
    for use in uses:
        transaction.begin_use(use)
    view = transaction.get(Table.KEYS, b"a")
    assert view is not None
    transaction.close()
    environments.release(environment)
    with pytest.raises(DatabaseClosedError):
        transaction.get(Table.KEYS, b"a")
    with pytest.raises(DatabaseClosedError):
        transaction.begin_use(late := User())
    for use in (late, uses[0]):
        transaction.end_use(use)
        assert bytes(view) == b"x" * 100_000  # would end the process if it were unmapped
        assert not environment.is_finished
    transaction.end_use(uses[1])
    assert environment.is_finished
    transaction.close()


def test_a_use_of_a_snapshot_that_is_forgotten_keeps_nothing(path):
    environment = acquire(path)
    transaction = environment.read()
    transaction.begin_use(use := User())
    transaction.close()
    environments.release(environment)
    assert not environment.is_finished
    del use  # as where an interrupt keeps it from being taken out
    assert environment.is_finished
    assert transaction.closed


def test_uses_that_are_gone_without_a_word_are_none(path):
    environment = acquire(path)
    transaction = environment.read()
    transaction.begin_use(use := User())
    noted = transaction._used["uses"]
    noted._uses = {weakref.ref(use)}  # without a call, as where an interrupt ends that
    transaction.close()
    del use
    transaction.close()
    assert not environment._live
    environments.release(environment)


def test_a_use_of_a_store_that_an_interrupt_kept_from_ending_is_over_when_it_is_gone(path):
    database = simdb.open(path)
    handle = database._handle
    handle.begin_use(use := User())
    database.close()
    assert not handle._environment.is_finished
    del use
    assert handle._environment.is_finished


@pytest.mark.parametrize("begin", ["read", "write"])
def test_what_has_ended_goes_without_a_finaliser(environment, begin):
    """In which Python passes over what the handler of a signal raises."""
    transaction = environment.read() if begin == "read" else environment.write(1)
    assert hasattr(transaction, "__del__")
    with transaction:
        pass
    assert isinstance(transaction, ReadTransaction if begin == "read" else WriteTransaction)
    assert not hasattr(transaction, "__del__")


def test_what_the_collector_gives_up_while_others_are_looked_through_harms_nobody(
    environment, monkeypatch
):
    class GivenUp:
        is_finished = False
        gate = threading.RLock()

        @property
        def path(self) -> str:
            environments._registry.pop((0, 0), None)
            return "elsewhere"

        def before_fork(self) -> None:
            pass

        def after_fork(self) -> None:
            _ = self.path

    registry = {(0, 0): GivenUp(), **environments._registry}
    monkeypatch.setattr(environments, "_registry", registry)
    environments._require_not_replaced(environment.path)
    assert (0, 0) not in registry
    registry = {(0, 0): GivenUp(), **registry}
    monkeypatch.setattr(environments, "_registry", registry)
    transaction = environment.read()
    assert answer_of(lambda: (*environment._live,)) == "()"
    transaction.close()


def test_a_store_closed_while_it_is_iterated_can_be_opened_again(path):
    environment = acquire(path)
    transaction = environment.read()
    environments.release(environment)
    again = acquire(path)
    put(again, b"b")
    assert get(again, b"b")
    transaction.close()
    assert get(again, b"b")
    environments.release(again)
    assert again.is_finished
    third = acquire(path)
    assert get(third, b"b")
    environments.release(third)


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
            environments.release(environment)
            for thread in threads:
                thread.join(20)
            if problems or not environment.is_finished:
                return problems
        return "sound"

    assert answer_of(work) == "sound"


@pytest.mark.parametrize("inside", ["_require_open", "_close_if_unused"])
def test_who_had_the_gate_when_the_last_left_closes_the_file(path, monkeypatch, inside):
    """Whoever is refused to read there, and whoever closes it."""
    environment = acquire(path)
    last, has_gate, has_left = environment.read(), threading.Event(), threading.Event()
    environments.release(environment)
    call = getattr(environment, inside)

    def waiting(*given):
        try:
            return call(*given)
        finally:
            monkeypatch.undo()
            has_gate.set()
            has_left.wait(20)

    monkeypatch.setattr(environment, inside, waiting)
    other = Call(environment.read if inside == "_require_open" else environment.close)
    assert has_gate.wait(20)
    last.close()
    assert not environment.is_finished
    has_left.set()
    other.join(20)
    assert environment.is_finished


def test_what_is_given_up_after_a_fork_has_unmapped_it_is_claimed_no_longer(path):
    environment = acquire(path)
    assert answer_of(lambda: 1) == "1"
    assert environment.is_held
    environments.give_up(environment, None)
    assert not environment.is_held


def test_a_forgotten_snapshot_is_given_back(environment):
    transaction = environment.read()
    assert environment.statistics()["snapshots"] == 1
    del transaction
    gc.collect(1)
    put(environment, b"a")
    assert len(environment._live) == 0


def test_what_the_collector_gives_up_waits_for_no_lock_and_is_closed_with_the_next(path):
    """It runs amid anything, also where a lock is held that others want who have this one."""
    database = simdb.open(path)
    environment = database._handle.environment
    cycle: list[Any] = [database]
    cycle.append(cycle)
    has_lock, is_done = threading.Event(), threading.Event()

    def hold() -> None:
        with environments._registry_lock:
            has_lock.set()
            is_done.wait(20)

    holder = Call(hold)
    assert has_lock.wait(20)
    del database, cycle
    collecting = Call(lambda: gc.collect(1))
    collecting.join(20)
    assert not collecting.is_alive()
    is_done.set()
    holder.join(20)
    assert not environment.is_finished
    simdb.open(f"{path}-other").close()
    assert environment.is_finished


def test_an_iterator_that_the_collector_ends_waits_for_nobody(path):
    """Also where it runs, and where those who begin a snapshot wait, a lock may be held."""
    with simdb.open(path) as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5)
        collection.add_many([(1, [1]), (2, [2])])
        left: list[Any] = [collection.items()]
        next(left[0])
        left.append(left)
        environment = database._handle.environment
        with environment.gate:
            del left
            collecting = Call(lambda: gc.collect(1))
            collecting.join(20)
            assert not collecting.is_alive()
            assert not environment._live


def test_a_store_that_is_closed_twice_leaves_the_next_opening_known(path):
    first = simdb.open(path)
    first.close()
    second = simdb.open(path)
    first.close()
    del first
    gc.collect(1)
    with simdb.open(path) as third:
        assert third._handle.environment is second._handle.environment
    second.close()


@pytest.mark.parametrize("amid", [preflight.identity_of, Path.resolve, preflight.parse_path])
def test_what_the_handler_of_a_signal_raises_while_a_store_is_opened_is_raised(path, amid):
    simdb.open(path).close()

    def traced(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is amid.__code__:
            sys.settrace(None)
            raise TimeoutError("my time is over")

    with simdb.open(path):
        before = sys.gettrace()
        try:
            sys.settrace(traced)
            with pytest.raises(TimeoutError, match=r"^my time is over$"):
                simdb.open(path)
        finally:
            sys.settrace(before)

"""Several processes at one file, and forks while it is open."""

# mypy: allow-untyped-calls
# ruff: noqa: PT012 - what is refused is a transaction, begun and ended

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Generator

import pytest

import simdb
from simdb.errors import ConfigurationError, DatabaseBusyError, DatabaseClosedError
from simdb.storage.file import environment as environments
from simdb.storage.file import preflight
from simdb.storage.file.locks import WriterQueue
from simdb.storage.tables.layout import Table
from tests.support.environments import acquire, get, put
from tests.support.processes import Child, answer_of, interpreted
from tests.support.threads import Call

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
    environments.release(acquire(path, read_only=True))  # for which nobody waits
    child.say("end")
    environments.release(acquire(path, busy_timeout=10))
    assert child.end() == 0


def test_who_waits_to_open_a_store_holds_nobody_back_who_opens_others_closes_or_forks(path):
    other = path.with_name("other")
    child = hold_writer(path)
    opened = []
    opening = threading.Thread(target=lambda: opened.append(acquire(path, busy_timeout=30)))
    opening.start()
    time.sleep(0.2)
    calls = {
        "open and close": lambda: environments.release(acquire(other)),
        "read": lambda: environments.release(acquire(path, read_only=True)),
        "fork": lambda: answer_of(lambda: environments.release(acquire(other))),
    }
    ended = dict.fromkeys(calls, False)

    def call(name):
        calls[name]()
        ended[name] = True

    threads = [threading.Thread(target=call, args=(name,)) for name in calls]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 5
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    assert ended == dict.fromkeys(calls, True)
    assert opened == []
    child.say("end")
    opening.join(20)
    put(opened[0], b"a", timeout=1)
    assert get(opened[0], b"held") == b"x"
    environments.release(opened[0])
    assert child.end() == 0


def test_a_file_that_is_replaced_while_its_opening_waits_is_the_one_that_is_opened(path, tmp_path):
    child = hold_writer(path)
    opened = []
    opening = threading.Thread(target=lambda: opened.append(acquire(path, busy_timeout=30)))
    opening.start()
    time.sleep(0.2)
    environment = acquire(tmp_path / "new")
    put(environment, b"new")
    environment.copy(tmp_path / "copy", compact=False)
    environments.release(environment)
    queue = WriterQueue(tmp_path / "copy")
    queue.acquire(1)
    path.with_name(f"{path.name}-lock").unlink()
    (tmp_path / "copy").rename(path)
    child.signal(signal.SIGKILL)
    opening.join(0.2)
    assert opened == []  # the right to write the file before is none to write this one
    queue.close()
    opening.join(20)
    put(opened[0], b"a", timeout=1)
    assert (get(opened[0], b"new"), get(opened[0], b"held")) == (b"value", None)
    environments.release(opened[0])
    child.end()


def test_who_waits_to_open_a_store_waits_no_longer_once_another_thread_has_opened_it(path):
    child = hold_writer(path)
    told = []

    def work():
        try:
            acquire(path, busy_timeout=30)
        except ConfigurationError as error:
            told.append(str(error))

    opening = threading.Thread(target=work)
    opening.start()
    time.sleep(0.1)
    environment = acquire(path, read_only=True)  # which needs no right to write
    opening.join(5)
    assert len(told) == 1
    assert "read_only=True" in told[0]
    environments.release(environment)
    child.say("end")
    assert child.end() == 0


def test_a_snapshot_after_a_fork_waits_for_a_writer_alone_and_as_long_as_it_may(path, environment):
    put(environment, b"a")
    child = hold_writer(path)  # which the fork has closed the file for
    found = []
    patient = threading.Thread(target=lambda: found.append(get(environment, b"a")))
    patient.start()
    time.sleep(0.1)
    began = time.monotonic()
    with pytest.raises(DatabaseBusyError, match="busy_timeout"):
        environment.read(0.1)
    assert time.monotonic() - began < 5
    assert answer_of(lambda: "forked") == "forked"
    assert found == []
    child.say("end")
    patient.join(20)
    assert found == [b"value"]
    assert child.end() == 0


def test_a_writer_that_waited_to_open_a_file_which_another_thread_opened_goes_on(path, environment):
    queue = WriterQueue(path)
    queue.acquire(1)
    environment._write(queue, timeout=1, since=time.monotonic(), shares=False).close()
    queue.close()


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
        other = acquire(path)
        child.say("asks")
        put(other, b"other", timeout=20)
        child.say("done")

    child = Child(work)
    with environment.write(20):
        assert child.hear() == "asks"
        time.sleep(0.1)
    commits = 0
    while commits < 2_000 and get(environment, b"other") is None:
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
    monkeypatch.setattr(preflight, "MOST_READERS", 5)
    environment = acquire(path)
    held = []
    with pytest.raises(DatabaseBusyError, match="reader slots"):
        for _ in range(200):  # the system rounds the table of slots up to a page
            held.append(environment.read())  # noqa: PERF401 - those before the error are needed
    for transaction in held:
        transaction.close()
    assert get(environment, b"a") is None
    environments.release(environment)


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
    environments.release(acquire(path))
    with acquire(path).read():
        pass
    environments.release(environment)
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
def test_a_child_forked_while_a_snapshot_is_open_opens_anew_and_the_snapshot_stays(
    environment, end
):
    put(environment, b"a", b"old" * 5_000)
    held = [environment.read()]
    iterator = held[0].scan(Table.KEYS, b"")
    next(iterator)

    def work(child):
        child.say(len(get(environment, b"a") or b""))
        put(environment, b"a", b"child")
        for use in (held[0].require_open, lambda: next(iterator)):
            try:
                use()
            except DatabaseClosedError as error:
                child.say("does not outlive a fork" in str(error))
        if end == "close":
            held[0].close()
        if end == "release":
            environments.release(environment)
        if end == "collect":
            held.clear()
            gc.collect()
        child.say(answer_of(lambda: get(environment, b"a")) if end != "release" else "b'child'")

    child = Child(work)
    assert child.hear_all() == ["15000", "True", "True", "b'child'"]
    assert child.end() == 0
    assert environment.statistics()["snapshots"] == 1
    for number in range(30):
        put(environment, b"a", b"%d" % number * 9_000)
    value = held[0].get(Table.KEYS, b"a")
    assert value is not None
    assert bytes(value) == b"old" * 5_000
    held[0].close()
    assert get(environment, b"a") == b"29" * 9_000


def test_a_child_forked_while_a_snapshot_is_open_ends_as_programs_do_and_does_no_harm(path):
    program = f"""
import os, sys, threading
from simdb.storage.file import environment as environments
from tests.support.environments import acquire, get, put

environment = acquire({str(path)!r})
put(environment, b"a", b"old" * 5_000)
transaction = environment.read()
if not os.fork():
    assert get(environment, b"a")
    sys.exit(0)
assert os.wait()[1] == 0
assert environment.statistics()["snapshots"] == 1
for number in range(30):
    put(environment, b"a", b"%d" % number * 9_000)
print(bytes(transaction.get(environments.Table.KEYS, b"a"))[:3])
"""
    program = program.replace(f"acquire({str(path)!r})", f"acquire(Path({str(path)!r}))")
    assert interpreted("from pathlib import Path\n" + program).stdout == "b'old'\n"


def test_a_child_forked_while_a_thread_writes_waits_for_it_and_writes(environment):
    with environment.write(1) as transaction:
        transaction.put(Table.KEYS, b"a", b"parent")
        child = Child(lambda child: child.say(put(environment, b"b", b"child", timeout=20)))
        time.sleep(0.1)
    assert child.hear() == "None"
    assert child.end() == 0
    assert (get(environment, b"a"), get(environment, b"b")) == (b"parent", b"child")


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
        environments.release(environment)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_child_does_not_keep_the_place_of_a_parent_that_died_while_it_waited_to_open(path):
    def sleeper(own):
        own.say("forked")
        time.sleep(60)

    def work(child):
        waits = threading.Thread(target=acquire, args=(path,), kwargs={"busy_timeout": 60})
        waits.daemon = True
        waits.start()
        time.sleep(0.2)
        grandchild = Child(sleeper)
        assert grandchild.hear() == "forked"
        child.say(grandchild.pid)
        child.hear()

    writer = hold_writer(path)
    child = Child(work)
    grandchild = int(child.hear())
    child.signal(signal.SIGKILL)
    child.end()
    writer.say("end")
    assert writer.end() == 0
    try:
        environments.release(acquire(path, busy_timeout=1))
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
    for _ in range(4):
        answers.add(answer_of(lambda: len(get(environment, b"a") or b"x" * 500)).split(":")[0])
    stop.set()
    for thread in threads:
        thread.join(20)
    assert not problems
    assert answers == {"500"}


def test_a_fork_has_no_lock_while_it_waits_for_one(environment, tmp_path):
    """Python's collector, which runs amid anything, may take one where another one is held."""
    put(environment, b"a")
    other = acquire(tmp_path / "other.simdb")
    has_gate = threading.Event()

    def work():
        with other.gate:
            has_gate.set()
            time.sleep(0.1)  # until the fork waits for it
            for lock in (environments._registry_lock, environment.gate):
                assert lock.acquire(timeout=1)
                lock.release()
        return "held nothing"

    holder = Call(work)
    assert has_gate.wait(20)
    assert answer_of(lambda: get(environment, b"a")) == "b'value'"
    holder.join(20)
    assert (holder.answer, holder.error) == ("held nothing", None)
    put(other, b"b")
    environments.release(other)


@pytest.mark.parametrize("held", ["registry", "gate"])
def test_an_iterator_that_outlives_its_store_ends_while_others_open_one_or_fork(tmp_path, held):
    """Python's collector may end it amid anything, also where a fork waits for that thread."""
    database = simdb.open(tmp_path / "s.simdb", threads=2)
    environment = database._handle._environment
    lock = environments._registry_lock if held == "registry" else environment.gate
    assert database._handle.pool() is not None

    def read() -> Generator[None, None, None]:
        with database._handle.read():
            yield

    iterator = read()
    next(iterator)
    database.close()
    with lock:  # as a fork has it
        ending = Call(iterator.close)
        ending.join(10)
        assert not ending.is_alive()
        assert not environment._live
        assert environment.is_held
    environments.require_not_held(tmp_path / "s.simdb")  # which closes what nobody uses
    assert environment.is_finished


def test_a_snapshot_that_outlives_all_users_ends_while_another_thread_opens_or_reads(environment):
    snapshot = environment.read()
    environments.give_up(environment, None)
    with environment.gate:
        ending = Call(snapshot.close)
        ending.join(10)
        assert not ending.is_alive()
        assert environment.is_held
    environments.require_not_held(environment.path)
    assert environment.is_finished

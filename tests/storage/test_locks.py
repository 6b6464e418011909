"""The writers' queue: one at a time, no one starved, every wait ends."""

# mypy: allow-untyped-calls

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from simdb.errors import DatabaseBusyError, DatabaseClosedError, StorageError
from simdb.storage.file import preflight
from simdb.storage.file.locks import WriterQueue
from tests.support.processes import Child, answer_of


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "store"
    path.touch()
    return path


@pytest.fixture
def queue(path):
    queue = WriterQueue(path)
    yield queue
    queue.close()


def test_a_queue_that_a_fork_has_closed_waits_for_no_thread_of_the_parent(queue):
    """Which may have been within its mutex, and is not there to leave it."""
    told, is_held = threading.Event(), threading.Event()

    def hold_mutex():
        with queue._writer_lock._mutex:
            is_held.set()
            told.wait(5)

    owner = threading.Event()
    queue.acquire(0, owner)
    other = threading.Thread(target=hold_mutex)
    other.start()
    is_held.wait()
    queue.close()
    queue.release(owner)
    del owner
    with pytest.raises(DatabaseClosedError, match="does not outlive a fork"):
        queue.acquire(0)
    assert other.is_alive()
    told.set()
    other.join()


def hold(path):
    """Return a child that holds the writer lock until it is told anything."""

    def work(child):
        queue = WriterQueue(path)
        queue.acquire(10)
        child.say("held")
        child.hear()
        queue.release()

    child = Child(work)
    assert child.hear() == "held"
    return child


def take(path, timeout):
    queue = WriterQueue(path)
    try:
        queue.acquire(timeout)
        queue.release()
    finally:
        queue.close()
    return "taken"


def test_a_lock_that_cannot_be_had_is_told_and_leaves_nothing_locked(queue, monkeypatch):
    original = fcntl.flock

    def refused(descriptor, operation):
        if operation != fcntl.LOCK_UN:
            raise OSError(errno.ENOLCK, "no locks available")
        original(descriptor, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refused)
        with pytest.raises(StorageError, match=r"cannot be locked: .*no locks available"):
            queue.acquire(1)
    queue.acquire(1)
    queue.release()


def test_what_the_handler_of_a_signal_raises_goes_through(queue, monkeypatch):
    def interrupted(descriptor, operation):
        if operation != fcntl.LOCK_UN:
            raise TimeoutError("enough")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", interrupted)
        with pytest.raises(TimeoutError, match="enough"):
            queue.acquire(1)
    queue.acquire(1)
    queue.release()


def test_a_writer_waits_for_another_process_no_longer_than_its_timeout(path, queue):
    child = hold(path)
    began = time.monotonic()
    with pytest.raises(DatabaseBusyError, match=r"0\.2 s"):
        queue.acquire(0.2)
    assert 0.2 <= time.monotonic() - began < 2
    with pytest.raises(DatabaseBusyError, match=" 0 s"):
        queue.acquire(0)
    told = "store: another writer, or another opening, has held the store for 1 s; wait for it"
    assert told in str(queue.busy(0.9999824839997018))
    child.say("end")
    queue.acquire(10)
    queue.release()
    assert child.end() == 0


def test_a_writer_waits_for_another_thread_no_longer_than_its_timeout(queue):
    queue.acquire(None)
    errors = []

    def work():
        try:
            queue.acquire(0.1)
        except DatabaseBusyError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert len(errors) == 1
    queue.release()
    queue.acquire(0)
    queue.release()


def test_a_wait_ends_without_the_lock_once_it_is_needless(path, queue):
    child = hold(path)
    assert not queue.acquire(10, is_needless=lambda: True)
    child.say("end")
    assert queue.acquire(10, is_needless=lambda: False)
    queue.release()
    assert child.end() == 0


def test_a_killed_writer_leaves_the_pen_to_others(path, queue):
    child = hold(path)
    child.signal(signal.SIGKILL)
    queue.acquire(5)
    queue.release()
    assert child.end() == -signal.SIGKILL


def test_a_killed_waiting_writer_gives_its_turn_back(path, queue):
    queue.acquire(1)

    def work(child):
        child.say("waiting")
        take(path, 60)

    waiting = Child(work)
    waiting.hear()
    time.sleep(0.1)
    waiting.signal(signal.SIGKILL)
    waiting.end()
    queue.release()
    assert answer_of(lambda: take(path, 5)) == "taken"


def test_an_interrupt_ends_the_wait_and_the_queue_goes_on(path, queue):
    queue.acquire(1)

    def work(child):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        waiting = WriterQueue(path)
        child.say("waiting")
        try:
            waiting.acquire(None)
        except KeyboardInterrupt:
            child.say("interrupted")
        child.hear()
        waiting.acquire(5)  # the same object works on
        waiting.release()
        child.say("written")

    child = Child(work)
    child.hear()
    time.sleep(0.1)
    child.signal(signal.SIGINT)
    assert child.hear(5) == "interrupted"
    queue.release()
    queue.acquire(5)
    queue.release()
    child.say("go on")
    assert child.hear() == "written"
    assert child.end() == 0


def test_a_bulk_writer_lets_another_process_in(path, queue):
    # The bulk writer takes the lock again at once; without the queue it would nearly always win.
    def work(child):
        for _ in range(5):
            child.say("waiting")
            child.say(take(path, 20))
            time.sleep(0.02)

    queue.acquire(20)
    child = Child(work)
    assert child.hear() == "waiting"
    queue.release()
    rounds = 0
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        queue.acquire(20)
        time.sleep(0.005)
        queue.release()
        rounds += 1
        if rounds % 20 == 0 and child.ended():
            break
    assert child.hear_all() == ["taken", *["waiting", "taken"] * 4]
    assert child.end() == 0
    assert rounds < 400


def test_a_bulk_writer_lets_other_threads_in(queue):
    taken = []

    def work():
        for _ in range(5):
            queue.acquire(20)
            taken.append(1)
            queue.release()

    thread = threading.Thread(target=work)
    thread.start()
    rounds = 0
    while thread.is_alive() and rounds < 2_000:
        queue.acquire(20)
        time.sleep(0.001)
        queue.release()
        rounds += 1
    thread.join(10)
    assert len(taken) == 5
    assert rounds < 400


def test_only_one_of_many_processes_writes_at_a_time(path, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")

    def work(child):
        queue = WriterQueue(path)
        for _ in range(40):
            queue.acquire(30)
            counter.write_text(str(int(counter.read_text()) + 1))
            queue.release()

    children = [Child(work) for _ in range(4)]
    assert [child.end() for child in children] == [0] * 4
    assert counter.read_text() == "160"


def test_a_symbolic_link_in_place_of_the_turn_is_not_followed(path, tmp_path):
    (tmp_path / "target").touch()
    (tmp_path / "store-turn").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic link"):
        WriterQueue(path)


def test_who_does_not_have_the_right_to_write_cannot_give_it_away(path, queue):
    class Writer:
        """Whoever writes."""

    writer, other = Writer(), Writer()
    queue.acquire(1, writer)
    queue.release(other)
    queue.release()
    with pytest.raises(DatabaseBusyError):
        take(path, 0.05)
    queue.release(writer)
    assert take(path, 1) == "taken"


def test_a_folder_in_place_of_a_file_is_named_and_leaves_nothing_open(tmp_path):
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        preflight.opened_file(tmp_path, os.O_RDONLY)
    assert sorted(Path("/proc/self/fd").iterdir()) == before

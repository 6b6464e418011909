"""Processes that answer are replaced when they are gone, and end when they are told to."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import simdb
from simdb.serve import Limits, messages, processes
from simdb.serve.answers import Service
from simdb.serve.application import Worker
from simdb.serve.endpoints import ENDPOINTS, Endpoint
from simdb.serve.limits import Settings
from simdb.serve.processes import FIRST_BEAT, Workers, answer, server_of
from simdb.serve.running import _bound_to
from tests.support.processes import DEVNULL, started
from tests.support.serving import Client, served

LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the children of a process in /proc"
)


def filled(path: Path, item: str = "an item") -> Path:
    with simdb.open(path, threads=1) as db:
        db.collection("notes", simdb.Text(), threshold="0.5", seed=1).add("key", item)
    return path


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_rest(pid: int) -> None:
    """Wait until a process has hardly worked for a while, as one that has started."""
    worked: list[str] = []
    for _ in range(60):
        before, fields = worked, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        worked = fields[11:13]  # hundredths of a second, its own and the system's
        if worked == before:
            return
        time.sleep(0.4)


# -- work that goes on -----------------------------------------------------------------------------


def test_neither_the_end_nor_whether_it_is_ready_waits_for_reads_that_were_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, written = threading.Event(), threading.Event()

    def late(self: Service) -> messages.State:
        """Wait."""
        return messages.State(status=str(held.wait(20)))

    def write(self: Service) -> messages.State:
        """Write slowly."""
        time.sleep(0.6)
        written.set()
        return messages.State(status="written")

    added = (Endpoint("GET", "/late", late), Endpoint("GET", "/write", write, writes=True))
    monkeypatch.setattr("simdb.serve.application.ENDPOINTS", (*ENDPOINTS, *added))
    began = time.monotonic()
    with served(filled(tmp_path / "s.simdb"), limits=Limits(seconds=0.3)) as client:
        for _ in range(2):  # as many as there are threads
            assert client.get("/late").status == 504
        assert client.get("/collections/notes").status == 504
        assert client.get("/ready").status == 200
        assert client.get("/write").status == 504
    assert written.is_set()  # what may be stored all the same is
    assert time.monotonic() - began < 15
    held.set()


HANGS = """
import time
import simdb
from simdb.cli import main
simdb.Collection.stats = lambda self: time.sleep(100)
main()
"""


def test_a_process_ends_though_a_read_that_was_given_up_goes_on(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.simdb")
    arguments = ("serve", path, "--port", 0, "--timeout", 0.3, "--json")
    process = started(sys.executable, "-c", HANGS, *arguments, stdin=DEVNULL)
    try:
        assert Client.of(process).get("/collections/notes/stats").status == 504
        process.terminate()
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0
    finally:
        process.kill()


# -- workers ---------------------------------------------------------------------------------------


def test_what_cannot_begin_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = filled(tmp_path / "s.simdb")
    server = server_of(Worker(Settings(path)))
    path.write_bytes(b"no store" * 1_000)
    with _bound_to("127.0.0.1", 0) as listener:
        assert not answer(server, listener)
    assert "Application startup failed" in capfd.readouterr().err


class _Pretended:
    """A worker without a process: it began or not, and has ended with a code or lives."""

    def __init__(self, code: int | None, *, began: bool) -> None:
        self.process = SimpleNamespace(exitcode=code, pid=1)
        self.began, self.silent = began, 100.0

    def end(self) -> None:
        self.process.exitcode = -15

    def lives(self) -> bool:
        return self.process.exitcode is None


def _left(monkeypatch: pytest.MonkeyPatch, *made: _Pretended) -> tuple[bool, int]:
    """Let two workers answer until all are made; return whether they could, how many are left."""
    waiting = list(made)

    def another(*_: object) -> _Pretended:
        if len(waiting) == 1:
            workers._end(signal.SIGTERM, None)
        return waiting.pop(0)

    monkeypatch.setattr(processes, "TICK", 0.0)
    monkeypatch.setattr(processes, "_Process", another)
    workers = Workers(2, Settings(Path("none")), socket.socket())
    return workers.answer(), len(waiting)


def test_a_worker_that_cannot_begin_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = _Pretended(None, began=True)
    busy = [_Pretended(3, began=False) for _ in range(3)]  # another writer holds the store
    last = _Pretended(None, began=False)
    assert _left(monkeypatch, lives, *busy, last) == (True, 0)
    assert lives.process.exitcode == last.process.exitcode == -15


def test_it_is_of_no_use_where_no_worker_could_ever_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = _Pretended(None, began=False)
    failed = [_Pretended(3, began=False) for _ in range(2)]
    assert _left(monkeypatch, *failed, *[starts] * 2) == (False, 2)
    # While another still starts, one that failed is no sign.
    failed = [_Pretended(3, began=False)]
    assert _left(monkeypatch, starts, *failed, _Pretended(None, began=False)) == (True, 0)
    killed = _Pretended(-9, began=False)
    lives = _Pretended(None, began=True)
    assert _left(monkeypatch, killed, lives, lives) == (True, 0)


@LINUX
def test_a_hung_worker_is_replaced_and_holds_up_no_end(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.simdb")
    arguments = ("serve", path, "--port", 0, "--workers", 2, "--timeout", 1, "--json")
    process = started(sys.executable, "-m", "simdb", *arguments, stdin=DEVNULL)
    try:
        client = Client.of(process)
        deadline = time.monotonic() + 30
        while len(children(process.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)  # the first keeps track of the resources of the others
        *others, hung = children(process.pid)
        wait_for_rest(hung)
        os.kill(hung, signal.SIGSTOP)
        deadline = time.monotonic() + 30 + FIRST_BEAT  # if it had not shown a sign of life yet
        while time.monotonic() < deadline:
            there = children(process.pid)
            if hung not in there and len(there) > len(others):  # another has taken its place
                break
            time.sleep(0.1)
        client.wait()
        os.kill(children(process.pid)[-1], signal.SIGSTOP)
        process.terminate()
        said = process.communicate(timeout=30)
        assert (process.returncode, said[0]) == (0, "")
        assert said[1] == f"worker {hung} ended (-9); another takes its place\n"
    finally:
        process.kill()


@LINUX
def test_ctrl_c_ends_workers_that_are_starting(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.simdb")
    arguments = ("serve", path, "--port", 0, "--workers", 2, "--json")
    command = (sys.executable, "-m", "simdb", *arguments)
    process = started(*command, stdin=DEVNULL, start_new_session=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 30
        while len(children(process.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)  # one of them keeps track of the resources of the others
        time.sleep(0.05)  # they import modules now
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_that_nohup_ignores_stays_ignored(number: signal.Signals) -> None:
    def handler(*_: object) -> None:
        raise AssertionError

    before = signal.signal(number, signal.SIG_IGN)
    try:
        with processes._heard(handler, number):
            is_heard = signal.getsignal(number) is handler
        assert is_heard == (number != signal.SIGHUP)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)

"""The processes that answer: one, or several that another one starts, replaces and ends.

Of uvicorn only this is relied on: ``Server.run`` with sockets, ``started``, ``should_exit``, and
that it hands on the signals which ended it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.resource_tracker import ensure_running
from types import FrameType
from typing import TypeAlias

import uvicorn

from simdb.serve.application import Worker
from simdb.serve.limits import Settings

Handler: TypeAlias = Callable[[int, FrameType | None], None]

# A connection may rest for so long. Pools of clients keep theirs for about a minute; a request that
# is sent while the service closes the connection gets no answer.
KEPT_SECONDS = 75
TICK = 0.2  # seconds between two looks at the workers
BEAT = 0.5  # seconds between two signs of life of a worker
FIRST_BEAT = 60.0  # seconds in which a worker must have shown the first one
PAUSE = 2.0  # seconds before another worker takes the place of one that could not begin
_SPAWNING = multiprocessing.get_context("spawn")
_log = logging.getLogger("simdb.serve")


def server_of(worker: Worker) -> uvicorn.Server:
    """Return what listens and speaks HTTP for a worker."""
    return uvicorn.Server(
        uvicorn.Config(
            worker.application,
            factory=True,
            log_level="warning",
            access_log=False,
            server_header=False,
            http="h11",
            ws="none",
            lifespan="on",
            proxy_headers=False,
            timeout_keep_alive=KEPT_SECONDS,
            timeout_graceful_shutdown=worker.grace,
        )
    )


def answer(server: uvicorn.Server, listener: socket.socket) -> bool:
    """Answer requests in this process until a signal; return False if it cannot begin."""

    def end(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    with _heard(end, signal.SIGHUP):
        try:
            with suppress(SystemExit):
                server.run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn completes what it answers, and hands the signal on
            return True
    return server.started


class Workers:
    """Processes that answer requests; one that dies, or shows no life, is replaced."""

    def __init__(self, number: int, settings: Settings, listener: socket.socket) -> None:
        self._settings, self._listener = settings, listener
        self._began = self._ends = self._is_forced = False
        self._workers: list[_Process] = []
        self._number = number

    def answer(self) -> bool:
        """Let them answer until a signal; return False if they cannot begin."""
        with _heard(self._end, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            try:
                for _ in range(self._number):
                    self._workers.append(self._another())
                while not self._ends:
                    time.sleep(TICK)
                    if not self._look_after():
                        return False
                return True
            finally:
                self._ends = True
                for one in self._workers:
                    one.end()
                self._listener.close()  # else connections that no worker takes wait until the end
                while living := [one for one in self._workers if one.lives()]:
                    for one in living if self._is_forced else ():
                        one.process.kill()
                    time.sleep(TICK)

    def _end(self, number: int, _: FrameType | None) -> None:
        """Begin to end; a second Ctrl-C does not wait for what is under way."""
        self._is_forced |= self._ends and number == signal.SIGINT
        self._ends = True

    def _another(self) -> _Process:
        return _Process(self._settings, self._listener)

    def _look_after(self) -> bool:
        """Replace those that are gone; return False if that is of no use: none can begin."""
        living = [one.lives() for one in self._workers]
        self._began |= any(one.began for one in self._workers)
        for place, one in enumerate(self._workers):
            code = one.process.exitcode
            if living[place] or code is None or self._ends:
                continue
            if code > 0:  # it ended by itself, as another writer may hold the store for now
                if not (self._began or any(living)):
                    return False
                if one.silent < PAUSE:
                    continue
            _log.warning("worker %s ended (%d); another takes its place", one.process.pid, code)
            with suppress(OSError):  # no memory for now
                self._workers[place] = self._another()
        return True


class _Process:
    """A worker, as the process that started it sees it.

    Attributes:
        process: it.
        began: whether it has answered requests.
        silent: for how many seconds there was no sign of life, as far as this process ran.
    """

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self.began, self.silent = False, 0.0
        # A worker that a busy machine holds up is not dead: killed, it answers nobody.
        self._longest = settings.limits.seconds + 1
        self._patience = max(self._longest, FIRST_BEAT)
        self._beats, beats = _SPAWNING.Pipe(duplex=False)
        self.process = _SPAWNING.Process(target=_work, args=(settings, listener, beats))
        ensure_running()  # else Process.start does that, and unblocks SIGINT
        # A terminal tells all processes of Ctrl-C and of its end: workers leave that to this one.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            beats.close()

    def end(self) -> None:
        """Let it end, when it has answered what is under way."""
        self._patience = self._longest  # one that starts ends at once, if it is not stopped
        self.process.terminate()

    def lives(self) -> bool:
        """Return whether it lives, a tick after the last look; kill it if it seems not to."""
        self.silent += TICK
        with suppress(EOFError, OSError):
            while self._beats.poll():
                self.began, self.silent = self._beats.recv(), 0.0
                self._patience = self._longest
        if self.silent > self._patience:
            self.process.kill()
        return self.process.is_alive()


def _work(settings: Settings, listener: socket.socket, beats: Connection) -> None:
    """Answer requests, in a process of its own, until SIGTERM or the end of who started it."""
    worker = Worker(settings)
    server = server_of(worker)
    threading.Thread(target=_show_life, args=(server, beats), daemon=True).start()
    code = 0 if answer(server, listener) else 3
    if worker.is_busy:
        os._exit(code)
    raise SystemExit(code)


def _show_life(server: uvicorn.Server, beats: Connection) -> None:
    """Say now and then whether requests are answered, while there is somebody to say it to."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    with suppress(OSError):  # it ended just now
        while parent.is_alive():
            beats.send(server.started)
            parent.join(BEAT)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _heard(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Let a handler hear signals; not SIGHUP where it is ignored, as nohup lets it be."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)

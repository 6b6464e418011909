"""A closed terminal ends a command as Ctrl-C does: nothing temporary is left."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Started, started

ROWS = b"".join(b'{"text": "a text with the number %d in it"}\n' % row for row in range(500))
PATIENCE = 60.0


@contextmanager
def deduplicating(folder: Path, **options: Any) -> Iterator[Started]:
    """Run a command that waits for more input, once its temporary files are there."""
    command = (sys.executable, "-m", "simdb", "dedupe", "-", "-o", folder / "out.jsonl")
    with started(*command, **{"stdout": None, "text": False, **options}) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(ROWS)
            process.stdin.flush()
            deadline = time.monotonic() + PATIENCE
            while not any(folder.glob(".*.part")):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert any(folder.glob(".simdb-dedupe-*"))
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM],
        pytest.param([signal.SIGINT], marks=pytest.mark.slow),
        pytest.param([signal.SIGTERM], marks=pytest.mark.slow),
    ],
    ids=lambda signals: " ".join(one.name for one in signals),
)
def test_nothing_temporary_is_left_however_often_the_end_is_told(tmp_path, signals):
    with deduplicating(tmp_path) as process:
        for number in signals:
            process.send_signal(number)
            time.sleep(0.01)
        # Python ends by the signal itself if it came within ``exec``; a shell calls that 130, too.
        assert process.wait(PATIENCE) in (130, -signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read().startswith(b"simdb: interrupted; ")
    assert list(tmp_path.iterdir()) == []


def test_nothing_temporary_is_left_when_the_terminal_itself_is_gone(tmp_path):
    terminal, inner = os.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(inner, termios.TIOCSCTTY, 0)

    with deduplicating(tmp_path, stdout=inner, stderr=inner, preexec_fn=take_terminal) as process:
        os.close(inner)
        os.close(terminal)
        assert process.wait(PATIENCE) != 0  # by a code, or by the signal where it comes very late
    assert list(tmp_path.iterdir()) == []


def test_what_was_started_to_outlive_the_terminal_does(tmp_path):
    def as_nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with deduplicating(tmp_path, preexec_fn=as_nohup) as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["out.jsonl"]

"""Child processes: forked ones have what is compiled; interpreters of their own begin anew."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
Started: TypeAlias = subprocess.Popen[Any]


class Child:
    """Runs ``work(child)`` in a forked process; both sides talk in lines.

    An exception of the work is said as a last line, ``Name: message``, and the exit code is 1.
    """

    def __init__(self, work: Callable[[Child], object]) -> None:
        from_child, to_parent = os.pipe()
        from_parent, to_child = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of numerical libraries
            self.pid = os.fork()
        self._rest = b""
        if self.pid:
            os.close(to_parent)
            os.close(from_parent)
            self._input, self._output = from_child, to_child
            return
        code = 1
        gc.freeze()  # to look through what the parent has left would copy all of its pages
        try:
            os.close(from_child)
            os.close(to_child)
            self._input, self._output = from_parent, to_parent
            work(self)
            code = 0
        except BaseException as error:  # noqa: BLE001 - the parent is told
            self.say(f"{type(error).__name__}: {error}")
        finally:
            os._exit(code)

    def say(self, line: object) -> None:
        os.write(self._output, f"{line}\n".replace("\n", " ").rstrip().encode() + b"\n")

    def hear(self, timeout: float = 30.0) -> str:
        """Return the next line, or "" when the other side has ended."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._input], [], [], deadline - time.monotonic())
            assert ready, f"nothing was heard for {timeout} s"
            data = os.read(self._input, 65_536)
            if not data:
                return ""
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()

    def hear_all(self) -> list[str]:
        """Return all lines until the other side has ended."""
        lines = []
        while line := self.hear():
            lines.append(line)
        return lines

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self) -> bool:
        """Return whether it has ended; ``end`` must still be called."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self, timeout: float = 30.0) -> int:
        """Wait for the end and return the exit code, negative for a signal."""
        deadline = time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError("the child did not end")
            time.sleep(0.002)
        os.close(self._input)
        os.close(self._output)
        return os.waitstatus_to_exitcode(status)


def answer_of(work: Callable[[], object]) -> str:
    """Return ``str(work())`` computed in a child, or ``Name: message`` of its exception."""
    child = Child(lambda child: child.say(work()))
    answer = child.hear()
    code = child.end()
    assert answer or code >= 0, f"the child was ended by signal {-code}"
    return answer


def all_answers_of(work: Callable[[Child], object]) -> list[str]:
    """Return the lines that a child says, which must end by itself."""
    child = Child(work)
    lines = child.hear_all()
    code = child.end()
    assert code == 0, (code, lines[-1:])
    return lines


def forked(
    source: str, *arguments: object, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program as ``interpreted`` does, in a fork that has what is imported and compiled."""

    def work(_: Child) -> None:
        for number, file in enumerate(said, 1):
            os.dup2(file.fileno(), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        sys.argv = ["-c", *map(str, arguments)]
        try:
            exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
            left_with = 0
        except SystemExit as error:
            left_with = int(error.code or 0)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(left_with)

    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        said = output, errors
        found = Child(work).end(60)
        texts = []
        for file in said:
            file.seek(0)
            texts.append(file.read())
    assert code in {None, found}, (found, texts[1])
    return subprocess.CompletedProcess([], found, *texts)


def as_forked(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
    """Do what ``subprocess.run`` would, if the command is an interpreter with a program."""
    program = command[command.index("-c") + 1 :]
    ended = forked(*program, code=None)
    return subprocess.CompletedProcess(
        command, ended.returncode, ended.stdout.encode(), ended.stderr.encode()
    )


def started(
    *command: object, variables: Mapping[str, str] = MappingProxyType({}), **options: Any
) -> subprocess.Popen[Any]:
    """Start a program, and let it run.

    Args:
        command: the program and its arguments.
        variables: of its environment, besides those of this process.
        options: of ``subprocess.Popen``; unless they say otherwise, it is talked with in text
            through pipes, and runs in the checkout.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    given = {**pipes, "text": True, "cwd": CHECKOUT, "env": {**os.environ, **variables}, **options}
    return subprocess.Popen([str(part) for part in command], **given)


def ended(
    *command: object, code: int | None = 0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, which must end with a code (None for any), and return what it said.

    Nothing comes from its standard input; else it is started as by ``started``.
    """
    with started(*command, **{"stdin": subprocess.DEVNULL, **options}) as process:
        try:
            said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert code in {None, process.returncode}, (process.returncode, said)
    return subprocess.CompletedProcess(process.args, process.returncode, *said)


def interpreted(
    source: str, *arguments: object, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the source of a program in an interpreter of its own, as ``ended`` does."""
    return ended(sys.executable, "-c", source, *arguments, **options)

"""Child processes for tests: forked, so that what is compiled need not be compiled again."""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Callable


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

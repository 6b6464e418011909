"""Work in forked children: they inherit what is compiled, and may die without harm."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

PATIENCE = 120.0  # seconds

Say: TypeAlias = Callable[[Any], None]


@dataclass
class Ending:
    """How a child ended.

    Attributes:
        answers: what it said, as JSON values.
        signal: what killed it, 0 if nothing did.
        error: the exception that ended it, empty if none did.
    """

    answers: list[Any]
    signal: int
    error: str

    @property
    def died(self) -> bool:
        """Whether it was killed."""
        return self.signal != 0

    @property
    def how(self) -> str:
        """How it ended, in words."""
        return signal.Signals(self.signal).name if self.signal else self.error or "well"


class Child:
    """Runs ``work(say)`` in a forked process; what it says is heard here."""

    def __init__(self, work: Callable[[Say], Any]) -> None:
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of numerical libraries
            self.pid = os.fork()
        if self.pid:
            os.close(writer)
            self._reader = reader
            self._rest = b""
            self._began = time.monotonic()
            return
        os.close(reader)
        gc.freeze()  # to look through what the parent has left would copy all of its pages

        def say(answer: object) -> None:
            # One call a line, so that what was said stays said when the child is killed.
            os.write(writer, json.dumps(answer).encode() + b"\n")

        code = 1
        try:
            work(say)
            code = 0
        except BaseException as error:  # noqa: BLE001 - the parent is told
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119
            say({"error": f"{type(error).__name__}: {error} ({where})"[:2_000]})
        finally:
            os._exit(code)

    def hear(self, timeout: float) -> Any:
        """Return the next thing said, None at the end or when the time is up."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                return None
            data = os.read(self._reader, 65_536)
            if not data:
                return None
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def end(self, patience: float = PATIENCE) -> Ending:
        """Wait for the end and return what was said since it was last listened to."""
        deadline = time.monotonic() + patience
        while select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            data = os.read(self._reader, 65_536)
            if not data:
                break
            self._rest += data
        else:
            self.kill(signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._reader)
            return Ending(_lines(self._rest), signal.SIGALRM, "")
        os.close(self._reader)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        answers = _lines(self._rest)
        error = ""
        if answers and isinstance(answers[-1], dict) and set(answers[-1]) == {"error"}:
            error = answers.pop()["error"]
        return Ending(answers, -status if status < 0 else 0, error)


def _lines(data: bytes) -> list[Any]:
    answers = []
    for line in data.split(b"\n")[:-1]:
        try:
            answers.append(json.loads(line))
        except ValueError:
            break
    return answers


def answer(work: Callable[[], Any], patience: float = PATIENCE) -> Ending:
    """Return how a child that says what ``work`` returns has ended."""
    return Child(lambda say: say(work())).end(patience)

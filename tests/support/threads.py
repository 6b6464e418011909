"""Calls on threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Call(threading.Thread):
    """A call on a thread of its own, with what it returns or raises."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.answer: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self._work()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

"""Campaigns of tools/torture.py, in a process of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.processes import CHECKOUT, started

TORTURE = CHECKOUT / "tools" / "torture.py"

PLANTED = "planted"
# Campaigns of one process, which loads everything once; each takes about as long as the others.
PROCESSES = (
    ("kill-points", "power-fail", "together", "io-errors", "names", "maintenance", PLANTED),
    (
        *("memory", "disk-full", "machine", "kill", "damage", "processes"),
        *("fuzz", "skew", "soak", "bounds", "hostile", "groups", "service"),
    ),
)
NAMES = {name for names in PROCESSES for name in names} - {PLANTED}


class Torture:
    """A process that runs campaigns.

    Args:
        folder: an empty one, for its stores and its report.
        arguments: of tools/torture.py.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._report = folder / "found.json"
        self._process = started(
            *(sys.executable, TORTURE, *arguments, "--work", folder, "--json", self._report),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children can be stopped with it
        )

    def reported(self) -> tuple[dict[str, Any], int]:
        """Wait for its end; return what it reports by the names of campaigns, and its exit code."""
        said = self._process.communicate()[0]
        assert self._report.exists(), said[-2_000:]
        return json.loads(self._report.read_text(encoding="utf-8")), self._process.returncode

    def stop(self) -> None:
        """End it early: by Ctrl-C first, so that it unmounts what it has mounted."""
        if self._process.poll() is not None:
            return
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.communicate(timeout=20)
                return

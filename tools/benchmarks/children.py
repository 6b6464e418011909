"""Measures run in processes of their own: a set number of cores, and a memory peak of their own.

A task is a function ``module:name`` that takes keyword arguments and returns a dictionary, all
of it JSON. Peak memory is read from ``/proc/self/status``: ``ru_maxrss`` would begin with what
the parent held when it started the child. Pages of the store's file that are mapped count as
resident but belong to the system's cache, so the peak of anonymous memory is sampled as well.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
SAMPLING_SECONDS = 0.01


def in_child(task: str, *, cores: int | None = None, **parameters: object) -> dict[str, Any]:
    """Run a task in a fresh interpreter on the first ``cores`` cores (all if None).

    Returns:
        what the task returned; ``{"absent": library}`` where an optional library is missing.

    Raises:
        RuntimeError: the task failed; its standard error was passed on.
    """
    available = sorted(os.sched_getaffinity(0))
    chosen = available if cores is None else available[:cores]
    threads = str(len(chosen))
    settings = dict.fromkeys(
        ("RAYON_NUM_THREADS", "LANCE_CPU_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
        threads,
    )
    completed = subprocess.run(
        [sys.executable, "-m", "tools.benchmarks.children", task],
        input=json.dumps({"cores": chosen, "parameters": parameters}),
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, **settings},
        check=False,
    )
    if completed.returncode:
        raise RuntimeError(f"{task} failed with exit code {completed.returncode}")
    answer: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return answer


def memory_status(field: str, process: int | str = "self") -> int:
    """Return a field of ``/proc/PROCESS/status``, such as VmHWM or RssAnon, in bytes.

    0 of a process that has ended.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in status.splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    return 0


@contextlib.contextmanager
def memory_watched() -> Iterator[dict[str, int]]:
    """Sample anonymous memory while the block runs.

    Yields:
        a dictionary that has ``before``, ``peak`` (both anonymous) and ``peak_resident`` (with
        mapped pages, since the start of the process), in bytes, when the block has ended.
    """
    report = {"before": memory_status("RssAnon")}
    report["peak"] = report["before"]
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLING_SECONDS):
            report["peak"] = max(report["peak"], memory_status("RssAnon"))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield report
    finally:
        ended.set()
        sampler.join()
        report["peak"] = max(report["peak"], memory_status("RssAnon"))
        report["peak_resident"] = memory_status("VmHWM")


def main() -> None:
    """Carry out the task that the command line names, with parameters from standard input."""
    request = json.loads(sys.stdin.read())
    os.sched_setaffinity(0, request["cores"])
    module, _, name = sys.argv[1].partition(":")
    try:
        answer = getattr(importlib.import_module(module), name)(**request["parameters"])
    except ModuleNotFoundError as error:
        if str(error.name).startswith(("simdb", "tools", "None")):
            raise
        answer = {"absent": error.name}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()

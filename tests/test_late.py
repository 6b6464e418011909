"""What one thread imports or computes late holds nothing in a child that another thread forks."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import pytest

from simdb import late
from simdb.errors import UsageError
from tests.support.processes import ended

FORK = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
begun = threading.Event()
{prepare}
thread = threading.Thread(target=call)
thread.start()
begun.wait()
time.sleep({delay})
child = os.fork()
if not child:
    call()
    os._exit(0)
deadline = time.monotonic() + 10
while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
    if time.monotonic() > deadline:
        os.kill(child, 9)
        sys.exit("the child hangs")
    time.sleep(0.01)
thread.join()
assert ended[1] == 0, ended
"""
COMPUTED = """
from simdb.late import cached_property

class Slow:
    @cached_property
    def value(self):
        begun.set()
        time.sleep(0.1)
        return 7

def call():
    slow = Slow()
    assert (slow.value, slow.value, vars(slow)) == (7, 7, {"value": 7})
"""
IMPORTED = """
sys.begun = begun
import package

def call():
    assert package.slow.VALUE == 7
"""
FIRST_USE = """
import simdb

def call():
    begun.set()
    with simdb.open(f"{os.getpid()}.simdb", threads=2) as database:
        collection = database.collection("texts", simdb.Text(), threshold=0.5)
        collection.add_many((number, f"text {number} of words") for number in range(300))
        assert collection.search_many(["text 7 of words"] * 20)[0][0].key == 7
"""


@pytest.mark.parametrize(
    ("prepare", "delay"),
    [
        (COMPUTED, 0),
        (IMPORTED, 0),
        # What Python and other libraries import within calls is left to chance.
        *(
            pytest.param(FIRST_USE, delay, marks=pytest.mark.slow)
            for delay in (0.001, 0.003, 0.01, 0.03, 0.06, 0.12)
        ),
    ],
)
def test_a_child_that_is_forked_meanwhile_does_not_hang(
    tmp_path: Path, prepare: str, delay: float
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from simdb import late\n__getattr__ = late.modules_of(__name__, ['slow'])\n"
    )
    (package / "slow.py").write_text(
        "import sys, time\nsys.begun.set()\ntime.sleep(0.1)\nVALUE = 7\n"
    )
    assert (
        ended(sys.executable, "-c", FORK.format(prepare=prepare, delay=delay), cwd=tmp_path).stderr
        == ""
    )


def test_an_import_waits_for_a_fork_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    threads = [
        threading.Thread(target=lambda: done.append(late.module("json").__name__)) for _ in range(2)
    ]
    another = -1
    late._forking.append(another)
    try:
        threads[0].start()
        threads[0].join(0.05)
        assert done == []
        late._forking.clear()
        threads[0].join(10)
        assert done == ["json"]
        late._forking.append(another)
        monkeypatch.setattr(late, "LONGEST_WAIT", 0.05)
        threads[1].start()
        threads[1].join(10)
        assert done == ["json"] * 2
    finally:
        late._forking.clear()
    assert late._importing == []


def test_a_handler_that_needs_what_it_interrupts_the_import_of_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "half_imported"
    (tmp_path / f"{name}.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGUSR1)\nA = 7"
    )
    monkeypatch.syspath_prepend(tmp_path)
    told: list[str] = []

    def handler(*_: object) -> None:
        with pytest.raises(UsageError) as caught:
            late.module(name)
        told.append(str(caught.value))

    usual = signal.signal(signal.SIGUSR1, handler)
    try:
        assert late.module(name).A == 7
    finally:
        signal.signal(signal.SIGUSR1, usual)
        sys.modules.pop(name, None)
    assert len(told) == 1
    assert "a handler of signals used simdb" in told[0]
    assert late._importing == []

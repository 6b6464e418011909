"""Two processes of one number, as in two containers: the second is told why it may not come in."""

# mypy: allow-untyped-calls

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import lmdb
import pytest

import simdb
from simdb.errors import DatabaseBusyError
from simdb.storage.file import errors as file_errors
from tests.support.processes import Child, ended, started

TOLD = "processes of different PID namespaces.*may not share a store"

HOLD = """
import os, sys, simdb
with simdb.open(sys.argv[1], threads=1) as database:
    database.collection_names()
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""
OPEN = """
import os, sys, simdb
try:
    simdb.open(sys.argv[1], threads=1)
    print(os.getpid(), "opened")
except simdb.DatabaseBusyError as error:
    print(os.getpid(), error)
"""


def namespaced(*arguments: object) -> list[str]:
    return ["unshare", "--pid", "--fork", sys.executable, "-c", *map(str, arguments)]


def has_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return not ended(*namespaced("pass"), code=None).returncode


@pytest.mark.parametrize("read_only", [False, True])
def test_a_number_that_another_reader_has_is_told_at_opening(path, read_only):
    simdb.open(path).close()
    number = os.getpid()

    def hold(child: Child) -> None:
        # LMDB marks the number of a process that reads by a lock on that byte of the lock file.
        with Path(f"{path}-lock").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            child.say("held")
            child.hear()

    child = Child(hold)
    assert child.hear() == "held"
    with pytest.raises(DatabaseBusyError, match=f"number, {number}, .*{TOLD}"):
        simdb.open(path, read_only=read_only)
    child.say("end")
    assert child.end() == 0
    with simdb.open(path, read_only=read_only) as database:
        assert database.collection_names() == []


@pytest.mark.skipif(not has_namespaces(), reason="needs the right to make PID namespaces")
def test_the_second_of_two_containers_with_one_number_is_told_why(path):
    simdb.open(path).close()
    with started(*namespaced(HOLD, path)) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        number = holder.stdout.readline().strip()
        second = ended(*namespaced(OPEN, path))
        holder.stdin.close()
    if second.stdout.split()[0] != number:
        pytest.skip("the namespaces gave different numbers")
    assert "PID namespaces" in second.stdout


def test_only_lmdb_itself_says_it_so(path):
    refused: Any = lmdb.LockError("m")
    refused.code = errno.EAGAIN
    with pytest.raises(DatabaseBusyError, match=TOLD), file_errors.translated(path):
        raise refused
    with pytest.raises(simdb.StorageError) as raised, file_errors.translated(path):
        raise BlockingIOError(errno.EAGAIN, "again")
    assert type(raised.value) is simdb.StorageError

"""Compiled kernels that cannot be kept on the disk, or come back damaged, are compiled anew."""

# mypy: allow-untyped-calls, disable-error-code="attr-defined"

from __future__ import annotations

import os
import sys

import numba
import pytest
from numba.core.caching import FunctionCache

from simdb.kernels import compiling
from tests.support.processes import CHECKOUT, ended, forked

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")

PROGRAM = """
from simdb.kernels.compiler import kernel

@kernel
def double(number):
    return 2 * number

LIMIT
print(double(21), double.compiled.stats.cache_hits and "kept")
"""


@pytest.fixture
def run(tmp_path):
    """Run the program with a cache in a folder of its own, perhaps under a limit."""
    folder, program = tmp_path / "cache", tmp_path / "program.py"

    def write(limit=""):
        program.write_text(PROGRAM.replace("LIMIT", limit))
        os.utime(program, (1_000_000_000, 1_000_000_000))  # numba goes by it

    def run(limit=""):
        write(limit)
        variables = {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(CHECKOUT)}
        done = ended(sys.executable, program, variables=variables)
        return done.stdout, done.stderr

    def in_a_fork():
        """Run it where numba is loaded, without a limit."""
        write()
        source = "import numba, runpy, sys; numba.config.CACHE_DIR = sys.argv[2]; "
        done = forked(f"{source}runpy.run_path(sys.argv[1])", program, folder)
        return done.stdout, done.stderr

    run.folder, run.in_a_fork = folder, in_a_fork
    return run


def test_a_cache_that_was_cut_short_is_made_anew(run):
    numba.njit(lambda number: number)(1)  # what compiling needs is there in each fork
    run.in_a_fork()
    for kind, size in (("nbi", 10), ("nbc", 100)):
        for file in run.folder.rglob(f"*.{kind}"):
            os.truncate(file, size)
        assert run.in_a_fork() == ("42 Counter()\n", "")
    assert "kept" in run.in_a_fork()[0]


def test_kernels_that_cannot_be_kept_are_compiled_in_memory_and_that_is_said(run):
    out, told = run("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))")
    assert out.startswith("42 ")
    assert "compiles them in memory" in told
    assert "NUMBA_CACHE_DIR" in told


def test_the_deadline_of_a_signal_handler_is_no_error_of_the_cache(monkeypatch):
    def over(*_):
        raise TimeoutError("my deadline")

    cache = compiling._Cache.__new__(compiling._Cache)
    for name in ("load_overload", "save_overload"):
        monkeypatch.setattr(FunctionCache, name, over)
        with pytest.raises(TimeoutError, match="my deadline"):
            getattr(cache, name)(None, None)

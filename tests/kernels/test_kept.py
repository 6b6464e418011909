"""Kernels that are kept as shared libraries: for exactly their types, and only while whole."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from simdb import kernels, late
from simdb.errors import MissingExtraError
from simdb.kernels import kept
from simdb.kernels.compiler import IS_INTERPRETED
from tests.support.processes import interpreted

pytestmark = pytest.mark.skipif(IS_INTERPRETED, reason="nothing is compiled")
HAS_GIL = "t" not in sys.abiflags
if not (sys.platform == "linux" and platform.machine() == "x86_64" and HAS_GIL):
    pytest.skip("nothing is kept on this machine", allow_module_level=True)

DATA = np.arange(300, dtype=np.uint8)
BEGINS, ENDS = np.array([0, 17], np.int64), np.array([5, 300], np.int64)
SEEDS = np.array([3, 2**64 - 1], np.uint64)


def kept_of(kernel: Any, *arguments: Any) -> Any:
    """The library that serves the arguments, compiled first where nobody did."""
    kernel(*arguments)
    (found,) = [
        one
        for one in kernel.variants
        if isinstance(one, type(len)) and one(*arguments) is not NotImplemented
    ]
    return found


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder of kept kernels of its own."""
    kernels.checksums.checksums(DATA, BEGINS, ENDS, SEEDS)  # loaded from where it is kept
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    yield tmp_path / "simdb"
    kept._present.cache_clear()


@pytest.mark.parametrize(
    "other",
    [
        (DATA.astype(np.uint16), BEGINS, ENDS, SEEDS),
        (DATA[::2], BEGINS, ENDS, SEEDS),
        (DATA.reshape(2, 150), BEGINS, ENDS, SEEDS),
        (np.broadcast_to(np.uint8(1), 300), BEGINS, ENDS, SEEDS),
        (DATA, BEGINS, ENDS, SEEDS.byteswap().view(SEEDS.dtype.newbyteorder())),
        (DATA, BEGINS.tolist(), ENDS, SEEDS),
        (DATA, None, ENDS, SEEDS),
        (DATA, BEGINS, ENDS),
    ],
)
def test_a_kept_kernel_is_for_exactly_its_types(other):
    checksums = kept_of(kernels.checksums.checksums, DATA, BEGINS, ENDS, SEEDS)
    assert checksums(*other) is NotImplemented


def test_what_is_only_read_may_be_such_as_must_not_be_written():
    checksums = kept_of(kernels.checksums.checksums, DATA, BEGINS, ENDS, SEEDS)
    sealed = DATA.copy()
    sealed.flags.writeable = False
    assert (checksums(sealed, BEGINS, ENDS, SEEDS) == checksums(DATA, BEGINS, ENDS, SEEDS)).all()
    keys, offsets = np.array([3, 1, 2], np.uint64), np.array([0, 3])
    sort = kept_of(kernels.order.sort_sets, keys, offsets, np.uint64(0))
    keys.flags.writeable = False
    assert sort(keys, offsets, np.uint64(0)) is NotImplemented


def test_nothing_is_compiled_for_arrays_with_gaps_or_of_subclasses(tmp_path):
    checksums = kernels.checksums.checksums
    expected = checksums(DATA, BEGINS, ENDS, SEEDS).tolist()
    known = checksums.variants  # type: ignore[attr-defined]
    mapped = np.memmap(tmp_path / "data", np.uint8, "w+", shape=DATA.shape)
    mapped[:] = DATA
    pickled = DATA.view(np.dtype(np.uint8, copy=True))  # as pickling makes it
    assert pickled.dtype is not DATA.dtype
    for data in (DATA.repeat(3)[::3], mapped, pickled):
        assert checksums(data, BEGINS, ENDS, SEEDS).tolist() == expected
    wide = np.array([3, 0, 1, 0, 2, 0], np.uint64)
    kernels.order.sort_sets(wide[::2], np.array([0, 3]), np.uint64(0))
    assert wide.tolist() == [1, 0, 2, 0, 3, 0]  # what is written comes back
    assert checksums.variants == known  # type: ignore[attr-defined]


def test_without_numba_what_is_not_compiled_is_told(monkeypatch):
    kernels.checksums.checksums(DATA, BEGINS, ENDS, SEEDS)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "simdb.kernels.compiling", raising=False)
    monkeypatch.delattr(kernels, "compiling", raising=False)
    with pytest.raises(MissingExtraError, match=r"'checksums\.checksums'.*simdb-store\[compile\]"):
        kernels.checksums.checksums(DATA.astype(np.uint16), BEGINS, ENDS, SEEDS)
    kernels.checksums.checksums(DATA, BEGINS, ENDS, SEEDS)


def test_what_is_read_and_overlaps_what_is_written_does_not_undo_it():
    parents = np.arange(8, dtype=np.uint32)
    kernels.forest.connect(parents, parents[::2], np.zeros(4, np.uint32))
    assert parents.tolist() == [0, 1, 0, 3, 0, 5, 0, 7]


def test_arrays_that_are_not_aligned_are_copied():
    keys = np.ndarray((3,), np.uint64, bytearray(25), 1)
    keys[:] = [3, 1, 2]
    kernels.order.sort_sets(keys, np.array([0, 3]), np.uint64(0))
    assert keys.tolist() == [1, 2, 3]


UNKNOWN = """
import pathlib
import sys

import numpy as np

from simdb import kernels, late
from simdb.kernels import kept

kept._CPU_INFO = pathlib.Path(sys.argv[1])
parents = np.arange(3, dtype=np.uint32)
kernels.forest.connect(parents, parents[1:2], parents[2:])
print(kept.fingerprint(), parents.tolist())
"""


@pytest.mark.heavy
def test_kernels_run_where_it_is_not_known_what_the_processor_is(tmp_path):
    said = interpreted(UNKNOWN, tmp_path / "none", variables={"NUMBA_CACHE_DIR": str(tmp_path)})
    assert said.stdout == "None [0, 1, 1]\n"


@pytest.mark.parametrize(
    ("without", "chosen", "is_level"),
    [("", "", True), ("fma", "", False), ("abm", "", False), ("", "znver4", False)],
)
def test_code_is_for_all_processors_of_the_level_or_for_one(
    monkeypatch, tmp_path, without, chosen, is_level
):
    features = " ".join({*kept._FEATURES_OF_LEVEL, "sse2"} - {without})
    (tmp_path / "cpuinfo").write_text(f"model name : A\nflags : {features}\n\nmodel name : B\n")
    monkeypatch.setattr(kept, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setenv("NUMBA_CPU_NAME", chosen)
    kept.processors.cache_clear()
    try:
        assert (kept.processors() == kept.LEVEL) == is_level
        kept.processors.cache_clear()
        monkeypatch.setattr(kept, "find_spec", lambda _: None)  # what is chosen is for numba
        assert (kept.processors() == kept.LEVEL) == (is_level or bool(chosen))
    finally:
        kept.processors.cache_clear()


def test_what_a_wheel_brought_is_found_first(monkeypatch, folder, tmp_path):
    given = DATA, BEGINS, ENDS, SEEDS
    kernels.checksums.checksums(*given)
    (whole,) = Path(kernels.__path__[0], "__pycache__").glob(
        f"checksums.checksums-{kept.fingerprint()}-*"
    )
    brought = tmp_path / "compiled"
    brought.mkdir()
    shutil.copy(whole, brought)
    assert not kept.find("checksums.checksums")
    monkeypatch.setattr(kept, "_BROUGHT", brought)
    (found,) = kept.find("checksums.checksums")
    assert (found(*given) == kernels.checksums.checksums(*given)).all()


def test_it_answers_as_its_twin_does_and_its_arrays_are_ordinary():
    checksums = kept_of(kernels.checksums.checksums, DATA, BEGINS, ENDS, SEEDS)
    found = checksums(DATA, BEGINS, ENDS, SEEDS)
    assert found.tolist() == [
        xxh3_64_intdigest(bytes(DATA[begin:end]), int(seed))
        for begin, end, seed in zip(BEGINS, ENDS, SEEDS, strict=True)
    ]
    assert found.dtype == np.uint64
    assert found.flags.writeable
    assert found.flags.aligned
    part = found[1:]
    del found
    gc.collect()
    assert part[0] == xxh3_64_intdigest(bytes(DATA[17:]), 2**64 - 1)  # the memory is the view's too


@pytest.mark.parametrize(("size", "lets_go"), [(300, False), (2**26, True)])
def test_the_lock_of_the_interpreter_is_let_go_for_what_is_not_small(size, lets_go):
    data = np.zeros(size, np.uint8)
    arguments = data, np.zeros(1, np.int64), np.array([size]), SEEDS[:1]
    checksums = kept_of(kernels.checksums.checksums, *arguments)
    turns, done = [0], threading.Event()

    def take_turns():
        while not done.is_set():
            turns[0] += 1
            time.sleep(0)  # waits for the lock, which nobody takes away for so long

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    other = threading.Thread(target=take_turns)
    try:
        other.start()
        begun = turns[0]
        for _ in range(20):  # with much data, each takes longer than waking a thread does
            checksums(*arguments)
        ended = turns[0]
    finally:
        sys.setswitchinterval(interval)
        done.set()
        other.join()
    assert (ended > begun) == lets_go


def test_numbers_are_those_of_python_and_of_numpy_and_no_larger_ones():
    signatures = np.arange(12, dtype=np.uint16).reshape(1, 12)
    key = np.uint64(12345)
    keys = kept_of(kernels.sketches.bucket_keys, signatures, 3, key, key)
    found = keys(signatures, 3, key, key)
    assert (keys(signatures, np.int64(3), key, key) == found).all()
    for bands in (2**63, 3.0, True, np.int32(3), "3"):
        assert keys(signatures, bands, key, key) is NotImplemented
    for base in (12345, np.int64(12345)):
        assert keys(signatures, 3, base, key) is NotImplemented


def test_what_is_damaged_is_not_loaded_and_what_is_of_other_sources_is_removed(folder):
    kept_of(kernels.checksums.checksums, DATA, BEGINS, ENDS, SEEDS)
    mark = kept.fingerprint()
    assert mark is not None
    given = DATA, BEGINS, ENDS, SEEDS
    (whole,) = (
        path
        for path in Path(kernels.__path__[0], "__pycache__").glob(f"checksums.checksums-{mark}-*")
        if kept._load(path)[0](*given) is not NotImplemented
    )
    folder.mkdir()
    shutil.copy(whole, folder)
    kept._present.cache_clear()
    assert len(kept.find("checksums.checksums")) == 1
    contents = bytearray(whole.read_bytes())
    for damaged in (contents[:-9], contents[: len(contents) // 2], b""):
        (folder / whole.name).write_bytes(damaged)
        assert not kept.find("checksums.checksums")
    contents[5000] ^= 1
    (folder / whole.name).write_bytes(contents)
    assert not kept.find("checksums.checksums")

    older = folder / f"checksums.checksums-{mark.rpartition('-')[0]}-{'0' * 16}-1.so"
    of_another = folder / f"checksums.checksum-{mark.rpartition('-')[0]}-{'0' * 16}-1.so"
    older.touch(), of_another.touch()
    contents[5000] ^= 1
    size = kept._TAIL.unpack(contents[-kept._TAIL.size :])[0]
    library = bytes(contents[: -kept._TAIL.size - size])
    named = ["numpy.dtype:uint8", "numpy.dtype:int64", "numpy.dtype:uint64"]
    (again,) = kept.keep("checksums.checksums", "types", library, named)
    assert (again(*given) == kernels.checksums.checksums(*given)).all()
    assert not older.exists()
    assert of_another.exists()
    assert sorted(path.suffix for path in folder.iterdir()) == [".so", ".so", ".so"]


def test_arguments_are_given_back_by_reference():
    """Not a copy, and not freed twice: a kernel that returns what it was given."""
    references = sys.getrefcount(DATA)
    for _ in range(3):
        kernels.checksums.checksums(DATA, BEGINS, ENDS, SEEDS)
    assert sys.getrefcount(DATA) == references


def test_what_cannot_be_kept_or_run_where_it_is_kept_is_run_from_memory(monkeypatch, tmp_path):
    given = DATA, BEGINS, ENDS, SEEDS
    expected = kernels.checksums.checksums(*given).tolist()
    (whole,) = (
        path.read_bytes()
        for folder in kept._folders()
        for path in folder.glob(f"checksums.checksums-{kept.fingerprint()}-*")
        if kept._load(path)[0](*given) is not NotImplemented
    )
    for _ in range(2):  # two libraries under one number of a file
        (found,) = kept._loaded_from_memory("checksums.checksums", whole)
        assert found(*given).tolist() == expected
    assert not kept._loaded_from_memory("checksums.checksums", whole[:-1])

    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file))
    size = kept._TAIL.unpack(whole[-kept._TAIL.size :])[0]
    library, named = whole[: -kept._TAIL.size - size], whole[-kept._TAIL.size - size :]
    names = json.loads(named[: -kept._TAIL.size])
    kept.tell_not_kept.cache_clear()
    with pytest.warns(RuntimeWarning, match=f"cannot be kept in {file}/simdb .*NUMBA_CACHE_DIR"):
        (found,) = kept.keep("checksums.checksums", "types", library, names)
    assert found(*given).tolist() == expected


@pytest.mark.parametrize(
    ("reading", "call"),
    [
        ((Path, "iterdir"), lambda: kept.find("checksums.checksums")),
        ((Path, "read_bytes"), lambda: kept.find("checksums.checksums")),
        ((ctypes, "CDLL"), lambda: kept.find("checksums.checksums")),
        ((Path, "open"), kept.processors.__wrapped__),
        ((Path, "read_bytes"), kept.fingerprint.__wrapped__),
        ((Path, "mkdir"), lambda: kept.keep("checksums.checksums", "types", b"", [])),
        ((os, "memfd_create"), lambda: kept._loaded_from_memory("", b"")),
        ((late, "module"), lambda: kernels.__getattr__("bits")),
    ],
)
def test_the_deadline_of_a_signal_handler_is_no_error_of_the_system(monkeypatch, reading, call):
    def over(*_: object, **__: object) -> None:
        raise TimeoutError("my deadline")

    kernels.checksums.checksums(DATA, BEGINS, ENDS, SEEDS)  # is kept now
    kept._present.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(*reading, over)
        with pytest.raises(TimeoutError, match="my deadline"):
            call()
    assert kept.find("checksums.checksums")  # nothing remembers that

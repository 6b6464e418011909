"""What SECURITY.md and docs/reliability.md promise about hostile input and long readers."""

from __future__ import annotations

import ast
import gzip
import io
import os
import re
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb import zstandard
from simdb.errors import BadItemError, StorageError
from simdb.files import compression, open_rows
from simdb.files.jsonl import JsonLinesReader
from simdb.files.rows import ReadingOptions
from tests.support.campaigns import NAMES as CAMPAIGNS
from tests.support.processes import answer_of
from tests.support.sources import nodes_of

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "simdb").rglob("*.py"))
WORDS = simdb.Text(simdb.WordShingles(1))
PATHS = ("../outside", "/tmp/simdb-outside", "..", "a/b", "~", "$HOME", "file:///etc/passwd")
MIB = 2**20

# Modules that run what they read, and calls that do.
EXECUTING_MODULES = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "code", "runpy"}
EXECUTING_CALLS = {"eval", "exec", "compile", "__import__"}


def nodes(words: set[str]) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node of the modules in which one of the words stands."""
    for source in SOURCES:
        text = source.read_text(encoding="utf-8")
        if any(word in text for word in words):
            for node in nodes_of(source):
                yield source.relative_to(ROOT).as_posix(), node


# -- nothing is executed ---------------------------------------------------------------------------


def test_no_module_imports_what_unpickles_or_executes():
    words = rf"^\s*(import|from)\b.*\b({'|'.join(sorted(EXECUTING_MODULES))})\b"
    pickling = ROOT / "tests" / "serve" / "test_serve.py"
    imported = set()
    for source in [*SOURCES, pickling]:
        if re.search(words, source.read_text(encoding="utf-8"), re.MULTILINE):
            for node in nodes_of(source):
                if isinstance(node, ast.Import):
                    imported |= {(source, name.name.split(".")[0]) for name in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    imported.add((source, node.module.split(".")[0]))
    assert [pair for pair in imported if pair[1] in EXECUTING_MODULES] == [(pickling, "pickle")]


def test_no_module_calls_what_executes():
    called = [
        (source, node.func.id)
        for source, node in nodes({f"{name}(" for name in EXECUTING_CALLS})
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert called
    assert [pair for pair in called if pair[1] in EXECUTING_CALLS] == []


def test_arrays_are_always_loaded_without_pickles():
    loads = [
        node
        for _, node in nodes({"np.load("})
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.load"
    ]
    assert len(loads) == 3
    for node in loads:
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        assert given["allow_pickle"] == "False"


class _Harmful:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_pickle_in_an_array_is_refused_and_not_run(tmp_path, name):
    trace = tmp_path / "trace"
    harmful = np.array([[_Harmful(trace)]], dtype=object)
    save = np.save if name == "a.npy" else np.savez
    with (tmp_path / name).open("wb") as file:
        save(file, harmful, allow_pickle=True)
    loaded: Any = np.load(tmp_path / name, allow_pickle=True)
    assert loaded[()] is not None if name == "a.npy" else loaded["arr_0"] is not None
    trace.unlink()  # so it would be harmful
    options = ReadingOptions(kind=simdb.Vector(2))
    with pytest.raises(BadItemError), open_rows(str(tmp_path / name), options) as reader:
        list(reader)
    assert not trace.exists()


# -- no path comes from data -----------------------------------------------------------------------


def test_names_keys_and_metadata_that_look_like_paths_name_no_file(tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    path = folder / "s.simdb"
    with simdb.open(path, threads=1) as database:
        for name in PATHS:
            collection = database.collection(name, WORDS, threshold=0.8, exact_floor=0.7)
            collection.add_many((key, f"text {key}", {key: key}) for key in PATHS)
            collection.compact()
        database.backup(folder / "copy")
    report = simdb.repair(path, folder / "new", threads=1)
    assert report.complete
    assert {found.name for found in report.collections} == set(PATHS)
    files = {file.name for file in folder.iterdir()}
    assert files == {"s.simdb", "s.simdb-lock", "s.simdb-turn", "copy", "new"}
    assert list(tmp_path.iterdir()) == [folder]
    assert not Path("/tmp/simdb-outside").exists()


# -- sizes are bounded before they are decoded -----------------------------------------------------


def _packed(suffix: str, content: bytes) -> bytes:
    if suffix == ".gz":
        return gzip.compress(content, 1)
    packed: bytes = zstandard.library().compress(content, 1)
    return packed


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_line_that_unpacks_to_far_more_than_the_limit_takes_no_more_memory(tmp_path, suffix):
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(_packed(suffix, b'"' * (48 * MIB) + b'\n{"text": "after it"}\n'))
    assert path.stat().st_size < MIB
    with compression.InputStream(str(path)) as stream:
        tracemalloc.start()
        rows = list(JsonLinesReader(stream, ReadingOptions(longest=MIB)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert [row.problem is None for row in rows] == [False, True]
    assert rows[1].item == "after it"
    assert peak < 16 * MIB


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_an_array_that_unpacks_to_far_more_than_its_file_takes_no_memory(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, rows=np.zeros((2**19, 32), dtype=np.float32))
    assert path.stat().st_size < MIB

    def take() -> bool:
        """Return how many pages of its own, not of files, the process took."""

        def pages() -> int:
            resident, shared = Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3]
            return int(resident) - int(shared)

        before = pages()
        with open_rows(str(path), ReadingOptions(kind=simdb.Vector(2))) as reader:
            rows = iter(reader)
            assert [next(rows).key for _ in range(1_000)] == list(range(1, 1_001))
            assert reader.bytes_total == 2**26
            return (pages() - before) * os.sysconf("SC_PAGE_SIZE") < 32 * MIB

    assert answer_of(take) == "True"


def test_temporary_files_of_arrays_are_gone_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    np.savez(tmp_path / "a.npz", rows=np.ones((3, 2)), names=np.array(["a", "b", "c"]))
    options = ReadingOptions(("rows",), "names", kind=simdb.Vector(2))
    with open_rows(str(tmp_path / "a.npz"), options) as reader:
        rows = iter(reader)
        assert next(rows).key == "a"
        assert not list((tmp_path / "temporary").iterdir())
        assert [row.key for row in rows] == ["b", "c"]


# -- repair is never in place ----------------------------------------------------------------------


@pytest.mark.parametrize("other", ["itself", "symbolic", "hard"])
def test_repair_writes_neither_to_the_damaged_file_nor_to_another_name_of_it(tmp_path, other):
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1) as database:
        database.collection("c", WORDS).add("a", "some text")
    target = path
    if other == "symbolic":
        target = tmp_path / "link"
        target.symlink_to(path)
    elif other == "hard":
        target = tmp_path / "link"
        target.hardlink_to(path)
    content = path.read_bytes()
    with pytest.raises(StorageError, match="already exists; name a new file"):
        simdb.repair(path, target, threads=1)
    assert path.read_bytes() == content
    assert simdb.repair(path, tmp_path / "new", threads=1).complete
    assert path.read_bytes() == content


# -- a long reader is reported ---------------------------------------------------------------------


def test_stats_tell_how_many_commits_old_the_oldest_snapshot_is(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        collection = database.collection("c", WORDS)
        assert database.stats()["store"]["oldest_snapshot_commits"] == 0
        with database.snapshot() as state:
            before = database.stats()["store"]["commits"]
            for number in range(5):
                collection.add(number, f"text {number}")
            store = database.stats()["store"]
            assert store["snapshots"] == 1
            assert store["oldest_snapshot_commits"] == store["commits"] - before == 5
            assert len(state["c"]) == 0
        assert database.stats()["store"]["snapshots"] == 0


# -- the document ----------------------------------------------------------------------------------


def promises() -> list[tuple[str, str]]:
    """Return number and evidence of every row of the table of promises."""
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (\d+)\. .* \| (.*) \|$", text, re.MULTILINE)


def test_every_promise_names_campaigns_and_tests_that_exist():
    assert [int(number) for number, _ in promises()] == list(range(1, 12))
    for number, evidence in promises():
        named = re.findall(r"`([^`]+)`", evidence)
        assert named, number
        for name in named:
            assert name in CAMPAIGNS or (ROOT / name).exists(), (number, name)


def test_an_array_that_is_cut_short_is_refused_whatever_it_promises(tmp_path):
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**10)}
    np.lib.format.write_array_header_1_0(stream, header)
    path = tmp_path / "a.npy"
    path.write_bytes(stream.getvalue() + bytes(4_096))
    options = ReadingOptions(kind=simdb.Vector(2))
    with pytest.raises(BadItemError), open_rows(str(path), options) as reader:
        list(reader)

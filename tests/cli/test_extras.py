"""What needs a library that is not installed says so before it begins, and leaves nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.cli import failures
from simdb.errors import MissingExtraError
from simdb.extras import of_extra, optional, require
from tests.support.commands import done, failed, run, write_rows

ROWS = [{"id": "a", "text": "one two three four"}, {"id": "b", "text": "one two three four!"}]
PEOPLE = [{"id": 1, "name": "Ann Lee", "city": "York"}, {"id": 2, "name": "Bob Ray", "city": "Ely"}]


@pytest.mark.parametrize(
    "words",
    [
        ("link", "ROWS", "ROWS", "-o", "OUT"),
        ("link", "ROWS", "ROWS", "-o", "OUT", "--one-to-one", "--threshold", "0.8"),
        ("dedupe", "ROWS", "-o", "OUT", "--kind", "record", "--id-field", "id"),
        ("tune", "ROWS", "--text-field", "text", "--ask", "3"),
    ],
    ids=" ".join,
)
def test_commands_that_need_scipy_say_so_and_read_nothing(tmp_path, monkeypatch, words):
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    monkeypatch.setitem(sys.modules, "scipy", None)
    places = {"ROWS": rows, "OUT": tmp_path / "out.jsonl"}
    said = run(*(places.get(word, word) for word in words)).stderr
    assert 'needs the statistics extra: pip install "simdb-store[statistics]"' in said
    assert said.count("\n") == 1  # nothing was told before
    assert list(tmp_path.iterdir()) == [rows]


TABLES = [
    ("search", "no.simdb", "c", "--text", "one", "-o", "out.parquet"),
    ("pairs", "no.simdb", "c", "-o", "out.arrow"),
    ("join", "no.simdb", "c", "d", "-o", "out.feather"),
    ("groups", "no.simdb", "c", "-o", "out.parquet"),
    ("score", "no.simdb", "c", "rows.jsonl", "-o", "out.parquet"),
    ("export", "no.simdb", "c", "-o", "out.parquet"),
    ("link", "rows.jsonl", "rows.jsonl", "--threshold", "0.8", "-o", "out.parquet"),
]
PICTURES = [
    ("learn", "no.simdb", "c", "--pair", "a", "b", "-o", "out.json", "--plot", "PLOT"),
    ("plan", "--recall", "2", "--plot", "PLOT"),
]
WITHOUT_FOLDERS = [
    ("pairs", "no.simdb", "c", "-o", "none/out.jsonl"),
    ("groups", "no.simdb", "c", "--method", "star", "--state", "none/out.state"),
    ("report", "no.simdb", "c", "-o", "none/out.html"),
    ("learn", "no.simdb", "c", "-o", "none/out.json"),
    ("tune", "no.jsonl", "--report", "none/out.html"),
    ("link", "no.csv", "no.csv", "-o", "out.csv", "--save-settings", "none/out.json"),
    ("dedupe", "no.csv", "--kind", "record", "-o", "out.csv", "--removed", "none/out.jsonl"),
    ("dedupe", "no.csv", "-o", ".", "--removed", "none/out.jsonl"),
]


def _within(folder: Path, words: Sequence[str]) -> list[str | Path]:
    """The words of a command, in which names of files are places in a folder."""
    return [folder / word if re.search(r"\.[a-z]+$", word) else word for word in words]


@pytest.mark.parametrize("words", TABLES, ids=lambda words: words[0])
def test_a_table_as_output_needs_its_library_before_anything_is_read(tmp_path, monkeypatch, words):
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run(*_within(tmp_path, words)).stderr == (
        'simdb: files of Parquet and Arrow need the arrow extra: pip install "simdb-store[arrow]"\n'
    )
    assert list(tmp_path.iterdir()) == [rows]


@pytest.mark.parametrize("words", PICTURES, ids=lambda words: words[0])
def test_a_picture_is_known_to_be_possible_before_anything_is_read(tmp_path, monkeypatch, words):
    def told(name: str) -> str:
        return failed(*_within(tmp_path, [*words[:-1], name]))

    assert " is drawn as .svg or .png, not as 'why.pdf'" in told("why.pdf")
    assert told("none/why.svg") == f"simdb: {tmp_path / 'none'}: no such folder"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'needs the plot extra: pip install "simdb-store[plot]"' in told("why.svg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", WITHOUT_FOLDERS, ids=lambda words: words[0])
def test_the_folder_of_an_output_is_looked_for_before_anything_is_read(tmp_path, words):
    assert failed(*_within(tmp_path, words)) == f"simdb: {tmp_path / 'none'}: no such folder"


@pytest.mark.parametrize("words", WITHOUT_FOLDERS, ids=lambda words: words[0])
def test_an_output_that_is_a_folder_is_refused_before_anything_is_read(tmp_path, words):
    folder = tmp_path / words[-1]
    folder.mkdir(parents=True)
    assert failed(*_within(tmp_path, words)) == f"simdb: {folder}: is a folder"


def test_a_folder_called_as_standard_output_keeps_nobody_from_writing_there(tmp_path, monkeypatch):
    (tmp_path / "-").mkdir()
    monkeypatch.chdir(tmp_path)
    done("create", "s.simdb", "texts")
    assert done("export", "s.simdb", "texts", "-o", "-").stdout == ""


def test_inputs_of_duckdb_name_the_extra_that_brings_all_they_need(tmp_path, monkeypatch):
    for library in ("pyarrow", "duckdb"):
        monkeypatch.setitem(sys.modules, library, None)
    told = failed("dedupe", "duckdb::SELECT 'a' AS text", "-o", tmp_path / "kept.jsonl")
    assert 'inputs of DuckDB need the duckdb extra: pip install "simdb-store[duckdb]"' in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_a_run_with_a_report_says_what_that_needs_and_leaves_nothing(
    tmp_path, monkeypatch, library
):
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    monkeypatch.setitem(sys.modules, library, None)
    page = ("--report", tmp_path / "page.html")
    store = ("--store", tmp_path / "s.simdb")
    for words in (
        ("dedupe", rows, "-o", tmp_path / "out.jsonl", "--id-field", "id", *store, *page),
        ("tune", rows, "--text-field", "text", *page),
    ):
        assert 'needs the report extra: pip install "simdb-store[report]"' in failed(*words)
    assert list(tmp_path.iterdir()) == [rows]


def test_calls_that_need_scipy_say_so_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    named: dict[str, Any] = {"key": "id", "item": ["name", "city"]}
    calls: tuple[Callable[[], Any], ...] = (
        lambda: simdb.link(PEOPLE, PEOPLE, **named, threshold=0.8, one_to_one=True),
        lambda: simdb.link(PEOPLE, PEOPLE, **named),
        lambda: simdb.dedupe(PEOPLE, **named),
    )
    for call in calls:
        with pytest.raises(MissingExtraError, match="statistics"):
            call()


def test_a_fault_of_simdb_is_no_missing_extra():
    with pytest.raises(ModuleNotFoundError, match=r"simdb\.nothing") as raised, of_extra("a", "b"):
        __import__("simdb.nothing")
    assert not isinstance(raised.value, MissingExtraError)
    told = pytest.raises(MissingExtraError, match=r'b the a extra: pip install "simdb-store\[a\]"')
    with told, of_extra("a", "b"):
        __import__("nothing_of_that_name")


@pytest.mark.parametrize(
    "fault",
    [
        ImportError("numpy.core.multiarray failed to import"),
        AttributeError("_ARRAY_API not found"),
        ModuleNotFoundError("No module named 'broken.part'", name="broken.part"),
        OSError(2, "libbroken.so: cannot open"),
    ],
    ids=repr,
)
def test_a_library_that_cannot_be_loaded_is_not_called_missing(tmp_path, monkeypatch, fault):
    source = f"raise {type(fault).__name__}(*{fault.args!r})"
    if isinstance(fault, ModuleNotFoundError):
        source = "import broken.part"
    write_package(tmp_path, monkeypatch, source)
    with pytest.raises(MissingExtraError) as raised:
        require("a", "a thing needs", "broken")
    told = "a thing needs the a extra, which is installed but cannot be loaded: "
    assert str(raised.value) == f"{told}{type(fault).__name__}: {fault}"
    assert type(raised.value.__cause__) is type(fault)
    refused = pytest.raises(MissingExtraError, match=r"^b needs c, which is installed but")
    with refused, optional("b needs c", "c"):
        __import__("broken")


def write_package(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """Make a library that is found, and does what a source says when it is imported."""
    (folder / "broken").mkdir()
    (folder / "broken" / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise KeyboardInterrupt", KeyboardInterrupt),
        ("raise MemoryError", MemoryError),
        ("raise TimeoutError('of a handler')", TimeoutError),
        ("class Told(Exception): pass\nraise Told", Exception),
        ("__name__ = 'simdb.part'\nprint(absent)", NameError),  # as a module of ours with a fault
    ],
)
def test_what_is_no_fault_of_a_library_goes_through(tmp_path, monkeypatch, source, expected):
    write_package(tmp_path, monkeypatch, source)
    with pytest.raises(expected) as raised:
        require("a", "a thing needs", "broken")
    assert not isinstance(raised.value, MissingExtraError)


def test_a_broken_library_is_told_by_commands_that_need_it(tmp_path, monkeypatch):
    faults = {"scipy": "import scipy.part", "pyarrow": "raise AttributeError('array')"}
    for library, source in faults.items():
        (tmp_path / f"{library}.py").write_text(source)
        monkeypatch.delitem(sys.modules, library, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    table = tmp_path / "rows.parquet"
    table.touch()
    said = failed("tune", rows, "--text-field", "text", "--ask", "3")
    assert "which is installed but cannot be loaded: ModuleNotFoundError: No module" in said
    said = failed("dedupe", table, "-o", tmp_path / "out.parquet", "--id-field", "id")
    assert said.endswith("which is installed but cannot be loaded: AttributeError: array")


def test_want_of_memory_is_no_missing_extra(tmp_path):
    told = "libarrow.so: failed to map segment from shared object"
    with (
        pytest.raises(MemoryError, match="failed to map segment"),
        of_extra("arrow", "tables need"),
    ):
        raise ImportError(told)
    assert failures._message(ImportError(told), {})[1] == failures.EXIT_STORAGE
    assert failures._message(ImportError("another"), {})[1] == failures.EXIT_FAULT

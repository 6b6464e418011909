"""Archives of arrays are unpacked into temporary files: what fails there is no fault of theirs."""

from __future__ import annotations

import resource
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.errors import BadItemError, StorageError
from simdb.files import open_rows
from simdb.files.rows import ReadingOptions
from tests.support.commands import done, program
from tests.support.processes import answer_of

ROOT = Path(__file__).resolve().parents[2]
ROWS = np.arange(400_000, dtype=np.float32).reshape(-1, 4)
SMALL = 100_000  # bytes of a file, less than the array takes


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    np.savez_compressed(tmp_path / "a.npz", rows=ROWS)
    return tmp_path / "a.npz"


def first_row(path: Path) -> Any:
    with open_rows(str(path), ReadingOptions(kind=simdb.Vector(2))) as reader:
        return next(iter(reader)).item


def with_little_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))


def test_an_array_is_read_where_there_is_room(archive):
    assert first_row(archive).tolist() == ROWS[0].tolist()


def test_a_temporary_file_that_cannot_be_written_is_told_as_what_it_is(archive):
    def read_with_little_room() -> Any:
        with_little_room()
        return first_row(archive)

    told = answer_of(read_with_little_room)
    assert told.startswith(f"StorageError: {tempfile.gettempdir()}: an array of {archive} ")
    assert "File too large; TMPDIR names another folder" in told


def test_a_temporary_folder_that_is_gone_is_told_too(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match=r"gone: an array .* No such file or directory"):
        first_row(archive)


def test_the_command_line_tells_it_as_a_problem_of_storage(archive, tmp_path):
    store, folder = tmp_path / "s.simdb", tmp_path / "temporary"
    folder.mkdir()
    done("create", store, "v", "--kind", "vector", "--settings", '{"dimension": 4}')
    variables = {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    adding = ("add", store, "v", archive)
    result = program(*adding, code=3, env=variables, preexec_fn=with_little_room)
    assert f"simdb: {folder}: an array of {archive} cannot be unpacked there" in result.stderr
    assert list(folder.iterdir()) == []


def test_a_damaged_archive_is_still_the_archive_s_fault(archive):
    with zipfile.ZipFile(archive) as opened:
        begin = opened.infolist()[0].header_offset + 60
    content = bytearray(archive.read_bytes())
    content[begin + 50 : begin + 5_000] = bytes(4_950)
    archive.write_bytes(content)
    with pytest.raises(BadItemError, match="not a NumPy file that can be read"):
        first_row(archive)

"""Names of files that cannot be, files that are none, and modes that shut the owner out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import simdb
from simdb.errors import ConfigurationError, NotADatabaseError, StorageError, WrongTypeError
from tests.support.commands import run
from tests.support.processes import answer_of

MEMORY = Path("/proc/self/mem")  # a regular file of size 0 that cannot be read at 0


def not_unicode(folder: Path) -> Path:
    return Path(os.fsdecode(bytes(folder) + b"/\xff.simdb"))


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


# -- names -------------------------------------------------------------------------------------


def test_a_name_that_is_no_utf_8_is_refused_shown_and_leaves_nothing(tmp_path):
    bad = not_unicode(tmp_path)
    shown = r"must be UTF-8: .*\\udcff\.simdb"
    with simdb.open(tmp_path / "s.simdb") as database:
        before = files(tmp_path)
        with pytest.raises(ConfigurationError, match=shown):
            simdb.open(bad)
        with pytest.raises(ConfigurationError, match=shown):
            database.backup(bad)
        with pytest.raises(ConfigurationError, match=shown):
            simdb.repair(tmp_path / "s.simdb", bad)
        assert files(tmp_path) == before


def test_a_folder_whose_name_is_no_utf_8_is_refused_from_within_too(tmp_path):
    folder = not_unicode(tmp_path)
    folder.mkdir()

    def opened_within() -> object:
        os.chdir(folder)
        try:
            simdb.open("s.simdb")
        except ConfigurationError as error:
            return ascii(error)
        return "opened"

    assert "must be UTF-8" in answer_of(opened_within)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(ConfigurationError, match="must be UTF-8"):
        simdb.open(tmp_path / "link" / "s.simdb")
    assert files(folder) == []


def test_the_command_line_says_so_as_wrong_usage(tmp_path):
    result = run("create", str(not_unicode(tmp_path)), "texts")
    assert result.exit_code == 2
    assert "must be UTF-8" in result.stderr
    assert files(tmp_path) == []


def test_a_name_of_bytes_is_of_the_wrong_type_however_it_comes(tmp_path):
    (tmp_path / "file").touch()
    entries: Any
    with os.scandir(bytes(tmp_path)) as entries:
        for entry in entries:
            with pytest.raises(WrongTypeError, match="not bytes"):
                simdb.open(entry)


def test_other_scripts_are_names_as_others(tmp_path):
    path = tmp_path / "данные 🙂" / "é.simdb"
    path.parent.mkdir()
    simdb.open(path).close()
    assert path.exists()


# -- where a name leads ------------------------------------------------------------------------


def test_a_circle_of_links_is_an_error_of_storage(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    use: Any
    for use in (
        simdb.open,
        lambda path: simdb.open(path, read_only=True),
        lambda path: simdb.open(path, untrusted=True),
        lambda path: simdb.open(path / "s.simdb"),
        lambda path: simdb.repair(path, tmp_path / "new"),
    ):
        with pytest.raises(StorageError, match=r"loop.*symbolic links"):
            use(loop)
    assert run("create", str(loop), "texts").exit_code == 3


def test_a_present_folder_that_is_gone_is_an_error_of_storage(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()

    def opened_there() -> object:
        os.chdir(folder)
        folder.rmdir()
        simdb.open("s.simdb")
        return "opened"

    assert answer_of(opened_there).startswith("StorageError: s.simdb: ")


@pytest.mark.skipif(not MEMORY.exists(), reason="needs /proc")
@pytest.mark.parametrize("options", [{}, {"read_only": True}, {"untrusted": True}], ids=str)
def test_a_file_of_the_system_that_cannot_be_read_is_no_regular_file(options):
    with pytest.raises(NotADatabaseError, match="not a regular file"):
        simdb.open(MEMORY, **options)
    assert run("stats", str(MEMORY)).exit_code == 3


# -- modes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o200, 0o400, 0o077, 0o577])
def test_a_mode_lets_the_owner_read_and_write(tmp_path, mode):
    with pytest.raises(ConfigurationError, match=r"owner read and write.*0o"):
        simdb.open(tmp_path / "s.simdb", mode=mode)
    result = run("--mode", f"{mode:03o}", "create", str(tmp_path / "s.simdb"), "texts")
    assert result.exit_code == 2
    assert "--mode must let the owner read and write" in result.stderr
    assert files(tmp_path) == []


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o700])
def test_other_modes_are_taken(tmp_path, mode):
    simdb.open(tmp_path / "s.simdb", mode=mode).close()
    assert (tmp_path / "s.simdb").stat().st_mode & 0o777 == mode
    simdb.open(tmp_path / "s.simdb").close()

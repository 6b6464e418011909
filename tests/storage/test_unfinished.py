"""What a killed run leaves of a store that it was making goes with the next one in its folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import simdb
from simdb.storage.file import creation
from tools.campaigns.children import Child, Say


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_for_ever(target: Path, say: Say) -> None:
    """Go half the way of ``simdb.load``, and wait."""
    with creation.temporary_beside(target) as temporary, simdb.open(temporary) as database:
        database.collection("sets", simdb.Set()).add(1, {1, 2})
        say(temporary.name)
        while True:
            pass


def test_what_a_killed_load_has_left_goes_with_the_next(tmp_path):
    target = tmp_path / "s.simdb"
    killed, living = (Child(lambda say: make_for_ever(target, say)) for _ in range(2))
    left, held = killed.hear(60), living.hear(60)
    killed.kill()
    killed.end(60)
    try:
        assert left in names(tmp_path)
        with simdb.open(target) as database:
            database.collection("sets", simdb.Set())
        found = names(tmp_path)
        assert [name for name in found if name.startswith(left)] == []
        assert {held, f"{held}-lock", f"{held}-held"} <= {*found}
        assert {name for name in found if not name.startswith(held)} == {
            *("s.simdb", "s.simdb-lock", "s.simdb-turn")
        }
    finally:
        living.kill()
        living.end(60)
    with simdb.open(target) as database:
        database.backup(tmp_path / "copy.simdb")
    assert not [name for name in names(tmp_path) if ".tmp" in name]


def test_a_name_that_somebody_removes_before_it_is_held_is_not_taken(tmp_path, monkeypatch):
    answers = iter((False, True))
    tried: list[int] = []

    def held(descriptor: int) -> bool:
        tried.append(descriptor)
        return next(answers)

    monkeypatch.setattr(creation, "held", held)
    with creation.temporary_beside(tmp_path / "s.simdb") as temporary:
        assert len(tried) == 2
        assert f"{temporary.name}-held" in names(tmp_path)
    assert f"{temporary.name}-held" not in names(tmp_path)


def test_a_folder_that_is_missing_is_named_with_the_file_that_it_should_hold(tmp_path):
    missing = tmp_path / "missing" / "s.simdb"
    told = f"there is no folder {missing.parent} for s.simdb"
    with (
        pytest.raises(simdb.DatabaseNotFoundError, match=told),
        creation.temporary_beside(missing),
    ):
        raise AssertionError
    with pytest.raises(simdb.DatabaseNotFoundError, match=told):
        simdb.open(missing)


def test_an_error_about_the_temporary_file_names_the_one_that_it_becomes(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    told = re.escape(f"{tmp_path / 's.simdb'}: the disk is full")
    for target in (tmp_path / "s.simdb", tmp_path / "link" / "s.simdb"):
        with (
            pytest.raises(simdb.DatabaseFullError, match=told),
            creation.temporary_beside(target) as temporary,
        ):
            raise simdb.DatabaseFullError(f"{temporary.resolve()}: the disk is full")


def test_where_nothing_can_be_made_the_first_file_that_is_wanted_tells():
    with creation.temporary_beside(Path("/proc/s.simdb")) as temporary:
        assert temporary.parent == Path("/proc")
    with pytest.raises(simdb.DatabaseNotFoundError, match=r"/proc/s\.simdb does not exist"):
        simdb.open("/proc/s.simdb")

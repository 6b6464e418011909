"""What a release consists of is checked before anybody can upload it."""

from __future__ import annotations

import re
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import run

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_citation_and_the_project_name_one_version_and_one_licence():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r"^(\w[\w-]*): (\S.*)$", citation, re.MULTILINE))
    assert cited["version"] == PROJECT["project"]["version"]
    assert cited["license"] == PROJECT["project"]["license"]


def test_the_installation_page_lists_every_extra():
    page = (ROOT / "docs" / "guide" / "install.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert listed == set(PROJECT["project"]["optional-dependencies"])


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The programs that a release starts, which build two files and, by default, all succeed."""
    monkeypatch.setattr(run, "CHECKOUT", tmp_path)
    commands: list[list[str]] = []
    codes: dict[str, int] = {}
    monkeypatch.setattr(run, "compile_kernels", lambda: codes.get("kernels", 0))

    def start(*command: object, variables: Mapping[str, str] | None = None) -> int:
        words = [str(word) for word in command[1:]]
        commands.append(words)
        if words[1] == "build":
            assert Path((variables or {})["SIMDB_KERNELS"]).parts[-2:] == ("kernels", "__pycache__")
            folder = tmp_path / "build" / "dist"
            folder.mkdir(parents=True)
            zipfile.ZipFile(folder / "s-1.whl", "w").close()
            (folder / "s-1.tar.gz").touch()
        return codes.get(words[1], 0)

    monkeypatch.setattr(run, "run", start)
    return commands, codes


def test_a_release_builds_both_forms_anew_and_checks_them(started, tmp_path, capsys):
    commands, _ = started
    folder = tmp_path / "build" / "dist"
    folder.mkdir(parents=True)
    (folder / "of-before-0.whl").touch()
    assert run.build_release([]) == 0
    assert [words[1] for words in commands] == ["build", "twine", "check_wheel_contents"]
    built = [str(folder / "s-1.tar.gz"), str(folder / "s-1.whl")]
    assert commands[1][2:] == ["check", "--strict", *built]
    assert commands[2][2:] == built[1:]
    assert "not uploaded: s-1.tar.gz, s-1.whl" in capsys.readouterr().out


@pytest.mark.parametrize("step", ["build", "twine", "check_wheel_contents"])
def test_a_release_ends_at_the_first_step_that_fails(started, step):
    commands, codes = started
    codes[step] = 3
    assert run.build_release([]) == 3
    assert commands[-1][1] == step


def test_there_is_no_release_without_kernels(started):
    commands, codes = started
    codes["kernels"] = 4
    assert run.build_release([]) == 4
    assert not commands


def test_nothing_of_a_release_uploads(started):
    commands, _ = started
    run.build_release([])
    assert all("upload" not in words for words in commands)

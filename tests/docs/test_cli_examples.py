"""The commands that documents show print what they say."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run

ROOT = Path(__file__).parents[2]
COMMANDS = ROOT / "docs" / "command-line.md"
# Their commands run one after the other in one folder.
PAGES = [ROOT / "README.md", ROOT / "docs" / "cookbook.md", *sorted(ROOT.glob("docs/guide/*.md"))]
EXAMPLE = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)


def examples(document: Path) -> list[tuple[str, str]]:
    """The commands of a document, and what it says that they print."""
    return EXAMPLE.findall(document.read_text(encoding="utf-8"))


def printed_by(commands: str, folder: Path) -> str:
    """Write the files that an example makes, run its commands there and return their output."""
    for name, content in FILE.findall(commands):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    printed = ""
    for line in FILE.sub("", commands).replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "python":
            runpy.run_path(arguments[0])
            continue
        if program == "cat":
            printed += Path(*arguments).read_text(encoding="utf-8")
            continue
        if program == "mkdir":  # of what has files, which are there by now
            assert all((folder / name).is_dir() for name in arguments)
            continue
        assert program == "simdb"
        result = run(*arguments)
        assert result.exit_code == 0, (line, result.stderr, result.exception)
        printed += result.stdout
    return printed


def test_every_kind_has_an_example():
    assert len(examples(COMMANDS)) == 7


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        pytest.param(*example, id=f"example-{number}")
        for number, example in enumerate(examples(COMMANDS))
    ],
)
def test_an_example_of_the_command_line_prints_what_it_says(
    commands, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert printed_by(commands, tmp_path) == expected


def pages() -> list[Any]:
    shown = [page for page in PAGES if examples(page)]
    return [pytest.param(page, id=page.stem) for page in shown]


@pytest.mark.heavy  # the cookbook imports what the doors lead to
@pytest.mark.parametrize("page", pages())
def test_the_examples_of_a_page_print_what_it_says_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for commands, expected in examples(page):
        assert printed_by(commands, tmp_path) == expected, commands


def test_the_cookbook_has_a_recipe_for_each_door():
    assert len(examples(ROOT / "docs" / "cookbook.md")) >= 10

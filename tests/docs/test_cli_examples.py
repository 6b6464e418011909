"""The examples of the guide to the command line print what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run

GUIDE = Path(__file__).parents[2] / "docs" / "command-line.md"
EXAMPLE = re.compile(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)


def examples() -> list[Any]:
    found = EXAMPLE.findall(GUIDE.read_text(encoding="utf-8"))
    return [pytest.param(*example, id=f"example-{number}") for number, example in enumerate(found)]


def run_example(commands: str, folder: Path) -> str:
    for name, content in FILE.findall(commands):
        (folder / name).write_text(content)
    printed = ""
    for line in FILE.sub("", commands).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "simdb"
        result = run(*arguments)
        assert result.exit_code == 0, (line, result.stderr, result.exception)
        printed += result.stdout
    return printed


def test_every_kind_has_an_example():
    assert len(examples()) == 7


@pytest.mark.parametrize(("commands", "expected"), examples())
def test_an_example_prints_what_it_says(commands, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_example(commands, tmp_path) == expected
